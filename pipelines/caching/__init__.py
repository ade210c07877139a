"""A split copied to a faster place, as it is or decoded."""

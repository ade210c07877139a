"""A new dataset of what is whole in a damaged one."""

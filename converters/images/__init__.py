"""One image: recognised, checked, and stored as it is or re-encoded."""

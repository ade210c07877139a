"""One image: recognised, checked, and stored unchanged or re-encoded."""

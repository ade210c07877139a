"""Recognition of a source: requests, what is tried, and the decision."""

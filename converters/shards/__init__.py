"""One shard: what it is made of, writing it, and the receipt that says what was written."""

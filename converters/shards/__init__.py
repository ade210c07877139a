"""Writing of one shard: its task, the code that writes it, and the receipt with the result."""

"""What shards are called, whatever their format."""


def shard_stem(split: str, number: int, count: int) -> str:
    """`train-00003-of-00008` for shard 3 (from 0) of 8; five digits, more where a number needs them."""
    return f"{split}-{number:05d}-of-{count:05d}"

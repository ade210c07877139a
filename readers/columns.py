"""The value of one feature in every record of a split, as an array."""

import numpy as np

from shardfeed.readers.shards import Shards
from shardfeed.schema import Schema


def read_column(shards: Shards, schema: Schema, key: str) -> np.ndarray:
    """The values of the scalar feature `key` in stored order: int64 [n], float32 [n], or bytes as objects [n]."""
    raise NotImplementedError

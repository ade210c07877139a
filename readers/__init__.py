"""Dataset in, records out: random access (`Split`), whole-file checks (`verify`), tf.data of serialized records.

Only `stream` and `parse` import TensorFlow, when they are imported themselves.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfeed.readers.dataset import Dataset, open
    from shardfeed.readers.integrity import verify
    from shardfeed.readers.skip import Skip
    from shardfeed.readers.split import ShardSlice, Split

__all__ = ["Dataset", "ShardSlice", "Skip", "Split", "open", "verify"]

_ROOMS = {
    "Dataset": "dataset",
    "open": "dataset",
    "Split": "split",
    "ShardSlice": "split",
    "Skip": "skip",
    "verify": "integrity",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"shardfeed.readers.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'shardfeed.readers' has no attribute {name!r}")

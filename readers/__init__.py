"""Dataset in, records out: random access (`Split`), whole-file checks (`verify`), tf.data of serialized records.

Only the modules of `readers.tensorflow` import TensorFlow.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.readers.dataset import Dataset as Dataset
    from shardfeed.readers.dataset import open as open
    from shardfeed.readers.skip import Skip as Skip
    from shardfeed.readers.split import ShardSlice as ShardSlice
    from shardfeed.readers.split import Split as Split
    from shardfeed.readers.verification import verify as verify

__all__, __getattr__ = lazy_names(
    __name__,
    {
        "shardfeed.readers.dataset": ("Dataset", "open"),
        "shardfeed.readers.skip": ("Skip",),
        "shardfeed.readers.split": ("ShardSlice", "Split"),
        "shardfeed.readers.verification": ("verify",),
    },
)

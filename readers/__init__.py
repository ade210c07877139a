"""Reading of datasets: random access to records, views, checks of whole files.

    open, Dataset, Split    a dataset's splits and their records
    verify                  compare every byte with the manifest
    Skip                    how many damaged records may be left out
    ShardSlice              the part of a shard that belongs to a view

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

__all__, __getattr__, __dir__ = lazy_names(__name__)

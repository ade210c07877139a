"""A dataset in another number of shards, or in shards of another format."""

import os
from typing import Unpack

from shardfeed.converters.existing.dataset_source import DatasetLike, DatasetSource, Opened
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.report import Report
from shardfeed.declared import checked


@checked
def reshard(dataset: DatasetLike, out: str | os.PathLike[str], **making: Unpack[MakingOptions]) -> Report:
    """Create the dataset `out` from the same records, in the same splits and order, in different shards.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        TooManyRejectedError: too many records are damaged; the error names them, and nothing is committed.
        UsageError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `convert` and `shardfeed.open`.
            After a StorageError or a kill, the same call continues.

    Example:
        reshard("flowers", "few", shards=1)
        reshard("flowers", "tars", to="webdataset")
    """
    opened = Opened(dataset)
    return make_dataset(DatasetSource(opened), [opened], out, making)

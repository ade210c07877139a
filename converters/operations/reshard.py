"""A dataset in another number of shards, or in shards of another format."""

import os
from collections.abc import Callable, Mapping
from typing import Literal

from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.missing_shards import Progress
from shardfeed.converters.operations.dataset_source import DatasetLike, DatasetSource, Opened
from shardfeed.converters.operations.making import Making, make_dataset
from shardfeed.converters.report import Report


def reshard(
    dataset: DatasetLike,
    out: str | os.PathLike[str],
    *,
    max_bad: int | str = 0,
    to: str | None = None,
    shards: int | Mapping[str, int] | None = None,
    shard_size: int | None = None,
    workers: int | None = None,
    engine: Literal["local", "ray"] | Engine = "local",
    address: str | None = None,
    replace: bool = False,
    restart: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Make the dataset `out` of the same records, in the same splits and order, in other shards.

    Args:
        dataset: a dataset's directory, or one that is open; it is only read.
        out: the directory to create; its parent must exist.
        max_bad: damaged records that are left out, a count or text like "0.5%"; more, and nothing is committed.
        to: the format of the shards, as of `convert`; default that of the dataset.
        shards: number of shards of each split; default as many as `shard_size` asks for, or as a conversion makes.
        shard_size: bytes that a shard should hold, about.
        workers, engine, address, replace, restart, verify, progress: as of `convert`.
        dry_run: write nothing: the report says what the dataset would be.

    Raises:
        TooManyRejectedError: records are damaged; it names them, and nothing is committed.
        UsageError, IntegrityError, StorageError, WorkerLostError, BusyError: as `convert` and `shardfeed.open`. After a
        StorageError or a kill the same call goes on.
    """
    opened = Opened(dataset)
    making = Making(
        max_bad, to, shards, shard_size, workers, engine, address, replace, restart, verify, dry_run, progress
    )
    return make_dataset(DatasetSource(opened), [opened], out, making)

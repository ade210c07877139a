"""How every operation makes its dataset: as a conversion does, of records that are there."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shardfeed.converters.conversion import convert
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.missing_shards import Progress
from shardfeed.converters.operations.dataset_source import ChosenRecords, Opened
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.planning.split_shares import SplitBy
from shardfeed.converters.report import Report
from shardfeed.errors import UsageError, escape


@dataclass(frozen=True)
class Making:
    """The arguments that all operations have: see `shardfeed.converters.convert`.

    `to`: the format of the shards; None for that of the first dataset. `dry_run`: nothing is written.
    """

    max_bad: int | str = 0
    to: str | None = None
    shards: int | Mapping[str, int] | None = None
    shard_size: int | None = None
    workers: int | None = None
    engine: Literal["local", "ray"] | Engine = "local"
    address: str | None = None
    replace: bool = False
    restart: bool = False
    verify: bool = False
    dry_run: bool = False
    progress: Callable[[Progress], None] | None = None


def make_dataset(
    source: ChosenRecords,
    datasets: Sequence[Opened],
    out: str | os.PathLike[str],
    making: Making,
    *,
    split: Mapping[str, float] | None = None,
    split_by: SplitBy = "exact",
    seed: int = 0,
) -> Report:
    """The dataset `out` of the records of `source`, which come from `datasets`; of a dry run what it would be.

    Raises as `convert`.
    """
    check_outside(out, [opened.directory for opened in datasets])
    to = making.to or datasets[0].manifest.format
    if making.dry_run:
        options = PlanOptions(
            split, making.shards, making.shard_size, seed, split_by=split_by, to=to, made_with=source.made_with
        )
        return Report.of_plan(os.path.abspath(os.fspath(out)), make_plan(source, options))
    return convert(
        source,
        out,
        split=split,
        split_by=split_by,
        to=to,
        shards=making.shards,
        shard_size=making.shard_size,
        seed=seed,
        max_bad=making.max_bad,
        replace=making.replace,
        restart=making.restart,
        verify=making.verify,
        workers=making.workers,
        engine=making.engine,
        address=making.address,
        progress=making.progress,
    )


def check_outside(out: str | os.PathLike[str], directories: Sequence[str]) -> None:
    """Raises UsageError for an output that is one of the datasets' directories, or within: they are only read."""
    place = os.path.realpath(os.fspath(out))
    for directory in directories:
        root = os.path.realpath(directory)
        if os.path.commonpath([root, place]) == root:
            problem = f"lies in the dataset {escape(directory)}, which is only read"
            raise UsageError(os.fspath(out), problem, "choose a place outside of it")

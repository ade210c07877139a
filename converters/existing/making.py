"""Make the dataset of an operation: as a conversion does, but of existing records."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from shardfeed.converters.commit.output import check_outside
from shardfeed.converters.conversion import Progress, convert
from shardfeed.converters.engines.choose_engine import Workers
from shardfeed.converters.existing.dataset_source import ChosenRecords, Opened
from shardfeed.converters.planning.groups import feature_of_groups
from shardfeed.converters.planning.options import Groups, ShardsLike, Shares
from shardfeed.converters.report import MaxBad, Report
from shardfeed.declared import Typed
from shardfeed.formats.registry import FORMATS, Format
from shardfeed.schema import SHA256
from shardfeed.storage.storage import is_address, local_path


class WritingOptions(TypedDict, total=False):
    """Those of `MakingOptions` that also apply where records are only added."""

    no_leaks: bool
    shards: ShardsLike
    workers: Workers
    replace: bool
    restart: bool
    verify: bool
    dry_run: bool
    progress: Callable[[Progress], None] | None


class MakingOptions(WritingOptions, total=False):
    """Keyword options of all operations, which control the writing of the new dataset.

    Attributes:
        max_bad: damaged records that may be left out, a count or text like "0.5%"; with more, nothing is committed.
            Default: none.
        no_leaks: raise an error if a file, identified by its stored hash, would be in two splits.
        to: the format of the shards, as in `convert`; default: the format of the (first) dataset.
        shards: number of shards of each split, or text like "64MB", as in `convert`; default: chosen as in a
            conversion.
        workers: processes that do the work, as in `convert`.
        replace: if `out` exists, replace it with the new dataset.
        restart: discard the unfinished work of an earlier run, and start from the beginning.
        verify: read every byte again before the commit.
        dry_run: write nothing: the report describes the dataset that would be written.
        progress: called with a `Progress` a few times a second.

    Example:
        reshard("flowers", "flowers-tars", to="webdataset", shards="64MB", max_bad=3)
    """

    max_bad: Annotated[MaxBad, Typed("damaged records that may be left out (default 0)", "N|P%")]
    to: Annotated[Format | None, Typed(f"shard format: {', '.join(FORMATS)} (default: unchanged)", "FORMAT")]


def make_dataset(
    source: ChosenRecords,
    datasets: Sequence[Opened],
    out: str | os.PathLike[str],
    making: MakingOptions,
    *,
    split: Mapping[str, float] | Shares | None = None,
    seed: int = 0,
    groups: Groups | None = None,
) -> Report:
    """Make the dataset `out` of the records of `source`, which come from `datasets`; a dry run only plans it.

    Raises as `convert`, and TypeError for unknown options.
    """
    if unknown := making.keys() - MakingOptions.__optional_keys__:  # some have a meaning for `convert`
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
    if not is_address(out):
        check_outside(local_path(out), [opened.directory for opened in datasets])
    options: dict[str, Any] = {**making, "to": making.get("to") or datasets[0].manifest.format}
    groups = groups or Groups()
    if groups.column is not None:
        source.carried.append(feature_of_groups(groups.column, source.schema))
    if groups.duplicates or making.get("no_leaks"):
        source.carried.append(SHA256)
    by = {f"group_{name}": value for name, value in groups.to_json().items()}
    return convert(source, out, split=split, seed=seed, **by, **options)


def convert_anew(format: str) -> str:
    """Remedy, as the beginning of a sentence, if records that others made lack features of a conversion's."""
    return f"`shardfeed convert DIR NEW --reader {format}` makes a dataset with the features of a conversion"

"""Append samples to a dataset: old records stay unchanged, new ones follow them."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from shardfeed.converters.commit.output import check_outside
from shardfeed.converters.conversion import convert
from shardfeed.converters.existing.grown_source import GrownSource
from shardfeed.converters.existing.making import MakingOptions, convert_anew
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import Shares
from shardfeed.converters.report import Report
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import Source
from shardfeed.declared import checked
from shardfeed.errors import UsageError
from shardfeed.manifest import has_manifest
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.schema import SHA256
from shardfeed.storage.storage import is_address, local_path


@checked
def append(
    dataset: Dataset | str | os.PathLike[str],
    source: Source | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    split: Mapping[str, float] | None = None,
    group_column: str | None = None,
    group_pattern: str | None = None,
    group_duplicates: bool = False,
    seed: int | None = None,
    new_classes: bool = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from all records of `dataset`, followed by the samples of `source`.

    The old records keep their splits, shards and positions: `out` gets hard links to their shards, or copies if the
    disk does not support hard links. New samples are stored in their own shards, with the options of the old samples
    (image options, hashes). If the source names no split, the hash of a sample's key decides its split, as if all
    samples were converted together with `Shares(..., by="hash")`, the same shares and the same seed. A sample whose
    group already exists goes to the split of that group. The cost depends on the new samples only, except that the
    columns of the old records are read once.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        source: the new samples, in any form that `convert` accepts. A sample with a key that the dataset already has is
            skipped if its file has the stored sha256; a different sha256 is an error. Classes are matched by name.
        out: the directory to create; its parent must exist.
        split: share of each split, adding up to 1; default: the dataset's shares.
        group_column, group_pattern, group_duplicates: as in `convert`; default: the dataset's own values.
        seed: decides the order of new samples, and their split; default: the seed of the dataset.
        new_classes: append unknown classes to the end of the dataset's list, instead of raising an error.
        **making: options for writing the new dataset: see `MakingOptions`. `max_bad` and `shards` apply to the new
            samples, and a dry run reports only new samples; `to` must be the dataset's format.

    Raises:
        UsageError: features differ, a class is unknown, a key already exists with different bytes, or nothing is new;
            and as in `convert`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `convert`.

    Example:
        report = append("flowers", "more-photos", "grown")
        print(report.images, report.notes)
    """
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if not is_address(out):
        check_outside(local_path(out), [os.path.abspath(opened.directory)])
    to = opened.manifest.format
    if making.get("to") not in (None, to):
        problem = f"got {making.get('to')!r}, but the existing shards, which are kept, have the format {to}"
        raise UsageError("to", problem, "leave it out, and `shardfeed reshard` the new dataset")
    options = opened.manifest.options
    groups = options.get("groups", {})
    group_column = group_column or groups.get("column")
    if isinstance(source, str | os.PathLike):
        check_no_dataset(source)
        source = open_source(source, options=options_of({"group_column": group_column}))
    sha256 = SHA256 in opened.manifest.schema.features
    image = replace(_image_options(opened, options), sha256=sha256)
    grown = GrownSource(opened, source, new_classes=new_classes, sha256=sha256)
    how: dict[str, Any] = {
        **making,
        "to": to,
        "split": Shares(split if split is not None else options.get("split"), by="hash"),
        "seed": int(options.get("seed", 0)) if seed is None else seed,
        "group_column": group_column,
        "group_pattern": group_pattern or groups.get("pattern"),
        "group_duplicates": group_duplicates or groups.get("duplicates", False),
    }
    return convert(grown, out, image=image, **how)


def check_no_dataset(source: str | os.PathLike[str]) -> None:
    """Raise UsageError if `source` is a dataset, where the samples of a source are expected."""
    if os.path.isdir(source) and has_manifest(os.fspath(source)):
        raise UsageError(os.fspath(source), "is a dataset", "`shardfeed merge` joins datasets")


def _image_options(opened: Dataset, options: Mapping[str, Any]) -> ImageOptions:
    """Options with which the dataset's images were stored. Raise UsageError if they are unknown."""
    problem = "does not record how its images were stored: "
    if options.get("adopted"):
        remedy = f"{convert_anew(opened.manifest.format)}, which you can append to"
        raise UsageError(opened.directory, f"{problem}its records come from another program", remedy)
    if not options.keys() >= {"check", "encode", "resize_shorter", "size", "quality"}:
        remedy = "convert the new images to a separate dataset, then `shardfeed merge` both"
        raise UsageError(opened.directory, f"{problem}it comes from several conversions", remedy)
    return ImageOptions.from_json(options)

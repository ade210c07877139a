"""Tars as WebDataset has them: one, a folder of them, or `train-{00000..00012}.tar`."""

import os
from itertools import islice
from typing import Any

from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.archives.tar import is_tar, read_member
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.webdataset.columns import (
    Chosen,
    ValueProblem,
    choose_columns,
    is_json,
    is_readable,
    read_json,
)
from shardfeed.converters.sources.containers.webdataset.gathering import MOST_VALUE, Gathering
from shardfeed.converters.sources.containers.webdataset.samples import PassedOver, samples
from shardfeed.converters.sources.files.source_files import SourceFiles, find_files, names_files
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import UsageError, escape

NAME = "webdataset"
_ENDS = (".tar",)
_COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_LOOKED_AT = 100  # samples that tell what columns there are


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """By the name of a tar, its first header, and the columns of its first samples."""
    packed = names_files(path, _COMPRESSED)
    if packed.lower().endswith(_COMPRESSED):
        return Evidence(NAME, f"{escape(os.path.basename(packed))}", _UNPACK)
    first = names_files(path, _ENDS)
    if not first or not is_tar(first):
        return None
    found = "tars" if os.path.isdir(path) or first != path else "a tar"
    try:
        chosen = _chosen(first, options)
    except UsageError as error:
        return Evidence(NAME, f"{found}, the first {escape(os.path.basename(first))}", missing_of(error))
    return Evidence(NAME, f"{found} of samples: {chosen.described}")


_UNPACK = "it is compressed: unpack it, with gunzip if it holds samples, with tar -xf FILE -C FOLDER if it holds images"


def read(path: str, options: ContainerOptions) -> ColumnarSource:
    """One sample for each key in the tars; which column is what, `options.columns` says, or their usual names do.

    The image is the one column that is called jpg, png or the like (`image`: others, `a;b` for one of several); the
    label `cls`, or a key of a JSON column as `json.label`; captions `txt` or the JSON's. `mask`: a column of masks,
    whose classes `options.class_names` then names. `key=__url__` puts the tar's name before each key. Any other feature
    is taken where it is named: `image/url` from `json.url`.
    Samples without image or label are in `findings.rejected`. Raises UsageError for tars that are cut or damaged,
    samples that are torn apart or have a column twice, a key that comes again, pickles, and columns that no one knows.
    """
    if path.lower().endswith(_COMPRESSED):
        raise UsageError(path, *_UNPACK.split(": ", 1))
    files = find_files(path, _ENDS)
    reading = Gathering(files, _first_chosen(files, options), options)
    for i in range(len(files.files)):
        reading.tar(i)
    return reading.source()


def _first_chosen(files: SourceFiles, options: ContainerOptions) -> Chosen:
    """By the first tar that has a sample: an empty one may come first."""
    for file in files.files:
        with open(file.path, "rb") as tar:
            if next(samples(tar, os.fsdecode(file.path), PassedOver()), None) is None:
                continue
        return _chosen(os.fsdecode(file.path), options)
    raise UsageError(
        files.place, "no sample in it: no member is called KEY.COLUMN", "see what is in it: `tar -tf FILE`"
    )


def _chosen(path: str, options: ContainerOptions) -> Chosen:
    with open(path, "rb") as tar:
        first = list(islice(samples(tar, path, PassedOver()), _LOOKED_AT))
        columns = list(dict.fromkeys(column for sample in first for column in sample.columns))
        in_json: dict[str, dict[str, Any]] = {}
        for sample in first:
            for column, member in sample.columns.items():
                if is_json(column) and column not in in_json and member.size <= MOST_VALUE:
                    try:
                        value = read_json(read_member(tar, member))
                    except ValueProblem:
                        continue
                    in_json |= {column: value} if isinstance(value, dict) else {}
    if not columns:
        raise UsageError(path, "no sample in it: no member is called KEY.COLUMN", "see what is in it: `tar -tf FILE`")
    chosen = choose_columns(path, columns, in_json, options)
    for what, place in chosen.places.items():
        if not is_readable(place):
            problem = f"the column {escape(place.column)} as {what}: it is neither txt, cls nor json"
            raise UsageError(path, problem, "write it as one of those")
    return chosen

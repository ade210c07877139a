"""Parquet files with a column of images: one, a folder of them, or `train-{00000..00012}.parquet`."""

import os
from typing import Any

from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.parquet.columns import choose_columns
from shardfeed.converters.sources.containers.parquet.gathering import Gathering
from shardfeed.converters.sources.containers.parquet.where import open_parquet
from shardfeed.converters.sources.files.source_files import find_files, names_files
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import MissingExtraError, UsageError, escape, needing_extra

NAME = "parquet"
_ENDS = (".parquet", ".pq")
_MAGIC = b"PAR1"


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """By the name, the first bytes, and the columns of the first file. One without images may be a list of files."""
    first = names_files(path, _ENDS)
    if not first or not _is_parquet(first):
        return None
    found = "Parquet files" if os.path.isdir(path) or first != path else "a Parquet file"
    try:
        chosen = choose_columns(first, _schema(first), options)
    except MissingExtraError as error:
        return Evidence(NAME, found, missing_of(error))
    except UsageError as error:
        if "no column of images" in error.problem:
            return None
        return Evidence(NAME, f"{found}, the first {escape(os.path.basename(first))}", missing_of(error))
    return Evidence(NAME, f"{found}: {chosen.described}")


def read(path: str, options: ContainerOptions) -> ColumnarSource:
    """One sample for each row; which column is what, `options.columns` says, else the file or usual names do.

    The image is a column of binary, or of `datasets`' struct of bytes and path. Class names are those that `datasets`
    notes in the schema, or `options.class_names`. `objects`: boxes as COCO has them, in pixels, and their categories.
    `mask`: a second column of images, whose classes `options.class_names` then names. Any other feature is taken where
    it is named: `image/area` from `area`.
    A row is called by its image's path, where all have one and each another; else by the file and its number in it.
    Rows without image or label are in `findings.rejected`. Raises UsageError for files that are cut or damaged, whose
    columns differ, or in which no one knows the image; MissingExtraError without pyarrow.
    """
    with needing_extra("parquet"):
        import pyarrow  # noqa: F401
    files = find_files(path, _ENDS)
    first = os.fsdecode(files.files[0].path)
    gathering = Gathering(files, choose_columns(first, _schema(first), options), options)
    for i in range(len(files.files)):
        gathering.file(i)
    return gathering.source()


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def _schema(path: str) -> Any:
    """The pyarrow schema of a file. Raises UsageError for one that cannot be read, MissingExtraError."""
    with needing_extra("parquet"):
        import pyarrow  # noqa: F401
    with open_parquet(path) as file:
        return file.schema_arrow

"""What no reader takes because nothing is there, or because it is not what its name says."""

import os
import re

from shardfeed.converters.sources.containers.packed.files import expand_braces
from shardfeed.errors import UsageError, escape

_KINDS = {
    r"\.tar": "a tar",
    r"\.(h5|hdf5?|he5)": "an HDF5 file",
    r"\.(lmdb|mdb)": "an LMDB database",
    r"\.pq": "a Parquet file",
    r"\.tfr\w*(\.gz)?": "TFRecords",
    r"\.array_?record": "an ArrayRecord file",
}
_HEAD, _PARQUET = 12, b"PAR1"


def check_there(path: str) -> None:
    """Raises UsageError for a path, or a pattern, of which nothing is there, and for a file of a name that lies."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise UsageError(path, _missing(path), "check the path") from None
    except OSError:
        return  # the source says what is wrong
    kind = next((what for end, what in _KINDS.items() if re.search(f"{end}$", path, re.IGNORECASE)), "")
    if kind and os.path.isfile(path):
        try:
            with open(path, "rb") as file:
                head = file.read(_HEAD)
        except OSError:
            return
        if head.startswith(_PARQUET):
            return  # one without images may be a list of files
        got = f"it begins with {head!r}" if head else "it is empty"
        raise UsageError(path, f"is called like {kind}, and is none: {got}", "copy it again, or rename it")


def _missing(path: str) -> str:
    try:
        paths = expand_braces(path)
    except UsageError as error:
        return error.problem
    if len(paths) == 1:
        return "no such file or folder"
    first = next((one for one in paths if not os.path.exists(one)), paths[0])
    return f"{escape(first)} is not there, one of {len(paths):,} files that it means"

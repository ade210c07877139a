"""index.json of MDS: the shards and their columns.

    {"shards": [{"column_names": ["image", "label"], "column_encodings": ["jpeg", "int"], "column_sizes": [null, 8],
                 "format": "mds", "raw_data": {"basename": "shard.00000.mds", "bytes": 67092637, ...}, "samples": 4096,
                 "compression": null, "zip_data": null, "version": 2, ...}], "version": 2}

A shard is u32 n, u32 offsets[n + 1], a JSON text, samples; a sample is u32 sizes of the columns whose size is null,
then all columns in the order of their names. All little-endian.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.split_names import split_in_path
from shardfeed.errors import UsageError, escape

INDEX = "index.json"
_MOST_BYTES = 1 << 30
_GET_AGAIN = "write it again with MDSWriter, or get it again"


@dataclass(frozen=True)
class Columns:
    """`names` in their order in a sample; `sizes`: bytes of each, None where each sample has its own."""

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]

    @cached_property
    def encoding(self) -> dict[str, str]:
        """The encoding of each column, by its name."""
        return dict(zip(self.names, self.encodings, strict=True))


@dataclass(frozen=True)
class Shard:
    """`name`, `packed`: its file and the compressed one, or "", relative to the opened path; `form`: compression.

    `split`: by its folder; None if that names none. `size`: bytes of the unpacked file. `path`: of the file to read.
    """

    name: str
    packed: str
    form: str
    size: int
    samples: int
    split: str | None
    columns: Columns
    path: str = ""


def index_files(path: str) -> list[str]:
    """Index files of a dataset, relative to the folder: its own, else those in subfolders; empty if none."""
    if not os.path.isdir(path):
        return [os.path.basename(path)] if os.path.basename(path) == INDEX else []
    if os.path.isfile(os.path.join(path, INDEX)):
        return [INDEX]
    with os.scandir(path) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    found = [os.path.join(folder, INDEX) for folder in folders]
    return [file for file in found if os.path.isfile(os.path.join(path, file))]


def read_index(root: str, files: Sequence[str]) -> list[Shard]:
    """All shards. Raises UsageError: no index, one that names files elsewhere, pickles."""
    words = {os.path.dirname(file): split_in_path(os.path.dirname(file)) for file in files}
    usual = any(words.values())
    shards: list[Shard] = []
    for file in files:
        place = os.path.join(root, file)
        folder = os.path.dirname(file)
        split = (words[folder] or folder) if usual and folder else None
        for number, entry in enumerate(entries(place)):
            try:
                shard = _shard(entry, folder, split)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problem = f"its shard {number} does not follow MDS version 2: {escape(error)[:200]}"
                raise UsageError(place, problem, _GET_AGAIN) from None
            if pickled := [name for name, encoding in shard.columns.encoding.items() if encoding == "pkl"]:
                problem = f"the column {escape(pickled[0])} is pickled (pkl): reading it can run arbitrary code"
                remedy = f"MDSWriter(columns={{'{escape(pickled[0])}': 'json'}})"
                raise UsageError(place, problem, f"write it again as 'json', 'int', 'str' or 'ndarray': {remedy}")
            shards.append(shard)
    if twice := [name for name, count in Counter(shard.name for shard in shards).items() if count > 1]:
        raise UsageError(os.path.join(root, files[0]), f"it lists the shard {escape(twice[0])} twice", _GET_AGAIN)
    if not shards:
        raise UsageError(os.path.join(root, files[0]), "it lists no shard", _GET_AGAIN)
    return shards


def entries(place: str) -> list[Any]:
    """Read the list of shards of an index. Raises UsageError."""
    try:
        with open_regular(place) as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise ValueError("larger than 1 GiB")
            data = file.read()
        value = json.loads(data)
        if not isinstance(value, dict) or not isinstance(value.get("shards"), list):
            raise ValueError('no list of "shards"')
        return value["shards"]
    except OSError as error:
        raise UsageError(place, f"cannot be read: {error.strerror}", "check the path") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(place, f"not an MDS index: {escape(error)[:200]}", _GET_AGAIN) from None


def _shard(entry: dict[str, Any], folder: str, split: str | None) -> Shard:
    """Parse one entry of an index. Raises KeyError, TypeError, ValueError or AttributeError if it is malformed."""
    if entry["format"] != "mds" or entry["version"] != 2:
        raise ValueError(f"format {entry['format']!r} of version {entry['version']!r}")
    names, encodings, sizes = (tuple(entry[f"column_{what}"]) for what in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes) or len(set(names)) < len(names):
        raise ValueError("the numbers of its column names, encodings and sizes differ")
    if not all(isinstance(text, str) for text in (*names, *encodings)):
        raise ValueError("a name or an encoding of a column is not text")
    if not all(size is None or _is_count(size) for size in sizes):
        raise ValueError("a size of a column is not a number")
    if not _is_count(entry["samples"]) or not _is_count(entry["raw_data"]["bytes"]):
        raise ValueError("its number of samples or of bytes is not a number")
    form, packed = entry.get("compression"), entry.get("zip_data")
    return Shard(
        _inside(folder, entry["raw_data"]["basename"]),
        _inside(folder, packed["basename"]) if packed else "",
        str(form).partition(":")[0] if form else "",
        entry["raw_data"]["bytes"],
        entry["samples"],
        split,
        Columns(names, encodings, tuple(sizes)),
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 40


def _inside(folder: str, name: str) -> str:
    """The path of a shard. Raises ValueError if it is outside of the folder."""
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the file {name!r} is not in its folder")
    return os.path.join(folder, name)

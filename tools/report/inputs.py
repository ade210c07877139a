"""Lists of inputs that were left out or changed, with pictures of some: as stored, or from the folder converted."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import simplejpeg
from PIL import Image

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import IntegrityError, UsageError, escape, name_bytes
from shardfeed.jpeg.markers import SIGNATURE
from shardfeed.naming import CLIPPED, LEFT_OUT, NORMALISED, REJECTED
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.pictures import rgb_picture
from shardfeed.storage.storage import whole
from shardfeed.text import size_text
from shardfeed.tools.report.image_numbers import jpeg_header
from shardfeed.tools.report.sections import Table
from shardfeed.tools.report.thumbnails import IN_ROW, SIDE, Picture, Row, Thumbnails, webp

_TITLES = {
    REJECTED: "Inputs left out",
    NORMALISED: "Stored with other bytes",
    LEFT_OUT: "Annotations left out",
    CLIPPED: "Images with clipped annotations",
}
_NAMED = 3
_MOST_BYTES = 64_000_000  # of a file that is read for its picture
# Decoding these again might crash the report.
_DANGEROUS = {RejectCode.DECODER_CRASH.value, RejectCode.DECODE_TIMEOUT.value, RejectCode.TOO_LARGE.value}


class _OfCode(NamedTuple):
    """Number of the entries of a list with a code, and the first of them, each with `key`, `code`, `reason`."""

    entries: int
    first: Sequence[dict[str, str]]


class Inputs:
    """The lists of a dataset. `source`: folder of images that was converted, None if unknown.

    Raises UsageError if `source` is not a folder.
    """

    def __init__(self, data: Dataset, source: str | None) -> None:
        if source is not None and not os.path.isdir(source):
            raise UsageError("source", f"no directory {escape(source)!r}", "give the folder that was converted")
        self._source = source
        self._lists = {file: _by_code(data, file) for file in _TITLES if file in data.manifest.sidecars}

    @property
    def ask_for_source(self) -> bool:
        """Whether there are inputs without pictures because `source` is missing."""
        return self._source is None and bool(self._lists.get(REJECTED))

    def tables(self) -> list[Table]:
        """Tables of each list by code: number, reason, and examples."""
        heads = ("code", "number", "reason of the first", "such as")
        return [
            Table(f"{_TITLES[file]}: {file}", heads, [_cells(code, found) for code, found in codes.items()])
            for file, codes in self._lists.items()
        ]

    def rows(self, stored: Thumbnails) -> list[Row]:
        """Pictures of some inputs of each code."""
        rows = []
        for file, codes in self._lists.items():
            for code, (count, entries) in codes.items():
                keys = [*dict.fromkeys(name_bytes(entry["key"]) for entry in entries)]
                if file == REJECTED and self._source is not None:
                    pictures = [*map(partial(_picture, self._source, code), keys)]
                else:
                    pictures = [] if file == REJECTED else stored.of_keys(keys)
                if pictures:
                    rows.append(Row.of(f"{_TITLES[file]}, {escape(code)}: {count:,}", pictures))
        return rows


def _by_code(data: Dataset, file: str) -> dict[str, _OfCode]:
    """Return the entries of a list, the most frequent code first; empty if it is damaged or missing."""
    storage = next(iter(data.values())).shards.storage
    try:
        entries = [json.loads(line) for line in whole(storage.open(os.path.join(data.directory, file))).splitlines()]
    except (OSError, ValueError, IntegrityError):
        return {}
    firsts: dict[str, list[dict[str, str]]] = {}
    for entry in entries:
        if len(of_code := firsts.setdefault(entry["code"], [])) < IN_ROW:
            of_code.append(entry)
    counts = Counter(entry["code"] for entry in entries).most_common()
    return {code: _OfCode(count, firsts[code]) for code, count in counts}


def _cells(code: str, found: _OfCode) -> tuple[str, int, str, str]:
    named = ", ".join(entry["key"] for entry in found.first[:_NAMED])
    return code, found.entries, found.first[0]["reason"], named


def _picture(source: str, code: str, key: bytes) -> Picture:
    """Return the picture of a left-out input, or of its decodable part; else the reason why there is none."""
    root = os.path.join(os.path.realpath(os.fsencode(source)), b"")
    try:
        path = os.path.realpath(os.path.join(root, key))
        if not path.startswith(root):  # names come from the dataset, which may be untrusted
            return Picture.of("", key, code, "outside of the folder")
        with open_regular(path) as file:
            size, data = os.fstat(file.fileno()).st_size, file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return Picture.of("", key, code, "not in the folder")
    about = f"{code}, {size_text(size)}"
    if code in _DANGEROUS or len(data) > _MOST_BYTES:
        return Picture.of("", key, about, "not decoded")
    header = jpeg_header(data) if data[:3] == SIGNATURE else None
    if header is not None:
        about = f"{about}, {header.width}x{header.height}"
    try:
        return Picture.of(webp(rgb_picture(data, None, SIDE), SIDE), key, about)
    except Exception:  # decoders raise any error for damaged bytes
        pass
    try:
        pixels: Any = simplejpeg.decode_jpeg(data, min_height=SIDE, min_width=SIDE, strict=False)  # the decodable part
        return Picture.of(webp(Image.fromarray(pixels), SIDE), key, about)
    except Exception:
        return Picture.of("", key, about)

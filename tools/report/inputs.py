"""Lists of inputs that were left out or changed, with pictures of some: as stored, or from the folder converted."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

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
from shardfeed.tools.report.page import Picture, Row, Table
from shardfeed.tools.report.thumbnails import IN_ROW, SIDE, Thumbnails, picture

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
_ASK = "To see the images that were left out, give the folder that was converted: --source DIR, in Python source=."

_ByCode = dict[str, list[dict[str, str]]]  # entries of a list, each with `key`, `code`, `reason`


class Inputs:
    """The lists of a dataset. `source`: folder of images that was converted, None if unknown.

    `advice`: a sentence, if there are inputs without pictures because `source` is missing. Raises UsageError if
    `source` is not a folder.
    """

    def __init__(self, data: Dataset, source: str | None) -> None:
        if source is not None and not os.path.isdir(source):
            raise UsageError("source", f"no directory {escape(source)!r}", "give the folder that was converted")
        self._source = source
        self._lists = {file: _by_code(data, file) for file in _TITLES if file in data.manifest.sidecars}
        self.advice = _ASK if source is None and self._lists.get(REJECTED) else ""

    def tables(self) -> Iterator[Table]:
        """Tables of each list by code: number, reason, and examples."""
        for file, codes in self._lists.items():
            rows = [
                (code, len(of), of[0]["reason"], ", ".join(entry["key"] for entry in of[:_NAMED]))
                for code, of in codes.items()
            ]
            yield Table(f"{_TITLES[file]}: {file}", ("code", "number", "reason of the first", "such as"), rows)

    def rows(self, stored: Thumbnails) -> Iterator[Row]:
        """Pictures of some inputs of each code."""
        for file, codes in self._lists.items():
            for code, of in codes.items():
                keys = dict.fromkeys(name_bytes(entry["key"]) for entry in of[:IN_ROW])
                pictures: Sequence[Picture] = ()
                if file != REJECTED:
                    pictures = stored.of_keys(keys)
                elif self._source is not None:
                    pictures = [*map(partial(_picture, self._source, code), keys)]
                if pictures:
                    yield Row(f"{_TITLES[file]}, {escape(code)}: {len(of):,}", pictures)


def _by_code(data: Dataset, file: str) -> _ByCode:
    """Return the entries of a list, the most frequent code first; empty if it is damaged or missing."""
    storage = next(iter(data.values())).shards.storage
    found: _ByCode = {}
    with suppress(OSError, ValueError, IntegrityError):
        for line in whole(storage.open(os.path.join(data.directory, file))).splitlines():
            entry = json.loads(line)
            found.setdefault(entry["code"], []).append(entry)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _picture(source: str, code: str, key: bytes) -> Picture:
    """Return the picture of a left-out input, or of its decodable part; else the reason why there is none."""
    root = os.path.join(os.path.realpath(os.fsencode(source)), b"")
    try:
        path = os.path.realpath(os.path.join(root, key))
        if not path.startswith(root):  # names come from the dataset, which may be untrusted
            return picture(None, key, code, "outside of the folder")
        with open_regular(path) as file:
            size, data = os.fstat(file.fileno()).st_size, file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return picture(None, key, code, "not in the folder")
    about = f"{code}, {size_text(size)}"
    if code in _DANGEROUS or len(data) > _MOST_BYTES:
        return picture(None, key, about, "not decoded")
    if data[:3] == SIGNATURE and all(sides := jpeg_header(data)[0]):
        about += f", {sides[0]}x{sides[1]}"
    for decode in (rgb_picture, _decodable_part):
        with suppress(Exception):  # decoders raise any error for damaged bytes
            image = decode(data, None, SIDE)
            image.thumbnail((SIDE, SIDE))
            return picture(image, key, about)
    return picture(None, key, about)


def _decodable_part(data: bytes, _raw: None, side: int) -> Image.Image:
    return Image.fromarray(simplejpeg.decode_jpeg(data, min_height=side, min_width=side, strict=False))

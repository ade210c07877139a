"""Small pictures for the page, of stored images, and of inputs that were left out or changed, with their lists.

They are data URIs, decoded and encoded again, so that browsers get no original input.
"""

import base64
import io
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache

import numpy as np
import simplejpeg
from PIL import Image

from shardfeed.annotations import CAPTION
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.report import listed_entries
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import IntegrityError, escape, name_bytes
from shardfeed.naming import CLIPPED, LEFT_OUT, NORMALISED, REJECTED
from shardfeed.readers.notebook import FORMATS, rgb_picture
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH
from shardfeed.storage.storage import open_side_file
from shardfeed.text import listing, number, size_text
from shardfeed.tools.overlay import draw_annotations, has_annotations
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.page import FIRST, Picture, PictureRow, Table

_SIDE, _WIDE_SIDE = 96, 176  # pixels; the latter if something is drawn over the picture
_IN_ROW = 24  # pictures
_NAME, _CAPTION = 60, 120  # characters
_NAMED = 3  # inputs of a code, or classes of a picture
_MOST_BYTES = 64_000_000  # of a file that is read for its picture
_LISTS = {
    REJECTED: "Inputs left out",
    NORMALISED: "Stored with other bytes",
    LEFT_OUT: "Annotations left out",
    CLIPPED: "Images with clipped annotations",
}
# Decoding these again might crash the report.
_DANGEROUS = {RejectCode.DECODER_CRASH.value, RejectCode.DECODE_TIMEOUT.value, RejectCode.TOO_LARGE.value}


class Pictures:
    """Pictures of a dataset's images by their indices in `measured`; each is made once."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self.picture = cache(self._picture)

    def _picture(self, place: int) -> Picture:
        measured = self._measured
        split, row, key = [*measured.splits][measured.split[place]], measured.images[place], measured.keys[place]
        schema = measured.data.manifest.schema
        drawn = has_annotations(schema)
        side = _WIDE_SIDE if drawn else _SIDE
        try:
            record = measured.data[split][place - measured.splits[split].start]
            raw = (record[HEIGHT], record[WIDTH]) if record.get(FORMAT) == b"raw" else None
            image = rgb_picture(record[schema.key(ENCODED) or ENCODED], raw, side)  # type: ignore[arg-type]  # bytes
            if drawn:  # so that lines have the same width in all pictures
                width, height = (max(1, round(length * side / max(image.size))) for length in image.size)
                image = draw_annotations(image.resize((width, height), Image.Resampling.BILINEAR), record, schema)
        except Exception:  # decoders raise any error for damaged bytes: the page reports that it does not decode
            return _encoded(None, key, split)
        labels = np.unique(np.array(record.get(measured.class_key, ()), np.int64))
        classes = listing([*map(measured.class_name, labels.tolist())], _NAMED)
        about = [classes, split, f"{row['width']}x{row['height']}"]
        about += [escape(text)[:_CAPTION] for text in record.get(schema.key(CAPTION) or "", ())[:1]]
        return _encoded(image, key, ", ".join(filter(None, about)), side=side)

    def rows(self, most: int) -> tuple[list[PictureRow], int]:
        """At most `most` pictures of each class in each split, spread over it, and the number of rows left out."""
        measured, splits = self._measured, [*self._measured.splits]
        most //= 1 + has_annotations(measured.data.manifest.schema)  # whose pictures take about twice as many bytes
        images, labels = np.arange(len(measured.images)), measured.images["label"]
        if len(measured.of_several) and not measured.labelled:
            images, labels = measured.of_several["image"], measured.of_several["label"]
        images, labels = (of[measured.decoded[images]] for of in (images, labels))
        pairs = labels.astype(np.int64) * len(splits) + measured.split[images]
        order = np.argsort(pairs, kind="stable")
        of_rows, starts = np.unique(pairs[order], return_index=True)
        parts = np.split(images[order], starts[1:])
        shown = min(len(of_rows), most // FIRST)
        each = min(_IN_ROW, most // max(1, shown))
        rows = []
        for pair, part in zip(of_rows[:shown].tolist(), parts, strict=False):
            label, split = divmod(pair, len(splits))
            spread = part[np.linspace(0, len(part) - 1, min(each, len(part))).astype(int)]
            of = [measured.class_name(label) or "no class"] * bool(measured.classes)
            title = f"{', '.join([*of, splits[split]])}: {number(len(part), 'image')}"
            rows.append(PictureRow(title, [*map(self.picture, spread.tolist())]))
        return rows, len(of_rows) - shown

    def inputs(self, source: str | None, most: int) -> Iterator[Table | PictureRow]:
        """Each list of inputs as a table by code: number, reason, examples; and pictures of some, unless `most` is 0.

        `source`: the folder that was converted, for pictures of inputs that were left out.
        """
        data = self._measured.data
        storage = next(iter(data.values())).shards.storage
        for file, title in _LISTS.items():
            if file not in data.manifest.sidecars:
                continue
            content = b""
            with suppress(OSError, IntegrityError):  # damaged or missing
                _, content = open_side_file(os.path.join(data.directory, file), storage)
            codes = _by_code(content)
            rows = [(code, len(of), of[0]["reason"], _first_keys(of)) for code, of in codes]
            yield Table(f"{title}: {file}", ("code", "number", "reason of the first", "such as"), rows)
            for code, of in codes if most else ():
                keys = dict.fromkeys(name_bytes(entry["key"]) for entry in of[:_IN_ROW])
                if pictures := self._of_list(file, code, keys, source):
                    yield PictureRow(f"{title}, {escape(code)}: {len(of):,}", pictures)

    def _of_list(self, file: str, code: str, keys: Collection[bytes], source: str | None) -> list[Picture]:
        """The pictures of some images of a list: from the dataset, or from the source if they were left out."""
        if file != REJECTED:
            return [self.picture(place) for place, key in enumerate(self._measured.keys) if key in keys]
        return [] if source is None else [_left_out(source, code, key) for key in keys]


def _by_code(lines: bytes) -> list[tuple[str, list[dict[str, str]]]]:
    """The entries of a list by their code, the most frequent code first."""
    of_code: dict[str, list[dict[str, str]]] = {}
    for entry in listed_entries(lines):
        of_code.setdefault(entry["code"], []).append(entry)
    return sorted(of_code.items(), key=lambda item: -len(item[1]))


def _first_keys(entries: Sequence[dict[str, str]]) -> str:
    return ", ".join(entry["key"] for entry in entries[:_NAMED])


def _encoded(
    image: Image.Image | None, key: bytes, about: str, problem: str = "does not decode", side: int = _SIDE
) -> Picture:
    """The picture of an image with this key, or the reason why there is none; only the end of a long key is shown."""
    name, content = escape(key), io.BytesIO()
    name = name if len(name) <= _NAME else f"...{name[3 - _NAME :]}"
    if image is None:
        return Picture("", name, about, problem)
    image.thumbnail((side, side))
    image.save(content, "WEBP", quality=60, method=0)
    return Picture(f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}", name, about, "")


def _left_out(source: str, code: str, key: bytes) -> Picture:
    """The picture of a left-out input, or of its decodable part; else the reason why there is none."""
    root = os.path.join(os.path.realpath(os.fsencode(source)), b"")
    try:
        path = os.path.realpath(os.path.join(root, key))
        if not path.startswith(root):  # names come from the dataset, which may be untrusted
            return _encoded(None, key, code, "outside of the folder")
        with open_regular(path) as file:
            size, data = os.fstat(file.fileno()).st_size, file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return _encoded(None, key, code, "not in the folder")
    about, image = f"{code}, {size_text(size)}", None
    if code in _DANGEROUS or len(data) > _MOST_BYTES:
        return _encoded(None, key, about, "not decoded")
    with suppress(Exception):  # decoders raise any error for damaged bytes
        with Image.open(io.BytesIO(data), formats=FORMATS) as header:
            about += f", {header.width}x{header.height}"
        height, width, color, _ = simplejpeg.decode_jpeg_header(data, _SIDE, _SIDE)
        if color not in ("CMYK", "YCCK"):  # of which a part would come from memory that nothing wrote
            pixels = np.zeros((int(height), int(width), 3), np.uint8)  # black below the rows that decode
            simplejpeg.decode_jpeg(data, min_height=_SIDE, min_width=_SIDE, buffer=pixels, strict=False)
            image = Image.fromarray(pixels)
    with suppress(Exception):
        image = rgb_picture(data, None, _SIDE)
    return _encoded(image, key, about)

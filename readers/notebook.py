"""Display of datasets, splits, samples and reports in notebooks: tables, and a few small pictures.

This is the only module that writes HTML, as fragments. All text is escaped and shortened, and pictures are decoded and
encoded again, so that no input reaches a browser unchanged.
"""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shardfeed.errors import escape
from shardfeed.manifest import Manifest
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, WIDTH
from shardfeed.text import in_usual_order, size_text

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # of pictures: only formats whose decoder starts no other program
_PICTURES = 8
_SIDE = 96  # pixels of the longer side of a picture
_SAMPLE_SIDE = 224  # of the picture of one sample
_ROWS = 20  # of a table
_CELL = 80  # characters of a text


def dataset_html(data: Any) -> str:
    """A `Dataset`: its splits, its classes, pictures of the first split."""
    names = in_usual_order(data)
    return _text(repr(data), "b") + manifest_html(data.manifest) + (pictures_html(data[names[0]]) if names else "")


def split_html(split: Any) -> str:
    """A `Split`, or a part of one: its features and pictures, spread over it."""
    schema = split.schema
    features = [[key, feature.dtype, schema.kind(key)] for key, feature in sorted(schema.features.items())]
    return _text(repr(split), "b") + _table([["feature", "dtype", "kind"], *features]) + pictures_html(split)


def manifest_html(manifest: Manifest) -> str:
    """Tables of splits and of classes, with the number of samples of each class in each split."""
    names = in_usual_order(manifest.splits)
    infos = [manifest.splits[name] for name in names]
    splits = [[info.name, info.records, len(info.shards), size_text(info.size)] for info in infos]
    found = [_table([["split", "samples", "shards", "size"], *splits])]
    for key, classes in manifest.schema.class_names.items():
        counts = [info.class_counts.get(key, [""] * len(classes)) for info in infos]
        rows = [[name, *of_splits] for name, *of_splits in zip(classes, *counts, strict=True)]
        found.append(_table([[key, *names], *rows]))
    return "".join(found)


def notes_html(title: str, notes: Sequence[str]) -> str:
    """A title, and sentences below it."""
    return _text(title, "b") + _table([[note] for note in notes], head=False)


def pictures_html(split: Any) -> str:
    """Small pictures of a few samples, spread over the split, with their classes; undecodable images are skipped."""
    schema, cells = split.schema, []
    image, label = schema.key(ENCODED), schema.key(LABEL)
    for number in range(min(len(split), _PICTURES)) if image else ():
        index = number * len(split) // min(len(split), _PICTURES)
        try:
            record = split[index]
            picture = _picture_html(record, image, _SIDE)
            names, value = schema.class_names.get(label, ()), record.get(label)
            text = names[value] if isinstance(value, int) and 0 <= value < len(names) else f"[{index}]"
        except Exception:  # decoders raise any error for damaged bytes; a notebook shows the other pictures
            continue
        cells.append(f"<td>{picture}{_text(text, 'p')}</td>")
    return f"<table><tr>{''.join(cells)}</tr></table>" if cells else ""


def record_html(record: Mapping[str, Any], texts: Sequence[tuple[str, str]]) -> str:
    """A sample: its picture, if a value is one, and beside it the texts of its values, by key."""
    values = _table([["feature", "value"], *texts])
    for key, value in record.items():
        with suppress(Exception):  # of decoders, for values that are no image, or damaged
            picture = _picture_html(record, key, _SAMPLE_SIDE) if isinstance(value, bytes) else ""
            if picture:
                return f"<table><tr><td>{picture}</td><td>{values}</td></tr></table>"
    return values


def _picture_html(record: Mapping[str, Any], key: str, side: int) -> str:
    """The image of a record at `key`, of at most `side` pixels; may raise any error for damaged bytes."""
    raw = (record[HEIGHT], record[WIDTH]) if record.get(FORMAT) == b"raw" else None
    picture, file = rgb_picture(record[key], raw, side), io.BytesIO()
    picture.thumbnail((side, side))
    picture.save(file, "JPEG")
    return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}">'


def rgb_picture(encoded: bytes, raw: tuple[int, int] | None, side: int) -> "Image":
    """Decode an image file to RGB, of about `side` pixels or more; may raise any error for damaged bytes.

    `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
    """
    from PIL import Image

    if raw is not None:
        return Image.frombytes("RGB", (raw[1], raw[0]), encoded)
    with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:  # as loaders see it: no EXIF orientation
        image.draft("RGB", (side, side))
        return as_rgb(image)


def as_rgb(image: "Image") -> "Image":
    """Convert to RGB; of gray with 16 bits to the upper 8, where Pillow makes all above 255 white."""
    if image.mode.startswith("I;16"):
        image = image.point(lambda level: level / 256).convert("L")
    return image.convert("RGB")


def _table(rows: Sequence[Sequence[object]], *, head: bool = True) -> str:
    """Rows in a table, the first as its header; rows beyond the limit are only counted."""
    shown = [*rows[: _ROWS + 1], *([[f"and {len(rows) - _ROWS - 1:,} more"]] if len(rows) > _ROWS + 1 else [])]
    tags = ["th" if head else "td", *["td"] * len(shown)]
    lines = [
        "".join(_text(f"{cell:,}" if isinstance(cell, int) else cell, tag) for cell in row)
        for tag, row in zip(tags, shown, strict=False)
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>" if rows else ""


def _text(text: object, tag: str) -> str:
    """Arbitrary text within a tag: on one printable line, shortened, with all markup escaped."""
    line = escape(text)
    return f"<{tag}>{html.escape(line if len(line) <= _CELL else line[: _CELL - 3] + '...')}</{tag}>"

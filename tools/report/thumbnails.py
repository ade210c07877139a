"""Small pictures for the page, as data URIs: decoded and encoded again, so that browsers get no original input."""

import base64
import io
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardfeed.errors import escape
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.pictures import rgb_picture
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH
from shardfeed.tools.pictures.overlay import draw_annotations, has_annotations
from shardfeed.tools.report.findings import Findings
from shardfeed.tools.report.measure import Measured

SIDE, _WIDE_SIDE = 96, 176  # pixels; the latter if something is drawn over the picture
_NAME = 60  # characters
_FIRST, IN_ROW = 6, 24  # of a row: shown at once, and after a click


class Picture(NamedTuple):
    """`data`: a data URI, or "" with the reason in `problem`. `about`: size, class and split, in a line."""

    data: str
    name: str
    about: str
    problem: str

    @classmethod
    def of(cls, data: str, key: bytes, about: str, problem: str = "does not decode") -> "Picture":
        """The picture of an image with this key; only the end of a long key is shown."""
        name = escape(key)
        return cls(data, name if len(name) <= _NAME else f"...{name[3 - _NAME :]}", about, problem)


class Row(NamedTuple):
    """Pictures of a class in a split, or of inputs: the first ones, and those that are shown on a click."""

    title: str
    first: Sequence[Picture]
    more: Sequence[Picture]

    @classmethod
    def of(cls, title: str, pictures: Sequence[Picture]) -> "Row":
        """A row of these pictures."""
        return cls(title, pictures[:_FIRST], pictures[_FIRST:])


def webp(image: Image.Image, side: int) -> str:
    """A data URI of an image, RGB, shrunk to `side` pixels."""
    content = io.BytesIO()
    image.thumbnail((side, side))
    image.save(content, "WEBP", quality=60, method=0)
    return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}"


class Thumbnails:
    """Pictures of a dataset's images by their indices in `measured`; each is made once."""

    def __init__(self, data: Dataset, measured: Measured, findings: Findings, keys: dict[str, np.ndarray]) -> None:
        self._data, self._measured, self._classes, self._keys = data, measured, findings.classes, keys
        self._starts = [part.start for part in measured.splits.values()]
        self._names = list(measured.splits)
        self._made: dict[int, Picture] = {}

    def where(self, place: int) -> tuple[str, int]:
        """The split of an image, and its position in it."""
        number = int(np.searchsorted(self._starts, place, "right")) - 1
        while place >= self._measured.splits[self._names[number]].stop:  # splits without records
            number -= 1
        return self._names[number], place - self._starts[number]

    def key(self, place: int) -> bytes:
        """The key of an image, as `shardfeed remove` takes it."""
        split, index = self.where(place)
        return self._keys[split][index]

    def picture(self, place: int) -> Picture:
        """The picture of an image."""
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]

    def _make(self, place: int) -> Picture:
        split, index = self.where(place)
        row = self._measured.images[place]
        key = self.key(place)
        about = [split, f"{row['width']}x{row['height']}"]
        if 0 <= row["label"] < len(self._classes):
            about.insert(0, escape(self._classes[row["label"]])[:_NAME])
        schema = self._data.manifest.schema
        drawn = has_annotations(schema)
        side = _WIDE_SIDE if drawn else SIDE
        try:
            record = self._data[split][index]
            raw = (record[HEIGHT], record[WIDTH]) if record.get(FORMAT) == b"raw" else None
            image = rgb_picture(record[schema.key(ENCODED) or ENCODED], raw, side)  # type: ignore[arg-type]  # bytes
            if drawn:  # so that lines have the same width in all pictures
                scale = side / max(image.size)
                image = image.resize(
                    [max(1, round(length * scale)) for length in image.size], Image.Resampling.BILINEAR
                )  # type: ignore[arg-type]  # a pair
                image = draw_annotations(image, record, schema)
            return Picture.of(webp(image, side), key, ", ".join(about))
        except Exception:  # decoders raise any error for damaged bytes: the page reports that it does not decode
            return Picture.of("", key, split)

    def of_keys(self, keys: Collection[bytes]) -> list[Picture]:
        """Pictures of the images with these keys."""
        wanted = {*keys}
        return [
            self.picture(part.start + i)
            for name, part in self._measured.splits.items()
            for i, key in enumerate(self._keys[name])
            if key in wanted
        ]

    def rows(self, most: int) -> tuple[list[Row], int]:
        """At most `most` pictures of each class in each split, spread over it, and the number of rows that do not
        fit."""
        labels, decoded = self._measured.images["label"], self._measured.decoded
        found = []
        for name, part in self._measured.splits.items():
            of_split = np.where(decoded[part], labels[part], -2)
            for label in np.unique(of_split[of_split > -2]).tolist():
                places = part.start + np.flatnonzero(of_split == label)
                named = escape(self._classes[label])[:_NAME] if 0 <= label < len(self._classes) else "no class"
                found.append((label, name, places, named))
        found.sort(key=lambda row: row[0])
        shown = found[: most // _FIRST]
        each = min(IN_ROW, most // max(1, len(shown)))
        rows = []
        for _, name, places, named in shown:
            chosen = places[np.linspace(0, len(places) - 1, min(each, len(places))).astype(int)].tolist()
            pictures = [self.picture(place) for place in chosen]
            title = f"{named}, {name}: {len(places):,}" if self._classes else f"{name}: {len(places):,}"
            rows.append(Row.of(title, pictures))
        return rows, len(found) - len(shown)

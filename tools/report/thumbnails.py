"""Small pictures for the page, as data URIs: decoded and encoded again, so that browsers get no original input."""

import base64
import io
from collections.abc import Collection

import numpy as np
from PIL import Image

from shardfeed.errors import escape
from shardfeed.readers.pictures import rgb_picture
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH
from shardfeed.tools.pictures.overlay import draw_annotations, has_annotations
from shardfeed.tools.report.measured import Measured
from shardfeed.tools.report.page import FIRST, Picture, Row

SIDE, _WIDE_SIDE = 96, 176  # pixels; the latter if something is drawn over the picture
IN_ROW = 24  # pictures
_NAME = 60  # characters


def picture(image: Image.Image | None, key: bytes, about: str, problem: str = "does not decode") -> Picture:
    """The picture of an image with this key, or the reason why there is none; only the end of a long key is shown."""
    name, content = escape(key), io.BytesIO()
    name = name if len(name) <= _NAME else f"...{name[3 - _NAME :]}"
    if image is None:
        return Picture("", name, about, problem)
    image.save(content, "WEBP", quality=60, method=0)
    return Picture(f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}", name, about, "")


class Thumbnails:
    """Pictures of a dataset's images by their indices in `measured`; each is made once."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._made: dict[int, Picture] = {}

    def picture(self, place: int) -> Picture:
        """The picture of an image."""
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]

    def _make(self, place: int) -> Picture:
        split, index = self._measured.where(place)
        row, key = self._measured.images[place], self._measured.keys[place]
        schema = self._measured.data.manifest.schema
        try:
            record = self._measured.data[split][index]
            raw = (record[HEIGHT], record[WIDTH]) if record.get(FORMAT) == b"raw" else None
            side = _WIDE_SIDE if has_annotations(schema) else SIDE
            image = rgb_picture(record[schema.key(ENCODED) or ENCODED], raw, side)  # type: ignore[arg-type]  # bytes
            if side == _WIDE_SIDE:  # so that lines have the same width in all pictures
                size = [max(1, round(length * side / max(image.size))) for length in image.size]
                image = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
                image = draw_annotations(image, record, schema)
            image.thumbnail((side, side))
        except Exception:  # decoders raise any error for damaged bytes: the page reports that it does not decode
            return picture(None, key, split)
        about = [self._measured.class_name(row["label"]), split, f"{row['width']}x{row['height']}"]
        return picture(image, key, ", ".join(filter(None, about)))

    def of_keys(self, keys: Collection[bytes]) -> list[Picture]:
        """Pictures of the images with these keys."""
        return [self.picture(place) for place, key in enumerate(self._measured.keys) if key in keys]

    def rows(self, most: int) -> tuple[list[Row], int]:
        """At most `most` pictures of each class in each split, spread over it, and the number of rows left out."""
        images, splits = self._measured.images, [*self._measured.splits]
        decoded = np.flatnonzero(self._measured.decoded)
        pairs = images["label"][decoded].astype(np.int64) * len(splits) + self._measured.split[decoded]
        order = np.argsort(pairs, kind="stable")
        of_rows, starts = np.unique(pairs[order], return_index=True)
        parts = np.split(decoded[order], starts[1:])
        shown = min(len(of_rows), most // FIRST)
        each = min(IN_ROW, most // max(1, shown))
        rows = []
        for pair, part in zip(of_rows[:shown].tolist(), parts, strict=False):
            label, split = divmod(pair, len(splits))
            spread = part[np.linspace(0, len(part) - 1, min(each, len(part))).astype(int)]
            of = [self._measured.class_name(label) or "no class"] * bool(self._measured.classes)
            title = f"{', '.join([*of, splits[split]])}: {len(part):,}"
            rows.append(Row(title, [*map(self.picture, spread.tolist())]))
        return rows, len(of_rows) - shown

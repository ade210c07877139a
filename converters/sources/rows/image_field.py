"""An additional field of each image in annotations, such as its video or patient, for groups."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardfeed.annotations import CAPTION, OBJECTS
from shardfeed.converters.sources.rows.columns import TextColumn, as_array, feature_key
from shardfeed.converters.sources.rows.objects import shown_value
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import IMAGE_KEYS, LABEL, SOURCE_ID, TEXT, is_plain

_TAKEN = frozenset((*IMAGE_KEYS, LABEL, TEXT, SOURCE_ID, CAPTION))  # features that records have anyway
_SHOWN = 20  # names of fields in a message


class ImageField:
    """Collector of the values of the field `name`: texts or numbers, stored as texts under `key`; null is "".

    `place`: the annotations, for errors. Raises UsageError if no feature can have this name.
    """

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.key = name, place, feature_key(name)
        if self.key in _TAKEN or self.key.startswith(OBJECTS) or not is_plain(name):
            problem = f"got '{escape(name)}', which cannot be stored as '{escape(self.key)}'"
            remedy = f"copy the field under another name, or group by file names with {argument('group_pattern')}"
            raise UsageError("group_column", problem, remedy)
        self._fields: dict[str, None] = {}  # fields that at least one image has
        self._codes: dict[bytes, int] = {b"": 0}  # each different value
        self._of_image = array("q")  # the code of each image up to the last that has one

    def add(self, image: int, place: str, fields: Mapping[str, Any]) -> None:
        """Take the value of an image from all its `fields`; `place`: the file and the line or entry.

        Raises LabelFileError for a value that is neither a text nor a number, or other than the image had before.
        """
        self._fields |= dict.fromkeys(name for name, value in fields.items() if not isinstance(value, list | dict))
        value = fields.get(self.name)
        if value is None:
            return
        try:
            if not isinstance(value, str | int | float):
                raise TypeError
            text = str(value).strip().encode()
        except (TypeError, UnicodeEncodeError):
            problem = f"its {escape(self.name)} is {shown_value(value)}, expected a text or a number"
            raise LabelFileError(place, problem, "correct it, or remove it there") from None
        self._of_image.extend([0] * (image + 1 - len(self._of_image)))
        before = self._of_image[image]
        code = self._of_image[image] = self._codes.setdefault(text, len(self._codes))
        if before not in (0, code):
            expected = escape([*self._codes][before])
            problem = f"got the {escape(self.name)} {shown_value(value)}, expected {expected!r} as before"
            raise LabelFileError(place, problem, "give each image one value")

    def column(self, places: np.ndarray, count: int) -> TextColumn:
        """The column of `count` samples; `places`: int64 [images], the index of each image's sample, or -1.

        Raises UsageError if no image has the field.
        """
        if self.name not in self._fields:
            names = sorted(map(escape, self._fields))
            there = ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])]) or "none"
            problem = f"got '{escape(self.name)}', expected a field of the images in {self.place}: there are {there}"
            raise UsageError(
                "group_column", problem, f"name one of these, or group by file names with {argument('group_pattern')}"
            )
        codes = np.zeros(len(places), np.int64)
        codes[: len(self._of_image)] = as_array(self._of_image)
        found, images = np.zeros(count, np.int64), np.flatnonzero(places >= 0)[::-1]  # the first that has one counts
        images = images[codes[images] > 0]
        found[places[images]] = codes[images]
        return TextColumn(self.key, list(self._codes), found)

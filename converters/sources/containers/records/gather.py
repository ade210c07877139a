"""What records say, in compact arrays: labels, names, texts, objects; and the records that cannot be offered.

A record is taken whole or not at all. Of a thousand bytes of image nothing is kept here.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.annotations import IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_TEXT
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.records.layout import FLAGS, Layout
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.errors import escape, name_text
from shardfeed.formats.format import Fields
from shardfeed.schema import Feature
from shardfeed.text import listing

_NONE: tuple[str, Any] = ("", ())
_FLAGS = (IS_CROWD, *FLAGS)
_INT32 = range(-(2**31), 2**31)
_MOST_VALUES = 1 << 22  # of a key in one record: as many as a mask has pixels that stands as numbers
_MOST_CLASSES = 1 << 20  # different numbers of classes whose names are kept


class Packed(Sequence[bytes]):
    """Many short byte strings, each 8 bytes longer than itself; `add` appends one."""

    def __init__(self) -> None:
        self._data, self._ends = bytearray(), array("q", [0])

    def add(self, value: bytes) -> None:
        """One more."""
        self._data += value
        self._ends.append(len(self._data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        if index < 0 or index >= len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return bytes(self._data[self._ends[index] : self._ends[index + 1]])


class Values:
    """The values of one key in all records: `look` says those of a record, or why it has none, `add` keeps them.

    `flat`: all of them; `ends`: int64 [n + 1] where a record has any number of values, None where each has one.
    """

    def __init__(self, key: str, feature: Feature, code: RejectCode = RejectCode.NO_LABEL) -> None:
        self.key, self.feature, self._code = key, feature, code
        self.flat: Any = Packed() if feature.dtype == "bytes" else array("q" if feature.dtype == "int64" else "f")
        self._ends = None if feature.scalar else array("q", [0])

    def look(self, features: Fields) -> Sequence[Any]:
        """The values in a record. Raises RejectedError where they are not as in the others."""
        dtype, values = features.get(self.key, _NONE)
        if len(values) and dtype != self.feature.dtype:
            raise RejectedError(self._code, f"{escape(self.key)} is {dtype}, and {self.feature.dtype} in others")
        if self.feature.scalar and len(values) != 1:
            raise RejectedError(self._code, f"{len(values)} values of {escape(self.key)}, expected one as in others")
        if len(values) > _MOST_VALUES:
            problem = f"{len(values):,} values of {escape(self.key)}, expected {_MOST_VALUES:,} at most"
            raise RejectedError(self._code, problem)
        found = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if self.feature.dtype == "bytes":
            for value in found:
                _check_utf8(bytes(value), self.key)
        return found

    def add(self, values: Sequence[Any]) -> None:
        """What `look` gave."""
        if isinstance(self.flat, Packed):
            for value in values:
                self.flat.add(bytes(value))
        else:
            self.flat.extend(values)
        if self._ends is not None:
            self._ends.append(len(self.flat))

    @property
    def numbers(self) -> np.ndarray:
        """int64 or float32: of texts, their places."""
        if isinstance(self.flat, Packed):
            return np.arange(len(self.flat))
        dtype = np.int64 if self.flat.typecode == "q" else np.float32
        return np.frombuffer(self.flat, dtype) if self.flat else np.zeros(0, dtype)

    @property
    def ends(self) -> np.ndarray | None:
        """Where the values of each record end in all."""
        return None if self._ends is None else np.frombuffer(self._ends, np.int64)


class Texts:
    """The one text that stands beside each number of a class."""

    def __init__(self) -> None:
        self.names: dict[int, str] | None = {}

    def add(self, numbers: Sequence[int], texts: Any) -> None:
        """Those of a record. Where a number has two texts, or one has none, no text is trusted."""
        if self.names is None:
            return
        if len(numbers) != len(texts) or len(self.names) > _MOST_CLASSES:
            self.names = None
            return
        for number, text in zip(numbers, texts, strict=True):
            name = name_text(bytes(text))
            if self.names.setdefault(number, name) != name:
                self.names = None
                return


class Gather:
    """Records in by `add`, by the keys of a layout; out come their columns, in the order in which they were added."""

    def __init__(self, layout: Layout) -> None:
        features = layout.features
        self.layout = layout
        label = layout.label or layout.label_text
        self.label = Values(label, features[label]) if label else None
        self.texts, self.object_texts = Texts(), Texts()
        self.names = Packed()  # of the images, as the records say them; b"" where one says none
        self.split_names: dict[str, int] = {}
        self.splits = array("h")
        self.captions = Values(layout.captions, Feature("bytes", (None,))) if layout.captions else None
        self.numbers = array("q")  # -1: none
        self.others = {ours: Values(theirs, features[theirs]) for ours, theirs in layout.others.items()}
        self.objects = _table(layout)

    def add(self, features: Fields) -> None:
        """One record. Raises RejectedError where it cannot be offered; nothing of it is kept then."""
        layout = self.layout
        label = [] if self.label is None else self.label.look(features)
        if label == [-1] and not layout.many_labels:
            raise RejectedError(RejectCode.NO_LABEL, f"{escape(layout.label)} is -1, which stands for no label")
        captions = [] if self.captions is None else self.captions.look(features)
        others = {ours: values.look(features) for ours, values in self.others.items()}
        split = self._split(features)
        boxes, columns = _objects(layout, features)
        if self.label is not None:
            self.label.add(label)
        if layout.label and layout.label_text:
            self.texts.add(label, features.get(layout.label_text, _NONE)[1])
        if self.captions is not None:
            self.captions.add(captions)
        for ours, values in others.items():
            self.others[ours].add(values)
        if split:
            self.splits.append(self.split_names.setdefault(split, len(self.split_names)))
        if self.objects is not None:
            self._add_objects(boxes, columns)
        self.names.add(_one_text(features, layout.key))
        self.numbers.append(_one_number(features, layout.number))

    def _split(self, features: Fields) -> str:
        if not self.layout.split:
            return ""
        text = _one_text(features, self.layout.split)
        if not text:
            raise RejectedError(RejectCode.NO_LABEL, f"no split in {escape(self.layout.split)}")
        _check_utf8(text, self.layout.split)
        return text.decode()

    def _add_objects(self, boxes: np.ndarray, columns: Mapping[str, Sequence[Any]]) -> None:
        table = self.objects
        assert table is not None, "the layout has objects"
        image = len(self.names)
        labels = columns.get(OBJECT_LABEL, ())
        if OBJECT_TEXT in columns:
            self.object_texts.add(labels, columns[OBJECT_TEXT])
        areas = columns.get(OBJECT_AREA, ())
        for i, box in enumerate(boxes.tolist()):
            of_box = {key: int(values[i]) for key, values in columns.items() if key in _FLAGS and values}
            label, area = (labels[i] if labels else 0), (float(areas[i]) if areas else 0.0)
            table.add(image, i, box, label, columns=of_box, area=area)


def _table(layout: Layout) -> ObjectTable | None:
    """Of the objects, whose classes are numbered when all are known; None without boxes."""
    if layout.objects is None:
        return None
    columns = layout.objects.columns
    own = [key for key in columns if key in _FLAGS]
    # Programs that read records do not turn images by their EXIF, so boxes are of the image as it is stored.
    names = () if OBJECT_LABEL in columns else None
    return ObjectTable(names, what="object", unit="fractions", upright=False, columns=own, areas=OBJECT_AREA in columns)


def _objects(layout: Layout, features: Fields) -> tuple[np.ndarray, dict[str, Sequence[Any]]]:
    """Boxes, float64 [n, 4], left, top, right, bottom, and what else is known of each. Raises RejectedError."""
    if layout.objects is None:
        return np.zeros((0, 4)), {}
    sides = [_floats(features, key) for key in layout.objects.box]
    if len(sides) == 1:
        if len(sides[0]) % 4:
            reason = f"{len(sides[0])} numbers in {escape(layout.objects.box[0])}, expected four for each box"
            raise RejectedError(RejectCode.CORRUPT, reason)
        boxes = sides[0].reshape(-1, 4)[:, [1, 0, 3, 2]]
    elif len({len(side) for side in sides}) > 1:
        counts = listing([str(len(side)) for side in sides])
        raise RejectedError(RejectCode.CORRUPT, f"the sides of its boxes are {counts}, expected as many of each")
    else:
        boxes = np.stack(sides, axis=1)
    columns: dict[str, Sequence[Any]] = {}
    for ours, theirs in layout.objects.columns.items():
        dtype, values = features.get(theirs, _NONE)
        if dtype not in ("", "bytes") if ours == OBJECT_TEXT else dtype == "bytes":
            raise RejectedError(RejectCode.CORRUPT, f"{escape(theirs)} is {dtype}")
        required = ours in (OBJECT_LABEL, OBJECT_AREA)
        if len(values) != len(boxes) and (len(values) or required):
            raise RejectedError(RejectCode.CORRUPT, f"{len(values)} values of {escape(theirs)} for {len(boxes)} boxes")
        columns[ours] = values.tolist() if isinstance(values, np.ndarray) else values
    for label in columns.get(OBJECT_LABEL, ()):
        if label not in _INT32:
            raise RejectedError(RejectCode.CORRUPT, f"an object of the class {label}")
    return boxes.astype(np.float64), columns


def _floats(features: Fields, key: str) -> np.ndarray:
    dtype, values = features.get(key, _NONE)
    if len(values) and dtype != "float32":
        raise RejectedError(RejectCode.CORRUPT, f"{escape(key)} is {dtype}, expected float32")
    return np.asarray(values, np.float32)


def _one_text(features: Fields, key: str) -> bytes:
    """The only value as text, a number in digits; b"" where there is none."""
    dtype, values = features.get(key, _NONE)
    if len(values) != 1 or dtype == "float32":
        return b""
    return bytes(values[0]) if dtype == "bytes" else b"%d" % int(values[0])


def _one_number(features: Fields, key: str) -> int:
    """The only value as a number, 0 or more; -1 where it is none."""
    text = _one_text(features, key)
    return int(text) if text.isdigit() and len(text) < 18 else -1


def _check_utf8(value: bytes, key: str) -> None:
    try:
        value.decode()
    except UnicodeDecodeError:
        raise RejectedError(RejectCode.CORRUPT, f"the text in {escape(key)} is no UTF-8") from None

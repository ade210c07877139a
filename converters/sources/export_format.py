"""Interface of an export format: it takes records one by one, and knows the command that converts its files again.

Records are under TensorFlow's own keys. Where a format cannot hold features of a dataset, the export is refused, naming
them, unless the user drops them.
"""

import io
import json
import os
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from PIL import Image

from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_TEXT,
    OBJECTS,
    RASTER,
    RASTER_FORMAT,
    XMIN,
)
from shardfeed.converters.counted_ids import COUNTED_IDS, id_numbers, ids_were_counted
from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.sources.export_files import ExportFiles, check_name
from shardfeed.converters.sources.files.class_names import lists_classes
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.errors import IntegrityError, RecordError, UsageError, argument, escape, name_text
from shardfeed.kinds import KINDS
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, IMAGE_KEYS, LABEL, PNG16, SOURCE_ID, TEXT, WIDTH, Schema
from shardfeed.split_words import renamed_splits, usual_split
from shardfeed.text import in_usual_order, shell_quoted

ALL = "all"
RENAME = "rename it: `shardfeed relabel DATASET OUT --map FILE`"  # a remedy for the name of a class
OTHER_SPLITS = "`shardfeed split DATASET OUT --split train=0.5,validation=0.5` makes other splits"
TRIMMED = re.compile(r"\A\s|\s\Z")  # blanks that readers of cells remove
NO_LINE = re.compile(r"\A[\s\ufeff]|\s\Z|[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # in no name on a line of its own
_AREA_PRECISION = 1e-3  # relative; fractions of float32 are a hundred times as precise in images of 10,000 pixels
# The words for data that may be left out; other data has its feature key.
_WORDS: Mapping[str, Collection[str]] = {"classes": (LABEL, TEXT), **{kind.word: kind.features for kind in KINDS}}
_TEXTS = {LABEL: TEXT, OBJECT_LABEL: OBJECT_TEXT, RASTER: RASTER_FORMAT}  # that follow from another feature
_EXTENSIONS = {b"jpeg": b".jpg", b"png": b".png", b"raw": b".png"}


@dataclass(frozen=True)
class DroppedFeatures:
    """`keys`: the keys of features that are left out, by word. `storable`: features that the format can store.

    `twins`: whether an image may have two equal objects. `to`: name of the format.
    """

    to: str
    keys: Mapping[str, tuple[str, ...]]
    twins: bool
    storable: frozenset[str]

    def duplicates_error(self, where: object) -> UsageError:
        """The error for two equal objects of a record."""
        return _refusal(self.to, ("twins",), {"twins": ("identical objects",)}, where)


def losses_of(
    to: str, schema: Schema, storable: Collection[str], drop: Collection[str], *, own_ids: bool, where: str
) -> DroppedFeatures:
    """List the features of `schema` that `to` leaves out. `storable`: keys of the features that it can hold.

    `drop`: words or keys that the user agrees to lose. `own_ids`: whether `image/source_id` is more than a count.
    Raise UsageError naming all words that are missing in `drop`, or a word in it that names nothing that is left out.
    """
    holds = {*storable, *(text for key, text in _TEXTS.items() if key in storable)}
    holds |= {key for key in schema.features if _label_of(key, schema) in storable}
    lost = [key for key in schema.features if key not in holds and key not in IMAGE_KEYS]
    words: dict[str, tuple[str, ...]] = {}
    if any(key.startswith(OBJECTS) for key in lost) and XMIN not in holds:
        words["boxes"] = tuple(sorted(key for key in lost if key.startswith(OBJECTS)))
        lost = [key for key in lost if not key.startswith(OBJECTS)]
    for key in sorted(lost):
        word = next((word for word, keys in _WORDS.items() if key in keys), _label_of(key, schema))
        words[word] = tuple(sorted({*words.get(word, ()), key}))
    needed = [*words, *(["ids"] if own_ids and SOURCE_ID not in holds else [])]
    wanted = {*words, "ids", "twins"} if ALL in drop else set(drop)
    if lacking := [word for word in needed if word not in wanted]:
        raise _refusal(to, lacking, {**words, "ids": (SOURCE_ID,)}, where)
    for word in sorted(wanted - {ALL}):
        if word not in words and word not in ("ids", "twins"):
            can = f"{to} leaves out only {', '.join(needed)}" if needed else f"{to} can store all of it"
            raise UsageError("drop", f"got {escape(word)!r}: {can}", "remove it from the list")
    return DroppedFeatures(to, words, "twins" in wanted, frozenset(holds))


def _label_of(key: str, schema: Schema) -> str:
    """Key of the label that a text feature names, as both go together; for any other feature its own key."""
    prefix, _, last = key.rpartition("/")
    return f"{prefix}/label" if last == "text" and f"{prefix}/label" in schema.class_names else key


def _refusal(to: str, lacking: Collection[str], keys: Mapping[str, tuple[str, ...]], where: object) -> UsageError:
    such = {word: f" ({keys[word][0]}{', ...' * (len(keys[word]) > 1)})" for word in lacking}
    shown = [word + such[word] * (word not in keys[word]) for word in lacking]
    drop = argument("drop", python=f"drop={sorted(lacking)!r}", typed=",".join(lacking))
    remedy = f"use another format, or leave them out: {drop}"
    return UsageError(where, f"{to} cannot store its {', '.join(shown)}", remedy)


@dataclass(frozen=True)
class ExportRecord:
    """One record: `image` is a file's bytes, `values` all else, by key. `place`: in its split, from 0.

    `key`: the record's name, or None.
    """

    split: Split
    place: int
    key: bytes | None
    image: bytes
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        """Name of the record in error messages."""
        return self.split.where(self.place)

    @property
    def extension(self) -> bytes:
        """File extension for an image of this format."""
        kind = bytes(self.values.get(FORMAT, b""))
        return _EXTENSIONS.get(kind, b".png" if self.image.startswith(b"\x89PNG") else b".jpg")

    @cached_property
    def size(self) -> tuple[int, int]:
        """(width, height), pixels. Raises RecordError if the size is unknown."""
        if WIDTH in self.values and HEIGHT in self.values:
            return int(self.values[WIDTH]), int(self.values[HEIGHT])
        try:
            with Image.open(io.BytesIO(self.image)) as image:
                return image.size
        except Exception as error:  # whatever Pillow raises for a damaged file
            raise RecordError(self.where, f"the size of its image is unknown: {error}") from None

    @cached_property
    def boxes(self) -> np.ndarray:
        """float64 [n, 4]: left, top, right, bottom, fractions of the image."""
        return np.stack([np.asarray(self.values[side], np.float64) for side in BOX], axis=-1)

    def text(self, name: bytes, what: str) -> str:
        """Decode a value. Raise UsageError if it is not UTF-8."""
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise UsageError(self.where, f"{what} is not UTF-8, which this format cannot store") from None


class ExportRecords:
    """The records of a dataset, in stored order. `schema`: under TensorFlow's own keys, where the dataset has aliases.

    `left_out`: values that were left out so far, by what `losses` calls them. Raises UsageError for a dataset without
    image files or pixels.
    """

    fits: "tuple[type[ExportFormat], ...]" = ()  # formats that can store the dataset and its splits, for remedies

    def __init__(self, data: Dataset) -> None:
        self._data = data
        own = data.manifest.schema
        self._names = {key: feature.alias or key for key, feature in own.features.items()}
        # Readers of names of others know both; here every key is that of the usual meaning.
        self.schema: Schema = replace(
            own,
            features={self._names[key]: replace(feature, alias=None) for key, feature in own.features.items()},
            class_names={self._names[key]: names for key, names in own.class_names.items()},
            class_ids={self._names[key]: ids for key, ids in own.class_ids.items()},
        )
        feature = self.schema.features.get(ENCODED)
        if feature is None or feature.dtype != "bytes" or not feature.scalar:
            raise UsageError(data.directory, f"has no {ENCODED}: there are no images to export")
        self.splits = tuple(name for name in in_usual_order(data) if len(data[name]))
        self.left_out: Counter[str] = Counter()
        self.without_loss: frozenset[str] = frozenset()  # words that were left out with no data behind them
        self._counted = {name for name in self.splits if _counted(data, name)}

    def keeping_paths(self, form: "type[ExportFormat]") -> list[str]:
        """Formats that can store the dataset and keep apart what `form` gives the same path; none if it keeps paths."""
        return [] if form.WHOLE_PATHS else [other.NAME for other in self.fits if other.WHOLE_PATHS]

    @property
    def directory(self) -> str:
        """Directory of the dataset."""
        return self._data.directory

    @property
    def counts(self) -> dict[str, int]:
        """Records by split, without splits that have none."""
        return {name: len(self._data[name]) for name in self.splits}

    def occur(self, key: str) -> bool:
        """Whether each class of a label occurs in the records."""
        own = next((own for own, name in self._names.items() if name == key), key)
        counts = [self._data[name].class_counts.get(own, ()) for name in self.splits]
        return bool(counts) and all(map(any, zip(*counts, strict=True))) and any(map(len, counts))

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return sum(self._data[name].record_bytes for name in self.splits)

    def first(self, split: str) -> ExportRecord:
        """The first record of a split, with all that it has. Raises RecordError, IntegrityError."""
        return self._item(self._data[split], 0)

    @property
    def stored(self) -> dict[str, Any]:
        """The options by which images are stored again as they are: with pixels, with 16 bits."""
        formats = {kind for name in self.splits for kind in self._data[name].formats}
        return {"encode": "raw"} if "raw" in formats else {"keep_depth": True} if PNG16 in formats else {}

    @property
    def own_ids(self) -> bool:
        """Whether any record may have a number that its source had for the image."""
        return SOURCE_ID in self.schema.features and not self._counted.issuperset(self.splits)

    def __call__(self, losses: DroppedFeatures) -> Iterator[ExportRecord]:
        """All objects, without the data that `losses` leaves out. Raises RecordError, IntegrityError for damage."""
        for name in self.splits:
            split = self._data[name]
            for place in range(len(split)):
                yield self._without(self._item(split, place), losses)

    def without_content(self, kinds: Mapping[str, Collection[str]]) -> list[str]:
        """List the words of `kinds`, whose features are given, of which no record has anything that could be lost.

        Reads the records until all words have some. Areas are lost unless they are those of the boxes, crowds and
        key points if there are any, ids unless they number the images of each split without gaps.
        """
        left = {word: [*keys] for word, keys in kinds.items()}
        if "ids" in left and not self._ids_are_counts():
            del left["ids"]
        for name in self.splits:
            for place in range(len(self._data[name]) if left.keys() - {"ids"} else 0):
                item = self._item(self._data[name], place)
                left = {
                    word: keys for word, keys in left.items() if word == "ids" or not _has_content(word, keys, item)
                }
        return sorted(left)

    def _ids_are_counts(self) -> bool:
        for name in self.splits:
            numbers = id_numbers(self._data[name])
            if numbers is None or (np.diff(np.sort(numbers)) != 1).any():
                return False
        return True

    def _item(self, split: Split, place: int) -> ExportRecord:
        record = split[place]
        values: dict[str, Any] = {self._names[key]: value for key, value in record.items() if key in self._names}
        image = bytes(values.pop(ENCODED))
        if bytes(values.get(FORMAT, b"")) == b"raw":
            image = _png(image, values, split, place)
        key = values.get(FILENAME)
        return ExportRecord(split, place, bytes(key) if isinstance(key, bytes) else None, image, values)

    def _without(self, item: ExportRecord, losses: DroppedFeatures) -> ExportRecord:
        values = dict(item.values)
        for name, keys in losses.keys.items():
            there = [key for key in keys if key in values]
            if there:
                self.left_out[name] += _count(name, values, there[0])
        if "crowds" in losses.keys and IS_CROWD in values:
            values = _single(values)
        if SOURCE_ID in values and SOURCE_ID not in losses.storable and item.split.name not in self._counted:
            self.left_out["ids"] += 1
        for key in (key for keys in losses.keys.values() for key in keys):
            values.pop(key, None)
        return replace(item, values=values)


def _counted(data: Dataset, name: str) -> bool:
    """Whether a split's records are numbered by their places, by a conversion's count or as if by one."""
    if SOURCE_ID not in data.manifest.schema.features or ids_were_counted(data, name):
        return True
    numbers = None if COUNTED_IDS in data.manifest.options else id_numbers(data[name])
    return numbers is not None and bool((numbers == np.arange(len(numbers))).all())


def _has_content(word: str, keys: Collection[str], item: ExportRecord) -> bool:
    """Whether a record would lose something without the features `keys`, which `word` stands for."""
    if word == "crowds":
        return bool(np.any(item.values[IS_CROWD]))
    if word == "keypoints":
        return bool(np.any(item.values[KEYPOINT_VISIBILITY]))
    if word == "areas":
        return not _areas_are_those_of_boxes(item)
    return any(np.isscalar(item.values[key]) or len(item.values[key]) for key in keys if key in item.values)


def _areas_are_those_of_boxes(item: ExportRecord) -> bool:
    """Whether each area, in pixels, is that of the box, but for the precision of float32."""
    width, height = item.size
    left, top, right, bottom = item.boxes.T
    boxes = (right - left) * width * (bottom - top) * height
    return bool(np.allclose(np.asarray(item.values[OBJECT_AREA], np.float64), boxes, rtol=_AREA_PRECISION, atol=0))


def _count(name: str, values: Mapping[str, Any], key: str) -> int:
    """Count what is left out: crowds, keypoints that are present, otherwise values."""
    if name == "crowds":
        return int(np.sum(values[IS_CROWD]))
    if name == "keypoints":
        return int(np.count_nonzero(values[KEYPOINT_VISIBILITY]))
    if name == "boxes":
        return len(values[XMIN])
    value = values[key]
    return 1 if np.isscalar(value) or isinstance(value, bytes) else len(value)


def _single(values: dict[str, Any]) -> dict[str, Any]:
    """Remove the objects that are crowds from a copy of `values`."""
    keep = np.flatnonzero(np.asarray(values[IS_CROWD]) == 0)
    count = len(values[IS_CROWD])
    if len(keep) == count:
        return values
    found = dict(values)
    for key, value in values.items():
        if not key.startswith("image/object/"):
            continue
        if isinstance(value, list):
            found[key] = [value[i] for i in keep]
        else:
            found[key] = np.asarray(value).reshape(count, -1)[keep].reshape(-1)
    return found


def _png(pixels: bytes, values: Mapping[str, Any], split: Split, place: int) -> bytes:
    """Raw pixels as a PNG file: the only lossless format that all readers have."""
    height, width = int(values.get(HEIGHT, 0)), int(values.get(WIDTH, 0))
    if height * width * 3 != len(pixels) or not pixels:
        problem = f"raw pixels: got {len(pixels)} bytes, expected {height} x {width} x 3"
        raise IntegrityError(split.where(place), problem, "restore the dataset from a copy")
    return encode_png(Image.frombytes("RGB", (width, height), pixels))


WORDS = {"train": "train", "validation": "val", "test": "test"}  # what most tools call a split


def tool_words(splits: Collection[str]) -> dict[str, str]:
    """Return the word of most tools for each split; its own name if they have none, or have one for two splits."""
    usual = renamed_splits(splits, WORDS)
    words = {split: WORDS.get(usual[split], split) for split in splits}
    uses = Counter(words.values())
    return {split: word if uses[word] == 1 else split for split, word in words.items()}


_PATHS = ("images", "labels", "class_names")  # arguments that name files of the export


@dataclass(frozen=True)
class ReconvertCommand:
    """Arguments that convert an export again: `open_source(path, **options)`, paths relative to the export's folder."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, root: str) -> tuple[str, dict[str, Any]]:
        """The path and the arguments of `open_source`, for an export in `root`."""
        options = {key: os.path.join(root, value) if key in _PATHS else value for key, value in self.options.items()}
        return os.path.join(root, self.path) if self.path else root, options

    def command(self, root: str, stored: Mapping[str, Any]) -> str:
        """The command that does it; `stored`: the options of images."""
        path, options = self.arguments(root)
        options |= stored
        words = ["shardfeed convert", shell_quoted(path), "NEW"]
        for key, value in options.items():
            flag = f"--{(key.removesuffix('s') if key.endswith('columns') else key).replace('_', '-')}"
            words += [flag] if value is True else [f"{flag} {shell_quoted(text)}" for text in _typed(key, value)]
        return " ".join(words)


def _typed(key: str, value: Any) -> list[str]:
    """Texts to type after a flag; the flag is repeated for each."""
    if key == "tasks":
        return [",".join(value)]
    if key == "number_columns":
        return [f"{name}:{'int' if feature.dtype == 'int64' else 'float'}" for name, feature in value.items()]
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    return list(value) if isinstance(value, list) else [str(value)]


_FORMULA_SIGNS = ("=", "@", "\t", "\r", "\n")  # as OWASP lists them; "+" and "-" only where no number follows


class RestoredPart(NamedTuple):
    """Values that a conversion of the export restores: `features` of each image, and its objects if `objects`.

    `prefix`: prepended to the keys that `ExportFormat.add` gives.
    """

    features: Collection[str] = ()
    objects: bool = False
    prefix: bytes = b""


class ExportFormat:
    """One format, for one export. `notes`: sentences for the report. `parts`: the content of each later conversion.

    `storable(items)` returns the features of a dataset that the format can store; empty if its main content is missing.
    `add` writes a record and returns the key that its image gets when it is converted again. `finish` writes the rest,
    and returns how to read each part. Both raise UsageError for data that cannot be written.
    """

    NAME: ClassVar[str]
    NEEDS: ClassVar[str]
    SIDE_FILES: ClassVar[int] = 0  # beside each image
    ANY_CLASS: ClassVar[bool] = False  # whether classes may differ only in how Unicode composes them
    ANY_NAME: ClassVar[bool] = True  # whether names of images with blanks at their ends can be stored
    WHOLE_PATHS: ClassVar[bool] = False  # whether names of images never become the same

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        self.items, self._tree, self._losses = items, tree, losses
        self.notes: list[str] = []
        self.parts: list[RestoredPart] = []
        self._seen: set[str] = set()  # the objects of an image
        self._check_splits()

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        raise NotImplementedError

    def add(self, item: ExportRecord) -> bytes:
        raise NotImplementedError

    def finish(self) -> list[ReconvertCommand]:
        raise NotImplementedError

    def class_names(self, key: str) -> tuple[str, ...]:
        """Class names of a label. Raise UsageError if there are none, or if one begins or ends with a blank."""
        names, place = self.items.schema.class_names.get(key, ()), self.items.directory
        if not names:
            raise UsageError(place, f"{key} has no class names, which {self.NAME} needs", "name them in the dataset")
        blank = [name for name in names if name != name.strip()]
        if blank:
            raise UsageError(place, f"the class {escape(blank[0])!r} begins or ends with a space", RENAME)
        if not self.ANY_CLASS:
            self._check_texts(names)
        return names

    def _check_texts(self, names: Sequence[str]) -> None:
        """Raise UsageError for two classes that class lists take for one: the same letters, composed otherwise."""
        seen: dict[str, str] = {}
        for name in names:
            twin = seen.setdefault(unicodedata.normalize("NFC", name), name)
            if twin != name:
                problem = f"two classes are both written '{escape(name)}', in other characters of Unicode"
                raise UsageError(self.items.directory, problem, RENAME)

    @classmethod
    def lost_split(cls, items: ExportRecords) -> str:
        """The first split that would be read as another one, or as none, by its name; "" if all are kept."""
        words = tool_words(items.splits)
        return next((split for split, word in words.items() if word not in WORDS.values()), "")

    def _check_splits(self) -> None:
        if split := self.lost_split(self.items):
            problem = f"got the split {escape(split)}, whose name {self.NAME} cannot keep"
            remedy = self.other_formats("NAME", "which keeps it")
            raise UsageError(self.items.directory, problem, remedy or OTHER_SPLITS)

    def usual_words(self) -> dict[str, bytes]:
        """Folder or file name of each split."""
        return {split: word.encode() for split, word in tool_words(self.items.splits).items()}

    def other_formats(self, able: str, why: str) -> str:
        """A remedy: export to a format that fits the dataset and is `able` to, which `why` says; "" without one."""
        names = [form.NAME for form in self.items.fits if getattr(form, able) and form is not type(self)]
        return f"export to {' or '.join(names)}, {why}" if names else ""

    def check_line(self, name: bytes, unfit: re.Pattern[str], item: ExportRecord) -> None:
        """Raise UsageError for the name of an image that cannot be a line or a cell of a text file."""
        if unfit.search(name_text(name)):
            problem = f"{self.NAME} cannot store its name {escape(name)!r}: a blank at an end, or a control character"
            raise self.name_error(item, problem)

    def name_error(self, item: ExportRecord, problem: str) -> UsageError:
        """The error for an image whose name this format cannot store."""
        remedy = self.other_formats("ANY_NAME", "which keeps such names")
        return UsageError(item.where, problem, remedy or "rename the file in the source, and convert it again")

    def folder_words(self, part: int) -> dict[str, bytes]:
        """Like `usual_words`, but keep the word that keys have as their part number `part`, if it means the split.

        So images that were converted from such folders get the same names again.
        """
        words = self.usual_words()
        for split in words:
            parts = (self.items.first(split).key or b"").split(b"/")
            if len(parts) > part + 1 and usual_split(parts[part]) == usual_split(split):
                words[split] = parts[part]
        return words

    def write_lines(self, file: str, lines: Sequence[str]) -> None:
        """Write a text file, such as a class list, one per line in label order."""
        self._tree.write(file.encode(), "".join(f"{line}\n" for line in lines).encode(), file)

    def write_classes(self, name: str, classes: Sequence[str]) -> str:
        """Write a class list, `name` without its extension, and return its file.

        It has a name on each line, as other tools expect, and is JSON only where lines would be read as other classes.
        """
        self._check_texts(classes)
        file, text = f"{name}.txt", "".join(f"{each}\n" for each in classes)
        if not lists_classes(text, classes):
            file, text = f"{name}.json", json.dumps([*classes], ensure_ascii=False, indent=1) + "\n"
        self._tree.write(file.encode(), text.encode(), file)
        return file

    def note_formulas(self, rows: int) -> None:
        """Note how many rows of a table have a text that a spreadsheet evaluates: a sign before it would change it."""
        if rows:
            texts = "1 row has a text" if rows == 1 else f"{rows:,} rows have texts"
            how = "evaluates as a formula, as it is: import the table with all columns as text"
            self.notes.append(f"{texts} that a spreadsheet {how}")

    def is_twin(self, text: str, item: ExportRecord) -> bool:
        """Whether an earlier object of the image is the same in this format, which would merge them: it is left out.

        Raise UsageError for one unless the user drops "twins".
        """
        if text not in self._seen:
            self._seen.add(text)
            return False
        if not self._losses.twins:
            raise self._losses.duplicates_error(item.where)
        self.items.left_out.update(["twins"])
        return True


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet evaluates the text of a cell instead of showing it. A number is none."""
    if not cell.startswith(("+", "-")):
        return cell.startswith(_FORMULA_SIGNS)
    try:
        float(cell)
    except ValueError:
        return True
    return False


def image_name(item: ExportRecord) -> bytes:
    """The path of a record's image below the folder of all: its key, changed where conversions would pass it over.

    Raises UsageError for one that leaves the folder or is no path.
    """
    key = item.key
    if key is None:
        return b"%s-%08d%s" % (item.split.name.encode(), item.place, item.extension)
    check_name(key, item.where)
    name = b"/".join(b"_" + part if is_hidden(part) else part for part in key.split(b"/"))
    return name if names_image(name) else name + item.extension


def stem(name: bytes) -> bytes:
    """A path without its extension."""
    return posixpath.splitext(name)[0]


def name_of(names: tuple[str, ...], label: Any, item: ExportRecord, key: str) -> str:
    """The name of a label. Raises UsageError for one that has none."""
    number = int(label)
    if not 0 <= number < len(names):
        problem = f"{key} is {number}, expected 0 to {len(names) - 1}"
        raise UsageError(item.where, problem, "remove such records first")
    return names[number]


def number_text(value: float) -> str:
    """The shortest decimal that is read as the same float64, without a decimal point for whole numbers."""
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))


def object_keys(schema: Schema, *more: str) -> frozenset[str]:
    """Keys of the boxes and classes of objects, and those of `more` in the schema; none if boxes have no class."""
    keys = schema.object_keys
    if OBJECT_LABEL not in keys:
        return frozenset()
    return frozenset({*BOX, OBJECT_LABEL, *(key for key in more if key in keys)})

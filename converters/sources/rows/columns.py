"""Columns of whole samples: compact arrays, and what makes them value by value.

Names of rows: their own, as long as all have one and no two the same; else those of their file and number.
`Labels`: the classes of samples, collected as texts, numbered once all are known.
"""

import operator
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, overload

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, NamesFile, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.options import ColumnOptions, Options, naming
from shardfeed.converters.sources.rows.evidence import By, check_classes
from shardfeed.errors import UsageError, argument, escape, name_bytes, shown
from shardfeed.naming import name_problem
from shardfeed.schema import Feature, Schema, Value
from shardfeed.text import counted

EXACT = 2**24  # the largest whole number up to which all have a float32, as which evaluators carry image ids
_TEXTS, _NUMBERS, _LISTS = (str, bytes), (int, float), (list, tuple)
_FLOAT32_MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """Labels: features `<prefix>/label` (int64, 0-based) and `<prefix>/text` (bytes, the class name in UTF-8).

    `numbers` int64 [n], or, where a sample has any number of labels, [m] with `ends` int64 [n + 1]:
    sample i has `numbers[ends[i]:ends[i + 1]]`. `tags`: whether those are a set, in which none comes twice. `ids`: the
    numbers that classes have in their source, in label order, where those are others.
    """

    prefix: str
    names: tuple[str, ...]
    numbers: np.ndarray
    ends: np.ndarray | None = None
    tags: bool = False
    ids: tuple[int, ...] = ()

    @property
    def features(self) -> dict[str, Feature]:
        """The two features and their shapes."""
        shape = () if self.ends is None else (None,)
        return {
            f"{self.prefix}/label": Feature("int64", shape, "tags" if self.tags else "label"),
            f"{self.prefix}/text": Feature("bytes", shape, "text"),
        }

    def values(self, index: int) -> dict[str, Value]:
        """Label and text of sample `index`."""
        found = _at(self.numbers, self.ends, index)
        if isinstance(found, list):
            texts = [self.names[number].encode("utf-8") for number in found]
            return {f"{self.prefix}/label": found, f"{self.prefix}/text": texts}
        return {f"{self.prefix}/label": found, f"{self.prefix}/text": self.names[found].encode("utf-8")}


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Numbers that are not labels: one feature `key`. `numbers` int64 or float32; `ends` as in ClassColumn.

    `kind`: "number", or "place" for positions in the image. `count`: fixed number of values per sample, if there are
    `ends` and it is not a coincidence.
    """

    key: str
    numbers: np.ndarray
    ends: np.ndarray | None = None
    kind: Literal["number", "place"] = "number"
    count: int | None = None

    @property
    def features(self) -> dict[str, Feature]:
        """The feature, its dtype and shape."""
        dtype = "int64" if self.numbers.dtype == np.int64 else "float32"
        return {self.key: Feature(dtype, () if self.ends is None else (self.count,), self.kind)}

    def values(self, index: int) -> dict[str, Value]:
        """The number or numbers of sample `index`."""
        return {self.key: _at(self.numbers, self.ends, index)}


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Texts that are no classes: one feature `key`, bytes, in UTF-8.

    `texts`: each different text once; `numbers` int64: places in it, with `ends` as in ClassColumn.
    """

    key: str
    texts: Sequence[bytes]
    numbers: np.ndarray
    ends: np.ndarray | None = None

    @property
    def features(self) -> dict[str, Feature]:
        """The feature and its shape."""
        return {self.key: Feature("bytes", () if self.ends is None else (None,), "text")}

    def values(self, index: int) -> dict[str, Value]:
        """The text or texts of sample `index`."""
        found = _at(self.numbers, self.ends, index)
        return {self.key: [self.texts[n] for n in found] if isinstance(found, list) else self.texts[found]}


ListedColumn = ClassColumn | NumberColumn | TextColumn
_Column = TypeVar("_Column", ClassColumn, NumberColumn, TextColumn)


def take(column: _Column, samples: np.ndarray) -> _Column:
    """The same feature of other samples: int64 [n], places in those of `column`, each any number of times."""
    if column.ends is None:
        return replace(column, numbers=column.numbers[samples])
    counts = np.diff(column.ends)[samples]
    ends = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(ends[-1]) + np.repeat(column.ends[samples] - ends[:-1], counts)
    return replace(column, numbers=column.numbers[places], ends=ends)


def feature_key(name: str) -> str:
    """The feature of a column or key: `image/` and its name, which may have the `image/` already."""
    return f"image/{name.removeprefix('image/')}"


def ragged(rows: Sequence[Sequence[Any]], dtype: type[np.generic]) -> tuple[np.ndarray, np.ndarray]:
    """The values of all rows, [m], and `ends` as of ClassColumn."""
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.array([item for row in rows for item in row], dtype), ends


def schema_of(columns: Sequence[ListedColumn]) -> Schema:
    """Build the schema of `columns`: their features, and the names and ids of classes."""
    classes = {f"{column.prefix}/label": column for column in columns if isinstance(column, ClassColumn)}
    return Schema(
        {key: feature for column in columns for key, feature in column.features.items()},
        {key: column.names for key, column in classes.items()},
        {key: column.ids for key, column in classes.items() if column.ids},
    )


def values_at(columns: Sequence[ListedColumn], index: int) -> dict[str, Value]:
    """Return the values of sample `index` in all `columns`, by feature key."""
    found: dict[str, Value] = {}
    for column in columns:
        found |= column.values(index)
    return found


def sample_number(index: int, count: int) -> int:
    """Convert an index of a source to 0 to count - 1. Raises IndexError, UsageError unless it is an integer."""
    try:
        index = operator.index(index)
    except Exception:  # also of its own methods
        raise UsageError("index", f"got {shown(index)}, expected an integer") from None
    if not -count <= index < count:
        raise IndexError(f"sample {shown(index)} of {count}")
    return index % count


def _at(numbers: np.ndarray, ends: np.ndarray | None, index: int) -> int | list[int]:
    # .item and .tolist give Python's own numbers: int for int64, float for float32.
    return numbers.item(index) if ends is None else numbers[ends[index] : ends[index + 1]].tolist()


@dataclass(frozen=True, eq=False)
class Splits:
    """The split of each sample: `names[numbers[i]]`, `numbers` int8 or int64 [n]. None: the plan decides.

    `unassigned`: whether the source says so itself, as AutoML's UNASSIGNED; else it says nothing of these samples.
    """

    names: tuple[str | None, ...]
    numbers: np.ndarray
    unassigned: bool = False

    @classmethod
    def coded(cls, splits: Iterable[str | None], codes: np.ndarray) -> "Splits":
        """Make the splits of samples with the splits `splits[code]`; two of those may be the same."""
        of_code = [*splits]
        names = sorted(set(of_code), key=lambda name: (name is None, name))
        places = {name: place for place, name in enumerate(names)}
        return cls(tuple(names), np.array([places[name] for name in of_code], np.int64)[codes])

    @classmethod
    def of(cls, split_of: Sequence[str | None]) -> "Splits":
        """Make the splits from the split of each sample."""
        return cls.coded(split_of, np.arange(len(split_of)))


def as_array(numbers: "array[Any]") -> np.ndarray:
    """The numbers as an array of their type, [n], in the same memory: no more can be appended."""
    return np.frombuffer(numbers, numbers.typecode) if len(numbers) else np.zeros(0, numbers.typecode)


def repeated(values: np.ndarray) -> np.ndarray:
    """The values that occur more than once, sorted."""
    ordered = np.sort(values)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


class ByteStrings(Sequence[bytes]):
    """Many byte strings, concatenated, with 8 more bytes for each; `add` appends one."""

    def __init__(self, strings: Iterable[bytes] = ()) -> None:
        self._blob, self._ends = bytearray(), array("q", [0])
        for string in strings:
            self.add(string)

    def add(self, string: bytes) -> None:
        """Append one."""
        self._blob += string
        self._ends.append(len(self._blob))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self._ends) - 1:
            index = sample_number(index, len(self))
        return bytes(self._blob[self._ends[index] : self._ends[index + 1]])


class UnlikeError(Exception):
    """A value of another kind than those before it, or one that no feature holds; the message is a clause."""


class Values:
    """A feature `key` of all samples, value by value: texts, or numbers, or lists of either; all alike.

    `floats`: whether all numbers are float32; else those are where one has a point. Raises UnlikeError for a value of
    another kind, and for a number that its feature cannot say exactly.
    """

    def __init__(self, key: str, *, lists: bool | None = None, floats: bool = False) -> None:
        self.key, self._lists = key, lists
        self._texts: ByteStrings | None = None
        self._numbers: Any = array("d") if floats else None
        self._inexact: int | None = None  # the first integer that float32 cannot represent
        self._ends = array("q", [0])

    def add(self, value: Any) -> None:
        """Append the value of one sample."""
        listed = isinstance(value, _LISTS)
        if self._lists is None:
            self._lists = listed
        if listed != self._lists:
            raise UnlikeError(f"got {'a list' if listed else 'one value'}, unlike earlier samples")
        items = value if listed else (value,)
        read = [self._read(item) for item in items]
        if listed and len({isinstance(item, bytes) for item in read}) > 1:
            raise UnlikeError("got a list of texts and numbers, expected one kind")
        for item in read:
            if isinstance(item, bytes):
                self._texts = self._texts if self._texts is not None else ByteStrings()
                self._texts.add(item)
                continue
            if self._numbers is None:
                self._numbers = array("d" if isinstance(item, float) else "q")
            if isinstance(item, float) and self._numbers.typecode == "q":
                self._numbers = array("d", self._numbers)
            self._numbers.append(item)
        self._ends.append(self._ends[-1] + len(items))

    def _read(self, item: Any) -> bytes | int | float:
        """A value as it is stored."""
        text = isinstance(item, _TEXTS)
        if not text and not isinstance(item, _NUMBERS):
            raise UnlikeError(f"got {'null' if item is None else type(item).__name__}, expected a text or a number")
        if (self._texts if not text else self._numbers) is not None:
            raise UnlikeError(f"got a {'text' if text else 'number'}, unlike earlier samples")
        if text:
            try:
                return item.encode() if isinstance(item, str) else item
            except UnicodeEncodeError:
                raise UnlikeError(f"got '{escape(item[:40])}', which is not UTF-8") from None
        if isinstance(item, int):
            if not -(2**63) <= item < 2**63:
                raise UnlikeError(f"got {item}, expected a number that fits int64")
            if self._inexact is None and abs(item) > EXACT and int(np.float32(item)) != item:
                self._inexact = item
        elif _FLOAT32_MOST < abs(item) < float("inf"):
            raise UnlikeError(f"got {item:g}, expected a number that fits float32")
        if self._inexact is not None and (
            isinstance(item, float) or (self._numbers is not None and self._numbers.typecode == "d")
        ):
            raise UnlikeError(f"got {self._inexact} among fractions, and float32 cannot represent it exactly")
        return item

    def column(self) -> "ListedColumn":
        """The feature: bytes of the kind "text", int64, or float32 where a value has a point."""
        ends = as_array(self._ends) if self._lists else None
        if self._numbers is not None:
            dtype = np.float32 if self._numbers.typecode == "d" else np.int64
            return NumberColumn(self.key, as_array(self._numbers).astype(dtype, copy=False), ends)
        texts = self._texts if self._texts is not None else ByteStrings()
        small = len(texts) < 1 << 31
        return TextColumn(self.key, texts, np.arange(len(texts), dtype=np.int32 if small else np.int64), ends)


class Codes:
    """A column of texts, many of them alike, as a number each. `values`: each different one, as it first came.

    `lists`: whether a sample has any number of them, each once.
    """

    def __init__(self, *, lists: bool = False) -> None:
        self.values: dict[str, int] = {}
        self._codes, self._ends = array("i"), array("q", [0]) if lists else None

    def add(self, text: str) -> None:
        """Append the text of one sample."""
        self._codes.append(self.values.setdefault(text, len(self.values)))

    def add_all(self, texts: Iterable[str]) -> None:
        """Append the texts of one sample, of a column of lists."""
        assert self._ends is not None
        for text in dict.fromkeys(texts):
            self.add(text)
        self._ends.append(len(self._codes))

    def add_many(self, texts: Sequence[str], places: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Append the texts of many samples: `texts[place]` for each place; of a column of lists `counts` a sample."""
        codes = np.array([self.values.setdefault(text, len(self.values)) for text in texts], np.int32)
        self._codes.frombytes(codes[places].tobytes())
        if self._ends is not None and counts is not None:
            self._ends.frombytes((self._ends[-1] + np.cumsum(counts, dtype=np.int64)).tobytes())

    @property
    def ends(self) -> np.ndarray | None:
        """int64 [n + 1]: sample i has `codes[ends[i]:ends[i + 1]]`; None if each sample has one."""
        return None if self._ends is None else as_array(self._ends)

    @property
    def codes(self) -> np.ndarray:
        """int32 [n]: places in `values`."""
        return as_array(self._codes)


class ClassMarks:
    """Rows of one 0 or 1 per class, of one width; `fits` until a row is something else, such as numbers of classes.

    Lists of class numbers are taken for marks only if all have one length, 2 or more, and no number but 0 and 1: as
    class numbers, each would hold 0 or 1 twice, or all samples would have the same two classes.

    `least`: the least width. `doubtful`: whether rows have only 0 and 1, one of them twice in a row, but more than one
    width.
    """

    def __init__(self, least: int = 2) -> None:
        self.fits, self.width, self.doubtful = True, 0, False
        self._least, self._only, self._twice = least, True, False
        self._ones, self._counts = array("i"), array("q")

    def add(self, row: Sequence[str]) -> None:
        """Append the marks of one sample, as digits."""
        self.width = self.width or len(row)
        self._only = self._only and all(mark in ("0", "1") for mark in row)
        self._twice = self._twice or len({*row}) < len(row)
        self.fits = self.fits and self._only and len(row) == self.width >= self._least
        self.doubtful = self._only and self._twice and not self.fits
        if self.fits:
            ones = [place for place, mark in enumerate(row) if mark == "1"]
            self._ones.extend(ones)
            self._counts.append(len(ones))

    def end(self) -> None:
        """Take no marks: something shows that the lists are of classes."""
        self.fits = self._only = self.doubtful = False

    def add_many(self, ones: np.ndarray, counts: np.ndarray, width: int) -> None:
        """Append the marks of many samples: int32, the classes marked 1; int64 [n], their number in each sample."""
        self.width = width
        self._ones.frombytes(ones.astype(np.int32).tobytes())
        self._counts.frombytes(counts.astype(np.int64).tobytes())

    def codes(self) -> tuple["Codes", str]:
        """The labels, as numbers of these classes: one each if every row has a single 1, else a set; a note on them."""
        counts = as_array(self._counts)
        single = bool((counts == 1).all())
        codes = Codes(lists=not single)
        codes.add_many([*map(str, range(self.width))], as_array(self._ones), None if single else counts)
        if single:
            return codes, "one-hot, so the label is the column of the one"
        ones = f"{counts.min()} to {counts.max()} ones per row"
        return codes, f"{ones}, so a sample has several classes, one per column with a one"


@dataclass(frozen=True, eq=False)
class NumberedKeys:
    """Names of samples by their file and number: `train-0/00000017.jpg`."""

    numbered = True  # so lists of names cannot name them
    prefixes: tuple[str, ...]
    digits: int
    endings: Sequence[bytes]
    file_of: np.ndarray
    record_of: np.ndarray
    ending_of: Any

    def __len__(self) -> int:
        return len(self.file_of)

    def __getitem__(self, index: int, /) -> bytes:
        name = f"{self.prefixes[self.file_of.item(index)]}{self.record_of.item(index):0{self.digits}}"
        return name_bytes(name) + self.endings[self.ending_of[index]]


class RowNames:
    """Collector of the name and the ending of each row; `prefixes` of files and `digits` are of numbered names."""

    def __init__(self, prefixes: Sequence[str], digits: int) -> None:
        self._prefixes, self._digits = prefixes, digits
        self._names: ByteStrings | None = ByteStrings()
        self._hashes = array("q")
        self._endings: dict[bytes, int] = {b"": 0}
        self._ending_of = array("B")

    def numbered(self, file: int, record: int) -> str:
        """Return the name, without its extension, of an unnamed row."""
        return f"{self._prefixes[file]}{record:0{self._digits}}"

    def add(self, name: bytes, ending: bytes) -> None:
        """Add the name of the next row. Once a row has no valid name, no names are kept."""
        self._ending_of.append(self._endings.setdefault(ending, len(self._endings)))
        if self._names is None:
            return
        key = name.replace(b"\\", b"/").removeprefix(b"./")
        if b"://" in key or name_problem(key):
            self._names, self._hashes = None, array("q")
            return
        if ending and not names_image(key):
            key += ending
        self._names.add(key)
        self._hashes.append(hash(key))

    def unique(self) -> ByteStrings | None:
        """The rows' own names; None if a row has none, or two rows have the same."""
        if self._names is None:
            return None
        hashes, self._hashes = as_array(self._hashes), array("q")
        again = set(repeated(hashes).tolist())
        met: set[bytes] = set()
        for name in self._names if again else ():
            if hash(name) in again:
                if name in met:
                    return None
                met.add(name)
        return self._names

    def numbers(self, file_of: np.ndarray, record_of: np.ndarray) -> NumberedKeys:
        """Names by file and number, of all rows."""
        return NumberedKeys(tuple(self._prefixes), self._digits, [*self._endings], file_of, record_of, self._ending_of)


CLASS = "image/class"  # the two features of the class of an image begin with it
_MOST_CLASSES = 1 << 20  # distinct numbers for which class names are kept


class ClassTexts:
    """The text for each class number, from most of the samples that have one."""

    def __init__(self) -> None:
        self._known: Counter[tuple[Any, Any]] = Counter()

    def add(self, labels: Sequence[Any], texts: Any) -> None:
        """Count the texts of a sample, if there are as many as labels."""
        texts = texts if isinstance(texts, list) else [texts]
        if len(texts) == len(labels) and len(self._known) < _MOST_CLASSES:
            self._known.update(zip(labels, texts, strict=True))

    def agreed(self, column: str, notes: list[str]) -> dict[int, str] | None:
        """Return the text of each number, and a note on numbers with several texts."""
        agreed: dict[int, str] = {}
        odd: list[str] = []
        for (label, text), _ in self._known.most_common():
            if isinstance(text, str) and text and agreed.setdefault(int(label), text) != text:
                odd.append(f"{int(label)}: {text!r}, not {agreed[int(label)]!r}")
        if odd:
            notes.append(counted(f"texts in {column} that differ from those of most samples", odd, len(odd)))
        return agreed or None


@dataclass(frozen=True, kw_only=True)
class KnownClasses:
    """The names and numbers that a source itself has for its classes.

    `place`: the file or folder, for errors; `column`: the name of the column that has them, if one has, and `kind`: the
    word for it. `what`: the same in a note on marks. `names`: in label order; `ids`: the
    numbers that they have there, if others. `beside`: names in another file. `by`: who says that these are classes;
    None: the format, so nothing is doubted. `refuse`: makes the error for a text that is no class; default: a
    UsageError of the place. `integers`: "names" where integers are names like any other, as folders have.
    """

    place: str = ""
    column: str = ""
    kind: Literal["column", "array"] = "column"
    what: str = ""
    names: Sequence[str] | None = None
    ids: Sequence[int] = ()
    beside: NamesFile | None = None
    by: By | None = None
    refuse: Callable[[BadLabelError], Exception] | None = None
    integers: Literal["labels", "names"] = "labels"

    @property
    def where(self) -> str:
        """The place with the column."""
        return f"{self.place}, {self.kind} {self.column}" if self.column else self.place

    def noted(self, notes: Iterable[str]) -> list[str]:
        """The notes with the column in front."""
        return [f"{self.kind} {self.column}: {note}" if self.column else note for note in notes]

    def refused(self, error: BadLabelError) -> UsageError:
        """The error for a text that is no class."""
        return UsageError(self.where, error.problem, error.remedy)


class Labels:
    """The classes of samples, in order, as texts: names, or numbers in digits.

    `form`: "one" of each sample, a "set" of each, or "marks": a 0 or 1 for every class. `unsure`: whether sets may turn
    out to be marks, as lists of 0 and 1 do. `known`: what the source says of them; may be set later. `prefix`: of their
    two features.
    """

    def __init__(
        self,
        form: Literal["one", "set", "marks"] = "one",
        known: KnownClasses | None = None,
        *,
        unsure: bool = False,
        prefix: str = CLASS,
    ) -> None:
        self.form, self.known, self.prefix = form, known or KnownClasses(), prefix
        self._codes = Codes(lists=form == "set")
        self._marks, self._beside = ClassMarks(1 if form == "marks" else 2), ClassTexts()
        self._marks.fits = unsure or form == "marks"
        self.label_of: Mapping[str, int] = {}  # the label of each text, from `column` on

    def add(self, labels: Sequence[str], texts: Any = None) -> None:
        """Append the classes, or the marks, of one sample. `texts`: what stands beside their numbers, if anything."""
        if self._marks.fits or self._marks.width:
            self._marks.add(labels)
        if self.form == "set":
            self._codes.add_all(labels)
        elif self.form == "one":
            self._codes.add(labels[0])
        if texts is not None:
            self._beside.add(labels, texts)
            if isinstance(texts, list) and len(texts) == len(labels):
                self._marks.end()  # each has a name

    def expect(self, labels: Sequence[str]) -> None:
        """Take classes that no sample has: they are numbered with the others."""
        for text in labels:
            self._codes.values.setdefault(text, len(self._codes.values))

    def add_many(self, texts: Sequence[str], places: np.ndarray) -> None:
        """Append one class of each of many samples: `texts[place]` for each place."""
        self._codes.add_many(texts, places)

    def add_marks(self, ones: np.ndarray, counts: np.ndarray, width: int) -> None:
        """Append the marks of many samples: int32, the classes marked 1; int64 [n], their number in each sample."""
        self._marks.add_many(ones, counts, width)

    @property
    def different(self) -> int:
        """How many different classes there are so far."""
        return len(self._codes.values)

    def column(self, options: Options) -> tuple[ClassColumn, list[str]]:
        """The features, and notes for the report. Raises UsageError, or what `known.refuse` makes."""
        known, codes, names, notes = self.known, self._codes, self.known.names, list[str]()
        of_columns = options if isinstance(options, ColumnOptions) else None
        offset = of_columns and of_columns.label_offset
        if self._marks.doubtful:
            problem = "has lists of 0 and 1, with one of them twice, but of several lengths"
            raise UsageError(known.where, problem, "write a 0 or 1 for every class in each list, or each class once")
        if marked := self._marks.fits and bool(self._marks.width):
            if offset:
                problem = f"{known.what}, from which {argument('label_offset', offset)} cannot be subtracted"
                raise UsageError(known.where, problem, "leave it out")
            codes, note = self._marks.codes()
            notes.append(f"{known.what}: {note}")
            each = [*range(self._marks.width)]
            beside = known.beside.names if known.beside and [*known.beside.names] == each else {}
            names = names or [beside.get(number, str(number)) for number in each]
        values, ends, given = [*codes.values], codes.ends, class_list(options.class_names)  # type: ignore[arg-type]  # of a mapping, Rows has taken one
        try:
            whole = all(map(is_integer, values))
            if known.by and given is None and names is None and ends is None and (known.by == "rest" or not whole):
                column = known.column
                counts = dict(zip(values, np.bincount(codes.codes, minlength=len(values)).tolist(), strict=True))
                key = feature_key(column)
                other = f"{naming(key, column)} for numbers" if whole else f"{naming('text', column)} for texts"
                remedy = f"give {naming('label', column)} for classes, {other}, or "
                check_classes(column, counts, known.by, remedy=remedy + argument("unlabelled"))
            numbering = number_classes(
                values,
                given,
                integers=known.integers,
                stated=names,
                stated_ids=known.ids,
                beside=known.beside,
                texts=None if marked else self._beside.agreed(known.column, notes),
                label_map=of_columns and of_columns.label_map,
                offset=offset,
            )
        except BadLabelError as error:
            raise (known.refuse or known.refused)(error) from None
        self.label_of = numbering.labels
        labels = np.array([numbering.labels[text] for text in values], np.int64)[codes.codes]
        if ends is not None and len({*numbering.labels.values()}) < len(values):  # of two spellings, one class
            each = np.split(labels, ends[1:-1])
            labels, ends = ragged([[*dict.fromkeys(one.tolist())] for one in each], np.int64)
        made = ClassColumn(self.prefix, numbering.names, labels, ends, ends is not None, numbering.ids)
        return made, [*notes, *known.noted(numbering.notes)]

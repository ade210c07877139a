"""The classes of samples: collected as texts, numbered once all are known."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, NamesFile, class_list, is_integer, number_classes
from shardfeed.converters.sources.options import ColumnOptions, Options, naming
from shardfeed.converters.sources.rows.columns import ClassColumn, ClassMarks, Codes, feature_key, ragged
from shardfeed.converters.sources.rows.evidence import By, check_classes
from shardfeed.errors import UsageError, argument
from shardfeed.text import counted

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

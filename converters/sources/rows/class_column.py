"""Classes of samples, from the file, from names beside it, and from the user's options."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.class_names import NamesFile
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.columns import ClassColumn, Codes
from shardfeed.converters.sources.rows.evidence import check_classes
from shardfeed.errors import UsageError, argument
from shardfeed.text import counted

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


def class_column(
    labels_given: Codes,
    options: ColumnOptions,
    place: str,
    *,
    stated: Sequence[str] | None = None,
    texts: Mapping[int, str] | None = None,
    beside: NamesFile | None = None,
    prefix: str = "image/class",
) -> tuple[ClassColumn, tuple[str, ...]]:
    """The classes of all samples, one each or a set of them, and notes for the report.

    Args:
        labels_given: labels, as decimal digits or names.
        options: class names, label offset and label map of the user.
        place: file and column, for errors.
        stated: the class names that the format has, in label order.
        texts: the one text that stands beside each number in the samples.
        beside: names in a file beside the samples.
        prefix: of the two features.

    Raises UsageError for an invalid label, and if the meaning of numbers is unknown.
    """
    values, codes, ends = list(labels_given.values), labels_given.codes, labels_given.ends
    given, column = class_list(options.class_names), place.rpartition(", ")[2]
    try:
        if given is None and stated is None and ends is None and not all(map(is_integer, values)):
            name, asked = column.partition(" ")[2] or column, "label" in options.columns
            counts = dict(zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True))
            remedy = f"give {naming('label', name)} for classes, {naming('text', name)} for texts, or "
            check_classes(name, counts, "user" if asked else "name", remedy=remedy + argument("unlabelled"))
        numbering = number_classes(
            values,
            given,
            stated=stated,
            beside=beside,
            texts=texts,
            label_map=options.label_map,
            offset=options.label_offset,
        )
    except BadLabelError as error:
        raise UsageError(place, error.problem, error.remedy) from None
    labels = np.array([numbering.labels[text] for text in values], np.int64)
    made = ClassColumn(prefix, numbering.names, labels[codes], ends, ends is not None, numbering.ids)
    return made, tuple(f"{column}: {note}" for note in numbering.notes)

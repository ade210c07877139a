"""The class of each sample, by what a file says of it and what the user says of the file."""

from collections.abc import Mapping, Sequence

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, class_list, is_integer, number_classes
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.compact import Codes
from shardfeed.converters.sources.rows.columns import ClassColumn
from shardfeed.converters.sources.rows.label_hints import check_captions
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some


def class_column(
    said: Codes, options: ContainerOptions, place: str, names: Sequence[str] | None = None
) -> tuple[ClassColumn, tuple[str, ...]]:
    """`image/class` of all samples, a class or a set of them, and notes. `said`: numbers as decimal digits, or names.

    `names`: those that the format has, in label order: numbers are their places, and the user's names replace them.
    `place`: of the column, for errors.
    Raises UsageError for what is no label, and for numbers without names that are not 0 to K-1 after the offset.
    """
    if options.label_map is not None:
        remedy = f"name the classes in their order: {argument('class_names', typed='FILE')}"
        raise UsageError("label_map", f"{escape(place)} takes none, its labels are no ids of detectors", remedy)
    given = class_list(options.class_names)
    if given is not None and names is not None and len(given) != len(names):
        problem = f"got {len(given)} names, and {escape(place)} has {len(names)} classes ({some(names)})"
        raise UsageError("class_names", problem, "name each of them")
    texts = {text: _shifted(text, options.label_offset, place) for text in said.values}
    values = list(dict.fromkeys(texts.values()))
    codes = said.codes
    try:
        if names is not None:
            return _column(given or tuple(names), _places(texts, len(names))[codes], said), ()
        if given is None and said.ends is None:
            check_captions(values, len(codes), {text: i for i, text in enumerate(values)})
        numbering = number_classes(values, given)
    except BadLabelError as error:
        remedy = error.remedy
        low = min(map(int, values)) if all(map(is_integer, values)) else 0
        if low == 1 and not options.label_offset:
            remedy = f"give {argument('label_offset', 1)} where 1 is the first class; else {remedy}"
        raise UsageError(place, error.problem, remedy) from None
    labels = np.array([numbering.labels[texts[text]] for text in said.values], np.int64)
    return _column(numbering.names, labels[codes], said), numbering.notes


def _column(names: tuple[str, ...], labels: np.ndarray, said: Codes) -> ClassColumn:
    return ClassColumn("image/class", names, labels, said.ends, tags=said.ends is not None)


def _places(texts: Mapping[str, str], count: int) -> np.ndarray:
    """int64: each label as the place of its name. Raises BadLabelError for one that is none."""
    for text in texts.values():
        if not is_integer(text) or not 0 <= int(text) < count:
            problem = f"got the label '{escape(text[:40])}', expected 0 to {count - 1}, the places of its class names"
            raise BadLabelError(text, problem, "correct the file")
    return np.array([int(text) for text in texts.values()], np.int64)


def _shifted(text: str, offset: int, place: str) -> str:
    """A label without the offset. Raises UsageError where it is none, or comes before the first class."""
    if not is_integer(text):
        if offset:
            problem = f"got the label '{escape(text[:40])}', expected a number to subtract {offset} from"
            raise UsageError(place, problem, f"leave {argument('label_offset')} out: names have none")
        return text
    if int(text) < offset:
        problem = f"got the label {text}, expected {offset} or more, of which {offset} is subtracted"
        raise UsageError(place, problem, f"give another {argument('label_offset')}, or correct the label")
    return str(int(text) - offset)

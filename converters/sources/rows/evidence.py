"""Evidence of what the values of a column are, for columns that neither the user nor a known name explains.

Classes repeat. Captions, addresses, paths, run lengths and identifiers do not, or look unlike the name of a class. One
rule for all readers decides, so that no reader takes whatever column is left over for the classes.

How often must they repeat? Datasets of public use have two images of a class at least, on average. Small tables say
less: in our layouts and tests, the left-over columns of classes of up to 20 rows have one class that repeats, or only
one or two rows. A file without a header, `a.jpg cat`, is what label files have always been: in one of up to 20 rows all
may differ.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from shardfeed.converters.sources.classes import BadLabelError
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.rows.cells import NUMBER
from shardfeed.errors import argument, escape
from shardfeed.text import some

Kind = Literal["classes", "text", "addresses", "paths", "run lengths", "documents", "times", "identifiers"]

# Who says that a column is a label: the user, its name, its place in a file without a header, or nobody.
By = Literal["user", "name", "place", "rest"]

_LOOKED_AT = 1000  # different texts
_FEW = 20  # rows; with so few, it is normal that most texts differ
_MANY = 1000  # classes; datasets with more classes have several images of most of them
_SEPARATORS = ("|", ";", ",", " ")
_WORDS_OF_CAPTION = 5  # in half of the texts; names of classes are shorter, but for a few
# Words in the names of columns whose values repeat and are no classes: they group or describe the samples.
_NOT_CLASSES = re.compile(
    r"(?<![a-z])(?:uids?|(?:patient|subject|participant|donor|lesion|specimen|slide|accession|exam|case|study|series|"
    r"session|visit|video|clip|frame|scene|sequence|site|hospital|clinic|camera|device|scanner|user|annotator|author|"
    r"photographer|owner|reader|rater|fold|group|batch|uuid|guid|hash|md5|sha1|sha256|date|time|timestamp|url|uri|link|"
    r"license|licence|source|origin|dataset|comments?|notes?|remarks?|descriptions?|captions?|prompts?|titles?|"
    r"sentences?|texts?|txt)(?:(?:instance)?u?ids?|names?|no|numbers?)?)(?![a-z])"
)
_BETWEEN = re.compile(r"_|(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # around the words of a column's name
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("addresses", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|data:[a-z]+/|www\.")),
    ("documents", re.compile(r"\s*[\[{].*[\]}]\s*\Z", re.DOTALL)),
    ("times", re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ]|\Z)|\d\d?[/.]\d\d?[/.]\d{2,4}(?: |\Z)")),
    ("identifiers", re.compile(r"(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3})?[0-9a-fA-F]{12,64}\Z")),
)


class ColumnMeaning(NamedTuple):
    """A `kind` of texts, and `why`, a clause for messages: "6 of 6 differ"."""

    kind: Kind
    why: str


def column_meaning(name: str, counts: Mapping[str, int], *, headed: bool = True) -> ColumnMeaning:
    """Return what the texts of a column are. `counts`: each different text, and the number of samples that have it.

    They are "classes" if they repeat, look like names, and the column's `name` is not that of something else. `headed`:
    whether the name is from the file. Numbers are classes as far as their name and their repetition allow.

    Example:
        column_meaning("breed", {"pug": 40, "beagle": 38}).kind       # "classes"
        column_meaning("title", {"A pug on a sofa.": 1, "Two beagles run.": 1}).kind  # "text"
    """
    texts = [text for text, _ in zip((text for text in counts if text.strip()), range(_LOOKED_AT), strict=False)]
    rows, different = sum(counts.values()), len(counts)

    def half(fits: int) -> bool:
        return 2 * fits >= len(texts) > 0

    shown = f"such as '{escape(texts[0][:40])}'" if texts else "none"
    for kind, shape in _SHAPES:
        if half(sum(shape.match(text) is not None for text in texts)):
            return ColumnMeaning(kind, f"its values are {kind}, {shown}")
    if half(sum(map(_are_runs, texts))) and any(len(text.split()) > 2 for text in texts):
        return ColumnMeaning("run lengths", f"its values are run lengths, {shown}")
    if half(sum(names_image(text.encode("utf-8", "surrogateescape")) for text in texts)):
        return ColumnMeaning("paths", f"its values are paths, {shown}")
    name = _BETWEEN.sub(" ", name).casefold()
    differ = f"{different:,} of {rows:,} values differ"
    mostly = 2 * different > rows
    if half(sum(len(text.split()) >= _WORDS_OF_CAPTION for text in texts)) and mostly:
        return ColumnMeaning("text", f"its values are sentences, {shown}")
    if headed and _NOT_CLASSES.search(name):
        words = mostly and any(" " in text for text in texts)
        return ColumnMeaning(
            "text" if words or different < 2 else "identifiers", f"its name is not a class's, and {differ}"
        )
    # The numbers of classes repeat (species_id), those of images do not.
    is_id = re.search(r"(?:^|[^a-z])ids?$", name) is not None
    small = rows <= _FEW and not is_id and (not headed or rows < 3 or different < rows or all(map(NUMBER.match, texts)))
    if mostly and not small:
        return ColumnMeaning("text" if any(" " in text for text in texts) else "identifiers", differ)
    return ColumnMeaning("classes", differ)


def _are_runs(text: str) -> bool:
    """Whether a text is `start length start length ...`: runs of pixels, each after the one before it."""
    numbers = text.split()
    if not numbers or len(numbers) % 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        return False
    starts, lengths = [*map(int, numbers[0::2])], [*map(int, numbers[1::2])]
    ends = [0, *(start + length for start, length in zip(starts, lengths, strict=True))]
    return min(lengths) > 0 and all(start >= end for start, end in zip(starts, ends, strict=False))


def check_classes(
    name: str, counts: Mapping[str, int], by: By, *, column: int | None = None, remedy: str = ""
) -> tuple[str, ...]:
    """Return notes on texts that are used as classes and look like something else.

    `column`: as of `ways`, which are the default of `remedy`. Raises BadLabelError for texts that are not known to be
    classes: by their shape or, unless a known name says that they are, because they do not repeat.
    """
    meaning, first = column_meaning(name, counts, headed=by != "place"), next(iter(counts), "")
    rows, different = sum(counts.values()), len(counts)
    unlike = meaning.kind in ("addresses", "documents", "run lengths", "paths")
    if by != "user" and meaning.kind != "classes" and (unlike or by != "name"):
        problem = f"not known to be classes: {meaning.why}"
        raise BadLabelError(first, problem, remedy or ways(name, meaning, column=column))
    many = 10 * different >= 9 * rows
    if by == "name" and different > _MANY and many:
        problem = f"got {different} classes in {rows} rows, the first '{escape(first[:40])}'"
        raise BadLabelError(first, problem, remedy or ways(name, ColumnMeaning("text", ""), column=column))
    if separator := combined(counts):
        parts = sorted({part.strip() for text in counts for part in text.split(separator) if part.strip()})
        what = f"{different} classes look like combinations of {len(parts)} ({some(parts)})"
        option = f"--label-separator '{separator}' (in Python label_separator={separator!r}) splits them"
        return (f"column {escape(name)}: {what}; {option}",)
    if rows > _FEW and many:
        option = "--text-column (in Python text_columns) keeps them as text"
        return (f"column {escape(name)}: {different} classes in {rows} rows; {option}",)
    return ()


def combined(texts: Iterable[str]) -> str:
    """The separator by which most texts look like lists of the same few labels; "" if there is none.

    Names of several words do not look like lists: each has words that no other name has.
    """
    texts = list(texts)
    for separator in _SEPARATORS:
        lists = [[part.strip() for part in text.split(separator) if part.strip()] for text in texts]
        parts = {part for labels in lists for part in labels}
        several = sum(len(labels) > 1 for labels in lists)
        alone = sum(len(labels) == 1 for labels in lists)
        if several >= 3 and alone and 2 * len(parts) <= len(texts) and sum(map(len, lists)) >= 3 * len(parts):
            return separator
    return ""


def ways(name: str, meaning: ColumnMeaning, *, column: int | None = None) -> str:
    """Return the remedy for a column that is not known to hold classes: each way to use it, the likeliest first.

    `column`: its number from 0, for a column without a name.
    """
    in_python, typed = (repr(name), shlex.quote(name)) if column is None else (str(column), str(column + 1))
    label = argument("label_columns", python=f"label_columns=[{in_python}]", typed=typed) + " for classes"
    text = argument("text_columns", python=f"text_columns=[{in_python}]", typed=typed) + " for texts"
    ordered = [label, text] if meaning.kind == "classes" else [text, label]
    if column is None:
        group = f"{argument('group_column', name)} with {argument('split')} for groups"
        ordered = [group, label, text] if meaning.kind == "identifiers" else [*ordered, group]
    return f"give {', '.join(ordered)}, or {argument('unlabelled', python='label_columns=[]')} to leave it out"

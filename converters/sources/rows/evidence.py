"""Evidence of what the values of a column are, for columns that neither the user nor a known name explains.

Classes repeat. Captions, addresses, paths, run lengths and identifiers do not, or look unlike the name of a class. One
rule for all readers decides, so that no reader takes whatever column is left over for the classes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.errors import argument, escape

Kind = Literal["classes", "text", "addresses", "paths", "run lengths", "documents", "times", "identifiers"]

_LOOKED_AT = 1000  # different texts
_WORDS_OF_CAPTION = 5  # in half of the texts; names of classes are shorter, but for a few
# Words in the names of columns whose values repeat and are no classes: they group or describe the samples.
_NOT_CLASSES = re.compile(
    r"(?:^|[^a-z])(?:patient|subject|case|study|series|session|visit|video|clip|scene|sequence|site|hospital|clinic|"
    r"camera|device|scanner|user|annotator|author|photographer|owner|reader|rater|fold|group|batch|id|uuid|guid|hash|md5|"
    r"sha1|sha256|date|time|timestamp|url|uri|link|license|licence|source|origin|dataset|comment|comments|note|notes|"
    r"remark|remarks|description|caption|prompt|title|sentence|text)(?:[^a-z]|$)"
)
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("addresses", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|data:[a-z]+/|www\.")),
    ("documents", re.compile(r"\s*[\[{].*[\]}]\s*\Z", re.DOTALL)),
    ("run lengths", re.compile(r"\d+ \d+(?: \d+ \d+)*\s*\Z")),
    ("times", re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ]|\Z)|\d\d?[/.]\d\d?[/.]\d{2,4}(?: |\Z)")),
    ("identifiers", re.compile(r"(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3})?[0-9a-fA-F]{12,64}\Z")),
)


class Meaning(NamedTuple):
    """A `kind` of texts, and `why`, a clause for messages: "6 of 6 differ"."""

    kind: Kind
    why: str


def meaning_of(name: str, counts: Mapping[str, int]) -> Meaning:
    """Return what the texts of a column are. `counts`: each different text, and the number of samples that have it.

    They are "classes" if they repeat, look like names, and the column's `name` is not that of something else.

    Example:
        meaning_of("breed", {"pug": 40, "beagle": 38}).kind       # "classes"
        meaning_of("title", {"A pug on a sofa.": 1, "Two beagles run.": 1}).kind  # "text"
    """
    texts = [text for text, _ in zip(counts, range(_LOOKED_AT), strict=False)]
    rows, different = sum(counts.values()), len(counts)

    def half(fits: int) -> bool:
        return 2 * fits >= len(texts) > 0

    shown = f"such as '{escape(texts[0][:40])}'" if texts else "none"
    for kind, shape in _SHAPES:
        if half(sum(shape.match(text) is not None for text in texts)):
            return Meaning(kind, f"its values are {kind}, {shown}")
    if half(sum(names_image(text.encode("utf-8", "surrogateescape")) for text in texts)):
        return Meaning("paths", f"its values are paths, {shown}")
    differ = f"{different:,} of {rows:,} values differ"
    if half(sum(len(text.split()) >= _WORDS_OF_CAPTION for text in texts)) and 2 * different > rows:
        return Meaning("text", f"its values are sentences, {shown}")
    if _NOT_CLASSES.search(name.casefold().replace("_", " ")):
        return Meaning("identifiers" if different > 1 else "text", f"its name is not that of a class, and {differ}")
    if 2 * different > rows:
        return Meaning("text" if any(" " in text for text in texts) else "identifiers", differ)
    return Meaning("classes", differ)


def ways(name: str, meaning: Meaning) -> str:
    """Return the remedy for a column that is not known to hold classes: each way to use it, the likeliest first."""
    column = repr(name)
    label = argument("label_columns", python=f"label_columns=[{column}]", typed=name)
    text = argument("text_columns", python=f"text_columns=[{column}]", typed=name)
    without = argument("unlabelled", python="label_columns=[]")
    group = argument("group_column", name)
    order = {
        "classes": (label, text),
        "identifiers": (f"{group} for groups", f"{label} for classes", f"{text} for texts"),
    }.get(meaning.kind, (f"{text} for texts", f"{label} for classes"))
    return f"give {', '.join(order)}, or {without} to leave it out"


def is_multi_hot(rows: Sequence[Sequence[int]]) -> bool:
    """Whether lists of integers have a 0 or 1 for each class, and are not lists of class numbers.

    All have one length, 2 or more, and only 0 and 1: a list of the numbers of classes would name 0 or 1 twice, or hold
    both in every sample.
    """
    lengths = {len(row) for row in rows}
    return len(lengths) == 1 and min(lengths) > 1 and all(value in (0, 1) for row in rows for value in row)

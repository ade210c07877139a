"""What a column of classes may be instead: several labels in each cell, or texts of which no two are alike."""

from collections.abc import Mapping, Sequence

from shardfeed.converters.sources.classes import BadLabelError
from shardfeed.errors import argument, escape
from shardfeed.text import some

_SEPARATORS = ("|", ";", ",", " ")
_FEW = 20  # rows in which it is no wonder that all texts differ
_MANY = 1000  # classes; who has more, has more than one image of most of them


def check_captions(texts: Sequence[str], rows: int, first_code: Mapping[str, int]) -> None:
    """Raises BadLabelError where nearly each of many rows has a class of its own: no one trains on those."""
    if len(texts) > _MANY and _alone(texts, rows):
        first = min(first_code, key=lambda text: first_code[text])
        problem = f"got {len(texts)} classes in {rows} rows, the first '{escape(first[:40])}'"
        texts_, numbers, names = (argument(name) for name in ("text_columns", "number_columns", "class_names"))
        remedy = f"give {texts_} for texts, {numbers} for numbers, or {names} where these are classes"
        raise BadLabelError(first, problem, remedy)


def combined_note(texts: Sequence[str], rows: int, name: str) -> tuple[str, ...]:
    """A note where texts that were taken for classes look like something else."""
    separator = combined(texts)
    if separator:
        parts = sorted({part.strip() for text in texts for part in text.split(separator) if part.strip()})
        what = f"{len(texts)} classes look like combinations of {len(parts)} ({some(parts)})"
        option = f"--label-separator '{separator}', in Python label_separator={separator!r}, makes lists of them"
        return (f"column {escape(name)}: {what}; {option}",)
    if rows > _FEW and _alone(texts, rows):
        option = "--text-column, in Python text_columns, keeps texts as they are"
        return (f"column {escape(name)}: {len(texts)} classes in {rows} rows; {option}",)
    return ()


def combined(texts: Sequence[str]) -> str:
    """The separator of which most texts look like lists of the same few labels; "" where there is none.

    Names of several words do not: each has words that no other has.
    """
    for separator in _SEPARATORS:
        lists = [[part.strip() for part in text.split(separator) if part.strip()] for text in texts]
        parts = {part for labels in lists for part in labels}
        several = sum(len(labels) > 1 for labels in lists)
        alone = sum(len(labels) == 1 for labels in lists)
        if several >= 3 and alone and 2 * len(parts) <= len(texts) and sum(map(len, lists)) >= 3 * len(parts):
            return separator
    return ""


def _alone(texts: Sequence[str], rows: int) -> bool:
    return 10 * len(texts) >= 9 * rows

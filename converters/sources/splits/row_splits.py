"""The split of each row of a table of names and splits: a column of words, or of numbers with a known meaning."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from shardfeed.converters.sources.files.listing import split_in_cell, split_words_in
from shardfeed.converters.sources.splits.list_file import SPLIT_WORDS, ListPart, split_of_key
from shardfeed.converters.sources.splits.matching import Matching
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.split_words import usual_split

_MOST_SPLITS = 100  # different values in a column of splits
_OF_THREE = {"0": "train", "1": "validation", "2": "test"}  # as in CelebA's list_eval_partition.txt
_OF_SETS = {"1": "train", "2": "validation", "3": "test"}  # as MatConvNet's imdb.mat has them, in `set`
_IS_TRAIN = {"1": "train", "0": "test", "true": "train", "false": "test"}
_IS_TEST = {"1": "test", "0": "train", "true": "test", "false": "train"}
_SHOWN = 80  # characters of a row, in a message
_WORDS = re.compile(r"[a-z]+")


def splits_by_column(path: str, part: ListPart, rule: Matching, heading: Sequence[str]) -> list[str] | None:
    """The split of each row, by the column of the table that says it; None if no column does.

    `heading`: the names of the columns, if there are any. Raises LabelFileError for a value that can be no split.
    """
    columns = _columns(part, rule)
    names = [name.strip().casefold() for name in heading]
    order = sorted(columns, key=lambda column: column >= len(names) or names[column] not in SPLIT_WORDS)
    for column in order:
        name = names[column] if column < len(names) else ""
        meaning = _meaning(path, name, {value.casefold() for value in columns[column]})
        if meaning is not None:
            return [meaning[value.casefold()] for value in columns[column]]
        if name in SPLIT_WORDS:
            return _as_written(path, part, columns[column])
    return None


def _columns(part: ListPart, rule: Matching) -> dict[int, list[str]]:
    """The cells of the columns that have few different values in all rows, other than that of names."""
    separated = [rule.view.cells(row) for row in part.rows]
    width = min(map(len, separated), default=0)
    found = {}
    for column in (column for column in range(width) if column != rule.view.column):
        values = [cells[column].strip() for cells in separated]
        if len({*values}) <= _MOST_SPLITS:
            found[column] = values
    return found


def _meaning(path: str, name: str, values: set[str]) -> Mapping[str, str] | None:
    """The split that each value of a column means; None for values that are no words for splits, and no known numbers.

    `name`: of the column, in lower case.
    """
    words = {value: split for value in values if (split := usual_split(value) or split_of_key(value))}
    if words and words.keys() == values:
        return words
    return None if "fold" in name else _meaning_of_numbers(path, name, values)


def _meaning_of_numbers(path: str, name: str, values: set[str]) -> Mapping[str, str] | None:
    """As `_meaning`, of numbers: 0 and 1 mean something only if the column or the file is named so."""
    if values == {*_OF_THREE}:
        return _OF_THREE
    if name == "set" and values <= {*_OF_SETS}:
        return _OF_SETS
    if not values <= _IS_TRAIN.keys():
        return None
    words = _WORDS.findall(name) or _WORDS.findall(os.path.basename(path).casefold())
    meant = [*map(usual_split, words)]
    if "train" in meant:
        return _IS_TRAIN
    return _IS_TEST if "test" in meant else None


def _as_written(path: str, part: ListPart, values: Sequence[str]) -> list[str]:
    """The splits in the cells of a column that is called so. Raises LabelFileError for a cell that can be none."""
    named: dict[str, str] = {}
    for row, value in zip(part.rows, values, strict=True):
        if value in named:
            continue
        try:
            named[value] = split_in_cell(value)
        except UsageError as error:
            raise LabelFileError(row.place, f"the split: {error.problem}", error.remedy) from None
    return [named[value] for value in values]


def no_column(path: str, part: ListPart, rule: Matching) -> LabelFileError:
    """The error for a list without a name where no column says the split: at the only row that does not, if one is."""
    columns = _columns(part, rule)
    for values in columns.values() if len(columns) == 1 else ():
        known = [value.casefold() in _OF_THREE or usual_split(value) is not None for value in values]
        if 2 * sum(known) > len(known) and False in known:
            odd = known.index(False)
            problem = f"got {escape(values[odd])[:_SHOWN]!r}, expected a split, as in other rows"
            return LabelFileError(part.rows[odd].place, problem, "correct it")
    first = "; ".join(part.rows[0].cells) if part.rows else ""
    problem = f"no column says the split of each image (the first row is {escape(first)[:_SHOWN]!r})"
    words = split_words_in(os.path.splitext(os.path.basename(path))[0])
    word = words[0] if words else "NAME"
    named = argument("split_list", python=f"split_list={{{word!r}: {path!r}}}", typed=f"{word}={shlex.quote(path)}")
    return LabelFileError(path, problem, f"give {named} if all its images are in one split, or write them in words")

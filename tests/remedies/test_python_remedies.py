"""The same advice in Python: the argument of the message, given to the same call, works."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.converters.existing.append import append
from shardfeed.converters.existing.filter import filter, remove
from shardfeed.converters.existing.merge import merge
from shardfeed.converters.sources.options import options_of
from shardfeed.errors import ShardfeedError

from remedies import annotations, containers, derived, folders, more, tables
from remedies.typed import Box

OPENING = inspect.signature(open_source).parameters.keys() - {"path", "options"}
CONVERTING = inspect.signature(convert).parameters.keys()
T = {"labels": "t.csv"}
LEAKS = {"no_leaks": True, "split": {"a": 0.5, "b": 0.5}}
DERIVED = {"merge": merge, "append": append, "remove": remove, "filter": filter}


def made(call: str, given: Mapping[str, Any]) -> int:
    """The samples of `new` that a call makes: `SOURCE`, for `convert`, or a command and its arguments."""
    command, *inputs = call.split()
    if command in DERIVED:
        first = [inputs] if command == "merge" else inputs
        DERIVED[command](*first, "new", **given)
    else:
        opening = {name: value for name, value in given.items() if name in OPENING}
        converting = {name: value for name, value in given.items() if name in CONVERTING}
        rest = {name: value for name, value in given.items() if name not in {*opening, *converting}}
        convert(open_source(command, **opening, options=options_of(rest)), "new", **converting)
    return sum(map(len, shardfeed.open("new").values()))


def advised(message: str, name: str) -> Any:
    """The value that a message gives for an argument."""
    found = re.search(rf"(?<![\w.]){name}=", message)
    assert found, f"{name}= is not in: {message}"
    rest = message[found.end() :]
    for end in range(len(rest), 0, -1):
        try:
            return ast.literal_eval(rest[:end].rstrip(", "))
        except (ValueError, SyntaxError):
            continue
    raise AssertionError(f"{name} has no value in: {message}")


@pytest.mark.parametrize(
    ("make", "call", "given", "name", "gives"),
    [
        (tables.a_column_of_patients, "photos", T, "label_columns", 6),
        (tables.a_column_of_patients, "photos", T, "text_columns", 6),
        (tables.labels_in_a_cell_that_look_like_texts, "photos", T, "label_separator", 12),
        (tables.a_first_row_that_may_be_a_header, "photos", T, "header", 6),
        (tables.cells_that_are_not_utf8, "photos", T, "encoding", 6),
        (tables.numbers_with_empty_cells, "photos", {**T, "number_columns": ["age"]}, "missing", 6),
        (tables.a_table_with_an_unknown_ending, "photos", {"labels": "t.dat"}, "format", 6),
        (containers.two_arrays_of_images, "a.npz", {}, "columns", 6),
        (containers.two_columns_of_labels, "a.parquet", {}, "columns", 6),
        (containers.a_label_of_fractions, "a.parquet", {}, "columns", 6),
        (containers.numbers_of_classes, "from1.parquet", {}, "label_offset", 6),
        (containers.samples_with_an_image_of_two_names, "a.tar", {}, "columns", 6),
        (containers.pixels_with_an_unknown_label, "t.csv", {}, "label_columns", 6),
        (annotations.an_export_with_two_questions, "min.json", {"images": "photos"}, "label_columns", 4),
        (annotations.masks_that_are_empty, "set", {"class_names": "names.txt"}, "void", 3),
        (folders.folders_named_like_splits, "set", {}, "pattern", 8),
        (folders.folders_of_folders, "set", {}, "pattern", 8),
        (folders.links_to_another_folder, "set", {}, "follow_links", 4),
        (folders.a_folder_for_each_sample, "set", {}, "unlabelled include", 6),
        (derived.images_without_a_class, "images", {}, "max_bad", 6),
        (derived.a_dataset, "many.csv", {"group_column": "patient", "text_columns": ["patient"]}, "split", 60),
        (derived.a_dataset, "remove out", {"keys": ["daisy/0.jpg", "no"]}, "missing_ok", 5),
        (derived.a_dataset, "append out other", {}, "new_classes", 8),
        (more.datasets_to_merge, "merge a other", {}, "prefix", 4),
        (more.datasets_with_ids, "merge a b", {}, "renumber", 8),
        (more.splits_that_leak, "twins", {**LEAKS, "seed": 1}, "group_duplicates", 24),
    ],
)  # fmt: skip
def test_an_argument_of_a_message_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Box], object],
    call: str,
    given: dict[str, Any],
    name: str,
    gives: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Box(tmp_path))
    with pytest.raises(ShardfeedError) as caught:
        made(call, given)
    again = {one: advised(str(caught.value), one) for one in name.split()}
    assert made(call, given | again) == gives

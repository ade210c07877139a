"""One list of rules that every reader keeps: what is odd in a source is listed or refused, never lost or changed.

To add a reader, write a function in `builders` that writes rows into an empty folder, and name it there in `BUILDERS`,
with what its format can say:

    def my_format(folder: Path, files: Files) -> None:      # files: name of a file -> its rows
        for name, rows in files.items():
            ...                                             # row: image (bytes), key, label, caption, objects, number

    BUILDERS = {"my-format": Builder(my_format, frozenset({"files", "absent", "label"}))}

A rule is tried with every reader whose `says` has all that the rule `needs`:

    files     several files, and one may lack a column         label, caption, objects, number, tags, mask    values
    absent    a row may lack a value that others of its file have
    mixed     values of one column may be of several types      name      labels are texts, too
    none      a label may be None                               int       whole numbers of any size
    float     labels are numbers with a point, or NaN           double    numbers beyond float32
    keys      objects with other keys
    lists     objects as a dict of lists                        nan       numbers in boxes that are NaN or infinite
    area, id, iscrowd, null, outline                            of objects: these keys, and a category that is null
    listed    the format lists its classes, of which an object has one    class names, unlabelled    takes this option
    missing   it names images, of which one may not be there    orphan    or its annotations lie beside none
    encoded   images are files, one of which may be none
    lengths   images and labels are apart, and may be of other numbers    short     pixels are, and may be too few
    colours   masks have colours                                unpaired  a mask may be without an image
    marks     labels are lists, perhaps of a 0 or 1 for each class            hot    or each class has a column

A reader that stores boxes in fractions has `fractions=True`: its writer divides them by 60 and 40, the image's sides.
"""

import io
import math
import os
import re
from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import image_file
from PIL import Image
from sources import reader as reader_of

import shardfeed
from shardfeed.annotations import BOX, CAPTION, OBJECT_TEXT, RASTER
from shardfeed.converters import ColumnOptions, convert, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files import parts as handles
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.readers import READERS
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import ShardfeedError, UsageError
from shardfeed.schema import FILENAME, TEXT
from shardfeed.tools import cli
from tests.converters.sources.builders import BUILDERS
from tests.converters.sources.builders.builder import SIDES, Builder, Row


@dataclass(frozen=True)
class Rule:
    """Rows, and what must become of them.

    `files`: rows by file, each a dict as a builder takes it, without image and key, which the test adds. `rejected`,
    `left_out`: how many by code. `kept`: for each image that stays its label, captions and (class, left, top, right,
    bottom) of objects, as far as the rule is about them. `refused`: a part of the error, where nothing is written.
    """

    needs: set[str]
    files: Mapping[str, Sequence[Row]]
    rejected: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: str = ""
    refused: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def thing(box: Any = (2, 4, 10, 12), category: Any = "cat", **more: Any) -> dict[str, Any]:
    """An object as COCO has it."""
    return {"bbox": None if box is None else list(map(float, box)), "category": category, **more}


CAT, DOG = thing(), thing((20, 4, 6, 8), "dog")
CAT_KEPT, DOG_KEPT = ("cat", 2, 4, 12, 16), ("dog", 20, 4, 26, 12)
NAMES = {"class_names": ["cat", "dog"]}


def outlined(left: int, top: int, right: int, bottom: int) -> dict[str, Any]:
    """A cat as COCO has it, with its box for an outline."""
    outline = [*map(float, (left, top, right, top, right, bottom, left, bottom))]
    return {**thing((left, top, right - left, bottom - top)), "outline": outline, "segmentation": [outline]}


def filled(*values: int) -> np.ndarray:
    """A mask that has these values."""
    return np.resize(np.array(values, np.uint8), (SIDES[1], SIDES[0]))


def coloured(*values: int) -> np.ndarray:
    """Likewise, of the colours with these values in each channel."""
    return np.repeat(filled(*values)[..., None], 3, axis=2)


RULES: dict[str, Rule] = {
    "label in one file alone": Rule(
        {"files", "label", "name"},
        {"test-0": [{}, {}], "train-0": [{"label": "cat"}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 2},
        kept={"label": ["cat", "dog"]},
    ),
    "captions in one file alone": Rule(
        {"files", "caption"},
        {"test-0": [{}, {}], "train-0": [{"caption": "a"}, {"caption": "b"}]},
        kept={"captions": [[], [], ["a"], ["b"]]},
        notes="2 samples without captions",
    ),
    "objects in one file alone": Rule(
        {"files", "objects"},
        {"test-0": [{}], "train-0": [{"objects": [CAT]}, {"objects": [CAT, DOG]}]},
        kept={"objects": [[], [CAT_KEPT], [CAT_KEPT, DOG_KEPT]]},
        notes="1 sample without objects",
    ),
    "a label that begins late": Rule(
        {"absent", "label", "name"},
        {"a": [{}] * 120 + [{"label": "cat"}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 120},
        kept={"label": ["cat", "dog"]},
    ),
    "objects and captions that begin late": Rule(
        {"absent", "objects", "caption"},
        {"a": [{}] * 120 + [{"objects": [CAT], "caption": "a"}]},
        kept={"objects": [*[[]] * 120, [CAT_KEPT]], "captions": [*[[]] * 120, ["a"]]},
        notes="120 samples without captions",
    ),
    "a label that is null at first": Rule(
        {"label", "none"},
        {"a": [{"label": None}] * 120 + [{"label": 0}, {"label": 1}]},
        rejected={"E_NO_LABEL": 120},
        kept={"label": ["0", "1"]},
    ),
    "a label that is null": Rule(
        {"label", "name", "none"},
        {"a": [{"label": "cat"}, {"label": None}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["cat", "dog"]},
    ),
    "a label of -1": Rule(
        {"label", "int"},
        {"a": [{"label": 0}, {"label": -1}, {"label": 1}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["0", "1"]},
    ),
    "a text among numbers of classes": Rule(
        {"label", "mixed"},
        {"a": [{"label": 0}, {"label": "zero"}, {"label": 1}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["0", "1"]},
    ),
    "a caption of nothing": Rule(
        {"caption"}, {"a": [{"caption": "a"}, {"caption": " "}]}, left_out={"E_LINE": 1}, kept={"captions": [["a"], []]}
    ),
    "a category that is null": Rule(
        {"objects", "null"},
        {"a": [{"objects": [CAT, thing((1, 1, 5, 5), None)]}, {"objects": [DOG]}]},
        left_out={"E_CATEGORY": 1},
        kept={"objects": [[CAT_KEPT], [DOG_KEPT]]},
    ),
    "lists of other lengths": Rule(
        {"lists", "label"},
        {
            "a": [
                {"label": "x", "objects": {"bbox": [CAT["bbox"], DOG["bbox"]], "category": ["cat", "dog"]}},
                {"label": "x", "objects": {"bbox": [CAT["bbox"], DOG["bbox"]], "category": ["cat"]}},
            ]
        },
        rejected={"E_NO_LABEL": 1},
        left_out={"E_LINE": 2},
        kept={"objects": [[CAT_KEPT, DOG_KEPT]]},
    ),
    "objects with other keys": Rule(
        {"objects", "keys"},
        {"a": [{"objects": [{"box": CAT["bbox"], "class": "cat"}, {"box": DOG["bbox"], "class": "dog"}]}]},
        kept={"objects": [[CAT_KEPT, DOG_KEPT]]},
    ),
    "objects with a label": Rule(
        {"objects", "keys"},
        {"a": [{"objects": [{"bbox": CAT["bbox"], "label": 0}, {"bbox": DOG["bbox"], "label": 1}]}]},
        kept={"objects": [[CAT_KEPT, DOG_KEPT]]},
        options=NAMES,
    ),
    "objects as lists with other keys": Rule(
        {"objects", "keys", "lists"},
        {"a": [{"objects": {"bbox": [CAT["bbox"], DOG["bbox"]], "class_name": ["cat", "dog"]}}]},
        kept={"objects": [[CAT_KEPT, DOG_KEPT]]},
    ),
    "no numbers in a box": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, thing(None)]}]},
        left_out={"E_BOX_EMPTY": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "numbers in a box that are none": Rule(
        {"objects", "nan"},
        {"a": [{"objects": [CAT, thing((math.nan, 1, 5, 5)), thing((1, 1, math.inf, 5)), thing((1, 1, 1e12, 5))]}]},
        left_out={"E_VALUE": 2, "E_BOX_EMPTY": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "areas that are none": Rule(
        {"objects", "area", "nan"},
        {"a": [{"objects": [{**CAT, "area": 5.0}, {**DOG, "area": math.nan}, {**DOG, "area": -2.0}]}]},
        left_out={"E_VALUE": 2},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "flags beside 0 and 1": Rule(
        {"objects", "iscrowd"},
        {"a": [{"objects": [{**CAT, "iscrowd": 1}, {**DOG, "iscrowd": 2}]}]},
        left_out={"E_VALUE": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "twins": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, DOG, CAT]}, {"objects": [CAT]}]},
        left_out={"E_TWICE": 1},
        kept={"objects": [[CAT_KEPT, DOG_KEPT], [CAT_KEPT]]},
    ),
    "twins with ids of their own": Rule(
        {"objects", "id"},
        {"a": [{"objects": [{**CAT, "id": 1}, {**CAT, "id": 2}]}]},
        kept={"objects": [[CAT_KEPT, CAT_KEPT]]},
    ),
    "twins with ids that are lists": Rule(
        {"objects", "id"},
        {"a": [{"objects": [{**CAT, "id": [1, 1]}, {**CAT, "id": [1, 2]}, {**DOG, "id": [3]}]}]},
        kept={"objects": [[CAT_KEPT, CAT_KEPT, DOG_KEPT]]},
    ),
    "a box outside of its image": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, thing((100, 100, 5, 5))]}]},
        left_out={"E_BOX_OUTSIDE": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "fractions that nothing tells": Rule(
        {"objects"}, {"a": [{"objects": [thing((0.25, 0.25, 0.5, 0.5))]}]}, refused="unit='fractions'"
    ),
    "fractions": Rule(
        {"objects"},
        {"a": [{"objects": [thing((0.25, 0.25, 0.5, 0.5))]}]},
        kept={"objects": [[("cat", 15, 10, 45, 30)]]},
        options={"unit": "fractions"},
    ),
    "a number that is not there": Rule(
        {"number"}, {"a": [{"number": 1.5}, {"number": None}]}, rejected={"E_NO_LABEL": 1}, kept={"number": [1.5]}
    ),
    "a number beyond float32": Rule(
        {"number", "double"}, {"a": [{"number": 1.5}, {"number": 1e300}]}, refused="fits float32"
    ),
    "a number beyond int64": Rule(
        {"number", "mixed", "int"}, {"a": [{"number": 1}, {"number": 2**70}]}, refused="fits int64"
    ),
    "a whole number that float32 cannot say": Rule(
        {"number", "mixed", "int"}, {"a": [{"number": 2**24 + 1}, {"number": 0.5}]}, refused="float32 cannot represent"
    ),
    "labels that are not wanted": Rule(
        {"label", "unlabelled"},
        {"a": [{"label": 1}, {"label": 0}]},
        kept={"label": [None, None]},
        options={"unlabelled": True},
    ),
    "labels that are not wanted, one of them null": Rule(
        {"label", "name", "none", "unlabelled"},
        {"a": [{"label": "cat"}, {"label": None}]},
        kept={"label": [None, None]},
        options={"unlabelled": True},
    ),
    "a label in each of two files": Rule(
        {"files", "label"},
        {"test-0": [{"label": 1}], "train-0": [{"label": 0}, {"label": 1}]},
        kept={"label": ["1", "0", "1"]},
    ),
    "labels in one of two files": Rule(
        {"files", "label"},
        {"test-0": [{}, {}], "train-0": [{"label": 1}, {"label": 0}]},
        rejected={"E_NO_LABEL": 2},
        kept={"label": ["1", "0"]},
    ),
    "a label that is NaN": Rule(
        {"label", "float"},
        {"a": [{"label": 0.0}, {"label": math.nan}, {"label": 1.0}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["0", "1"]},
    ),
    "a label with a fraction": Rule(
        {"label", "float"}, {"a": [{"label": 0.0}, {"label": 0.5}]}, refused="expected labels: integers"
    ),
    "fewer labels than images": Rule(
        {"label", "lengths"}, {"a": [{"label": 1}, {"label": 0}, {"label": 1, "image": None}]}, refused="3 labels"
    ),
    "a label beyond the list of classes": Rule(
        {"label", "class names"}, {"a": [{"label": 0}, {"label": 1}, {"label": 2}]}, refused="2", options=NAMES
    ),
    "a label that the list of classes lacks": Rule(
        {"label", "name", "class names"}, {"a": [{"label": "cat"}, {"label": "owl"}]}, refused="owl", options=NAMES
    ),
    "a class of an object that the list of classes lacks": Rule(
        {"objects", "class names"},
        {"a": [{"objects": [CAT, thing((1, 1, 5, 5), "owl")]}]},
        left_out={"E_CATEGORY": 1},
        kept={"objects": [[CAT_KEPT]]},
        options=NAMES,
    ),
    "a class of an object that the format does not list": Rule(
        {"objects", "listed"},
        {"a": [{"objects": [CAT, thing((1, 1, 5, 5), "owl")]}, {"objects": [DOG]}]},
        left_out={"E_CATEGORY": 1},
        kept={"objects": [[CAT_KEPT], [DOG_KEPT]]},
    ),
    "sets of classes": Rule(
        {"tags"},
        {"a": [{"tags": ["cat"]}, {"tags": []}, {"tags": ["cat", "dog"]}]},
        kept={"tags": [["cat"], [], ["cat", "dog"]]},
        options=NAMES,
    ),
    "a 0 or 1 for each class": Rule(
        {"marks"},
        {"a": [{"label": [1, 0]}, {"label": [0, 0]}, {"label": [1, 1]}]},
        kept={"tags": [["cat"], [], ["cat", "dog"]]},
        notes="0 to 2 ones per row",
        options=NAMES,
    ),
    "a 0.0 or 1.0 for each class": Rule(
        {"marks"},
        {"a": [{"label": [1.0, 0.0]}, {"label": [0.0, 1.0]}, {"label": [1.0, 1.0]}]},
        kept={"tags": [["cat"], ["dog"], ["cat", "dog"]]},
        options=NAMES,
    ),
    "a single 1 for each image": Rule(
        {"marks"},
        {"a": [{"label": [0, 1]}, {"label": [1, 0]}, {"label": [0, 1]}]},
        kept={"label": ["dog", "cat", "dog"]},
        notes="one-hot",
        options=NAMES,
    ),
    "a 0 or 1 for each class, in several files": Rule(
        {"marks", "files"},
        {"test-0": [{"label": [1, 0]}], "train-0": [{"label": [1, 1]}]},
        kept={"tags": [["0"], ["0", "1"]]},
    ),
    "lists of numbers of classes": Rule(
        {"marks"},
        {"a": [{"label": [0, 1]}, {"label": [0, 2]}, {"label": [1, 2]}]},
        kept={"tags": [["cat", "dog"], ["cat", "owl"], ["dog", "owl"]]},
        options={"class_names": ["cat", "dog", "owl"]},
    ),
    "lists of numbers of classes, of several lengths": Rule(
        {"marks"},
        {"a": [{"label": [0, 1]}, {"label": [1]}, {"label": [0]}]},
        kept={"tags": [["cat", "dog"], ["dog"], ["cat"]]},
        options=NAMES,
    ),
    "two spellings of a class in one list": Rule(
        {"marks", "name"},
        {"a": [{"label": ["\u00e9t\u00e9", "e\u0301te\u0301"]}, {"label": ["e\u0301te\u0301", "cat"]}]},
        kept={"tags": [["\u00e9t\u00e9"], ["\u00e9t\u00e9", "cat"]]},
        notes="differ only in Unicode form",
    ),
    "a 0 or 1 for each class, and lists of several lengths": Rule(
        {"marks"}, {"a": [{"label": [1, 0]}, {"label": [0, 0]}, {"label": [1]}]}, refused="one of them twice"
    ),
    "a 0 or 1 for each class, and another number of names": Rule(
        {"marks"}, {"a": [{"label": [1, 0, 1]}, {"label": [0, 0, 1]}]}, refused="2 names", options=NAMES
    ),
    "a list of fractions for labels": Rule(
        {"marks"}, {"a": [{"label": [0.25, 0.75]}, {"label": [1.0, 0.0]}]}, refused="image/value"
    ),
    "a column for each class": Rule(
        {"hot"},
        {"a": [{"cat": 1, "dog": 0}, {"cat": 0, "dog": 0}, {"cat": 1, "dog": 1}]},
        kept={"tags": [["cat"], [], ["cat", "dog"]]},
    ),
    "a column for each class, of which each image has one": Rule(
        {"hot"}, {"a": [{"cat": 1.0, "dog": 0.0}, {"cat": 0.0, "dog": 1.0}]}, kept={"label": ["cat", "dog"]}
    ),
    "a column of -1 and 1 for each class": Rule(
        {"hot"},
        {"a": [{"cat": 1, "dog": -1}, {"cat": -1, "dog": -1}, {"cat": 1, "dog": 1}]},
        kept={"tags": [["cat"], [], ["cat", "dog"]]},
    ),
    "a column of -1, 0 and 1 for each class": Rule(
        {"hot"}, {"a": [{"cat": 1, "dog": -1}, {"cat": 0, "dog": 1}]}, refused="have 0 and -1"
    ),
    "a column for each class, with another number": Rule(
        {"hot"},
        {"a": [{"cat": 1, "dog": 0}, {"cat": 2, "dog": 0}, {"cat": 0, "dog": 1}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["cat", "dog"]},
    ),
    "a column for each class, in one file alone": Rule(
        {"hot", "files"},
        {"test-0": [{}, {}], "train-0": [{"cat": 1, "dog": 0}, {"cat": 1, "dog": 1}]},
        rejected={"E_NO_LABEL": 2},
        kept={"tags": [["cat"], ["cat", "dog"]]},
    ),
    "several labels in a text": Rule(
        {"label", "name", "hot"},
        {"a": [{"label": "cat|dog"}, {"label": "dog"}, {"label": "cat | dog"}]},
        kept={"tags": [["cat", "dog"], ["dog"], ["cat", "dog"]]},
        options={"label_separator": "|", "one_hot": ()},
    ),
    "several numbers of classes in a text": Rule(
        {"label", "name", "hot"},
        {"a": [{"label": "0|1"}, {"label": "1"}, {"label": ""}]},
        kept={"tags": [["cat", "dog"], ["dog"], []]},
        options={"label_separator": "|", "one_hot": (), **NAMES},
    ),
    "names of classes that no image has": Rule(
        {"hot"}, {"a": [{}, {}]}, refused="is for labels", options={"one_hot": (), **NAMES}
    ),
    "a first number of classes that no image has": Rule(
        {"hot"}, {"a": [{}, {}]}, refused="is for labels", options={"one_hot": (), "label_offset": 1}
    ),
    "a first number of classes for objects with names": Rule(
        {"objects", "hot"},
        {"a": [{"objects": [CAT, DOG]}]},
        refused="label_offset is not used",
        options={"one_hot": (), "label_offset": 1},
    ),
    "a unit of boxes that no image has": Rule(
        {"hot", "label"}, {"a": [{"label": 0}]}, refused="is for boxes", options={"one_hot": (), "unit": "pixels"}
    ),
    "objects of an image that is not there": Rule(
        {"objects", "missing"},
        {"a": [{"objects": [CAT]}, {"image": None, "objects": [CAT, DOG]}]},
        rejected={"E_MISSING": 1},
        left_out={"E_IMAGE": 2},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "a caption of an image that is not there": Rule(
        {"caption", "missing"},
        {"a": [{"caption": "a"}, {"image": None, "caption": "b"}]},
        rejected={"E_MISSING": 1},
        left_out={"E_IMAGE": 1},
        kept={"captions": [["a"]]},
    ),
    "the label of an image that is not there": Rule(
        {"label", "name", "missing"},
        {"a": [{"label": "cat"}, {"image": None, "label": "cat"}, {"label": "dog"}]},
        rejected={"E_MISSING": 1},
        kept={"label": ["cat", "dog"]},
    ),
    "objects beside no image": Rule(
        {"objects", "orphan"},
        {"a": [{"objects": [CAT]}, {"image": None, "objects": [CAT, DOG]}]},
        left_out={"E_ORPHAN": 2},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "objects of a file that is no image": Rule(
        {"objects"},
        {"a": [{"objects": [CAT]}, {"image": b"no image" * 99, "objects": [CAT, DOG]}]},
        rejected={"E_NOT_IMAGE": 1},
        left_out={"E_IMAGE": 2},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "the label of a file that is no image": Rule(
        {"label", "encoded"},
        {"a": [{"label": 0}, {"label": 1, "image": b"no image" * 99}, {"label": 1}]},
        rejected={"E_NOT_IMAGE": 1},
        kept={"label": ["0", "1"]},
    ),
    "an outline that covers no pixel": Rule(
        {"objects", "outline"},
        {"a": [{"objects": [outlined(2, 4, 12, 16), outlined(200, 204, 212, 216), outlined(2, 4, 2, 4)]}]},
        left_out={"E_BOX_OUTSIDE": 1, "E_BOX_EMPTY": 1},
        kept={"objects": [[CAT_KEPT]]},
        options={"tasks": ["boxes", "masks"]},
    ),
    "too few pixels": Rule(
        {"short", "label"},
        {"a": [{"label": 0}, {"label": 1, "short": True}]},
        rejected={"E_CORRUPT": 1},
        kept={"label": ["0"]},
    ),
    "masks, one that is not there": Rule(
        {"mask"},
        {"a": [{"mask": filled(0, 1, 2)}, {"mask": None}, {"mask": filled(2)}]},
        rejected={"E_PAIR": 1},
        kept={"mask": [[0, 1, 2], [2]]},
    ),
    "a mask without an image": Rule(
        {"mask", "unpaired"},
        {"a": [{"mask": filled(1)}, {"mask": filled(2), "image": None}]},
        rejected={"E_PAIR": 1},
        kept={"mask": [[1]]},
    ),
    "a mask of another size": Rule(
        {"mask"},
        {"a": [{"mask": filled(0, 1)}, {"mask": filled(0, 1)[1:]}]},
        rejected={"E_MASK_SIZE": 1},
        kept={"mask": [[0, 1]]},
    ),
    "a mask of no class": Rule(
        {"mask"}, {"a": [{"mask": filled(0, 1)}, {"mask": filled(255)}]}, kept={"mask": [[0, 1], [255]]}
    ),
    "a value of a mask that no class has": Rule(
        {"mask"},
        {"a": [{"mask": filled(0, 1)}, {"mask": filled(1, 7)}]},
        rejected={"E_MASK_VALUE": 1},
        kept={"mask": [[0, 1]]},
    ),
    "a colour of a mask that no class has": Rule(
        {"mask", "colours"},
        {"a": [{"mask": coloured(0, 1)}, {"mask": coloured(1, 7)}]},
        rejected={"E_MASK_LOSSY": 1},
        kept={"mask": [[0, 1]]},
    ),
}


def says(reader: str, rule: str) -> bool:
    """Whether files of the reader can say what the rule is about, in the rule's unit."""
    builder = BUILDERS[reader]
    return RULES[rule].needs <= builder.says and not (builder.fractions and "fractions" in rule)


@pytest.mark.parametrize(
    ("reader", "rule"), [(reader, rule) for rule in RULES for reader in BUILDERS if says(reader, rule)]
)
def test_rules(tmp_path: Path, rule: str, reader: str) -> None:
    wanted, builder = RULES[rule], BUILDERS[reader]
    count = 0
    files: dict[str, list[Row]] = {}
    for name, rows in wanted.files.items():
        files[name] = []
        for row in rows:
            files[name].append({"image": image_file(seed=count), "key": f"{count:04}", **row})
            count += 1
    (folder := tmp_path / "in").mkdir()
    builder.write(folder, files)
    needed = {"number": builder.numbers, "mask": builder.masks, "hot": builder.hot}
    given = [values for need, values in needed.items() if need in wanted.needs]
    options = builder.kind(**ChainMap(dict(wanted.options), *map(dict, given)))
    refused = builder.refuses.get(rule, wanted.refused)
    if refused:
        with pytest.raises(UsageError) as caught:
            open_source(folder / builder.path, reader=reader, options=options)
        assert refused in str(caught.value)
        return
    source = open_source(folder / builder.path, reader=reader, options=options)
    report = convert(source, tmp_path / "out", workers=1, max_bad={"images": count, "objects": 9})
    assert Counter(one.what for one in report.rejected) == wanted.rejected
    left_out = () if report.account is None else report.account.left_out
    assert Counter(one.code for one in left_out) == wanted.left_out
    assert wanted.notes in "\n".join(report.notes)
    assert found(tmp_path / "out", wanted.kept.keys()) == {key: list(values) for key, values in wanted.kept.items()}
    assert cli.main(["verify", "--deep", "--quiet", str(tmp_path / "out")]) == 0


def found(out: Path, about: Any) -> dict[str, list[Any]]:
    """Values of the records in the order of their names, for each thing that a rule is about."""
    data = shardfeed.open(out)
    records = [record for split in data.manifest.splits for record in data[split]]
    records.sort(key=lambda record: record[FILENAME])
    ways: dict[str, Callable[[Any], Any]] = {
        "label": lambda record: record[TEXT].decode() if TEXT in record else None,
        "tags": lambda record: [text.decode() for text in record[TEXT]],
        "mask": lambda record: np.unique(np.asarray(Image.open(io.BytesIO(record[RASTER])))).tolist(),
        "captions": lambda record: [text.decode() for text in record[CAPTION]],
        "objects": boxes_of,
        "number": lambda record: record["image/size"],
    }
    return {one: [ways[one](record) for record in records] for one in about}


def boxes_of(record: Any) -> list[tuple[Any, ...]]:
    """Class and corners in pixels of each object, in the order of left edges and tops."""
    names = [text.decode() for text in record[OBJECT_TEXT]] if OBJECT_TEXT in record else []
    corners = [
        np.rint(np.asarray(record[key]) * side).astype(int).tolist() for key, side in zip(BOX, SIDES, strict=True)
    ]
    return sorted(zip(names, *corners, strict=True), key=lambda one: one[1:])


_CONTAINERS = ("parquet", "tfrecord", "arrayrecord", "mds", "webdataset")


@pytest.mark.parametrize("reader", _CONTAINERS)
@pytest.mark.parametrize(
    ("files", "splits"),
    [
        (["Split-train/a", "Split-eval/a"], ["train", "eval"]),  # TFX
        (
            ["train.tfrecord/part-00000-6a5b-c000", "val.tfrecord/part-00000-6a5b-c000"],
            ["train", "validation"],
        ),  # Spark
        (["train_records/a", "test_records/a"], ["train", "test"]),
        (["cats_train_v1", "cats_test_v1"], ["train", "test"]),
        (["trainset", "valset", "TestSet"], ["train", "validation", "test"]),
        (["train2017", "val2017"], ["train", "validation"]),
        (["train", "dev"], ["train", "dev"]),
        (["contest", "devkit", "evaluate"], ["train", "train", "train"]),  # words that only begin or end alike
    ],
)
def test_words_of_splits_in_names(tmp_path: Path, reader: str, files: list[str], splits: list[str]) -> None:
    files = [name.partition("/")[0] for name in files] if reader == "mds" else files  # a folder by itself
    for name in files:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
    rows = {name: [{"image": image_file(seed=i), "key": f"{i}", "label": i}] for i, name in enumerate(files)}
    BUILDERS[reader].write(tmp_path / "in", rows)
    convert(open_source(tmp_path / "in"), tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")
    assert {name: len(data[name]) for name in data} == Counter(splits)


@pytest.mark.parametrize("reader", _CONTAINERS)
def test_a_name_with_words_of_two_splits_is_asked_about(tmp_path: Path, reader: str) -> None:
    rows = {name: [{"image": image_file(seed=i), "key": f"{i}"}] for i, name in enumerate(("train_val_a", "test_a"))}
    BUILDERS[reader].write(tmp_path, rows)
    with pytest.raises(UsageError, match=r"train_val_a[.a-z]* contains two splits, train and validation; rename it"):
        open_source(tmp_path)


@pytest.mark.parametrize("reader", [name for name, one in BUILDERS.items() if one.kind is ColumnOptions])
def test_names_of_classes_and_no_labels_are_refused(tmp_path: Path, reader: str) -> None:
    BUILDERS[reader].write(tmp_path, {"a": [{"image": image_file(seed=i), "key": f"{i}", "label": i} for i in (0, 1)]})
    options = ColumnOptions(class_names=["cat", "dog"], unlabelled=True)
    with pytest.raises(UsageError, match="class_names is for labels"):
        open_source(tmp_path / BUILDERS[reader].path, reader=reader, options=options)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("reader", ["tfrecord", "arrayrecord", "mds", "webdataset"])
def test_a_first_file_without_samples_hides_nothing(tmp_path: Path, reader: str, count: int) -> None:
    """Writers with more files than samples leave some empty; so is the last one where `count` is 1."""
    row = {"image": image_file(), "key": "a", "label": 0}
    (tmp_path / "in").mkdir()
    BUILDERS[reader].write(tmp_path / "in", {"a-0": [], "a-1": [row], "a-2": [{**row, "key": "b"}] * (1 - count)})
    source = open_source(tmp_path / "in")
    assert len(source) == 2 - count
    assert TEXT in source.schema.features


def _write_something(reader: str, folder: Path) -> Builder:
    """Write two samples of whatever the reader's files can say."""
    builder = BUILDERS[reader]
    values = {"label": 0, "caption": "a", "objects": [CAT], "mask": filled(0, 1)}
    said = {name: value for name, value in values.items() if name in builder.says}
    builder.write(folder, {"a": [{"image": image_file(seed=i), "key": f"{i:04}", **said} for i in range(2)]})
    return builder


@pytest.mark.parametrize("reader", BUILDERS)
def test_an_empty_folder_and_what_is_not_there_are_nobodys(tmp_path: Path, reader: str) -> None:
    recognise, read = reader_of(reader)
    for path in (tmp_path, tmp_path / "nothing"):
        assert recognise(path) is None
        with pytest.raises(UsageError):
            read(path)


_READ_IN_PLACE = [
    name for name, one in BUILDERS.items() if one.kind is ColumnOptions and name not in ("mat", "parquet")
]


@pytest.mark.parametrize("reader", _READ_IN_PLACE)
def test_a_file_that_changes_after_it_was_opened_costs_its_images(tmp_path: Path, reader: str) -> None:
    source = open_source(tmp_path / _write_something(reader, tmp_path).path, reader=reader)
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    with pytest.raises(RejectedError) as caught:
        read_image(source[0])
    assert caught.value.code == RejectCode.SOURCE_CHANGED


@pytest.mark.parametrize("reader", BUILDERS)
def test_a_source_by_a_relative_path_is_read_from_another_directory(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    builder = _write_something(reader, tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    options = builder.kind(**(builder.masks if builder.says == {"mask"} else {}))
    source = open_source(Path("in") / builder.path, reader=reader, options=options)
    monkeypatch.chdir("/")
    assert len([read_image(source[i]) for i in range(len(source))]) == 2


@pytest.mark.parametrize("reader", ["hdf5", "lmdb"])
def test_open_files_are_closed_before_a_fork(tmp_path: Path, reader: str) -> None:
    """Parent and child each open their own: HDF5 would share the position, and LMDB refuse."""
    source = open_source(tmp_path / _write_something(reader, tmp_path).path, reader=reader)
    expected = [read_image(source[i]) for i in range(2)]
    assert handles._open
    child = os.fork()
    if not child:
        try:
            fresh = not handles._open
            same = all([read_image(source[i]) for i in range(2)] == expected for _ in range(20))
            os._exit(0 if same and fresh else 1)
        finally:
            os._exit(2)
    for _ in range(20):
        assert [read_image(source[i]) for i in range(2)] == expected
    assert os.waitpid(child, 0)[1] == 0


# Beside the files of a reader, others that it looks for.
SIDECARS = {
    "tfrecord": ("dataset_info.json", "labels.txt", "label_map.pbtxt"),
    "webdataset": ("0.tar", "0.tar.gz"),
    "mds": ("index.json",),
    "cifar": ("batches.meta.txt",),
    "stl10": ("class_names.txt",),
}


@pytest.mark.parametrize("reader", BUILDERS)
def test_a_pipe_is_not_waited_for(tmp_path: Path, reader: str) -> None:
    builder = _write_something(reader, tmp_path)
    pipes = [tmp_path / name for name in SIDECARS.get(reader, ()) if not (tmp_path / name).exists()]
    for pipe in [*pipes, *(path for path in sorted(tmp_path.rglob("*")) if path.is_file())]:
        data = pipe.read_bytes() if pipe.exists() else None
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        for given in (None, reader):
            with suppress(ShardfeedError):
                assert len(open_source(tmp_path / builder.path, reader=given, options=builder.kind()))
        pipe.unlink()
        if data is not None:
            pipe.write_bytes(data)


def test_each_rule_is_kept_by_some_reader_and_each_reader_keeps_some_rule() -> None:
    assert all(any(says(reader, rule) for reader in BUILDERS) for rule in RULES)
    assert all(any(says(reader, rule) for rule in RULES) for reader in BUILDERS)
    assert set(BUILDERS) == {reader.name for reader in READERS}


# Each option with a value that none of the samples below agrees with, so that it changes the source or is refused.
OPTIONS: list[tuple[str, Any]] = [
    ("class_names", ["owl", "bee"]),
    ("label_offset", 3),
    ("label_map", "map.pbtxt"),
    ("columns", {"label": "nowhere"}),
    ("columns", {"image/size": "nowhere"}),
    ("label_columns", ["nowhere"]),
    ("label_columns", [9]),
    ("text_columns", ["nowhere"]),
    ("number_columns", ["nowhere"]),
    ("number_columns", [9]),
    ("one_hot", ["nowhere"]),
    ("path_column", "nowhere"),
    ("split_column", "nowhere"),
    ("group_column", "nowhere"),
    ("label_separator", {"nowhere": "|"}),
    ("missing", {"nowhere": "0"}),
    ("pattern", "(?P<label>.)"),
    ("labels", "none.csv"),
    ("images", "."),
    ("format", "tsv"),
    ("header", False),
    ("delimiter", "|"),
    ("encoding", "utf-16"),
    ("tasks", ["keypoints"]),
    ("boxes_on", "stored"),
    ("voc_origin", 1),
    ("colours", "colours.csv"),
    ("void", 1),
]


@pytest.mark.parametrize("reader", BUILDERS)
def test_each_option_changes_something_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("map.pbtxt").write_text("item { id: 5 name: 'owl' }\n")
    Path("colours.csv").write_text("name,value\nowl,0\nbee,1\nant,2\n")
    builder, values = BUILDERS[reader], {"label": 0, "caption": "a", "objects": [CAT], "mask": filled(0, 1)}
    ignored = []
    for what in (name for name in values if name in builder.says):
        Path(what).mkdir()
        rows = [{"image": image_file(seed=i, orientation=6), "key": f"{i:04}", what: values[what]} for i in range(2)]
        builder.write(tmp_path / what, {"a": rows})
        usual = builder.masks if what == "mask" else {}
        plain = _said(what, builder, reader, usual)
        for name, value in OPTIONS:
            with suppress(ShardfeedError):
                if name not in usual and _said(what, builder, reader, {**usual, name: value}) == plain:
                    ignored.append((what, name, value))
    assert not ignored


def _said(folder: str, builder: Builder, reader: str, options: Mapping[str, Any]) -> list[Any]:
    """All that a source says of its samples, and what it left out."""
    source = open_source(Path(folder) / builder.path, reader=reader, options=options_of(options))
    samples = [source[i] for i in range(len(source))]
    objects = [(one.objects and repr(one.objects), one.raster and repr(one.raster)) for one in samples]
    features = [{key: np.asarray(value).tolist() for key, value in one.features.items()} for one in samples]
    findings = info_of(source).findings
    return [source.schema, [one.key for one in samples], objects, features, findings.account, findings.rejected]


@pytest.mark.parametrize("reader", [name for name, one in BUILDERS.items() if one.kind is ColumnOptions])
@pytest.mark.parametrize(
    ("option", "role"),
    [
        ({"label_columns": ["kind"]}, "{'label': 'kind'}"),
        ({"text_columns": ["kind"]}, "{'text': 'kind'}"),
        ({"number_columns": ["kind"]}, "{'image/kind': 'kind'}"),
        ({"split_column": "kind"}, "{'split': 'kind'}"),
        ({"path_column": "kind"}, "{'key': 'kind'}"),
    ],
)
def test_options_of_label_files_are_answered_with_columns(
    tmp_path: Path, reader: str, option: Mapping[str, Any], role: str
) -> None:
    (folder := tmp_path / "in").mkdir()
    place = folder / _write_something(reader, folder).path
    for chosen in (None, reader):
        with pytest.raises(UsageError, match=re.escape(f"read as {reader}; give columns={role}")):
            open_source(place, reader=chosen, options=options_of(option))

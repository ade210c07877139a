"""Files that look like lists of a split are named before anybody asks."""

import json
from pathlib import Path

import pytest
from object_images import image_file, put

from shardfeed.converters import open_source
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.source import info_of
from shardfeed.converters.sources.splits.likely_lists import looks_like_split_list
from shardfeed.errors import UsageError

FOUND: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "names": ({"annotations/trainval.txt": "cat_1 1\ncat_2 1\n", "annotations/test.txt": "dog_1 2\ndog_2 2\n"},
              [("test", "annotations/test.txt"), ("trainval", "annotations/trainval.txt")]),
    "train with val, and both": ({"train.txt": "cat_1\n", "val.txt": "cat_2\n", "trainval.txt": "cat_1\ncat_2\n"},
                                 [("train", "train.txt"), ("validation", "val.txt")]),
    "for each kind of label": ({"x_kind_train.txt": "cat_1 a\n", "x_train.txt": "cat_1\n"}, [("train", "x_train.txt")]),
    "a partition": ({"list_eval_partition.txt": "cat_1.png 0\ncat_2.png 1\ndog_1.png 2\n"},
                    [("", "list_eval_partition.txt")]),
    "labels 0 to 2 of one split": ({"val.txt": "cat_1.png 0\ncat_2.png 1\ndog_1.png 2\n"}, [("validation", "val.txt")]),
    "JSON": ({"split.json": json.dumps({"train": ["cat_1"], "test": ["dog_1"]})}, [("", "split.json")]),
    "other names": ({"train.txt": "fox_1\nfox_2\n"}, []),
    "half of the names": ({"train.txt": "cat_1\nfox_2\n"}, []),
    "boxes of a label file": ({"train.txt": "0 0.5 0.5 1 1\n"}, []),
    "no word for a split": ({"list.txt": "cat_1\ncat_2\n"}, []),
    "broken JSON": ({"train.json": "[1"}, []),
}  # fmt: skip


def plant(root: Path, files: dict[str, str]) -> Path:
    for name in ("cat_1", "cat_2", "dog_1", "dog_2"):
        put(root / "images" / f"{name}.png", image_file())
    for name, text in files.items():
        put(root / name, text)
    return root


@pytest.mark.parametrize(("files", "lists"), FOUND.values(), ids=FOUND)
def test_what_looks_like_a_list(files: dict[str, str], lists: list[tuple[str, str]], tmp_path: Path) -> None:
    assert looks_like_split_list(Look(str(plant(tmp_path, files)))) == lists


def test_a_note_and_an_error_name_them_and_what_they_name_works(tmp_path: Path) -> None:
    root = plant(tmp_path, {"annotations/train.txt": "cat_1\ndog_1\n", "annotations/test.txt": "cat_2\ndog_2\n"})
    with pytest.raises(UsageError, match=r"train\.txt, annotations/test\.txt look like lists of splits, for split_"):
        open_source(root)
    lists = {"train": "annotations/train.txt", "test": "annotations/test.txt"}
    source = open_source(root / "images", split_list=lists)
    assert [one.split for one in source] == ["train", "test", "train", "test"]
    assert not any("look like" in note for note in info_of(source).findings.notes)
    put(tmp_path / "images/train.txt", "cat_1\ndog_1\n")
    (note,) = (note for note in info_of(open_source(root / "images")).findings.notes if "looks like" in note)
    assert note.startswith("train.txt looks like a list of a split: --split-list train=train.txt (in Python")

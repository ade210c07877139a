"""Official lists of splits beside class folders."""

from collections.abc import Callable
from pathlib import Path

import pytest
from object_images import image_file, put

from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import TEXT
from shardfeed.testing.source import SourceContract


def plant(root: Path, lists: dict[str, str]) -> Path:
    for name in ("cat/1", "cat/2", "dog/3", "dog/4"):
        put(root / "images" / f"{name}.png", image_file())
    for name, text in lists.items():
        put(root / name, text)
    return root


FOOD = {"meta/train.txt": "cat/1\ndog/3\n", "meta/test.txt": "cat/2\n"}
DTD = {"labels/train1.txt": "cat/1.png\n", "labels/val1.txt": "dog/3.png\n", "labels/test1.txt": "cat/2.png\n"}
CUB = {"images.txt": "1 cat/1.png\n2 cat/2.png\n3 dog/3.png\n", "train_test_split.txt": "1 1\n2 0\n3 1\n"}


class TestContract(SourceContract):
    keys_are_sorted = True

    @pytest.fixture(params=[FOOD, DTD, CUB])
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        root = plant(tmp_path / "set", request.param)
        (root / "images" / "dog" / "3.png").unlink()
        return lambda: open_source(root)


@pytest.mark.parametrize("lists", [FOOD, DTD, CUB])
def test_classes_by_folders_and_splits_by_lists(lists: dict[str, str], tmp_path: Path) -> None:
    source = open_source(plant(tmp_path / "set", lists))
    of_dog = "validation" if lists is DTD else "train"
    assert [(one.key, one.split, one.features[TEXT]) for one in source] == [
        (b"cat/1.png", "train", b"cat"), (b"cat/2.png", "test", b"cat"), (b"dog/3.png", of_dog, b"dog"),
    ]  # fmt: skip
    notes = " ".join(info_of(source).findings.notes)
    assert "--reader folder on `images`" in notes
    assert "images in no list, left out: 1 (dog/4.png)" in notes
    assert len(open_source(tmp_path / "set" / "images", reader="folder")) == 4


@pytest.mark.parametrize(
    ("lists", "place"),
    [
        ({**FOOD, "meta/test.txt": "cat/1\n"}, "meta/test.txt:1"),
        ({**CUB, "train_test_split.txt": "1 1\n2 0\n3 yes\n"}, "train_test_split.txt:3"),
    ],
)
def test_lists_that_are_not_clear_are_refused(lists: dict[str, str], place: str, tmp_path: Path) -> None:
    with pytest.raises(LabelFileError) as caught:
        open_source(plant(tmp_path / "set", lists))
    assert caught.value.place.endswith(place)


def test_lists_of_other_things_are_not_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folders"):
        open_source(plant(tmp_path / "set", {"labels/train1.txt": "0 0.5 0.5 1 1\n", "labels/test1.txt": "0 1\n"}))

"""Class folders against which something speaks, advice that was tried, and what is set aside beside the images."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from shardfeed.converters import open_source
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.recognition.advice import clauses_of, joined
from shardfeed.errors import UsageError, argument, as_source

from pictures import image_bytes


def images(root: Path, *names: str) -> None:
    for place, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(image_bytes(Image.new("RGB", (8, 8), (place, 0, 0)), "PNG"))


def refused(root: Path) -> str:
    with pytest.raises(UsageError) as caught:
        open_source(root)
    return str(caught.value)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([f"train/{kind}/alley/{i}.png" for kind in ("clean", "final") for i in range(3)], "of the same samples"),
        ([f"{k}/{i}_{side}.png" for k in "ab" for i in range(3) for side in ("left", "right")], "of the same samples"),
        ([f"train/{kind}/{i}.png" for kind in ("image_2", "flow_occ") for i in (1, 2)], "image_2 would be 1 class"),
        ([f"{kind}/{i}.png" for kind in ("no_label", "cat") for i in range(3)], "no_label would be 1 class"),
        (["a_1.png", "a_2.png", "b_3.png", "4567.png"], "1 image would be left out"),
    ],
)  # fmt: skip
def test_what_speaks_against_classes_is_said(tmp_path: Path, names: list[str], said: str) -> None:
    images(tmp_path, *names)
    message = refused(tmp_path)
    assert "may not be classes" in message
    assert said in message


def test_a_class_in_the_folder_of_a_split_may_be_called_like_one(tmp_path: Path) -> None:
    images(tmp_path, *(f"train/{kind}/{i}.png" for kind in ("bus", "train") for i in (1, 2)))
    assert open_source(tmp_path).schema.class_names == {"image/class/label": ("bus", "train")}


def test_advice_that_would_join_classes_is_not_given(tmp_path: Path) -> None:
    images(tmp_path, *(f"p/{place}/{i}.png" for place in ("abbey", "pub/outdoor") for i in (1, 2)))
    images(tmp_path, *(f"t/{place}/{i}.png" for place in ("tower", "theatre/outdoor") for i in (1, 2)))
    message = refused(tmp_path)
    assert r"(?P<label>.+)/[^/]+" in message
    assert r".+/(?P<label>[^/]+)/[^/]+" not in message


def test_copies_are_not_stored_as_images_by_advice(tmp_path: Path) -> None:
    images(tmp_path, *(f"{folder}/{i}.png" for folder in ("Split-eval", "Split-train") for i in range(3)))
    images(tmp_path, *(f"thumbnails/Split-eval/{i}.png" for i in range(3)))
    message = refused(tmp_path)
    assert "unlabelled=True with exclude='thumbnails' gives 6 images, eval 3, train 3" in message
    asked = open_source(tmp_path, exclude="thumbnails", options=LabelOptions(unlabelled=True))
    assert len(asked) == 6


def test_the_splits_in_names_of_folders_are_kept_without_labels(tmp_path: Path) -> None:
    images(tmp_path, *(f"{folder}/{i}.png" for folder in ("trainA", "trainB", "testA") for i in (1, 2)))
    source = open_source(tmp_path, options=LabelOptions(unlabelled=True))
    assert [source[i].split for i in range(len(source))] == ["test", "test", "train", "train", "train", "train"]


@pytest.mark.parametrize("form", ["zip", "gztar", "tar"])
def test_an_archive_beside_its_own_folder_and_notes_are_set_aside(tmp_path: Path, form: str) -> None:
    images(tmp_path / "here", *(f"photos/{kind}/{i}.png" for kind in ("cat", "dog") for i in (1, 2)))
    shutil.make_archive(str(tmp_path / "here" / "download"), form, tmp_path / "here", "photos")
    (tmp_path / "here" / "notes.txt").write_text("These photos were taken in two gardens.\n")
    source = open_source(tmp_path / "here")
    assert len(source) == 4
    assert source.schema.class_names == {"image/class/label": ("cat", "dog")}


def test_what_lies_beside_images_and_is_not_read_is_named(tmp_path: Path) -> None:
    images(tmp_path, "images/1.png", "images/2.png")
    (tmp_path / "captions.html").write_text("<html><body>a cat</body></html>")
    assert "not read: captions.html" in refused(tmp_path)


def test_lines_of_numbers_are_named(tmp_path: Path) -> None:
    (tmp_path / "usps").write_text("1 1:0.5 2:-1 3:0.25\n2 1:0.1 2:1 3:0.5\n")
    assert "LIBSVM's form" in refused(tmp_path)


def test_a_remedy_is_divided_at_its_clauses() -> None:
    way = f"give {as_source('/a, b', 'that folder')} as SOURCE, {argument('unlabelled', python='unlabelled=True')} with"
    remedy = (
        f"{way} {argument('exclude', 'x, y')} takes the rest; if 1 is first, give {argument('labels', typed='FILE')}"
    )
    clauses = [*clauses_of(UsageError("here", "it is so", remedy))]
    changes = [{"another source": "/a, b"}, {"unlabelled": True, "exclude": "x, y"}, None]
    assert [clause.change for clause in clauses] == changes
    assert joined(clauses) == remedy

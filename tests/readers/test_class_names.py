"""`class_names` of a dataset and a split: of what it is about, images, objects, pixels or tags."""

from pathlib import Path

import pytest
from datasets import stored
from PIL import Image

import shardfeed
from shardfeed.converters import AnnotationOptions, LabelOptions, Sample, convert, open_source
from shardfeed.errors import UsageError
from shardfeed.readers import Dataset
from shardfeed.schema import LABEL, Feature, Schema

from pictures import image_bytes
from repository import ROOT

SCENES = ROOT / "data_samples" / "scenes"
PARTS, COLOURS = "image/parts/label", "image/colour/label"


def made(names: dict[str, tuple[str, ...]], out: Path) -> Dataset:
    """Two images with labels of any features, each with the classes that it is given."""
    image = image_bytes(Image.new("RGB", (20, 16)), "JPEG")
    samples = [Sample(b"%d.jpg" % i, image, {key: [i] for key in names}) for i in range(2)]
    return stored(out, Schema(dict.fromkeys(names, Feature("int64", (None,), "tags")), names), samples)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("coco/instances.json", AnnotationOptions(images=SCENES / "images", tasks=["boxes"])),
        ("coco/instances.json", AnnotationOptions(images=SCENES / "images", tasks=["boxes", "masks"])),
        ("yolo", None),
        ("masks", LabelOptions(images=SCENES / "images", class_names=str(SCENES / "masks.txt"))),
    ],
)
def test_of_objects_and_of_masks(tmp_path: Path, path: str, options: AnnotationOptions | LabelOptions | None) -> None:
    convert(open_source(SCENES / path, options=options), tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")
    schema = data.manifest.schema
    names = schema.raster.class_names if schema.raster else schema.class_names["image/object/class/label"]
    assert len(names) > 1
    assert data.class_names == names
    assert all(split.class_names == names for split in data.values())


def test_of_tags_elsewhere_and_of_nothing(tmp_path: Path) -> None:
    assert made({PARTS: ("wing", "wheel")}, tmp_path / "a").class_names == ("wing", "wheel")
    assert made({}, tmp_path / "b").class_names == ()


def test_those_of_whole_images_come_first(tmp_path: Path) -> None:
    data = made({LABEL: ("cat", "dog"), PARTS: ("wing", "wheel")}, tmp_path / "out")
    assert data.class_names == data["train"].class_names == ("cat", "dog")


def test_several_that_differ_are_named(tmp_path: Path) -> None:
    data = made({PARTS: ("wing", "wheel"), COLOURS: ("red", "blue")}, tmp_path / "a")
    for asked in (data, data["train"]):
        with pytest.raises(UsageError, match=rf"^class_names: {COLOURS}, {PARTS} .*schema.class_names\['{COLOURS}'"):
            _ = asked.class_names
    assert data["train"].schema.class_names[COLOURS] == ("red", "blue")
    same = made({PARTS: ("wing", "wheel"), COLOURS: ("wing", "wheel")}, tmp_path / "b")
    assert same.class_names == ("wing", "wheel")

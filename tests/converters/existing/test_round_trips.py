"""Drawn scenes converted, exported and converted again give the same records, for each format."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reconverted_export import converted_again, records

import shardfeed
from shardfeed.annotations import IS_CROWD, OBJECT_AREA, OBJECT_TEXT, OBJECTS, RASTER, XMIN
from shardfeed.converters import Exported, ImageFolder, ImageOptions, convert, export, open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import LABEL, SHA256, SOURCE_ID

from repository import ROOT

SCENES = ROOT / "data_samples" / "scenes"
IMAGES = str(SCENES / "images")
COCO = SCENES / "coco"
TWO = {"train": 0.7, "validation": 0.3}
TURNED = b"scene_006.jpg"  # stored upright, so it is another file than the source's
CHANGED = "images modified by the conversion, so image/key/sha256 will differ: 1"
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools


def scenes(tmp_path: Path, source: Path, split: Mapping[str, float] | None = None, **options: Any) -> Dataset:
    """A dataset of one of the forms of the drawn scenes."""
    reader = options.pop("reader", None)
    opened = open_source(source, reader=reader, options=options_of(options))
    convert(opened, tmp_path / "dataset", workers=1, split=split)
    return shardfeed.open(tmp_path / "dataset")


def there_and_back(
    data: Dataset, tmp_path: Path, to: Any, *, more: tuple[str, ...] = (), but: Any = (), **options: Any
) -> Exported:
    """Export, convert again, and compare all records but the features `but`; `more`: keys that are added."""
    report = export(data, tmp_path / "out", to, **options)
    assert report.splits == {name: len(split) for name, split in data.items()}
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert (report.files, report.size) == (len(files), sum(path.stat().st_size for path in files))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    again = converted_again(report, tmp_path / "again")
    same_records(data, again, more=more, but=but)
    return report


def same_records(data: Dataset, again: Dataset, *, more: tuple[str, ...] = (), but: Any = ()) -> None:
    ours, theirs = records(data), records(again)
    assert {split: named.keys() for split, named in ours.items()} == {s: named.keys() for s, named in theirs.items()}
    for split, named in ours.items():
        for key, record in named.items():
            found = theirs[split][key]
            assert found.keys() == record.keys() | {*more}, key
            for feature in (record.keys() & found.keys()) - {*but}:
                if not key.endswith(TURNED) or feature != SHA256:
                    assert_same(record[feature], found[feature], f"{key!r} {feature}")


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    assert type(ours) is type(theirs), what
    if isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, what
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype == np.float32), what
    else:
        assert ours == theirs or ours != ours, what


@pytest.mark.parametrize("split", [None, TWO], ids=["train", "two"])
@pytest.mark.parametrize("tasks", [["boxes", "masks"], ["boxes"]], ids=["masks", "boxes"])
def test_coco(tasks: list[Any], split: Any, tmp_path: Path) -> None:
    data = scenes(tmp_path, COCO / "instances.json", split, images=IMAGES, tasks=tasks)
    report = there_and_back(data, tmp_path, "coco")
    assert (report.renamed, report.left_out, report.notes) == (0, {}, (CHANGED,))
    assert shardfeed.open(tmp_path / "again").manifest.schema == data.manifest.schema


def test_coco_of_key_points(tmp_path: Path) -> None:
    data = scenes(tmp_path, COCO / "keypoints.json", images=IMAGES, tasks=["boxes", "keypoints"])
    there_and_back(data, tmp_path, "coco")
    assert shardfeed.open(tmp_path / "again").manifest.schema.keypoints == data.manifest.schema.keypoints


@pytest.mark.parametrize("to", ["coco", "csv"])
def test_captions(to: str, tmp_path: Path) -> None:
    data = scenes(tmp_path, COCO / "captions.json", TWO, images=IMAGES)
    dropped = ["ids"] if to == "csv" else []
    report = there_and_back(data, tmp_path, to, drop=dropped, but=[SOURCE_ID] if dropped else [])
    assert report.left_out == dict.fromkeys(dropped, 16)


def test_coco_adds_what_its_readers_ask_for(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "yolo" / "data.yaml", tasks=["boxes"])
    report = there_and_back(data, tmp_path, "coco", more=(OBJECT_AREA, IS_CROWD))
    assert report.notes[0].startswith("objects get area (that of the box) and iscrowd (0)")


def test_yolo(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "yolo" / "data.yaml", tasks=["boxes"])
    report = there_and_back(data, tmp_path, "yolo")
    assert (report.renamed, report.left_out, report.notes) == (0, {}, (CHANGED,))
    assert (tmp_path / "out" / "labels" / "val" / "scene_004.txt").read_text().count("\n") > 0


def test_voc(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "voc", reader="voc")
    report = there_and_back(data, tmp_path, "voc")
    assert (report.renamed, report.left_out, report.notes) == (0, {}, (CHANGED,))


def test_voc_of_images_in_folders_of_folders(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "yolo" / "data.yaml", tasks=["boxes"])  # images/train/scene_001.jpg
    there_and_back(
        data, tmp_path, "voc", but=[f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    )


@pytest.mark.parametrize("to", ["voc", "masks"])
def test_rasters_of_voc(to: str, tmp_path: Path) -> None:
    names = str(SCENES / "masks.txt")
    data = scenes(tmp_path, SCENES / "voc", reader="masks", tasks=["rasters"], class_names=names)
    if to == "voc":
        assert there_and_back(data, tmp_path, to).renamed == 0
        return
    report = export(data, tmp_path / "out", "masks")
    assert report.renamed == 16
    again = converted_again(report, tmp_path / "again")
    for split, named in records(data).items():
        word = b"val/" if split == "validation" else b"train/"
        for key, record in named.items():
            found = records(again)[split][word + key]
            assert found[RASTER] == record[RASTER]
            assert found["image/encoded"] == record["image/encoded"]


@pytest.mark.parametrize("split", [None, TWO], ids=["train", "two"])
def test_masks(split: Any, tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "masks", images=IMAGES, class_names=str(SCENES / "masks.txt"))
    report = there_and_back(data, tmp_path, "masks")
    assert (report.renamed, report.left_out) == (0, {})
    # Byte for byte.
    assert sorted(path.read_bytes() for path in (tmp_path / "out" / "masks").iterdir()) == sorted(
        record[RASTER] for named in records(data).values() for record in named.values()
    )
    again = shardfeed.open(tmp_path / "again").manifest.schema
    assert again.raster == data.manifest.schema.raster


def test_boxes_as_csv(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "boxes.csv", TWO, images=IMAGES)
    report = there_and_back(data, tmp_path, "csv")
    assert (report.renamed, report.left_out) == (0, {})


def test_open_images_as_csv(tmp_path: Path) -> None:
    lines = ["ImageID,LabelName,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf"]
    lines += ["scene_001.jpg,cat,0.1,0.7,0.3333333,0.9,1,0", "scene_002.jpg,dog,0,1,0,1,0,1", "scene_003.jpg,,,,,,,"]
    (tmp_path / "boxes.csv").write_text("\n".join(lines) + "\n")
    data = scenes(tmp_path, tmp_path / "boxes.csv", images=IMAGES)
    assert f"{OBJECTS}group_of" in data.manifest.schema.features
    there_and_back(data, tmp_path, "csv")


def test_sets_of_classes_as_csv(tmp_path: Path) -> None:
    data = scenes(tmp_path, SCENES / "tags.csv", TWO, images=IMAGES, label_separator=" ")
    assert data.manifest.schema.kind(LABEL) == "tags"
    there_and_back(data, tmp_path, "csv")


def test_a_table_of_everything_as_csv(tmp_path: Path) -> None:
    """Splits of any name, texts with commas and quotes, numbers to the last digit, and NaN."""
    rows = [["path", "class", "said", "count", "share", "split"]]
    for number in range(1, 9):
        share = "" if number == 3 else repr(1 / number)
        text = f'one, "{number}" größe\nand more'
        rows.append(
            [f"scene_{number:03d}.jpg", "ab"[number % 2], text, str(2**62 + number), share, f"fold_{number % 3}"]
        )
    with open(tmp_path / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    asked: dict[str, Any] = {"text_columns": ["said"], "number_columns": ["count", "share"]}
    asked |= {"missing": {"share": "nan"}, "label_columns": ["class"], "class_names": ["b", "a", "never"]}
    data = scenes(tmp_path, tmp_path / "table.csv", images=IMAGES, **asked)
    report = there_and_back(data, tmp_path, "csv")
    assert set(report.splits) == {"fold_0", "fold_1", "fold_2"}
    assert shardfeed.open(tmp_path / "again").manifest.schema == data.manifest.schema


def test_raw_pixels_as_png(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(3)), tmp_path / "dataset", workers=1, image=ImageOptions(encode="raw"))
    data = shardfeed.open(tmp_path / "dataset")
    report = export(data, tmp_path / "out", "folder")
    assert "files whose extension does not match their format: 9" in report.notes
    again = converted_again(report, tmp_path / "again")
    same_records(data, again, but=[SHA256])  # of the JPEG files before


@pytest.mark.parametrize("split", [None, TWO], ids=["train", "two"])
def test_folder(split: Any, folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(8, png_every=3)), tmp_path / "dataset", workers=1, split=split)
    data = shardfeed.open(tmp_path / "dataset")
    if split is None:
        report = there_and_back(data, tmp_path, "folder")
        assert (report.renamed, report.notes) == (0, ())
        assert shardfeed.open(tmp_path / "again").manifest.fingerprint == data.manifest.fingerprint
        return
    first = export(data, tmp_path / "first", "folder")
    assert first.renamed == 24
    data = converted_again(first, tmp_path / "once")
    report = there_and_back(data, tmp_path, "folder")
    assert report.renamed == 0


def test_what_is_converted_twice_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """Names, order, shards: all of it, once images are as a dataset stores them."""
    first = scenes(tmp_path, COCO / "instances.json", TWO, images=IMAGES, tasks=["boxes", "masks"])
    once = converted_again(export(first, tmp_path / "a", "coco"), tmp_path / "once")
    twice = converted_again(export(once, tmp_path / "b", "coco"), tmp_path / "twice")
    assert once.manifest.fingerprint == twice.manifest.fingerprint
    assert once.manifest.splits == twice.manifest.splits


def test_from_coco_to_yolo_and_voc(tmp_path: Path) -> None:
    """Dropped values are counted; a crowd's object is dropped with the crowd."""
    data = scenes(tmp_path, COCO / "instances.json", images=IMAGES, tasks=["boxes", "masks"])
    drop = ["areas", "crowds", "ids", "masks"]
    objects = sum(len(record[XMIN]) for named in records(data).values() for record in named.values())
    for to in ("yolo", "voc"):
        report = export(data, tmp_path / to, to, drop=drop)  # type: ignore[arg-type]
        assert report.left_out == {"areas": objects, "crowds": 1, "masks": objects, "ids": 16}
        again = converted_again(report, tmp_path / f"again-{to}")
        prefix = b"images/train/" if to == "yolo" else b""
        for key, record in records(data)["train"].items():
            found = records(again)["train"][prefix + key]
            single = record[IS_CROWD] == 0
            assert np.array_equal(found[XMIN], record[XMIN][single])
            names = [name for name, one in zip(record[OBJECT_TEXT], single, strict=True) if one]
            assert found[OBJECT_TEXT] == names
            assert found["image/encoded"] == record["image/encoded"]


def test_key_points_as_yolo(tmp_path: Path) -> None:
    data = scenes(tmp_path, COCO / "keypoints.json", images=IMAGES, tasks=["boxes", "keypoints"])
    report = export(data, tmp_path / "out", "yolo", drop="all")
    again = converted_again(report, tmp_path / "again")
    points = again.manifest.schema.keypoints
    assert (points.names, points.flip) == (("top", "right", "left"), (0, 2, 1))
    for key, record in records(data)["train"].items():
        found = records(again)["train"][b"images/train/" + key]
        for feature in (key for key in record if key.startswith(f"{OBJECTS}keypoint")):
            assert np.array_equal(found[feature], record[feature]), feature
    assert "the skeleton: it is not kept" in report.notes[0]

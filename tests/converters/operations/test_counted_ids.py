"""Numbers of images that are the source's own are never changed unasked; those that were counted are told by a mark."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import here, scenes, sound
from foreign_tfrecords import picture

import shardfeed
from shardfeed.converters import (
    AnnotationOptions,
    ImageFolder,
    adopt,
    append,
    convert,
    export,
    open_source,
    reshard,
    survey,
)
from shardfeed.errors import UsageError
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.manifest import read_manifest
from shardfeed.schema import FILENAME, SOURCE_ID, Feature
from shardfeed.tools.cli import main


def coco(place: Path, names: Sequence[str], ids: Sequence[int]) -> Path:
    """A dataset of images with those ids, each with one object."""
    (place / "images").mkdir(parents=True)
    for name in names:
        (place / "images" / name).write_bytes(picture(len(name), size=(40, 40)))
    images = [{"id": id_, "file_name": name, "width": 40, "height": 40} for name, id_ in zip(names, ids, strict=True)]
    objects = [
        {"id": i + 1, "image_id": id_, "category_id": 1, "bbox": [1, 2, 10, 10], "area": 100, "iscrowd": 0}
        for i, id_ in enumerate(ids)
    ]
    content = {"images": images, "annotations": objects, "categories": [{"id": 1, "name": "cat"}]}
    (place / "boxes.json").write_text(json.dumps(content))
    convert(
        open_source(place / "boxes.json", options=AnnotationOptions(images=str(place / "images"))),
        place / "ds",
        workers=here(),
    )
    return place / "ds"


def numbers(place: Path) -> dict[bytes, int]:
    """The number of each image, by its key."""
    return {bytes(r[FILENAME]): int(r[SOURCE_ID]) for split in shardfeed.open(place).values() for r in split}  # type: ignore[arg-type]


def without_mark(place: Path, **options: object) -> None:
    """The manifest as an earlier release wrote it."""
    manifest = read_manifest(str(place))
    kept = {key: value for key, value in manifest.options.items() if key != "counted_ids"}
    assert kept != manifest.options
    (place / "manifest.json").write_bytes(replace(manifest, options=kept | options).to_bytes())


@pytest.mark.parametrize("ids", [[1, 2], [2, 1]])
def test_a_merge_keeps_the_ids_of_few_images(ids: list[int], tmp_path: Path) -> None:
    a = coco(tmp_path / "a", ["a1.jpg", "a2.jpg"], ids)
    b = coco(tmp_path / "b", ["b3.jpg", "b4.jpg"], [3, 4])
    assert main(["merge", str(a), str(b), str(tmp_path / "out"), "--workers", "1"]) == 0
    assert numbers(tmp_path / "out") == numbers(a) | numbers(b)
    assert shardfeed.open(tmp_path / "out").manifest.options["counted_ids"] == []


def test_a_split_keeps_the_ids_of_records_of_others(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    bytes_ = dict.fromkeys(("image/encoded", "image/format", "image/filename", SOURCE_ID), Feature("bytes"))
    rows = [
        {
            "image/encoded": picture(i),
            "image/format": b"jpeg",
            "image/filename": b"%d.jpg" % i,
            SOURCE_ID: b"%d" % (1000 + 10 * i),
        }
        for i in range(40)
    ]
    (tmp_path / "ds" / "train-00000-of-00001.tfrecord").write_bytes(
        b"".join(frame(encode(bytes_, row)) for row in rows)
    )
    adopt(survey(tmp_path / "ds"))
    shardfeed.split(tmp_path / "ds", tmp_path / "out", {"train": 0.5, "validation": 0.5}, workers=here())
    assert numbers(tmp_path / "out") == {b"%d.jpg" % i: 1000 + 10 * i for i in range(40)}


def test_the_mark_says_of_each_split_what_was_counted(images_of_small: Path, tmp_path: Path) -> None:
    convert(ImageFolder(images_of_small), tmp_path / "a", split={"train": 0.5, "test": 0.5}, workers=here())
    shardfeed.split(tmp_path / "a", tmp_path / "b", {"all": 1.0}, workers=here())
    shardfeed.filter(tmp_path / "b", tmp_path / "c", where="class == rose", workers=here())
    convert(scenes("masks"), tmp_path / "own", workers=here())
    reshard(tmp_path / "own", tmp_path / "again", workers=here())
    marks = {name: shardfeed.open(tmp_path / name).manifest.options["counted_ids"] for name in ("a", "b", "c")}
    assert marks == {"a": ["test", "train"], "b": ["all"], "c": ["all"]}
    assert sorted(numbers(tmp_path / "b").values()) == list(range(24))
    assert shardfeed.open(tmp_path / "own").manifest.options["counted_ids"] == []
    assert shardfeed.open(tmp_path / "again").manifest.options["counted_ids"] == []


def test_ids_that_clash_are_counted_anew_only_where_that_is_asked(tmp_path: Path) -> None:
    a = coco(tmp_path / "a", ["a1.jpg", "a2.jpg"], [1, 2])
    b = coco(tmp_path / "b", ["b1.jpg", "b2.jpg"], [2, 3])
    command = ["merge", str(a), str(b), str(tmp_path / "out"), "--workers", "1"]
    assert main(command) == 2
    assert main([*command, "--renumber"]) == 0
    assert sorted(numbers(tmp_path / "out").values()) == [0, 1, 2, 3]
    assert shardfeed.open(tmp_path / "out").manifest.options["counted_ids"] == ["train"]


def test_an_append_of_own_ids_makes_the_split_one_of_own_ids(tmp_path: Path) -> None:
    old = coco(tmp_path / "a", ["a1.jpg", "a2.jpg"], [10, 20])
    (tmp_path / "counted").mkdir()
    manifest = read_manifest(str(old))
    (old / "manifest.json").write_bytes(
        replace(manifest, options={**manifest.options, "counted_ids": ["train"]}).to_bytes()
    )
    coco(tmp_path / "b", ["b3.jpg"], [7])
    source = open_source(
        tmp_path / "b" / "boxes.json", options=AnnotationOptions(images=str(tmp_path / "b" / "images"))
    )
    append(old, source, tmp_path / "out", workers=here())
    out = shardfeed.open(tmp_path / "out")
    assert out.manifest.options["counted_ids"] == []
    assert numbers(tmp_path / "out")[b"b3.jpg"] == 7
    assert sound(tmp_path / "out")


def test_without_the_mark_ids_are_the_sources_own_unless_it_can_be_proven(
    images_of_small: Path, tmp_path: Path
) -> None:
    shares = {"train": 0.5, "validation": 0.5}
    convert(ImageFolder(images_of_small), tmp_path / "small", split=shares, workers=here())  # 12 images a split
    for i in range(60):
        (tmp_path / "images" / "rose").mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / "rose" / f"{i}.jpg").write_bytes(picture(i))
    convert(ImageFolder(tmp_path / "images"), tmp_path / "large", split=shares, workers=here())
    for name in ("small", "large"):
        without_mark(tmp_path / name)
    shardfeed.split(tmp_path / "large", tmp_path / "out", {"all": 1.0}, workers=here())
    assert sorted(numbers(tmp_path / "out").values()) == list(range(60))
    with pytest.raises(UsageError, match=r"both have the id \d+ .*renumber=True"):
        shardfeed.split(tmp_path / "small", tmp_path / "no", {"all": 1.0}, workers=here())
    shardfeed.split(tmp_path / "small", tmp_path / "yes", {"all": 1.0}, renumber=True, workers=here())
    manifest = read_manifest(str(tmp_path / "large"))
    (tmp_path / "large" / "manifest.json").write_bytes(
        replace(manifest, options=dict(manifest.options) | {"adopted": True}).to_bytes()
    )
    with pytest.raises(UsageError, match="both have the id"):
        shardfeed.split(tmp_path / "large", tmp_path / "no", {"all": 1.0}, workers=here())


def test_counted_ids_with_a_gap_are_no_loss_for_an_export(images_of_small: Path, tmp_path: Path) -> None:
    for path in images_of_small.glob("*/*.jpg"):
        target = tmp_path / "images" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        bad = path.name in ("0003.jpg", "0005.jpg")
        target.write_bytes(b"no image" if bad else path.read_bytes())
    convert(tmp_path / "images", tmp_path / "ds", max_bad=6, workers=here())
    found = numbers(tmp_path / "ds")
    assert sorted(found.values()) != list(range(len(found)))
    assert export(tmp_path / "ds", tmp_path / "out", to="folder").left_out == {}
    own = coco(tmp_path / "own", ["a.jpg", "b.jpg"], [5, 9])
    with pytest.raises(UsageError, match=r"cannot store its .*ids"):
        export(own, tmp_path / "no", to="yolo")

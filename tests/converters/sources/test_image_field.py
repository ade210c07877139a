"""A field of images in annotations keeps what has the same value in one split, and is stored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_images import image_file, put

import shardfeed
from shardfeed.converters import append, convert, open_source, split
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import READERS
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.tools.cli import main

FIELD = "image/video"
SPLIT = "train=0.5,test=0.5"
Videos = list[Any]


def coco(folder: Path, videos: Videos) -> None:
    said = [{} if video is None else {"video": video} for video in videos]
    images = [
        {"id": i, "file_name": f"{i}.png", "width": 60, "height": 40, "of": []} | more for i, more in enumerate(said)
    ]
    annotations = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 9, 9]} for i in range(len(videos))]
    whole = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cat"}]}
    put(folder / "annotations" / "all.json", json.dumps(whole))


def imagefolder(folder: Path, videos: Videos) -> None:
    rows = [{"file_name": f"{i}.png", "label": "cat", "video": video} for i, video in enumerate(videos)]
    put(folder / "metadata.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def fiftyone(folder: Path, videos: Videos) -> None:
    samples = [{"filepath": f"data/{i}.png", "video": video} for i, video in enumerate(videos)]
    label = {"_cls": "Classification", "label": "cat"}
    put(folder / "samples.json", json.dumps({"samples": [{**one, "ground_truth": label} for one in samples]}))


def cvat(folder: Path, videos: Videos) -> None:
    said = ["" if video is None else f' video="{video}"' for video in videos]
    box = '<box label="cat" xtl="1" ytl="2" xbr="9" ybr="9"/>'
    images = [f'<image id="{i}" name="{i}.png"{video}>{box}</image>' for i, video in enumerate(said)]
    put(folder / "annotations.xml", f"<annotations><meta/>{''.join(images)}</annotations>")


def voc(folder: Path, videos: Videos) -> None:
    for i, video in enumerate(videos):
        said = "" if video is None else f"<video>{video}</video>"
        put(folder / "xmls" / f"{i}.xml", f"<annotation>{said}<size><depth>3</depth></size></annotation>")


def boxes(folder: Path, videos: Videos) -> None:
    lines = [f"{i}.png,1,2,9,9,cat,{'' if video is None else video}\n" for i, video in enumerate(videos)]
    put(folder / "_annotations.csv", f"image,xmin,ymin,xmax,ymax,class,video\n{''.join([*lines, *lines])}")


WRITERS: dict[str, Callable[[Path, Videos], None]] = {
    "coco": coco,
    "imagefolder": imagefolder,
    "fiftyone": fiftyone,
    "cvat": cvat,
    "voc": voc,
    "boxes-csv": boxes,
}


def made(folder: Path, reader: str, videos: Videos) -> Path:
    """Images and their annotations; `videos`: of each."""
    images = {"coco": "images/", "fiftyone": "data/", "voc": "images/"}.get(reader, "")
    for i in range(len(videos)):
        put(folder / f"{images}{i}.png", image_file(seed=i))
    WRITERS[reader](folder, videos)
    return folder


def places(dataset: Path) -> dict[bytes, set[str]]:
    """The splits of each value."""
    found: dict[bytes, set[str]] = {}
    for name, of_split in shardfeed.open(dataset).items():
        for value in of_split.column(FIELD):
            found.setdefault(bytes(value), set()).add(name)
    return found


def test_every_reader_that_takes_it_is_here() -> None:
    takes = {one.name for one in READERS if one.options is AnnotationOptions and "group_column" in one.takes}
    assert takes == WRITERS.keys()


@pytest.mark.parametrize("reader", WRITERS)
def test_images_of_a_video_are_in_one_split(tmp_path: Path, reader: str) -> None:
    """And those without one are no group."""
    source = made(tmp_path / "in", reader, [*(f"v{i // 3}" for i in range(12)), None, None])
    arguments = ["convert", str(source), str(tmp_path / "out"), "--split", SPLIT, "--group-column", "video"]
    assert main([*arguments, "--workers", "1", "--quiet"]) == 0
    found = places(tmp_path / "out")
    assert found.pop(b"") <= {"train", "test"}
    assert found.keys() == {b"v0", b"v1", b"v2", b"v3"}
    assert all(len(names) == 1 for names in found.values())
    report = split(tmp_path / "out", tmp_path / "again", {"a": 0.5, "b": 0.5}, group_column="video", workers=1)
    assert report.groups.groups == 6


def test_numbers_are_stored_as_texts_and_append_finds_them(tmp_path: Path) -> None:
    first = made(tmp_path / "first", "imagefolder", [i // 2 for i in range(12)])
    convert(first, tmp_path / "old", split={"train": 0.5, "test": 0.5}, group_column="video", workers=1)
    more = made(tmp_path / "more", "imagefolder", [i % 6 for i in range(12)])
    for i in range(12):
        (more / f"{i}.png").rename(more / f"new{i}.png")
    rows = more / "metadata.jsonl"
    rows.write_text(rows.read_text().replace('"file_name": "', '"file_name": "new'))
    append(tmp_path / "old", more, tmp_path / "out", workers=1)
    assert places(tmp_path / "out").keys() == {f"{i}".encode() for i in range(6)}
    assert all(len(names) == 1 for names in places(tmp_path / "out").values())


@pytest.mark.parametrize("reader", WRITERS)
def test_a_field_that_no_image_has_is_refused(tmp_path: Path, reader: str) -> None:
    source = made(tmp_path / "in", reader, ["a", "b"])
    with pytest.raises(UsageError, match=r"group_column: got 'patient', expected a field of the images in .*video.*;"):
        convert(source, tmp_path / "out", split={"train": 0.5, "test": 0.5}, group_column="patient")


@pytest.mark.parametrize("value", [["a"], {"id": 1}, "\ud800"])
def test_a_value_that_is_no_text_has_its_place(tmp_path: Path, value: Any) -> None:
    source = made(tmp_path / "in", "coco", ["a", value])
    with pytest.raises(LabelFileError, match=r"all.json, entry 1: its video is .*, expected a text or a number"):
        open_source(source, options=AnnotationOptions(group_column="video"))


def test_two_values_of_an_image_are_refused(tmp_path: Path) -> None:
    source = made(tmp_path / "in", "boxes-csv", ["a", "b"])
    with (source / "_annotations.csv").open("a") as file:
        file.write("0.png,1,2,8,8,cat,b\n")
    with pytest.raises(LabelFileError, match="line 6: got the video 'b', expected 'a' as before"):
        open_source(source, options=AnnotationOptions(group_column="video"))


@pytest.mark.parametrize("name", ["width", "image/filename", "object/bbox/xmin", "a\nb"])
def test_names_that_records_use_are_refused(tmp_path: Path, name: str) -> None:
    source = made(tmp_path / "in", "coco", ["a", "b"])
    with pytest.raises(UsageError, match=r"group_column: got .*, which cannot be stored as"):
        open_source(source, options=AnnotationOptions(group_column=name))


def test_readers_without_fields_name_the_pattern(tmp_path: Path) -> None:
    put(tmp_path / "a.png", image_file())
    put(tmp_path / "a.json", json.dumps({"shapes": [], "imagePath": "a.png", "flags": {}}))
    with pytest.raises(UsageError, match="but this is read as labelme; group by file names with group_pattern"):
        convert(tmp_path, tmp_path / "out", split={"train": 0.5, "test": 0.5}, group_column="video")

"""COCO's files: what is taken, what is listed, and what is refused, with where and why."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, Keypoints
from shardfeed.converters import AnnotationOptions, convert, open_source
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.place_objects import place_objects
from shardfeed.converters.sources.annotations.coco_files import mirrored
from shardfeed.converters.sources.annotations.json_stream import JsonStream, elements_of
from shardfeed.converters.sources.options import Task
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Source, SourceFile
from shardfeed.errors import LabelFileError, ShardfeedError, UsageError
from shardfeed.kinds import objects_problem
from shardfeed.testing.source import SourceContract

SQUARE = [[10, 10, 30, 10, 30, 30, 10, 30]]
PERSON = {"id": 1, "name": "person"}


def scene() -> dict[str, Any]:
    """Three images of 60 x 40 pixels: two objects, a crowd, none; ids with gaps, categories out of order."""
    images = [
        {"id": 139, "file_name": "b.png", "width": 60, "height": 40},
        {"id": 7, "file_name": "a.png", "width": 60, "height": 40},
        {"id": 9000000000, "file_name": "c.png", "width": 60, "height": 40},
    ]
    crowd = {"size": [40, 60], "counts": [0, 400, 2000]}
    annotations = [
        {"id": 5, "image_id": 139, "category_id": 18, "bbox": [10, 10, 20, 20], "area": 400, "segmentation": SQUARE},
        {"id": 6, "image_id": 7, "category_id": 1, "bbox": [0, 0, 10, 40], "area": 400, "segmentation": crowd},
        {"id": 8, "image_id": 139, "category_id": 1, "bbox": [50.5, 0, 10, 39.9], "area": 99.5},
    ]
    annotations[1]["iscrowd"] = 1
    annotations[2]["segmentation"] = [[50.5, 0, 60, 0, 60, 39], [51, 30, 55, 30, 55, 35]]
    categories = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}]
    return {"info": {}, "images": images, "annotations": annotations, "categories": categories}


def plant(root: Path, content: Any, name: str = "instances.json", images: tuple[str, ...] | None = None) -> Path:
    """Write a file and its images; gives the file."""
    found = content["images"] if isinstance(content, dict) else []
    for file in images if images is not None else [image["file_name"] for image in found]:
        path = root / "images" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (60, 40), (len(file), 9, 9)).save(path)
    text = content if isinstance(content, str) else json.dumps(content)
    (root / name).write_text(text)
    return root / name


def opened(file: Path, *tasks: Task, **options: Any) -> ColumnarSource:
    chosen = {name: options.pop(name) for name in ("include", "exclude") if name in options}
    source = open_source(file, reader="coco", options=AnnotationOptions(tasks=frozenset(tasks), **options), **chosen)
    assert isinstance(source, ColumnarSource)
    return source


def left_out(source: ColumnarSource) -> list[str]:
    account = source.findings.account
    account.check("source")
    return [one.code for one in account.left_out]


class TestContract(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        file = plant(tmp_path, scene())
        return lambda: opened(file, "masks")


def test_boxes_classes_crowd_area_and_numbers(tmp_path: Path) -> None:
    source = opened(plant(tmp_path, scene()))
    assert [source[i].key for i in range(3)] == [b"a.png", b"b.png", b"c.png"]
    assert [source[i].number for i in range(3)] == [7, 139, 9000000000]
    assert source.schema.class_names == {OBJECT_LABEL: ("person", "dog", "toothbrush")}
    assert source.schema.class_ids == {OBJECT_LABEL: (1, 18, 90)}
    objects = source[1].objects
    assert objects.boxes.tolist() == [[10, 10, 30, 30], [50.5, 0, 60.5, 39.9]]
    assert objects.columns == {IS_CROWD: [0, 0], OBJECT_LABEL: [1, 0]}
    assert objects.names == ["annotation 5", "annotation 8"]
    assert objects.size == (60, 40)
    assert objects.areas.tolist() == [400, 99.5]
    assert source[0].objects.columns[IS_CROWD] == [1]
    assert len(source[2].objects or ()) == 0
    assert OBJECT_MASK not in source.schema.features
    assert any("without objects in the source, kept: 1 (toothbrush (id 90))" in n for n in source.findings.notes)
    assert source.described.endswith("instances.json: 3 images, 3 objects of 3 classes")


def test_a_conversion_writes_them_and_adds_up(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    report = convert(opened(file, "boxes", "masks"), tmp_path / "out", workers=1, shards=2)
    assert (report.account.read, report.account.written, report.account.clipped) == (3, 3, 1)
    found: Any = shardfeed.open(tmp_path / "out")["train"]
    records = {record["image/filename"]: record for record in found}
    assert int(records[b"b.png"]["image/source_id"]) == 139
    np.testing.assert_allclose([records[b"b.png"][side][1] for side in BOX], [50.5 / 60, 0, 1, 39.9 / 40], rtol=1e-6)
    assert records[b"a.png"][OBJECT_AREA].tolist() == [400]
    assert len(records[b"c.png"][OBJECT_MASK]) == 0


def test_masks_are_those_of_pycocotools(tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    file = plant(tmp_path, scene())
    convert(opened(file, "masks"), tmp_path / "out", workers=1)
    coco = COCO(str(file))
    records: Any = shardfeed.open(tmp_path / "out")["train"]
    for record in records:
        ids = coco.getAnnIds(imgIds=[int(record["image/source_id"])])
        for png, annotation in zip(record[OBJECT_MASK], coco.loadAnns(ids), strict=True):
            (tmp_path / "mask.png").write_bytes(png)
            assert (np.array(Image.open(tmp_path / "mask.png")) == coco.annToMask(annotation)).all()


def bad(**changed: Any) -> dict[str, Any]:
    """A scene with one more annotation, which differs from a good one in `changed`; None takes a field away."""
    content = scene()
    more = {"id": 77, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0} | changed
    content["annotations"].append({key: value for key, value in more.items() if value is not None})
    return content


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"image_id": 99}, "E_ORPHAN", "annotation 77: its image_id is 99, which no image has"),
        ({"image_id": [7]}, "E_ORPHAN", "its image_id is [7], which no image has"),
        ({"image_id": True}, "E_ORPHAN", "its image_id is True"),
        ({"category_id": 2}, "E_CATEGORY", "annotation 77: got the class '2', expected one of person, dog, toothbrush"),
        ({"category_id": "person"}, "E_CATEGORY", "its category_id is 'person'"),
        ({"category_id": None}, "E_CATEGORY", "it has no class"),
        ({"bbox": []}, "E_BOX_EMPTY", "its box is [], expected 4 numbers"),
        ({"bbox": None}, "E_BOX_EMPTY", "its box is None"),
        ({"bbox": [1, 2, 3]}, "E_LINE", "its box is [1, 2, 3]"),
        ({"bbox": [1, 2, 0, 4]}, "E_BOX_EMPTY", "without an area"),
        ({"bbox": [1, 2, -3, 4]}, "E_BOX_EMPTY", "without an area"),
        ({"bbox": [1, 2, float("nan"), 4]}, "E_BOX_EMPTY", "no numbers"),
        ({"bbox": [1, 2, float("inf"), 4]}, "E_VALUE", "expected numbers below 1e+09"),
        ({"bbox": [1, 2, 10**400, 4]}, "E_VALUE", "expected numbers below 1e+09"),
        ({"bbox": [1, 2, 1e15, 4]}, "E_VALUE", "expected numbers below 1e+09"),
        ({"bbox": [1, 2, "3", 4]}, "E_LINE", "expected 4 numbers"),
        ({"bbox": [1, 2, 3, 4, 5]}, "E_LINE", "expected 4 numbers"),
        ({"bbox": 5}, "E_LINE", "expected 4 numbers"),
        ({"bbox": {"x": 1}}, "E_LINE", "expected 4 numbers"),
        ({"iscrowd": 2}, "E_VALUE", "its is_crowd is 2, expected 0 or 1"),
        ({"iscrowd": []}, "E_VALUE", "its is_crowd is []"),
        ({"area": -1}, "E_VALUE", "its area is -1, expected 0 or more"),
        ({"area": float("nan")}, "E_VALUE", "its area is nan"),
    ],
)
def test_an_annotation_that_cannot_be_used_is_listed(
    tmp_path: Path, changed: dict[str, Any], code: str, said: str
) -> None:
    source = opened(plant(tmp_path, bad(**changed)))
    assert left_out(source) == [code]
    (line,) = source.findings.account.left_out
    assert said in line.reason
    assert line.key == (b"instances.json" if code == "E_ORPHAN" else b"a.png")
    assert source.objects is not None
    assert len(source.objects) == 3
    assert len(source) == 3


@pytest.mark.parametrize(
    "region",
    [
        None,
        [],
        {},
        5,
        "x",
        [1, 2, 3, 4, 5, 6],
        [[1, 2, "3"]],
        [["x"]],
        [[1, 2, float("nan")]],
        [[10**400]],
        {"size": 5, "counts": "x"},
        {"size": [40, 60]},
    ],
)
def test_a_region_that_is_none_is_listed_where_masks_are_wanted(tmp_path: Path, region: Any) -> None:
    file = plant(tmp_path, bad(segmentation=region))
    assert left_out(opened(file, "masks")) == ["E_OUTLINE"]
    assert left_out(opened(file)) == []


@pytest.mark.parametrize("region", [[[1, 2]], {"size": [9, 9], "counts": [81]}])
def test_a_region_that_does_not_fit_is_listed_by_who_draws_it(tmp_path: Path, region: Any) -> None:
    file = plant(tmp_path, bad(segmentation=region))
    report = convert(opened(file, "masks"), tmp_path / "out", workers=1, max_bad={"objects": 1})
    assert [one.code for one in report.account.left_out] == ["E_OUTLINE"]
    assert (report.account.read, report.account.written) == (4, 3)


def test_an_annotation_twice(tmp_path: Path) -> None:
    content = scene()
    content["annotations"].append(dict(content["annotations"][0]))
    source = opened(plant(tmp_path, content))
    assert left_out(source) == ["E_TWICE"]
    assert source.objects is not None
    assert len(source.objects) == 3
    report = convert(source, tmp_path / "out", workers=1)  # nothing is lost, so nothing has to be allowed
    assert (report.account.read, report.account.written) == (4, 3)
    content["annotations"][-1]["category_id"] = 1
    with pytest.raises(LabelFileError, match="two annotations have the id 5, but differ in class"):
        opened(plant(tmp_path, content))


def test_annotations_without_ids_are_told_by_their_place(tmp_path: Path) -> None:
    content = bad(id=None, bbox=[])
    source = opened(plant(tmp_path, content))
    assert source.findings.account.left_out[0].reason.startswith("annotation 3: ")
    assert source[1].objects.names == ["annotation 5", "annotation 8"]
    for entry in content["annotations"]:
        entry.pop("id", None)
    source = opened(plant(tmp_path, content))
    assert source[1].objects.names == ["entry 0", "entry 2"]


@pytest.mark.parametrize(
    ("part", "entry", "said"),
    [
        ("categories", {"id": 1, "name": "cat"}, "\"categories\", entry 3: the id 1 is already that of 'person'"),
        ("categories", {"id": 2, "name": "dog"}, "entry 3: 'dog' is category 18 already"),
        ("categories", {"id": "two", "name": "cat"}, "its id is 'two', expected an integer"),
        ("categories", {"id": 2}, "its name is None, expected one line of text"),
        ("categories", {"id": 2, "name": "a\nb"}, "expected one line"),
        ("categories", 3, "entry 3: got 3, expected an object"),
        ("images", {"id": 7, "file_name": "d.png"}, '"images", entry 3: the id 7 is already that of a.png'),
        ("images", {"id": 8, "file_name": "a.png"}, "entry 3: a.png refers to a.png, which is listed before (entry 1)"),
        ("images", {"id": 8, "file_name": "images/a.png"}, "images/a.png refers to a.png, which is listed before"),
        ("images", {"id": None, "file_name": "d.png"}, "its id is None, expected a number"),
        ("images", {"id": 8}, "its file_name is None, expected a name"),
        ("images", [], "got [], expected an object"),
    ],
)
def test_images_and_categories_that_are_not_clear_are_refused(tmp_path: Path, part: str, entry: Any, said: str) -> None:
    content = scene()
    content[part].append(entry)
    with pytest.raises(LabelFileError, match=re.escape(said)):
        opened(plant(tmp_path, content, images=("a.png", "b.png", "c.png", "d.png")))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "byte 0: broken JSON: expected {, the file ends here"),
        ('{"images": [{"id": 1;}]}', "byte 20: broken JSON"),  # a comma would be reported elsewhere by 3.13
        ('{"images": [{"id": 1, "file_name": "a"}', "byte 39: broken JSON: expected , or ], the file ends here"),
        ('{"images": [], "annotations": [{"caption": "x', "broken JSON: unterminated string"),
        ('\ufeff{"images": [}', "byte 15: broken JSON"),
        ('{"images": []} more', "byte 15: broken JSON: extra data after"),
        ('{"images": {}, "annotations": []}', 'byte 11: "images" is not a list'),
        ('{"images": [], "images": [], "annotations": []}', '"images" appears twice'),
        ('{"images": [], "annotations": [], "categories": []}', '"images" is empty'),
        ('{"x": 1}', 'no "images" in it, only x'),
        ('{"images": [' + "[" * 100_000 + "]}", "nested too deeply"),
        ('{"x": ' + "9" * 5000 + "}", "broken JSON: exceeds the limit"),
        ('[{"image_id": 1, "bbox": [], "score": 1}]', "a list, as in COCO result files"),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"segments_info": []}]}', 'no "categories"'),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"bbox": []}]}', 'no "categories"'),
    ],
)
def test_a_file_that_is_none_of_them_says_so(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(LabelFileError) as caught:
        opened(plant(tmp_path, content, images=("a.png",)), images=str(tmp_path / "images"))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_mark_at_the_beginning_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert len(opened(file)) == 3
    file.write_bytes(b'{"images": ["caf\xe9"]}')
    with pytest.raises(LabelFileError, match="byte 16: not UTF-8"):
        opened(file, images=str(tmp_path / "images"))


def test_names_of_images(tmp_path: Path) -> None:
    content = scene()
    names = [
        "sub\\d.png",
        "http://x.org/e.png",
        "/etc/f.png",
        "../g.png",
        "C:\\h.png",
        "nowhere.png",
        "\ud800.png",
        "i",
    ]
    names += ["deep/a/j.png", "x/k.png", "l.png"]
    content["images"] += [{"id": 1000 + i, "file_name": name} for i, name in enumerate(names)]
    content["annotations"].append({"id": 70, "image_id": 1003, "category_id": 1, "bbox": [0, 0, 1, 1]})
    there = ("a.png", "b.png", "c.png", "sub/d.png", "a/j.png", "y/k.png", "1/l.png", "2/l.png", "unnamed.png")
    source = opened(plant(tmp_path, content, images=there), images=str(tmp_path / "images"))
    assert [source[i].key for i in range(len(source))] == [b"a.png", b"a/j.png", b"b.png", b"c.png", b"sub/d.png"]
    found = {one.key.decode(): (one.code, one.reason.partition(": ")[2]) for one in source.findings.rejected}
    assert found == {
        "/etc/f.png": ("E_PATH_ESCAPE", "it points outside the root"),
        "../g.png": ("E_PATH_ESCAPE", "it points outside the root"),
        "C:\\h.png": ("E_PATH_ESCAPE", "an absolute path, expected a path below the root"),
        "http://x.org/e.png": ("E_PATH_ESCAPE", "a URL: nothing is downloaded"),
        "nowhere.png": ("E_MISSING", "no such file"),
        "\\ud800.png": ("E_MISSING", "no such file: its name is not text"),
        "i": ("E_MISSING", "no such file"),
        "x/k.png": ("E_MISSING", "no such file (y/k.png has a similar name)"),
        "l.png": ("E_MISSING", "2 files match: 1/l.png, 2/l.png"),
    }
    assert left_out(source) == ["E_IMAGE"]
    assert any(
        "image files without annotations: 4 (1/l.png, 2/l.png, unnamed.png, ...)" in note
        for note in source.findings.notes
    )


def test_images_left_out_by_a_pattern_take_their_annotations_along(tmp_path: Path) -> None:
    source = opened(plant(tmp_path, scene()), exclude="b.*")
    assert [source[i].key for i in range(len(source))] == [b"a.png", b"c.png"]
    assert source.findings.rejected == []
    assert left_out(source) == []
    assert convert(source, tmp_path / "out", workers=1).account is not None


def test_no_image_at_all_is_refused_at_once(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.png").write_bytes(b"x")
    with pytest.raises(LabelFileError, match=r"none of its 3 images is below .*'b.png': no such file; check that it"):
        opened(file, images=str(tmp_path / "other"))
    (tmp_path / "alone").mkdir()
    shutil.copy(file, tmp_path / "alone")
    with pytest.raises(UsageError, match=r"none of its images, such as b.png, is in .*; give their folder: images"):
        opened(tmp_path / "alone" / "instances.json")


def test_ids_of_images_that_are_texts(tmp_path: Path) -> None:
    content = scene()
    for entry in content["images"]:
        entry["id"] = f"im-{entry['id']}"
    for entry in content["annotations"]:
        entry["image_id"] = f"im-{entry['image_id']}"
    source = opened(plant(tmp_path, content))
    assert source[0].number is None
    assert len(source.objects or ()) == 3
    assert any("image/source_id numbers the records" in note for note in source.findings.notes)


def test_no_area_no_size_no_crowd(tmp_path: Path) -> None:
    content = scene()
    for entry in content["annotations"]:
        del entry["area"]
        entry.pop("iscrowd", None)
    for entry in content["images"]:
        entry["width"] = None
    source = opened(plant(tmp_path, content))
    assert OBJECT_AREA not in source.schema.features
    objects = source[0].objects
    assert objects.size is None
    assert objects.columns[IS_CROWD] == [0]


NAMES = ["nose", "left_eye", "right_eye"]


def test_key_points(tmp_path: Path) -> None:
    content = scene()
    content["categories"] = [PERSON | {"keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]}]
    for entry in content["annotations"]:
        entry["category_id"] = 1
    content["annotations"][0] |= {"keypoints": [11, 12, 2, 13, 14, 1, 0, 0, 0], "num_keypoints": 2}
    content["annotations"][1] |= {"keypoints": [1, 2, 2], "num_keypoints": 1}
    content["annotations"][2] |= {"num_keypoints": 0}
    file = plant(tmp_path, content)
    source = opened(file)
    assert source.schema.keypoints == Keypoints(tuple(NAMES), (0, 2, 1), ((0, 1), (0, 2)))
    assert left_out(source) == ["E_KEYPOINTS"]
    objects = source[1].objects
    assert objects.points["keypoints"].tolist() == [[[11, 12, 2], [13, 14, 1], [0, 0, 0]], [[0, 0, 0]] * 3]
    assert opened(file, "boxes").schema.keypoints is None
    assert opened(file, "boxes", "keypoints").schema.keypoints is not None
    content["categories"].append({"id": 2, "name": "car", "keypoints": ["wheel"]})
    with pytest.raises(LabelFileError, match="person, car have different key points"):
        opened(plant(tmp_path, content), "keypoints")
    assert opened(file).schema.keypoints is None
    with pytest.raises(LabelFileError, match='no category names "keypoints"'):
        opened(plant(tmp_path, scene()), "keypoints")


@pytest.mark.parametrize(
    ("names", "flip"),
    [
        (NAMES, (0, 2, 1)),
        (["LeftKnee", "RightKnee", "tail"], (1, 0, 2)),
        (["l_ear", "r_ear"], (1, 0)),
        (["eye-L", "eye-R"], (1, 0)),
        (["left_eye", "nose"], ()),
        (["1", "2"], ()),
        (["left", "left"], ()),
        (["well", "river"], ()),
    ],
)
def test_which_key_points_change_places(names: list[str], flip: tuple[int, ...]) -> None:
    assert mirrored(tuple(names)) == flip


def test_captions(tmp_path: Path) -> None:
    content = scene()
    del content["categories"]
    texts = [(7, "A dog. "), (139, "Zwei Bälle"), (7, "A dog. "), (7, " "), (1, "x"), (139, 5)]
    content["annotations"] = [{"id": i, "image_id": n, "caption": text} for i, (n, text) in enumerate(texts)]
    source = opened(plant(tmp_path, content, "captions.json"))
    assert [source[i].features[CAPTION] for i in range(3)] == [[b"A dog.", b"A dog."], ["Zwei Bälle".encode()], []]
    assert left_out(source) == ["E_LINE", "E_LINE", "E_ORPHAN"]
    assert source.objects is None
    assert source.described.endswith("captions.json: 3 images, 3 captions")
    with pytest.raises(UsageError, match="got the task 'boxes', expected captions"):
        opened(tmp_path / "captions.json", "boxes")
    with pytest.raises(UsageError, match="got the task 'captions', expected boxes or masks or keypoints"):
        opened(plant(tmp_path, scene()), "captions")
    with pytest.raises(UsageError, match="got the task 'boxes'"):
        opened(tmp_path / "captions.json", "boxes", "captions")
    with pytest.raises(UsageError, match="got the task 'rasters'"):
        opened(tmp_path / "captions.json", "rasters")


def of_coco(root: Path) -> Path:
    """COCO's own layout, two splits, the same base names in both."""
    for year, shift in (("train2017", 0), ("val2017", 5)):
        content = scene()
        for entry in content["images"]:
            entry["id"] += shift
        for entry in content["annotations"]:
            entry["image_id"] += shift
        (root / "annotations").mkdir(parents=True, exist_ok=True)
        (root / year).mkdir()
        for name in "abc":
            Image.new("RGB", (60, 40), (shift, 9, 9)).save(root / year / f"{name}.png")
        (root / "annotations" / f"instances_{year}.json").write_text(json.dumps(content))
        captions = {"images": content["images"], "annotations": [{"id": 1, "image_id": 7 + shift, "caption": year}]}
        (root / "annotations" / f"captions_{year}.json").write_text(json.dumps(captions))
    return root


def test_class_lists_of_splits_must_agree(tmp_path: Path) -> None:
    file = of_coco(tmp_path) / "annotations" / "instances_val2017.json"
    content = json.loads(file.read_text())
    content["categories"][0]["id"] = 17
    file.write_text(json.dumps(content))
    with pytest.raises(LabelFileError) as caught:
        opened(tmp_path)
    assert "has different categories than instances_train2017.json: 17 'dog', 18 'dog' are only in one" in str(
        caught.value
    )


def test_ids_that_are_the_labels_are_kept(tmp_path: Path) -> None:
    """An export has the source's ids, and would number classes from 1 without."""
    content = scene()
    ids = {1: 0, 18: 1, 90: 2}
    for category in content["categories"]:
        category["id"] = ids[category["id"]]
    for annotation in content["annotations"]:
        annotation["category_id"] = ids[annotation["category_id"]]
    for entry in content["images"]:
        Image.new("RGB", (60, 40)).save(tmp_path / entry["file_name"])
    (tmp_path / "instances.json").write_text(json.dumps(content))
    assert opened(tmp_path / "instances.json", images=tmp_path).schema.class_ids[OBJECT_LABEL] == (0, 1, 2)


def test_roboflows_layout(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        content = scene()
        content["categories"].append({"id": 0, "name": "things"})
        for entry in content["images"]:
            entry["file_name"] = f"{split}-{entry['file_name']}"
            (tmp_path / split).mkdir(exist_ok=True)
            Image.new("RGB", (60, 40)).save(tmp_path / split / entry["file_name"])
        (tmp_path / split / "_annotations.coco.json").write_text(json.dumps(content))
    source = opened(tmp_path)
    assert [source[i].split for i in range(6)] == ["train"] * 3 + ["validation"] * 3
    assert source[3].key == b"valid/valid-a.png"
    assert source.schema.class_ids[OBJECT_LABEL] == (0, 1, 18, 90)
    assert len(opened(tmp_path / "train")) == 3
    described = getattr(open_source(tmp_path), "described", "")
    assert described.startswith("recognised as coco: train/_annotations.coco.json, valid/_annotations.coco.json has")


def test_a_class_without_objects_of_roboflows_is_explained(tmp_path: Path) -> None:
    content = scene()
    content["categories"][2]["id"] = 0
    notes = opened(plant(tmp_path, content)).findings.notes
    assert any("category 0, 'toothbrush', has no object: Roboflow" in note for note in notes)


def test_an_image_in_two_splits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    for split in ("train", "val"):
        plant(tmp_path, scene(), f"annotations/instances_{split}.json")
    with pytest.raises(LabelFileError, match=r"instances_val.json.* refers to .*, which is listed before"):
        opened(tmp_path)


def test_lvis_has_names_in_addresses_alone(tmp_path: Path) -> None:
    content = scene()
    for entry in content["images"]:
        entry["coco_url"] = f"http://images.example/train2017/{entry.pop('file_name')}"
    source = opened(plant(tmp_path, content, images=("a.png", "b.png", "c.png")))
    assert len(source) == 3
    assert any("the end of coco_url," in note for note in source.findings.notes)


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
def test_a_stream_gives_what_the_whole_file_has(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.converters.sources.annotations.json_stream._CHUNK", chunk)
    whole = {"a": [1.5e3, 'ü😀\\"', {"b": [None, True, -0.25]}], "c": {}, "d": [], "e": 12345678901, "f": "x"}
    file = tmp_path / "x.json"
    file.write_text(json.dumps(whole, indent=1, ensure_ascii=chunk == 7), encoding="utf-8")
    found: dict[str, Any] = {}
    stream = JsonStream(file)
    for key in stream.members():
        if key != "f":
            found[key] = list(stream.elements()) if stream.peek() == "[" else stream.value()
    stream.end()
    assert found == {key: json.loads(json.dumps(value)) for key, value in whole.items() if key != "f"}
    assert list(elements_of(str(file), "a")) == whole["a"]


def placed(source: ColumnarSource) -> None:
    """Check that a worker makes a correct record of the objects of every image, or rejects the image."""
    schema = source.schema
    for i in range(len(source)):
        sample = source[i]
        assert isinstance(sample.image, SourceFile)
        stored = store_image(Path(sample.image.path.decode()).read_bytes(), ImageOptions())
        try:
            values = place_objects(sample.key, sample.objects, stored, schema).values
        except RejectedError as error:
            assert error.code == RejectCode.FRAME  # noqa: PT017  # not every image is
        else:
            assert objects_problem(cast("dict[str, list[Any]]", values), schema) == ""


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_fuzzed_file_gives_our_errors_or_a_source_that_adds_up(tmp_path: Path, data: st.DataObject) -> None:
    """Values changed anywhere, or bytes: read, or refused by an error of ours; whatever is read is taken or listed."""
    odd = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=5),
        st.just([]),
        st.just({}),
    )
    content = scene()
    for _ in range(data.draw(st.integers(1, 3))):
        part = content[data.draw(st.sampled_from(["images", "annotations", "categories"]))]
        entry = data.draw(st.sampled_from(part))
        if isinstance(entry, dict):
            entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(odd)
    text = json.dumps(content).encode()
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.binary(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    file = plant(tmp_path, scene())
    file.write_bytes(text)
    tasks: tuple[Any, ...] = data.draw(st.sampled_from([(), ("masks",), ("captions",), ("keypoints",)]))
    try:
        source = opened(file, *tasks, images=str(tmp_path / "images"))
    except ShardfeedError as error:
        assert len(str(error)) < 1500  # noqa: PT017  # not every file is refused
        return
    if isinstance(source.objects, ObjectTable):
        assert sum(len(source[i].objects or ()) for i in range(len(source))) == len(source.objects)
        placed(source)
        listed = len(source.findings.account.left_out)
        try:
            whole = json.loads(text)["annotations"]
        except ValueError:
            return  # a mark at the beginning
        assert listed + len(source.objects) == len(whole)


def test_an_image_id_that_is_other_text_is_called_text(tmp_path: Path) -> None:
    content = scene()
    content["annotations"][0]["image_id"] = "0139"
    account = opened(plant(tmp_path, content)).findings.account
    assert [one.reason for one in account.left_out] == [
        "annotation 5: its image_id is '0139', which no image has: it is text, not a number"
    ]


@pytest.mark.parametrize(("crowds", "said"), [((0, 1, 2), True), ((1,), False)])
def test_objects_that_are_mostly_crowds_are_noted(tmp_path: Path, crowds: tuple[int, ...], said: bool) -> None:
    content = scene()
    for i, one in enumerate(content["annotations"]):
        one["iscrowd"] = int(i in crowds)
    notes = opened(plant(tmp_path, content)).findings.notes
    assert any("objects that are crowds (iscrowd 1): 3 of 3" in note for note in notes) == said


@pytest.mark.parametrize("categories", [True, False])
def test_a_file_without_any_annotation_is_noted(tmp_path: Path, categories: bool) -> None:
    content = {**scene(), "annotations": []} | ({} if categories else {"categories": []})
    notes = opened(plant(tmp_path, content)).findings.notes
    assert "no annotation in the source: 3 images stored without any" in notes


def test_keys_that_are_not_read_are_counted_by_name(tmp_path: Path) -> None:
    content = scene()
    content["images"][0] |= {"weather": "rain", "video": None, "license": 1}
    for one in content["annotations"][:2]:
        one |= {"attributes": {"occluded": False, "color": "red"}, "track_id": 0, "tags": []}
    notes = opened(plant(tmp_path, content)).findings.notes
    assert "not read: weather (1) of images" in notes
    assert "not read: attributes (2), track_id (2) of annotations" in notes
    notes = opened(tmp_path / "instances.json", group_column="weather").findings.notes
    assert not any("weather" in note for note in notes)


def of_images(content: dict[str, Any]) -> dict[str, Any]:
    """The same annotations without boxes, as classes of images, as iNaturalist has them."""
    pairs = [(139, 18), (7, 1), (9000000000, 1)]
    content["annotations"] = [
        {"id": i, "image_id": image, "category_id": category} for i, (image, category) in enumerate(pairs)
    ]
    return content


@pytest.mark.parametrize("tasks", [(), ("classes",)])
@pytest.mark.parametrize("first", ["images", "annotations"])
def test_annotations_without_boxes_are_classes_of_images(tmp_path: Path, tasks: tuple[Task, ...], first: str) -> None:
    content = of_images(scene())
    source = opened(plant(tmp_path, {first: content[first], **content}, "train2018.json"), *tasks)
    assert {sample.key: sample.features["image/class/text"] for sample in source} == {
        b"a.png": b"person",
        b"b.png": b"dog",
        b"c.png": b"person",
    }
    assert source.schema.class_names == {"image/class/label": ("person", "dog", "toothbrush")}
    assert not any(key.startswith("image/object") for key in source.schema.features)
    with pytest.raises(UsageError, match="got the task 'boxes', expected classes"):
        opened(tmp_path / "train2018.json", "boxes")


def test_a_folder_of_classes_of_images_has_its_splits(tmp_path: Path) -> None:
    for name, kept in (("train2018.json", slice(0, 2)), ("val2018.json", slice(2, 3))):
        content = of_images(scene())
        content["images"] = content["images"][kept]
        ids = {image["id"] for image in content["images"]}
        content["annotations"] = [one for one in content["annotations"] if one["image_id"] in ids]
        plant(tmp_path, content, name)
    source = open_source(tmp_path)
    assert [(sample.key, sample.split) for sample in source] == [
        (b"images/a.png", "train"),
        (b"images/b.png", "train"),
        (b"images/c.png", "validation"),
    ]


@pytest.mark.parametrize("write", [str, float], ids=["text", "float"])
@pytest.mark.parametrize("part", ["images", "image_id", "category_id", "categories"])
def test_ids_written_as_text_or_with_a_point_mean_the_same(tmp_path: Path, part: str, write: Any) -> None:
    content = scene()
    for entry in content["annotations" if part.endswith("_id") else part]:
        key = part if part.endswith("_id") else "id"
        entry[key] = write(entry[key]) if entry[key] < 2**53 else entry[key]
    source, plain = opened(plant(tmp_path, content)), opened(plant(tmp_path, scene(), "plain.json"))
    assert left_out(source) == []
    assert [source[i].objects.digest() for i in range(3)] == [plain[i].objects.digest() for i in range(3)]  # type: ignore[union-attr]
    assert [sample.number for sample in source] == [sample.number for sample in plain]
    assert source.schema == plain.schema


def test_several_classes_of_an_image_are_a_set_and_unknown_ones_are_listed(tmp_path: Path) -> None:
    content = of_images(scene())
    content["annotations"] += [{"id": 8, "image_id": 7, "category_id": 90}, {"id": 9, "image_id": 7, "category_id": 5}]
    source = opened(plant(tmp_path, content))
    assert [sample.features["image/class/text"] for sample in source] == [
        [b"person", b"toothbrush"],
        [b"dog"],
        [b"person"],
    ]
    assert left_out(source) == ["E_CATEGORY"]

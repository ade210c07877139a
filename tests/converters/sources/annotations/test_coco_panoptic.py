"""COCO's panoptic files: the class of each pixel, the boxes of things, and the faults that such files may have."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, RASTER, XMIN
from shardfeed.converters import AnnotationOptions, convert, open_source
from shardfeed.converters.sources.annotations.coco_files import recognise_coco
from shardfeed.converters.sources.options import Task
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Source
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.testing.source import SourceContract

HEIGHT, WIDTH = 8, 12
# Ids with gaps, not in order; things and stuff mixed.
CATEGORIES = [
    {"id": 184, "name": "tree", "isthing": 0},
    {"id": 1, "name": "person", "isthing": 1},
    {"id": 92, "name": "banner", "isthing": 0},
    {"id": 18, "name": "dog", "isthing": 1},
]
CLASS = {1: 0, 18: 1, 92: 2, 184: 3}
FIRST, SECOND, THIRD = 5, 256 * 7 + 3, 65536 * 200 + 256 * 9 + 1  # one, two and three bytes
SEGMENTS: list[tuple[int, int, tuple[slice, slice]]] = [
    (FIRST, 184, np.s_[0:4, :]),
    (SECOND, 18, np.s_[2:6, 3:9]),
    (THIRD, 1, np.s_[5:8, 0:4]),
]


def ids_of(shift: int = 0) -> np.ndarray:
    """The segment of each pixel, 0 where there is none."""
    ids = np.zeros((HEIGHT, WIDTH), np.int64)
    for own, _, where in SEGMENTS:
        ids[where] = own
    return np.roll(ids, shift, 1)


def classes_of(ids: np.ndarray) -> np.ndarray:
    found = np.full(ids.shape, 255)
    for own, category, _ in SEGMENTS:
        found[ids == own] = CLASS[category]
    return found


def colours(ids: np.ndarray) -> np.ndarray:
    return np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=-1).astype(np.uint8)


def segments(ids: np.ndarray) -> list[dict[str, Any]]:
    found = []
    for own, category, _ in SEGMENTS:
        y, x = np.nonzero(ids == own)
        left, top = x.min().item(), y.min().item()
        box = [left, top, x.max().item() + 1 - left, y.max().item() + 1 - top]
        found.append({"id": own, "category_id": category, "area": len(x), "bbox": box, "iscrowd": int(own == THIRD)})
    return found


def scene(count: int = 3) -> dict[str, Any]:
    images = [{"id": 10 * i, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(count)]
    annotations = [
        {"image_id": 10 * i, "file_name": f"{i}.png", "segments_info": segments(ids_of(i))} for i in range(count)
    ]
    return {"images": images, "annotations": annotations, "categories": CATEGORIES}


def plant(root: Path, content: dict[str, Any], split: str = "train2017", pngs: str | None = None) -> Path:
    """COCO's own layout; gives the file. `pngs`: the folder of the PNGs, where it is another than COCO's."""
    folder = root / (pngs or f"annotations/panoptic_{split}")
    for place in (root / split, folder, root / "annotations"):
        place.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(content["images"]):
        Image.new("RGB", (WIDTH, HEIGHT), (i, 99, len(split))).save(root / split / image["file_name"])
        Image.fromarray(colours(ids_of(i))).save(folder / f"{i}.png")
    path = root / "annotations" / f"panoptic_{split}.json"
    path.write_text(json.dumps(content))
    return path


def opened(file: Path, *tasks: Task, **options: Any) -> ColumnarSource:
    chosen = {name: options.pop(name) for name in ("include", "exclude") if name in options}
    source = open_source(file, reader="coco", options=AnnotationOptions(tasks=frozenset(tasks), **options), **chosen)
    assert isinstance(source, ColumnarSource)
    return source


def records(out: Path, split: str = "train") -> dict[bytes, Any]:
    found: Any = shardfeed.open(out)[split]
    return {record["image/filename"]: record for record in found}


def raster(record: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(record[RASTER])))


def left_out(report: Any) -> list[tuple[str, str]]:
    return [(one.code, one.reason) for one in report.account.left_out]


class TestContract(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        file = plant(tmp_path, scene())
        return lambda: opened(file)


def test_a_conversion_writes_classes_of_pixels_and_boxes_of_things(tmp_path: Path) -> None:
    source = opened(plant(tmp_path, scene()))
    assert source.described.endswith("panoptic_train2017.json: 3 images, 6 objects of 2 classes")
    assert source.schema.class_names == {OBJECT_LABEL: ("person", "dog")}
    assert source.schema.class_ids == {OBJECT_LABEL: (1, 18)}
    meant = source.schema.raster
    assert (meant.class_names, meant.void, meant.class_ids) == (
        ("person", "dog", "banner", "tree"), 255, (1, 18, 92, 184),
    )  # fmt: skip
    report = convert(source, tmp_path / "out", workers=1, shards=2)
    assert (report.account.read, report.account.written, report.account.left_out) == (6, 6, ())
    found = records(tmp_path / "out")
    for i in range(3):
        record, ids = found[b"%d.jpg" % i], ids_of(i)
        np.testing.assert_array_equal(raster(record), classes_of(ids))
        assert int(record["image/source_id"]) == 10 * i
        assert record[OBJECT_LABEL].tolist() == [1, 0]
        assert record[IS_CROWD].tolist() == [0, 1]
        assert record[OBJECT_AREA].tolist() == [(ids == own).sum() for own in (SECOND, THIRD)]
    np.testing.assert_allclose([found[b"0.jpg"][side][0] for side in BOX], [3 / 12, 2 / 8, 9 / 12, 6 / 8], rtol=1e-6)


def test_each_task_alone(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    source = opened(file, "rasters")
    assert source.objects is None
    report = convert(source, tmp_path / "rasters", workers=1)
    assert report.account is None or report.account.read == 0
    record = records(tmp_path / "rasters")[b"1.jpg"]
    np.testing.assert_array_equal(raster(record), classes_of(ids_of(1)))
    assert XMIN not in record
    for png in (tmp_path / "annotations" / "panoptic_train2017").iterdir():
        png.unlink()  # boxes need none
    source = opened(file, "boxes")
    assert source.schema.raster is None
    convert(source, tmp_path / "boxes", workers=1)
    record = records(tmp_path / "boxes")[b"1.jpg"]
    assert RASTER not in record
    assert len(record[XMIN]) == 2
    for task in ("masks", "keypoints", "captions"):
        with pytest.raises(UsageError, match=f"got the task '{task}', expected boxes or rasters"):
            opened(file, task)


def test_a_folder_has_a_split_for_each_file(tmp_path: Path) -> None:
    plant(tmp_path, scene())
    plant(tmp_path, scene(2), "val2017")
    assert '"segments_info"' in getattr(open_source(tmp_path), "described", "")
    convert(open_source(tmp_path), tmp_path / "out", workers=1)
    for split, count in (("train", 3), ("validation", 2)):
        found = records(tmp_path / "out", split)
        assert len(found) == count
        for key, record in found.items():
            np.testing.assert_array_equal(raster(record), classes_of(ids_of(int(key.split(b"/")[-1][:1]))))


@pytest.mark.parametrize("kind", ["panoptic", "captions", "instances"])
def test_a_name_tells_where_images_fill_what_is_looked_at(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plant(tmp_path, scene()).with_name(f"{kind}_train2017.json")
    file.write_text(json.dumps(scene()))
    monkeypatch.setattr("shardfeed.converters.sources.annotations.coco_files._PEEKED", 100)
    assert recognise_coco(str(file)) == kind


def test_beside_instances_it_is_what_rasters_are_asked_of(tmp_path: Path) -> None:
    plant(tmp_path, scene())
    content = scene()
    content["annotations"] = [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [0, 0, 5, 5]}]
    (tmp_path / "annotations" / "instances_train2017.json").write_text(json.dumps(content))
    assert open_source(tmp_path).schema.raster is None
    assert open_source(tmp_path, options=AnnotationOptions(tasks=["boxes", "rasters"])).schema.raster is not None
    with pytest.raises(UsageError, match="got the task 'rasters', expected boxes or masks or keypoints"):
        opened(tmp_path / "annotations" / "instances_train2017.json", "rasters")


@pytest.mark.parametrize("pngs", ["panoptic_train2017", "annotations"])
def test_pngs_may_lie_beside_the_file_or_its_folder(tmp_path: Path, pngs: str) -> None:
    convert(opened(plant(tmp_path, scene(), pngs=pngs)), tmp_path / "out", workers=1)
    np.testing.assert_array_equal(raster(records(tmp_path / "out")[b"2.jpg"]), classes_of(ids_of(2)))


def test_pngs_below_the_images_are_no_images(tmp_path: Path) -> None:
    content = scene()
    for image in content["images"]:
        image["file_name"] = image["file_name"].replace("jpg", "png")
    file = plant(tmp_path, content)
    source = opened(file, images=str(tmp_path))
    assert [source[i].key for i in range(3)] == [b"train2017/0.png", b"train2017/1.png", b"train2017/2.png"]
    assert not any("do not name" in note for note in source.findings.notes)


def test_no_folder_of_pngs(tmp_path: Path) -> None:
    file = plant(tmp_path, scene(), pngs="elsewhere")
    with pytest.raises(UsageError, match=r"the folder of its PNGs is missing, tried .*put them into a folder"):
        opened(file)


def test_an_image_without_its_png(tmp_path: Path) -> None:
    content = scene(5)
    file = plant(tmp_path, content)
    (file.with_suffix("") / "1.png").unlink()
    del content["annotations"][3]
    content["annotations"][3]["file_name"] = "../panoptic_train2017/4.png"  # nothing leaves the folder
    file.write_text(json.dumps(content))
    source = opened(file)
    assert [(one.key, one.code, one.reason) for one in source.findings.rejected] == [
        (b"1.jpg", "E_PAIR", "its PNG 1.png is missing"),
        (b"3.jpg", "E_PAIR", "no annotation refers to its PNG"),
        (b"4.jpg", "E_PAIR", "its PNG ../panoptic_train2017/4.png is missing"),
    ]
    report = convert(source, tmp_path / "out", workers=1, max_bad=3)
    assert sorted(records(tmp_path / "out")) == [b"0.jpg", b"2.jpg"]
    assert [code for code, _ in left_out(report)] == ["E_IMAGE"] * 4


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    (tmp_path / "train2017" / "2.jpg").unlink()
    source = opened(file)
    assert [(one.key, one.code) for one in source.findings.rejected] == [(b"2.jpg", "E_MISSING")]
    report = convert(source, tmp_path / "out", workers=1, max_bad=1)
    assert [code for code, _ in left_out(report)] == ["E_IMAGE"] * 2


PIXELS = [  # faults of which nobody knows what the pixels are: (what is done to the segments, code, reason)
    (lambda found: found[0].update(category_id=7), "E_CATEGORY", "its category_id is 7, which no category has"),
    (lambda found: found[0].update(id="x"), "E_VALUE", "its id is 'x', expected 1 to 16,777,215"),
    (lambda found: found[0].update(id=0), "E_VALUE", "its id is 0, expected 1 to 16,777,215"),
    (lambda found: found[0].update(id=1 << 24), "E_VALUE", "its id is 16777216, expected 1 to 16,777,215"),
    (lambda found: found.append(dict(found[0])), "E_VALUE", "another segment of the image has the same id"),
    (lambda found: found.__setitem__(0, 5), "E_LINE", "got 5, expected an object"),
    (lambda found: found.pop(0), "", ""),  # a colour that no segment has
]
BOXES = [
    ({"bbox": None}, "E_BOX_EMPTY"),
    ({"bbox": [1, 1, 0, 1]}, "E_BOX_EMPTY"),
    ({"bbox": [1, 1, 100, 1]}, "E_BOX_OUTSIDE"),
    ({"iscrowd": 2}, "E_VALUE"),
    ({"area": -1}, "E_VALUE"),
]


def test_pixels_of_which_nobody_knows_the_class_refuse_their_image(tmp_path: Path) -> None:
    content = scene(len(PIXELS) + 1)
    for (change, _, _), entry in zip(PIXELS, content["annotations"], strict=False):
        change(entry["segments_info"])
    report = convert(opened(plant(tmp_path, content)), tmp_path / "out", workers=1, max_bad={"images": 7, "objects": 9})
    report.account.check("test")
    assert list(records(tmp_path / "out")) == [b"7.jpg"]
    for i, (_, code, reason) in enumerate(PIXELS):
        of_image = [one for one in report.account.left_out if one.key == b"%d.jpg" % i]
        faults = [(one.code, one.reason.partition(": ")[2]) for one in of_image if one.code != "E_IMAGE"]
        assert set(faults) == ({(code, reason)} if code else set())
        assert len(of_image) - len(faults) == 2  # its things are left out with it
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert len(rejected) == 7
    assert {one["code"] for one in rejected} == {"E_MASK_LOSSY"}
    assert "6.png: the colour (5, 0, 0) at column 0, row 0, not that of a class" in json.dumps(rejected)


def test_a_bad_box_is_listed_and_its_pixels_stay(tmp_path: Path) -> None:
    content = scene(len(BOXES))
    for (change, _), entry in zip(BOXES, content["annotations"], strict=True):
        entry["segments_info"][0].update(change)  # stuff, which has no box
        entry["segments_info"][1].update(change)
    report = convert(opened(plant(tmp_path, content)), tmp_path / "out", workers=1, max_bad={"objects": 5})
    assert [code for code, _ in left_out(report)] == [code for _, code in BOXES]
    found = records(tmp_path / "out")
    for i in range(len(BOXES)):
        np.testing.assert_array_equal(raster(found[b"%d.jpg" % i]), classes_of(ids_of(i)))
        assert len(found[b"%d.jpg" % i][XMIN]) == 1


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (5, "E_LINE"),
        ({"image_id": [], "segments_info": []}, "E_ORPHAN"),
        ({"image_id": 5, "file_name": "5.png", "segments_info": 5}, "E_LINE"),
        ({"image_id": 5, "segments_info": [{"id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}]}, "E_ORPHAN"),
    ],
)
def test_entries_that_say_nothing(tmp_path: Path, entry: Any, code: str) -> None:
    content = scene()
    content["annotations"].append(entry)
    source = opened(plant(tmp_path, content))
    account = source.findings.account
    assert [(one.key, one.code) for one in account.left_out] == [(b"panoptic_train2017.json", code)]


def with_things(*said: Any) -> dict[str, Any]:
    content = scene()
    content["categories"] = [{**one, "isthing": value} for one, value in zip(CATEGORIES, said, strict=True)]
    return content


def test_files_as_a_whole(tmp_path: Path) -> None:
    content = scene()
    content["annotations"].append(dict(content["annotations"][0], file_name="9.png"))
    with pytest.raises(LabelFileError, match=r"two annotations are of the image 0: 0\.png and 9\.png"):
        opened(plant(tmp_path / "twice", content))
    with pytest.raises(LabelFileError, match='"categories" is missing or empty'):
        opened(plant(tmp_path / "empty", {**scene(), "categories": []}), "rasters")
    file = plant(tmp_path / "unsaid", with_things(0, None, 0, 1))
    with pytest.raises(LabelFileError, match='category 1: its "isthing" is not 0 or 1'):
        opened(file)
    assert opened(file, "rasters").schema.raster is not None
    file = plant(tmp_path / "stuff", with_things(0, 0, 0, 0))
    assert opened(file).objects is None
    with pytest.raises(LabelFileError, match="no category is a thing"):
        opened(file, "boxes")
    plant(tmp_path / "two", scene())
    plant(tmp_path / "two", with_things(1, 1, 0, 1), "val2017")
    with pytest.raises(LabelFileError, match="differs from that in panoptic_train2017"):
        opened(tmp_path / "two")


def test_more_than_255_categories(tmp_path: Path) -> None:
    content = scene()
    content["categories"] = [{"id": i, "name": f"class {i}", "isthing": 0} for i in range(300)]
    convert(opened(plant(tmp_path, content)), tmp_path / "out", workers=1)
    found = raster(records(tmp_path / "out")[b"0.jpg"])
    assert found[0, 0] == 184
    assert found[7, 11] == 65535


@pytest.mark.parametrize("upright", [True, False])
def test_exif_is_decided_by_the_size(tmp_path: Path, upright: bool) -> None:
    """The PNG and the boxes are of the upright image, or of the one in the file; the record has the upright one."""
    content = scene()
    if upright:
        for image in content["images"]:
            image["width"], image["height"] = HEIGHT, WIDTH
    file = plant(tmp_path, content)
    ids = np.rot90(ids_of(0), -1) if upright else ids_of(0)
    content["annotations"][0]["segments_info"] = segments(ids)
    for i in range(3):
        exif = Image.Exif()
        exif[0x0112] = 6  # a quarter to the right makes it upright
        Image.new("RGB", (WIDTH, HEIGHT), (i, 9, 9)).save(tmp_path / "train2017" / f"{i}.jpg", exif=exif)
        drawn = np.rot90(ids_of(i), -1) if upright else ids_of(i)
        content["annotations"][i]["segments_info"] = segments(drawn)
        Image.fromarray(colours(drawn)).save(file.with_suffix("") / f"{i}.png")
    file.write_text(json.dumps(content))
    convert(opened(file), tmp_path / "out", workers=1)
    record = records(tmp_path / "out")[b"0.jpg"]
    np.testing.assert_array_equal(raster(record), np.rot90(classes_of(ids_of(0)), -1))
    np.testing.assert_allclose([record[side][0] for side in BOX], [2 / 8, 3 / 12, 6 / 8, 9 / 12], rtol=1e-6)

"""Objects through a whole conversion: written, accounted for, and refused where more are bad than may be."""

import io
import json
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, OBJECT_LABEL, OBJECT_TEXT, XMIN
from shardfeed.converters import AnnotationOptions, ImageOptions, RayWorkers, Sample, convert, open_source
from shardfeed.converters.rejects import Account, LeftOut
from shardfeed.converters.sources.source import Findings, Objects, SourceInfo
from shardfeed.errors import TooManyRejectedError
from shardfeed.schema import Feature, Schema

from repository import ROOT
from trees import tree

SCHEMA = Schema(
    {
        **{key: Feature("float32", (None,), "box") for key in BOX},
        OBJECT_LABEL: Feature("int64", (None,), "label"),
        OBJECT_TEXT: Feature("bytes", (None,), "text"),
    },
    {OBJECT_LABEL: ("cat", "dog")},
    class_ids={OBJECT_LABEL: (3, 17)},
)


class Scenes:
    """Images of 60 x 40 pixels, of which image i has i objects; some may be bad."""

    schema = SCHEMA

    def __init__(self, images: int, outside: int = 0, orphans: int = 0, broken: int = 0) -> None:
        self.images, self.outside, self.broken = images, outside, broken
        left_out = tuple(LeftOut(b"", "E_ORPHAN", f"annotation {1000 + i}: of no image") for i in range(orphans))
        self.account = Account(read=orphans, left_out=left_out)

    def info(self) -> SourceInfo:
        return SourceInfo(Findings(account=self.account))

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self.images:
            raise IndexError(i)
        out = io.BytesIO()
        Image.new("RGB", (60, 40), (i, 9, 9)).save(out, "PNG")
        data = out.getvalue()[:50] if i < self.broken else out.getvalue()
        boxes = np.array([(n, n, n + 10, 30) for n in range(i)], np.float64).reshape(-1, 4)
        boxes[: min(self.outside, 1) * (i == self.images - 1)] += 100
        names = [f"annotation {100 * i + n}" for n in range(i)]
        columns = {OBJECT_LABEL: [n % 2 for n in range(i)]}
        return Sample(b"%d.png" % i, data, {}, objects=Objects(boxes, columns, names, (60, 40)), number=40 + i)


def test_objects_are_written_and_read_back(tmp_path: Path) -> None:
    report = convert(Scenes(6), tmp_path / "out", shards=2, workers=2)
    assert report.account == Account(15, 15)
    assert report.to_json()["annotations"] == {
        "read": 15, "written": 15, "clipped": 0, "clipped_by_px": 0.0, "left_out": {},
    }  # fmt: skip
    data = shardfeed.open(tmp_path / "out")
    assert data.manifest.schema.class_ids == {OBJECT_LABEL: (3, 17)}
    found: dict[int, Any] = {int(cast(bytes, record["image/source_id"])): record for record in data["train"]}
    assert sorted(found) == list(range(40, 46))
    for number, record in found.items():
        assert record[XMIN].tolist() == [np.float32(n / 60) for n in range(number - 40)]
        assert record[OBJECT_LABEL].tolist() == [n % 2 for n in range(number - 40)]
    assert data.manifest.splits["train"].class_counts[OBJECT_LABEL] == (9, 6)
    assert Schema.from_json(data.manifest.schema.to_json()) == data.manifest.schema


@pytest.mark.promise(49)
def test_bad_annotations_stop_it_unless_they_are_allowed(tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError, match=r"1 annotation left out \(1 E_BOX_OUTSIDE: 5.png, annotation 500"):
        convert(Scenes(6, outside=1), tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
    report = convert(Scenes(6, outside=1), tmp_path / "out", workers=1, max_bad={"objects": 1})
    assert (report.account.read, report.account.written, len(report.account.left_out)) == (15, 14, 1)
    (line,) = (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()
    assert json.loads(line)["code"] == "E_BOX_OUTSIDE"
    assert json.loads(line)["key"] == "5.png"


def test_what_the_source_left_out_stops_it_before_an_image_is_read(tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError, match="nothing was written") as caught:
        convert(Scenes(3, orphans=2), tmp_path / "out", workers=1)
    assert [noted.what for noted in caught.value.rejected] == ["E_ORPHAN"] * 2
    report = convert(Scenes(3, orphans=2), tmp_path / "out", workers=1, max_bad={"objects": "50%"})
    assert (report.account.read, report.account.written) == (5, 3)


@pytest.mark.promise(49)
def test_an_image_that_is_left_out_takes_its_objects_along(tmp_path: Path) -> None:
    report = convert(Scenes(4, broken=3), tmp_path / "out", workers=1, max_bad=3)
    assert (report.account.read, report.account.written) == (6, 3)
    assert [one.code for one in report.account.left_out] == ["E_IMAGE"] * 3
    assert report.account.bad == []


@pytest.mark.long
def test_objects_that_change_make_their_shard_anew_and_no_other(tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError):
        convert(Scenes(6, outside=1), tmp_path / "out", shards=3, workers=1)
    report = convert(Scenes(6), tmp_path / "out", shards=3, workers=1)
    assert (report.kept, report.account) == (2, Account(15, 15))
    convert(Scenes(6), tmp_path / "again", shards=3, workers=2)
    names = sorted(path.name for path in (tmp_path / "out").glob("train*"))
    assert len(names) == 3
    assert all((tmp_path / "out" / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)
    shutil.rmtree(tmp_path / "again")


def test_a_cut_takes_them_along(tmp_path: Path) -> None:
    report = convert(Scenes(6), tmp_path / "out", workers=1, image=ImageOptions(size=20))
    assert report.account.read == 15
    assert {one.code for one in report.account.left_out} == {"E_CUT_OFF"}
    report = convert(Scenes(6), tmp_path / "small", workers=1, image=ImageOptions(resize_shorter=20))
    assert report.account == Account(15, 15)


@pytest.mark.promise(14)
@pytest.mark.long
def test_any_workers_and_ray_give_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    scenes = ROOT / "data_samples" / "scenes"
    engines: list[dict[str, Any]] = [*({"workers": workers} for workers in range(1, 5)), {"workers": RayWorkers()}]
    trees = []
    for i, options in enumerate(engines):
        source = open_source(
            scenes / "coco" / "instances.json",
            options=AnnotationOptions(images=scenes / "images", tasks=["boxes", "masks"]),
        )
        place = tmp_path / str(i)
        place.mkdir()
        convert(source, place / "out", shards=5, **options)
        trees.append(tree(place))
    assert trees[0]
    assert all(other == trees[0] for other in trees)

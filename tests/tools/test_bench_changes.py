"""Changes that `bench` tries: which are possible, and that each really makes what its advice says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foreign_tfrecords import picture, write
from PIL import Image

import shardfeed
from shardfeed.converters import adopt, survey
from shardfeed.errors import IntegrityError
from shardfeed.readers import Dataset, Split
from shardfeed.tools.bench import changes
from shardfeed.tools.bench.changes import (
    TypicalImage,
    converted,
    measure_changes,
    possible_changes,
    sample_of,
    stored_side,
    typical_image,
)
from shardfeed.tools.bench.stages import Workload

from pictures import image_bytes

SMALL = TypicalImage(height=240, width=240, baseline=1.0, progressive=0.0, png=0.0, raw=False)


@pytest.fixture
def work(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> Workload:
    monkeypatch.setattr(changes, "cpu_budget", lambda: 2)
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: False)
    return Workload(flowers["train"], 8, 224, "stream", 2)


def named(work: Workload, typical: TypicalImage) -> list[str]:
    return [change.change for change in possible_changes(work, typical)]


def test_only_changes_that_change_something_are_tried(work: Workload) -> None:
    assert stored_side(224) == 256
    assert named(work, SMALL) == []
    assert named(replace(work, workers=1), SMALL) == ["leave out --workers to use all 2"]
    assert named(work, replace(SMALL, raw=True, height=900, width=900)) == []
    assert named(work, replace(SMALL, progressive=0.6)) == ["shardfeed convert SOURCE OUT --baseline"]
    assert named(work, replace(SMALL, png=1.0)) == ["shardfeed convert SOURCE OUT --png-to-jpeg"]
    assert named(work, replace(SMALL, height=375, width=500)) == [
        "shardfeed convert SOURCE OUT --resize-shorter 256",
        "shardfeed convert SOURCE OUT --seekable",
    ]


def test_pixels_are_offered_where_they_fit_into_memory(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(SMALL, height=512, width=512)
    pixels = 3 * 512 * 512 * len(work.split)
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: size < pixels)
    assert [change.split(", then ")[-1][:6] for change in named(work, large)] == ["shardf", "shardf", "cached"]
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: True)
    assert len(named(work, large)) == 4


def others_images(root: Path, images: list[bytes]) -> Split:
    """TFRecords that someone else wrote, with these images."""
    write(root / "in" / "train-00000-of-00001.tfrecord", [{"image/encoded": image} for image in images])
    adopt(survey(root / "in"), root / "out")
    return shardfeed.open(root / "out")["train"]


def test_the_typical_image_is_the_median_of_images_that_can_be_read(tmp_path: Path) -> None:
    forms = ("JPEG", "PNG", "WEBP", "GIF")
    images = [picture(number, form, (40 + number, 50 + number)) for number, form in enumerate(forms)]
    progressive = image_bytes(Image.new("RGB", (54, 44)), "JPEG", progressive=True)
    split = others_images(tmp_path, [*images, progressive, b"\xff\xd8 no JPEG", b"no image"])
    assert typical_image(split) == TypicalImage(height=42, width=52, baseline=0.2, progressive=0.2, png=0.2, raw=False)


def test_a_split_without_an_image_that_can_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="none of the 2 images"):
        typical_image(others_images(tmp_path, [b"\xff\xd8 no JPEG", b"no image"]))


@pytest.mark.parametrize(("side", "images"), [(240, 161), (10_000, None), (3344, 32), (5793, None)])
def test_a_sample_fits_into_memory_and_is_two_batches_at_least(work: Workload, side: int, images: int | None) -> None:
    sample = sample_of(work, replace(SMALL, height=side, width=side))
    assert (sample and len(sample.split)) == images


def test_a_split_of_few_images_is_not_called_one_of_large_images(work: Workload) -> None:
    few, report = replace(work.cut(15), workers=1), {"pipeline": {"images_per_s": 9.0}, "model": None}
    found = measure_changes(few, SMALL, report, 0.0, float("inf"), lambda line: None)
    (not_tried,) = found["not_tried"]
    assert "--batch-size" in not_tried["why"]
    assert "memory" not in not_tried["why"]


@pytest.mark.long
def test_changes_are_really_made(work: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: True)
    small = replace(work.cut(16), image_size=16)
    base = converted(small, str(tmp_path / "base"))
    first, second = (sorted(record["image/encoded"] for record in each.split) for each in (base, small))
    assert first == second
    made = {}
    for number, change in enumerate(possible_changes(small, typical_image(small.split))):
        changed = change.made(base, str(tmp_path / str(number)))
        assert len(changed.split) == 16
        made[change.change] = changed.split[0]
    shrunk = made["shardfeed convert SOURCE OUT --resize-shorter 18"]
    assert min(shrunk["image/height"], shrunk["image/width"]) == 18
    assert {record["image/format"] for name, record in made.items() if "cached" in name} == {b"raw"}


def test_a_change_that_fails_leaves_the_others_measured(tmp_path: Path, work: Workload) -> None:
    """An image that TensorFlow decodes and a conversion refuses once ended `bench` with all figures lost."""
    image = image_bytes(Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)), "JPEG")
    middle = len(image) // 2
    split = others_images(tmp_path, [image[:middle] + 3 * b"\xff\xd3" + image[middle + 6 :], *[image] * 7])
    made: list[str] = []
    report = {"pipeline": {"images_per_s": 9.0}, "model": None}
    pipeline = Workload(split, 4, 32, "stream", 1)
    found = measure_changes(pipeline, typical_image(split), report, 0.0, float("inf"), made.append)
    assert len(made) == 2
    assert len(found["not_tried"]) + len(found["advice"]) <= 2
    (why,) = [each["why"] for each in found["not_tried"] if "--resize-shorter 37" in each["change"]]
    assert "rejected" in why

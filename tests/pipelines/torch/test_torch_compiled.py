"""Batches for PyTorch by the compiled module: those of Python's path, bit for bit, and the same errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import stored
from seekable_images import drawn, jpeg

from shardfeed.annotations import BOX, OBJECT_LABEL
from shardfeed.converters import Sample
from shardfeed.converters.sources.source import Objects
from shardfeed.errors import RecordError
from shardfeed.formats.example import encode
from shardfeed.pipelines.decoding import compiled
from shardfeed.pipelines.torch import (
    detection,
    letterbox,
    random_resized_crop,
    resize_center_crop,
    torch_eval_loader,
    torch_loader,
)
from shardfeed.readers import Dataset
from shardfeed.schema import ENCODED, LABEL, Feature, Schema

from decoding_paths import COMPILED, PYTHON, built, path_taken

pytest.importorskip("cv2")
pytestmark = built


def on_both(make: Callable[[], Any]) -> list[Any]:
    found = []
    for path in (COMPILED, PYTHON):
        with path_taken(path):
            found.append(list(make()))
    return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each image that the compiled module was given, whether it made it."""
    seen: list[bool] = []
    views = compiled.CompiledImages.views

    def counted(found: compiled.CompiledImages) -> Any:
        seen.extend(found.made)
        return views(found)

    monkeypatch.setattr(compiled.CompiledImages, "views", counted)
    return seen


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("crop", [random_resized_crop, resize_center_crop], ids=["random", "center"])
def test_images_and_labels(flowers: Dataset, made: list[bool], crop: Callable[..., Any], antialias: bool) -> None:
    transform = crop((19, 22), antialias=antialias)
    options: dict[str, Any] = {"batch_size": 32, "image_transform": transform, "workers": 0}
    if crop is random_resized_crop:
        found, expected = on_both(lambda: torch_loader(flowers["train"], seed=3, **options))
    else:
        found, expected = on_both(lambda: torch_eval_loader(flowers["train"], **options))
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other)
        for part, same in zip(one, other, strict=True):
            assert part.dtype == same.dtype
            assert part.stride() == same.stride()
            if part.dtype == torch.uint8 and part.ndim == 4 and not antialias:
                assert torch.equal(part, same)
            elif part.ndim == 4:  # PyTorch computes in integers where the processor has AVX2, else in floats
                assert (part.int() - same.int()).abs().max() <= 1
            else:
                assert torch.equal(part, same)
    assert 0.8 * len(made) < sum(made) < len(made), "PNGs are made by Python"


BOXES = Schema(
    {**{key: Feature("float32", (None,), "box") for key in BOX}, OBJECT_LABEL: Feature("int64", (None,), "label")},
    {OBJECT_LABEL: ("cat", "dog")},
)


def photo(i: int) -> Sample:
    """A JPEG with a box."""
    boxes = np.array([(5 + i, 6, 40, 50 + i)], np.float64)
    objects = Objects(boxes, {OBJECT_LABEL: [i % 2]}, ["annotation"], (90, 80))
    return Sample(b"%d.jpg" % i, jpeg(drawn(80, 90, i)), objects=objects)


def test_boxes_follow_the_view(made: list[bool], tmp_path: Path) -> None:
    split = stored(tmp_path / "out", BOXES, map(photo, range(12)))["train"]
    for crop, fast in ((random_resized_crop(32, area=(0.3, 1.0)), True), (letterbox(40), False)):
        made.clear()
        options: dict[str, Any] = {"batch_size": 6, "transform": detection(crop), "workers": 0, "seed": 5}
        found, expected = on_both(lambda options=options: torch_loader(split, **options))
        for (images, targets), (same_images, same_targets) in zip(found, expected, strict=True):
            assert (images.int() - same_images.int()).abs().max() <= 1
            for target, same in zip(targets, same_targets, strict=True):
                assert target.keys() == same.keys()
                assert all(torch.equal(target[key], same[key]) for key in target)
        assert made == [True] * 12 * fast


def test_the_first_record_that_does_not_decode_is_named(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    split: Any = flowers["train"]
    of_split = type(split).payloads

    def payloads(self: Any, indices: np.ndarray) -> list[bytes]:
        found = of_split(self, indices)
        for at, index in enumerate(indices):
            if index in (20, 22):
                record = dict(split[int(index)])
                record[ENCODED] = record[ENCODED][: 300 if index == 20 else 0]
                found[at] = encode({key: split.schema.features[key] for key in record}, record)
        return found

    monkeypatch.setattr(type(split), "payloads", payloads)
    said = []
    for path in (COMPILED, PYTHON):
        with path_taken(path), pytest.raises(RecordError) as caught:
            list(torch_loader(split, batch_size=16, image_size=24, order="stored", workers=0))
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert bytes(split.column("image/filename")[20]).decode() in said[0]
    assert LABEL in split.schema.features

"""A written dataset compared with what a user expects of it."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed import annotations as keys
from shardfeed.schema import ENCODED, FILENAME, HEIGHT, LABEL, TEXT, WIDTH
from tests.layouts.layout import Gives, names_of

Records = dict[str, tuple[str, Any]]  # file name -> split, record


def check(out: Path, gives: Gives) -> None:
    """Fail where the dataset is another than `gives`."""
    data = shardfeed.open(out)
    sizes = ", ".join(f"{split} {len(data[split])}" for split in data)
    assert sorted(sizes.split(", ")) == sorted(gives.splits.split(", ")), sizes
    schema = data.manifest.schema
    _check_classes("labels", schema.class_names.get(LABEL), gives.classes)
    assert (LABEL in schema.features) == (gives.classes is not None), "labels"
    there = keys.XMIN in schema.features
    assert there == (gives.objects is not None), "boxes"
    _check_classes("classes of objects", schema.class_names.get(keys.OBJECT_LABEL), gives.of)
    assert (keys.CAPTION in schema.features) == bool(gives.captions), "captions"
    assert (keys.RASTER in schema.features) == bool(gives.raster), "a class per pixel"
    assert (keys.OBJECT_MASK in schema.features) == bool(gives.masks), "masks of objects"
    assert (keys.KEYPOINT_X in schema.features) == bool(gives.points), "key points"

    records: Records = {}
    for split in data:
        for record in data[split]:
            name = bytes(record[FILENAME]).decode()  # type: ignore[arg-type]
            records[f"{split}:{name}" if name in records else name] = (split, record)
    if there:
        assert sum(len(record[keys.XMIN]) for _, record in records.values()) == gives.objects
    for name, split in gives.where.items():
        assert _found(records, name)[0] == split, name
    for name, label in gives.label.items():
        record = _found(records, name)[1]
        assert _texts(record[TEXT]) == [label], name
        assert schema.class_names[LABEL][int(record[LABEL])] == label, name
    for name, labels in gives.tags.items():
        assert sorted(_texts(_found(records, name)[1][TEXT])) == sorted(labels.split()), name
    for name, boxes in gives.boxes.items():
        _check_boxes(name, _found(records, name)[1], boxes)
    for name, captions in gives.captions.items():
        assert _texts(_found(records, name)[1][keys.CAPTION]) == list(captions), name
    for name, counts in gives.raster.items():
        raster = schema.raster
        pixels = _pixels(_found(records, name)[1][keys.RASTER])
        values, found = np.unique(pixels, return_counts=True)
        called = dict(enumerate(raster.class_names)) | {raster.void: "void"}
        assert {called[int(v)]: int(n) for v, n in zip(values, found, strict=True)} == counts, name
    for name, areas in gives.masks.items():
        assert [int(_pixels(mask).sum()) for mask in _found(records, name)[1][keys.OBJECT_MASK]] == list(areas), name
    for name, points in gives.points.items():
        _check_points(name, _found(records, name)[1], points)
    for key, values in gives.values.items():
        assert key in schema.features, key
        for name, value in values.items():
            got = _found(records, name)[1][key]
            got = _texts(got)[0] if isinstance(value, str) else np.asarray(got).tolist()
            assert got == value or np.allclose(got, value), (key, name, got)
    if gives.gray:
        by_gray = {int(_pixels(record[ENCODED]).mean().round()): record for _, record in records.values()}
        for gray, label in gives.gray.items():
            assert gray in by_gray, f"no image of {gray}: {sorted(by_gray)}"
            assert label is None or _texts(by_gray[gray][TEXT]) == [label], gray


def _check_classes(what: str, found: tuple[str, ...] | None, expected: Any) -> None:
    if expected is not None:
        names = tuple(sorted(found or ())) if isinstance(expected, set) else tuple(found or ())
        assert names == names_of(expected), f"{what}: {found}"


def _check_boxes(name: str, record: Any, boxes: str) -> None:
    expected = [part.split() for part in boxes.split(";") if part.strip()]
    width, height = int(record[WIDTH]), int(record[HEIGHT])
    sides = [np.asarray(record[key]) * of for key, of in zip(keys.BOX, (width, height, width, height), strict=True)]
    found = np.stack(sides, 1)
    assert len(found) == len(expected), f"{name}: {found}"
    if expected:
        assert np.allclose(found, [list(map(float, words[-4:])) for words in expected], atol=1e-2), f"{name}: {found}"
        if len(expected[0]) > 4:
            assert _texts(record[keys.OBJECT_TEXT]) == [" ".join(words[:-4]) for words in expected], name


def _check_points(name: str, record: Any, points: Any) -> None:
    x = np.asarray(record[keys.KEYPOINT_X]) * int(record[WIDTH])
    y = np.asarray(record[keys.KEYPOINT_Y]) * int(record[HEIGHT])
    found = np.stack([x, y, np.asarray(record[keys.KEYPOINT_VISIBILITY])], 1)
    assert np.allclose(found, np.array(points, float), atol=1e-2), f"{name}: {found}"


def _found(records: Records, name: str) -> tuple[str, Any]:
    matching = [key for key in records if key == name or key.endswith(("/" + name, ":" + name))]
    assert len(matching) == 1, f"{name}: {matching or sorted(records)}"
    return records[matching[0]]


def _texts(values: Any) -> list[str]:
    return [bytes(v).decode() for v in ([values] if isinstance(values, bytes) else values)]


def _pixels(encoded: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(encoded)))

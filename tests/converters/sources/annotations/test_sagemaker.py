"""SageMaker Ground Truth's manifests: boxes, classes, sets of classes, and labels that are not read."""

import json
from pathlib import Path
from typing import Any

import pytest
from object_images import SCENES, converted, draw, expected, put, stems

from shardfeed.converters import open_source
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.source import Source
from shardfeed.errors import LabelFileError
from shardfeed.schema import LABEL

NAMES = ("cat", "dog", "owl")
OF_BOXES = {"class-map": {str(i): name for i, name in enumerate(NAMES)}, "type": "groundtruth/object-detection"}


def boxes(name: str) -> dict[str, Any]:
    found = [
        {"class_id": NAMES.index(label), "left": left, "top": top, "width": right - left, "height": bottom - top}
        for label, (left, top, right, bottom) in SCENES[name]
    ]
    return {"image_size": [{"width": 60, "height": 40, "depth": 3}], "annotations": found}


def read(root: Path, rows: dict[str, dict[str, Any]]) -> Source:
    lines = [json.dumps({"source-ref": f"s3://bucket/x/photos/{name}.png", **row}) for name, row in rows.items()]
    options = AnnotationOptions(images=draw(root / "photos"))
    return open_source(put(root / "output.manifest", "\n".join(lines)), options=options)


def test_boxes_are_in_pixels_with_classes_by_number(tmp_path: Path) -> None:
    source = read(tmp_path, {name: {"pets": boxes(name), "pets-metadata": OF_BOXES} for name in SCENES})
    report, found = converted(source, tmp_path / "out")
    assert stems(found) == expected()
    assert (report.account.read, report.account.written) == (6, 6)


def test_sets_of_classes(tmp_path: Path) -> None:
    about = {"class-map": {"0": "cat", "1": "dog"}, "type": "groundtruth/image-classification-multilabel"}
    source = read(tmp_path, {"a": {"of": [0, 1], "of-metadata": about}, "b": {"of": [1], "of-metadata": about}})
    assert [[text.decode() for text in sample.features["image/class/text"]] for sample in source] == [  # type: ignore[union-attr]
        ["cat", "dog"],
        ["dog"],
    ]
    assert source.schema.class_names[LABEL] == ("cat", "dog")


def test_labels_of_other_kinds_are_listed_and_keys_without_metadata_noted(tmp_path: Path) -> None:
    masks = {"mask-ref": "s3://bucket/m.png", "mask-ref-metadata": {"type": "groundtruth/semantic-segmentation"}}
    rows = {name: {"pets": boxes(name), "pets-metadata": OF_BOXES, "id": 7} for name in "ab"}
    rows["a"] |= masks
    report, _ = converted(read(tmp_path, rows), tmp_path / "out", max_bad={"objects": 1})
    (left,) = report.account.left_out
    assert (left.code, left.reason) == ("E_LINE", "line 1: mask-ref of the kind semantic-segmentation is not read")
    assert "keys without metadata, not read: 1 (id)" in report.notes


def test_two_labels_of_a_kind_and_none_are_refused(tmp_path: Path) -> None:
    row = {"pets": boxes("a"), "pets-metadata": OF_BOXES}
    adjusted = {"better": boxes("a"), "better-metadata": OF_BOXES}
    with pytest.raises(LabelFileError, match=r"manifest:1: pets and better are both labels of the kind object-"):
        read(tmp_path, {"a": row | adjusted})
    with pytest.raises(LabelFileError, match="got the keys label, expected labels with metadata"):
        read(tmp_path, {"a": {"label": 1}})

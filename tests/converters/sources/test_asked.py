"""Tests that what is asked of a source is used or refused, and that what may be used is not refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from object_images import image_file

from shardfeed.converters import open_source
from shardfeed.errors import UsageError
from tests.converters.sources.builders import BUILDERS

BOX = {"bbox": [2.0, 4.0, 10.0, 12.0], "category": "cat"}
BOXES, NO_BOXES = {"objects": [BOX]}, {"objects": list[Any]()}
CAPTION, LABEL = {"caption": "one"}, {"label": "cat"}
NOT_BOXES = "is for boxes, and no image has any; leave the option out"


@pytest.mark.parametrize(
    ("reader", "row", "options", "refused"),
    [
        ("coco", BOXES, {"tasks": ["boxes"], "boxes_on": "stored", "unit": "pixels"}, ""),
        ("coco", NO_BOXES, {"tasks": ["boxes", "masks"], "boxes_on": "stored"}, ""),  # its classes are kept
        ("captions", CAPTION, {"tasks": ["captions"]}, ""),
        ("captions", CAPTION, {"boxes_on": "stored"}, f"boxes_on {NOT_BOXES}"),
        ("fiftyone", LABEL, {"unit": "fractions"}, f"unit {NOT_BOXES}"),
        ("fiftyone", LABEL, {"tasks": ["boxes"]}, "tasks asks for boxes, and the source has none; leave it out"),
        ("fiftyone", LABEL, {"tasks": ["classes"], "class_names": ["dog", "cat"]}, ""),
        ("createml", BOXES, {"class_names": ["dog", "cat"], "tasks": ["boxes"]}, ""),
        ("parquet", LABEL, {"unit": "pixels"}, "unit is for boxes, and no column is known to have them; name it"),
        ("parquet", BOXES, {"unit": "pixels", "class_names": ["cat"]}, ""),
        ("parquet", {**LABEL, **CAPTION}, {"columns": {"text": "caption", "image/again": "caption"}}, ""),
        ("labels", LABEL, {"label_columns": ["label"], "label_separator": ";"}, ""),
        ("labels", LABEL, {"text_columns": ["label"], "class_names": ["cat"]}, "class_names: it needs a label column"),
    ],
)
def test_used_or_refused(
    tmp_path: Path, reader: str, row: Mapping[str, Any], options: Mapping[str, Any], refused: str
) -> None:
    builder = BUILDERS[reader]
    builder.write(tmp_path, {"a": [{"image": image_file(seed=i), "key": f"{i:04}", **row} for i in range(3)]})
    asked = builder.kind(**options)
    if not refused:
        assert len(open_source(tmp_path / builder.path, options=asked)) == 3
        return
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path / builder.path, options=asked)
    assert refused in str(caught.value)

"""FiftyOne's samples.json: what its optional fields may hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shardfeed.converters import open_source


@pytest.mark.parametrize(
    ("tags", "split"), [(7, "train"), ("test", "train"), ([None, "val"], "validation"), ([], "train")]
)
def test_tags_name_a_split_or_nothing(tmp_path: Path, tags: Any, split: str) -> None:
    (tmp_path / "data").mkdir()
    Image.new("RGB", (50, 40)).save(tmp_path / "data/a.png")
    label = {"_cls": "Classification", "label": "cat"}
    sample = {"filepath": "data/a.png", "tags": tags, "ground_truth": label}
    (tmp_path / "samples.json").write_text(json.dumps({"samples": [sample]}))
    (tmp_path / "metadata.json").write_text("{}")
    source = open_source(tmp_path)
    assert [source[i].split or "train" for i in range(len(source))] == [split]

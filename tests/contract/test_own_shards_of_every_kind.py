"""Shards of ours that lost their manifest are converted with all that they say, or refused by name.

Every kind of the table of kinds in every format of the registry: a new one of either is tested without a line here, or
asks for its maker.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import Keypoints
from shardfeed.converters import AnnotationOptions, ColumnOptions, Source, convert, from_dicts, open_source
from shardfeed.errors import UsageError
from shardfeed.formats.registry import FORMATS
from shardfeed.kinds import KINDS
from shardfeed.naming import MANIFEST

from pictures import image_bytes, waves

_ANNOTATION = re.compile("image/(object/|caption|class/|segmentation/|filename)")
_BOXES: dict[str, Any] = {"boxes": [[0, 0, 2, 2], [1, 1, 3, 3]], "labels": ["owl", "cat"]}
_SIZE = 8
_RASTER_CLASSES = ["sky", "sea", "sand"]  # shards do not say what the values of masks mean


def _dicts(*annotations: dict[str, Any], images: int = 4, **options: Any) -> Callable[[Path], Source]:
    """Return a maker of a source of images with each of these in turn."""

    def make(_: Path) -> Source:
        rows = [{"image": image_bytes(waves(length=_SIZE + n), "PNG"), "key": f"a/{n}.png"} for n in range(images)]
        return from_dicts([row | annotations[n % len(annotations)] for n, row in enumerate(rows)], **options)

    return make


def _rotated(root: Path) -> Source:
    for n in range(2):
        for folder in ("images/train", "labels/train"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((100, 200, 3), 90 + n, np.uint8)).save(root / f"images/train/{n}.png")
        (root / f"labels/train/{n}.txt").write_text(
            "0 0.7 0.7 0.8 0.75 0.7 0.8 0.6 0.75\n1 -0.1 0.5 0.3 0.25 0.4 0.5 0 0.75\n"
        )
    (root / "data.yaml").write_text("path: .\ntrain: images/train\nnames: [plane, ship]\ntask: obb\n")
    return open_source(root / "data.yaml", options=AnnotationOptions(tasks=["rotated"]))


def _rasters(root: Path) -> Source:
    for n in range(3):
        for folder in ("images", "masks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((_SIZE, _SIZE, 3), 90 + n, np.uint8)).save(root / f"images/{n}.png")
        mask = np.repeat(np.arange(_SIZE, dtype=np.uint8) % (2 + n % 2), _SIZE)
        Image.fromarray(mask.reshape(_SIZE, _SIZE)).save(root / f"masks/{n}.png")
    return open_source(root, options=AnnotationOptions(class_names=_RASTER_CLASSES))


_REGION = [[0, 0, 2, 0, 2, 2]]
_POINTS = [[0, 0, 2, 1, 1, 1], [2, 2, 2, 0, 0, 0]]
MAKERS: dict[str, Callable[[Path], Source]] = {
    "boxes": _dicts({"boxes": _BOXES["boxes"]}, {"boxes": []}),
    "": _dicts(_BOXES, {"boxes": [], "labels": []}),
    "keypoints": _dicts(_BOXES | {"keypoints": _POINTS}, keypoints=Keypoints(("0", "1"))),
    "rotated": _rotated,
    "areas": _dicts(_BOXES | {"area": [1.5, 3]}),
    "crowds": _dicts(_BOXES | {"iscrowd": [0, 1]}),
    "masks": _dicts(_BOXES | {"segmentation": [_REGION, [[1, 1, 3, 1, 3, 3]]]}),
    "captions": _dicts({"captions": ["a bird", "an owl"]}, {"captions": ["one"]}),
    "rasters": _rasters,
    "classes in another order": _dicts(_BOXES, class_names={"labels": ["owl", "cat"]}),
    "objects in the last image": _dicts(*[{"boxes": [], "labels": []}] * 129, _BOXES, images=130),
    "no object": _dicts({"boxes": []}),
    "a class": _dicts({"label": "owl"}, {"label": "cat"}),
    "classes": _dicts({"tags": ["owl", "cat"]}, {"tags": ["cat"]}, {"tags": []}),
    "a class beside boxes": _dicts(_BOXES | {"label": "owl"}, _BOXES | {"label": "cat"}),
}
WORDS = [*dict.fromkeys([*(kind.word for kind in KINDS), *MAKERS])]


@pytest.mark.parametrize("place", ["a dataset", "a folder", "a file"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("word", WORDS)
def test_every_kind_comes_back(tmp_path: Path, word: str, form: Any, place: str) -> None:
    out = tmp_path / "out"
    convert(MAKERS[word](tmp_path / "in"), out, to=form, workers=1)
    if place == "a dataset":
        with pytest.raises(UsageError, match="already a dataset"):
            open_source(out)
        return
    given = _without_manifest(out, tmp_path / "shards", form, alone=place == "a file")
    if word == "rasters":
        with pytest.raises(UsageError, match="meaning of its mask values is unknown"):
            open_source(given)
    options = ColumnOptions(class_names=_RASTER_CLASSES) if word == "rasters" else None
    convert(open_source(given, options=options), tmp_path / "again", workers=1)
    expected, again = (shardfeed.open(tmp_path / name)["train"] for name in ("out", "again"))
    kind = next((kind for kind in KINDS if kind.word == word), None)
    assert kind is None or kind.is_in(expected.schema)
    assert _said(again) == _said(expected)
    assert {key: [*names] for key, names in again.schema.class_names.items()} == {
        key: [*names] for key, names in expected.schema.class_names.items()
    }


def _without_manifest(out: Path, shards: Path, form: Any, *, alone: bool) -> Path:
    """A copy of a dataset's shards, or one of them, as a user has them who got the shards alone."""
    shutil.copytree(out, shards)
    beside = [shards / MANIFEST, *shards.glob("*.json"), *shards.glob("*.txt")]
    for path in beside:
        path.unlink(missing_ok=True)
    shutil.rmtree(shards / "index", ignore_errors=True)
    files = [path for path in shards.rglob("*") if path.is_file() and path.name.startswith("train-")]
    return files[0] if alone and form != "mds" else shards  # a shard of MDS is read with its index


def _said(split: Any) -> list[tuple[str, ...]]:
    """List what each record says, by the bytes of its image."""
    keys = sorted(filter(_ANNOTATION.match, split.schema.features))
    return sorted(
        (str(record["image/encoded"]), *(f"{key} {_listed(record[key])}" for key in keys)) for record in split
    )


def _listed(value: Any) -> Any:
    return value if isinstance(value, bytes) else np.asarray(value).tolist() if np.ndim(value) == 0 else [*value]

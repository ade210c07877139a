"""Create ML's JSON: centre and size in pixels, one file or one a split; and entries that cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_images import SCENES, Objects, converted, draw, expected, put, stems

from shardfeed.converters import open_source
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.testing.source import SourceContract


def annotation(label: Any, box: tuple[int, ...]) -> dict[str, Any]:
    left, top, right, bottom = box
    place = {"x": (left + right) / 2, "y": (top + bottom) / 2, "width": right - left, "height": bottom - top}
    return {"label": label, "coordinates": place}


def entries(names: str, scenes: dict[str, Objects] = SCENES) -> list[dict[str, Any]]:
    return [{"image": f"{name}.png", "annotations": [annotation(*one) for one in scenes[name]]} for name in names]


def beside(root: Path, names: str = "abd") -> Path:
    draw(root)
    put(root / "annotations.json", json.dumps(entries(names)))
    return root


def roboflow(root: Path) -> Path:
    for split, names in (("train", "ab"), ("valid", "c"), ("test", "d")):
        draw(root / split, {name: SCENES[name] for name in names})
        put(root / split / "_annotations.createml.json", json.dumps(entries(names)))
    return root


def test_a_file_beside_the_images(tmp_path: Path) -> None:
    report, found = converted(open_source(beside(tmp_path / "photos")), tmp_path / "out")
    assert stems(found) == expected()
    assert (report.account.read, report.account.written) == (6, 6)
    assert "images without annotations, treated as images without objects: 1 (c.png)" in report.notes


def test_a_file_alone_names_its_images(tmp_path: Path) -> None:
    file = put(tmp_path / "mine.json", json.dumps(entries("ab")))
    options = AnnotationOptions(images=draw(tmp_path / "photos"))
    assert [sample.key for sample in open_source(file, options=options)] == [b"a.png", b"b.png"]


class TestCreateML(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        root = roboflow(tmp_path / "set")
        return lambda: open_source(root)


def test_fractions_are_refused_with_a_way_out(tmp_path: Path) -> None:
    draw(tmp_path, {"a": []})
    place = {"x": 0.5, "y": 0.5, "width": 0.2, "height": 0.2}
    said = [{"image": "a.png", "annotations": [{"label": "cat", "coordinates": place}]}]
    put(tmp_path / "annotations.json", json.dumps(said))
    with pytest.raises(UsageError, match="expected pixels"):
        open_source(tmp_path)
    assert len(open_source(tmp_path, options=AnnotationOptions(unit="fractions"))) == 1


def test_images_that_are_missing_are_listed_with_what_is_in_them(tmp_path: Path) -> None:
    root = beside(tmp_path / "photos")
    (root / "d.png").unlink()
    findings = info_of(open_source(root)).findings
    assert [(one.key, one.code) for one in findings.rejected] == [(b"d.png", "E_MISSING")]
    assert [one.code for one in findings.account.left_out] == ["E_IMAGE"] * 3


def test_an_image_that_is_named_twice_without_its_ending_is_refused(tmp_path: Path) -> None:
    draw(tmp_path)
    said = [{**entry, "image": entry["image"].removesuffix(".png")} for entry in entries("aba")]
    put(tmp_path / "annotations.json", json.dumps(said[:2]))
    assert len(open_source(tmp_path)) == 4
    put(tmp_path / "annotations.json", json.dumps(said))
    with pytest.raises(LabelFileError, match=r"entry 2: a refers to a.png, which is listed before \(.*entry 0\)"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    "text",
    ['{"image": 1}', "[", '[{"image": 3, "annotations": []}]', '["a.png"]', json.dumps(entries("aa")), "[" * 2000],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    draw(tmp_path, {"a": []})
    put(tmp_path / "mine.json", text)
    with pytest.raises(LabelFileError, match=r"mine\.json"):
        open_source(tmp_path / "mine.json", reader="createml")

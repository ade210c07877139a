"""KITTI's label files: boxes, flags, regions of which nothing is said, and lines that cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from object_images import SCENES, converted, draw, expected, put, stems

from shardfeed.annotations import IS_CROWD, OBJECT_TEXT, OBJECTS
from shardfeed.converters import open_source
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import UsageError
from shardfeed.testing.source import SourceContract

REST = "1.65 1.67 3.64 -0.65 1.71 46.70 -1.59"
IGNORED = "DontCare -1 -1 -10 50 1 59 9 -1 -1 -1 -1000 -1000 -1000 -10"


def line(label: str, box: tuple[int, ...], truncated: str = "0.00", occluded: str = "0") -> str:
    return f"{label} {truncated} {occluded} -1.58 {' '.join(f'{side}.00' for side in box)} {REST}"


def kitti(root: Path, images: str = "training/image_2", labels: str = "training/label_2") -> Path:
    draw(root / images)
    for name, objects in SCENES.items():
        put(root / labels / f"{name}.txt", "".join(line(*one) + "\n" for one in objects))
    return root


@pytest.mark.parametrize(
    "folders", [("training/image_2", "training/label_2"), ("data", "labels"), ("images", "labels")]
)
def test_boxes_and_classes(tmp_path: Path, folders: tuple[str, str]) -> None:
    report, found = converted(open_source(kitti(tmp_path / "kitti", *folders)), tmp_path / "out")
    assert (report.account.read, report.account.written) == (6, 6)
    flags = {f"{OBJECTS}{flag}" for flag in ("truncated", "occluded")} | {IS_CROWD}
    boxes = {name: {k: v for k, v in of.items() if k not in flags} for name, of in stems(found).items()}
    assert boxes == expected()


class TestKitti(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        root = kitti(tmp_path / "kitti")
        put(root / "training/label_2/lost.txt", IGNORED)
        return lambda: open_source(root)


def test_flags_and_regions_to_ignore(tmp_path: Path) -> None:
    root = kitti(tmp_path / "kitti")
    text = [line("Car", (1, 1, 9, 9), "0.31", "2"), IGNORED, line("Car", (1, 9, 9, 19)) + " 0.9"]
    put(root / "training/label_2/c.txt", "\n".join(text))
    (root / "training/label_2/b.txt").unlink()
    draw(root / "testing/image_2", {"e": []})
    draw(root / "training/image_3", {"a": []})
    report, found = converted(open_source(root), tmp_path / "out")
    record = found["training/image_2/c.png"]
    assert record[OBJECT_TEXT] == [b"Car", b"DontCare", b"Car"]
    assert [record[f"{OBJECTS}{flag}"] for flag in ("truncated", "occluded")] == [[1, 0, 0], [1, 0, 0]]
    assert record[IS_CROWD] == [0, 1, 0]
    assert found["testing/image_2/e.png"]["split"] == "test"
    assert "training/image_3/a.png" not in found
    notes = " ".join(report.notes)
    assert "images without a label file, treated as images without objects: 2" in notes
    assert "alpha" in notes


BAD = {
    line("Car", (1, 1, 9)): "E_LINE",
    line("Car", (1, 1, 9, 9)) + " 0.5 7": "E_LINE",
    line("Car", (1, 1, 9, 9)).replace("9.00", "x9"): "E_VALUE",
    line("Car", (1, 1, 9, 9)).replace("9.00", "nan"): "E_BOX_EMPTY",
    line("Car", (1, 1, 9, 9)).replace("9.00", "1e300"): "E_VALUE",
    line("Car", (9, 1, 1, 9)): "E_BOX_EMPTY",
    line("Car", (1, 1, 99, 9)): "E_BOX_OUTSIDE",
    line("dog", (10, 5, 30, 25)): "E_TWICE",
}


@pytest.mark.parametrize("text", BAD)
def test_a_line_that_cannot_be_used_is_listed(tmp_path: Path, text: str) -> None:
    root = kitti(tmp_path / "kitti")
    path = root / "training/label_2/a.txt"
    put(path, path.read_text() + text + "\n")
    report, _ = converted(open_source(root), tmp_path / "out", max_bad={"objects": 1})
    assert (report.account.read, report.account.written) == (7, 6)
    ((key, code, reason),) = [(one.key, one.code, one.reason) for one in report.account.left_out]
    assert (key, code) == (b"training/image_2/a.png", BAD[text])
    assert "line 3" in reason


def test_labels_that_are_lost_are_listed(tmp_path: Path) -> None:
    root = kitti(tmp_path / "kitti")
    (root / "training/image_2/d.png").unlink()
    (root / "training/label_2/b.txt").unlink()
    (root / "training/label_2/b.txt").symlink_to("nowhere")
    source = open_source(root)
    account = info_of(source).findings.account
    assert [(one.key, one.code) for one in account.left_out] == [(b"training/label_2/d.txt", "E_ORPHAN")] * 3
    (root / "training/label_2/c.txt").write_bytes(b"\xff" * 20)
    codes = [one.code for one in info_of(open_source(root)).findings.account.left_out]  # type: ignore[union-attr]
    assert sorted(codes) == ["E_LINE", *["E_ORPHAN"] * 3]


def test_other_texts_are_not_taken_for_it(tmp_path: Path) -> None:
    draw(tmp_path / "image_2", {"a": []})
    put(tmp_path / "label_2" / "a.txt", "0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(UsageError, match="label_2"):
        open_source(tmp_path, reader="kitti")

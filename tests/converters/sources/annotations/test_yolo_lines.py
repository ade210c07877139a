"""Lines of YOLO labels: what each means, which tasks they may be of, and what becomes of one that is wrong."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco

import shardfeed
from shardfeed.annotations import (
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    XMAX,
    XMIN,
    YMAX,
    YMIN,
    Keypoints,
)
from shardfeed.converters import convert, open_source
from shardfeed.converters.report import Report
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.errors import TooManyRejectedError, UsageError

WIDTH, HEIGHT = 60, 40
TRIANGLE, QUAD = "0 0.1 0.1 0.9 0.1 0.5 0.9", "1 0.1 0.2 0.4 0.2 0.4 0.8 0.1 0.8"


def dataset(root: Path, labels: Sequence[str | bytes], yaml: str = "", *, orientation: int = 1) -> Path:
    """Images of 60 x 40 pixels in their files and their labels, three classes, in a folder of `root`."""
    root = root / "ds"
    for folder in ("images", "labels"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    for i, text in enumerate(labels):
        Image.new("RGB", (WIDTH, HEIGHT), (i, 9, 9)).save(root / "images" / f"{i}.png", exif=exif)
        (root / "labels" / f"{i}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    (root / "data.yaml").write_text("train: images\nnames: [a, b, c]\n" + yaml)
    return root


def source(root: Path, tasks: Sequence[Any] = (), **more: Any) -> Any:
    return open_source(root, reader="yolo", options=AnnotationOptions(tasks=frozenset(tasks), **more))


def converted(found: Any, out: Path, **more: Any) -> tuple[list[Any], Report]:
    """Records by file name, and the report."""
    report = convert(found, out, workers=1, **more)
    return sorted(shardfeed.open(out)["train"], key=lambda record: record["image/filename"]), report


def left_out(found: Any) -> list[tuple[str, str]]:
    account = found.findings.account
    assert account.read == len(account.left_out)
    return [(one.code, one.reason) for one in account.left_out]


BAD_LINES = {
    "0 0.5 0.5 0.2": ("E_LINE", "line 1: got 4 numbers, expected 5"),
    "0 0.5 0.5 0.2 0.2 0.9": ("E_LINE", r"got 6 numbers, .*\(with a confidence, as in predictions\); --tasks boxes "),
    "0 .1 .1 .2 .2 .3 .3 .4": ("E_LINE", "got 8 numbers"),
    "0,0.5,0.5,0.2,0.2": ("E_LINE", "got 1 numbers"),
    "a cat": ("E_LINE", "got 2 numbers"),
    "cat 0.5 0.5 0.2 0.2": ("E_VALUE", "got 'cat', expected a number"),
    "0 nan 0.5 0.2 0.2": ("E_VALUE", "got 'nan'"),
    "0 inf 0.5 0.2 0.2": ("E_VALUE", "got 'inf'"),
    "0 1e999 0.5 0.2 0.2": ("E_VALUE", "got '1e999'"),
    "0 0_1 0.5 0.2 0.2": ("E_VALUE", "got '0_1'"),
    "0 0x1 0.5 0.2 0.2": ("E_VALUE", "got '0x1'"),
    "0 0,5 0.5 0.2 0.2": ("E_VALUE", "got '0,5'"),
    "0 1e 0.5 0.2 0.2": ("E_VALUE", "got '1e'"),
    "0 ٣ 0.5 0.2 0.2": ("E_VALUE", "expected a number"),
    "0 \x00 0.5 0.2 0.2": ("E_VALUE", "expected a number"),
    "3 0.5 0.5 0.2 0.2": ("E_CATEGORY", "got the class '3', expected one of a, b, c"),
    "-1 0.5 0.5 0.2 0.2": ("E_CATEGORY", "got the class '-1'"),
    "1e300 0.5 0.5 0.2 0.2": ("E_CATEGORY", "expected one of a, b, c"),
    "0.5 0.5 0.5 0.2 0.2": ("E_VALUE", "the class is 0.5, expected an integer"),
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_line_that_cannot_be_used_is_listed(tmp_path: Path, line: str) -> None:
    found = source(dataset(tmp_path, [line + "\n\n0 0.5 0.5 0.1 0.1\n", ""]))
    ((code, reason),) = left_out(found)
    assert code == BAD_LINES[line][0]
    assert found.findings.account.left_out[0].key == b"images/0.png"
    assert re.search(BAD_LINES[line][1], reason), reason
    objects = found[0].objects
    assert objects.names == ["line 3"]
    assert len(found) == 2


@pytest.mark.long
def test_what_people_write_is_read(tmp_path: Path) -> None:
    lines = b"\xef\xbb\xbf0.0 0.5 0.5 0.2 0.2\r\n  2.000e0\t.25 +0.25 1E-1 0.1  \r"
    lines += b"1 0.5 0.5 1.0 1.01\n\n   \n0 0.5 0.5 0.20 0.2"
    found = source(dataset(tmp_path, [lines]))
    objects = found[0].objects
    assert objects.columns[OBJECT_LABEL] == [0, 2, 1]
    np.testing.assert_allclose(objects.boxes[:2], [(0.4, 0.4, 0.6, 0.6), (0.2, 0.2, 0.3, 0.3)])
    assert left_out(found) == [("E_TWICE", "line 6: it is an exact duplicate")]
    records, report = converted(found, tmp_path / "out")
    assert (report.account.read, report.account.written, report.account.clipped) == (4, 3, 1)
    assert len(records[0][XMIN]) == 3


@pytest.mark.long
def test_what_leaves_the_image_is_decided_by_its_size(tmp_path: Path) -> None:
    found = source(dataset(tmp_path, ["0 1.2 0.5 0.2 0.2\n1 0.99 0.5 0.04 0.2\n2 0.5 0.5 0 0.1\n2 0.5 0.5 -0.1 0.1\n"]))
    with pytest.raises(TooManyRejectedError, match="line 3"):
        convert(found, tmp_path / "no", workers=1)
    _, report = converted(found, tmp_path / "out", max_bad={"objects": 3})
    assert [one.code for one in report.account.left_out] == ["E_BOX_OUTSIDE", "E_BOX_EMPTY", "E_BOX_EMPTY"]
    assert (report.account.written, report.account.clipped) == (1, 1)


def test_pixels_are_refused_with_a_way_out(tmp_path: Path) -> None:
    root = dataset(tmp_path, ["0 30 20 10 10\n1 5 5 10 10\n", ""])
    with pytest.raises(UsageError, match=r"2 of 2 boxes have coordinates beyond 2.*unit='pixels'") as caught:
        source(root)
    assert "\n" not in str(caught.value)
    records, _ = converted(source(root, unit="pixels"), tmp_path / "out")
    assert [round(float(side) * WIDTH) for side in records[0][XMIN]] == [25, 0]


def test_one_line_in_pixels_leaves_the_image(tmp_path: Path) -> None:
    found = source(dataset(tmp_path, ["0 30 20 10 10\n0 .5 .5 .1 .1\n1 .5 .5 .1 .1\n"]))
    _, report = converted(found, tmp_path / "out", max_bad={"objects": 1})
    assert [one.code for one in report.account.left_out] == ["E_BOX_OUTSIDE"]


# --- tasks


@pytest.mark.parametrize(
    ("labels", "yaml", "tasks", "message"),
    [
        ([QUAD], "", (), r"labels/0.txt:1: all lines have 9 numbers: rotated boxes or outlines of four points?"),
        ([QUAD, "0 0.5 0.5 0.1 0.1"], "", (), r"got a line of 9 numbers, and one of 5 at .*labels/1.txt:1"),
        ([TRIANGLE, "0 0.5 0.5 0.1 0.1"], "", (), "got a line of 7 numbers, and one of 5"),
        ([QUAD], "task: detect\n", ("rotated",), "its task is detect, which has no rotated boxes"),
        (["0 .5 .5 .2 .2 .4 .4 2 .6 .6 2"] * 2, "", (), "all lines have 11 numbers: outlines or boxes with key points"),
        (
            ["0 .5 .5 .4 .4 .4 .4 .6 .6 .5 .5"] * 2,
            "",
            (),
            "all lines have 11 numbers: outlines or boxes with key points",
        ),
        (["0 .5 .5 .2 .2 .91 1"] * 2, "", (), "all lines have 7 numbers: boxes with confidence and track, or outlines"),
        (
            ["0 .5 .5 .2 .2 .91"] * 2,
            "",
            (),
            "all lines have 6 numbers: boxes with a confidence.*tasks=.'boxes'. converts",
        ),
        (["0 .5 .5 .2 .2 .91"] * 2, "task: detect\n", (), "all lines have 6 numbers, .*tasks=.'boxes'. converts"),
        (["0 .1 .1 .4 .1 .4 .4 .1 .4 .9 17"] * 2, "", (), "all lines end in an integer, up to 17, which is no coord"),
        (["0 .5 .5 .2 .2 .4 .4 2"] * 2, "", (), r"all lines have 8 numbers.*write kpt_shape"),
        ([QUAD], "", ("keypoints",), "the number of key points"),
        ([QUAD], "", ("masks", "keypoints"), "not several of them"),
        ([QUAD], "", ("captions",), "got the task 'captions', expected boxes"),
        ([QUAD], "", ("classes",), "got the task 'classes'"),
        (["0 .5 .5 .1 .1"], "task: detect\n", ("masks",), "its task is detect, which has no outlines"),
        (["0 .5 .5 .1 .1"], "kpt_shape: [1, 3]\n", ("masks",), "its task is pose"),
        (["0 .5 .5 .1 .1"], "kpt_shape: [1, 3]\n", (), r"labels/0.txt:1: all lines have 5 numbers, expected 8: class"),
        (["0 .5 .5 .1 .1"], "", ("masks",), r"all lines have 5 numbers, expected a class and x and y of three"),
        ([TRIANGLE], "task: detect\n", (), r"all lines have 7 numbers, expected 5"),
    ],
)
def test_lines_that_may_mean_two_things(
    tmp_path: Path, labels: list[str], yaml: str, tasks: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        source(dataset(tmp_path, labels, yaml), tasks)


def test_without_a_data_yaml_lines_of_one_length_may_be_key_points(tmp_path: Path) -> None:
    root = dataset(tmp_path, ["0 .5 .5 .2 .2 .4 .4 2 .6 .6 2"] * 2)
    (root / "data.yaml").unlink()
    with pytest.raises(UsageError, match=r"all lines have 11 numbers: outlines or boxes with key points"):
        source(root, class_names=["a", "b", "c"])
    assert len(source(root, ["boxes"], class_names=["a", "b", "c"])) == 2


@pytest.mark.parametrize(
    ("labels", "yaml", "tasks", "codes", "boxes"),
    [
        ([TRIANGLE, QUAD], "", (), [], [(0.1, 0.1, 0.9, 0.9), (0.1, 0.2, 0.4, 0.8)]),
        ([QUAD], "task: segment\n", (), [], [(0.1, 0.2, 0.4, 0.8)]),
        ([QUAD], "", ("masks",), [], [(0.1, 0.2, 0.4, 0.8)]),
        ([QUAD], "", ("boxes",), [], [(0.1, 0.2, 0.4, 0.8)]),
        ([QUAD, TRIANGLE], "task: obb\n", ("boxes",), ["E_LINE"], [(0.1, 0.2, 0.4, 0.8)]),
        ([QUAD, "0 0.5 0.5 0.1 0.1"], "", ("boxes",), [], [(0.1, 0.2, 0.4, 0.8), (0.45, 0.45, 0.55, 0.55)]),
        ([QUAD, "0 0.5 0.5 0.1 0.1"], "", ("boxes", "masks"), ["E_LINE"], [(0.1, 0.2, 0.4, 0.8)]),
        ([QUAD, "0 0.5 0.5 0.1 0.1"], "task: detect\n", (), ["E_LINE"], [(0.45, 0.45, 0.55, 0.55)]),
        (["0 .5 .5 .2 .2 .4 .4 2", TRIANGLE], "kpt_shape: [1, 3]\n", ("boxes",), ["E_LINE"], [(0.4, 0.4, 0.6, 0.6)]),
    ],
)
def test_what_is_stated_decides(
    tmp_path: Path, labels: list[str], yaml: str, tasks: tuple[str, ...], codes: list[str], boxes: list[Any]
) -> None:
    found = source(dataset(tmp_path, labels, yaml), tasks)
    assert [code for code, _ in left_out(found)] == codes
    rows = [box for sample in found if sample.objects is not None for box in sample.objects.boxes]
    np.testing.assert_allclose(rows, boxes)
    assert (OBJECT_MASK in found.schema.features) == ("masks" in tasks)
    assert IS_CROWD not in found.schema.features


SCORED, TRACKED, TOUCHING = "0 .5 .5 .2 .2 .91", "0 .5 .5 .2 .2 .91 {}", "0 .5 .5 .2 .2 .91 1"
MIDDLE = (0.4, 0.4, 0.6, 0.6)


@pytest.mark.parametrize(
    ("labels", "yaml", "tasks", "boxes", "noted"),
    [
        ([TRACKED.format(3), TRACKED.format(1)], "", (), [MIDDLE] * 2, 2),
        ([TRACKED.format(3), "0 .5 .5 .2 .2"], "", (), [MIDDLE] * 2, 1),
        ([TRACKED.format(1)] * 2, "", ("boxes",), [MIDDLE] * 2, 2),
        ([TRACKED.format(1)] * 2, "task: detect\n", ("boxes",), [MIDDLE] * 2, 2),
        ([SCORED, "0 .5 .5 .2 .2", TRACKED.format(0)], "", ("boxes",), [MIDDLE] * 3, 2),
        (["0 .5 .5 .2 .2 .4 .4 2 .6 .6 2"], "", ("boxes",), [MIDDLE], 1),
        ([TOUCHING, QUAD], "", (), [(0.2, 0.2, 0.91, 1), (0.1, 0.2, 0.4, 0.8)], 0),
        ([TOUCHING, TRIANGLE], "", ("boxes",), [(0.2, 0.2, 0.91, 1), (0.1, 0.1, 0.9, 0.9)], 0),
        ([TOUCHING], "", ("boxes", "masks"), [(0.2, 0.2, 0.91, 1)], 0),
    ],
)
def test_a_confidence_and_a_track_behind_a_box_are_no_points_of_an_outline(
    tmp_path: Path, labels: list[str], yaml: str, tasks: tuple[str, ...], boxes: list[Any], noted: int
) -> None:
    found = source(dataset(tmp_path, labels, yaml), tasks)
    assert left_out(found) == []
    rows = [box for sample in found if sample.objects is not None for box in sample.objects.boxes]
    np.testing.assert_allclose(rows, boxes)
    notes = [note for note in found.findings.notes if "lines of a box and more" in note]
    assert [note.rpartition(": ")[2] for note in notes] == ([str(noted)] if noted else [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("orientation", "width", "height"), [(1, WIDTH, HEIGHT), (6, HEIGHT, WIDTH), (3, WIDTH, HEIGHT)]
)
def test_masks_are_those_of_pycocotools(tmp_path: Path, orientation: int, width: int, height: int) -> None:
    rng = np.random.default_rng(5)
    lines, polygons = [], []
    for count in (3, 4, 5, 9, 30):
        points = rng.uniform(0, 1, (count, 2)).round(6)
        lines.append(f"{count % 3} " + " ".join(map(str, points.ravel().tolist())))
        polygons.append((points * (width, height)).ravel().tolist())
    found = source(dataset(tmp_path, ["\n".join(lines), ""], orientation=orientation), ["boxes", "masks"])
    records, report = converted(found, tmp_path / "out")
    assert (report.account.read, report.account.written) == (5, 5)
    assert list(records[1][OBJECT_MASK]) == []
    for i, polygon in enumerate(polygons):
        expected = coco.decode(coco.merge(coco.frPyObjects([polygon], height, width)))  # type: ignore[arg-type]
        drawn = np.asarray(Image.open(io.BytesIO(records[0][OBJECT_MASK][i])))
        np.testing.assert_array_equal(drawn, expected)
        assert records[0][OBJECT_AREA][i] == expected.sum()
        assert [records[0][key][i] for key in (XMIN, YMIN, XMAX, YMAX)] == [
            np.float32(side / of)
            for side, of in (
                (min(polygon[::2]), width),
                (min(polygon[1::2]), height),
                (max(polygon[::2]), width),
                (max(polygon[1::2]), height),
            )
        ]


POSE = "kpt_shape: [3, {}]\nflip_idx: [0, 2, 1]\n"


def test_key_points(tmp_path: Path) -> None:
    lines = "0 .5 .5 .4 .4 .5 .4 2 .4 .5 1 0 0 0\n1 .5 .5 .2 .2 .5 .5 2.0 .4 .5 7 0 0 0\n2 .5 .5 .2 .2\n"
    found = source(dataset(tmp_path, [lines], POSE.format(3)))
    assert found.schema.keypoints == Keypoints(("0", "1", "2"), (0, 2, 1))
    records, report = converted(found, tmp_path / "out", max_bad={"objects": 2})
    assert (report.account.read, report.account.written) == (3, 1)
    assert [one.code for one in report.account.left_out] == ["E_KEYPOINTS", "E_LINE"]
    assert (
        "got 5 numbers, expected 14: class, x, y, width, height, and 3 for each of 3"
        in report.account.left_out[1].reason
    )
    assert [round(float(x), 6) for x in records[0][KEYPOINT_X]] == [0.5, 0.4, 0.0]
    assert [round(float(y), 6) for y in records[0][KEYPOINT_Y]] == [0.4, 0.5, 0.0]
    assert list(records[0][KEYPOINT_VISIBILITY]) == [2, 1, 0]
    assert source(tmp_path / "ds", ["boxes"]).schema.keypoints is None
    assert source(tmp_path / "ds", ["keypoints"]).schema.keypoints is not None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("[nose, left, right]", ("nose", "left", "right")),
        ("\n  0: [nose, left, right]\n  1: [nose, left, right]\n", ("nose", "left", "right")),
        ("\n  0: nose\n  2: right\n  1: left\n", ("nose", "left", "right")),
        ("", ("0", "1", "2")),
    ],
)
def test_key_points_without_visibility(tmp_path: Path, names: str, expected: tuple[str, ...]) -> None:
    yaml = POSE.format(2) + f"kpt_names: {names}\n"
    found = source(dataset(tmp_path, ["0 .5 .5 .4 .4 .5 .4 0 0 0 .5\n"], yaml))
    assert found.schema.keypoints.names == expected
    objects = found[0].objects
    assert objects.points["keypoints"][0].tolist() == [[0.5, 0.4, 2], [0, 0, 0], [0, 0.5, 2]]


def test_boxes_are_of_the_upright_image(tmp_path: Path) -> None:
    root = dataset(tmp_path, ["0 0.25 0.1 0.5 0.2\n"], orientation=6)
    (record,), _ = converted(source(root), tmp_path / "upright")
    assert (record["image/width"], record["image/height"]) == (HEIGHT, WIDTH)
    assert [round(float(record[key][0]), 6) for key in (XMIN, YMIN, XMAX, YMAX)] == [0.0, 0.0, 0.5, 0.2]
    # In the file, its left half and upper fifth; turned by 90 degrees, the last fifth and the upper half.
    (record,), _ = converted(source(root, boxes_on="stored"), tmp_path / "stored")
    assert [round(float(record[key][0]), 6) for key in (XMIN, YMIN, XMAX, YMAX)] == [0.8, 0.0, 1.0, 0.5]


NUMBERS = st.one_of(
    st.floats(-0.1, 1.1).map(repr),
    st.sampled_from(["0", "1", "2", "3", "-1", "nan", "1e999", "640", "x", "0.5", "1.0", "\x00", "é", "'", "1_0"]),
)
LINES = st.lists(st.lists(NUMBERS, max_size=12).map(" ".join), max_size=8).map("\n".join).map(str.encode)
YAMLS = st.sampled_from(["", "task: segment\n", "task: obb\n", "task: detect\n", POSE.format(2), "kpt_shape: [1, 3]\n"])
TASKS = st.sampled_from([(), ("boxes",), ("boxes", "masks"), ("keypoints",)])


ANY = st.binary(max_size=60).filter(lambda text: b"\0" not in text)  # which may be text in UTF-16, of other lines
FILES = st.lists(st.one_of(LINES, ANY), min_size=1, max_size=20)


@pytest.mark.long
@settings(max_examples=60)
@given(labels=FILES, yaml=YAMLS, tasks=TASKS)
def test_any_lines_are_read_or_listed(
    tmp_path_factory: pytest.TempPathFactory, labels: list[bytes], yaml: str, tasks: tuple[Any, ...]
) -> None:
    _read_all(tmp_path_factory.mktemp("fuzz"), labels, yaml, tasks)


@pytest.mark.long
@settings(max_examples=4)
@given(labels=FILES, yaml=YAMLS, tasks=TASKS)
def test_any_lines_are_written_or_listed(
    tmp_path_factory: pytest.TempPathFactory, labels: list[bytes], yaml: str, tasks: tuple[Any, ...]
) -> None:
    _written_all(tmp_path_factory.mktemp("fuzz"), labels, yaml, tasks)


@pytest.mark.long
@settings(max_examples=100)
@given(labels=FILES, yaml=YAMLS, tasks=TASKS)
def test_many_lines_are_written_or_listed(
    tmp_path_factory: pytest.TempPathFactory, labels: list[bytes], yaml: str, tasks: tuple[Any, ...]
) -> None:
    _written_all(tmp_path_factory.mktemp("fuzz"), labels, yaml, tasks)


def _read_all(folder: Path, labels: list[bytes], yaml: str, tasks: tuple[Any, ...]) -> tuple[Any, int] | None:
    """The source and how many lines its labels have; None where they are refused as a whole."""
    lines = sum(bool(line.strip()) for text in labels for line in text.removeprefix(b"\xef\xbb\xbf").splitlines())
    try:
        found = source(dataset(folder, labels, yaml), tasks)
    except UsageError:
        return None
    account = found.findings.account
    assert found.objects is not None
    assert account.read + len(found.objects) == lines
    return found, lines


def _written_all(folder: Path, labels: list[bytes], yaml: str, tasks: tuple[Any, ...]) -> None:
    read_all = _read_all(folder, labels, yaml, tasks)
    if read_all is None:
        return
    found, lines = read_all
    report = convert(found, folder / "out", workers=1, max_bad={"objects": "100%"})
    assert (report.account.read, len(report.account.left_out)) == (lines, lines - report.account.written)
    records: list[Any] = list(shardfeed.open(folder / "out")["train"])
    assert sum(len(record[XMIN]) for record in records) == report.account.written

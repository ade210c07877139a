"""Dicts of Python as a source: what each may say, and what is told where it cannot be meant."""

import io
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    XMIN,
    YMAX,
    Keypoints,
)
from shardfeed.converters import convert, from_dicts
from shardfeed.converters.rejects import LeftOut
from shardfeed.converters.sources.source import Sample, SourceFile
from shardfeed.errors import UsageError
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, TEXT, Feature
from shardfeed.testing.source import SourceContract

from pictures import image_bytes


def picture(red: int = 0, size: tuple[int, int] = (40, 20)) -> bytes:
    return image_bytes(Image.new("RGB", size, (red, 9, 9)), "PNG")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """a.png, b.png and sub/c.png, of 40 x 20 pixels."""
    (tmp_path / "sub").mkdir()
    for i, name in enumerate(("a", "b", "sub/c")):
        (tmp_path / f"{name}.png").write_bytes(picture(i))
    return tmp_path


BOXES: list[dict[str, Any]] = [
    {"image": "sub/c.png", "boxes": [[4, 2, 20, 10], [0, 0, 40, 20]], "labels": ["dog", "cat"], "split": "val"},
    {"image": "a.png", "boxes": np.zeros((0, 4)), "labels": []},
    {"image": "b.png", "captions": ["one", "two"]},
]
EVERYTHING: list[dict[str, Any]] = [
    {
        "image": "a.png",
        "image_id": 7,
        "tags": ["wet", "dark"],
        "caption": "one",
        "age": 3,
        "scores": [0.5, 1],
        "who": "x",
        "boxes": [[4, 2, 20, 10]],
        "labels": np.array([1]),
        "iscrowd": [1],
        "area": [96.0],
        "segmentation": [[[4, 2, 20, 2, 20, 10, 4, 10]]],
        "keypoints": [[[4, 2, 2], [0, 0, 0]]],
        "size": (40, 20),
    },
    {"image": "b.png", "image_id": 3, "age": 4, "scores": [], "who": "y", "boxes": []},
]
OPTIONS: dict[str, Any] = {
    "numbers": ["age", "scores"],
    "texts": ["who"],
    "class_names": {"labels": ["cat", "dog"]},
    "keypoints": Keypoints(("left", "right"), (1, 0)),
}


def say(images: Path, *dicts: dict[str, Any], **options: Any) -> Any:
    return from_dicts(dicts, root=images, **options)


def records(path: Path, split: str = "train") -> list[Any]:
    return list(shardfeed.open(path)[split])


def data(red: int) -> bytes:
    return picture(red)


class TestFromDicts(SourceContract):
    @pytest.fixture(params=["boxes", "everything", "bytes"])
    def build(self, request: pytest.FixtureRequest, images: Path) -> Callable[[], Any]:
        return {
            "boxes": lambda: from_dicts(BOXES, root=images),
            "everything": lambda: from_dicts(EVERYTHING, root=images, **OPTIONS),
            "bytes": lambda: from_dicts(
                {"image": image, "key": f"{i}.png", "label": i % 2}
                for i, image in enumerate((picture(), partial(data, 3), bytearray(picture(5))))
            ),
        }[request.param]


def test_boxes_are_objects_and_images_without_stay(images: Path, tmp_path: Path) -> None:
    source = from_dicts(BOXES, root=images)
    assert [(sample.key, sample.split) for sample in source] == [
        (b"a.png", None), (b"b.png", None), (b"sub/c.png", "validation")
    ]  # fmt: skip
    assert isinstance(source[2].image, SourceFile)
    report = convert(source, tmp_path / "out", workers=1, split={"train": 1.0})
    assert (report.account.read, report.account.written) == (2, 2)
    (record,) = records(tmp_path / "out", "validation")
    assert [record[key].tolist() for key in BOX] == [
        pytest.approx([0.1, 0]), pytest.approx([0.1, 0]), [0.5, 1.0], [0.5, 1.0]
    ]  # fmt: skip
    assert record[OBJECT_LABEL].tolist() == [1, 0]
    assert report.manifest.schema.class_names == {OBJECT_LABEL: ("cat", "dog")}
    others = {r[FILENAME]: (r[XMIN].tolist(), r[CAPTION]) for r in records(tmp_path / "out")}
    assert others == {b"a.png": ([], []), b"b.png": ([], [b"one", b"two"])}


def test_everything_that_a_dict_may_say(images: Path, tmp_path: Path) -> None:
    source = from_dicts(EVERYTHING, root=images, **OPTIONS)
    assert source.schema.features["image/scores"] == Feature("float32", (None,), "number")
    assert source[1].features == {
        LABEL: [], TEXT: [], CAPTION: [], "image/age": 4, "image/scores": [], "image/who": b"y"
    }  # fmt: skip
    convert(source, tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")["train"]
    assert data.schema.class_names == {LABEL: ("dark", "wet"), OBJECT_LABEL: ("cat", "dog")}
    record: Any = next(r for r in data if r[FILENAME] == b"a.png")
    assert (record[SOURCE_ID], record["image/age"], record["image/who"]) == (b"7", 3, b"x")
    assert (record[LABEL].tolist(), record[TEXT], record[CAPTION]) == ([1, 0], [b"wet", b"dark"], [b"one"])
    assert (record[OBJECT_LABEL].tolist(), record[IS_CROWD].tolist(), record[OBJECT_AREA].tolist()) == ([1], [1], [96])
    assert record[KEYPOINT_X].tolist() == [pytest.approx(0.1), 0]
    assert record[KEYPOINT_VISIBILITY].tolist() == [2, 0]
    assert np.asarray(Image.open(io.BytesIO(record[OBJECT_MASK][0]))).sum() == 16 * 8
    assert data.schema.kind(LABEL) == "tags"
    assert data.class_counts[LABEL] == (1, 1)


def test_the_classes_of_images_that_are_not_there_count(images: Path) -> None:
    """Whether a file is there changes no label of others."""
    dicts = [{"image": name, "label": label} for label, name in enumerate(("a.png", "gone.png", "b.png"))]
    source = say(images, *dicts)
    assert (source.schema.class_names[LABEL], len(source)) == (("0", "1", "2"), 2)
    assert [source[i].features[LABEL] for i in range(2)] == [0, 2]
    dicts = [{"image": "a.png", "tags": ["dog"]}, {"image": "gone.png", "tags": ["cat", "eel"]}]
    assert say(images, *dicts).schema.class_names[LABEL] == ("cat", "dog", "eel")


def test_fractions_and_the_upright_image_are_said_once(images: Path, tmp_path: Path) -> None:
    source = say(images, {"image": "a.png", "boxes": [[0.1, 0.1, 0.5, 0.5]]}, fractions=True, boxes_on="stored")
    objects = source[0].objects
    assert (objects.fractions, objects.upright, objects.names) == (True, False, ["box 0"])
    convert(source, tmp_path / "out", workers=1)
    (record,) = records(tmp_path / "out")
    assert record[YMAX].tolist() == [0.5]
    assert OBJECT_LABEL not in record


def test_an_iterable_is_gone_through_once(images: Path) -> None:
    begun = []

    def dicts() -> Any:
        begun.append(1)
        yield {"image": images / "a.png", "label": "x"}

    source = from_dicts(dicts(), root=images)
    assert pickle.loads(pickle.dumps(source))[0].key == b"a.png"
    assert begun == [1]


def test_images_that_are_not_there_are_listed_with_their_boxes(images: Path) -> None:
    (images / "d.png").mkdir()
    boxes = [[0, 0, 5, 5], [1, 1, 3, 3]]
    source = say(images, *BOXES, {"image": "gone.png", "boxes": boxes, "labels": ["cat", "cow"]}, {"image": "d.png"})
    assert len(source) == 3
    assert [(s.key, s.code, s.reason) for s in source.findings.rejected] == [
        (b"d.png", "E_NOT_REGULAR", "dicts[4]: not a regular file"),
        (b"gone.png", "E_MISSING", "dicts[3]: no such file or directory"),
    ]
    account = source.findings.account
    assert account.read == 2
    assert account.left_out[1] == LeftOut(b"gone.png", "E_IMAGE", "box 1: its image gone.png was left out")
    assert source.schema.class_names[OBJECT_LABEL] == ("cat", "cow", "dog"), "the same, once it is there"


def test_a_key_is_the_path_below_the_root_or_given(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(images)
    assert from_dicts([{"image": "sub/../a.png"}, {"image": images / "b.png"}])[0].key == b"a.png"
    assert from_dicts([{"image": "../" + images.name + "/a.png"}])[0].key == b"a.png"
    assert from_dicts([{"image": "/etc/hostname", "key": "é"}])[0].key == "é".encode()
    with pytest.raises(UsageError, match=r"dicts\[1\]: image: .* is not in .*; give the folder of the images, such as"):
        from_dicts([{"image": "a.png"}, {"image": "/nowhere/a.png"}])


ONE = {"image": "a.png"}
BOX1 = {"boxes": [[0, 0, 5, 5]]}
FAULTS: list[tuple[list[Any], dict[str, Any], str]] = [
    ([], {}, "dicts: the list is empty; give a dict for each image"),
    (["a.png"], {}, "dicts: got 'a.png' in the list, expected a mapping"),
    ([ONE, {"label": "x"}], {}, "dicts[1]: image: it has no 'image', expected a path, or the bytes of an encoded"),
    ([{"image": Image.new("RGB", (3, 3))}], {}, "dicts[0]: image: got Image, expected a path, or the bytes"),
    ([{"image": b"x"}], {}, "dicts[0]: it has no 'key', and its image has no path; give each a unique name"),
    ([{**ONE, "key": "/abs"}], {}, "dicts[0]: key: got '/abs', expected a relative name such as"),
    ([{**ONE, "key": 3}], {}, "dicts[0]: key: got int, expected a relative name"),
    ([ONE, {"image": "./a.png"}], {}, "dicts[1]: has the key 'a.png' of dicts[0]; keys must be unique"),
    ([{**ONE, "boxs": []}], {}, "dicts[0]: got 'boxs', an unknown key; did you mean 'boxes'?"),
    ([{**ONE, "weather": 1}], {}, "dicts[0]: got 'weather', an unknown key; list it in numbers or texts; known"),
    ([{**ONE, "split": "a/b"}], {}, "dicts[0]: split: "),
    ([{**ONE, "labels": ["x"]}], {}, "dicts[0]: got 'labels' without 'boxes'; give 'boxes', or 'tags' for classes"),
    ([{**ONE, "boxes": [[1, 2, 3]]}], {}, "dicts[0]: boxes: got [[1, 2, 3]], expected a list with [left, top, right,"),
    ([{**ONE, "boxes": [["x"]]}], {}, "dicts[0]: boxes: got [['x']], expected a list with [left, top, right, bottom]"),
    ([{**ONE, **BOX1, "labels": []}], {}, "dicts[0]: got 0 of 'labels' for 1 box; give one for each box"),
    ([{**ONE, **BOX1, "labels": "cat"}], {}, "dicts[0]: labels: got str, expected a list"),
    ([{**ONE, **BOX1, "labels": [1.5]}], {}, "dicts[0]: labels: got float, expected the name of a class, or its"),
    ([{**ONE, **BOX1, "labels": ["x"]}, {**BOX1, "image": "b.png"}], {}, "dicts[1]: it has no 'labels', but dicts[0]"),
    ([{**ONE, **BOX1, "iscrowd": [2]}], {}, "dicts[0]: iscrowd: got 2, expected 0 or 1 for each box"),
    ([{**ONE, **BOX1, "area": [None, 1]}], {}, "dicts[0]: got 2 of 'area' for 1 box"),
    ([{**ONE, **BOX1, "size": 3}], {}, "dicts[0]: size: got int, expected a list"),
    ([{**ONE, **BOX1, "size": (0, 3)}], {}, "dicts[0]: size: got (0, 3), expected (width, height) in pixels"),
    ([{**ONE, **BOX1, "keypoints": [[1, 1, 2]]}], {}, "dicts[0]: got 'keypoints', without their names; give"),
    (
        [{**ONE, **BOX1, "keypoints": [[1, 1]]}],
        {"keypoints": Keypoints(("nose",))},
        "dicts[0]: keypoints: got [[1, 1]], expected a list with x, y and visibility for 1 name for each object",
    ),
    ([{**ONE, "tags": ["x", "y", "x"]}], {}, "dicts[0]: tags: got x, y, x, expected each class once"),
    ([{**ONE, "tags": ["é", "e\u0301"]}], {}, "dicts[0]: tags: got é, e\u0301, expected each class once"),
    ([{**ONE, "tags": "x"}], {}, "dicts[0]: tags: got str, expected a list"),
    ([{**ONE, "tags": []}], {}, "class_names: no dict has any class in 'tags'; name the classes"),
    (
        [{**ONE, "label": "x"}, {"image": "b.png"}],
        {},
        "dicts[1]: it has no 'label', but dicts[0] has one; give it to all",
    ),
    ([{**ONE, "label": "x"}, {"image": "b.png", "tags": ["x"]}], {}, "dicts[1]: got 'tags', but others have 'label'"),
    (
        [{**ONE, "label": "cat"}, {"image": "b.png", "label": "cow"}],
        {"class_names": ["cat"]},
        "dicts[1]: label: got the class 'cow', expected",
    ),
    ([ONE], {"class_names": ["cat"]}, "class_names: no dict has any of label, tags, labels; leave them out"),
    ([ONE], {"class_names": {"label": ["cat"]}}, "class_names: got names for 'label', but no dict has it; leave them"),
    ([ONE], {"class_names": {"image": ["cat"]}}, "class_names: got 'image', expected one of label, tags, labels"),
    ([ONE], {"fractions": False}, "fractions: is for boxes, and no dict has any; leave it out"),
    ([ONE], {"boxes_on": "stored"}, "boxes_on: is for boxes, and no dict has any; leave it out"),
    ([ONE], {"keypoints": Keypoints(("nose",))}, "keypoints: is for boxes, and no dict has any; leave it out"),
    ([{**ONE, "label": 1}], {}, "dicts[0]: label: got 1 integer labels from 1 to 1"),
    ([{**ONE, "caption": 3}], {}, "dicts[0]: caption: got 3, expected text, or a list of texts, in UTF-8"),
    ([{**ONE, "captions": ["a", b"\xff"]}], {}, "dicts[0]: captions: got b'\\xff', expected text"),
    ([{**ONE, "age": "3"}], {"numbers": ["age"]}, "dicts[0]: age: got str, expected a number, or a list of them"),
    (
        [{**ONE, "age": 2**63}],
        {"numbers": ["age"]},
        "dicts[0]: age: got 9223372036854775808, expected a number that fits int64",
    ),
    ([ONE], {"numbers": ["age"]}, "dicts[0]: it has no 'age'; give each one, nan for an unknown number"),
    ([ONE], {"numbers": "age"}, "numbers: got 'age', expected a list of text; put it in brackets"),
    ([ONE], {"texts": ["height"]}, "texts: got 'height', which is already used, or belongs to objects; rename it"),
    (
        [{**ONE, "age": 3}, {"image": "b.png", "age": [3]}],
        {"numbers": ["age"]},
        "dicts[1]: age: got a list, unlike earlier samples",
    ),
    ([{**ONE, "image_id": 2**63}], {}, "dicts[0]: image_id: got 9223372036854775808, expected an integer of 0 or more"),
    ([{**ONE, "key": "\ud800.png"}], {}, "dicts[0]: key: got '\\\\ud800.png', expected a name that a file can have"),
    ([{"image": "a\0.png"}], {}, "dicts[0]: image: got 'a\\\\x00.png', expected a name that a file can have"),
    ([{**ONE, "image_id": -1}], {}, "dicts[0]: image_id: got -1, expected an integer of 0 or more"),
    ([{**ONE, "image_id": 1}, {"image": "b.png", "image_id": 1}], {}, "dicts[1]: has the image_id 1 of dicts[0]; give"),
    (
        [{**ONE, "image_id": 1}, {"image": "b.png"}],
        {},
        "dicts[1]: it has no 'image_id', but dicts[0] has one; give each",
    ),
]


@pytest.mark.parametrize(("dicts", "options", "said"), FAULTS)
def test_what_cannot_be_meant_is_told_with_the_number_of_the_dict(
    images: Path, dicts: list[Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        from_dicts(dicts, root=images, **options)
    assert str(caught.value).startswith(said), str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_dicts_are_a_list() -> None:
    for wrong in ({"image": "a.png"}, "a.png", 3):
        with pytest.raises(UsageError, match=r"dicts: got .*, expected a list of mappings"):
            from_dicts(wrong)  # type: ignore[arg-type]


def test_a_class_may_be_its_number(images: Path) -> None:
    source = say(images, {"image": "a.png", "label": 1}, {"image": "b.png", "label": 0}, class_names=["x", "y"])
    assert [(s.features[LABEL], s.features[TEXT]) for s in source] == [(1, b"y"), (0, b"x")]
    assert source.schema.features[LABEL] == Feature("int64", (), "label")
    assert say(images, {"image": "a.png", "tags": np.array([1, 0])}).schema.class_names[LABEL] == ("0", "1")


def test_a_box_that_leaves_its_image_is_listed_by_its_number(images: Path, tmp_path: Path) -> None:
    source = say(images, {"image": "a.png", "boxes": [[0, 0, 5, 5], [30, 0, 50, 5]]})
    report = convert(source, tmp_path / "out", workers=1, max_bad={"objects": 1})
    (left,) = report.account.left_out
    assert left.reason.startswith("box 1, 30, 0 to 50, 5: 10.0 pixels outside")
    assert isinstance(source[0], Sample)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"boxes": [[0, 0, 5, 5]], "area": [float("nan")]}, "E_VALUE"),
        ({"boxes": [[0, 0, 5, 5]], "area": [-1]}, "E_VALUE"),
        ({"boxes": [[0, 0, 5, 1e15]]}, "E_VALUE"),
        ({"boxes": [[0, 0, float("nan"), 5]]}, "E_BOX_EMPTY"),
        ({"boxes": [[5, 5, 5, 9]]}, "E_BOX_EMPTY"),
        ({"boxes": [[0, 0, 5, 5], [1, 1, 5, 5], [0, 0, 5, 5]]}, "E_TWICE"),
    ],
)
def test_an_object_that_breaks_a_rule_is_listed(images: Path, said: dict[str, Any], code: str) -> None:
    source = say(
        images, {"image": "a.png", **said}, {"image": "b.png", **BOX1, **({"area": [2]} if "area" in said else {})}
    )
    account = source.findings.account
    assert [(left.key, left.code) for left in account.left_out] == [(b"a.png", code)]
    assert len(source[0].objects) + len(source[1].objects) == len(said["boxes"])


def test_boxes_in_fractions_are_not_taken_for_pixels(images: Path) -> None:
    dicts = [{"image": "a.png", "boxes": [[0.1, 0.2, 0.5, 0.75]]}]
    with pytest.raises(UsageError, match=r"boxes: .*give fractions=True if .*, else fractions=False"):
        say(images, *dicts)
    assert say(images, *dicts, fractions=True)[0].objects.fractions
    assert not say(images, *dicts, fractions=False)[0].objects.fractions


@pytest.mark.parametrize("values", [[1e300, 0.5], [16777217, 0.5], [0.5, 16777217]])
def test_a_number_that_float32_cannot_say_is_refused(images: Path, values: list[float]) -> None:
    dicts = [{"image": name, "age": value} for name, value in zip(("a.png", "b.png"), values, strict=True)]
    with pytest.raises(UsageError, match=r"dicts\[[01]\]: age: got .* float32"):
        say(images, *dicts, numbers=["age"])


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        ([[1, 2, 3, "wide"]], "could not convert string to float: 'wide'"),
        ([[1, 2, 3, 10**400]], "OverflowError: int too large"),
        ([[1, 2, 3, 4], [1, 2]], "inhomogeneous shape"),
    ],
)
def test_an_array_that_numpy_refuses_keeps_its_reason(boxes: list[Any], reason: str) -> None:
    with pytest.raises(UsageError, match=r"boxes: got .*, expected a list with \[left") as caught:
        from_dicts([{"image": b"x", "key": "a.jpg", "boxes": boxes}])
    assert caught.value.place == "dicts[0]"
    assert reason in caught.value.problem

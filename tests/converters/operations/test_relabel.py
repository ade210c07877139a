"""Other classes: in labels, sets, objects and the texts beside them; all else stays, value for value."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from datasets import here, payloads, scenes, sound
from foreign_tfrecords import picture, write

import shardfeed
from shardfeed.annotations import OBJECT_LABEL, OBJECT_TEXT, RASTER
from shardfeed.converters import (
    AnnotationOptions,
    Sample,
    adopt,
    convert,
    open_source,
    relabel,
    remove,
    reshard,
    survey,
)
from shardfeed.converters.existing.class_map import read_class_map
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.kinds import KEYPOINTS
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, LABEL, TEXT, Feature, Schema
from shardfeed.tools.cli import main

from repository import ROOT

SCENES = ROOT / "data_samples" / "scenes"


def rows(path: Path, split: str = "train") -> dict[bytes, Any]:
    """The records of a split by file name."""
    return {bytes(record[FILENAME]): record for record in shardfeed.open(path)[split]}  # type: ignore[arg-type]


def test_classes_are_put_together_renamed_and_dropped(small: Dataset, tmp_path: Path) -> None:
    relabel(small, tmp_path / "out", {"tulip": "flower", "rose": None, "daisy": "flower"}, workers=here())
    out = shardfeed.open(tmp_path / "out")
    assert out.class_names == ("flower",)
    old, new = rows(Path(small.directory)), rows(tmp_path / "out")
    assert new.keys() == {key for key in old if not key.startswith(b"rose")}
    for key, record in new.items():
        assert record == old[key] | {LABEL: 0, TEXT: b"flower"}
    assert list(new) == [key for key in old if key in new]
    assert sound(tmp_path / "out")


def test_records_in_which_nothing_changes_keep_their_bytes(small: Dataset, tmp_path: Path) -> None:
    relabel(small, tmp_path / "out", {"tulip": "lily"}, workers=here())
    places = Path(small.directory), tmp_path / "out"
    old, new = (dict(zip(rows(at), payloads(shardfeed.open(at), "train"), strict=True)) for at in places)
    changed = {key for key in old if old[key] != new[key]}
    assert changed == {key for key in old if key.startswith(b"tulip")}
    relabel(tmp_path / "out", tmp_path / "back", {"lily": "tulip"}, workers=here())
    assert payloads(shardfeed.open(tmp_path / "back")) == payloads(small)


def test_order_is_as_asked(small: Dataset, tmp_path: Path) -> None:
    relabel(small, tmp_path / "out", {"rose": "a"}, order=["tulip", "a", "daisy"], workers=here())
    assert shardfeed.open(tmp_path / "out").class_names == ("tulip", "a", "daisy")
    assert {bytes(r[TEXT]): r[LABEL] for r in rows(tmp_path / "out").values()} == {b"tulip": 0, b"a": 1, b"daisy": 2}
    with pytest.raises(UsageError, match="differs from the resulting classes in rose"):
        relabel(small, tmp_path / "no", {"rose": "a"}, order=["tulip", "rose", "a", "daisy"])


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        ({"ross": "x"}, r"'ross' is not a class of the dataset; did you mean rose\?"),
        ({"rose": None, "daisy": None, "tulip": None}, "no class of image/class/label would be left"),
        ({"rose": "a\nb"}, "got the class name 'a\\\\\\\\nb'"),
        ({}, "no class"),
        ({"rose": 3}, "got 3 for 'rose'"),
    ],
)
def test_what_cannot_be_is_refused(classes: Any, problem: str, small: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        relabel(small, tmp_path / "out", classes)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("m.json", '{"a": "b", "c": null}', {"a": "b", "c": None}),
        ("m.json", '{"a": "b", "a": "c"}', "lists a class twice"),
        ("m.json", "[1]", "is not a JSON object"),
        ("m.json", "{", "is not valid JSON"),
        ("m.csv", 'old,new\na,b\n"c,d",\n', {"a": "b", "c,d": None}),
        ("m.csv", "a,b\na,c\n", "m.csv:2: names the class 'a' a second time"),
        ("m.csv", "a,b,c\n", "m.csv:1: got 3 cells"),
        ("m.csv", 'a,"b\n', "is not valid CSV"),
        ("m.csv", "\xff", "no file"),
    ],
)
def test_maps_in_files(name: str, text: str, found: Any, tmp_path: Path) -> None:
    if found == "no file":
        (tmp_path / name).write_bytes(text.encode("latin-1"))
        found = "is not UTF-8"
    else:
        (tmp_path / name).write_text(text)
    if isinstance(found, dict):
        assert read_class_map(tmp_path / name) == found
        return
    with pytest.raises(UsageError, match=found):
        read_class_map(tmp_path / name)


@pytest.mark.parametrize("task", ["masks", "keypoints"])
def test_objects_of_a_dropped_class_go_with_all_that_is_known_of_them(task: str, tmp_path: Path) -> None:
    convert(scenes("masks"), tmp_path / "old", workers=here())
    names = shardfeed.open(tmp_path / "old").manifest.schema.class_names[OBJECT_LABEL]
    if task == "keypoints":
        tmp_path = tmp_path / "k"
        tmp_path.mkdir()
        convert(_WithSecondClass(scenes("keypoints")), tmp_path / "old", workers=here())
        names = ("triangle", "other")
    schema = shardfeed.open(tmp_path / "old").manifest.schema
    report = relabel(tmp_path / "old", tmp_path / "out", {names[0]: None}, workers=here())
    assert any("left out with dropped classes" in note for note in report.notes)
    new_schema = report.manifest.schema
    assert new_schema.class_names[OBJECT_LABEL] == names[1:]
    assert new_schema.class_ids.get(OBJECT_LABEL, ()) == schema.class_ids.get(OBJECT_LABEL, ())[1:]
    old, new = rows(tmp_path / "old"), rows(tmp_path / "out")
    assert old.keys() == new.keys()
    keypoints = len(schema.keypoints.names) if schema.keypoints else 0
    for key, record in old.items():
        stay = np.flatnonzero(np.asarray(record[OBJECT_LABEL]) != 0)
        for name in schema.object_keys:
            values = np.asarray(record[name], object)
            each = values.reshape(-1, keypoints) if name in KEYPOINTS.features else values
            expected = each[stay].reshape(-1).tolist()
            if name == OBJECT_LABEL:
                expected = [label - 1 for label in expected]
            assert list(new[key][name]) == expected
    assert main(["verify", str(tmp_path / "out"), "--deep", "--quiet"]) == 0
    assert sound(tmp_path / "out")


class _WithSecondClass:
    """The same, with every second object of another class."""

    def __init__(self, source: Any) -> None:
        self._source = source
        names = {OBJECT_LABEL: ("triangle", "other")}
        self.schema = replace(source.schema, class_names=names, class_ids={OBJECT_LABEL: (1, 7)})

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Sample:
        sample = self._source[index]
        labels = [place % 2 for place in range(len(sample.objects))]
        texts = [[b"triangle", b"other"][label] for label in labels]
        columns = {**sample.objects.columns, OBJECT_LABEL: labels}
        columns |= {OBJECT_TEXT: texts} if OBJECT_TEXT in columns else {}
        return replace(sample, objects=replace(sample.objects, columns=columns))


def test_rasters_are_renamed_and_not_put_together(tmp_path: Path) -> None:
    convert(scenes("rasters"), tmp_path / "old", workers=here())
    old = shardfeed.open(tmp_path / "old")
    assert old.manifest.schema.raster
    first, second, *_ = old.manifest.schema.raster.class_names
    relabel(tmp_path / "old", tmp_path / "out", {second: "renamed"}, workers=here())
    out = shardfeed.open(tmp_path / "out")
    assert out.manifest.schema.raster
    assert out.manifest.schema.raster.class_names[:2] == (first, "renamed")
    assert payloads(out) == payloads(old)
    for classes in ({second: first}, {second: None}):
        with pytest.raises(UsageError, match="of rasters would be dropped or merged, but"):
            relabel(tmp_path / "old", tmp_path / "no", classes)


class _Fixed:
    """Two images with the same values."""

    def __init__(self, schema: Schema, values: dict[str, Any]) -> None:
        self.schema, self._values = schema, values

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Sample:
        if index >= len(self):
            raise IndexError(index)
        return Sample(b"%d.jpg" % index, picture(index), self._values)


class _Tags:
    """Images with sets of classes."""

    schema = Schema({"tags": Feature("int64", (None,), "tags")}, {"tags": ("a", "b", "c")})
    sets = ([0, 1], [2], [], [2, 1, 0], [1])

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, index: int) -> Sample:
        if index >= len(self):
            raise IndexError(index)
        return Sample(b"%d.jpg" % index, picture(index), {"tags": self.sets[index]})


def test_sets_of_classes(tmp_path: Path) -> None:
    convert(_Tags(), tmp_path / "old", workers=here())
    relabel(tmp_path / "old", tmp_path / "out", {"b": "a"}, workers=here())
    found = {key: list(record["tags"]) for key, record in rows(tmp_path / "out").items()}
    assert found == {b"0.jpg": [0], b"1.jpg": [1], b"2.jpg": [], b"3.jpg": [1, 0], b"4.jpg": [0]}
    relabel(tmp_path / "old", tmp_path / "dropped", {"a": None}, workers=here())
    found = {key: list(record["tags"]) for key, record in rows(tmp_path / "dropped").items()}
    assert found == {b"0.jpg": [0], b"1.jpg": [1], b"2.jpg": [], b"3.jpg": [1, 0], b"4.jpg": [0]}
    assert sound(tmp_path / "dropped")
    shardfeed.filter(tmp_path / "old", tmp_path / "with", where="class in (a, c)", workers=here())
    assert rows(tmp_path / "with").keys() == {b"0.jpg", b"1.jpg", b"3.jpg"}


@pytest.fixture
def adopted(tmp_path: Path) -> Path:
    """Records of others: other keys, an extra feature that is no part of the schema, and not our order of keys."""
    records = [{"img": picture(i), "label": i % 3, "name": b"%d" % i} for i in range(9)]
    write(tmp_path / "in" / "train-00000-of-00001.tfrecord", records)
    adopt(
        survey(tmp_path / "in", image_key="img", label_key="label", class_names=["a", "b", "c"]), tmp_path / "adopted"
    )
    return tmp_path / "adopted"


def test_records_of_others(adopted: Path, tmp_path: Path) -> None:
    old = shardfeed.open(adopted)
    reshard(adopted, tmp_path / "shards", shards=3, workers=here())
    assert payloads(shardfeed.open(tmp_path / "shards")) == payloads(old)
    shardfeed.split(adopted, tmp_path / "split", {"x": 0.5, "y": 0.5}, workers=here())
    assert sorted(payloads(shardfeed.open(tmp_path / "split"))) == sorted(payloads(old))
    relabel(adopted, tmp_path / "other", {"b": "a"}, workers=here())
    new = shardfeed.open(tmp_path / "other")
    assert [(r["label"], r["img"], r["name"]) for r in new["train"]] == [
        ((0, 0, 1)[int(r["label"])], r["img"], r["name"])  # type: ignore[arg-type]
        for r in old["train"]
    ]
    parsed = tf.train.Example.FromString(new["train"].payload(1))
    assert parsed.features.feature["label"].int64_list.value == [0]
    shardfeed.filter(adopted, tmp_path / "some", where="class == b", workers=here())
    assert payloads(shardfeed.open(tmp_path / "some")) == payloads(old)[1::3]
    remove(adopted, tmp_path / "less", ["train/000000004"], workers=here())
    assert payloads(shardfeed.open(tmp_path / "less")) == payloads(old)[:4] + payloads(old)[5:]
    for name in ("shards", "split", "other", "some", "less"):
        assert sound(tmp_path / name)


def test_a_label_that_is_no_class_is_named(small: Dataset) -> None:
    change = RecordChange(small.manifest.schema, {LABEL: (0,)}, {LABEL: ("x",)})
    tulip = next(i for i, record in enumerate(small["train"]) if record[LABEL] == 2)
    with pytest.raises(IntegrityError, match="image/class/label is 2, expected 0 to 0"):
        change(small["train"].payload(tulip), 0)


def test_on_the_command_line(small: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "map.csv").write_text("rose,flower\ndaisy,\n")
    command = ["relabel", small.directory, str(tmp_path / "out"), "--map", str(tmp_path / "map.csv"), "--dry-run"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 classes of image/class/label: 0 flower, 1 tulip" in said
    assert "nothing was written (--dry-run)" in said
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class_names"] == {LABEL: ["flower", "tulip"]}
    (tmp_path / "map.csv").write_text("ross,flower\n")
    assert main(command) == 2
    assert "shardfeed: --map: 'ross' is not a class of the dataset; did you mean rose?" in capsys.readouterr().err
    assert main(["filter", small.directory, str(tmp_path / "out"), "--where", "height >"]) == 2
    assert "shardfeed: --where: it ends, expected a number" in capsys.readouterr().err
    assert main(["remove", small.directory, str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_exchanged_names_keep_their_list(small: Dataset, tmp_path: Path) -> None:
    """The list is the same, and its numbers are exchanged."""
    (tmp_path / "map.csv").write_text("daisy,rose\nrose,daisy\n")
    (tmp_path / "order.txt").write_text("daisy\nrose\ntulip\n")
    command = ["relabel", small.directory, str(tmp_path / "out"), "--map", str(tmp_path / "map.csv")]
    assert main([*command, "--order", str(tmp_path / "order.txt"), "--workers", "1"]) == 0
    assert shardfeed.open(tmp_path / "out").class_names == small.class_names == ("daisy", "rose", "tulip")
    other = {0: 1, 1: 0, 2: 2}
    old, new = rows(Path(small.directory)), rows(tmp_path / "out")
    assert {key: record[LABEL] for key, record in new.items()} == {k: other[r[LABEL]] for k, r in old.items()}
    assert {bytes(r[TEXT]).decode() for r in new.values() if r[LABEL] == 0} == {"daisy"}
    assert sound(tmp_path / "out")


def test_an_order_of_no_feature_is_refused(small: Dataset, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match="order: does not match the classes of any feature: cat, dog; the resulting classes are daisy, ro",
    ):
        relabel(small, tmp_path / "out", {"rose": "ros"}, order=["cat", "dog"])
    convert(
        open_source(
            SCENES / "masks",
            options=AnnotationOptions(images=str(SCENES / "images"), class_names=str(SCENES / "masks.txt")),
        ),
        tmp_path / "masks",
        workers=here(),
    )
    raster = shardfeed.open(tmp_path / "masks").manifest.schema.raster
    first, *others = raster.class_names
    for feature in (None, RASTER):
        with pytest.raises(UsageError, match="order: reorders the classes of rasters"):
            relabel(tmp_path / "masks", tmp_path / "out", {first: "x"}, feature=feature, order=[*others, "x"])
        out = tmp_path / f"out{feature is None}"
        relabel(tmp_path / "masks", out, {first: "x"}, feature=feature, order=["x", *others], workers=here())
        found = shardfeed.open(out).manifest.schema.raster
        assert found.class_names == ("x", *others)


def test_an_order_of_one_feature_lets_others_be_renamed(tmp_path: Path) -> None:
    """Each list is mapped; the order is that of the list whose classes it names."""
    schema = Schema(
        {LABEL: Feature("int64"), "image/other/label": Feature("int64")},
        {LABEL: ("cat", "dog"), "image/other/label": ("bus", "car")},
    )
    convert(_Fixed(schema, {LABEL: 0, "image/other/label": 1}), tmp_path / "old", workers=here())
    relabel(tmp_path / "old", tmp_path / "out", {"car": "truck"}, order=["dog", "cat"], workers=here())
    out = shardfeed.open(tmp_path / "out")["train"]
    assert dict(out.schema.class_names) == {LABEL: ("dog", "cat"), "image/other/label": ("bus", "truck")}
    assert [(record[LABEL], record["image/other/label"]) for record in out] == [(1, 1)] * 2

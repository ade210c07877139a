"""Hugging Face's imagefolder with objects, captions, or neither."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_images import SCENES, converted, draw, expected, image_file, put, stems
from sources import reader

import shardfeed
from shardfeed.annotations import CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_TEXT, XMIN
from shardfeed.converters import convert
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import AnnotationOptions, LabelOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import LABEL
from shardfeed.testing.source import SourceContract

VALUE = "image/class/value"


recognise, read = reader("imagefolder")


def row(name: str, **more: Any) -> dict[str, Any]:
    """A row with the objects of a scene."""
    boxes = [[left, top, right - left, bottom - top] for _, (left, top, right, bottom) in SCENES[name]]
    said = {"bbox": boxes, "categories": [label for label, _ in SCENES[name]]}
    return {"file_name": f"{name}.png", "width": 60, "height": 40, "objects": said, **more}


def lines(*found: Any) -> str:
    return "\n".join(json.dumps(one) for one in found) + "\n"


def flat(root: Path) -> Path:
    draw(root)
    put(root / "metadata.jsonl", lines(*(row(name, text=f"{name}!", source="x") for name in "dcba")))
    return root


def splits(root: Path) -> Path:
    for split, names in (("train", "ab"), ("validation", "c"), ("test", "d")):
        draw(root / split, {name: SCENES[name] for name in names})
        put(root / split / "metadata.jsonl", lines(*map(row, names)))
    return root


def listed(root: Path) -> Path:
    """Objects as a list with one an object."""
    draw(root)
    rows = []
    for name in SCENES:
        columns = row(name)["objects"]
        rows.append({"file_name": f"{name}.png", "objects": [
            {"bbox": box, "category": label} for box, label in zip(columns["bbox"], columns["categories"], strict=True)
        ]})  # fmt: skip
    put(root / "metadata.jsonl", lines(*rows))
    return root


def captions(root: Path) -> Path:
    draw(root)
    put(root / "metadata.csv", 'file_name,text\na.png,"a dog, and a cat"\nb.png,é\nc.png,\n')
    return root


BUILDERS: dict[str, Callable[[Path], Path]] = {"flat": flat, "splits": splits, "listed": listed, "captions": captions}


class TestContract(SourceContract):
    """Contract of every source."""

    keys_are_sorted = True

    @pytest.fixture(params=BUILDERS)
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        root = BUILDERS[request.param](tmp_path / "hf")
        for image in root.rglob("b.png"):
            image.unlink()
        return lambda: read(root)


@pytest.mark.parametrize("layout", ["flat", "splits", "listed"])
def test_every_layout_gives_the_same_records(layout: str, tmp_path: Path) -> None:
    root = str(BUILDERS[layout](tmp_path / "hf"))
    evidence = recognise(root)
    assert (evidence.name, evidence.missing) == ("imagefolder", "")
    assert "objects" in evidence.found
    report, found = converted(read(root), tmp_path / "out")
    assert stems(found) == expected()
    assert (report.account.read, report.account.written) == (6, 6)
    by_split = {Path(key).stem: values["split"] for key, values in found.items()}
    assert by_split == (
        {"a": "train", "b": "train", "c": "validation", "d": "test"}
        if layout == "splits"
        else dict.fromkeys("abcd", "train")
    )
    if layout == "flat":
        assert "ignored columns (used only in a label file): 1 (source)" in report.notes


def test_captions(tmp_path: Path) -> None:
    root = captions(tmp_path / "hf")
    put(root / "e.png", image_file())
    source = read(root)
    assert not source.schema.object_keys
    report = convert(source, tmp_path / "out", workers=1)
    records = shardfeed.open(tmp_path / "out")["train"]
    found: dict[Any, Any] = {record["image/filename"]: record[CAPTION] for record in records}
    assert found == {b"a.png": [b"a dog, and a cat"], b"b.png": ["é".encode()], b"c.png": []}
    assert "images without a row, left out: 2 (d.png, e.png)" in report.notes
    (root / "metadata.csv").unlink()
    put(root / "metadata.jsonl", lines({"file_name": "a.png", "text": "x", "captions": ["y", " ", "z"]}))
    assert read(root / "metadata.jsonl")[0].features == {CAPTION: [b"x", b"y", b"z"]}


def test_metadata_in_parquet_is_as_in_json_lines(tmp_path: Path) -> None:
    """Captions, objects and class names of `datasets`; in the folder of a split, and for the file itself."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    root = tmp_path / "hf"
    draw(root / "train")
    rows = [{"file_name": f"{name}.png", "text": f"caption {name}"} for name in "abcd"]
    parquet.write_table(pyarrow.Table.from_pylist(rows), root / "train" / "metadata.parquet")
    for path in (root, root / "train" / "metadata.parquet"):
        source = open_source(path)
        texts = [source[i].features[CAPTION] for i in range(4)]
        assert texts == [[f"caption {name}".encode()] for name in "abcd"]
    objects = [row(name) for name in SCENES]
    parquet.write_table(pyarrow.Table.from_pylist(objects), root / "train" / "metadata.parquet")
    assert open_source(root).schema.object_keys
    table = pyarrow.Table.from_pylist([{"file_name": f"{name}.png", "label": i % 2} for i, name in enumerate("abcd")])
    features = {"label": {"_type": "ClassLabel", "names": ["zebra", "ant"]}}
    stated = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(table.replace_schema_metadata(stated), root / "train" / "metadata.parquet")
    source = open_source(root)
    assert source.schema.class_names == {LABEL: ("zebra", "ant")}
    assert [source[i].features[LABEL] for i in range(4)] == [0, 1, 0, 1]


def test_tasks_choose(tmp_path: Path) -> None:
    root = str(flat(tmp_path / "hf"))
    both = read(root).schema
    assert CAPTION in both.features
    assert both.object_keys
    assert not read(root, AnnotationOptions(tasks=frozenset({"captions"}))).schema.object_keys
    assert CAPTION not in read(root, AnnotationOptions(tasks=frozenset({"boxes"}))).schema.features
    with pytest.raises(UsageError, match="got the task 'masks', expected boxes or captions"):
        read(root, AnnotationOptions(tasks=frozenset({"masks"})))


def test_what_is_not_ours_is_not_recognised(tmp_path: Path) -> None:
    for i, (name, text) in enumerate(
        [
            ("metadata.csv", "file_name,age\na.png,3\n"),
            ("metadata.csv", "path,text\na.png,x\n"),
            ("metadata.csv", "file_name,text\na.png,x\na.png,y\n"),
            ("metadata.jsonl", "nonsense\n"),
            ("metadata.jsonl", ""),
            ("labels.jsonl", lines(row("a"))),
        ]
    ):
        root = put(tmp_path / str(i) / name, text).parent
        assert recognise(root) is None, text
        assert recognise(root / name) is None
    almost = put(tmp_path / "pairs" / "metadata.jsonl", lines({"left_file_name": "a.png", "text": "x"})).parent
    assert (found := recognise(almost)) is not None
    assert found.missing.startswith("no column file_name")
    with pytest.raises(UsageError, match="no metadata"):
        read(tmp_path)


@pytest.mark.long
def test_areas_crowds_and_integers(tmp_path: Path) -> None:
    root = draw(tmp_path / "hf", {"a": [], "b": []})
    said = {
        "id": [9, 8],
        "bbox": [[0, 0, 20, 10.5], [1, 1, 2, 2]],
        "category": [7, 3],
        "area": [100, None],
        "iscrowd": [True, 0],
    }
    put(
        root / "metadata.jsonl", lines({"file_name": "a.png", "objects": said}, {"file_name": "b.png", "objects": None})
    )
    source = read(root)
    assert source.schema.class_names[OBJECT_LABEL] == ("3", "7")
    assert source.schema.class_ids[OBJECT_LABEL] == (3, 7)
    _, found = converted(source, tmp_path / "out")
    assert (found["a.png"][OBJECT_AREA], found["a.png"][IS_CROWD]) == ([100, 4], [1, 0])
    assert found["a.png"][OBJECT_LABEL] == [1, 0]
    names = AnnotationOptions(class_names=[f"class{i}" for i in range(8)])
    _, found = converted(read(root, names), tmp_path / "named")
    assert found["a.png"][OBJECT_TEXT] == [b"class7", b"class3"]


FAULTS = [
    ({"bbox": [], "category": "x"}, "E_BOX_EMPTY", "its box is"),
    ({"category": "x"}, "E_BOX_EMPTY", "its box is"),
    ({"bbox": [1, 2, 3], "category": "x"}, "E_LINE", "its box is [1, 2, 3], expected 4 numbers"),
    ({"bbox": [1, 2, 3, "4"], "category": "x"}, "E_LINE", "its box is"),
    ({"bbox": [1, 2, 3, True], "category": "x"}, "E_LINE", "its box is"),
    ({"bbox": [1, 2, 0, 4], "category": "x"}, "E_BOX_EMPTY", "its box"),
    ({"bbox": [1, 2, float("nan"), 4], "category": "x"}, "E_BOX_EMPTY", "its box"),
    ({"bbox": [1, 2, 10**400, 4], "category": "x"}, "E_VALUE", "its box is"),
    ({"bbox": [1, 2, 300, 4], "category": "x"}, "E_BOX_OUTSIDE", "241.0 pixels outside"),
    ({"bbox": [1, 2, 3, 4], "category": 1.5}, "E_CATEGORY", "got the class 1.5, expected a name or an integer"),
    ({"bbox": [1, 2, 3, 4], "category": None}, "E_CATEGORY", "has no class"),
    ({"bbox": [1, 2, 3, 4]}, "E_CATEGORY", "has no class"),
    ({"bbox": [1, 2, 3, 4], "category": "x", "iscrowd": 2}, "E_VALUE", "is_crowd is 2"),
    ({"bbox": [1, 2, 3, 4], "category": "x", "area": -1}, "E_VALUE", "its area is -1"),
    ({"bbox": [5, 5, 9, 9], "category": "x"}, "E_TWICE", "it is an exact"),
]


def test_an_object_that_cannot_be_used_is_listed(tmp_path: Path) -> None:
    names = [f"{i:02}" for i in range(len(FAULTS))]
    root = draw(tmp_path / "hf", {name: [] for name in names})
    good = {"bbox": [5, 5, 9, 9], "category": "x"}
    rows = [
        {"file_name": f"{name}.png", "objects": [good, bad]} for name, (bad, _, _) in zip(names, FAULTS, strict=True)
    ]
    put(root / "metadata.jsonl", lines(*rows))
    report, found = converted(read(root), tmp_path / "out", max_bad={"objects": len(FAULTS)})
    account = report.account
    assert (account.read, account.written) == (2 * len(FAULTS), len(FAULTS))
    left_out = sorted(account.left_out, key=lambda one: one.key)
    for name, one, (_, code, why) in zip(names, left_out, FAULTS, strict=True):
        assert (one.key, one.code) == (f"{name}.png".encode(), code)
        assert one.reason.startswith("object 2")
        assert why in one.reason
    assert all(len(values[XMIN]) == 1 for values in found.values())


ROWS = [
    ({"bbox": [[1, 2, 3, 4], [1, 2, 3, 5]], "categories": ["x"]}, 2, "objects has 1 values of categories for 2 boxes"),
    ({"bbox": [[1, 2, 3, 4]], "categories": "x"}, 1, "objects has no list categories for 1 box"),
    ({"categories": ["x"]}, 1, "objects has no list bbox"),
    (["x", 1], 2, "a list of objects"),
    (7, 1, "got int in objects"),
]


def test_a_row_whose_lists_differ_costs_its_image(tmp_path: Path) -> None:
    names = [f"r{i}" for i in range(len(ROWS))]
    root = draw(tmp_path / "hf", {name: [] for name in [*names, "a"]})
    rows = [{"file_name": f"{name}.png", "objects": said} for name, (said, _, _) in zip(names, ROWS, strict=True)]
    put(root / "metadata.jsonl", lines(*rows, row("a"), row("d"), {**row("b"), "file_name": "../x.png"}))
    report, found = converted(read(root), tmp_path / "out", max_bad={"images": 7, "objects": 7})
    account = report.account
    assert (account.read, account.written) == (7 + 2 + 3 + 1, 2)
    assert list(found) == ["a.png"]
    for name, (_, count, why) in zip(names, ROWS, strict=True):
        mine = [one for one in account.left_out if one.key == f"{name}.png".encode()]
        assert [one.code for one in mine] == ["E_LINE"] * count
        assert all(why in one.reason for one in mine)
    assert {noted.key: noted.what for noted in report.rejected} == {
        b"../x.png": "E_PATH_ESCAPE", b"d.png": "E_MISSING", **{f"{name}.png".encode(): "E_NO_LABEL" for name in names},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{]\n", "metadata.jsonl:1: not JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("[1]\n", "metadata.jsonl:1: not a JSON object"),
        (lines(row("a")) + '{"text": "x"}\n', "metadata.jsonl:2: expected a path in file_name, got none"),
        (lines({"file_name": " ", "text": "x"}), "got an empty one"),
        (lines(row("a"), row("a", text="y")), "metadata.jsonl:2: 'a.png' appears twice: "),
        (lines({"file_name": "a.png", "label": 3}), "labels start at 3, not at 0"),
        (lines({"file_name": "a.png", "age": 3}), "got no column objects, text or label"),
        (lines({"file_name": "a.png", "label": "x", "target": "y"}), "several columns may be the label: label, target"),
        (lines({"file_name": "gone.png", "text": "x"}), "the first (metadata.jsonl:1) is 'gone.png': no such file"),
        ("[" * 5000 + "\n", "not JSON"),
        ("", "no row has a file"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(text: str, why: str, tmp_path: Path) -> None:
    root = draw(tmp_path / "hf", {"a": []})
    put(root / "metadata.jsonl", text)
    with pytest.raises(UsageError, match=re.escape(why)):
        read(root)


def test_two_tables_in_one_folder_are_refused_and_a_row_twice_is_one(tmp_path: Path) -> None:
    root = flat(tmp_path / "hf")
    put(root / "metadata.jsonl", lines(row("a"), row("a")))
    report, found = converted(read(root), tmp_path / "out")
    assert len(found["a.png"][XMIN]) == 2
    assert [one.code for one in report.account.left_out] == ["E_TWICE"] * 2
    put(root / "metadata.csv", "file_name,text\na.png,x\n")
    with pytest.raises(LabelFileError, match="leave one of the two out"):
        read(root)
    assert recognise(root) is None


def test_patterns_leave_rows_out(tmp_path: Path) -> None:
    source = read(flat(tmp_path / "hf"), exclude="[bcd].png")
    assert [sample.key for sample in source] == [b"a.png"]
    assert "images that include and exclude leave out: 3 (d.png, c.png, b.png)" in info_of(source).findings.notes
    assert not info_of(source).findings.rejected


def test_a_caption_that_is_no_text_is_listed(tmp_path: Path) -> None:
    root = draw(tmp_path / "hf", {"a": []})
    put(root / "metadata.jsonl", '{"file_name": "a.png", "text": ["\\ud800", 3, "x"]}\n')
    source = read(root)
    assert source[0].features == {CAPTION: [b"x"]}
    account = info_of(source).findings.account
    assert [one.code for one in account.left_out] == ["E_LINE", "E_LINE"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((0.25, 4.5, 7.125), "metadata.jsonl:1, column 'label': got numbers that do not count classes"),
        (("https://a.org/1", "https://a.org/2", "https://a.org/3"), "its values are addresses"),
        (("1 5 20 3", "2 5 21 3", "3 5 22 3"), "its values are run lengths"),
        (("x", "y", "3"), "metadata.jsonl:3, column 'label': got '3', expected a name as in other rows"),
        (([0, 0, 1], [1, 0], [1]), "got a list of 0 and 1 that repeats one"),
    ],
)
def test_labels_that_are_no_classes_are_refused_and_a_label_file_reads_them(
    tmp_path: Path, values: Any, problem: str
) -> None:
    root = draw(tmp_path / "hf", {name: [] for name in "abc"})
    rows = ({"file_name": f"{name}.png", "label": value} for name, value in zip("abc", values, strict=True))
    table = put(root / "metadata.jsonl", lines(*rows))
    with pytest.raises(LabelFileError) as caught:
        open_source(root)
    assert problem in str(caught.value)
    assert f"give {table} as SOURCE with reader='labels'" in (caught.value.remedy or "")
    if isinstance(values[0], float):
        captioned = ({**json.loads(line), "text": "x"} for line in table.read_text().splitlines())
        put(root / "metadata.jsonl", lines(*captioned))
        with pytest.raises(LabelFileError, match=r"give tasks=\['captions'\] to leave it out"):
            open_source(root)
        captions = open_source(root, options=AnnotationOptions(tasks=["captions"]))
        assert [one.features for one in captions] == [{CAPTION: [b"x"]}] * 3
        assert [one.features for one in open_source(table, reader="labels")] == [{VALUE: value} for value in values]
    else:
        texts = open_source(table, reader="labels", options=LabelOptions(text_columns=["label"]))
        assert len(texts) == 3

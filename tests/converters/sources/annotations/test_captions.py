"""Captions in every form that is known; broken lines are listed, and images without captions stay."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import CAPTION
from shardfeed.converters import convert
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import AnnotationOptions, LabelOptions
from shardfeed.converters.sources.readers import recognise as recognise_all
from shardfeed.errors import LabelFileError, TooManyRejectedError, UsageError
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, Feature
from shardfeed.testing.source import SourceContract

TOKEN = 'a.jpg#0\tA dog .\na.jpg#1\tTwo "dogs", é .\n\nb.jpg#0\tA cat .\ngone.jpg#0\tNo one .\ngone.jpg#1\tNobody .\n'
RESULTS = (
    "image_name| comment_number| comment\n"
    'a.jpg| 0| A dog .\na.jpg| 1| Two "dogs", é .\nb.jpg| 0| A cat .\nb.jpg| 4   A dog runs .\nc.jpg| 0| x | y\n'
)
TABLE = 'image,caption\na.jpg,A dog .\na.jpg,"Two ""dogs"", é ."\nb.jpg,A cat .\nb.jpg,\n'
KARPATHY: dict[str, Any] = {
    "images": [
        {"sentids": [0], "sentences": [{"tokens": ["a"], "raw": "A dog .", "sentid": 0}, {"raw": "Two \"dogs\", é ."}],
         "split": "restval", "filename": "a.jpg", "cocoid": 9},
        {"sentences": [{"raw": "A cat ."}, {"tokens": []}], "split": "val", "filename": "b.jpg", "cocoid": 4},
        {"sentences": [], "split": "test", "filename": "c.jpg", "cocoid": 7},
    ],
    "dataset": "flickr30k",
}  # fmt: skip
CONTENTS: dict[str, tuple[str, str]] = {
    "token": ("results_20130124.token", TOKEN),
    "results": ("results.csv", RESULTS),
    "table": ("captions.txt", TABLE),
    "karpathy": ("dataset_flickr30k.json", json.dumps(KARPATHY)),
}
OF_A = [b"A dog .", 'Two "dogs", é .'.encode()]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """a.jpg, b.jpg and c.jpg."""
    for i, name in enumerate("abc"):
        Image.new("RGB", (24, 16), (i, 9, 9)).save(tmp_path / f"{name}.jpg")
    return tmp_path


def write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder / name)


def read(path: str | Path, **options: Any) -> Any:
    return open_source(path, reader="captions", options=AnnotationOptions(**options))


def recognise(path: str | Path) -> Evidence | None:
    return next((one for one in recognise_all(Look(str(path)), {}) if one.name == "captions"), None)


class TestCaptions(SourceContract):
    @pytest.fixture(params=CONTENTS)
    def build(self, request: pytest.FixtureRequest, images: Path) -> Callable[[], Any]:
        name, content = CONTENTS[request.param]
        path = write(images, name, content)
        return lambda: read(path)


@pytest.mark.parametrize("form", CONTENTS)
def test_every_form_gives_the_same_captions(images: Path, form: str) -> None:
    name, content = CONTENTS[form]
    path = write(images, name, content)
    evidence = recognise(path)
    assert (evidence.name, evidence.missing) == ("captions", "")
    assert evidence.found.endswith(f" in {name}")
    source = read(path)
    assert source.schema.features == {CAPTION: Feature("bytes", (None,), "text")}
    found = {sample.key: sample.features[CAPTION] for sample in source}
    assert found[b"a.jpg"] == OF_A
    assert found[b"b.jpg"] == [b"A cat ."]
    assert found.keys() - {b"c.jpg"} == {b"a.jpg", b"b.jpg"}
    assert ": 2 images, " in source.described or ": 3 images, " in source.described
    assert recognise(str(images)) is not None
    assert [s.features for s in read(images)] == [s.features for s in source]


def test_the_broken_line_of_results_csv_is_listed(images: Path, tmp_path: Path) -> None:
    source = read(write(images, "results.csv", RESULTS))
    assert [sample.features[CAPTION] for sample in source][2] == [b"x | y"]
    account = source.findings.account
    assert account.read == 1
    (left,) = account.left_out
    expected = "results.csv:5: got 2 cells, expected image_name| comment_number| comment"
    assert (left.key, left.code, left.reason) == (b"b.jpg", "E_LINE", expected)
    said = r"1 annotation left out \(1 E_LINE: b.jpg, results.csv:5.*max_bad={'objects': 1}"
    with pytest.raises(TooManyRejectedError, match=said):
        convert(source, tmp_path / "out", workers=1)
    report = convert(source, tmp_path / "out", workers=1, max_bad={"objects": 1})
    assert report.manifest.splits["train"].records == 3
    records: Any = {record[FILENAME]: record[CAPTION] for record in shardfeed.open(tmp_path / "out")["train"]}
    assert records[b"a.jpg"] == OF_A


def test_images_that_are_not_there_are_rejected_and_their_captions_listed(images: Path) -> None:
    source = read(write(images, "t.token", TOKEN))
    assert [(s.key, s.code, s.reason) for s in source.findings.rejected] == [
        (b"gone.jpg", "E_MISSING", "line 5: no such file")
    ]
    assert [(one.key, one.code, one.reason) for one in source.findings.account.left_out] == [
        (b"gone.jpg", "E_IMAGE", "caption: its image was left out") for _ in range(2)
    ]
    assert source.findings.notes[1:] == ["image files without a caption: 1 (c.jpg)"]


def test_karpathys_splits_and_numbers(images: Path, tmp_path: Path) -> None:
    source = read(write(images, "dataset_coco.json", json.dumps(KARPATHY)))
    assert [(s.split, s.number, len(s.features[CAPTION])) for s in source] == [
        ("train", 9, 2), ("validation", 4, 1), ("test", 7, 0)
    ]  # fmt: skip
    assert "images of the split 'restval', added to train: 1" in source.findings.notes
    (left,) = source.findings.account.left_out
    assert (left.code, left.reason) == ("E_LINE", "images[1], sentence 1: it is empty or not UTF-8")
    convert(source, tmp_path / "out", workers=1, max_bad={"objects": 1})
    (record,) = shardfeed.open(tmp_path / "out")["test"]
    assert (record[CAPTION], record[SOURCE_ID]) == ([], b"7")


def test_images_may_be_elsewhere_and_deeper(images: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "val2014").mkdir()
    for name in "ab":
        (images / f"{name}.jpg").rename(tmp_path / "val2014" / f"{name}.jpg")
    entries = [{**entry, "filepath": "val2014"} for entry in KARPATHY["images"][:2]]
    entries[1]["sentences"] = [{"raw": "A cat ."}]
    path = write(tmp_path / "texts", "d.json", json.dumps({"images": entries}))
    source = read(path, images=str(tmp_path))
    assert [sample.key for sample in source] == [b"val2014/a.jpg", b"val2014/b.jpg"]
    assert not source.findings.account.left_out
    token = write(tmp_path / "texts", "t.token", "a.jpg#0\tx\nb.jpg#0\ty\n")
    source = read(token, images=str(tmp_path))
    assert [sample.key for sample in source] == [b"val2014/a.jpg", b"val2014/b.jpg"]


def test_a_caption_that_comes_again_is_listed_once(images: Path) -> None:
    source = read(write(images, "t.token", "a.jpg#0\tA dog .\na.jpg#1\tA dog .\na.jpg#0\tA dog .\n"))
    assert source[0].features[CAPTION] == [b"A dog .", b"A dog ."], "two people may say the same"
    (left,) = source.findings.account.left_out
    assert (left.code, left.reason) == ("E_TWICE", "t.token:3: caption 0 appears twice")


FAULTS: list[tuple[str, str | bytes, str]] = [
    ("t.token", "a.jpg#0\tone\na.jpg#0\ttwo\n", "t.token:2: got two different captions 0 of 'a.jpg'"),
    ("t.token", "gone.jpg#0\tone\n", "t.token: none of its 1 image is below {root}: the first (line 1) is"),
    ("d.json", '{"images": [{"sentences": [{"raw": ]', "d.json: not JSON: Expecting value: line 1 column 36"),
    ("d.json", '{"images": {"sentences": "raw"}}', "d.json: got "),
    ("d.json", '{"images": [{"sentences": [{"raw": "x"}]}]}', "d.json, images[0]: got no filename"),
    (
        "d.json",
        json.dumps({"images": [KARPATHY["images"][0], KARPATHY["images"][0]]}),
        "d.json, images[1]: a.jpg refers to a.jpg, which is listed before (images[0])",
    ),
    (
        "d.json",
        json.dumps({"images": [{**KARPATHY["images"][0], "split": "a/b"}]}),
        "d.json, images[0]: the split: ",
    ),
    (
        "d.json",
        json.dumps({"images": [KARPATHY["images"][0], {"filename": "b.jpg"}]}),
        "d.json, images[1]: 'b.jpg' has no split, but others have one; add it to all",
    ),
    ("t.csv", "image,caption,split\na.jpg,x,train\na.jpg,y,test\n", "t.csv, line 3: got the split 'test', expected"),
    ("results.csv", RESULTS.splitlines()[0] + "\n", "results.csv: no image in it"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), FAULTS)
def test_what_is_not_clear_is_told_with_its_place(images: Path, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises(LabelFileError) as caught:
        read(write(images, name, content))
    told = str(caught.value).replace(str(images / name), name)
    assert told.startswith(said.replace("{root}", str(images))), told
    assert len(told.splitlines()) == 1


def test_lines_that_are_no_captions_are_listed(images: Path) -> None:
    source = read(write(images, "t.token", b"a.jpg#0\tone\nwords\na.jpg#1\t\xff\na.jpg#2\t \n"))
    assert [(one.key, one.reason) for one in source.findings.account.left_out] == [
        (b"t.token", "t.token:2: expected NAME#NUMBER, a tab, and the caption"),
        (b"a.jpg", "t.token:3: it is empty or not UTF-8"),
        (b"a.jpg", "t.token:4: it is empty or not UTF-8"),
    ]
    source = read(write(images, "t.csv", "image,caption\na.jpg,one\na.jpg,two\na.jpg,\na.jpg\n"))
    assert [one.reason for one in source.findings.account.left_out] == [
        "t.csv:4: it is empty or not UTF-8",
        "t.csv:5: got 1 cell, expected 2, with an image name",
    ]


ONE_EACH = {
    "c.csv": "image,caption\na.jpg,a house number 1\nb.jpg,a house number 2\n",
    "clip.csv": "filepath\ttitle\na.jpg\ta house number 1\nb.jpg\ta house number 2\n",
    "c.tsv": "image\ttext\na.jpg\ta house number 1\nb.jpg\ta house number 2\n",
    "c.jsonl": '{"image": "a.jpg", "prompt": "a house number 1"}\n{"image": "b.jpg", "prompt": "a house number 2"}\n',
    "lists.jsonl": "".join(
        json.dumps({"image": f"{n}.jpg", "captions": [f"a house number {i}"]}) + "\n" for i, n in enumerate("ab", 1)
    ),
    "c.parquet": "",
    "words.csv": "image,text\na.jpg,house\nb.jpg,number\n",
}


@pytest.mark.parametrize("name", ONE_EACH)
@pytest.mark.parametrize("by", ["file", "labels"])
def test_one_caption_for_each_image_is_a_caption(images: Path, tmp_path: Path, name: str, by: str) -> None:
    """Not a class for each image: by the column's name, and by values that are texts, for a file and for --labels."""
    path = tmp_path / name
    path.write_text(ONE_EACH[name])
    if name == "c.parquet":
        parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        rows = [{"file_name": f"{n}.jpg", "sentence": f"a house number {i}"} for i, n in enumerate("ab", 1)]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    if by == "file":
        source = open_source(path, options=AnnotationOptions(images=images))
    else:
        source = open_source(images, options=LabelOptions(labels=path))
    expected = ["house", "number"] if name == "words.csv" else ["a house number 1", "a house number 2"]
    assert [sample.features for sample in source] == [{CAPTION: [text.encode()]} for text in expected]
    without = open_source(path, options=LabelOptions(images=images, unlabelled=True))
    assert [sample.features for sample in without] == [{}, {}]
    if "lists" not in name:
        classes = LabelOptions(images=images, class_names=sorted(expected))
        assert LABEL in open_source(path, options=classes).schema.features


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", "path,label\na.jpg,cat\na.jpg,dog\n"),
        ("labels.csv", "path,label,caption\na.jpg,cat,x\na.jpg,cat,y\n"),
        ("labels.csv", "image,caption\na.jpg,cat\nb.jpg,cat\n"),
        ("labels.csv", "image,caption\na.jpg,m/a.png\nb.jpg,m/b.png\n"),
        ("labels.csv", "image,comment\na.jpg,very blurry\nb.jpg,quite good\n"),
        ("labels.csv", "image,caption,mood\na.jpg,one,x\nb.jpg,two,y\n"),
        ("train.txt", "a.jpg 0\nb.jpg 1\n"),
        ("coco.json", '{"images": [], "annotations": [{"caption": "x"}]}'),
        ("a.bin", TOKEN),
        ("empty.csv", ""),
    ],
)
def test_other_files_are_not_taken(images: Path, name: str, content: str) -> None:
    """A table with another column, or with texts that are no captions, is a label file: `--text-column` reads it."""
    path = write(images, name, content)
    assert recognise(path) is None
    assert recognise(str(images)) is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("labels.csv", "path,label\na.jpg,cat\n", "got the columns path, label, expected one image column and one"),
        (
            "train.txt",
            "a.jpg 0\nb.jpg 1\n",
            "got the columns a.jpg 0, expected one image column and one caption column",
        ),
        ("coco.json", '{"images": [], "annotations": [{"caption": "x"}]}', "no captions in a"),
        ("a.bin", TOKEN, "no captions in a known format; a table needs an image column and one"),
        ("empty.csv", "", "no image in it"),
    ],
)
def test_a_file_that_is_named_and_has_none_is_told(images: Path, name: str, content: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(write(images, name, content))


def test_a_table_that_is_named_may_have_more_columns(images: Path) -> None:
    source = read(
        write(images, "t.csv", "image,who,caption,label\na.jpg,x,one,cat\na.jpg,y,two,cat\nb.jpg,x,three,dog\n")
    )
    assert [sample.features for sample in source] == [{CAPTION: [b"one", b"two"]}, {CAPTION: [b"three"]}]
    assert "unused columns: 2 (who, label)" in source.findings.notes


def test_one_of_several_files_is_to_be_named(images: Path) -> None:
    write(images, "results.csv", RESULTS)
    write(images, "d.json", json.dumps(KARPATHY))
    evidence = recognise(str(images))
    assert evidence.missing == "name one of them instead of the folder"
    with pytest.raises(UsageError, match="more than one file has captions; name the file"):
        read(images)
    with pytest.raises(UsageError, match="got the task 'boxes', expected captions"):
        read(images / "d.json", tasks=frozenset({"boxes"}))
    assert recognise(str(images / "nowhere")) is None

"""New datasets from datasets: which records, in which splits and shards, and that each is the one that it was."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import here, payloads, scenes, sound
from foreign_tfrecords import picture

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, Shares, append, convert, merge, relabel, remove, reshard
from shardfeed.converters.existing.class_map import joined
from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetSource, Opened, SourcePart
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.errors import SplitError, TooManyRejectedError, UsageError
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID
from shardfeed.testing.recorded_source import RecordedSourceContract
from shardfeed.tools.cli import main

from trees import tree

FORMAT_NAMES = sorted(FORMATS)
# What differs from format to format is told by a shorter test, too.
EACH_FORMAT = [pytest.param(name, marks=[] if name == NATIVE.name else pytest.mark.long) for name in FORMAT_NAMES]


class TestDatasetSource(RecordedSourceContract):
    """All records of a dataset."""

    @pytest.fixture
    def build(self, small: Dataset) -> Callable[[], Any]:
        return lambda: DatasetSource(small.directory)


class TestChosenRecords(RecordedSourceContract):
    """Some, with other classes and numbers."""

    @pytest.fixture
    def build(self, small: Dataset) -> Callable[[], Any]:
        def make() -> ChosenRecords:
            opened = Opened(small.directory)
            names = {LABEL: ("b", "c", "a")}
            change = RecordChange(opened.schema, {LABEL: (2, 0, 1)}, names, b"x/", renumber=True)
            parts = [SourcePart(records, np.arange(1, 5), None, change) for records in opened.splits.values()]
            return ChosenRecords(parts, replace(opened.schema, class_names=names), opened.made_with())

        return make


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_other_shards_have_the_same_records_in_the_same_order(
    name: str, of_format: Callable[[str], Dataset], small: Dataset, tmp_path: Path
) -> None:
    data = of_format(name)
    before = tree(Path(data.directory))
    report = reshard(data, tmp_path / "out", shards=5, workers=here())
    out = shardfeed.open(tmp_path / "out")
    assert report.manifest.format == name
    assert [len(info.shards) for info in out.manifest.splits.values()] == [5, 5]
    for split in small:
        assert payloads(out, split) == payloads(small, split)
    assert out.manifest.fingerprint == small.manifest.fingerprint
    assert sound(tmp_path / "out")
    assert tree(Path(data.directory)) == before


@pytest.mark.parametrize("name", EACH_FORMAT)
def test_from_a_format_and_back_by_each_operation(
    name: str, of_format: Callable[[str], Dataset], small: Dataset, tmp_path: Path
) -> None:
    """The choice of records does not depend on the format, and their bytes are the same."""
    data = of_format(name)
    calls: list[Callable[..., Any]] = [
        lambda of, out: shardfeed.split(of, out, {"a": 0.7, "b": 0.3}, to="tfrecord", workers=here()),
        lambda of, out: shardfeed.filter(of, out, where="class in (rose, tulip)", to="tfrecord", workers=here()),
        lambda of, out: relabel(of, out, {"rose": "flower", "tulip": None}, to="tfrecord", workers=here()),
        lambda of, out: remove(of, out, ["rose/0001.jpg"], to="tfrecord", workers=here()),
    ]
    for number, call in enumerate(calls):
        call(data, tmp_path / f"a{number}")
        call(small, tmp_path / f"b{number}")
        a, b = (shardfeed.open(tmp_path / f"{which}{number}") for which in "ab")
        assert payloads(a) == payloads(b)
        assert sound(tmp_path / f"a{number}")


def test_splits_are_those_of_a_conversion(images_of_small: Path, small: Dataset, tmp_path: Path) -> None:
    shares = {"train": 0.5, "test": 0.5}
    for by in ("exact", "hash"):
        convert(
            ImageFolder(images_of_small), tmp_path / f"fresh-{by}", split=Shares(shares, by), shards=2, workers=here()
        )
        shardfeed.split(small, tmp_path / f"cut-{by}", Shares(shares, by), shards=2, workers=here())  # type: ignore[arg-type]
        fresh, cut = (tree(tmp_path / f"{name}-{by}") for name in ("fresh", "cut"))
        shards = {name for name in fresh if name.endswith((".tfrecord", ".tfindex", ".npy"))}
        assert shards
        assert {name: cut[name] for name in shards} == {name: fresh[name] for name in shards}


def test_one_split_is_cut_and_the_others_stay(small: Dataset, tmp_path: Path) -> None:
    shardfeed.split(small, tmp_path / "out", {"train": 0.75, "test": 0.25}, of="train", workers=here())
    out = shardfeed.open(tmp_path / "out")
    assert {name: len(split) for name, split in out.items()} == {"train": 14, "test": 5, "validation": 5}
    assert sorted(payloads(out, "train") + payloads(out, "test")) == sorted(payloads(small, "train"))
    assert sorted(payloads(out, "validation")) == sorted(payloads(small, "validation"))
    with pytest.raises(UsageError, match="'validation' is an existing split that is kept"):
        shardfeed.split(small, tmp_path / "no", {"a": 0.5, "validation": 0.5}, of="train")
    with pytest.raises(SplitError):
        shardfeed.split(small, tmp_path / "no", {"a": 1.0}, of="nope")


def test_numbers_of_coco_are_kept(tmp_path: Path) -> None:
    """Also where the order is another, and splits come together."""
    convert(scenes("masks"), tmp_path / "coco", split={"train": 0.5, "validation": 0.5}, workers=here())
    shardfeed.split(tmp_path / "coco", tmp_path / "out", {"all": 1.0}, seed=3, workers=here())
    old, new = shardfeed.open(tmp_path / "coco"), shardfeed.open(tmp_path / "out")
    assert sorted(payloads(old)) == sorted(payloads(new))
    reshard(tmp_path / "coco", tmp_path / "again", workers=here())
    with pytest.raises(UsageError, match=r"both have the id 10\d\d .*renumber=True"):
        merge([tmp_path / "coco", tmp_path / "again"], tmp_path / "both", prefix=True, workers=here())
    pair = [tmp_path / "coco", tmp_path / "again"]
    merge(pair, tmp_path / "both", prefix=["a", "b"], renumber=True, workers=here())
    both = shardfeed.open(tmp_path / "both")
    assert {name: len(split) for name, split in both.items()} == {"train": 16, "validation": 16}
    assert sound(tmp_path / "both")


def test_conditions_leave_what_meets_them(small: Dataset, tmp_path: Path) -> None:
    report = shardfeed.filter(
        small, tmp_path / "out", where="class == rose and not width > 44 and split == train", workers=here()
    )
    out = shardfeed.open(tmp_path / "out")
    wanted = [r for r in small["train"] if r["image/class/text"] == b"rose" and int(r["image/width"]) <= 44]  # type: ignore[arg-type]
    assert list(out["train"].column(FILENAME)) == [record[FILENAME] for record in wanted]
    assert set(payloads(out)) < set(payloads(small))
    assert out.class_names == small.class_names
    assert "split validation has no records left, and is removed" in report.notes
    (tmp_path / "keys").write_bytes(b"rose/0001.jpg\r\n\ntulip/0000.jpg\n")
    shardfeed.filter(small, tmp_path / "two", keys=tmp_path / "keys", workers=here())
    assert sum(map(len, shardfeed.open(tmp_path / "two").values())) == 2
    with pytest.raises(UsageError, match="none of 24 records is left"):
        shardfeed.filter(small, tmp_path / "none", where="height > 10000")
    with pytest.raises(UsageError, match=r"keys: got binary data, expected a list of keys .*; write the keys"):
        (tmp_path / "keys").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF\0")
        shardfeed.filter(small, tmp_path / "none", keys=tmp_path / "keys")
    with pytest.raises(UsageError, match=r"1 key of 2 is not in .*: no.jpg; keys are file names such as"):
        shardfeed.filter(small, tmp_path / "none", keys=["no.jpg", "rose/0001.jpg"])
    for text in ("split == trian", "height > 3 and not split in (train, trian)"):
        with pytest.raises(UsageError, match=r"'trian' is not a split; they are train, validation"):
            shardfeed.filter(small, tmp_path / "none", where=text)
    with pytest.raises(UsageError, match="no condition"):
        shardfeed.filter(small, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_split_that_is_gone_is_named(small: Dataset, images_of_small: Path, tmp_path: Path) -> None:
    """Whatever the operation, and also one of which every image was rejected before."""
    (tmp_path / "images" / "train").mkdir(parents=True)
    shutil.copytree(images_of_small / "rose", tmp_path / "images" / "train" / "rose")
    (tmp_path / "images" / "test" / "rose").mkdir(parents=True)
    (tmp_path / "images" / "test" / "rose" / "bad.jpg").write_bytes(b"no image")
    convert(tmp_path / "images", tmp_path / "old", max_bad=1, workers=here())
    old = shardfeed.open(tmp_path / "old")
    assert {name: len(split) for name, split in old.items()} == {"test": 0, "train": 8}
    of_validation = list(small["validation"].column(FILENAME))
    reports = {
        "test": [
            reshard(old, tmp_path / "reshard", dry_run=True),
            relabel(old, tmp_path / "relabel", {"rose": "flower"}, dry_run=True),
            merge([old, small], tmp_path / "merge", prefix=True, dry_run=True),
            shardfeed.split(old, tmp_path / "split", {"a": 0.5, "b": 0.5}, of="train", dry_run=True),
        ],
        "validation": [remove(small, tmp_path / "remove", of_validation, dry_run=True)],
    }
    for name, of_split in reports.items():
        for report in of_split:
            assert f"split {name} has no records left, and is removed" in report.notes


def test_images_with_enough_objects(tmp_path: Path) -> None:
    convert(scenes("masks"), tmp_path / "coco", workers=here())
    shardfeed.filter(tmp_path / "coco", tmp_path / "out", min_objects=3, workers=here())
    old, new = shardfeed.open(tmp_path / "coco")["train"], shardfeed.open(tmp_path / "out")["train"]
    wanted = [record[FILENAME] for record in old if len(record["image/object/bbox/xmin"]) >= 3]  # type: ignore[arg-type]
    assert list(new.column(FILENAME)) == wanted
    assert 0 < len(wanted) < len(old)


def test_what_is_removed_is_gone_and_what_remains_is_said(small: Dataset, tmp_path: Path) -> None:
    reshard(small, tmp_path / "old", shards=2, workers=here())
    report = remove(tmp_path / "old", tmp_path / "out", [b"rose/0001.jpg", "tulip/0002.jpg"], workers=here())
    out = shardfeed.open(tmp_path / "out")
    gone = {record[FILENAME]: record["image/encoded"] for split in small.values() for record in split}
    stored = b"".join(tree(tmp_path / "out").values())
    for key in (b"rose/0001.jpg", b"tulip/0002.jpg"):
        assert key not in stored
        assert gone[key] not in stored
    assert sum(map(len, out.values())) == 22
    notes = "\n".join(report.notes)
    assert "2 records removed" in notes
    assert f"the records are still in {tmp_path / 'old'}" in notes
    with pytest.raises(UsageError, match="missing_ok=True ignores them"):
        remove(tmp_path / "old", tmp_path / "no", ["rose/0001.jpg", "nope"])
    remove(tmp_path / "old", tmp_path / "ok", ["rose/0001.jpg", "nope"], missing_ok=True, workers=here())
    with pytest.raises(UsageError, match="none would be left"):
        remove(tmp_path / "ok", tmp_path / "no", [key for key in gone if key != b"rose/0001.jpg"])


def test_shards_that_another_dataset_shares_are_named(folder: Callable[..., Path], tmp_path: Path) -> None:
    images = folder(4)
    convert(ImageFolder(images), tmp_path / "old", workers=here())
    (tmp_path / "more" / "rose").mkdir(parents=True)
    (tmp_path / "more" / "rose" / "new.jpg").write_bytes((images / "tulip" / "0000.jpg").read_bytes())
    append(tmp_path / "old", tmp_path / "more", tmp_path / "grown", workers=here())
    report = remove(tmp_path / "old", tmp_path / "out", ["rose/0001.jpg"], workers=here())
    assert any("has a hard link in another dataset, made by append" in note for note in report.notes)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Datasets with other classes, and some images that are the same: rose/0 to rose/2."""
    for name, classes in (("a", {"daisy": 4, "rose": 3}), ("b", {"lily": 2, "rose": 5})):
        for of_class, count in classes.items():
            (tmp_path / name / of_class).mkdir(parents=True)
            for i in range(count):
                (tmp_path / name / of_class / f"{i}.jpg").write_bytes(picture(10 * len(of_class) + i))
        convert(ImageFolder(tmp_path / name), tmp_path / name.upper(), workers=here())
    return tmp_path / "A", tmp_path / "B"


def test_datasets_come_together_by_class_names(two: tuple[Path, Path], tmp_path: Path) -> None:
    report = merge(iter(two), tmp_path / "out", workers=here())
    out = shardfeed.open(tmp_path / "out")["train"]
    assert out.class_names == ("daisy", "rose", "lily")
    assert len(out) == 4 + 5 + 2
    assert "3 records identical in two datasets, stored once" in report.notes
    assert [int(number) for number in out.column(SOURCE_ID)] == list(range(11))
    for record in out:
        name = bytes(record[FILENAME]).split(b"/")[0]  # type: ignore[arg-type]
        assert record["image/class/text"] == name
        assert out.class_names[int(record[LABEL])] == name.decode()  # type: ignore[arg-type]
    images = {record[FILENAME]: record["image/encoded"] for at in two for record in shardfeed.open(at)["train"]}
    assert {record[FILENAME]: record["image/encoded"] for record in out} == images
    assert sound(tmp_path / "out")
    merge(list(two), tmp_path / "both", prefix=True, workers=here())
    assert set(shardfeed.open(tmp_path / "both")["train"].column(FILENAME)) >= {b"A/rose/0.jpg", b"B/rose/0.jpg"}


def test_what_cannot_come_together_is_refused(two: tuple[Path, Path], small: Dataset, tmp_path: Path) -> None:
    a, b = two
    relabel(b, tmp_path / "other", {"rose": "roses"}, workers=here())
    with pytest.raises(UsageError, match=r"rose/\d.jpg is also in .*A, with other image/class/label; prefix=True"):
        merge([a, tmp_path / "other"], tmp_path / "out")
    convert(ImageFolder(tmp_path / "b"), tmp_path / "unhashed", image=ImageOptions(sha256=False), workers=here())
    with pytest.raises(UsageError, match=r"the feature image/key/sha256: .*unhashed lacks it"):
        merge([a, tmp_path / "unhashed"], tmp_path / "out")
    with pytest.raises(UsageError, match="two or more different datasets"):
        merge([a, a], tmp_path / "out")
    with pytest.raises(UsageError, match="the feature image/class/label"):
        convert(scenes("masks"), tmp_path / "coco", workers=here())
        merge([a, tmp_path / "coco"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_class_ids_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    same = joined("k", [("a", ("x", "y"), (1, 2)), ("b", ("y", "z"), (2, 9))])
    assert (same.names, same.ids, same.numbers) == (("x", "y", "z"), (1, 2, 9), [(0, 1), (1, 2)])
    assert joined("k", [("a", ("x",), (1,)), ("b", ("y",), None)]).ids is None
    with pytest.raises(UsageError, match="the class y has the id 3, but 2 in a"):
        joined("k", [("a", ("x", "y"), (1, 2)), ("b", ("y",), (3,))])
    with pytest.raises(UsageError, match="the id 2 is the class z, but y in a"):
        joined("k", [("a", ("x", "y"), (1, 2)), ("b", ("z",), (2,))])


def test_nothing_is_written_into_what_is_read(small: Dataset) -> None:
    inside = Path(small.directory) / "new"
    for out in (inside, Path(small.directory)):
        with pytest.raises(UsageError, match="which is only read"):
            reshard(small, out, replace=True)


def test_a_dry_run_says_what_there_would_be(small: Dataset, tmp_path: Path) -> None:
    report = relabel(small, tmp_path / "out", {"rose": None}, dry_run=True)
    assert not report.committed
    assert {name: info.records for name, info in report.manifest.splits.items()} == {"train": 13, "validation": 3}
    assert report.manifest.schema.class_names[LABEL] == ("daisy", "tulip")
    assert "8 records of dropped classes left out" in report.notes
    assert list(tmp_path.iterdir()) == []


def test_options_that_there_are_not_are_refused(small: Dataset, tmp_path: Path) -> None:
    for wrong in ({"sha256": False}, {"split": {"a": 1.0}}, {"shard": 3}):  # `convert` has the first two
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(wrong))}'"):
            reshard(small, tmp_path / "out", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"to: got 'mds', but the existing shards, .* have the format tfrecord"):
        append(small, tmp_path, tmp_path / "out", to="mds")
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_cannot_be_meant_are_refused(small: Dataset, tmp_path: Path) -> None:
    out, halves = tmp_path / "out", {"train": 0.5, "test": 0.5}
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: reshard(small, out, shards="2"), "shards"),
        (lambda: reshard(small, out, shards=2.5), "shards"),  # type: ignore[arg-type]
        (lambda: reshard(small, out, shards={"train": 1, "validaton": 1}), "shards"),
        (lambda: reshard(small, out, replace="no"), "replace"),  # type: ignore[arg-type]
        (lambda: reshard(small, ""), "out"),
        (lambda: relabel(small, None, {"rose": None}), "out"),  # type: ignore[arg-type]
        (lambda: append(small, small.directory, None), "out"),  # type: ignore[arg-type]
        (lambda: shardfeed.split(small, out, None), "split"),  # type: ignore[arg-type]
        (lambda: shardfeed.split(small, out, "train"), "split"),  # type: ignore[arg-type]
        (lambda: shardfeed.split(small, out, {"train": True}), "split"),
        *(
            (lambda seed=seed: shardfeed.split(small, out, halves, seed=seed), "seed")
            for seed in ("x", None, 1.5, True, -(10**64))
        ),
    ]
    for call, place in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.place == place
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EACH_FORMAT)
def test_a_damaged_record_is_named_and_nothing_is_committed(
    name: str, of_format: Callable[[str], Dataset], tmp_path: Path
) -> None:
    reshard(of_format(name), tmp_path / "old", workers=here())
    old = shardfeed.open(tmp_path / "old")
    path = tmp_path / "old" / old.manifest.splits["train"].shard_file(0)
    data = bytearray(path.read_bytes())
    image = bytes(old["train"][3]["image/encoded"])  # type: ignore[arg-type]
    data[data.index(image) + len(image) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TooManyRejectedError, match=r"1 input rejected \(1 E_DAMAGED: ") as caught:
        reshard(tmp_path / "old", tmp_path / "out", workers=here())
    assert re.search(rf"{path.name}, record \d+", caught.value.rejected[0].why)
    assert not (tmp_path / "out").exists()
    report = reshard(tmp_path / "old", tmp_path / "out", max_bad=1, workers=here())
    assert [noted.key for noted in report.rejected] == [noted.key for noted in caught.value.rejected]
    assert sum(split.records for split in report.manifest.splits.values()) == 23
    assert sound(tmp_path / "out")


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("reshard", ["--to", "webdataset", "--shards", "train=5,validation=2"], "train            19       5"),
        ("split", ["--split", "a=0.5,b=0.5", "--split-by", "exact"], "12       1"),
        ("filter", ["--where", "class == rose", "--max-bad", "1%"], "note: 8 of 24 records kept"),
        ("remove", ["--key", "rose/0001.jpg", "--key", "nope", "--missing-ok"], "note: 1 record removed"),
        ("merge", ["--prefix"], "3 classes of image/class/label"),
        ("append", ["--split", "train=1"], "note: 1 sample skipped"),
    ],
)
def test_on_the_command_line(
    command: str,
    options: list[str],
    said: str,
    small: Dataset,
    images_of_small: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    inputs = [small.directory]
    if command == "merge":
        reshard(small, tmp_path / "other", workers=here())
        inputs.append(str(tmp_path / "other"))
    if command == "append":
        (tmp_path / "more" / "rose").mkdir(parents=True)
        (tmp_path / "more" / "rose" / "new.jpg").write_bytes(picture(99))
        (tmp_path / "more" / "rose" / "0001.jpg").write_bytes((images_of_small / "rose" / "0001.jpg").read_bytes())
        inputs.append(str(tmp_path / "more"))
    assert main([command, *inputs, str(tmp_path / "out"), *options, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert printed.endswith("nothing was written (--dry-run)\n")
    assert not (tmp_path / "out").exists()


def test_tfds_reads_raw_pixels_of_a_new_dataset_as_those_of_the_old(images_of_small: Path, tmp_path: Path) -> None:
    convert(images_of_small, tmp_path / "old", image=ImageOptions(encode="raw", size=8), workers=here())
    reshard(tmp_path / "old", tmp_path / "new", workers=here())
    assert (tmp_path / "new" / "features.json").read_bytes() == (tmp_path / "old" / "features.json").read_bytes()

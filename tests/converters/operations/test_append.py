"""Appending: nothing of what was there moves, what is new is where a conversion of everything would have put it."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import here, payloads, scenes, sound
from foreign_tfrecords import picture, write
from format_1 import unpack
from object_images import put

import shardfeed
from shardfeed.column import column_dtype, encode_column, join_columns
from shardfeed.converters import (
    ImageFolder,
    ImageOptions,
    LabelOptions,
    Sample,
    Shares,
    adopt,
    append,
    convert,
    merge,
    open_source,
    reshard,
    survey,
)
from shardfeed.errors import ShardfeedError, StorageError, TooManyRejectedError, UsageError
from shardfeed.formats.registry import FORMATS
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, Feature, Schema
from shardfeed.storage import local
from shardfeed.tools.cli import main

from in_process import OwnEngine
from trees import tree

SHARES = {"train": 0.7, "validation": 0.3}


def image(place: Path, name: str, number: int) -> None:
    """A file `name`, which is below a class."""
    put(place / name, picture(number))


@pytest.fixture(scope="module")
def folders(kept_path: Path) -> tuple[Path, Path, Path]:
    """Folders of 30 old images in 3 classes, of 12 new ones in 2 of those, and of all."""
    places = kept_path / "before", kept_path / "new", kept_path / "all"
    names = [f"{name}/{i:03d}.jpg" for name in ("daisy", "rose", "tulip") for i in range(10)]
    more = [f"{name}/{i:03d}.jpg" for name in ("rose", "tulip") for i in range(10, 16)]
    for number, name in enumerate(names + more):
        image(places[number >= len(names)], name, number)
        image(places[2], name, number)
    return places


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_was_there_stays_and_what_is_new_is_where_all_would_be(
    name: str, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    before, new, everything = folders
    options: dict[str, Any] = {"split": Shares(SHARES, "hash"), "to": name, "shards": 2, "seed": 5}
    convert(ImageFolder(before), tmp_path / "old", workers=here(), **options)
    convert(ImageFolder(everything), tmp_path / "all", workers=here(), **options)
    left = tree(tmp_path / "old")
    report = append(tmp_path / "old", new, tmp_path / "out", workers=here())
    assert tree(tmp_path / "old") == left
    assert sound(tmp_path / "out")
    old, out, fresh = (shardfeed.open(tmp_path / which) for which in ("old", "out", "all"))
    assert out.class_names == old.class_names
    for split in old:
        was, now, all_of_it = old[split], out[split], fresh[split]
        assert payloads(out, split)[: len(was)] == payloads(old, split)
        assert set(now.column(FILENAME)) == set(all_of_it.column(FILENAME))
        numbers = [int(number) for number in now.column(SOURCE_ID)]
        assert numbers == list(range(len(now)))
        for shard in range(2):  # the very same file, under another name
            files = (os.path.join(data.directory, data.manifest.splits[split].shard_file(shard)) for data in (old, out))
            assert os.path.samefile(*files)
    entry = out.manifest.options["appended"][0]
    assert sum(entry["records"].values()) == 12
    assert {key: value for key, value in out.manifest.options.items() if key != "appended"} == old.manifest.options
    assert any("are linked, not copied" in note for note in report.notes)
    image(tmp_path / "third", "daisy/900.jpg", 900)
    append(tmp_path / "out", tmp_path / "third", tmp_path / "again", workers=here())
    assert sound(tmp_path / "again")
    assert len(shardfeed.open(tmp_path / "again").manifest.options["appended"]) == 2
    again = shardfeed.open(tmp_path / "again")
    assert {split: payloads(again, split)[: len(out[split])] for split in out} == {s: payloads(out, s) for s in out}


@pytest.fixture
def old(folders: tuple[Path, Path, Path], tmp_path: Path) -> Path:
    """A dataset of the old images."""
    convert(ImageFolder(folders[0]), tmp_path / "old", split=Shares(SHARES, "hash"), workers=here())
    return tmp_path / "old"


@pytest.mark.long
def test_workers_give_the_same_bytes(old: Path, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    append(old, folders[1], tmp_path / "one", shards=2, workers=here())
    append(old, folders[1], tmp_path / "two", shards=2, workers=2)
    one, two = tree(tmp_path / "one"), tree(tmp_path / "two")
    for trees in (one, two):
        del trees["manifest.json"], trees["dataset_info.json"]  # which have the directory's name
    assert one == two


def test_files_that_are_there_already_are_passed_over(
    old: Path, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    report = append(old, folders[2], tmp_path / "out", workers=here())
    assert "30 samples skipped: the dataset has the same files under these keys" in report.notes
    append(old, folders[1], tmp_path / "same", workers=here())
    assert payloads(shardfeed.open(tmp_path / "out")) == payloads(shardfeed.open(tmp_path / "same"))
    with pytest.raises(UsageError, match="already has all of its 42 samples"):
        append(tmp_path / "out", folders[2], tmp_path / "no")
    image(tmp_path / "changed", "rose/001.jpg", 999)
    with pytest.raises(UsageError, match=r"has the key rose/001.jpg of a record in split \w+, but different bytes"):
        append(old, tmp_path / "changed", tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_classes_are_matched_by_name(old: Path, tmp_path: Path) -> None:
    image(tmp_path / "more", "rosee/1.jpg", 1)
    with pytest.raises(UsageError, match=r"does not have 1 class of image/class/label: rosee; did you mean rose\?"):
        append(old, tmp_path / "more", tmp_path / "out")
    report = append(old, tmp_path / "more", tmp_path / "out", new_classes=True, workers=here())
    assert "1 class added to image/class/label: rosee" in report.notes
    out = shardfeed.open(tmp_path / "out")
    assert out.class_names == ("daisy", "rose", "tulip", "rosee")
    assert sound(tmp_path / "out")


def test_features_that_differ_are_named(old: Path, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the feature image/class/label: the source lacks it"):
        append(old, open_source(folders[1], options=LabelOptions(unlabelled=True)), tmp_path / "out")
    with pytest.raises(UsageError, match="is a dataset; `shardfeed merge`"):
        append(old, old, tmp_path / "out")
    reshard(old, tmp_path / "same", workers=here())
    append(tmp_path / "same", folders[1], tmp_path / "out", workers=here())  # one that an operation made


def test_images_are_stored_as_those_before(tmp_path: Path) -> None:
    image(tmp_path / "a", "x/1.jpg", 1)
    image(tmp_path / "b", "x/2.jpg", 2)
    options = ImageOptions(size=(16, 24), encode="raw")
    convert(ImageFolder(tmp_path / "a"), tmp_path / "A", image=replace(options, sha256=False), workers=here())
    append(tmp_path / "A", tmp_path / "b", tmp_path / "out", workers=here())
    assert [record["image/height"] for record in shardfeed.open(tmp_path / "out")["train"]] == [16, 16]
    assert sound(tmp_path / "out")


def test_objects_keep_their_classes_and_numbers(tmp_path: Path) -> None:
    """Numbers of COCO's images stay, new ones must not clash, and its class ids are matched."""
    source = scenes("masks")
    first, second = _Some(source, range(8)), _Some(source, range(8, 16))
    convert(first, tmp_path / "old", workers=here())
    append(tmp_path / "old", second, tmp_path / "out", workers=here())
    convert(source, tmp_path / "all", workers=here())
    out, everything = (shardfeed.open(tmp_path / name)["train"] for name in ("out", "all"))
    by_key = {record[FILENAME]: everything.payload(i) for i, record in enumerate(everything)}
    assert {record[FILENAME]: out.payload(i) for i, record in enumerate(out)} == by_key
    assert sound(tmp_path / "out")
    with pytest.raises(UsageError, match=r"has the id \d+ of an image in split train"):
        append(tmp_path / "old", _Some(source, range(8), b"other/"), tmp_path / "no")


@pytest.mark.parametrize(
    ("names", "ids", "problem"),
    [
        (None, 99, r"the class \w+ has the id 99, but \d+ in "),
        ("new", None, r"some new classes of image/object/class/label have no id \(new\)"),
    ],
)
def test_ids_of_classes_that_contradict_the_datasets(
    names: str | None, ids: int | None, problem: str, tmp_path: Path
) -> None:
    source = scenes("masks")
    convert(_Some(source, range(8)), tmp_path / "old", workers=here())
    other = _Some(source, range(8, 16))
    key = "image/object/class/label"
    known = source.schema.class_names[key]
    changed = {"class_names": {key: (*known, names)} if names else {key: known}}
    changed["class_ids"] = {key: (ids, *source.schema.class_ids[key][1:])} if ids else {}
    other.schema = replace(source.schema, **changed)
    with pytest.raises(UsageError, match=problem):
        append(tmp_path / "old", other, tmp_path / "out", new_classes=True, workers=here())
    assert not (tmp_path / "out").exists()


class _Some:
    """Some samples of a source, under other keys."""

    def __init__(self, source: Any, which: range, prefix: bytes = b"") -> None:
        self.schema, self._source, self._which, self._prefix = source.schema, source, which, prefix

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, index: int) -> Sample:
        sample = self._source[self._which[index]]
        return replace(sample, key=self._prefix + sample.key)


def test_what_is_rejected_is_added_to_what_was(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(folders[0 if name == "a" else 1], tmp_path / name)
        (tmp_path / name / "rose" / f"bad-{name}.jpg").write_bytes(b"no image")
    convert(ImageFolder(tmp_path / "a"), tmp_path / "A", max_bad=1, workers=here())
    with pytest.raises(TooManyRejectedError):
        append(tmp_path / "A", tmp_path / "b", tmp_path / "out", workers=here())
    append(tmp_path / "A", tmp_path / "b", tmp_path / "out", max_bad=1, workers=here())
    assert (tmp_path / "out" / "rejected.jsonl").read_text().count("\n") == 2
    assert sum(shardfeed.open(tmp_path / "out").manifest.rejected.values()) == 2
    assert sound(tmp_path / "out")


@pytest.mark.parametrize("error", [errno.EXDEV, errno.EMLINK, errno.EPERM])
def test_where_no_links_can_be_files_are_copied(
    error: int, old: Path, folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, final: str) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(local.os, "link", refuse)
    report = append(old, folders[1], tmp_path / "out", workers=here())
    assert any("copied: its disk does not support links" in note for note in report.notes)
    assert sound(tmp_path / "out")
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "out").glob("*.tfrecord"))


def test_other_errors_of_linking_are_told(
    old: Path, folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, final: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local.os, "link", refuse)
    with pytest.raises(StorageError, match="cannot link"):
        append(old, folders[1], tmp_path / "out", workers=here())


def test_a_dry_run_touches_nothing(old: Path, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    report = append(old, folders[1], tmp_path / "out", dry_run=True)
    assert not report.committed
    assert sum(info.records for info in report.manifest.splits.values()) == 12
    assert sorted(os.listdir(tmp_path)) == ["old"]


def test_a_dry_run_refuses_what_the_run_would(old: Path, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Whatever is known before an image is read; and it changes nothing of what it looks at."""

    def refusal(out: Path = tmp_path / "out", **options: Any) -> str:
        said = []
        for dry_run in (True, False):
            before = tree(tmp_path)
            with pytest.raises(ShardfeedError) as caught:
                append(old, folders[1], out, dry_run=dry_run, **{"workers": here(), **options})
            said.append(f"{type(caught.value).__name__} {caught.value}")
            assert tree(tmp_path) == before
        assert said[0] == said[1]
        return said[0]

    assert "its parent directory does not exist" in refusal(out=tmp_path / "none" / "out")
    assert "workers: got 'two', expected an integer" in refusal(workers="two")
    staging = tmp_path / ".out.staging"
    with pytest.raises(KeyboardInterrupt):
        append(old, folders[1], tmp_path / "out", seed=3, workers=_Interrupted(1))
    assert staging.exists()
    assert "an unfinished conversion with other options: seed was 3, now 0;" in refusal()
    assert not append(old, folders[1], tmp_path / "out", dry_run=True, restart=True).committed
    (staging / "mine").write_text("x")
    assert "holds mine, which shardfeed did not write" in refusal(restart=True)
    shutil.rmtree(staging)
    (tmp_path / "out").mkdir()
    assert "OutputExistsError" in refusal()
    assert "has no manifest.json of a shardfeed dataset" in refusal(replace=True)
    (tmp_path / "out").rmdir()
    convert(ImageFolder(folders[1]), tmp_path / "out", workers=here())
    assert "exists already" in refusal()
    assert not append(old, folders[1], tmp_path / "out", dry_run=True, replace=True).committed


class _Interrupted(OwnEngine):
    """Is stopped before its first shard."""

    def run(self, tasks: Any, poll: Any = None) -> Any:
        raise KeyboardInterrupt


def test_columns_are_extended_in_pieces_of_any_size() -> None:
    rng = np.random.default_rng(0)
    schema = Schema({"n": Feature("int64"), "b": Feature("bytes"), LABEL: Feature("int64")}, {LABEL: ("a", "b")})
    for key, values in {
        "n": rng.integers(0, 99, 30).tolist(),
        "b": [rng.bytes(int(size)) for size in rng.integers(0, 9, 30)],
        LABEL: rng.integers(0, 2, 30).tolist(),
    }.items():
        dtype = column_dtype(schema, key)
        whole = encode_column(values, dtype)
        for cut in (0, 1, 17, 30):
            old, shards = encode_column(values[:cut], dtype), [values[cut : cut + 5], [], values[cut + 5 :]]
            encoded = [{key: encode_column(part, dtype)} for part in shards]
            for size in (1, 7, 128, 10_000):
                parts = (old[at : at + size] for at in range(0, len(old), size))
                assert b"".join(join_columns(key, encoded, list(map(len, shards)), dtype, parts, cut)) == whole


def test_a_dataset_of_format_1_grows(tmp_path: Path) -> None:
    """Its indexes lie elsewhere, and it has few columns."""
    data = shardfeed.open(unpack(tmp_path))
    names = data.class_names
    image(tmp_path / "more", f"{names[0]}/new.jpg", 4)
    report = append(data, tmp_path / "more", tmp_path / "out", split={"train": 1.0}, workers=here())
    told = [note for note in report.notes if note.startswith("without 7 columns (image/class/text, image/filename, ")]
    assert len(told) == 1
    assert told[0].endswith("`shardfeed reshard` of the new dataset adds them")
    reshard(tmp_path / "out", tmp_path / "again", workers=here())
    assert len(shardfeed.open(tmp_path / "again").manifest.splits["train"].columns) == 8
    assert sound(tmp_path / "again")
    out = shardfeed.open(tmp_path / "out")
    assert payloads(out, "train")[:-1] == payloads(data, "train")
    assert sound(tmp_path / "out")


@pytest.mark.parametrize("keys", [("image_raw", "kind"), ("image/encoded", "image/class/label")])
def test_records_of_others_grow_once_they_are_converted(keys: tuple[str, str], tmp_path: Path) -> None:
    """Adopted ones do not say how images were stored, and have other features; what is said helps with both."""
    image_key, label_key = keys
    write(tmp_path / "in" / "train.tfrecord", [{image_key: picture(i), label_key: i % 2} for i in range(4)])
    found = survey(tmp_path / "in", image_key=image_key, label_key=label_key, class_names=("daisy", "rose"))
    adopt(found, tmp_path / "old")
    image(tmp_path / "more", "daisy/1.jpg", 11)
    image(tmp_path / "more", "rose/2.jpg", 12)
    convert(tmp_path / "more", tmp_path / "new", workers=here())
    command = "`shardfeed convert DIR NEW --reader tfrecord`"
    with pytest.raises(UsageError, match=f"its records come from another program; {command} .* which you can append"):
        append(tmp_path / "old", tmp_path / "more", tmp_path / "out")
    with pytest.raises(UsageError, match=f"the records of {tmp_path / 'old'} are foreign: {command} .* to merge"):
        merge([tmp_path / "new", tmp_path / "old"], tmp_path / "out")
    source = open_source(tmp_path / "old", reader="tfrecord")
    convert(source, tmp_path / "converted", workers=here())
    append(tmp_path / "converted", tmp_path / "more", tmp_path / "out", workers=here())
    merge([tmp_path / "converted", tmp_path / "new"], tmp_path / "both", workers=here())
    for name in ("out", "both"):
        split = shardfeed.open(tmp_path / name)["train"]
        assert split.class_names == ("daisy", "rose")
        labels = {record["image/encoded"]: record[LABEL] for record in split}
        assert labels == {picture(i): i % 2 for i in (0, 1, 2, 3)} | {picture(11): 0, picture(12): 1}


def test_splits_that_each_count_their_images_from_one(tmp_path: Path) -> None:
    """As two annotation files do; the file that has grown names the old images again, too."""
    features = {LABEL: Feature("int64")}
    schema = Schema(features, {LABEL: ("rose",)})

    def source(count: int) -> list[Sample]:
        return [
            Sample(b"%s/%d.jpg" % (split.encode(), i), picture(i + 10 * (split == "val")), {LABEL: 0}, split, number=i)
            for split in ("train", "val")
            for i in range(1, count + 1)
        ]

    class Images(list[Sample]):
        pass

    old, grown, clashing = Images(source(2)), Images(source(3)), Images(source(3)[2:3])
    clashing[0] = replace(clashing[0], number=1)
    for each in (old, grown, clashing):
        each.schema = schema  # type: ignore[attr-defined]
    convert(old, tmp_path / "old", workers=here())  # type: ignore[arg-type]
    append(tmp_path / "old", grown, tmp_path / "out", workers=here())  # type: ignore[arg-type]
    for split in shardfeed.open(tmp_path / "out").values():
        assert sorted(split.column(SOURCE_ID)) == [b"1", b"2", b"3"]
    with pytest.raises(UsageError, match="has the id 1 of an image in split train"):
        append(tmp_path / "old", clashing, tmp_path / "other", workers=here())  # type: ignore[arg-type]


def test_shards_that_are_symbolic_links(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, new, _ = folders
    convert(ImageFolder(before), tmp_path / "old", workers=here())
    (tmp_path / "store").mkdir()
    for shard in (tmp_path / "old").glob("*.tfrecord"):
        shard.rename(tmp_path / "store" / shard.name)
        shard.symlink_to(Path("..") / "store" / shard.name)
    append(tmp_path / "old", new, tmp_path / "out", workers=here())
    assert sound(tmp_path / "out")
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("one", "other"),
    [({"resize_shorter": 16}, {"resize_shorter": 24}), ({"seekable": False}, {"quality": 80, "seekable": False})],
)
def test_a_merge_of_images_that_were_stored_in_two_ways_does_not_say_how(
    one: dict[str, Any], other: dict[str, Any], folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("turbojpeg")
    for name, folder, how in (("a", folders[0], one), ("b", folders[1], other)):
        convert(ImageFolder(folder), tmp_path / name, image=ImageOptions(**how), workers=here())
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both", workers=here())
    image(tmp_path / "new", "rose/new.jpg", 77)
    for name in ("both", "again"):
        with pytest.raises(UsageError, match="does not record how its images were stored: it comes from several"):
            append(tmp_path / name, tmp_path / "new", tmp_path / "out", workers=here())
        if name == "both":
            reshard(tmp_path / "both", tmp_path / "again", workers=here())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("raw_first", [True, False])
def test_raw_pixels_and_image_files_are_not_merged(
    raw_first: bool, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    convert(ImageFolder(folders[0]), tmp_path / "raw", image=ImageOptions(encode="raw"), workers=here())
    convert(ImageFolder(folders[1]), tmp_path / "files", workers=here())
    both = [tmp_path / "raw", tmp_path / "files"][:: 1 if raw_first else -1]
    with pytest.raises(UsageError, match=f"{tmp_path / 'raw'}: has raw pixels, and {tmp_path / 'files'} image files"):
        merge(both, tmp_path / "out", workers=here())
    assert not (tmp_path / "out").exists()


def test_a_label_that_changed_is_told(
    old: Path, folders: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key and the bytes are those of the dataset, whose label stays."""
    lines = [f"{path.relative_to(folders[2])},{path.parent.name}" for path in sorted(folders[2].glob("*/*.jpg"))]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *lines]).replace("001.jpg,rose", "001.jpg,tulip"))
    labels = ["--labels", str(tmp_path / "labels.csv"), "--workers", "1"]
    command = ["append", str(old), str(folders[2]), str(tmp_path / "out"), *labels]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "30 samples skipped" in said
    assert "1 sample of them has different values in the source (rose/001.jpg: image/class/label is rose, in" in said
    rows = {bytes(r[FILENAME]): r for split in shardfeed.open(tmp_path / "out").values() for r in split}  # type: ignore[arg-type]
    assert rows[b"rose/001.jpg"]["image/class/text"] == b"rose"
    with pytest.raises(UsageError, match="all of its 42 samples; 1 sample of them has different values"):
        append(
            tmp_path / "out",
            open_source(folders[2], options=LabelOptions(labels=tmp_path / "labels.csv")),
            tmp_path / "no",
        )


@pytest.mark.parametrize("name", ["tfrecord", "mds"])
def test_a_picture_that_another_split_has_is_told(name: str, tmp_path: Path) -> None:
    """As `convert` and `merge` do."""
    for number, key in enumerate(("train/a/0.jpg", "train/b/1.jpg", "test/a/2.jpg", "test/b/3.jpg")):
        image(tmp_path / "first", key, number)
    convert(tmp_path / "first", tmp_path / "old", to=name, workers=here())
    image(tmp_path / "more", "test/a/x.jpg", 1)
    image(tmp_path / "more", "test/a/y.jpg", 9)
    report = append(tmp_path / "old", tmp_path / "more", tmp_path / "out", workers=here())
    [pair] = report.same_pictures.splits
    assert (pair.split, pair.other, pair.images, pair.of) == ("test", "train", 1, 4)
    assert "1 of 4 images of test is also in train, byte for byte: test/a/x.jpg (a) = train/b/1.jpg (b)" in report.notes
    assert report.same_pictures.classes is not None

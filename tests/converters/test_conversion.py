"""Converting: the same bytes whatever happens, and nothing half-made under the final name."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from object_images import put
from PIL import Image, features

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, LocalWorkers, Sample, Shares, convert
from shardfeed.converters.images.store import store_image
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.samples import _png_checksum, made_by
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.shards import write_shard as shard_writer
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.errors import (
    BusyError,
    OutputExistsError,
    PlanMismatchError,
    StorageError,
    TooManyRejectedError,
    UsageError,
)
from shardfeed.readers import verify
from shardfeed.schema import FILENAME, LABEL, SHA256, SOURCE_ID, TEXT, Feature, Schema
from shardfeed.storage.local import Lock, hidden_sibling
from shardfeed.tools import cli

from in_process import OwnEngine
from trees import tree

SPLIT = {"train": 0.75, "validation": 0.25}


def test_every_image_is_there_with_its_label(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(9)
    report = convert(ImageFolder(root), tmp_path / "out", split=SPLIT, shards=3, workers=2)
    data = shardfeed.open(tmp_path / "out")
    assert report.images == 27
    assert sum(map(len, data.values())) == 27
    assert data.class_names == ("daisy", "rose", "tulip")
    seen = {}
    for split in data.values():
        for record in split:
            key = record[FILENAME].decode()
            seen[key] = record
            source = (root / key).read_bytes()
            assert record["image/encoded"] == source
            assert record[SHA256].decode() == hashlib.sha256(source).hexdigest()
            assert data.class_names[record[LABEL]] == record[TEXT].decode() == key.split("/")[0]
        numbers = [int(record[SOURCE_ID]) for record in split]
        assert numbers == list(range(len(split)))
    assert len(seen) == 27
    assert sorted(os.listdir(tmp_path)) == ["images", "out"]
    assert not verify(tmp_path / "out").damages


def test_shards_differ_by_one_at_most(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(9)), tmp_path / "out", shards=5)
    counts = [shard.records for shard in shardfeed.open(tmp_path / "out").manifest.splits["train"].shards]
    assert counts == [6, 6, 5, 5, 5]


@pytest.mark.promise(14)
@pytest.mark.parametrize(
    ("workers", "method"),
    [
        (3, "spawn"),
        (1, "forkserver"),
        pytest.param(4, "spawn", marks=pytest.mark.long),
        pytest.param(3, "forkserver", marks=pytest.mark.long),
    ],
)
def test_bytes_do_not_depend_on_workers_or_start_method(
    folder: Callable[..., Path], tmp_path: Path, workers: int, method: str
) -> None:
    root = folder(12)
    for name, options in (("one", {"workers": 1}), ("other", {"workers": LocalWorkers(workers, method)})):
        (tmp_path / name).mkdir()
        convert(ImageFolder(root), tmp_path / name / "out", split=SPLIT, shards=4, **options)
    assert tree(tmp_path / "one") == tree(tmp_path / "other")


def test_a_way_to_draw_splits_without_shares_is_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"split_by: is how splits are drawn, .* for example split=Shares"):
        convert(ImageFolder(folder(3)), tmp_path / "out", split=Shares(None, "hash"))


def test_shares_for_a_source_that_has_splits_are_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    for name in ("train", "val"):
        shutil.copytree(root, tmp_path / "splits" / name)
    with pytest.raises(UsageError, match=r"the source already sets the split of every sample \(train, validation\)"):
        convert(ImageFolder(tmp_path / "splits"), tmp_path / "out", split=SPLIT)
    assert sorted(os.listdir(tmp_path)) == ["images", "splits"]
    convert(ImageFolder(tmp_path / "splits"), tmp_path / "out")
    assert {name: len(split) for name, split in shardfeed.open(tmp_path / "out").items()} == {
        "train": 9,
        "validation": 9,
    }


def test_adding_files_moves_no_other_file(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(30)
    convert(ImageFolder(root), tmp_path / "before", split=SPLIT)
    for i in range(20):
        (root / "rose" / f"new{i}.jpg").write_bytes((root / "rose" / "0000.jpg").read_bytes())
    convert(ImageFolder(root), tmp_path / "after", split=SPLIT)
    before, after = (
        {record[FILENAME]: name for name, split in shardfeed.open(tmp_path / out).items() for record in split}
        for out in ("before", "after")
    )
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 20


def test_an_existing_output_is_refused_and_untouched(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(OutputExistsError, match="exists already"):
        convert(ImageFolder(root), tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine": b"x"}
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputExistsError, match="not a directory"):
        convert(ImageFolder(root), tmp_path / "file", replace=True)
    with pytest.raises(OutputExistsError, match="shardfeed dataset, so it is not replaced"):
        convert(ImageFolder(root), tmp_path / "out", replace=True)
    assert tree(tmp_path / "out") == {"mine": b"x"}
    with pytest.raises(UsageError, match="parent directory does not exist"):
        convert(ImageFolder(root), tmp_path / "none" / "out")
    assert sorted(os.listdir(tmp_path)) == ["file", "images", "out"]


@pytest.mark.promise(12)
@pytest.mark.parametrize("shards", [8, 2, 5])
def test_replace_swaps_everything(folder: Callable[..., Path], tmp_path: Path, shards: int) -> None:
    root = folder(6)
    convert(ImageFolder(root), tmp_path / "out", shards=4, workers=OwnEngine(1))
    (tmp_path / "fresh").mkdir()
    convert(ImageFolder(root), tmp_path / "fresh" / "out", shards=shards, workers=OwnEngine(1))
    convert(ImageFolder(root), tmp_path / "out", shards=shards, replace=True, workers=OwnEngine(1))
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh" / "out")
    assert sorted(os.listdir(tmp_path)) == ["fresh", "images", "out"]


# Arguments that cannot be meant, and the place of the error.
BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    *(({"shards": value}, "shards") for value in ("4", "0.5", "4XB", 2.5, True, 0, {"train": 2.0}, {"train": True})),
    ({"shards": {"train": 2, "validation": 1, "tset": 1}, "split": SPLIT}, "shards"),
    *(({"split": value}, "split") for value in ("train", ["train"], 0.9, {}, {1: 1.0})),
    *(({"split": {"train": value}}, "split") for value in (True, "1", None)),
    ({"split": {"train": 1.5}}, "split train"),
    *(({"seed": value}, "seed") for value in ("1", "x", None, 1.5, True, 10**64)),
    *(({"image": value}, "image") for value in ({"size": 64}, {}, 64, ImageOptions)),
    *(({"out": value}, "out") for value in (None, "", b"out")),
    *(({name: "no"}, name) for name in ("replace", "restart", "verify", "dry_run", "no_leaks", "group_duplicates")),
]


@pytest.mark.parametrize(("arguments", "place"), BAD_ARGUMENTS, ids=[f"{bad}" for bad, _ in BAD_ARGUMENTS])
def test_arguments_are_checked_before_anything_is_staged(
    arguments: dict[str, Any], place: str, folder: Callable[..., Path], tmp_path: Path
) -> None:
    root = folder(4)
    given = {"out": tmp_path / "out", "workers": OwnEngine(1), **arguments}
    with pytest.raises(UsageError) as caught:
        convert(ImageFolder(root), **given)
    assert caught.value.place == place
    assert os.listdir(tmp_path) == ["images"]


def half_done(root: Path, out: Path) -> None:
    """Leave a staging directory behind, as a stopped run does."""
    bad = root / "daisy" / "bad.jpg"
    bad.write_bytes(b"no image")
    with pytest.raises(TooManyRejectedError):
        convert(ImageFolder(root), out, shards=3, seed=1)
    assert not out.exists()


# Every option that changes bytes: how it differs from `half_done`'s, and what is said.
OTHER_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "split": ({"split": SPLIT}, "split was None, now {'train': 0.75, 'validation': 0.25}"),
    "shards": ({"shards": 4}, "shards was 3, now 4"),
    "shards by size": ({"shards": "5B"}, "shard_size was None, now 5"),
    "seed": ({"seed": 2}, "seed was 1, now 2"),
    "split by": ({"split": Shares(SPLIT, "hash")}, "split_by was None, now 'hash'"),
    **{
        f"group_{name}": ({"split": SPLIT, f"group_{name}": value}, f"groups was None, now {{{name!r}: {value!r}}}")
        for name, value in {"column": "image/class/text", "pattern": "roboflow", "duplicates": True}.items()
    },
    "to": ({"to": "webdataset"}, "to was None, now 'webdataset'"),
}
OTHER_IMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "check": ({"check": "header"}, "check was 'decode', now 'header'"),
    "encode": ({"encode": "raw"}, "encode was 'keep', now 'raw'"),
    "resize_shorter": ({"resize_shorter": 16}, "resize_shorter was None, now 16"),
    "resize_filter": ({"resize_filter": "hamming"}, "resize_filter was None, now 'hamming'"),
    "size": ({"size": (8, 9)}, "size was None, now [8, 9]"),
    "quality": ({"quality": 50}, "quality was None, now 50"),
    "baseline": ({"baseline": True}, "baseline was False, now True"),
    "seekable": ({"seekable": False}, "seekable was None, now False"),
    "png_to_jpeg": ({"png_to_jpeg": True}, "png_to_jpeg was False, now True"),
    "background": ({"background": "black"}, "background was [255, 255, 255], now [0, 0, 0]"),
    "bits": ({"bits": 12}, "bits was None, now 12"),
    "keep_depth": ({"keep_depth": True}, "keep_depth was None, now True"),
    "max_pixels": ({"max_pixels": 10_000}, "max_pixels was 178956970, now 10000"),
    "max_bytes": ({"max_bytes": 10_000}, "max_bytes was 1073741824, now 10000"),
    "sha256": ({"sha256": False}, "sha256 was True, now False"),
}


@pytest.mark.promise(11)
def test_resume_with_other_options_is_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    """RELIABILITY 11: exit 2, and it says what differs, for every option there is."""
    of_sources = {"made_with", "onto"}  # what sources of records say, not arguments
    assert OTHER_OPTIONS.keys() >= {field.name for field in fields(PlanOptions)} - {"image"} - of_sources
    assert OTHER_IMAGES.keys() == {field.name for field in fields(ImageOptions)}
    root = folder(3)
    half_done(root, tmp_path / "out")
    before = tree(tmp_path / ".out.staging")
    cases = [*OTHER_OPTIONS.values()]
    cases += [({"image": ImageOptions(**options)}, said) for options, said in OTHER_IMAGES.values()]
    for options, said in cases:
        with pytest.raises(PlanMismatchError, match=re.escape(said)) as caught:
            convert(ImageFolder(root), tmp_path / "out", workers=OwnEngine(1), **{"seed": 1, "shards": 3, **options})
        assert caught.value.exit_code == 2
        assert tree(tmp_path / ".out.staging") == before


def test_another_zlib_that_packs_alike_is_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow uses the zlib that the process loaded first, perhaps TensorFlow's: only its output counts."""
    before, version = made_by(ImageOptions()), features.version
    monkeypatch.setattr(features, "version", lambda name: "0" if name == "zlib" else version(name))
    assert made_by(ImageOptions()) == before
    pack = Image.Image.tobytes
    monkeypatch.setattr(Image.Image, "tobytes", lambda image, *how: pack(image, *how[:3], 1, *how[4:]))  # level 1
    _png_checksum.cache_clear()
    assert made_by(ImageOptions()) != before
    monkeypatch.undo()
    _png_checksum.cache_clear()


BEGIN_AFTER_TENSORFLOW = """
import sys
import tensorflow
from shardfeed.tools.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
@pytest.mark.promise(11)
def test_a_conversion_begun_after_tensorflow_was_imported_is_resumed_without(
    folder: Callable[..., Path], tmp_path: Path
) -> None:
    root, arguments = folder(3), ("images", "out", "--quiet", "--size", "24")
    for i in range(3):  # become PNGs
        Image.radial_gradient("L").rotate(i).convert("P").save(root / "daisy" / f"{i}.png")
    (root / "daisy" / "bad.jpg").write_bytes(b"no image")
    first = subprocess.run([sys.executable, "-c", BEGIN_AFTER_TENSORFLOW, "convert", *arguments], cwd=tmp_path)
    assert first.returncode == TooManyRejectedError.exit_code
    (root / "daisy" / "bad.jpg").unlink()
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert"]
    subprocess.run([*command, *arguments], cwd=tmp_path, check=True)
    (tmp_path / "alone").mkdir()
    subprocess.run([*command, "images", "alone/out", *arguments[2:]], cwd=tmp_path, check=True)
    assert tree(tmp_path / "out") == tree(tmp_path / "alone" / "out")


@contextmanager
def store_counted() -> Iterator[list[bytes]]:
    """The files that are checked and stored meanwhile in this process."""
    stored: list[bytes] = []

    def counted(data: bytes, options: ImageOptions) -> Any:
        stored.append(data)
        return store_image(data, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "store_image", counted)
        yield stored


@pytest.mark.promise(11, 47)
def test_other_classes_cost_no_image(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Labels are not in what takes the time."""
    root = folder(3)
    half_done(root, tmp_path / "out")
    names = ("tulip", "rose", "daisy")
    (root / "daisy" / "bad.jpg").unlink()
    options: dict[str, Any] = {"seed": 1, "shards": 3, "workers": OwnEngine(1)}
    with store_counted() as stored:
        report = convert(ImageFolder(root, class_names=names), tmp_path / "out", **options)
    assert (report.kept, report.images, stored) == (0, 0, [])
    assert "0 of 3 shards are kept, and 9 images" in report.notes[0]
    (tmp_path / "fresh").mkdir()
    convert(ImageFolder(root, class_names=names), tmp_path / "fresh" / "out", **options)
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh" / "out")


def fresh(root: Path, place: Path, **options: Any) -> dict[str, bytes]:
    """Files of a conversion without earlier runs."""
    place.mkdir()
    convert(ImageFolder(root), place / "out", workers=OwnEngine(1), **options)
    return tree(place / "out")


EDITS: dict[str, Callable[[Path], object]] = {
    "removed": lambda root: (root / "daisy" / "bad.jpg").unlink(),
    "replaced": lambda root: shutil.copy(root / "rose" / "0000.jpg", root / "daisy" / "bad.jpg"),
    "renamed": lambda root: (root / "daisy" / "bad.jpg").rename(root / "daisy" / ".bad.jpg"),
    "more": lambda root: [(root / "daisy" / "bad.jpg").unlink(), shutil.copytree(root / "rose", root / "zinnia")],
    "a class less": lambda root: shutil.rmtree(root / "daisy"),
}


@pytest.mark.promise(11, 47)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("replace", [False, True])
def test_a_way_out_after_too_many_were_rejected(
    edit: str, replace: bool, folder: Callable[..., Path], tmp_path: Path
) -> None:
    """Repair or remove what was rejected, and the same command ends well, with the bytes of a fresh conversion."""
    root = folder(9)
    out = tmp_path / "out"
    if replace:
        convert(ImageFolder(root), out, shards=2, workers=OwnEngine(1))
    (root / "daisy" / "bad.jpg").write_bytes(b"no image")
    for _ in range(2):
        with pytest.raises(TooManyRejectedError, match="repair or remove them and run the same command again"):
            convert(ImageFolder(root), out, shards=6, workers=OwnEngine(1), replace=replace)
    EDITS[edit](root)
    with store_counted() as stored:
        report = convert(ImageFolder(root), out, shards=6, workers=OwnEngine(1), replace=replace)
    assert report.committed
    assert len(stored) == {"replaced": 1, "more": 9}.get(edit, 0), "no other image is checked again"
    assert report.notes[0].startswith("since the earlier run: ")
    assert ("1 image gone (daisy/bad.jpg)" in report.notes[0]) == (edit in ("removed", "renamed", "more"))
    assert tree(out) == fresh(root, tmp_path / "fresh", shards=6)
    assert sorted(os.listdir(tmp_path)) == ["fresh", "images", "out"]


@pytest.mark.promise(11, 47)
def test_any_edits_between_stopped_runs(folder: Callable[..., Path], tmp_path: Path, seed: int) -> None:
    """Images added, removed, changed and put back, each run stopped somewhere: in the end the bytes of a fresh one."""
    rng = random.Random(seed)
    root = folder(8)
    out = tmp_path / "out"
    removed: dict[Path, bytes] = {}
    for number in range(12):
        for _ in range(rng.randrange(3)):
            path = rng.choice(sorted(root.rglob("*.jpg")))
            edit = rng.choice(["remove", "add", "change", "touch", "restore"])
            if edit == "remove":
                removed[path] = path.read_bytes()
                path.unlink()
            elif edit == "add":
                shutil.copy(path, path.with_name(f"new{number}.jpg"))
            elif edit == "change":
                path.write_bytes(rng.choice(sorted(root.rglob("*.jpg"))).read_bytes())
            elif edit == "touch":
                os.utime(path, ns=(number, number))
            elif removed:
                path, data = removed.popitem()
                path.write_bytes(data)
        engine = Stopping(rng.randrange(6))
        with suppress(KeyboardInterrupt):
            convert(ImageFolder(root), out, shards=5, workers=engine, replace=True)
    convert(ImageFolder(root), out, shards=5, workers=OwnEngine(1), replace=True)
    assert tree(out) == fresh(root, tmp_path / "fresh", shards=5)
    assert sorted(os.listdir(tmp_path)) == ["fresh", "images", "out"]


class Stopping(OwnEngine):
    """Is stopped after some shards."""

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._most = most

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        for number, receipt in enumerate(super().run(tasks, poll)):
            if number == self._most:
                raise KeyboardInterrupt
            yield receipt


@pytest.mark.promise(11, 47)
def test_a_replaced_image_costs_its_shard_alone(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(10)
    (root / "daisy" / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(TooManyRejectedError):
        convert(ImageFolder(root), tmp_path / "out", shards=10, workers=OwnEngine(1))
    shutil.copy(root / "rose" / "0000.jpg", root / "daisy" / "bad.jpg")
    report = convert(ImageFolder(root), tmp_path / "out", shards=10, workers=1)
    said = (
        "since the earlier run: 1 image changed (daisy/bad.jpg); 9 of 10 shards are kept, and [23] images of the others"
    )
    assert re.fullmatch(said.replace("(", "[(]").replace(")", "[)]"), report.notes[0])
    assert report.kept == report.to_json()["shards_kept"] == 9
    assert report.images == 1


def store_or_die(calls: Iterator[int], data: bytes, options: ImageOptions) -> Any:
    """Store an image, or end the process when there are no more calls."""
    return os._exit(7) if next(calls, None) is None else store_image(data, options)


@pytest.mark.promise(1, 47)
@pytest.mark.parametrize("kills", [[5], [2, 7, 1]])
def test_a_kill_costs_what_came_after_the_last_checkpoint(
    kills: list[int], folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which here is before each image; the shard that was being written is not begun again."""
    root = folder(4)
    expected = fresh(root, tmp_path / "fresh", shards=1)
    monkeypatch.setattr(shard_writer, "CHECKPOINT_SECONDS", -1.0)
    for kill in kills:
        if os.fork() == 0:
            monkeypatch.setattr(shard_writer, "store_image", partial(store_or_die, iter(range(kill))))
            convert(ImageFolder(root), tmp_path / "out", shards=1, workers=OwnEngine(1))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    with store_counted() as stored:
        convert(ImageFolder(root), tmp_path / "out", shards=1, workers=OwnEngine(1))
    assert len(stored) == 12 - sum(kills)
    assert tree(tmp_path / "out") == expected


@pytest.mark.promise(11, 47)
def test_the_way_out_as_it_is_typed(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the file removed, the same command: exit 0. Another option: 2, and --restart: 0."""
    root = folder(2)
    bad = root / "daisy" / "bad.jpg"
    command = ["convert", str(root), str(tmp_path / "out"), "--workers", "1"]
    bad.write_bytes(b"no image")
    assert cli.main(command) == 3
    bad.unlink()
    assert cli.main(command) == 0
    assert "note: since the earlier run: 1 image gone (daisy/bad.jpg)" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "out")
    bad.write_bytes(b"no image")
    assert cli.main(command) == 3
    bad.unlink()
    assert cli.main([*command, "--seed", "1"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(
        ".out.staging: holds an unfinished conversion with other options: seed was 0, now 1; use the same options, "
        "or start over with --restart"
    )
    assert cli.main([*command, "--seed", "1", "--restart"]) == 0


@pytest.mark.promise(11)
def test_begun_anew(folder: Callable[..., Path], tmp_path: Path) -> None:
    """With other options than the run that was stopped, a plan that is damaged included; a stranger's files stay."""
    root = folder(3)
    out, staging = tmp_path / "out", tmp_path / ".out.staging"
    expected = fresh(root, tmp_path / "fresh", shards=2)
    for damage in (False, True):
        half_done(root, out)
        (root / "daisy" / "bad.jpg").unlink()
        if damage:
            (staging / "plan.json").write_bytes(b"{")
        with pytest.raises(PlanMismatchError, match="start over with restart=True") as caught:
            convert(ImageFolder(root), out, shards=2, workers=OwnEngine(1))
        assert str(staging) in str(caught.value)
        assert len(str(caught.value)) < 400
        (staging / "mine.txt").write_text("x")
        with pytest.raises(UsageError, match=r"holds mine.txt, which shardfeed did not write"):
            convert(ImageFolder(root), out, shards=2, workers=OwnEngine(1), restart=True)
        assert (staging / "receipts").is_dir()
        (staging / "mine.txt").unlink()
        report = convert(ImageFolder(root), out, shards=2, workers=OwnEngine(1), restart=True)
        assert (report.kept, report.notes) == (0, [])
        assert tree(out) == expected
        with pytest.raises(OutputExistsError):
            convert(ImageFolder(root), out, shards=2, workers=OwnEngine(1), restart=True)
        assert tree(out) == expected
        shutil.rmtree(out)


@pytest.mark.promise(11)
def test_what_is_refused_is_said_in_short(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Hundreds of classes, every option another one: one line of a few hundred characters."""
    root = folder(1, classes=tuple(f"class{i:03d}" for i in range(150)))
    (root / "class000" / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(TooManyRejectedError):
        convert(ImageFolder(root), tmp_path / "out", workers=OwnEngine(1))
    names = sorted((path.name for path in root.iterdir()), reverse=True)
    image = ImageOptions(quality=50, resize_shorter=20, check="header", max_pixels=10**6, max_bytes=10**6, sha256=False)
    split = {f"split{i}": 1 / 4 for i in range(4)}
    options: dict[str, Any] = {"image": image, "seed": 3, "split": split, "shards": 2}
    with pytest.raises(PlanMismatchError) as caught:
        convert(ImageFolder(root, class_names=names), tmp_path / "out", workers=OwnEngine(1), **options)
    assert len(str(caught.value)) < 700
    assert "check was 'decode', now 'header'; " in str(caught.value)
    assert "; and 4 more; use the same options" in str(caught.value)


@pytest.mark.parametrize("max_bad", ["100%", "3"])
def test_an_empty_dataset_is_never_committed(max_bad: str, tmp_path: Path) -> None:
    root = tmp_path / "images"
    for name in ("a/1.jpg", "a/2.jpg", "b/1.jpg"):
        put(root / name, b"no image")
    with pytest.raises(TooManyRejectedError, match=r"3 inputs rejected \(3 E_NOT_IMAGE: .*\), all of them") as caught:
        convert(ImageFolder(root), tmp_path / "out", max_bad=max_bad, workers=OwnEngine(1))
    assert caught.value.exit_code == 3
    assert len(caught.value.report.rejected) == 3
    assert not (tmp_path / "out").exists()


def test_an_empty_split_is_said(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    shutil.copytree(root, tmp_path / "splits" / "train")
    (tmp_path / "splits" / "val" / "rose").mkdir(parents=True)
    (tmp_path / "splits" / "val" / "rose" / "x.jpg").write_bytes(b"no image")
    report = convert(ImageFolder(tmp_path / "splits"), tmp_path / "out", max_bad=1, workers=OwnEngine(1))
    assert "split validation is empty: every image of it was rejected" in report.notes


def test_rejected_inputs_refuse_the_commit_and_a_higher_limit_only_commits(
    folder: Callable[..., Path], tmp_path: Path
) -> None:
    root = folder(4)
    (root / "rose" / "cut.jpg").write_bytes((root / "rose" / "0000.jpg").read_bytes()[:300])
    (root / "rose" / "text.jpg").write_text("hello, I am no image at all")
    with pytest.raises(
        TooManyRejectedError,
        match=r"2 inputs .* rose/cut.jpg, rose/text.jpg; the first: JPEG .* 1 allowed; .* max_bad=2 ",
    ) as e:
        convert(ImageFolder(root), tmp_path / "out", max_bad=1)
    assert e.value.exit_code == 3
    assert [noted.key for noted in e.value.report.rejected] == [b"rose/cut.jpg", b"rose/text.jpg"]
    assert not (tmp_path / "out").exists()
    report = convert(ImageFolder(root), tmp_path / "out", max_bad="20%")
    assert report.images == 0, "all shards were there"
    content = report.to_json()
    assert (content["images"], content["dataset_images"], content["shards_kept"]) == (0, 12, 1)
    assert content["annotations"] is None, "a folder has none to account for"
    assert content["dataset_bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord"))
    lines = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert [(line["key"], line["code"]) for line in lines] == [
        ("rose/cut.jpg", "E_TRUNCATED"),
        ("rose/text.jpg", "E_NOT_IMAGE"),
    ]
    data = shardfeed.open(tmp_path / "out")
    assert len(data["train"]) == 12
    assert data.manifest.rejected == {"E_NOT_IMAGE": 1, "E_TRUNCATED": 1}


def test_normalised_images_are_listed_unless_asked_for(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(2)
    Image.new("RGBA", (20, 20), (10, 20, 30, 128)).save(root / "rose" / "alpha.png")
    convert(ImageFolder(root), tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "normalised.jsonl").read_text().splitlines()]
    assert [(line["key"], line["code"]) for line in lines] == [("rose/alpha.png", "alpha")]
    assert not verify(tmp_path / "out").damages
    (root / "rose" / "alpha.png").unlink()
    report = convert(ImageFolder(root), tmp_path / "small", image=ImageOptions(resize_shorter=16))
    assert {noted.what for noted in report.normalised} == {"resized"}
    assert not (tmp_path / "small" / "normalised.jsonl").exists()


@pytest.mark.parametrize("text", ["-1", "x", "101%", "-5%"])
def test_max_bad_is_checked(folder: Callable[..., Path], tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="max_bad"):
        convert(ImageFolder(folder(2)), tmp_path / "out", max_bad=text)


@pytest.mark.promise(10)
def test_a_second_converter_is_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    lock = Lock(hidden_sibling(str(tmp_path / "out"), "lock"), "process 7 on otherhost")
    with pytest.raises(BusyError, match="process 7 on otherhost is writing this output"):
        convert(ImageFolder(folder(2)), tmp_path / "out")
    lock.release()
    convert(ImageFolder(tmp_path / "images"), tmp_path / "out")


def test_a_damaged_finished_shard_is_made_again(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    (tmp_path / "whole").mkdir()
    half_done(root, tmp_path / "out")
    convert(ImageFolder(root), tmp_path / "whole" / "out", shards=3, seed=1, max_bad=1)
    shard = next((tmp_path / ".out.staging" / "dataset").glob("*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-1])
    (tmp_path / ".out.staging" / "dataset" / "left.partial").write_bytes(b"x")
    convert(ImageFolder(root), tmp_path / "out", shards=3, seed=1, max_bad=1)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole" / "out")


def test_verify_before_commit_finds_a_flipped_bit(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    half_done(root, tmp_path / "out")
    shard = next((tmp_path / ".out.staging" / "dataset").glob("*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(shardfeed.errors.IntegrityError, match="expected"):
        convert(ImageFolder(root), tmp_path / "out", shards=3, seed=1, max_bad=1, verify=True)
    assert not (tmp_path / "out").exists()


class Drawn:
    """A source of one's own: images made when a worker asks for them."""

    schema = Schema(
        {LABEL: Feature("int64"), TEXT: Feature("bytes"), "image/size": Feature("float32", (None,))},
        {LABEL: ("a", "b")},
    )

    def __init__(self, make: Callable[[int], object]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> Sample:
        labels = {LABEL: i % 2, TEXT: b"ab"[i % 2 : i % 2 + 1], "image/size": [i / 2] * (i % 3)}
        return Sample(b"%d" % i, self.make(i), labels)  # type: ignore[arg-type]  # one test gives nonsense


def test_a_source_of_ones_own(tmp_path: Path, flowers_folder: Path) -> None:
    image = (flowers_folder / "rose" / "0001.jpg").read_bytes()
    convert(Drawn(lambda i: image), tmp_path / "out", workers=OwnEngine(1))
    records = {record[FILENAME]: record for record in shardfeed.open(tmp_path / "out")["train"]}
    assert records[b"5"]["image/size"].tolist() == [2.5, 2.5]
    assert records[b"3"]["image/size"].tolist() == []
    assert records[b"3"][TEXT] == b"b"


def test_a_source_with_equal_keys_is_refused(tmp_path: Path) -> None:
    class Twice(Drawn):
        def __getitem__(self, i: int) -> Sample:
            return Sample(b"same" if i in (2, 7) else b"%d" % i, b"", super().__getitem__(i).features)

    with pytest.raises(UsageError, match=r"source\[7\]: has the key 'same' of source\[2\]"):
        convert(Twice(lambda i: b""), tmp_path / "out")
    assert not os.listdir(tmp_path)


def test_a_callable_that_raises_costs_one_image(tmp_path: Path) -> None:
    import functools

    source = Drawn(lambda i: functools.partial(int, "x" if i == 4 else "y"))
    with pytest.raises(TooManyRejectedError, match=r"10 E_SOURCE_ERROR.*ValueError: invalid literal") as caught:
        convert(source, tmp_path / "out", workers=OwnEngine(1))
    assert "ValueError: invalid literal" in caught.value.report.rejected[0].why


@pytest.mark.promise(13)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), RejectCode.SOURCE_CHANGED),
        (lambda path: os.truncate(path, 100), RejectCode.SOURCE_CHANGED),
        (lambda path: path.write_bytes(path.read_bytes()[::-1]), RejectCode.SOURCE_CHANGED),
        (lambda path: path.with_name("0000.jpg").replace(path), RejectCode.SOURCE_CHANGED),
        (lambda path: os.utime(path, ns=(5, 5)), RejectCode.SOURCE_CHANGED),
        (lambda path: path.unlink(), RejectCode.SOURCE_CHANGED),
        (lambda path: (path.unlink(), os.mkfifo(path)), RejectCode.NOT_REGULAR),
        (lambda path: (path.unlink(), path.mkdir()), RejectCode.UNREADABLE),
    ],
)
def test_a_file_that_changed_since_the_listing(
    folder: Callable[..., Path], tmp_path: Path, change: Callable[[Path], object], code: RejectCode
) -> None:
    root = folder(2)
    source = ImageFolder(root)
    change(root / "rose" / "0001.jpg")
    with pytest.raises(TooManyRejectedError) as caught:
        convert(source, tmp_path / "out", workers=OwnEngine(1))
    assert (b"rose/0001.jpg", code.value) in [(n.key, n.what) for n in caught.value.report.rejected]


class EditedOnTheWay(ImageFolder):
    """A folder one of whose files is changed when its shard is put together, after the plan was made of it."""

    asked = 0

    def __getitem__(self, i: int) -> Sample:
        sample = super().__getitem__(i)
        if sample.key == b"rose/0001.jpg":
            self.asked += 1
            if self.asked == 2:  # the plan has it
                Path(os.fsdecode(self.root), "rose/0001.jpg").write_bytes(b"something else")
        return sample


@pytest.mark.promise(13)
def test_a_file_that_changes_while_others_are_converted(folder: Callable[..., Path], tmp_path: Path) -> None:
    source = EditedOnTheWay(folder(3))
    report = convert(source, tmp_path / "out", shards=3, workers=OwnEngine(1), max_bad=1)
    assert source.asked == 2, "to plan and to write"
    assert [(n.key, n.what) for n in report.rejected] == [(b"rose/0001.jpg", "E_SOURCE_CHANGED")]
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 8


def test_a_script_needs_no_guard(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    script = tmp_path / "script.py"
    script.write_text(
        "from shardfeed.converters import ImageFolder, convert\n"
        f"print(convert(ImageFolder({str(root)!r}), {str(tmp_path / 'out')!r}, workers=2, shards=2).images)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("9\n", "")


@pytest.mark.promise(17)
def test_an_unwritable_parent(folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(2)
    if os.geteuid() == 0:  # root may write anywhere but into /proc
        with pytest.raises(StorageError) as caught:
            convert(ImageFolder(root), "/proc/out")
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(StorageError) as caught:
            convert(ImageFolder(root), tmp_path / "locked" / "out")
    assert caught.value.exit_code == 5


@pytest.mark.promise(12)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("what", ["directory", "file"])
def test_what_appears_at_the_output_meanwhile_stays(
    folder: Callable[..., Path], tmp_path: Path, what: str, replace: bool
) -> None:
    out = tmp_path / "out"
    source = ImageFolder(folder(6))

    def appear(_: object) -> None:
        if not out.exists():
            if what == "directory":
                out.mkdir()
            (out / "thesis" if what == "directory" else out).write_text("mine")

    with pytest.raises(OutputExistsError, match="exists" if not replace or what == "file" else "is not") as caught:
        convert(source, out, workers=OwnEngine(1), shards=3, replace=replace, progress=appear)
    assert caught.value.exit_code == 2
    assert (out / "thesis" if what == "directory" else out).read_text() == "mine"
    shutil.rmtree(out) if what == "directory" else out.unlink()
    assert convert(source, out, workers=OwnEngine(1), shards=3).images == 0, "nothing that was written is lost"


@pytest.mark.promise(12)
def test_only_a_dataset_and_nothing_beside_it_is_replaced(folder: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(ImageFolder(folder(4)), out, workers=OwnEngine(1))
    shutil.copytree(tmp_path / "images", out / "originals")
    before = tree(out)
    for source in (tmp_path / "images", out / "originals"):
        with pytest.raises(OutputExistsError, match="holds originals, which is not part of the dataset and would be"):
            convert(ImageFolder(source), out, workers=OwnEngine(1), seed=1, replace=True)
        assert tree(out) == before
    shutil.rmtree(out / "originals")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"holds notes.txt"):
        convert(ImageFolder(tmp_path / "images"), out, workers=OwnEngine(1), seed=1, replace=True)
    (out / "notes.txt").unlink()
    content = (out / "manifest.json").read_bytes()
    for damaged in (content[:-30], content.replace(b'"records": 12', b'"records": 13')):
        (out / "manifest.json").write_bytes(damaged)
        assert convert(ImageFolder(tmp_path / "images"), out, workers=OwnEngine(1), replace=True).committed
        assert (out / "manifest.json").read_bytes() == content
    web = tmp_path / "web"
    web.mkdir()
    (web / "manifest.json").write_text('{"name": "an app of the web"}')
    with pytest.raises(OutputExistsError, match=r"has no manifest.json of a shardfeed dataset"):
        convert(ImageFolder(tmp_path / "images"), web, workers=OwnEngine(1), replace=True)
    assert [path.name for path in web.iterdir()] == ["manifest.json"]


def test_an_engine_is_stopped_where_the_output_is_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    class Counting(OwnEngine):
        stops = 0

        def stop(self) -> None:
            self.stops += 1
            super().stop()

    engine = Counting(1)
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputExistsError):
        convert(folder(2), tmp_path / "out", workers=engine)
    assert engine.stops

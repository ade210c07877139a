"""Random access by index: right records, checked, from many threads and processes, sliced, pickled."""

import inspect
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import IntegrityError, RecordError, SplitError, UsageError
from shardfeed.readers import Dataset, Split
from shardfeed.schema import ENCODED, FILENAME, LABEL
from shardfeed.storage.storage import LocalStorage

from repository import ROOT


def keys(split: Split) -> list[bytes]:
    return [record[FILENAME] for record in split]  # type: ignore[misc]  # a scalar bytes feature


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


def test_length_order_and_types(flowers: Dataset) -> None:
    train = flowers["train"]
    assert len(train) == flowers.manifest.splits["train"].records > 100
    assert len(set(keys(train))) == len(train)
    record = train[5]
    assert set(record) == set(train.schema.features)
    assert isinstance(record[ENCODED], bytes)
    assert type(record[LABEL]) is int
    assert train[-1][FILENAME] == keys(train)[-1]
    assert train[np.int64(3)][FILENAME] == keys(train)[3]
    for index in (len(train), -len(train) - 1):
        with pytest.raises(IndexError, match=r"has .* samples"):
            train[index]


def test_completion_shows_what_users_need(flowers: Dataset) -> None:
    """And the pages of the API leave out the same names, which pipelines call."""
    offered = {name for name in dir(flowers["train"]) if not name.startswith("_")}
    assert offered == {
        "class_counts", "class_names", "column", "fingerprint", "formats", "name", "record_bytes",
        "schema", "select", "where", "without_damaged",
    }  # fmt: skip
    hidden = {name for name in dir(Split) if not name.startswith("_")} - offered
    assert {"place", "payloads", "shard_slices", "whole_split"} < hidden
    page = (ROOT / "docs" / "api" / "dataset.md").read_text()
    left_out = page.split(":exclude-members:")[1].split("```")[0].replace(",", " ").split()
    assert set(left_out) == hidden


@pytest.mark.parametrize(
    "cut", [slice(0, 10), slice(40, 130), slice(-7, None), slice(5, 5), slice(None, None, 3), slice(20, 2, -5)]
)
def test_slices(flowers: Dataset, cut: slice) -> None:
    train = flowers["train"]
    view = train[cut]
    assert keys(view) == keys(train)[cut]
    assert len(view) == len(keys(train)[cut])
    assert keys(view[1:4]) == keys(train)[cut][1:4]


def test_a_selection_is_any_list_of_indices_or_a_mask(flowers: Dataset) -> None:
    train = flowers["train"]
    for which in ((1, 3), [1, 3], np.array([1, 3], np.uint8), [i in (1, 3) for i in range(len(train))]):
        assert keys(train.select(which)) == [keys(train)[1], keys(train)[3]]
    assert len(train.select(())) == 0
    for wrong in ({1, 3}, "13", None, iter([1]), [[1], [1, 2]], {1: 3}):
        with pytest.raises(UsageError, match=r"^which: got .*, expected a bool mask, or integers"):
            train.select(wrong)  # type: ignore[arg-type]  # that is the point


def test_its_repr_is_that_of_the_same_records_in_the_same_order_alone(flowers: Dataset) -> None:
    """Grain compares them, to tell whether a checkpoint is of this data."""
    train = flowers["train"]
    count = len(train)
    assert repr(train) == f"Split('train', {count} samples, fingerprint {train.fingerprint[:8]})"
    assert str(inspect.signature(shardfeed.open).parameters["storage"]).endswith("= LocalStorage()")
    assert repr(train[:20]).startswith("Split('train'[0:20], 20 samples, fingerprint ")
    assert repr(train[::-1]).startswith(f"Split('train'[{count - 1}::-1], {count} samples, fingerprint ")
    assert repr(train.select([3, 1])).startswith("Split('train'[selected], 2 samples, fingerprint ")
    others = [
        *(train[::-1], train[1:], train[:-1], train[::2], train[1::2], train[:20], train[20:40], train[:0]),
        *(train.select(range(20)), train.select(range(1, 21)), train.select(range(count)[::-1])),
        *(flowers["validation"], shardfeed.open(flowers.directory)["validation"][::-1]),
    ]
    shown = [repr(split) for split in (train, *others)]
    assert len(set(shown)) == len(shown)
    assert not any("\n" in line for line in shown)
    assert repr(shardfeed.open(flowers.directory)["train"]) == repr(pickle.loads(pickle.dumps(train))) == repr(train)
    assert repr(train[0:count]) == repr(train)


def test_many_samples_at_once(flowers: Dataset) -> None:
    """As a DataLoader of PyTorch asks for a batch: each in its place, also twice, or counted from the end."""
    train = flowers["train"]
    indices = [5, 4, 90, 5, -1, np.int64(17)]
    for found, index in zip(train.__getitems__(indices), indices, strict=True):
        assert keys([found]) == keys([train[index]])  # type: ignore[arg-type]
        assert found[ENCODED] == train[index][ENCODED]
    assert train.__getitems__([]) == []
    assert keys(train[::-1].__getitems__([0])) == keys(train[-1:])  # type: ignore[arg-type]
    with pytest.raises(IndexError, match=r"has .* samples"):
        train.__getitems__([0, len(train)])


AT_EXIT = """
import sys
import shardfeed
split = shardfeed.open(sys.argv[1])["train"]
split[0]
# Frameworks hold modules in this way. Python then empties them, the later imported first, and this script's last.
sys.held = [sys.modules["__main__"], sys.modules["shardfeed.storage.storage"]]
"""


def test_nothing_is_said_at_exit_of_a_split_that_a_global_holds(flowers: Dataset) -> None:
    command = [sys.executable, "-c", AT_EXIT, flowers.directory]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_shard_slices_cover_a_view_once(flowers: Dataset) -> None:
    train = flowers["train"]
    for start, stop in ((0, len(train)), (1, 2), (39, 81), (0, 0), (100, 101)):
        slices = train[start:stop].shard_slices()
        places = [s.first + s.skip + i for s in slices for i in range(s.take)]
        assert places == list(range(start, stop))
        assert all(s.skip + s.take <= s.records and os.path.exists(s.path) for s in slices)
    with pytest.raises(UsageError, match="are not consecutive"):
        train[::2].shard_slices()


def test_counts_say_what_is_there(flowers: Dataset) -> None:
    for name, split in flowers.items():
        labels = [record[LABEL] for record in split]
        assert split.class_counts[LABEL] == tuple(labels.count(label) for label in range(3)), name
        assert sum(split.formats.values()) == len(split)
        assert split.formats["png"] > 0
        files = Path(flowers.directory).glob(f"{name}-*.tfrecord")
        assert split.record_bytes == sum(path.stat().st_size for path in files)


def test_pickles_small_and_reads_again(flowers: Dataset) -> None:
    train = flowers["train"][10:20]
    _ = train[0]
    data = pickle.dumps(train)
    assert len(data) < 4000
    assert keys(pickle.loads(data)) == keys(train)
    assert pickle.loads(pickle.dumps(flowers))["train"][0] == flowers["train"][0]


def test_many_threads_with_few_open_files(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(LocalStorage, "most_open", 1)  # each read closes another thread's file
    expected = keys(flowers["train"])
    train = pickle.loads(pickle.dumps(flowers["train"]))
    wrong: list[int] = []

    def read(seed: int) -> None:
        for i in np.random.default_rng(seed).integers(0, len(expected), 300):
            if train[i][FILENAME] != expected[i]:
                wrong.append(int(i))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(os.listdir("/proc/self/fd")) <= before + 1


FORKS = """
import multiprocessing, sys
import shardfeed
train = shardfeed.open(sys.argv[1])["train"]
expected = [record["image/filename"] for record in train]  # opens every file before the fork: all share descriptors
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(train.__getitem__, range(len(train))) == list(train)
assert [record["image/filename"] for record in train] == expected
print(len(expected))
"""


def test_after_fork(flowers: Dataset) -> None:
    """In a process of its own: one that has TensorFlow's threads cannot be forked safely, whoever reads."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, flowers.directory], capture_output=True, text=True, timeout=300, check=True
    )
    assert int(done.stdout) == len(flowers["train"])


@pytest.mark.promise(27)
def test_a_split_that_is_not_there(flowers: Dataset) -> None:
    with pytest.raises(SplitError, match="no split 'test'; it has 'train', 'validation'"):
        flowers["test"]
    with pytest.raises(KeyError):
        flowers["test"]
    assert "test" not in flowers
    assert list(flowers) == ["train", "validation"]


@pytest.mark.promise(19)
def test_a_flipped_bit_raises_at_its_record_only(copy: Path) -> None:
    path = copy / "train-00001-of-00004.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    train = shardfeed.open(copy)["train"]
    errors = []
    for i in range(len(train)):
        try:
            train[i]
        except RecordError as error:
            errors.append(str(error))
    assert len(errors) == 1
    assert "train-00001-of-00004.tfrecord, record" in errors[0]
    assert "damaged" in errors[0]


@pytest.mark.promise(20, 23, 24)
@pytest.mark.parametrize(("folder", "suffix"), [("", "tfrecord"), ("index/", "tfindex")])
def test_open_lists_what_is_missing_cut_or_foreign(copy: Path, folder: str, suffix: str) -> None:
    (copy / f"{folder}train-00002-of-00004.{suffix}").unlink()
    cut = copy / f"{folder}train-00003-of-00004.{suffix}"
    cut.write_bytes(cut.read_bytes()[:-1])
    shutil.copy(copy / f"{folder}train-00000-of-00004.{suffix}", copy / f"{folder}train-00000-of-00016.{suffix}")
    with pytest.raises(IntegrityError) as caught:
        shardfeed.open(copy)
    text = str(caught.value)
    assert f"{folder}train-00002-of-00004.{suffix} is missing" in text
    assert f"{folder}train-00003-of-00004.{suffix} has" in text
    assert f"{folder}train-00000-of-00016.{suffix} is not part of it" in text


@pytest.mark.promise(24)
def test_a_foreign_index_is_refused(copy: Path) -> None:
    """Same size, other content."""
    path = copy / "index/validation-00000-of-00002.tfindex"
    data = path.read_bytes()
    last = data.splitlines()[-1].split()
    forged = data[: -len(last[1]) - 1] + (b"9" if last[1][:1] != b"9" else b"8") + last[1][1:] + b"\n"
    assert len(forged) == len(data)
    assert forged != data
    path.write_bytes(forged)
    with pytest.raises(IntegrityError, match="the index is not the one"):
        shardfeed.open(copy)["validation"][0]


def test_a_directory_that_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no manifest.json in it; give the directory of a completed `shardfeed convert`"
    ):
        shardfeed.open(tmp_path)


def test_a_manifest_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(UsageError, match=r"not a dataset: its manifest.json is a directory"):
        shardfeed.open(tmp_path)

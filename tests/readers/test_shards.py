"""A split's shard files: whichever records are asked for, in that order, and few files open at a time."""

import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.pipelines import cached
from shardfeed.readers import Dataset
from shardfeed.readers.shards import Shards, read_view
from shardfeed.storage.storage import LOCAL, Entry, LocalStorage, OpenFile

LOADERS = ("torch", "tensorflow")  # the slow ones


class Counting(LocalStorage):
    """The local disk, with a list of what was opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def entries(self, directory: str) -> list[Entry]:
        return super().entries(directory)

    def open(self, path: str, size: int | None = None) -> OpenFile:
        self.opened.append(Path(path).name)
        return super().open(path, size)


def shards(flowers: Dataset, storage: LocalStorage | None = None) -> Shards:
    return Shards(flowers.directory, flowers.manifest.splits["train"], storage=storage or LOCAL)


def test_any_places_in_any_order(flowers: Dataset) -> None:
    of_train = shards(flowers)
    count = of_train.info.records
    all_of_them = of_train.payloads(np.arange(count))
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, count, 3 * count):
        places = rng.integers(0, count, size)
        assert of_train.payloads(places) == [all_of_them[place] for place in places]
    assert of_train.payloads(np.empty(0, np.int64)) == []
    assert of_train.payloads(np.arange(count)[::-1]) == all_of_them[::-1]


def test_firsts_and_sizes_cover_the_split(flowers: Dataset) -> None:
    of_train = shards(flowers)
    info = of_train.info
    assert np.diff(of_train.firsts).tolist() == [shard.records for shard in info.shards]
    for number, shard in enumerate(info.shards):
        view = of_train.view(number)
        assert len(view) == shard.records
        assert view.sizes.sum() == shard.data.size
        assert of_train.view(number) is view, "read once"


def test_a_place_has_a_name(flowers: Dataset) -> None:
    of_train = shards(flowers)
    second = int(of_train.firsts[1])
    offset = int(of_train.view(1).sizes[0])
    assert of_train.place(second + 1) == f"{of_train.path(1)}, record 1, offset {offset}"
    assert of_train.place(0) == f"{of_train.path(0)}, record 0, offset 0"


def test_all_is_read_through_the_storage(flowers: Dataset) -> None:
    storage = Counting()
    data = shardfeed.open(flowers.directory, storage=storage)
    assert storage.opened == ["manifest.json"]
    train = data["train"]
    train[0]
    assert storage.opened[1:] == [
        "train-00000-of-00004.tfindex",
        "train-00000-of-00004.tfrecord",
        "manifest.json",  # whether it is still the one that was opened
    ]
    train[1]
    assert len(storage.opened) == 4, "files stay open"
    train.column("image/height")
    assert storage.opened[4:] == ["train.image.height.npy"]
    assert shardfeed.readers.verify(flowers.directory, storage=storage).damages == []


class Elsewhere(Counting):
    """Files that only it can read: their paths are those of no file on the local disk."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root

    def entries(self, directory: str) -> list[Entry]:
        return super().entries(directory.replace("elsewhere://flowers", self.root))

    def open(self, path: str, size: int | None = None) -> OpenFile:
        assert path.startswith("elsewhere://flowers/"), path
        return super().open(path.replace("elsewhere://flowers", self.root), size)


def test_a_copy_is_read_from_the_local_disk(flowers: Dataset, tmp_path: Path) -> None:
    storage = Elsewhere(flowers.directory)
    data = shardfeed.open("elsewhere://flowers", storage=storage)
    assert data.directory == "elsewhere://flowers"
    train, expected = data["train"], list(flowers["train"].payloads(np.arange(len(data["train"]))))
    copy = cached(train, tmp_path)
    part = cached(train[:3], tmp_path)  # of one shard
    storage.opened.clear()
    assert pickle.loads(pickle.dumps(copy)).payloads(np.arange(len(train))) == expected
    assert copy.payloads(np.arange(len(train))) == expected
    assert storage.opened == []
    assert part.whole_split.payloads(np.arange(len(train))) == expected
    assert storage.opened.count("train-00001-of-00004.tfrecord") == 1
    assert "train-00000-of-00004.tfrecord" not in storage.opened
    copy.column("image/height")
    assert storage.opened[-1] == "train.image.height.npy"


def test_few_files_stay_open(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "most_open", 2)
    storage = Counting()
    of_train = shards(flowers, storage)
    for _ in range(2):
        for first in of_train.firsts[:-1]:
            of_train.payloads(np.array([first]))
    assert len(of_train._files) == 2
    assert sum(name.endswith(".tfrecord") for name in storage.opened) == 8
    assert sum(name.endswith(".tfindex") for name in storage.opened) == 4
    gc.collect()  # what other tests left open
    before = open_files(flowers.directory)
    del of_train
    gc.collect()
    assert open_files(flowers.directory) == before - 2


def open_files(directory: str) -> int:
    """Descriptors of this process that are of files in a directory."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found += os.readlink(path).startswith(directory)
    return found


def test_pickles_without_what_was_read(flowers: Dataset) -> None:
    of_train = shards(flowers)
    size = len(pickle.dumps(of_train))
    expected = of_train.payloads(np.arange(20))
    assert len(pickle.dumps(of_train)) == size
    assert pickle.loads(pickle.dumps(of_train)).payloads(np.arange(20)) == expected


def test_an_index_of_another_shard(flowers: Dataset, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "copy"))
    info = flowers.manifest.splits["train"]
    shutil.copy(copy / info.index_file(0), copy / info.index_file(1))
    assert len(read_view(str(copy), info, 0)) == info.shards[0].records
    with pytest.raises(IntegrityError, match=r"index/train-00001-of-00004\.tfindex: the index is not the one"):
        read_view(str(copy), info, 1)


def test_a_shard_that_goes_while_it_is_read(flowers: Dataset, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "copy"))
    train = shardfeed.open(copy)["train"]
    of_train = train.shards
    expected = of_train.payloads(np.array([0]))
    shutil.rmtree(copy)
    assert of_train.payloads(np.array([0])) == expected, "what is open stays"
    with pytest.raises(IntegrityError, match="its manifest was deleted since it was opened"):
        of_train.payloads(of_train.firsts[1:2])


def test_a_cut_shard_names_the_record(flowers: Dataset, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "copy"))
    of_train = shardfeed.open(copy)["train"].shards
    path = Path(of_train.path(0))
    path.write_bytes(path.read_bytes()[:-1])
    last = int(of_train.firsts[1]) - 1
    for places in (np.array([last]), np.arange(last - 3, last + 1)):
        with pytest.raises(RecordError, match=rf"{path.name}, record {last}, offset \d+: "):
            of_train.payloads(places)


FEW = """
import os, resource, sys
import shardfeed
from shardfeed.errors import StorageError

train = shardfeed.open(sys.argv[1])["train"]
loaders = {
    "array": lambda: shardfeed.array_batches(train, batch_size=8, image_size=16),
    "torch": lambda: shardfeed.torch_loader(train, batch_size=8, image_size=16, workers=0),
    "tensorflow": lambda: shardfeed.train_batches(train, batch_size=8, image_size=16),
    "none left": lambda: shardfeed.array_batches(train, batch_size=8, image_size=16),
}
expected = sum(1 for _ in loaders[sys.argv[2]]())  # which loads all modules
train = shardfeed.open(sys.argv[1])["train"]
limit = max(map(int, os.listdir("/proc/self/fd"))) + 12
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
batches = loaders[sys.argv[2]]()
held = []
while sys.argv[2] == "none left":
    try:
        held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        break
try:
    assert sum(1 for _ in batches) == expected
    print("all read")
except StorageError as error:
    for descriptor in held:
        os.close(descriptor)
    print(error)
"""


@pytest.mark.promise(77)
@pytest.mark.parametrize("loader", ["array", "none left", *(pytest.param(n, marks=pytest.mark.long) for n in LOADERS)])
def test_a_loader_reads_more_shards_than_it_has_descriptors(flowers_folder: Path, tmp_path: Path, loader: str) -> None:
    convert(ImageFolder(flowers_folder), tmp_path / "data", shards=40)
    done = subprocess.run(
        [sys.executable, "-c", FEW, str(tmp_path / "data"), loader], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = "Too many open files .*ulimit -n" if loader == "none left" else "all read"
    assert re.search(said, done.stdout), done.stdout

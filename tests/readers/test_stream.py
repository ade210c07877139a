import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import UsageError
from shardfeed.readers import Dataset, Split
from shardfeed.readers.shards import Shards
from shardfeed.readers.split import ShardSlice
from shardfeed.readers.tensorflow import shuffled, stream
from shardfeed.readers.tensorflow.shuffled import INTERLEAVED_SHARDS
from shardfeed.readers.tensorflow.stream import serialized_records, shuffled_places


@pytest.fixture(scope="module")
def many_shards(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """More shards than are read at a time, of unequal length."""
    out = tmp_path_factory.mktemp("many") / "flowers"
    convert(ImageFolder(flowers_folder), out, split={"train": 1.0}, shards=INTERLEAVED_SHARDS + 5, workers=1)
    return shardfeed.open(out)["train"]


def numbers(split: Split, whole: Split | None = None, **options: int) -> list[int]:
    """The places of a stream's records in the whole split; each is compared with the one random access gives.

    In shuffled order, the stream of places alone is compared, too.
    """
    found = []
    for index, record in serialized_records(split, **options).as_numpy_iterator():
        assert record == (whole or split).payload(int(index))
        found.append(int(index))
    if "seed" in options:
        assert [int(place) for place in shuffled_places(split, **options).as_numpy_iterator()] == found
    return found


def test_stored_order(flowers: Dataset, many_shards: Split) -> None:
    for split in (flowers["train"], flowers["validation"], many_shards):
        assert numbers(split) == list(range(len(split)))


def in_page_cache(path: str) -> bool:
    """Whether the first and the last byte of a file can be read without the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        for start in (0, os.fstat(fd).st_size - 1):
            os.preadv(fd, [bytearray(1)], start, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def test_records_in_the_buffer_are_in_the_page_cache(many_shards: Split) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk, unlike other tests' files
        shutil.copytree(many_shards.shards.directory, Path(folder, "copy"))
        split = shardfeed.open(Path(folder, "copy"))["train"]
        paths = [piece.path for piece in split.shard_slices()]
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)  # the page cache keeps what is not written yet
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        try:
            kept = any(map(in_page_cache, paths))
        except OSError as error:
            pytest.skip(f"/var/tmp is on a file system that cannot tell what is in the page cache: {error}")
        if kept:
            pytest.skip("the kernel kept pages that it was told to drop, as it may")
        next(iter(shuffled_places(split, seed=5, shuffle_buffer=len(split))))
        assert all(map(in_page_cache, paths))


def test_skipped_records_are_not_read(many_shards: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    load = Shards.load

    def noted(self: Shards, places: np.ndarray) -> None:
        loaded.extend(places.tolist())
        load(self, places)

    monkeypatch.setattr(Shards, "load", noted)
    monkeypatch.setattr(stream, "_LOAD_RECORDS", 1)
    monkeypatch.setattr(stream, "READ_BYTES", 1)
    options = {"seed": 5, "shuffle_buffer": 8}
    whole = list(shuffled_places(many_shards, **options).as_numpy_iterator())
    assert sorted(loaded) == list(range(len(many_shards)))
    loaded.clear()
    assert list(shuffled_places(many_shards, **options, unread=100).as_numpy_iterator()) == whole
    expected = len(many_shards) - (100 - 8)
    assert expected - 16 <= len(loaded) <= expected + 16  # threads count without a lock


@pytest.mark.long
@pytest.mark.parametrize("part", [slice(0, 1), slice(3, 150), slice(40, 45), slice(-5, None), slice(None, 42)])
def test_a_slice_is_its_part_of_the_split(flowers: Dataset, part: slice) -> None:
    split = flowers["train"]
    expected = list(range(len(split)))[part]
    assert numbers(split[part], split) == expected
    assert sorted(numbers(split[part], split, seed=1, shuffle_buffer=7)) == expected


def test_shuffled_is_a_permutation(flowers: Dataset, many_shards: Split) -> None:
    for split in (flowers["train"], many_shards):
        found = numbers(split, seed=5, shuffle_buffer=32)
        assert sorted(found) == list(range(len(split)))
        assert found != list(range(len(split)))


@pytest.mark.long
def test_the_order_is_a_function_of_the_seed(many_shards: Split) -> None:
    first = numbers(many_shards, seed=5, shuffle_buffer=32)
    assert numbers(many_shards, seed=5, shuffle_buffer=32) == first
    assert numbers(many_shards, seed=6, shuffle_buffer=32) != first
    assert numbers(many_shards, seed=5, shuffle_buffer=33) != first
    assert numbers(many_shards, seed=0, shuffle_buffer=32) != numbers(many_shards, seed=-1, shuffle_buffer=32)


def test_the_order_does_not_depend_on_parallelism(many_shards: Split, flowers: Dataset) -> None:
    for split in (many_shards, flowers["train"]):
        first = numbers(split, seed=5, shuffle_buffer=16, parallelism=1)
        for parallelism in (2, 8, 64):
            assert numbers(split, seed=5, shuffle_buffer=16, parallelism=parallelism) == first


@pytest.mark.long
@pytest.mark.parametrize("global_seed", [0, 1])
def test_the_order_does_not_depend_on_the_global_seed(flowers: Dataset, global_seed: int) -> None:
    split = flowers["train"]
    expected = numbers(split, seed=5, shuffle_buffer=16)
    tf.random.set_seed(global_seed)
    before = tf.random.uniform([]).numpy()
    tf.random.set_seed(global_seed)
    assert numbers(split, seed=5, shuffle_buffer=16) == expected
    assert tf.random.uniform([]).numpy() == before, "the caller's own randomness was changed"


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch starts with a small buffer as soon as the large one holds sixteen records."""
    monkeypatch.setattr(shuffled, "START_BYTES", 1)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("buffer", [16, 160, 1000])
@pytest.mark.parametrize("part", [slice(None), slice(0, 1), slice(3, 150)])
@pytest.mark.long
def test_an_epoch_that_starts_early_is_a_permutation(
    flowers: Dataset, many_shards: Split, part: slice, buffer: int
) -> None:
    for split in (flowers["train"], many_shards):
        expected = list(range(len(split)))[part]
        first = numbers(split[part], split, seed=5, shuffle_buffer=buffer)
        assert sorted(first) == expected
        assert numbers(split[part], split, seed=5, shuffle_buffer=buffer, parallelism=8) == first


@pytest.mark.usefixtures("early")
def test_an_early_start_takes_few_shards(many_shards: Split) -> None:
    """An eighth of the buffer's worth comes first, and only then what waited for the large buffer."""
    slices = many_shards.shard_slices()
    mean = len(many_shards) / len(slices)
    shards = 3
    found = numbers(many_shards, seed=5, shuffle_buffer=round(8 * shards * mean))
    owners = [max(i for i, s in enumerate(slices) if s.first <= number) for number in found]
    early = set(owners[: round(shards * (mean - 1))])
    assert len(early) == shards
    count = sum(slices[i].take for i in early)
    assert set(owners[:count]) == early
    assert not early & set(owners[count:])
    # What follows went through the large buffer: it is not in runs of shards any more.
    assert len(set(owners[count : count + 20])) > 5


@pytest.mark.usefixtures("early")
def test_a_large_shard_is_cut_for_an_early_start(flowers: Dataset) -> None:
    split = flowers["train"]
    largest = max(s.take for s in split.shard_slices())
    buffer = 8 * (largest // 4)
    found = numbers(split, seed=5, shuffle_buffer=buffer)
    first = found[: buffer // 8]
    assert max(first) - min(first) < buffer // 8, "not the first records of one shard"


@pytest.mark.usefixtures("early")
@pytest.mark.long
@pytest.mark.parametrize(
    "sizes",
    [pytest.param([500] * 20, id="equal"), pytest.param([50] * 400 + [500] * 10, id="uneven")],
)
def test_no_more_is_held_than_the_buffer(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted as they are read: the buffer, and what the interleaved shards have at hand."""
    read: list[int] = []

    def counted(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
        def count(number: np.ndarray) -> np.ndarray:
            read.append(int(number))
            return number

        first = shard["first"] + shard["skip"]
        length = tf.where(shard["take"] < 0, shard["records"] - shard["skip"], shard["take"])
        numbers = tf.data.Dataset.range(first, first + length)
        return numbers.map(lambda n: (tf.ensure_shape(tf.numpy_function(count, [n], tf.int64), []), tf.as_string(n)))

    class Part:
        record_bytes = 1000 * sum(sizes)

        def __len__(self) -> int:
            return sum(sizes)

        def shard_numbers(self) -> list[int]:
            return []  # none that is not a local file

        def shard_slices(self) -> list[ShardSlice]:
            firsts = np.cumsum([0, *sizes]).tolist()
            return [ShardSlice(f"{i}", firsts[i], 0, size, size) for i, size in enumerate(sizes)]

    monkeypatch.setattr(stream, "_shard_records", counted)
    nothing = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.constant(b""))).take(0)
    monkeypatch.setattr(stream, "look_at_manifests", lambda split: nothing)
    split: Any = Part()
    iterator = iter(serialized_records(split, seed=5, shuffle_buffer=2000, parallelism=2))
    found = [int(next(iterator)[0]) for _ in range(4000)]
    while len(read) - len(found) < 2000:  # as many as the buffer holds
        time.sleep(0.01)
    time.sleep(0.3)  # for more, which would be wrong
    # How far each interleaved shard is ahead depends on its thread.
    assert 2000 <= len(read) - len(found) < 4000
    found += [int(number) for number, _ in iterator]
    assert sorted(found) == list(range(sum(sizes)))


def test_a_small_buffer_is_not_started_early(many_shards: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = numbers(many_shards, seed=5, shuffle_buffer=80)
    monkeypatch.setattr(shuffled, "START_BYTES", many_shards.record_bytes)
    assert numbers(many_shards, seed=5, shuffle_buffer=80) == usual
    monkeypatch.setattr(shuffled, "START_BYTES", 1)
    assert numbers(many_shards, seed=5, shuffle_buffer=80) != usual


def test_shards_are_shuffled_and_interleaved_without_a_buffer(many_shards: Split) -> None:
    starts = [s.first for s in many_shards.shard_slices()]
    found = numbers(many_shards, seed=5, shuffle_buffer=1)
    seen = [max(start for start in starts if start <= number) for number in found]
    assert seen[0] != 0 or seen != sorted(seen)
    first_round = list(dict.fromkeys(seen))[:INTERLEAVED_SHARDS]
    assert first_round != sorted(first_round)
    again = seen[len(seen) // 2 :]
    assert set(again) & set(seen[: len(seen) // 2]), "shards are convert them separately"


def test_reading_only_what_is_asked(flowers: Dataset) -> None:
    assert len(numbers(flowers["train"][10:12], flowers["train"])) == 2


def test_step_and_empty_are_refused(flowers: Dataset) -> None:
    with pytest.raises(UsageError, match="are not consecutive"):
        serialized_records(flowers["train"][::2])
    with pytest.raises(UsageError, match=r"train.*no samples"):
        serialized_records(flowers["train"][:0])


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Split:
    """A split whose files a test may damage after it was opened."""
    shutil.copytree(flowers.directory, tmp_path / "copy")
    return shardfeed.open(tmp_path / "copy")["train"]


def test_any_directory_name(flowers: Dataset, tmp_path: Path) -> None:
    place = tmp_path / "W\u00f6rter, \udcff und *"
    shutil.copytree(flowers.directory, place)
    assert len(numbers(shardfeed.open(place)["train"])) == len(flowers["train"])


def damage(split: Split, change: str) -> None:
    """Change the second shard of `split`."""
    path = Path(split.shard_slices()[1].path)
    data = path.read_bytes()
    index = path.parent / "index" / path.with_suffix(".tfindex").name
    start, size = (int(n) for n in index.read_text().splitlines()[-1].split())
    if change == "cut":
        changed = data[:start]  # between two records: TensorFlow alone takes it for a shorter shard
    elif change == "doubled":
        changed = data + data[start:]
    elif change == "flipped":
        middle = start + size // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    else:
        path.unlink()
        return
    assert changed != data
    path.write_bytes(changed)


@pytest.mark.promise(19, 20, 23)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("cut", tf.errors.FailedPreconditionError),
        ("doubled", tf.errors.FailedPreconditionError),
        ("flipped", tf.errors.DataLossError),
        ("missing", tf.errors.NotFoundError),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_damage_raises(copy: Split, change: str, error: type[Exception], seed: int | None) -> None:
    damage(copy, change)
    with pytest.raises(error):
        list(serialized_records(copy, seed=seed, shuffle_buffer=4))

"""A damaged record while training: raise, or leave out exactly that one, count it, and go on up to a limit."""

import pickle
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.errors import IntegrityError, RecordError, UsageError
from shardfeed.pipelines import (
    Blocks,
    Stream,
    distribute,
    distribute_eval,
    eval_batches,
    make_batches,
    mix,
    train_batches,
)
from shardfeed.readers import Dataset, Skip, Split
from shardfeed.readers.skip import read_intact
from shardfeed.readers.tensorflow.stream import serialized_records

pytestmark = [pytest.mark.promise(26), pytest.mark.timeout(120)]

# Which byte of a record's frame is changed: (from its start or, negative, its end).
PLACES = {"length": 0, "length's CRC": 9, "data": 40, "data's CRC": -2}
ORDERS: dict[str, dict[str, Any]] = {
    "stream": {"order": Stream(buffer=13)},
    "global": {"order": "global"},
    "blocks": {"order": Blocks(buffer=13)},
    "stored": {"order": "stored"},
}


def damage(directory: Path, split: Split, sample: int, kind: str) -> None:
    """Change one byte of the record of `sample`."""
    shards = split.shards
    shard = int(np.searchsorted(shards.firsts, sample, "right")) - 1
    offsets = np.cumsum([0, *shards.view(shard).sizes])
    row = sample - int(shards.firsts[shard])
    offset = int(offsets[row] + PLACES[kind] if PLACES[kind] >= 0 else offsets[row + 1] + PLACES[kind])
    path = directory / Path(shards.path(shard)).name
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    assert path.read_bytes() != data
    path.write_bytes(data)


Damaged = Callable[..., Split]


@pytest.fixture
def damaged(flowers: Dataset, tmp_path: Path) -> Damaged:
    """Return a function that copies the flowers, damages records of train (sample -> kind) and opens train."""

    def make(samples: dict[int, str]) -> Split:
        copy = Path(shutil.copytree(flowers.directory, tmp_path / "copy"))
        for sample, kind in samples.items():
            damage(copy, flowers["train"], sample, kind)
        return shardfeed.open(copy)["train"]

    return make


def numbers(features: Any, seed: tf.Tensor) -> tf.Tensor:
    """(the sample that was meant, the sample that was given)."""
    return tf.stack([seed[1], tf.strings.to_number(features["image/source_id"], tf.int64)])


def epoch(split: Split, skip: Skip | None, **options: Any) -> np.ndarray:
    """int64 [n, 2], as `numbers`."""
    options = {"batch_size": 8, "keys": ["image/source_id"], "workers": 2, **options}
    found = [batch.numpy() for batch in make_batches(split, numbers, damaged=skip, **options)]
    return np.concatenate(found)


def all_of(count: int, size: int = 8) -> int:
    return count // size * size


BAD = {0: "length", 31: "data", 32: "length's CRC", 90: "data's CRC"}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", PLACES)
def test_raising_is_the_default(damaged: Damaged, order: str, kind: str) -> None:
    split = damaged({37: kind})
    with pytest.raises(tf.errors.OpError, match=r"corrupted|record 37|damaged"):
        epoch(split, None, drop_remainder=False, **ORDERS[order])


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
@pytest.mark.parametrize("order", ORDERS)
def test_exactly_the_damaged_ones_are_left_out(damaged: Damaged, order: str) -> None:
    split = damaged(BAD)
    skip = Skip(len(BAD))
    found = epoch(split, skip, drop_remainder=False, **ORDERS[order])
    assert sorted(found[:, 1].tolist()) == sorted(set(range(len(split))) - BAD.keys())
    assert (found[:, 0] == found[:, 1]).all()
    places = [int(str(error).split("record ")[1].split(",")[0]) for error in skip.found]
    firsts = split.shards.firsts.tolist()
    assert len(places) == 4
    assert {place + first for place in places for first in firsts} >= set(BAD)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
@pytest.mark.parametrize("order", ORDERS)
def test_steps_stay_what_they_are(damaged: Damaged, flowers: Dataset, order: str) -> None:
    """In training an intact neighbour takes the place: every other sample of every step is the undamaged run's."""
    split = damaged(BAD)
    skip = Skip(10)
    options = {"seed": 5, "keys": ["image/source_id"], "batch_size": 8, "workers": 2}
    options |= ORDERS[order]
    steps = 2 * (len(split) // 8) + 3
    whole = np.stack(
        [*make_batches(flowers["train"], numbers, start_step=0, **options).take(steps).as_numpy_iterator()]
    )
    found = np.stack(
        [*make_batches(split, numbers, damaged=skip, start_step=0, **options).take(steps).as_numpy_iterator()]
    )
    assert (found[..., 0] == whole[..., 0]).all(), "the augmentation is that of the sample that was meant"
    replaced = np.isin(whole[..., 1], list(BAD))
    assert replaced.any()
    assert ((found[..., 1] == whole[..., 1]) | replaced).all()
    assert not np.isin(found[..., 1], list(BAD)).any()
    assert len(skip.found) <= len(BAD), "each is counted once, not once an epoch"
    for start in (1, steps // 2, steps - 2):
        resumed = make_batches(split, numbers, damaged=skip, start_step=start, **options)
        again = np.stack([*resumed.take(2).as_numpy_iterator()])
        assert (again == found[start : start + 2]).all(), "and so does a resumed run"


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
@pytest.mark.parametrize("order", ORDERS)
def test_past_the_limit_it_raises(damaged: Damaged, order: str) -> None:
    split = damaged(BAD)
    skip = Skip(len(BAD) - 1)
    with pytest.raises(tf.errors.OpError, match="damaged record number 4, 3 may be left out"):
        epoch(split, skip, drop_remainder=False, **ORDERS[order])
    assert len(skip.found) == 3


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
def test_a_cut_shard(damaged: Damaged) -> None:
    """All records behind the cut are damaged: few may be left out, so a shard that is gone is never silent."""
    split = damaged({})
    path = Path(split.shards.path(1))
    offsets = np.cumsum([0, *split.shards.view(1).sizes])
    path.write_bytes(path.read_bytes()[: int(offsets[-4]) + 5])
    for options in ORDERS.values():
        skip = Skip(3)
        found = epoch(split, skip, drop_remainder=False, **options)
        assert (len(found), len(skip.found)) == (len(split) - 3, 3)
        with pytest.raises(tf.errors.OpError, match="number 3, 2 may be left out"):
            epoch(split, Skip(2), drop_remainder=False, **options)
    path.unlink()
    opened_anew = pickle.loads(pickle.dumps(split))
    with pytest.raises(tf.errors.OpError, match="missing: the manifest has this shard"):
        epoch(opened_anew, Skip(1000), drop_remainder=False, order="global")


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
def test_a_damaged_index_cannot_be_skipped(damaged: Damaged) -> None:
    split = damaged({})
    index = Path(split.shards.directory) / "index" / Path(split.shards.path(2)).with_suffix(".tfindex").name
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    for options in ORDERS.values():
        skip = Skip(1000)
        with pytest.raises(tf.errors.OpError, match="index"):
            epoch(split, skip, drop_remainder=False, **options)
        assert not skip.found


def test_each_is_warned_of_once_and_named(damaged: Damaged) -> None:
    split = damaged({5: "data", 60: "length"})
    skip = Skip(9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert len([*split.without_damaged(skip)]) == len(split) - 2
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert "left out, 1 of at most 9" in texts[0]
    assert "train-00000-of-00004.tfrecord, record 5, offset" in texts[0]
    assert repr(skip) == "Skip(9), 2 left out"


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
def test_a_split_by_itself(damaged: Damaged) -> None:
    split = damaged(BAD)
    whole = [int(record["image/source_id"]) for record in split.without_damaged(Skip(4))]  # type: ignore[arg-type]  # bytes
    assert whole == sorted(set(range(len(split))) - BAD.keys())
    part = [int(record["image/source_id"]) for record in split[30:34].without_damaged(Skip(2))]  # type: ignore[arg-type]  # bytes
    assert part == [30, 33]
    with pytest.raises(RecordError):
        split[31]
    with pytest.raises(UsageError, match="damaged: got 10, expected Skip"):
        split.without_damaged(10)  # type: ignore[arg-type]
    left = split.without_damaged(Skip(1))
    with pytest.raises(IntegrityError, match=r"number 2, 1 may be left out.*salvage"):
        list(left)


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
def test_evaluation_counts_the_others_once(damaged: Damaged) -> None:
    split = damaged(BAD)
    labels = Counter()
    for images, batch in eval_batches(split, batch_size=16, image_size=8, damaged=Skip(4)):
        assert len(images) == len(batch)
        labels.update(batch.numpy().tolist())
    truth = Counter(split.column("image/class/label")[sorted(set(range(len(split))) - BAD.keys())].tolist())
    assert labels == truth

    strategy = tf.distribute.get_strategy()
    feed = distribute_eval(strategy, split, batch_size=16, transform=numbers, damaged=Skip(4))
    seen: list[int] = []
    steps = 0
    for made, mask in feed.batches:
        assert len(made) == 16
        seen += made.numpy()[mask.numpy()][:, 1].tolist()
        steps += 1
    assert steps == feed.steps
    assert sorted(seen) == sorted(set(range(len(split))) - BAD.keys())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
def test_the_other_entrances(damaged: Damaged, flowers: Dataset) -> None:
    split = damaged(BAD)
    for order in ("stream", "global"):
        skip = Skip(4)
        batches = train_batches(split, batch_size=10, image_size=8, order=order, damaged=skip)
        assert batches.cardinality().numpy() == len([*batches]) == len(split) // 10
        assert len(skip.found) >= 3, "ten samples at most are not part of the epoch"
        skip = Skip(4)
        feed = distribute(tf.distribute.get_strategy(), split, batch_size=8, image_size=8, order=order, damaged=skip)
        for _, batch in zip(range(2 * feed.steps_per_epoch), feed.batches, strict=False):
            assert batch[0].shape == (8, 8, 8, 3)
        assert skip.found
    skip = Skip(4)
    mixture = mix([(split, 1), (flowers["validation"], 1)])
    assert len([*make_batches(mixture, numbers, batch_size=8, keys=["image/source_id"], damaged=skip)])
    assert skip.found


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
@pytest.mark.parametrize("bounds", [(0, 50), (31, 33), (70, 120)])
def test_records_as_a_stream(damaged: Damaged, bounds: tuple[int, int]) -> None:
    split = damaged(BAD)[slice(*bounds)]
    wanted = [i for i in range(*bounds) if i not in BAD]
    for seed in (None, 3):
        found = [*serialized_records(split, seed=seed, shuffle_buffer=9, damaged=Skip(4)).as_numpy_iterator()]
        assert sorted(int(place) for place, _ in found) == wanted
        for place, payload in found:
            assert payload == split.whole_split.payload(int(place))
    if bounds != (31, 33):
        filled = [*serialized_records(split, damaged=Skip(4), fill=True).as_numpy_iterator()]
        assert [int(place) for place, _ in filled] == list(range(*bounds))
    else:
        with pytest.raises(tf.errors.OpError, match="2 records read together are all damaged"):
            list(serialized_records(split, damaged=Skip(4), fill=True))


def test_pickles_with_its_count(damaged: Damaged) -> None:
    split = damaged({5: "data"})
    skip = Skip(2)
    with pytest.warns(RuntimeWarning, match="left out"):
        list(split.without_damaged(skip))
    copy = pickle.loads(pickle.dumps(skip))
    assert (copy.limit, [str(error) for error in copy.found]) == (2, [str(error) for error in skip.found])
    list(split.without_damaged(copy))


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3", None])
def test_bad_limits(limit: Any) -> None:
    with pytest.raises(UsageError, match="limit: got"):
        Skip(limit)


@pytest.mark.parametrize(
    ("wanted", "payloads", "again"),
    [
        ([2, 3, 4, 5], [2, 2, 2, 5], [False, True, True, False]),
        ([3, 4, 5, 6], [5, 5, 5, 6], [True, True, False, False]),
        ([0, 1, 2], [1, 1, 2], [True, False, False]),
        ([7, 9, 8], [7, 9, 8], [False, False, False]),
        ([], [], []),
    ],
)
def test_a_damaged_record_is_replaced_by_its_neighbour(
    damaged: Damaged, wanted: list[int], payloads: list[int], again: list[bool]
) -> None:
    split = damaged(dict.fromkeys((0, 3, 4), "data"))
    noted: list[RecordError] = []
    options: dict[str, Any] = {"note": noted.append, "place": "here"}
    indices = np.array(wanted, np.int64)
    filled = read_intact(split.payloads, indices, fill=True, **options)
    assert filled.payloads == [split.payload(index) for index in payloads]
    assert (filled.rows.tolist(), filled.again.tolist()) == ([*range(len(wanted))], again)
    left = read_intact(split.payloads, indices, fill=False, **options)
    assert left.payloads == [split.payload(index) for index in wanted if index not in (0, 3, 4)]
    assert (left.rows.tolist(), left.again.any()) == ([row for row, one in enumerate(again) if not one], False)
    assert len(noted) == 2 * sum(again)
    with pytest.raises(IntegrityError, match="here: 2 records"):
        read_intact(split.payloads, np.array([3, 4]), fill=True, **options)

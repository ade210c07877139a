"""The files of a backup: written whole, read back exactly, refused when they changed."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_values import BAD_STEPS, GOOD_STEPS, Odd

from shardfeed.errors import IntegrityError, StorageError, UsageError
from shardfeed.pipelines import order_samples
from shardfeed.pipelines.orders.order import GlobalOrder
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.tensorflow.backup import SavedState
from shardfeed.pipelines.tensorflow.distribute import Feed
from shardfeed.readers import Dataset

ORDER = GlobalOrder("ab" * 16, 1000, 8, 1000, 3)
VALUES = [
    np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    np.float32(np.nan).reshape(()),
    np.array([2**40, -1], np.int64),
    np.array([2**32 - 1], np.uint32),
    np.zeros((0, 5), np.float16),
    np.array([True, False]),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
]


def save(directory: Path, step: int = 7, values: list[np.ndarray] = VALUES) -> SavedState:
    named = ((f"layer/kernel {number}", value) for number, value in enumerate(values))
    return SavedState.save(str(directory), Position(step, ORDER), "step", named)


def test_there_and_back(tmp_path: Path) -> None:
    assert SavedState.load(str(tmp_path)) is None
    saved = save(tmp_path)
    assert SavedState.load(str(tmp_path)) == saved
    assert (saved.position, saved.before, saved.variables) == (Position(7, ORDER), "step", "step-00000007.npz")
    found = saved.read(str(tmp_path))
    for value, wanted in zip(found, VALUES, strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        assert value.tobytes() == wanted.tobytes()
    # Anyone can read it.
    names = np.load(tmp_path / saved.variables).files
    assert names[:2] == ["0 layer/kernel 0", "1 layer/kernel 1"]


def test_a_type_that_numpy_lacks_is_bytes(tmp_path: Path) -> None:
    import tensorflow as tf

    wanted = tf.constant([1.5, -3.0], tf.bfloat16).numpy()
    (found,) = save(tmp_path, values=[wanted]).read(str(tmp_path))
    assert found.dtype.kind == "V"
    assert found.view(wanted.dtype).tolist() == [1.5, -3.0]


def test_the_next_one_replaces_it_and_what_a_kill_left(tmp_path: Path) -> None:
    save(tmp_path)
    for name in ("step-00000099.npz.partial", "step-00000008.npz", "backup.json.partial", "mine.npz"):
        (tmp_path / name).write_bytes(b"left")
    saved = save(tmp_path, 9)
    assert SavedState.load(str(tmp_path)) == saved
    assert sorted(os.listdir(tmp_path)) == ["backup.json", "mine.npz", "step-00000009.npz"]


def test_a_failed_one_leaves_the_one_before(tmp_path: Path) -> None:
    saved = save(tmp_path)
    os.mkdir(tmp_path / "step-00000009.npz")  # in the way
    with pytest.raises(StorageError, match=r"step-00000009\.npz: cannot rename: Is a directory"):
        save(tmp_path, 9)
    assert SavedState.load(str(tmp_path)) == saved
    assert len(saved.read(str(tmp_path))) == len(VALUES)


def test_every_changed_byte_of_the_record_is_found(tmp_path: Path) -> None:
    saved = save(tmp_path)
    record = tmp_path / "backup.json"
    good = record.read_bytes()
    for place in range(len(good) - 1):  # without the line's end
        bad = bytearray(good)
        bad[place] ^= 1
        record.write_bytes(bad)
        with suppress(IntegrityError):
            assert SavedState.load(str(tmp_path)) == saved  # one kind of white space became another
            assert json.loads(bad) == json.loads(good)
    for bad in (b"", b"null", b"[1]", b"{}", good[:-3], good.replace(b'"format": 1', b'"format": 2', 1), b"\xff"):
        record.write_bytes(bad)
        with pytest.raises(IntegrityError, match=r"backup\.json: not a "):
            SavedState.load(str(tmp_path))


def test_changed_variables_are_found(tmp_path: Path) -> None:
    saved = save(tmp_path)
    path = tmp_path / saved.variables
    good = path.read_bytes()
    for bad in (good[:-1], good + b"x", b"", good[:100] + bytes([good[100] ^ 1]) + good[101:]):
        assert bad != good
        path.write_bytes(bad)
        with pytest.raises(IntegrityError, match="changed since it was written: its checksum does not match"):
            saved.read(str(tmp_path))
    path.unlink()
    with pytest.raises(IntegrityError, match="cannot be read: No such file or directory"):
        saved.read(str(tmp_path))


@pytest.mark.promise(72)
@pytest.mark.parametrize("name", ["kernel", "a\0b", "\ud800", "a\nb", "../x", "/x", "", "x" * 300, "ü", "a\\b"])
def test_variables_of_any_name_are_read_back(name: str, tmp_path: Path) -> None:
    values = [np.arange(6.0).reshape(2, 3), np.zeros(0, np.int64)]
    for step in (0, 10**12):
        saved = SavedState.save(str(tmp_path), Position(step, ORDER), "step", [(name, value) for value in values])
        assert SavedState.load(str(tmp_path)) == saved
        assert [value.tolist() for value in saved.read(str(tmp_path))] == [value.tolist() for value in values]


@pytest.mark.promise(72)
def test_a_backup_that_could_not_be_read_leaves_the_one_before(tmp_path: Path) -> None:
    def save(step: int, before: Any, value: Any) -> Any:
        return SavedState.save(str(tmp_path), Position(step, ORDER), before, [("kernel", value)])

    saved = save(3, "step", np.zeros(3))
    zeros = np.zeros(3)
    for before, value in (("step", np.array([Odd()])), (Odd(), zeros), ({1: 2}, zeros), ("\ud83d\ude00", zeros)):
        with pytest.raises(UsageError):
            save(4, before, value)
        assert SavedState.load(str(tmp_path)) == saved
        assert len(saved.read(str(tmp_path))) == 1
    (tmp_path / "backup.json").unlink()
    (tmp_path / "backup.json").mkdir()
    with pytest.raises(StorageError):
        SavedState.load(str(tmp_path))


@pytest.mark.promise(72)
def test_positions_of_a_feed_are_read_back(flowers: Dataset) -> None:
    order = order_samples(flowers["train"], batch_size=8, order="global")[1]
    feed = Feed(order, 0, lambda step: step)  # type: ignore[arg-type, return-value]
    for step in GOOD_STEPS:
        assert feed.at(feed.position(step)).start_step == feed.at(step).start_step == int(step)
    for step in BAD_STEPS:
        with pytest.raises(UsageError):
            feed.position(step)
        with pytest.raises(UsageError):
            Feed(order, step, lambda step: step)  # type: ignore[arg-type, return-value]

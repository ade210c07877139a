"""Slots of shared memory: used again, never written over, given up when too many."""

import errno
import gc
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import StorageError
from shardfeed.pipelines.nests import put_together, take_apart
from shardfeed.pipelines.prefetch import slots
from shardfeed.pipelines.prefetch.slots import DroppedSlot, NewSlot, SlotReader, SlotWriter


class Both:
    """Both sides in one process."""

    def __init__(self, buffer: int, ours: Connection, theirs: Connection) -> None:
        self.ours = ours
        self.writer = SlotWriter(theirs, buffer, 1)
        self.reader = SlotReader()
        self.new: list[int] = []  # sizes
        self.dropped = 0

    def send(self, *arrays: np.ndarray) -> list[np.ndarray]:
        for number in self.reader.released():
            self.writer.release(number)
        rest, found = take_apart(list(arrays))
        batch = self.writer.write(rest, found)
        while self.ours.poll():
            said = self.ours.recv()
            if isinstance(said, NewSlot):
                self.reader.add(said, self.ours)
                self.new.append(said.size)
            else:
                assert isinstance(said, DroppedSlot)
                self.reader.drop(said)
                self.dropped += 1
        return self.reader.read(batch)


@pytest.fixture
def pair() -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_slots_are_used_again(pair: Any) -> None:
    both = Both(2, *pair)
    places = set()
    for index in range(50):
        (array,) = both.send(np.full(5000, index))
        places.add(array.ctypes.data)
        assert (array == index).all()
    assert both.new == [40960] * 4
    assert len(places) <= 4
    assert both.dropped == 0


def test_kept_batches_get_more_slots_which_are_dropped_later(pair: Any) -> None:
    both = Both(1, *pair)
    kept = [both.send(np.full(5000, index), np.array([index], np.int8)) for index in range(20)]
    for index, (first, second) in enumerate(kept):
        assert first[0] == first[-1] == index == second[0]
        first += 1  # it is theirs
    assert len(both.new) == 20
    views = [batch[1][:1] for batch in kept]  # one view keeps the slot of both
    del kept, first, second
    both.send(np.full(5000, -1))
    assert len(both.new) == 21
    assert [int(view[0]) for view in views] == list(range(20))
    del views
    both.send(np.full(5000, -1))
    assert both.dropped == 21 - 3
    assert len(both.new) == 21


def test_batches_of_growing_size(pair: Any) -> None:
    both = Both(1, *pair)
    for size in (10, 5000, 700, 90_000, 20, 90_000):
        (array,) = both.send(np.arange(size))
        np.testing.assert_array_equal(array, np.arange(size))
    assert set(both.new) == {4096, 40_960, 720_896}
    del array
    maps = Path("/proc/self/maps").read_text()
    assert maps.count("memfd:shardfeed-batch") <= 2 * 4  # both sides are here: no old sizes


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(1.5),
        np.zeros(3, "S0"),
        np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.arange(10)[::-3],
        np.broadcast_to(np.float32(1), (4, 5)),
        np.array([1 + 2j], ">c16"),
        np.array(["NaT"], "timedelta64[s]"),
    ],
    ids=str,
)
def test_arrays_of_all_kinds(pair: Any, array: np.ndarray) -> None:
    both = Both(1, *pair)
    found, other = both.send(array, np.arange(3))
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape, other.tolist()) == (array.dtype, array.shape, [0, 1, 2])
    assert found.ctypes.data % slots.ALIGNMENT == 0
    assert found.flags.writeable


def test_empty_arrays_first(pair: Any) -> None:
    both = Both(1, *pair)
    for size in (0, 0, 3, 0, 5000):
        array, other = both.send(np.arange(size), np.zeros((0, 3)))
        assert array.tolist() == list(range(size))
        assert other.shape == (0, 3)
    assert set(both.new) == {4096, 40_960}


def test_no_memory_for_a_slot(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = Both(2, *pair)
    monkeypatch.setattr(slots, "memory_free", lambda: 16_383)
    with pytest.raises(StorageError, match=r"16\.4 kB are needed.*smaller buffer=") as caught:
        both.send(np.zeros(100))
    assert caught.value.errno == errno.ENOMEM
    monkeypatch.setattr(slots, "memory_free", lambda: 16_384)  # four pages for four slots
    kept = [both.send(np.zeros(100)) for _ in range(4)]
    monkeypatch.setattr(slots, "memory_free", lambda: 4_095)
    with pytest.raises(StorageError):
        both.send(np.zeros(100))
    del kept
    both.send(np.zeros(100))


@pytest.mark.parametrize("limit", ["RLIMIT_FSIZE", "RLIMIT_NOFILE"])
def test_failing_system_calls_are_storage_errors(limit: str) -> None:
    """A real limit, in a process of its own: an error, no SIGBUS later."""
    code = f"""
import os, resource, signal
import numpy as np
from multiprocessing import Pipe
from shardfeed.errors import StorageError
from shardfeed.pipelines.prefetch.slots import SlotWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ours, theirs = Pipe()
writer = SlotWriter(theirs, 2, 1)
value = len(os.listdir("/proc/self/fd")) if {limit!r} == "RLIMIT_NOFILE" else 1 << 20
resource.setrlimit(resource.{limit}, (value, resource.getrlimit(resource.{limit})[1]))
try:
    writer.write(None, [np.zeros(1 << 20)])
except StorageError as error:
    print("refused", error.errno)
"""
    refused = {"RLIMIT_FSIZE": errno.EFBIG, "RLIMIT_NOFILE": errno.EMFILE}
    assert in_a_process(code) == f"refused {refused[limit]}\n"


@pytest.mark.parametrize("left", [0, 1])  # two are needed for a moment
def test_no_descriptor_left_to_receive_a_slot(left: int) -> None:
    """In a process of its own, too: elsewhere a thread of some library may close a descriptor in between."""
    code = f"""
import os, resource
import numpy as np
from multiprocessing import Pipe
from shardfeed.errors import StorageError
from shardfeed.pipelines.prefetch.slots import SlotReader, SlotWriter
ours, theirs = Pipe()
SlotWriter(theirs, 1, 1).write(None, [np.zeros(10)])
said = ours.recv()
lowest = os.dup(0)
os.close(lowest)
resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + {left}, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    SlotReader().add(said, ours)
except StorageError as error:
    print(error.errno, error)
"""
    said = in_a_process(code)
    assert re.match(rf"{errno.EMFILE} .*Too many open files: each batch.*releasing used", said), said


def in_a_process(code: str) -> str:
    """Output of a new process that runs `code`."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    return done.stdout or done.stderr


def test_taken_apart_and_put_together() -> None:
    batch = {"b": (np.arange(2), [np.arange(3), "text"]), "a": {1: np.array(4)}, "n": None}
    rest, arrays = take_apart(batch)
    assert [array.size for array in arrays] == [2, 3, 1]
    again = put_together(rest, arrays)
    assert list(again) == ["b", "a", "n"]
    assert type(again["b"]) is tuple
    assert again["b"][1][0] is arrays[1]
    assert again["b"][1][1] == "text"
    assert again["a"][1] is arrays[2]


def test_taken_apart_leaves_no_cycle() -> None:
    """Else a worker keeps batch after batch until the garbage collector comes by."""
    array = np.arange(3)
    gone = weakref.ref(array)
    assert not gc.isenabled()  # while a test runs: see conftest.py
    take_apart({"a": (array, [array])})
    del array
    assert gone() is None

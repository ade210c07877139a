"""Datasets of a web server that nothing refers to: no thread is left of them, nor a descriptor."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.pipelines import Blocks
from shardfeed.readers import Dataset, Split

from processes import until_gone
from web_server import web_server

pytest.importorskip("obstore")
pytestmark = pytest.mark.promise(77)
OPTIONS: dict[str, Any] = {"batch_size": 8, "image_size": 16}
MADE: dict[str, Callable[[Split], Any]] = {
    "array": lambda split: shardfeed.array_batches(split, start_step=0, **OPTIONS),
    "blocks": lambda split: shardfeed.array_batches(split, order=Blocks(buffer=16), **OPTIONS),
    "eval": lambda split: shardfeed.eval_array_batches(split, **OPTIONS),
    "torch": lambda split: shardfeed.torch_loader(split, workers=0, **OPTIONS),
    "tf": lambda split: shardfeed.train_batches(split, **OPTIONS),
}


@pytest.fixture
def address(flowers: Dataset) -> Iterator[str]:
    directory = Path(flowers.directory)
    with web_server(directory.parent) as web:
        yield f"{web.url}/{directory.name}"


def read_and_drop(address: str, make: Callable[[Split], Any], times: int) -> None:
    for _ in range(times):
        batches = make(shardfeed.open(address)["train"])
        iterator = iter(batches)
        next(iterator)
        del batches, iterator


def own_threads() -> set[str]:
    """The names of the product's threads, of which those of the server are none."""
    gc.collect()
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("shardfeed")}


def descriptors() -> list[str]:
    """List the open files of this process, except the server's and the client's connections.

    The client keeps a connection for the next request, and closes it in its own time.
    """
    places = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(place) for place in places if os.path.lexists(place)]
    return sorted(what for what in opened if not what.startswith("socket:"))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_dropped_dataset_of_a_web_server_leaves_no_thread(address: str, make: Callable[[Split], Any]) -> None:
    before = own_threads()
    read_and_drop(address, make, 3)
    until_gone(lambda: own_threads() - before)


def test_descriptors_do_not_grow_with_the_datasets_of_a_web_server(address: str) -> None:
    """The first dataset opens the three of obstore's event loop, which has no end before the process."""
    others = own_threads()  # of tests before, whose objects are not collected yet
    read_and_drop(address, MADE["array"], 1)
    until_gone(lambda: own_threads() - others)
    before = descriptors()
    read_and_drop(address, MADE["array"], 5)
    until_gone(lambda: own_threads() - others)
    assert descriptors() == before

"""Engines of the user's own that raise, or give what is no receipt: one line names the class, and work is kept."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lying_sources import Junk, Lying, Odd, raising

from shardfeed.converters import convert
from shardfeed.converters.shards.task import ShardTask
from shardfeed.converters.shards.write_shard import write_shard
from shardfeed.errors import WorkerLostError

pytestmark = pytest.mark.promise(75)


class Here:
    """An engine that writes shards in this process, and does one thing otherwise."""

    def __init__(self, **other: Any) -> None:
        self.warnings: Any = []
        vars(self).update(other)

    def start(self, tasks: int) -> None:
        pass

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Any:
        return map(write_shard, tasks)

    def done(self) -> Any:
        return 0, 0

    def stop(self) -> None:
        pass


def of_another(tasks: Iterator[ShardTask], poll: Any) -> Any:
    return (replace(write_shard(task), split="other") for task in tasks)


def twice(tasks: Iterator[ShardTask], poll: Any) -> Any:
    return (receipt for task in tasks for receipt in [write_shard(task)] * 2)


def one_only(tasks: Iterator[ShardTask], poll: Any) -> Any:
    return [write_shard(next(tasks))]


def fails_after_one(tasks: Iterator[ShardTask], poll: Any) -> Any:
    yield write_shard(next(tasks))
    raise ValueError("bo\x1bom")


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "start raises": ({"start": raising(ValueError("bo\x1bom"))}, r"Here.start raised ValueError: bo.x1bom \(support/"),
    "run raises": ({"run": raising(ValueError)}, r"Here.run raised ValueError"),
    "run raises Odd": ({"run": raising(Odd)}, r"Here.run raised Odd"),
    "run gives None": ({"run": lambda tasks, poll: None}, r"Here.run raised TypeError"),
    "run gives text": ({"run": lambda tasks, poll: ["x"]}, r"Here.run gave str, expected a Receipt"),
    "run gives junk": ({"run": lambda tasks, poll: [Junk()]}, r"Here.run gave Junk, expected a Receipt"),
    "another's receipts": ({"run": of_another}, r"Here.run gave a receipt of other 0, which is no task that is left"),
    "receipts twice": ({"run": twice}, r"Here.run gave a receipt of train 0, which is no task that is left"),
    "too few": ({"run": one_only}, r"Here.run ended without the receipts of 1 shard"),
    "none": ({"run": lambda tasks, poll: []}, r"Here.run ended without the receipts of 2 shards"),
    "fails after one": ({"run": fails_after_one}, r"Here.run raised ValueError: bo.x1bom \(engines/test_lying"),
    "done raises": ({"done": raising(OSError(5, "x"))}, r"Here.done raised OSError"),
    "stop raises": ({"stop": raising(ValueError)}, r"Here.stop raised ValueError"),
    "warnings 5": ({"warnings": 5}, r"Here.warnings raised TypeError"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_engine_is_named_and_its_work_is_kept(name: str, tmp_path: Path) -> None:
    other, said = LIES[name]
    with pytest.raises(WorkerLostError, match=said) as caught:
        convert(Lying(), tmp_path / "out", shards=2, workers=Here(**other), progress=print)
    assert str(caught.value).isprintable()
    if name != "stop raises":  # after the commit
        assert not (tmp_path / "out").exists()
        assert convert(Lying(), tmp_path / "out", shards=2, workers=Here()).committed


def test_what_an_engine_says_is_printable(tmp_path: Path) -> None:
    engine = Here(warnings=["lo\x1bst\n"], done=lambda: "ab")
    assert "lo\\x1bst\\n" in convert(Lying(), tmp_path / "out", workers=engine).notes

"""Kills an operation on datasets at chosen operations on storage, each time in a process of its own, and resumes it.

    python operation_kill_trials.py PLACE OPERATION FORMAT EVERY SEED

A script, as it forks: the process that runs pytest may have threads. Points are as of kill_trials.py. After each kill
the output is absent or complete, what is read is as it was, and running again gives the same bytes. Prints a line of
JSON.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import here
from PIL import Image

import shardfeed
from shardfeed.converters import (
    ImageFolder,
    Shares,
    append,
    convert,
    merge,
    relabel,
    remove,
    reshard,
)

from kill_trials import fails_again, kill_everywhere
from pictures import image_bytes
from storage_ops import Operation, watched
from trees import tree

OPERATIONS = ("append", "merge", "split", "filter", "relabel", "remove", "reshard")
SHARES = {"train": 0.6, "validation": 0.4}


def picture(number: int) -> bytes:
    """A small PNG, another one for each number."""
    return image_bytes(Image.fromarray(np.random.default_rng(number).integers(0, 256, (8, 9, 3), np.uint8)), "PNG")


def make_inputs(place: Path, to: str) -> None:
    """Two datasets, and a folder of new images."""
    for name, classes, count in (("a", ("cat", "dog"), 6), ("b", ("dog", "owl"), 3), ("new", ("cat", "dog"), 3)):
        for of_class in classes:
            (place / name / of_class).mkdir(parents=True)
            for i in range(count):
                number = f"{name if name == 'new' else ''}{i}"
                (place / name / of_class / f"{number}.jpg").write_bytes(picture(100 * (name == "new") + i))
    for name in ("a", "b"):
        options: dict[str, Any] = {"split": Shares(SHARES, "hash"), "shards": 2, "to": to}
        convert(ImageFolder(place / name), place / name.upper(), workers=here(), **options)


def operation(name: str, place: Path) -> Callable[[Path], object]:
    """Return a function that runs the named operation and writes its dataset to the path it is given."""
    a, b = place / "A", place / "B"
    calls: dict[str, Callable[[Path], object]] = {
        "append": lambda out: append(a, place / "new", out, shards=2, workers=here()),
        "merge": lambda out: merge([a, b], out, shards=2, workers=here(), prefix=True),
        "split": lambda out: shardfeed.split(a, out, {"x": 0.5, "y": 0.5}, shards=2, workers=here()),
        "filter": lambda out: shardfeed.filter(a, out, where="class == dog", shards=2, workers=here()),
        "relabel": lambda out: relabel(a, out, {"dog": "wolf"}, workers=here()),
        "remove": lambda out: remove(a, out, ["cat/1.jpg"], workers=here()),
        "reshard": lambda out: reshard(a, out, shards=3, workers=here()),
    }
    return calls[name]


def main(place: Path, name: str, to: str, every: int, seed: int) -> None:
    inputs = place / "inputs"
    inputs.mkdir(parents=True)
    make_inputs(inputs, to)
    before, make = tree(inputs), operation(name, inputs)

    def wrong(at: Path) -> str:
        found = tree(at / "out") if (at / "out").exists() else None
        if found not in (None, expected):
            return "the output is neither absent nor complete"
        done = found == expected and not (at / ".out.staging").exists()
        failure = fails_again(make, at, expected, done, "")
        return failure or "what is only read has changed" * (tree(inputs) != before)

    whole = place / "whole"
    whole.mkdir()
    operations: list[Operation] = []
    with watched(whole, operations.append):
        make(whole / "out")
    expected = tree(whole / "out")
    kill_everywhere(make, place, operations, wrong, every, seed=seed, each_kind=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))

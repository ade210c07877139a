"""The programs of docs/torch.md, "Your trainer": killed and started again, they see what an uninterrupted run sees."""

import importlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset

from repository import ROOT
from watch_model import row_of

SECTION = re.search(r"^## Your trainer\n(.*?)^## ", (ROOT / "docs" / "torch.md").read_text(), re.MULTILINE | re.DOTALL)
assert SECTION
START, *PROGRAMS = re.findall(r"^```py(?:thon)?\n(.*?)^```", SECTION[1], re.MULTILINE | re.DOTALL)
NEEDED = (
    *("pytorch_lightning", "transformers", "accelerate", "accelerate", "torchdata.stateful_dataloader"),
    *("torch.distributed.checkpoint", "ray.train", "ignite"),
)
NAMES = ("lightning", "transformers", "accelerate", "prepared", "torchdata", "dcp", "ray", "ignite")
EPOCHS = 3
Rows = list[list[int]]


@pytest.fixture(scope="module")
def expected(flowers: Dataset) -> Rows:
    """The images of each batch, as our own loop sees them."""
    loader = torch_loader(flowers["train"], batch_size=16, image_size=64, seed=7, workers=0)
    return [row_of(images / 255) for _ in range(EPOCHS) for images, _ in loader]


def started(program: str, folder: Path, kill: int | None, flowers: Dataset) -> list[Rows]:
    """The rows that each start of the program has seen; it is killed when it begins its step `kill`."""
    (folder / "program.py").write_text(program)
    for log in folder.glob("seen_*"):
        log.unlink()
    (folder / "killed").unlink(missing_ok=True)
    environment = os.environ | {"KILL_AT": str(kill), "SEEN": str(folder / "seen"), "HF_HUB_OFFLINE": "1"}
    paths = [str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    if not (folder / "shapes").exists():
        (folder / "shapes").symlink_to(flowers.directory)
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    ranks: list[list[Rows]] = []
    for log in sorted(folder.glob("seen_*")):
        ranks.append([])
        for line in log.read_text().splitlines():
            read: Any = json.loads(line)
            if read == "started":
                ranks[-1].append([])
            else:
                ranks[-1][-1].append(read)
    starts = zip(*ranks, strict=True)
    return [[sorted(itertools.chain(*rows)) for rows in zip(*start, strict=False)] for start in starts]


def check(number: int, workers: str, folder: Path, expected: Rows, flowers: Dataset) -> None:
    """`workers`: code that is given; empty for what the page shows."""
    try:
        importlib.import_module(NEEDED[number])
    except ImportError as error:
        pytest.skip(f"{NEEDED[number]}: {error}")
    start = START.replace("import to_device", "import Workers, to_device")
    watched = f"{start}\nfrom watch_model import watch\n\nwatch(model)\n{PROGRAMS[number]}"
    program = watched.replace("seed=7)", f"seed=7, workers={workers})") if workers else watched
    at = len(expected) // EPOCHS + 3
    starts: list[Rows] = []
    for kill in (at, 8, None):  # the last save was at an epoch's end, and then in the middle of the next
        if sum(map(len, starts)) < len(expected):  # Ray has not started the program again itself
            starts += started(program, folder, kill, flowers)
    first, *again = starts
    assert first == expected[:at]
    for seen in again:
        begin = expected.index(seen[0])
        assert at - 10 <= begin <= at  # Ray's last save may still be on its way
        assert seen == expected[begin : begin + len(seen)]
        at = begin + len(seen)
    assert at == len(expected)


def test_the_programs_are_those_of_the_page() -> None:
    assert len(PROGRAMS) == len(NEEDED) == len(NAMES)


@pytest.mark.long
@pytest.mark.parametrize("workers", ["", "0", "Workers(2, processes=True)"])
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_killed_programs_go_on(flowers: Dataset, expected: Rows, tmp_path: Path, number: int, workers: str) -> None:
    check(number, workers, tmp_path, expected, flowers)

"""A conversion from the Hub, killed while it waits for an answer: the next run resumes, and nothing temporary stays."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub_server import COMMIT, REPOSITORY, TOKEN, Hub, hub_server
from processes import processes, until_gone
from repository import ROOT
from trees import tree

pytest.importorskip("obstore")
pytestmark = pytest.mark.promise(1, 77)
IMAGES = 40

# What is asked for when the process is killed: the part of an address, and how often it was asked for.
POINTS = {
    "the commit": ("/revision/", 1),
    "the list": ("/tree/", 1),
    "a file that is copied": (".csv", 1),
    "the first image": (".jpg", 1),
    "an image in the middle": (".jpg", IMAGES // 2),
    "the last image": (".jpg", IMAGES),
}
QUICK = ("a file that is copied", "an image in the middle")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """With images of two classes, and a table that lists them."""
    with hub_server(tmp_path / "served") as hub:
        top = hub.files(COMMIT)
        found = sorted((ROOT / "data_samples" / "shapes" / "circle").iterdir())[: IMAGES // 2]
        found += sorted((ROOT / "data_samples" / "shapes" / "square").iterdir())[: IMAGES // 2]
        rows = ["image,label"]
        for number, image in enumerate(found):
            shutil.copy(image, top / f"{number:02}{image.suffix}")
            rows.append(f"{number:02}{image.suffix},{image.parent.name}")
        (top / "labels.csv").write_text("\n".join(rows) + "\n")
        yield hub


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def command(hub: Hub, temporary: Path, out: Path, workers: int) -> "subprocess.Popen[str]":
    """Start the command, in a session of its own."""
    arguments = ["convert", f"hf://{REPOSITORY}/labels.csv", str(out), "--workers", str(workers), "--shards", "8"]
    return subprocess.Popen(
        [sys.executable, "-m", "shardfeed.tools.cli", *arguments],
        env=os.environ | {"HF_ENDPOINT": hub.web.url, "HF_TOKEN": TOKEN, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def asked_for(hub: Hub, part: str) -> int:
    """How many files of the repository were asked for whose address has this part."""
    return sum(part in path for _, path, _ in hub.web.requests)


def in_session(session: int) -> list[int]:
    return [number for number, each in processes().items() if each.session == session]


def in_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "shardfeed" in name}


@pytest.mark.parametrize("whole", [True, False], ids=["all processes", "the front process"])
@pytest.mark.parametrize(
    "point", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in POINTS]
)
def test_killed_while_it_waits_for_an_answer(
    hub: Hub, temporary: Path, tmp_path: Path, point: str, whole: bool
) -> None:
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    uninterrupted = command(hub, temporary, tmp_path / "whole" / "data", 1)
    _, said = uninterrupted.communicate()
    assert uninterrupted.returncode == 0, said
    assert asked_for(hub, ".jpg") == IMAGES
    hub.web.requests.clear()
    before, (part, times) = in_memory(), POINTS[point]
    answer: Callable[[str, str], Any] = hub.web.answer
    killed: list[int] = []

    def kill_then_answer(path: str, token: str) -> Any:
        """A request is counted before it is answered."""
        if not killed and part in path and asked_for(hub, part) == times:
            killed.append(process.pid)
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
        return answer(path, token)

    hub.web.answer = kill_then_answer
    process = command(hub, temporary, tmp_path / "killed" / "data", 2)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert killed
    until_gone(lambda: in_session(process.pid))
    assert not (tmp_path / "killed" / "data").exists()
    assert os.listdir(temporary) or point == "the commit", "a killed process removes nothing"

    hub.web.requests.clear()
    again = command(hub, temporary, tmp_path / "killed" / "data", 2)
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert tree(tmp_path / "killed" / "data") == tree(tmp_path / "whole" / "data")
    assert os.listdir(temporary) == []
    assert in_memory() == before
    assert os.listdir(tmp_path / "killed") == ["data"]
    if point == "the last image":
        assert asked_for(hub, ".jpg") < IMAGES, "the shards that were complete are not made again"

"""A bucket that does not answer is said: once, with what is asked again and until when, wherever it is read from."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from impatience.sitecustomize import SAID_AFTER

from shardfeed.readers import Dataset
from shardfeed.storage import hub, objects, outage
from shardfeed.storage.objects import ObjectStorage

from buckets import KEY, SECRET
from repository import SUPPORT
from web_server import WebServer, web_server

pytestmark = pytest.mark.promise(54)

SAID = re.compile(
    r"(?:s3|hf|http)://\S+: no answer for [\d.]+ s(?: \([^)]+\))?; it is asked again until \d\d:\d\d:\d\d at most"
)


class Silent:
    """A server of files, as S3 too, that does not answer until it is told to; it begins with answers."""

    def __init__(self, web: WebServer) -> None:
        self.web = web
        web.fault = lambda path, part: "late"
        self.answer()

    def be_silent(self) -> None:
        self.web.late.clear()

    def answer(self) -> None:
        self.web.late.set()


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """With the file x in a bucket."""
    monkeypatch.setattr(outage, "SAID_AFTER", SAID_AFTER)
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x").write_bytes(b"12345")
    with web_server(tmp_path) as web:
        for name, value in environment(web).items():
            monkeypatch.setenv(name, value)
        made = Silent(web)
        yield made
        made.answer()


def environment(web: WebServer) -> dict[str, str]:
    access = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    return access | {"AWS_ENDPOINT_URL": web.url, "HF_ENDPOINT": web.url}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of all messages, from any thread."""
    heard: list[str] = []
    monkeypatch.setattr(outage, "say", heard.append)
    return heard


def wait_until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.01)


@pytest.mark.timeout(60)
def test_once_for_all_requests_and_again_after_an_answer(silent: Silent, said: list[str]) -> None:
    storage = ObjectStorage("s3://bucket")
    for number in (1, 2):
        silent.be_silent()
        threads = [threading.Thread(target=storage.open, args=("s3://bucket/x",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(said) == number)  # noqa: B023  # it is over within the loop
        time.sleep(2 * SAID_AFTER)
        silent.answer()
        for thread in threads:
            thread.join()
        assert len(said) == number
    assert all(SAID.fullmatch(one) for one in said), said


@pytest.mark.timeout(60)
def test_nothing_is_said_of_a_store_that_answers(silent: Silent, said: list[str]) -> None:
    """However long one of its answers takes, as long as others arrive."""
    storage, slow = ObjectStorage("s3://bucket"), threading.Event()

    def wait(client: Any) -> None:
        slow.wait()

    waiting = threading.Thread(target=storage.call, args=("s3://bucket/slow", wait))
    waiting.start()
    begun = time.monotonic()
    while time.monotonic() - begun < 3 * SAID_AFTER:
        storage.version("s3://bucket/x")
    slow.set()
    waiting.join()
    assert not said


@pytest.mark.timeout(60)
def test_the_cause_is_named_if_it_is_known(silent: Silent, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "SAID_AFTER", 3.0)  # the client's own attempts take some two seconds
    monkeypatch.setattr(objects, "_DEADLINE_SECONDS", 6)
    silent.web.fault = lambda path, part: "503 SlowDown"
    with pytest.raises(OSError, match="HTTP status 503"):
        ObjectStorage("s3://bucket").open("s3://bucket/x")
    assert len(said) == 1
    assert "s3://bucket/x: no answer for" in said[0]
    assert "(HTTP status 503)" in said[0]


@pytest.mark.timeout(60)
def test_the_hub(silent: Silent, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "DEADLINE_SECONDS", 3)
    silent.be_silent()
    with pytest.raises(OSError, match="no response in time"):
        hub.bound("hf://datasets/u/r")
    assert len(said) == 1
    assert said[0].startswith("hf://datasets/u/r: no answer for")


@pytest.mark.timeout(60)
def test_it_is_a_warning_of_python(silent: Silent) -> None:
    silent.be_silent()
    reader = threading.Thread(target=ObjectStorage("s3://bucket").open, args=("s3://bucket/x",))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reader.start()
        wait_until(lambda: caught)
    silent.answer()
    reader.join()
    assert [one.category for one in caught] == [RuntimeWarning]
    assert SAID.fullmatch(str(caught[0].message))


PROGRAMS = {
    "inspect": ["-m", "shardfeed.tools.cli", "inspect", "URL"],
    "pull": ["-m", "shardfeed.tools.cli", "pull", "URL", "out"],
    "verify": ["-m", "shardfeed.tools.cli", "verify", "URL"],
    "open": ["-c", "import shardfeed, sys; shardfeed.open(sys.argv[1])", "URL"],
    "torch": [
        "-c",
        "import shardfeed, sys\n"
        "from shardfeed.pipelines.torch import torch_loader\n"
        "if __name__ == '__main__':\n"
        "    split = shardfeed.open(sys.argv[1])['train']\n"
        "    print('opened', flush=True)\n"
        "    input()\n"
        "    next(iter(torch_loader(split, batch_size=8, image_size=32, seed=1, workers=2)))\n",
        "URL",
    ],
}


def answer_when_said(silent: Silent, program: list[str], folder: Path, support: str) -> str:
    """Run a program with a server that is silent until the program says so; return what it printed on stderr."""
    words = ["s3://bucket/d" if word == "URL" else word for word in program]
    kept = {**os.environ, **environment(silent.web), "PYTHONPATH": support, "PYTHONWARNINGS": "default"}
    with subprocess.Popen(
        [sys.executable, *words],
        env=kept,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if "torch_loader" in words[1]:
            assert process.stdout.readline() == "opened\n"
        silent.be_silent()
        lines = []
        if "torch_loader" in words[1]:
            process.stdin.write("\n")
            process.stdin.flush()
        for line in process.stderr:
            lines.append(line)
            if SAID.search(line):
                time.sleep(2)  # it is not said again
                silent.answer()
        process.communicate()
    assert process.returncode == 0, lines
    return "".join(lines)


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", PROGRAMS)
def test_commands_and_loaders(silent: Silent, flowers: Dataset, tmp_path: Path, name: str) -> None:
    """Also from a process that fetches for others, whose stderr is a file."""
    shutil.copytree(flowers.directory, tmp_path / "bucket" / "d")
    text = answer_when_said(silent, PROGRAMS[name], tmp_path, str(SUPPORT / "impatience"))
    assert len(SAID.findall(text)) == 1, text
    if name in ("inspect", "pull", "verify"):
        assert text.startswith("shardfeed: warning: s3://bucket/d/manifest.json: no answer for")


@pytest.mark.long
@pytest.mark.timeout(200)
def test_after_ten_seconds(silent: Silent, flowers: Dataset, tmp_path: Path) -> None:
    shutil.copytree(flowers.directory, tmp_path / "bucket" / "d")
    begun = time.monotonic()
    text = answer_when_said(silent, PROGRAMS["inspect"], tmp_path, "")
    assert time.monotonic() - begun >= 10
    assert len(SAID.findall(text)) == 1, text
    assert "no answer for 10 s" in text

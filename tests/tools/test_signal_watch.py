"""A signal ends a command within five seconds while a source is listed or copied, whatever code runs then."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shardfeed.converters import pull
from shardfeed.readers import Dataset
from shardfeed.tools.signal_watch import PATIENCE

from processes import HANGS, until, until_gone
from web_server import web_server

# Each never returns: a loop of C that holds the interpreter, one that lets it go, one of Python.
STUCK = {
    "held": ("sum(range(10**15))", -signal.SIGKILL),
    "let go": ("__import__('hashlib').pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)", 128 + signal.SIGTERM),
    "Python": ("[None for _ in iter(int, 1)]", 128 + signal.SIGTERM),
}
SCRIPT = """
import sys, pathlib
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.tools import cli
from shardfeed.tools.commands import convert_command

def stuck(*arguments, **options):
    unpacked = Unpacked()
    with unpacked.new(__file__) as file:
        file.write(b"unpacked")
    print("stuck", flush=True)
    {code}

convert_command.open_source = stuck
sys.exit(cli.main(["convert", sys.argv[1], sys.argv[2]]))
"""


@pytest.mark.promise("51")
@pytest.mark.parametrize("how", STUCK)
def test_sigterm_ends_listing(how: str, tmp_path: Path) -> None:
    code, expected = STUCK[how]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(code=code))
    command = [sys.executable, str(script), str(tmp_path), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        assert process.stdout.readline() == b"stuck\n"
        assert list(temporary.iterdir())
        time.sleep(0.5)  # until the code runs
        process.terminate()
        assert process.wait(HANGS) in (expected, 128 + signal.SIGTERM)  # a slow machine may not be there yet
        until_gone(lambda: list(temporary.iterdir()))
    assert PATIENCE + 1 < 5


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_ends_a_pull_from_a_server_that_does_not_answer(number: int, flowers: Dataset, tmp_path: Path) -> None:
    with web_server(Path(flowers.directory)) as server:
        server.fault = lambda path, part: "late" if path.endswith(".tfrecord") else ""
        command = [sys.executable, "-m", "shardfeed.tools.cli", "pull", server.url, str(tmp_path / "out")]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            until(lambda: any(path.endswith(".tfrecord") for _, path, _ in server.requests))
            process.send_signal(number)
            _, said = process.communicate(timeout=HANGS / 2)  # the server waits longer
        assert process.returncode == 128 + number
        assert said.count(b"run the same command again to resume") == 1
        server.late.set()
    assert pull(flowers.directory, tmp_path / "out").files > 1


def test_memory_is_bounded_while_a_source_is_listed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    code = "bytearray(4 << 30)"
    script.write_text(
        "import shardfeed.tools.signal_watch as watch\nwatch.memory_free = lambda: 0\n" + SCRIPT.format(code=code)
    )
    command = [sys.executable, str(script), str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "MemoryError" in done.stderr

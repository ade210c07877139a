"""Signs of life: what is told while a folder is listed and planned, lines where there is no terminal, and the log."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.converters import ImageFolder, open_source
from shardfeed.converters.conversion import Progress
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.tools.cli import main
from shardfeed.tools.progress import EventLog, ProgressReporter


def test_listing_and_planning_tell_how_far_they_are(
    folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder(4)
    monkeypatch.setattr("shardfeed.converters.sources.files.walk.EVERY", 5)
    monkeypatch.setattr("shardfeed.converters.planning.survey.EVERY", 5)
    told: list[tuple[str, int, int | None]] = []
    with report_progress_to(lambda *sign: told.append(sign)):
        make_plan(ImageFolder(root), PlanOptions())
    listed = [("listing", n, None) for n in (5, 10, 12)]
    assert told == [*listed, *(("planning", n, 12) for n in (0, 5, 10, 12))]
    make_plan(ImageFolder(root), PlanOptions())
    assert len(told) == 7  # nobody listens


def test_without_a_terminal_there_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    reporter = ProgressReporter(quiet=False, log=EventLog(None), clock=lambda: now[0])
    for second in range(0, 200, 10):
        now[0] = second
        reporter.preparing("listing", second * 1000, None)
    for second in range(200, 250, 10):
        now[0] = second
        reporter.preparing("planning", second - 200, 200)
    for second in range(250, 400, 10):
        now[0] = second
        reporter.converting(Progress(second, 1000, 10**6, 3, 8))
    reporter.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "shardfeed: listing 60,000 files",
        "shardfeed: listing 120,000 files",
        "shardfeed: listing 180,000 files",
        "shardfeed: planning 20% of 200 files",
        "shardfeed: converting 300 of 1,000 images, 3/8 shards",
        "shardfeed: converting 360 of 1,000 images, 3/8 shards",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    reporter = ProgressReporter(quiet=True, log=EventLog(None), clock=lambda: now[0])
    for _ in range(3):
        now[0] += 100
        reporter.preparing("listing", 1000, None)
        reporter.converting(Progress(1, 2, 3, 0, 1))
    reporter.close()
    assert capsys.readouterr() == ("", "")


def test_the_rows_of_a_label_file_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.converters.sources.rows.label_file.EVERY", 10)
    table = tmp_path / "urls.csv"
    table.write_text("url,label\n" + "".join(f"https://host/{i}.jpg,a\n" for i in range(25)))
    told: list[tuple[str, int, int | None]] = []
    with report_progress_to(lambda *sign: told.append(sign)):
        open_source(table)
    assert told[-3:] == [("listing", n, None) for n in (0, 10, 20)]


def test_on_a_terminal_there_is_a_bar_without_colour(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Where colours are wanted, too: the only escape sequences are tqdm's moves."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", folder(4), tmp_path / "out", "--workers", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate()
    os.close(master)
    assert process.returncode == 0
    assert b"listing: 12 files" in shown
    assert b"12/12" in shown
    assert b"1/1 shards" in shown
    assert re.search(rb"\x1b\[[0-9;]*m", shown + out) is None


def events(path: Path) -> list[dict[str, object]]:
    """The lines of a log, without their times."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(event.pop("time").endswith("+00:00") for event in found)
    return found


def test_the_log_of_a_conversion(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, log = folder(3), tmp_path / "log.jsonl"
    (root / "rose" / "bad\n.jpg").write_bytes(b"words")
    typed = ["convert", str(root), str(tmp_path / "out"), "--quiet", "--workers", "1", "--log", str(log)]
    assert main(typed) == 3
    first = events(log)
    assert [event["event"] for event in first] == ["started", "listed", "planned", "shards", "rejected", "error"]
    assert first[1] == {"event": "listed", "files": 10, "rejected": 0}
    assert first[3] == {"event": "shards", "done": 1, "planned": 1, "images": 10}
    assert (first[4]["key"], first[4]["code"]) == ("rose/bad\n.jpg", "E_NOT_IMAGE")
    assert (first[5]["error"], first[5]["exit_code"]) == ("TooManyRejectedError", 3)
    assert main([*typed, "--max-bad", "1"]) == 0
    again = events(log)[len(first) :]
    assert again[0]["event"] == "started"
    assert again[-1] | {"seconds": 0} == {
        "event": "committed", "out": str(tmp_path / "out"), "splits": {"train": 9}, "seconds": 0
    }  # fmt: skip
    assert main(typed) == 2
    assert events(log)[-1]["error"] == "OutputExistsError"
    assert "shardfeed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"), [("no/log", "--log: cannot open"), ("images/log", "--log: "), ("images", "--log: ")]
)
def test_a_log_that_cannot_be(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert main(["convert", str(folder(2)), str(tmp_path / "out"), "--log", str(tmp_path / name)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"shardfeed: {said}")
    assert not (tmp_path / "images" / "log").exists()


def test_a_full_disk_below_the_log_is_a_warning(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(folder(2)), str(tmp_path / "out"), "--quiet", "--log", "/dev/full"]) == 0
    assert capsys.readouterr().err.count("shardfeed: warning: /dev/full: ") == 1


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, ValueError])
def test_the_log_says_how_it_ended(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: type[BaseException]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise stopped("now")

    monkeypatch.setattr("shardfeed.tools.commands.convert_command.convert", stop)
    typed = ["convert", str(folder(2)), str(tmp_path / "out"), "--log", str(tmp_path / "log")]
    if stopped is KeyboardInterrupt:
        assert main(typed) == 130
        assert events(tmp_path / "log")[-1] == {"event": "interrupted"}
    else:
        with pytest.raises(ValueError, match="now"):
            main(typed)
        expected = {"event": "error", "error": "ValueError", "message": "now", "exit_code": 1}
        assert events(tmp_path / "log")[-1] == expected

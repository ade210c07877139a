"""Progress of a conversion: a bar on a terminal, else a line per minute, and a log for programs."""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from shardfeed.converters.conversion import Progress
from shardfeed.errors import UsageError
from shardfeed.storage.local import storage_error
from shardfeed.text import number, size_text
from shardfeed.tools.colour import warn

A_LINE_EVERY = 60.0  # seconds, without a terminal


class EventLog:
    """JSON Lines of events, each written at once: `{"time": "2026-11-22T02:10:06+00:00", "event": "started"}`.

    An existing file is appended to, so that it holds all runs of a conversion. Raises UsageError if it cannot be
    opened. `path` None: nothing is written.
    """

    def __init__(self, path: str | None) -> None:
        self._path, self._file = path, None
        if path is not None:
            try:
                self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed by close)
            except OSError as error:
                raise UsageError("--log", storage_error(path, "open", error).problem, "name another file") from error

    def write(self, event: str, **fields: Any) -> None:
        """Add an event. A full disk does not stop the command that is being logged."""
        if self._file is None:
            return
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **fields})
        try:
            self._file.write(f"{line}\n")
        except OSError as error:
            warn(storage_error(str(self._path), "write", error))
            self.close()

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError:
                pass  # the write error was already reported


class ProgressReporter:
    """Progress on stderr: a bar, or a line per minute if that is not a terminal; nothing with `quiet`.

    `log` receives finished steps.
    """

    def __init__(self, *, quiet: bool, log: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._log, self._clock = quiet, log, clock
        self._terminal = sys.stderr.isatty()
        self._bar: Any = None
        self._doing = ""
        self._announced = clock()
        self._shards = 0

    def preparing(self, doing: str, done: int, total: int | None) -> None:
        """`doing` is "listing", "planning" or "uploading": a listener of `converters.sources.guard`."""
        if doing == "planning" and done == total:
            self._log.write("planned", files=done)
        self._show(doing, done, total, " files", "")
        if total is None:
            self._line(f"{doing} {number(done, 'file')}")
        else:
            self._line(f"{doing} {done / max(total, 1):.0%} of {number(total, 'file')}")

    def converting(self, state: Progress) -> None:
        """Listener for the argument `progress` of `convert`."""
        # A repeated shard reads its images twice: the bar must not run past its end.
        done = min(state.images, state.images_planned)
        shards = f"{state.shards}/{state.shards_planned} shards"
        if state.shards > self._shards:
            self._shards = state.shards
            self._log.write("shards", done=state.shards, planned=state.shards_planned, images=done)
        elapsed = self._bar.format_dict["elapsed"] if self._bar is not None and self._doing == "" else 0
        rate = f"{size_text(state.source_bytes / elapsed)}/s, " if elapsed else ""
        self._show("", done, state.images_planned, " images", rate + shards)
        self._line(f"converting {done:,} of {number(state.images_planned, 'image')}, {shards}")

    def _show(self, doing: str, done: int, total: int | None, unit: str, beside: str) -> None:
        if self._quiet or not self._terminal:
            return
        if self._bar is None or doing != self._doing:
            self.close()
            self._doing = doing
            bar = {"desc": doing or None, "total": total, "initial": done, "unit": unit, "leave": not doing}
            from tqdm import tqdm  # not above: only needed on a terminal

            self._bar = tqdm(**bar, dynamic_ncols=True)
        self._bar.set_postfix_str(beside, refresh=False)
        self._bar.update(done - self._bar.n)

    def _line(self, text: str) -> None:
        if self._quiet or self._terminal:
            return
        if self._clock() - self._announced >= A_LINE_EVERY:
            self._announced = self._clock()
            print(f"shardfeed: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the bar in its current state."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

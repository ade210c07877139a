"""Regular expressions of users for the names of files: every match ends.

`re` may try more ways than there are seconds, and holds the interpreter meanwhile. Whether a pattern can do so for a
name of this length is seen from its parts; if it can, another process matches, which its own timer ends.
"""

import json
import re
import subprocess
import sys
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from shardfeed.errors import UsageError, escape
from shardfeed.text import compiled_pattern

_AT_ONCE = 2_000_000  # ways to match a name, tried in a tenth of a second at most
_SECONDS = 5  # of CPU time that a name may take in the other process
_COUNTED = 32  # the most repeats that count as a number, not as a power of the length
# SIGVTALRM, which nothing handles, ends the process.
_MATCHER = f"""
import json, re, signal, sys
pattern = re.compile(json.loads(sys.stdin.readline()))
for line in sys.stdin:
    signal.setitimer(signal.ITIMER_VIRTUAL, {_SECONDS})
    found = pattern.fullmatch(json.loads(line))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(json.dumps(found and found.groupdict()), flush=True)
"""


class NamePattern:
    """A regular expression for whole names, or for whole paths if it has a "/"; it must have the named group `needs`.

    Raises UsageError, which names `option`, for one that is not valid or has no such group.
    """

    def __init__(self, option: str, pattern: str, *, needs: str, example: str) -> None:
        self._option = option
        self._compiled = compiled_pattern(option, pattern)
        if needs not in self._compiled.groupindex:
            raise UsageError(option, f"{pattern!r} has no group {needs!r}", f"write it like {example}")
        self.pattern, self.groupindex = pattern, dict(self._compiled.groupindex)
        self._ways = _ways(pattern)
        self._elsewhere: _OtherProcess | None = None

    def fullmatch(self, name: str) -> Mapping[str, Any] | re.Match[str] | None:
        """Match all of a name; the result has the named groups. Raises UsageError if that takes too long."""
        if self._ways is not None and self._ways.of(len(name)) <= _AT_ONCE:
            return self._compiled.fullmatch(name)
        if self._elsewhere is None:
            self._elsewhere = _OtherProcess(self.pattern)
        try:
            return self._elsewhere.match(name)
        except EOFError:
            self._elsewhere = None
            problem = f"{self.pattern!r} takes more than {_SECONDS} s to match the name {escape(name)!r}"
            remedy = "write it without repeats inside of repeats: a+ instead of (a+)+"
            raise UsageError(self._option, problem, remedy) from None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_elsewhere": None}


class _OtherProcess:
    """A process that matches names. It ends with this object, and with the process that has it."""

    def __init__(self, pattern: str) -> None:
        # -I and -S: without the user's modules.
        command = [sys.executable, "-I", "-S", "-c", _MATCHER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._send(pattern)

    def match(self, name: str) -> dict[str, str | None] | None:
        """Return the named groups, or None. Raises EOFError if it takes too long: then the process has ended."""
        self._send(name)
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            self._finalizer()
            raise EOFError
        return json.loads(answer)

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(text).encode() + b"\n")
        self._process.stdin.flush()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


class _Ways:
    """An upper bound on the ways to match: `factor` times the length to the `power`."""

    def __init__(self) -> None:
        self.factor, self.power = 1, 0

    def of(self, length: int) -> int:
        return self.factor * (length + 1) ** self.power

    def add_repeat(self, low: int, high: int) -> None:
        """Count a repeat of a part in which nothing varies."""
        if high - low >= _COUNTED:
            self.power += 1
        else:
            self.factor *= high - low + 1

    def add(self, parts: Iterable[tuple[Any, Any]], *, repeated: bool = False) -> None:
        """Count the ways of a parsed pattern. Raises OverflowError where something varies inside of a repeat."""
        for code, value in parts:
            name = str(code)
            if name.endswith("_REPEAT"):
                self._add_repeated(*value, repeated=repeated)
            elif name == "BRANCH":
                self._add_branches(value[1], repeated=repeated)
            elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
                self.add(value[-1], repeated=repeated)
            elif name == "ATOMIC_GROUP":
                self.add(value, repeated=repeated)
            elif name.startswith("GROUPREF"):
                raise OverflowError(name)

    def _add_repeated(self, low: int, high: int, part: Any, *, repeated: bool) -> None:
        if repeated and low != high:
            raise OverflowError
        self.add(part, repeated=repeated or high > 1)
        self.add_repeat(int(low), int(high))

    def _add_branches(self, branches: list[Any], *, repeated: bool) -> None:
        if repeated:
            raise OverflowError
        self.factor *= len(branches)
        for branch in branches:
            self.add(branch)


def _ways(pattern: str) -> _Ways | None:
    """The ways to match a pattern; None if they may be more than a power of the length, or are not known."""
    ways = _Ways()
    try:
        from re import _parser  # type: ignore[attr-defined]  # private: without it every name is matched elsewhere

        ways.add(_parser.parse(pattern))
    except (ImportError, AttributeError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    return ways

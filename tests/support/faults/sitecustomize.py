"""Fails one system call that writes, as a broken or full disk does: in this process and in all that it starts.

First on PYTHONPATH, with FAULT_KIND, FAULT_AT, FAULT_UNDER and FAULT_COUNT set, every Python process begins with it;
the calls of all of them are counted together, in the length of a file. Tests also load it as a module, to make
thousands of failures in one process.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import Any

# Which calls count, and what the chosen one does.
OPENING = ("open",)
WRITING = ("write", "writev", "pwrite")
CHANGING = (*OPENING, *WRITING, "ftruncate", "fsync", "mkdir", "rename", "unlink", "rmdir")
KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    "ENOSPC": (CHANGING, errno.ENOSPC),
    "EDQUOT": (CHANGING, errno.EDQUOT),
    "EIO": (CHANGING, errno.EIO),
    "EROFS": (CHANGING, errno.EROFS),  # and ever after: the file system was made read-only
    "EMFILE": (OPENING, errno.EMFILE),
    "fsync": (("fsync",), errno.EIO),
    "short": (WRITING, 0),  # half of the bytes are written
}
REAL = {name: getattr(os, name) for name in CHANGING}


class Fault:
    """Call number `at`, from 1, of those below the directory `under` fails; `number` counts them.

    `fired`: what failed. `repeated`: files whose fsync was called again after it had failed.
    """

    def __init__(self, kind: str, at: int, under: str, number: Callable[[], int], *, sync: bool = True) -> None:
        self.names, self.errno = KINDS[kind]
        self.kind, self.at, self.under, self.number, self.sync = kind, at, under, number, sync
        self.fired: list[str] = []
        self.repeated: list[str] = []
        self._unsynced: dict[tuple[int, int], int] = {}

    def install(self) -> None:
        """Put the wrapped calls into `os`."""
        for name in CHANGING:
            setattr(os, name, self._wrapped(name))

    def remove(self) -> None:
        """Put the real ones back."""
        for name, real in REAL.items():
            setattr(os, name, real)
        for held in self._unsynced.values():
            os.close(held)
        self._unsynced.clear()

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **named: Any) -> Any:
            path = self._path(name, first, named)
            if path is None or not self._counts(name, rest):
                return self._really(name, first, *rest, **named)
            if self.kind == "EROFS" and self.fired:
                raise OSError(self.errno, os.strerror(self.errno), path)
            if self.number() != self.at:
                return self._really(name, first, *rest, **named)
            self.fired.append(f"{name} {path}")
            if self.kind == "short":
                whole = b"".join(rest[0]) if name == "writev" else bytes(rest[0])
                half = whole[: max(1, len(whole) // 2)]
                return REAL["pwrite"](first, half, rest[1]) if name == "pwrite" else REAL["write"](first, half)
            if name == "fsync" and stat.S_ISREG(os.fstat(first).st_mode):
                self._unsynced[self._identity(first)] = os.dup(first)  # held, so that no other file gets its number
            raise OSError(self.errno, os.strerror(self.errno), path)

        return call

    def _counts(self, name: str, rest: tuple[Any, ...]) -> bool:
        if name not in self.names:
            return False
        # EMFILE meets every open; other errors those that create, or that are for the fsync of a directory.
        return name != "open" or self.kind == "EMFILE" or bool(rest[0] & (os.O_CREAT | os.O_DIRECTORY))

    def _really(self, name: str, first: Any, *rest: Any, **named: Any) -> Any:
        if name == "fsync":
            if self._identity(first) in self._unsynced:
                self.repeated.append(self._path(name, first, named) or "?")
            if not self.sync:
                return None
        return REAL[name](first, *rest, **named)

    def _identity(self, fd: int) -> tuple[int, int]:
        state = os.fstat(fd)
        return state.st_dev, state.st_ino

    def _path(self, name: str, first: Any, named: dict[str, Any]) -> str | None:
        """The path that a call is about, or None where it is not below `under`."""
        if isinstance(first, int):
            path = os.readlink(f"/proc/self/fd/{first}")
        else:
            path = os.fsdecode(first)
            folder = named.get("dir_fd")
            path = os.path.join(os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}"), path)
        return path if path.startswith(self.under) else None


def _from_environment() -> None:
    counter = os.open(os.environ["FAULT_COUNT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def number() -> int:
        REAL["write"](counter, b".")
        return os.lseek(counter, 0, os.SEEK_CUR)  # after an appending write: where that ended

    Fault(os.environ["FAULT_KIND"], int(os.environ["FAULT_AT"]), os.environ["FAULT_UNDER"], number).install()


if __name__ == "sitecustomize":
    _from_environment()

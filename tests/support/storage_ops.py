"""Watches, from outside the product, every operation on storage below one directory: before and after each.

Loaded by path: the tests that need it run with `--import-mode=importlib`, and so do processes they start.
"""

import ctypes
import os
import re
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import shardfeed.storage.local

RENAME_EXCHANGE = 2  # linux/fs.h


class Operation(NamedTuple):
    """`path` and `other` (of a rename, a link or an exchange) are absolute; `data` is written from byte `start` on.

    `start` None: at the file's end.
    """

    name: str
    path: str
    other: str = ""
    data: bytes = b""
    start: int | None = None

    @property
    def kind(self) -> str:
        """ "write out.staging/dataset/train-*.index": the operation without the number of its shard."""
        return re.sub(r"\d{5}-of-\d{5}|(?<=shard\.)\d{5}", "*", f"{self.name} {'/'.join(self.path.split('/')[-2:])}")


def _of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _at(path: Any, dir_fd: int | None = None) -> str:
    text = os.fsdecode(path)
    return os.path.join(_of(dir_fd), text) if dir_fd is not None else os.path.abspath(text)


@contextmanager
def watched(
    root: Path, before: Callable[[Operation], None], after: Callable[[Operation], None] = lambda op: None
) -> Iterator[None]:
    """Call `before` and `after` around each operation of this process below `root` that changes what is stored."""
    real = {name: getattr(os, name) for name in ("open", "write", "writev", "pwrite", "ftruncate", "fsync")}
    real |= {name: getattr(os, name) for name in ("rename", "link", "mkdir", "unlink", "rmdir")}
    below = str(root) + "/"

    def around(operation: Operation, action: Callable[[], Any]) -> Any:
        if not operation.path.startswith(below) and operation.path != str(root):
            return action()
        before(operation)
        result = action()
        after(operation)
        return result

    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def action() -> int:
            return real["open"](path, flags, mode, dir_fd=dir_fd)

        return around(Operation("create", _at(path, dir_fd)), action) if flags & os.O_CREAT else action()

    def write(fd: int, data: Any) -> int:
        return around(Operation("write", _of(fd), data=bytes(data)), lambda: real["write"](fd, data))

    def writev(fd: int, parts: Any) -> int:
        return around(Operation("write", _of(fd), data=b"".join(parts)), lambda: real["writev"](fd, parts))

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        return around(Operation("write", _of(fd), "", bytes(data), offset), lambda: real["pwrite"](fd, data, offset))

    def ftruncate(fd: int, size: int) -> None:
        return around(Operation("truncate", _of(fd)), lambda: real["ftruncate"](fd, size))

    def fsync(fd: int) -> None:
        name = "fsync directory" if os.path.isdir(_of(fd)) else "fsync"
        return around(Operation(name, _of(fd)), lambda: real["fsync"](fd))

    def rename(a: Any, b: Any, **options: Any) -> None:
        return around(Operation("rename", _at(a), _at(b)), lambda: real["rename"](a, b, **options))

    def link(a: Any, b: Any) -> None:
        return around(Operation("link", _at(b), _at(a)), lambda: real["link"](a, b))

    def mkdir(path: Any, *args: Any, **options: Any) -> None:
        return around(Operation("mkdir", _at(path)), lambda: real["mkdir"](path, *args, **options))

    def unlink(path: Any, *, dir_fd: int | None = None) -> None:
        return around(Operation("unlink", _at(path, dir_fd)), lambda: real["unlink"](path, dir_fd=dir_fd))

    def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
        return around(Operation("rmdir", _at(path, dir_fd)), lambda: real["rmdir"](path, dir_fd=dir_fd))

    def library(name: None, use_errno: bool) -> Any:
        of_c = ctypes.CDLL(name, use_errno=use_errno)

        def renameat2(fd_a: int, a: bytes, fd_b: int, b: bytes, flags: int) -> int:
            assert flags == RENAME_EXCHANGE
            operation = Operation("exchange", _at(a), _at(b))
            return around(operation, lambda: of_c.renameat2(fd_a, a, fd_b, b, flags))

        return types.SimpleNamespace(renameat2=renameat2)

    fakes = {"open": open_, "write": write, "writev": writev, "pwrite": pwrite, "ftruncate": ftruncate, "fsync": fsync}
    fakes |= {"rename": rename, "link": link, "mkdir": mkdir, "unlink": unlink, "rmdir": rmdir}
    try:
        for name, fake in fakes.items():
            setattr(os, name, fake)
        shardfeed.storage.local.ctypes = types.SimpleNamespace(CDLL=library, get_errno=ctypes.get_errno)  # type: ignore[assignment]
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)
        shardfeed.storage.local.ctypes = ctypes

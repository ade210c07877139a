"""Disk contents possible after a power cut: operations replayed, with changes that were not fsynced lost in many ways.

As strict as POSIX lets a file system be, stricter than ext4 and XFS: a file's fsync makes its bytes durable and not its
name, a directory's fsync all its names; any of the other changes may be lost, whatever came after them. One operation,
a rename between two directories and an exchange included, is there whole or not at all, as a journal makes it.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOSSES = ("all kept", "all lost", "names kept, data lost", "names kept, data zeroed", "names lost, data kept", "random")


class File:
    """Bytes, and those of them that a power cut leaves for sure."""

    def __init__(self, data: bytes = b"", durable: bytes = b"") -> None:
        self.data = data
        self.durable = durable


class Directory:
    """Nothing of its own: its names are entries of the disk."""


Node = File | Directory
Entry = tuple[Directory, str, Node | None]  # None: the name is removed


class Disk:
    """A directory tree at `root` and what was done to it; `base` is what lay there, durably."""

    def __init__(self, root: str, base: dict[str, bytes]) -> None:
        self._root = root
        self._top = Directory()
        self._names: dict[tuple[Directory, str], Node] = {}
        self._changes: list[list[Entry]] = []  # that are not durable
        self._settled: dict[tuple[Directory, str], Node] = {}
        for name, data in sorted(base.items()):
            parent, last = self._parent(f"{root}/{name}".rstrip("/"))
            self._names[parent, last] = Directory() if name.endswith("/") else File(data, data)
        self._settled = dict(self._names)

    def _parent(self, path: str) -> tuple[Directory, str]:
        assert path.startswith(self._root + "/"), path
        node: Node = self._top
        *directories, last = path[len(self._root) + 1 :].split("/")
        for name in directories:
            node = self._names[node, name]  # type: ignore[index]
        assert isinstance(node, Directory)
        return node, last

    def _node(self, path: str) -> Any:
        return self._top if path == self._root else self._names[self._parent(path)]

    def _change(self, *entries: Entry) -> None:
        for directory, name, node in entries:
            if node is None:
                del self._names[directory, name]
            else:
                self._names[directory, name] = node
        self._changes.append(list(entries))

    def apply(self, operation: Any) -> None:
        """Do what one Operation of storage_ops did."""
        name, path, other, data, *rest = operation
        match name:
            case "create":
                parent, last = self._parent(path)
                found = self._names.get((parent, last))
                if found is None:
                    self._change((parent, last, File()))
                elif path.endswith(".partial"):
                    found.data = b""  # type: ignore[union-attr]  # O_TRUNC
            case "write":
                before = self._node(path).data
                start = len(before) if rest in ([], [None]) else rest[0]
                self._node(path).data = before[:start] + data + before[start + len(data) :]
            case "truncate":
                self._node(path).data = b""
            case "fsync":
                self._node(path).durable = self._node(path).data
            case "fsync directory":
                self._settle(self._node(path))
            case "mkdir":
                self._change((*self._parent(path), Directory()))
            case "unlink" | "rmdir":
                self._change((*self._parent(path), None))
            case "link":  # to a file of elsewhere, which is durable there
                content = Path(other).read_bytes()
                self._change((*self._parent(path), File(content, content)))
            case "rename":
                self._change((*self._parent(path), None), (*self._parent(other), self._node(path)))
            case "exchange":
                self._change((*self._parent(path), self._node(other)), (*self._parent(other), self._node(path)))
            case _:
                raise AssertionError(f"unknown operation {name}")

    def _settle(self, directory: Directory) -> None:
        """Make durable what touches a directory."""
        kept = []
        for entries in self._changes:
            if any(where is directory for where, _, _ in entries):
                self._put(self._settled, entries)
            else:
                kept.append(entries)
        self._changes = kept

    @staticmethod
    def _put(names: dict[tuple[Directory, str], Node], entries: Sequence[Entry]) -> None:
        for directory, name, node in entries:
            if node is None:
                names.pop((directory, name), None)
            else:
                names[directory, name] = node

    def after_power_cut(self, loss: str, rng: random.Random) -> dict[str, bytes]:
        """Every file by relative name, directories ending with a slash, as one of LOSSES leaves them."""
        names = dict(self._settled)
        for entries in self._changes:
            kept = {"all lost": False, "names lost, data kept": False, "random": rng.random() < 0.5}.get(loss, True)
            if kept:
                self._put(names, entries)
        found: dict[str, bytes] = {}
        self._walk(names, self._top, "", loss, rng, found)
        return found

    def _walk(
        self,
        names: dict[tuple[Directory, str], Node],
        directory: Directory,
        prefix: str,
        loss: str,
        rng: random.Random,
        found: dict[str, bytes],
    ) -> None:
        for (where, name), node in names.items():
            if where is not directory:
                continue
            if isinstance(node, Directory):
                found[f"{prefix}{name}/"] = b""
                self._walk(names, node, f"{prefix}{name}/", loss, rng, found)
            else:
                found[prefix + name] = self._bytes(node, loss, rng)

    @staticmethod
    def _bytes(file: File, loss: str, rng: random.Random) -> bytes:
        if file.data == file.durable or loss in ("all kept", "names lost, data kept"):
            return file.data
        if loss in ("all lost", "names kept, data lost"):
            return file.durable
        if loss == "names kept, data zeroed":
            return bytes(len(file.data))
        torn = file.data[: rng.randrange(len(file.data) + 1)]
        return rng.choice((file.data, file.durable, torn, torn + bytes(len(file.data) - len(torn))))


def lay_out(found: dict[str, bytes], place: Path) -> None:
    """Write a tree into the new directory `place`."""
    place.mkdir()
    for name, data in sorted(found.items()):
        if name.endswith("/"):
            os.mkdir(place / name)
        else:
            (place / name).write_bytes(data)

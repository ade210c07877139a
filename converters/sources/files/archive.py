"""Archives of files, in any layout: unpacked once into a temporary folder, which is then read like any other.

zip, and tars compressed by gzip, bzip2, xz or zstd; a plain tar is read in place. Nothing is written outside of the
folder: links, devices and names that lead out of it are left out, or refused.
"""

import os
import stat
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

from shardfeed.converters.sources.files.tar import BLOCK, looks_like_header, members
from shardfeed.converters.sources.files.unpack import ByteStream, DamagedStreamError, Unpacked, form_of, unpacked
from shardfeed.converters.sources.guard import HostileError, budget, damaged, guarded, open_regular
from shardfeed.errors import escape, name_bytes, name_text
from shardfeed.text import counted, number, size_text

_PIECE = 1 << 20
UNKNOWN_SIZE = 1 << 62  # bytes of a tar of unknown length
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OF_MACOS = "__MACOSX"


def is_archive(path: str) -> bool:
    """Whether a file is a zip, or a compressed file whose content begins like a tar. Raises OSError."""
    with open_regular(path) as file:
        if file.read(4) in _ZIP:
            return True
    form = form_of(path)
    if not form:
        return False
    try:
        return looks_like_header(ByteStream(unpacked(path, form, path)).take(BLOCK))
    except DamagedStreamError:
        return False


def unpack(path: str) -> tuple[Unpacked, list[str]]:
    """Unpack an archive into a temporary folder, which is removed when nothing refers to the result any more.

    Files have its modification time. The sentences are for the report, also on members left out. Raises HostileError if
    it is damaged, unpacks to far more than its size, or has a name that leads out of the folder;
    StorageError if there is no room; MissingExtraError for zstd without its package.
    """
    with guarded(path):
        form = form_of(path)
        into = _Folder(path)
        try:
            if form:
                _unpack_tar(path, form, into)
            else:
                _unpack_zip(path, into)
            return into.into, into.finish()
        except BaseException as error:
            into.into.remove()
            if isinstance(error, DamagedStreamError):
                raise damaged(path, error) from None
            raise


class _Folder:
    """A folder that an archive is unpacked into, member by member."""

    def __init__(self, path: str) -> None:
        self.path, self.stored = path, os.path.getsize(path)
        self.into = Unpacked()
        self._seen: set[bytes] = set()
        self._folded: set[str] = set()
        self._left_out: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def note(self, why: str, name: bytes) -> None:
        """Count a member for a note."""
        self._counts[why] = self._counts.get(why, 0) + 1
        if self._counts[why] <= 4:
            self._left_out.setdefault(why, []).append(escape(name))

    def add(self, name: bytes, content: Iterator[bytes]) -> None:
        """Write a member below the folder. Raises HostileError for a name that leads out of it."""
        parts = name.replace(b"\\", b"/").split(b"/")
        if name.startswith(b"/") or b".." in parts or b"\0" in name or parts[0][1:2] == b":":
            problem = f"has a member '{escape(name[:200])}', which points outside its folder"
            raise HostileError(self.path, problem, "do not unpack it")
        parts = [part for part in parts if part not in (b"", b".")]
        budget().depth(len(parts), self.path)
        clean = b"/".join(parts)
        if not parts or name_text(parts[0]) == _OF_MACOS:
            self.note("resource forks of macOS", name)
        elif clean in self._seen:
            self.note("members with a duplicate name", name)
        else:
            self._seen.add(clean)
            if (folded := name_text(clean).casefold()) in self._folded:
                self.note("names that differ only in case, all unpacked", name)
            self._folded.add(folded)
            budget().rows(len(self._seen), self.stored, self.path, "members")
            try:
                file = self.into.new(self.path, os.fsdecode(clean))
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
                raise damaged(self.path, error) from None
            with file:
                for data in content:
                    budget().unpacked(self.into.size + len(data), self.stored, self.path)
                    file.write(data)

    def finish(self) -> list[str]:
        """Give all folders the archive's modification time. Returns the notes."""
        if not self._seen:
            raise HostileError(self.path, "is an empty archive", "check its contents")
        mtime = os.stat(self.path).st_mtime_ns
        for folder, _, _ in os.walk(self.into.folder):
            os.utime(folder, ns=(mtime, mtime))
        what = f"{number(self.into.files, 'file')}, {size_text(self.into.size)}, in {self.into.folder}"
        left_out = ((f"{why}, in the archive", self._left_out[why], n) for why, n in self._counts.items())
        name = escape(os.path.basename(self.path))
        return [f"unpacked {name}: {what}, removed at the end", *(counted(*one) for one in left_out)]


def _unpack_tar(path: str, form: str, into: _Folder) -> None:
    file = Forwards(unpacked(path, form, path), path)
    for member in members(cast("BinaryIO", file), path, UNKNOWN_SIZE):
        if not member.plain:
            into.note("links, devices and other special files", member.name)
            continue
        file.seek(member.offset)
        into.add(member.name, file.pieces(member.size))


class Forwards:
    """A stream as `members` reads a file: forwards. Bytes that are passed over count as unpacked."""

    def __init__(self, source: Iterator[bytes], place: str) -> None:
        self._stream, self._at = ByteStream(source), 0
        self._place, self._stored = place, os.path.getsize(place)

    def seek(self, offset: int) -> None:
        while self._at < offset and self.read(min(_PIECE, offset - self._at)):
            pass

    def read(self, size: int) -> bytes:
        data = self._stream.take(size)
        self._at += len(data)
        budget().unpacked(self._at, self._stored, self._place)
        return data

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes. Raises HostileError if the stream ends early."""
        while size:
            data = self.read(min(_PIECE, size))
            if not data:
                raise HostileError(self._place, "it is truncated within a member", "copy or download it again")
            size -= len(data)
            yield data


def _unpack_zip(path: str, into: _Folder) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            name = name_bytes(info.filename)
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                into.note("links, devices and other special files", name)
                continue
            if info.flag_bits & 1:
                raise HostileError(path, f"'{escape(name[:200])}' is encrypted", "unpack it with its password")
            with archive.open(info) as member:
                into.add(name, iter(partial(member.read, _PIECE), b""))

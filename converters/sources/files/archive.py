"""Archives of files, in any layout: unpacked once into a temporary folder, which is then read like any other.

zip, and tars compressed by gzip, bzip2, xz or zstd; a plain tar is read in place. Nothing is written outside of the
folder: devices, and links and names that lead out of it, are left out, or refused; a link to a file in it is that file.
"""

import os
import posixpath
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO, cast

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.tar import BLOCK, looks_like_header, members
from shardfeed.converters.sources.files.text import asked_encoding, foreign_names, is_utf8, utf8_name
from shardfeed.converters.sources.files.unpack import ByteStream, DamagedStreamError, Unpacked, form_of, unpacked
from shardfeed.converters.sources.guard import HostileError, budget, damaged, guarded, open_regular
from shardfeed.errors import escape, name_bytes, name_text
from shardfeed.text import counted, number, size_text

_PIECE = 1 << 20
UNKNOWN_SIZE = 1 << 62  # bytes of a tar of unknown length
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OF_MACOS = "__MACOSX"
_UTF8_NAME = 1 << 11  # flag of a zip's member
_UNICODE_PATH = 0x7075  # extra field of a zip's member: its name in UTF-8
_INNER_ENDS = (b".zip", b".tar.gz", b".tgz", b".tar.bz2", b".tbz2", b".tbz", b".tar.xz", b".txz", b".tar.zst")
_SPECIAL = "links, devices and other special files"
_LONGEST_LINK = 4096  # bytes


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
            _unpack_inner(into)
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
        self._inner = b""
        self._links: list[tuple[bytes, bytes]] = []

    def note(self, why: str, name: bytes) -> None:
        """Count a member for a note."""
        self._counts[why] = self._counts.get(why, 0) + 1
        if self._counts[why] <= 4:
            self._left_out.setdefault(why, []).append(escape(name))

    def add(self, name: bytes, content: Iterator[bytes]) -> None:
        """Write a member below the folder. Raises HostileError for a name that leads out of it."""
        clean = self._clean(name)
        if not clean or name_text(clean.removeprefix(self._inner).partition(b"/")[0]) == _OF_MACOS:
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

    def members(self) -> list[bytes]:
        """The paths of the files, sorted."""
        return sorted(self._seen)

    def begin_inner(self, name: bytes) -> None:
        """Begin an archive in the archive: what follows goes into a folder of this name."""
        self._write_links()
        self._links, self._inner = [], name + b"/"
        self.note("archives in it, unpacked into folders of their names", name)

    def _clean(self, name: bytes) -> bytes:
        """A member's name as a path in the folder. Raises HostileError for one that leads out of it."""
        parts = name.replace(b"\\", b"/").split(b"/")
        if name.startswith(b"/") or b".." in parts or b"\0" in name or parts[0][1:2] == b":":
            problem = f"has a member '{escape(name[:200])}', which points outside its folder"
            raise HostileError(self.path, problem, "do not unpack it")
        parts = [part for part in parts if part not in (b"", b".")]
        if len(parts) > 1 and parts[0] == self._inner[:-1].rpartition(b"/")[2]:
            parts = parts[1:]  # cat.zip with the folder cat
        budget().depth(len(parts) + self._inner.count(b"/"), self.path)
        return self._inner + b"/".join(parts) if parts else b""

    def link(self, name: bytes, target: bytes, *, is_hard: bool) -> None:
        """Note a link for `finish`: what it leads to may come after it. `target` as in `Member.link`."""
        target = target.replace(b"\\", b"/")
        self._links.append((name, target if is_hard else posixpath.join(posixpath.dirname(name), target)))
        budget().rows(len(self._links), self.stored, self.path, "links")

    def _write_links(self) -> None:
        """Make each link to an unpacked file that file, too; others are left out, and noted."""
        waiting = self._links
        while waiting:
            later = [one for one in waiting if not self._write_link(*one)]
            if len(later) == len(waiting):
                break
            waiting = later  # links to links
        for name, _ in waiting:
            self.note(_SPECIAL, name)

    def _write_link(self, name: bytes, target: bytes) -> bool:
        """Write the file that a link leads to under its name, too; False if there is none in the folder so far."""
        clean = posixpath.normpath(target)
        clean = self._inner + clean
        if target.startswith(b"/") or clean.startswith(self._inner + b"..") or clean not in self._seen:
            return False
        self.add(name, _content_of(os.path.join(self.into.made(), os.fsdecode(clean))))
        return True

    def finish(self) -> list[str]:
        """Write links, and give all folders the archive's modification time. Returns the notes."""
        self._write_links()
        if not self._seen:
            raise HostileError(self.path, "is an empty archive", "check its contents")
        mtime = os.stat(self.path).st_mtime_ns
        for folder, _, _ in os.walk(self.into.folder):
            os.utime(folder, ns=(mtime, mtime))
        what = f"{number(self.into.files, 'file')}, {size_text(self.into.size)}, in {self.into.folder}"
        left_out = ((f"{why}, in the archive", self._left_out[why], n) for why, n in self._counts.items())
        name = escape(os.path.basename(self.path))
        return [f"unpacked {name}: {what}, removed at the end", *(counted(*one) for one in left_out)]


def _unpack_inner(into: _Folder) -> None:
    """Unpack the archives in an archive without images, such as one for each class, into folders of their names."""
    members = into.members()
    if any(map(names_image, members)):
        return
    for name in members:
        path = os.path.join(into.into.made(), os.fsdecode(name))
        end = next((end for end in _INNER_ENDS if name.lower().endswith(end)), b"")
        if not end or not is_archive(path):
            continue
        into.begin_inner(name[: -len(end)])
        form = form_of(path)
        if form:
            _unpack_tar(path, form, into)
        else:
            _unpack_zip(path, into)
        os.remove(path)


def _unpack_tar(path: str, form: str, into: _Folder) -> None:
    file = Forwards(unpacked(path, form, path), path)
    for member in members(cast("BinaryIO", file), path, UNKNOWN_SIZE):
        if member.link:
            into.link(_named(member.name, path), _named(member.link, path), is_hard=member.is_hard)
            continue
        if not member.plain:
            into.note(_SPECIAL, member.name)
            continue
        file.seek(member.offset)
        into.add(_named(member.name, path), file.pieces(member.size))


def _named(name: bytes, path: str) -> bytes:
    """A name in a tar, where it is UTF-8. Raises UsageError for one that is not, if no encoding was asked for."""
    if not name.isascii() and not is_utf8(name):
        raise foreign_names([name], path, "has names that are not UTF-8")
    return name


def _content_of(path: str) -> Iterator[bytes]:
    with open_regular(path) as file:
        yield from iter(partial(file.read, _PIECE), b"")


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
        members = [info for info in archive.infolist() if not info.is_dir()]
        names = _names_of_zip(members, path, into)
        for info, name in zip(members, names, strict=True):
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
                into.note(_SPECIAL, name)
                continue
            if info.flag_bits & 1:
                raise HostileError(path, f"'{escape(name[:200])}' is encrypted", "unpack it with its password")
            with archive.open(info) as member:
                if kind == stat.S_IFLNK:
                    into.link(name, member.read(_LONGEST_LINK), is_hard=False)
                else:
                    into.add(name, iter(partial(member.read, _PIECE), b""))


def _names_of_zip(members: Sequence[zipfile.ZipInfo], path: str, into: _Folder) -> list[bytes]:
    """The names as UTF-8. Those that are not marked as such are in UTF-8 if all are, else in the encoding asked for.

    Raises UsageError if they are in another, which nothing names: the standard's CP437 is what few programs write.
    """
    marked = [*map(_marked_name, members)]
    stored = [
        info.orig_filename.encode("cp437") if name is None else name for info, name in zip(members, marked, strict=True)
    ]
    foreign = [raw for raw, name in zip(stored, marked, strict=True) if name is None and not raw.isascii()]
    if foreign and asked_encoding() is None:
        if not all(map(is_utf8, foreign)):
            raise foreign_names(foreign, path, "has names that are not UTF-8, and does not say their encoding")
        into.note("names that are read as UTF-8, which they are not marked as", foreign[0])
    return [utf8_name(raw, path) if name is None else name for raw, name in zip(stored, marked, strict=True)]


def _marked_name(info: zipfile.ZipInfo) -> bytes | None:
    """The name of a member that says that it is UTF-8; None for others."""
    if info.flag_bits & _UTF8_NAME:
        return name_bytes(info.filename)
    return _unicode_path(info, info.orig_filename.encode("cp437"))


def _unicode_path(info: zipfile.ZipInfo, raw: bytes) -> bytes | None:
    """The name of a member in the extra field that Info-ZIP writes; None without one that is about this name."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        data, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == _UNICODE_PATH and size > 5 and data[1:5] == struct.pack("<I", zlib.crc32(raw)):
            return data[5:]
    return None

"""The members of a tar by their headers, 512 bytes each, without reading their content.

Long names and large sizes as GNU (types L and K, binary numbers) and POSIX (pax records) write them. Memory is that of
one member.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import takewhile
from typing import BinaryIO, NamedTuple

from shardfeed.converters.sources.files.text import utf8_name
from shardfeed.converters.sources.guard import budget, open_regular
from shardfeed.errors import UsageError, escape
from shardfeed.text import number

BLOCK = 512
_ZEROS = bytes(BLOCK)
_FIELDS = struct.Struct("100s 24x 12s 12x 8x c 100s 6s 82x 155s 12x")  # name, size, kind, link, magic, name's beginning
_CHECKSUM = slice(148, 156)
_MOST_SUM = 65521  # sum of bytes at which the lower half of an Adler-32 wraps around
_MOST_EXTRA = 1 << 20  # bytes of a long name or of pax records
_TAIL = 1 << 20  # bytes examined after the end mark; writers pad with up to 10 kB, some with more
_RECORD = re.compile(rb"([0-9]{1,9}) ([^=]+)=")
_LONG_NAME, _LONG_LINK = b"\0name", b"\0link"  # told by GNU's headers; no pax record is called so
_WHOLE = "copy or download it again; `tar -tf FILE` shows how far it can be read"


class Member(NamedTuple):
    """A file in a tar: its name, where its bytes begin and how many there are.

    `plain`: whether these are the file; a link, device or sparse file has none that are. `link`: the name of the file
    that a link leads to: `is_hard`, that of a member before it, else relative to the folder of the link.
    """

    name: bytes
    offset: int
    size: int
    plain: bool
    link: bytes = b""
    is_hard: bool = False


def is_tar(path: str) -> bool:
    """Whether a file begins with the header of a tar's member, or is an empty tar."""
    try:
        with open_regular(path) as file:
            block = file.read(BLOCK)
    except OSError:
        return False
    empty = block == _ZEROS and path.lower().endswith(".tar")
    return len(block) == BLOCK and (empty or looks_like_header(block))


def members(file: BinaryIO, place: str, length: int | None = None) -> Iterator[Member]:
    """The members of a tar from its beginning, folders left out. `place`: the tar, for errors.

    `file` is only read and moved forwards. `length`: bytes of the tar, if the file's size is unknown. Names are UTF-8
    if an encoding was asked for, else as they are. Raises UsageError for a tar that is truncated, damaged or followed
    by other data, and for names that are not in the encoding asked for.
    """
    length = os.fstat(file.fileno()).st_size if length is None else length
    offset, told = 0, dict[bytes, bytes]()  # told: by extension headers, of the next member
    while (block := _header(file, place, offset)) is not None:
        name, size_field, kind, link, magic, prefix = _FIELDS.unpack(block)
        size_text = told.get(b"size", b"")
        size = budget().integer(size_text, place) if size_text.isdigit() else _number(size_field, place, offset)
        if kind in b"123456":  # links, devices, folders, FIFOs
            size = 0
        data = offset + BLOCK
        name = _name(told, _joined(prefix if magic == b"ustar\0" else b"", name), place)
        _check_member(name, kind, offset, size, place, length)
        offset = data + -(-size // BLOCK) * BLOCK
        if kind in b"LKxXg":
            _take_extension(told, kind, _extra(file, size, place, data), place, data)
            continue
        if kind != b"5" and not (kind == b"\0" and name.endswith(b"/")):
            yield _member(name, data, size, kind, link, told, place)
        if told:
            told = {}
    file.seek(offset)
    tail = file.read(_TAIL)
    if tail.count(0) < len(tail):
        problem = f"it has data after its end mark at byte {offset:,}: two tars, or remains of an older one"
        raise UsageError(place, problem, "unpack both and make one tar: `tar -xif FILE` ignores end marks")


def _name(told: dict[bytes, bytes], stored: bytes, place: str) -> bytes:
    """The name of a member, told or in its header. A pax record is UTF-8, whatever encoding was asked for."""
    if _LONG_NAME not in told and b"path" in told:
        return told[b"path"]
    return utf8_name(told.get(_LONG_NAME) or stored, place)


def _header(file: BinaryIO, place: str, offset: int) -> bytes | None:
    """The header at a byte of a tar; None for its end mark. Raises UsageError."""
    file.seek(offset)
    block = file.read(BLOCK)
    if len(block) < BLOCK:
        problem = f"it ends at byte {offset + len(block):,} without the end mark of a tar, so it is truncated"
        raise UsageError(place, problem, _WHOLE)
    if block == _ZEROS:
        return None
    if not looks_like_header(block):
        problem = f"the header at byte {offset:,} does not match its checksum"
        raise UsageError(place, f"{problem}, so it is damaged or not a tar", _WHOLE)
    return block


def _check_member(name: bytes, kind: bytes, offset: int, size: int, place: str, length: int) -> None:
    """Raise UsageError for a member whose bytes are not in the tar, or not in one piece."""
    data = offset + BLOCK
    if data + size > length:
        problem = f"'{escape(name)}' at byte {data:,} has {number(size, 'byte')}"
        raise UsageError(place, f"{problem}, the tar ends at {length:,}: truncated", _WHOLE)
    if kind == b"S":
        problem = f"'{escape(name)}' at byte {offset:,} is sparse, so its bytes are not stored in one piece"
        raise UsageError(place, problem, "write the tar without `--sparse`")


def _take_extension(told: dict[bytes, bytes], kind: bytes, extra: bytes, place: str, data: int) -> None:
    """Take what an extension header says about the next member: a long name, a long link, or pax records."""
    if kind in b"LK":
        told[_LONG_NAME if kind == b"L" else _LONG_LINK] = extra.partition(b"\0")[0]
    elif kind in b"xX":
        told |= _pax(extra, place, data)


def _member(
    name: bytes, data: int, size: int, kind: bytes, link: bytes, told: dict[bytes, bytes], place: str
) -> Member:
    if kind in b"12":
        stored = told.get(_LONG_LINK) or link.partition(b"\0")[0]
        return Member(name, data, size, False, told.get(b"linkpath") or utf8_name(stored, place), kind == b"1")
    sparse = told and any(key.startswith(b"GNU.sparse") for key in told)
    return Member(name, data, size, kind in b"0\x007" and not sparse)


class HardLinks:
    """The files that hard links of a tar are, which come before them.

    Names are kept from the first link on, or of a stream that is only read forwards (`length` is given) all of them.
    """

    def __init__(self, file: BinaryIO, place: str, length: int | None) -> None:
        self._file, self._place = file, place
        self._files: dict[bytes, Member] | None = None if length is None else {}

    def resolved(self, member: Member) -> Member:
        """The member with the bytes of the file that it is a hard link to; any other as it is."""
        if self._files is None:
            if not member.is_hard:
                return member
            self._files = self._before(member)
        found = self._files.get(_plain_name(member.link), member) if member.is_hard else member
        if found.plain:
            self._files[_plain_name(member.name)] = found
        return found._replace(name=member.name)

    def _before(self, member: Member) -> dict[bytes, Member]:
        earlier = takewhile(lambda one: one.offset < member.offset, members(self._file, self._place))
        return {_plain_name(one.name): one for one in earlier if one.plain}


def _plain_name(name: bytes) -> bytes:
    return name.removeprefix(b"./").lstrip(b"/")


def read_member(file: BinaryIO, member: Member) -> bytes:
    """The bytes of a member."""
    file.seek(member.offset)
    return file.read(member.size)


def looks_like_header(block: bytes) -> bool:
    """Whether a header agrees with its checksum, as POSIX has it, or as old programs did that summed signed bytes."""
    if len(block) < BLOCK:
        return False
    checksum = block[_CHECKSUM].strip(b" \0")
    if not checksum or checksum.strip(b"01234567"):
        return False
    wanted = int(checksum, 8)
    summed = block[: _CHECKSUM.start] + b" " * 8 + block[_CHECKSUM.stop :]
    if zlib.adler32(summed, 0) & 0xFFFF == wanted % _MOST_SUM:  # a sum of bytes, many times as fast as sum()
        return True
    return sum(summed) - 256 * sum(byte > 127 for byte in summed) == wanted


def _number(field: bytes, place: str, offset: int) -> int:
    """Read a number from a header field: octal digits, or binary if the first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if digits.strip(b"01234567"):
        problem = f"the header at byte {offset:,} has the size '{escape(digits)}', expected octal digits"
        raise UsageError(place, problem, _WHOLE)
    return int(digits or b"0", 8)


def _joined(prefix: bytes, name: bytes) -> bytes:
    """A name of two fields that end at a zero byte, or are full."""
    name, prefix = name.partition(b"\0")[0], prefix.partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _extra(file: BinaryIO, size: int, place: str, offset: int) -> bytes:
    """Read the data of an extension header (a long name, pax records), which describes the next member."""
    if size > _MOST_EXTRA:
        problem = f"the name or record at byte {offset:,} has {size:,} bytes, expected {_MOST_EXTRA:,} at most"
        raise UsageError(place, problem, _WHOLE)
    file.seek(offset)
    return file.read(size)


def _pax(data: bytes, place: str, offset: int) -> dict[bytes, bytes]:
    """The records `LENGTH KEY=VALUE` and a line feed, one after the other."""
    found: dict[bytes, bytes] = {}
    start = 0
    while start < len(data) and data[start]:
        head = _RECORD.match(data, start)
        end = start + int(head[1]) if head else 0
        if head is None or not head.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise UsageError(place, f"the record at byte {offset + start:,} is not a pax record", _WHOLE)
        found[head[2]] = data[head.end() : end - 1]
        start = end
    return found

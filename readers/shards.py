"""A split's shard files: records by their place in the split, checked, from many threads and processes at once.

Files are opened when they are first needed and read by `pread`, which has no shared position.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, frame_parts, unframe
from shardfeed.formats.tfrecord.index import Index
from shardfeed.manifest import SplitInfo, parse_manifest
from shardfeed.naming import INDEX_SUFFIX, MANIFEST, RECORD_SUFFIX
from shardfeed.storage.checksum import crc32c

_OPEN_SHARDS = 128  # files one split keeps open; a process may usually have 1024
_RESTORE = "restore it, or keep the rest with `shardfeed salvage DIR OUT`"
_REMEDY = "`shardfeed index DIR --rebuild` makes it again"
_READ_BYTES = 8 << 20  # records that follow each other in a shard are read together, up to so many bytes


@dataclass(frozen=True)
class Copy:
    """Files that are read instead of a split's own: the same samples in the same places. Made by `copies.py`.

    `directory`: where they are. `info`: what they are. `numbers[i]`: the split's shard of which their shard `i` is the
    copy; shards that have none are read where they were. `decoded`: whether images are raw pixels in it.
    """

    directory: str
    info: SplitInfo
    numbers: tuple[int, ...]
    decoded: bool


class _OpenFile:
    """A file descriptor that closes when the last reader lets go of it: evicting one in use is safe."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class Shards:
    """The shard files and indexes of one split. Pickles as its directory and what the manifest says of it.

    `info` says what the split is, also where a `copy` of shards is read, which may hold other bytes.
    `firsts`: int64 [shards + 1], the place in the split of each shard's first record, and the number of records.
    `columns`: features that `read_column` has read, in stored order; as little pickled as open files.
    """

    def __init__(self, directory: str, info: SplitInfo, copy: Copy | None = None) -> None:
        self.directory = directory
        self.info = info
        self.copy = copy
        self._copied = {number: i for i, number in enumerate(copy.numbers)} if copy else {}
        self.firsts = np.cumsum([0, *(shard.records for shard in info.shards)], dtype=np.int64)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[int, _OpenFile] = OrderedDict()
        self._indexes: dict[int, Index] = {}
        self.columns: dict[str, np.ndarray] = {}
        self._manifests: dict[str, tuple[int, int, int, int]] = {}  # directory -> the manifest file that was compared

    def __getstate__(self) -> tuple[str, SplitInfo, Copy | None]:
        return self.directory, self.info, self.copy

    def __setstate__(self, state: tuple[str, SplitInfo, Copy | None]) -> None:
        self.__init__(*state)

    def read_from(self, shard: int) -> tuple[str, SplitInfo, int]:
        """Where a shard is read: a directory, the split that its files belong to, and the shard's number there."""
        if self.copy is not None and shard in self._copied:
            return self.copy.directory, self.copy.info, self._copied[shard]
        return self.directory, self.info, shard

    def path(self, shard: int) -> str:
        """The path of the file that is read for a shard."""
        directory, info, number = self.read_from(shard)
        return os.path.join(directory, info.stem(number) + RECORD_SUFFIX)

    def index(self, shard: int) -> Index:
        """Where the records of a shard start; read when first asked for, and kept: 8 bytes a record."""
        if shard not in self._indexes:
            directory, info, number = self.read_from(shard)
            path = os.path.join(directory, info.stem(number) + INDEX_SUFFIX)
            try:
                self._indexes[shard] = read_index(path, info, number)
            except (IntegrityError, FileNotFoundError):
                self.check_current(shard)
                raise
        return self._indexes[shard]

    def check_current(self, shard: int) -> None:
        """Raises IntegrityError when another dataset has taken the place of the one that was opened.

        Files are opened when they are first needed, and a converter may have swapped its directory meanwhile: a shard
        of the same name and size then holds other records, and nothing about it is damaged.
        """
        directory, info, _ = self.read_from(shard)
        path = os.path.join(directory, MANIFEST)
        try:
            with open(path, "rb") as file:
                state = os.fstat(file.fileno())
                identity = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
                if self._manifests.get(directory) == identity:
                    return
                found = parse_manifest(file.read(), path).splits.get(info.name)
        except (FileNotFoundError, NotADirectoryError):
            raise IntegrityError(directory, "its manifest is gone since it was opened", "open it again") from None
        if found is None or found.shards != info.shards:
            raise IntegrityError(directory, "replaced by another dataset since it was opened", "open it again")
        self._manifests[directory] = identity

    def unchecked(self, shard: int, size: int, offset: int) -> bytes:
        """`size` bytes of a shard file from `offset` on, or fewer at its end. No CRC is checked."""
        file = self._file(shard)  # held while it is read, as in _run
        return os.pread(file.fd, size, offset)

    def fetch_ahead(self, shard: int, size: int, offsets: Iterable[int]) -> None:
        """Have the system start to read `size` bytes at each of `offsets`: their waits on a disk then overlap."""
        if hasattr(os, "posix_fadvise"):  # Linux has it, macOS has not; nothing but speed depends on it
            file = self._file(shard)
            for offset in offsets:
                os.posix_fadvise(file.fd, offset, size, os.POSIX_FADV_WILLNEED)

    def payloads(self, places: np.ndarray) -> list[bytes]:
        """The records at `places`, int64 [k], in that order, their CRCs checked. Raises RecordError, IntegrityError.

        They are read in the order in which they are stored, and those that follow each other in a shard at once.
        """
        found = [b""] * len(places)
        if not found:
            return found
        by_place = np.argsort(places, kind="stable")
        ordered = places[by_place]
        shards = np.searchsorted(self.firsts, ordered, "right") - 1
        rows = (ordered - self.firsts[shards]).tolist()
        # A run: records of one shard, each right after the one before.
        ends = np.flatnonzero((np.diff(ordered) != 1) | (np.diff(shards) != 0)) + 1
        targets = by_place.tolist()
        start = 0
        for end in [*ends.tolist(), len(found)]:
            shard = int(shards[start])
            for number, payload in enumerate(self._run(shard, rows[start], end - start), start):
                found[targets[number]] = payload
            start = end
        return found

    def _run(self, shard: int, row: int, count: int) -> "list[bytes]":
        """`count` records of a shard from `row` on."""
        offsets = self.index(shard).offsets[row : row + count + 1].tolist()
        path = self.path(shard)
        file = self._file(shard)  # held while it is read: another thread may evict it, and the last reference closes
        payloads: list[bytes] = []
        while len(payloads) < count:
            first = last = len(payloads)
            while last < count and (last == first or offsets[last + 1] - offsets[first] <= _READ_BYTES):
                last += 1
            begin = offsets[first]
            if last - first == 1 and (payload := _payload_alone(file.fd, begin, offsets[last])) is not None:
                payloads.append(payload)
                continue
            data = os.pread(file.fd, offsets[last] - begin, begin)
            for i in range(first, last):
                framed = data if last - first == 1 else data[offsets[i] - begin : offsets[i + 1] - begin]
                place = f"{path}, record {row + i}, offset {offsets[i]}"
                size = offsets[i + 1] - offsets[i]
                if len(framed) != size:
                    raise RecordError(
                        place, f"got {len(framed)} bytes, expected {size}: the shard was cut", "run `shardfeed verify`"
                    )
                payloads.append(unframe(framed, place))
        return payloads

    def _file(self, shard: int) -> _OpenFile:
        files = self._files
        with self._lock:
            if shard in files:
                files.move_to_end(shard)
                return files[shard]
        try:
            opened = _OpenFile(self.path(shard))
        except FileNotFoundError:
            self.check_current(shard)
            raise IntegrityError(self.path(shard), "missing: the manifest has this shard", _RESTORE) from None
        self.check_current(shard)  # after it was opened: what is swapped in from now on is another file
        with self._lock:
            files[shard] = opened
            if len(files) > _OPEN_SHARDS:
                files.popitem(last=False)
        return opened


def _payload_alone(fd: int, start: int, end: int) -> bytes | None:
    """The payload of the framed record in bytes `start` to `end` of a file, or None where anything is wrong with it.

    Read by itself: cutting it out of its frame would copy it, which takes longer than checking its CRC.
    """
    payload = os.pread(fd, end - start - FRAME_BYTES, start + HEADER_BYTES)
    header, _, footer = frame_parts([payload])
    framed_alike = (
        os.pread(fd, HEADER_BYTES, start) == header and os.pread(fd, FOOTER_BYTES, end - FOOTER_BYTES) == footer
    )
    return payload if framed_alike and len(payload) == end - start - FRAME_BYTES else None


def read_index(path: str, info: SplitInfo, shard: int) -> Index:
    """The index of a shard, checked against the manifest's CRC, count and size. Raises IntegrityError."""
    with open(path, "rb") as file:
        data = file.read()
    expected = info.shards[shard]
    if crc32c(data) != expected.index.crc32c:
        raise IntegrityError(path, "the index is not the one that was written with this shard", _REMEDY)
    index = Index.parse(data, path)
    if len(index) != expected.records or index.offsets[-1] != expected.data.size:
        raise IntegrityError(
            path,
            f"the index has {len(index)} records in {index.offsets[-1]} bytes, "
            f"the manifest {expected.records} in {expected.data.size}",
            _REMEDY,
        )
    return index

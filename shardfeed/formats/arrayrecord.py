"""A shard as ArrayRecord, which TensorFlow Datasets and Grain read by row: each record is a serialized Example.

train-00000-of-00004.array_record is made by the library of that name, with `group_size:1,uncompressed`: the default
compresses, which does not make images smaller, and has to read a group of records to get one.

It is a Riegeli file: blocks of 64 KiB, each with a header of 24 bytes; chunks, each with a header of 40 bytes, fill
the space between those headers. Here each chunk holds one record, at its end. The chunks after the last record are an
index of all records.

Sources: google/array_record, cpp/array_record_writer.h; google/riegeli, doc/riegeli_records_file_format.md.
"""

import errno
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, StorageError, escape
from shardfeed.formats.container import ContainerFormat, WrittenContainer
from shardfeed.schema import Value
from shardfeed.storage.local import NO_ROOM, NewFile, storage_error
from shardfeed.storage.storage import FileInfo

_OPTIONS = "group_size:1,uncompressed"
_BLOCK, _HEADER = 1 << 16, 24
_CHUNK = struct.Struct("<8xQ8xQQ")  # bytes of its data; its kind, and how many records; bytes of those
_SIGNATURE, _ONE_RECORD = ord("s"), ord("r") | 1 << 8


class _ArrayRecord:
    """See `Container`. The library writes to our temporary file, which is then made durable like any other."""

    def __init__(self, path: str, *_: object) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        self._file = NewFile(path, sync_directory=False)
        self._sizes = array("q")
        self._writer = ArrayRecordWriter(self._file.temporary, _OPTIONS)

    def add(self, values: Mapping[str, Value], parts: Sequence[bytes]) -> None:
        """Append a record. Another thread writes it, and `finish` raises that thread's errors."""
        payload = b"".join(parts)
        self._writer.write(payload)
        self._sizes.append(len(payload))

    def finish(self) -> WrittenContainer:
        """Close the file; return its size and checksum, and the offsets and sizes of its records."""
        try:
            self._writer.close()
        except RuntimeError as error:
            raise _storage_error(self._file.path, str(error)) from error
        self._file.take_over()
        offsets, sizes = _places(self._file.temporary, self._sizes)
        self._file.__exit__(None)
        return WrittenContainer(FileInfo(self._file.size, self._file.crc32c), offsets, sizes)

    def discard(self) -> None:
        with suppress(RuntimeError):  # unwritten data is discarded anyway
            self._writer.close()
        self._file.__exit__(RuntimeError)


def _storage_error(path: str, message: str) -> StorageError:
    """Return the StorageError for a message of the library, which reports errors of the system as text."""
    for code in (*NO_ROOM, errno.EFBIG, errno.EIO, errno.EROFS):
        if os.strerror(code) in message:
            return storage_error(path, "write", OSError(code, os.strerror(code)))
    return StorageError(path, f"cannot write: {escape(message)}", "run the same command again to resume")


def _places(path: str, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Locate records of these sizes: offset of each, and the distance to its end; int64 [n] both.

    Raises IntegrityError if a chunk does not have the requested form.
    """
    ends = np.zeros(len(sizes), np.int64)  # in the bytes between the blocks' headers
    row = -2
    for row, (end, kind, decoded) in enumerate(islice(chunks(path), len(sizes) + 1), -1):
        if (kind & 0xFF, decoded) != (_SIGNATURE, 0) if row < 0 else (kind, decoded) != (_ONE_RECORD, sizes[row]):
            raise IntegrityError(path, f"array_record wrote chunk {row} with unexpected contents")
        if row >= 0:
            ends[row] = end
    if row < len(sizes) - 1:
        raise IntegrityError(path, f"array_record wrote {row + 1} records, expected {len(sizes)}")
    begins = ends - np.array(sizes, np.int64)
    offsets = _in_file(begins)
    return offsets, np.where(ends > begins, _in_file(ends - 1) + 1 - offsets, 0)


def chunks(path: str) -> Iterator[tuple[int, int, int]]:
    """Yield each chunk of a file: its end, without the blocks' headers, its kind, and bytes of its records in memory.

    All values are from its header. The signature at the beginning is a chunk, too. Stops at the end of a valid file.
    """
    at = 0
    with open(path, "rb", 0) as file:
        while True:
            first, last = _in_file(at), _in_file(at + _CHUNK.size - 1)
            header = os.pread(file.fileno(), last + 1 - first, first)
            if last + 1 - first > _CHUNK.size:
                before = _BLOCK - first % _BLOCK
                header = header[:before] + header[before + _HEADER :]
            if len(header) < _CHUNK.size:
                return
            size, kind, decoded = _CHUNK.unpack(header)
            at += _CHUNK.size + size
            if at > 1 << 62:
                return
            yield at, kind, decoded


def _in_file(place: Any) -> Any:
    """Convert an offset that does not count the blocks' headers to an offset in the file, int or int64 array."""
    return place + _HEADER * (place // (_BLOCK - _HEADER) + 1)


class ArrayRecord(ContainerFormat):
    """See `ShardFormat`."""

    name = "arrayrecord"
    data_suffix = ".array_record"
    package = "array_record"
    block, header = _BLOCK, _HEADER
    holds_payloads = True
    container = _ArrayRecord

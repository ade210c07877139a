"""ArrayRecord files, as TFDS and Grain write and read them: their records are serialised tf.train.Examples.

They are read by the array_record library. In a file with groups of records (older ones have 65,536 per group), a group
would be unpacked for every image: such a file is written once into a temporary file, record by record.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources import tfrecord
from shardfeed.converters.sources.files.parts import close, opened
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.guard import budget, open_regular
from shardfeed.converters.sources.shard_names import ARRAY_RECORD
from shardfeed.converters.sources.source import SourceFile
from shardfeed.converters.sources.tfrecord import (
    ExampleFile,
    ExampleFormat,
    FoundRecord,
    read_examples,
    recognise_examples,
)
from shardfeed.errors import UsageError, check_extra, escape
from shardfeed.formats.arrayrecord import chunks

# The first 64 bytes of every Riegeli file, in which ArrayRecord keeps its records: a block's header, and a signature.
_START = bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")
_GROUP = re.compile(r"group_size:(\d+)")
_ONE_BY_ONE = "readahead_buffer_size:0,max_parallelism:0"
_CHECKED = 64  # files with small enough groups


@dataclass(frozen=True)
class ArrayRecordPart:
    """The payload of record `record` of a file. Raises RejectedError when called."""

    file: SourceFile
    record: int

    def __call__(self) -> bytes:
        """The payload."""
        try:
            return opened(self.file, _open).read([self.record])[0]
        except (RuntimeError, ValueError, IndexError) as error:
            close(self.file.path)  # one that failed once fails from then on
            raise RejectedError(RejectCode.CORRUPT, f"record {self.record}: {escape(error)[:300]}") from None


def _open(path: str) -> Any:
    """Open a reader of the file. Raises UsageError if the file is truncated or damaged as a whole."""
    check_extra("array_record", "arrayrecord")
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]  # compiled

    try:
        reader = array_record_module.ArrayRecordReader(path, _ONE_BY_ONE)
    except (RuntimeError, ValueError) as error:
        raise UsageError(path, f"not an ArrayRecord file: {escape(error)[:300]}", "get it again") from None
    if not reader.ok():
        raise UsageError(path, "truncated: its list of records at the end is missing", "get it again")
    return reader


def _close(reader: Any) -> None:
    """A reader that met damage raises it again when it is closed."""
    with contextlib.suppress(RuntimeError):
        reader.close()


def is_arrayrecord(path: str) -> bool:
    """Whether a file begins as one. Raises OSError."""
    with open_regular(path) as file:
        return file.read(len(_START)) == _START


def is_packed(path: str) -> bool:
    """Whether a file's records are in groups. Raises UsageError."""
    if not is_arrayrecord(path):
        raise UsageError(path, "not an ArrayRecord file, or its start is damaged", "move it away, or get it again")
    reader = _open(path)
    group = _GROUP.search(reader.writer_options_string() or "")
    _close(reader)
    return group is None or int(group[1]) > 1


def _unpack(path: str, unpacked: Unpacked) -> tuple[str, str]:
    lost: list[FoundRecord] = []

    def payloads() -> Iterator[bytes]:
        for met in _all(path):
            if met.problem:
                lost.append(met)
            else:
                yield met.payload

    plain = tfrecord.repacked(payloads(), path, unpacked)
    return plain, f"{len(lost)} records are damaged, the first is {lost[0].record}: {lost[0].problem}" if lost else ""


@functools.lru_cache(maxsize=_CHECKED)
def _check_groups(path: str, size: int, mtime_ns: int) -> None:
    """Raise HostileError if a group, which is decompressed as a whole, would take too much memory."""
    del mtime_ns  # identifies a file
    largest = max((decoded for _, _, decoded in chunks(path)), default=0)
    budget().memory(largest, size, path, "a group of its records")


def _all(path: str) -> Iterator[FoundRecord]:
    state = os.stat(path)
    _check_groups(path, state.st_size, state.st_mtime_ns)
    reader = _open(path)
    try:
        for record in range(reader.num_records()):
            try:
                met = FoundRecord(record, 0, 0, reader.read())
            except (RuntimeError, ValueError, IndexError) as error:
                met = FoundRecord(record, 0, 0, b"", escape(error)[:300])
                _close(reader)
                reader = _open(path)  # one that failed once fails from then on
                reader.seek(record + 1)
            yield met
    finally:
        _close(reader)


def records(file: ExampleFile) -> Iterator[FoundRecord]:
    """All records of a file; for damaged ones, the fault."""
    path = os.fsdecode(file.path)
    return _all(path) if is_arrayrecord(path) else tfrecord.records(file)  # repacked as such


def part(file: ExampleFile, record: int, offset: int, size: int) -> Callable[[], bytes]:
    """Return a callable that reads the payload of a record. `size`: 0 unless the file was repacked as TFRecord."""
    if size:
        return tfrecord.part(file, record, offset, size)
    return ArrayRecordPart(file, record)


FORMAT = ExampleFormat("arrayrecord", ARRAY_RECORD, is_arrayrecord, is_packed, _unpack, records, part)
recognise = functools.partial(recognise_examples, form=FORMAT)
read = functools.partial(read_examples, form=FORMAT)

"""TFRecords that others wrote: plain, or compressed with GZIP or ZLIB, by any names and with any keys."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.archives.unpack import (
    DamagedStreamError,
    compression,
    inflated,
)
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.records.examples import read_examples, recognise_examples
from shardfeed.converters.sources.containers.records.found_files import ExampleFile, ExampleFormat, Met
from shardfeed.converters.sources.containers.records.repack import unpack_records
from shardfeed.converters.sources.rows.parts import FilePart
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import RecordError, escape
from shardfeed.formats.tfrecord.framing import HEADER_BYTES, payload_length, unframe
from shardfeed.formats.tfrecord.scan import pieces

_HEAD = 64
_ARRAY_RECORD = re.compile(r"array_?record", re.IGNORECASE)


@dataclass(frozen=True)
class FramedPart:
    """The payload of one record, its CRCs checked; `place` names it. Raises RejectedError when called."""

    part: FilePart
    place: str

    def __call__(self) -> bytes:
        """The payload."""
        try:
            return unframe(self.part(), self.place)
        except RecordError as error:
            raise RejectedError(RejectCode.CORRUPT, f"{escape(self.place)}: {error.problem}") from None


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """Whether `path` is a TFRecord file, or a folder with some, by the first record of the first."""
    return recognise_examples(path, options, FORMAT)


def read(path: str, options: ContainerOptions) -> ColumnarSource:
    """The samples of a TFRecord file, or of those in a folder or in its folders, which then are splits.

    Every record is read once, and both its CRCs checked; damaged ones are listed. Compressed files are unpacked into a
    temporary folder (TMPDIR). Raises UsageError where nothing tells what the records are, LabelFileError for a label
    map that cannot be read, StorageError.
    """
    return read_examples(path, options, FORMAT)


def is_tfrecord(path: str) -> bool:
    """Whether a file begins with a record's length and its CRC, compressed or not. Raises OSError."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(_HEAD)
        if compression(head):
            file.seek(0)
            try:
                head, size = next(inflated(file), b""), 1 << 62
            except DamagedStreamError:
                return False
    try:
        payload_length(head[:HEADER_BYTES], size - HEADER_BYTES, path)
    except RecordError:
        return False
    return True


def is_packed(path: str) -> bool:
    """Whether a file is compressed. Raises OSError."""
    with open(path, "rb") as file:
        return bool(compression(file.read(_HEAD)))


def records(file: ExampleFile) -> Iterator[Met]:
    """All records of a file; where some are damaged, one for as far as the next whole one."""
    for record, piece in enumerate(pieces(file.path)):
        size = piece.end - piece.start
        problem = "" if piece.framed else f"damaged or cut: {size} bytes from offset {piece.start} on"
        yield Met(record, piece.start, size, piece.payload, problem)


def part(file: ExampleFile, record: int, offset: int, size: int) -> Callable[[], bytes]:
    """What gives the payload of a record."""
    place = f"{file.name}, record {record}"
    return FramedPart(
        FilePart(file.path.encode("utf-8", "surrogateescape"), offset, size, file.size, file.mtime_ns), place
    )


def _stand_in(name: str) -> str:
    return "" if _ARRAY_RECORD.search(name) else name


FORMAT = ExampleFormat("tfrecord", "TFRecord", is_tfrecord, is_packed, unpack_records, records, part, _stand_in)

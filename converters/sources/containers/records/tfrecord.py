"""TFRecords that others wrote: plain, or compressed with GZIP or ZLIB, by any names and with any keys.

Every record is read, and both its CRCs checked; damaged ones are listed. Compressed files are unpacked into a temporary
folder (TMPDIR).
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Stream, Unpacked, compression, inflated
from shardfeed.converters.sources.containers.records.examples import (
    ExampleFile,
    ExampleFormat,
    FoundRecord,
    read_examples,
    recognise_examples,
)
from shardfeed.converters.sources.containers.records.shard_names import TFRECORD, is_tfrecord
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.rows.source import FilePart
from shardfeed.errors import RecordError, escape
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, frame, payload_length, unframe
from shardfeed.formats.tfrecord.scan import pieces

_HEAD = 64
_WINDOW = 1 << 20
_NO_END = 1 << 62


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


def packing(path: str) -> str:
    """Compression of a file, "" if it has none. Raises OSError."""
    with open_regular(path) as file:
        return compression(file.read(_HEAD))


def records(file: ExampleFile) -> Iterator[FoundRecord]:
    """Yield all records of a file; a damaged stretch up to the next intact record yields one entry."""
    for record, piece in enumerate(pieces(os.fsdecode(file.path))):
        size = piece.end - piece.start
        problem = "" if piece.framed else f"damaged or truncated: {size} bytes from offset {piece.start} on"
        yield FoundRecord(record, piece.start, size, piece.payload, problem)


def part(file: ExampleFile, record: int, offset: int, size: int) -> Callable[[], bytes]:
    """Return a callable that reads the payload of a record."""
    place = f"{file.name}, record {record}"
    return FramedPart(FilePart(file.path, offset, size, file.size, file.mtime_ns), place)


def repacked(payloads: Iterator[bytes], source: str, into: Unpacked) -> str:
    """Write the payloads of the file `source` to an uncompressed TFRecord file. Raises StorageError."""
    with into.new(source) as out:
        for payload in payloads:
            out.write(frame(payload))
        return out.path


def _unpack(path: str, into: Unpacked) -> tuple[str, str]:
    """(A plain TFRecord file with the records of a compressed one, up to a damaged length; the damage, or "").

    A length is checked by its CRC before that many bytes are written, so that a stream of zeros cannot fill the disk.
    Raises StorageError; RecordError if the first record has no valid length.
    """
    with open_regular(path) as file, into.new(path) as out:
        stream = Stream(inflated(file))
        first = True
        try:
            while header := stream.take(HEADER_BYTES):
                try:
                    left = payload_length(header, _NO_END, path) + FOOTER_BYTES
                except RecordError as error:
                    if first:
                        raise
                    return out.path, error.problem
                out.write(header)
                while left:
                    data = stream.take(min(left, _WINDOW))
                    if not data:
                        return out.path, "it ends inside a record"
                    out.write(data)
                    left -= len(data)
                first = False
        except DamagedStreamError as error:
            return out.path, f"the compressed data is damaged: {error}"
        return out.path, ""


FORMAT = ExampleFormat("tfrecord", TFRECORD, is_tfrecord, packing, _unpack, records, part)
recognise, read = partial(recognise_examples, form=FORMAT), partial(read_examples, form=FORMAT)

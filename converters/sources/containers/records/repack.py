"""Records that cannot be read in any order, written once into a plain TFRecord file in a temporary folder."""

from collections.abc import Iterator

from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Stream, Unpacked, inflated
from shardfeed.errors import RecordError
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, frame, payload_length

_WINDOW = 1 << 20
_NO_END = 1 << 62


def repacked(payloads: Iterator[bytes], source: str, into: Unpacked) -> str:
    """A plain TFRecord file of payloads, which are those of the file `source`. Raises StorageError."""
    with into.new(source) as out:
        for payload in payloads:
            out.write(frame(payload))
        return out.path


def unpack_records(path: str, into: Unpacked) -> tuple[str, str]:
    """(A plain TFRecord file with the records of a compressed one, up to a damaged length; what is damaged, or "").

    A length is checked by its CRC before what it speaks of is written, so that not any stream of zeros fills the disk.
    Raises StorageError; RecordError where the first record has no length.
    """
    with open(path, "rb") as file, into.new(path) as out:
        stream = Stream(inflated(file))
        records = 0
        try:
            while header := stream.take(HEADER_BYTES):
                try:
                    left = payload_length(header, _NO_END, f"{path}, record {records}") + FOOTER_BYTES
                except RecordError as error:
                    if not records:
                        raise
                    return out.path, error.problem
                out.write(header)
                while left:
                    data = stream.take(min(left, _WINDOW))
                    if not data:
                        return out.path, "it ends inside a record"
                    out.write(data)
                    left -= len(data)
                records += 1
        except DamagedStreamError as error:
            return out.path, f"the compressed data is damaged: {error}"
        return out.path, ""

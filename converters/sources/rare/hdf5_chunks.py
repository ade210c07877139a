"""Chunks of an HDF5 dataset, measured before HDF5 decompresses them.

HDF5 decompresses a chunk to whatever size its bytes give, not only to the size that the dataset declares: DEFLATE
reaches 1,032 times the stored bytes, LZF 90 times. So a chunk whose stored bytes could give more than is harmless is
decompressed here first, up to that size. Filters of plugins are not measured.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.guard import MEMORY_FREE
from shardfeed.errors import escape
from shardfeed.text import size_text

MAX_CHUNK_BYTES = 128 << 20  # the whole chunk is read for one of its images
_MOST_CHUNKS = 1 << 16  # of one row: each is looked up
_SLACK = 64 << 10  # bytes by which a filter may enlarge a chunk that does not compress, besides twice
_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP, _NBIT, _SCALEOFFSET, _LZF = 1, 2, 3, 4, 5, 6, 32000  # as HDF5 numbers them
_RATIOS = {_DEFLATE: 1032, _LZF: 90}
_DECLARING = (_NBIT, _SCALEOFFSET)  # whose settings have the number of values of a chunk, and the bytes of one
Filter = tuple[int, Sequence[int]]  # its number and settings


@dataclass(frozen=True)
class _Chunk:
    """A stored chunk: where it begins in the dataset, the filters that it went through, and its bytes in the file."""

    offset: tuple[int, ...]
    filters: tuple[Filter, ...]
    size: int


class Chunks:
    """The chunks of a dataset of h5py's that is stored in chunks. Every method raises RejectedError."""

    def __init__(self, dataset: Any) -> None:
        self._id, self.shape, self.sides = dataset.id, dataset.shape, dataset.chunks
        settings = dataset.id.get_create_plist()
        found = (settings.get_filter(number) for number in range(settings.get_nfilters()))
        self._filters = tuple((code, values) for code, _, values, _ in found)
        self._bytes = math.prod(self.sides) * dataset.id.get_type().get_size()
        self._most = 2 * self._bytes + _SLACK
        if self._bytes > MAX_CHUNK_BYTES:
            problem = f"has chunks of {size_text(self._bytes)}, expected {size_text(MAX_CHUNK_BYTES)} at most"
            raise RejectedError(RejectCode.TOO_LARGE, problem)
        for code, values in self._filters:
            if code in _DECLARING and len(values) > 4 and values[2] * values[4] > self._most:
                raise self._too_large()

    def check(self, start: int, stop: int) -> None:
        """Check the chunks of rows `start` to `stop`."""
        for chunk in self._stored(start, stop) if self._filters else ():
            if chunk.size > self._most:
                raise self._too_large()
            codes = [code for code, _ in chunk.filters]
            if _SZIP in codes or chunk.size * math.prod(_RATIOS.get(code, 1) for code in codes) > MEMORY_FREE:
                self._unfilter(chunk)

    def contents(self) -> Iterator[bytes]:
        """Yield the bytes of all chunks of a dataset [n], decompressed, each when it is asked for."""
        for start in range(0, self.shape[0], self.sides[0]):
            for chunk in self._stored(start, start + 1):
                data = self._unfilter(chunk)
                if data is None:
                    raise RejectedError(RejectCode.CORRUPT, "is compressed by a filter for numbers, not for its values")
                yield data

    def _stored(self, start: int, stop: int) -> Iterator[_Chunk]:
        """Yield the chunks with rows `start` to `stop` that are stored."""
        first = start // self.sides[0] * self.sides[0]
        steps = [range(first, stop, self.sides[0])]
        steps += [range(0, side, step) for side, step in zip(self.shape[1:], self.sides[1:], strict=True)]
        of_row = math.prod(map(len, steps[1:]))
        if of_row > _MOST_CHUNKS:
            problem = f"has {of_row:,} chunks per row, expected {_MOST_CHUNKS:,} at most"
            raise RejectedError(RejectCode.TOO_LARGE, problem)
        for offset in product(*steps):
            found = self._id.get_chunk_info_by_coord(offset)
            if found.byte_offset is not None:
                used = (each for bit, each in enumerate(self._filters) if not found.filter_mask >> bit & 1)
                yield _Chunk(offset, tuple(used), found.size)

    def _unfilter(self, chunk: _Chunk) -> bytes | None:
        """Return the bytes of a chunk as they were before its filters; None if one cannot be undone here."""
        try:
            return self._undo(chunk.filters, self._id.read_direct_chunk(chunk.offset)[1])
        except (zlib.error, LookupError, ValueError, OSError) as error:
            raise RejectedError(RejectCode.CORRUPT, f"a chunk is damaged: {escape(str(error)[:200])}") from None

    def _undo(self, filters: Sequence[Filter], data: bytes) -> bytes | None:
        for number, (code, values) in reversed([*enumerate(filters)]):
            if code == _SZIP and int.from_bytes(data[:4], "little") > self._most:
                raise self._too_large()
            if code not in _UNDONE:
                if any(earlier in (_SZIP, *_RATIOS) for earlier, _ in filters[:number]):
                    raise RejectedError(RejectCode.CORRUPT, "is compressed twice")
                return None
            data = _UNDONE[code](data, values, self._most)
            if len(data) > self._most:
                raise self._too_large()
        return data

    def _too_large(self) -> RejectedError:
        problem = f"a chunk would take more than {size_text(self._most)}, but its values have {size_text(self._bytes)}"
        return RejectedError(RejectCode.TOO_LARGE, problem)


def _inflate(data: bytes, _: Sequence[int], most: int) -> bytes:
    """Decompress DEFLATE, to at most a byte more than `most`. Raises zlib.error."""
    return zlib.decompressobj().decompress(data, most + 1)


def _unshuffle(data: bytes, values: Sequence[int], _: int) -> bytes:
    """Put the bytes of each value together again, as `values` say how many it has."""
    each = values[0] if values else 1
    if not 1 < each <= len(data):
        return data
    whole = len(data) // each * each
    return np.frombuffer(data, np.uint8, whole).reshape(each, -1).T.tobytes() + data[whole:]


def _without_checksum(data: bytes, *_: object) -> bytes:
    return data[:-4]


def _unlzf(data: bytes, _: Sequence[int], most: int) -> bytes:
    """Decompress LZF, to little more than `most`. Raises IndexError, ValueError if it is damaged."""
    out, at = bytearray(), 0
    while at < len(data) and len(out) <= most:
        control = data[at]
        at += 1
        if control < 32:  # literal bytes
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = (control >> 5) + 2
        if length == 9:
            length += data[at]
            at += 1
        back = ((control & 31) << 8) + data[at] + 1
        at += 1
        if back > len(out):
            raise ValueError("LZF data refer to bytes before their begin")
        piece = out[len(out) - back :][:length]
        out += (piece * -(-length // len(piece)))[:length]
    return bytes(out)


_UNDONE = {_DEFLATE: _inflate, _SHUFFLE: _unshuffle, _FLETCHER32: _without_checksum, _LZF: _unlzf}

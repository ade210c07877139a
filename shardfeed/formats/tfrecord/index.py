r"""A shard's index: where each record starts and how long it is, as text.

One line a record, `"<offset> <size>\n"`, both in bytes from the shard's start, size with the 16 bytes of framing. It is
the format of NVIDIA DALI's `tfrecord2idx` and of the `tfrecord` package, so both read our shards by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.formats.tfrecord.framing import FRAME_BYTES

LEAST_LINE_BYTES = 5  # "0 16\n"
_REMEDY = "`shardfeed index DIR --rebuild` makes it again"


@dataclass(frozen=True)
class Index:
    """`offsets`: int64 [n + 1]; record `i` fills bytes `offsets[i]` to `offsets[i + 1]`, the last ends the file."""

    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def from_sizes(cls, sizes: Sequence[int] | np.ndarray) -> "Index":
        """From the framed size of each record, in bytes, in order."""
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.asarray(sizes, np.int64), out=offsets[1:])
        return cls(offsets)

    def to_bytes(self) -> bytes:
        """The index file's bytes."""
        starts, ends = self.offsets[:-1].tolist(), self.offsets[1:].tolist()
        return "".join([f"{a} {b - a}\n" for a, b in zip(starts, ends, strict=True)]).encode()

    @classmethod
    def parse(cls, data: bytes, place: object) -> "Index":
        """The inverse of `to_bytes`; `place` names the file in errors.

        Raises IntegrityError unless the records follow each other from offset 0 without gaps and the bytes are
        exactly those `to_bytes` would write: any flipped bit is found.
        """
        try:
            numbers = np.array(data.split(), np.int64)
        except (ValueError, OverflowError):
            raise IntegrityError(place, "the index holds something that is not a number", _REMEDY) from None
        if numbers.size % 2:
            raise IntegrityError(place, f"got {numbers.size} numbers, expected pairs of offset and size", _REMEDY)
        index = cls.from_sizes(numbers[1::2])
        # A sum past 2^63 wraps around to less than 0: offsets that never fall have not.
        too_short = (numbers[1::2] < FRAME_BYTES).any() or (index.offsets[1:] < index.offsets[:-1]).any()
        if too_short or (index.offsets[:-1] != numbers[::2]).any():
            raise IntegrityError(place, "the records do not follow each other without gaps", _REMEDY)
        if index.to_bytes() != data:
            raise IntegrityError(place, "not written as '<offset> <size>' lines", _REMEDY)
        return index

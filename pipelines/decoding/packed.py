"""The images of a batch as bytes, for a decoder of whole batches: the JPEG engine of a GPU.

JPEGs that it decodes as libjpeg does are handed on: whole, or of a seekable one the pieces that its window needs. All
other images are made here as for any batch, and travel between them as pixels.
"""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.formats.jpeg_markers import SIGNATURE
from shardfeed.formats.jpeg_restarts import Header, header_of
from shardfeed.native import is_whole
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.view import ChooseView, View
from shardfeed.pipelines.decoding.batch import Batch, BatchDecoder, Decode, with_moves
from shardfeed.pipelines.decoding.pixels import PartialJpeg, join_pieces
from shardfeed.schema import ENCODED, FORMAT, RESTARTS

MOST_DECODED = 64 << 20  # bytes of pixels, so that the memory of the GPU is bounded
_FACTORS = (0x11, 0x21, 0x12, 0x22)  # of the first component: those that shardfeed/native/jpeg.cpp knows
_FOREIGN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # a marker in image data that is none of a restart
_END = b"\xff\xd9"


class Packed(NamedTuple):
    """The images of a batch of k as bytes, one behind the other, and what is to be seen of them.

    `data`: uint8 [n]. `ends`: int64 [k]; image i is `data[ends[i - 1] : ends[i]]`. `is_jpeg`: bool [k]; the others are
    pixels already, uint8 [height, width, 3], as they are to be seen.

    `places`: int32 [k, 11], in pixels: height and width of the image, once decoded; of a part of it, if that was cut
    out. Top, left, height and width of the window in it. The same of the content, the part of the target that the
    window fills; the rest is the crop's `fill`. And whether the content is mirrored, 0 or 1.

    `edits`: what is then done to the images; None: nothing.
    """

    data: np.ndarray
    ends: np.ndarray
    is_jpeg: np.ndarray
    places: np.ndarray
    edits: Edits | None = None


class Packer(BatchDecoder):
    """Makes batches whose images are `Packed`, in `data` from `allocate`; otherwise as `BatchDecoder`. Thread-safe.

    `check`: whether JPEGs may be damaged: then each code is read, and what is not whole is decoded here, where damage
    is an error. Without the compiled module this is all of them.
    """

    def __init__(self, *of: Any, check: bool, **options: Any) -> None:
        super().__init__(*of, like_cuda=True, **options)
        self._check = check

    def __call__(self, payloads: Sequence[bytes], seeds: np.ndarray) -> Batch:
        """Return the batch of some records, with their seeds, int64 [k, 2]. Raises UndecodableError."""
        if self._compiled is None or not len(payloads):
            packed, views, others = self._by_python(payloads, seeds)
        else:
            found = self._compiled(payloads, seeds)
            packed = Packed(*found.pack(self._allocate, self._check))
            views, others = found.views(), found.others()
        rest, target = np.flatnonzero(~packed.is_jpeg).tolist(), self._crop.target
        packed.places[rest] = (*target, 0, 0, *target, 0, 0, *target, 0)
        images = {at: packed.data[: packed.ends[at]][-3 * math.prod(target) :].reshape(*target, 3) for at in rest}
        for at, view, other in zip(rest, *self._one_by_one(rest, payloads, seeds, images, self._crop), strict=True):
            views[at], others[at] = view, other
        edits = self._crop.edits(seeds)
        if edits is not None:
            packed, views = packed._replace(edits=edits), with_moves(views, edits)
        return Batch(packed, views, others)

    def _by_python(self, payloads: Sequence[bytes], seeds: np.ndarray) -> tuple[Packed, list[Any], list[bytes]]:
        """As `CompiledImages` does it; views are None and others are empty where images are to be made."""
        parts = [self._part(*each) for each in zip(payloads, self._crop.choices(seeds), strict=True)]
        pixels = 3 * math.prod(self._crop.target)
        ends = np.cumsum([len(part[0].data) if part else pixels for part in parts], dtype=np.int64)
        data = self._allocate((int(ends[-1]) if parts else 0,))
        places = np.empty((len(parts), 11), np.int32)
        for part, end, place in zip(parts, ends.tolist(), places, strict=True):
            if part is not None:
                jpeg, view, _ = part
                top, left, *sides = view.window
                data[end - len(jpeg.data) : end] = np.frombuffer(jpeg.data, np.uint8)
                place[:4] = jpeg.height, jpeg.width, top - jpeg.top, left - jpeg.left
                place[4:] = *sides, *view.content, view.mirrored
        packed = Packed(data, ends, np.array([part is not None for part in parts], bool), places)
        return packed, [part and part[1] for part in parts], [part[2] if part else b"" for part in parts]

    def _part(self, payload: bytes, choose: ChooseView) -> tuple[PartialJpeg, View, bytes] | None:
        """The JPEG to hand on, its view, and the rest of its record; None if the image is to be made here."""
        with suppress(IntegrityError):  # `_one_by_one` raises it again
            record, others = self._record(payload)
            data, restarts = record[ENCODED], record.get(RESTARTS)
            raw = record.get(FORMAT) == b"raw" or data[:3] != SIGNATURE
            if raw or (header := header_of(data)) is None or not _suits(header):
                return None
            view = choose(header.height, header.width)
            part = join_pieces(data, restarts, view.window, 1) if restarts else None
            if part is None:
                foreign = _FOREIGN.search(data, header.scan)
                if foreign is None or not foreign[0] == data[-2:] == _END:
                    return None
                # Without what no pixel depends on here: TorchCodec turns an image by its Exif orientation.
                part = PartialJpeg(header.needed + data[header.scan :], 0, 0, header.height, header.width)
            if 3 * part.height * part.width <= MOST_DECODED and (not self._check or is_whole(bytes(part.data))):
                return part, view, others
        return None


def decoder_of(decode: Decode, *of: Any, check: bool, **options: Any) -> BatchDecoder:
    """The maker of batches whose images become pixels where `decode` says. `check`: see `Packer`."""
    if decode == "cuda":
        return Packer(*of, check=check, **options)
    return BatchDecoder(*of, like_cuda=decode == "like_cuda", **options)


def _suits(header: Header) -> bool:
    """Whether a JPEG is of a kind that is handed on."""
    count, frame = header.frame[5], header.frame
    known = frame[7] in _FACTORS and (count == 1 or (count == 3 and frame[10:15:3] == b"\x11\x11"))
    return known and frame[0] == 8 and not header.odd_colors  # bits

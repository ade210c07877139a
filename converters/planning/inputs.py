"""Inputs of a plan: the state of each sample, and the versions of all that decides bytes."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii

import PIL
import simplejpeg
from PIL import Image, features

from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.seekable import check_coder
from shardfeed.converters.sources.source import Content, Sample
from shardfeed.errors import name_text
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import Spill
from shardfeed.version import __version__

_BATCH = 4096  # lines
_BLOCK = 1 << 20  # bytes


class Inputs:
    """Each sample's key, and its state: bytes that show whether the sample has changed since it was planned.

    A line for each sample: a JSON list of its key and its state in hexadecimal digits; on disk if there are many.
    Unlike a plan's fingerprint, states depend on modification times: an edited file of equal size must not be mixed
    with earlier shards.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._lines = Spill(directory)
        self._digest = hashlib.blake2b(digest_size=16)
        self._batch: list[str] = []

    def add(self, key: bytes, state: bytes) -> None:
        """Add one sample; `state`: 16 bytes of what shows in the output, and 8 of modification times."""
        # As json.dumps writes the two strings of a list, several times faster.
        self._batch.append(f'[{encode_basestring_ascii(name_text(key))}, "{state.hex()}"]\n')
        if len(self._batch) == _BATCH:
            self._write()

    def _write(self) -> None:
        lines = "".join(self._batch).encode()
        self._batch = []
        self._digest.update(lines)
        self._lines.append(lines)

    def blocks(self) -> Iterator[bytes]:
        """All lines, in blocks of bytes."""
        self._write()
        for start in range(0, self._lines.size, _BLOCK):
            yield self._lines.read(start, _BLOCK)

    def lines(self) -> Iterator[str]:
        """All lines."""
        rest = b""
        for block in self.blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield from map(bytes.decode, lines)

    @property
    def digest(self) -> str:
        """32 hex digits that differ when any line does."""
        self._write()
        return self._digest.hexdigest()


def sample_state(sample: Sample, size: int, features: Sequence[str]) -> bytes:
    """The state of a sample, 24 bytes; 8 of modification times. `size`: as `sample_size`; `features`: its keys."""
    mtimes = getattr(sample.image, "mtime_ns", 0).to_bytes(8, "little", signed=True)
    if sample.raster is not None and (mtime := getattr(sample.raster.mask, "mtime_ns", None)) is not None:
        mtimes = hashlib.blake2b(mtimes + repr(mtime).encode(), digest_size=8).digest()
    return _digest(sample, size, features) + mtimes


def sample_size(sample: Sample) -> int:
    """Size of the image and its mask in bytes, which is about the size of their record."""
    if sample.record is not None:
        return sample.record.size
    return _bytes(sample.image) + (_bytes(sample.raster.mask) if sample.raster is not None else 0)


def _bytes(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else getattr(content, "size", 0)


def _digest(sample: Sample, size: int, features: Sequence[str]) -> bytes:
    """A hash of everything about the sample that affects the output, 16 bytes; `features`: its keys."""
    content = hashlib.blake2b(sample.image).digest() if isinstance(sample.image, bytes) else size
    labels = [sample.features.get(key) for key in features]
    if sample.objects is not None or sample.number is not None:
        labels += [sample.number, sample.objects and sample.objects.digest()]
    if sample.record is not None:
        labels.append(sample.record.digest)
    if sample.raster is not None:
        mask, upright = sample.raster.mask, sample.raster.upright
        labels += [hashlib.blake2b(mask).digest() if isinstance(mask, bytes) else _bytes(mask), upright]
        labels += [sample.raster.table.digest]
    return hashlib.blake2b(repr((sample.key, sample.split, content, labels)).encode(), digest_size=16).digest()


@cache
def _png_checksum() -> str:
    """CRC-32C of a test picture as in a PNG, 8 hex digits.

    In place of zlib's version: Pillow uses the zlib that this process loaded first, which may be TensorFlow's.
    """
    # Noise for more than a block, and repeated, so that deflate's window of 32 KiB moves, in 2 ms.
    pixels = hashlib.shake_128().digest(3 << 13).translate(bytes(i & 15 for i in range(256))) * 4
    packed = Image.frombytes("RGB", (128, 256), pixels).tobytes("zip", "RGB", False, -1, -1, b"")  # as its PNG plugin
    return f"{crc32c(packed):08x}"


def made_by(image: ImageOptions, to: str = NATIVE.name) -> dict[str, str]:
    """Versions of what decides bytes: ours, the codecs that re-encode, the one that refuses damaged images.

    And the package that writes shards of the format `to`, where one does. None may depend on what this process has
    imported: a resume would be refused.

    Raises UsageError where `image` asks for a package that is not installed.
    """
    codecs = {name: str(features.version(name)) for name in ("libjpeg_turbo",) if features.check(name)}
    codecs["png"] = _png_checksum()
    if image.baseline:
        codecs[transcode.PACKAGE] = transcode.tool_version()
    if image.seekable:
        check_coder()
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": __version__, "pillow": PIL.__version__, **checker, **codecs, **shard_format(to).versions()}

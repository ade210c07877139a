"""Inputs of a plan: the state of each sample, and the versions of all that decides bytes."""

import hashlib
from array import array
from collections.abc import Iterator
from functools import cached_property
from json.encoder import encode_basestring_ascii

import numpy as np
import PIL
import simplejpeg
from PIL import features

from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.seekable import check_coder
from shardfeed.errors import name_text
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.version import __version__

_STATE = np.dtype([("digest", "V16"), ("mtimes", "V8")])


_STATE_BYTES = _STATE.itemsize


class Inputs:
    """Each sample's key, and its state: bytes that show whether it is still the planned sample.

    Takes 32 bytes a sample and the length of its key. Unlike a plan's fingerprint the states have modification times:
    an edited file of equal size must not be mixed with shards made before.
    """

    def __init__(self) -> None:
        self._keys, self._ends, self._states = bytearray(), array("q", [0]), bytearray()

    def add(self, key: bytes, state: bytes) -> None:
        """Add one sample; `state`: 16 bytes of what shows in the output, and 8 of modification times."""
        self._keys += key
        self._ends.append(len(self._keys))
        self._states += state

    def __len__(self) -> int:
        return len(self._ends) - 1

    def lines(self) -> Iterator[str]:
        """A line for each sample: a JSON list of its key and its state in hexadecimal digits."""
        start = place = 0
        for end in self._ends[1:]:
            key = name_text(bytes(self._keys[start:end]))
            state = self._states[place : place + _STATE_BYTES].hex()
            # As json.dumps writes the two strings of a list, several times faster.
            yield f'[{encode_basestring_ascii(key)}, "{state}"]'
            start, place = end, place + _STATE_BYTES

    def states(self, samples: np.ndarray) -> bytes:
        """The states of samples, by their numbers int64 [n], concatenated."""
        return np.frombuffer(self._states, _STATE)[samples].tobytes()

    def digests(self, samples: np.ndarray) -> bytes:
        """The states without the modification times, which a copy of the folder does not share."""
        return np.frombuffer(self._states, _STATE)["digest"][samples].tobytes()

    @cached_property
    def digest(self) -> str:
        """32 hex digits that differ when any line does."""
        digest = hashlib.blake2b(digest_size=16)
        for line in self.lines():
            digest.update(line.encode() + b"\n")
        return digest.hexdigest()


def made_by(image: ImageOptions, to: str = NATIVE.name) -> dict[str, str]:
    """Versions of what decides bytes: ours, the codecs that re-encode, the one that refuses damaged images.

    And the package that writes shards of the format `to`, where one does.

    Raises UsageError where `image` asks for a package that is not installed.
    """
    codecs = {name: str(features.version(name)) for name in ("libjpeg_turbo", "zlib") if features.check(name)}
    if image.baseline:
        codecs[transcode.PACKAGE] = transcode.tool_version()
    if image.seekable:
        check_coder()
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": __version__, "pillow": PIL.__version__, **checker, **codecs, **shard_format(to).versions()}

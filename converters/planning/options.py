"""Every choice that changes the bytes of a dataset, besides the source itself; states of inputs, and versions."""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
import PIL
import simplejpeg
from PIL import features

from shardfeed.annotations import OBJECT_AREA
from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.onto import Onto
from shardfeed.converters.planning.split_shares import SPLIT_BY, SplitBy
from shardfeed.converters.sources.source import RecordedSource, Source
from shardfeed.errors import UsageError, argument, check_extra, escape, name_text
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.naming import check_split_name
from shardfeed.schema import RESTARTS, Schema, image_features
from shardfeed.text import in_usual_order
from shardfeed.version import __version__


@dataclass(frozen=True)
class PlanOptions:
    """Every choice that changes the bytes of a dataset, besides the source itself.

    `fractions`: split name -> share in (0, 1], sum 1, for samples whose source names no split; None: all in "train".
    `shards`: number of shards of each split, or of each split by name; None: as many as `shard_size` asks for.
    `shard_size`: bytes a shard should hold, about: of source images, or of raw pixels where those have one size; None:
    256 MB at most, and less where a dataset would have fewer than 16 shards (see shard_count.py).
    `seed`: any integer; decides split by fraction and order.
    `to`: the format of shards, by name. `made_with`: of records that are there already, what stands for `image`.
    `onto`: the dataset that is appended to; then `fractions`, `shards` and `seed` are of what is appended.
    `split_by`: "exact", shares to the image, in each class too, or "hash", each sample's by its own key alone.
    """

    fractions: Mapping[str, float] | None = None
    shards: int | Mapping[str, int] | None = None
    shard_size: int | None = None
    seed: int = 0
    image: ImageOptions = field(default_factory=ImageOptions)
    split_by: SplitBy = "exact"
    to: str = NATIVE.name
    made_with: Mapping[str, Any] | None = None
    onto: Onto | None = None

    def __post_init__(self) -> None:
        shard_format(self.to)
        fractions = {"train": 1.0} if self.fractions is None else self.fractions
        if not fractions:
            raise UsageError("split", "no split is named", "give for example train=0.9,validation=0.1")
        for name, share in fractions.items():
            check_split_name(name)
            if not 0 < share <= 1:
                raise UsageError(f"split {name}", f"got the share {share}, expected more than 0 and at most 1")
        if abs(sum(fractions.values()) - 1) > 1e-6:
            total = sum(fractions.values())
            raise UsageError("split", f"the shares add up to {total:g}, expected 1", "change one of them")
        counts = self.shards.values() if isinstance(self.shards, Mapping) else [self.shards]
        for count in counts:
            if count is not None and not 1 <= count <= 99_999:
                raise UsageError("shards", f"got {count}, expected 1 to 99999")
        if self.shard_size is not None and self.shard_size < 1:
            raise UsageError("shard_size", f"got {self.shard_size} bytes, expected at least 1")
        if self.split_by not in SPLIT_BY:
            raise UsageError("split_by", f"got {self.split_by!r}, expected {' or '.join(map(repr, SPLIT_BY))}")

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON value."""
        shards = dict(self.shards) if isinstance(self.shards, Mapping) else self.shards
        if self.onto is not None:
            how = {"split": self.fractions and dict(self.fractions), "shards": shards, "shard_size": self.shard_size}
            return self.onto.options({**how, "seed": self.seed})
        return {
            "split": self.fractions and {name: self.fractions[name] for name in in_usual_order(self.fractions)},
            "split_by": self.fractions and self.split_by,
            "shards": shards,
            "shard_size": self.shard_size,
            "seed": self.seed,
            **(self.image.to_json() if self.made_with is None else {"sha256": True, **self.made_with}),
            **({"to": self.to} if self.to != NATIVE.name else {}),  # others were made before there was a choice
        }


def schema_of(source: Source, options: PlanOptions) -> Schema:
    """The schema of the records that `source` gives with `options`.

    Raises UsageError for a key that the conversion writes itself, and for features that its images would not fit.
    """
    if options.onto is not None:
        return options.onto.schema
    if isinstance(source, RecordedSource):
        return source.schema.stated()
    images = image_features(sha256=options.image.sha256, restarts=options.image.restarts)
    own = source.schema
    for key in own.features:
        if key in {*images, RESTARTS}:
            raise UsageError(
                f"source.schema.features[{key!r}]", "this key is written by the conversion itself", "rename it"
            )
    schema = replace(own, features=images | dict(own.features)).stated()
    _check_images(schema, options.image)
    return schema


def _check_images(schema: Schema, image: ImageOptions) -> None:
    """Raise UsageError if images are to be cropped or resized and features hold places or counts of pixels in them."""
    places = schema.of_kind("place")
    if image.shape is not None and places:
        problem = f"the middle of each image is cut out, and {escape(places[0])} would mean other places"
        remedy = f"use {argument('resize_shorter')}, which cuts nothing, or leave that label out"
        raise UsageError("size", problem, remedy)
    if image.resize_shorter is not None and OBJECT_AREA in schema.features and not schema.object_keys:
        problem = f"{OBJECT_AREA} counts pixels of the images as they are, and would be wrong of smaller ones"
        raise UsageError("resize_shorter", problem, "leave that label out: the boxes, shares of the image, give it")


_STATE = np.dtype([("digest", "V16"), ("mtimes", "V8")])
_STATE_BYTES = _STATE.itemsize


class Inputs:
    """Each sample's key, and its state: bytes that tell whether it is the sample that was planned.

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
        """The states of samples, by their numbers int64 [n], one behind the other."""
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
        check_extra("numba", "seekable")
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": __version__, "pillow": PIL.__version__, **checker, **codecs, **shard_format(to).versions()}

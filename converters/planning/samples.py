"""Samples as a plan checks and keeps them, on disk if there are many: a row, a place in a shard, a state.

Rows are of 64 bytes: added in source order, read in order of places.

Rows are written in runs, each sorted by place. A bucket is a range of places, small enough for memory: its rows lie
together in each run. So the order is the same for any number of buckets, and memory does not grow with the samples.
"""

import hashlib
import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice, pairwise
from json.encoder import encode_basestring_ascii
from math import isqrt
from typing import Any

import numpy as np
import PIL
import simplejpeg
from PIL import Image, features

from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.seekable import check_coder
from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.shards.task import noted_of
from shardfeed.converters.sources.foreign import is_foreign, place_of
from shardfeed.converters.sources.source import Content, FinishedRecord, Sample, Source, info_of
from shardfeed.declared import Seed, check
from shardfeed.errors import TooManyRejectedError, UsageError, escape, name_text
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.naming import name_problem
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import Spill
from shardfeed.version import __version__

# A sample in stored order: its number in the source, and its state (see Inputs).
STORED = np.dtype([("number", "<i8"), ("state", [("digest", "V16"), ("mtimes", "V8")])])
_DRAWN = [("draw", "<u8"), ("place", "<u8")]
_KNOWN = [("size", "<i8"), ("label", "<i4"), ("split", "<i2"), ("own_id", "?"), ("", "V1")]
_ROW = np.dtype([*_DRAWN, ("stored", STORED), *_KNOWN])
_pack = struct.Struct("<16sq24sqih?x").pack
MOST_SPLITS = 1 << 15  # of a row's field
_LEAST_ROWS = 1 << 14  # of a run and of a bucket: 1 MB


class PlanRows:
    """The rows of `count` samples. An array of them has these fields.

    `draw` and `place`: the two numbers that a sample draws. `stored`: as in STORED. `size`: in bytes. `label`: the
    first label. `split`: number of the split that the source names, or -1. `own_id`: whether the source gives an id.
    """

    def __init__(self, count: int, directory: str | None, buckets: int | None = None) -> None:
        # Of 10^9 samples, runs and buckets have 32 MB each, and a bucket is read in pieces of 16 kB.
        self._run_rows = max(_LEAST_ROWS, 16 * isqrt(count))
        buckets = buckets or -(-count // self._run_rows)
        self._bounds = np.array([(bucket << 64) // buckets for bucket in range(1, buckets)], np.uint64)
        self._spill = Spill(directory)
        self._run = bytearray()
        self._cuts: list[np.ndarray] = []  # of each run: where each bucket begins and the last ends, int64

    def add(self, draws: bytes, number: int, state: bytes, size: int, label: int, split: int, own_id: bool) -> None:
        """Add the next sample; `number` counts from 0."""
        self._run += _pack(draws, number, state, size, label, split, own_id)
        if len(self._run) >= self._run_rows * _ROW.itemsize:
            self.end()

    def end(self) -> None:
        """Write the last run."""
        rows = _sorted(np.frombuffer(self._run, _ROW))
        begin = self._spill.size // _ROW.itemsize
        if len(rows):
            cuts = np.searchsorted(rows["place"], self._bounds)
            self._cuts.append(begin + np.concatenate([[0], cuts, [len(rows)]]))
            self._spill.append(rows.tobytes())
        self._run = bytearray()

    def _read(self, begin: int, end: int) -> np.ndarray:
        width = _ROW.itemsize
        return np.frombuffer(self._spill.read(begin * width, (end - begin) * width), _ROW)

    def by_number(self) -> Iterator[np.ndarray]:
        """All rows in the source's order, in blocks."""
        for cuts in self._cuts:
            rows = self._read(int(cuts[0]), int(cuts[-1]))
            yield rows[np.argsort(rows["stored"]["number"])]

    def by_place(self) -> Iterator[np.ndarray]:
        """All rows in the order of their places, equal places in the source's order; a bucket at a time."""
        for bucket in range(len(self._bounds) + 1):
            pieces = [self._read(*cuts[bucket : bucket + 2].tolist()) for cuts in self._cuts]
            yield _sorted(np.concatenate(pieces))

    def column(self, name: str) -> np.ndarray:
        """One field of all rows in the source's order, in memory."""
        return np.concatenate([rows[name].copy() for rows in self.by_number()])


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(rows["place"], kind="stable")]


class SplitMembers:
    """The samples of a split in stored order, on disk if there are many, and their counts."""

    def __init__(self, directory: str | None, classes: int) -> None:
        self.images = self.size = 0
        self.class_counts = np.zeros(classes, np.int64)
        self.own_id = False
        self._stored = Spill(directory)

    def add(self, rows: np.ndarray) -> None:
        """Add the next samples: one row of each."""
        labels, classes = rows["label"], len(self.class_counts)
        known = labels[(labels >= 0) & (labels < classes)]
        self.class_counts += np.bincount(known, minlength=classes)
        self.images += len(rows)
        self.size += int(rows["size"].sum())
        self.own_id |= bool(rows["own_id"].any())
        self._stored.append(rows["stored"].tobytes())

    def stored(self, start: int, count: int) -> np.ndarray:
        """`count` samples from position `start` on: STORED [count]."""
        width = STORED.itemsize
        return np.frombuffer(self._stored.read(start * width, count * width), STORED)


@dataclass(frozen=True, eq=False)
class PlannedShard:
    """Shard `number` of `count` of a split: the `size` samples from `start` on, of the samples planned for the split.

    `first` is the position of its first sample in the split, from 0, or after the existing records. Its samples are
    read from disk each time.
    """

    split: str
    number: int
    count: int
    first: int
    start: int
    size: int
    members: SplitMembers

    def __len__(self) -> int:
        return self.size

    @property
    def samples(self) -> np.ndarray:
        """Numbers of the source's samples in stored order, int64 [size]."""
        return self.members.stored(self.start, self.size)["number"]

    @property
    def states(self) -> bytes:
        """The states of these samples, as added to `Inputs`."""
        return self.members.stored(self.start, self.size)["state"].tobytes()


def share_out(rows: np.ndarray, split_of: np.ndarray, splits: Iterable[SplitMembers]) -> None:
    """Add each row to its split: `split_of`, int64 [rows], are indices into `splits`."""
    for number, split in enumerate(splits):
        split.add(rows[split_of == number])


def cut(name: str, split: SplitMembers, count: int, onto: AppendTarget | None) -> list[PlannedShard]:
    """`count` consecutive pieces with lengths that differ by one at most, longer ones first; after those of `onto`."""
    before, first = (0, 0) if onto is None else (onto.shards(name), onto.numbers.get(name, 0))
    size, longer = divmod(split.images, count)
    starts = [i * size + min(i, longer) for i in range(count + 1)]
    return [
        PlannedShard(name, before + i, before + count, first + start, start, end - start, split)
        for i, (start, end) in enumerate(pairwise(starts))
    ]


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
    return _bytes(sample.image) + (_bytes(sample.raster.mask) if sample.raster is not None else 0)


def _bytes(content: Content | FinishedRecord) -> int:
    return len(content) if isinstance(content, bytes) else getattr(content, "size", 0)


def _digest(sample: Sample, size: int, features: Sequence[str]) -> bytes:
    """A hash of everything about the sample that affects the output, 16 bytes; `features`: its keys."""
    image = b"" if isinstance(sample.image, FinishedRecord) else sample.image
    content = hashlib.blake2b(image).digest() if isinstance(image, bytes) else size
    labels = [sample.features.get(key) for key in features]
    if sample.objects is not None or sample.number is not None:
        labels += [sample.number, sample.objects and sample.objects.digest()]
    if isinstance(sample.image, FinishedRecord):
        labels.append(sample.image.digest)
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
    if image.keep_depth:
        with suppress(ImportError):  # without it colours of 16 bits are refused
            codecs["opencv"] = import_module("cv2").__version__
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": __version__, "pillow": PIL.__version__, **checker, **codecs, **shard_format(to).versions()}


_Id = Seed | None
_TYPES: dict[str, Any] = {"key": bytes, "split": str | None, "number": _Id}


class OwnSamples:
    """Checks of samples of a source of one's own: readers of this package keep these rules by themselves.

    Keeps the ids of the samples seen so far, 8 bytes each.
    """

    def __init__(self, source: Source) -> None:
        self._is_own = is_foreign(source)
        self._ids: defaultdict[str | None, array[int]] = defaultdict(lambda: array("q"))  # of each split that is named
        self._without = -1  # the last sample without an id

    def check(self, i: int, sample: Sample) -> None:
        """Raise UsageError, whose place is `source[i]`, for a key, a split or an id that no dataset can hold."""
        if not self._is_own:
            return
        if not _has_usual_types(sample):  # the rest takes 15 us
            for name, kind in _TYPES.items():
                check(f"source[{i}].{name}", getattr(sample, name), kind)
        if problem := name_problem(sample.key):
            remedy = "give a name relative to a folder, such as b'rose/1.jpg'"
            raise UsageError(f"source[{i}].key", f"{escape(sample.key)!r} {problem}", remedy)
        if not isinstance(sample.image, FinishedRecord):
            self._check_number(i, sample)

    def _check_number(self, i: int, sample: Sample) -> None:
        """Raise UsageError if some samples have ids and others have none."""
        ids = self._ids[sample.split]
        if sample.number is None:
            self._without = i
        else:
            ids.append(sample.number)
        if self._without >= 0 and any(self._ids.values()):
            problem = f"got {sample.number}, and source[{self._without}] has none"
            problem = "got None" if self._without == i else problem
            raise UsageError(
                f"source[{i}].number", f"{problem}, expected ids of all samples, or of none", "add the rest"
            )

    def check_unique(self, source: Source) -> None:
        """Raise UsageError for an id that two samples of a split have."""
        for split, ids in self._ids.items():
            ordered = np.sort(np.frombuffer(ids, np.int64))
            for twin in ordered[1:][ordered[1:] == ordered[:-1]][:1].tolist():
                alike = (i for i in range(len(source)) if (source[i].split, source[i].number) == (split, twin))
                first, second = (place_of(source, i) for i in islice(alike, 2))
                problem = f"got {twin}, which is also the id of {first}"
                raise UsageError(f"{second}.number", problem, "ids must be unique in a split")


def _has_usual_types(sample: Sample) -> bool:
    """Whether key, split and id are of the types themselves, not of ones that are converted or refused."""
    split = sample.split
    number = sample.number
    if type(sample.key) is not bytes or (split is not None and type(split) is not str) or split == "":
        return False
    return number is None or (type(number) is int and 0 <= number < 2**63)


def check_any_left(source: Source) -> None:
    """Raise TooManyRejectedError if a source has samples, and none is sound."""
    rejected = [] if len(source) else noted_of(info_of(source).findings.rejected)
    if not rejected:
        return
    problem = f"all of its samples are rejected ({len(rejected):,}; the last, {rejected[-1].what}: {rejected[-1].why})"
    error = TooManyRejectedError("source", problem, "nothing was written; correct it")
    error.rejected = tuple(rejected)
    raise error

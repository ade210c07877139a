"""Copies of a split's shards, unchanged or with every record rewritten: the same samples in the same places.

A copy is a dataset directory with one split: shards and indexes with the usual names, and a manifest, written last. So
opening it is as cheap and as well checked as opening any dataset, and `shardfeed verify` reads it.

Decoded images are pixels: `image/format` "raw", height * width * 3 bytes, uint8 RGB, row by row. TensorFlow decodes
them as in pipelines/tensorflow/decode.py, so that a crop of the pixels equals the crop that a training step would have
decoded.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np

from shardfeed.budget import cpu_budget, memory_budget
from shardfeed.errors import IntegrityError, RecordError, UsageError, escape
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.registry import NATIVE
from shardfeed.manifest import Manifest, SplitInfo, read_manifest, write_manifest
from shardfeed.naming import index_file, shard_file
from shardfeed.readers.dataset import file_problems
from shardfeed.readers.shards import Copy
from shardfeed.readers.split import Record, Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH, Schema
from shardfeed.shard_table import ShardTable
from shardfeed.storage.local import make_directory, storage_error
from shardfeed.storage.storage import pieces
from shardfeed.version import __version__

_PIECE_BYTES = 4 << 20  # of records that one thread makes, and that are written at once
_MEMORY_SHARE = 1 / 8  # share of the available memory for pieces that are being made or wait to be written
_RAW = b"raw"
_JPEG_START = b"\xff\xd8\xff"
_SAMPLED = 64  # records read to estimate their size without the image
_LONGER = 8  # additional bytes for the lengths of long fields
_Task = TypeVar("_Task")
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class CopyPlan:
    """Specification of a copy: its split, the numbers of the shards to copy, and whether they are rewritten.

    `key`: 32 hex digits that two copies share only if they have the same bytes. `decoded` as in `Copy`.
    """

    name: str
    split: Split
    numbers: tuple[int, ...]
    key: str
    decoded: bool
    options: Mapping[str, str]
    made_by: Mapping[str, str]


def open_copy(directory: str, plan: CopyPlan) -> Copy | None:
    """The copy in `directory`, or None if the directory does not exist. No shard is read.

    Raises IntegrityError if it is not the complete copy that `plan` describes: another key, a damaged manifest, files
    missing or of another size. Raises StorageError when it cannot be read.
    """
    if not os.path.isdir(directory):
        return None
    try:
        manifest = read_manifest(directory)
        problems = file_problems(directory, manifest)
    except UsageError as error:  # no manifest in it
        raise IntegrityError(directory, error.problem) from None
    except OSError as error:
        raise storage_error(directory, "read", error) from error
    if problems:
        raise IntegrityError(directory, "; ".join(problems[:3]))
    info = manifest.splits.get(plan.split.name)
    expected = plan.split.shards.info.shards.records[list(plan.numbers)]
    if manifest.fingerprint != plan.key or info is None or not np.array_equal(info.shards.records, expected):
        raise IntegrityError(directory, "it is a copy of something else")
    first, last = plan.numbers[0], plan.numbers[-1]
    numbers = range(first, last + 1) if last - first < len(plan.numbers) else plan.numbers  # small when pickled
    return Copy(directory, info, numbers, plan.decoded)


def record_sizes(plan: CopyPlan) -> np.ndarray:
    """Framed bytes of each record of the copy, int64 [records of the split]; 0 in shards that are not copied.

    Of decoded images the pixels are exact, from the columns of heights and widths; the rest of a record is the mean of
    a few.
    """
    split, shards = plan.split, plan.split.shards
    sizes = np.zeros(shards.info.records, np.int64)
    for number in plan.numbers:
        sizes[shards.firsts[number] : shards.firsts[number + 1]] = shards.view(number).sizes
    if plan.decoded:
        copied = np.flatnonzero(sizes)  # a record has its frame at least
        sampled = copied[np.linspace(0, len(copied) - 1, min(_SAMPLED, len(copied))).astype(np.int64)]
        others = sizes[sampled] - [len(_encoded(split.parse(payload))) for payload in split.payloads(sampled)]
        pixels = split.column(HEIGHT)[copied] * split.column(WIDTH)[copied] * 3
        sizes[copied] = pixels + int(np.mean(others)) + _LONGER
    return sizes


def write_copy(directory: str, plan: CopyPlan, sizes: np.ndarray, progress: Callable[[int], object]) -> None:
    """Write the copy into `directory`, which must not exist: every record is read, its CRC checked, and written again.

    `sizes`: int64 [records of the split], approximate bytes of each new record. If images are not decoded, shards are
    copied unchanged, and their checksums are compared, too. `progress` is called with numbers of records.

    Raises RecordError for a damaged record, IntegrityError for a changed shard, StorageError. The part written so far
    remains: a directory without a manifest is not a copy.
    """
    make_directory(directory)
    split = plan.split
    shards = split.shards

    encode = NATIVE.encoder(split.schema.features)

    def made(piece: range) -> list[Sequence[bytes]]:
        records: list[Sequence[bytes]] = []
        for place, payload in zip(piece, shards.payloads(np.arange(piece.start, piece.stop)), strict=True):
            if not plan.decoded:
                records.append(NATIVE.framed(payload))
            else:
                try:
                    new = _to_pixels(split.parse(payload))
                    values = {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in new.items()}
                    records.append(encode(values))
                except IntegrityError as error:
                    where = f"split {split.name}, record {place} of {split.shards.directory}"
                    raise RecordError(where, error.problem, error.remedy) from None
        return records

    threads = cpu_budget()
    largest = max(_PIECE_BYTES, int(sizes.max(initial=0)))
    waiting = max(1, min(threads + 2, int(memory_budget() * _MEMORY_SHARE) // largest))
    pieces = [(number, piece) for number in plan.numbers for piece in _pieces(shards.firsts, number, sizes)]
    infos: list[ShardInfo] = []
    pool = ThreadPoolExecutor(threads, "shardfeed-copy")
    try:
        results = _in_order(pool, lambda piece: (piece[0], made(piece[1])), pieces, waiting)
        for number, of_shard in groupby(results, key=lambda result: result[0]):
            names = [named(split.name, len(infos), len(plan.numbers)) for named in (shard_file, index_file)]
            data, index = (os.path.join(directory, name) for name in names)
            with NATIVE.sink(data, index, split.schema) as sink:
                for _, records in of_shard:
                    for record in records:
                        sink.append(record)
                    progress(len(records))
            _, source, source_number = shards.read_from(number)
            as_it_was = not plan.decoded and source.format == NATIVE.name
            if as_it_was and sink.info.data != source.shards[source_number].data:
                problem = "its checksum is not the manifest's"
                raise IntegrityError(shards.path(number), problem, "run `shardfeed verify DIR`")
            infos.append(sink.info)
    finally:
        pool.shutdown(cancel_futures=True)
    manifest = Manifest(
        name=plan.name,
        # Class names come from the dataset: they may have changed since the copy was made.
        schema=Schema(split.schema.features, {}),
        splits={split.name: SplitInfo(split.name, ShardTable.of(infos))},
        sidecars={},
        fingerprint=plan.key,
        options=plan.options,
        rejected={},
        made_by={"shardfeed": __version__, **plan.made_by},
    )
    write_manifest(directory, manifest)


def _pieces(firsts: np.ndarray, shard: int, sizes: np.ndarray) -> Iterator[range]:
    """The places of a shard in ranges of about `_PIECE_BYTES`, or of one record; one empty range if it is empty."""
    start, end = int(firsts[shard]), int(firsts[shard + 1])
    if start == end:
        yield range(start, end)
    offsets = np.concatenate([[0], np.cumsum(sizes[start:end])])
    for first, last in pieces(offsets, 0, end - start, _PIECE_BYTES):
        yield range(start + first, start + last)


def _in_order(
    pool: ThreadPoolExecutor, make: Callable[[_Task], _Made], tasks: Iterable[_Task], waiting: int
) -> Iterator[_Made]:
    """Yield `make` of each task, in order; at most `waiting` results are being made, or wait to be used."""
    started: deque[Future[_Made]] = deque()
    for task in tasks:
        if len(started) == waiting:
            yield started.popleft().result()
        started.append(pool.submit(make, task))
    while started:
        yield started.popleft().result()


def _to_pixels(record: Record) -> Record:
    """Return the record with its image decoded to RGB, otherwise unchanged. A record with pixels is returned unchanged.

    Raises IntegrityError for an image that cannot be decoded, or whose size differs from the record's.
    """
    import tensorflow as tf

    encoded, height, width = _encoded(record), record[HEIGHT], record[WIDTH]
    if record[FORMAT] == _RAW:
        return record
    try:
        with tf.device("CPU:0"):
            if encoded.startswith(_JPEG_START):
                image = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
            else:
                image = tf.io.decode_png(encoded, channels=3)
    except tf.errors.InvalidArgumentError as error:
        problem = f"its image cannot be decoded: {escape(error.message)}"
        remedy = "convert again, without --check header (in Python check='header')"
        raise IntegrityError("record", problem, remedy) from None
    if image.shape != (height, width, 3):
        problem = f"its image is {image.shape[0]}x{image.shape[1]}, its record says {height}x{width}"
        raise IntegrityError("record", problem)
    pieces: Record = {RESTARTS: b""} if RESTARTS in record else {}  # of the JPEG, which is gone
    return {**record, ENCODED: image.numpy().tobytes(), FORMAT: _RAW, **pieces}


def _encoded(record: Record) -> bytes:
    encoded = record[ENCODED]
    assert isinstance(encoded, bytes)  # according to the schema of every dataset
    return encoded

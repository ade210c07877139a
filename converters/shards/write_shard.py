"""Write a list of samples as one shard on disk: the work of a worker, on any machine.

The result is a pure function of the task, even after a resume. Engines only decide where and when.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.images.options import ASKED, Change
from shardfeed.converters.images.store import StoredImage, store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.earlier import ImagesOfEarlier, made_of
from shardfeed.converters.shards.place_objects import left_out_with_image, place_objects
from shardfeed.converters.shards.place_raster import raster_values
from shardfeed.converters.shards.receipts import load_receipt, save_receipt
from shardfeed.converters.shards.sample_values import checked_values, own_features
from shardfeed.converters.shards.task import MADE_OF, Noted, Receipt, ShardTask
from shardfeed.converters.sources.objects import Account
from shardfeed.converters.sources.reading import ReadAhead, read_image
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import IntegrityError, StorageError, UsageError, escape, name_text
from shardfeed.formats.example import decode, values_of
from shardfeed.formats.format import Checkpoint, ShardInfo, ShardSink
from shardfeed.schema import (
    ENCODED,
    FILENAME,
    FORMAT,
    HEIGHT,
    RESTARTS,
    SHA256,
    SOURCE_ID,
    WIDTH,
    Feature,
    Schema,
    Value,
)
from shardfeed.storage.local import remove_file
from shardfeed.storage.storage import FileInfo


class ShardContents:
    """Contents of a shard so far: counts, columns, and notes on single samples.

    `earlier`, `payloads`: if the shard is resumed, the receipt at its checkpoint and the records up to there.
    """

    def __init__(self, task: ShardTask, earlier: Receipt | None = None, payloads: Iterable[bytes] = ()) -> None:
        self._task = task
        self._keys = column_keys(task.split, task.schema)
        counted = {*self._keys, *task.schema.class_names, FORMAT} & task.schema.features.keys()
        self._counted = {key: task.schema.features[key] for key in counted}
        self._counts = {key: [0] * len(names) for key, names in task.schema.class_names.items()}
        self._formats: dict[str, int] = {}
        self.rejected: list[Noted] = []
        self.normalised: list[Noted] = []
        self.warnings: list[Noted] = []
        self.progressive = 0
        self.accounts = [Account()]
        if earlier is not None:
            self._counts = {key: list(counts) for key, counts in earlier.class_counts.items()}
            self._formats = dict(earlier.formats)
            self.rejected, self.normalised = list(earlier.rejected), list(earlier.normalised)
            self.warnings, self.progressive = list(earlier.warnings), earlier.progressive
            self.accounts = [earlier.account]
        fields = (decode(payload, self._keys) for payload in payloads)
        self._rows = [tuple([values[key][1][0] for key in self._keys]) for values in fields]  # for each record

    @property
    def place(self) -> int:
        """The sample that comes next: of those before, each was written or rejected."""
        return len(self._rows) + len(self.rejected)

    def add(self, values: Mapping[str, Value], sample: Sample) -> None:
        """A record that was written. Raises UsageError for a label that has no class name."""
        _count(self._counts, values, sample)
        self._rows.append(tuple([values[key] for key in self._keys]))
        if FORMAT in values:  # also in every record that we make
            kind = bytes(values[FORMAT]).decode()  # type: ignore[arg-type]  # bytes, by image_features
            self._formats[kind] = self._formats.get(kind, 0) + 1

    def counted(self, payload: bytes) -> dict[str, Value]:
        """Decode the values of a record that `add` needs. Raise IntegrityError if it does not conform to the schema."""
        return values_of(payload, self._counted)

    def so_far(self, checkpoint: Checkpoint) -> Receipt:
        """Receipt of the durable part of a shard that is not finished; its columns are in the records."""
        records, *data = checkpoint
        return self._receipt(ShardInfo(records, FileInfo(*data), FileInfo(0, 0)), {})

    def receipt(self, info: ShardInfo) -> Receipt:
        """Receipt of the finished shard."""
        schema = self._task.schema
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._keys)
        pairs = zip(self._keys, columns, strict=True)
        encoded = {key: encode_column(values, column_dtype(schema, key)) for key, values in pairs}
        left_out = {noted.key for noted in self.rejected}
        written = [sample for sample in self._task.samples if sample.key not in left_out]
        return self._receipt(info, {**encoded, MADE_OF: made_of(written, schema, self._task.image)})

    def _receipt(self, info: ShardInfo, columns: Mapping[str, bytes]) -> Receipt:
        return Receipt(
            split=self._task.split,
            number=self._task.number,
            info=info,
            class_counts={key: tuple(values) for key, values in self._counts.items()},
            formats=dict(self._formats),
            columns=columns,
            rejected=tuple(self.rejected),
            normalised=tuple(self.normalised),
            warnings=tuple(self.warnings),
            progressive=self.progressive,
            account=Account.total(self.accounts),
            digest=self._task.digest,
        )


def _count(counts: dict[str, list[int]], values: Mapping[str, Value], sample: Sample) -> None:
    for key, of_class in counts.items():
        found = values[key]
        for label in found if isinstance(found, list) else [found]:
            if not 0 <= label < len(of_class):  # type: ignore[operator]  # a label is an int: Schema and the source's contract
                problem = f"got the label {label!r} for {escape(key)}, expected 0 to {len(of_class) - 1}"
                raise UsageError(f"sample {name_text(sample.key)}", problem, "correct the source, or its class names")
            of_class[label] += 1  # type: ignore[index]  # as above


# (place in the shard about to be read, bytes of sources read since the last call)
Progress = Callable[[int, int], None]

CHECKPOINT_SECONDS = 2.0  # work lost by a kill; most shards take less time, and never make a checkpoint


def write_shard(task: ShardTask, progress: Progress = lambda place, size: None) -> Receipt:
    """Write the shard and its index durably and return the receipt; continue after an earlier attempt that was killed.

    Raises StorageError for a disk error, UsageError for values that do not match the schema and for a label without a
    class name; then no file is left under a final name.
    """
    own = own_features(task.schema)
    places = ", ".join(map(escape, task.schema.of_kind("place")))
    placed = bool(task.schema.object_keys)
    ahead = ReadAhead(task.samples, task.image.max_bytes, task.kept)
    earlier = ImagesOfEarlier(task.shard_format)
    sink, contents = _begun(task)
    with sink as shard:
        read = 0
        due = time.monotonic() + CHECKPOINT_SECONDS
        for place in range(contents.place, len(task.samples)):
            if time.monotonic() > due and task.digest:
                if durable := shard.checkpoint():
                    save_receipt(task.checkpoint, contents.so_far(durable))
                due = time.monotonic() + CHECKPOINT_SECONDS
            sample = task.samples[place]
            progress(place, read)
            read = 0
            number = task.first + place
            if sample.record is not None:
                try:
                    payload = sample.record(number)
                    counted = contents.counted(payload)
                except IntegrityError as error:
                    contents.rejected.append(Noted(sample.key, RejectCode.DAMAGED.value, f"{error}"))
                    continue
                shard.write_payload(payload)
                contents.add(counted, sample)
                read = len(payload)
                continue
            if (kept := task.kept.get(place)) and (taken := earlier.take(kept, sample.key, task.image)):
                contents.normalised += kept.normalised
                contents.warnings += kept.warnings
                contents.progressive += taken.progressive
                values = {**taken.values, **_own_values(sample, own, number)}
                shard.write(values)
                contents.add(values, sample)
                continue
            try:
                if place in task.condemned:
                    raise RejectedError(task.condemned[place], "crashed its worker in every attempt")
                ahead.before(place, partial(progress, place, 0))
                data = read_image(sample, task.image.max_bytes)
                read = len(data)
                image = store_image(data, task.image)
                objects = place_objects(sample.key, sample.objects, image, task.schema) if placed else None
                mask = raster_values(sample, image, task.schema.raster, task.image) if task.schema.raster else {}
            except RejectedError as error:
                contents.rejected.append(Noted(sample.key, error.code.value, error.reason))
                contents.accounts.append(left_out_with_image(sample.key, sample.objects))
                continue
            if image.changes:
                why = f"stored as {image.format.decode()}"
                asked = ASKED.issuperset(image.changes)
                contents.normalised.append(Noted(sample.key, "+".join(image.changes), why, asked))
            contents.warnings += [Noted(sample.key, "warning", why) for why in image.warnings]
            contents.progressive += image.progressive
            if places and Change.TURNED in image.changes:
                # No file states whether its annotators saw the image upright or as stored.
                why = f"rotated upright as its EXIF says: {places} must refer to the upright image"
                contents.warnings.append(Noted(sample.key, "warning", why))
            values = {**_image_values(image, data, task.schema), **_own_values(sample, own, number), **mask}
            if objects:
                values.update(objects.values)
                contents.accounts.append(objects.account)
            shard.write(values)
            contents.add(values, sample)
        progress(len(task.samples), read)
    return contents.receipt(shard.info)


def _begun(task: ShardTask) -> tuple[ShardSink, ShardContents]:
    """Open a shard to write, with the contents up to the checkpoint of an earlier try if that can be used."""
    begun = partial(task.shard_format.sink, *task.paths, task.schema, len(task.samples))
    earlier = load_receipt(task.checkpoint)
    if earlier is not None and earlier.digest == task.digest and not earlier.retry_may_help:
        data = earlier.info.data
        with suppress(IntegrityError, StorageError):  # the file is not as it was then
            sink = begun(after=Checkpoint(earlier.info.records, data.size, data.crc32c))
            return sink, ShardContents(task, earlier, sink.payloads())
    if os.path.lexists(task.checkpoint):
        remove_file(task.checkpoint)
    return begun(), ShardContents(task)


def _image_values(image: StoredImage, data: bytes, schema: Schema) -> dict[str, Value]:
    """Make the values of an image for a record of `schema`; `data`: the file that it was made of."""
    values: dict[str, Value] = {ENCODED: image.encoded, FORMAT: image.format}
    values |= {HEIGHT: image.height, WIDTH: image.width}
    if RESTARTS in schema.features:
        values[RESTARTS] = image.restarts
    if SHA256 in schema.features:
        values[SHA256] = hashlib.sha256(data).hexdigest().encode()
    return values


def _own_values(sample: Sample, own: Mapping[str, Feature], number: int) -> dict[str, Value]:
    """Make all values of a sample's record except the image; `own`: the features from its source."""
    number = number if sample.number is None else sample.number
    return {FILENAME: sample.key, SOURCE_ID: b"%d" % number, **checked_values(sample, own)}

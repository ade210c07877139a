"""Write a list of samples as one shard on disk: the work of a worker, on any machine.

The result is a pure function of the task, even after a resume. Engines only decide where and when.
"""

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from shardfeed.converters.images.options import ASKED, Change
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.place_objects import left_out_with_image, place_objects
from shardfeed.converters.shards.place_raster import raster_values
from shardfeed.converters.shards.receipts import ImagesOfEarlier, ShardContents, load_receipt, save_receipt
from shardfeed.converters.shards.task import Receipt, Remark, ReusableImage, ShardTask
from shardfeed.converters.sources.foreign import finished_payload
from shardfeed.converters.sources.reading import ReadAhead, checked_values, own_features, read_image
from shardfeed.converters.sources.source import FinishedRecord, Sample
from shardfeed.errors import IntegrityError, StorageError, escape
from shardfeed.formats.format import Checkpoint, ShardSink
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, RESTARTS, SHA256, SOURCE_ID, WIDTH, Value
from shardfeed.storage.local import remove_file

# (place in the shard about to be read, bytes of sources read since the last call)
Progress = Callable[[int, int], None]

CHECKPOINT_SECONDS = 2.0  # work lost by a kill; most shards take less time, and never make a checkpoint


def write_shard(task: ShardTask, progress: Progress = lambda place, size: None) -> Receipt:
    """Write the shard and its index durably and return the receipt; continue after an earlier attempt that was killed.

    Raises StorageError for a disk error, UsageError for values that do not match the schema and for a label without a
    class name; then no file is left under a final name.
    """
    sink, contents = _open_or_resume(task)
    records = _Records(task, contents, progress)
    with sink as shard:
        due = time.monotonic() + CHECKPOINT_SECONDS
        for place in range(contents.place, len(task.samples)):
            if time.monotonic() > due and task.digest:
                if durable := shard.checkpoint():
                    save_receipt(task.checkpoint, contents.so_far(durable))
                due = time.monotonic() + CHECKPOINT_SECONDS
            progress(place, records.read)
            try:
                records.write(place, shard)
            except RejectedError as error:
                sample = task.samples[place]
                contents.rejected.append(Remark(sample.key, error.code.value, error.reason))
                contents.accounts.append(left_out_with_image(sample.key, sample.objects))
        progress(len(task.samples), records.read)
    return contents.receipt(shard.info)


class _Records:
    """The records of a task's samples; remarks on them go to `contents`. `read`: bytes of the last one's source."""

    def __init__(self, task: ShardTask, contents: ShardContents, progress: Progress) -> None:
        self._task, self._contents, self._progress = task, contents, progress
        self._own = own_features(task.schema)
        self._has_objects = bool(task.schema.object_keys)
        self._places = ", ".join(map(escape, task.schema.of_kind("place")))
        self._ahead = ReadAhead(task.samples, task.image.max_bytes, task.kept, task.ahead)
        self._earlier = ImagesOfEarlier(task.shard_format)
        self.read = 0

    def write(self, place: int, shard: ShardSink) -> None:
        """Write the record of a sample. Raises RejectedError for one to leave out."""
        sample, made_of, number = self._task.samples[place], self._task.made_of(place), self._task.first + place
        self.read = 0
        if isinstance(made_of, FinishedRecord):
            try:
                payload = finished_payload(made_of, number)
                values = self._contents.counted(payload)
            except IntegrityError as error:
                raise RejectedError(RejectCode.DAMAGED, f"{error}") from None
            shard.write_payload(payload)
            self.read = len(payload)
        else:
            kept = self._kept(sample, made_of) if isinstance(made_of, ReusableImage) else None
            values = kept or self._fresh(sample, place)
            number = number if sample.number is None else sample.number
            values |= {FILENAME: sample.key, SOURCE_ID: b"%d" % number, **checked_values(sample, self._own)}
            shard.write(values)
        self._contents.add(values, sample)

    def _kept(self, sample: Sample, kept: ReusableImage) -> dict[str, Value] | None:
        """The values of an image that an earlier run has stored; None if it has changed."""
        if (taken := self._earlier.take(kept, sample.key, self._task.image)) is None:
            return None
        self._contents.normalised += kept.normalised
        self._contents.warnings += kept.warnings
        self._contents.progressive += taken.progressive
        return taken.values

    def _fresh(self, sample: Sample, place: int) -> dict[str, Value]:
        """The values of an image that is read and checked now, its objects and its mask. Raises RejectedError."""
        task, contents, schema = self._task, self._contents, self._task.schema
        if place in task.condemned:
            raise RejectedError(task.condemned[place], "crashed its worker in every attempt")
        self._ahead.before(place, partial(self._progress, place, 0))
        data = read_image(sample, task.image.max_bytes)
        self.read = len(data)
        image = store_image(data, task.image)
        values: dict[str, Value] = {ENCODED: image.encoded, FORMAT: image.format, HEIGHT: image.height}
        values[WIDTH] = image.width
        if RESTARTS in schema.features:
            values[RESTARTS] = image.restarts
        if SHA256 in schema.features:
            values[SHA256] = hashlib.sha256(data).hexdigest().encode()
        objects = place_objects(sample.key, sample.objects, image, schema) if self._has_objects else None
        if schema.raster:
            values |= raster_values(sample, image, schema.raster, task.image)
        if objects:
            values |= objects.values
            contents.accounts.append(objects.account)
        if image.changes:
            changes, why = "+".join(image.changes), f"stored as {image.format.decode()}"
            contents.normalised.append(Remark(sample.key, changes, why, ASKED.issuperset(image.changes)))
        contents.warnings += [Remark(sample.key, "warning", why) for why in image.warnings]
        contents.progressive += image.progressive
        if self._places and Change.TURNED in image.changes:
            # No file states whether its annotators saw the image upright or as stored.
            why = f"rotated upright as its EXIF says: {self._places} must refer to the upright image"
            contents.warnings.append(Remark(sample.key, "warning", why))
        return values


def _open_or_resume(task: ShardTask) -> tuple[ShardSink, ShardContents]:
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

"""Write a list of samples as one shard on disk: the work of a worker, on any machine.

The result is a pure function of the task, even after a resume. Engines only decide where and when.
"""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from shardfeed.converters.images.options import ASKED, Change
from shardfeed.converters.images.store import StoredImage, store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.place_objects import left_out_with_image, place_objects
from shardfeed.converters.shards.place_raster import raster_values
from shardfeed.converters.shards.receipts import ImagesOfEarlier, ShardContents, load_receipt, save_receipt
from shardfeed.converters.shards.task import Receipt, Remark, ShardTask
from shardfeed.converters.sources.reading import ReadAhead, checked_values, own_features, read_image
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import IntegrityError, StorageError, escape
from shardfeed.formats.format import Checkpoint, ShardSink
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
    sink, contents = _open_or_resume(task)
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
                    contents.rejected.append(Remark(sample.key, RejectCode.DAMAGED.value, f"{error}"))
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
                contents.rejected.append(Remark(sample.key, error.code.value, error.reason))
                contents.accounts.append(left_out_with_image(sample.key, sample.objects))
                continue
            if image.changes:
                why = f"stored as {image.format.decode()}"
                asked = ASKED.issuperset(image.changes)
                contents.normalised.append(Remark(sample.key, "+".join(image.changes), why, asked))
            contents.warnings += [Remark(sample.key, "warning", why) for why in image.warnings]
            contents.progressive += image.progressive
            if places and Change.TURNED in image.changes:
                # No file states whether its annotators saw the image upright or as stored.
                why = f"rotated upright as its EXIF says: {places} must refer to the upright image"
                contents.warnings.append(Remark(sample.key, "warning", why))
            values = {**_image_values(image, data, task.schema), **_own_values(sample, own, number), **mask}
            if objects:
                values.update(objects.values)
                contents.accounts.append(objects.account)
            shard.write(values)
            contents.add(values, sample)
        progress(len(task.samples), read)
    return contents.receipt(shard.info)


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

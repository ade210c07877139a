"""From a list of samples to one shard on disk: what a worker does, wherever it runs.

The result is a pure function of the task. Engines only decide where and when.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.images.change import ASKED, Change
from shardfeed.converters.images.store import StoredImage, store_image
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.shards.sample_values import checked_values, own_features
from shardfeed.converters.shards.task import Noted, Receipt, ShardTask
from shardfeed.converters.sources.reading import ReadAhead, read_image
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.formats.native import NATIVE
from shardfeed.schema import (
    ENCODED,
    FILENAME,
    FORMAT,
    HEIGHT,
    SHA256,
    SOURCE_ID,
    WIDTH,
    Value,
)

Progress = Callable[
    [int, int], None
]  # (place in the shard about to be read, bytes of sources read since the last call)


def write_shard(task: ShardTask, progress: Progress = lambda place, size: None) -> Receipt:
    """Write the shard and its index durably and say what is in them.

    Raises StorageError when the disk refuses, UsageError for values that are not as the schema says and for a label
    that has no class name; then no file is left under a final name.
    """
    counts = {key: [0] * len(names) for key, names in task.schema.class_names.items()}
    keys = column_keys(task.split, task.schema)
    rows: list[tuple[Value, ...]] = []  # of each record, its values of these keys
    formats: dict[str, int] = {}
    rejected: list[Noted] = []
    normalised: list[Noted] = []
    warnings: list[Noted] = []
    progressive = 0
    hashed = SHA256 in task.schema.features
    own = own_features(task.schema)
    places = ", ".join(map(escape, task.schema.of_kind("place")))
    ahead = ReadAhead(task.samples)
    with NATIVE.sink(*task.paths, task.schema.features) as shard:
        read = 0
        for place, sample in enumerate(task.samples):
            progress(place, read)
            read = 0
            try:
                if place in task.condemned:
                    raise RejectedError(task.condemned[place], "ended its worker each time it was tried")
                ahead.before(place)
                data = read_image(sample, task.image.max_bytes)
                read = len(data)
                image = store_image(data, task.image)
            except RejectedError as error:
                rejected.append(Noted(sample.key, error.code.value, error.reason))
                continue
            if image.changes:
                why = f"stored as {image.format.decode()}"
                normalised.append(Noted(sample.key, "+".join(image.changes), why, ASKED.issuperset(image.changes)))
            warnings += [Noted(sample.key, "warning", why) for why in image.warnings]
            progressive += image.progressive
            if places and Change.TURNED in image.changes:
                # Whether who drew them saw the image upright or as its file has it, no file says.
                why = f"turned upright as its EXIF says: {places} must mean the upright image"
                warnings.append(Noted(sample.key, "warning", why))
            said = checked_values(sample, own)
            values = _values(sample, said, image, task.first + place, hashlib.sha256(data) if hashed else None)
            shard.write(values)
            _count(counts, values, sample)
            rows.append(tuple([values[key] for key in keys]))
            kind = image.format.decode()
            formats[kind] = formats.get(kind, 0) + 1
        progress(len(task.samples), read)
    columns = zip(*rows, strict=True) if rows else [()] * len(keys)
    return Receipt(
        split=task.split,
        number=task.number,
        info=shard.info,
        class_counts={key: tuple(values) for key, values in counts.items()},
        formats=formats,
        columns={
            key: encode_column(values, column_dtype(task.schema, key))
            for key, values in zip(keys, columns, strict=True)
        },
        rejected=tuple(rejected),
        normalised=tuple(normalised),
        warnings=tuple(warnings),
        progressive=progressive,
    )


def _values(
    sample: Sample, said: Mapping[str, Value], image: StoredImage, number: int, digest: Any
) -> dict[str, Value]:
    values: dict[str, Value] = {
        ENCODED: image.encoded,
        FORMAT: image.format,
        HEIGHT: image.height,
        WIDTH: image.width,
        FILENAME: sample.key,
        SOURCE_ID: b"%d" % number,
        **said,
    }
    if digest is not None:
        values[SHA256] = digest.hexdigest().encode()
    return values


def _count(counts: dict[str, list[int]], values: Mapping[str, Value], sample: Sample) -> None:
    for key, of_class in counts.items():
        found = values[key]
        for label in found if isinstance(found, list) else [found]:
            if not 0 <= label < len(of_class):  # type: ignore[operator]  # a label is an int: Schema and the source's contract
                raise UsageError(
                    f"sample {name_text(sample.key)}",
                    f"got the label {label!r} for {escape(key)}, expected 0 to {len(of_class) - 1}",
                    "correct the source, or its class names",
                )
            of_class[label] += 1  # type: ignore[index]  # as above

"""One pass over the records of a dataset: numbers of every image and object. Cached for the next report."""

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.annotations import BOX, CAPTION, OBJECT_AREA, OBJECT_LABEL, RASTER
from shardfeed.budget import cpu_budget
from shardfeed.converters.existing.dataset_source import Opened
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.formats.example import decode
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, IMAGE_KEYS, LABEL, SHA256, TEXT, WIDTH, Schema
from shardfeed.storage.local import make_directory, write_file
from shardfeed.text import in_usual_order, number, size_text
from shardfeed.tools.report.image_numbers import NUMBERS, image_numbers

GRID = 16  # cells along each side of the image, for the positions of boxes
_VERSION = b"5"  # version of the measurements: a different one measures again
_TOGETHER = 64  # records read at once
_RASTERS = 2_000  # decoded, spread evenly over a split
_NAME = 60  # characters of a class in a sentence
_WANTED = {ENCODED, FORMAT, HEIGHT, WIDTH, SHA256, LABEL, CAPTION, *BOX, OBJECT_LABEL, OBJECT_AREA, RASTER}

# Of each object. `row`, `column`: cell with the center of its box. `box`, `mask`: areas as shares of the image; `mask`
# is -1 without.
OBJECT = np.dtype([("row", "u1"), ("column", "u1"), ("box", "<f4"), ("mask", "<f4")])
# A class that an image has among others, by its tags or its objects; the label -1 of an image without any.
CLASS = np.dtype([("image", "<u4"), ("label", "<i4")])


class Measured:
    """A dataset and the numbers of its n images, split after split in their usual order, each in stored order.

    `images`: NUMBERS [n]. `objects`: OBJECT of all their objects. `of_several`: CLASS of all images, if an image can
    have several; each class of an image once. `pixels`: int64 [values], how often rasters have each value. `splits`:
    the range of each split. `split`: uint8 [n], the split of each image. `decoded`: bool [n].

    `class_key`: the feature with the classes: of images, or, where images have none, of objects. `labelled`: whether
    each image has one class. `counts`: int64 [classes, splits], images (or objects) of each class.
    """

    def __init__(
        self, data: Dataset, images: np.ndarray, objects: np.ndarray, of_several: np.ndarray, pixels: np.ndarray
    ) -> None:
        self.data, self.images, self.objects, self.of_several, self.pixels = data, images, objects, of_several, pixels
        names = in_usual_order(data)
        sizes = [len(data[name]) for name in names]
        borders = np.cumsum([0, *sizes]).tolist()
        self.splits = {name: slice(*part) for name, part in zip(names, pairwise(borders), strict=True)}
        self.split = np.repeat(np.arange(len(names), dtype=np.uint8), sizes)
        self.decoded = images["kind"] > 0
        schema, infos = data.manifest.schema, [data.manifest.splits[name] for name in names]
        self.class_key, self.labelled = _class_key(schema)
        self.classes = schema.class_names.get(self.class_key, ())
        none = [0] * len(self.classes)
        self.counts = np.array([info.class_counts.get(self.class_key, none) for info in infos], np.int64).T
        size = size_text(sum(info.size for info in infos))
        self.headline = f"{number(len(images), 'image')} in {number(len(names), 'split')}, {size}"

    @cached_property
    def keys(self) -> np.ndarray:
        """bytes as objects [n]: the key of each image, as `shardfeed remove` takes it."""
        records = Opened(self.data).splits
        return np.concatenate([np.zeros(0, object), *(records[name].keys for name in self.splits)])

    def class_name(self, label: int) -> str:
        """The name of a class, escaped and shortened; "" if there is no such class."""
        return escape(self.classes[label])[:_NAME] if 0 <= label < len(self.classes) else ""


def _class_key(schema: Schema) -> tuple[str, bool]:
    """The feature with the classes, and whether each image has one; see Measured."""
    key = schema.key(LABEL) or LABEL
    return (key, schema.features[key].scalar) if key in schema.class_names else (OBJECT_LABEL, False)


def measure(data: Dataset, keep: str | None, progress: Callable[[int], object]) -> Measured:
    """Read and decode every image of a dataset, on all CPUs, or reuse an earlier report's measurements in `keep`.

    Raises UsageError if records have no image, StorageError if shards cannot be read. A damaged record counts as an
    image that does not decode. Memory: about 160 bytes per image, and 20 per object or tag.
    """
    schema, raster = data.manifest.schema, data.manifest.schema.raster
    key = schema.key(ENCODED)
    if key is None or not schema.features[key].scalar or schema.kind(key) != "image":
        remedy = "adopt other TFRecords with `shardfeed adopt DIR OUT --image-key KEY`"
        raise UsageError(data.directory, "its records have no feature with one image", remedy)
    splits = [data[name] for name in in_usual_order(data)]
    kept = ""
    if keep is not None:
        make_directory(keep)
        files = [os.path.join(data.directory, name) for name in sorted(data.manifest.sizes())]
        with ThreadPoolExecutor(cpu_budget()) as pool:  # a remote storage takes a request per file
            state = [*pool.map(next(iter(data.values())).shards.storage.version, files)]
        state += [split.fingerprint for split in splits]
        records = hashlib.blake2b(_VERSION + repr(state).encode(), digest_size=8)
        kept = os.path.join(keep, f"{records.hexdigest()}.npz")
        with (
            suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile),  # missing or damaged
            np.load(kept, allow_pickle=False) as file,
        ):
            found = Measured(data, file["images"], file["objects"], file["of_several"], file["pixels"])
            progress(len(found.images))
            return found
    values = 0 if raster is None else max(len(raster.class_names), (raster.void or 0) + 1)
    images, pixels = np.zeros(sum(map(len, splits)), NUMBERS), np.zeros(values, int)
    objects, of_several = [np.zeros(0, OBJECT)], [np.zeros(0, CLASS)]
    parts, first = [], 0
    for split in splits:
        ranges = (range(at, min(at + _TOGETHER, len(split))) for at in range(0, len(split), _TOGETHER))
        parts += [(split, part, images[first + part.start : first + part.stop], first, values) for part in ranges]
        first += len(split)
    with ThreadPoolExecutor(cpu_budget()) as pool:  # decoders let other threads run
        found_in_parts = pool.map(lambda part: _measure_some(*part), parts)
        for part, (found_objects, found_classes, found_pixels) in zip(parts, found_in_parts, strict=True):
            objects += found_objects
            of_several.append(np.array(found_classes, CLASS))
            pixels += found_pixels
            progress(len(part[1]))
    arrays: dict[str, Any] = {"images": images, "pixels": pixels}
    arrays |= {"objects": np.concatenate(objects), "of_several": np.concatenate(of_several)}
    if kept and images["kind"].all():  # a record may be readable next time, or after a repair
        content = io.BytesIO()
        np.savez(content, **arrays)
        write_file(kept, content.getvalue())
    return Measured(data, **arrays)


def _measure_some(
    split: Split, places: range, rows: np.ndarray, first: int, values: int
) -> tuple[list[np.ndarray], list[tuple[int, int]], np.ndarray]:
    """Fill `rows`, NUMBERS of the images at `places`.

    Returns their objects, their classes if they can have several (CLASS), and how often rasters have each value.
    `first`: index of the split's first image. `values`: number of values of rasters.
    """
    keys = {key: name for name in _WANTED if (key := split.schema.key(name)) is not None}
    every, objects, classes, pixels = max(1, len(split) // _RASTERS), [], [], np.zeros(values, int)
    class_key, labelled = _class_key(split.schema)
    several = OBJECT_LABEL if labelled else keys.get(class_key, "")
    for index, payload, row in zip(places, _payloads(split, places), rows, strict=True):
        row["label"] = row["objects"] = row["caption"] = -1
        try:
            every_feature = decode(payload)
            found = {keys[key]: of_key for key, (_, of_key) in every_feature.items() if key in keys}
            row["annotations"] = _annotations_digest(split.schema, every_feature)
            _measure_image(found, row)
            if split.schema.object_keys:
                objects.append(_objects(found, int(row["height"]) * int(row["width"])))
                row["objects"] = len(objects[-1])
            if several in keys.values():
                of_image = {*map(int, found.get(several, ()))} or {-1}
                classes += [(first + index, label) for label in sorted(of_image)]
            if index % every == 0 and RASTER in found and values:
                with Image.open(io.BytesIO(found[RASTER][0]), formats=("PNG",)) as mask:
                    pixels += np.bincount(np.asarray(mask).ravel(), minlength=values)[:values]
        except Exception:  # decoders raise any error for damaged bytes: `kind` then is 0
            row["kind"] = 0
    return objects, classes, pixels


def _annotations_digest(schema: Schema, found: Mapping[str, tuple[str, Any]]) -> int:
    """A hash of all features of a record but its image, its name and its own label; of classes, their names."""
    own = {schema.key(name) for name in (*IMAGE_KEYS, *((LABEL, TEXT) if _class_key(schema)[1] else ()))}
    digest = hashlib.blake2b(digest_size=8)
    for key in sorted(schema.features.keys() & found.keys() - own):
        names, values = schema.class_names.get(key), list(found[key][1])
        digest.update(repr((key, [names[label] for label in values] if names else values)).encode())
    return int.from_bytes(digest.digest(), "little")


def _payloads(split: Split, places: range) -> list[bytes]:
    """The records at `places`; b"", which does not decode, for a damaged one."""
    try:
        return split.payloads(np.array(places))
    except IntegrityError:
        every = [places[i : i + 1] for i in range(len(places))]
        return [b""] if len(places) == 1 else [payload for one in every for payload in _payloads(split, one)]


def _measure_image(found: Mapping[str, Any], row: np.ndarray) -> None:
    """Fill `row`, NUMBERS of a record with these features."""
    encoded, stated = bytes(found[ENCODED][0]), bytes(found.get(SHA256, [b""])[0])
    digest = bytes.fromhex(stated[:16].decode()) if len(stated) == 64 else hashlib.sha256(encoded).digest()[:8]
    row["same"] = int.from_bytes(digest, "little")
    for key in (OBJECT_LABEL, LABEL):
        if len(found.get(key, ())):
            row["label"] = found[key][0]
    if CAPTION in found:
        row["caption"] = max((len(text.decode("utf-8", "replace")) for text in found[CAPTION]), default=0)
    raw = (int(found[HEIGHT][0]), int(found[WIDTH][0])) if bytes(found.get(FORMAT, [b""])[0]) == b"raw" else None
    for name, value in image_numbers(encoded, raw).items():
        row[name] = value


def _objects(found: Mapping[str, Any], pixels: int) -> np.ndarray:
    """OBJECT of the objects of an image of so many `pixels`."""
    left, top, right, bottom = (np.asarray(found.get(key, ()), np.float64) for key in BOX)
    rows = np.zeros(len(left), OBJECT)
    rows["box"] = (right - left) * (bottom - top)
    for name, both in (("row", top + bottom), ("column", left + right)):
        rows[name] = np.clip(both * (GRID / 2), 0, GRID - 1)
    areas = found.get(OBJECT_AREA, ())
    rows["mask"] = np.divide(areas, pixels) if len(areas) == len(rows) else -1
    return rows

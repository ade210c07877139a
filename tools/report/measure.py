"""One pass over the records of a dataset: numbers of every image, sums of all objects. Cached for the next report."""

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.annotations import BOX, CAPTION, OBJECT_AREA, OBJECT_LABEL, RASTER
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.example import decode
from shardfeed.machine.budget import cpu_budget
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, SHA256, WIDTH
from shardfeed.storage.local import make_directory, write_file
from shardfeed.text import in_usual_order
from shardfeed.tools.report.image_numbers import NUMBERS, image_numbers

_VERSION = b"1"  # version of the measurements: a different one measures again
_TOGETHER = 64  # records read at once
_GRID = 16  # cells along each side of the image, for the positions of boxes
_OCTAVES = 16  # of shares of the image: whole, a half, a quarter ...
_MOST_CLASSES = 1_000  # for a table of classes that occur together
_RASTERS = 2_000  # decoded, spread evenly over a split

Features = Mapping[str, tuple[str, Any]]


@dataclass
class Objects:
    """Sums over objects. `places`: centers of boxes [rows, columns]. `boxes`, `masks`: by their share of the image;
    entry i counts shares from 2**-i to 2**-(i + 1). `together`: images that have both classes [K, K], with both in the
    same image at least once. `pixels`: of each value of rasters.
    """

    places: np.ndarray
    boxes: np.ndarray
    masks: np.ndarray
    together: np.ndarray
    pixels: np.ndarray

    @classmethod
    def none(cls, data: Dataset) -> "Objects":
        """Empty sums for a dataset with these classes."""
        schema = data.manifest.schema
        classes = len(schema.class_names.get(OBJECT_LABEL, ()))
        raster = schema.raster
        values = 0 if raster is None else max(len(raster.class_names), (raster.void or 0) + 1)
        sides = (classes if classes <= _MOST_CLASSES else 0,) * 2
        shapes = ((_GRID, _GRID), (_OCTAVES,), (_OCTAVES,), sides, (values,))
        return cls(*(np.zeros(shape, np.int64) for shape in shapes))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return dict(vars(self))

    def add(self, other: "Objects") -> None:
        """Add the sums of other records."""
        for name, values in self.arrays().items():
            values += other.arrays()[name]

    def count(self, found: Features, height: int, width: int) -> int:
        """Add the objects of a record with an image of this size in pixels, and return their number."""
        left, top, right, bottom = (np.asarray(found[key][1] if key in found else (), np.float64) for key in BOX)
        cells = [
            np.minimum((low + high) * (_GRID / 2), _GRID - 1).astype(int)
            for low, high in ((top, bottom), (left, right))
        ]
        np.add.at(self.places, tuple(cells), 1)
        _add_shares(self.boxes, (right - left) * (bottom - top))
        if OBJECT_AREA in found:
            _add_shares(self.masks, np.asarray(found[OBJECT_AREA][1], np.float64) / (height * width))
        if OBJECT_LABEL in found and len(self.together):
            classes = np.unique(found[OBJECT_LABEL][1])
            self.together[np.ix_(classes, classes)] += 1
        return len(left)


def _add_shares(counts: np.ndarray, shares: np.ndarray) -> None:
    octaves = -np.log2(np.clip(shares, 2.0 ** (0.5 - _OCTAVES), 1))
    counts += np.bincount(octaves.astype(int), minlength=_OCTAVES)


@dataclass
class Measured:
    """`images`: NUMBERS of all images, split after split in their usual order, each in stored order. `splits`: the
    range of each split. `split`: number of the split of each image.
    """

    images: np.ndarray
    objects: Objects
    splits: Mapping[str, slice]

    @property
    def split(self) -> np.ndarray:
        """uint8 [n]: the split of each image, in the order of `splits`."""
        lengths = [part.stop - part.start for part in self.splits.values()]
        return np.repeat(np.arange(len(lengths), dtype=np.uint8), lengths)

    @property
    def decoded(self) -> np.ndarray:
        """bool [n]: whether each image decodes."""
        return self.images["kind"] > 0


def measure(data: Dataset, keep: str | None, progress: Callable[[int], object]) -> Measured:
    """Read and decode every image of a dataset, on all CPUs, or reuse an earlier report's measurements in `keep`.

    Raises UsageError if records have no image, StorageError if shards cannot be read. A damaged record counts as an
    image that does not decode. Memory: about 150 bytes per image.
    """
    schema = data.manifest.schema
    key = schema.key(ENCODED)
    if key is None or not schema.features[key].scalar or schema.kind(key) != "image":
        remedy = "adopt other TFRecords with `shardfeed adopt DIR OUT --image-key KEY`"
        raise UsageError(data.directory, "its records have no feature with one image", remedy)
    kept = ""
    if keep is not None:
        make_directory(keep)
        kept = os.path.join(keep, f"{data.manifest.fingerprint[:12]}.npz")
    names = in_usual_order(data)
    starts = np.cumsum([0, *(len(data[name]) for name in names)]).tolist()
    splits = {name: slice(*starts[i : i + 2]) for i, name in enumerate(names)}
    fingerprint = hashlib.blake2b(_VERSION + "".join(data[name].fingerprint for name in names).encode()).digest()
    if kept and (found := _read(kept, fingerprint)) is not None:
        progress(starts[-1])
        return Measured(found.pop("images"), Objects(**found), splits)
    images, objects = np.zeros(starts[-1], NUMBERS), Objects.none(data)

    def part(split: Split, first: int, place: int) -> tuple[int, Objects]:
        rows = images[first + place : min(first + place + _TOGETHER, first + len(split))]
        return len(rows), _measure_some(data, split, place, rows)

    with ThreadPoolExecutor(cpu_budget()) as pool:  # decoders let other threads run
        parts = (
            (data[name], at.start, place)
            for name, at in splits.items()
            for place in range(0, len(data[name]), _TOGETHER)
        )
        try:
            for done, found in pool.map(part, *zip(*parts, strict=True)):
                objects.add(found)
                progress(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if kept:
        content = io.BytesIO()
        arrays = {**objects.arrays(), "images": images, "fingerprint": np.frombuffer(fingerprint, np.uint8)}
        np.savez(content, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
        write_file(kept, content.getvalue())
    return Measured(images, objects, splits)


def _read(kept: str, fingerprint: bytes) -> dict[str, np.ndarray] | None:
    """Read the arrays of an earlier report; None if they are missing, damaged, or for other records."""
    with (
        suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile),
        np.load(kept, allow_pickle=False) as file,
    ):
        found = {name: file[name] for name in file.files}
        if found.pop("fingerprint").tobytes() == fingerprint:
            return found
    return None


def _measure_some(data: Dataset, split: Split, place: int, rows: np.ndarray) -> Objects:
    """Fill `rows` with the numbers of the images from `place` on, and return the sums of their objects."""
    schema, objects = split.schema, Objects.none(data)
    wanted = {ENCODED, FORMAT, HEIGHT, WIDTH, SHA256, LABEL, CAPTION, *BOX, OBJECT_LABEL, OBJECT_AREA, RASTER}
    keys = {key: name for name in wanted if (key := schema.key(name)) is not None}
    every = max(1, len(split) // _RASTERS)
    places = np.arange(place, place + len(rows))
    try:
        payloads: list[bytes | None] = [*split.payloads(places)]
    except IntegrityError:
        payloads = [_payload(split, index) for index in places.tolist()]
    for index, payload, row in zip(places.tolist(), payloads, rows, strict=True):
        row["label"] = row["objects"] = row["caption"] = -1
        if payload is None:
            continue
        try:
            found = {keys[key]: value for key, value in decode(payload, keys).items()}
            _measure_one(found, row, objects, objects_too=bool(schema.object_keys))
            if index % every == 0 and RASTER in found and objects.pixels.size:
                with Image.open(io.BytesIO(found[RASTER][1][0]), formats=("PNG",)) as mask:
                    values = np.bincount(np.asarray(mask).ravel(), minlength=len(objects.pixels))
                objects.pixels += values[: len(objects.pixels)]
        except Exception:  # decoders raise any error for damaged bytes: `kind` then is 0
            row["kind"] = 0
    return objects


def _payload(split: Split, index: int) -> bytes | None:
    try:
        return split.payload(index)
    except IntegrityError:
        return None


def _measure_one(found: Features, row: np.ndarray, objects: Objects, *, objects_too: bool) -> None:
    values = {key: values for key, (_, values) in found.items()}
    encoded = bytes(values[ENCODED][0])
    stated = values[SHA256][0] if SHA256 in values else b""
    digest = bytes.fromhex(stated[:16].decode()) if len(stated) == 64 else hashlib.sha256(encoded).digest()[:8]
    row["same"] = int.from_bytes(digest, "little")
    for key in (OBJECT_LABEL, LABEL):
        if len(values.get(key, ())):
            row["label"] = values[key][0]
    if CAPTION in values:
        row["caption"] = max((len(text.decode("utf-8", "replace")) for text in values[CAPTION]), default=0)
    raw = (int(values[HEIGHT][0]), int(values[WIDTH][0])) if bytes(values.get(FORMAT, [b""])[0]) == b"raw" else None
    for name, value in image_numbers(encoded, raw).items():
        row[name] = value
    if objects_too:
        row["objects"] = objects.count(found, int(row["height"]), int(row["width"]))

"""One pass over the records of a dataset: numbers of every image and object. Cached for the next report."""

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
from shardfeed.tools.report.image_numbers import NUMBERS, image_numbers
from shardfeed.tools.report.measured import Measured

GRID = 16  # cells along each side of the image, for the positions of boxes
_VERSION = b"2"  # version of the measurements: a different one measures again
_TOGETHER = 64  # records read at once
_RASTERS = 2_000  # decoded, spread evenly over a split
_WANTED = {ENCODED, FORMAT, HEIGHT, WIDTH, SHA256, LABEL, CAPTION, *BOX, OBJECT_LABEL, OBJECT_AREA, RASTER}

# Of each object. `image`: its index. `label`: its class, -1 without. `row`, `column`: cell with the center of its box.
# `box`, `mask`: areas as shares of the image; `mask` is -1 without.
OBJECT = np.dtype(
    [("image", "<u4"), ("label", "<i4"), ("row", "u1"), ("column", "u1"), ("box", "<f4"), ("mask", "<f4")]
)


def measure(data: Dataset, keep: str | None, progress: Callable[[int], object]) -> Measured:
    """Read and decode every image of a dataset, on all CPUs, or reuse an earlier report's measurements in `keep`.

    Raises UsageError if records have no image, StorageError if shards cannot be read. A damaged record counts as an
    image that does not decode. Memory: about 150 bytes per image, and 18 per object.
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
    images = np.zeros(sum(map(len, data.values())), NUMBERS)
    raster = schema.raster
    pixels = np.zeros(0 if raster is None else max(len(raster.class_names), (raster.void or 0) + 1), np.int64)
    measured = Measured(data, images, np.zeros(0, OBJECT), pixels)
    of_splits = "".join(data[name].fingerprint for name in measured.splits)
    fingerprint = hashlib.blake2b(_VERSION + of_splits.encode()).digest()
    if kept and (found := _read(kept, fingerprint)) is not None:
        progress(len(images))
        return Measured(data, **found)
    objects = [measured.objects]
    places = [
        (name, range(at, min(at + _TOGETHER, len(data[name]))))
        for name in measured.splits
        for at in range(0, len(data[name]), _TOGETHER)
    ]
    with ThreadPoolExecutor(cpu_budget()) as pool:  # decoders let other threads run
        try:
            for (_, part), (found_objects, found_pixels) in zip(
                places, pool.map(lambda at: _measure_some(measured, *at), places), strict=True
            ):
                objects += found_objects
                pixels += found_pixels
                progress(len(part))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    arrays = {"images": images, "objects": np.concatenate(objects), "pixels": pixels}
    if kept:
        content = io.BytesIO()
        np.savez(content, fingerprint=np.frombuffer(fingerprint, np.uint8), **arrays)  # type: ignore[arg-type]
        write_file(kept, content.getvalue())
    return Measured(data, **arrays)


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


def _measure_some(measured: Measured, name: str, places: range) -> tuple[list[np.ndarray], np.ndarray]:
    """Fill the numbers of the images at `places` of a split; return their objects and the values of their rasters."""
    split = measured.data[name]
    keys = {key: name for name in _WANTED if (key := split.schema.key(name)) is not None}
    every, first = max(1, len(split) // _RASTERS), measured.splits[name].start
    objects, pixels = [], np.zeros_like(measured.pixels)
    try:
        payloads: Sequence[bytes | None] = split.payloads(np.array(places))
    except IntegrityError:
        payloads = [_payload(split, index) for index in places]
    for index, payload in zip(places, payloads, strict=True):
        row = measured.images[first + index]
        row["label"] = row["objects"] = row["caption"] = -1
        if payload is None:
            continue
        try:
            found = {keys[key]: values for key, (_, values) in decode(payload, keys).items()}
            _measure_image(found, row)
            if split.schema.object_keys:
                objects.append(_objects(found, first + index, int(row["height"]) * int(row["width"])))
                row["objects"] = len(objects[-1])
            if index % every == 0 and RASTER in found and pixels.size:
                with Image.open(io.BytesIO(found[RASTER][0]), formats=("PNG",)) as mask:
                    pixels += np.bincount(np.asarray(mask).ravel(), minlength=len(pixels))[: len(pixels)]
        except Exception:  # decoders raise any error for damaged bytes: `kind` then is 0
            row["kind"] = 0
    return objects, pixels


def _payload(split: Split, index: int) -> bytes | None:
    try:
        return split.payload(index)
    except IntegrityError:
        return None


def _measure_image(found: Mapping[str, Any], row: np.ndarray) -> None:
    encoded = bytes(found[ENCODED][0])
    stated = found[SHA256][0] if SHA256 in found else b""
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


def _objects(found: Mapping[str, Any], image: int, pixels: int) -> np.ndarray:
    """OBJECT of the objects of an image of so many `pixels`."""
    left, top, right, bottom = (np.asarray(found.get(key, ()), np.float64) for key in BOX)
    rows = np.zeros(len(left), OBJECT)
    rows["image"], rows["box"] = image, (right - left) * (bottom - top)
    for name, both in (("row", top + bottom), ("column", left + right)):
        rows[name] = np.clip(both * (GRID / 2), 0, GRID - 1)
    for name, key, whole in (("label", OBJECT_LABEL, 1), ("mask", OBJECT_AREA, pixels)):
        values = found.get(key, ())
        rows[name] = np.divide(values, whole) if len(values) == len(rows) else -1
    return rows

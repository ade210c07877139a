"""Try what could make a pipeline faster: really convert some of its images, or cache them, and measure beside them.

Each change is what its advice says: `convert` with those options, `cached`, other threads. It is measured with the
same pipeline on as many images, in turns with the images as they are.
"""

import io
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.converters import convert, from_dicts
from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.errors import StorageError, UsageError
from shardfeed.machine.budget import cpu_budget
from shardfeed.machine.free_space import check_room
from shardfeed.pipelines import Cache, cached
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH
from shardfeed.text import number, size_text
from shardfeed.tools.bench.stages import Workload

_SEEN = 32  # images looked at
_IMAGES = 256  # converted, or four batches
_PIXEL_BYTES = 1 << 30  # that they may take decoded
_SMALLER = 1.15  # the shorter side must be larger by this before a smaller copy is worth a try
_USUAL = 256 / 224  # images stored a little larger than they are used, as everybody does
_LARGE = 384  # pixels of a side, from which on restart markers help
_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Look:
    """Some images of a split: medians of their sides in pixels, and shares of progressive JPEGs and of PNGs."""

    height: int
    width: int
    progressive: float
    png: float
    raw: bool


def look_at(split: Split) -> Look:
    """Look at images from all over the split."""
    places = np.unique(np.linspace(0, len(split) - 1, min(len(split), _SEEN)).astype(np.int64))
    found = [_facts(split[place]) for place in places.tolist()]
    heights, widths, forms = zip(*found, strict=True)
    return Look(
        round(statistics.median(heights)),
        round(statistics.median(widths)),
        forms.count("progressive") / len(forms),
        forms.count("png") / len(forms),
        all(form == "raw" for form in forms),
    )


def _facts(record: Any) -> tuple[int, int, str]:
    data = record[ENCODED]
    if record.get(FORMAT) == b"raw":
        return record[HEIGHT], record[WIDTH], "raw"
    if data.startswith(b"\xff\xd8"):
        header = read_jpeg_header(data, MAX_PIXELS)
        return header.height, header.width, "progressive" if header.process == PROGRESSIVE else "jpeg"
    with Image.open(io.BytesIO(data)) as image:
        return image.height, image.width, "png"


@dataclass(frozen=True)
class Change:
    """One change. `made`: gives the pipeline with it, in a directory of its own; `work` is one of fewer images."""

    change: str
    why: str
    made: Callable[[Workload, str], Workload]


def stored_side(image_size: int) -> int:
    """The shorter side, in pixels, at which images for crops of `image_size` are usually stored: 256 for 224."""
    return round(image_size * _USUAL)


def sample_of(work: Workload, look: Look) -> Workload | None:
    """The pipeline on as many images as can be converted; None where those are fewer than two batches."""
    count = min(len(work.split), max(_IMAGES, 4 * work.batch_size), _PIXEL_BYTES // (3 * look.height * look.width))
    return work.cut(count) if count >= 2 * work.batch_size else None


def converted(work: Workload, out: str, image: ImageOptions | None = None) -> Workload:
    """The pipeline on a dataset in `out`, converted from the images of `work`."""
    label = {"label": 0} if work.labelled else {}
    rows = [{"image": record[ENCODED], "key": str(place), **label} for place, record in enumerate(work.split)]
    convert(from_dicts(rows), out, image=image or ImageOptions(check="none", seekable=False), workers=1)
    return replace(work, split=shardfeed.open(out)["train"])


def possible_changes(work: Workload, look: Look) -> Iterator[Change]:
    """The changes that could help this pipeline; only those that change something."""
    cores, side = cpu_budget(), stored_side(work.image_size)
    if work.workers < cores:
        yield Change(
            f"leave out --workers, which makes it {cores}",
            f"{number(work.workers, 'thread')} for {number(cores, 'granted core')}",
            lambda work, out: replace(work, workers=cores),
        )
    if look.raw:
        return
    smaller = min(look.height, look.width) > _SMALLER * side
    size = f"images are {look.width}x{look.height}, crops {work.image_size}"
    if smaller:
        yield Change(
            f"shardfeed convert SOURCE OUT --resize-shorter {side}",
            f"{size}; with a shorter side of {side}, small windows hold less detail",
            lambda work, out: converted(work, out, ImageOptions(resize_shorter=side)),
        )
    if look.progressive:
        yield Change(
            "shardfeed convert SOURCE OUT --baseline",
            f"{look.progressive:.0%} of the images are progressive JPEGs, which are decoded whole for any crop",
            lambda work, out: converted(work, out, ImageOptions(check="none", baseline=True)),
        )
    if look.png:
        yield Change(
            "shardfeed convert SOURCE OUT --png-to-jpeg",
            "a PNG is decoded whole for any crop; a JPEG loses a little",
            lambda work, out: converted(work, out, ImageOptions(png_to_jpeg=True)),
        )
    if work.apart and max(look.height, look.width) >= _LARGE:
        yield Change(
            "shardfeed convert SOURCE OUT --seekable",
            "a crop is decoded without the rest of its image; a hundredth more bytes, and the same pixels",
            lambda work, out: converted(work, out, ImageOptions(check="none", seekable=True)),
        )
    pixels = 3 * look.height * look.width * len(work.split)
    cache = f'cached(split, Cache("{_MEMORY}", decoded=True)) for train_batches'
    if fits_in_memory(pixels):
        yield Change(
            cache,
            f"nothing is decoded after the first time; decoded pixels take {size_text(pixels)} of memory",
            _cached,
        )
    shrunk = round(pixels * (side / min(look.height, look.width)) ** 2)
    if smaller and fits_in_memory(shrunk):
        yield Change(
            f"shardfeed convert SOURCE OUT --resize-shorter {side}, then {cache}",
            f"{size}; nothing is decoded after the first time; pixels take {size_text(shrunk)} of memory",
            lambda work, out: _cached(converted(work, out, ImageOptions(resize_shorter=side)), out + "-cache"),
        )


def _cached(work: Workload, out: str) -> Workload:
    return replace(work, split=cached(work.split, Cache(out, decoded=True)))


def fits_in_memory(size: int) -> bool:
    """Whether a cache of `size` bytes would be let into /dev/shm."""
    try:
        check_room(_MEMORY, size, "")
    except (StorageError, OSError):
        return False
    return True


def try_change(change: Change, sample: Workload, directory: str) -> Workload | str:
    """The pipeline with the change, or why it could not be made: an extra that is missing, no room."""
    try:
        return change.made(sample, os.path.join(directory, str(len(os.listdir(directory)))))
    except (UsageError, StorageError) as error:
        return str(error)

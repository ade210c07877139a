"""Measure changes that could make a pipeline faster, by converting or caching a part of the images.

Each change is made as its advice says: `convert` with these options, `cached`, other threads. The same pipeline reads
the changed and the unchanged images in turn.
"""

import io
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.budget import cpu_budget
from shardfeed.converters import convert, from_dicts
from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError
from shardfeed.free_space import room_in
from shardfeed.pipelines import Cache, cached
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH
from shardfeed.storage.temporary import TemporaryFolder
from shardfeed.text import number, size_text
from shardfeed.tools.bench.running import OutOfTimeError, Running, start
from shardfeed.tools.bench.stages import Workload
from shardfeed.tools.bench.verdict import LEAST_GAIN, REPEATS, factor

_SEEN = 32  # images inspected
_IMAGES = 256  # converted, or four batches
_PIXEL_BYTES = 1 << 30  # that they may take when decoded
_SMALLER = 1.15  # the shorter side must be larger by this factor before a smaller copy is tried
_USUAL = 256 / 224  # images stored a little larger than they are used, as is common
_LARGE = 384  # pixels of a side, above which restart markers help
_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class TypicalImage:
    """Median sides of some images of a split, in pixels, and shares of JPEGs by kind and of PNGs."""

    height: int
    width: int
    baseline: float  # JPEGs, not progressive
    progressive: float
    png: float
    raw: bool


def typical_image(split: Split) -> TypicalImage:
    """Read headers of images from all over the split; raise IntegrityError if none of them can be read."""
    places = np.unique(np.linspace(0, len(split) - 1, min(len(split), _SEEN)).astype(np.int64))
    found = [header for place in places.tolist() if (header := _header(split[place]))]
    if not found:
        problem = f"none of the {number(len(places), 'image')} sampled can be read"
        raise IntegrityError(f"split {split.name}", problem, "verify the dataset with --deep")
    heights, widths, forms = zip(*found, strict=True)
    return TypicalImage(
        round(statistics.median(heights)),
        round(statistics.median(widths)),
        forms.count("jpeg") / len(forms),
        forms.count("progressive") / len(forms),
        forms.count("png") / len(forms),
        all(form == "raw" for form in forms),
    )


def _header(record: Any) -> tuple[int, int, str] | None:
    """Height, width and form of a stored image; None if its header cannot be read: the pipeline may still decode it."""
    data = record[ENCODED]
    if record.get(FORMAT) == b"raw":
        return record[HEIGHT], record[WIDTH], "raw"
    try:
        if data.startswith(b"\xff\xd8"):
            header = read_jpeg_header(data, MAX_PIXELS)
            return header.height, header.width, "progressive" if header.process == PROGRESSIVE else "jpeg"
        with Image.open(io.BytesIO(data)) as image:
            return image.height, image.width, str(image.format).lower()
    except Exception:  # readers of headers raise any error for damaged bytes
        return None


@dataclass(frozen=True)
class PossibleChange:
    """One change. `made`: returns the changed pipeline, in a new directory; `work` has fewer images."""

    change: str
    why: str
    made: Callable[[Workload, str], Workload]


def stored_side(image_size: int) -> int:
    """The shorter side, in pixels, at which images for crops of `image_size` are usually stored: 256 for 224."""
    return round(image_size * _USUAL)


def sample_of(work: Workload, typical: TypicalImage) -> Workload | None:
    """The pipeline on as many images as can be converted; None if these are fewer than two batches."""
    most = _PIXEL_BYTES // (3 * typical.height * typical.width)
    count = min(len(work.split), max(_IMAGES, 4 * work.batch_size), most)
    return work.cut(count) if count >= 2 * work.batch_size else None


def converted(work: Workload, out: str, image: ImageOptions | None = None) -> Workload:
    """The pipeline on a dataset in `out`, converted from the images of `work`."""
    label = {"label": 0} if work.labelled else {}
    rows = [{"image": record[ENCODED], "key": str(place), **label} for place, record in enumerate(work.split)]
    convert(from_dicts(rows), out, image=image or ImageOptions(check="none", seekable=False), workers=1)
    return replace(work, split=shardfeed.open(out)["train"])


def possible_changes(work: Workload, typical: TypicalImage) -> Iterator[PossibleChange]:
    """The changes that could help this pipeline; only those that change something."""
    cores, side = cpu_budget(), stored_side(work.image_size)

    def anew(flags: str, why: str, **options: Any) -> PossibleChange:
        made = partial(converted, image=ImageOptions(**options))
        return PossibleChange(f"shardfeed convert SOURCE OUT {flags}", why, made)

    if work.workers < cores:
        why = f"{number(work.workers, 'thread')} for {number(cores, 'granted core')}"
        yield PossibleChange(
            f"leave out --workers to use all {cores}", why, lambda work, out: replace(work, workers=cores)
        )
    if typical.raw:
        return
    smaller = min(typical.height, typical.width) > _SMALLER * side
    size = f"images are {typical.width}x{typical.height}, crops {work.image_size}"
    if smaller:
        why = f"{size}; with a shorter side of {side}, small crops have less detail"
        yield anew(f"--resize-shorter {side}", why, resize_shorter=side)
    if typical.progressive:
        why = f"{typical.progressive:.0%} of the images are progressive JPEGs, decoded as a whole even for a crop"
        yield anew("--baseline", why, check="none", baseline=True)
    if typical.png:
        why = "a PNG is decoded as a whole even for a crop; JPEG is slightly lossy"
        yield anew("--png-to-jpeg", why, png_to_jpeg=True)
    if work.on_host and max(typical.height, typical.width) >= _LARGE:
        why = "only the crop is decoded; 1 % more bytes, the same pixels"
        yield anew("--seekable", why, check="none", seekable=True)
    pixels = 3 * typical.height * typical.width * len(work.split)
    cache = f'cached(split, Cache("{_MEMORY}", decoded=True)) for train_batches'
    if fits_in_memory(pixels):
        yield PossibleChange(
            cache, f"images are decoded only once; decoded pixels take {size_text(pixels)} of memory", _cached
        )
    shrunk = round(pixels * (side / min(typical.height, typical.width)) ** 2)
    if smaller and fits_in_memory(shrunk):
        yield PossibleChange(
            f"shardfeed convert SOURCE OUT --resize-shorter {side}, then {cache}",
            f"{size}; images are decoded only once; pixels take {size_text(shrunk)} of memory",
            lambda work, out: _cached(converted(work, out, ImageOptions(resize_shorter=side)), out + "-cache"),
        )


def _cached(work: Workload, out: str) -> Workload:
    return replace(work, split=cached(work.split, Cache(out, decoded=True)))


def fits_in_memory(size: int) -> bool:
    """Whether a cache of `size` bytes would fit into /dev/shm."""
    try:
        room_in(_MEMORY).check(size, "")
    except (StorageError, OSError):
        return False
    return True


def measure_changes(
    work: Workload,
    typical: TypicalImage,
    report: dict[str, Any],
    slice_s: float,
    deadline: float,
    progress: Callable[[str], object],
) -> dict[str, Any]:
    """Measure the gain of each possible change on some of the images; the change that helps most comes first."""
    rate, model = report["pipeline"]["images_per_s"], report["model"]
    sample = sample_of(work, typical)
    found: list[dict[str, Any]] = []
    not_tried: list[dict[str, str]] = []
    base: Running | None = None
    with TemporaryFolder("bench") as directory:
        for n, change in enumerate(possible_changes(work, typical)):
            times = None
            if sample is None:
                why = "two batches of such images need more memory than the trial may use"
                if len(work.split) < 2 * work.batch_size:
                    why = "the split has fewer than two batches: give a smaller --batch-size"
            else:
                try:
                    if base is None:
                        sample = converted(sample, os.path.join(directory, "base"))
                        base = start(sample, deadline)
                    other = start(change.made(sample, os.path.join(directory, str(n))), deadline)
                    times = factor([(base.slice(slice_s), other.slice(slice_s)) for _ in range(REPEATS)])
                    why = "its rounds varied too much"
                except ShardfeedError as error:  # no space, a missing extra, a refused image
                    why = error.problem
                except OutOfTimeError:
                    why = "no time was left"
            if times is None:
                not_tried.append({"change": change.change, "why": why})
            elif times >= LEAST_GAIN:
                enough = model and rate * times >= model["images_per_s_wanted"]
                found.append({"change": change.change, "why": change.why, "factor": times, "enough": enough})
            progress(f"tried: {change.change}")
        base = None
    return {"advice": sorted(found, key=lambda advice: -advice["factor"]), "not_tried": not_tried}

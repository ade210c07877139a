"""How much disk raw pixels will take, said before the first image is read: hours later is too late."""

import os
from typing import NamedTuple

from shardfeed.converters.fit import fit_image
from shardfeed.converters.image_options import ImageOptions
from shardfeed.converters.jpeg_header import read_jpeg_header
from shardfeed.converters.plan import Plan
from shardfeed.converters.png_header import read_png_header
from shardfeed.converters.reading import read_image
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sniff import image_kind
from shardfeed.converters.source import Sample, Source
from shardfeed.errors import StorageError, escape
from shardfeed.naming import RECORD_SUFFIX

_LOOKED_AT = 200  # images whose headers an estimate is made from; their mean is then a few percent off


class Forecast(NamedTuple):
    """`size`: bytes of all pixels, height * width * 3 an image. `exact`: whether it is that, or drawn from some."""

    size: int
    exact: bool


def raw_forecast(source: Source, plan: Plan) -> Forecast | None:
    """What the pixels of a planned dataset will take; None when it holds files, or no size can be found."""
    options = plan.options.image
    if options.encode != "raw":
        return None
    if options.shape is not None:
        return Forecast(len(plan) * options.shape[0] * options.shape[1] * 3, exact=True)
    sizes: list[int] = []
    for i in range(0, len(source), -(-len(source) // _LOOKED_AT)):
        size = _raw_size(source[i], options)
        if size is not None:
            sizes.append(size)
    return Forecast(round(len(plan) * sum(sizes) / len(sizes)), exact=False) if sizes else None


def _raw_size(sample: Sample, options: ImageOptions) -> int | None:
    """Bytes of the pixels of a JPEG or PNG, by its header; None for others."""
    try:
        data = read_image(sample)
        kind = image_kind(data)
        if kind == "jpeg":
            header = read_jpeg_header(data, options.max_pixels)
        elif kind == "png":
            header = read_png_header(data, options.max_pixels, "none")
        else:
            return None
    except RejectedError:
        return None
    fit = fit_image(header.height, header.width, options)
    width, height = fit.size if fit else (header.width, header.height)
    return height * width * 3


def check_space(plan: Plan, out: str, begun: str) -> None:
    """Raises StorageError when the disk of `out` has less room than the pixels of images of one size take.

    `begun`: the directory in which an earlier run may have finished shards; their bytes are there already. Nothing is
    checked where the size of the output is not known.
    """
    shape = plan.options.image.shape
    if plan.options.image.encode != "raw" or shape is None:
        return
    whole = len(plan) * shape[0] * shape[1] * 3
    needed = whole - _finished(begun)
    disk = os.statvfs(os.path.dirname(out))
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        each = f"{len(plan)} images of {shape[0]} x {shape[1]} x 3 bytes"
        raise StorageError(
            out,
            f"{each} need {needed} bytes of disk, {free} are free in {escape(os.path.dirname(out))}",
            "free some, choose a smaller size, or store files instead of raw pixels",
        )


def _finished(directory: str) -> int:
    """Bytes of the shards under their final names."""
    try:
        with os.scandir(directory) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(RECORD_SUFFIX))
    except FileNotFoundError:
        return 0

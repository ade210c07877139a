"""How much disk a dataset will take, said before the first image is read: hours later is too late."""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from shardfeed.converters.images.fit import fit_image
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.png import read_png_header
from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import Sample, Source
from shardfeed.errors import StorageError, escape
from shardfeed.formats.tfrecord.example import ExampleEncoder
from shardfeed.formats.tfrecord.framing import FRAME_BYTES
from shardfeed.naming import RECORD_SUFFIX
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, SHA256, SOURCE_ID, WIDTH, Schema, Value
from shardfeed.storage.local import NO_ROOM, free_space, free_text

_LOOKED_AT = 200  # images whose headers an estimate is made from; their mean is then a few percent off
_FILES_A_SHARD = 3  # records, index, receipt
_MORE_FILES = 16  # directories, manifest, sidecars, label columns, a temporary file


class Forecast(NamedTuple):
    """`size` in bytes. `exact`: whether it is certain, or drawn from some images."""

    size: int
    exact: bool


def raw_forecast(source: Source, plan: Plan) -> Forecast | None:
    """What the pixels of a planned dataset, height * width * 3 bytes an image, will take.

    None when it holds files, or no size can be found.
    """
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


def output_forecast(source: Source, plan: Plan) -> Forecast | None:
    """What the shards of a planned dataset will take on disk; None where images are encoded again.

    Exact is a least size: pixels of one size a record. Others are off by a few percent; files that are not stored as
    they are, and images that a source makes itself, make it worse.
    """
    image = plan.options.image
    pixels = raw_forecast(source, plan)
    if pixels is not None:
        size, exact = pixels
    elif image.encode == "raw" or image.shape or image.resize_shorter or image.quality or not plan.source_bytes:
        return None
    else:
        size, exact = plan.source_bytes, False
    return Forecast(size + len(plan) * _beside(source[0], plan.schema), exact)


def _beside(sample: Sample, schema: Schema) -> int:
    """Bytes of a record that are not its image, and of its line in the index."""
    known: dict[str, Value] = {ENCODED: b"", FORMAT: b"jpeg", HEIGHT: 1, WIDTH: 1, FILENAME: sample.key}
    values = {**known, SOURCE_ID: b"0", SHA256: bytes(64), **sample.features}
    record = ExampleEncoder(schema.features).parts({key: values[key] for key in schema.features})
    return sum(map(len, record)) + FRAME_BYTES + len("0 0\n")


def check_space(forecast: Forecast | None, plan: Plan, out: str, begun: str) -> str | None:
    """A sentence when the disk of `out` seems to have too little room, for bytes or for files; None when it has enough.

    `begun`: the directory in which an earlier run may have finished shards, which are there already. Raises
    StorageError where `forecast` is exact: then the end is certain.
    """
    where = os.path.dirname(out)
    free = free_space(where)
    needed = forecast.size - _finished(begun).size if forecast else 0
    if forecast and needed > free.size:
        shape = plan.options.image.shape
        each = f" of {shape[0]} x {shape[1]} x 3 bytes" if shape and forecast.exact else ""
        problem = f"{len(plan)} images{each} need {needed} bytes of disk, {free.size} are free in {escape(where)}"
        if forecast.exact:
            remedy = "free some, choose a smaller size, or store files instead of raw pixels"
            raise StorageError(out, problem, remedy)
        return f"{escape(out)}: by a forecast {problem}"
    files = _FILES_A_SHARD * (len(plan.shards) - _finished(begun).shards) + _MORE_FILES
    if free.files is not None and files > free.files:
        return f"{escape(out)}: {files} files are to be made, {free.files} (inodes) are free in {escape(where)}"
    return None


@contextlib.contextmanager
def saying_what_is_needed(forecast: Forecast | None, plan: Plan, out: str, begun: str) -> Iterator[None]:
    """A StorageError of a full disk says how much more room the shards take that are not in `begun` yet."""
    try:
        yield
    except StorageError as error:
        needed = _still_needed(forecast, plan, begun) if error.errno in NO_ROOM else None
        if needed is None:
            raise
        free = free_text(free_space(os.path.dirname(out)))
        what = f"about {needed:,} more bytes are needed, {free}: make room, then run the same command again to resume"
        said = StorageError(error.place, error.problem, what)
        said.errno = error.errno
        raise said from error


def _still_needed(forecast: Forecast | None, plan: Plan, begun: str) -> int | None:
    """Bytes, by the forecast, or by the size of the shards that are finished; None where there is neither."""
    done = _finished(begun)
    if forecast is not None:
        return max(0, forecast.size - done.size)
    return round(done.size / done.shards * (len(plan.shards) - done.shards)) if done.shards else None


class _Finished(NamedTuple):
    """Shards under their final names: how many, and their bytes."""

    shards: int
    size: int


def _finished(directory: str) -> _Finished:
    try:
        with os.scandir(directory) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.name.endswith(RECORD_SUFFIX)]
            return _Finished(len(sizes), sum(sizes))
    except OSError:
        return _Finished(0, 0)

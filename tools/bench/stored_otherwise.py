"""What other bytes for the same images would cost: a sample of them is really stored otherwise, and trained on.

Each variant is written to a file of records, read back, parsed, and cut by the real transform, with the same draws, in
alternating rounds beside the originals.
"""

import io
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.pixels import encode_jpeg
from shardfeed.converters.images.seekable import interval_for
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.formats.example import encode
from shardfeed.formats.registry import NATIVE
from shardfeed.jpeg.restarts import row_lengths
from shardfeed.pipelines.decoding.resize import has_opencv
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH, Schema, Value, image_features
from shardfeed.storage.local import storage_error
from shardfeed.tools.bench.rounds import Contender, handed_over, measure_rounds

_WINDOWS = 128  # crops of a run, at least, in as many draws as it takes
_LEAST = 8  # images, where there is time
_SAMPLED_PIXELS = 40_000_000
_FEWEST_DRAWS = 2  # windows of each image
_SMALLER = 1.15  # the shorter side must be larger by this before a smaller copy is worth a try
_USUAL = 256 / 224  # images stored a little larger than they are used, as everybody does
_QUALITY = 92
_BATCH = 16
_AS_IT_IS, _SEEKABLE, _NOT_SEEKABLE = "as_it_is", "seekable", "not_seekable"
_STORED = (ENCODED, FORMAT, HEIGHT, WIDTH, RESTARTS)
_FEATURES = {key: image_features(sha256=False, restarts=True)[key] for key in _STORED}


@dataclass(frozen=True)
class StoredSample:
    """One image as a record may hold it: `form` is "jpeg", "png" or "raw"; height and width in pixels."""

    encoded: bytes
    form: str
    height: int
    width: int
    progressive: bool = False
    restarts: bytes = b""  # of a seekable JPEG


@dataclass(frozen=True)
class Variant:
    """The same images stored otherwise. `cpu_us`: of one, read to handed over; `original_us`: as they are.

    `bytes_per_image`: encoded; `original_bytes`: as they are.
    """

    name: str
    cpu_us: float
    original_us: float
    bytes_per_image: float
    original_bytes: float


def sample_images(split: Split, most: int) -> list[StoredSample]:
    """Up to `most` images from all over the split; where they have over 40 million pixels, no more than 8."""
    count = min(len(split), most)
    places = np.unique(np.linspace(0, len(split) - 1, count).astype(np.int64))
    np.random.default_rng(0).shuffle(places)
    found: list[StoredSample] = []
    pixels = 0
    for place in places.tolist():
        found.append(_sample(split[place]))
        pixels += found[-1].height * found[-1].width
        if pixels > _SAMPLED_PIXELS and len(found) >= _LEAST:
            break
    return found


def _sample(record: Any) -> StoredSample:
    data = record[ENCODED]
    if record.get(FORMAT) == b"raw":
        return StoredSample(data, "raw", record[HEIGHT], record[WIDTH])
    if data.startswith(b"\xff\xd8"):
        header = read_jpeg_header(data, MAX_PIXELS)
        progressive = header.process == PROGRESSIVE
        return StoredSample(data, "jpeg", header.height, header.width, progressive, row_lengths(data))
    with Image.open(io.BytesIO(data)) as image:
        return StoredSample(data, "png", image.height, image.width)


def stored_side(image_size: int) -> int:
    """The shorter side, in pixels, at which images for crops of `image_size` are usually stored: 256 for 224."""
    return round(image_size * _USUAL)


def variants(samples: Sequence[StoredSample], image_size: int) -> dict[str, list[StoredSample]]:
    """The ways to store `samples` that could help, by name; only those that change something.

    "resized": shrunk to `stored_side`. "baseline": progressive JPEGs made baseline, with their own tables. "jpeg": PNGs
    as JPEGs of quality 92. "seekable": large JPEGs with restart markers. "raw": pixels. "resized_raw": both.
    """
    found: dict[str, list[StoredSample]] = {}
    side = stored_side(image_size)
    compressed = [sample for sample in samples if sample.form != "raw"]
    if statistics.median(min(s.height, s.width) for s in samples) > _SMALLER * side and compressed:
        found["resized"] = [_resized(sample, side) for sample in samples]
        found["resized_raw"] = [_raw(sample) for sample in found["resized"]]
    if any(sample.progressive for sample in samples):
        found["baseline"] = [_baseline(sample) if sample.progressive else sample for sample in samples]
    if any(sample.form == "png" for sample in samples):
        found["jpeg"] = [_jpeg(sample) if sample.form == "png" else sample for sample in samples]
    cut = [_seekable(sample) for sample in samples] if has_opencv() else [*samples]
    if any(made.restarts and not sample.restarts for made, sample in zip(cut, samples, strict=True)):
        found["seekable"] = cut
    if compressed:
        found["raw"] = [_raw(sample) for sample in samples]
    return found


def _resized(sample: StoredSample, side: int) -> StoredSample:
    if sample.form == "raw":
        return sample
    stored = store_image(sample.encoded, ImageOptions(check="none", resize_shorter=side))
    return StoredSample(stored.encoded, stored.format.decode(), stored.height, stored.width)


def _pixels(sample: StoredSample) -> Image.Image:
    with Image.open(io.BytesIO(sample.encoded)) as image:
        return image.convert("RGB")


def _baseline(sample: StoredSample) -> StoredSample:
    out = io.BytesIO()
    with Image.open(io.BytesIO(sample.encoded)) as image:
        image.save(out, "JPEG", quality="keep", progressive=False)
    return StoredSample(out.getvalue(), "jpeg", sample.height, sample.width)


def _seekable(sample: StoredSample) -> StoredSample:
    """The same JPEG cut into pieces, or where it cannot be, as it is."""
    if sample.form != "jpeg" or sample.progressive or sample.restarts:
        return sample
    out = io.BytesIO()
    with Image.open(io.BytesIO(sample.encoded)) as image:
        assert isinstance(image, JpegImageFile)
        factors = [layer[1:3] for layer in image.layer] if image.layers > 1 else [(1, 1)]
        mcu = 8 * max(down for _, down in factors), 8 * max(across for across, _ in factors)
        interval = interval_for(sample.height, sample.width, mcu, sparing=True)
        image.save(out, "JPEG", quality="keep", restart_marker_blocks=interval)
    restarts = row_lengths(out.getvalue())
    made = StoredSample(out.getvalue(), "jpeg", sample.height, sample.width, restarts=restarts)
    return made if restarts else sample


def _jpeg(sample: StoredSample) -> StoredSample:
    encoded = encode_jpeg(_pixels(sample), _QUALITY, half_chroma=True)
    return StoredSample(encoded, "jpeg", sample.height, sample.width)


def _raw(sample: StoredSample) -> StoredSample:
    if sample.form == "raw":
        return sample
    return StoredSample(_pixels(sample).tobytes(), "raw", sample.height, sample.width)


def measure_variants(
    samples: Sequence[StoredSample],
    others: dict[str, list[StoredSample]],
    image_size: int,
    parallelism: int,
    rounds: int,
    windows: int,
) -> list[Variant]:
    """What each of `others` costs from reading to handing over, beside `samples`, which are the same images.

    Each round goes through about `windows` crops of them, at most.
    Raises StorageError where the directory for temporary files has no room for them.
    """
    pixels = sum(sample.height * sample.width for sample in samples)
    draws = max(_FEWEST_DRAWS, min(-(-_WINDOWS // len(samples)), _SAMPLED_PIXELS // pixels))
    draws = max(1, min(draws, windows // len(samples)))
    with tempfile.TemporaryDirectory() as directory:
        contenders = {}
        for name, images in {_AS_IT_IS: samples, **others}.items():
            if name == _SEEKABLE:
                contenders[name] = _read_by_position(images, image_size, parallelism, draws)
                contenders[_NOT_SEEKABLE] = _read_by_position(samples, image_size, parallelism, draws)
                continue
            path = os.path.join(directory, name)
            _write(path, images)
            contenders[name] = _contender(path, images, image_size, parallelism, draws)
        measure_rounds(contenders, 1)  # warm
        found = measure_rounds(contenders, rounds)
    original = statistics.median(cost.cpu_us for cost in found[_AS_IT_IS])
    size = statistics.mean(len(sample.encoded) for sample in samples)
    made = []
    for name, images in others.items():
        # The median of ratios, each of one round: the machine's speed drifts from round to round.
        beside = found[_NOT_SEEKABLE if name == _SEEKABLE else _AS_IT_IS]
        ratio = statistics.median(c.cpu_us / base.cpu_us for c, base in zip(found[name], beside, strict=True))
        mean = statistics.mean(len(sample.encoded) for sample in images)
        made.append(Variant(name, original * ratio, original, mean, size))
    return made


def _write(path: str, images: Sequence[StoredSample]) -> None:
    encoder = NATIVE.encoder(_FEATURES)
    try:
        with open(path, "wb") as file:
            for image in images:
                file.writelines(encoder(_values(image)))
    except OSError as error:
        raise storage_error(path, "write", error) from error


def _contender(path: str, images: Sequence[StoredSample], image_size: int, parallelism: int, draws: int) -> Contender:
    forms = {image.form for image in images}
    form = forms.pop() if len(forms) == 1 else None
    whole = _cut(path, form, image_size, parallelism).repeat(draws)
    few = max(1, len(images) // 8)
    first = _cut(path, form, image_size, parallelism, few)
    return Contender(lambda: whole, len(images) * draws, first, few, handed_over)


def _read_by_position(images: Sequence[StoredSample], image_size: int, parallelism: int, draws: int) -> Contender:
    """As the orders that are read by position make their batches, for only there a window is decoded alone."""
    from shardfeed.pipelines import random_resized_crop
    from shardfeed.pipelines.decoding.batch import BatchDecoder

    schema = Schema(_FEATURES)
    decoder = BatchDecoder(random_resized_crop(image_size).crop, schema, {i.form for i in images}, parallelism)
    payloads = [encode(_FEATURES, _values(image)) for image in images]

    def batches(count: int) -> Iterator[Any]:
        for start in range(0, count, _BATCH):
            few = payloads[start : min(start + _BATCH, count)]
            seeds = np.stack([np.zeros(len(few), np.int64), np.arange(start, start + len(few))], 1)
            yield decoder(few, seeds).images

    first = max(1, len(images) // 8)
    return Contender(
        lambda: chain.from_iterable(batches(len(images)) for _ in range(draws)),
        len(images) * draws,
        _Again(lambda: batches(first)),
        first,
        handed_over,
    )


class _Again:
    """An iterable of what a function gives, each time anew."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def _values(image: StoredSample) -> dict[str, Value]:
    """What a record says of an image."""
    return {
        ENCODED: image.encoded,
        FORMAT: image.form.encode(),
        HEIGHT: image.height,
        WIDTH: image.width,
        RESTARTS: image.restarts,
    }


def _cut(path: str, form: str | None, image_size: int, parallelism: int, count: int = -1) -> Any:
    """Batches of a crop of each image in a file, or of the first `count`; `form`: of all of them, if they have one."""
    import tensorflow as tf

    from shardfeed.pipelines import random_resized_crop
    from shardfeed.pipelines.tensorflow.assembly import data_options

    crop = random_resized_crop(image_size)
    spec = {
        ENCODED: tf.io.FixedLenFeature([], tf.string),
        FORMAT: tf.io.FixedLenFeature([], tf.string),
        HEIGHT: tf.io.FixedLenFeature([], tf.int64),
        WIDTH: tf.io.FixedLenFeature([], tf.int64),
    }

    def cut(number: Any, record: Any) -> Any:
        features = tf.io.parse_single_example(record, spec)
        if form:
            features[FORMAT] = tf.constant(form)
        return crop(features, tf.stack([tf.constant(0, tf.int64), number]))

    records = tf.data.TFRecordDataset(path, buffer_size=1 << 20).take(count).enumerate()
    return (
        records.map(cut, num_parallel_calls=parallelism)
        .batch(_BATCH)
        .prefetch(2)
        .with_options(data_options(parallelism))
    )

"""Masks through a whole conversion: exact whatever they are stored in and whatever is done to their images."""

import io
import os
import shutil
import zlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_images import encoded
from PIL import Image

import shardfeed
from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.column import column_keys
from shardfeed.converters import ImageOptions, Sample, convert
from shardfeed.converters.images.mask_file import read_mask
from shardfeed.converters.images.pixels import Placement, fit_image, upright
from shardfeed.converters.images.store import store_image
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.object_masks import moved_pixels
from shardfeed.converters.shards.place_raster import class_numbers, raster_values
from shardfeed.converters.shards.receipts import image_identity
from shardfeed.converters.sources.source import MaskTable, RasterImage
from shardfeed.errors import TooManyRejectedError, UsageError
from shardfeed.schema import Feature, Schema

from pictures import image_bytes

HEIGHT, WIDTH = 40, 60
FEATURES = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
CLASSES = Raster(tuple("abcdefghij"), 255)
SCHEMA = Schema(FEATURES, raster=CLASSES)
TABLE = MaskTable(values=(*((i, i) for i in range(10)), (255, 255)))


def drawn(seed: int = 0, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Blocks of class numbers with single pixels and void between them."""
    rng = np.random.default_rng(seed)
    mask = np.kron(rng.integers(0, 10, (height // 4, width // 4), np.uint8), np.ones((4, 4), np.uint8))
    mask[rng.random(mask.shape) < 0.1] = 255
    return mask


def decoded(record: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(cast(bytes, record[RASTER]))))


def turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turn pixels by an EXIF orientation as Pillow turns images."""
    return np.asarray(upright(Image.fromarray(pixels), orientation))


def nearest(start: float, stop: float, count: int) -> list[int]:
    """The pixels that the middles of `count` parts lie in, in fractions of whole numbers."""
    low, high = Fraction(start), Fraction(stop)
    return [int(low + (i + Fraction(1, 2)) * (high - low) / count) for i in range(count)]


def reference(mask: np.ndarray, placement: Placement, *, upright: bool) -> np.ndarray:
    """The mask of the stored image: back to how its file lies, the nearest pixel of each, turned."""
    if upright:
        mask = turned(mask, {6: 8, 8: 6}.get(placement.orientation, placement.orientation))
    if placement.fit is not None:
        left, top, right, bottom = placement.fit.box
        width, height = placement.fit.size
        mask = mask[np.ix_(nearest(top, bottom, height), nearest(left, right, width))]
    return turned(mask, placement.orientation)


def stored(
    mask: bytes, image: bytes, table: MaskTable = TABLE, raster: Raster = CLASSES, lies: bool | None = None, **o: Any
) -> tuple[np.ndarray, Placement]:
    options = ImageOptions(**o)
    made = store_image(image, options)
    sample = Sample(b"1", image, raster=RasterImage(mask, table, "masks/1.png", lies))
    values = raster_values(sample, made, raster, options)
    assert values[RASTER_FORMAT] == b"png"
    pixels = decoded(values)
    assert pixels.shape == (made.height, made.width)
    return pixels, made.placement


PHOTO = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    "options",
    [{}, {"resize_shorter": 17}, {"size": 24}, {"size": (30, 16)}, {"encode": "raw"}, {"encode": "raw", "size": 90}],
    ids=str,
)
def test_it_moves_with_the_pixels(orientation: int, options: dict[str, Any]) -> None:
    image = encoded(PHOTO, orientation=orientation)
    mask = drawn()
    for lies in (False, True):
        as_drawn = turned(mask, orientation) if lies else mask
        found, placement = stored(encoded(as_drawn), image, lies=lies, **options)
        np.testing.assert_array_equal(found, reference(as_drawn, placement, upright=lies))


sides = st.integers(1, 60)


@given(sides, sides, sides, st.integers(1, 8), st.booleans())
def test_each_pixel_is_the_one_its_middle_lies_in(
    height: int, width: int, shorter: int, orientation: int, lies: bool
) -> None:
    mask = np.arange(height * width, dtype=np.uint16).reshape(height, width)
    fit = fit_image(height, width, ImageOptions(resize_shorter=shorter), sideways=orientation >= 5)
    placement = Placement(height, width, orientation, fit)
    as_drawn = turned(mask.astype(np.int32), orientation).astype(np.uint16) if lies else mask
    found = moved_pixels(as_drawn, placement, upright=lies)
    expected = reference(as_drawn.astype(np.int32), placement, upright=lies)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF"])
@pytest.mark.parametrize("options", [{}, {"png_to_jpeg": True}, {"quality": 50}, {"resize_shorter": 21}], ids=str)
def test_whatever_the_image_is(kind: str, options: dict[str, Any]) -> None:
    mask = drawn()
    found, placement = stored(encoded(mask), encoded(PHOTO, kind), **options)
    np.testing.assert_array_equal(found, reference(mask, placement, upright=True))


def palette(mask: np.ndarray, kind: str = "PNG") -> bytes:
    image = Image.fromarray(mask, "L")
    colours = np.random.default_rng(1).integers(0, 256, (256, 3), np.uint8)
    image.putpalette(colours.tobytes())
    return image_bytes(image, kind, **({"optimize": False} if kind == "GIF" else {}))


@pytest.mark.parametrize(
    "mask",
    [
        palette(drawn()),
        palette(drawn(), "TIFF"),
        palette(drawn(), "BMP"),
        palette(drawn(), "GIF"),
        encoded(drawn(), "TIFF", compression="tiff_lzw"),
        encoded(drawn(), "BMP"),
        encoded(drawn().astype(np.uint16)),
        encoded(drawn().astype(np.uint16), "TIFF"),
        encoded(drawn().astype(np.int32), "TIFF"),
        encoded(np.stack([drawn()] * 3, -1)),
        encoded(np.stack([drawn()] * 3 + [np.full((HEIGHT, WIDTH), 255, np.uint8)], -1)),
    ],
    ids=["palette", "tiff-palette", "bmp-palette", "gif", "tiff", "bmp", "16", "tiff16", "tiff32", "rgb", "rgba"],
)
def test_the_numbers_are_those_of_the_file(mask: bytes) -> None:
    found, _ = stored(mask, encoded(PHOTO))
    np.testing.assert_array_equal(found, drawn())


@pytest.mark.parametrize("bits", [2, 4])
def test_a_few_bits_are_not_stretched(bits: int) -> None:
    """Pillow, as libpng, makes 85 of a 1 of 2 bits, and 17 of one of 4."""
    values = drawn() % (1 << bits) % 10
    shifted = values.reshape(HEIGHT, -1, 8 // bits) << np.arange(8 - bits, -1, -bits).astype(np.uint8)
    rows = b"".join(b"\0" + row.sum(-1, dtype=np.uint8).tobytes() for row in shifted)

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    header = WIDTH.to_bytes(4, "big") + HEIGHT.to_bytes(4, "big") + bytes([bits, 0, 0, 0, 0])
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    found, _ = stored(b"\x89PNG\r\n\x1a\n" + body, encoded(PHOTO))
    np.testing.assert_array_equal(found, values)


def test_one_bit_is_zero_and_one() -> None:
    one_bit = drawn() % 2 == 1
    found, _ = stored(encoded(one_bit), encoded(PHOTO))
    np.testing.assert_array_equal(found, one_bit)
    found, _ = stored(encoded(one_bit, "TIFF"), encoded(PHOTO))
    np.testing.assert_array_equal(found, one_bit)


@pytest.mark.parametrize("options", [{}, {"resize_shorter": 17}, {"size": 24}], ids=str)
@pytest.mark.parametrize("orientation", [1, 6])
def test_more_than_256_classes_have_16_bits(options: dict[str, Any], orientation: int) -> None:
    raster = Raster(tuple(map(str, range(40_000))), 65535)
    table = MaskTable(values=(*((i, i) for i in range(40_000)), (65535, 65535)))
    mask = np.random.default_rng(0).integers(0, 40_000, (HEIGHT, WIDTH)).astype(np.uint16)
    mask[0] = 65535
    found, placement = stored(encoded(mask), encoded(PHOTO, orientation=orientation), table, raster, **options)
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, reference(mask, placement, upright=False))


def test_values_and_colours_become_class_numbers() -> None:
    table = MaskTable(values=((0, 255), (7, 1), (200, 0), (26001, 2)))
    mask = np.array([[0, 7], [200, 26001]], np.uint16)
    small = encoded(PHOTO[:2, :2])
    raster = Raster(("a", "b", "c"), 255)
    np.testing.assert_array_equal(stored(encoded(mask), small, table, raster)[0], [[255, 1], [0, 2]])
    table = MaskTable(colours=((0, 0, 0, 255), (1, 2, 3, 0), (1, 2, 4, 1), (255, 255, 255, 2)))
    colours = np.array([[[0, 0, 0], [1, 2, 3]], [[255, 255, 255], [1, 2, 4]]], np.uint8)
    expected = [[255, 0], [2, 1]]
    np.testing.assert_array_equal(stored(encoded(colours), small, table, raster)[0], expected)
    out = io.BytesIO()
    Image.fromarray(colours).quantize(4).save(out, "PNG")
    np.testing.assert_array_equal(stored(out.getvalue(), small, table, raster)[0], expected, "by its palette")
    gray = encoded(np.array([[0, 255], [255, 0]], np.uint8))
    np.testing.assert_array_equal(stored(gray, small, table, raster)[0], [[255, 2], [2, 255]])


def bad_value() -> np.ndarray:
    mask = drawn()
    mask[3, 5] = mask[3, 6] = 11
    return mask


def bad_colour() -> np.ndarray:
    mask = np.stack([drawn()] * 3, -1)
    mask[7, 2] = (9, 9, 8)
    return mask


def see_through() -> np.ndarray:
    mask = np.stack([drawn()] * 3 + [np.full((HEIGHT, WIDTH), 255, np.uint8)], -1)
    mask[1, 2, 3] = 254
    return mask


@pytest.mark.parametrize(
    ("mask", "code", "why"),
    [
        (encoded(drawn(height=20)), "E_MASK_SIZE", "60 x 20 pixels (width x height), the image has 60 x 40"),
        (encoded(drawn().T), "E_MASK_SIZE", "40 x 60 pixels"),
        (encoded(bad_value()), "E_MASK_VALUE", "value 11 at column 5, row 3 (2 such pixels), expected 0 to 9 or 255"),
        (encoded(bad_value().astype(np.uint16) * 300), "E_MASK_VALUE", "expected 0 to 9 or 255"),
        (encoded(bad_value().astype(np.int32) * -1, "TIFF"), "E_MASK_VALUE", "the value -"),
        (encoded(see_through()), "E_MASK_VALUE", "a transparent pixel at column 2, row 1"),
        (encoded(drawn(), "JPEG"), "E_MASK_LOSSY", "a jpeg file"),
        (encoded(drawn(), "TIFF", compression="jpeg"), "E_MASK_LOSSY", "a TIFF file with lossy compression"),
        (encoded(np.stack([drawn()] * 3, -1), "WEBP", lossless=True), "E_MASK_LOSSY", "a webp file"),
        (encoded(bad_colour()), "E_MASK_LOSSY", "the colour (9, 9, 8) at column 2, row 7"),
        (encoded(drawn().astype(np.float32), "TIFF"), "E_UNSUPPORTED", "mode F"),
        (encoded(drawn(), orientation=6), "E_FRAME", "its own EXIF orientation (6)"),
        (encoded(drawn())[:300], "E_TRUNCATED", ""),
        (b"", "E_EMPTY", "no bytes"),
        (b"\x93NUMPY", "E_NOT_IMAGE", ""),
    ],
)  # fmt: skip
def test_a_mask_that_is_not_right_is_refused_with_its_place(mask: bytes, code: str, why: str) -> None:
    with pytest.raises(RejectedError) as caught:
        stored(mask, encoded(PHOTO))
    assert caught.value.code == code
    assert caught.value.reason.startswith("masks/1.png: ")
    assert why in caught.value.reason


FILES = (
    palette(drawn()),
    palette(drawn(), "GIF"),
    encoded(drawn(), "TIFF", compression="tiff_lzw"),
    encoded(drawn().astype(np.uint16)),
    encoded(drawn() % 2 == 1, "BMP"),
    encoded(drawn() % 2 == 1, "TIFF"),
)


@given(st.sampled_from(FILES), st.integers(0, 200), st.binary(max_size=4), st.integers(0, 4))
def test_a_broken_mask_is_refused_and_nothing_else(file: bytes, at: int, put: bytes, over: int) -> None:
    try:
        class_numbers(read_mask(file[:at] + put + file[at + over :]), TABLE)
    except RejectedError:
        pass


def test_colours_that_no_class_has_are_named() -> None:
    table = MaskTable(colours=((0, 0, 0, 0), (128, 0, 0, 1)))
    mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask[10:20] = (128, 0, 0)
    mask[9, 4] = (64, 0, 0)
    with pytest.raises(RejectedError, match=r"the colour \(64, 0, 0\) at column 4, row 9, not that of a class") as one:
        stored(encoded(mask), encoded(PHOTO), table)
    assert one.value.code == "E_MASK_LOSSY"


def test_the_size_of_the_mask_tells_which_image_is_meant() -> None:
    mask = drawn()
    image = encoded(PHOTO, orientation=6)
    for as_drawn in (mask, turned(mask, 6)):
        np.testing.assert_array_equal(stored(encoded(as_drawn), image)[0], turned(mask, 6))
    for photo, orientation in ((PHOTO, 3), (PHOTO[:, :HEIGHT], 6)):
        square = encoded(drawn()[:, : photo.shape[1]])
        with pytest.raises(RejectedError, match="boxes_on") as caught:
            stored(square, encoded(photo, orientation=orientation))
        assert caught.value.code is RejectCode.FRAME


def test_no_mask_and_a_mask_that_raises() -> None:
    image = encoded(PHOTO)
    with pytest.raises(RejectedError, match="E_PAIR: an image without a mask"):
        raster_values(Sample(b"1", image), store_image(image, ImageOptions()), CLASSES, ImageOptions())

    def fails() -> bytes:
        raise RuntimeError("no such thing")

    sample = Sample(b"1", image, raster=RasterImage(fails, TABLE))
    with pytest.raises(RejectedError, match="E_SOURCE_ERROR: its mask: RuntimeError: no such thing"):
        raster_values(sample, store_image(image, ImageOptions()), CLASSES, ImageOptions())


def test_what_a_source_says_of_its_masks_must_fit_together() -> None:
    for names, void, ids in (((), None, ()), (("a", "a"), None, ()), (("a",), 0, ()), (("a",), 65536, ()),
                             (("a",), None, (1, 2))):  # fmt: skip
        with pytest.raises(UsageError, match="Raster"):
            Raster(names, void, ids)
    for table in (
        MaskTable(),
        MaskTable(values=((0, 10),)),
        MaskTable(colours=((0, 0, 0, 254),)),
        MaskTable(((-1, 0),)),
    ):
        with pytest.raises(UsageError, match="the table of masks"):
            stored(encoded(drawn()), encoded(PHOTO), table)


class Scenes:
    """Photos with masks; mask `changed` is another one."""

    schema = SCHEMA

    def __init__(self, images: int = 9, changed: int = -1, table: MaskTable = TABLE, broken: int = -1) -> None:
        self.images, self.changed, self.table, self.broken = images, changed, table, broken

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self.images:
            raise IndexError(i)
        mask = encoded(drawn(i + 100 * (i == self.changed), height=20 if i == self.broken else HEIGHT))
        raster = RasterImage(mask, self.table, f"{i}_mask.png")
        return Sample(b"%d.png" % i, encoded(PHOTO, orientation=1 + i % 8), raster=raster, split=None)

    def expected(self, i: int) -> np.ndarray:
        return turned(drawn(i), 1 + i % 8)


class Upright(Scenes):
    """Where nothing in a mask's size tells it, masks are of the image in the file."""

    def __getitem__(self, i: int) -> Sample:
        sample = super().__getitem__(i)
        raster = RasterImage(sample.raster.mask, self.table, sample.raster.name, upright=False)
        return Sample(sample.key, sample.image, raster=raster)


def files(out: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith("report") and "seconds" not in name}


def test_written_read_back_by_tensorflow_and_the_same_for_any_workers(tmp_path: Path) -> None:
    import tensorflow as tf

    report = convert(Upright(), tmp_path / "out", shards=3, workers=2)
    assert report.account is None
    data = shardfeed.open(tmp_path / "out")
    schema = data.manifest.schema
    assert schema.raster == CLASSES
    assert (schema.kind(RASTER), schema.kind(RASTER_FORMAT)) == ("raster", "text")
    assert RASTER not in column_keys("train", schema)
    assert Schema.from_json(schema.to_json()) == schema
    for record in data["train"]:
        expected = Upright().expected(int(cast(bytes, record["image/filename"])[:1]))
        assert expected.shape == (record["image/height"], record["image/width"])
        found = tf.io.decode_png(record[RASTER], channels=1).numpy()
        np.testing.assert_array_equal(found[..., 0], expected)
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(tmp_path / "out")
    for row in tfds.as_numpy(builder.as_dataset(split="train")):  # type: ignore[call-arg]  # hints that are not right
        assert row[RASTER].dtype == np.uint8
        np.testing.assert_array_equal(row[RASTER][..., 0], Upright().expected(int(row["image/filename"][:1])))
    convert(Upright(), tmp_path / "one", shards=3, workers=1)
    one, three = files(tmp_path / "one"), files(tmp_path / "out")
    shards = [name for name in one if "tfrecord" in name]
    assert shards
    assert all(one[name] == three[name] for name in shards)


def test_16_bits_are_read_back_by_tensorflow() -> None:
    import tensorflow as tf

    mask = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH)

    raster = Raster(tuple(map(str, range(HEIGHT * WIDTH))))
    table = MaskTable(values=tuple((value, value) for value in range(HEIGHT * WIDTH)))
    sample = Sample(b"1.png", encoded(PHOTO), raster=RasterImage(encoded(mask), table))
    values = raster_values(sample, store_image(encoded(PHOTO), ImageOptions()), raster, ImageOptions())
    found = tf.io.decode_png(values[RASTER], channels=1, dtype=tf.uint16).numpy()
    np.testing.assert_array_equal(found[..., 0], mask)


def test_masks_that_are_not_right_reject_their_image(tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError, match="E_MASK_SIZE"):
        convert(Upright(broken=2), tmp_path / "out", workers=1)
    report = convert(Upright(broken=2), tmp_path / "out", workers=1, max_bad=1)
    (rejected,) = report.rejected
    assert (rejected.key, rejected.what) == (b"2.png", "E_MASK_SIZE")
    assert rejected.why.startswith("2_mask.png: 60 x 20 pixels")


def test_a_plan_sees_the_mask() -> None:
    options = PlanOptions()
    plan = make_plan(Upright(), options)
    assert make_plan(Upright(), options).inputs.digest == plan.inputs.digest
    assert make_plan(Upright(changed=4), options).inputs.digest != plan.inputs.digest
    other = MaskTable(values=(*TABLE.values[:-1], (254, 255)))
    assert make_plan(Upright(table=other), options).inputs.digest != plan.inputs.digest
    assert not any(image_identity([Upright()[0]], plan.schema, options.image)[16:]), (
        "none is taken over from an earlier shard"
    )


@pytest.mark.long
def test_a_changed_mask_makes_its_shard_anew(tmp_path: Path) -> None:
    """A stopped run goes on, and what was made of another mask is not kept."""
    broken = Upright(broken=2)
    with pytest.raises(TooManyRejectedError):
        convert(broken, tmp_path / "out", shards=3, workers=1)
    kept = convert(Upright(), tmp_path / "out", shards=3, workers=1)
    assert kept.kept == 2, "the shards without the mask that was repaired"
    convert(Upright(), tmp_path / "anew", shards=3, workers=1)
    one, other = files(tmp_path / "anew"), files(tmp_path / "out")
    assert all(one[name] == other[name] for name in one if "tfrecord" in name)
    shutil.rmtree(tmp_path / "anew")
    assert not os.path.lexists(tmp_path / "anew")

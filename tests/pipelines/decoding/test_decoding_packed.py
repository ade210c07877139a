"""Images packed for a GPU: each goes where it should, with the bytes that show its window, on both paths the same."""

import random
from typing import Any

import numpy as np
import pytest
import simplejpeg
from datasets import here
from PIL import Image
from seekable_images import any_picture, cut_jpeg, drawn, jpeg

import shardfeed
from shardfeed.converters import ImageOptions, convert, from_dicts
from shardfeed.errors import RecordError
from shardfeed.formats.jpeg_markers import header_segments
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines import mix, order_samples
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding.batch import Batch, BatchDecoder, ReusedMemory, UndecodableError
from shardfeed.pipelines.decoding.packed import Packer
from shardfeed.pipelines.engine import DrawnReader, ImageMaker
from shardfeed.readers.split import Split
from shardfeed.schema import Schema

from damaged_jpegs import DAMAGES, damaged_jpeg
from decoding_paths import COMPILED, FEATURES, PYTHON, any_crop, built, path_taken, record
from pictures import image_bytes

pytest.importorskip("cv2")

CROP = RandomCrop((32, 40), RandomWindow((0.08, 1.0), (0.75, 1.33)), True)
PLACES = (
    *("height", "width", "top", "left", "tall", "wide"),
    *("content_top", "content_left", "content_tall", "content_wide", "mirrored"),
)
SEEDS = np.arange(24).reshape(12, 2)
PATHS = [pytest.param(COMPILED, marks=built, id="compiled"), PYTHON]
RNG = random.Random(0)


def packer(path: str, crop: Crop, *, check: bool = False, allocate: Any = None) -> Packer:
    with path_taken(path):
        made = Packer(crop, Schema(FEATURES), {"jpeg"}, 1, check=check, allocate=allocate)
    assert (made._compiled is None) == (path == PYTHON)
    return made


def like_cuda(crop: Crop) -> BatchDecoder:
    return BatchDecoder(crop, Schema(FEATURES), {"jpeg"}, 1, like_cuda=True)


def parts(batch: Batch) -> list[bytes]:
    return [part.tobytes() for part in np.split(batch.images.data, batch.images.ends[:-1])]


def outcome(pack: BatchDecoder, payloads: list[bytes], seeds: np.ndarray) -> Any:
    """All that a batch holds, or its error and the record at fault."""
    try:
        batch = pack(payloads, seeds)
    except UndecodableError as error:
        return type(error.why), str(error.why), error.payload in payloads
    return batch.views, batch.others, *(array.tolist() for array in batch.images[:4])


def decoded(data: bytes) -> np.ndarray:
    return simplejpeg.decode_jpeg(data, fastupsample=True)


def check_shown(batch: Batch, files: list[bytes], fill: np.ndarray) -> int:
    """Whatever is packed shows its view: the window of the whole file's pixels, or of `fill`. Returns the JPEGs."""
    places = [dict(zip(PLACES, row, strict=True)) for row in batch.images.places.tolist()]
    rows = zip(parts(batch), places, batch.images.is_jpeg, batch.views, files, fill, strict=True)
    for part, place, is_jpeg, view, file, pixels in rows:
        found = decoded(part) if is_jpeg else np.frombuffer(part, np.uint8).reshape(pixels.shape)
        assert found.shape[:2] == (place["height"], place["width"])
        top, left, tall, wide = (place[name] for name in ("top", "left", "tall", "wide"))
        content = tuple(place[f"content_{name}"] for name in ("top", "left", "tall", "wide"))
        if not is_jpeg:
            assert (top, left, tall, wide) == content == (0, 0, *view.target)
            assert not place["mirrored"]
            np.testing.assert_array_equal(found, pixels)
            continue
        assert (content, bool(place["mirrored"])) == (tuple(view.content), view.mirrored)
        whole, window = decoded(file), view.window
        assert (tall, wide) == (window.height, window.width)
        expected = whole[window.top : window.top + tall, window.left : window.left + wide]
        np.testing.assert_array_equal(found[top : top + tall, left : left + wide], expected)
    return int(batch.images.is_jpeg.sum())


def check_windows(files: int, seed: int) -> None:
    """Windows of any JPEGs, plain and seekable, are those of the whole file, and the same bytes on both paths."""
    rng, cut = random.Random(seed), 0
    for _ in range(files):
        image, options = any_picture(rng)
        file = cut_jpeg(image, **options) if rng.random() < 0.7 else jpeg(image, **options)
        payload, size = record(file, row_lengths(file), rng), (image.height, image.width)
        crop = any_crop(rng, size) if rng.random() < 0.8 else Letterbox((rng.randint(1, 50), rng.randint(1, 50)), 7)
        seeds = np.array([[rng.randrange(2**40), rng.randrange(2**40)] for _ in range(6)], np.int64)
        one, other = packer(COMPILED, crop), packer(PYTHON, crop)
        assert outcome(one, [payload] * 6, seeds) == outcome(other, [payload] * 6, seeds), (size, crop, seeds.tolist())
        batch = one([payload] * 6, seeds)
        assert check_shown(batch, [file] * 6, np.empty(6)) == 6
        cut += sum(len(part) < len(file) for part in parts(batch))
    assert cut > files


@built
def test_windows_are_those_of_the_whole_image() -> None:
    check_windows(50, 1)


@built
@pytest.mark.long
def test_ten_thousand_windows_are_those_of_the_whole_image() -> None:
    check_windows(1700, 2)


def check_damages(count: int, seed: int, *, check: bool) -> tuple[int, int]:
    """So many damaged JPEGs of each kind have the same outcome on both paths. Returns errors, and files handed on."""
    rng, errors, jpegs = random.Random(seed), 0, 0
    one, other = (packer(path, CROP, check=check) for path in (COMPILED, PYTHON))
    for kind in DAMAGES:
        for turn in range(count):
            file = damaged_jpeg(kind, rng)
            payload = record(file, rng.choice([b"", row_lengths(file)]), rng)
            seeds = np.array([[rng.randrange(2**40), turn]], np.int64)
            found = outcome(one, [payload], seeds)
            assert found == outcome(other, [payload], seeds), (kind, turn)
            errors += len(found) == 3
            jpegs += len(found) == 6 and found[4][0]
    return errors, jpegs


@built
@pytest.mark.parametrize("check", [False, True])
def test_damaged_files_have_the_same_outcome(check: bool) -> None:
    errors, jpegs = check_damages(30, 1, check=check)
    assert errors > 30
    assert jpegs > (0 if check else 30)


@built
@pytest.mark.torture
@pytest.mark.parametrize("check", [False, True])
def test_ten_thousand_damaged_files_have_the_same_outcome(check: bool) -> None:
    check_damages(1000, 2, check=check)


PICTURE = drawn(150, 210, 3)
YCBCR = jpeg(PICTURE, subsampling="4:4:4")


def with_adobe(transform: int) -> bytes:
    """The file without JFIF's segment, and with Adobe's."""
    (_, start, end), *_ = header_segments(YCBCR)
    return YCBCR[:start] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform]) + YCBCR[end:]


def by_simplejpeg(sampling: str) -> bytes:
    return simplejpeg.encode_jpeg(np.asarray(PICTURE), quality=80, colorsubsampling=sampling)


def flat(height: int, width: int) -> bytes:
    return image_bytes(Image.new("L", (width, height), 99), "JPEG")


TURNED = Image.Exif()
TURNED[0x0112] = 6  # the orientation
JPEGS = {
    "4:2:0": jpeg(PICTURE),
    "4:2:2": jpeg(PICTURE, subsampling="4:2:2"),
    "4:4:0": by_simplejpeg("440"),
    "4:4:4": YCBCR,
    "gray": jpeg(PICTURE.convert("L")),
    "gray with factors of 2": jpeg(PICTURE.convert("L"), subsampling="4:2:0"),
    "restarts": jpeg(PICTURE, restart_marker_blocks=5),
    "seekable": cut_jpeg(PICTURE),
    "Adobe's YCbCr": with_adobe(1),
    "one pixel": jpeg(drawn(1, 1, 4)),
    "turned by Exif": image_bytes(PICTURE, "JPEG", exif=TURNED.tobytes(), icc_profile=b"a profile"),
}
PIXELS = {
    "progressive": jpeg(PICTURE, progressive=True),
    "4:1:1": by_simplejpeg("411"),
    "CMYK": image_bytes(PICTURE.convert("CMYK"), "JPEG"),
    "RGB by its names": image_bytes(PICTURE, "JPEG", keep_rgb=True).replace(
        b"\xff\xee\0\x0eAdobe", b"\xff\xe5\0\x0eAdobe"
    ),
    "RGB by Adobe": with_adobe(0),
    "PNG": image_bytes(PICTURE, "PNG"),
    "GIF": image_bytes(PICTURE, "GIF"),
    "a comment behind the image data": YCBCR[:-2] + b"\xff\xfe\0\4ab\xff\xd9",
    "a marker in the image data": YCBCR[: len(YCBCR) // 2] + b"\xff\xe5\0\2" + YCBCR[len(YCBCR) // 2 :],
    "bytes behind the end": YCBCR + b"behind",
    "64 MiB of pixels": flat(4100, 5500),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("crop", [CROP, Letterbox((32, 40), 9)], ids=["crop", "letterbox"])
def test_each_kind_of_image_is_handed_on_or_decoded(path: str, crop: Crop) -> None:
    files = [*JPEGS.values(), *PIXELS.values()]
    RNG.shuffle(files)
    payloads = [record(file, row_lengths(file) if file == JPEGS["seekable"] else b"", RNG) for file in files]
    seeds = np.arange(2 * len(files)).reshape(-1, 2)
    batch, expected = packer(path, crop)(payloads, seeds), like_cuda(crop)(payloads, seeds)
    assert batch.images.is_jpeg.tolist() == [file in JPEGS.values() for file in files]
    assert check_shown(batch, files, expected.images) == len(JPEGS)
    assert (batch.views, batch.others) == (expected.views, expected.others)
    assert b"Exif" in JPEGS["turned by Exif"]
    assert not any(word in batch.images.data.tobytes() for word in (b"Exif", b"a profile"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sampling", ["4:2:0", "4:2:2"])
def test_factors_of_a_single_component_are_one(path: str, sampling: str) -> None:
    """No pixel depends on them, but nvJPEG shows others where they are larger, without an error."""
    gray = PICTURE.convert("L")
    for make, crop in ((jpeg, CROP), (cut_jpeg, RandomCrop((8, 8), RandomWindow((0.02, 0.05), (1, 1)), False))):
        files = [make(gray, subsampling=each) for each in ("4:4:4", sampling)]
        payloads = [record(file, row_lengths(file), RNG) for file in files]
        one, other = (packer(path, crop)([payload], SEEDS[:1]).images for payload in payloads)
        assert files[0] != files[1]
        assert one.is_jpeg.all()
        assert one.data.tobytes() == other.data.tobytes()
        assert (len(one.data) < len(files[0]) / 2) == (make is cut_jpeg)


@pytest.mark.parametrize("path", PATHS)
def test_a_window_of_a_large_image_that_was_cut_out_is_a_jpeg(path: str) -> None:
    large = image_bytes(Image.new("L", (5504, 4100), 99), "JPEG", restart_marker_blocks=86)
    crop = RandomCrop((64, 64), RandomWindow((0.01, 0.02), (0.75, 1.33)), False)
    batch = packer(path, crop)([record(large, row_lengths(large), RNG)], SEEDS[:1])
    assert check_shown(batch, [large], np.empty(1)) == 1
    assert batch.images.places[0, 0] < 1200


DAMAGED = {
    "cut": YCBCR[: len(YCBCR) // 2],
    "without its end": YCBCR[:-2],
    "two frames": YCBCR[:2] + b"".join(YCBCR[a:b] for m, a, b in header_segments(YCBCR) if m == 0xC0) + YCBCR[2:],
    "no image": b"\xff\xd8\xffnot one",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_an_error_that_names_the_record(kind: str, path: str) -> None:
    payloads = [record(file, b"", RNG) for file in (YCBCR, DAMAGED[kind], YCBCR)]
    with pytest.raises(UndecodableError) as found:
        packer(path, CROP)(payloads, SEEDS[:3])
    assert found.value.payload is payloads[1]


@pytest.mark.parametrize("path", PATHS)
def test_lengths_of_another_image_are_an_error_that_names_the_record(path: str) -> None:
    payloads = [record(JPEGS["seekable"], row_lengths(cut_jpeg(drawn(150, 210, 9))), RNG)]
    with pytest.raises(UndecodableError, match="image/restarts"):
        packer(path, RandomCrop((8, 8), RandomWindow((0.01, 0.1), (0.75, 1.33)), True))(payloads, SEEDS[:1])


@pytest.mark.parametrize("check", [False, True])
def test_damaged_codes_are_found_in_unchecked_jpegs(check: bool) -> None:
    """A decoder that fills in what is missing would not say so."""
    zeroed = bytearray(JPEGS["4:2:0"])
    zeroed[len(zeroed) // 2 : len(zeroed) // 2 + 400] = bytes(400)
    payloads = [record(bytes(file), b"", RNG) for file in (YCBCR, zeroed)]
    for path in (COMPILED, PYTHON):
        with path_taken(path):
            pack = Packer(CROP, Schema(FEATURES), {"jpeg"}, 1, check=check)
            found = outcome(pack, payloads, SEEDS[:2])
            expected = outcome(like_cuda(CROP), payloads, SEEDS[:2])
        if check and len(expected) == 3:
            assert found == expected
        else:
            assert found[4] == [not check or path == COMPILED, not check]


@pytest.mark.parametrize("path", PATHS)
def test_an_empty_batch(path: str) -> None:
    batch = packer(path, CROP)([], np.empty((0, 2), np.int64))
    assert (batch.views, batch.others) == ([], [])
    assert [(array.dtype, array.shape) for array in batch.images[:4]] == [
        (np.uint8, (0,)),
        (np.int64, (0,)),
        (bool, (0,)),
        (np.int32, (0, 11)),
    ]


@pytest.mark.parametrize("path", PATHS)
def test_memory_is_asked_for_once_and_no_more_than_needed(path: str) -> None:
    asked: list[tuple[int, ...]] = []
    memory = ReusedMemory()

    def allocate(shape: tuple[int, ...]) -> np.ndarray:
        asked.append(shape)
        return memory(shape)

    payloads = [record(file, b"", RNG) for file in (YCBCR, PIXELS["PNG"], JPEGS["gray"])]
    batch = packer(path, CROP, allocate=allocate)(payloads, SEEDS[:3])
    assert asked == [batch.images.data.shape] == [(len(YCBCR) + 3 * 32 * 40 + len(JPEGS["gray"]),)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    """Datasets of three images: converted with checks, without, where the last one is cut, and as pixels."""
    folder = tmp_path_factory.mktemp("stored")
    whole = [YCBCR, JPEGS["gray"], JPEGS["4:2:0"]]
    cut = [*whole[:2], DAMAGED["cut"]]
    for name, files, options in (
        ("decode", whole, {}),
        ("none", cut, {"check": "none"}),
        ("raw", whole, {"encode": "raw"}),
    ):
        source = from_dicts({"image": file, "key": str(n)} for n, file in enumerate(files))
        convert(source, folder / name, image=ImageOptions(**options), workers=here())
    return {name: shardfeed.open(folder / name)["train"] for name in ("decode", "none", "raw")}


def images_of(samples: Any, path: str) -> Batch:
    """All samples as one batch of the engine."""
    chosen, order = order_samples(samples, batch_size=len(samples), seed=0, order="global")
    records = DrawnReader(chosen, order)(order.drawn(0), None, None)
    with path_taken(path):
        return ImageMaker(chosen, CROP, threads=1, decode="cuda")(records)


@pytest.mark.parametrize("path", PATHS)
def test_batches_of_datasets(stored: dict[str, Split], path: str) -> None:
    """Codes are read unless the conversion decoded all images; without the compiled module the CPU decodes them."""
    assert images_of(stored["decode"], path).images.is_jpeg.all()
    assert not images_of(stored["raw"], path).images.is_jpeg.any()
    assert not images_of(stored["raw"], path).images.places[:, 2:4].any()
    for unknown in (stored["none"], mix([(stored["decode"], 1), (stored["none"], 1)])):
        with path_taken(path), pytest.raises(RecordError, match=r"none/train-.* \(2\): it does not decode"):
            images_of(unknown, path)
    whole = [place for place, record in enumerate(stored["none"]) if record["image/filename"] != b"2"]
    part = images_of(stored["none"].select(whole), path)
    assert part.images.is_jpeg.tolist() == [path == COMPILED] * 2

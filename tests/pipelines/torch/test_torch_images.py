"""Decoding for PyTorch: the pixels are Pillow's, whatever is left out on the way."""

import io
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch
from object_images import encoded
from PIL import Image

from shardfeed.errors import IntegrityError, MissingExtraError, UsageError
from shardfeed.pipelines.augment.view import cropped
from shardfeed.pipelines.decoding.pixels import _shortened, fit, plan_view
from shardfeed.pipelines.torch.images import (
    decode_image,
    letterbox,
    random_resized_crop,
    resize_center_crop,
    shrunk,
)
from shardfeed.pipelines.windows import Window

from pictures import image_bytes


def jpeg(mode: str = "RGB", size: tuple[int, int] = (83, 121), **options: object) -> bytes:
    """Width x height of noise that is smooth enough to be a photo."""
    rng = np.random.default_rng(5)
    small = rng.integers(0, 256, (9, 7, 3), np.uint8)
    noisy = np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)).astype(int)
    pixels = np.clip(noisy + rng.integers(-20, 20, noisy.shape), 0, 255).astype(np.uint8)
    return image_bytes(Image.fromarray(pixels).convert(mode), "JPEG", **({"quality": 88} | options))


def decode_resized(record: Any, choose: Any, target: tuple[int, int]) -> torch.Tensor:
    """The window of an image that `choose` picks, resized to `target`."""
    planned = plan_view(record, lambda height, width: cropped((height, width), choose(height, width), target))
    image = np.empty((*target, 3), np.uint8)
    fit(planned.pixels(), planned.view, image, 0, shrunk)
    return torch.from_numpy(image).permute(2, 0, 1)


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def ycck() -> bytes:
    """A JPEG whose Adobe marker says that its four colors are YCCK, as Photoshop's are."""
    data = jpeg("CMYK")
    at = data.index(b"Adobe") + 11
    return data[:at] + b"\2" + data[at + 1 :]


JPEGS = {
    "4:2:0": jpeg(subsampling=2),
    "4:2:2": jpeg(subsampling=1),
    "4:4:4": jpeg(subsampling=0),
    "gray": jpeg("L"),
    "restarts": jpeg(restart_marker_rows=1),
    "progressive": jpeg(progressive=True),
    "YCCK": ycck(),
    "narrow": jpeg(size=(1, 300)),
    "exif": jpeg(exif=Image.Exif().tobytes() or b"Exif\0\0", comment=b"\xff\xc0 and \xff\xda"),
}


@pytest.mark.parametrize("kind", JPEGS)
def test_a_window_is_cut_from_pillows_pixels(kind: str) -> None:
    data = JPEGS[kind]
    whole = pillow(data)
    height, width, _ = whole.shape
    assert (decode_image({"image/encoded": data}).permute(1, 2, 0).numpy() == whole).all()
    for bottom in range(1, height + 1):
        window = Window(max(0, bottom - 20), width // 3, min(20, bottom), max(1, width // 2))
        top, left, tall, wide = window
        found = decode_resized({"image/encoded": data}, lambda h, w, window=window: window, (tall, wide))
        assert (found.permute(1, 2, 0).numpy() == whole[top:bottom, left : left + wide]).all(), bottom


def test_rows_below_the_window_are_left_out() -> None:
    for kind, data in JPEGS.items():
        height = pillow(data).shape[0]
        short, rows = _shortened(data, height, 40)
        if kind == "progressive":  # each of its scans goes over the whole image
            assert (short, rows) == (data, height)
        else:
            assert 40 <= rows <= 48, kind
            assert short != data
            assert len(short) == len(data)
        assert _shortened(data, height, height) == (data, height)
        assert _shortened(data[:30], height, 40) == (data[:30], height)


@pytest.mark.parametrize("ratio", [2, 4, 8])
@pytest.mark.parametrize("kind", ["4:2:0", "4:4:4", "narrow", "gray"])
def test_a_large_window_is_scaled_by_the_decoder(kind: str, ratio: int) -> None:
    """The same pixels as of the whole image scaled by as much; rows left out or not."""
    data = jpeg(size=(1, 900)) if kind == "narrow" else jpeg("L" if kind == "gray" else "RGB", (400, 600))
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", (max(1, image.width // ratio), image.height // ratio))
    scaled = np.asarray(image.convert("RGB"))
    width = 1 if kind == "narrow" else 16 * ratio
    window = Window(8 * ratio, 0, 20 * ratio, width)
    found = decode_resized({"image/encoded": data}, lambda h, w: window, (20, max(1, width // ratio)))
    if kind == "narrow":  # one column of many is no factor: it is resized
        assert found.shape == (3, 20, 1)
    else:
        assert (found.permute(1, 2, 0).numpy() == scaled[8:28, : width // ratio]).all()


def test_the_crop_of_evaluation_is_pillows() -> None:
    data = jpeg(size=(300, 200))
    found = resize_center_crop(96)({"image/encoded": data}, 0)
    assert (found.shape, found.dtype) == ((3, 96, 96), torch.uint8)
    image = Image.open(io.BytesIO(data))
    # 0.875 of the middle 200 x 200; cut first, because Pillow's own box would look at its surroundings.
    expected = image.crop((62, 12, 237, 187)).resize((96, 96), Image.Resampling.BILINEAR)
    assert np.abs(found.permute(1, 2, 0).numpy().astype(int) - np.asarray(expected)).max() <= 1


def test_a_letterbox_holds_the_whole_image() -> None:
    data = jpeg(size=(90, 60), subsampling=0)
    box = pickle.loads(pickle.dumps(letterbox((64, 45), fill=7)))
    image, view = box.see({"image/encoded": data}, 0)
    assert (tuple(image.shape), view.content) == ((3, 64, 45), (17, 0, 30, 45))
    assert image.permute(1, 2, 0).is_contiguous()
    expected = Image.open(io.BytesIO(data)).resize((45, 30), Image.Resampling.BILINEAR)
    found = image.permute(1, 2, 0).numpy().astype(int)
    assert np.abs(found[17:47] - np.asarray(expected)).max() <= 20  # the decoder halves it first
    assert np.abs(found[17:47] - np.asarray(expected)).mean() < 3
    assert (found[:17] == 7).all()
    assert (found[47:] == 7).all()
    same, _ = letterbox((60, 90)).see({"image/encoded": data}, 0)
    assert torch.equal(same, decode_image({"image/encoded": data}))
    with pytest.raises(UsageError, match="fill: got 256, expected an integer from 0 to 255"):
        letterbox(32, fill=256)


def test_the_random_crop_is_a_function_of_the_seed() -> None:
    record = {"image/encoded": jpeg(size=(300, 200))}
    crop = random_resized_crop((32, 48))
    assert pickle.loads(pickle.dumps(crop)) is not crop
    images = [crop(record, seed) for seed in range(20)]
    assert all(image.shape == (3, 32, 48) and image.dtype == torch.uint8 for image in images)
    assert all(torch.equal(pickle.loads(pickle.dumps(crop))(record, seed), images[seed]) for seed in range(20))
    assert len({image.numpy().tobytes() for image in images}) == 20
    straight = random_resized_crop((32, 48), flip=False)
    same = [torch.equal(straight(record, seed), images[seed]) for seed in range(20)]
    mirrored = [torch.equal(straight(record, seed).flip(2), images[seed]) for seed in range(20)]
    assert 4 <= sum(same) <= 16
    assert [a != b for a, b in zip(same, mirrored, strict=True)] == [True] * 20


def test_other_formats() -> None:
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (11, 13, 3), np.uint8)
    sixteen = rng.integers(0, 2**16, (11, 13), np.uint16)
    rgba = rng.integers(0, 256, (11, 13, 4), np.uint8)
    cmyk = io.BytesIO()
    Image.fromarray(rgba, "CMYK").save(cmyk, "JPEG")
    raw = {"image/encoded": rgb.tobytes(), "image/format": b"raw", "image/height": 11, "image/width": 13}
    for record, expected in [
        (raw, rgb),
        ({"image/encoded": encoded(rgb)}, rgb),
        ({"image/encoded": encoded(rgb[..., 0])}, rgb[..., :1].repeat(3, 2)),
        ({"image/encoded": encoded(sixteen)}, (sixteen >> 8).astype(np.uint8)[..., None].repeat(3, 2)),
        ({"image/encoded": encoded(rgba)}, rgba[..., :3]),
        ({"image/encoded": encoded(rgb[..., 0] > 127)}, ((rgb[..., :1] > 127) * np.uint8(255)).repeat(3, 2)),
        ({"image/encoded": cmyk.getvalue()}, pillow(cmyk.getvalue())),
    ]:
        assert (decode_image(record).permute(1, 2, 0).numpy() == expected).all()
        assert resize_center_crop(7)(record, 0).shape == (3, 7, 7)


def odd_jpeg(*factors: int) -> bytes:
    """Gray, with a component for each of `factors`: 0x31 is sampled three times as often across."""
    out = io.BytesIO()
    Image.new("RGB", (96, 64), (128, 128, 128)).save(out, "JPEG", subsampling=0)
    data = bytearray(out.getvalue())
    frame, scan = data.index(b"\xff\xc0"), data.index(b"\xff\xda")
    for component, sampling in enumerate(factors):
        data[frame + 11 + 3 * component] = sampling
        data[scan + 6 + 2 * component] = 0  # the tables of brightness, in which 00 1010 is a block without change
    return bytes(data[: scan + 14]) + b"\x28\xa2\x8a" * 600 + b"\xff\xd9"


@pytest.mark.parametrize(
    "factors", [(0x31, 0x11, 0x11), (0x42, 0x11, 0x11), (0x14, 0x11, 0x11), (0x21, 0x21, 0x11), (0x22, 0x11, 0x21)]
)
def test_sampling_factors_that_have_no_name(factors: tuple[int, ...]) -> None:
    """libjpeg-turbo's interface refuses their headers; Pillow decodes them."""
    record = {"image/encoded": odd_jpeg(*factors)}
    assert (decode_image(record).permute(1, 2, 0).numpy() == pillow(record["image/encoded"])).all()
    assert (random_resized_crop(8)(record, 3) == 128).all()


@pytest.mark.parametrize(
    "record",
    [
        {"image/encoded": b""},
        {"image/encoded": b"\xff\xd8\xff and no more"},
        {"image/encoded": jpeg()[:300]},
        {"image/encoded": jpeg()[:-200]},
        {"image/encoded": encoded(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8))[:-900]},
        {"image/encoded": b"123", "image/format": b"raw", "image/height": 2, "image/width": 2},
    ],
)
def test_undecodable_images_are_integrity_errors(record: dict[str, object]) -> None:
    with pytest.raises(IntegrityError, match="does not decode"):
        random_resized_crop(8)(record, 3)


def test_without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert random_resized_crop(8).antialias
    with pytest.raises(MissingExtraError, match=r"antialias=False: OpenCV cannot be imported; pip install opencv"):
        letterbox(8, antialias=False)

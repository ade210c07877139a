"""Which choices about images are understood, and that no two of them look alike in a fingerprint."""

import dataclasses

import pytest

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.errors import UsageError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("check", "all"),
        ("check", None),
        ("encode", "jpeg"),
        ("encode", None),
        ("resize_shorter", 0),
        ("resize_shorter", 65_536),
        ("resize_shorter", 2.5),
        ("size", 0),
        ("size", True),
        ("size", (256,)),
        ("size", (256,) * 3),
        ("size", ()),
        ("size", (0, 256)),
        ("size", (256, 65_536)),
        ("size", (256, 2.5)),
        ("size", "256"),
        ("size", (60_000, 60_000)),
        ("size", 60_000),
        ("resize_filter", "area"),
        ("quality", 0),
        ("quality", 101),
        ("quality", True),
        ("quality", "92"),
        ("baseline", 1),
        ("png_to_jpeg", 1),
        ("seekable", "no"),
        ("seekable", 0),
        ("sha256", "no"),
        ("sha256", None),
        ("background", "nocolor"),
        ("background", "#12345"),
        ("background", "#11223344"),
        ("background", "1,2"),
        ("background", "1,2,256"),
        ("background", "1,2,x"),
        ("background", ""),
        ("background", (1, 2, 3.0)),
        ("background", (1, 2)),
        ("background", None),
        ("bits", 8),
        ("bits", 17),
        ("bits", 12.0),
        ("max_pixels", 0),
        ("max_pixels", MAX_PIXELS + 1),
        ("max_pixels", None),
        ("max_bytes", 0),
        ("max_bytes", 2**31),
    ],
)
def test_options_out_of_range(name: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        ImageOptions(**{name: value})  # type: ignore[arg-type]
    assert caught.value.place == name


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"encode": "raw", "quality": 90}, "quality"),
        ({"encode": "raw", "baseline": True}, "baseline"),
        ({"encode": "raw", "png_to_jpeg": True}, "png_to_jpeg"),
        ({"size": 256, "resize_shorter": 256}, "size"),
        ({"keep_depth": True, "encode": "raw"}, "keep_depth"),
        ({"keep_depth": True, "png_to_jpeg": True}, "keep_depth"),
        ({"keep_depth": True, "bits": 12}, "keep_depth"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, object], place: str) -> None:
    with pytest.raises(UsageError) as caught:
        ImageOptions(**options)  # type: ignore[arg-type]
    assert caught.value.place == place


def test_every_option_is_in_the_fingerprint() -> None:
    pytest.importorskip("turbojpeg", reason="no wheel for this Python or machine")
    fields = {field.name for field in dataclasses.fields(ImageOptions)}
    assert set(ImageOptions().to_json()) == fields - {"resize_filter", "bits", "keep_depth"}, (
        "datasets made before them have none"
    )
    other = {"check": "none", "encode": "raw", "resize_shorter": 9, "quality": 9, "max_pixels": 9, "max_bytes": 9}
    other |= {
        "resize_filter": "hamming",
        "baseline": True,
        "seekable": True,
        "size": (9, 8),
        "png_to_jpeg": True,
        "background": (9, 8, 7),
        "bits": 12,
        "keep_depth": True,
        "sha256": False,
    }
    for name in fields:
        changed = ImageOptions(**{name: other[name]}).to_json()  # type: ignore[arg-type]
        assert changed[name] == (list(other[name]) if isinstance(other[name], tuple) else other[name])  # type: ignore[call-overload]


def test_one_number_is_a_square() -> None:
    assert ImageOptions().shape is None
    assert ImageOptions(size=(3, 4)).shape == (3, 4)
    assert ImageOptions(size=7).shape == (7, 7)
    assert ImageOptions(size=7).to_json() == ImageOptions(size=(7, 7)).to_json()


@pytest.mark.parametrize(
    ("written", "rgb"),
    [
        ("white", (255, 255, 255)),
        ("Gray", (128, 128, 128)),
        (" #0a0B0c ", (10, 11, 12)),
        ("#fff", (255, 255, 255)),
        ("1,2, 3", (1, 2, 3)),
        ((0, 128, 255), (0, 128, 255)),
    ],
)
def test_a_color_however_it_is_written(written: str | tuple[int, int, int], rgb: tuple[int, int, int]) -> None:
    assert ImageOptions(background=written).background_rgb == rgb
    assert ImageOptions(background=written).to_json() == ImageOptions(background=rgb).to_json()

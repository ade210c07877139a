"""Which choices about images are understood, and that no two of them look alike in a fingerprint."""

import dataclasses

import pytest

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.limits import MAX_PIXELS
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
        ("size", (256,) * 3),
        ("size", ()),
        ("size", (0, 256)),
        ("size", (256, 65_536)),
        ("size", (256, 2.5)),
        ("size", [256, 256]),
        ("size", "256"),
        ("size", (60_000, 60_000)),
        ("size", 60_000),
        ("quality", 0),
        ("quality", 101),
        ("quality", True),
        ("quality", "92"),
        ("baseline", 1),
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
        ({"size": 256, "resize_shorter": 256}, "size"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, object], place: str) -> None:
    with pytest.raises(UsageError) as caught:
        ImageOptions(**options)  # type: ignore[arg-type]
    assert caught.value.place == place


def test_every_option_is_in_the_fingerprint() -> None:
    pytest.importorskip("turbojpeg", reason="no wheel for this Python or machine")
    fields = {field.name for field in dataclasses.fields(ImageOptions)}
    assert set(ImageOptions().to_json()) == fields
    other = {"check": "none", "encode": "raw", "resize_shorter": 9, "quality": 9, "max_pixels": 9, "max_bytes": 9}
    other |= {"baseline": True, "size": (9, 8)}
    for name in fields:
        changed = ImageOptions(**{name: other[name]}).to_json()  # type: ignore[arg-type]
        assert changed[name] == (list(other[name]) if name == "size" else other[name])  # type: ignore[call-overload]


def test_one_number_is_a_square() -> None:
    assert ImageOptions().shape is None
    assert ImageOptions(size=(3, 4)).shape == (3, 4)
    assert ImageOptions(size=7).shape == (7, 7)
    assert ImageOptions(size=7).to_json() == ImageOptions(size=(7, 7)).to_json()

"""LabelMe's files, of which each may hold its image."""

import base64
import json
import tracemalloc
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import AnnotationOptions, convert, open_source
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import LabelFileError
from shardfeed.schema import TEXT

from pictures import image_bytes

FILES, PADDING = 300, 100_000  # padding: bytes of the image's text, beyond what tells a file's kind


def write(folder: Path, *, beside: bool) -> None:
    """Files with a box each and with their images inside; `beside`: the images lie there, too."""
    folder.mkdir()
    data = image_bytes(Image.new("RGB", (50, 40)), "PNG")
    held = base64.b64encode(data + bytes(PADDING)).decode()
    shape = {"label": "cat", "points": [[1, 2], [30, 20]], "shape_type": "rectangle"}
    for number in range(FILES):
        document = {"shapes": [shape], "imagePath": f"{number:03}.png", "imageData": held}
        (folder / f"{number:03}.json").write_text(json.dumps(document))
        if beside:
            (folder / f"{number:03}.png").write_bytes(data)


@pytest.mark.parametrize("beside", [True, False])
def test_one_file_is_in_memory_at_a_time(tmp_path: Path, *, beside: bool) -> None:
    write(tmp_path / "saved", beside=beside)
    open_source(tmp_path / "saved")  # what is imported takes memory once
    tracemalloc.start()
    source = open_source(tmp_path / "saved")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(source) == FILES
    assert peak < FILES * PADDING / 1.5, "of the heads of 200 files and of one whole file"
    convert(source, tmp_path / "out", workers=1)
    assert len(shardfeed.open(tmp_path / "out")["train"]) == FILES


def saved(folder: Path, name: str, path: str, **more: object) -> None:
    """A file of LabelMe with a box, and the image beside it."""
    folder.mkdir(exist_ok=True)
    shape = {"label": "cat", "points": [[1, 2], [30, 20]], "shape_type": "rectangle"}
    document = {"version": "5.4.1", "flags": {}, "shapes": [shape], "imagePath": path, "imageData": None, **more}
    (folder / f"{name}.json").write_text(json.dumps(document))


def pictures(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        Image.new("RGB", (50, 40), (number, 0, 0)).save(folder / name)


@pytest.mark.parametrize("apart", [True, False])
def test_an_image_renamed_with_its_file_is_found_by_the_name_of_the_file(tmp_path: Path, *, apart: bool) -> None:
    pictures(tmp_path / "photos", "demo.png", "b.png", "c.jpg")
    folder = tmp_path / ("json" if apart else "photos")
    for name, path in (("demo", "Hello.png"), ("b", "..\\photos\\b.png"), ("c", "c.png")):
        saved(folder, name, path)
    source = open_source(folder, options=AnnotationOptions(images=tmp_path / "photos") if apart else None)
    found = [(sample.key, len(sample.objects or ())) for sample in source]
    assert found == [(b"b.png", 1), (b"c.jpg", 1), (b"demo.png", 1)]
    note = "JSON files whose image has their name, and not that of imagePath: 2"
    assert any(one.startswith(note) for one in info_of(source).findings.notes)


def test_a_file_whose_image_path_names_another_image_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path / "photos", "a.png", "b.png")
    saved(tmp_path / "photos", "a", "b.png")
    with pytest.raises(LabelFileError, match=r"a\.json: its imagePath is 'b.png', but 'a.png' has its name, and both"):
        open_source(tmp_path / "photos")


@pytest.mark.parametrize(
    ("flags", "classes"),
    [
        ([{"cat": True, "dog": False}, {"cat": False, "dog": True}], [b"cat", b"dog"]),
        ([{"cat": True, "dog": True}, {"cat": False, "dog": False}], [[b"cat", b"dog"], []]),
        ([{"cat": True}, {}], [[b"cat"], []]),
        ([{"cat": False}, {"cat": False}], [None, None]),
    ],
)
@pytest.mark.parametrize("boxes", [True, False])
def test_flags_of_images_that_are_set_are_classes(
    tmp_path: Path, flags: list[dict[str, bool]], classes: list[object], *, boxes: bool
) -> None:
    pictures(tmp_path / "photos", "a.png", "b.png")
    for name, one in zip("ab", flags, strict=True):
        saved(tmp_path / "photos", name, f"{name}.png", flags=one, **({} if boxes else {"shapes": []}))
    source = open_source(tmp_path / "photos")
    assert [sample.features.get(TEXT) for sample in source] == classes
    assert [len(sample.objects or ()) for sample in source] == [int(boxes)] * 2

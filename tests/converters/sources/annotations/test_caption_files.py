"""Captions in text files with the names of images; texts that are none are not taken for them."""

from pathlib import Path
from typing import Any

import pytest
from object_images import draw, put

from shardfeed.annotations import CAPTION
from shardfeed.converters import convert, open_source
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import BY_NAME
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError


def captions(source: Source) -> dict[str, list[str]]:
    found: dict[str, Any] = {sample.key.decode(): sample.features[CAPTION] for sample in source}
    return {key: [text.decode() for text in texts] for key, texts in found.items()}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four images, `a.png` to `d.png`, each with a text."""
    root = draw(tmp_path / "photos")
    for name in "abcd":
        put(root / f"{name}.txt", f"\ufeffa dog, or the letter {name}\n\nanother line\n")
    return root


def test_each_line_is_a_caption(photos: Path) -> None:
    put(photos / "README.txt", "Letters.")
    source = open_source(photos)
    assert captions(source)["a.png"] == ["a dog, or the letter a", "another line"]
    assert len(source) == 4


def test_texts_without_an_image_and_empty_ones_are_listed(photos: Path, tmp_path: Path) -> None:
    put(photos / "gone.txt", "nobody here at all")
    put(photos / "a.txt", " \n")
    put(photos / "b.txt", b"\xff\xfe\xff")
    put(photos / "b.json", "{}")
    (photos / "c.txt").unlink()
    report = convert(open_source(photos), tmp_path / "out", workers=1, max_bad={"images": 1, "objects": 3})
    assert [(one.key, one.what) for one in report.rejected] == [(b"gone", "E_MISSING")]
    assert {(one.key, one.code) for one in report.account.left_out} == {
        (b"a.png", "E_LINE"),
        (b"b.png", "E_LINE"),
        (b"gone", "E_IMAGE"),
    }
    assert "image files without a caption: 1 (c.png)" in report.notes
    assert "files that are neither images nor their captions, not read: 1 (b.json)" in report.notes


def test_texts_elsewhere_are_found_by_name(photos: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for path in photos.glob("*.txt"):
        path.rename(texts / path.name)
    assert captions(open_source(texts, options=AnnotationOptions(images=photos)))["d.png"][1] == "another line"


@pytest.mark.parametrize(
    "text",
    [
        "0 0.5 0.5 0.1 0.1",
        "cat",
        "Car 0.0 0 -1.6 387.6 181.5 423.8 203.1 1.7 1.9 3.7 -16 2.4 58.5 -1.6",
        '{"label": 1}',
    ],
)
def test_texts_that_are_no_captions_are_not_taken_for_them(text: str, tmp_path: Path) -> None:
    root = draw(tmp_path / "photos")
    for name in "abcd":
        put(root / f"{name}.txt", text)
    assert BY_NAME["caption-files"].recognise(Look(str(root)), {}) is None


def test_a_few_texts_beside_many_images_are_notes(photos: Path) -> None:
    for name in "bcd":
        (photos / f"{name}.txt").unlink()
    assert BY_NAME["caption-files"].recognise(Look(str(photos)), {}) is None


def test_class_folders_with_captions_are_asked_about(photos: Path) -> None:
    for number, path in enumerate(sorted(photos.iterdir())):
        put(photos / f"{'cat' if number < 4 else 'dog'}/{path.name}", path.read_bytes())
        path.unlink()
    with pytest.raises(UsageError, match="choose one: reader='folder', or reader='caption-files'"):
        open_source(photos)
    assert len(captions(open_source(photos, reader="caption-files"))) == 4


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.txt or \.caption file in it"):
        open_source(draw(tmp_path / "photos"), reader="caption-files")

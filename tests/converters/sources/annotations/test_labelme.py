"""LabelMe's files, of which each may hold its image."""

import base64
import json
import tracemalloc
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import convert, open_source

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

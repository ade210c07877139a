"""`shardfeed.report`: the page of the command, shown by a notebook in a frame that nothing leaves or enters."""

import csv
import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, LabelFile, convert
from shardfeed.errors import UsageError
from shardfeed.readers import Dataset
from shardfeed.text import size_text
from shardfeed.tools.cli import main
from shardfeed.tools.report.pictures import _left_out

from damaged_jpegs import warned_then_fatal
from pictures import image_bytes
from poisoned_memory import same_under_poisons
from report_page import ReportPage

HOSTILE = "\"'><script>alert(1)<iframe>"
COPY = f"train/b{HOSTILE}/copy.png"
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, sys.argv[1:])])
NotebookClient(notebook, timeout=600).execute()
print(nbformat.writes(notebook))
"""


class Fragment(HTMLParser):
    """The tags of an output cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def framed(html: str) -> ReportPage:
    """The page within the one frame that an output is."""
    ((tag, attributes),) = Fragment(html).tags
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts", "without the origin of the notebook"
    return ReportPage(attributes["srcdoc"] or "")


@pytest.fixture
def leaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset with one picture in two splits; its classes are called like markup."""
    monkeypatch.chdir(tmp_path)
    for i in range(12):
        path = tmp_path / "images" / ("train", "test")[i % 2] / f"{'ab'[i // 2 % 2]}{HOSTILE}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.radial_gradient("L").rotate(15 * i).resize((40, 30 + i)).save(path)
    shutil.copy(path, tmp_path / "images" / COPY)
    convert(ImageFolder(tmp_path / "images"), "set")
    return tmp_path


@pytest.mark.long
def test_a_notebook_shows_the_page(leaking: Path) -> None:
    cells = ("import shardfeed\nfound = shardfeed.report('set')\nfound", "found.save('page.html')\nfound")
    # In a process of its own: Jupyter's packages stay, and conversions of other tests would show bars.
    done = subprocess.run([sys.executable, "-c", EXECUTE, *cells], capture_output=True, text=True, check=True)
    outputs = [output for cell in json.loads(done.stdout)["cells"] for output in cell["outputs"]]
    shown = [output["data"] for output in outputs if output["output_type"] == "execute_result"]
    before, after = (framed("".join(data["text/html"])) for data in shown)
    assert "DatasetReport(set: 13 images" in "".join(shown[0]["text/plain"])
    assert before.pictures == after.pictures == ReportPage((leaking / "page.html").read_text()).pictures
    for page in (before, after):
        assert "1 image is equal byte for byte to one in a later split" in page.text
        assert HOSTILE in page.text
    assert "report_files/equal-across-splits.txt" in before.text
    assert "page_files/equal-across-splits.txt" in after.text
    listed = (leaking / "page_files" / "equal-across-splits.txt").read_text()
    assert listed == f"{COPY}\n"


def test_the_command_writes_the_same_page(leaking: Path) -> None:
    found = shardfeed.report("set")
    assert found.save("page.html") == len((leaking / "page.html").read_bytes())
    by_call = (leaking / "page.html").read_bytes()
    assert main(["report", "set", "-o", "page.html", "--quiet"]) == 0
    assert (leaking / "page.html").read_bytes() == by_call
    assert found.findings[0]["code"] == "equal-across-splits"
    assert found.findings == found.to_json()["findings"]
    assert str(found).startswith("set: 13 images in 2 splits")


def test_two_datasets(leaking: Path) -> None:
    shardfeed.remove("set", "newer", [COPY])
    found = shardfeed.report(shardfeed.open("set"), Path("newer"), keep="kept")
    assert len(list((leaking / "kept").iterdir())) == 2
    assert [difference["title"] for difference in found.findings] == ["1 image removed"]
    assert found.findings[0]["table"]["rows"][0][0] == COPY
    assert "1 difference" in repr(found)
    assert "1 image removed" in framed(found._repr_html_()).text
    found.save()
    assert ReportPage((leaking / "report.html").read_text()).pictures == 1
    assert not (leaking / "report_files").exists(), "there are no lists"


def test_what_is_measured_is_told(flowers: Dataset) -> None:
    told: list[int] = []
    shardfeed.report(flowers, progress=told.append)
    assert sum(told) == sum(map(len, flowers.values()))


def test_a_page_must_be_called_one(flowers: Dataset, tmp_path: Path) -> None:
    found = shardfeed.report(flowers)
    for output in ("page.png", tmp_path / "none" / "page.html"):
        with pytest.raises(UsageError, match="output: "):
            found.save(output)


def test_inputs_that_were_left_out_have_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images = tmp_path / "images"
    images.mkdir()
    photo = image_bytes(Image.radial_gradient("L").resize((320, 200)), "JPEG")
    small = Image.radial_gradient("L").resize((30, 20)).rotate(10)
    files = {
        "good.jpg": photo,
        "odd.png": image_bytes(small.convert("I;16"), "PNG"),
        f"{HOSTILE}.jpg": photo[: len(photo) // 2],
        "text.jpg": b"no image",
        "two.gif": image_bytes(small, "GIF", save_all=True, append_images=[small.rotate(90)]),
    }
    for name, data in files.items():
        (images / name).write_bytes(data)
    (tmp_path / "secret.png").write_bytes(files["odd.png"])
    (images / "link.jpg").symlink_to(tmp_path / "secret.png")
    names = [*files, "gone.jpg", "../secret.png", "link.jpg"]
    with open("labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["image", "label"], *([name, "a"] for name in names)])
    convert(LabelFile("labels.csv", images), "set", max_bad=9)
    without = shardfeed.report("set")
    without.save("without.html")
    page = ReportPage(Path("without.html").read_text())
    assert "--source DIR" in page.text
    assert "Stored with other bytes, 16-bit" in page.text
    tables = [
        report.to_json()["sections"]["How it was made"] for report in (without, shardfeed.report("set", source=images))
    ]
    assert tables[0][1:] == tables[1][1:]
    assert main(["report", "set", "-o", "with.html", "--source", str(images), "--quiet"]) == 0
    seen = ReportPage(Path("with.html").read_text())
    assert "--source DIR" not in seen.text
    assert seen.pictures == page.pictures + 2, "the half of a photo, and a frame"
    for told in ("E_TRUNCATED", "E_NOT_IMAGE", "E_ANIMATED", "E_MISSING", "E_PATH_ESCAPE"):
        assert f"Inputs left out, {told}: " in seen.text, told
    assert f"E_TRUNCATED, {size_text(len(photo) // 2)}, 320x200" in seen.text
    assert "does not decode" in seen.text
    assert seen.text.count("outside of the folder") == 2
    assert "not in the folder" in seen.text
    for arguments in ({"source": tmp_path / "none"}, {"source": images, "newer": "set"}):
        with pytest.raises(UsageError, match="source: "):
            shardfeed.report("set", **arguments)


def test_a_picture_of_a_damaged_input_has_nothing_of_other_inputs(tmp_path: Path) -> None:
    photo = Image.radial_gradient("L").resize((320, 200)).convert("RGB")
    (tmp_path / "photo.jpg").write_bytes(warned_then_fatal(image_bytes(photo, "JPEG")))
    made = same_under_poisons(lambda _: _left_out(str(tmp_path), "E_CORRUPT", b"photo.jpg"))
    assert "320x200" in str(made)


def test_what_would_harm_is_not_decoded(tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    for name in ("small", "large"):
        side = {"small": 8, "large": 40}[name]
        Image.radial_gradient("L").resize((side, side)).save(tmp_path / "images" / "a" / f"{name}.png")
    options = ImageOptions(max_pixels=1_000)
    convert(ImageFolder(tmp_path / "images"), tmp_path / "set", image=options, max_bad=1)
    shardfeed.report(tmp_path / "set", source=tmp_path / "images").save(tmp_path / "page.html")
    assert "not decoded" in ReportPage((tmp_path / "page.html").read_text()).text

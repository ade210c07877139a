"""The samples in the repository are those the script draws, and are what their README says."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from shardfeed.converters.sources.image_folder import FileNames, ImageFolder
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.tools.cli import main as shardfeed
from shardfeed.tools.shapes import IMAGES_PER_CLASS, SHAPES, draw_shape

from draw_samples import LABELLED_PER_CLASS, make_samples
from repository import ROOT

STORED = ROOT / "data_samples"
BROKEN = {"odd/square/cut.jpg", "odd/triangle/text.jpg"}
MAX_BYTES_ON_DISK = 2_000_000


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def is_image(name: str) -> bool:
    return name.endswith((".jpg", ".png", ".gif")) and name not in BROKEN


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.int16)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("samples")
    make_samples(directory)
    return directory


def test_the_script_gives_the_stored_names(drawn: Path) -> None:
    assert names(drawn) == {name for name in names(STORED) if name != "README.md" and not name.startswith("draw/")}


def test_the_script_gives_the_stored_pixels(drawn: Path) -> None:
    # Codecs may differ by a few levels; another drawing differs by tens.
    for name in filter(is_image, names(drawn)):
        if "masks/" in name or "Segmentation" in name:  # PNGs of classes
            with Image.open(drawn / name) as ours, Image.open(STORED / name) as theirs:
                assert np.array_equal(np.asarray(ours), np.asarray(theirs)), name
        difference = np.abs(pixels(drawn / name) - pixels(STORED / name))
        assert difference.mean() < 1.5, name
        assert difference.max() < 30, name


def test_the_script_gives_the_stored_texts(drawn: Path) -> None:
    texts = {name for name in names(drawn) if not name.endswith((".jpg", ".png", ".gif"))} | {"odd/triangle/text.jpg"}
    assert len([name for name in texts if not name.startswith("scenes/")]) == 6
    for name in texts:
        assert (drawn / name).read_bytes() == (STORED / name).read_bytes(), name


def test_the_same_number_draws_the_same_shape_and_another_one_another() -> None:
    first = draw_shape("circle", 5)
    assert first.tobytes() == draw_shape("circle", 5).tobytes()
    assert first.tobytes() != draw_shape("circle", 6).tobytes()


def test_it_is_small() -> None:
    sizes = [path.lstat().st_blocks * 512 for path in [STORED, *STORED.rglob("*")]]
    assert sum(sizes) < MAX_BYTES_ON_DISK


def test_shapes_is_a_balanced_image_folder() -> None:
    source = ImageFolder(STORED / "shapes")
    labels = [source[i].features["image/class/label"] for i in range(len(source))]
    assert source.schema.class_names["image/class/label"] == SHAPES
    assert np.bincount(labels).tolist() == [IMAGES_PER_CLASS] * len(SHAPES)
    assert not source.findings.rejected


def test_colour_and_brightness_do_not_tell_the_class() -> None:
    colours, labels = [], []
    for label, shape in enumerate(SHAPES):
        for path in sorted((STORED / "shapes" / shape).iterdir()):
            colours.append(pixels(path).mean(axis=(0, 1)))
            labels.append(label)
    distance = np.linalg.norm(np.array(colours)[:, None] - np.array(colours), axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.array(labels)[distance.argmin(axis=1)]
    assert (nearest == np.array(labels)).mean() < 0.5  # a third by chance


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.jsonl"])
def test_tables_name_path_label_and_split(name: str) -> None:
    source = LabelFile(STORED / "labels" / name, root=STORED / "shapes")
    samples = [source[i] for i in range(len(source))]
    assert len(samples) == LABELLED_PER_CLASS * len(SHAPES)
    assert [s.features["image/class/text"] for s in samples] == [s.key.partition(b"/")[0] for s in samples]
    assert {s.split for s in samples} == {"train", "validation"}


def test_the_text_file_gives_numbers_of_the_class_list() -> None:
    labels = STORED / "labels"
    source = LabelFile(labels / "train.txt", root=STORED / "shapes", class_names=str(labels / "classes.txt"))
    samples = [source[i] for i in range(len(source))]
    assert len(samples) == LABELLED_PER_CLASS * len(SHAPES)
    assert [s.features["image/class/text"] for s in samples] == [s.key.partition(b"/")[0] for s in samples]


def test_flat_names_tell_the_class() -> None:
    source = FileNames(STORED / "flat")
    assert source.schema.class_names["image/class/label"] == SHAPES
    assert len(source) == 4 * len(SHAPES)


def test_odd_files_are_what_they_are_called() -> None:
    def mode(name: str) -> tuple[str | None, str]:
        with Image.open(STORED / "odd" / name) as image:
            return image.format, image.mode

    assert mode("circle/rgb.png") == ("PNG", "RGB")
    assert mode("circle/gray.jpg") == ("JPEG", "L")
    assert mode("square/cmyk.jpg") == ("JPEG", "CMYK")
    assert mode("square/palette.gif") == ("GIF", "P")
    with Image.open(STORED / "odd/triangle/turned by EXIF.jpg") as image:
        upright = np.asarray(ImageOps.exif_transpose(image), np.int16)
    shape = np.asarray(draw_shape("triangle", IMAGES_PER_CLASS + 1), np.int16)
    assert np.abs(upright - shape).mean() < 8


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_files_do_not_decode(name: str) -> None:
    with pytest.raises(OSError), Image.open(STORED / name) as image:  # opening or loading: either may fail
        image.load()


def test_odd_converts_with_two_bad_files_and_not_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert", str(STORED / "odd"), str(tmp_path / "odd"), "--workers", "1"]
    assert shardfeed([*arguments, "--max-bad", "1"]) == 3
    assert shardfeed([*arguments, "--max-bad", "2"]) == 0
    printed = capsys.readouterr().out
    assert "cut.jpg: E_TRUNCATED" in printed
    assert "text.jpg: E_NOT_IMAGE" in printed

"""`shardfeed preview`: every row shows its own class, and reading stays within bounds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageOptions, convert
from shardfeed.converters.sources.source import Sample
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL, TEXT, Feature, Schema
from shardfeed.tools.cli import main
from shardfeed.tools.commands import preview_command
from shardfeed.tools.commands.preview_command import contact_sheet

from pictures import image_bytes

RED = (209, 36, 47)  # of the cross


def colour_of(label: int) -> tuple[int, int, int]:
    return (label * 4 % 256, 255 - label * 4 % 256, 77)


def png(label: int) -> bytes:
    return image_bytes(Image.new("RGB", (8, 8), colour_of(label)), "PNG")


class Plain:
    """Images of one colour each, the colour saying the label; `shift` lies about it."""

    def __init__(self, labels: Sequence[int], names: Sequence[str], shift: int = 0) -> None:
        self.labels, self.names, self.shift = labels, tuple(names), shift

    @property
    def schema(self) -> Schema:
        features = {LABEL: Feature("int64"), TEXT: Feature("bytes")}
        return Schema(features, {LABEL: self.names}) if self.names else Schema({})

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        label = self.labels[index]
        said = (label + self.shift) % max(1, len(self.names))
        image = png(label) if label >= 0 else png(0).replace(b"IDATx", b"IDAT?")  # not zlib's first byte
        features = {LABEL: max(0, said), TEXT: self.names[max(0, said)].encode()} if self.names else {}
        return Sample(b"%d.png" % index, image, features)


def dataset(path: Path, labels: Sequence[int], names: Sequence[str], shift: int = 0, check: str = "decode") -> Split:
    image = ImageOptions(check=check)  # type: ignore[arg-type]  # a literal in the tests below
    convert(Plain(labels, names, shift), path, workers=1, image=image)
    return shardfeed.open(path)["train"]


def bands(sheet: Image.Image, labels: Sequence[int]) -> list[int]:
    """The labels' colours from top to bottom as the sheet shows them."""
    pixels = np.asarray(sheet).astype(np.int32) @ [1 << 16, 1 << 8, 1]
    tops = {}
    for label in labels:
        red, green, blue = colour_of(label)
        rows = np.flatnonzero((pixels == (red << 16) + (green << 8) + blue).sum(axis=1) > 50)
        if len(rows):
            tops[label] = int(rows[0])
    return sorted(tops, key=lambda label: tops[label])


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("three") / "three"
    dataset(path, [0, 1, 2] * 12, ["cat", "dog", "2"])
    return path


def test_each_row_shows_its_class(three: Path) -> None:
    assert bands(contact_sheet(shardfeed.open(three)["train"]), range(3)) == [0, 1, 2]


def test_labels_shifted_by_one_are_seen(tmp_path: Path) -> None:
    split = dataset(tmp_path / "shifted", [0, 1, 2] * 4, ["cat", "dog", "2"], shift=1)
    assert bands(contact_sheet(split), range(3)) == [2, 0, 1]


def test_seed_chooses_pictures(tmp_path: Path) -> None:
    split = dataset(tmp_path / "grid", list(range(60)), [])
    sheets = [contact_sheet(split, columns=2, seed=seed).tobytes() for seed in (3, 3, 4)]
    assert sheets[0] == sheets[1] != sheets[2]


def test_without_classes_it_is_a_grid(tmp_path: Path) -> None:
    split = dataset(tmp_path / "grid", list(range(10)), [])
    assert sorted(bands(contact_sheet(split, columns=4), range(10))) == list(range(10))


def test_more_than_fifty_classes_are_cut_and_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split = dataset(tmp_path / "many", list(range(60)), [f"class{i}" for i in range(60)])
    assert bands(contact_sheet(split, columns=2), range(60)) == list(range(50))
    assert main(["preview", str(tmp_path / "many"), "-o", str(tmp_path / "s.png"), "--columns", "2"]) == 0
    assert "the first 50 of 60 classes" in capsys.readouterr().out
    with Image.open(tmp_path / "s.png") as whole:
        assert main(["preview", str(tmp_path / "many"), "-o", str(tmp_path / "t.png"), "--classes", "class58,7"]) == 0
        assert "(2 of 60 classes" in capsys.readouterr().out
        with Image.open(tmp_path / "t.png") as chosen:
            assert chosen.height < whole.height / 10
            assert bands(chosen, range(60)) == [58, 7]


@pytest.mark.promise(33)
def test_a_damaged_image_is_a_cross_and_the_others_are_shown(tmp_path: Path) -> None:
    split = dataset(tmp_path / "damaged", [0, 0, -1, 1], ["cat", "dog"], check="none")
    sheet = contact_sheet(split)
    assert (np.asarray(sheet) == RED).all(axis=2).sum() > 300
    assert bands(sheet, range(2)) == [0, 1]


def test_reading_stops_when_rows_are_full_and_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = dataset(tmp_path / "rare", [0] * 99 + [1], ["usual", "rare"])
    read: list[int] = []
    one = Split.__getitem__
    monkeypatch.setattr(Split, "__getitem__", lambda self, index: read.append(index) or one(self, index))
    contact_sheet(split, columns=5, labels=[0])
    assert len(read) <= 6
    read.clear()
    monkeypatch.setattr(preview_command, "RECORDS_READ", 20)
    sheet = contact_sheet(split, columns=50, seed=1)
    assert len(read) == len(set(read)) == 20
    assert bands(sheet, range(2)) == [0]


def test_more_columns_than_memory_has_room_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset(tmp_path / "few", [0, 1], ["cat", "dog"])
    for columns in ("9" * 60, "501"):
        assert main(["preview", str(tmp_path / "few"), "-o", str(tmp_path / "s.png"), "--columns", columns]) == 2
        assert "--columns" in capsys.readouterr().err


def test_an_empty_class_has_an_empty_row(tmp_path: Path) -> None:
    split = dataset(tmp_path / "empty", [0, 2], ["a", "b", "c"])
    sheet = contact_sheet(split)
    assert bands(sheet, range(3)) == [0, 2]
    assert sheet.height == contact_sheet(split, labels=[0, 0, 0]).height


def test_a_slice_can_be_shown(three: Path) -> None:
    split = shardfeed.open(three)["train"]
    label = split[0][LABEL]
    assert isinstance(label, int)
    assert bands(contact_sheet(split[:1]), range(3)) == [label]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-o", "sheet.txt"], 2, ".png"),
        (["--classes", "cow"], 2, "cat, dog, 2"),
        (["--classes", "3"], 2, "cat, dog, 2"),
        (["--split", "test"], 2, "'train'"),
        (["--columns", "0"], 2, "columns"),
        (["-o", "missing/sheet.png"], 2, "no directory 'missing'; create it first"),
    ],
)
def test_what_cannot_be_meant_is_said(
    three: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["preview", str(three), *arguments]) == code
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_class_called_by_a_number_is_found_by_name_first(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["preview", str(three), "--classes", "2,0"]) == 0
    with Image.open("sheet.png") as sheet:
        assert bands(sheet, range(3)) == [2, 0]


@pytest.mark.parametrize("name", ["sheet.jpg", "sheet.WEBP"])
def test_the_name_says_the_format(three: Path, tmp_path: Path, name: str) -> None:
    assert main(["preview", str(three), "-o", str(tmp_path / name)]) == 0
    with Image.open(tmp_path / name) as sheet:
        assert sheet.format in ("JPEG", "WEBP")
        assert sheet.format.lower()[:2] == name.rpartition(".")[2].lower()[:2]


def test_a_damaged_record_ends_it_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset(tmp_path / "d", [0, 1], ["a", "b"])
    shard = tmp_path / "d" / "train-00000-of-00001.tfrecord"
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    assert main(["preview", str(tmp_path / "d"), "-o", str(tmp_path / "s.png")]) == 4
    assert "record 0, offset 0" in capsys.readouterr().err


def test_raw_pixels_are_shown(tmp_path: Path) -> None:
    labels = [0, 1, 2] * 4
    convert(Plain(labels, ["a", "b", "c"]), tmp_path / "raw", workers=1, image=ImageOptions(encode="raw"))
    split = shardfeed.open(tmp_path / "raw")["train"]
    assert split.formats == {"raw": 12}
    assert bands(contact_sheet(split, columns=4), range(3)) == [0, 1, 2]

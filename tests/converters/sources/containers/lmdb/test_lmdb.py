"""LMDB databases, written by lmdb in the ways of the tools that are named."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from PIL import Image
from sources import reader

from shardfeed.converters import ColumnOptions, convert, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.rare import lmdb as database
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.schema import LABEL
from shardfeed.testing.source import SourceContract

from in_process import OwnEngine
from pictures import image_bytes

PLAIN = ColumnOptions()


recognise, read = reader("lmdb")


COUNT = 12
PIXELS = np.random.default_rng(5).integers(0, 256, (COUNT, 9, 7, 3), np.uint8)
LABELS = np.arange(COUNT) % 3


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    return image_bytes(Image.fromarray(image), kind)


def save(path: Path, items: Iterable[tuple[bytes, bytes]], **options: Any) -> str:
    quick = {"map_size": 1 << 26, "sync": False, **options}
    with lmdb.open(str(path), **quick) as environment, environment.begin(write=True) as transaction:
        for key, value in items:
            transaction.put(key, value)
    return str(path)


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def datum(data: bytes, sides: tuple[int, int, int] = (3, 9, 7), label: int | None = 0, encoded: bool = False) -> bytes:
    """As caffe.proto describes it: channels, height, width, data, label, encoded."""
    message = b"".join(bytes([field << 3]) + varint(side) for field, side in zip((1, 2, 3), sides, strict=True))
    message += b"\x22" + varint(len(data)) + data
    message += b"" if label is None else b"\x28" + varint(label % (1 << 64))
    return message + (b"\x38\1" if encoded else b"")


def blue_first(image: np.ndarray) -> bytes:
    return image[..., ::-1].transpose(2, 0, 1).tobytes()


def lsun(kind: str = "WEBP") -> list[tuple[bytes, bytes]]:
    return [(b"%040x" % (i * 12345), encoded(image, kind)) for i, image in enumerate(PIXELS)]


def caffe() -> list[tuple[bytes, bytes]]:
    return [(b"%08d" % i, datum(blue_first(PIXELS[i]), label=int(LABELS[i]))) for i in range(COUNT)]


def ocr() -> list[tuple[bytes, bytes]]:
    images = [(b"image-%09d" % (i + 1), encoded(image)) for i, image in enumerate(PIXELS)]
    texts = [(b"label-%09d" % (i + 1), f"Straße {i}".encode()) for i in range(COUNT)]
    return [(b"num-samples", b"%d" % COUNT), *images, *texts]


def read_path(path: str, options: ColumnOptions = PLAIN) -> Source:
    found = recognise(path, options)
    assert (found.name, found.missing) == ("lmdb", "")
    return read(path, options)


def pixels_of(source: Source, index: int) -> np.ndarray:
    image = source[index].image
    assert callable(image)
    return np.asarray(Image.open(io.BytesIO(image())))


class TestLsun(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        path = save(tmp_path / "a", lsun())
        return lambda: read(path)


class TestCaffe(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        path = save(tmp_path / "a", caffe())
        return lambda: read(path)


class TestOcr(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        path = save(tmp_path / "a", [item for item in ocr() if item[0] != b"label-000000003"])
        return lambda: read(path)


@pytest.mark.parametrize(
    ("kind", "ending", "subdir"), [("WEBP", ".webp", True), ("JPEG", ".jpg", False), ("PNG", ".png", True)]
)
def test_lsun(tmp_path: Path, kind: str, ending: str, subdir: bool) -> None:
    """Images as they are; a folder or a single file; nothing is written beside it."""
    path = save(tmp_path / "church", lsun(kind), subdir=subdir)
    os.remove(tmp_path / "church" / "lock.mdb" if subdir else tmp_path / "church-lock")
    before = sorted(tmp_path.rglob("*"))
    source = read_path(path)
    assert [source[i].image() for i in range(COUNT)] == [data for _, data in lsun(kind)]  # type: ignore[operator]
    assert source[1].key == b"%040x" % 12345 + ending.encode()
    assert sorted(tmp_path.rglob("*")) == before
    assert any("no labels" in note for note in info_of(source).findings.notes)


def test_lsun_of_several_classes(tmp_path: Path) -> None:
    """As LSUN is handed out: a database for each class and split."""
    for name in ("bedroom_train_lmdb", "bridge_train_lmdb", "bridge_val_lmdb"):
        save(tmp_path / name, lsun()[:3])
    source = read_path(str(tmp_path))
    assert [source[i].features[LABEL] for i in (0, 3, 6)] == [0, 1, 1]
    assert source.schema.class_names[LABEL] == ("bedroom", "bridge")
    assert [source[i].split for i in (0, 3, 6)] == ["train", "train", "validation"]
    assert source[6].key == b"bridge_val/" + lsun()[0][0] + b".webp"
    assert len(source) == 9
    with pytest.raises(UsageError, match="got the class 'bedroom'"):
        read(tmp_path, ColumnOptions(class_names=["bridge"]))


def test_caffe(tmp_path: Path) -> None:
    """Pixels are blue first, and one plane after the other."""
    source = read_path(save(tmp_path / "mnist_train_lmdb", caffe()))
    for i in range(COUNT):
        assert (pixels_of(source, i) == PIXELS[i]).all()
        assert source[i].features[LABEL] == LABELS[i]
    assert (source[1].key, source[1].split) == (b"00000001.png", "train")
    report = convert(source, tmp_path / "out", workers=OwnEngine(1))
    assert report.manifest.splits["train"].records == COUNT
    assert not report.rejected


def test_caffe_encoded_and_gray(tmp_path: Path) -> None:
    items = [(b"00000000_cat/a.jpg", datum(encoded(PIXELS[0], "JPEG"), encoded=True))]
    items += [(b"00000001_cat/b.jpg", datum(PIXELS[1, ..., 0].tobytes(), (1, 9, 7)))]
    source = read_path(save(tmp_path / "a", items))
    assert [source[i].key for i in range(2)] == [b"00000000_cat/a.jpg", b"00000001_cat/b.jpg"]
    assert source[0].image() == encoded(PIXELS[0], "JPEG")  # type: ignore[operator]
    assert (pixels_of(source, 1) == PIXELS[1, ..., 0]).all()


@pytest.mark.parametrize(
    ("values", "options", "problem"),
    [
        ([datum(bytes(189), label=1), datum(bytes(189), label=2)], {}, r"from 1 to 2.*label_offset=1"),
        ([datum(bytes(189), label=0)], {"columns": {"image": "x"}}, "columns is for named columns"),
    ],
)
def test_labels_of_caffe(tmp_path: Path, values: list[bytes], options: dict[str, Any], problem: str) -> None:
    path = save(tmp_path / "a", [(b"%d" % i, value) for i, value in enumerate(values)])
    with pytest.raises(UsageError, match=problem):
        read(path, ColumnOptions(**options))


def test_databases_without_labels_beside_others(tmp_path: Path) -> None:
    """Their samples are listed."""
    for name, label in (("a_train", 0), ("a_test", None)):
        save(tmp_path / name, [(b"%d" % i, datum(bytes(189), label=label)) for i in range(3)])
    source = read(tmp_path)
    assert {source[i].split for i in range(len(source))} == {"train"}
    assert [found.key for found in info_of(source).findings.rejected] == [b"a_test/%d.png" % i for i in range(3)]


def test_unlabelled(tmp_path: Path) -> None:
    source = open_source(save(tmp_path / "a", caffe()), options=ColumnOptions(unlabelled=True))
    assert (len(source), dict(source.schema.features)) == (COUNT, {})


def test_caffe_without_labels(tmp_path: Path) -> None:
    path = save(tmp_path / "a", [(b"%d" % i, datum(bytes(189), label=None)) for i in range(3)])
    assert not read_path(path).schema.features
    path = save(tmp_path / "b", [(b"%d" % i, datum(bytes(189), label=i or None)) for i in range(3)])
    source = read_path(path)
    assert [source[i].features[LABEL] for i in range(3)] == [0, 1, 2]
    assert any("1 Datum without a label" in note for note in info_of(source).findings.notes)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (datum(bytes(188)), RejectCode.CORRUPT),
        (datum(bytes(9 * 7 * 2), (2, 9, 7)), RejectCode.UNSUPPORTED),
        (datum(bytes(4), (3, 0, 7)), RejectCode.CORRUPT),
        (b"\x30\x01", None),  # found while listing: no data
        (datum(bytes(189))[:-30], None),
    ],
)
def test_damaged_datums(tmp_path: Path, value: bytes, code: RejectCode | None) -> None:
    """Behind others that say what the database is."""
    items = [(b"%08d" % i, datum(blue_first(PIXELS[0]))) for i in range(30)]
    source = read_path(save(tmp_path / "a", [*items, (b"9", value)]))
    if code is None:
        assert [(found.key, found.code) for found in info_of(source).findings.rejected] == [(b"9", "E_CORRUPT")]
        assert len(source) == 30
    else:
        with pytest.raises(RejectedError) as caught:
            source[30].image()  # type: ignore[operator]
        assert caught.value.code == code


def test_texts_and_images_that_are_not_there(tmp_path: Path) -> None:
    items = dict(ocr())
    del items[b"image-000000002"], items[b"label-000000004"]
    items[b"label-000000005"] = b"\xff"
    source = read_path(save(tmp_path / "a", items.items()))
    assert len(source) == COUNT - 3
    assert [(found.key[-1:], found.code) for found in info_of(source).findings.rejected] == [
        (b"2", "E_MISSING"),
        (b"4", "E_NO_LABEL"),
        (b"5", "E_NO_LABEL"),
    ]
    items[b"num-samples"] = b"twelve"
    with pytest.raises(UsageError, match="says b'twelve' under num-samples"):
        read(save(tmp_path / "b", items.items()))


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([(b"__keys__", pickle.dumps([b"0"])), (b"0", lsun()[0][1])], "has the key __keys__, as folder2lmdb writes it"),
        ([(b"0", b"\xff\xff\xff\xff"), (b"__len__", b"\0" * 80)], "has the key __len__"),
        ([(b"%d" % i, pickle.dumps((lsun()[i][1], i))) for i in range(3)], "values that are pickles .of the key 0."),
    ],
)
def test_pickles_are_refused_by_name(tmp_path: Path, items, problem: str) -> None:
    path = save(tmp_path / "a", items)
    with pytest.raises(UsageError, match=f"{problem}.*convert the original image folder,"):
        read(path)
    found = recognise(path)
    assert "can run arbitrary code" in found.missing


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (
            [(b"a\n", b"\1\2" * 40), (b"b", b"text")],
            r"no known format;.*a\\n: 80 bytes, b'\\x01\\x02.*b: 4 bytes, b'text'",
        ),
        ([], "is an empty LMDB"),
        ([(b"0", b"\x32\x04" + b"\0" * 40)], "no known format;"),  # float pixels of Caffe
    ],
)
def test_unknown_dialects(tmp_path: Path, items, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read(save(tmp_path / "a", items))


def test_different_dialects(tmp_path: Path) -> None:
    save(tmp_path / "a", lsun())
    save(tmp_path / "b", caffe())
    with pytest.raises(UsageError, match=r"different formats \(a: LSUN, b: Caffe Datum\)"):
        read(tmp_path)


def test_a_cut_file_does_not_end_the_process(tmp_path: Path) -> None:
    """To read beyond the end of a mapped file is a bus error: here that would be the last test."""
    data = Path(save(tmp_path / "a", lsun("PNG"))) / "data.mdb"
    whole = data.read_bytes()
    for size in (len(whole) // 2 // 4096 * 4096, 5000, 8192):
        data.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"is truncated or damaged: copy it again|cannot be opened"):
            read(data.parent)
    data.write_bytes(b"no database")
    assert recognise(data.parent) is None


def test_a_damaged_file(tmp_path: Path) -> None:
    """A root page that is not there: of both meta pages, the 8 bytes at 128."""
    data = Path(save(tmp_path / "a", lsun("PNG"))) / "data.mdb"
    damaged = bytearray(data.read_bytes())
    for page in (0, 4096):
        damaged[page + 128 : page + 136] = (10**6).to_bytes(8, "little")
    data.write_bytes(damaged)
    with pytest.raises(UsageError, match=r"is damaged, or not an LMDB database for this machine: .*MDB_PAGE_NOTFOUND"):
        read(data.parent)


def test_too_many_samples_are_said_to_be_there(tmp_path: Path) -> None:
    items = {**dict(ocr()), b"num-samples": b"9" * 12}
    with pytest.raises(UsageError, match="says b'999999999999' under num-samples, expected the number of images"):
        read(save(tmp_path / "a", items.items()))


def test_a_file_that_changed(tmp_path: Path) -> None:
    source = read_path(save(tmp_path / "a", lsun()))
    source[0].image()  # type: ignore[operator]
    save(tmp_path / "b", lsun()[:6])
    os.replace(tmp_path / "b" / "data.mdb", tmp_path / "a" / "data.mdb")
    with pytest.raises(RejectedError) as caught:
        source[0].image()  # type: ignore[operator]
    assert caught.value.code == RejectCode.SOURCE_CHANGED
    again = read_path(str(tmp_path / "a"))
    assert len(again) == 6
    again[0].image()  # type: ignore[operator]


def test_a_file_that_is_mapped_anew_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = read(save(tmp_path / "a", lsun()))
    monkeypatch.setattr(database, "_MOST_MAPPED", 1)
    assert [source[i].image() for i in range(COUNT)] == [data for _, data in lsun()]  # type: ignore[operator]


def test_short_values_are_no_images(tmp_path: Path) -> None:
    source = read_path(save(tmp_path / "a", [*lsun(), (b"length", b"12")]))
    assert len(source) == COUNT
    assert "keys whose values are too short for an image: 1 (length)" in info_of(source).findings.notes


def test_a_database_that_this_process_has_open(tmp_path: Path) -> None:
    path = save(tmp_path / "a", lsun())
    with (
        lmdb.open(os.path.join(path, "data.mdb"), subdir=False, readonly=True, lock=False),
        pytest.raises(UsageError, match="close it where this process has it open"),
    ):
        read(path)


def test_without_lmdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a", lsun())
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(MissingExtraError, match=r"lmdb is not installed; pip install 'shardfeed\[formats\]'"):
        read(path)


def test_a_spawned_process_reads(tmp_path: Path) -> None:
    """By the pickle of a sample alone."""
    image = read_path(save(tmp_path / "a", lsun()))[3].image
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.load(sys.stdin.buffer)())"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(image), capture_output=True, check=True)
    assert done.stdout == lsun()[3][1]

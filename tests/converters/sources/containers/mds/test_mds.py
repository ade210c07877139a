"""MDS datasets, written by MosaicML's own writer (tests/golden/mds), and each fault that they can have."""

import contextlib
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare import mds as reader
from shardfeed.converters.sources.rare.mds import array_of, value_of
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError
from shardfeed.schema import FILENAME, LABEL, TEXT
from shardfeed.testing.source import SourceContract

from in_process import OwnEngine
from repository import ROOT

GOLDEN = ROOT / "tests" / "golden" / "mds"


def read(path: Path, **options: Any) -> ColumnarSource:
    return reader.read(Look(str(path)), ColumnOptions(**options))


def picture(number: int) -> Image.Image:
    """As make_mds.py draws it."""
    coarse = np.random.default_rng(number).integers(0, 255, (3, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((24, 16))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A copy of the golden datasets, to be damaged."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "mds"))


def change(index: Path, change: Callable[[dict[str, Any]], object], shard: int = 0) -> None:
    value = json.loads(index.read_text())
    before = json.dumps(value)
    change(value["shards"][shard])
    assert json.dumps(value) != before
    index.write_text(json.dumps(value))


class TestContract(SourceContract):
    @pytest.fixture
    def build(self) -> Callable[[], ColumnarSource]:
        return lambda: read(GOLDEN / "photos", columns={"label": "class", "image/scores": "scores"})


class TestContractOfPacked(SourceContract):
    @pytest.fixture
    def build(self) -> Callable[[], ColumnarSource]:
        return lambda: read(GOLDEN / "packed")


def test_photos(tmp_path: Path) -> None:
    """Splits by folders, shards in order; every column by its encoding."""
    evidence = reader.recognise(Look(str(GOLDEN / "photos")), ColumnOptions())
    assert evidence.found.startswith(
        "3 MDS shards with the columns class (int), filename (str), image (jpeg), note (json)"
    )
    source = read(GOLDEN / "photos", columns={"image/scores": "scores", "image/note": "note"})
    assert [(sample.key, sample.split) for sample in source] == [
        (b"photo %d.jpg" % n, "train" if n < 6 else "validation") for n in range(9)
    ]
    assert source[4].features == {LABEL: 1, TEXT: b"1", "image/scores": [4.0, 0.5, -1.0], "image/note": [4, 7]}
    for n, sample in enumerate(source):
        pixels = tf.io.decode_jpeg(read_image(sample)).numpy().astype(int)
        assert np.abs(pixels - np.asarray(picture(n))).mean() < 12  # a JPEG of the same picture
    convert(source, tmp_path / "out", workers=OwnEngine(1))
    found = {record[FILENAME]: record for split in shardfeed.open(tmp_path / "out").values() for record in split}
    assert found[b"photo 7.jpg"]["image/encoded"] == read_image(source[7])
    one = read(GOLDEN / "photos" / "val" / "index.json")
    assert [sample.split for sample in one] == [None] * 3


def test_a_folder_beside_the_usual_splits_is_one_by_its_own_name(home: Path) -> None:
    (home / "photos" / "val").rename(home / "photos" / "unseen")
    assert {sample.split for sample in read(home / "photos")} == {"train", "unseen"}


def test_compressed_shards() -> None:
    """zstd, unpacked into a temporary folder; PNGs in a column of bytes come out as they went in."""
    source = read(GOLDEN / "packed")
    assert [sample.features[TEXT] for sample in source] == [b"a", b"b"] * 2
    for n, sample in enumerate(source):
        assert sample.key == b"%s/%06d.png" % (b"shard.0000%d.mds" % (n // 3), n % 3)
        np.testing.assert_array_equal(tf.io.decode_png(read_image(sample)).numpy(), np.asarray(picture(n)))
    assert "2 compressed files were unpacked" in source.findings.notes[0]


def test_other_compressions(home: Path) -> None:
    raw = (home / "photos" / "val" / "shard.00000.mds").read_bytes()
    expected = [sample.key for sample in read(home / "photos" / "val")]
    (home / "photos" / "val" / "shard.00000.mds").unlink()
    (home / "photos" / "val" / "s.gz").write_bytes(gzip.compress(raw))
    index = home / "photos" / "val" / "index.json"
    change(
        index, lambda shard: shard.update(compression="gz:6", zip_data={"basename": "s.gz", "bytes": 1, "hashes": {}})
    )
    assert [sample.key for sample in read(home / "photos" / "val")] == expected
    (home / "photos" / "val" / "s.gz").write_bytes(gzip.compress(raw)[:-100])
    with pytest.raises(UsageError, match=r"s.gz: damaged or truncated"):
        read(home / "photos" / "val")
    (home / "photos" / "val" / "s.gz").write_bytes(gzip.compress(raw + bytes(10_000_000)))
    with pytest.raises(UsageError, match="has more than the"):
        read(home / "photos" / "val")
    change(index, lambda shard: shard.update(compression="br:11"))
    with pytest.raises(UsageError, match=r"compressed with br, expected zstd, gz, bz2, or none; unpack its shards"):
        read(home / "photos" / "val")


@pytest.mark.parametrize("name", ["arrays", "pil"])
def test_pixels(name: str) -> None:
    """Arrays and Pillow's images become PNGs with the same pixels."""
    source = read(GOLDEN / name)
    for n, sample in enumerate(source):
        image = picture(n).convert("L") if name == "arrays" and n else picture(n)
        expected = np.asarray(image)
        found = tf.io.decode_png(read_image(sample)).numpy()
        np.testing.assert_array_equal(found[..., 0] if expected.ndim == 2 else found, expected)
        assert (sample.key, sample.features[LABEL]) == (b"shard.00000.mds/%06d.png" % n, n)


def test_pickles_are_refused() -> None:
    evidence = reader.recognise(Look(str(GOLDEN / "pickled")), ColumnOptions())
    assert "the column label is pickled (pkl)" in evidence.missing
    with pytest.raises(UsageError, match=r"the column label is pickled .*; write it again as 'json', 'int', 'str'"):
        read(GOLDEN / "pickled")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"raw_data": {"basename": "../x.mds", "bytes": 1, "hashes": {}}}, "is not in its folder"),
        ({"raw_data": {"basename": "/x.mds", "bytes": 1, "hashes": {}}}, "is not in its folder"),
        ({"format": "json"}, "format 'json' of version 2"),
        ({"version": 1}, "of version 1"),
        ({"column_names": ["a"]}, "names, encodings and sizes differ"),
        ({"samples": -1}, "its number of samples or of bytes is not a number"),
        ({"samples": 5}, "got 3 samples, expected 5"),
        ({"samples": 1 << 39}, "got 3 samples, expected"),
        ({"column_sizes": ["8", None, None, None, 12]}, "a size of a column is not a number"),
        (
            {"raw_data": {"basename": "gone.mds", "bytes": 1, "hashes": {}}},
            "gone.mds: is listed in index.json, but missing",
        ),
        ({"column_encodings": ["int", "str", "jpeg", "json", "pkl"]}, "scores is pickled"),
    ],
)
def test_bad_indexes(home: Path, value: dict[str, Any], problem: str) -> None:
    change(home / "photos" / "val" / "index.json", lambda shard: shard.update(value))
    with pytest.raises(UsageError, match=problem.replace("(", r"\(")):
        read(home / "photos" / "val")


def test_a_shard_that_is_listed_twice(home: Path) -> None:
    index = home / "packed" / "index.json"
    value = json.loads(index.read_text())
    index.write_text(json.dumps({**value, "shards": [*value["shards"], value["shards"][0]]}))
    with pytest.raises(UsageError, match="twice"):
        open_source(home / "packed")


def test_what_is_no_index(tmp_path: Path, home: Path) -> None:
    for text in ("{", "[]", "[" * 100_000, '{"shards": 3}', '{"shards": []}'):
        (tmp_path / "index.json").write_text(text)
        assert reader.recognise(Look(str(tmp_path)), ColumnOptions()) is None
        with pytest.raises(UsageError, match=r"not an MDS index|it lists no shard"):
            read(tmp_path)
    with pytest.raises(UsageError, match=r"no index\.json in it"):
        read(tmp_path / "none")


def test_the_union_of_columns(home: Path) -> None:
    """A shard that lacks the label costs its samples theirs, and no other."""
    index = home / "photos" / "val" / "index.json"
    change(index, lambda shard: shard.update(column_names=["other", *shard["column_names"][1:]]))
    source = read(home / "photos")
    assert len(source) == 6
    assert {skipped.code for skipped in source.findings.rejected} == {"E_NO_LABEL"}
    assert all("no such column" in skipped.reason for skipped in source.findings.rejected)


def test_damaged_shards(home: Path) -> None:
    """A cut file is refused; a sample whose sizes do not fit is listed, the others are there."""
    path = home / "photos" / "val" / "shard.00000.mds"
    data = bytearray(path.read_bytes())
    start = int.from_bytes(data[4:8], "little")
    path.write_bytes(data[:-1])
    with pytest.raises(UsageError, match=r"got \d+ bytes, expected \d+ by index.json: truncated"):
        read(home / "photos" / "val")
    damaged = data.copy()
    damaged[start + 1] ^= 1
    path.write_bytes(damaged)
    source = read(home / "photos" / "val", class_names=("a", "b", "c"))
    assert [(s.key, s.code) for s in source.findings.rejected] == [(b"shard.00000.mds:0", "E_CORRUPT")]
    assert len(source) == 2
    content = source[0].image
    damaged = data.copy()
    damaged[9] ^= 0x80  # an offset
    path.write_bytes(damaged)
    with pytest.raises(UsageError, match="its offsets are invalid"):
        read(home / "photos" / "val")
    with pytest.raises(RejectedError, match="E_SOURCE_CHANGED"):
        content()  # type: ignore[operator]


def test_cells_that_cannot_be_read(home: Path) -> None:
    """Damaged cells matter in a column that is stored; a column that is not stored is not read."""
    path = home / "photos" / "val" / "shard.00000.mds"
    data = path.read_bytes()
    assert data.count(b"[6, 7]") == 1
    path.write_bytes(data.replace(b"[6, 7]", b"[6, 7}"))
    assert len(read(home / "photos" / "val", class_names=("a", "b", "c"))) == 3
    source = read(home / "photos" / "val", class_names=("a", "b", "c"), columns={"image/note": "note"})
    assert len(source) == 2
    assert source.findings.rejected[0].code == "E_CORRUPT"


arrays = st.tuples(
    st.sampled_from(["uint8", "int16", "uint32", "int64", "float16", "float32", "float64"]),
    st.lists(st.integers(1, 300), min_size=1, max_size=3).filter(lambda shape: np.prod(shape) < 5000),
)


@given(arrays, st.sampled_from([0, 1, 2]))
def test_arrays(of: tuple[str, list[int]], said: int) -> None:
    """As streaming's encodings.py lays them out: with dtype and shape in the bytes, or in the encoding."""
    dtype, shape = of
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    width = 0 if max(shape) < 256 else 1
    codes = {"uint8": 8, "int16": 17, "uint32": 32, "int64": 65, "float16": 18, "float32": 34, "float64": 66}
    sides = np.array(shape, f"<u{1 << width}").tobytes()
    parts = [bytes([codes[dtype]]), bytes([len(shape) << 2 | width]) + sides, array.tobytes()]
    encoding = ["ndarray", f"ndarray:{dtype}", f"ndarray:{dtype}:{','.join(map(str, shape))}"][said]
    data = b"".join(parts[said:])
    np.testing.assert_array_equal(array_of(encoding, data), array)
    with pytest.raises(ValueError, match="array"):
        array_of(encoding, data[:-1])


@given(st.sampled_from(["ndarray", "ndarray:int16", "json", "str_int", "str_float", "int"]), st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(encoding: str, data: bytes) -> None:
    with contextlib.suppress(ValueError, TypeError):
        value_of(encoding, data)


def test_without_zstandard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"zstandard is not installed; pip install 'shardfeed\[formats\]'"):
        read(GOLDEN / "packed")

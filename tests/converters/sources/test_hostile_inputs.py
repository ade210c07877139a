"""Each input ended badly once: in a hang, a traceback, in memory or a disk that followed a number of the file."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import Opener, opener
from PIL import Image

from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import Feature

from pictures import image_bytes

pytestmark = pytest.mark.promise("51", "52")
LONG = 60_000_000  # bytes of a line


def encoded(seed: int) -> bytes:
    """A small JPEG."""
    return image_bytes(Image.fromarray(np.random.default_rng(seed).integers(0, 256, (32, 40, 3), np.uint8)), "JPEG")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    with opener(tmp_path_factory.mktemp("hostile") / "temporary") as found:
        yield found


def images(folder: Path, count: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        (folder / f"{i + 1}.jpg").write_bytes(encoded(i))


def data_yaml(root: Path, text: str) -> None:
    images(root / "images")
    (root / "labels").mkdir()
    (root / "labels" / "1.txt").write_text("0 0.5 0.5 0.1 0.1 0.5 0.5 2 0.5 0.5 2\n")
    (root / "data.yaml").write_text(text)


def aliases(levels: int) -> str:
    """YAML anchors, each of ten times the one before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


def point_names(root: Path) -> None:
    names = "kpt_names:\n  0: [*a10, *a10]\n  1: [*b10, *b10]\n"
    both = aliases(11) + aliases(11).replace("a", "b")
    data_yaml(root, f"{both}train: images\nnames: [n]\nkpt_shape: [2, 3]\n{names}")


def merge_key(root: Path) -> None:
    lines = ["m0: &m0 {k: v}"]
    lines += [f"m{i}: &m{i} {{!!merge <<: [{', '.join([f'*m{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    data_yaml(root, "\n".join(lines) + "\ntrain: images\nnames: [n]\n")


def recursive_yaml(root: Path) -> None:
    data_yaml(root, "a: &a [*a]\ntrain: images\nnames: *a\n")


def lmdb_count(root: Path) -> None:
    with pytest.importorskip("lmdb").open(str(root), map_size=1 << 24) as database, database.begin(write=True) as put:
        put.put(b"num-samples", b"0" * 20 + b"1" + b"0" * 11)
        for i in range(1, 4):
            put.put(b"image-%09d" % i, encoded(i))
            put.put(b"label-%09d" % i, b"text")


def hdf5_rows(root: Path) -> None:
    with pytest.importorskip("h5py").File(root / "a.h5", "w") as file:
        file.create_dataset("images", (10**9, 8, 8, 3), np.uint8, chunks=(1000, 8, 8, 3))
        file.create_dataset("labels", (10**9,), np.int64, chunks=(1000,))


def hdf5_circles(root: Path) -> None:
    with pytest.importorskip("h5py").File(root / "a.h5", "w") as file:
        group = file.create_group("a")
        inner = group.create_group("b")
        inner["a"], inner["root"] = group, file["/"]
        for i in range(150):
            each = file.create_group(f"g{i}")
            for j in range(150):
                each[f"h{j}"] = group
        file.create_dataset("images", data=np.zeros((3, 8, 8, 3), np.uint8))


def gzip_bomb(root: Path) -> None:
    one = frame(encode({"image": Feature("bytes")}, {"image": encoded(1)}))
    with gzip.open(root / "train.tfrecord.gz", "wb", 1) as file:
        file.write(one)
        large = frame(bytes(32 << 20))
        for _ in range(10):
            file.write(large)


def zstd_bomb(root: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (root / "shard.00000.mds.zstd").write_bytes(zstandard.compress(bytes(320 << 20)))
    mds_index(root, size=320 << 20, packed="shard.00000.mds.zstd")


def mds_index(root: Path, size: int, packed: str = "", sizes: tuple[int | None, ...] = (None, 8)) -> None:
    entry = {
        "column_names": ["image", "label"],
        "column_encodings": ["jpeg", "int"],
        "column_sizes": sizes,
        "format": "mds",
        "raw_data": {"basename": "shard.00000.mds", "bytes": size, "hashes": {}},
        "samples": 2,
        "compression": "zstd" if packed else None,
        "zip_data": {"basename": packed, "bytes": 1, "hashes": {}} if packed else None,
        "version": 2,
    }
    (root / "index.json").write_text(json.dumps({"shards": [entry], "version": 2}))


def mds_shard(path: Path) -> int:
    """A shard of two samples; its size."""
    samples = [struct.pack("<I", len(encoded(i))) + encoded(i) + struct.pack("<q", i) for i in range(2)]
    text = json.dumps({}).encode()
    starts = [4 + 4 * 3 + len(text)]
    for sample in samples:
        starts.append(starts[-1] + len(sample))
    data = struct.pack("<I3I", 2, *starts) + text + b"".join(samples)
    path.write_bytes(data)
    return len(data)


def mds_sizes(root: Path) -> None:
    mds_index(root, mds_shard(root / "shard.00000.mds"), sizes=(1 << 39, 1 << 39))


def mds_link(root: Path) -> None:
    mds_index(root, mds_shard(root.parent / "outside" / "secret.mds"))
    (root / "shard.00000.mds").symlink_to(root.parent / "outside" / "secret.mds")


def packed_varints(root: Path) -> None:
    def field(tag: bytes, content: bytes) -> bytes:
        size, length = len(content), bytearray()
        while size >= 0x80:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        return tag + bytes(length) + bytes([size]) + content

    numbers = field(b"\x1a", field(b"\x0a", bytes(range(128)) * (30_000_000 // 128)))
    entries = [field(b"\x0a", field(b"\x0a", b"label") + field(b"\x12", numbers))]
    image = field(b"\x0a", field(b"\x0a", encoded(1)))
    entries.append(field(b"\x0a", field(b"\x0a", b"image") + field(b"\x12", image)))
    payload = field(b"\x0a", b"".join(entries))
    (root / "train.tfrecord").write_bytes(frame(payload))


def grouped_arrayrecord(root: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(root / "train.array_record"), "group_size:65536,zstd")
    record = encode({"image": Feature("bytes"), "k": Feature("bytes")}, {"image": encoded(1), "k": bytes(6000)})
    for _ in range(45_000):
        writer.write(record)
    writer.close()


def parquet_rows(root: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    few = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, np.int8)), pa.array([encoded(1)]))
    pq.write_table(pa.table({"image": few}), root / "a.parquet")


def long_line(name: str, before: bytes = b"") -> Callable[[Path], None]:
    def make(root: Path) -> None:
        data_yaml(root, "train: images\nnames: [n]\n" if name != "train.txt" else "train: train.txt\nnames: [n]\n")
        if name == "classes.txt":
            (root / "data.yaml").unlink()
        (root / name).write_bytes(before + b"0.5 " * (LONG // 4))

    return make


def npy(header: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        (root / "x.npy").write_bytes(head + bytes(100))

    return make


def npz_rows(root: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 0, 8, 3)})
    with zipfile.ZipFile(root / "a.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue())


def npz_bomb(root: Path) -> None:
    np.savez_compressed(root / "a.npz", x=np.zeros((300_000, 32, 32, 1), np.uint8))


def lzma_zip(root: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros((3, 8, 8, 3), np.uint8))
    with zipfile.ZipFile(root / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", content.getvalue())
    data = bytearray((root / "a.npz").read_bytes())
    data[44:60] = b"\xff" * 16
    (root / "a.npz").write_bytes(data)


def zip_name(root: Path) -> None:
    with zipfile.ZipFile(root / "a.npz", "w") as archive:
        archive.writestr("\u00e4\u00e4.npy", b"x")
    data = (root / "a.npz").read_bytes()
    changed = data.replace("\u00e4\u00e4".encode(), b"\xff\xfe\xff\xfe")
    assert changed != data
    (root / "a.npz").write_bytes(changed)


def pax_size(root: Path) -> None:
    with tarfile.open(root / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("1.jpg")
        info.pax_headers = {"size": "9" * 5001}
        tar.addfile(info, io.BytesIO())


def json_number(root: Path) -> None:
    images(root / "images")
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5], "iscrowd": 0}
    found = {
        "images": [{"id": 1, "file_name": "1.jpg", "width": 40, "height": 32}],
        "annotations": [{**annotation, "area": 10**400}, {**annotation, "id": 2, "bbox": [10**400, 1, 5, 5]}],
        "categories": [{"id": 1, "name": "n"}],
    }
    (root / "instances.json").write_text(json.dumps(found))


MADE: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
    "key points of aliases": (point_names, {"reader": "yolo"}),
    "merge keys of aliases": (merge_key, {"reader": "yolo"}),
    "recursive YAML": (recursive_yaml, {"reader": "yolo"}),
    "LMDB count with zeros": (lmdb_count, {"reader": "lmdb"}),
    "HDF5 rows without data": (hdf5_rows, {"reader": "hdf5"}),
    "HDF5 groups in circles": (hdf5_circles, {"reader": "hdf5"}),
    "gzip bomb": (gzip_bomb, {"reader": "tfrecord"}),
    "zstd bomb": (zstd_bomb, {"reader": "mds"}),
    "packed varints": (packed_varints, {"reader": "tfrecord"}),
    "grouped ArrayRecord": (grouped_arrayrecord, {"reader": "arrayrecord"}),
    "Parquet rows": (parquet_rows, {"reader": "parquet"}),
    "long line of boxes": (long_line("labels/1.txt", b"0 "), {"reader": "yolo"}),
    "long line of images": (long_line("train.txt", b"images/"), {"reader": "yolo"}),
    "long class name": (long_line("classes.txt"), {"reader": "yolo"}),
    "npy of no literal": (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,"), {"reader": "npz"}),
    "npy of brackets": (npy(b"(" * 9000), {"reader": "npz"}),
    "npy of a key that is a list": (npy(b"{[]: 1}"), {"reader": "npz"}),
    "npy of keys that have no order": (npy(b"{'descr': '|u1', 1: 2, 'shape': (1,)}"), {"reader": "npz"}),
    "npy of sides below zero": (
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, -10, -10)}"),
        {"reader": "npz"},
    ),
    "npy of a thousand minus": (npy(b"-" * 9000 + b"1"), {"reader": "npz"}),
    "npz of empty rows": (npz_rows, {"reader": "npz"}),
    "npz bomb": (npz_bomb, {"reader": "npz"}),
    "LZMA in a zip": (lzma_zip, {"reader": "npz"}),
    "a zip's name that is no text": (zip_name, {"reader": "npz"}),
    "pax size of 5,001 digits": (pax_size, {"reader": "webdataset"}),
    "JSON beyond float": (json_number, {"reader": "coco"}),
    "MDS sizes of 2**39": (mds_sizes, {"reader": "mds"}),
    "MDS shard that is a link": (mds_link, {"reader": "mds"}),
}


ROWS_ARE_LISTED = ("JSON beyond float",)  # what is wrong is left out by itself
SECONDS_EACH = ("long class name", "packed varints")  # are opened once, by their content


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SECONDS_EACH else []) for name in MADE]
)
def test_it_ends_in_one_of_our_errors(name: str, hostile: Opener, tmp_path: Path) -> None:
    make, options = MADE[name]
    root, outside = tmp_path / "input", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    make(root)
    for given in ({},) if name in SECONDS_EACH else (options, {}):
        found = hostile.open(root, outside, **given)
        assert not found.problem()
        if name not in ROWS_ARE_LISTED:
            assert "Error: " in found.said, found.said
            assert root.name in found.said

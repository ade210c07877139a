"""Memory per sample of databases and arrays, measured in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

# Writes a source of so many samples, or lists all of one and reads a few images; prints the most memory it took.
PROGRAM = """
import resource, sys
import numpy as np

kind, what, path, count = sys.argv[1:3] + [sys.argv[3], int(sys.argv[4])]
if what == "write":
    images, labels = np.zeros((count, 5, 6), np.uint8), np.arange(count) % 10
    if kind == "npz":
        np.savez(path, images=images, labels=labels)
    elif kind == "hdf5":
        import h5py
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=images, chunks=(100, 5, 6), compression="gzip")
            file["labels"] = labels
    elif kind == "encoded":
        import h5py
        with h5py.File(path, "w") as file:
            rows = file.create_dataset("images", (count,), h5py.vlen_dtype(np.uint8))
            for start in range(0, count, 10000):
                part = np.empty(min(10000, count - start), object)
                for i in range(len(part)):
                    part[i] = np.frombuffer(b"\\x89PNG\\r\\n\\x1a\\n" + b"x" * (90 + i % 2), np.uint8)
                rows[start : start + 10000] = part
    else:
        import lmdb
        with lmdb.open(path, map_size=1 << 32, sync=False) as environment:
            with environment.begin(write=True) as transaction:
                data = bytes.fromhex("080310041804") + b"\\x22\\x30" + bytes(48)
                png = b"\\x89PNG\\r\\n\\x1a\\n" + bytes(500)
                if kind == "ocr":
                    transaction.put(b"num-samples", b"%d" % count)
                for i in range(count):
                    if kind == "caffe":
                        transaction.put(b"%08d" % i, data + b"\\x28" + bytes([i % 10]))
                    elif kind == "lsun":
                        transaction.put(b"%040d" % i, png)
                    else:
                        transaction.put(b"image-%09d" % (i + 1), png)
                        transaction.put(b"label-%09d" % (i + 1), b"word %d" % i)
else:
    from shardfeed.converters.sources.look import Look
    from shardfeed.converters.sources.readers import recognise
    from shardfeed.converters.sources.readers import BY_NAME
    (found,) = recognise(Look(path), {})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = BY_NAME[found.name].read(Look(path), {})
    assert len(source) == count
    for i in range(len(source)):
        sample = source[i]
        if i % (count // 1000) == 0:
            sample.image()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(kind: str, what: str, path: Path, count: int) -> int:
    """The most memory in bytes that such a process took."""
    command = [sys.executable, "-c", PROGRAM, kind, what, str(path), str(count)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "counts", "most"),
    [
        ("npz", (10_000, 1_000_000), 30),
        ("hdf5", (10_000, 1_000_000), 60),  # with 30 bytes of pixels, of which 64 MiB at most are unpacked at a time
        ("encoded", (10_000, 200_000), 150),
        ("caffe", (100_000, 1_000_000), 80),
        ("lsun", (40_000, 200_000), 150),
        ("ocr", (40_000, 200_000), 150),
    ],
)
def test_bytes_of_a_sample(tmp_path: Path, kind: str, counts: tuple[int, int], most: int) -> None:
    """Beside a constant: what more samples take more, whatever the size of the file."""
    ending = {"npz": ".npz", "hdf5": ".h5", "encoded": ".h5"}.get(kind, "")
    found = []
    for count in counts:
        path = tmp_path / f"{count}{ending}"
        peak(kind, "write", path, count)
        found.append(peak(kind, "list", path, count))
    a_sample = (found[1] - found[0]) / (counts[1] - counts[0])
    print(f"{kind}: {found[0] / 1e6:.0f} to {found[1] / 1e6:.0f} MB, {a_sample:.0f} bytes a sample")
    assert a_sample < most

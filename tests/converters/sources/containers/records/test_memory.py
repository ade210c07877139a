"""Memory held for a file of many records grows by few bytes per sample, whatever the file holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import ENCODED, FILENAME, LABEL, Feature

from pictures import image_bytes

FEATURES = {ENCODED: Feature("bytes"), LABEL: Feature("int64"), FILENAME: Feature("bytes")}
MOST = 150  # bytes a sample
CHILD = """
import json, re, sys
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.readers import BY_NAME
source = BY_NAME[sys.argv[1]].read(Look(sys.argv[2]), {})
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())  # ru_maxrss is the parent's at first
print(json.dumps([len(source), int(peak[1]) * 1024]))
"""


def image(number: int) -> bytes:
    return image_bytes(Image.new("RGB", (2, 2), (number % 251, number % 241, 3)), "PNG")


def write_tfrecord(folder: Path, count: int) -> None:
    images = [image(n) for n in range(97)]
    with open(folder / "a.tfrecord", "wb") as file:
        for n in range(count):
            values = {ENCODED: images[n % 97], LABEL: n % 10, FILENAME: b"%08d.png" % n}
            file.write(frame(encode(FEATURES, values)))


def write_mds(folder: Path, count: int) -> None:
    images = [image(n) for n in range(97)]
    samples = [np.uint32([len(images[n % 97])]).tobytes() + images[n % 97] + np.int64([n % 10]).tobytes()
               for n in range(count)]  # fmt: skip
    starts = 4 * (count + 2) + np.cumsum([0, *map(len, samples)])
    data = b"".join([np.uint32([count]).tobytes(), starts.astype(np.uint32).tobytes(), *samples])
    (folder / "shard.00000.mds").write_bytes(data)
    shard = {"column_names": ["image", "label"], "column_encodings": ["png", "int"], "column_sizes": [None, 8],
             "compression": None, "format": "mds", "hashes": [], "samples": count, "version": 2, "zip_data": None,
             "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


@pytest.mark.long
@pytest.mark.parametrize(("form", "write"), [("tfrecord", write_tfrecord), ("mds", write_mds)])
def test_memory(tmp_path: Path, form: str, write: object) -> None:
    """From 10,000 to 200,000 samples."""
    peaks = []
    for count in (10_000, int(os.environ.get("SAMPLES", "200000"))):
        folder = tmp_path / str(count)
        folder.mkdir()
        write(folder, count)  # type: ignore[operator]
        done = subprocess.run([sys.executable, "-c", CHILD, form, folder], capture_output=True, text=True, check=True)
        peaks.append(json.loads(done.stdout))
    (few, low), (many, high) = peaks
    growth = (high - low) / (many - few)
    print(f"{form}: {low:,} bytes for {few:,}, {high:,} for {many:,}: {growth:.0f} a sample")
    assert growth < MOST

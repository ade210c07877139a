"""Cost of appending 500 samples to datasets of 10,000 to 1,000,000: seconds, bytes read and written.

    python benchmarks/appending.py DIR [RECORDS ...]

Datasets of small PNGs (16 x 16 pixels, about 900 bytes) are made in DIR and kept for another run. Bytes are those
that the command's process reads and writes by system calls, the columns of old records included; workers read the
new images and write their shards. "shared" are bytes of the new dataset that are old files under another name.
"""

import argparse
import io
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
from PIL import Image

from shardfeed.converters import ImageOptions, Sample, Shares, append, convert
from shardfeed.schema import LABEL, Feature, Schema

POOL = 2000
NEW = 500


def picture(number: int) -> bytes:
    """A PNG of 16 x 16 random pixels, the same for the same number."""
    pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


class Pictures:
    """Samples `first` to `first + count` of a set that never ends; pictures come again after POOL."""

    schema = Schema({LABEL: Feature("int64")}, {LABEL: ("even", "odd")})

    def __init__(self, first: int, count: int) -> None:
        self._first, self._count = first, count
        self._pool = [picture(number) for number in range(min(count, POOL))]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self._count:
            raise IndexError(index)
        number = self._first + index
        return Sample(
            b"%03d/%09d.png" % (number % 1000, number), self._pool[index % len(self._pool)], {LABEL: number % 2}
        )


def done() -> tuple[int, int]:
    """Bytes that this process has read and written by system calls."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"]), int(lines["wchar"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("records", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    for records in args.records:
        old, grown = args.place / f"old-{records}", args.place / f"grown-{records}"
        converting = None
        if not old.exists():
            started = time.monotonic()
            options = {
                "split": Shares({"train": 0.9, "validation": 0.1}, "hash"),
                "image": ImageOptions(check="none"),
            }
            convert(Pictures(0, records), old, workers=args.workers, **options)
            converting = round(time.monotonic() - started, 1)
        shutil.rmtree(grown, ignore_errors=True)
        new = Pictures(records, NEW)
        before, started = done(), time.monotonic()
        append(old, new, grown, workers=args.workers)
        seconds = time.monotonic() - started
        read, written = (after - first for after, first in zip(done(), before, strict=True))
        files = [entry.stat() for path in (grown, grown / "index") for entry in os.scandir(path) if entry.is_file()]
        print(
            json.dumps(
                {
                    "records": records,
                    "new": NEW,
                    "seconds": round(seconds, 2),
                    "converting_all_seconds": converting,
                    "read_mb": round(read / 1e6, 1),
                    "written_mb": round(written / 1e6, 1),
                    "dataset_mb": round(sum(file.st_size for file in files) / 1e6, 1),
                    "shared_mb": round(sum(file.st_size for file in files if file.st_nlink > 1) / 1e6, 1),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()

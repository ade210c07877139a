"""Mosaic Streaming: `MDSWriter` in two processes, then `merge_index`, as its guide to parallel conversion has it."""

# The first import starts the clock.
from measured import WORKERS, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import json
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mosaic_imports import MDSWriter, merge_index

COLUMNS = {"image": "bytes", "filename": "str", "label": "int"}


def write_part(out: str, paths: Sequence[Path], labels: Mapping[str, int], shard_bytes: int) -> None:
    with MDSWriter(out=out, columns=COLUMNS, size_limit=shard_bytes) as writer:
        for path in paths:
            writer.write({"image": path.read_bytes(), "filename": path.name, "label": labels[path.parent.name]})


def main() -> None:
    photos, out = photos_and_out()
    shard_bytes = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        tasks = [(os.path.join(out, str(part)), paths[part::WORKERS], labels, shard_bytes) for part in range(WORKERS)]
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            pool.starmap(write_part, tasks, chunksize=1)
        merge_index(out, keep_local=True)
        sync(out)

    def count() -> int:
        return sum(shard["samples"] for shard in json.loads(Path(out, "index.json").read_text())["shards"])

    measure(work, count)


if __name__ == "__main__":
    main()

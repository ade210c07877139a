"""LitData: `optimize` with two workers and its documentation's chunks of 64 MB, then `sync -f`.

A fourth argument: images per chunk instead.
"""

# The first import starts the clock.
from measured import WORKERS, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import json
import os
import sys
from pathlib import Path

import litdata


def sample(task: tuple[str, int]) -> dict[str, object]:
    name, label = task
    path = Path(name)
    return {"image": path.read_bytes(), "filename": path.name, "label": label}


def main() -> None:
    photos, out = photos_and_out()
    chunk = {"chunk_bytes": int(sys.argv[3])} if len(sys.argv) == 4 else {"chunk_size": int(sys.argv[4])}
    # Where it gathers chunks before it moves them to the output: on the same file system, else it copies.
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = f"{out}/cache"
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = f"{out}/data_cache"

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        tasks = [(str(path), labels[path.parent.name]) for path in paths]
        litdata.optimize(fn=sample, inputs=tasks, output_dir=f"{out}/all", **chunk, num_workers=WORKERS)
        sync(out)

    def count() -> int:
        return sum(chunk["chunk_size"] for chunk in json.loads(Path(out, "all", "index.json").read_text())["chunks"])

    measure(work, count)


if __name__ == "__main__":
    main()

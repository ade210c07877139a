"""ArrayRecord: `ArrayRecordWriter` with `group_size:1`, as Grain wants it; a pool of two by hand, then `sync -f`."""

# The first import starts the clock.
from measured import WORKERS, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import multiprocessing
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter


def write_shard(name: str, paths: Sequence[Path], labels: Mapping[str, int]) -> None:
    writer = ArrayRecordWriter(name, "group_size:1")
    for path in paths:
        writer.write(pickle.dumps((path.name, labels[path.parent.name], path.read_bytes())))
    writer.close()


def main() -> None:
    photos, out = photos_and_out()
    shards = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        tasks = [
            (f"{out}/train-{shard:05d}-of-{shards:05d}.array_record", paths[shard::shards], labels)
            for shard in range(shards)
        ]
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            pool.starmap(write_shard, tasks, chunksize=1)
        sync(out)

    def count() -> int:
        return sum(ArrayRecordReader(str(path)).num_records() for path in Path(out).glob("*.array_record"))

    measure(work, count)


if __name__ == "__main__":
    main()

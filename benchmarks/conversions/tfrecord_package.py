"""The `tfrecord` package (vahidk): its `TFRecordWriter`, as its README has it, then `sync -f`. It writes no index."""

# The first import starts the clock.
from measured import count_tfrecords, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import sys
from pathlib import Path

from tfrecord.writer import TFRecordWriter


def main() -> None:
    photos, out = photos_and_out()
    shards = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        for shard in range(shards):
            writer = TFRecordWriter(f"{out}/train-{shard:05d}-of-{shards:05d}.tfrecord")
            for path in paths[shard::shards]:
                writer.write(
                    {
                        "image": (path.read_bytes(), "byte"),
                        "filename": (path.name.encode(), "byte"),
                        "label": (labels[path.parent.name], "int"),
                    }
                )
            writer.close()
        sync(out)

    measure(work, lambda: count_tfrecords(Path(out).glob("*.tfrecord")))


if __name__ == "__main__":
    main()

"""WebDataset: `ShardWriter`, as its documentation creates a dataset, then `sync -f`."""

# The first import starts the clock.
from measured import measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import sys
import tarfile
from pathlib import Path

import webdataset


def main() -> None:
    photos, out = photos_and_out()
    shard_bytes = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        with webdataset.ShardWriter(f"{out}/train-%06d.tar", maxsize=shard_bytes, verbose=0) as writer:
            for path in paths:
                writer.write({"__key__": path.stem, "jpg": path.read_bytes(), "cls": labels[path.parent.name]})
        sync(out)

    def count() -> int:
        return sum(name.endswith(".jpg") for tar in Path(out).glob("*.tar") for name in tarfile.open(tar).getnames())

    measure(work, count)


if __name__ == "__main__":
    main()

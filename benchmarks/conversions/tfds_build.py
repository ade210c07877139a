"""TFDS: `download_and_prepare` of a builder of its own (nothing is downloaded), then `sync -f`."""

# The first import starts the clock.
from measured import count_tfrecords, measure, photos_and_out, sync  # isort: skip

from pathlib import Path

import tensorflow_datasets as tfds
from tfds_photos.builder import Photos


def main() -> None:
    photos, out = photos_and_out()

    def work() -> None:
        Photos.folder = Path(photos)
        builder = Photos(data_dir=out)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(try_download_gcs=False))
        sync(out)

    measure(work, lambda: count_tfrecords(Path(out).rglob("*.tfrecord-*")))


if __name__ == "__main__":
    main()

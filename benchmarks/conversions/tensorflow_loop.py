"""TensorFlow: one loop over `tf.io.TFRecordWriter`, as its TFRecord tutorial has it, then `sync -f`."""

# The first import starts the clock.
from measured import count_tfrecords, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import os
import sys
from pathlib import Path

import tensorflow as tf


def feature(value: bytes | int) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def main() -> None:
    photos, out = photos_and_out()
    shards = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        labels = photo_labels(paths)
        for shard in range(shards):
            with tf.io.TFRecordWriter(f"{out}/train-{shard:05d}-of-{shards:05d}.tfrecord") as writer:
                for path in paths[shard::shards]:
                    values = {
                        "image/encoded": feature(path.read_bytes()),
                        "image/filename": feature(os.fsencode(path.name)),
                        "image/class/label": feature(labels[path.parent.name]),
                    }
                    writer.write(tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString())
        sync(out)

    measure(work, lambda: count_tfrecords(Path(out).glob("*.tfrecord")))


if __name__ == "__main__":
    main()

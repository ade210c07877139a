# /// script
# dependencies = ["shardfeed", "tensorflow==2.21.0", "tensorflow-datasets==4.9.10", "importlib_resources",
#   "clu==0.0.12"]
# ///
"""TensorFlow's own readers, TFDS, Keras and clu."""

import tensorflow as tf
from program import Data, check, digest, main

import shardfeed

NAME, LABEL, IMAGE = "image/filename", "image/class/label", "image/encoded"
SPEC = {
    NAME: tf.io.FixedLenFeature([], tf.string),
    LABEL: tf.io.FixedLenFeature([], tf.int64),
    IMAGE: tf.io.FixedLenFeature([], tf.string),
}


def rows(dataset):
    for row in dataset.as_numpy_iterator():
        yield row[NAME].decode(), int(row[LABEL]), digest(row[IMAGE])


@check("tf.data", "tensorflow", "tf.data.TFRecordDataset(tf.data.Dataset.list_files('DIR/train*'))")
def plain(data: Data) -> None:
    files = tf.data.Dataset.list_files(data.glob("train*"))
    data.compare("train", rows(tf.data.TFRecordDataset(files).map(lambda x: tf.io.parse_single_example(x, SPEC))),
                 "name", "label", "bytes")  # fmt: skip


@check("tf.data", "tensorflow", "tf.data.experimental.make_batched_features_dataset('DIR/train*', ...)")
def batched(data: Data) -> None:
    made = tf.data.experimental.make_batched_features_dataset(data.glob("train*"), 16, SPEC, num_epochs=1, shuffle=True)
    data.compare("train", rows(made.unbatch()), "name", "label", "bytes")


@check("TFDS by folder", "tensorflow-datasets", "tfds.builder_from_directory('DIR').as_dataset('train')")
def tfds_folder(data: Data) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(data.folder())
    skip = {IMAGE: tfds.decode.SkipDecoding()}
    for split in ("train", "test"):
        data.compare(split, rows(builder.as_dataset(split=split, decoders=skip)), "name", "label", "bytes")
    image, label = next(iter(builder.as_dataset("train", as_supervised=True)))
    assert image.dtype == tf.uint8
    assert label.dtype == tf.int64
    parts = tfds.even_splits("train", 3)
    data.compare("train", [row for part in parts for row in rows(builder.as_dataset(split=part, decoders=skip))],
                 "name", "label", "bytes")  # fmt: skip


@check(
    "TFDS by name",
    "tensorflow-datasets",
    "tfds.load('photos', data_dir='ROOT')",
    "after `shardfeed convert ... ROOT/photos/1.0.0`",
)
def tfds_name(data: Data) -> None:
    import tensorflow_datasets as tfds

    made = tfds.load("photos", data_dir=str(data.root), split="train", decoders={IMAGE: tfds.decode.SkipDecoding()})
    data.compare("train", rows(made), "name", "label", "bytes")


@check("Keras `PyDataset`", "keras", "model.fit(a PyDataset over data['train'], ...)")
def keras_dataset(data: Data) -> None:
    import keras
    import numpy as np

    split = shardfeed.open(data.folder())["train"]
    seen = {}

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(split) // 8

        def __getitem__(self, number):
            records = [split[i] for i in range(8 * number, 8 * number + 8)]
            seen[number] = [record[NAME].decode() for record in records]  # Keras asks for the first one twice
            return np.zeros((8, 1), np.float32), np.array([record[LABEL] for record in records])

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(len(split.class_names), activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy")
    model.fit(Batches(workers=2), epochs=1, verbose=0, shuffle=False)
    data.compare("train", [name for names in seen.values() for name in names], "name")


@check("clu", "clu", "clu.deterministic_data.create_dataset(tfds.builder_from_directory('DIR'), split='train', ...)")
def clu(data: Data) -> None:
    import tensorflow_datasets as tfds
    from clu import deterministic_data

    builder = tfds.builder_from_directory(data.folder())
    made = deterministic_data.create_dataset(
        builder,
        split="train",
        batch_dims=[8],
        num_epochs=1,
        shuffle=False,
        decoders={IMAGE: tfds.decode.SkipDecoding()},
        preprocess_fn=lambda features: {key: features[key] for key in (NAME, LABEL, IMAGE)},
    )
    data.compare("train", rows(made.unbatch()), "name", "label", "bytes")


if __name__ == "__main__":
    main()

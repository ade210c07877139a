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


FLOATS = ("bbox/ymin", "bbox/xmin", "bbox/ymax", "bbox/xmax", "area")
POINTS = ("keypoint/x", "keypoint/y", "keypoint/visibility")


def objects_of(row, prefix="image/object/"):
    """Values that our checks compare, of a record of objects whose columns are lists."""
    columns = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
    sides = [columns[f"bbox/{key}"].tolist() for key in ("ymin", "xmin", "ymax", "xmax")]
    found = [
        row["image/source_id"].decode(), columns["class/label"].tolist(),
        [[round(side, 4) for side in box] for box in zip(*sides, strict=True)],
        columns["is_crowd"].tolist(), columns["area"].tolist(),
    ]  # fmt: skip
    if "mask" in columns:
        found.append([digest(mask) for mask in columns["mask"].tolist()])
        found.append([int(tf.reduce_sum(tf.cast(tf.io.decode_png(m), tf.int64))) for m in columns["mask"].tolist()])
    if "keypoint/x" in columns:
        lists = [columns[key].tolist() for key in POINTS]
        found.append([[round(x, 4), round(y, 4), seen] for x, y, seen in zip(*lists, strict=True)])
    return tuple(found)


OBJECT_KEYS = ("id", "objects", "boxes", "crowd", "area")
MASK_KEYS, POINT_KEYS = (*OBJECT_KEYS, "mask bytes", "mask sums"), (*OBJECT_KEYS, "key points")


@check(
    "tf.data, objects",
    "tensorflow",
    "tf.io.parse_example(records, {'image/object/bbox/xmin': tf.io.VarLenFeature(tf.float32), ...})",
    "uses the Object Detection API's keys without installing it; the API's class numbers start at 1, shardfeed's at 0",
)
def plain_objects(data: Data) -> None:
    spec = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/format": tf.io.FixedLenFeature((), tf.string, "jpeg"),
        "image/filename": tf.io.FixedLenFeature((), tf.string, ""),
        "image/key/sha256": tf.io.FixedLenFeature((), tf.string, ""),
        "image/source_id": tf.io.FixedLenFeature((), tf.string, ""),
        "image/height": tf.io.FixedLenFeature((), tf.int64, 1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, 1),
        **{f"image/object/{key}": tf.io.VarLenFeature(tf.float32) for key in FLOATS},
        **{f"image/object/{key}": tf.io.VarLenFeature(tf.int64) for key in ("class/label", "is_crowd")},
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
    }
    masks = {"image/object/mask": tf.io.VarLenFeature(tf.string)}
    points = {f"image/object/{key}": tf.io.VarLenFeature(tf.float32) for key in POINTS[:2]}
    points |= {f"image/object/{POINTS[2]}": tf.io.VarLenFeature(tf.int64)}
    for name, more, keys in (("scenes", masks, MASK_KEYS), ("people", points, POINT_KEYS)):
        found = []
        for batch in tf.data.TFRecordDataset(data.files("train", name)).batch(8):
            parsed = tf.io.parse_example(batch, spec | more)
            sparse = {key for key, value in parsed.items() if isinstance(value, tf.SparseTensor)}
            ragged = {key: tf.RaggedTensor.from_sparse(parsed[key]) for key in sparse}
            for number in range(len(batch)):
                row = {key: (ragged.get(key, parsed[key]))[number].numpy() for key in parsed}
                assert len(row["image/object/class/text"]) == len(row["image/object/class/label"])
                assert list(tf.io.decode_image(row["image/encoded"]).shape[:2]) == [
                    row["image/height"],
                    row["image/width"],
                ]
                found.append(objects_of(row))
        data.compare("train", found, *keys, name=name)


@check(
    "TFDS by folder, objects",
    "tensorflow-datasets",
    "tfds.builder_from_directory('DIR').as_dataset('train')",
    "each column is a `Sequence`; class names included; masks are PNGs",
)
def tfds_objects(data: Data) -> None:
    import tensorflow_datasets as tfds

    for name, keys in (("scenes", MASK_KEYS), ("people", POINT_KEYS)):
        builder = tfds.builder_from_directory(data.folder(name))
        names = builder.info.features["image/object/class/label"].feature.names
        assert names == {"scenes": ["circle", "square", "triangle"], "people": ["triangle"]}[name]
        found = []
        for row in builder.as_dataset("train").as_numpy_iterator():
            assert list(row[IMAGE].shape) == [row["image/height"], row["image/width"], 3]
            assert [names[label].encode() for label in row["image/object/class/label"]] == [
                *row["image/object/class/text"]
            ]
            found.append(objects_of(row))
        data.compare("train", found, *keys, name=name)


@check(
    "TFDS by folder, rasters",
    "tensorflow-datasets",
    "tfds.builder_from_directory('DIR').as_dataset('train')",
    "an `Image` of one channel; pixels equal Pillow's",
)
def tfds_rasters(data: Data) -> None:
    import tensorflow_datasets as tfds

    found = []
    for row in tfds.builder_from_directory(data.folder("ground")).as_dataset("train").as_numpy_iterator():
        raster = row["image/segmentation/class/encoded"]
        assert raster.shape == (*row[IMAGE].shape[:2], 1)
        found.append((row[NAME].decode(), digest(raster.tobytes())))
    data.compare("train", found, "name", "raster", name="ground")


if __name__ == "__main__":
    main()

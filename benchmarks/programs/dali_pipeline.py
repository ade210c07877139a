# /// script
# dependencies = ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6", "pillow==13.0.0"]
# ///
"""NVIDIA DALI on the CPU, with our indexes."""

import io

import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfr
from PIL import Image
from program import Data, check, digest, main


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def read(paths, indexes):
    features = {
        "image/encoded": tfr.FixedLenFeature((), tfr.string, ""),
        "image/filename": tfr.FixedLenFeature((), tfr.string, ""),
        "image/class/label": tfr.FixedLenFeature([1], tfr.int64, -1),
    }
    row = fn.readers.tfrecord(path=paths, index_path=indexes, features=features, name="reader")
    encoded = row["image/encoded"]
    image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    return encoded, image, row["image/filename"], row["image/class/label"]


@check(
    "NVIDIA DALI",
    "nvidia-dali-cuda120",
    "fn.readers.tfrecord(path=glob('DIR/train*'), index_path=glob('DIR/index/train*.tfindex'))",
    "on the CPU; pixels equal Pillow's",
)
def records(data: Data) -> None:
    for split in ("train", "validation"):
        paths = data.files(split)
        pipe = read(paths, [data.index_of(path) for path in paths])
        pipe.build()
        found = []
        for _ in range(pipe.epoch_size("reader")):
            encoded, image, name, label = pipe.run()
            content = bytes(encoded.at(0))
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")), image.at(0))
            found.append((bytes(name.at(0)).decode(), int(label.at(0)[0]), digest(content)))
        data.compare(split, found, "name", "label", "bytes")


OBJECTS = {  # key: type and value where there is none
    **{f"image/object/bbox/{side}": (tfr.float32, 0.0) for side in ("ymin", "xmin", "ymax", "xmax")},
    "image/object/class/label": (tfr.int64, -1),
    "image/object/is_crowd": (tfr.int64, -1),
    "image/object/area": (tfr.float32, 0.0),
}
POINTS = {
    "image/object/keypoint/x": (tfr.float32, 0.0),
    "image/object/keypoint/y": (tfr.float32, 0.0),
    "image/object/keypoint/visibility": (tfr.int64, 0),
}


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def read_columns(paths, indexes, columns):
    features = {"image/source_id": tfr.FixedLenFeature((), tfr.string, "")}
    features |= {key: tfr.VarLenFeature(*column) for key, column in columns.items()}
    row = fn.readers.tfrecord(path=paths, index_path=indexes, features=features, name="reader")
    return tuple(row[key] for key in features)


def columns_of(data, name, columns):
    """Rows of all records: the id, then a list for each column."""
    paths = data.files("train", name)
    pipe = read_columns(paths, [data.index_of(path) for path in paths], columns)
    pipe.build()
    count = pipe.epoch_size("reader")
    rows = []
    while len(rows) < count:
        batch = pipe.run()
        for number in range(4):
            ours, *lists = (np.asarray(column.at(number)) for column in batch)
            rows.append((ours.tobytes().decode(), *(column.tolist() for column in lists)))
    return rows[:count]


@check(
    "NVIDIA DALI, objects",
    "nvidia-dali-cuda120",
    "fn.readers.tfrecord(..., features={'image/object/bbox/xmin': tfr.VarLenFeature(tfr.float32, 0.0), ...})",
    "without masks and class names, because DALI refuses several strings per record",
)
def objects(data: Data) -> None:
    found = []
    for ours, *sides, labels, crowd, areas in columns_of(data, "scenes", OBJECTS):
        boxes = [[round(side, 4) for side in box] for box in zip(*sides, strict=True)]
        found.append((ours, labels, boxes, crowd, areas))
    data.compare("train", found, "id", "objects", "boxes", "crowd", "area", name="scenes")
    found = [
        (ours, [[round(x, 4), round(y, 4), seen] for x, y, seen in zip(*lists, strict=True)])
        for ours, *lists in columns_of(data, "people", POINTS)
    ]
    data.compare("train", found, "id", "key points", name="people")


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def read_rasters(paths, indexes):
    keys = ("image/filename", "image/segmentation/class/encoded")
    features = {key: tfr.FixedLenFeature((), tfr.string, "") for key in keys}
    row = fn.readers.tfrecord(path=paths, index_path=indexes, features=features, name="reader")
    return row[keys[0]], fn.decoders.image(row[keys[1]], device="cpu", output_type=types.GRAY)


@check(
    "NVIDIA DALI, rasters",
    "nvidia-dali-cuda120",
    "fn.decoders.image(row['image/segmentation/class/encoded'], output_type=types.GRAY)",
    "pixels equal Pillow's",
)
def rasters(data: Data) -> None:
    paths = data.files("train", "ground")
    pipe = read_rasters(paths, [data.index_of(path) for path in paths])
    pipe.build()
    found = []
    for _ in range(pipe.epoch_size("reader")):
        name, raster = pipe.run()
        found.append((bytes(name.at(0)).decode(), digest(raster.at(0).tobytes())))
    data.compare("train", found, "name", "raster", name="ground")


if __name__ == "__main__":
    main()

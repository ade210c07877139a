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


if __name__ == "__main__":
    main()

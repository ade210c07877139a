# /// script
# dependencies = ["ray[data]==2.60.0", "pandas==3.1.1", "tensorflow==2.21.0"]
# ///
"""Ray Data, which parses records by TensorFlow."""

import ray
from program import Data, check, digest, main


def rows(dataset):
    for row in dataset.iter_rows():
        yield row["image/filename"].decode(), row["image/class/label"], digest(row["image/encoded"])


@check("Ray Data", "ray", "ray.data.read_tfrecords(glob('DIR/train*'))")
def files(data: Data) -> None:
    data.compare("train", rows(ray.data.read_tfrecords(data.files("train"))), "name", "label", "bytes")


@check(
    "Ray Data, the whole folder",
    "ray",
    "ray.data.read_tfrecords('DIR', file_extensions=['tfrecord'])",
    "all splits together",
)
def folder(data: Data) -> None:
    found = sorted(rows(ray.data.read_tfrecords(data.folder(), file_extensions=["tfrecord"])))
    wanted = sorted(
        row for split in ("train", "validation", "test") for row in data.values(split, "name", "label", "bytes")
    )
    assert found == wanted
    data.note("photos", len(found), "name", "label", "bytes")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    main()

# /// script
# dependencies = ["apache-beam==2.77.0", "google-crc32c", "tfrecord==1.14.6"]
# ///
"""Apache Beam; the messages are parsed by the tfrecord package's own protobuf, so that no TensorFlow is needed."""

import json
import tempfile
from pathlib import Path

import apache_beam as beam
from program import Data, check, digest, main
from tfrecord import example_pb2


def row(record: bytes) -> tuple[str, int, str]:
    features = example_pb2.Example.FromString(record).features.feature
    image = features["image/encoded"].bytes_list.value[0]
    label = features["image/class/label"].int64_list.value[0]
    return features["image/filename"].bytes_list.value[0].decode(), label, digest(image)


@check("Apache Beam", "apache-beam", "beam.io.ReadFromTFRecord('DIR/train*')")
def records(data: Data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline("DirectRunner") as pipeline:
            _ = (
                pipeline
                | beam.io.ReadFromTFRecord(data.glob("train*"))
                | beam.Map(row)
                | beam.Map(json.dumps)
                | beam.io.WriteToText(f"{folder}/rows")
            )
        lines = [line for path in Path(folder).iterdir() for line in path.read_text().splitlines()]
    data.compare("train", [tuple(json.loads(line)) for line in lines], "name", "label", "bytes")


if __name__ == "__main__":
    main()

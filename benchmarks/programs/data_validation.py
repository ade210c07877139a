# /// script
# dependencies = ["tensorflow-data-validation==1.16.1", "tensorflow==2.16.2", "apache-beam[gcp]==2.60.0",
#   "setuptools<81"]
# ///
"""TensorFlow Data Validation, with the versions that it can be installed with."""

import tensorflow_data_validation as tfdv
from program import Data, check, main


@check(
    "TensorFlow Data Validation",
    "tensorflow-data-validation",
    "tfdv.generate_statistics_from_tfrecord('DIR/train*'), infer_schema, validate_statistics",
)
def statistics(data: Data) -> None:
    made = tfdv.generate_statistics_from_tfrecord(data.glob("train*"))
    schema = tfdv.infer_schema(made)
    assert not tfdv.validate_statistics(made, schema).anomaly_info
    (dataset,) = made.datasets
    labels = next(f for f in dataset.features if f.path.step == ["image/class/label"])
    wanted = data.values("train", "label")
    assert dataset.num_examples == len(wanted)
    assert round(labels.num_stats.mean * len(wanted)) == sum(wanted)
    data.note("photos/train", int(dataset.num_examples), "count")


if __name__ == "__main__":
    main()

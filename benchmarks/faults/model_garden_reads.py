# /// script
# dependencies = ["tf-models-official==2.20.0", "setuptools<81"]
# ///
"""TensorFlow Model Garden's create_coco_tf_record.py, in this process; with masks where they are what is at fault."""

import os
import tempfile
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

from reading import main


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Images and objects of the records that it writes."""
    import tensorflow as tf
    from absl import flags, logging
    from official.vision.data import create_coco_tf_record as script

    assert form == "COCO"
    logging.set_verbosity(logging.INFO)
    flags.FLAGS(["create_coco_tf_record", "--num_processes=0"])
    annotations = str(folder / "annotations/instances_train.json")
    with tempfile.TemporaryDirectory() as here:
        prefix, images = os.path.join(here, "out"), [str(folder / "images/train")]
        script._create_tf_record_from_coco_annotations(annotations, images, prefix, 1, annotations, include_masks=masks)
        records = objects = 0
        for record in tf.data.TFRecordDataset(tf.io.gfile.glob(prefix + "*")).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            records += 1
            objects += len(features["image/object/bbox/xmin"].float_list.value)
    return records, objects


if __name__ == "__main__":
    main(read, ("COCO",))

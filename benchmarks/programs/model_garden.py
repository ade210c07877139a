# /// script
# dependencies = ["tf-models-official==2.20.0", "setuptools<81"]
# ///
"""TensorFlow Model Garden: classification and detection."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
from program import Data, check, main

PACKAGE = "tf-models-official"


@check(
    "Model Garden, classification",
    PACKAGE,
    "classification_input.Parser, configs with input_path='DIR/train*'",
    "JPEG records; PNGs with decode_jpeg_only=False",
)
def classification(data: Data) -> None:
    from official.core import input_reader
    from official.vision.configs import image_classification as config
    from official.vision.dataloaders import classification_input

    for split, training in (("train", True), ("validation", False), ("test", False)):
        params = config.DataConfig(
            input_path=data.glob(f"{split}*"),
            global_batch_size=1,
            is_training=training,
            cycle_length=2,
            drop_remainder=False,
            shuffle_buffer_size=64,
        )
        decoder = classification_input.Decoder()
        parser = classification_input.Parser(output_size=[32, 32], num_classes=1000)
        reader = input_reader.InputReader(
            params,
            dataset_fn=tf.data.TFRecordDataset,
            decoder_fn=decoder.decode,
            parser_fn=parser.parse_fn(training),
        )
        count = len(data.values(split, "label"))
        labels = [int(label[0]) for images, label in reader.read().take(count if training else -1)]
        if training:  # without end, and shuffled across epochs: it may show one twice before another
            assert set(labels) <= set(data.values(split, "label"))
            continue
        data.compare(split, labels, "label")


@check(
    "Model Garden, detection",
    PACKAGE,
    "TfExampleDecoder().decode over the records of 'DIR/train*'",
    "Mask R-CNN takes class 0 for background: name one such class first",
)
def detection(data: Data) -> None:
    from official.vision.dataloaders.tf_example_decoder import TfExampleDecoder

    decoder = TfExampleDecoder()
    found = []
    for record in tf.data.TFRecordDataset(tf.data.Dataset.list_files(data.glob("train*", "boxes"))):
        made = decoder.decode(record)
        boxes = [[round(float(side), 4) for side in box] for box in made["groundtruth_boxes"]]
        found.append((made["groundtruth_classes"].numpy().tolist(), boxes))
    data.compare("train", found, "objects", "boxes", name="boxes")


if __name__ == "__main__":
    main()

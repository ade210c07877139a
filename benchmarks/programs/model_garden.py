# /// script
# dependencies = ["tf-models-official==2.20.0", "setuptools<81"]
# ///
"""TensorFlow Model Garden: classification and detection."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
from program import Data, check, digest, main

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
    "Mask R-CNN treats class 0 as background: add a background class first",
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


@check(
    "Model Garden, instance masks",
    PACKAGE,
    "TfExampleDecoder(include_mask=True).decode over the records of 'DIR/train*'",
    "`mask pixels` are compared with Pillow's",
)
def instance_masks(data: Data) -> None:
    from official.vision.dataloaders.tf_example_decoder import TfExampleDecoder

    decoder = TfExampleDecoder(include_mask=True)
    found = []
    for record in tf.data.TFRecordDataset(data.files("train", "scenes")):
        made = {key: value.numpy() for key, value in decoder.decode(record).items()}
        masks = made["groundtruth_instance_masks"].astype("uint8")
        size = [int(made["height"]), int(made["width"])]
        assert list(masks.shape[1:]) == size == list(made["image"].shape[:2])
        found.append((
            made["source_id"].decode(), size, made["groundtruth_classes"].tolist(),
            [[round(side, 4) for side in box] for box in made["groundtruth_boxes"].tolist()],
            made["groundtruth_is_crowd"].astype(int).tolist(), made["groundtruth_area"].tolist(),
            [int(mask.sum()) for mask in masks], [digest(mask.tobytes()) for mask in masks],
        ))  # fmt: skip
    keys = ("id", "size", "objects", "boxes", "crowd", "area", "mask sums", "mask pixels")
    data.compare("train", found, *keys, name="scenes")


@check(
    "Model Garden, segmentation",
    PACKAGE,
    "segmentation_input.Decoder, Parser over the records of 'DIR/train*'",
    "its `ignore_label` and shardfeed's void are both 255",
)
def segmentation(data: Data) -> None:
    from official.vision.dataloaders import segmentation_input

    decoder = segmentation_input.Decoder()
    parser = segmentation_input.Parser([128, 128], resize_eval_groundtruth=False, groundtruth_padded_size=[128, 128])
    parse = parser.parse_fn(is_training=False)
    found = []
    for record in tf.data.TFRecordDataset(data.files("train", "ground")):
        decoded = decoder.decode(record)
        height, width = int(decoded["image/height"]), int(decoded["image/width"])
        raster = parse(decoded)[1]["masks"].numpy().astype("uint8")[..., 0]
        assert (raster[height:] == 255).all()
        assert (raster[:, width:] == 255).all()
        found.append(([height, width], digest(raster[:height, :width].tobytes())))
    data.compare("train", found, "size", "raster", name="ground")


if __name__ == "__main__":
    main()

# /// script
# dependencies = ["shardfeed[tensorflow]", "keras-hub==0.32.0"]
# ///
"""KerasHub's RetinaNet, on the CPU: what its label encoder makes of our batches, and `fit` on them."""

import keras
import numpy as np
import tensorflow as tf
from program import Data, check, main

import shardfeed
from shardfeed.pipelines import boxes_to_source, detection, letterbox, make_batches

SIDE = 128


def retina_net(classes):
    """A small one, with weights drawn at random."""
    from keras_hub.models import ResNetBackbone, RetinaNetBackbone, RetinaNetObjectDetector

    encoder = ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64, 64, 64, 64],
        stackwise_num_blocks=[1, 1, 1, 1],
        stackwise_num_strides=[1, 2, 2, 2],
        block_type="basic_block",
        image_shape=(SIDE, SIDE, 3),
    )
    backbone = RetinaNetBackbone(encoder, min_level=3, max_level=5, use_p5=False, image_shape=(SIDE, SIDE, 3))
    return RetinaNetObjectDetector(backbone, classes, bounding_box_format="yxyx", pre_logits_num_conv_layers=1)


def pixels(batch):
    return tf.cast(batch["images"], tf.float32) / 255


def anchored(model, images, targets):
    """Yield the boxes (yxyx in pixels) and labels that the label encoder assigned to anchors, image by image."""
    deltas, labels = model.label_encoder(images, targets["boxes"], targets["labels"])
    boxes = keras.utils.bounding_boxes.decode_deltas_to_boxes(
        anchors=np.concatenate([np.asarray(level) for level in model.anchor_generator(images).values()]),
        boxes_delta=deltas,
        encoded_format="center_xywh",
        anchor_format="yxyx",
        box_format="yxyx",
        image_shape=(SIDE, SIDE, 3),
    )
    for its_boxes, its_labels in zip(np.asarray(boxes), np.asarray(labels), strict=True):
        given = its_labels >= 0
        yield its_boxes[given], its_labels[given]


@check(
    "KerasHub `RetinaNetObjectDetector`",
    "keras-hub",
    'model.fit(make_batches(data["train"], detection(letterbox(128), boxes="yxyx"), ...))',
    "a `batch_transform` returns (images, bounding_boxes); boxes and labels are compared after its "
    "label encoder has assigned them to anchors",
)
def retinanet(data: Data) -> None:
    keras.utils.set_random_seed(7)
    split = shardfeed.open(data.folder("scenes"))["train"]
    model = retina_net(len(split.schema.class_names["image/object/class/label"]))
    transform = detection(letterbox(SIDE), boxes="yxyx", max_objects=8, image_id=True)
    expected = {row[0]: row[1:] for row in data.values("train", "id", "size", "objects", "boxes", name="scenes")}
    found = []
    matcher = model.label_encoder.box_matcher
    matcher.force_match_for_each_col = True  # an anchor for each box, so that each can be compared
    for batch in make_batches(split, transform, batch_size=4):
        each = anchored(model, pixels(batch), batch["bounding_boxes"])
        for (boxes, labels), number, scale, offset in zip(
            each, batch["image_id"].numpy(), batch["scale"], batch["offset"], strict=True
        ):
            size, objects, sides = expected[str(number)]
            wanted = np.array(sides).reshape(-1, 4) * [*size, *size]
            stored = np.asarray(boxes_to_source(boxes[:, [1, 0, 3, 2]], scale, offset))[:, [1, 0, 3, 2]]
            same = (abs(stored[:, None] - wanted) < 0.1).all(-1) & (labels[:, None] == objects)  # 0.1 pixel
            assert same.any(1).all(), (number, labels, stored, objects, wanted)
            seen = np.flatnonzero(same.any(0))
            found.append((str(number), [objects[i] for i in seen], [sides[i] for i in seen]))
    data.compare("train", found, "id", "objects", "boxes", name="scenes")

    matcher.force_match_for_each_col = False  # as it comes
    batches = make_batches(
        split,
        transform,
        batch_size=4,
        batch_transform=lambda batch, seed: (pixels(batch), batch["bounding_boxes"]),
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.001),
        box_loss=keras.losses.Huber(reduction="sum"),
        classification_loss=keras.losses.BinaryFocalCrossentropy(from_logits=True, reduction="sum"),
    )
    losses = model.fit(batches, epochs=2, verbose=0).history["loss"]
    assert np.isfinite(losses).all(), losses
    assert losses[1] < losses[0], losses
    data.note("scenes/train", len(found), "trained")


if __name__ == "__main__":
    main()

"""The next steps that a command prints: Python that trains on a dataset of any kind, and shell commands."""

from shardfeed.annotations import CAPTION, OBJECT_LABEL, OBJECT_MASK
from shardfeed.manifest import Manifest
from shardfeed.schema import FILENAME, IMAGE_KEYS, LABEL, RESTARTS, Schema
from shardfeed.text import in_usual_order, shell_quoted

_SIZE = 224  # pixels
_BATCH = 32
_PAD = -1  # no label


def training_lines(
    out: str,
    schema: Schema,
    split: str,
    records: int,
    *,
    batch_size: int = _BATCH,
    image_size: int = _SIZE,
    order: str | None = None,
) -> list[str]:
    """Lines of Python that make training batches of the dataset `out`, for any kind of labels.

    `split` has `records` samples: an epoch of fewer than a batch would have none.
    """
    batch = min(batch_size, records)
    if order is None and RESTARTS in schema.features:
        order = "global"  # a stream decodes seekable JPEGs whole
    ordered = "" if order is None else f", order={order!r}"
    numbers = [key for key in schema.features if key not in IMAGE_KEYS and schema.features[key].dtype != "bytes"]
    single = [key for key in numbers if schema.features[key].scalar]
    single += schema.of_kind("tags")  # a vector of each set
    ragged = [key for key in numbers if schema.features[key].ragged]
    opening = [f"data = shardfeed.open({out!r})"]
    name, options = "segmentation" if schema.raster is not None else "", ""
    if OBJECT_LABEL in schema.object_keys:
        flips = schema.keypoints is not None and bool(schema.keypoints.flip)
        there = {"masks": OBJECT_MASK in schema.features, "keypoints": flips}
        name, options = "detection", "".join(f", {what}=True" for what, has in there.items() if has)
    if name:  # which transforms an image with its annotations
        return [
            "import shardfeed",
            f"from shardfeed.pipelines import {name}, make_batches, random_resized_crop",
            *opening,
            f"transform = {name}(random_resized_crop({image_size}, area=(0.3, 1.0)){options})",
            f"train = make_batches(data[{split!r}], transform, batch_size={batch}{ordered})",
        ]
    if single and not schema.of_kind("place"):
        label = "" if LABEL in single else f", label={sorted(single)[0]!r}"
        sizes = f"batch_size={batch}, image_size={image_size}"
        made = f"train = shardfeed.train_batches(data[{split!r}], {sizes}{label}{ordered})"
        return ["import shardfeed", *opening, made]
    # A crop would cut boxes off; letterbox shows the whole image, and boxes stay those of the image.
    transform = "letterbox" if schema.of_kind("place") else "random_resized_crop"
    keys = sorted(numbers)
    labels = f"features[{keys[0]!r}]" if len(keys) == 1 else f"{{key: features[key] for key in {keys}}}"
    caption = not keys and CAPTION in schema.features
    if caption:
        labels = "draw_caption(features, seed)"
    made = f"(image(features, seed), {labels})" if keys or caption else "image(features, seed)"
    return [
        "import shardfeed",
        f"from shardfeed.pipelines import {'draw_caption, ' * caption}{transform}, make_batches",
        f"image = {transform}({image_size})",
        *opening,
        "train = make_batches(",
        f"    data[{split!r}],",
        f"    lambda features, seed: {made},",
        f"    batch_size={batch}{ordered},",
        *([f"    pad={_PAD},  # fills samples that have fewer"] if ragged else []),
        ")",
    ]


def next_steps(out: str, manifest: Manifest) -> str:
    """Lines of Python and a command to use a dataset that has just been made."""
    split = in_usual_order(manifest.splits)[0]
    lines = training_lines(out, manifest.schema, split, manifest.splits[split].records)
    schema = manifest.schema
    rest = schema.features.keys() - IMAGE_KEYS - {*schema.of_kind("text"), *schema.of_kind("bytes")}
    if FILENAME in schema.features and CAPTION not in schema.features and not rest:
        lines = [
            "import shardfeed",
            f"data = shardfeed.open({out!r})",
            f"batches = shardfeed.predict_batches(data[{split!r}], batch_size={_BATCH}, image_size={_SIZE})",
            "for images, names in batches:  # each image once, cropped at its center, with its file name",
            "    ...",
        ]
    python = "\n".join(f"  {line}" for line in lines)
    return f"\nnext, in Python:\n{python}\nor look at it:\n  shardfeed preview {shell_quoted(out)} -o sheet.png"

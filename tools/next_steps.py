"""The next steps that a command prints: Python that trains on a dataset of any kind, and shell commands."""

from importlib.util import find_spec

from shardfeed.annotations import CAPTION, OBJECT_LABEL, OBJECT_MASK
from shardfeed.manifest import Manifest
from shardfeed.schema import FILENAME, IMAGE_KEYS, LABEL, RESTARTS, Schema
from shardfeed.text import in_usual_order, shell_quoted

_SIZE = 224  # pixels
_BATCH = 32
_PAD = -1  # no label
# A framework -> what makes its batches: of images and labels, with a transform, of images and file names.
_FEEDS = {
    "tensorflow": ("train_batches", "make_batches", "predict_batches"),
    "torch": ("torch_loader", "torch_loader", "torch_predict_loader"),
    "": ("array_batches", "array_batches", "eval_array_batches"),
}


def training_lines(
    out: str,
    schema: Schema,
    split: str,
    records: int,
    *,
    batch_size: int = _BATCH,
    image_size: int = _SIZE,
    order: str | None = None,
    framework: str = "tensorflow",
) -> list[str]:
    """Lines of Python that make training batches of the dataset `out`, for any kind of labels.

    `split` has `records` samples: an epoch of fewer than a batch would have none. `framework`: "tensorflow", "torch",
    or "" for neither.
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
    batches, maker, _ = _FEEDS[framework]
    package = "shardfeed.pipelines" + (".torch" if framework == "torch" else "")
    sizes = f"batch_size={batch}, image_size={image_size}"
    name, targets = "segmentation" if schema.raster is not None else "", ["raster"]
    if OBJECT_LABEL in schema.object_keys:
        flips = schema.keypoints is not None and bool(schema.keypoints.flip)
        there = {"masks": OBJECT_MASK in schema.features, "keypoints": flips}
        name, targets = "detection", ["boxes", *(what for what, has in there.items() if has)]
    keys = sorted(numbers)
    caption = not keys and CAPTION in schema.features
    placed = bool(schema.of_kind("place"))  # a crop would cut boxes off, a letterbox shows the whole image
    labelled = bool(single) and not (name or placed)
    if labelled or not framework:
        if labelled:
            wanted = "" if LABEL in single else f", label={min(single)!r}"
        else:
            wanted = f", targets={targets}" if name else f", features={keys or [CAPTION] * caption}"
            wanted += ", letterbox=True" if placed and not name else ""
        made = f"train = shardfeed.{batches}(data[{split!r}], {sizes}{wanted}{ordered})"
        return ["import shardfeed", *opening, made]
    crop = "letterbox" if placed and not name else "random_resized_crop"
    if name:  # which transforms an image with its annotations
        options = "".join(f", {what}=True" for what in targets if what in ("masks", "keypoints"))
        transform = [f"transform = {name}(random_resized_crop({image_size}, area=(0.3, 1.0)){options})"]
    else:
        labels = f"features[{keys[0]!r}]" if len(keys) == 1 else f"{{key: features[key] for key in {keys}}}"
        labels = "draw_caption(features, seed)" if caption else labels
        made = f"image(features, seed), {labels}" if keys or caption else "image(features, seed)"
        transform = [f"image = {crop}({image_size})", "def transform(features, seed):", f"    return {made}"]
    pad = f", pad={_PAD}" if ragged and not name else ""  # of samples that have fewer
    return [
        "import shardfeed",
        f"from {package} import {', '.join([*[name] * bool(name), *['draw_caption'] * caption, crop, maker])}",
        *transform,
        *opening,
        f"train = {maker}(data[{split!r}], transform=transform, batch_size={batch}{pad}{ordered})",
    ]


def next_steps(out: str, manifest: Manifest) -> str:
    """Lines of Python and a command to use a dataset that has just been made."""
    split = in_usual_order(manifest.splits)[0]
    framework = next((each for each in ("tensorflow", "torch") if find_spec(each)), "")
    lines = training_lines(out, manifest.schema, split, manifest.splits[split].records, framework=framework)
    schema = manifest.schema
    rest = schema.features.keys() - IMAGE_KEYS - {*schema.of_kind("text"), *schema.of_kind("bytes")}
    if FILENAME in schema.features and CAPTION not in schema.features and not rest:
        options, one = ("", "images, names") if framework else (f", features=[{FILENAME!r}]", "batch")
        made = f"shardfeed.{_FEEDS[framework][2]}(data[{split!r}], batch_size={_BATCH}, image_size={_SIZE}{options})"
        lines = [
            "import shardfeed",
            f"data = shardfeed.open({out!r})",
            f"batches = {made}",
            f"for {one} in batches:  # each image once, cropped at its center, with its file name",
            "    ...",
        ]
    python = "\n".join(f"  {line}" for line in lines)
    return f"\nnext, in Python:\n{python}\nor look at it:\n  shardfeed preview {shell_quoted(out)} -o sheet.png"

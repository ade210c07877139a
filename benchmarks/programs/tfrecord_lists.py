# /// script
# dependencies = ["tfrecord==1.14.6", "numpy==2.4.6"]
# ///
"""The `tfrecord` package without PyTorch: columns of objects, as lists of floats, ints and bytes."""

from program import Data, check, digest, main

OBJECT = "image/object/"
COLUMNS = {
    "image/source_id": "byte",
    **{f"{OBJECT}bbox/{side}": "float" for side in ("ymin", "xmin", "ymax", "xmax")},
    f"{OBJECT}class/label": "int",
    f"{OBJECT}is_crowd": "int",
    f"{OBJECT}area": "float",
}
POINTS = {f"{OBJECT}keypoint/x": "float", f"{OBJECT}keypoint/y": "float", f"{OBJECT}keypoint/visibility": "int"}


def rows(data, name, more):
    """Yield for each record the lists of COLUMNS, then those of `more`; a column of bytes as it comes."""
    from tfrecord.reader import tfrecord_loader

    for path in data.files("train", name):
        for row in tfrecord_loader(path, data.index_of(path), COLUMNS | more, shard=(0, 1)):
            ours, *sides, labels, crowd, areas = (row[key] for key in COLUMNS)
            boxes = [[round(side, 4) for side in box] for box in zip(*(side.tolist() for side in sides), strict=True)]
            found = (bytes(ours).decode(), labels.tolist(), boxes, crowd.tolist(), areas.tolist())
            yield *found, *(row[key] for key in more)


@check(
    "tfrecord (vahidk), objects",
    "tfrecord",
    "tfrecord_loader(shard, index, {'image/object/bbox/xmin': 'float', ...})",
    "one mask is read as `bytes`, several as an array of `bytes`",
)
def objects(data: Data) -> None:
    found = []
    for *row, masks in rows(data, "scenes", {f"{OBJECT}mask": "byte"}):
        masks = [masks] if isinstance(masks, bytes) else masks.tolist()
        found.append((*row, [digest(mask) for mask in masks]))
    keys = ("id", "objects", "boxes", "crowd", "area")
    data.compare("train", found, *keys, "mask bytes", name="scenes")
    found = []
    for *row, x, y, seen in rows(data, "people", POINTS):
        points = zip(x.tolist(), y.tolist(), seen.tolist(), strict=True)
        found.append((*row, [[round(x, 4), round(y, 4), seen] for x, y, seen in points]))
    data.compare("train", found, *keys, "key points", name="people")


if __name__ == "__main__":
    main()

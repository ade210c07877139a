"""`shardfeed inspect DIR`: a summary of a dataset, and with options every detail and some records."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np

import shardfeed
from shardfeed.annotations import OBJECT_LABEL
from shardfeed.declared import Range, Typed, checked
from shardfeed.errors import escape, name_text
from shardfeed.pipelines.orders.choose_order import image_sides
from shardfeed.pipelines.orders.shapes import fits
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, WIDTH, Schema
from shardfeed.text import in_usual_order, listing, number, table
from shardfeed.tools.arguments import command
from shardfeed.tools.convert_report import feature_table
from shardfeed.tools.dataset_summary import summary
from shardfeed.tools.image_sizes import ImageSize, image_sizes, read_shapes, shapes_text, sizes_text
from shardfeed.tools.object_counts import counts_text, object_counts

_BYTES_SHOWN = 64  # a SHA-256 in hexadecimal digits is shown whole


@checked
def inspect(
    dataset: Annotated[str, Typed("dataset directory")],
    *,
    records: Annotated[int, Range(0), Typed("records to show per split (default 0)", "N")] = 0,
    details: Annotated[bool, Typed("also show classes per split, features, large images")] = False,
    shapes: Annotated[
        str | None, Typed("show what batches of these shapes cut away; or HxW/STEP: of one area", "HxW,...")
    ] = None,
    as_json: Annotated[bool, Typed("print as JSON", flag="json")] = False,
) -> int:
    """Print the dataset's description; exit code 0."""
    data = shardfeed.open(dataset)
    sizes = [] if shapes is None else read_shapes(shapes)
    if as_json:
        shown = description(data, records)
        for name in shown["splits"] if sizes else ():
            shown["splits"][name]["shapes"] = [each._asdict() for each in fits(*image_sides(data[name]), sizes)]
        print(json.dumps(shown))
        return 0
    for line in summary(data, details=details):
        print(line)
    if details:
        _print_details(data)
    for name in in_usual_order(data.manifest.splits) if sizes else ():
        sides = image_sides(data[name])
        print(f"shapes of {name}:\n{shapes_text(fits(*sides, sizes), *fits(*sides, [(1, 1)]))}")
    for name in in_usual_order(data.manifest.splits):
        split = data[name]
        for i in range(min(records, len(split))):
            print(f"{name}[{i}]:")
            print(table([[key, str(value)] for key, value in sorted(_shown(split[i]).items())]))
    return 0


add_arguments, run = command(inspect)


def description(data: Dataset, records: int) -> dict[str, Any]:
    """The full output of `inspect` as a JSON value; bytes features as their length and first characters."""
    manifest = data.manifest
    splits: dict[str, Any] = {}
    for name, info in manifest.splits.items():
        split = data[name]
        objects, sizes = object_counts(split), image_sizes(split, info)
        splits[name] = {
            "records": info.records,
            "bytes": info.size,
            "shards": len(info.shards),
            "class_counts": {key: list(counts) for key, counts in info.class_counts.items()},
            "formats": dict(info.formats),
            "sizes": None if sizes is None else {**asdict(sizes), "expensive": [*map(_image_json, sizes.expensive)]},
            "objects": None if objects is None else asdict(objects),
            "first": [_shown(split[i]) for i in range(min(records, len(split)))],
        }
    return {
        "name": manifest.name,
        "features": manifest.schema.to_json(),
        "splits": splits,
        "options": dict(manifest.options),
        "rejected": dict(manifest.rejected),
        "made_by": dict(manifest.made_by),
        "fingerprint": manifest.fingerprint,
    }


def _image_json(image: ImageSize) -> dict[str, Any]:
    return {**asdict(image), "filename": name_text(image.filename)}


def _expensive_row(image: ImageSize) -> list[str]:
    return [f"{image.width}x{image.height}", image.format, f"{image.decode_s * 1e3:,.0f} ms", escape(image.filename)]


def _shown(record: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: _shown_value(value) for key, value in record.items()}
    if record.get(FORMAT) == b"raw":
        shown[ENCODED] = f"<{len(record[ENCODED])} bytes, uint8 [{record[HEIGHT]}, {record[WIDTH]}, 3]>"
    return shown


def _shown_value(value: Any) -> Any:
    if isinstance(value, bytes):
        if len(value) > _BYTES_SHOWN or b"\0" in value:
            return f"<{len(value)} bytes>"
        return escape(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_shown_value(item) for item in value] if isinstance(value, list) else value


def _print_details(data: Dataset) -> None:
    manifest = data.manifest
    names = in_usual_order(manifest.splits)
    for name in names:
        sizes = image_sizes(data[name], manifest.splits[name])
        if sizes is not None:
            print(f"pixels of {name}: {sizes_text(sizes)}")
            print(table([_expensive_row(image) for image in sizes.expensive]))
        objects = object_counts(data[name])
        if objects is not None:
            print(f"objects of {name}: {counts_text(objects)}")
    for key in (manifest.schema.key(LABEL) or LABEL, OBJECT_LABEL):
        if key in manifest.schema.class_names:
            _print_classes(data, key, names)
    for line in meanings(manifest.schema):
        print(line)
    print(feature_table(manifest.schema))


def _print_classes(data: Dataset, key: str, splits: list[str]) -> None:
    """Each class with its count in each split, and its number in the source if that differs."""
    schema = data.manifest.schema
    classes, ids = schema.class_names[key], schema.class_ids.get(key, ())
    print(f"{number(len(classes), 'class', 'classes')} of {escape(key)}:")
    counts = [data.manifest.splits[name].class_counts[key] for name in splits]
    rows: list[list[object]] = [["label", *(["id"] if ids else []), "class", *splits]]
    for label, name in enumerate(classes):
        rows.append([label, *([ids[label]] if ids else []), escape(name), *(of_split[label] for of_split in counts)])
    print(table(rows))


def meanings(schema: Schema) -> list[str]:
    """Describe the keypoints and the class values of rasters, one line each, if records have any."""
    lines = []
    if schema.keypoints is not None:
        points = schema.keypoints
        mirrored = "" if points.flip else "; left and right are not paired, so they cannot be flipped"
        names = listing([escape(name) for name in points.names], shown=40)
        lines.append(f"{number(len(points.names), 'key point')} per object: {names}{mirrored}")
    if schema.raster is not None:
        names = listing([f"{value} {escape(name)}" for value, name in enumerate(schema.raster.class_names)], shown=40)
        void = "no void" if schema.raster.void is None else f"{schema.raster.void} is void"
        lines.append(f"{number(len(schema.raster.class_names), 'pixel class', 'pixel classes')}: {names}; {void}")
    return lines

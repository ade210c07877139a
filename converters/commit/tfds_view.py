"""The files by which TensorFlow Datasets reads a dataset: its description, its features, and the names of classes."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardfeed.annotations import RASTER
from shardfeed.converters.images.options import ImageOptions
from shardfeed.manifest import SplitInfo
from shardfeed.naming import label_names_file
from shardfeed.schema import ENCODED, LABEL, PNG16, Feature, Schema

# Formats with shards that TFDS reads, and its names for them: a record is an Example in both.
TFDS_FORMATS = {"tfrecord": "tfrecord", "arrayrecord": "array_record"}
_NAME_BYTES = 240  # of a file name; a file system takes 255, and a file being written has a suffix


def tfds_files(
    name: str, schema: Schema, splits: Mapping[str, SplitInfo], image: ImageOptions | None = None, to: str = "tfrecord"
) -> dict[str, bytes]:
    """File name -> content of TFDS's view of a dataset whose images were stored as `image` says (default: as files).

    `to`: the format of its shards, one of TFDS_FORMATS.

    `name`: NAME, or NAME/VERSION.
    """
    deep = {kind for split in splits.values() for kind in split.formats} == {PNG16}
    features = {key: _feature(key, schema, image or ImageOptions(), deep) for key in sorted(schema.features)}
    described = _of_class("features_dict.FeaturesDict", featuresDict={"features": features})
    return {
        "dataset_info.json": _json(_dataset_info(name, schema, splits, TFDS_FORMATS[to])),
        "features.json": _json(described),
        **_class_name_files(schema),
    }


def _class_name_files(schema: Schema) -> dict[str, bytes]:
    """The file of class names of each label feature. A label without one has numbers in TFDS."""
    files: dict[str, bytes] = {}
    # `image/a.b` and `image/a/b` share one: then neither has names, but numbers.
    features_of_file = Counter(map(label_names_file, schema.class_names))
    for key, names in schema.class_names.items():
        file = label_names_file(key)
        possible = features_of_file[file] == 1 and len(file.encode()) <= _NAME_BYTES
        if possible and all(map(_is_kept_as_line, names)):
            files[file] = "".join(f"{text}\n" for text in names).encode()
    return files


def _is_kept_as_line(text: str) -> bool:
    """Whether TFDS, which strips each line, reads this name back from a line of UTF-8 of its own."""
    encodable = not any("\ud800" <= character <= "\udfff" for character in text)
    return bool(text) and "\n" not in text and text.strip() == text and encodable


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _dataset_info(name: str, schema: Schema, splits: Mapping[str, SplitInfo], format: str) -> dict[str, Any]:
    name, _, version = name.partition("/")
    info: dict[str, Any] = {
        "name": name,
        "version": version or "1.0.0",
        "fileFormat": format,
        "splits": [
            {
                "name": split.name,
                "shardLengths": list(map(str, split.shards.records.tolist())),
                "numBytes": str(split.size),
                "filepathTemplate": "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
            }
            for split in splits.values()
        ],
    }
    image, label = schema.key(ENCODED), schema.key(LABEL)
    if image is not None and label is not None:
        pair = [{"featureKey": image}, {"featureKey": label}]
        info["supervisedKeys"] = {"tuple": {"items": pair}}
    return info


def _of_class(name: str, **content: Any) -> dict[str, Any]:
    """A feature of one of TFDS's classes."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{name}", **content}


def _feature(key: str, schema: Schema, image: ImageOptions, deep: bool) -> dict[str, Any]:
    if key == schema.key(ENCODED) and schema.kind(key) == "image":
        return _image_feature(image, deep)
    if schema.raster is not None and key == RASTER:
        # One channel: if asked for three, a decoder would add two.
        of_mask = {"shape": {"dimensions": ["-1", "-1", "1"]}, "dtype": f"uint{schema.raster.bits}"}
        return _of_class("image_feature.Image", image={**of_mask, "encodingFormat": "png"})
    return _value_feature(key, schema)


def _image_feature(image: ImageOptions, deep: bool) -> dict[str, Any]:
    if image.encode != "raw":
        # No encodingFormat: it would name one of the two formats, and TFDS decodes either by its content.
        of_file = {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint16" if deep else "uint8"}
        return _of_class("image_feature.Image", image=of_file)
    if image.shape is None:
        # TFDS needs the shape of such a tensor under a separate key: here it is bytes, to be reshaped by the height and
        # width of the record.
        return _scalar(Feature("bytes"))
    dimensions = {"dimensions": [*map(str, image.shape), "3"]}
    return _of_class("tensor_feature.Tensor", tensor={"shape": dimensions, "dtype": "uint8", "encoding": "bytes"})


def _value_feature(key: str, schema: Schema) -> dict[str, Any]:
    """A feature that is neither an image nor a mask: one value, a tensor, or a list of values."""
    feature = schema.features[key]
    inner = _scalar(feature)
    if key in schema.class_names:
        label = {"numClasses": str(len(schema.class_names[key]))}
        inner = _of_class("class_label_feature.ClassLabel", classLabel=label)
    if feature.scalar:
        return inner
    if len(feature.shape) > 1:
        return _scalar(feature)
    length = "-1" if feature.count is None else str(feature.count)
    return _of_class("sequence_feature.Sequence", sequence={"feature": inner, "length": length})


def _scalar(feature: Feature) -> dict[str, Any]:
    if feature.dtype == "bytes":
        return _of_class("text_feature.Text", text={})
    dimensions = [str(side) for side in feature.shape] if len(feature.shape) > 1 else []
    shape = {"dimensions": dimensions} if dimensions else {}
    return _of_class("tensor_feature.Tensor", tensor={"shape": shape, "dtype": feature.dtype, "encoding": "none"})

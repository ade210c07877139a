"""The files that TensorFlow Datasets reads in a dataset's directory: three kinds of small files.

`tfds.builder_from_directory(dir)` reads dataset_info.json (strict protobuf JSON: int64 as strings, no unknown field),
features.json, and one `<feature>.labels.txt` a label feature, one name a line. All are functions of the manifest's
content; the manifest lists them with their checksums.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardfeed.annotations import RASTER
from shardfeed.converters.images.options import ImageOptions
from shardfeed.manifest import SplitInfo
from shardfeed.naming import label_names_file
from shardfeed.schema import ENCODED, LABEL, Feature, Schema

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
    features = {key: _feature(key, schema, image or ImageOptions()) for key in sorted(schema.features)}
    files = {"dataset_info.json": _json(_dataset_info(name, schema, splits, TFDS_FORMATS[to]))}
    files["features.json"] = _json(_of_class("features_dict.FeaturesDict", featuresDict={"features": features}))
    # `image/a.b` and `image/a/b` share one: then neither has names, but numbers.
    named = Counter(map(label_names_file, schema.class_names))
    for key, names in schema.class_names.items():
        file = label_names_file(key)
        fit = all(text and "\n" not in text and text.strip() == text for text in names)
        if named[file] == 1 and len(file.encode()) <= _NAME_BYTES and fit:
            files[file] = "".join(f"{text}\n" for text in names).encode()
    return files


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


def _feature(key: str, schema: Schema, image: ImageOptions) -> dict[str, Any]:
    feature = schema.features[key]
    is_image = key == schema.key(ENCODED) and schema.kind(key) == "image"
    if is_image and image.encode == "raw" and image.shape is None:
        # TFDS needs the shape of such a tensor under a separate key: here it is bytes, to be reshaped by the height and
        # width of the record.
        return _scalar(Feature("bytes"))
    if is_image and image.encode == "raw" and image.shape is not None:
        dimensions = {"dimensions": [*map(str, image.shape), "3"]}
        return _of_class("tensor_feature.Tensor", tensor={"shape": dimensions, "dtype": "uint8", "encoding": "bytes"})
    if is_image:
        # No encodingFormat: it would name one of the two formats, and TFDS decodes either by its content.
        of_file = {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"}
        return _of_class("image_feature.Image", image=of_file)
    if schema.raster is not None and key == RASTER:
        # One channel: if asked for three, a decoder would add two.
        of_mask = {"shape": {"dimensions": ["-1", "-1", "1"]}, "dtype": f"uint{schema.raster.bits}"}
        return _of_class("image_feature.Image", image={**of_mask, "encodingFormat": "png"})
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

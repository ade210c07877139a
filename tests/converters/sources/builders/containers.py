"""Files of many samples, with a column, a key or a member for each value."""

import io
import json
import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_images import encoded

from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_TEXT
from shardfeed.converters import LabelOptions
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import Feature
from tests.converters.sources.builders.builder import MASKED, SIDES, Builder, Files, Row


def parquet(folder: Path, files: Files) -> None:
    """A column for each kind of value; one that no row of a file has is not in it."""
    for name, rows in files.items():
        columns = {key: None for row in rows for key in row}
        values = {key: [row.get(key) for row in rows] for key in columns}
        values["image"] = [{"bytes": row["image"], "path": f"{row['key']}.png"} for row in rows]
        if "mask" in values:
            values["mask"] = [None if mask is None else {"bytes": encoded(mask)} for mask in values["mask"]]
        del values["key"]
        pq.write_table(pa.table(values), folder / f"{name}.parquet", row_group_size=100)


def example_of(row: Row) -> bytes:
    """A row as a serialised tf.train.Example, its boxes in fractions, classes of objects as texts."""
    values: dict[str, Any] = {"image/encoded": row["image"], "image/filename": f"{row['key']}.png".encode()}
    given = {key: value for key, value in row.items() if key not in ("image", "key", "objects") and value is not None}
    given |= {"mask": encoded(given["mask"])} if "mask" in given else {}
    for key, value in given.items():
        texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
        values[key] = [one.encode() for one in value] if texts else value.encode() if isinstance(value, str) else value
    objects = row.get("objects")
    if isinstance(objects, list):
        objects = {key: [one.get(key) for one in objects] for key in {key: None for one in objects for key in one}}
    if objects is not None:
        boxes = [box or [math.nan] * 4 for box in objects.get("bbox", [])]
        corners = np.array([(x, y, x + w, y + h) for x, y, w, h in boxes]).reshape(-1, 4) / SIDES
        values |= {key: corners[:, i].tolist() for i, key in enumerate(BOX)}
        values[OBJECT_TEXT] = [text.encode() for text in objects.get("category", [])]
        values |= {
            key: objects[ours] for ours, key in (("area", OBJECT_AREA), ("iscrowd", IS_CROWD)) if ours in objects
        }
    features = {}
    for key, value in values.items():
        one = value[0] if isinstance(value, list) and value else value
        kind = "bytes" if isinstance(one, bytes) else "int64" if isinstance(one, int) else "float32"
        features[key] = Feature(kind, (None,) if isinstance(value, list) else ())
    return encode(features, values)


def tfrecord(folder: Path, files: Files) -> None:
    """The Object Detection API's keys."""
    for name, rows in files.items():
        (folder / f"{name}.tfrecord").write_bytes(b"".join(frame(example_of(row)) for row in rows))


def arrayrecord(folder: Path, files: Files) -> None:
    """The same records in the other frames."""
    module = pytest.importorskip("array_record.python.array_record_module")
    for name, rows in files.items():
        writer = module.ArrayRecordWriter(str(folder / f"{name}.array_record"), "group_size:1")
        for row in rows:
            writer.write(example_of(row))
        writer.close()


def mds(folder: Path, files: Files) -> None:
    """A folder for each file; all but the image as JSON."""
    for name, rows in files.items():
        masks = ["mask"] if any("mask" in row for row in rows) else []
        apart = ("image", "key", "mask")
        columns = ["image", *masks, "filename", *{key: None for row in rows for key in row if key not in apart}]
        samples = []
        for row in rows:
            said = {**row, "filename": f"{row['key']}.png"}
            files_of = [row["image"], *(encoded(row["mask"]) if row["mask"] is not None else b"" for _ in masks)]
            cells = [*files_of, *(json.dumps(said.get(column)).encode() for column in columns[len(files_of) :])]
            samples.append(np.uint32([len(cell) for cell in cells]).tobytes() + b"".join(cells))
        starts = 4 * (len(rows) + 2) + np.cumsum([0, *map(len, samples)])
        data = b"".join([np.uint32([len(rows)]).tobytes(), starts.astype(np.uint32).tobytes(), *samples])
        (folder / name).mkdir()
        (folder / name / "shard.00000.mds").write_bytes(data)
        encodings = ["png", *("png" for _ in masks)]
        encodings += ["json"] * (len(columns) - len(encodings))
        shard = {"column_names": columns, "column_encodings": encodings, "version": 2}
        shard |= {"column_sizes": [None] * len(columns), "format": "mds", "samples": len(rows), "compression": None}
        shard |= {"raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}, "zip_data": None}
        (folder / name / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


def webdataset(folder: Path, files: Files) -> None:
    """`png`, and all else in a JSON."""
    for name, rows in files.items():
        with tarfile.open(folder / f"{name}.tar", "w") as tar:
            for row in rows:
                said = {key: value for key, value in row.items() if key not in ("image", "key", "mask")}
                members = {"png": row["image"]} | ({"json": json.dumps(said).encode()} if said else {})
                members |= {} if row.get("mask") is None else {"mask.png": encoded(row["mask"])}
                for column, data in members.items():
                    info = tarfile.TarInfo(f"{row['key']}.{column}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def lmdb(folder: Path, files: Files) -> None:
    """Caffe's Datum, encoded; a database for each file."""
    module = pytest.importorskip("lmdb")
    for name, rows in files.items():
        with module.open(str(folder / name), map_size=1 << 24) as environment, environment.begin(write=True) as put:
            for row in rows:
                size, label = len(row["image"]), row.get("label")
                said = b"" if label is None else b"\x28" + _varint(label % 2**64)
                put.put(row["key"].encode(), b"\x22" + _varint(size) + row["image"] + said + b"\x38\x01")


def pixels_csv(folder: Path, files: Files) -> None:
    """`label,pixel0,...` with 8 x 8 gray pixels an image."""
    for name, rows in files.items():
        labelled = ["label"] if any("label" in row for row in rows) else []
        lines = [",".join([*labelled, *(f"pixel{i}" for i in range(64))])]
        for row in rows:
            label = [] if not labelled else [str(row["label"])] if row.get("label") is not None else [""]
            lines.append(",".join([*label, *["7"] * (63 if row.get("short") else 64)]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


_LABELS = frozenset({"files", "label", "name", "none", "int", "unlabelled", "class names"})
_OBJECTS = frozenset({"objects", "area", "id", "iscrowd", "null", "nan"})
_VALUES = _LABELS | _OBJECTS | {"caption", "number", "encoded"}
_MARKS = frozenset({"mask", "marks", "hot"})
_OF_EXAMPLES = (_VALUES | {"lists", "absent"} | _MARKS) - {"id", "null"}
_MASKS = {"columns": {"mask": "mask"}, "class_names": MASKED}
BUILDERS = {
    "parquet": Builder(parquet, _VALUES | {"lists", "keys", "double"} | _MARKS, masks=_MASKS),
    "tfrecord": Builder(tfrecord, _OF_EXAMPLES, fractions=True, masks=_MASKS),
    "arrayrecord": Builder(arrayrecord, _OF_EXAMPLES, fractions=True, masks=_MASKS),
    "mds": Builder(mds, _VALUES | {"lists", "keys", "double", "mixed"} | _MARKS, masks=_MASKS),
    "webdataset": Builder(
        webdataset,
        _VALUES | {"absent", "mixed", "lists", "keys", "double"} | _MARKS,
        hot={"one_hot": ["json.cat", "json.dog"]},
        masks={"columns": {"mask": "mask.png"}, "class_names": MASKED},
        numbers={"columns": {"image/size": "json.number"}},
    ),
    "lmdb": Builder(lmdb, frozenset({"label", "int", "unlabelled", "class names", "encoded"})),
    "pixels-csv": Builder(pixels_csv, _LABELS | {"short"}, kind=LabelOptions),
}

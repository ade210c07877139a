"""One list of rules that every reader keeps: what is odd in a source is listed or refused, never lost or changed.

To add a reader, write a function that writes rows into an empty folder, and name it in `BUILDERS`, with what its format
can say:

    def my_format(folder: Path, files: Files) -> None:      # files: name of a file -> its rows
        for name, rows in files.items():
            ...                                             # row: image (bytes), key, label, caption, objects, number

    BUILDERS["my-format"] = Builder(my_format, frozenset({"files", "absent", "label"}))

A row lacks the keys of values that it does not have; a value may be None. Objects are dicts of COCO's keys, or one dict
of lists. A rule is tried with every reader whose `says` has all that the rule `needs`:

    files     several files, and one may lack a column         label, caption, objects, number    values of rows
    absent    a row may lack a value that others of its file have
    mixed     values of one column may be of several types      lists     objects as a dict of lists
    area, id, iscrowd, null                                     of objects: these keys, and a category that is null
    nan       numbers that are NaN or infinite                  int       whole numbers of any size
    double    numbers beyond float32                            unlabelled    the reader takes this option

A reader that stores boxes in fractions has `fractions=True`: its writer divides them by 60 and 40, the image's sides.
"""

import io
import json
import math
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_images import image_file, put
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_TEXT
from shardfeed.converters import AnnotationOptions, ColumnOptions, convert, open_source
from shardfeed.converters.sources.options import Options
from shardfeed.errors import UsageError
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord.framing import frame
from shardfeed.schema import FILENAME, TEXT, Feature
from shardfeed.tools import cli

Row = Mapping[str, Any]
Files = Mapping[str, Sequence[Row]]
_SIDES = (60, 40, 60, 40)  # of the images, in the order of BOX


@dataclass(frozen=True)
class Builder:
    """How a reader's files are written. `column`: how its columns are called; `options`: of its options, a `kind`."""

    write: Callable[[Path, Files], None]
    says: frozenset[str]
    fractions: bool = False
    column: str = "{}"
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: type[Options] = ColumnOptions


def parquet(folder: Path, files: Files) -> None:
    """A column for each kind of value; one that no row of a file has is not in it."""
    for name, rows in files.items():
        columns = {key: None for row in rows for key in row}
        values = {key: [row.get(key) for row in rows] for key in columns}
        values["image"] = [{"bytes": row["image"], "path": f"{row['key']}.png"} for row in rows]
        del values["key"]
        pq.write_table(pa.table(values), folder / f"{name}.parquet", row_group_size=100)


def example_of(row: Row) -> bytes:
    """A row as a serialised tf.train.Example, its boxes in fractions, classes of objects as texts."""
    values: dict[str, Any] = {"image/encoded": row["image"], "image/filename": f"{row['key']}.png".encode()}
    keys = {"label": "label", "caption": "caption", "number": "number"}
    given = {theirs: row[ours] for ours, theirs in keys.items() if row.get(ours) is not None}
    values |= {key: value.encode() if isinstance(value, str) else value for key, value in given.items()}
    objects = row.get("objects")
    if isinstance(objects, list):
        objects = {key: [one.get(key) for one in objects] for key in {key: None for one in objects for key in one}}
    if objects is not None:
        boxes = [box or [math.nan] * 4 for box in objects.get("bbox", [])]
        corners = np.array([(x, y, x + w, y + h) for x, y, w, h in boxes]).reshape(-1, 4) / _SIDES
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
        columns = ["image", "filename", *{key: None for row in rows for key in row if key not in ("image", "key")}]
        samples = []
        for row in rows:
            said = {**row, "filename": f"{row['key']}.png"}
            cells = [row["image"], *(json.dumps(said.get(column)).encode() for column in columns[1:])]
            samples.append(np.uint32([len(cell) for cell in cells]).tobytes() + b"".join(cells))
        starts = 4 * (len(rows) + 2) + np.cumsum([0, *map(len, samples)])
        data = b"".join([np.uint32([len(rows)]).tobytes(), starts.astype(np.uint32).tobytes(), *samples])
        (folder / name).mkdir()
        (folder / name / "shard.00000.mds").write_bytes(data)
        shard = {"column_names": columns, "column_encodings": ["png", *["json"] * (len(columns) - 1)], "version": 2}
        shard |= {"column_sizes": [None] * len(columns), "format": "mds", "samples": len(rows), "compression": None}
        shard |= {"raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}, "zip_data": None}
        (folder / name / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


def webdataset(folder: Path, files: Files) -> None:
    """`png`, and all else in a JSON."""
    for name, rows in files.items():
        with tarfile.open(folder / f"{name}.tar", "w") as tar:
            for row in rows:
                said = {key: value for key, value in row.items() if key not in ("image", "key")}
                members = {"png": row["image"]} | ({"json": json.dumps(said).encode()} if said else {})
                for column, data in members.items():
                    info = tarfile.TarInfo(f"{row['key']}.{column}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def _beside(folder: Path, files: Files, name: str, text: Callable[[Row], str]) -> None:
    """An image and a text for each row; `name`: of the text, with the key for {}."""
    for row in (row for rows in files.values() for row in rows):
        put(folder / name.format(row["key"]), text(row))


def _images(folder: Path, files: Files) -> None:
    for row in (row for rows in files.values() for row in rows):
        put(folder / f"{row['key']}.png", row["image"])


def _corners(one: Mapping[str, Any]) -> list[float]:
    """Left, top, right, bottom of an object; NaN where it has no box."""
    left, top, width, height = one["bbox"] or [math.nan] * 4
    return [left, top, left + width, top + height]


def yolo(folder: Path, files: Files) -> None:
    """Centres and sizes in fractions."""

    def line(one: Mapping[str, Any]) -> str:
        left, top, right, bottom = (side / of for side, of in zip(_corners(one), _SIDES, strict=True))
        if not one["bbox"]:
            return f"{['cat', 'dog'].index(one['category'])}\n"
        numbers = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
        return f"{['cat', 'dog'].index(one['category'])} {' '.join(map(repr, numbers))}\n"

    _images(folder / "images", files)
    _beside(folder, files, "labels/{}.txt", lambda row: "".join(map(line, row.get("objects", ()))))
    put(folder / "data.yaml", "train: images\nnames: [cat, dog]\n")


def voc(folder: Path, files: Files) -> None:
    """An XML file beside each image."""

    def text(one: Mapping[str, Any]) -> str:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), _corners(one), strict=True)
        box = "".join(f"<{side}>{value!r}</{side}>" for side, value in sides) if one["bbox"] else ""
        return f"<object><name>{one['category'] or ''}</name>{f'<bndbox>{box}</bndbox>' if box else ''}</object>"

    _images(folder, files)
    _beside(
        folder, files, "{}.xml", lambda row: f"<annotation>{''.join(map(text, row.get('objects', ())))}</annotation>"
    )


def kitti(folder: Path, files: Files) -> None:
    """Lines of 15 columns."""

    def line(one: Mapping[str, Any]) -> str:
        return f"{one['category']} 0.0 0 -1.5 {' '.join(map(repr, _corners(one)))} 1.6 1.7 3.6 -0.6 1.7 46.7 -1.5\n"

    _images(folder / "image_2", files)
    _beside(folder, files, "label_2/{}.txt", lambda row: "".join(map(line, row.get("objects", ()))))


def createml(folder: Path, files: Files) -> None:
    """A JSON file with centres and sizes."""

    def annotation(one: Mapping[str, Any]) -> dict[str, Any]:
        left, top, width, height = one["bbox"] or [None] * 4
        place = {"x": left + width / 2, "y": top + height / 2, "width": width, "height": height} if one["bbox"] else {}
        return {"label": one["category"], "coordinates": place}

    _images(folder, files)
    rows = [row for rows in files.values() for row in rows]
    entries = [{"image": f"{r['key']}.png", "annotations": [*map(annotation, r.get("objects", ()))]} for r in rows]
    put(folder / "_annotations.createml.json", json.dumps(entries))


def imagefolder(folder: Path, files: Files) -> None:
    """One metadata.jsonl."""
    _images(folder, files)
    rows = [row for rows in files.values() for row in rows]
    said = [{key: value for key, value in row.items() if key not in ("image", "key")} for row in rows]
    lines = [{"file_name": f"{r['key']}.png", **more} for r, more in zip(rows, said, strict=True)]
    put(folder / "metadata.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))


def boxes_csv(folder: Path, files: Files) -> None:
    """A row for each object, and one without coordinates for an image without."""
    _images(folder, files)
    lines = ["image,xmin,ymin,xmax,ymax,class"]
    for row in (row for rows in files.values() for row in rows):
        for one in row.get("objects", ()):
            sides = map(repr, _corners(one)) if one["bbox"] else ["nan", "1", "2", "3"]
            lines.append(f"{row['key']}.png,{','.join(sides)},{one['category'] or ''}")
        if not row.get("objects"):
            lines.append(f"{row['key']}.png,,,,,")
    put(folder / "_annotations.csv", "\n".join(lines) + "\n")


def coco(folder: Path, files: Files) -> None:
    """A JSON file of instances, or, where a row has a caption, of captions."""
    rows = [row for rows in files.values() for row in rows]
    for row in rows:
        put(folder / "images" / f"{row['key']}.png", row["image"])
    categories = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
    ids = {one["name"]: one["id"] for one in categories}
    annotations: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        for one in row.get("objects", ()):
            own = {key: value for key, value in one.items() if key != "category"}
            annotations.append({**own, "image_id": i, "category_id": ids.get(one["category"])})
        if "caption" in row:
            annotations.append({"image_id": i, "caption": row["caption"]})
    images = [{"id": i, "file_name": f"{row['key']}.png", "width": 60, "height": 40} for i, row in enumerate(rows)]
    whole = {"annotations": annotations, "images": images, "categories": categories}
    put(folder / "annotations" / "all.json", json.dumps(whole))


_OBJECTS = frozenset({"objects", "nan"})


def _arrays(rows: Sequence[Row]) -> dict[str, Any]:
    """Pixels, and labels where a row has one: numbers, or texts of which the empty one stands for null."""
    arrays = {"images": np.stack([np.asarray(Image.open(io.BytesIO(row["image"])).convert("RGB")) for row in rows])}
    if any("label" in row for row in rows):
        labels = [row.get("label") for row in rows]
        arrays["labels"] = np.array(["" if label is None else label for label in labels])
    return arrays


def npz(folder: Path, files: Files) -> None:
    """An array of images, and one of labels."""
    for name, rows in files.items():
        np.savez(folder / f"{name}.npz", **_arrays(rows))


def hdf5(folder: Path, files: Files) -> None:
    """Likewise, as datasets."""
    import h5py

    for name, rows in files.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            for key, array in _arrays(rows).items():
                file[key] = array.astype("S") if array.dtype.kind == "U" else array


_VALUES = frozenset(
    {"files", "unlabelled", "label", "caption", "objects", "number", "area", "id", "iscrowd", "null", "nan", "int"}
)
BUILDERS: dict[str, Builder] = {
    "parquet": Builder(parquet, _VALUES | {"lists", "double"}),
    "tfrecord": Builder(tfrecord, (_VALUES | {"lists", "absent"}) - {"id", "null"}, fractions=True),
    "arrayrecord": Builder(arrayrecord, (_VALUES | {"lists", "absent"}) - {"id", "null"}, fractions=True),
    "mds": Builder(mds, _VALUES | {"lists", "double", "mixed"}),
    "webdataset": Builder(webdataset, _VALUES | {"absent", "mixed", "lists", "double"}, column="json.{}"),
    "yolo": Builder(yolo, frozenset({"objects"}), fractions=True, kind=AnnotationOptions),
    "coco": Builder(coco, _OBJECTS | {"caption", "area", "id", "iscrowd", "null"}, kind=AnnotationOptions),
    "voc": Builder(voc, _OBJECTS | {"null"}, kind=AnnotationOptions),
    "kitti": Builder(kitti, _OBJECTS, kind=AnnotationOptions),
    "boxes-csv": Builder(boxes_csv, _OBJECTS | {"null"}, kind=AnnotationOptions),
    "imagefolder": Builder(
        imagefolder, (_VALUES | {"absent", "lists"}) - {"files", "number", "unlabelled"}, kind=AnnotationOptions
    ),
    "createml": Builder(createml, _OBJECTS | {"null"}, kind=AnnotationOptions),
    "npz": Builder(npz, frozenset({"files", "label", "int", "unlabelled"})),
    "hdf5": Builder(hdf5, frozenset({"files", "label", "int", "unlabelled"})),
}


@dataclass(frozen=True)
class Rule:
    """Rows, and what must become of them.

    `files`: rows by file, each a dict as a builder takes it, without image and key, which the test adds. `rejected`,
    `left_out`: how many by code. `kept`: for each image that stays its label, captions and (class, left, top, right,
    bottom) of objects, as far as the rule is about them. `refused`: a part of the error, where nothing is written.
    """

    needs: set[str]
    files: Mapping[str, Sequence[Row]]
    rejected: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: str = ""
    refused: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def thing(box: Any = (2, 4, 10, 12), category: Any = "cat", **more: Any) -> dict[str, Any]:
    """An object as COCO has it."""
    return {"bbox": None if box is None else list(map(float, box)), "category": category, **more}


CAT, DOG = thing(), thing((20, 4, 6, 8), "dog")
CAT_KEPT, DOG_KEPT = ("cat", 2, 4, 12, 16), ("dog", 20, 4, 26, 12)
_NUMBERS = {"columns": {"image/size": "number"}}

RULES: dict[str, Rule] = {
    "label in one file alone": Rule(
        {"files", "label"},
        {"test-0": [{}, {}], "train-0": [{"label": "cat"}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 2},
        kept={"label": ["cat", "dog"]},
    ),
    "captions in one file alone": Rule(
        {"files", "caption"},
        {"test-0": [{}, {}], "train-0": [{"caption": "a"}, {"caption": "b"}]},
        kept={"captions": [[], [], ["a"], ["b"]]},
        notes="2 samples without captions",
    ),
    "objects in one file alone": Rule(
        {"files", "objects"},
        {"test-0": [{}], "train-0": [{"objects": [CAT]}, {"objects": [CAT, DOG]}]},
        kept={"objects": [[], [CAT_KEPT], [CAT_KEPT, DOG_KEPT]]},
        notes="1 sample without objects",
    ),
    "a label that begins late": Rule(
        {"absent", "label"},
        {"a": [{}] * 120 + [{"label": "cat"}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 120},
        kept={"label": ["cat", "dog"]},
    ),
    "objects and captions that begin late": Rule(
        {"absent", "objects", "caption"},
        {"a": [{}] * 120 + [{"objects": [CAT], "caption": "a"}]},
        kept={"objects": [*[[]] * 120, [CAT_KEPT]], "captions": [*[[]] * 120, ["a"]]},
        notes="120 samples without captions",
    ),
    "a label that is null at first": Rule(
        {"label"},
        {"a": [{"label": None}] * 120 + [{"label": 1}, {"label": 0}]},
        rejected={"E_NO_LABEL": 120},
        kept={"label": ["1", "0"]},
    ),
    "a label that is null": Rule(
        {"label"},
        {"a": [{"label": "cat"}, {"label": None}, {"label": "dog"}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["cat", "dog"]},
    ),
    "a label of -1": Rule(
        {"label", "int"},
        {"a": [{"label": 0}, {"label": -1}, {"label": 1}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["0", "1"]},
    ),
    "a text among numbers of classes": Rule(
        {"label", "mixed"},
        {"a": [{"label": 0}, {"label": "zero"}, {"label": 1}]},
        rejected={"E_NO_LABEL": 1},
        kept={"label": ["0", "1"]},
    ),
    "a caption of nothing": Rule(
        {"caption"},
        {"a": [{"caption": "a"}, {"caption": " "}]},
        left_out={"E_LINE": 1},
        kept={"captions": [["a"], []]},
    ),
    "a category that is null": Rule(
        {"objects", "null"},
        {"a": [{"objects": [CAT, thing((1, 1, 5, 5), None)]}, {"objects": [DOG]}]},
        left_out={"E_CATEGORY": 1},
        kept={"objects": [[CAT_KEPT], [DOG_KEPT]]},
    ),
    "lists of other lengths": Rule(
        {"lists", "label"},
        {
            "a": [
                {"label": "x", "objects": {"bbox": [CAT["bbox"], DOG["bbox"]], "category": ["cat", "dog"]}},
                {"label": "x", "objects": {"bbox": [CAT["bbox"], DOG["bbox"]], "category": ["cat"]}},
            ]
        },
        rejected={"E_NO_LABEL": 1},
        left_out={"E_LINE": 2},
        kept={"objects": [[CAT_KEPT, DOG_KEPT]]},
    ),
    "no numbers in a box": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, thing(None)]}]},
        left_out={"E_BOX_EMPTY": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "numbers in a box that are none": Rule(
        {"objects", "nan"},
        {"a": [{"objects": [CAT, thing((math.nan, 1, 5, 5)), thing((1, 1, math.inf, 5)), thing((1, 1, 1e12, 5))]}]},
        left_out={"E_VALUE": 2, "E_BOX_EMPTY": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "areas that are none": Rule(
        {"objects", "area", "nan"},
        {"a": [{"objects": [{**CAT, "area": 5.0}, {**DOG, "area": math.nan}, {**DOG, "area": -2.0}]}]},
        left_out={"E_VALUE": 2},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "flags beside 0 and 1": Rule(
        {"objects", "iscrowd"},
        {"a": [{"objects": [{**CAT, "iscrowd": 1}, {**DOG, "iscrowd": 2}]}]},
        left_out={"E_VALUE": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "twins": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, DOG, CAT]}, {"objects": [CAT]}]},
        left_out={"E_TWICE": 1},
        kept={"objects": [[CAT_KEPT, DOG_KEPT], [CAT_KEPT]]},
    ),
    "twins with ids of their own": Rule(
        {"objects", "id"},
        {"a": [{"objects": [{**CAT, "id": 1}, {**CAT, "id": 2}]}]},
        kept={"objects": [[CAT_KEPT, CAT_KEPT]]},
    ),
    "a box outside of its image": Rule(
        {"objects"},
        {"a": [{"objects": [CAT, thing((100, 100, 5, 5))]}]},
        left_out={"E_BOX_OUTSIDE": 1},
        kept={"objects": [[CAT_KEPT]]},
    ),
    "fractions that nothing tells": Rule(
        {"objects"}, {"a": [{"objects": [thing((0.25, 0.25, 0.5, 0.5))]}]}, refused="unit='fractions'"
    ),
    "fractions": Rule(
        {"objects"},
        {"a": [{"objects": [thing((0.25, 0.25, 0.5, 0.5))]}]},
        kept={"objects": [[("cat", 15, 10, 45, 30)]]},
        options={"unit": "fractions"},
    ),
    "a number that is not there": Rule(
        {"number"},
        {"a": [{"number": 1.5}, {"number": None}]},
        rejected={"E_NO_LABEL": 1},
        kept={"number": [1.5]},
        options=_NUMBERS,
    ),
    "a number beyond float32": Rule(
        {"number", "double"}, {"a": [{"number": 1.5}, {"number": 1e300}]}, refused="fits float32", options=_NUMBERS
    ),
    "a number beyond int64": Rule(
        {"number", "mixed", "int"}, {"a": [{"number": 1}, {"number": 2**70}]}, refused="fits int64", options=_NUMBERS
    ),
    "a whole number that float32 cannot say": Rule(
        {"number", "mixed", "int"},
        {"a": [{"number": 2**24 + 1}, {"number": 0.5}]},
        refused="float32 cannot say it exactly",
        options=_NUMBERS,
    ),
    "labels of a source without": Rule(
        {"label", "unlabelled"},
        {"a": [{"label": "cat"}, {"label": None}]},
        kept={"label": [None, None]},
        options={"unlabelled": True},
    ),
}


def says(reader: str, rule: str) -> bool:
    """Whether files of the reader can say what the rule is about, in the rule's unit."""
    builder = BUILDERS[reader]
    return RULES[rule].needs <= builder.says and not (builder.fractions and "fractions" in rule)


@pytest.mark.parametrize(
    ("reader", "rule"), [(reader, rule) for rule in RULES for reader in BUILDERS if says(reader, rule)]
)
def test_rules(tmp_path: Path, rule: str, reader: str) -> None:
    wanted, builder = RULES[rule], BUILDERS[reader]
    count = 0
    files: dict[str, list[Row]] = {}
    for name, rows in wanted.files.items():
        files[name] = []
        for row in rows:
            files[name].append({"image": image_file(seed=count), "key": f"{count:04}", **row})
            count += 1
    (folder := tmp_path / "in").mkdir()
    builder.write(folder, files)
    columns = {key: builder.column.format(name) for key, name in wanted.options.get("columns", {}).items()}
    given = {**builder.options, **wanted.options, **({"columns": columns} if columns else {})}
    options = builder.kind(**given)
    if wanted.refused:
        with pytest.raises(UsageError) as caught:
            open_source(folder, reader=reader, options=options)
        assert wanted.refused in str(caught.value)
        return
    source = open_source(folder, reader=reader, options=options)
    report = convert(source, tmp_path / "out", workers=1, max_bad={"images": count, "objects": 9})
    assert Counter(one.what for one in report.rejected) == wanted.rejected
    left_out = () if report.account is None else report.account.left_out
    assert Counter(one.code for one in left_out) == wanted.left_out
    assert wanted.notes in "\n".join(report.notes)
    assert found(tmp_path / "out", wanted.kept.keys()) == {key: list(values) for key, values in wanted.kept.items()}
    assert cli.main(["verify", "--deep", "--quiet", str(tmp_path / "out")]) == 0


def found(out: Path, about: Any) -> dict[str, list[Any]]:
    """What records say, in the order of their names, by what a rule is about."""
    data = shardfeed.open(out)
    records = [record for split in data.manifest.splits for record in data[split]]
    records.sort(key=lambda record: record[FILENAME])
    ways: dict[str, Callable[[Any], Any]] = {
        "label": lambda record: record[TEXT].decode() if TEXT in record else None,
        "captions": lambda record: [text.decode() for text in record[CAPTION]],
        "objects": objects_of,
        "number": lambda record: record["image/size"],
    }
    return {one: [ways[one](record) for record in records] for one in about}


def objects_of(record: Any) -> list[tuple[Any, ...]]:
    """Class and corners in pixels of each object, in the order of left edges and tops."""
    names = [text.decode() for text in record[OBJECT_TEXT]] if OBJECT_TEXT in record else []
    corners = [
        np.rint(np.asarray(record[key]) * side).astype(int).tolist() for key, side in zip(BOX, _SIDES, strict=True)
    ]
    return sorted(zip(names, *corners, strict=True), key=lambda one: one[1:])


def test_each_rule_is_kept_by_some_reader_and_each_reader_keeps_some_rule() -> None:
    assert all(any(says(reader, rule) for reader in BUILDERS) for rule in RULES)
    assert all(any(says(reader, rule) for rule in RULES) for reader in BUILDERS)

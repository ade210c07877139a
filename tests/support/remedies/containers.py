"""Remedies of containers: arrays, Parquet, TFRecords and tars, and of the columns in them."""

import io
import tarfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import Feature

from remedies.annotations import coco
from remedies.tables import CLASSES
from remedies.typed import Box, Way, advises

CAT_DOG = {"FILE": "names.txt"}
SIX = range(6)


def files(box: Box, count: int = 6) -> list[bytes]:
    """Image files, each another one; and a list of names."""
    box.images(*(f"photos/{i}.jpg" for i in range(count)))
    box.write("names.txt", "cat\ndog\n")
    box.write("three.txt", "cat\ndog\nowl\n")
    return [(box.root / f"photos/{i}.jpg").read_bytes() for i in range(count)]


def parquet(box: Box, name: str, **columns: Any) -> None:
    path = box.write(name, b"")
    pq.write_table(pa.table(columns), path)


def records(box: Box, name: str, rows: list[dict[str, Any]]) -> None:
    """TFRecords of Examples with these keys."""

    def kind(value: Any) -> Feature:
        of = value[0] if isinstance(value, list) else value
        dtype = "bytes" if isinstance(of, bytes) else "float32" if isinstance(of, float) else "int64"
        return Feature(dtype, None if isinstance(value, list) else ())

    made = [frame(encode({key: kind(value) for key, value in row.items()}, row)) for row in rows]
    box.write(name, b"".join(made))


def tar(box: Box, name: str, members: dict[str, bytes]) -> None:
    with tarfile.open(box.write(name, b""), "w") as out:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))


def npz(box: Box, name: str, **arrays: Any) -> None:
    np.savez(box.write(name, b""), **arrays)


def stack(count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 9, 9), np.uint8)


# Arrays


@advises(
    "converters/sources/rare/array_source.py: correct --columns",
    "convert a.npz out --columns image=stacks",
    Way("--columns", 6, drop="--columns", fill={"--columns": "image=stack,label=kinds"}),
)
@advises(
    "converters/sources/rare/array_source.py: name the array of images: --columns {}",
    "convert a.npz out",
    Way("--columns", 6, fill={"NAME": "kinds"}),
)
def arrays_of_unknown_names(box: Box) -> None:
    npz(box, "a.npz", stack=stack(), kinds=np.arange(6) % 2)


@advises(
    "converters/sources/rare/array_source.py: choose one: --columns {}={}", "convert a.npz out", Way("--columns", 6)
)
def two_arrays_of_images(box: Box) -> None:
    npz(box, "a.npz", images=stack(), img=stack(), labels=np.arange(6) % 2)


@advises(
    "converters/sources/rows/rows.py: name it, --columns {}=COLUMN, or leave the option out",
    "convert a.npz out --class-names names.txt",
    Way("--columns", 6, fill={"COLUMN": "kinds"}),
    Way(drop="--class-names", gives=6),
)
def labels_of_an_unknown_name(box: Box) -> None:
    files(box)
    npz(box, "a.npz", images=stack(), kinds=np.arange(6) % 2)


# Parquet


@advises(
    "converters/sources/open_source.py: give --columns {}={}",
    "convert a.parquet out --text-column note",
    Way("--columns", 6, drop="--text-column"),
)
def columns_of_a_label_file(box: Box) -> None:
    parquet(box, "a.parquet", image=files(box), label=[0, 1] * 3, note=[f"note {i}" for i in SIX])


@advises(
    "converters/sources/parquet.py: --reader labels",
    "convert photos out --reader parquet",
    Way("--reader", 6, onto="convert photos/train.parquet out"),
)
def parquet_of_paths(box: Box) -> None:
    files(box)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": None, "path": f"{i}.jpg"} for i in SIX], kind)
    parquet(box, "photos/train.parquet", image=images, label=["ab"[i % 2] for i in SIX])


@advises(
    "converters/sources/parquet.py: convert these files separately, then `shardfeed",
    "convert set out",
    Way("shardfeed merge", 6, fill={"shardfeed merge": "shardfeed merge a b new"}),
)
def parquet_files_that_differ(box: Box) -> None:
    data = files(box)
    parquet(box, "set/a.parquet", image=data[:3], label=[0, 1, 0], key=["a0", "a1", "a2"])
    parquet(box, "set/b.parquet", image=data[3:], label=["0", "1", "0"], key=["b0", "b1", "b2"])
    assert box.type("convert set/a.parquet a") == 0
    assert box.type("convert set/b.parquet b") == 0


@advises("converters/sources/rows/roles.py: choose one: --columns {}={}", "convert a.parquet out", Way("--columns", 6))
def two_columns_of_labels(box: Box) -> None:
    kinds = ["ab"[i % 2] for i in SIX]
    parquet(box, "a.parquet", image=files(box), label=kinds, **{"class": kinds})


@advises(
    "converters/sources/rows/roles.py: choose one, --columns image={}; if another one is its mask,",
    "convert a.parquet out",
    Way("--columns", 6),
    Way("--columns", 6, fill={"--columns": "image=one,mask=two"}),
)
def two_columns_of_images(box: Box) -> None:
    for i in SIX:
        box.mask(f"masks/{i}.png", (0, 1))
    data = files(box)
    parquet(box, "a.parquet", one=data, two=[(box.root / f"masks/{i}.png").read_bytes() for i in SIX])


@advises(
    "converters/sources/rows/columns.py: give --columns label={} for classes, --columns text={}",
    "convert a.parquet out",
    Way("--columns", 6),
    Way("--columns", 6, fill={"--columns": "text=label"}),
    Way("--unlabelled", 6),
)
def a_label_of_runs(box: Box) -> None:
    parquet(box, "a.parquet", image=files(box), label=[f"{1 + i // 2} 3 9 2" for i in SIX])


@advises(
    "converters/sources/rows/gather.py: for numbers, give --columns image/value={}",
    "convert a.parquet out",
    Way("--columns", 6),
)
def a_label_of_fractions(box: Box) -> None:
    parquet(box, "a.parquet", image=files(box), label=[[0.25, 0.5 + i] for i in SIX])


@advises(
    "converters/sources/rows/gather.py: name another column, --columns label=COLUMN, or give",
    "convert a.parquet out",
    Way("--columns", 6, fill={"COLUMN": "other"}),
    Way("--unlabelled", 6),
)
def a_label_of_nothing(box: Box) -> None:
    parquet(
        box, "a.parquet", image=files(box), label=pa.array([None] * 6, pa.int64()), other=["ab"[i % 2] for i in SIX]
    )


@advises(
    "converters/sources/rows/annotations.py: name one of these, or group by file names with",
    "convert set/instances.json out --images photos --group-column patient --split train=0.5,test=0.5",
    Way("--group-pattern", 4, drop="--group-column", fill={"--group-pattern": "(?P<group>.).*"}),
)
@advises(
    "converters/sources/rows/annotations.py: copy the field under another name, or group by file",
    "convert set/instances.json out --images photos --group-column width --split train=0.5,test=0.5",
    Way("--group-pattern", 4, drop="--group-column", fill={"--group-pattern": "(?P<group>.).*"}),
)
def a_group_called_width(box: Box) -> None:
    coco(box, "set/instances.json", "photos")


# Class numbers


@advises(
    "converters/sources/classes.py: if {} is the first class, give --label-offset {}{}",
    "convert from1.parquet out",
    Way("--label-offset", 6),
)
@advises(
    "converters/sources/classes.py: give --class-names FILE: '1' to '{}' makes label 1 the class 0;",
    "convert from1.parquet out",
    Way("--class-names", 6, fill={"FILE": "four.txt"}),
    Way("--class-names", 6, fill={"FILE": "one.txt"}),
)
@advises(
    "converters/sources/classes.py: give --label-map FILE, with the number and name of each class",
    "convert from1.parquet out",
    Way("--label-map", 6, fill={"FILE": "map.pbtxt"}),
)
@advises(
    "converters/sources/classes.py: give --class-names FILE: {}{} names keep the numbers, the {}",
    "convert gaps.parquet out",
    Way("--class-names", 6, fill={"FILE": "seven.txt"}),
    Way("--class-names", 6, fill={"FILE": "gaps.txt"}),
)
@advises(
    "converters/sources/classes.py: give --label-map FILE instead of --label-offset, with the number",
    "convert gaps.parquet out --label-offset 1",
    Way("--label-map", 6, drop="--label-offset", fill={"FILE": "map.pbtxt"}),
)
@advises(
    "converters/sources/classes.py: give --class-names FILE, with a name for each of {} to {}",
    "convert gaps.parquet out --label-offset 1",
    Way("--class-names", 6, fill={"FILE": "seven.txt"}),
)
@advises(
    "converters/sources/classes.py: give --label-offset 1",
    "convert texts.tfrecord out --class-names three.txt",
    Way("--label-offset", 6),
)
@advises(
    "converters/sources/classes.py: if the first is number 1, give --label-offset 1",
    "convert from1.parquet out --class-names three.txt",
    Way("--label-offset", 6),
)
@advises(
    "converters/sources/files/class_names.py: give it as --class-names FILE, and if the first is",
    "convert from1.parquet out --label-map three.txt",
    Way("--class-names --label-offset", 6, drop="--label-map", fill={"FILE": "three.txt"}),
)
@advises(
    "converters/sources/classes.py: if {} is the first class, give --label-offset {}{}",
    "convert from5.parquet out",
    Way("--label-offset", 6),
    Way("--class-names", 6, fill={"FILE": "seven.txt"}),
    Way("--label-map", 6, fill={"FILE": "map.pbtxt"}),
)
@advises(
    "converters/sources/classes.py: if {} is the first class, give --label-offset {}{}",
    "convert from0.parquet out --label-offset 1",
    Way("--label-offset", 6, drop="--label-offset"),
)
def numbers_of_classes(box: Box) -> None:
    data = files(box)
    box.write("four.txt", "none\ncat\ndog\nowl\n")
    box.write("seven.txt", "".join(f"class {i}\n" for i in range(7)))
    box.write("one.txt", "1\n2\n3\n")
    box.write("gaps.txt", "5\n4\n2\n")
    box.write("map.pbtxt", "".join(f"item {{ id: {i} name: 'class {i}' }}\n" for i in range(1, 7)))
    for first in (0, 1, 5):
        parquet(box, f"from{first}.parquet", image=data, label=[first + i % (2 if first == 5 else 3) for i in SIX])
    parquet(box, "gaps.parquet", image=data, label=[2, 4, 5, 2, 4, 5])
    named = [(1 + i % 2, CLASSES[i % 2]) for i in SIX]
    rows = [{"image/class/label": number, "image/class/text": name.encode()} for number, name in named]
    records(box, "texts.tfrecord", [{"image/encoded": one} | row for one, row in zip(data, rows, strict=True)])


@advises(
    "converters/sources/rows/rows.py: leave it out, and name them with --class-names",
    "convert a.parquet out --label-offset 1",
    Way("--class-names", 6, drop="--label-offset", fill={"--class-names": "names.txt"}),
)
def objects_with_names(box: Box) -> None:
    boxes = [{"bbox": [[1.0, 2.0, 10.0, 12.0]], "category": ["cd"[i % 2] and ("cat", "dog")[i % 2]]} for i in SIX]
    parquet(box, "a.parquet", image=files(box), objects=boxes)


@advises(
    "converters/sources/rows/gather.py: {}; without masks: --unlabelled",
    "convert a.parquet out",
    Way("--unlabelled", 6),
    Way("--class-names", 6, fill={"FILE": "three.txt"}),
)
def masks_in_a_column(box: Box) -> None:
    for i in SIX:
        box.mask(f"masks/{i}.png", (0, 1, 2))
    parquet(box, "a.parquet", image=files(box), mask=[(box.root / f"masks/{i}.png").read_bytes() for i in SIX])


# TFRecords


@advises(
    "converters/sources/rows/roles.py: choose one, --columns image={}, or write the bytes of the",
    "convert a.tfrecord out",
    Way("--columns", 6),
)
def records_of_raw_pixels(box: Box) -> None:
    records(
        box,
        "a.tfrecord",
        [{"pix": b"\xff" * 9 * 9 * 3, "height": 9, "width": 9, "depth": 3, "label": i % 2} for i in SIX],
    )


@advises(
    "converters/sources/rows/roles.py: write --columns image/NAME={}",
    "convert a.tfrecord out --columns image/width=y",
    Way("--columns", 6, drop="--columns", fill={"NAME": "size"}),
)
def records_with_a_number(box: Box) -> None:
    data = files(box)
    records(box, "a.tfrecord", [{"image": one, "label": i % 2, "y": i} for i, one in enumerate(data)])


@advises(
    "converters/sources/record_columns.py: give the right one: --{} FILE",
    "convert set out",
    Way("--label-map", 6, fill={"FILE": "set/valid/Cats_label_map.pbtxt"}),
)
@advises(
    "converters/sources/record_columns.py: give the right one: --{} FILE",
    "adopt set new",
    Way("--class-names", 6, fill={"FILE": "set/valid/Cats_label_map.pbtxt"}),
)
def records_with_two_label_maps(box: Box) -> None:
    data = files(box)
    for split, part in (("valid", data[:3]), ("test", data[3:])):
        records(
            box,
            f"set/{split}/a.tfrecord",
            [{"image/encoded": one, "image/class/label": 1 + i % 2} for i, one in enumerate(part)],
        )
        box.write(
            f"set/{split}/Cats_label_map.pbtxt", "".join(f"item {{ id: {i} name: '{split[0]}{i}' }}\n" for i in (1, 2))
        )


# Tars


@advises(
    "converters/sources/webdataset.py: choose one: --columns image={}",
    "convert a.tar out",
    Way("--columns", 6),
)
def a_sample_with_two_images(box: Box) -> None:
    data = files(box)
    tar(box, "a.tar", {"0.jpg": data[0], "0.png": data[1], **{f"{i}.jpg": one for i, one in enumerate(data) if i}})


@advises(
    "converters/sources/webdataset.py: if each tar restarts its keys, give --columns",
    "convert set out",
    Way("--columns", 6),
)
def tars_that_restart_their_keys(box: Box) -> None:
    data = files(box)
    for name, part in (("a", data[:3]), ("b", data[3:])):
        tar(
            box,
            f"set/{name}.tar",
            {f"{i}.{end}": one if end == "jpg" else b"0" for i, one in enumerate(part) for end in ("jpg", "cls")},
        )


@advises(
    "converters/sources/webdataset.py: choose one, such as --columns image={}",
    "convert a.tar out",
    Way("--columns", 3),
)
def samples_with_two_images(box: Box) -> None:
    data = files(box)
    tar(
        box,
        "a.tar",
        {f"{i}.{end}": data[2 * i + n] for i in range(3) for n, end in enumerate(("left.jpg", "right.jpg"))},
    )


@advises(
    "converters/sources/webdataset.py: several names for one image: --columns",
    "convert a.tar out",
    Way("--columns", 6),
)
def samples_with_an_image_of_two_names(box: Box) -> None:
    data = files(box)
    tar(box, "a.tar", {f"{i}.{('left', 'front')[i % 2]}.jpg": one for i, one in enumerate(data)})


@advises(
    "converters/sources/webdataset.py: write it as cls, txt or json, or choose",
    "convert a.tar out",
    Way("--columns", 6),
)
def a_column_of_pickles(box: Box) -> None:
    data = files(box)
    tar(
        box,
        "a.tar",
        {f"{i}.{end}": one if end == "jpg" else b"\x80\x04." for i, one in enumerate(data) for end in ("jpg", "pyd")},
    )


# Tables with pixels, and rows of annotations


@advises(
    "converters/sources/rare/pixels_csv.py: give --label-column {} (and --split-column",
    "convert t.csv out",
    Way("--label-column", 6),
    Way("--label-column --split-column", {"train": 3, "test": 3}, fill={"COLUMN": "use"}),
)
def pixels_with_an_unknown_label(box: Box) -> None:
    rows = [f"{i % 2},{' '.join(['7'] * 48 * 48)},{('train', 'test')[i % 2]}" for i in SIX]
    box.write("t.csv", "\n".join(["emotion,pixels,use", *rows]) + "\n")


@advises(
    "converters/sources/rows/columns.py: give --columns label={} for classes, --columns {}={}",
    "convert fold.csv out",
    Way("--columns", 6),
    Way("--columns", 6, fill={"--columns": "image/fold=fold"}),
    Way("--unlabelled", 6),
)
@advises(
    "converters/sources/rows/columns.py: give --columns label={} for classes, --columns text={}",
    "convert patient.csv out",
    Way("--columns", 6),
    Way("--columns", 6, fill={"--columns": "text=patient"}),
)
@advises("converters/sources/rows/roles.py: choose one: --columns {}={}", "convert two.csv out", Way("--columns", 6))
@advises(
    "converters/sources/classes.py: if {} is the first class, give --label-offset {}{}",
    "convert from1.csv out",
    Way("--label-offset", 6),
)
@advises(
    "converters/sources/rows/gather.py: for numbers, give --columns image/value={}",
    "convert fractions.csv out",
    Way("--columns", 6),
)
def pixels_beside_columns_that_are_no_labels(box: Box) -> None:
    for name, head, cells in (
        ("fold", "fold", ("0", "1", "2")),
        ("patient", "patient", ("P0", "P1", "P2")),
        ("two", "label,class", ("0,1", "1,0", "1,1")),
        ("from1", "label", ("1", "2", "3")),
        ("fractions", "label", ("0.5", "0.25", "1.5")),
    ):
        rows = [f"{' '.join([str(i)] * 64)},{cells[i // 2]}" for i in SIX]
        box.write(f"{name}.csv", "\n".join([f"pixels,{head}", *rows]) + "\n")


@advises(
    "converters/sources/rows/annotations.py: give the folder of these images: --images DIR",
    "convert set/t.csv out",
    Way("--images", 4, fill={"DIR": "set/x"}),
)
def ids_of_two_annotated_images(box: Box) -> None:
    for folder in ("x", "y"):
        box.images(*(f"set/{folder}/{i}.png" for i in "abcd"))
    rows = [f"{i},40,32,dog,1,2,30,20" for i in "abcd"]
    box.write("set/t.csv", "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *rows]) + "\n")


@advises(
    "converters/sources/rows/annotations.py: give the folder that names are relative to: --images",
    "convert set/t.csv out",
    Way("--images", 4, fill={"DIR": "photos"}),
)
def annotated_images_elsewhere(box: Box) -> None:
    box.images(*(f"photos/{i}.png" for i in "abcd"))
    box.image("set/z.png")
    rows = [f"{i}.png,40,32,dog,1,2,30,20" for i in "abcd"]
    box.write("set/t.csv", "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *rows]) + "\n")


@advises(
    "converters/sources/rows/roles.py: choose one, --columns image={}; if another one is its mask",
    "convert a.parquet out",
    Way("--columns", 6),
)
def columns_with_spaces_in_their_names(box: Box) -> None:
    data = files(box)
    parquet(box, "a.parquet", **{"left image; raw": data, "right image": data})


@advises(
    "converters/sources/rows/own_columns.py: read the dataset that they are of, with its manifest: `shardfeed reshard",
    "convert a.tar new",
    Way("shardfeed reshard", 6, fill={"DIR": "out", "OUT": "new"}),
)
def a_tar_of_objects_that_cannot_be_read(box: Box) -> None:
    box.folder()
    assert box.type("convert images out --to webdataset") == 0
    said = b'{"image/object/bbox/xmin": [0.5], "image/object/mood": [1]}'
    members = [(f"{i}.jpg", data) for i, data in enumerate(files(box))] + [(f"{i}.json", said) for i in SIX]
    tar(box, "a.tar", dict(sorted(members)))

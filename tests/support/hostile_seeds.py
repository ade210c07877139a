"""A small valid input of each reader, for `promises/test_hostile_readers.py` to damage."""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import Feature
from tests.layouts import annotation_tools, arrays, detection, json_exports, official_lists
from tests.layouts.files import Files
from tests.layouts.layout import Build

COUNT = 4  # images of each


def image(seed: int, kind: str = "JPEG") -> bytes:
    """A small image file."""
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (16, 20, 3), np.uint8)).save(out, kind)
    return out.getvalue()


def _images(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{i}.jpg" for i in range(COUNT)]
    for i, name in enumerate(names):
        (folder / name).write_bytes(image(i))
    return names


def _folder(root: Path) -> None:
    for name in ("cat", "dog"):
        _images(root / "train" / name)


def _label_csv(root: Path) -> Path:
    names = _images(root / "images")
    rows = [f'images/{name},"{"cat" if i % 2 else "dog"}",{i}.5,a text' for i, name in enumerate(names)]
    (root / "labels.csv").write_text("\n".join(["path,label,score,text", *rows]) + "\n")
    return root / "labels.csv"


def _label_jsonl(root: Path) -> Path:
    names = _images(root / "images")
    rows = [json.dumps({"path": f"images/{name}", "label": ["cat", "dog"][: i % 3]}) for i, name in enumerate(names)]
    (root / "labels.jsonl").write_text("\n".join(rows) + "\n")
    return root / "labels.jsonl"


def _coco(root: Path) -> None:
    names = _images(root / "images")
    found = {
        "images": [{"id": i + 1, "file_name": name, "width": 20, "height": 16} for i, name in enumerate(names)],
        "annotations": [
            {
                "id": i + 1,
                "image_id": i + 1,
                "category_id": 1 + i % 2,
                "bbox": [1.5, 2, 8, 9],
                "area": 72.0,
                "iscrowd": 0,
                "segmentation": [[1, 2, 9, 2, 9, 11, 1, 11]],
                "keypoints": [1, 2, 2, 3, 4, 1],
                "num_keypoints": 2,
            }
            for i in range(COUNT)
        ],
        "categories": [{"id": 1 + i, "name": name, "keypoints": ["a", "b"]} for i, name in enumerate(("cat", "dog"))],
    }
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_train.json").write_text(json.dumps(found))


def _yolo(root: Path) -> None:
    names = _images(root / "images" / "train")
    (root / "labels" / "train").mkdir(parents=True)
    for i, name in enumerate(names):
        lines = f"{i % 2} 0.5 0.5 0.25 0.25\n1 0.1 0.2 0.1 0.1\n"
        (root / "labels" / "train" / name).with_suffix(".txt").write_text(lines)
    (root / "data.yaml").write_text("path: .\ntrain: images/train\nnc: 2\nnames:\n  0: cat\n  1: &dog dog\n")


def _voc(root: Path) -> None:
    names = _images(root / "JPEGImages")
    (root / "Annotations").mkdir()
    (root / "ImageSets" / "Main").mkdir(parents=True)
    for name in names:
        box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>10</ymax></bndbox>"
        size = "<size><width>20</width><height>16</height><depth>3</depth></size>"
        text = f"<annotation><filename>{name}</filename>{size}<object><name>cat</name>{box}</object></annotation>"
        (root / "Annotations" / name).with_suffix(".xml").write_text(text)
    (root / "ImageSets" / "Main" / "train.txt").write_text("".join(f"{Path(name).stem}\n" for name in names))


def _kitti(root: Path) -> None:
    names = _images(root / "training" / "image_2")
    (root / "training" / "label_2").mkdir()
    for i, name in enumerate(names):
        lines = f"Car 0.00 {i} 1.55 2.00 3.00 9.00 10.00 1.6 1.5 3.2 -1.8 1.5 8.4 0.01\n"
        lines += "DontCare -1 -1 -10 11.00 1.00 15.00 9.00 -1 -1 -1 -1000 -1000 -1000 -10\n"
        (root / "training" / "label_2" / name).with_suffix(".txt").write_text(lines)


def _createml(root: Path) -> None:
    place = {"x": 8.5, "y": 6, "width": 5, "height": 8}
    found = [{"image": name, "annotations": [{"label": "cat", "coordinates": place}]} for name in _images(root)]
    (root / "_annotations.createml.json").write_text(json.dumps(found))


def _masks(root: Path) -> None:
    names = _images(root / "images")
    (root / "masks").mkdir()
    for i, name in enumerate(names):
        mask = Image.fromarray(np.random.default_rng(i).integers(0, 3, (16, 20), np.uint8), "P")
        mask.putpalette([0, 0, 0, 200, 0, 0, 0, 200, 0])
        mask.save((root / "masks" / name).with_suffix(".png"))
    (root / "class_dict.csv").write_text("name,r,g,b\nbackground,0,0,0\ncat,200,0,0\ndog,0,200,0\n")


def _boxes_csv(root: Path) -> None:
    rows = [f"{name},20,16,cat,2,3,9,10" for name in _images(root / "train")]
    text = "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *rows])
    (root / "train" / "_annotations.csv").write_text(text + "\n")


def _classes_csv(root: Path) -> None:
    rows = [f"{name}, {i % 2}, 1" for i, name in enumerate(_images(root / "train"))]
    (root / "train" / "_classes.csv").write_text("\n".join(["filename, cat, dog", *rows]) + "\n")


def _token(root: Path) -> None:
    names = _images(root / "images")
    lines = [f"{name}#{n}\ta picture of {n}" for name in names for n in range(2)]
    (root / "captions.token").write_text("\n".join(lines) + "\n")


def _caption_files(root: Path) -> None:
    for name in _images(root):
        (root / name).with_suffix(".txt").write_text(f"a picture of {name[:-4]} alone\n")


def _karpathy(root: Path) -> None:
    sentences = [{"raw": "a picture"}, {"raw": "another"}]
    found = [
        {"filename": name, "split": "train", "sentences": sentences, "cocoid": i}
        for i, name in enumerate(_images(root / "images"))
    ]
    (root / "dataset.json").write_text(json.dumps({"images": found, "dataset": "x"}))


def _metadata_jsonl(root: Path) -> None:
    objects = {"bbox": [[1, 2, 8, 9]], "categories": [0]}
    rows = [json.dumps({"file_name": name, "objects": objects}) for name in _images(root / "train")]
    (root / "train" / "metadata.jsonl").write_text("\n".join(rows) + "\n")


def _metadata_csv(root: Path) -> None:
    rows = [f"{name},text {name}" for name in _images(root / "train")]
    (root / "train" / "metadata.csv").write_text("\n".join(["file_name,text", *rows]) + "\n")


def _tar(root: Path) -> None:
    with tarfile.open(root / "train-000.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for i in range(COUNT):
            parts = {"jpg": image(i), "cls": b"%d" % (i % 2), "json": b'{"id": %d, "text": "a"}' % i, "txt": b"caption"}
            for end, data in parts.items():
                info = tarfile.TarInfo(f"{'x' * 110 if i == 1 else ''}{i:03}.{end}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def _parquet(root: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    images = [{"bytes": image(i), "path": f"{i}.jpg"} for i in range(COUNT)]
    objects = [{"bbox": [[1.0, 2.0, 8.0, 9.0]], "category": [0]} for _ in range(COUNT)]
    columns = {"image": images, "label": [i % 2 for i in range(COUNT)], "objects": objects, "text": ["a"] * COUNT}
    pq.write_table(pa.table(columns), root / "train-0.parquet", row_group_size=2)


def _examples() -> list[bytes]:
    features = {
        "image/encoded": Feature("bytes"),
        "image/class/label": Feature("int64"),
        "image/class/text": Feature("bytes"),
        "image/object/bbox/xmin": Feature("float32", (None,)),
        "image/object/bbox/xmax": Feature("float32", (None,)),
        "image/object/bbox/ymin": Feature("float32", (None,)),
        "image/object/bbox/ymax": Feature("float32", (None,)),
        "image/object/class/label": Feature("int64", (None,)),
    }
    box = {"xmin": [0.1, 0.2], "xmax": [0.5, 0.6], "ymin": [0.1, 0.2], "ymax": [0.5, 0.6]}
    values = {f"image/object/bbox/{side}": numbers for side, numbers in box.items()}
    values |= {"image/object/class/label": [0, 1]}
    return [
        encode(features, {**values, "image/encoded": image(i), "image/class/label": i % 2, "image/class/text": b"cat"})
        for i in range(COUNT)
    ]


def _tfrecord(root: Path) -> None:
    (root / "train-00000-of-00001.tfrecord").write_bytes(b"".join(map(frame, _examples())))


def _tfrecord_gz(root: Path) -> None:
    (root / "train.tfrecord.gz").write_bytes(gzip.compress(b"".join(map(frame, _examples())), mtime=0))


def _arrayrecord(root: Path, options: str = "group_size:1") -> None:
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]  # compiled

    writer = array_record_module.ArrayRecordWriter(str(root / "train.array_record"), options)
    for payload in _examples():
        writer.write(payload)
    writer.close()


def _arrayrecord_grouped(root: Path) -> None:
    _arrayrecord(root, "group_size:100,zstd")


def _mds(root: Path, compression: str = "") -> None:
    samples = []
    for i in range(COUNT):
        cells = [image(i), b'{"a": 1}']
        samples.append(struct.pack("<2I", *map(len, cells)) + b"".join(cells) + struct.pack("<q", i % 2))
    starts = [4 + 4 * (COUNT + 1)]
    for sample in samples:
        starts.append(starts[-1] + len(sample))
    data = struct.pack(f"<{COUNT + 2}I", COUNT, *starts) + b"".join(samples)
    entry = {
        "column_names": ["image", "meta", "label"],
        "column_encodings": ["jpeg", "json", "int"],
        "column_sizes": [None, None, 8],
        "format": "mds",
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}},
        "samples": COUNT,
        "compression": compression or None,
        "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 1, "hashes": {}} if compression else None,
        "version": 2,
    }
    (root / "index.json").write_text(json.dumps({"shards": [entry], "version": 2}))
    if compression:
        import zstandard

        (root / "shard.00000.mds.zstd").write_bytes(zstandard.compress(data))
    else:
        (root / "shard.00000.mds").write_bytes(data)


def _mds_zstd(root: Path) -> None:
    _mds(root, "zstd")


def _pixels() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 3), np.uint8), np.arange(COUNT) % 2


def _npz(root: Path) -> None:
    images, labels = _pixels()
    np.savez(root / "a.npz", x_train=images, y_train=labels)


def _npz_packed(root: Path) -> None:
    images, labels = _pixels()
    np.savez_compressed(root / "a.npz", x_train=images, y_train=labels)


def _npy(root: Path) -> None:
    images, labels = _pixels()
    np.save(root / "x_train.npy", images)
    np.save(root / "y_train.npy", labels)


def _mat(root: Path) -> None:
    import scipy.io

    images, labels = _pixels()
    scipy.io.savemat(root / "a.mat", {"X": np.moveaxis(images, 0, -1), "y": labels}, do_compression=True)


def _hdf5(root: Path) -> None:
    import h5py

    images, labels = _pixels()
    with h5py.File(root / "a.h5", "w") as file:
        file.create_dataset("x", data=images, chunks=(2, 8, 8, 3), compression="gzip")
        file.create_dataset("y", data=labels)
        file.create_group("other").create_dataset("z", data=np.zeros(3))


def _idx_bytes() -> dict[str, bytes]:
    images, labels = _pixels()
    return {
        "train-images-idx3-ubyte": struct.pack(">4B3I", 0, 0, 8, 3, COUNT, 8, 8) + images[..., 0].tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">4BI", 0, 0, 8, 1, COUNT) + labels.astype(np.uint8).tobytes(),
    }


def _idx(root: Path) -> None:
    for name, data in _idx_bytes().items():
        (root / name).write_bytes(data)


def _idx_gz(root: Path) -> None:
    for name, data in _idx_bytes().items():
        (root / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))


def _cifar(root: Path) -> None:
    rows = [bytes([i % 2]) + np.random.default_rng(i).bytes(3072) for i in range(COUNT)]
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (root / name).write_bytes(b"".join(rows))
    (root / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")


def _stl10(root: Path) -> None:
    (root / "train_X.bin").write_bytes(np.random.default_rng(0).bytes(COUNT * 96 * 96 * 3))
    (root / "train_y.bin").write_bytes(bytes(1 + i % 2 for i in range(COUNT)))
    (root / "class_names.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")


def _lmdb(root: Path, rows: dict[bytes, bytes] | None = None) -> None:
    import lmdb

    rows = {b"key%d" % i: image(i) for i in range(COUNT)} if rows is None else rows
    with lmdb.open(str(root), map_size=1 << 20, subdir=True) as database, database.begin(write=True) as put:
        for key, value in rows.items():
            put.put(key, value)
    (root / "lock.mdb").unlink()


def _lmdb_texts(root: Path) -> None:
    rows = {b"num-samples": b"%d" % COUNT}
    rows |= {b"image-%09d" % (i + 1): image(i) for i in range(COUNT)}
    _lmdb(root, rows | {b"label-%09d" % (i + 1): b"text" for i in range(COUNT)})


def _layout(build: Build, folder: str) -> Callable[[Path], Path]:
    """A layout of tests/layouts, of which `folder` is opened."""

    def make(root: Path) -> Path:
        build(Files(root))
        return root / folder

    return make


# Name -> (what makes it in a folder and may give the path to open, the reader).
SEEDS: dict[str, tuple[Callable[[Path], Path | None], str]] = {
    "folder": (_folder, "folder"),
    "official lists": (_layout(official_lists.food_101, "food-101"), "split-lists"),
    "pixels in CSV": (_layout(arrays.digit_recognizer, "train.csv"), "pixels-csv"),
    "labels.csv": (_label_csv, "labels"),
    "labels.jsonl": (_label_jsonl, "labels"),
    "COCO": (_coco, "coco"),
    "YOLO": (_yolo, "yolo"),
    "VOC": (_voc, "voc"),
    "KITTI": (_kitti, "kitti"),
    "DOTA": (_layout(detection.dota, "dota"), "dota"),
    "Create ML": (_createml, "createml"),
    "masks": (_masks, "masks"),
    "boxes in CSV": (_boxes_csv, "boxes-csv"),
    "classes in CSV": (_classes_csv, "classes-csv"),
    "LabelMe": (_layout(annotation_tools.labelme_rectangles, "photos"), "labelme"),
    "CVAT": (_layout(annotation_tools.cvat_images, "cvat"), "cvat"),
    "Label Studio": (_layout(annotation_tools.label_studio_json, "export"), "label-studio"),
    "VIA": (_layout(json_exports.via_json, "photos"), "via"),
    "Supervisely": (_layout(json_exports.supervisely, "project"), "supervisely"),
    "FiftyOne": (_layout(json_exports.fiftyone_dataset, "export"), "fiftyone"),
    "captions by lines": (_token, "captions"),
    "captions in files": (_caption_files, "caption-files"),
    "SageMaker": (_layout(json_exports.sagemaker_boxes, ""), "sagemaker"),
    "captions in JSON": (_karpathy, "captions"),
    "metadata.jsonl": (_metadata_jsonl, "imagefolder"),
    "metadata.csv": (_metadata_csv, "imagefolder"),
    "tar": (_tar, "webdataset"),
    "Parquet": (_parquet, "parquet"),
    "TFRecord": (_tfrecord, "tfrecord"),
    "TFRecord in gzip": (_tfrecord_gz, "tfrecord"),
    "ArrayRecord": (_arrayrecord, "arrayrecord"),
    "ArrayRecord in groups": (_arrayrecord_grouped, "arrayrecord"),
    "MDS": (_mds, "mds"),
    "MDS in zstd": (_mds_zstd, "mds"),
    "npz": (_npz, "npz"),
    "npz packed": (_npz_packed, "npz"),
    "npy": (_npy, "npz"),
    "HDF5": (_hdf5, "hdf5"),
    "MATLAB": (_mat, "mat"),
    "IDX": (_idx, "idx"),
    "IDX in gzip": (_idx_gz, "idx"),
    "CIFAR": (_cifar, "cifar"),
    "STL-10": (_stl10, "stl10"),
    "LMDB": (_lmdb, "lmdb"),
    "LMDB of texts": (_lmdb_texts, "lmdb"),
}

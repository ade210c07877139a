"""Files of many encoded images."""

import io
import json
import tarfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from tests.layouts.documents import A
from tests.layouts.files import Files, picture, plain
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Shards, tables and databases")
LABELLED = Gives("train 4", {"0", "1"}, gray={10: "0", 20: "1", 30: "0", 40: "1"})
NAMED = Gives("train 4", "cat dog", gray={10: "cat", 20: "dog", 30: "cat", 40: "dog"})
GRAYS, LABELS, NAMES = (10, 20, 30, 40), (0, 1, 0, 1), ("cat", "dog", "cat", "dog")


def tar(to: Files, path: str, members: dict[str, bytes]) -> None:
    """A tar of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    to.put(path, out.getvalue())


def _samples(**columns: Any) -> dict[str, bytes]:
    """Members by key: the images, and each column's value of sample i, as `column(i)`."""
    members = {}
    for number, gray in enumerate(GRAYS):
        members[f"{number:06d}.jpg"] = plain(gray, kind="JPEG")
        for ending, value in columns.items():
            members[f"{number:06d}.{ending}"] = value(number)
    return members


@TOPIC.layout("WebDataset: `jpg`, `cls`", "convert shards out", LABELLED)
def webdataset(to: Files) -> None:
    members = list(_samples(cls=lambda i: b"%d" % LABELS[i]).items())
    tar(to, "shards/train-000000.tar", dict(members[:4]))
    tar(to, "shards/train-000001.tar", dict(members[4:]))


@TOPIC.layout(
    "WebDataset with test tars that have no `cls`",
    "convert shards out",
    Gives("train 4", {"0", "1"}, gray={10: "0", 20: "1"}),
    says="--max-bad 1",
    then="convert shards out --max-bad 1",
    code=3,
)
def webdataset_test_without(to: Files) -> None:
    tar(to, "shards/train-000000.tar", _samples(cls=lambda i: b"%d" % LABELS[i]))
    tar(to, "shards/test-000000.tar", {"9.jpg": plain(90, kind="JPEG")})


@TOPIC.layout("WebDataset: a JSON per sample with `label`", "convert shards.tar out", NAMED)
def webdataset_json(to: Files) -> None:
    tar(to, "shards.tar", _samples(json=lambda i: json.dumps({"label": NAMES[i], "id": i}).encode()))


@TOPIC.layout(
    "WebDataset: `cls` and a JSON with further columns",
    "convert shards.tar out",
    Gives("train 4", {"0", "1"}, gray={20: "1"}, values={"image/width_cm": {"000001.jpg": 3}}),
)
def webdataset_json_columns(to: Files) -> None:
    columns = {"cls": lambda i: b"%d" % LABELS[i], "json": lambda i: json.dumps({"width_cm": i + 2}).encode()}
    tar(to, "shards.tar", _samples(**columns))


@TOPIC.layout(
    "WebDataset by a pattern: `train-{000000..000001}.tar`", "convert 'shards/train-{000000..000001}.tar' out", LABELLED
)
def webdataset_braces(to: Files) -> None:
    webdataset(to)


@TOPIC.layout(
    "img2dataset: `00000.tar` of `jpg`, `txt`, `json`, and `00000.parquet`, `00000_stats.json` beside it",
    "convert laion out",
    Gives("train 4", captions={"000001.jpg": ["caption 1"]}),
    needs="pyarrow",
)
def img2dataset(to: Files) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"txt": lambda i: b"caption %d" % i, "json": lambda i: json.dumps({"caption": f"caption {i}"}).encode()}
    tar(to, "laion/00000.tar", _samples(**columns))
    to.put("laion/00000_stats.json", {"count": 4, "successes": 4})
    rows = {"url": [f"http://a/{n}.jpg" for n in range(4)], "key": [f"{n:06d}" for n in range(4)]}
    pq.write_table(pa.table({**rows, "caption": [f"caption {n}" for n in range(4)]}), to.root / "laion/00000.parquet")


@TOPIC.layout(
    "img2dataset with keys that start over in each tar",
    "convert laion out",
    Gives("train 8", captions={}),
    says="--columns",
    then="convert laion out --columns key=__url__",
)
def img2dataset_keys(to: Files) -> None:
    for number in range(2):
        tar(to, f"laion/0000{number}.tar", _samples())


@TOPIC.layout(
    "a tar of class folders (`EuroSAT.tar`)",
    "convert EuroSAT.tar out",
    Gives("train 4", "Forest River", {"Forest_1.jpg": "Forest"}),
    today="the labels are lost, with the words `no label` alone",
)
def tar_of_class_folders(to: Files) -> None:
    to.images("packed/2750/{Forest,River}/Forest_{1..2}.jpg")
    for number in (1, 2):
        (to.root / f"packed/2750/River/Forest_{number}.jpg").rename(to.root / f"packed/2750/River/River_{number}.jpg")
    to.pack("EuroSAT.tar")


@TOPIC.layout(
    "ImageNet's `ILSVRC2012_img_train.tar`: a tar of tars, one for each class",
    "convert ILSVRC2012_img_train.tar out",
    says="for f in *.tar",
)
def tar_of_tars(to: Files) -> None:
    inner = {}
    for wnid in ("n01440764", "n01443537"):
        tar(to, "inner.tar", {f"{wnid}_{n}.JPEG": picture(f"{wnid}{n}") for n in range(2)})
        inner[f"{wnid}.tar"] = (to.root / "inner.tar").read_bytes()
    (to.root / "inner.tar").unlink()
    tar(to, "ILSVRC2012_img_train.tar", inner)


@TOPIC.layout(
    "a folder of a tar for each class (ImageNet, unpacked once)",
    "convert train out",
    Gives("train 4", "n01440764 n01443537", {"n01440764_1.JPEG": "n01440764"}),
    today="the labels are lost, with the words `no label` alone",
)
def folder_of_class_tars(to: Files) -> None:
    for wnid in ("n01440764", "n01443537"):
        tar(to, f"train/{wnid}.tar", {f"{wnid}_{n}.JPEG": picture(f"{wnid}{n}") for n in range(2)})


def parquet(
    to: Files, path: str, columns: dict[str, Any], names: list[str] | None = None, label: str = "label"
) -> None:
    """A table as the Hub has it: images as structs of bytes and path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns)
    features: dict[str, Any] = {name: {"_type": "Image"} for name in ("image", "img") if name in columns}
    if names:
        features[label] = {"_type": "ClassLabel", "names": names}
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    (to.root / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, to.root / path)


def images_of(grays: tuple[int, ...] = GRAYS) -> list[dict[str, Any]]:
    """Cells of images."""
    return [{"bytes": plain(gray), "path": f"{gray}.png"} for gray in grays]


@TOPIC.layout(
    "the Hub's Parquet: `data/train-00000-of-00001.parquet`, `ClassLabel`",
    "convert hub out",
    Gives("train 4, test 1", ("cat", "dog"), gray={10: "cat", 20: "dog", 90: "dog"}),
    needs="pyarrow",
)
def hub_parquet(to: Files) -> None:
    parquet(to, "hub/data/train-00000-of-00001.parquet", {"image": images_of(), "label": LABELS}, ["cat", "dog"])
    parquet(to, "hub/data/test-00000-of-00001.parquet", {"image": images_of((90,)), "label": [1]}, ["cat", "dog"])
    to.put("hub/README.md", "---\nlicense: mit\n---")


@TOPIC.layout(
    "the Hub's CIFAR-10: `img`, `label`",
    "convert plain_text out",
    Gives("train 4", ("airplane", "automobile"), gray={20: "automobile"}),
    needs="pyarrow",
)
def hub_cifar(to: Files) -> None:
    columns = {"img": images_of(), "label": LABELS}
    parquet(to, "plain_text/train-00000-of-00001.parquet", columns, ["airplane", "automobile"])


@TOPIC.layout(
    "the Hub's CIFAR-100: `fine_label`, `coarse_label`",
    "convert cifar100 out --columns label=fine_label",
    Gives("train 4", ("apple", "fish"), gray={20: "fish"}),
    needs="pyarrow",
)
def hub_cifar100(to: Files) -> None:
    columns = {"img": images_of(), "fine_label": LABELS, "coarse_label": LABELS}
    parquet(to, "cifar100/train-00000-of-00001.parquet", columns, ["apple", "fish"], "fine_label")


@TOPIC.layout(
    "the Hub's Parquet with test files that have no labels",
    "convert hub out",
    Gives("train 4", ("cat", "dog"), gray={20: "dog"}),
    says="--max-bad 1",
    then="convert hub out --max-bad 1",
    code=3,
    needs="pyarrow",
)
def hub_test_without_label(to: Files) -> None:
    parquet(to, "hub/data/train-00000-of-00001.parquet", {"image": images_of(), "label": LABELS}, ["cat", "dog"])
    parquet(to, "hub/data/test-00000-of-00001.parquet", {"image": images_of((90,))})


@TOPIC.layout(
    "the Hub's Parquet with test files that have the label -1, which means no label",
    "convert hub out",
    Gives("train 4", ("cat", "dog"), gray={20: "dog"}),
    says="--max-bad 1",
    then="convert hub out --max-bad 1",
    code=3,
    needs="pyarrow",
)
def hub_test_minus_one(to: Files) -> None:
    parquet(to, "hub/data/train-00000-of-00001.parquet", {"image": images_of(), "label": LABELS}, ["cat", "dog"])
    parquet(to, "hub/data/test-00000-of-00001.parquet", {"image": images_of((90,)), "label": [-1]}, ["cat", "dog"])


@TOPIC.layout(
    "the Hub's detection (cppe-5): `objects` with `bbox`, `category`",
    "convert cppe-5 out",
    Gives("train 2", objects=3, of={"0", "1"}, boxes={"10.png": "1 4 5 14 15; 0 0 0 8 8"}),
    needs="pyarrow",
)
def hub_detection(to: Files) -> None:
    objects = [
        {"bbox": [[4.0, 5.0, 10.0, 10.0], [0.0, 0.0, 8.0, 8.0]], "category": [1, 0], "area": [100, 64], "id": [1, 2]},
        {"bbox": [[1.0, 1.0, 9.0, 9.0]], "category": [0], "area": [81], "id": [3]},
    ]
    parquet(to, "cppe-5/data/train-00000-of-00001.parquet", {"image": images_of((10, 20)), "objects": objects})


@TOPIC.layout(
    "the Hub's detection with other keys: `objects` with `bbox`, `label`",
    "convert fashion out",
    Gives("train 2", objects=2, of={"0", "1"}, boxes={"10.png": "1 4 5 14 15"}),
    needs="pyarrow",
)
def hub_detection_label(to: Files) -> None:
    objects = [{"bbox": [[4.0, 5.0, 10.0, 10.0]], "label": [1]}, {"bbox": [[1.0, 1.0, 9.0, 9.0]], "label": [0]}]
    parquet(to, "fashion/data/train-00000-of-00001.parquet", {"image": images_of((10, 20)), "objects": objects})


@TOPIC.layout(
    "the Hub's captions: `image`, `text`",
    "convert pokemon out",
    Gives("train 2", captions={"10.png": ["a drawing"]}),
    needs="pyarrow",
)
def hub_captions(to: Files) -> None:
    columns = {"image": images_of((10, 20)), "text": ["a drawing", "another"]}
    parquet(to, "pokemon/data/train-00000-of-00001.parquet", columns)


def records(to: Files, path: str, rows: list[dict[str, Any]]) -> None:
    """TFRecords by TensorFlow's own writer."""
    from foreign_tfrecords import write

    write(to.root / path, rows)


@TOPIC.layout(
    "Model Garden's ImageNet TFRecords: `train-00000-of-01024`, labels from 1, `image/class/text`",
    "convert imagenet out",
    Gives("train 4", ("tench", "goldfish"), gray={10: "tench", 20: "goldfish"}),
    needs="tensorflow",
)
def model_garden_imagenet(to: Files) -> None:
    rows = [
        {
            "image/encoded": plain(gray, kind="JPEG"),
            "image/class/label": label + 1,
            "image/class/text": (b"tench", b"goldfish")[label],
            "image/filename": b"n_%d.JPEG" % gray,
            "image/format": b"JPEG",
            "image/height": 28,
            "image/width": 28,
        }
        for gray, label in zip(GRAYS, LABELS, strict=True)
    ]
    records(to, "imagenet/train-00000-of-00002", rows[:2])
    records(to, "imagenet/train-00001-of-00002", rows[2:])


def detection_record(name: str, labels: Sequence[int]) -> dict[str, Any]:
    """A record of the Object Detection API: an object for each label, all with one box."""
    count = len(labels)
    return {
        "image/encoded": picture(name),
        "image/format": b"jpeg",
        "image/filename": b"%s.jpg" % name.encode(),
        "image/height": 40,
        "image/width": 60,
        "image/object/bbox/xmin": [4 / 60, 0.0][:count],
        "image/object/bbox/ymin": [5 / 40, 0.0][:count],
        "image/object/bbox/xmax": [40 / 60, 20 / 60][:count],
        "image/object/bbox/ymax": [30 / 40, 1.0][:count],
        "image/object/class/label": list(labels),
        "image/object/class/text": [(b"background", b"cat", b"dog")[label] for label in labels],
    }


LABEL_MAP = "item {\n  id: 1\n  name: 'cat'\n}\nitem {\n  id: 2\n  name: 'dog'\n}"


@TOPIC.layout(
    "TFRecords of the Object Detection API: `image/object/bbox/...`, `label_map.pbtxt`",
    "convert records out --label-map label_map.pbtxt",
    Gives("train 2", objects=3, of="cat dog", boxes={"a.jpg": A, "b.jpg": "cat 4 5 40 30"}),
    needs="tensorflow",
)
def object_detection_api(to: Files) -> None:
    rows = [detection_record("a", [2, 1]), detection_record("b", [1])]
    records(to, "records/train.record-00000-of-00001", rows)
    to.put("label_map.pbtxt", LABEL_MAP)


@TOPIC.layout(
    "TFRecords of the Object Detection API with one object in each image",
    "convert records out --label-map label_map.pbtxt",
    Gives("train 2", objects=2, of="cat dog", boxes={"a.jpg": "dog 4 5 40 30", "b.jpg": "cat 4 5 40 30"}),
    needs="tensorflow",
)
def one_object_each(to: Files) -> None:
    rows = [detection_record("a", [2]), detection_record("b", [1])]
    records(to, "records/train.record-00000-of-00001", rows)
    to.put("label_map.pbtxt", LABEL_MAP)


@TOPIC.layout(
    "Roboflow's TFRecord: `train/animals.tfrecord`, `train/animals_label_map.pbtxt`",
    "convert roboflow out",
    Gives("train 1, validation 1", objects=3, of="cat dog", boxes={"a.jpg": A}),
    needs="tensorflow",
)
def roboflow_tfrecord(to: Files) -> None:
    for split, name, labels in (("train", "a", [2, 1]), ("valid", "b", [1])):
        records(to, f"roboflow/{split}/animals.tfrecord", [detection_record(name, labels)])
        items = [f'item {{\n    name: "{label}",\n    id: {n}\n}}' for n, label in ((1, "cat"), (2, "dog"))]
        to.put(f"roboflow/{split}/animals_label_map.pbtxt", "\n".join(items))


@TOPIC.layout(
    "a TFDS folder: `mnist-train.tfrecord-00000-of-00001`, `features.json`, `label.labels.txt`",
    "convert mnist/3.0.1 out",
    Gives("train 4, test 1", ("zero", "one"), gray={10: "zero", 20: "one"}),
    needs="tensorflow",
)
def tfds(to: Files) -> None:
    rows = [{"image": plain(gray), "label": label} for gray, label in zip((*GRAYS, 90), (*LABELS, 1), strict=True)]
    records(to, "mnist/3.0.1/mnist-train.tfrecord-00000-of-00001", rows[:4])
    records(to, "mnist/3.0.1/mnist-test.tfrecord-00000-of-00001", rows[4:])
    image = {"pythonClassName": "tensorflow_datasets.core.features.image_feature.Image"}
    to.put("mnist/3.0.1/features.json", {"featuresDict": {"features": {"image": image}}})
    to.put("mnist/3.0.1/dataset_info.json", {"name": "mnist", "version": "3.0.1"})
    to.put("mnist/3.0.1/label.labels.txt", "zero\none")


@TOPIC.layout(
    "the same, from the parent folder of the version: `mnist/3.0.1/`",
    "convert mnist out",
    Gives("train 4, test 1", ("zero", "one"), gray={10: "zero", 20: "one"}),
    needs="tensorflow",
)
def tfds_above(to: Files) -> None:
    tfds(to)


@TOPIC.layout(
    "Kaggle's flowers: `tfrecords-jpeg-224x224/train/00-224x224-798.tfrec`, `test/` without classes",
    "convert tfrecords-jpeg-224x224 out",
    Gives("train 4, validation 1", {"0", "1"}, gray={10: "0", 20: "1"}),
    says="--max-bad 1",
    then="convert tfrecords-jpeg-224x224 out --max-bad 1",
    code=3,
    needs="tensorflow",
)
def kaggle_flowers(to: Files) -> None:
    rows = [
        {"image": plain(gray, kind="JPEG"), "class": label, "id": b"%d" % gray}
        for gray, label in zip(GRAYS, LABELS, strict=True)
    ]
    records(to, "tfrecords-jpeg-224x224/train/00-224x224-4.tfrec", rows)
    records(to, "tfrecords-jpeg-224x224/val/00-224x224-1.tfrec", [{**rows[0], "image": plain(91, kind="JPEG")}])
    records(to, "tfrecords-jpeg-224x224/test/00-224x224-1.tfrec", [{"image": plain(90, kind="JPEG"), "id": b"90"}])


@TOPIC.layout(
    "a TFRecord with your own keys: `img`, `species`",
    "convert mine.tfrecord out --columns image=img,label=species",
    Gives("train 4", {"0", "1"}, gray={20: "1"}),
    needs="tensorflow",
)
def own_names(to: Files) -> None:
    rows = [{"img": plain(gray), "species": label} for gray, label in zip(GRAYS, LABELS, strict=True)]
    records(to, "mine.tfrecord", rows)


def _labelled(grays: Sequence[int] = GRAYS, **more: Sequence[Any]) -> list[dict[str, Any]]:
    """Records of images and their labels."""
    rows = [{"image": plain(gray, kind="JPEG"), "label": n % 2} for n, gray in enumerate(grays)]
    return [row | {key: values[n] for key, values in more.items()} for n, row in enumerate(rows)]


@TOPIC.layout(
    "TFX's examples: `Split-train/data_tfrecord-00000-of-00001`, `Split-eval/`",
    "convert examples/1 out",
    Gives("eval 2, train 4", {"0", "1"}, gray={20: "1", 90: "0"}),
    needs="tensorflow",
)
def tfx_examples(to: Files) -> None:
    records(to, "examples/1/Split-train/data_tfrecord-00000-of-00001", _labelled())
    records(to, "examples/1/Split-eval/data_tfrecord-00000-of-00001", _labelled((90, 91)))


@TOPIC.layout(
    "Spark's TFRecords: `train.tfrecord/part-00000-UUID-c000.tfrecord`, `val.tfrecord/`",
    "convert spark out",
    Gives("train 4, validation 2", {"0", "1"}, gray={20: "1", 90: "0"}),
    needs="tensorflow",
)
def spark_records(to: Files) -> None:
    for part in (0, 1):
        name = f"part-0000{part}-1c2d3e4f-aaaa-4bbb-8ccc-0123456789ab-c000.tfrecord"
        records(to, f"spark/train.tfrecord/{name}", _labelled(GRAYS[2 * part : 2 * part + 2]))
        if not part:
            records(to, f"spark/val.tfrecord/{name}", _labelled((90, 91)))


@TOPIC.layout(
    "Spark's TFRecords without a suffix: `train_tfrecords/part-r-00000`, `test_tfrecords/`",
    "convert spark out",
    Gives("test 2, train 4", {"0", "1"}, gray={20: "1", 90: "0"}),
    needs="tensorflow",
)
def bare_spark_records(to: Files) -> None:
    records(to, "spark/train_tfrecords/part-r-00000", [])
    records(to, "spark/train_tfrecords/part-r-00001", _labelled())
    records(to, "spark/test_tfrecords/part-r-00000", _labelled((90, 91)))


@TOPIC.layout(
    "a TFRecord with a 0/1 number per class (RANZCR CLiP)",
    "convert ranzcr out --one-hot ETT_Abnormal,CVC_Normal,Swan_Ganz",
    Gives(
        "train 4",
        ("ETT_Abnormal", "CVC_Normal", "Swan_Ganz"),
        tags={"a.jpg": "CVC_Normal Swan_Ganz", "b.jpg": "", "c.jpg": "ETT_Abnormal"},
    ),
    needs="tensorflow",
)
def ranzcr(to: Files) -> None:
    keys = ("ETT_Abnormal", "CVC_Normal", "Swan_Ganz")
    marks = {"a": (0, 1, 1), "b": (0, 0, 0), "c": (1, 0, 0), "d": (0, 1, 0)}
    rows = [
        {"image": plain(n, kind="JPEG"), "filename": f"{name}.jpg".encode()} | dict(zip(keys, marks[name], strict=True))
        for n, name in enumerate(marks)
    ]
    records(to, "ranzcr/00-512x512-4.tfrec", rows)


@TOPIC.layout(
    "a TFRecord with a list of 0 and 1 for each image",
    "convert genres out --class-names names.txt",
    Gives("train 4", ("drama", "comedy", "war"), tags={"10.jpg": "drama war", "20.jpg": "comedy war"}),
    needs="tensorflow",
)
def multi_hot(to: Files) -> None:
    marks = ([1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 1])
    rows = _labelled(label=marks, filename=[b"%d.jpg" % gray for gray in GRAYS])
    records(to, "genres/train-00000-of-00001.tfrecord", rows)
    to.put("names.txt", "drama\ncomedy\nwar\n")


def _segmented(size: tuple[int, int] = (28, 28)) -> bytes:
    """A mask: 0, and 100 pixels of 1 and of 2."""
    out = io.BytesIO()
    pixels = np.zeros(size, np.uint8)
    pixels[:10, :10], pixels[-10:, -10:] = 1, 2
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@TOPIC.layout(
    "DeepLab's TFRecords: `image/segmentation/class/encoded`",
    "convert tfrecord out --class-names names.txt",
    Gives("train 2, validation 1", raster={"10.jpg": {"sky": 584, "road": 100, "car": 100}}),
    needs="tensorflow",
)
def deeplab(to: Files) -> None:
    rows = [
        {
            "image/encoded": plain(gray, kind="JPEG"),
            "image/filename": b"%d.jpg" % gray,
            "image/segmentation/class/encoded": _segmented(),
            "image/segmentation/class/format": b"png",
        }
        for gray in (10, 20, 90)
    ]
    records(to, "tfrecord/train-00000-of-00001.tfrecord", rows[:2])
    records(to, "tfrecord/val-00000-of-00001.tfrecord", rows[2:])
    to.put("names.txt", "sky\nroad\ncar\n")


@TOPIC.layout(
    "the Hub's segmentation (sidewalk-semantic): `pixel_values`, `label`, both images",
    "convert sidewalk out --class-names names.txt",
    Gives("train 2", raster={"10.png": {"sky": 584, "road": 100, "car": 100}}),
    says=("columns image=pixel_values", "mask=label"),
    then="convert sidewalk out --class-names names.txt --columns image=pixel_values,mask=label",
    needs="pyarrow",
)
def hub_segmentation(to: Files) -> None:
    masks = [{"bytes": _segmented(), "path": f"{gray}_mask.png"} for gray in (10, 20)]
    parquet(to, "sidewalk/data/train-00000-of-00001.parquet", {"pixel_values": images_of((10, 20)), "label": masks})
    to.put("names.txt", "sky\nroad\ncar\n")


@TOPIC.layout(
    "WebDataset with dots in names: `scan_0.25_v1.0.jpg`, `scan_0.25_v1.0.cls`",
    "convert scans.tar out",
    Gives("train 4", {"0", "1"}, gray={20: "1", 30: "0"}),
)
def webdataset_dots(to: Files) -> None:
    members = {}
    for number, gray in enumerate(GRAYS):
        members[f"scan_0.{number}5_v1.0.jpg"] = plain(gray, kind="JPEG")
        members[f"scan_0.{number}5_v1.0.cls"] = b"%d" % LABELS[number]
    tar(to, "scans.tar", members)

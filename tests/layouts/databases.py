"""Databases, and shards that TensorFlow does not write."""

import json
import pickle
import struct

from tests.layouts.files import Files, plain
from tests.layouts.layout import Gives, Topic
from tests.layouts.shards import GRAYS, LABELLED, LABELS, images_of

TOPIC = Topic("Databases and other shards")


@TOPIC.layout(
    "Arrow files of `datasets.save_to_disk`",
    "convert saved out",
    says="save_to_disk",
    needs="pyarrow",
    today="the message says that there is no image",
)
def arrow_on_disk(to: Files) -> None:
    import pyarrow as pa

    (to.root / "saved").mkdir()
    table = pa.table({"image": images_of(), "label": LABELS})
    with pa.ipc.new_stream(to.root / "saved/data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table)
    to.put("saved/dataset_info.json", {"features": {}})
    to.put("saved/state.json", {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})


def mds(to: Files, folder: str) -> None:
    """A shard of MosaicML's format: `image` as bytes, `label` as int."""
    samples = []
    for gray, label in zip(GRAYS, LABELS, strict=True):
        image = plain(gray)
        samples.append(struct.pack("<I", len(image)) + image + struct.pack("<q", label))
    names = {"column_encodings": ["bytes", "int"], "column_names": ["image", "label"], "column_sizes": [None, 8]}
    config = {**names, "compression": None, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2}
    text = json.dumps(config, sort_keys=True).encode()
    start = 4 + 4 * (len(samples) + 1) + len(text)
    offsets = [start + sum(map(len, samples[:number])) for number in range(len(samples) + 1)]
    data = struct.pack(f"<I{len(offsets)}I", len(samples), *offsets) + text + b"".join(samples)
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}
    to.put(f"{folder}/shard.00000.mds", data)
    to.put(
        f"{folder}/index.json", {"version": 2, "shards": [{**config, "raw_data": raw, "samples": 4, "zip_data": None}]}
    )


@TOPIC.layout("MosaicML's MDS: `train/index.json`, `train/shard.00000.mds`", "convert mds out", LABELLED)
def mds_shards(to: Files) -> None:
    mds(to, "mds/train")


@TOPIC.layout("one split of MDS: the folder with `index.json`", "convert mds/train out", LABELLED)
def mds_one_split(to: Files) -> None:
    mds(to, "mds/train")


def database(to: Files, folder: str, items: dict[bytes, bytes]) -> None:
    """An LMDB of these."""
    import lmdb

    (to.root / folder).mkdir(parents=True)
    with (
        lmdb.open(str(to.root / folder), map_size=1 << 22) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in items.items():
            transaction.put(key, value)


@TOPIC.layout(
    "LSUN: `bedroom_train_lmdb`", "convert bedroom_train_lmdb out", Gives("train 4", gray={10: None}), needs="lmdb"
)
def lsun(to: Files) -> None:
    database(to, "bedroom_train_lmdb", {b"%040x" % gray: plain(gray) for gray in GRAYS})


def _datum(gray: int, label: int) -> bytes:
    """Caffe's Datum, encoded: channels, height, width, data, label, encoded."""
    image = plain(gray)
    size, length = len(image), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return b"\x08\x03\x10\x1c\x18\x1c\x22" + length + bytes([size]) + image + b"\x28" + bytes([label]) + b"\x38\x01"


@TOPIC.layout("Caffe's LMDB of Datum", "convert ilsvrc12_train_lmdb out", LABELLED, needs="lmdb")
def caffe_lmdb(to: Files) -> None:
    items = {
        b"%08d_n/%d.JPEG" % (n, n): _datum(gray, label)
        for n, (gray, label) in enumerate(zip(GRAYS, LABELS, strict=True))
    }
    database(to, "ilsvrc12_train_lmdb", items)


@TOPIC.layout(
    "LMDB for text recognition: `image-000000001`, `label-000000001`, `num-samples`",
    "convert MJ_train out",
    Gives("train 4", values={"image/text": {"image-000000001.png": "word 0"}}),
    needs="lmdb",
)
def text_recognition_lmdb(to: Files) -> None:
    items = {b"num-samples": b"4"}
    for number, gray in enumerate(GRAYS):
        items[b"image-%09d" % (number + 1)] = plain(gray)
        items[b"label-%09d" % (number + 1)] = b"word %d" % number
    database(to, "MJ_train", items)


@TOPIC.layout(
    "BasicSR's LMDB: `meta_info.txt`",
    "convert DIV2K_train_HR_sub.lmdb out",
    Gives("train 4", gray={10: None}),
    needs="lmdb",
)
def basicsr_lmdb(to: Files) -> None:
    database(to, "DIV2K_train_HR_sub.lmdb", {b"%d_s001" % gray: plain(gray) for gray in GRAYS})
    to.put("DIV2K_train_HR_sub.lmdb/meta_info.txt", "\n".join(f"{gray}_s001.png (28,28,3) 1" for gray in GRAYS))


@TOPIC.layout("folder2lmdb for PyTorch: pickled values", "convert train.lmdb out", says="pickle", needs="lmdb")
def pickled_lmdb(to: Files) -> None:
    items = {b"%d" % number: pickle.dumps((plain(gray), 0)) for number, gray in enumerate(GRAYS)}
    keys = {b"__keys__": pickle.dumps(list(items)), b"__len__": pickle.dumps(4)}
    database(to, "train.lmdb", {**items, **keys})


@TOPIC.layout(
    "TFDS's ArrayRecord: `mnist-train.array_record-00000-of-00001`",
    "convert mnist out",
    LABELLED,
    needs="array_record tensorflow",
)
def array_record(to: Files) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter
    from foreign_tfrecords import example

    (to.root / "mnist").mkdir()
    writer = ArrayRecordWriter(
        str(to.root / "mnist/mnist-train.array_record-00000-of-00001"), "group_size:1,uncompressed"
    )
    for gray, label in zip(GRAYS, LABELS, strict=True):
        writer.write(example({"image": plain(gray), "label": label}))
    writer.close()


@TOPIC.layout(
    "FFCV's `.beton`",
    "convert train.beton out",
    says="docs/your-own-source.md",
    today="the message is about extensions of label files",
)
def beton(to: Files) -> None:
    to.put("train.beton", b"\x02\x00\x02\x00" + b"\x00" * 4096)


@TOPIC.layout("a Python pickle", "convert train.pkl out", says="docs/your-own-source.md")
def a_pickle(to: Files) -> None:
    to.put("train.pkl", pickle.dumps({"features": [1, 2], "labels": [0, 1]}))


@TOPIC.layout("PyTorch's `.pt` file of tensors", "convert train.pt out", says="docs/your-own-source.md")
def a_tensor_file(to: Files) -> None:
    to.put("train.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")

"""Text in other encodings than UTF-8, wherever a source has text: read as asked or declared, else refused by name."""

import io
import json
import re
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters import AnnotationOptions, ColumnOptions, LabelOptions, open_source
from shardfeed.errors import ShardfeedError

from pictures import image_bytes

WORDS = {"gbk": "小猫", "shift_jis": "ねこ", "cp1251": "кошка", "cp437": "Bär", "cp1252": "Café", "utf-16": "小猫"}
NAMES = [encoding for encoding in WORDS if encoding != "utf-16"]
SCENE = (
    "<annotation><filename>a.png</filename><object><name>{}</name><bndbox><xmin>2</xmin><ymin>2</ymin><xmax>8</xmax>"
)
SCENE += "<ymax>8</ymax></bndbox></object></annotation>"
COCO = {
    "images": [{"id": 1, "file_name": "a.png", "width": 20, "height": 10}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 6, 6], "area": 36, "iscrowd": 0}],
}


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def image() -> bytes:
    return image_bytes(Image.fromarray(np.zeros((10, 20, 3), np.uint8)), "PNG")


def zip_of(members: dict[bytes, bytes]) -> bytes:
    """A zip whose names have no flag for UTF-8, as programs of Windows write them; zipfile would add it."""
    whole, directory = io.BytesIO(), b""
    for name, data in members.items():
        sizes, start = (zlib.crc32(data), len(data), len(data), len(name)), whole.tell()
        whole.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 33, *sizes, 0) + name + data)
        directory += (
            struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 33, *sizes, 0, 0, 0, 0, 0, start) + name
        )
    start = whole.tell()
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory), start, 0)
    return whole.getvalue() + directory + end


def tar_of(members: dict[bytes, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name.decode("latin-1"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def in_folders(word: str, encoding: str) -> dict[bytes, bytes]:
    return {f"d/{name}/{i}.png".encode(encoding): image() for name in (word, "dog") for i in range(2)}


def zipped(root: Path, word: str, encoding: str) -> Path:
    return put(root / "a.zip", zip_of(in_folders(word, encoding)))


def tarred(root: Path, word: str, encoding: str) -> Path:
    return put(root / "a.tar.gz", tar_of(in_folders(word, encoding)))


def voc(root: Path, word: str, encoding: str) -> Path:
    put(root / "a.png", image())
    put(root / "a.xml", SCENE.format(word).encode(encoding))
    return root


def coco(root: Path, word: str, encoding: str) -> Path:
    put(root / "a.png", image())
    document = {**COCO, "categories": [{"id": 1, "name": word}]}
    return put(root / "a.json", json.dumps(document, ensure_ascii=False).encode(encoding))


def yolo(root: Path, word: str, encoding: str) -> Path:
    put(root / "images" / "a.png", image())
    put(root / "labels" / "a.txt", b"0 0.5 0.5 0.2 0.2\n")
    put(root / "data.yaml", f"train: images\nnames: [{word}, dog]\n".encode(encoding))
    return root


def yolo_names(root: Path, word: str, encoding: str) -> Path:
    yolo(root, word, encoding)
    (root / "data.yaml").unlink()
    put(root / "classes.txt", f"{word}\ndog\n".encode(encoding))
    return root


def table(root: Path, word: str, encoding: str) -> Path:
    for name in "ab":
        put(root / f"{name}.png", image())
    return put(root / "labels.csv", f"path,label\na.png,{word}\nb.png,dog\n".encode(encoding))


def lines(root: Path, word: str, encoding: str) -> Path:
    table(root, word, encoding).unlink()
    rows = ({"path": f"{name}.png", "label": label} for name, label in (("a", word), ("b", "dog")))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return put(root / "labels.jsonl", text.encode(encoding))


def shards(root: Path, word: str, encoding: str) -> Path:
    values = [json.dumps({"label": label}, ensure_ascii=False).encode(encoding) for label in (word, "dog")]
    pairs = ((f"{i}.png".encode(), image(), f"{i}.json".encode(), value) for i, value in enumerate(values))
    return put(root / "a.tar", tar_of({k: v for a, b, c, d in pairs for k, v in ((a, b), (c, d))}, "w"))


Make = Callable[[Path, str, str], Path]
PLACES: dict[Make, type[Any]] = {
    zipped: LabelOptions,
    tarred: LabelOptions,
    voc: AnnotationOptions,
    coco: AnnotationOptions,
    yolo: AnnotationOptions,
    yolo_names: AnnotationOptions,
    table: LabelOptions,
    lines: LabelOptions,
    shards: ColumnOptions,
}
CASES = [(make, encoding) for make in PLACES for encoding in (NAMES if make in (zipped, tarred) else WORDS)]


def classes(source: Any) -> set[str]:
    return {name for names in source.schema.class_names.values() for name in names}


@pytest.mark.parametrize(("make", "encoding"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_text_is_read_in_the_encoding_asked_for(make: Make, encoding: str, tmp_path: Path) -> None:
    path = make(tmp_path / "s", WORDS[encoding], encoding)
    source = open_source(path, options=PLACES[make](encoding=encoding))
    assert WORDS[encoding] in classes(source)


@pytest.mark.parametrize("make", PLACES)
def test_an_error_names_an_encoding_that_decodes(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "s", "ねこ", "shift_jis")
    try:
        source = open_source(path)
        said = " ".join(one.reason for one in source.findings.rejected)  # type: ignore[attr-defined]
    except ShardfeedError as error:
        said = str(error)
    named = re.search(r"encoding='([\w-]+)'", said)
    assert named, said
    assert "ねこ" in classes(open_source(path, options=PLACES[make](encoding=named[1])))


@pytest.mark.parametrize("make", PLACES)
def test_text_that_is_utf_8_needs_no_option_and_outlives_a_wrong_one(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "s", "小猫", "utf-8")
    for options in (None, PLACES[make](encoding="gbk")):
        assert "小猫" in classes(open_source(path, options=options))


@pytest.mark.parametrize("encoding", ["gb2312", "GBK", "big5", "Shift_JIS", "euc-kr", "windows-1251", "utf-8"])
def test_xml_is_read_in_the_encoding_that_it_declares(encoding: str, tmp_path: Path) -> None:
    word = {"windows-1251": "кот", "euc-kr": "고양이"}.get(encoding, "犬")
    root = voc(tmp_path, word, encoding)
    put(root / "a.xml", f'<?xml version="1.0" encoding="{encoding}"?>{SCENE.format(word)}'.encode(encoding))
    assert classes(open_source(root)) == {word}


@pytest.mark.parametrize("make", [voc, coco, yolo, yolo_names, table, lines, shards])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_understood(make: Make, encoding: str, tmp_path: Path) -> None:
    assert "小猫" in classes(open_source(make(tmp_path / "s", "小猫", encoding)))


@pytest.mark.parametrize(("encoding", "said"), [("klingon", "expected a text encoding"), ("ascii", "not ascii")])
def test_a_wrong_encoding_is_refused_by_name(encoding: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ShardfeedError, match=said):
        open_source(zipped(tmp_path, "小猫", "gbk"), options=LabelOptions(encoding=encoding))


def test_names_of_a_tar_are_the_same_unpacked_and_as_shards(tmp_path: Path) -> None:
    name = "图".encode("gbk")
    members = {name + b".png": image(), name + b".cls": b"0"}
    source = open_source(put(tmp_path / "a.tar", tar_of(members, "w")), options=ColumnOptions(encoding="gbk"))
    assert [sample.key.decode() for sample in source] == ["图.png"]

"""Captions, classes, boxes and metadata with bytes changed, cut and doubled: samples, or an error of ours."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.readers import recognise
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import ShardfeedError

KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "cocoid": 1, "sentences": [{"raw": "x"}, {"raw": "y"}]}]}
VOC = (
    "<annotation><filename>a.jpg</filename><object><name>dog</name><difficult>0</difficult><bndbox><xmin>1</xmin>"
    "<ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>"
)
FILES: dict[str, tuple[str, bytes, str]] = {
    "token": ("t.token", b"a.jpg#0\tone\na.jpg#1\ttwo\n", "captions"),
    "results": ("r.csv", b"image_name| comment_number| comment\na.jpg| 0| one\na.jpg| 1| two\n", "captions"),
    "table": ("t.csv", b'image,caption,split\na.jpg,"one",train\na.jpg,two,train\n', "captions"),
    "karpathy": ("d.json", json.dumps(KARPATHY).encode(), "captions"),
    "classes": ("_classes.csv", b"filename, cat, dog\na.jpg, 1, 0\n", "classes-csv"),
    "labels": ("t.csv", b"ImageID,Source,LabelName,Confidence\na,x,/m/1,1\na,x,/m/2,0\n", "classes-csv"),
    "vertex": ("t.csv", b"training,gs://b/x/a.jpg,daisy\n", "classes-csv"),
    "boxes": ("t.csv", b"image,x,y,w,h,label\na.jpg,1,2,3,4,cat\na.jpg,5,6,7,8,dog\n", "boxes-csv"),
    "faces": ("x_bbx_gt.txt", b"a.jpg\n2\n4 5 36 25 0 0 0 0 0 0\n4 5 36 25 0 1 0 0 0 0\n", "boxes-csv"),
    "cells": ("t.csv", b"ImageId,PredictionString\na,n1 4 5 40 30 n2 0 0 20 40\n", "boxes-csv"),
    "dicts": ("t.csv", b"image_id,annotations\na,\"[{'x': 1, 'y': 2, 'width': 3, 'height': 4}]\"\n", "boxes-csv"),
    "metadata": ("metadata.jsonl", b'{"file_name": "a.jpg", "label": "x", "text": ["y", "z"]}\n', "imagefolder"),
    "voc": ("a.xml", VOC.encode(), "voc"),
}
_TOKENS = [
    b"\xff",
    b"\x00",
    b"\n",
    b"\r",
    b'"',
    b"#",
    b"\t",
    b"|",
    b",",
    b"../",
    b"/",
    b"NaN",
    b"1e999",
    b"[",
    b"{",
    b"null",
]
_TOKENS += [b"<", b">", b"&x;", b"<object>", b"<!DOCTYPE x>", b"-"]


@pytest.mark.parametrize("form", FILES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 180), st.integers(0, 9), st.sampled_from(_TOKENS)), min_size=1, max_size=4)
)
def test_a_damaged_file_is_accounted_for_or_an_error_of_ours(
    tmp_path: Path, form: str, edits: list[tuple[int, int, bytes]]
) -> None:
    name, content, reader = FILES[form]
    for start, length, token in edits:
        content = content[:start] + token + content[start + length :]
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / name).write_bytes(content)
    try:
        recognise(Look(str(tmp_path / name)), {})
        source = open_source(tmp_path / name, reader=reader)
    except ShardfeedError:
        return
    assert [sample.key for sample in source] in ([b"a.jpg"], [name.encode()])
    for skipped in info_of(source).findings.rejected:
        assert skipped.reason.isprintable()
    if account := info_of(source).findings.account:
        account.check("damaged")
        assert all(left.reason.isprintable() for left in account.left_out), account.left_out

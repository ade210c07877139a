"""Messages about files that are not images: their kind, and the remedy."""

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from shardfeed.converters.images.no_image import recognise_file
from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.rejects import RejectCode, RejectedError

from pictures import sound

SVG = b'<?xml version="1.0"?>\n<!-- drawn -->\n<svg xmlns="http://www.w3.org/2000/svg" width="9"><path d="M0 0"/></svg>'
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def archive(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as file:
            file.writestr("a.jpg", b"x")
    else:
        with tarfile.open(fileobj=out, mode="w") as file:
            file.addfile(tarfile.TarInfo("a.jpg"))
    return out.getvalue()


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


FILES = {
    "SVG drawing": SVG,
    "git-lfs pointer": LFS,
    "HTML page": b"\xef\xbb\xbf\n<!DOCTYPE html>\n<html><body>404 <svg/></body></html>",
    "HTML page ": b"<html>\n<head><title>Sign in</title>",
    "XML file": b"<?xml version='1.0'?><annotation><object/></annotation>",
    "zip archive": archive("zip"),
    "tar archive": archive("tar"),
    "compressed with gzip": gzip.compress(b"x"),
    "compressed with bzip2": bz2.compress(b"x"),
    "compressed with xz": lzma.compress(b"x"),
    "WAV audio": sound(),
    "NumPy array": array(),
    "PDF": b"%PDF-1.7\n",
}


@pytest.mark.parametrize(("name", "data"), FILES.items(), ids=FILES.keys())
def test_a_file_is_named(name: str, data: bytes) -> None:
    found = recognise_file(data[:4096])
    assert found
    assert name.strip() in found.what
    assert found.archive == (name.startswith(("zip", "tar", "compressed", "NumPy")))
    with pytest.raises(RejectedError) as caught:
        image_kind(data)
    assert caught.value.code is RejectCode.NOT_IMAGE
    assert caught.value.reason == str(found)


def test_a_database_is_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.jpg") as database:
        database.execute("create table t (x)")
    found = recognise_file((tmp_path / "x.jpg").read_bytes())
    assert found
    assert found.what == "an SQLite database"


def test_the_sentence_says_what_to_do() -> None:
    assert str(recognise_file(LFS)) == "a git-lfs pointer, not an image: `git lfs pull` fetches the file itself"
    assert str(recognise_file(sound())) == "WAV audio, not an image"


@pytest.mark.parametrize("head", [b"", b"plain text", b"{}", b"a < b", b"<unknown/>", b"RIFF\0\0\0\0ABCD"])
def test_the_rest_is_not_guessed(head: bytes) -> None:
    assert recognise_file(head) is None

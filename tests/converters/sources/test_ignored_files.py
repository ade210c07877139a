"""Files that are no images beside images: counted and passed over; broken images are not."""

import errno
import gzip
import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from object_images import put
from PIL import Image

from shardfeed.converters import FileNames, ImageFolder, LabelFile, Unlabelled, convert, open_source
from shardfeed.converters.sources.files.walk import list_files, only_images
from shardfeed.errors import StorageError, TooManyRejectedError, UsageError

from pictures import image_bytes, sound


def picture(kind: str) -> bytes:
    return image_bytes(Image.linear_gradient("L").convert("RGB").resize((40, 30)), kind)


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.jpg", picture("JPEG"))
    return out.getvalue()


OTHERS = {
    "rose/metadata.json": json.dumps({"author": "x"}).encode(),
    "rose/README.txt": b"Roses are red.\n",
    "rose/ARTISTS": "Zoë\n".encode(),
    "rose/bell.ogg": b"OggS\0\2" + bytes(100),
    "rose/bell.wav": sound(),
    "rose/clip.mp4": b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(100),
    "rose/page.tmpl": b"<a>{{x}}</a>\n",
    "rose/table.dat": bytes(range(256)),
    "rose/drawing.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "rose/empty.txt": b"",
    "rose/two": b"\xff\xd8",
    "tulip/more.zip": zipped(),
    "LICENSE": b"GPL\n",
    "docs/index.md": b"# Flowers\n",
}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes, three images each, one of which has a name that says nothing, and every kind of other file."""
    root = tmp_path / "photos"
    files = {f"{c}/{i}.{e}": picture(k) for c in ("rose", "tulip") for i, (e, k) in enumerate(IMAGES)}
    for key, data in (files | OTHERS).items():
        put(root / key, data)
    return root


IMAGES = (("jpg", "JPEG"), ("png", "PNG"), ("bin", "JPEG"))


@pytest.mark.promise(30)
def test_other_files_are_counted_and_not_held_against_the_folder(photos: Path, tmp_path: Path) -> None:
    report = convert(photos, tmp_path / "out", workers=1)
    assert (report.committed, report.manifest.splits["train"].records, report.rejected) == (True, 6, [])
    assert report.manifest.schema.class_names == {"image/class/label": ("rose", "tulip")}
    assert report.notes[:3] == [
        "14 files ignored, not images by name or content: "
        "3 without extension, 2 .txt, 1 .dat, 1 .json, 1 .md and 6 more kinds "
        "(LICENSE, rose/README.txt, rose/table.dat, ...)",
        "archives among them, which were not opened: 1 (tulip/more.zip)",
        "folders without images, not used as classes: 1 (docs)",
    ]


@pytest.mark.promise(30)
def test_a_broken_photo_is_held_against_it(photos: Path, tmp_path: Path) -> None:
    """Whether its name says it is one, or its content alone."""
    jpeg = picture("JPEG")
    (photos / "rose" / "text.jpg").write_bytes(b"no image\n")
    (photos / "rose" / "cut.jpg").write_bytes(jpeg[:300])
    (photos / "rose" / "cut.bin").write_bytes(jpeg[:300])
    (photos / "rose" / "empty.jpg").write_bytes(b"")
    (photos / "rose" / "layers.psd").write_bytes(b"8BPS\0\1" + bytes(100))
    with pytest.raises(TooManyRejectedError) as caught:
        convert(photos, tmp_path / "out", workers=1)
    assert {noted.key.decode(): noted.what for noted in caught.value.report.rejected} == {
        "rose/text.jpg": "E_NOT_IMAGE",
        "rose/cut.jpg": "E_TRUNCATED",
        "rose/cut.bin": "E_TRUNCATED",
        "rose/empty.jpg": "E_EMPTY",
        "rose/layers.psd": "E_UNSUPPORTED",
    }


def test_adding_a_readme_changes_no_plan(photos: Path) -> None:
    before = [sample.key for sample in ImageFolder(photos)]
    (photos / "tulip" / "README").write_text("x")
    assert [sample.key for sample in ImageFolder(photos)] == before


def test_where_nothing_is_an_image_the_error_says_what_there_is(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[i % 2] / f"{i}.svg").write_bytes(OTHERS["rose/drawing.svg"])
    (tmp_path / "LICENSE").write_text("GPL")
    for source in (ImageFolder, FileNames):
        with pytest.raises(UsageError) as caught:
            source(tmp_path)
        assert str(caught.value).startswith(f"{tmp_path}: no image among 13 files: 12 .svg, 1 without extension")


def test_names_of_files_that_are_opened_and_of_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is an image's is believed: of a folder of photos none is opened."""
    names = [
        "1.jpg",
        "x.JPEG",
        "a.tiff",
        "b.jp2",
        "c.J2K",
        "d.webp",
        "e.pgm",
        "f.txt",
        "jpg",
        "g.jpg.txt",
        "h.jpg~",
        "i.gpj",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"text")
    opened = []
    real = os.open

    def opens(path: bytes, *rest: int, **more: int) -> int:
        if os.fsencode(path).startswith(os.fsencode(tmp_path)):  # other threads have files of their own
            opened.append(os.path.basename(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", opens)
    kept, others = only_images(list_files(tmp_path))
    assert [name.encode() for name in sorted(names)] == sorted([*kept, *others.files])
    assert opened == list(others.files) == [b"f.txt", b"g.jpg.txt", b"h.jpg~", b"i.gpj", b"jpg"]


def test_a_file_that_cannot_be_read_is_no_text_for_all_we_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "b.bin", "c.txt"):
        (tmp_path / name).write_bytes(b"text")

    real = os.open

    def failing(code: int) -> Callable[..., int]:
        def opens(path: bytes, *rest: int, **more: int) -> int:
            if not os.fsencode(path).startswith(os.fsencode(tmp_path)):  # other threads have files of their own
                return real(path, *rest, **more)
            raise OSError(code, os.strerror(code), path)

        return opens

    monkeypatch.setattr(os, "open", failing(errno.EACCES))  # root may read everything
    kept, others = only_images(list_files(tmp_path))
    assert (list(kept), list(others.files)) == ([b"a.jpg", b"b.bin", b"c.txt"], [])
    monkeypatch.setattr(os, "open", failing(errno.EMFILE))
    with pytest.raises(StorageError, match="Too many open files"):
        only_images(list_files(tmp_path))


@pytest.mark.promise(36)
def test_a_fifo_put_there_meanwhile_does_not_block(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.bin"):
        (tmp_path / name).write_bytes(b"text")
    listing = list_files(tmp_path)
    (tmp_path / "b.bin").unlink()
    os.mkfifo(tmp_path / "b.bin")
    kept, others = only_images(listing)
    assert (list(kept), list(others.files)) == ([b"a.jpg"], [b"b.bin"])


def test_some_files_of_the_only_kind_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    for i in range(1200):
        (tmp_path / f"{i:04}.JSON").write_bytes(b"{}")
    _, others = only_images(list_files(tmp_path))
    (note,) = others.notes
    assert note.startswith("1,200 files ignored, not images by name or content: 1,200 .json (0000.JSON, 00")


BOX = {"bbox": [1, 2, 3, 4]}
ANNOTATIONS = {
    "a.odgt": ('{"ID": "a", "gtboxes": []}\n', "JSON, CrowdHuman's boxes"),
    "a.ndjson": ('{"data_row": {"id": "a"}, "projects": {}, "labels": []}\n', "JSON, Labelbox's export"),
    "a.geojson": ('{"type": "FeatureCollection", "features": []}', "JSON, GeoJSON"),
    "md.json": (json.dumps({"images": [], "detection_categories": {"1": "animal"}}), "JSON, MegaDetector's boxes"),
    "via.json": (json.dumps({"project": {}, "attribute": {}, "metadata": {}}), "JSON, VIA 3's project"),
    "own.json": (json.dumps([{"file": "a", **BOX}]), "JSON with the keys file, bbox"),
    "names.json": (json.dumps({"a.jpg": "cat"}), "JSON with the keys a.jpg"),
    "a.json.gz": (
        gzip.compress(json.dumps({"annotations": [BOX]}).encode()),
        "JSON with the keys annotations, bbox, in",
    ),
    "a.xlsx": ('{"gtboxes": []}\n', "JSON, CrowdHuman's boxes"),
    "b.xlsx": (b"PK\3\4" + bytes(26) + b"[Content_Types].xml", "a spreadsheet"),
    "a.pkl": (pickle.dumps({"a": 1}), "a pickle"),
    "a.h5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5"),
    "a.xml": ("<annotation><object><name>cat</name></object></annotation>", "XML with <annotation>"),
    "a.txt": ("0 0.5 0.5 0.2 0.2\n1 0.1 0.2 0.1 0.2\n", "lines of numbers"),
    "dota.txt": ("10 20 30 20 30 40 10 40 plane 0\n", "lines of numbers"),
    "train.lst": ("photos/a.jpg\nphotos/b.jpg\n", "a list of images"),
    "ids.csv": ("id,label\n1,cat\n2,dog\n", "a table with the columns id, label"),
    "boxes.yaml": ("a.jpg:\n  - [1, 2, 3, 4]\n", "a list of images"),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations_that_nobody_reads_are_named_by_their_content(tmp_path: Path, name: str) -> None:
    content, what = ANNOTATIONS[name]
    for key in ("images/a.jpg", "cat/1.jpg", "dog/2.jpg"):
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(picture("JPEG"))
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "README.md").write_text("id,label\n1,cat\n2,dog\n")
    (note,) = (note for note in Unlabelled(tmp_path).findings.notes if "may label the images" in note)
    assert note.startswith("files that may label the images, not read: 1 (")
    assert what in note
    (tmp_path / "images.csv").write_text("path,label\ncat/1.jpg,cat\n")
    notes = LabelFile(tmp_path / "images.csv").findings.notes
    assert any("may label the images" in note and what in note for note in notes)
    (tmp_path / "images.csv").unlink()
    with pytest.raises(UsageError) as caught:  # `images` is no class, and there are annotations
        open_source(tmp_path, reader="folder")
    assert what in str(caught.value)
    assert "unlabelled=True" in str(caught.value)
    shutil.rmtree(tmp_path / "images")
    assert what in "".join(open_source(tmp_path, reader="folder").findings.notes)  # type: ignore[attr-defined]


def test_files_named_like_images_are_counted(photos: Path) -> None:
    (photos / "rose/0.npy").write_bytes(b"\x93NUMPY")
    notes = ImageFolder(photos).findings.notes
    assert "files that may label the images, not read: 1 (rose/0.npy: named like an image)" in notes


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("sa_1.json", json.dumps({"image": {}, "annotations": [{**BOX, "predicted_iou": 1}]}), "JSON, SA-1B's masks"),
        (
            "x.json",
            json.dumps({"version": 1, "things": [BOX]}),
            "JSON with the keys version, things, bbox, in no known",
        ),
        (
            "x.json.gz",
            gzip.compress(json.dumps({"annotations": [BOX]}).encode(), mtime=0),
            "unpack it: `gunzip -k FILE`",
        ),
        ("x.ndjson", '{"data_row": {"id": 1}}\n', "Labelbox's export, in no known annotation format"),
        (
            "prompt.json",
            '{"source": "a.jpg", "prompt": "x"}\n{"source": "b.jpg"}\n',
            "give format='jsonl' and path_column",
        ),
    ],
)
def test_json_as_source_is_named_with_its_keys(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    (tmp_path / "a.jpg").write_bytes(picture("JPEG"))
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path / name)
    assert said in str(caught.value)

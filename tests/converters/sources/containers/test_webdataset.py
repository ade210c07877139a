"""Tars as `webdataset` and plain `tarfile` write them; and what is wrong with some."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from object_images import encoded, image_file
from PIL import Image
from sources import reader
from webdataset import ShardWriter, TarWriter

import shardfeed
from shardfeed.annotations import CAPTION, RASTER
from shardfeed.converters import convert, open_source
from shardfeed.converters.sources.files.parts import FilePart
from shardfeed.converters.sources.files.tar import members
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.reading import read_content
from shardfeed.converters.sources.source import Sample, Source, info_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT
from shardfeed.testing.source import SourceContract

recognise, read = reader("webdataset")


def tar_of(path: Path, files: Mapping[str, bytes], **options: Any) -> Path:
    """A tar with these members, in their order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", **options) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def pictures(count: int, ends: str = "png", **more: bytes) -> dict[str, bytes]:
    """Members of so many samples, each with these further columns."""
    found: dict[str, bytes] = {}
    for i in range(count):
        found[f"{i:04}.{ends}"] = image_file(seed=i)
        found |= {f"{i:04}.{column}": data for column, data in more.items()}
    return found


def by_key(source: Source) -> dict[str, Sample]:
    return {source[i].key.decode(): source[i] for i in range(len(source))}


def written_by_webdataset(folder: Path) -> Path:
    """Two tars of three samples of `ShardWriter`, for training, and one of `TarWriter`."""
    folder.mkdir(exist_ok=True)
    with ShardWriter(f"{folder}/train-%06d.tar", maxcount=3, verbose=0) as shards:
        for i in range(6):
            more = {"cls": i % 2, "json": {"area": i / 2, "seen": i}, "txt": f"picture {i}"}
            shards.write({"__key__": f"a.d/{i:03}", "png": image_file(seed=i), **more})
    with TarWriter(f"{folder}/val-000000.tar") as tar:
        for i in range(6, 8):
            more = {"cls": i % 2, "json": {"area": i / 2, "seen": i}, "txt": f"picture {i}"}
            tar.write({"__key__": f"a.d/{i:03}", "png": image_file(seed=i), **more})
    return folder


class TestContract(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        folder = written_by_webdataset(tmp_path)
        options = ColumnOptions(columns={"image/area": "json.area", "image/seen": "json.seen"})
        return lambda: read(folder, options)


class TestContractOfRejected(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        files = pictures(4, cls=b"0\n")
        del files["0001.cls"], files["0002.png"]
        path = tar_of(tmp_path / "a.tar", files)
        return lambda: read(path)


def test_what_webdataset_wrote(tmp_path: Path) -> None:
    """Samples, classes, captions and splits of its own writers, by key and to the byte."""
    folder = written_by_webdataset(tmp_path)
    evidence = recognise(folder)
    assert not evidence.missing
    assert "image from jpg, png or another image format, label from cls, text from txt" in evidence.found
    source = read(folder, ColumnOptions(columns={"image/area": "json.area"}))
    found = by_key(source)
    assert list(found) == [f"a.d/{i:03}.png" for i in range(8)]
    for i, sample in enumerate(found.values()):
        assert isinstance(sample.image, FilePart)
        assert sample.image() == image_file(seed=i)
        wanted = {
            LABEL: i % 2,
            TEXT: b"%d" % (i % 2),
            CAPTION: [b"picture %d" % i],
            "image/area": i / 2,
            "image/seen": i,
        }
        assert sample.features == wanted
        assert sample.split == ("train" if i < 6 else "validation")
    assert "3 tars, 8 samples: image from" in source.described


def test_a_list_of_texts_and_numbers_is_no_feature(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", {"0.jpg": image_file(), "0.cls": b"0", "0.json": b'{"sizes": [1, "wide"]}'})
    with pytest.raises(UsageError, match=r"row 0, column json.sizes: got a list of texts and numbers"):
        read(tmp_path, ColumnOptions(columns={"image/sizes": "json.sizes"}))


def test_images_only_img2dataset_and_braces(tmp_path: Path) -> None:
    """img2dataset's layout: captions from txt, its Parquet files beside the tars passed over, `{00000..00001}`."""
    for shard in range(2):
        files: dict[str, bytes] = {}
        for i in range(2):
            key = f"{shard:05}{i:04}"
            said = {"key": key, "status": "success", "url": f"http://a/{key}", "caption": "other", "sha256": "00"}
            files |= {f"{key}.jpg": image_file(seed=i), f"{key}.json": json.dumps(said).encode()}
            files[f"{key}.txt"] = f"caption {key}\n".encode()
        tar_of(tmp_path / f"{shard:05}.tar", files)
        (tmp_path / f"{shard:05}.parquet").write_bytes(b"no tar")
    options = ColumnOptions(columns={"image/url": "json.url"})
    source = read(f"{tmp_path}/{{00000..00001}}.tar", options)
    assert [key.decode() for key in source.keys] == [f"{s:05}{i:04}.jpg" for s in range(2) for i in range(2)]
    assert source[3].features == {CAPTION: [b"caption 000010001"], "image/url": b"http://a/000010001"}
    assert recognise(f"{tmp_path}/{{00000..00001}}.tar") is not None
    assert len(read(tmp_path, options)) == 4
    with pytest.raises(UsageError, match=r"00002.tar is missing, one of the 3 files"):
        read(f"{tmp_path}/{{00000..00002}}.tar")


def test_keys_end_at_the_first_dot_and_meta_data_is_skipped(tmp_path: Path) -> None:
    files = {"./x.d/1.JPG": image_file(), "./x.d/1.cls": b"0", "__index__.json": b"{}", "x.d/._1.jpg": b"junk"}
    files |= {"x.d/.hidden": b"", "README": b"read me", "__MACOSX/1.jpg": b"junk"}
    source = read(tar_of(tmp_path / "a.tar", files))
    assert list(source.keys) == [b"x.d/1.jpg"]
    assert list(info_of(source).findings.notes[1:]) == ["ignored members, not named KEY.COLUMN: 1 (README)"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(tmp_path: Path, form: int) -> None:
    """As each kind of tar writes them, beyond 100 bytes."""
    name = "f" * 80 + "/" + "g" * 90
    files = {f"{name}.png": image_file(), f"{name}.cls": b"0"}
    if form != tarfile.USTAR_FORMAT:
        files |= {f"{'é' * 120}/x.png": image_file(seed=1), f"{'é' * 120}/x.cls": b"0"}
    source = read(tar_of(tmp_path / "a.tar", files, format=form))
    assert list(source.keys) == [name.encode() for name in files if name.endswith("png")]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.text("aé/.x", min_size=1, max_size=300), st.binary(max_size=1100)), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_members_are_those_that_tarfile_finds(tmp_path_factory: Any, files: Any, form: int) -> None:
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1.5
            tar.addfile(info, io.BytesIO(data))
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    with tarfile.open(path) as tar, open(path, "rb") as file:
        wanted = [(os.fsencode(m.name).rstrip(b"/"), m.offset_data, m.size) for m in tar if m.isreg()]
        found = [(m.name.rstrip(b"/"), m.offset, m.size) for m in members(file, "a.tar") if m.plain]
    assert found == wanted


def test_masks(tmp_path: Path) -> None:
    """A column of masks, when it is named: its classes are those of `class_names`."""
    pixels = np.zeros((40, 60), np.uint8)
    pixels[:10] = 1
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    files = {
        f"{i:04}.{column}": data
        for i in range(3)
        for column, data in (("png", image_file(seed=i)), ("seg.png", out.getvalue()))
    }
    del files["0002.seg.png"]
    path = tar_of(tmp_path / "a.tar", files)
    source = read(path, ColumnOptions(columns={"mask": "seg.png"}, class_names=("sky", "sea")))
    assert source.schema.raster.class_names == ("sky", "sea")
    assert [skipped.code for skipped in info_of(source).findings.rejected] == ["E_PAIR"]
    report = convert(source, tmp_path / "out", workers=1, max_bad=1)
    assert len(report.rejected) == 1
    record = shardfeed.open(tmp_path / "out")["train"][0]
    assert Image.open(io.BytesIO(bytes(record[RASTER]))).getextrema() == (0, 1)


def test_classes(tmp_path: Path) -> None:
    """Names from texts, numbers with an offset, numbers from a JSON key; else an error that says what to type."""
    files = {**pictures(3)}
    for i in range(3):
        files[f"{i:04}.json"] = json.dumps({"label": i + 1, "breed": "abc"[i % 2], "other": None}).encode()
    path = str(tar_of(tmp_path / "a.tar", dict(sorted(files.items()))))
    source = read(path, ColumnOptions(label_offset=1))
    assert [source[i].features[LABEL] for i in range(3)] == [0, 1, 2]
    source = read(path, ColumnOptions(columns={"label": "json.breed"}))
    assert source.schema.class_names[LABEL] == ("a", "b")
    with pytest.raises(UsageError, match=r"column json.label: got 3 integer labels from 1 to 3.*label_offset=1"):
        read(path)
    with pytest.raises(UsageError, match="from 1 to 3, expected 2 to 4: labels start at 1, not at 2"):
        read(path, ColumnOptions(label_offset=2))
    with pytest.raises(UsageError, match=r"there is no column 'json.nothing' for label: it has .*json.label"):
        read(path, ColumnOptions(columns={"label": "json.nothing"}))
    source = read(path, ColumnOptions(columns={"label": "json.breed", "key": "json.label"}))
    assert list(source.keys) == [b"1.png", b"2.png", b"3.png"]
    with pytest.raises(UsageError, match=r"none of 3 samples can be used, the first.*label from json.other: null"):
        read(path, ColumnOptions(columns={"label": "json.other"}))


def test_a_split_of_each_sample(tmp_path: Path) -> None:
    files = pictures(2)
    files |= {"0000.json": b'{"part": "valid"}', "0001.json": b'{"part": "train"}'}
    path = str(tar_of(tmp_path / "a.tar", dict(sorted(files.items()))))
    source = read(path, ColumnOptions(columns={"split": "json.part"}))
    assert [source[i].split for i in range(2)] == ["validation", "train"]


def test_samples_that_are_left_out_are_listed(tmp_path: Path) -> None:
    """Each with a code: no image, no label, a label that is none, a link, a key that leaves the root."""
    files = pictures(6, cls=b"0")
    del files["0000.png"], files["0001.cls"]
    files["0002.cls"] = b"zero"
    files["0003.cls"] = b"\xff"
    path = tar_of(tmp_path / "a.tar", {**files, "../../x.png": image_file(), "../../x.cls": b"0"})
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "0005.png"
        tar.addfile(link)
        info = tarfile.TarInfo("link.cls")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"0"))
    source = read(path)
    codes = {skipped.key.decode(): skipped.code for skipped in info_of(source).findings.rejected}
    wanted = {"../../x.png": "E_PATH_ESCAPE", "0000": "E_MISSING", "link.png": "E_NOT_REGULAR"}
    assert codes == {**wanted, **{f"000{i}.png": "E_NO_LABEL" for i in (1, 2, 3)}}
    assert list(source.keys) == [b"0004.png", b"0005.png"]


BAD: dict[str, tuple[Mapping[str, bytes], str]] = {
    "split:": (
        {"1.png": b"", "2.png": b"", "1.cls": b"0", "2.cls": b"0"},
        "the files of the sample '1' are not adjacent .*--sort=name",
    ),
    "a pickle": ({"1.png": b"", "1.pyd": b""}, "the column pyd is a pickle.*write it as cls, txt or json"),
    "no image": ({"1.txt": b"", "1.cls": b"0"}, "no image in its first samples: txt, cls; write the image of"),
    "two images": ({"1.png": b"", "1.jpg": b""}, "the sample '1' has more than one image: png, jpg"),
    "two images by other names": ({"1.a.png": b"", "1.b.jpg": b""}, "several images in its first samples: a.png"),
    "no sample": ({"README": b""}, "no sample in it"),
    "two labels": (
        {"1.png": b"", "1.json": b'{"label": 1, "class": 2}'},
        "several columns may be the label: json.label, json.class",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_tars(tmp_path: Path, what: str) -> None:
    files, message = BAD[what]
    with pytest.raises(UsageError, match=message):
        read(tar_of(tmp_path / "a.tar", files))


def test_a_column_twice(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tar", {"1.cls": b"0", "1.png": b"x"})
    with tarfile.open(path, "a") as tar:
        tar.addfile(tarfile.TarInfo("1.PNG"))
    with pytest.raises(UsageError, match=r"the sample '1' has the column 'png' twice, at the bytes 1,536 and 2,560"):
        read(path)


def test_a_pickle_may_lie_beside_what_is_taken(tmp_path: Path) -> None:
    path = str(tar_of(tmp_path / "a.tar", pictures(2, pyd=b"no", cls=b"0")))
    source = read(path, ColumnOptions(columns={"image": "png", "label": "cls"}))
    assert list(info_of(source).findings.notes[1:]) == ["unused columns: 1 (pyd)"]
    with pytest.raises(UsageError, match="the column pyd is a pickle"):
        read(path, ColumnOptions(columns={"label": "pyd"}))


def test_a_key_in_two_tars(tmp_path: Path) -> None:
    """Refused, with what to type where each tar counts anew."""
    for name in ("a", "b"):
        tar_of(tmp_path / f"{name}.tar", pictures(2, cls=b"0"))
    with pytest.raises(UsageError, match=r"the key '0000' is in a.tar and in b.tar \(2 repeated keys\).*__url__"):
        read(tmp_path)
    source = read(tmp_path, ColumnOptions(columns={"key": "__url__"}))
    assert list(source.keys) == [b"a/0000.png", b"a/0001.png", b"b/0000.png", b"b/0001.png"]


@pytest.mark.parametrize("of_second", [0, 120])
def test_values_that_begin_late(tmp_path: Path, of_second: int) -> None:
    """Behind the samples that tell the columns, in the first tar or in the second."""
    files = pictures(132)
    late = {f"{i:04}.{column}": data for i in (130, 131) for column, data in (("cls", b"%d" % (i % 2)), ("txt", b"a"))}
    members = [(name, {**files, **late}[name]) for name in sorted({**files, **late})]
    first = [(name, data) for name, data in members if of_second <= int(name[:4])]
    tar_of(tmp_path / "b.tar", dict(first))
    if of_second:
        tar_of(tmp_path / "a.tar", dict(members[:of_second]))
    source = read(tmp_path)
    found = [(sample.key, sample.features) for sample in source]
    assert found == [
        (b"0130.png", {LABEL: 0, TEXT: b"0", CAPTION: [b"a"]}),
        (b"0131.png", {LABEL: 1, TEXT: b"1", CAPTION: [b"a"]}),
    ]
    assert len(source.findings.rejected) == 130


@pytest.mark.parametrize("own", ["²", "٣", 2**63, 2**70, "9" * 5000, -1, 1.5, True, None])
def test_numbers_that_are_none(tmp_path: Path, own: Any) -> None:
    """Images are not numbered by them."""
    path = tar_of(tmp_path / "a.tar", pictures(1, json=json.dumps({"id": own, "name": "7"}).encode()))
    for column, number in (("json.id", None), ("json.name", 7)):
        with suppress(UsageError):  # of another kind
            assert read(path, ColumnOptions(columns={"number": column}))[0].number == number


def test_two_spellings_of_one_class_are_one_class(tmp_path: Path) -> None:
    files = {"0.png": image_file(), "0.json": b'{"label": ["\\u00e9", "e\\u0301"]}'}
    files |= {"1.png": image_file(seed=1), "1.json": b'{"label": ["a"]}'}
    source = read(tar_of(tmp_path / "a.tar", files))
    assert source.schema.class_names[LABEL] == ("a", "\u00e9")
    assert [list(sample.features[TEXT]) for sample in source] == [["\u00e9".encode()], [b"a"]]  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_an_empty_tar_comes_first(tmp_path: Path, ending: str) -> None:
    """webdataset's writer leaves one where its size is small."""
    for name, files in (("a", {}), ("b", pictures(2, cls=b"0"))):
        path = tar_of(tmp_path / f"{name}.tar", files)
        if ending == ".tar.gz":
            path.with_suffix(ending).write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    assert len(open_source(tmp_path)) == 2


def test_every_cut_is_found(tmp_path: Path) -> None:
    """Wherever a tar ends too early, up to its end mark."""
    path = tar_of(tmp_path / "a.tar", {"1.png": image_file(), "1.cls": b"0", "2.png": image_file(), "2.cls": b"0"})
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    end += -end % 512
    for length in (*range(0, end, 100), end - 512, end, end + 511):
        path.write_bytes(data[:length])
        with pytest.raises(UsageError, match="cut"):
            read(path)
    path.write_bytes(data[: end + 512])
    assert len(read(path)) == 2


def test_every_damaged_header_is_found(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tar", {"1.png": image_file(), "1.cls": b"0"})
    data = path.read_bytes()
    for place in (0, 100, 124, 150, 156, 257, 400):
        damaged = bytearray(data)
        damaged[place] ^= 1
        assert damaged != data
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"the header at byte 0 does not match its checksum"):
            read(path)


def test_two_tars_in_one_file(tmp_path: Path) -> None:
    one, two = (tar_of(tmp_path / f"{name}.tar", {f"{name}.png": b"", f"{name}.cls": b"0"}) for name in "ab")
    one.write_bytes(one.read_bytes() + two.read_bytes())
    with pytest.raises(UsageError, match="it has data after its end mark"):
        read(one)


@pytest.mark.parametrize("form", ["gz", "xz", "bz2"])
def test_compressed_tars(tmp_path: Path, form: str) -> None:
    """Unpacked once, beside others that are not; one of images alone is an archive, which others read."""
    tar_of(tmp_path / "a.tar", pictures(2, cls=b"0"))
    tar_of(tmp_path / "b.tar", {f"b/{name}": data for name, data in pictures(2, cls=b"0").items()})
    with tarfile.open(tmp_path / "b.tar") as one, tarfile.open(tmp_path / f"c.tar.{form}", f"w:{form}") as packed:
        for member in one:
            packed.addfile(member, one.extractfile(member))
    (tmp_path / "b.tar").unlink()
    source = open_source(tmp_path)
    assert [sample.key for sample in source] == [b"0000.png", b"0001.png", b"b/0000.png", b"b/0001.png"]
    assert [read_content(sample.image) for sample in source] == [image_file(seed=i % 2) for i in range(4)]
    assert any(note.startswith("1 compressed file was unpacked") for note in info_of(source).findings.notes)
    assert len(open_source(tmp_path / f"c.tar.{form}")) == 2
    with tarfile.open(tmp_path / "d.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "a.tar", "1.png")
    assert recognise(tmp_path / "d.tar.gz") is None


def test_what_the_json_says(tmp_path: Path) -> None:
    """Label, captions, objects and numbers of it are taken; what is not is named."""
    said = [
        {
            "label": "cat",
            "caption": ["one", "two"],
            "objects": [{"bbox": [1, 2, 3, 4], "class": "cat"}],
            "score": i / 2,
            "id": i,
            "width": 60,
            "url": "x",
            "some": [1, None][i],
        }
        for i in range(2)
    ]
    files = pictures(2) | {f"{i:04}.json": json.dumps(one).encode() for i, one in enumerate(said)}
    source = open_source(tar_of(tmp_path / "a.tar", dict(sorted(files.items()))))
    wanted = {LABEL: 0, TEXT: b"cat", CAPTION: [b"one", b"two"], "image/score": 0.5, "image/id": 1}
    assert source[1].features == wanted
    report = convert(source, tmp_path / "out", workers=1)
    assert report.account.written == 2
    assert any(note.startswith("unused columns: 3 (json.width, json.url, json.some") for note in report.notes)
    assert any(note.startswith("columns used as numbers: 2 (json.score, json.id)") for note in report.notes)


def test_what_is_no_tar(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 2000)
    assert recognise(tmp_path / "a.txt") is None
    assert recognise(tmp_path) is None
    assert recognise(tmp_path / "nothing") is None
    with pytest.raises(UsageError, match=r"no \.tar or .* file in it"):
        read(tmp_path)


def test_splits_that_some_tars_do_not_say(tmp_path: Path) -> None:
    tar_of(tmp_path / "train-0.tar", pictures(1))
    tar_of(tmp_path / "more" / "0.tar", {"x.png": b""})
    with pytest.raises(UsageError, match=r"'more/0.tar' has no split in its name, but others have"):
        read(tmp_path)


_MEASURED = """
import sys, tracemalloc
from shardfeed.converters import open_source
tracemalloc.start()
source = open_source(sys.argv[1])
source[len(source) - 1]
print(len(source), tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.long
def test_memory(tmp_path: Path) -> None:
    """At most 150 bytes a sample, with a label and a caption. Counted is what Python takes: pages differ by run."""
    peaks = {}
    for count in (10_000, 110_000):
        path = tmp_path / f"{count}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(count):
                for column, data in (("png", b"x" * 100), ("cls", b"%d" % (i % 10)), ("txt", b"caption %09d" % i)):
                    info = tarfile.TarInfo(f"{i:09}.{column}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                tar.members.clear()  # type: ignore[attr-defined]  # which typeshed leaves out
        done = subprocess.run([sys.executable, "-c", _MEASURED, path], capture_output=True, text=True, check=True)
        found, peak = map(int, done.stdout.split())
        assert found == count
        peaks[count] = peak
    grown = (peaks[110_000] - peaks[10_000]) / 100_000
    assert grown < 150, f"{grown:.0f} bytes a sample"


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ([f"img_0.{i}5_v1.{i}" for i in range(6)], ("jpg", "cls")),
        ([f"img_0.{i}5" for i in range(6)], ("jpg", "cls", "seg.png")),
        ([f"{i}_v1.0" for i in range(3)], ("jpg", "cls")),
        (["scan.2024.01", "scan.2024.02"], ("jpg", "cls")),
        (["mr.white", "mr.pink", "mr.brown"], ("jpg", "cls")),
    ],
)
def test_dots_in_names(tmp_path: Path, keys: list[str], columns: tuple[str, ...]) -> None:
    """As the columns of one key, all but one image would be lost."""
    values = {"jpg": image_file(), "cls": b"1", "seg.png": image_file()}
    path = tar_of(tmp_path / "a.tar", {f"x/{key}.{column}": values[column] for key in keys for column in columns})
    source = open_source(path, options=ColumnOptions(class_names=("a", "b")))
    assert sorted(by_key(source)) == sorted(f"x/{key}.jpg" for key in keys)
    assert {sample.features[TEXT] for sample in source} == {b"b"}
    assert any(note.startswith("base names have dots") for note in info_of(source).findings.notes)


@pytest.mark.parametrize(
    ("columns", "remedy", "count"),
    [
        ([("left.jpg", "right.jpg")] * 3, "left.jpg", 3),  # two views
        ([("0.jpg", "1.jpg", "2.jpg")] * 3, "0.jpg", 3),  # frames
        ([("left.jpg",), ("front.jpg",)] * 2, "left.jpg;front.jpg", 4),
        ([("left.jpg", "left.cls", "right.jpg", "right.cls")] * 2, "left.jpg", 2),
        ([("bin",)] * 2, "bin", 2),
    ],
)
def test_the_remedy_for_several_images_loses_no_sample(
    tmp_path: Path, columns: list[tuple[str, ...]], remedy: str, count: int
) -> None:
    files = {f"{i}.{column}": image_file() for i, each in enumerate(columns) for column in each if "cls" not in column}
    path = tar_of(tmp_path / "a.tar", files)
    with pytest.raises(UsageError, match=f"columns={{'image': '{remedy}'}}"):
        open_source(path)
    assert len(open_source(path, options=ColumnOptions(columns={"image": remedy}))) == count


@pytest.mark.parametrize("column", ["mask.png", "seg.png", "label.tif"])
def test_masks_by_the_name_of_their_column(tmp_path: Path, column: str) -> None:
    """Where no other column is a label."""
    kind = "TIFF" if column.endswith("tif") else "PNG"
    mask = encoded(np.arange(2400, dtype=np.uint8).reshape(40, 60) % 3, kind)
    files = {f"{i}.{name}": data for i in range(2) for name, data in (("jpg", image_file(seed=i)), (column, mask))}
    path = tar_of(tmp_path / "a.tar", files)
    with pytest.raises(UsageError, match=r"mask values is unknown: .*; without masks: unlabelled=True"):
        open_source(path)
    source = open_source(path, options=ColumnOptions(class_names=("a", "b", "c")))
    assert RASTER in convert(source, tmp_path / "out", workers=1).manifest.schema.features  # type: ignore[union-attr]
    labelled = tar_of(tmp_path / "b.tar", dict(sorted({**files, "0.cls": b"0", "1.cls": b"1"}.items())))
    assert f"unused columns: 1 ({column})" in info_of(open_source(labelled)).findings.notes

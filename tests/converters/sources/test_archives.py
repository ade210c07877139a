"""Archives are unpacked once, below a temporary folder, and nothing is written outside of it."""

import gzip
import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters import ColumnOptions, open_source
from shardfeed.converters.sources.files.archive import is_archive, unpack
from shardfeed.converters.sources.guard import UNPACKED_FREE, HostileError
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import StorageError, UsageError
from shardfeed.free_space import FreeSpace

from pictures import image_bytes

FILES = {"cat/1.jpg": b"one" * 1000, "dog/" + "x" * 150 + ".jpg": b"two", "dog/empty.jpg": b""}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that TMPDIR names; each test leaves it empty, but for what it still holds."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def tar_bytes(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return out.getvalue()


def write(path: Path, members: dict[str, bytes]) -> Path:
    """An archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    elif path.suffix == ".zst":
        path.write_bytes(pytest.importorskip("zstandard").compress(tar_bytes(members)))
    else:
        with tarfile.open(path, "w:" + path.suffix[1:].replace("tgz", "gz")) as tar:  # type: ignore[call-overload]
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", "a.zip"])
def test_all_files_come_with_the_time_of_the_archive(name: str, tmp_path: Path, temporary: Path) -> None:
    path = write(tmp_path / name, FILES)
    os.utime(path, ns=(1, 123_456_789_000))
    assert is_archive(str(path))
    archive, _ = unpack(str(path))
    root = Path(archive.folder)
    assert {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()} == FILES
    assert {file.stat().st_mtime_ns for file in [root, *root.rglob("*")]} == {123_456_789_000}
    assert (archive.files, archive.size) == (len(FILES), sum(map(len, FILES.values())))
    assert [root.parent] == [temporary]
    del archive
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "name", ["../out.jpg", "a/../../out.jpg", "/out.jpg", "..\\out.jpg", "C:/out.jpg", "/".join("a" * 200)]
)
@pytest.mark.parametrize("kind", ["a.tgz", "a.zip"])
def test_a_name_that_leads_out_is_refused(name: str, kind: str, tmp_path: Path, temporary: Path) -> None:
    path = write(tmp_path / kind, {"cat/1.jpg": b"1", name: b"2"})
    with pytest.raises(HostileError, match=r"points outside|nested"):
        unpack(str(path))
    assert not list(temporary.iterdir())
    assert sorted(file.name for file in tmp_path.iterdir()) == [kind, "temporary"]


def test_links_twins_and_resource_forks_are_named(tmp_path: Path) -> None:
    members = {"cat/1.jpg": b"1", "Cat/1.jpg": b"2", "__MACOSX/cat/._1.jpg": b"3"}
    data = tar_bytes(members, {"cat/passwd.jpg": "/etc/passwd"})
    (tmp_path / "a.tgz").write_bytes(gzip.compress(data))
    archive, notes = unpack(str(tmp_path / "a.tgz"))
    root = Path(archive.folder)
    assert sorted(str(file.relative_to(root)) for file in root.rglob("*.jpg")) == ["Cat/1.jpg", "cat/1.jpg"]
    assert not [file for file in root.rglob("*") if stat.S_ISLNK(file.lstat().st_mode)]
    told = " ".join(notes)
    assert all(word in told for word in ("cat/passwd.jpg", "Cat/1.jpg", "__MACOSX"))


def test_a_name_twice_counts_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.jpg", b"first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("1.jpg", b"second")
    found, notes = unpack(str(tmp_path / "a.zip"))
    assert found.files == 1
    assert (Path(found.folder) / "1.jpg").read_bytes() == b"first"
    assert "members with a duplicate name" in " ".join(notes)


def test_a_file_where_a_folder_is_needed(tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(HostileError):
        unpack(str(write(tmp_path / "a.zip", {"a": b"1", "a/b": b"2"})))
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("kind", ["a.tgz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", "a.zip"])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    kind: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardfeed.converters.sources.guard.UNPACKED_FREE", UNPACKED_FREE >> 6)
    path = write(tmp_path / kind, {"cat/1.jpg": bytes(UNPACKED_FREE >> 5)})
    with pytest.raises(HostileError, match="decompress to"):
        unpack(str(path))
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("kind", ["a.tgz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", "a.zip"])
def test_cut_and_changed_archives_are_refused(kind: str, tmp_path: Path, temporary: Path) -> None:
    whole = write(tmp_path / kind, {"cat/1.jpg": os.urandom(5000), "cat/2.jpg": os.urandom(5000)}).read_bytes()
    for size in (20, len(whole) // 2, len(whole) - 60):
        (tmp_path / kind).write_bytes(whole[:size])
        with pytest.raises(UsageError):
            unpack(str(tmp_path / kind))
    assert not list(temporary.iterdir())


def test_a_full_disk_is_named(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.zip", FILES)
    monkeypatch.setattr(
        "shardfeed.converters.sources.files.unpack.room_in", lambda folder: FreeSpace(folder, 1000, "there")
    )
    with pytest.raises(StorageError, match="TMPDIR") as caught:
        unpack(str(path))
    assert caught.value.exit_code == 5
    assert not list(temporary.iterdir())


def test_other_files_are_no_archives(tmp_path: Path) -> None:
    for name, data in {"a.tar": tar_bytes(FILES), "b.gz": gzip.compress(b"text" * 200), "c": b"", "d": b"PK"}.items():
        (tmp_path / name).write_bytes(data)
        assert not is_archive(str(tmp_path / name))


def classes_of(path: Path) -> set[str]:
    source = open_source(path)
    assert isinstance(source, ColumnarSource)
    return {name for names in source.schema.class_names.values() for name in names}


def pictures() -> dict[str, bytes]:
    drawn = image_bytes(Image.fromarray(np.zeros((10, 20, 3), np.uint8)), "PNG")
    return {f"{name}/{i}.png": drawn for name in ("cat", "dog") for i in range(2)}


def run(command: str, folder: Path) -> None:
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True, capture_output=True)


def typed(said: str, folder: Path) -> Path:
    """Run the command in a message; return the path that the message says to give then."""
    command, given = re.search(r"`(.+)`, and give (\S+)", said).groups()  # type: ignore[union-attr]
    run(command, folder)
    return folder / given


needs_zip = pytest.mark.skipif(shutil.which("zip") is None, reason="zip is not installed")
MAKES = [  # command that makes the volumes, file that is given, a volume in the middle
    pytest.param("zip -q -s 65k big.zip big", "big.zip", "big.z01", marks=needs_zip),
    pytest.param("zip -q -s 65k big.zip big", "big.z01", "big.z02", marks=needs_zip),
    ("tar -czf x big; split -b 40k x big.tar.gz.", "big.tar.gz.aa", "big.tar.gz.ab"),
    ("tar -czf x big; split -b 40k -d x big.tgz.part-", "big.tgz.part-00", "big.tgz.part-01"),
    ("tar -czf x big; split -b 40k -d -a 3 x big.tar.gz.", "big.tar.gz", "big.tar.gz.001"),
]


@pytest.mark.parametrize(("make", "given", "middle"), MAKES)
def test_volumes_are_said_joined_as_typed_and_missed_by_name(
    make: str, given: str, middle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in pictures().items():
        path = tmp_path / "big" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data + os.urandom(50_000))
    run(make.replace("zip -q", "zip -q -r"), tmp_path)
    shutil.rmtree("big")
    with pytest.raises(UsageError, match="volume") as error:
        open_source(given)
    (tmp_path / middle).rename(tmp_path / "kept")
    with pytest.raises(UsageError, match=f"volume.*{re.escape(middle)}"):
        open_source(given)
    (tmp_path / "kept").rename(tmp_path / middle)
    assert classes_of(typed(str(error.value), tmp_path)) == {"cat", "dog"}


def test_other_ends_of_names_are_no_volumes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", pictures())
    for end in ("asc", "bak", "1"):
        (tmp_path / f"a.zip.{end}").write_bytes(b"x")
    assert classes_of(path) == {"cat", "dog"}


@pytest.mark.parametrize("inner", ["zip", "tar.gz"])
@pytest.mark.parametrize("top", ["", "cat/"])
def test_archives_in_an_archive_are_unpacked_into_folders(inner: str, top: str, tmp_path: Path) -> None:
    of_class = {name.partition("/")[2]: data for name, data in pictures().items()}
    whole = {}
    for name in ("cat", "dog"):
        folder = top and f"{name}/"
        one = write(tmp_path / f"{name}.{inner}", {folder + key: data for key, data in of_class.items()})
        whole[one.name] = one.read_bytes()
    assert classes_of(write(tmp_path / "all.zip", whole)) == {"cat", "dog"}


@needs_zip
def test_a_folder_of_archives_is_read_as_the_error_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    for name in ("cat", "dog"):
        write(tmp_path / "parts" / f"{name}.zip", {"0.png": pictures()["cat/0.png"], "1.png": b"no image"} | pictures())
    with pytest.raises(UsageError, match="folder of 2 archives") as error:
        open_source("parts")
    assert typed(str(error.value), tmp_path).is_file()


def test_an_archive_beside_its_folder_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    write(tmp_path / "s" / "data.zip", pictures())
    for name, data in pictures().items():
        path = tmp_path / "s" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert classes_of(tmp_path / "s") == {"cat", "dog"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_hard_link_in_a_tar_is_its_target(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.tar" if mode == "w" else "a.tar.gz")
    drawn = pictures()["cat/0.png"]
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name in ("cat/0.png", "dog/1.png"):
            info = tarfile.TarInfo(name)
            info.size = len(drawn)
            tar.addfile(info, io.BytesIO(drawn))
        for name, target, kind in (("dog/2.png", "cat/0.png", tarfile.LNKTYPE),):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    source = open_source(path, options=ColumnOptions(unlabelled=True) if mode == "w" else None)
    read = {sample.key: read_image(sample) for sample in source}
    assert read[b"dog/2.png"] == read[b"cat/0.png"] == drawn


def test_a_symbolic_link_in_an_archive_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    links = {"dog/2.png": "../cat/0.png", "dog/3.png": "2.png", "dog/out.png": "/etc/passwd", "dog/up.png": "../../x"}
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar_bytes(pictures(), links)))
    unpacked, notes = unpack(str(tmp_path / "a.tar.gz"))
    assert (Path(unpacked.folder) / "dog/3.png").read_bytes() == pictures()["cat/0.png"]
    assert "links, devices and other special files, in the archive: 2 (dog/out.png, dog/up.png)" in notes

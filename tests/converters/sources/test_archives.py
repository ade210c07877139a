"""Archives are unpacked once, below a temporary folder, and nothing is written outside of it."""

import gzip
import io
import os
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from shardfeed.converters.sources.files.archive import is_archive, unpack
from shardfeed.converters.sources.guard import UNPACKED_FREE, HostileError
from shardfeed.errors import StorageError, UsageError
from shardfeed.free_space import FreeSpace

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

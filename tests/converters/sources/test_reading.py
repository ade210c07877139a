"""Reading ahead: hints only while files come from the disk, and never a difference in what is read."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.reading import ReadAhead, read_image
from shardfeed.converters.sources.source import Sample, SourceFile

SIZE = 100_000


def sample(path: Path) -> Sample:
    state = path.stat()
    return Sample(os.fsencode(path.name), SourceFile(os.fsencode(path), state.st_size, state.st_mtime_ns))


@pytest.fixture
def samples(disk_path: Path) -> list[Sample]:
    """120 files, durable."""
    for i in range(120):
        path = disk_path / f"{i:03d}"
        path.write_bytes(bytes((i,)) * SIZE)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    return [sample(path) for path in sorted(disk_path.iterdir())]


def disk_input() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock


def drop_from_memory(samples: list[Sample]) -> None:
    for entry in samples:
        assert isinstance(entry.image, SourceFile)
        fd = os.open(entry.image.path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_files_of_a_disk_are_in_memory_when_they_are_read(samples: list[Sample]) -> None:
    drop_from_memory(samples)
    before = disk_input()
    ahead = ReadAhead(samples)
    waited = []
    for place, entry in enumerate(samples):
        ahead.before(place)
        at = disk_input()
        assert read_image(entry) == bytes((place,)) * SIZE
        waited.append(disk_input() - at)
    if disk_input() == before:
        pytest.skip("nothing here comes from a disk that counts its input")
    assert all(waited[:16]), "nobody knew yet"
    assert not any(waited[17:]), "announced before"


def test_files_in_memory_are_not_announced(samples: list[Sample]) -> None:
    for entry in samples:
        read_image(entry)
    ahead = ReadAhead(samples)
    for place, entry in enumerate(samples):
        ahead.before(place)
        read_image(entry)
        assert not ahead.active


def test_announcing_passes_over_what_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    entries = [sample(tmp_path / "file"), sample(tmp_path / "fifo"), sample(tmp_path / "folder")]
    entries += [Sample(b"gone", SourceFile(os.fsencode(tmp_path / "gone"), 1, 0)), Sample(b"bytes", b"x")]
    entries += [Sample(b"nul", SourceFile(b"a\0b", 1, 0))]
    ahead = ReadAhead(entries)
    ahead.active = True
    ahead.before(1)
    for entry, code in zip(entries[1:4], (RejectCode.NOT_REGULAR, None, RejectCode.SOURCE_CHANGED), strict=True):
        with pytest.raises(RejectedError) as caught:
            read_image(entry)
        assert code in (None, caught.value.code)
    assert read_image(entries[4]) == b"x"


REMOVED = os.unlink


@pytest.mark.promise(13)
@pytest.mark.parametrize(
    "edit",
    [
        lambda path: path.write_bytes(bytes(3 * SIZE)),
        lambda path: os.truncate(path, 10),
        lambda path: path.write_bytes(bytes(SIZE)),
        REMOVED,
    ],
    ids=["grown", "shrunk", "rewritten", "removed"],
)
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], object]
) -> None:
    """After its first piece: what was read of it is either all of the old file or refused."""
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (SIZE // 256) + b"x" * (SIZE % 256))
    os.utime(path, ns=(10**18, 10**18))  # else an edit within a tick of the clock would not show
    entry, whole = sample(path), path.read_bytes()
    read, pieces = os.read, []

    def in_pieces(fd: int, size: int) -> bytes:
        data = read(fd, min(size, SIZE // 2))
        if not pieces:
            edit(path)
        pieces.append(data)
        return data

    monkeypatch.setattr(os, "read", in_pieces)
    if edit is REMOVED:
        assert read_image(entry) == whole, "a file without a name is still the one that was opened"
    else:
        with pytest.raises(RejectedError) as caught:
            read_image(entry)
        assert caught.value.code is RejectCode.SOURCE_CHANGED
    assert pieces

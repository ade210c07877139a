"""Writing: nothing half-written is visible, whatever fails."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.errors import BusyError, StorageError
from shardfeed.files import Lock, NewFile, exchange, file_checksum, make_directory, publish, remove_tree, write_file
from shardfeed.framing import crc32c


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with NewFile(str(path)) as file:
        file.write([b"one", b"", b"two"])
        assert not path.exists()
        file.write([b"x"] * 3000)  # more buffers than one writev takes
    data = b"onetwo" + b"x" * 3000
    assert path.read_bytes() == data
    assert (file.size, file.crc32c) == (len(data), crc32c(data)) == file_checksum(str(path))
    assert os.listdir(tmp_path) == ["a"]


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), NewFile(str(tmp_path / "a")) as file:
        file.write([b"half"])
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No space left") as caught, NewFile(str(tmp_path / "a")) as file:
        os.close(file._fd)
        file._fd = os.open("/dev/full", os.O_WRONLY)  # a real device that refuses every write
        file.write([b"x" * 100])
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.exit_code == 5
    assert "bytes are free" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_no_parent(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot create: No such file or directory \(ENOENT\)"):
        write_file(str(tmp_path / "none" / "a"), b"")


def test_publish_and_exchange(tmp_path: Path) -> None:
    staged, final = tmp_path / "staged", tmp_path / "final"
    make_directory(str(staged))
    make_directory(str(staged))  # twice is fine: a resume
    write_file(str(staged / "new"), b"1")
    publish(str(staged), str(final))
    assert os.listdir(final) == ["new"]
    make_directory(str(staged))
    write_file(str(staged / "newer"), b"2")
    exchange(str(staged), str(final))
    assert os.listdir(final) == ["newer"]
    assert os.listdir(staged) == ["new"]
    remove_tree(str(staged))
    remove_tree(str(staged))
    assert os.listdir(tmp_path) == ["final"]


def test_lock_is_exclusive_and_ends_with_its_owner(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = Lock(path, "process 1 on here")
    code = f"from shardfeed.files import Lock; Lock({path!r}, 'other')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "BusyError" in other.stderr
    assert "process 1 on here is writing this output" in other.stderr
    lock.release()
    assert not os.path.exists(path)
    # An owner that dies without releasing leaves the file, not the lock.
    subprocess.run([sys.executable, "-c", f"{code}; import os; os._exit(9)"], check=False)
    assert os.path.exists(path)
    Lock(path, "next").release()
    with pytest.raises(BusyError):
        first = Lock(path, "a")
        try:
            Lock(path, "b")
        finally:
            first.release()

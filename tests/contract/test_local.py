"""Writing: nothing half-written is visible, whatever fails."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import BusyError, StorageError
from shardfeed.storage.checksum import crc32c, replaced_crc32c
from shardfeed.storage.local import (
    Lock,
    NewFile,
    exchange,
    make_directory,
    publish,
    remove_tree,
    storage_error,
    write_file,
)
from shardfeed.storage.storage import file_checksum


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


@pytest.mark.promise(15, 16)
def test_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No space left") as caught, NewFile(str(tmp_path / "a")) as file:
        os.close(file._fd)
        file._fd = os.open("/dev/full", os.O_WRONLY)  # a real device that refuses every write
        file.write([b"x" * 100])
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.exit_code == 5
    assert "bytes are free" in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.promise(16)
def test_a_disk_that_fills_in_the_middle_of_a_record(tmp_path: Path) -> None:
    """A limit on the file's size does what a full disk does: one short write, then an error."""
    code = f"""
import resource
from shardfeed.errors import StorageError
from shardfeed.storage.local import NewFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with NewFile({str(tmp_path / "a")!r}) as file:
        for _ in range(1000):
            file.write([b"head", bytes(999), b"tail"])
except StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot write: File too large (EFBIG)" in done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.promise(16)
def test_a_short_write_is_carried_on(tmp_path: Path) -> None:
    """As a signal cuts one off: the rest follows, nothing is lost or doubled."""
    parts = [bytes((i,)) * 300_000 for i in range(7)]
    received = bytearray()
    reader, writer = os.pipe()
    main, times = threading.main_thread().ident, []
    assert main is not None

    def read_slowly() -> None:
        for _ in range(5):
            time.sleep(0.02)
            signal.pthread_kill(main, signal.SIGUSR1)
            received.extend(os.read(reader, 100_000))
        while chunk := os.read(reader, 1 << 20):
            received.extend(chunk)

    before = signal.signal(signal.SIGUSR1, lambda *_: times.append(1))
    thread = threading.Thread(target=read_slowly)
    try:
        with pytest.raises(RuntimeError), NewFile(str(tmp_path / "a")) as file:
            os.close(file._fd)
            file._fd = os.dup(writer)
            os.close(writer)
            thread.start()
            file.write(parts)
            raise RuntimeError
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
        os.close(reader)
    assert times
    assert received == b"".join(parts)
    assert (file.size, file.crc32c) == (len(received), crc32c(bytes(received)))


def test_a_large_file_is_begun_early_and_whole(tmp_path: Path) -> None:
    parts = [b"%06d" % i + bytes(90_000) + b"end" for i in range(300)]  # 27 MB: several pieces are begun
    with NewFile(str(tmp_path / "a")) as file:
        for part in parts:
            file.write([part[:6], part[6:]])
        assert 0 < file.size - file._begun < 8 << 20
    assert (file.size, file.crc32c) == file_checksum(str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"".join(parts)


def test_a_killed_writer_leaves_no_final_name(tmp_path: Path) -> None:
    code = (
        "import os, signal; from shardfeed.storage.local import NewFile\n"
        f"with NewFile({str(tmp_path / 'a')!r}) as file:\n"
        "    for _ in range(20): file.write([bytes(1_000_000)])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["a.partial"]
    write_file(str(tmp_path / "a"), b"again")
    assert (tmp_path / "a").read_bytes() == b"again"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_in_the_way_are_refused_and_what_they_lead_to_stays(tmp_path: Path, link: Any) -> None:
    """Under names that others can guess, in a directory that they can write to."""
    (tmp_path / "foreign").write_text("stays")
    for name in ("a.partial", "a.lock"):
        link(tmp_path / "foreign", tmp_path / name)
    with pytest.raises(StorageError, match=r"a\.partial: cannot create: .*ELOOP.*; remove this link"):
        write_file(str(tmp_path / "a"), b"data")
    with pytest.raises(StorageError, match=r"a\.lock: cannot create: .*ELOOP.*; remove this link"):
        Lock(str(tmp_path / "a.lock"), "me")
    assert (tmp_path / "foreign").read_text() == "stays"
    for name in ("a.partial", "a.lock"):
        (tmp_path / name).unlink()
    write_file(str(tmp_path / "a"), b"data")
    Lock(str(tmp_path / "a.lock"), "me").release()


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


@pytest.mark.promise(10)
def test_a_fork_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    script = """
import os, sys, time
from shardfeed.storage.local import Lock
lock = Lock(sys.argv[1], "parent")
ready, done = os.pipe()
if not os.fork():
    os.write(done, b"1")
    time.sleep(600)
os.read(ready, 1)
os._exit(0)
"""
    path = str(tmp_path / "lock")
    process = subprocess.Popen([sys.executable, "-c", script, path], start_new_session=True)
    assert process.wait(60) == 0
    Lock(path, "next").release()
    os.killpg(process.pid, signal.SIGKILL)


def test_lock_is_exclusive_and_ends_with_its_owner(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = Lock(path, "process 1 on here")
    code = f"from shardfeed.storage.local import Lock; Lock({path!r}, 'other')"
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


@pytest.mark.promise(16)
def test_a_storage_error_keeps_its_errno_between_processes() -> None:
    error = pickle.loads(pickle.dumps(storage_error("shard", "write", OSError(errno.EDQUOT, ""))))
    assert error.errno == errno.EDQUOT
    assert "shard: cannot write: Disk quota exceeded (EDQUOT)" in str(error)


@pytest.mark.promise(16)
def test_a_rename_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()  # where no file can go
    with pytest.raises(StorageError, match="cannot rename: Is a directory"):
        write_file(str(tmp_path / "a"), b"x")
    assert os.listdir(tmp_path) == ["a"]


@given(st.binary(max_size=40), st.binary(max_size=300), st.data())
def test_a_beginning_that_is_known_last(before: bytes, behind: bytes, data: st.DataObject) -> None:
    """The CRC of a file follows from that of the zeros that stood there."""
    zeros = bytes(len(before))
    assert replaced_crc32c(crc32c(zeros + behind), zeros, before, len(behind)) == crc32c(before + behind)
    other = data.draw(st.binary(min_size=len(before), max_size=len(before)))
    assert replaced_crc32c(crc32c(other + behind), other, before, len(behind)) == crc32c(before + behind)


def test_a_beginning_is_written_last(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with NewFile(str(path)) as file:
        file.write([bytes(4), b"rest"])
        file.begin_with(b"head")
    assert path.read_bytes() == b"headrest"
    assert (file.size, file.crc32c) == (8, crc32c(b"headrest"))


def test_what_a_library_wrote_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with NewFile(str(path)) as file:
        Path(file.temporary).write_bytes(b"of others")
        file.take_over()
    assert path.read_bytes() == b"of others"
    assert (file.size, file.crc32c) == (9, crc32c(b"of others"))

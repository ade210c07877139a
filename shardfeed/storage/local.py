"""The one place that writes to disk. Nothing half-written is ever visible under a final name.

Every file is written under a temporary name, fsynced, renamed, and its directory fsynced; a finished directory is
published by one rename. A failed fsync is never retried: the kernel may have dropped the pages and report success
the second time.

A directory is made by one writer at a time, as a hidden sibling. Paths are absolute, without a trailing slash:

    /data/.flowers.lock        its writer (an flock: released when its process ends)
    /data/.flowers.building/   the directory while it is being made
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import socket
import stat
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from shardfeed.errors import BusyError, IntegrityError, StorageError, escape
from shardfeed.storage.checksum import extend_crc32c, replaced_crc32c

TEMPORARY = ".partial"  # suffix of a file that is being written
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)  # of the process, and of the whole machine
USUAL_DESCRIPTORS = 1024  # that a process may have
# A different file system, one without links, a file of another user, or a file with the maximum number of links.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)

_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100
_NAME_MAX = 255  # limits.h: bytes of a file name
_IOV_MAX = 1024  # limits.h: buffers in one writev
_MOST_WAITING = _IOV_MAX // 2  # buffers: a record has a few
_FEW_FILES = 1000  # left on a disk: with fewer, messages name the number
_SETTLE = 0.05  # seconds: the owner of a lock writes its name within microseconds
_NAMELESS = 1.0  # seconds after which the owner of a lock is called "another run"
# Bytes after which the disk starts writing while more are made, so that fsync waits for little.
_WRITEBACK = 8 << 20
_GATHER = 1 << 20  # bytes written at once: fewer, larger calls take a third less of the system's time
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


@contextmanager
def disk_errors(path: str | bytes, verb: str) -> Iterator[None]:
    """Context in which an OSError becomes a StorageError with the place, the failed action and the cause."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(path, verb, error) from error


def storage_error(path: str | bytes, verb: str, error: OSError) -> StorageError:
    """The StorageError for an `error` of `verb` ("write", "rename") at `path`; keeps its errno, or one of a bucket."""
    if isinstance(error, StorageError):
        return error
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    remedy = "run the same command again to resume"
    if error.errno == errno.ELOOP and error.filename:  # see `open_own`
        path, remedy = error.filename, "remove this link, and run the same command again"
    if error.errno in NO_ROOM:
        with suppress(OSError):
            free = free_space(os.path.dirname(os.path.abspath(os.fsdecode(path))))
            remedy = f"{free_text(free)}: make room, then {remedy}"
    if error.errno == errno.EMFILE:
        remedy = f"allow more open files, with `ulimit -n {USUAL_DESCRIPTORS}`, and {remedy}"
    return StorageError(path, f"cannot {verb}: {os.strerror(error.errno or 0)} ({name})", remedy, error.errno)


def open_own(path: str, flags: int, mode: int = 0o666, *, dir_fd: int | None = None, empty: bool = False) -> int:
    """Open a file for writing, but nothing that a link leads to: a directory may be writable for others, too.

    `empty`: whether its content is removed, once it is known to be no other file. Raises OSError: ELOOP for a symbolic
    link, a file that has other names, and what is not a file.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if empty:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Free(NamedTuple):
    """Free space for an unprivileged process: bytes, and number of files, None if unlimited."""

    size: int
    files: int | None


def free_space(directory: str) -> Free:
    """Return the free space on the disk of a directory. Raises OSError."""
    disk = os.statvfs(directory)
    return Free(disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else None)


def free_text(free: Free) -> str:
    """Return "1,234 bytes are free", with the number of files if these may have run out."""
    few = free.files is not None and free.files < _FEW_FILES
    return f"{free.size:,} bytes and {free.files} files (inodes) are free" if few else f"{free.size:,} bytes are free"


def fsync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    with disk_errors(path, "fsync"):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _begin_writeback(fd: int, start: int, size: int) -> None:
    """Tell the disk to begin writing bytes of a file, so that fsync takes less time."""
    if _sync_file_range is not None:
        # Its result is ignored: the kernel keeps an error for fsync, and a file system need not support this call.
        _sync_file_range(fd, start, size, _SYNC_FILE_RANGE_WRITE)


class NewFile:
    """A file that appears under `path` only once it is complete: `with NewFile(path) as f: f.write([...])`.

    Leaving the block normally makes it durable and renames it; leaving it by an exception removes it. `size` and
    `crc32c` cover everything given to `write` so far. Without `sync_directory` the name is durable only after the next
    `fsync_directory`, or the next NewFile in the same directory.

    `after`: the durable part of an earlier file that was killed (see `checkpoint`), to be continued. Raises
    IntegrityError if that part is gone.
    """

    def __init__(self, path: str, *, sync_directory: bool = True, after: tuple[int, int] | None = None) -> None:
        self.path = path
        self.temporary = _temporary(path)
        self._sync_directory = sync_directory
        self.size, self.crc32c = after or (0, 0)
        self._waiting: list[bytes] = []
        self._written = self.size  # bytes that are in the file
        self._begun = self.size  # bytes from the start that the disk was told to begin writing
        if after is None:
            with disk_errors(path, "create"):
                self._fd = open_own(self.temporary, os.O_WRONLY | os.O_CREAT, empty=True)
        else:
            self._fd = _reopened(path, self.temporary, after)

    def write(self, parts: Sequence[bytes]) -> None:
        """Append the buffers in order, which are kept until there is about a megabyte to write."""
        self._waiting += parts
        for part in parts:
            self.crc32c = extend_crc32c(self.crc32c, part)
            self.size += len(part)
        if self.size - self._written >= _GATHER or len(self._waiting) >= _MOST_WAITING:
            self._flush()

    def write_all(self, parts: Iterable[bytes]) -> None:
        """Append each buffer as it comes, such that few are held in memory."""
        for part in parts:
            self.write([part])

    def begin_with(self, data: bytes) -> None:
        """Overwrite the zeros at the beginning with `data`, of equal length, which was not known before."""
        self._flush()
        self.write_at(0, data)
        self.crc32c = replaced_crc32c(self.crc32c, bytes(len(data)), data, self.size - len(data))

    def write_at(self, start: int, data: bytes) -> None:
        """Write `data` at byte `start`, in any order and from any thread; it counts after `take_over`."""
        done = 0
        with disk_errors(self.path, "write"):
            while done < len(data):
                done += os.pwrite(self._fd, memoryview(data)[done:], start + done)
        _begin_writeback(self._fd, start, done)

    def take_over(self) -> None:
        """Use the file `temporary`, written by a library or by `write_at`, as the content of this one."""
        self.size = self.crc32c = 0
        with disk_errors(self.path, "read"), open(self.temporary, "rb", 0) as file:
            while piece := file.read(_GATHER):
                self.size += len(piece)
                self.crc32c = extend_crc32c(self.crc32c, piece)
        self._written = self.size

    def checkpoint(self) -> tuple[int, int]:
        """Make the bytes written so far durable, before the block ends; return their size and CRC-32C."""
        self._flush()
        with disk_errors(self.path, "fsync"):
            os.fsync(self._fd)
        return self.size, self.crc32c

    def _flush(self) -> None:
        """Write the pending bytes, in as many system calls as that takes."""
        parts, self._waiting = self._waiting, []
        wanted = self.size - self._written
        with disk_errors(self.path, "write"):
            written = os.writev(self._fd, parts) if len(parts) <= _IOV_MAX else 0
            if written != wanted:  # a short write: disk nearly full, or more buffers than one call takes
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
        self._written = self.size
        if self._written - self._begun >= _WRITEBACK:
            _begin_writeback(self._fd, self._begun, self._written - self._begun)
            self._begun = self._written

    def __enter__(self) -> "NewFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
                with disk_errors(self.path, "fsync"):
                    os.fsync(self._fd)
        except BaseException as raised:
            kind = type(raised)
            raise
        finally:
            fd, self._fd = self._fd, -1  # an error handler may leave the block a second time
            with suppress(OSError):  # after fsync closing cannot fail, and before it another error is being raised
                os.close(fd)
            if kind is not None:
                self._remove()
        if kind is None:
            try:
                with disk_errors(self.path, "rename"):
                    os.rename(self.temporary, self.path)
            except BaseException:
                self._remove()
                raise
            if self._sync_directory:
                fsync_directory(os.path.dirname(self.path) or ".")

    def _remove(self) -> None:
        with suppress(OSError):
            os.unlink(self.temporary)


def _temporary(path: str) -> str:
    """Return the name of a file while it is written; a digest if name and suffix would be too long."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) + len(TEMPORARY) <= _NAME_MAX:
        return path + TEMPORARY
    return os.path.join(folder, hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest() + TEMPORARY)


def _reopened(path: str, temporary: str, after: tuple[int, int]) -> int:
    """A descriptor after the first `after` (size, CRC-32C) bytes of an unfinished file, truncated there."""
    if not os.path.exists(temporary):  # it had been renamed, but the next record was not written
        with disk_errors(path, "rename"):
            os.rename(path, temporary)
    with disk_errors(path, "open"):
        fd = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW)
    try:
        size, crc = 0, 0
        chunk = b"-"
        while chunk and size < after[0]:
            rest = min(_GATHER, after[0] - size)
            with disk_errors(path, "read"):
                chunk = os.read(fd, rest)
            size += len(chunk)
            crc = extend_crc32c(crc, chunk)
        if (size, crc) != after:
            raise IntegrityError(temporary, "differs from the data written", "write it again from the start")
        with disk_errors(path, "cut"):
            os.ftruncate(fd, size)  # the descriptor is at this position already
    except BaseException:
        os.close(fd)
        raise
    return fd


def write_file(path: str, data: bytes) -> tuple[int, int]:
    """Write a whole file atomically and durably; its size in bytes and CRC-32C."""
    with NewFile(path) as file:
        file.write([data])
    return file.size, file.crc32c


def make_directory(path: str) -> None:
    """Create one directory, durably, unless it exists."""
    with disk_errors(path, "create the directory"), suppress(FileExistsError):
        os.mkdir(path)
    fsync_directory(os.path.dirname(path) or ".")


def publish(staged: str, final: str) -> None:
    """Give a finished directory its final name, which must not exist, by one rename."""
    fsync_directory(staged)
    with disk_errors(final, "rename the finished directory to"):
        os.rename(staged, final)
    fsync_directory(os.path.dirname(final) or ".")


def move_file(path: str, final: str) -> None:
    """Move a finished file within its file system, durably; the directory is created if it is missing."""
    directory = os.path.dirname(final)
    if not os.path.isdir(directory):
        make_directory(directory)
    with disk_errors(final, "rename"):
        os.rename(path, final)
    fsync_directory(directory)


def link_or_copy(path: str, final: str) -> bool:
    """Hard-link a finished file, or copy it if that fails; return whether it was linked. An existing file is kept.

    The name is durable after the next `fsync_directory`. Raises StorageError.
    """
    try:
        os.link(os.path.realpath(path), final)  # link(2) would give a symbolic link a second name
    except FileExistsError:
        return os.path.samefile(path, final)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise storage_error(final, "link", error) from error
        with disk_errors(path, "read"), open(path, "rb", 0) as source, NewFile(final, sync_directory=False) as file:
            while chunk := source.read(_GATHER):
                file.write([chunk])
        return False
    return True


def exchange(staged: str, final: str) -> None:
    """Swap two directories atomically: a reader opens the old one or the new one, never a mix.

    Raises StorageError where the file system has no RENAME_EXCHANGE (Linux only; not on NFS).
    """
    fsync_directory(staged)
    with disk_errors(final, "swap in the new dataset"):
        libc = ctypes.CDLL(None, use_errno=True)
        renameat2 = getattr(libc, "renameat2", None)
        if renameat2 is None:
            raise OSError(errno.ENOSYS, "renameat2")
        a, b = os.fsencode(staged), os.fsencode(final)
        if renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")
    fsync_directory(os.path.dirname(final) or ".")


def remove_tree(path: str) -> None:
    """Remove a directory and its content, if it exists."""
    with disk_errors(path, "remove"), suppress(FileNotFoundError):
        shutil.rmtree(path)


def remove_file(path: str) -> None:
    """Remove a file, if it exists."""
    with disk_errors(path, "remove"), suppress(FileNotFoundError):
        os.unlink(path)


class Lock:
    """One writer per output: an flock on `path`, released whenever its process ends.

    The file names the owner, for other processes' messages, and is removed on release. Raises BusyError if taken.
    """

    def __init__(self, path: str, owner: str) -> None:
        self.path = path
        while True:
            with disk_errors(path, "create"):
                self._fd = open_own(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                first = self._first()
                os.close(self._fd)
                raise BusyError(path, f"{first} is writing this output", "wait for it, or stop it") from None
            except OSError as error:
                os.close(self._fd)
                raise storage_error(path, "lock", error) from error
            # The previous owner may have removed the file between our open and our lock: then others lock a new file.
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(self._fd).st_ino:
                    break
            os.close(self._fd)
        _locks.add(self)
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, owner.encode(), 0)
        except OSError as error:
            self.release()
            raise storage_error(path, "write", error) from error

    def _first(self) -> str:
        """Return the owner of the lock; waits briefly if a new owner has just taken it over."""
        deadline = time.monotonic() + _NAMELESS
        while True:
            time.sleep(_SETTLE)
            name = os.pread(self._fd, 200, 0).decode("utf-8", "replace").strip()
            if name or time.monotonic() > deadline:
                return escape(name) or "another run"

    def release(self) -> None:
        """Remove the file and release the lock. Raises nothing: a remaining file does not lock."""
        _locks.discard(self)
        with suppress(StorageError):
            remove_file(self.path)
        with suppress(OSError):
            os.close(self._fd)


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_locks() -> None:
    for lock in list(_locks):
        with suppress(OSError):
            os.close(lock._fd)


# A fork shares the lock, which would then outlive its owner.
os.register_at_fork(after_in_child=_close_locks)


def hidden_sibling(out: str, kind: str) -> str:
    """Return a hidden path beside `out` for auxiliary files: `/data/.flowers.lock`."""
    parent, name = os.path.split(out)
    return os.path.join(parent, f".{name}.{kind}")


@contextmanager
def locked(out: str) -> Iterator[None]:
    """A block in which no other run makes or changes `out`. Raises BusyError, StorageError."""
    lock = Lock(hidden_sibling(out, "lock"), f"process {os.getpid()} on {socket.gethostname()}")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def built(out: str) -> Iterator[str]:
    """Context with a new, empty directory, which becomes `out` when the block ends; the caller holds the lock.

    If the block ends by an exception, nothing remains. The leftovers of a killed run are removed by the next one.
    Raises StorageError.
    """
    building = hidden_sibling(out, "building")
    remove_tree(building)
    make_directory(building)
    try:
        yield building
        _publish(building, out)
    except BaseException:
        with suppress(StorageError):
            remove_tree(building)
        raise


def _publish(building: str, out: str) -> None:
    """The same as `publish`, with its own error if the rename succeeded: the same command could not run again."""
    try:
        publish(building, out)
    except StorageError as error:
        if os.path.lexists(building) or not os.path.lexists(out):
            raise
        problem = f"is complete, but a power failure now might lose its name: {error.problem}"
        raise StorageError(out, problem, "check the disk, then run `sync` and `shardfeed verify DIR`") from error


def give_name(staged: str, out: str) -> None:
    """Rename a finished directory to `out`, or exchange it with the directory of this name."""
    if os.path.lexists(out):
        exchange(staged, out)
    else:
        publish(staged, out)


def discard(path: str, hidden: str) -> None:
    """Remove a directory, if it exists, after renaming it, so that a half-removed directory is never visible.

    `hidden`: that name; anything there may be removed, too.
    """
    remove_tree(hidden)
    if os.path.lexists(path):
        publish(path, hidden)
        remove_tree(hidden)


class Spill:
    """Bytes to append to and to read by position: in memory up to `in_memory` bytes, above that in a file.

    Any number of threads, and of processes that were forked since, may read at once. The file lies in `directory`, by
    default the folder for temporary files. It has no name, so nothing of it is left when this object or its process
    ends, however it ends. Methods raise StorageError if the disk is full.
    """

    def __init__(self, directory: str | None = None, in_memory: int = 4_000_000) -> None:
        self.size = 0
        self._directory, self._in_memory = directory or tempfile.gettempdir(), in_memory
        self._place = os.path.join(self._directory, "(temporary file)")
        self._memory = bytearray()
        self._file: BinaryIO | None = None

    def append(self, data: bytes) -> int:
        """Append bytes, and return the new size."""
        if self._file is None and self.size + len(data) <= self._in_memory:
            self._memory += data
        else:
            self._write(data)
        self.size += len(data)
        return self.size

    def _write(self, data: bytes) -> None:
        with disk_errors(self._place, "write"):
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0, dir=self._directory)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
                data, self._memory = bytes(self._memory) + data, bytearray()
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]

    def read(self, start: int, size: int) -> bytes:
        """Read `size` bytes from position `start` on; fewer at the end."""
        if self._file is None:
            return bytes(self._memory[start : start + size])
        with disk_errors(self._place, "read"):
            return os.pread(self._file.fileno(), size, start)

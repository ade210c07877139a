"""Files that a sparse copy has created in its directory, known by their inode numbers: no other file is ever changed.

    DIR/flowers-train-1a2b3c4d5e6f7a8b/
        shardfeed-created                  a line for each file: inode number, name; the first is this file's own, so
                                           that a copy of it lists nothing

A file is listed while it is empty: a process that is killed leaves none with content that is not listed.
"""

import errno
import os
import stat
import threading
from contextlib import suppress
from functools import partial
from io import FileIO

from shardfeed.errors import StorageError, escape
from shardfeed.read_back import checked_text
from shardfeed.storage.local import disk_errors, open_own, storage_error

_LIST = "shardfeed-created"
# No such directory, a link, a file of something else: not a fault of the disk.
_OTHERS = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EEXIST)


class OwnFiles:
    """The files of one copy. Names are relative to its directory, and may contain "/". Thread-safe.

    All methods raise StorageError, also if a file's name is taken by something that this copy has not created.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._folders: dict[str, int] = {}
        self._lock = threading.Lock()
        with suppress(FileExistsError):
            os.makedirs(directory)
        self._list = self._opened(_LIST)
        self._created = _listed(self._list.fileno())
        if not self._created:
            self._take(_LIST, self._list)

    def open(self, name: str) -> FileIO:
        """Open a file, without a buffer; a missing one is created, empty."""
        with self._lock:
            file = self._opened(name)
            if self._created.get(name) != os.fstat(file.fileno()).st_ino:
                self._take(name, file)
            return file

    def write(self, name: str, data: bytes) -> None:
        """Replace a file's content."""
        with self.open(name) as file:
            self.put(file, data, 0, name)
            file.truncate(len(data))

    def put(self, file: FileIO, data: bytes | memoryview, at: int, name: str) -> int:
        """Write into an open file, from `at` on; return the position after the data."""
        view = memoryview(data)
        with disk_errors(os.path.join(self.directory, name), "write"):
            while view:
                written = os.pwrite(file.fileno(), view, at)
                view, at = view[written:], at + written
        return at

    def _opened(self, name: str) -> FileIO:
        folder, _, last = name.rpartition("/")
        try:
            return FileIO(open_own(last, os.O_RDWR | os.O_CREAT, dir_fd=self._folder(folder)), "r+b")
        except OSError as error:
            raise self._failed(name, error) from error

    def _folder(self, name: str) -> int:
        """A descriptor of a directory below that of the copy, or of this one."""
        if name not in self._folders:
            above, _, last = name.rpartition("/")
            within = self._folder(above) if name else None
            with suppress(FileExistsError):
                os.mkdir(last or self.directory, dir_fd=within)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._folders[name] = os.open(last or self.directory, flags, dir_fd=within)
        return self._folders[name]

    def _take(self, name: str, file: FileIO) -> None:
        """List a file that was just created. Raises StorageError for one that has content."""
        state = os.fstat(file.fileno())
        try:
            if state.st_size:
                raise FileExistsError(errno.EEXIST, name)
            place, entry = os.path.join(self.directory, _LIST), {name: state.st_ino}
            line = checked_text(place, partial(_line, name, state.st_ino), _entries, entry)
            self._list.seek(0, os.SEEK_END)
            self._list.write(line.encode())
            os.fsync(self._list.fileno())  # its names must not be older than the files, after a power failure
        except OSError as error:
            file.close()
            raise self._failed(name, error) from error
        self._created[name] = state.st_ino

    def _failed(self, name: str, error: OSError) -> StorageError:
        path = os.path.join(self.directory, name)
        if error.errno not in _OTHERS:
            return storage_error(path, "open", error)
        problem = "the cache is damaged: this is missing, or is not the file that it created"
        return StorageError(path, problem, f"save your own files, and remove {escape(self.directory)}")


def created_files(directory: str) -> dict[str, os.stat_result]:
    """The files that a copy of this user created in its directory, and that are still there, by name."""
    found: dict[str, os.stat_result] = {}
    with suppress(OSError), FileIO(open_own(os.path.join(directory, _LIST), os.O_RDWR), "r+b") as file:
        mine = os.fstat(file.fileno()).st_uid == os.getuid()  # another user's list may name whatever it wants
        for name, number in _listed(file.fileno()).items() if mine else ():
            with suppress(OSError):
                state = os.lstat(os.path.join(directory, name))
                if state.st_ino == number and stat.S_ISREG(state.st_mode):
                    found[name] = state
    return found


def remove_created(directory: str) -> None:
    """Remove the files that a copy created, and the directories that are empty then. Raises StorageError."""
    names = list(created_files(directory))
    with disk_errors(directory, "remove"):
        for name in reversed(names):  # the list itself last
            os.unlink(os.path.join(directory, name))
    for folder in sorted({os.path.dirname(name) for name in names}, reverse=True):  # "" is the last
        with suppress(OSError):
            os.rmdir(os.path.join(directory, folder))


def _listed(fd: int) -> dict[str, int]:
    """Inode numbers by name; empty if this is a copy of a list."""
    state = os.fstat(fd)
    found = _entries(os.pread(fd, state.st_size, 0).decode(errors="replace"))
    return found if found.get(_LIST) == state.st_ino else {}


def _line(name: str, number: int) -> str:
    """An entry of a list: on a new line, also after one that a full disk has cut."""
    return f"\n{number} {name}"


def _entries(text: str) -> dict[str, int]:
    """Inode numbers by name, in lines of a list; other lines are left out."""
    lines = [line.split(" ", 1) for line in text.splitlines()]
    return {line[1]: int(line[0]) for line in lines if len(line) == 2 and line[0].isdecimal()}

"""Sparse copies of splits: local files with the names and sizes of the shards, and holes for what was not fetched.

    DIR/flowers-train-1a2b3c4d5e6f7a8b/     the manifest, the shards, and their indexes once they are needed
        shardfeed-fetched                  a log of runs of records: place, count; a negative count: removed. Each
                                           process begins with one that has only what is there

Each record is fetched once for all readers. When space runs out, the records that the readers' orders will need latest
are removed first. A record that is damaged, for example by a power failure, is found by its CRC when it is read.
"""

import ctypes
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from shardfeed.errors import IntegrityError, StorageError
from shardfeed.naming import MANIFEST, dataset_name
from shardfeed.pipelines.caching.reader import Reader, next_uses
from shardfeed.readers.dataset import Dataset
from shardfeed.storage.local import make_directory, remove_tree, storage_error, write_file
from shardfeed.storage.objects import buffers
from shardfeed.storage.storage import pieces
from shardfeed.text import size_text

_AT_ONCE = 32  # concurrent requests: more did not help at 30 ms per request
_PUNCH_HOLE = 3  # linux/falloc.h: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_LOG = "shardfeed-fetched"


def leftovers_in(directory: str) -> dict[str, int]:
    """Sparse copies that earlier processes left in a directory, and the bytes that they take."""
    found: dict[str, int] = {}
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False) and os.path.isfile(os.path.join(entry.path, _LOG)):
            files = [os.path.join(folder, name) for folder, _, names in os.walk(entry.path) for name in names]
            found[entry.path] = sum(os.lstat(file).st_blocks * 512 for file in files)
    return found


class Room:
    """Space that all sparse copies of a directory share: `limit` bytes; if `hard`, never more.

    `leftovers`: copies of earlier processes that are not used again yet, and their bytes.
    """

    def __init__(self, limit: int, leftovers: dict[str, int], *, hard: bool) -> None:
        self.limit, self.hard, self.leftovers = limit, hard, leftovers
        self.copies: list[SparseCopy] = []
        self.lock = threading.RLock()  # taken before that of a copy

    def make(self, wanted: "SparseCopy", needed: int, *, ahead: bool) -> bool:
        """Remove records until `needed` bytes fit, and count these as used; return whether they fit.

        Raises StorageError if nothing can be removed, unless they are fetched `ahead` or the limit is not hard.
        """
        with self.lock:
            taken = sum(copy.bytes for copy in self.copies) + sum(self.leftovers.values())
            missing = taken + needed - self.limit
            while missing > 0 and self.leftovers:
                path, size = self.leftovers.popitem()
                remove_tree(path)
                missing -= size
            missing -= self._remove(missing)
            if missing > 0 and (ahead or self.hard):
                if ahead:
                    return False
                problem = f"the limit is {size_text(missing)} too small for the records read at once"
                raise StorageError(wanted.directory, problem, "give the cache a larger limit")
            wanted.bytes += needed
            return True

    def shrink(self) -> None:
        """Remove records until the copies in use take at most the limit."""
        with self.lock:
            self._remove(sum(copy.bytes for copy in self.copies) - self.limit)

    def _remove(self, missing: int) -> int:
        """Remove records of `missing` bytes, first from copies that nobody reads; return the bytes removed."""
        removed = 0
        for copy in sorted(self.copies, key=lambda copy: bool(copy.readers)):
            if removed < missing:
                removed += copy.remove(missing - removed)
        return removed


class SparseCopy:
    """The sparse copy of one split; thread-safe.

    `present`: bool [records], which records are in the files. `bytes`: their size, including records being fetched.
    """

    def __init__(self, parent: str, dataset: Dataset, split: str, room: Room) -> None:
        self.split = dataset[split].whole_split
        name = dataset_name(dataset.directory).replace("/", "_")
        self.directory = os.path.join(parent, f"{name}-{split}-{self.split.fingerprint[:16]}")
        self.present = np.zeros(len(self.split), bool)
        self.readers: dict[str, Reader] = {}
        self.bytes = 0
        self._room = room
        self._coming = np.zeros(len(self.split), bool)
        self._asked: dict[int, np.ndarray] = {}  # the last request of each thread
        self._failed: tuple[Exception, np.ndarray] | None = None  # the last error, and the records that it was about
        self._changed = threading.Condition()
        self._indexing = threading.Lock()
        self._ahead = ThreadPoolExecutor(2, "shardfeed-ahead")  # chunks at once: so the link is never idle
        self._pool = ThreadPoolExecutor(_AT_ONCE, "shardfeed-fetch")
        os.makedirs(self.directory, exist_ok=True)
        if not os.path.exists(os.path.join(self.directory, MANIFEST)):
            write_file(os.path.join(self.directory, MANIFEST), dataset.manifest.to_bytes())
        self._log = self._resume(os.path.join(self.directory, _LOG))
        with room.lock:
            room.leftovers.pop(self.directory, None)
            room.copies.append(self)

    def _resume(self, path: str) -> int:
        """Take over the records that an earlier process fetched; return a descriptor of their log, rewritten."""
        content = b""
        with suppress(FileNotFoundError), open(path, "rb") as file:
            content = file.read()
        for place, count in np.frombuffer(content[: len(content) // 16 * 16], np.int64).reshape(-1, 2).tolist():
            self.present[place : place + abs(count)] = count > 0
        starts, ends = np.flatnonzero(np.diff(self.present, prepend=False, append=False)).reshape(-1, 2).T
        write_file(path, np.stack([starts, ends - starts], axis=1).tobytes())
        shards = self.split.shards
        files = [
            os.path.join(self.directory, shards.info.shard_file(shard)) for shard in range(len(shards.info.shards))
        ]
        begun = [os.path.exists(file) for file in files]
        if any(begun):
            self.read_indexes(set(np.flatnonzero(begun).tolist()))
            self.bytes = self._bytes(np.flatnonzero(self.present))
            # A killed process may have written records that are not in the log.
            self._free(np.flatnonzero(~self.present & np.repeat(begun, np.diff(shards.firsts))))
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def local(self, path: str) -> str:
        """The copy's file for a file of the dataset."""
        return os.path.join(self.directory, os.path.relpath(path, self.split.shards.directory))

    def read_indexes(self, shards: set[int]) -> None:
        """Fetch the indexes of these shards, and create their files, unless they exist."""
        with self._indexing:
            of_split = self.split.shards
            for shard in shards:
                path = os.path.join(self.directory, of_split.info.index_file(shard))
                with suppress(IntegrityError, FileNotFoundError), open(path, "rb") as file:
                    of_split.take_index(shard, file.read(), path)
            for shard, index in of_split.read_indexes(sorted(shards)).items():
                for name in (of_split.info.index_file(shard), of_split.info.shard_file(shard)):
                    folder = os.path.dirname(os.path.join(self.directory, name))
                    if not os.path.isdir(folder):
                        make_directory(folder)
                path = os.path.join(self.directory, of_split.info.shard_file(shard))
                with open(path, "ab") as file:  # keeps existing bytes
                    file.truncate(of_split.info.shards[shard].data.size)
                write_file(os.path.join(self.directory, of_split.info.index_file(shard)), index)

    def fill(self, places: np.ndarray, reader: Reader | None = None) -> None:
        """Wait until the records at `places`, int64 [k], are in the files; start fetching the reader's next chunks.

        Raises StorageError, IntegrityError.
        """
        self._asked[threading.get_ident()] = places
        following = reader.following if reader else None
        if reader is not None and following is not None and reader.newest is not None:
            newest = reader.newest
            last = newest + following.ahead
            follows = newest <= reader.fetched <= last  # what it read before: this chunk was fetched ahead
            if following.whole and not follows:
                self._fill(following.places(newest))  # alone, because a reader waits for all of it
            for chunk in range((reader.fetched if follows else newest) + 1, last + 1):
                self._ahead.submit(self._fill_ahead, reader, following.places(chunk), chunk)
            reader.fetched = last
            if following.whole:
                self._fill(following.places(newest))
                if not self.present[places].all():  # a batch at the end of a chunk
                    self._fill(following.places(newest + 1))
        self._fill(places)

    def begin(self, reader: Reader, chunk: int) -> None:
        """Start fetching a chunk that this reader, or its workers, will read next."""
        if reader.following is not None:
            self._ahead.submit(self._fill_ahead, reader, reader.following.places(chunk), chunk)

    def again(self, places: np.ndarray) -> None:
        """Fetch records again whose copies are damaged."""
        self._asked[threading.get_ident()] = places
        with self._room.lock, self._changed:
            self._forget(np.unique(places[self.present[places]]))
        self._fill(places)

    def renew(self) -> None:
        """Open the files again after a failed read: a reader has opened the dataset again."""
        with self._changed:
            if self._failed is not None:
                self._failed = None
                self.split.shards.reopen()

    def leave(self) -> None:
        """Release the records that this thread requested last: they have been read, or their reader is gone."""
        self._asked.pop(threading.get_ident(), None)
        if self._room.hard:
            self._room.shrink()

    def _fill_ahead(self, reader: Reader, places: np.ndarray, chunk: int) -> None:
        if reader.newest is not None and chunk <= reader.newest:
            return  # it was faster, and the records it has read may be removed already, as they are needed last
        with suppress(Exception):  # readers of these records will get the error
            self._fill(places, ahead=True)

    def _fill(self, places: np.ndarray, *, ahead: bool = False) -> None:
        places = np.unique(places)
        while True:
            with self._changed:
                missing = places[~self.present[places]]
                if not len(missing):
                    return
                mine = missing[~self._coming[missing]]
                if not len(mine):
                    if ahead:
                        return
                    failed = self._failed
                    self._changed.wait()
                    if self._failed is not failed and self._failed is not None:
                        error, of = self._failed
                        if np.isin(missing, of).any():  # another attempt would take as long again for each reader
                            raise error
                    continue
                self._coming[mine] = True
            try:
                if not self._fetch(mine, ahead):
                    return
            except Exception as error:
                with self._changed:
                    self._failed = error, mine
                raise
            finally:
                with self._changed:
                    self._coming[mine] = False
                    self._changed.notify_all()

    def _fetch(self, places: np.ndarray, ahead: bool) -> bool:
        """Fetch missing records, ascending; return whether there was room for them."""
        shards = self.split.shards
        runs = shards.runs(places)
        touched = {shard for shard, *_ in runs}
        try:
            self.read_indexes(touched)
            if not self._room.make(self, self._bytes(places), ahead=ahead):
                return False
            failed = threading.Event()
            done = [
                self._pool.submit(self._fetch_unless, failed, shard, row + first, last - first)
                for shard, row, count, _ in runs
                for first, last in pieces(self._offsets(shard, row, count), 0, count)
            ]
            errors = [error for one in done if (error := one.exception()) is not None]
            if errors:
                with self._room.lock:
                    self.bytes -= self._bytes(places[~self.present[places]])
                raise errors[0]
        except (IntegrityError, FileNotFoundError) as error:
            shards.check_current(min(touched))
            if isinstance(error, FileNotFoundError):
                raise IntegrityError(str(error.filename), "missing: the manifest has this file", "restore it") from None
            raise
        shards.check_read(sorted(touched))
        return True

    def _offsets(self, shard: int, row: int, count: int) -> np.ndarray:
        """Bytes from the first record of a run to each of its records, and to its end, int64 [count + 1]."""
        return np.concatenate([[0], np.cumsum(self.split.shards.view(shard).sizes[row : row + count])])

    def _fetch_unless(self, failed: threading.Event, shard: int, row: int, count: int) -> None:
        """Fetch a piece, unless an earlier one failed: without a network, each would take until the timeout."""
        if failed.is_set():
            return
        try:
            self._fetch_piece(shard, row, count)
        except BaseException:
            failed.set()
            raise

    def _fetch_piece(self, shard: int, row: int, count: int) -> None:
        shards = self.split.shards
        file = shards.file(shard)
        shard_path = shards.path(shard)
        for part in shards.view(shard).parts(file, row, count):
            if part.file.path != shard_path:  # an index, which the copy has completely
                continue
            path, at = self.local(part.file.path), part.start
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    for buffer in buffers(part):
                        view = memoryview(buffer)
                        while view:
                            written = os.pwrite(fd, view, at)
                            view, at = view[written:], at + written
                finally:
                    os.close(fd)
            except OSError as error:
                if isinstance(error, StorageError | FileNotFoundError):
                    raise
                raise storage_error(path, "write", error) from error
            if at != part.start + part.size:
                problem = f"got {at - part.start} bytes from {part.start} on, expected {part.size}"
                raise IntegrityError(part.file.path, problem, "run `shardfeed verify`")
        place = int(shards.firsts[shard]) + row
        with self._changed:
            self.present[place : place + count] = True
            self._coming[place : place + count] = False
            self._note(place, count)
            self._changed.notify_all()

    def remove(self, wanted: int) -> int:
        """Remove records of about `wanted` bytes or more, those needed latest first; return the bytes removed."""
        with self._changed:
            free = self.present.copy()
            for places in self._asked.copy().values():
                free[places] = False
            for reader in list(self.readers.values()):
                for places in reader.needed():
                    free[places] = False
            places = np.flatnonzero(free)
            if not len(places):
                return 0
            if self._room.hard:
                places = places[np.argsort(-next_uses(self.readers.values(), len(self.split))[places], kind="stable")]
            sizes = np.cumsum(self._sizes(places))
            chosen = np.sort(places[: int(np.searchsorted(sizes, wanted)) + 1])
            return self._forget(chosen)

    def _forget(self, places: np.ndarray) -> int:
        """Remove records, ascending, from the files; return their size in bytes. The caller holds the lock."""
        if not len(places):
            return 0
        freed = self._bytes(places)
        self.present[places] = False
        for _, _, count, start in self.split.shards.runs(places):
            self._note(int(places[start]), -count)
        self._free(places)
        self.bytes -= freed
        return freed

    def _free(self, places: np.ndarray) -> None:
        """Return the space of records, ascending, to the file system. The caller holds the lock."""
        if not len(places):
            return
        shards = self.split.shards
        kept = np.flatnonzero(self.present | self._coming)  # a record being fetched may be written already
        for shard, row, count, start in shards.runs(places):
            place, (low, high) = int(places[start]), shards.firsts[shard : shard + 2].tolist()
            first, end = self._span(shard, row, count)
            first, end = first - first % _PAGE, end + -end % _PAGE
            # Pages shared with the nearest records that are kept stay: several small records share a page.
            after = int(np.searchsorted(kept, place))
            if after > 0 and kept[after - 1] >= low:
                below = self._span(shard, int(kept[after - 1]) - low, 1)[1]
                first = max(first, below + -below % _PAGE)
            if after < len(kept) and kept[after] < high:
                above = self._span(shard, int(kept[after]) - low, 1)[0]
                end = min(end, above - above % _PAGE)
            fd = os.open(self.local(shards.path(shard)), os.O_WRONLY | os.O_CLOEXEC)
            try:
                free_range(fd, first, end)
            finally:
                os.close(fd)

    def _span(self, shard: int, row: int, count: int) -> tuple[int, int]:
        """The first byte of a run of records in their shard, and the one after the last."""
        parts = self.split.shards.view(shard).parts(self.split.shards.file(shard), row, count)
        spans = [
            (part.start, part.start + part.size) for part in parts if part.file.path == self.split.shards.path(shard)
        ]
        return spans[0][0], spans[-1][1]

    def _note(self, place: int, count: int) -> None:
        os.write(self._log, np.array([place, count], np.int64).tobytes())

    def _sizes(self, places: np.ndarray) -> np.ndarray:
        """Bytes of records whose indexes are local, int64 [k]."""
        shards = self.split.shards
        numbers = np.searchsorted(shards.firsts, places, "right") - 1
        found = np.zeros(len(places), np.int64)
        for shard in np.unique(numbers).tolist():
            of_shard = numbers == shard
            found[of_shard] = shards.view(shard).sizes[places[of_shard] - shards.firsts[shard]]
        return found

    def _bytes(self, places: np.ndarray) -> int:
        return int(self._sizes(places).sum())


_PAGE = os.sysconf("SC_PAGE_SIZE")


def free_range(fd: int, start: int, end: int) -> None:
    """Return bytes `start` to `end` of a file to its file system; they then read as zeros.

    Raises OSError: EOPNOTSUPP if the file system cannot do that (NFS).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if end > start and libc.fallocate(fd, _PUNCH_HOLE, ctypes.c_longlong(start), ctypes.c_longlong(end - start)) != 0:
        raise OSError(ctypes.get_errno() or errno.EIO, "cannot free a part of a file")

"""A split's shard files: checked random access to records, from many threads and processes at once.

Files are opened when first needed. The format handles their content, the storage their location.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from shardfeed.errors import IntegrityError, RecordError, escape
from shardfeed.formats.format import ShardView
from shardfeed.manifest import SplitInfo, SplitOfManifest
from shardfeed.storage.local import NO_DESCRIPTOR
from shardfeed.storage.storage import LOCAL, LocalFile, LocalStorage, OpenFile, Part, Storage, whole

_RESTORE = "restore it, or keep the rest with `shardfeed salvage DIR OUT`"


class Filler(Protocol):
    """Fills the files of a copy with the records that are about to be read. Pickles."""

    def fill(self, places: np.ndarray, *, again: bool = False) -> AbstractContextManager[None]:
        """Wait until the records at `places`, int64 [k], are in the files; they stay there until the block ends.

        `again`: fetch them again, because they are damaged. Raises StorageError, IntegrityError.
        """
        ...

    def fill_index(self, shard: int) -> None:
        """Wait until the index of a shard is in its file. Raises StorageError, IntegrityError."""
        ...


@dataclass(frozen=True)
class Copy:
    """Files read instead of a split's original ones: the same samples at the same places. Made by `copies.py`.

    `directory`: directory of the files. `info`: their entry in a manifest. `numbers[i]`: the split's shard of which
    shard `i` is the copy; shards without one are read in their original place. `decoded`: whether images are raw pixels
    in it. `filler`: fetches missing parts of files with holes; None: the files are complete.
    """

    directory: str
    info: SplitInfo
    numbers: Sequence[int]
    decoded: bool
    filler: Filler | None = None


class ReadsAhead(Protocol):
    """Reads records ahead for the threads of one process. `elsewhere`: the copy that other processes read instead.

    Loaders ask it for more, in the order that it follows: see `pipelines.caching.client`.
    """

    process: int
    elsewhere: Copy

    def payloads(self, places: np.ndarray) -> list[bytes]:
        """See `Shards.payloads`."""
        ...


# The number of classes of each record of a split, and these classes, record by record, each once.
ClassSets = tuple[np.ndarray, np.ndarray]


class Shards:
    """The shard files and indexes of one split. Pickles as its directory and its part of the manifest.

    `info` describes the split, even if a `copy` of shards is read, which may hold other bytes. `columns`: features
    that `read_column` has read, in stored order; like open files, they are not pickled. `class_sets`: results of
    `rarest_classes`, by key; pickled, because computing them again would read all records. `ahead`: reads for this
    process.
    """

    def __init__(
        self,
        directory: str,
        info: SplitInfo,
        copy: Copy | None = None,
        storage: Storage = LOCAL,
        class_sets: dict[str, ClassSets] | None = None,
        ahead: ReadsAhead | None = None,
    ) -> None:
        self.ahead = ahead
        self.directory = directory
        self.info = info
        self.copy = copy
        self.storage = storage
        self.class_sets = {} if class_sets is None else class_sets
        self._copied = {number: i for i, number in enumerate(copy.numbers)} if copy else {}
        self._lock = threading.Lock()
        self._files: OrderedDict[int, OpenFile] = OrderedDict()
        self._views: dict[int, ShardView] = {}
        self.columns: dict[str, np.ndarray] = {}
        self._manifests: dict[str, Hashable] = {}  # directory -> the version of the manifest that was compared
        self._checked: set[int] = set()  # shards of a remote storage that were read when the manifest was compared

    def __getstate__(self) -> tuple[Any, ...]:
        copy = self.copy if self.ahead is None else self.ahead.elsewhere
        return self.directory, self.info, copy, self.storage, self.class_sets

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)

    @cached_property
    def firsts(self) -> np.ndarray:
        """Position in the split of each shard's first record, and the number of records: int64 [shards + 1]."""
        return np.concatenate([[0], np.cumsum(self.info.shards.records)])

    def reading(self, how: Copy | ReadsAhead) -> "Shards":
        """The same shards, read from a copy, or ahead."""
        copy, ahead = (how, None) if isinstance(how, Copy) else (None, how)
        return Shards(self.directory, self.info, copy, self.storage, self.class_sets, ahead)

    @property
    def of_this_process(self) -> "Shards":
        """These shards; in a fork of the process that reads them ahead, the same ones, read from the other copy."""
        return self if self.ahead is None or self.ahead.process == os.getpid() else self._elsewhere

    @cached_property
    def _elsewhere(self) -> "Shards":
        return Shards(*self.__getstate__())

    def read_from(self, shard: int) -> tuple[str, SplitInfo, int]:
        """Location of a shard: a directory, the split that its files belong to, and the shard's number there."""
        if self.copy is not None and shard in self._copied:
            return self.copy.directory, self.copy.info, self._copied[shard]
        return self.directory, self.info, shard

    def storage_of(self, shard: int) -> Storage:
        """Storage that a shard is read through: the dataset's, or the local disk if there is a copy."""
        return LOCAL if shard in self._copied else self.storage

    def is_local_file(self, shard: int) -> bool:
        """Whether a shard is read from a whole file of this machine."""
        whole = self.copy is None or self.copy.filler is None or shard not in self._copied
        return whole and is_local(self.storage_of(shard))

    def path(self, shard: int) -> str:
        """The path of the file that is read for a shard."""
        directory, info, number = self.read_from(shard)
        return os.path.join(directory, info.shard_file(number))

    def view(self, shard: int) -> ShardView:
        """The records of a shard by row; its index is read on first use, and kept: 8 bytes per record."""
        if shard not in self._views:
            if self.copy is not None and self.copy.filler is not None:
                self.copy.filler.fill_index(shard)
            directory, info, number = self.read_from(shard)
            try:
                self._views[shard] = read_view(directory, info, number, self.storage_of(shard))
            except (IntegrityError, FileNotFoundError):
                self.check_current(shard)
                raise
        return self._views[shard]

    def check_current(self, shard: int) -> None:
        """Raise IntegrityError if another dataset has replaced the one that was opened.

        Files are opened when they are first needed, and a converter may have swapped its directory meanwhile: a shard
        of the same name and size then holds other records, and nothing about it is damaged.
        """
        directory, info, _ = self.read_from(shard)
        stored = SplitOfManifest(directory, info.name, self.storage_of(shard))
        version = self._manifests.get(directory) or info.shards.versions.get(directory)
        if version is None or version != stored.version():
            _, version = stored.read(info.shards.digest)
        self._manifests[directory] = version

    def payloads(self, places: np.ndarray) -> list[bytes]:
        """The records at `places`, int64 [k], in that order, with checked CRCs. Raises RecordError, IntegrityError.

        Records are read in stored order, and adjacent records of a shard at once.
        """
        if self.ahead is not None:
            here = self.of_this_process
            return self.ahead.payloads(places) if here is self else here.payloads(places)
        if self.copy is None or self.copy.filler is None or not len(places):
            return self._read(places)
        with self.copy.filler.fill(places):
            try:
                return self._read(places)
            except IntegrityError:  # perhaps only in transfer, or the copy's file was removed
                self.reopen()
                damaged = self._damaged(places)
            try:
                with self.copy.filler.fill(damaged, again=True):
                    return self._read(places)
            except RecordError as error:  # of the dataset, which has the same offsets as its copy
                place = error.place.replace(self.copy.directory, self.directory, 1)
                raise RecordError(place, error.problem, error.remedy) from None
            except IntegrityError as error:
                remedy = f"remove {escape(self.copy.directory)} while nobody reads it"
                raise IntegrityError(error.place, f"the cache is damaged: {error.problem}", remedy) from None

    def load(self, places: np.ndarray) -> None:
        """Read records of local files, at `places`, int64 [k], ascending, into the page cache unless they are there."""
        for shard, row, count, _ in self.runs(places):
            for part in self.view(shard).parts(self.file(shard), row, count):
                if isinstance(part.file, LocalFile):
                    part.file.load(part.start, part.size)

    def _damaged(self, places: np.ndarray) -> np.ndarray:
        """Return those of `places` whose records cannot be read."""
        damaged: list[int] = []
        for place in places.tolist():
            try:
                self._read(np.array([place]))
            except IntegrityError:
                damaged.append(place)
        return np.array(damaged, np.int64)

    def runs(self, places: np.ndarray) -> list[tuple[int, int, int, int]]:
        """Runs of adjacent records: (shard, row, count, first of `places`); `places`: int64 [k], ascending, k > 0."""
        shards = self.firsts.searchsorted(places, "right") - 1
        rows = places - self.firsts[shards]
        if len(places) == 1:  # `split[i]`
            return [(int(shards[0]), int(rows[0]), 1, 0)]
        ends = np.flatnonzero((places[1:] - places[:-1] != 1) | (shards[1:] != shards[:-1])) + 1
        starts = [0, *ends.tolist()]
        counts = [end - start for start, end in pairwise([*starts, len(places)])]
        return list(zip(shards[starts].tolist(), rows[starts].tolist(), counts, starts, strict=True))

    def _read(self, places: np.ndarray) -> list[bytes]:
        """The same as `payloads`, directly from the files."""
        found = [b""] * len(places)
        if not found:
            return found
        by_place = np.argsort(places, kind="stable") if len(found) > 1 else np.zeros(1, np.intp)
        targets = by_place.tolist()
        local = isinstance(self.storage, LocalStorage)
        remote: list[tuple[int, int, int, int]] = []
        for shard, runs in groupby(self.runs(places[by_place]), itemgetter(0)):
            if local or shard in self._copied:
                view, file = self.view(shard), self.file(shard)
                for _, row, count, start in runs:
                    for number, payload in enumerate(view.read(file, row, count), start):
                        found[targets[number]] = payload
            else:
                remote += runs
        for (_, _, count, start), payloads in zip(remote, self._remote_payloads(remote), strict=True):
            for number, payload in zip(range(start, start + count), payloads, strict=True):
                found[targets[number]] = payload
        return found

    def _remote_payloads(self, runs: Sequence[tuple[int, int, int, int]]) -> Iterator[list[bytes]]:
        """The records of each run (shard, row, count, _), all read at once; a damaged run is read once more."""
        storage = self.storage
        if not runs:
            return
        shards = sorted({run[0] for run in runs})
        with self.current(shards):
            self.read_indexes(shards)
            files = {shard: self.file(shard) for shard in shards}
            parts = [self._views[shard].parts(files[shard], row, count) for shard, row, count, _ in runs]
            data = iter(storage.read_many([part for of_run in parts for part in of_run]))
        self.check_read(shards)
        for (shard, row, count, _), of_run in zip(runs, parts, strict=True):
            read = list(islice(data, len(of_run)))
            try:
                yield self._views[shard].cut(files[shard], row, count, read)
            except RecordError:  # perhaps only in transfer
                yield self._views[shard].cut(files[shard], row, count, storage.read_many(of_run))

    @contextmanager
    def current(self, shards: Sequence[int]) -> Iterator[None]:
        """A block that reads shards of a remote storage: files that are missing raise IntegrityError."""
        try:
            yield
        except (IntegrityError, FileNotFoundError) as error:
            self.check_current(shards[0])
            if isinstance(error, FileNotFoundError):
                raise IntegrityError(str(error.filename), "missing: the manifest has this file", _RESTORE) from None
            raise

    def reopen(self) -> None:
        """Forget the versions of remote files: the next reads use the current ones, under the same manifest."""
        with self._lock:
            self._files.clear()
            self._manifests.clear()
            self._checked.clear()

    def check_read(self, shards: Sequence[int]) -> None:
        """Compare the manifest after the first reads of some shards of a remote storage, which fixed their versions."""
        if not self._checked.issuperset(shards):
            self.check_current(shards[0])
            self._checked.update(shards)

    def read_indexes(self, shards: Sequence[int]) -> dict[int, bytes]:
        """Read the indexes of these shards of a remote storage, all at once, except indexes that were read before."""
        new = [shard for shard in shards if shard not in self._views]
        if not new:
            return {}
        paths = [os.path.join(self.directory, self.info.index_file(shard)) for shard in new]
        sizes = [self.info.shards[shard].index.size for shard in new]
        parts = [Part(self.storage.open(path, size), 0, size) for path, size in zip(paths, sizes, strict=True)]
        with self.current(new):
            found = dict(zip(new, map(bytes, self.storage.read_many(parts)), strict=True))
        for shard, path, part in zip(new, paths, parts, strict=True):
            try:
                self.take_index(shard, found[shard], path)
            except IntegrityError:  # perhaps only in transfer
                found[shard] = part.read()
                self.take_index(shard, found[shard], path)
        return found

    def take_index(self, shard: int, content: bytes, path: str) -> None:
        """Take the content of a shard's index. Raises IntegrityError unless it was written with this shard."""
        if shard not in self._views:
            self._views[shard] = self.info.shard_format.view(self.info.shards[shard], content, path)

    def place(self, place: int) -> str:
        """Return the record at a place of the split as errors name it: file, record number and offset."""
        shard = int(np.searchsorted(self.firsts, place, "right")) - 1
        return self.view(shard).place(self.file(shard), place - int(self.firsts[shard]))

    def find(self, payload: bytes) -> int | None:
        """Find the first record with this payload; None if there is none. Reads all records of the same size."""
        size = self.info.shard_format.size(payload)
        for shard, first in enumerate(self.firsts[:-1].tolist()):
            for row in np.flatnonzero(self.view(shard).sizes == size).tolist():
                if self.payloads(np.array([first + row])) == [payload]:
                    return first + row
        return None

    def file(self, shard: int) -> OpenFile:
        """The shard's file. Readers hold it: another thread may drop it here, and the last reference closes it."""
        files = self._files
        with self._lock:
            if shard in files:
                files.move_to_end(shard)
                return files[shard]
        try:
            opened = self._open(shard)
        except FileNotFoundError:
            self.check_current(shard)
            raise IntegrityError(self.path(shard), "missing: the manifest has this shard", _RESTORE) from None
        storage = self.storage_of(shard)
        if isinstance(storage, LocalStorage):
            self.check_current(shard)  # after it was opened: anything swapped in from now on is another file
        with self._lock:
            files[shard] = opened
            if len(files) > storage.most_open:
                self._checked.discard(files.popitem(last=False)[0])
        return opened

    def _open(self, shard: int) -> OpenFile:
        """Open a shard's file; if the process has no descriptor left, in place of the files that are open here."""
        try:
            return open_shard(*self.read_from(shard), self.storage_of(shard))
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
        with self._lock:
            self._files.clear()
            self._checked.clear()
        return open_shard(*self.read_from(shard), self.storage_of(shard))


def read_view(directory: str, info: SplitInfo, shard: int, storage: Storage = LOCAL) -> ShardView:
    """The records of a shard, by its index, which is checked against the manifest. Raises IntegrityError, OSError."""
    path = os.path.join(directory, info.index_file(shard))
    index = storage.open(path, info.shards[shard].index.size)
    return info.shard_format.view(info.shards[shard], whole(index), path)


def open_shard(directory: str, info: SplitInfo, shard: int, storage: Storage = LOCAL) -> OpenFile:
    """The file of a shard, as its view reads it. Raises OSError."""
    data, index = (os.path.join(directory, name) for name in (info.shard_file(shard), info.index_file(shard)))
    return info.shard_format.open(storage, data, index, info.shards[shard])


def is_local(storage: Storage) -> bool:
    """Whether its paths name files that other programs can open; in a subclass they may mean something else."""
    return type(storage) is LocalStorage  # not `is LOCAL`: it may have been pickled

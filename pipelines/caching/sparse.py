"""Sparse copies of splits: local files with the names and sizes of the shards, and holes for what was not fetched.

    DIR/flowers-train-1a2b3c4d5e6f7a8b/     the manifest, the shards, and their indexes once they are needed
        shardfeed-fetched                  a log of runs of records: place, count; a negative count: removed. Each
                                           process begins with one that has only what is there
        shardfeed-created                  the files that this copy has created, see storage/own_files.py

Each record is fetched once for all readers. When space runs out, the records that the readers' orders will need latest
are removed first. A record that is damaged, for example by a power failure, is found by its CRC when it is read. Of a
shard that is missing, or has another size, nothing is believed to be there.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import FileIO

import numpy as np

from shardfeed.errors import StorageError
from shardfeed.manifest import written_manifest
from shardfeed.naming import MANIFEST, dataset_name
from shardfeed.pipelines.orders.order import BlockOrder, IndexedOrder, StoredOrder, in_share
from shardfeed.read_back import checked_text
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.shards import Shards
from shardfeed.readers.split import Split
from shardfeed.storage.objects import receive
from shardfeed.storage.own_files import OwnFiles, created_files, remove_created
from shardfeed.storage.storage import READ_BYTES, FileInfo, pieces
from shardfeed.text import size_text

AT_ONCE = 32  # concurrent requests: more did not help at 30 ms per request
# Of a request for a window whose first batch is waited for, which needs a part of the window; and of such a window,
# since one of less arrives in a third of a second at 200 MB/s, and small requests are more requests.
_SOON_BYTES, _LARGE_WINDOW = 1 << 20, 64 << 20
_PUNCH_HOLE = 3  # linux/falloc.h: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_LOG = "shardfeed-fetched"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_AHEAD_SAMPLES = 256  # minimum fetched ahead of a reader: one chunk or more
_DRAWN = 1 << 20  # positions drawn at once
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class FollowedOrder:
    """The order that a reader follows: the places of each chunk, numbered over all epochs.

    `start`, `step`: place of the view's first sample, and the distance between samples. `part` of `parts`: the share
    of each batch that this reader reads on this machine; blocks are fetched whole. `held`: for a part of a mixture, the
    number of its first sample in the mixture, and of the one after its last; None: the view is not part of a mixture.
    """

    order: IndexedOrder
    start: int
    step: int
    part: int = 0
    parts: int = 1
    held: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        """Whether chunks are fetched whole, regardless of the share: their samples are neighbours."""
        return isinstance(self.order, BlockOrder | StoredOrder)

    @property
    def ahead(self) -> int:
        """Number of chunks that are fetched before they are requested."""
        return 1 if isinstance(self.order, BlockOrder) else -(-_AHEAD_SAMPLES * self.parts // self.order.chunk)

    @lru_cache(16)  # noqa: B019 (a fetcher has few orders, and they are small)
    def places(self, chunk: int) -> np.ndarray:
        """The places of a chunk in the split, int64 [k]."""
        epoch, number = divmod(chunk, self.order.chunks_per_epoch)
        end = min((number + 1) * self.order.chunk, self.order.epoch_samples)
        positions = np.arange(number * self.order.chunk, end)
        if not self.whole:
            positions = positions[in_share(positions, self.order.batch_size, self.part, self.parts)]
        return self.drawn(epoch, positions)[0]

    def drawn(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the split, and positions in the epoch, both int64 [k], without other parts' samples."""
        indices = self.order.draw(epoch, positions).indices
        if self.held is not None:
            own = (indices >= self.held[0]) & (indices < self.held[1])
            indices, positions = indices[own] - self.held[0], positions[own]
        return self.start + self.step * indices, positions

    @lru_cache(4)  # noqa: B019
    def uses(self, epoch: int, records: int) -> np.ndarray:
        """The chunk of the epoch that needs each record of the split, int32 [records]; -1 if none does."""
        found = np.full(records, -1, np.int32)
        for start in range(0, self.order.epoch_samples, _DRAWN):
            positions = np.arange(start, min(start + _DRAWN, self.order.epoch_samples))
            places, positions = self.drawn(epoch, positions)
            found[places] = positions // self.order.chunk
        return found


@dataclass
class CopyReader:
    """A process that reads over some connections. `oldest`, `newest`: chunks of its order that it is reading now.

    Both are None while it reads nothing: a process whose workers read must not hold the first chunks.
    """

    name: str
    following: FollowedOrder | None
    oldest: int | None = None
    newest: int | None = None
    fetched: int = field(default=-1)  # the last chunk that was fetched ahead
    connections: int = 0
    at_once: int = 0  # bytes that it reads together, without a known order
    source: Hashable = None  # see `SparseCopy.sources`

    def needed(self) -> Iterator[np.ndarray]:
        """Places that must be kept: those of the chunks being read, and of the next ones."""
        if self.following is not None and self.oldest is not None and self.newest is not None:
            for chunk in range(self.oldest, self.newest + self.following.ahead + 1):
                yield self.following.places(chunk)


def next_uses(readers: Iterable[CopyReader], records: int) -> np.ndarray:
    """Number of samples until each record is next needed by any reader: int64 [records]."""
    soonest = np.full(records, _NEVER)
    slowest: dict[FollowedOrder, int] = {}
    for reader in readers:
        if reader.following is not None and reader.oldest is not None:
            slowest[reader.following] = min(reader.oldest, slowest.get(reader.following, reader.oldest))
    for following, now in slowest.items():
        per_epoch = following.order.chunks_per_epoch
        for epoch in (now // per_epoch + 1, now // per_epoch):
            uses = following.uses(epoch, records).astype(np.int64)
            distance = (epoch * per_epoch + uses - now) * following.order.chunk
            soonest = np.where((uses >= 0) & (distance > 0), np.minimum(soonest, distance), soonest)
    return soonest


def requests(shards: Shards, places: np.ndarray, *, soon: bool) -> list[tuple[int, int, int, int]]:
    """Requests for records at `places`, int64 [k], in the order of their use: (shard, row, records, bytes).

    Those that are needed first come first; of a large window, they are small if its first batch is needed `soon`.
    Indexes have been read.
    """
    ascending, used = np.unique(places, return_index=True)
    runs = [(*run, shards.view(run[0]).sizes[run[1] : run[1] + run[2]]) for run in shards.runs(ascending)]
    most = _SOON_BYTES if soon and sum(int(run[-1].sum()) for run in runs) > _LARGE_WINDOW else READ_BYTES
    found: list[tuple[int, tuple[int, int, int, int]]] = []
    for shard, row, count, start, sizes in runs:
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        for first, end in pieces(offsets, 0, count, most):
            request = shard, row + first, end - first, int(offsets[end] - offsets[first])
            found.append((int(used[start + first : start + end].min()), request))
    return [request for _, request in sorted(found)]


def copy_directory(parent: str, split: Split) -> str:
    """The directory of the sparse copy of a whole split."""
    name = dataset_name(split.shards.directory).replace("/", "_")
    return os.path.join(parent, f"{name}-{split.name}-{split.fingerprint[:16]}")


def leftovers_in(directory: str) -> dict[str, int]:
    """Sparse copies that earlier processes left in a directory, and the bytes that they take."""
    found: dict[str, int] = {}
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False) and (files := created_files(entry.path)):
            found[entry.path] = sum(state.st_blocks * 512 for state in files.values())
    return found


class CacheSpace:
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
                remove_created(path)
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
    `sources`: the shards as each account reads them at one place, by `CopyReader.source`; `split` is read otherwise.
    """

    def __init__(self, parent: str, dataset: Dataset, split: str, room: CacheSpace) -> None:
        self.split = dataset[split].whole_split
        self.directory = copy_directory(parent, self.split)
        self.present = np.zeros(len(self.split), bool)
        self.readers: dict[str, CopyReader] = {}
        self.bytes = 0
        self._room = room
        self._coming = np.zeros(len(self.split), bool)
        self._asked: dict[int, np.ndarray] = {}  # the last request of each thread
        self.sources: dict[Hashable, Shards] = {}
        self._failed: tuple[Exception, np.ndarray, Shards] | None = None  # the last error, its records and their source
        self._changed = threading.Condition()
        self._indexing = threading.Lock()
        self._ahead = ThreadPoolExecutor(2, "shardfeed-ahead")  # chunks at once: so the link is never idle
        self._waited = ThreadPoolExecutor(AT_ONCE, "shardfeed-waited")  # the same of chunks that readers wait for
        self._pool = ThreadPoolExecutor(AT_ONCE, "shardfeed-fetch")
        self._indexed: set[int] = set()  # shards whose indexes were compared
        self._files = OwnFiles(self.directory)
        with self._files.open(MANIFEST) as file:
            known = file.read() == dataset.manifest.to_bytes()
        if not known:
            self._files.write(MANIFEST, written_manifest(dataset.manifest))
        self._log = self._resume()
        with room.lock:
            room.leftovers.pop(self.directory, None)
            room.copies.append(self)

    def _resume(self) -> FileIO:
        """Take over the records that an earlier process fetched; return their log, rewritten and at its end."""
        log = self._files.open(_LOG)
        self.present = _logged(log.read(), len(self.present))
        info, begun = self.split.shards.info, np.zeros(len(self.split.shards.info.shards), bool)
        files = created_files(self.directory)
        for shard in range(len(begun)):
            file = files.get(info.shard_file(shard))
            begun[shard] = file is not None and file.st_size == info.shards[shard].data.size
        in_begun = np.repeat(begun, np.diff(self.split.shards.firsts))
        self.present &= in_begun
        # In place: of a process that is killed meanwhile, the end of the old log leads to the same records.
        self._files.write(_LOG, _log_of(self.present))
        log.seek(0, os.SEEK_END)
        if begun.any():
            self.read_indexes(set(np.flatnonzero(begun).tolist()))
            self.bytes = self._bytes(np.flatnonzero(self.present))
            # A killed process may have written records that are not in the log.
            self._free(np.flatnonzero(~self.present & in_begun))
        return log

    def read_indexes(self, shards: set[int], reader: CopyReader | None = None) -> None:
        """Create the files of these shards, with their indexes, unless they are there."""
        source, own = self._source(reader), self.split.shards
        with self._indexing:
            missing = []
            for shard in sorted(shards):
                name, size = own.info.index_file(shard), own.info.shards[shard].index.size
                with self._files.open(name) as file:
                    if shard in self._indexed and os.fstat(file.fileno()).st_size == size:
                        continue
                    if FileInfo.of(index := file.read()) == own.info.shards[shard].index:
                        own.take_index(shard, index, name)
                    else:
                        missing.append(shard)
            new = Shards(source.directory, source.info, storage=source.storage)  # it has read none of them yet
            for shard, index in new.read_indexes(missing).items():
                own.take_index(shard, index, new.path(shard))
                self._files.write(own.info.index_file(shard), index)
            self._indexed |= shards
            for shard in shards:
                self._create_shard(shard)

    def _create_shard(self, shard: int) -> None:
        """Create a shard's file, all holes, unless it is there with its size."""
        own = self.split.shards
        size, (low, high) = own.info.shards[shard].data.size, own.firsts[shard : shard + 2].tolist()
        with self._files.open(own.info.shard_file(shard)) as file:
            if os.fstat(file.fileno()).st_size != size:
                with self._room.lock, self._changed:
                    file.truncate(0)
                    file.truncate(size)
                    self._forget(low + np.flatnonzero(self.present[low:high]))

    def _source(self, reader: CopyReader | None) -> Shards:
        """Return the shards as a reader's program reads them."""
        return self.sources.get(reader and reader.source, self.split.shards)

    def fill(self, places: np.ndarray, reader: CopyReader | None = None, *, ahead: bool = True) -> None:
        """Wait until the records at `places`, int64 [k], are in the files; start fetching the reader's next chunks.

        Without `ahead` only these records are fetched. Raises StorageError, IntegrityError.
        """
        self._asked[threading.get_ident()] = places
        following = reader.following if reader and ahead else None
        if reader is not None and following is not None and reader.newest is not None:
            newest = reader.newest
            last = newest + following.ahead
            follows = newest <= reader.fetched <= last  # what it read before: this chunk was fetched ahead
            if following.whole:
                self._begin(following.places(newest), reader, soon=not follows)
                if not (self.present[places] | self._coming[places]).all():  # a batch at the end of a chunk
                    self._begin(following.places(newest + 1), reader, soon=False)
            if follows or not following.whole:  # else with the next batch, since a reader waits for this one
                for chunk in range((reader.fetched if follows else newest) + 1, last + 1):
                    self._ahead.submit(self._fill_ahead, reader, following.places(chunk), chunk)
            reader.fetched = last if follows or not following.whole else newest
        self._fill(places, reader)

    def begin(self, reader: CopyReader, chunk: int) -> None:
        """Start fetching a chunk that this reader, or its workers, will read next."""
        if reader.following is not None:
            self._begin(reader.following.places(chunk), reader, soon=True, ahead=True)

    def _begin(self, places: np.ndarray, reader: CopyReader, *, soon: bool, ahead: bool = False) -> None:
        """Start fetching all of a chunk of which a batch is waited for, or soon will be."""
        with self._changed:
            places = places[~(self.present[places] | self._coming[places])]
            self._coming[places] = True
        if len(places):
            self._waited.submit(self._fetch_claimed, places, reader, ahead=ahead, soon=soon)

    def again(self, places: np.ndarray, reader: CopyReader | None = None) -> None:
        """Fetch records again whose copies are damaged, or missing."""
        self._asked[threading.get_ident()] = places
        self.read_indexes(set((np.searchsorted(self.split.shards.firsts, places, "right") - 1).tolist()), reader)
        with self._room.lock, self._changed:
            self._forget(np.unique(places[self.present[places]]))
        self._fill(places, reader)

    def renew(self, source: Hashable) -> None:
        """Open the files again after a failed read: a reader has opened the dataset again."""
        with self._changed:
            if self._failed is not None and self._failed[2] is self.sources[source]:
                self._failed = None
                self.sources[source].reopen()

    def leave(self) -> None:
        """Release the records that this thread requested last: they have been read, or their reader is gone."""
        self._asked.pop(threading.get_ident(), None)
        if self._room.hard:
            self._room.shrink()

    def _fill_ahead(self, reader: CopyReader, places: np.ndarray, chunk: int) -> None:
        if reader.newest is not None and chunk <= reader.newest:
            return  # it was faster, and the records it has read may be removed already, as they are needed last
        with suppress(Exception):  # readers of these records will get the error
            self._fill(places, reader, ahead=True)

    def _fill(self, places: np.ndarray, reader: CopyReader | None, *, ahead: bool = False) -> None:
        source = self._source(reader)
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
                        error, of, failing = self._failed
                        # Another attempt would take as long again for each reader.
                        if failing is source and np.isin(missing, of).any():
                            raise error
                    continue
                self._coming[mine] = True
                if not ahead:  # what this thread waits for must not make room for what it fetches next
                    asked = threading.get_ident()
                    self._asked[asked] = np.union1d(self._asked.get(asked, mine), places)
            if not self._fetch_claimed(mine, reader, ahead=ahead):
                return

    def _fetch_claimed(
        self, mine: np.ndarray, reader: CopyReader | None, *, ahead: bool = False, soon: bool = False
    ) -> bool:
        """`_fetch` what is `_coming`; others wait for it, and get its error."""
        try:
            return self._fetch(mine, reader, ahead=ahead, soon=soon)
        except Exception as error:
            with self._changed:
                self._failed = error, mine, self._source(reader)
            raise
        finally:
            with self._changed:
                self._coming[mine] = False
                self._changed.notify_all()

    def _fetch(self, places: np.ndarray, reader: CopyReader | None, *, ahead: bool, soon: bool) -> bool:
        """Fetch missing records, in the order of their use; return whether there was room for them."""
        shards, own = self._source(reader), self.split.shards
        touched = np.unique(np.searchsorted(own.firsts, places, "right") - 1).tolist()
        with shards.current(touched):
            self.read_indexes(set(touched), reader)
            if not self._room.make(self, self._bytes(np.unique(places)), ahead=ahead):
                return False
            failed = threading.Event()
            done = [
                self._pool.submit(self._fetch_unless, failed, shards, shard, row, count)
                for shard, row, count, _ in requests(own, places, soon=soon)
            ]
            errors = [error for one in done if (error := one.exception()) is not None]
            if errors:
                with self._room.lock:
                    self.bytes -= self._bytes(np.unique(places[~self.present[places]]))
                raise errors[0]
        shards.check_read(touched)
        return True

    def _fetch_unless(self, failed: threading.Event, shards: Shards, shard: int, row: int, count: int) -> None:
        """Fetch a piece, unless an earlier one failed: without a network, each would take until the timeout."""
        if failed.is_set():
            return
        try:
            self._fetch_piece(shards, shard, row, count)
        except BaseException:
            failed.set()
            raise

    def _fetch_piece(self, shards: Shards, shard: int, row: int, count: int) -> None:
        remote, own = shards.file(shard), self.split.shards
        shard_path, name = shards.path(shard), own.info.shard_file(shard)
        for part in own.view(shard).parts(remote, row, count):
            if part.file.path != shard_path:  # an index, which the copy has completely
                continue
            with self._files.open(name) as file:
                receive(part, lambda data, at, file=file, name=name: self._files.put(file, data, at, name))
        place = int(own.firsts[shard]) + row
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
        """Free the space of records, ascending. The caller holds the lock."""
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
            with self._files.open(shards.info.shard_file(shard)) as file:
                free_range(file.fileno(), first, end)

    def _span(self, shard: int, row: int, count: int) -> tuple[int, int]:
        """The first byte of a run of records in their shard, and the one after the last."""
        parts = self.split.shards.view(shard).parts(self.split.shards.file(shard), row, count)
        spans = [
            (part.start, part.start + part.size) for part in parts if part.file.path == self.split.shards.path(shard)
        ]
        return spans[0][0], spans[-1][1]

    def _note(self, place: int, count: int) -> None:
        self._log.write(_entry(place, count))

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


_ENTRY_BYTES = 16  # of the log: the first record, and how many were fetched from there on; removed if below 0


def _entry(place: int, count: int) -> bytes:
    """An entry of the log. Raises OverflowError for numbers beyond 64 bits."""
    return np.array([place, count], np.int64).tobytes()


def _logged(log: bytes, records: int) -> np.ndarray:
    """Which of a split's records are present, bool [records], according to a log; the end of a torn one is left out.

    An entry of records that the split does not have is left out, too: a log may be damaged.
    """
    present = np.zeros(records, bool)
    whole = log[: len(log) // _ENTRY_BYTES * _ENTRY_BYTES]
    for place, count in np.frombuffer(whole, np.int64).reshape(-1, 2).tolist():
        if 0 <= place < place + abs(count) <= records:
            present[place : place + abs(count)] = count > 0
    return present


def _log_of(present: np.ndarray) -> bytes:
    """The shortest log of these records, bool [records], which `_logged` has read back."""

    def write() -> bytes:
        starts, ends = np.flatnonzero(np.diff(present, prepend=False, append=False)).reshape(-1, 2).T
        return np.stack([starts, ends - starts], axis=1).astype(np.int64).tobytes()

    def read(log: bytes) -> bytes:
        return _logged(log, len(present)).tobytes()

    return checked_text("cache log", write, read, present.tobytes())


def free_range(fd: int, start: int, end: int) -> None:
    """Free bytes `start` to `end` of a file; they then read as zeros.

    Raises OSError: EOPNOTSUPP if the file system cannot do that (NFS).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if end > start and libc.fallocate(fd, _PUNCH_HOLE, ctypes.c_longlong(start), ctypes.c_longlong(end - start)) != 0:
        raise OSError(ctypes.get_errno() or errno.EIO, "cannot free a part of a file")

"""A copy of a split on a faster disk or in memory, unchanged or decoded to pixels: `cached(split, "/nvme/x")`.

The samples, their order and their places stay the same, so that a training order does not depend on a cache. A copy
is made once, by the first process, and used by all later processes and runs. The name of its directory identifies the
data, down to the checksums of the shards: a copy of other data is never used by mistake.

    /nvme/x/flowers-train-decoded-1a2b3c4d/            a dataset directory, see pipelines/caching/copies.py
            .flowers-train-decoded-1a2b3c4d.building/  while it is being made; published by one rename
            .flowers-train-decoded-1a2b3c4d.lock       who makes it (an flock: released when its owner ends)
"""

import hashlib
import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from shardfeed.declared import Positive, checked
from shardfeed.errors import BusyError, IntegrityError, StorageError, UsageError, escape, needing_extra, shown
from shardfeed.free_space import room_in
from shardfeed.naming import INDEX_DIRECTORY, dataset_name, is_dataset_file
from shardfeed.pipelines.caching.client import FetcherClient, attach
from shardfeed.pipelines.caching.copies import CopyPlan, open_copy, record_sizes, write_copy
from shardfeed.pipelines.samples import Mixture, Samples
from shardfeed.processes import progress_bar
from shardfeed.readers.shards import Copy
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, WIDTH
from shardfeed.storage.local import built, discard, hidden_sibling, locked, make_directory
from shardfeed.storage.objects import ObjectStorage
from shardfeed.storage.storage import LOCAL, LocalStorage, sizes_by_name
from shardfeed.text import byte_size, size_text, some
from shardfeed.user_warnings import warn_user

CACHE_VERSION = 1  # part of a cache's name: increased by a release that writes other bytes

_LOOK_SECONDS = 0.2  # between checks whether another process is done
_SAY_SECONDS = 3.0  # of waiting before a message


@checked
@dataclass(frozen=True)
class Cache:
    """Directory, form and size limit of the copy that `cached` creates.

    Args:
        directory: on a fast disk, or in memory (/dev/shm); created if it does not exist.
        decoded: images are stored as pixels, `height * width * 3` bytes each, so that nothing has to be decoded;
            otherwise shards are copied unchanged.
        limit: maximum size of all copies in the directory together, in bytes or as text such as "500GB". With a limit
            nothing is copied in advance: records are fetched shortly before they are read, once per machine, and kept
            for the next epoch as long as there is room; then the records whose next use is furthest away are evicted.
            None: everything is copied before the first batch.

    Raises UsageError if `directory` is not a path, if `decoded` is not a bool, if `limit` is not a size, and for
    `decoded` with a limit.

    Example:
        train = cached(data["train"], Cache("/dev/shm/flowers", decoded=True))
        train = cached(data["train"], Cache("/nvme/cache", limit="500GB"))
        batches = train_batches(train, batch_size=256, image_size=224)
    """

    directory: str | os.PathLike[str]
    decoded: bool = False
    limit: Positive | str | None = None

    def __post_init__(self) -> None:
        if self.limit is None:
            return
        try:
            size = byte_size(self.limit) if isinstance(self.limit, str) else self.limit
        except (ValueError, OverflowError):
            size = 0
        if not 1 <= size < 2**63:
            raise UsageError("limit", f"got {shown(self.limit)}, expected a number of bytes, or text like '500GB'")
        if self.decoded:
            raise UsageError("limit", "got a limit and decoded=True", "give one of them")
        object.__setattr__(self, "limit", size)


CacheLike = Cache | str | os.PathLike[str]


@overload
def cached(samples: Split, cache: CacheLike) -> Split: ...
@overload
def cached(samples: Mixture, cache: CacheLike) -> Mixture: ...
@overload
def cached(samples: Samples, cache: CacheLike) -> Samples: ...
@checked
def cached(samples: Any, cache: CacheLike) -> Any:
    """Return the same samples, read from a copy in the cache's directory.

    With a limit, the copy is filled as records are read. Otherwise it is created now unless it exists: all shards that
    hold samples of the split or view are copied whole, so take views of a cached split, rather than caching each view.
    Length, order, places, fingerprint, columns and labels are the same as in the split; `formats` and `image/format`
    are "raw" if images are stored decoded.

    An existing copy is used if its manifest and the sizes of its files are right; otherwise it is created again, with a
    warning. If another process is creating it, this process waits. CRCs are checked when a copy is created and read.

    Args:
        samples: a split, a part of one, or a `mix`, each part of which is cached.
        cache: a directory on a faster disk or in memory (/dev/shm), which is created if it does not exist; or a
            `Cache`, which can also store images decoded.

    Raises:
        StorageError: if there is not enough free space (before anything is written) or no permission.
        RecordError: for a damaged record, and for an image that cannot be decoded.
        IntegrityError: for a damaged shard.
        UsageError: for `decoded` if records have no images, or if `samples` is neither a split nor a mixture.

    Example:
        train = cached(data["train"], "/nvme/cache")
        train = cached(data["train"], Cache("/dev/shm/cache", decoded=True))
        batches = train_batches(train, batch_size=256, image_size=224)
    """
    if not isinstance(cache, Cache):
        cache = Cache(cache)
    if isinstance(samples, Mixture):
        return replace(samples, parts=tuple(cached(part, cache) for part in samples.parts))
    if not isinstance(samples, Split):
        raise UsageError("samples", f"got {type(samples).__name__} to cache, expected a Split or a Mixture")
    if len(samples) == 0:
        return samples
    if cache.limit is not None:
        return _filled_as_read(samples, cache)
    plan = _plan(samples, cache)
    # The absolute path: the split may be sent to a process with another working directory.
    name = "-".join([plan.name, plan.split.name, *(["decoded"] if plan.decoded else []), plan.key[:8]])
    directory = os.path.join(os.path.abspath(os.fspath(cache.directory)), name)
    return samples.reading(_open_intact(directory, plan) or _make_or_wait(directory, plan))


def _filled_as_read(split: Split, cache: Cache) -> Split:
    """Return the split, read from a copy that a process fills before records are read."""
    shards = split.shards
    if shards.copy is not None or not isinstance(shards.storage, ObjectStorage | LocalStorage):
        raise UsageError("limit", "got a limit for a copy, or for your own storage", "cache the split of `open`")
    assert isinstance(cache.limit, int)
    directory = os.path.abspath(os.fspath(cache.directory))
    try:
        _make_directories(directory)
    except StorageError as error:
        raise _cannot_write(directory, error) from error
    fingerprint = split.whole_split.fingerprint
    return attach(split, FetcherClient(directory, cache.limit, shards.directory, split.name, fingerprint))


def _plan(split: Split, cache: Cache) -> CopyPlan:
    source = split.shards.copy
    decoded = cache.decoded or (source is not None and source.decoded)
    options, made_by = {"decoded": str(decoded), "cache_version": str(CACHE_VERSION)}, {}
    if decoded:
        missing = {ENCODED, FORMAT, HEIGHT, WIDTH} - split.schema.features.keys()
        if missing:
            problem = f"the records have no {', '.join(sorted(missing))}"
            raise UsageError("cache", f"got decoded=True, but {problem}", "use decoded=False")
        if PNG16 in split.formats:
            raise UsageError("cache", "got decoded=True, which makes 8 bits of 16", "use decoded=False")
        with needing_extra("cache"):
            import tensorflow as tf

        made_by = {"tensorflow": tf.__version__}
    numbers = tuple(split.shard_numbers())
    what = json.dumps([split.whole_split.fingerprint, numbers, options, made_by], sort_keys=True)
    key = hashlib.blake2b(what.encode(), digest_size=16).hexdigest()
    name = dataset_name(split.shards.directory).replace("/", "_")
    return CopyPlan(name, split.whole_split, numbers, key, decoded, options, made_by)


def _open_intact(directory: str, plan: CopyPlan) -> Copy | None:
    """Open an existing copy; None if there is none, or if it is damaged."""
    try:
        return open_copy(directory, plan)
    except IntegrityError:
        return None


def _make_or_wait(directory: str, plan: CopyPlan) -> Copy:
    """Return the copy, made by this process or by another one that is already making it."""
    waited, announced = time.monotonic(), False
    with ExitStack() as lock:
        while True:
            try:
                _make_directories(os.path.dirname(directory))
                lock.enter_context(locked(directory))
                break
            except BusyError as error:
                if not announced and time.monotonic() - waited > _SAY_SECONDS:
                    announced = True
                    print(f"shardfeed: waiting for the cache {escape(directory)}: {error.problem}", file=sys.stderr)
                time.sleep(_LOOK_SECONDS)
                if (copy := _open_intact(directory, plan)) is not None:
                    return copy
            except StorageError as error:
                raise _cannot_write(os.path.dirname(directory), error) from error
        return _open_intact(directory, plan) or _build(directory, plan)  # another process may have been faster


def _build(directory: str, plan: CopyPlan) -> Copy:
    """Make the copy; the caller holds the lock."""
    parent, name = os.path.split(directory)
    try:
        open_copy(directory, plan)
    except IntegrityError as error:
        found = sizes_by_name(LOCAL, directory, [INDEX_DIRECTORY])
        if others := sorted(name for name in found if not is_dataset_file(name)):
            problem = f"the cache is damaged: {error.problem}; and {some(others)} in it are not its own"
            raise StorageError(directory, problem, "move them elsewhere, and run the same command again") from None
        problem = f"the cache {escape(directory)} is damaged: {error.problem}; it is made again"
        warn_user(problem, RuntimeWarning)
        # Moved away by one rename, since half of it might look valid; and removed before free space is measured.
        discard(directory, hidden_sibling(directory, "building"))
    sizes = record_sizes(plan)
    records = int(np.count_nonzero(sizes))  # 0 in shards that are not copied
    bar = progress_bar(total=records, desc=f"cache {name}", unit=" records", delay=1)
    with built(directory) as building, bar:
        room_in(parent).check(int(sizes.sum()), _remedies(plan, records))
        write_copy(building, plan, sizes, bar.update)
    copy = open_copy(directory, plan)
    assert copy is not None
    return copy


def _make_directories(path: str) -> None:
    """Create a directory and its missing parents."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        make_directory(directory)


def _cannot_write(parent: str, error: StorageError) -> StorageError:
    """The error that no cache can be made there, instead of the error of creating a directory."""
    problem = f"the cache does not exist, and cannot be made: {error.problem}"
    return StorageError(parent, problem, "give another directory", error.errno)


def _remedies(plan: CopyPlan, records: int) -> str:
    remedies = ["another directory", "fewer samples"]
    if plan.decoded:
        shards = plan.split.shards
        as_they_are = sum(shards.info.shards[number].data.size for number in plan.numbers)
        small = records * 256 * 341 * 3  # 4:3, as most photos
        remedies += [
            f"decoded=False ({size_text(as_they_are)})",
            f"smaller images (`shardfeed convert --resize-shorter 256`: about {size_text(small)})",
        ]
    return ", ".join(remedies)

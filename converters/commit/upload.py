"""Output of a conversion in a bucket, to which the dataset is uploaded at the end."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace as replaced
from itertools import count

from shardfeed.converters.commit.push import Pushed, push, refused_replacing
from shardfeed.converters.commit.staging import Finished, LocalOutput, Staging
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.planning.samples import PlannedShard
from shardfeed.converters.report import Report
from shardfeed.converters.shards.receipts import EarlierShards, load_receipt, receipt_path, receipts_below
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.converters.sources.guard import report_progress
from shardfeed.errors import OutputExistsError, StorageError
from shardfeed.naming import MANIFEST
from shardfeed.storage.address import destination
from shardfeed.storage.local import hidden_sibling, make_directory, remove_tree, write_file

_AT_ONCE = 16  # receipts


class Upload(LocalOutput):
    """Output at `url` in a bucket. `local`: the directory to upload, the same for each call with this URL.

    Raises the errors of `destination`, and OutputExistsError.
    """

    def __init__(self, url: str) -> None:
        bucket = destination(url)
        self.url = url.rstrip("/")
        self._folder = os.path.join(_own_folder(), hashlib.blake2b(self.url.encode(), digest_size=8).hexdigest())
        super().__init__(os.path.join(self._folder, self.url.rpartition("/")[2]))
        self._pushed: Pushed | None = None
        # If an earlier run was stopped between the upload and its end, its staging directory still exists.
        if not os.path.exists(hidden_sibling(self.local, "staging")) and bucket.info(f"{self.url}/{MANIFEST}"):
            remove_tree(self.local)
            raise OutputExistsError(self.url, "exists already", "choose another URL")

    def may_replace(self, asked: bool) -> bool:
        """True for the local dataset. Raises UsageError if the user `asked` to replace the dataset in the bucket."""
        if asked:
            raise refused_replacing(self.url)
        return True

    def send(self) -> None:
        """Upload the finished local dataset, and remove receipts in the bucket. Raises as `push`."""
        done = count(1)
        self._pushed = push(self.local, self.url, progress=lambda size: report_progress("uploading", next(done)))
        bucket, folder = destination(self.url), receipts_below(self.url)
        with ThreadPoolExecutor(_AT_ONCE, "shardfeed-receipts") as pool:
            list(pool.map(lambda name: bucket.delete(f"{folder}/{name}"), bucket.below(folder)))

    @contextmanager
    def folder(self) -> Iterator[None]:
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(self._folder), 0o700)
        _own_folder()  # perhaps another user was first
        make_directory(self._folder)
        try:
            yield
        finally:
            for folder in (self._folder, os.path.dirname(self._folder)):
                with suppress(OSError):  # unfinished, or another conversion uses it
                    os.rmdir(folder)

    def reported(self, report: Report) -> Report:
        """Remove the local dataset after its upload, and return the report of the dataset in the bucket."""
        notes = list(report.notes)
        if self._pushed is not None:
            remove_tree(self.local)
            if self._pushed.read_back:
                notes.append(read_back_note(self._pushed.read_back))
        return replaced(report, out=self.url, notes=notes)


class UploadByNodes(Upload):
    """Output in a bucket, to which the nodes of a cluster upload the shards with their receipts, as in `on_node`.

    This process only creates the other files.
    """

    def check_space(self, plan: Plan, staging: Staging) -> None:
        """Do nothing, because the shards are not on this disk."""

    def shards_go_to(self, staging: Staging) -> str:
        return self.url

    def finished(self, plan: Plan, staging: Staging, *, anew: bool) -> Finished:
        """The shards with a receipt of this plan in the bucket. `anew`: remove shards that have to be tried again."""
        bucket = destination(self.url)
        there = bucket.below(self.url)
        found = Finished({}, EarlierShards(staging.earlier))
        names = (shard_paths(staging.dataset, *_place(shard), plan.options.to) for shard in plan.shards)
        for folder in {os.path.dirname(name) for pair in names for name in pair}:
            make_directory(folder)  # of columns and sidecars
        wanted = [(shard, plan.shard_digest(shard)) for shard in plan.shards]

        def look(shard: PlannedShard, digest: str) -> Receipt | None:
            place = _place(shard)
            url, files = receipt_path(receipts_below(self.url), *place), shard_paths("", *place, plan.options.to)
            if url.removeprefix(f"{self.url}/") not in there or (content := bucket.read(url)) is None:
                return None
            path = receipt_path(staging.receipts, *place)
            write_file(path, content)
            receipt = load_receipt(path)
            if receipt is None or receipt.digest != digest:
                return None
            if anew and receipt.retry_may_help:
                for name in (url, *(f"{self.url}/{file}" for file in files)):
                    bucket.delete(name)
                return None
            sizes = receipt.info.data.size, receipt.info.index.size
            return receipt if sizes == tuple(there.get(file, -1) for file in files) else None

        with ThreadPoolExecutor(_AT_ONCE, "shardfeed-receipts") as pool:
            for receipt in pool.map(lambda one: look(*one), wanted):
                if receipt is not None:
                    found.receipts[receipt.split, receipt.number] = receipt
        return found

    def check_shards(self, receipts: Sequence[Receipt], plan: Plan, staging: Staging, *, every_byte: bool) -> None:
        """Do nothing, because `push` compares the size and CRC-32C of every file in the bucket."""


def _place(shard: PlannedShard) -> tuple[str, int, int]:
    return shard.split, shard.number, shard.count


def read_back_note(files: int) -> str:
    """Describe the check of files by a store without checksums."""
    return f"the store reports no CRC-32C: {files:,} files were read back and compared"


def _own_folder() -> str:
    """A folder below TMPDIR that only this user can write to; it may not exist yet."""
    path = os.path.join(tempfile.gettempdir(), f"shardfeed-{os.getuid()}")
    with suppress(FileNotFoundError):
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            raise StorageError(path, "belongs to another user", "set TMPDIR to a directory of your own")
    return path

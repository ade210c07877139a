"""Writing of a shard on any node of a cluster, to an output that other nodes write to at the same time.

Any number of attempts at a task may run at the same time, and any of them may be killed. Each attempt first writes the
shard to a folder of its own. In a bucket, each file is then created under its final name; if another attempt was
first, checksums are compared. In a directory, the files are moved. The receipt is written last: a shard without a
receipt does not count.
"""

import multiprocessing
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from shardfeed.converters.engines.engine import AUTO, Engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.engines.node_probe import check_versions
from shardfeed.converters.planning.samples import made_by
from shardfeed.converters.shards.receipts import (
    load_receipt,
    read_receipt,
    receipt_path,
    receipts_below,
    save_receipt,
    still_whole,
)
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.shards.write_shard import write_shard as write_files
from shardfeed.errors import OutputExistsError, StorageError, escape
from shardfeed.storage.address import destination
from shardfeed.storage.bucket_destination import Destination
from shardfeed.storage.local import make_directory, move_file, remove_tree
from shardfeed.storage.storage import FileInfo, is_address
from shardfeed.storage.temporary import TemporaryFolder


def write_shard(task: ShardTask) -> Receipt:
    """Write the shard of a task, on any node of a cluster, and leave its receipt in the output for `commit_shards`.

    The node needs the same version of this package, the images under the same paths or URLs as in the process that
    created the tasks, space for the shard in the folder for temporary files (TMPDIR), and access to the output:
    credentials for the bucket, or the same directory. A task may be killed and repeated, even on two nodes at the same
    time: existing files with the same bytes are accepted, and a shard that has a receipt is not written again. If an
    image crashes the decoder, only a child process dies; but a daemon of `multiprocessing` cannot have child processes,
    so it dies itself.

    Args:
        task: a task of `shard_tasks`. It is pickled to reach the node.

    Returns: the receipt, with `records`, sizes and checksums in `info`, images left out in `rejected`, and the values
        of all scalar features in `columns`. It can be pickled; `commit_shards` does not need it.

    Raises:
        OutputExistsError: the bucket has a file of a different dataset under the shard's name.
        UsageError: the versions of packages differ from those of the process that called `shard_tasks`; and as in
            `convert`.
        StorageError, WorkerLostError: run the task again.

    Example:
        for task in shard_tasks("photos", "out"):
            receipt = write_shard(task)
            print(receipt.info.records, receipt.rejected)
    """
    check_versions(escape(platform.node()), made_by(task.image, task.format), task.made_by)
    if multiprocessing.current_process().daemon:
        return write_in_place(task, None)
    with LocalEngine(1, AUTO) as engine:
        return write_in_place(task, engine)


def write_in_place(task: ShardTask, engine: Engine | None) -> Receipt:
    """Write a shard with `engine`, or in this process, and put its files and its receipt into the task's output."""
    bucket = destination(task.directory) if is_address(task.directory) else None
    if (earlier := _stored(task, bucket)) is not None:
        return earlier
    with _scratch(task) as scratch:
        here = replace(task, directory=scratch, receipts="")
        if engine is None:
            receipt = write_files(here)
        else:
            engine.start(1)
            (receipt,) = engine.run(iter([here]))
        if bucket is not None:
            return _send(task, here, receipt, bucket)
        for path, final in zip(here.paths, task.paths, strict=True):
            move_file(path, final)
        save_receipt(receipt_path(task.receipts, task.split, task.number, task.count), receipt)
        return receipt


def _send(task: ShardTask, here: ShardTask, receipt: Receipt, bucket: Destination) -> Receipt:
    """Upload the files of a shard to its bucket, the receipt last. Returns the receipt in the bucket."""
    for path, url, info in zip(here.paths, task.paths, (receipt.info.data, receipt.info.index), strict=True):
        bucket.put_new(url, path, info)
    path = os.path.join(here.directory, "receipt")
    save_receipt(path, receipt)
    try:
        bucket.put_new(_receipt_url(task), path, FileInfo.of_file(path))
    except OutputExistsError:  # another attempt described a rejected image in different words
        found = _stored(task, bucket)
        if found is None or found.info != receipt.info:
            raise
        return found
    return receipt


def _receipt_url(task: ShardTask) -> str:
    return receipt_path(receipts_below(task.directory), task.split, task.number, task.count)


def _stored(task: ShardTask, bucket: Destination | None) -> Receipt | None:
    """The receipt of a shard that another attempt has finished; None if there is none."""
    if bucket is not None:
        content = bucket.read(_receipt_url(task))
        found = None if content is None else read_receipt(content)
        return found if found is not None and found.digest == task.digest else None
    found = load_receipt(receipt_path(task.receipts, task.split, task.number, task.count))
    if found is None or found.digest != task.digest or found.retry_may_help or not still_whole(found, *task.paths):
        return None
    return replace(found, columns=dict(found.columns))


@contextmanager
def _scratch(task: ShardTask) -> Iterator[str]:
    """An empty folder for one attempt: on this node for a bucket, else on the file system of the output."""
    if is_address(task.directory):
        with TemporaryFolder("shard") as folder:
            yield folder
        return
    tries = os.path.join(os.path.dirname(task.receipts), "tries")
    folder = os.path.join(tries, f"{task.stem}-{secrets.token_hex(4)}")
    make_directory(tries)
    make_directory(folder)
    try:
        yield folder
    finally:
        with suppress(StorageError):  # meanwhile the output was committed or started again
            remove_tree(folder)

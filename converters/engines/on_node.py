"""Writing of a shard on any node of a cluster, to a place that others write to at the same time.

Any number of tries of a task may run at once, and any may be killed. A shard is written to a folder of its try first.
In a bucket each file is then created under its final name, and the loser of two tries compares checksums; in a
directory it is moved there. The receipt follows last: a shard without one does not exist.
"""

import multiprocessing
import os
import platform
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from shardfeed.converters.engines.engine import AUTO, Engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.engines.node_probe import check_versions
from shardfeed.converters.planning.inputs import made_by
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
from shardfeed.storage.address import is_address
from shardfeed.storage.destination import destination
from shardfeed.storage.local import make_directory, move_file, remove_tree
from shardfeed.storage.storage import FileInfo


def write_shard(task: ShardTask) -> Receipt:
    """Write the shard of a task, on any node of a cluster, and leave its receipt in the output for `commit_shards`.

    The node needs this package in the same version, the images under the paths or URLs that they had where the tasks
    were made, room for the shard in the folder for temporary files (TMPDIR), and the output: credentials for a bucket,
    or the same directory. A task may be tried any number of times, also at once on two nodes, and killed: equal files
    that are there already count, and a shard with a receipt is not written again. An image that crashes its decoder
    costs a child process, not this one, unless this one is a daemon of `multiprocessing`, which may have no children.

    Args:
        task: a task of `shard_tasks`. It is pickled to reach the node.

    Returns: the receipt: `records`, sizes and checksums in `info`, images left out in `rejected`, and the values of all
        scalar features in `columns`. It can be pickled; `commit_shards` does not need it.

    Raises:
        OutputExistsError: the bucket has a file of another dataset under the shard's name.
        UsageError: the node has other versions than the process of `shard_tasks`; and as in `convert`.
        StorageError, WorkerLostError: try the task again.

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
    """Write a shard with `engine`, or in this process, and put its files and its receipt where the task says."""
    if (earlier := _stored(task)) is not None:
        return earlier
    with _scratch(task) as scratch:
        here = replace(task, directory=scratch, receipts="")
        if engine is None:
            receipt = write_files(here)
        else:
            engine.start(1)
            (receipt,) = engine.run(iter([here]))
        if is_address(task.directory):
            return _send(task, here, receipt)
        for path, final in zip(here.paths, task.paths, strict=True):
            move_file(path, final)
        save_receipt(receipt_path(task.receipts, task.split, task.number, task.count), receipt)
        return receipt


def _send(task: ShardTask, here: ShardTask, receipt: Receipt) -> Receipt:
    """Send the files of a shard to its bucket, the receipt last. Returns the receipt that is there then."""
    bucket = destination(task.directory)
    for path, url, info in zip(here.paths, task.paths, (receipt.info.data, receipt.info.index), strict=True):
        bucket.put_new(url, path, info)
    path = os.path.join(here.directory, "receipt")
    save_receipt(path, receipt)
    try:
        bucket.put_new(_receipt_url(task), path, FileInfo.of_file(path))
    except OutputExistsError:  # of another try, which described a rejected image in other words
        found = _stored(task)
        if found is None or found.info != receipt.info:
            raise
        return found
    return receipt


def _receipt_url(task: ShardTask) -> str:
    return receipt_path(receipts_below(task.directory), task.split, task.number, task.count)


def _stored(task: ShardTask) -> Receipt | None:
    """The receipt of a shard that another try has finished."""
    if is_address(task.directory):
        content = destination(task.directory).read(_receipt_url(task))
        found = None if content is None else read_receipt(content)
        return found if found is not None and found.digest == task.digest else None
    found = load_receipt(receipt_path(task.receipts, task.split, task.number, task.count))
    if found is None or found.digest != task.digest or found.retry_may_help or not still_whole(found, *task.paths):
        return None
    return replace(found, columns=dict(found.columns))


@contextmanager
def _scratch(task: ShardTask) -> Iterator[str]:
    """An empty folder for one try: on this node for a bucket, else on the file system of the output."""
    if is_address(task.directory):
        with tempfile.TemporaryDirectory(prefix="shardfeed-shard-") as folder:
            yield folder
        return
    tries = os.path.join(os.path.dirname(task.receipts), "tries")
    folder = os.path.join(tries, f"{task.stem}-{secrets.token_hex(4)}")
    make_directory(tries)
    make_directory(folder)
    try:
        yield folder
    finally:
        with suppress(StorageError):  # the output was committed, or begun anew, meanwhile
            remove_tree(folder)

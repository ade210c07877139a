"""Upload of a committed dataset to a bucket: its files first, and its manifest last, which makes it a dataset there."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Typed, checked
from shardfeed.errors import OutputExistsError
from shardfeed.manifest import parse_manifest, read_manifest
from shardfeed.naming import MANIFEST, is_dataset_file
from shardfeed.storage.address import destination
from shardfeed.storage.local import disk_errors
from shardfeed.storage.storage import LOCAL, FileInfo, local_path, whole
from shardfeed.storage.transfer import Share, transfer


@dataclass(frozen=True)
class Pushed:
    """The outcome of `push`.

    `files`, `size`: number of files of the dataset, and their bytes. `sent`: number of files sent by this call; the
    bucket had the others. `read_back`: number of files that were read from the bucket to compare them, because the
    store did not report their CRC-32C.

    Example:
        pushed = push("flowers", "s3://bucket/flowers")
        print(pushed.sent, pushed.files)
    """

    files: int
    size: int
    sent: int
    read_back: int


@checked
def push(
    directory: Annotated[str | os.PathLike[str], Typed("dataset directory", "dataset")],
    url: Annotated[str, Typed("URL of the new dataset: s3://BUCKET/NAME or gs://BUCKET/NAME")],
    *,
    progress: Callable[[int], object] | None = None,
) -> Pushed:
    """Copy a dataset to a bucket, or continue where an earlier call stopped.

    If the bucket already holds the same dataset, nothing is sent. The store compares each file with its CRC-32C in the
    manifest. Existing files are never overwritten. The manifest is sent last, so that no incomplete dataset can be
    opened, and unfinished uploads below `url` are aborted.

    Args:
        directory: a dataset on the local disk.
        url: the dataset's URL in the bucket, such as "s3://bucket/flowers". Credentials come from the environment.
        progress: called after each upload with the size of the file in bytes.

    Raises UsageError; OutputExistsError if the bucket has another dataset, or other files of a dataset, at `url`;
    IntegrityError if a file differs from the manifest; StorageError. After a StorageError, call again to continue.

    Example:
        push("flowers", "s3://bucket/flowers")
        data = shardfeed.open("s3://bucket/flowers")
    """
    directory, bucket, url = local_path(directory), destination(url), url.rstrip("/")
    read_manifest(directory)  # for its errors
    path = os.path.join(directory, MANIFEST)
    with disk_errors(path, "read"):
        content = whole(LOCAL.open(path))
    files = parse_manifest(content, path).files()
    there = bucket.below(url)
    if MANIFEST in there and bucket.info(f"{url}/{MANIFEST}") != FileInfo.of(content):
        raise OutputExistsError(url, "another dataset is there", "choose another URL")
    for name in sorted(there.keys() - files.keys() - {MANIFEST}):
        if is_dataset_file(name):  # it would damage this one
            problem = "is a file of a dataset, but not of this one: an earlier upload did not end"
            raise OutputExistsError(f"{url}/{name}", problem, "remove it if nothing needs it, or choose another URL")

    def send(name: str, info: FileInfo, share: Share) -> bool:
        if name in there and bucket.info(f"{url}/{name}") == info:
            return False
        return bucket.put_new(f"{url}/{name}", os.path.join(directory, name), info, share)

    sent = transfer(send, {} if MANIFEST in there else files, progress)
    sent += bucket.put_new(f"{url}/{MANIFEST}", content, FileInfo.of(content))
    bucket.abort_unfinished(url)
    size = sum(info.size for info in files.values()) + len(content)
    return Pushed(len(files) + 1, size, sent, bucket.read_back)

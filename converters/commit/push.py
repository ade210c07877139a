"""Upload of a committed dataset: to a bucket file by file, the manifest last, which makes it a dataset; to the Hub."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Text, Typed, checked
from shardfeed.errors import OutputExistsError, UsageError, argument
from shardfeed.manifest import parse_manifest, read_manifest
from shardfeed.naming import BESIDE, MANIFEST, is_dataset_file
from shardfeed.storage.address import destination
from shardfeed.storage.local import disk_errors
from shardfeed.storage.storage import FileInfo, local_path, open_side_file
from shardfeed.storage.transfer import Share, transfer


@dataclass(frozen=True)
class Pushed:
    """The outcome of `push`.

    `files`, `size`: number of files of the dataset and its card, and their bytes. `sent`: number of files sent by this
    call; the others were there. `read_back`: number of files that were read from the bucket to compare them, because
    the store did not report their CRC-32C.

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
    url: Annotated[Text, Typed("its new URL: s3://BUCKET/NAME, gs://BUCKET/NAME or hf://datasets/USER/REPO[@BRANCH]")],
    *,
    replace: Annotated[bool, Typed("only for hf://: replace another dataset or card there")] = False,
    progress: Callable[[int], object] | None = None,
) -> Pushed:
    """Copy a dataset to a bucket or to the Hugging Face Hub, or continue where an earlier call stopped.

    If the same dataset is already there, nothing is sent. The store compares each file with its CRC-32C in the
    manifest. Existing files are never overwritten. The manifest is sent last, so that no incomplete dataset can be
    opened, and unfinished uploads below `url` are aborted. To the Hub, all files go in one commit. Files that `card`
    has written go along.

    Args:
        directory: a dataset on the local disk.
        url: the dataset's URL in the bucket, such as "s3://bucket/flowers", or in an existing repository of the Hub,
            "hf://datasets/ada/flowers@BRANCH/FOLDER" for example. Credentials come from the environment.
        replace: only for the Hub: replace another dataset or card. Earlier commits keep them.
        progress: called after each upload with the size of the file in bytes.

    Raises UsageError; OutputExistsError if there is another dataset, another card, or other files of a dataset, at
    `url`; IntegrityError if a file differs from the manifest; StorageError, after which you can call again.

    Example:
        push("flowers", "s3://bucket/flowers")
        data = shardfeed.open("s3://bucket/flowers")
    """
    directory, url = local_path(directory), url.rstrip("/")
    if url[:5].lower() == "hf://":
        from shardfeed.converters.commit.hub_commit import HubFolder  # not above: it imports clients

        hub = HubFolder(url)
        _, files, beside = _files_in(directory)
        sent = hub.commit(directory, files, beside, replace=replace, progress=progress or (lambda size: None))
        return _pushed({**files, **beside}, sent)
    if replace:
        raise refused_replacing(url)
    bucket = destination(url)
    content, files, beside = _files_in(directory)
    there = bucket.below(url)
    if MANIFEST in there and bucket.info(f"{url}/{MANIFEST}") != files[MANIFEST]:
        raise OutputExistsError(url, "another dataset is there", "choose another URL")
    for name in sorted(there.keys() - files.keys()):
        if is_dataset_file(name):  # it would damage this one
            problem = "is a file of a dataset, but not of this one: an earlier upload did not end"
            raise OutputExistsError(f"{url}/{name}", problem, "remove it if nothing needs it, or choose another URL")

    def send(name: str, info: FileInfo, share: Share) -> bool:
        if name in there and bucket.info(f"{url}/{name}") == info:
            return False
        return bucket.put_new(f"{url}/{name}", os.path.join(directory, name), info, share)

    sent = transfer(send, beside, progress)
    left = {name: info for name, info in files.items() if MANIFEST not in there or there.get(name) != info.size}
    left.pop(MANIFEST, None)
    sent += transfer(send, left, progress)
    sent += bucket.put_new(f"{url}/{MANIFEST}", content, files[MANIFEST])
    bucket.abort_unfinished(url)
    return _pushed({**files, **beside}, sent, bucket.read_back)


def _files_in(directory: str) -> tuple[bytes, dict[str, FileInfo], dict[str, FileInfo]]:
    """The content of a dataset's manifest, all files of the dataset, and those of its card. Raises as `push`."""
    read_manifest(directory)  # for its errors
    path = os.path.join(directory, MANIFEST)
    with disk_errors(path, "read"):
        _, content = open_side_file(path)
    files = parse_manifest(content, path).files() | {MANIFEST: FileInfo.of(content)}
    cards = ((name, os.path.join(directory, name)) for name in BESIDE)
    return content, files, {name: FileInfo.of_file(card) for name, card in cards if os.path.isfile(card)}


def _pushed(files: Mapping[str, FileInfo], sent: int, read_back: int = 0) -> Pushed:
    return Pushed(len(files), sum(info.size for info in files.values()), sent, read_back)


def refused_replacing(url: str) -> UsageError:
    """The error for `replace` where nothing is replaced."""
    problem = f"got {argument('replace', True)}, but a dataset in a bucket is never replaced"
    return UsageError(url, problem, "choose another URL")

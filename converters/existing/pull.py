"""Download of a dataset from a bucket or a web server: every file compared with the manifest, renamed when complete."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from shardfeed.converters.commit.output import check_parent
from shardfeed.declared import Typed, checked
from shardfeed.errors import IntegrityError, OutputExistsError
from shardfeed.manifest import parse_manifest, read_manifest
from shardfeed.naming import BESIDE, MANIFEST
from shardfeed.storage.address import located
from shardfeed.storage.local import (
    NewFile,
    fsync_directory,
    hidden_sibling,
    locked,
    make_directory,
    publish,
    remove_file,
    remove_tree,
    write_file,
)
from shardfeed.storage.storage import LOCAL, FileInfo, OpenFile, Storage, local_path, open_side_file, sizes_by_name
from shardfeed.storage.transfer import Share, transfer

_RANGE = 8 << 20  # bytes of a request
_TRIES = 2  # for a file that arrives damaged


@dataclass(frozen=True)
class Pulled:
    """The outcome of `pull`.

    `files`, `size`: number of files of the dataset, and of the card that was copied with it, and their bytes.
    `fetched`: number of files that this call copied.

    Example:
        pulled = pull("s3://bucket/flowers", "flowers")
        print(pulled.fetched, pulled.files)
    """

    files: int
    size: int
    fetched: int


@checked
def pull(
    url: Annotated[str | os.PathLike[str], Typed("URL of a dataset")],
    directory: Annotated[str | os.PathLike[str], Typed("dataset directory to create", "out")],
    *,
    progress: Callable[[int], object] | None = None,
) -> Pulled:
    """Copy a dataset to the local disk, or continue where an earlier call stopped.

    Each file is compared with its size and CRC-32C in the manifest. Files are copied into a temporary directory, which
    is renamed to `directory` when it is complete. If `directory` already holds the same dataset, nothing is copied.
    A dataset card and croissant.json that lie beside the dataset are copied, too, and have no checksum.

    Args:
        url: a dataset's URL, of any kind that `shardfeed.open` accepts.
        directory: the directory to create; its parent must exist.
        progress: called after each download with the size of the file in bytes.

    Raises UsageError for an invalid URL; OutputExistsError if `directory` holds anything else; IntegrityError if a file
    differs from the manifest; BusyError; StorageError. After a StorageError, call again to continue.

    Example:
        pull("s3://bucket/flowers", "flowers")
        data = shardfeed.open("flowers")
    """
    storage, root = located(url)
    out = local_path(directory)
    read_manifest(root, storage)  # for its errors
    _, content = open_side_file(f"{root}/{MANIFEST}", storage)
    manifest = parse_manifest(content, f"{root}/{MANIFEST}")
    files = manifest.files()
    size = sum(info.size for info in files.values()) + len(content)
    check_parent(out)
    with locked(out):
        if os.path.lexists(out):
            cards = _sizes_of_cards(out, content)
            return Pulled(len(files) + 1 + len(cards), size + sum(cards), 0)
        building = hidden_sibling(out, "pulling")
        folders = manifest.folders()
        for folder in (building, *(os.path.join(building, name) for name in folders)):
            make_directory(folder)
        for name, there in sizes_by_name(LOCAL, building, folders).items():
            if name not in files:  # unfinished, or of another dataset
                (remove_tree if there < 0 else remove_file)(os.path.join(building, name))

        def fetch(name: str, info: FileInfo, share: Share) -> bool:
            return _fetch(storage, f"{root}/{name}", os.path.join(building, name), info, share)

        fetched = transfer(fetch, files, progress)
        for folder in folders:
            fsync_directory(os.path.join(building, folder))
        write_file(os.path.join(building, MANIFEST), content)
        beside = _copy_cards(storage, root, building)
        publish(building, out)
    size += sum(info.size for info in beside.values())
    return Pulled(len(files | beside) + 1, size, fetched + len(beside) + 1)


def _sizes_of_cards(out: str, manifest: bytes) -> list[int]:
    """Bytes of the card and croissant.json of an earlier call. Raises OutputExistsError for another dataset."""
    path = os.path.join(out, MANIFEST)
    if not os.path.isfile(path) or open_side_file(path)[1] != manifest:
        raise OutputExistsError(out, "exists already", "choose another name")
    return [os.path.getsize(path) for name in BESIDE if os.path.isfile(path := os.path.join(out, name))]


def _copy_cards(storage: Storage, root: str, building: str) -> dict[str, FileInfo]:
    """Copy the dataset card and croissant.json, if they are there and may be read."""
    copied: dict[str, FileInfo] = {}
    for name in BESIDE:
        try:
            _, content = open_side_file(f"{root}/{name}", storage)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES):  # S3 says the latter to those who may not list
                raise
            continue
        write_file(os.path.join(building, name), content)
        copied[name] = FileInfo.of(content)
    return copied


def _fetch(storage: Storage, url: str, path: str, info: FileInfo, share: Share) -> bool:
    """Copy a file unless it exists; return whether it was copied."""
    if os.path.isfile(path) and FileInfo.of_file(path) == info:
        return False
    for left in reversed(range(_TRIES)):
        try:
            file = storage.open(url, info.size)
            with NewFile(path, sync_directory=False) as new:
                share(partial(_copy_range, file, new), range(0, info.size, _RANGE))
                new.take_over()
                if problem := info.difference(FileInfo(new.size, new.crc32c)):
                    raise IntegrityError(url, problem, "push the dataset again")
            break
        except FileNotFoundError:
            raise IntegrityError(url, "missing, although the manifest names it", "push the dataset again") from None
        except IntegrityError:
            if not left:
                raise
    return True


def _copy_range(file: OpenFile, new: NewFile, start: int) -> None:
    new.write_at(start, file.read(start, min(_RANGE, file.size - start)))

"""Location of a path given by the user: on the local disk, or at an address (s3://bucket/name)."""

import os
import re

from shardfeed.errors import UsageError
from shardfeed.storage.storage import LOCAL, LocalStorage, Storage

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {"s3": "`aws s3 sync`", "gs": "`gcloud storage rsync`", "http": "`curl -LO`", "https": "`curl -LO`"}


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raise UsageError if `path` is an address (s3://...): images and datasets are read from a file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "a tool of its own")
        raise UsageError(text, "is an address, expected a path of this machine", f"copy it with {tool}, or mount it")


def located(path: str | os.PathLike[str], storage: Storage = LOCAL) -> tuple[Storage, str]:
    """The storage of a dataset and its directory there: of an address (s3://bucket/name) the bucket, else `storage`.

    Raises UsageError for an address of another kind than `ObjectStorage` reads, MissingExtraError without its package.
    """
    text = os.fspath(path)
    if type(storage) is not LocalStorage:  # what a path means elsewhere is the storage's affair
        return storage, text
    if not _ADDRESS.match(text):
        return storage, os.path.abspath(text)
    from shardfeed.storage.objects import ObjectStorage  # not above: a local dataset needs no threads for requests

    scheme, _, rest = text.partition("://")
    return ObjectStorage(f"{scheme}://{rest.partition('/')[0]}"), text.rstrip("/")

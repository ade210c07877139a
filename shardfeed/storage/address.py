"""Location of a path given by the user, to read from or to write to: on the local disk, or at a URL (s3://bucket/name)."""

import os
import re
from typing import TYPE_CHECKING

from shardfeed.errors import UsageError, without_secrets
from shardfeed.storage.storage import LOCAL, LocalStorage, Storage

if TYPE_CHECKING:
    from shardfeed.storage.bucket_destination import Destination

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {
    "s3": "`aws s3 sync`",
    "gs": "`gcloud storage rsync`",
    "hf": "`hf download`",
    **dict.fromkeys(("http", "https"), "`curl -LO`"),
}
_OTHER_TOOLS = {
    "az": "`azcopy copy DIR URL --recursive`",
    "hf": "`hf upload USER/REPO DIR --repo-type dataset`",
}


def is_address(path: object) -> bool:
    """Whether `path` is a URL (s3://...), of any kind."""
    return isinstance(path, str | bytes | os.PathLike) and _ADDRESS.match(os.fsdecode(path)) is not None


def check_url(address: str, remedy: str) -> None:
    """Raise UsageError for a URL with a secret, which would be in errors, manifests and pickles, or on two lines."""
    if without_secrets(address) != address:
        raise UsageError(address, "got a URL with a query or a password, or the like (;x, #x)", remedy)
    if re.search(r"[\x00-\x1f\x7f]", address):
        raise UsageError(address, "got a URL with a control character, such as a newline", "remove it")


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raise UsageError if `path` is a URL (s3://...), for code that needs a local file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "its own tool")
        raise UsageError(text, "is a URL, expected a local path", f"copy it with {tool}, or mount it")


def local_output(path: str | os.PathLike[str]) -> str:
    """The absolute path of an output. Raises UsageError if it is a URL (s3://...)."""
    if is_address(path):
        tool = _TOOLS.get(os.fspath(path).partition("://")[0].lower(), "its own tool")
        remedy = f"write to a local directory, and copy that with {tool}"
        raise UsageError(os.fspath(path), "is a URL, expected a local path", remedy)
    return local_path(path)


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute path. Raises UsageError if it is a URL (s3://...), or no path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError("path", f"got {path!r}, expected the path of a directory")
    check_local(path)
    return os.path.abspath(os.fspath(path))


def located(path: str | os.PathLike[str], storage: Storage = LOCAL) -> tuple[Storage, str]:
    """The storage of a dataset and its directory there: for a URL (s3://bucket/name) the bucket, else `storage`.

    Raises UsageError for a URL that `ObjectStorage` does not read, or with a query or a password; MissingExtraError
    without its package.
    """
    text = os.fspath(path)
    if type(storage) is not LocalStorage:  # other storages define their own paths
        return storage, text
    if not _ADDRESS.match(text):
        return storage, os.path.abspath(text)
    check_url(text, "give only the URL, and the credentials in the environment")
    from shardfeed.storage.hub import bound  # not above: a local dataset needs no client
    from shardfeed.storage.objects import ObjectStorage

    scheme, _, rest = text.partition("://")
    if scheme.lower() == "hf":
        root, text = bound(text)
        return ObjectStorage(root), text
    return ObjectStorage(f"{scheme}://{rest.partition('/')[0]}"), text.rstrip("/")


def destination(url: str) -> "Destination":
    """The bucket of a URL below s3:// or gs://, to write to.

    Raises UsageError for another URL, or one with a query or a password; MissingExtraError without the client's
    package.

    Example:
        bucket = destination("s3://bucket/flowers")
        bucket.put_new("s3://bucket/flowers/note.txt", b"hello", FileInfo.of(b"hello"))
    """
    check_url(url, "give only the URL, and the credentials in the environment")
    scheme, _, rest = url.partition("://")
    scheme, (bucket, _, key) = scheme.lower(), rest.partition("/")
    if not is_address(url) or scheme not in ("s3", "gs"):
        problem = "got a URL that shardfeed does not write to, expected s3://BUCKET/NAME or gs://BUCKET/NAME"
        tool = _OTHER_TOOLS.get(scheme, "the server's own tool")
        raise UsageError(url, problem, f"write to a local directory, and copy it with {tool}")
    if not bucket or not key.strip("/"):
        raise UsageError(url, "names no prefix in a bucket", f"write for example {scheme}://bucket/name")
    if {"", ".", ".."}.intersection(key.rstrip("/").split("/")):
        raise UsageError(url, "has an empty part, '.' or '..' in its path", "remove it")
    return bucket_of(f"{scheme}://{bucket}")


def bucket_of(root: str) -> "Destination":
    """The bucket "s3://BUCKET" or "gs://BUCKET". Raises MissingExtraError."""
    if root.startswith("gs:"):
        from shardfeed.storage.google_destination import GoogleDestination

        return GoogleDestination(root)
    from shardfeed.storage.s3_destination import S3Destination

    return S3Destination(root)

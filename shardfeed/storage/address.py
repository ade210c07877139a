"""The bucket or web server at a URL (s3://bucket/name), to read from or to write to; the local disk for other paths."""

import os
import re
from typing import TYPE_CHECKING

from shardfeed.errors import UsageError, without_secrets
from shardfeed.storage.storage import LOCAL, LocalStorage, Storage, is_address

if TYPE_CHECKING:
    from shardfeed.storage.bucket_destination import Destination

_OTHER_TOOLS = {"az": "`azcopy copy DIR URL --recursive`", "hf": "`shardfeed push DIR URL`"}


def check_url(address: str, remedy: str) -> None:
    """Raise UsageError for a URL with a secret, which would be in errors, manifests and pickles, or on two lines."""
    if without_secrets(address) != address:
        raise UsageError(address, "got a URL with a query or a password, or the like (;x, #x)", remedy)
    if re.search(r"[\x00-\x1f\x7f]", address):
        raise UsageError(address, "got a URL with a control character, such as a newline", "remove it")


def located(path: str | os.PathLike[str], storage: Storage = LOCAL) -> tuple[Storage, str]:
    """The storage of a dataset and its directory there: for a URL (s3://bucket/name) the bucket, else `storage`.

    Raises UsageError for a URL that `ObjectStorage` does not read, or with a query or a password; MissingExtraError
    without its package.
    """
    text = os.fspath(path)
    if type(storage) is not LocalStorage:  # other storages define their own paths
        return storage, text
    if not is_address(text):
        return storage, os.path.abspath(text)
    check_url(text, "give only the URL, and the credentials in the environment")
    from shardfeed.storage.objects import ObjectStorage  # not above: a local dataset needs no client

    root, text = rooted(text)
    return ObjectStorage(root), text


def rooted(url: str) -> tuple[str, str]:
    """The root of the storage of a URL, and the URL; of a repository of the Hub both with a commit, its current one.

    Raises UsageError, StorageError, both only for the Hub.
    """
    scheme, _, rest = url.partition("://")
    if scheme.lower() == "hf":
        from shardfeed.storage.hub import bound

        return bound(url)
    return f"{scheme.lower()}://{rest.partition('/')[0]}", url.rstrip("/")


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
        raise UsageError(url or "url", problem, f"write to a local directory, and copy it with {tool}")
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

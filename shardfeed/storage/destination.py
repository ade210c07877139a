"""Buckets that datasets are written to: new files, checked by their CRC-32C when they arrive.

Nothing is ever overwritten. If several writers send the same file at once, as the workers of a cluster may, the first
one creates it, and the others compare checksums.
"""

from typing import TYPE_CHECKING

from shardfeed.errors import UsageError
from shardfeed.storage.address import check_url, is_address

if TYPE_CHECKING:
    from shardfeed.storage.bucket_destination import Destination

_OTHER_TOOLS = {
    "az": "`azcopy copy DIR URL --recursive`",
    "hf": "`hf upload USER/REPO DIR --repo-type dataset`",
}


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

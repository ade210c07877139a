"""Buckets that datasets are written to: new files, checked by their CRC-32C when they arrive.

Nothing is ever overwritten. If several writers send the same file at once, as the workers of a cluster may, the first
one creates it, and the others compare checksums.
"""

from typing import Protocol

from shardfeed.errors import UsageError
from shardfeed.storage.address import check_without_secrets, is_address
from shardfeed.storage.storage import FileInfo

_OTHER_TOOLS = {
    "gs": "`gcloud storage rsync --recursive DIR URL`",
    "az": "`azcopy copy DIR URL --recursive`",
    "hf": "`hf upload USER/REPO DIR --repo-type dataset`",
}


class Destination(Protocol):
    """A bucket that files are written to. Paths are URLs in it, such as "s3://bucket/flowers/manifest.json".

    It pickles as its URL, without credentials, which each process takes from its environment. Threads may share it, and
    a forked child may use it.
    """

    read_back: int  # files that were read after they were written, because the store did not report their CRC-32C

    def put_new(self, path: str, content: str | bytes, info: FileInfo) -> bool:
        """Create a file of `content`: bytes, or the path of a local file; `info` is its size and CRC-32C.

        Returns True if this call created it, and False if an equal file was there, by size and CRC-32C. Large local
        files are sent in parts, and parts that the store has from an earlier, killed call are not sent again.

        Raises OutputExistsError if another file is there, IntegrityError if the local file differs from `info`,
        StorageError if the store cannot be written to, or refuses the bytes as damaged each time they are sent.
        """
        ...

    def info(self, path: str) -> FileInfo | None:
        """The size and CRC-32C of a file; None if there is none. Raises StorageError."""
        ...

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None if there is none. Raises StorageError."""
        ...

    def below(self, prefix: str) -> dict[str, int]:
        """Name below a prefix -> bytes, for all files there. Raises StorageError."""
        ...

    def abort_unfinished(self, prefix: str) -> int:
        """Abort the unfinished uploads below a prefix; returns their number."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it exists. Raises StorageError."""
        ...


def destination(url: str) -> Destination:
    """The bucket of a URL below s3://, to write to.

    Raises UsageError for another URL, or one with a query or a password; MissingExtraError without the client's
    package.

    Example:
        bucket = destination("s3://bucket/flowers")
        bucket.put_new("s3://bucket/flowers/note.txt", b"hello", FileInfo.of(b"hello"))
    """
    check_without_secrets(url, "give only the URL, and the credentials in the environment")
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if not is_address(url) or scheme != "s3":
        problem = "got a URL that shardfeed does not write to, expected s3://BUCKET/NAME"
        tool = _OTHER_TOOLS.get(scheme, "the server's own tool")
        raise UsageError(url, problem, f"write to a local directory, and copy it with {tool}")
    if not bucket or not key.strip("/") or {"", ".", ".."}.intersection(key.rstrip("/").split("/")):
        raise UsageError(url, "names no prefix in a bucket", "write for example s3://bucket/name")
    from shardfeed.storage.s3_destination import S3Destination

    return S3Destination(f"s3://{bucket}")

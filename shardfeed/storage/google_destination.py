"""Writing to Google Cloud Storage, by its own client, which gives the store the CRC-32C, and a condition, of a file."""

import base64
import errno
import io
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from shardfeed.errors import StorageError, check_extra
from shardfeed.storage.bucket_destination import DAMAGED, GONE, TAKEN, Destination, RefusedError, failed_because
from shardfeed.storage.listing_limits import ListingLimits
from shardfeed.storage.objects import NETWORK, redirected
from shardfeed.storage.storage import FileInfo
from shardfeed.storage.transfer import AT_ONCE, Share

_PIECE = 8 << 20  # bytes read back at once
_T = TypeVar("_T")


class _BoundedBuffer(io.BytesIO):
    """Takes the bytes of an answer, and no more than `most`, whatever the server sends."""

    def __init__(self, path: str, most: int) -> None:
        super().__init__()
        self._path, self._most = path, most

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self._most:
            problem = f"the server sends more than the {self._most} bytes that it was asked for"
            raise StorageError(self._path, problem, NETWORK, errno.EIO)
        return super().write(data)


class GoogleDestination(Destination):
    """A bucket of Google Cloud Storage: see `Destination`. `root`: "gs://bucket".

    Credentials: GOOGLE_APPLICATION_CREDENTIALS, or those of the machine; GOOGLE_BASE_URL and GOOGLE_SKIP_SIGNATURE as
    for `ObjectStorage`. A large file is sent in parts, but a killed upload begins it again. Unfinished uploads cost
    nothing, are in no listing, and expire after a week. Raises MissingExtraError without google-cloud-storage.
    """

    def __init__(self, root: str) -> None:
        check_extra("google.cloud.storage", root)
        super().__init__(root)

    def _put(self, path: str, content: str | bytes, info: FileInfo, share: Share) -> bool:
        blob = self._blob(path)
        blob.chunk_size = self.part_bytes
        blob.crc32c = base64.b64encode(info.crc32c.to_bytes(4, "big")).decode()  # then replaced by the store's answer
        send = blob.upload_from_string if isinstance(content, bytes) else blob.upload_from_filename
        try:
            self._guarded(path, lambda: send(content, if_generation_match=0, checksum=None))
        except RefusedError as refused:
            if refused.args[0] != GONE:
                raise
            raise failed_because(path, "NoSuchBucket") from None
        return _info(blob) == (info.size, info.crc32c)

    def info_of_store(self, path: str) -> tuple[int, int | None] | None:
        blob = self._blob(path)
        try:
            self._guarded(path, blob.reload)
        except RefusedError:
            return None
        return _info(blob)

    def _content(self, path: str) -> Iterator[bytes]:
        blob = self._blob(path)
        self._guarded(path, blob.reload)
        version = {"if_generation_match": blob.generation, "raw_download": True, "checksum": None}
        for start in range(0, blob.size, _PIECE):
            end = min(start + _PIECE, blob.size)
            piece = _BoundedBuffer(path, end - start)
            self._guarded(path, lambda: blob.download_to_file(piece, start=start, end=end - 1, **version))  # noqa: B023
            yield piece.getvalue()

    def below(self, prefix: str) -> dict[str, int]:
        above = f"{self._key(prefix)}/".lstrip("/")
        pages = self._client_here().list_blobs(self.bucket, prefix=above).pages
        limits, found = ListingLimits(prefix), dict[str, int]()
        try:
            while (page := self._guarded(prefix, lambda: next(pages, None))) is not None:
                files = [(blob.name[len(above) :], blob.size) for blob in page]
                limits.check_page(files)
                found.update(files)
        except RefusedError:
            raise failed_because(prefix, "NoSuchBucket") from None
        return found

    def abort_unfinished(self, prefix: str) -> int:
        return 0

    def delete(self, path: str) -> None:
        try:
            self._guarded(path, self._blob(path).delete)
        except RefusedError:
            pass

    def _blob(self, path: str) -> Any:
        return self._client_here().bucket(self.bucket).blob(self._key(path))

    def _guarded(self, path: str, request: Callable[[], _T]) -> _T:
        """Run `request`. Raises RefusedError, or StorageError without text that may hold credentials."""
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.exceptions import DataCorruption
        from requests.exceptions import RequestException, SSLError, TooManyRedirects

        try:
            return request()
        except GoogleAPICallError as error:
            if error.code in (404, 412):
                raise RefusedError(GONE if error.code == 404 else TAKEN) from None
            if error.code == 400 and "crc32c" in str(error).lower():
                raise RefusedError(DAMAGED) from None
            text = f"status code: {error.code}"
        except GoogleAuthError:
            text = "credential provider"
        except TooManyRedirects as error:
            raise redirected(path, error.response.headers["Location"] if error.response is not None else "") from None
        except SSLError:
            text = "invalid certificate"
        except ValueError:  # an endpoint that is no URL
            text = "Generic Config"
        except (RequestException, RetryError, DataCorruption) as error:
            text = "connection closed" if isinstance(error, DataCorruption) else "connection refused"
        raise failed_because(path, text)

    def _new_client(self) -> Any:
        return self._guarded(self.root, _new_client)


def _new_client() -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    anonymous = os.environ.get("GOOGLE_SKIP_SIGNATURE", "").lower() in ("1", "true", "yes", "on", "t", "y")
    endpoint = os.environ.get("GOOGLE_BASE_URL")
    client = Client(
        project=None,
        credentials=AnonymousCredentials() if anonymous else None,
        client_options={"api_endpoint": endpoint} if endpoint else None,
    )
    http: Any = client._http
    http.max_redirects = 0  # a store has no reason for any
    for adapter in http.adapters.values():
        adapter.init_poolmanager(AT_ONCE, AT_ONCE)  # by default 10 connections: others would be made for each request
    return client


def _info(blob: Any) -> tuple[int, int | None]:
    """Size and CRC-32C of an object, as the store has reported them."""
    return blob.size, int.from_bytes(base64.b64decode(blob.crc32c)) if blob.crc32c else None

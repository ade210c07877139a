"""Writing to S3, by boto3: obstore can neither send a given CRC-32C nor continue an upload in parts."""

import base64
import errno
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from shardfeed.errors import IntegrityError, OutputExistsError, StorageError, check_extra
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.objects import NETWORK, cause
from shardfeed.storage.storage import FileInfo

PART_BYTES = 16 << 20  # a larger file is sent in parts of this size; S3 takes at least 5 MiB
_MOST_PARTS = 10_000  # of one file
_TRIES = 3  # for bytes that arrive damaged
_REQUESTS = 6  # attempts of botocore's, with increasing pauses, for a lost connection or a 5xx status
_CHUNK = 8 << 20  # bytes read back at once
_DAMAGED = ("BadDigest", "InvalidDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch")
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
_GONE = ("404", "NoSuchKey", "NotFound", "NoSuchUpload")
# botocore's exceptions without an answer of the server -> text that `cause` knows.
_TEXTS = {
    "NoCredentials": "credential provider",
    "PartialCredentials": "credential provider",
    "CredentialRetrieval": "credential provider",
    "ProfileNotFound": "credential provider",
    "TokenRetrieval": "TokenRefresh",
    "SSOTokenLoad": "TokenRefresh",
    "UnauthorizedSSOToken": "TokenRefresh",
    "SSLError": "invalid certificate",
    "ConnectTimeout": "timed out",
    "ReadTimeout": "timed out",
    "EndpointConnection": "connection refused",
    "ConnectionClosed": "connection closed",
}
_T = TypeVar("_T")


class _RefusedError(Exception):
    """A request that the store refused; `args[0]` is S3's error code."""


class S3Destination:
    """A bucket of S3, or of a server with its protocol: see `Destination`. `root`: "s3://bucket".

    Credentials, region and endpoint are those of `ObjectStorage`. Raises MissingExtraError without boto3.
    """

    def __init__(self, root: str) -> None:
        check_extra("boto3", root)
        self.root, self.bucket = root, root.partition("://")[2]
        self.read_back = 0
        self._checksums = True  # until the store refuses them
        self._client: tuple[int, Any] | None = None  # and the process that made it
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root,)

    def put_new(self, path: str, content: str | bytes, info: FileInfo) -> bool:
        for _ in range(_TRIES):
            try:
                if isinstance(content, str) and info.size > PART_BYTES:
                    created = self._put_parts(path, content, info)
                else:
                    created = self._put(path, content, info)
            except _RefusedError:  # as damaged
                continue
            if created is not None:
                return created
        if isinstance(content, str):
            _check_local(content, info, FileInfo.of_file(content))
        raise _failed(path, "cannot be written: the bytes arrived damaged each time", NETWORK)

    def _put(self, path: str, content: str | bytes, info: FileInfo) -> bool | None:
        """Send a file in one request. Return whether it was created, or None if it arrived damaged."""
        data = content if isinstance(content, bytes) else _read(content, 0, info.size + 1)
        _check_local(path if isinstance(content, bytes) else content, info, FileInfo.of(data))
        try:
            answer = self._send("put_object", path, info.crc32c, Key=self._key(path), Body=data, IfNoneMatch="*")
        except _RefusedError as refused:
            if refused.args[0] not in _TAKEN:
                raise
            return self._equal(path, info)
        return self._arrived(path, info, answer)

    def _put_parts(self, path: str, file: str, info: FileInfo) -> bool | None:
        """Send a file in parts, after the parts that an earlier upload has sent."""
        key, size = self._key(path), max(PART_BYTES, -(-info.size // _MOST_PARTS))
        if self.info_of_store(path) is not None:
            return self._equal(path, info)
        upload, etags = self._begun(path, size, info)
        try:
            for number, start in enumerate(range(0, info.size, size), 1):
                if number not in etags:
                    data = _read(file, start, min(size, info.size - start))
                    given = {"Key": key, "UploadId": upload, "PartNumber": number, "Body": data}
                    etags[number] = self._send("upload_part", path, crc32c(data), **given)["ETag"]
            parts = [{"PartNumber": number, "ETag": etags[number]} for number in sorted(etags)]
            given = {"Key": key, "UploadId": upload, "MultipartUpload": {"Parts": parts}, "IfNoneMatch": "*"}
            if self._checksums:
                given["ChecksumType"] = "FULL_OBJECT"
            answer = self._send("complete_multipart_upload", path, info.crc32c, **given)
        except _RefusedError as refused:
            if refused.args[0] in _GONE:  # another writer has finished the same upload
                return self._equal(path, info)
            self._call("abort_multipart_upload", path, Key=key, UploadId=upload)  # a part is damaged, or not needed
            if refused.args[0] not in _TAKEN:
                raise
            return self._equal(path, info)
        return self._arrived(path, info, answer)

    def _begun(self, path: str, size: int, info: FileInfo) -> tuple[str, dict[int, str]]:
        """The id of an upload in parts, new or begun by an earlier run, and the ETags of the parts that it has."""
        key = self._key(path)
        for upload in self._unfinished(key):
            if upload["Key"] == key:
                found = self._pages("list_parts", path, "Parts", Key=key, UploadId=upload["UploadId"])
                etags = {
                    part["PartNumber"]: part["ETag"]
                    for part in found
                    if part["Size"] == min(size, info.size - (part["PartNumber"] - 1) * size)
                }
                return upload["UploadId"], etags
        options = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"} if self._checksums else {}
        return self._send("create_multipart_upload", path, None, Key=key, **options)["UploadId"], {}

    def _arrived(self, path: str, info: FileInfo, answer: dict[str, Any]) -> bool | None:
        """True if the file arrived intact, by the answer to the upload or else by `info`; None, and removed, if not."""
        if answer.get("ChecksumCRC32C") == _encoded(info.crc32c) or self.info(path) == info:
            return True
        self.delete(path)
        return None

    def _equal(self, path: str, info: FileInfo) -> bool:
        """Return False if the existing file is equal. Raises OutputExistsError if it differs."""
        found = self.info(path)
        if found != info:
            problem = "another file is there: " + (info.difference(found) if found else "it was removed meanwhile")
            raise OutputExistsError(path, problem, "remove it if nothing needs it, or choose another URL")
        return False

    def info(self, path: str) -> FileInfo | None:
        found = self.info_of_store(path)
        if found is None or found[1] is not None:
            return None if found is None else FileInfo(found[0], found[1] or 0)
        with self._lock:
            self.read_back += 1
        size = crc = 0
        for chunk in self._content(path):
            size, crc = size + len(chunk), extend_crc32c(crc, chunk)
        return FileInfo(size, crc)

    def info_of_store(self, path: str) -> tuple[int, int | None] | None:
        """Size and CRC-32C of a file as the store reports them, None for what it does not have."""
        options = {"ChecksumMode": "ENABLED"} if self._checksums else {}
        try:
            head = self._call("head_object", path, Key=self._key(path), **options)
        except _RefusedError:
            return None
        text = head.get("ChecksumCRC32C") or ""
        known = text and "-" not in text and head.get("ChecksumType") != "COMPOSITE"
        return head["ContentLength"], int.from_bytes(base64.b64decode(text)) if known else None

    def read(self, path: str) -> bytes | None:
        try:
            return b"".join(self._content(path))
        except _RefusedError:
            return None

    def _content(self, path: str) -> Iterator[bytes]:
        """The bytes of a file in pieces."""
        body = self._call("get_object", path, Key=self._key(path))["Body"]
        with body:
            while chunk := self._guarded(path, lambda: body.read(_CHUNK)):
                yield chunk

    def below(self, prefix: str) -> dict[str, int]:
        above = self._key(prefix) + "/"
        found = self._pages("list_objects_v2", prefix, "Contents", Prefix=above)
        return {one["Key"][len(above) :]: one["Size"] for one in found}

    def abort_unfinished(self, prefix: str) -> int:
        found = list(self._unfinished(self._key(prefix) + "/"))
        for upload in found:
            self._call("abort_multipart_upload", prefix, Key=upload["Key"], UploadId=upload["UploadId"])
        return len(found)

    def _unfinished(self, key: str) -> Iterator[dict[str, Any]]:
        """Uploads that are not finished, whose keys begin with `key`."""
        return self._pages("list_multipart_uploads", f"{self.root}/{key}", "Uploads", Prefix=key)

    def delete(self, path: str) -> None:
        self._call("delete_object", path, Key=self._key(path))

    def _key(self, path: str) -> str:
        return path[len(self.root) :].strip("/")

    def _send(self, method: str, path: str, crc: int | None, **given: Any) -> dict[str, Any]:
        """Send a request that writes, with a CRC-32C unless the store does not support it."""
        if self._checksums:
            try:
                return self._call(method, path, **given, **({} if crc is None else {"ChecksumCRC32C": _encoded(crc)}))
            except _RefusedError as refused:
                if refused.args[0] != _NO_CHECKSUMS:
                    raise
                self._checksums = False
        left = {name: value for name, value in given.items() if not name.startswith("Checksum")}
        return self._call(method, path, **left)

    def _pages(self, method: str, path: str, field: str, **given: Any) -> Iterator[dict[str, Any]]:
        pages = iter(self._client_here().get_paginator(method).paginate(Bucket=self.bucket, **given))
        while (page := self._guarded(path, lambda: next(pages, None))) is not None:
            yield from page.get(field, ())

    def _call(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        client = self._client_here()
        return self._guarded(path, lambda: getattr(client, method)(Bucket=self.bucket, **given))

    def _guarded(self, path: str, request: Callable[[], _T]) -> _T:
        """Run `request`. Raises _RefusedError, or StorageError without text that may hold credentials."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return request()
        except ClientError as error:
            said = error.response.get("Error", {})
            code, status = str(said.get("Code", "")), error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
            if code in _DAMAGED + _TAKEN + _GONE:
                raise _RefusedError(code) from None
            if status in (400, 501) and "checksum" in f"{code} {said.get('Message')}".lower():
                raise _RefusedError(_NO_CHECKSUMS) from None
            problem, remedy = cause(Exception(f"{code} status code: {status}"))
        except (BotoCoreError, HTTPClientError) as error:
            name = type(error).__name__
            text = next((text for start, text in _TEXTS.items() if name.startswith(start)), "")
            problem, remedy = cause(Exception(text))
        except ValueError:  # an endpoint that is no URL, perhaps with a password
            problem, remedy = cause(Exception("Generic Config"))
        if problem.startswith("access denied"):
            raise _failed(path, problem, remedy.replace("to read", "to write"), errno.EACCES)
        raise _failed(path, f"cannot be written: {problem}", remedy or NETWORK)

    def _client_here(self) -> Any:
        """The client of this process: its connections do not survive a fork."""
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = os.getpid(), self._guarded(self.root, _new_client)
            return self._client[1]


_NO_CHECKSUMS = "checksums refused"


def _new_client() -> Any:
    import boto3
    from botocore.config import Config

    named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    config = Config(
        connect_timeout=10,
        read_timeout=60,
        retries={"mode": "standard", "max_attempts": _REQUESTS},
        max_pool_connections=32,
        request_checksum_calculation="when_required",  # requests contain the CRC-32C already
        response_checksum_validation="when_required",
        # The signed CRC-32C covers the payload. Servers other than Amazon's have one host name for all buckets.
        s3={"payload_signing_enabled": False, "addressing_style": "path" if named else "auto"},
    )
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return boto3.Session(region_name=region).client("s3", config=config)


def _encoded(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def _read(path: str, start: int, size: int) -> bytes:
    try:
        with open(path, "rb", 0) as file:
            file.seek(start)
            return file.read(size)
    except OSError as error:
        raise storage_error(path, "read", error) from error


def _check_local(path: str, info: FileInfo, found: FileInfo) -> None:
    if problem := info.difference(found):
        raise IntegrityError(path, problem, "restore the file: `shardfeed verify DIR` lists what is damaged")


def _failed(path: str, problem: str, remedy: str, number: int = errno.EIO) -> StorageError:
    error = StorageError(path, problem, remedy)
    error.errno = number
    return error

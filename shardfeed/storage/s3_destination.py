"""Writing to S3, by boto3: obstore can neither send a given CRC-32C nor continue an upload in parts."""

import base64
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from shardfeed.errors import check_extra
from shardfeed.storage.bucket_destination import (
    DAMAGED,
    GONE,
    NO_CHECKSUMS,
    TAKEN,
    Destination,
    RefusedError,
    failed_because,
    read_piece,
)
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.listing_limits import ListingLimits
from shardfeed.storage.objects import redirected
from shardfeed.storage.storage import FileInfo
from shardfeed.storage.transfer import Share

_MOST_PARTS = 10_000  # of one file
_REQUESTS = 6  # attempts of botocore's, with increasing pauses, for a lost connection or a 5xx status
_CHUNK = 8 << 20  # bytes read back at once
_REFUSALS = {
    **dict.fromkeys(("412", "PreconditionFailed", "409", "ConditionalRequestConflict"), TAKEN),
    **dict.fromkeys(("404", "NoSuchKey", "NotFound", "NoSuchUpload"), GONE),
    **dict.fromkeys(("BadDigest", "InvalidDigest", "IncompleteBody"), DAMAGED),
    **dict.fromkeys(("XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"), DAMAGED),
}
# Part of the name of botocore's exceptions without an answer of the server -> text that `cause` knows; the first.
_TEXTS = {
    "Credential": "credential provider",
    "Profile": "credential provider",
    "Token": "TokenRefresh",
    "SSL": "invalid certificate",
    "Timeout": "timed out",
    "EndpointConnection": "connection refused",
    "ConnectionClosed": "connection closed",
}
_T = TypeVar("_T")


class S3Destination(Destination):
    """A bucket of S3, or of a server with its protocol: see `Destination`. `root`: "s3://bucket".

    Credentials, region and endpoint are those of `ObjectStorage`. Raises MissingExtraError without boto3.
    """

    def __init__(self, root: str) -> None:
        check_extra("boto3", root)
        super().__init__(root)
        self._checksums = True  # until the store refuses them

    def _put(self, path: str, content: str | bytes, info: FileInfo, share: Share) -> bool:
        if isinstance(content, str):
            answer = self._put_parts(path, content, info, share)
        else:
            given = {"Key": self._key(path), "Body": content, "IfNoneMatch": "*"}
            answer = self._send("put_object", path, info.crc32c, **given)
        return answer.get("ChecksumCRC32C") == _encoded(info.crc32c)

    def _put_parts(self, path: str, file: str, info: FileInfo, share: Share) -> dict[str, Any]:
        """Send a file in parts, after those that an earlier upload has sent."""
        key, size = self._key(path), max(self.part_bytes, -(-info.size // _MOST_PARTS))
        upload, etags = self._resume_upload(path, size, info)

        def send(number: int) -> None:
            data = read_piece(file, (number - 1) * size, min(size, info.size - (number - 1) * size))
            given = {"Key": key, "UploadId": upload, "PartNumber": number, "Body": data}
            etags[number] = self._send("upload_part", path, crc32c(data), **given)["ETag"]

        try:
            share(send, sorted(set(range(1, -(-info.size // size) + 1)) - etags.keys()))
            parts = [{"PartNumber": number, "ETag": etags[number]} for number in sorted(etags)]
            given = {"Key": key, "UploadId": upload, "MultipartUpload": {"Parts": parts}, "IfNoneMatch": "*"}
            if self._checksums:
                given["ChecksumType"] = "FULL_OBJECT"
            return self._send("complete_multipart_upload", path, info.crc32c, **given)
        except RefusedError as refused:
            if refused.args[0] != GONE:  # else another writer has finished or aborted the same upload
                self._call("abort_multipart_upload", path, Key=key, UploadId=upload)  # a part is damaged, or not needed
            raise

    def _resume_upload(self, path: str, size: int, info: FileInfo) -> tuple[str, dict[int, str]]:
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

    def info_of_store(self, path: str) -> tuple[int, int | None] | None:
        options = {"ChecksumMode": "ENABLED"} if self._checksums else {}
        try:
            head = self._call("head_object", path, Key=self._key(path), **options)
        except RefusedError:
            return None
        text = head.get("ChecksumCRC32C") or ""
        known = text and "-" not in text and head.get("ChecksumType") != "COMPOSITE"
        return head["ContentLength"], int.from_bytes(base64.b64decode(text)) if known else None

    def _content(self, path: str) -> Iterator[bytes]:
        body = self._call("get_object", path, Key=self._key(path))["Body"]
        with body:
            while chunk := self._guarded(path, lambda: body.read(_CHUNK)):
                yield chunk

    def below(self, prefix: str) -> dict[str, int]:
        above = f"{self._key(prefix)}/".lstrip("/")
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

    def _send(self, method: str, path: str, crc: int | None, **given: Any) -> dict[str, Any]:
        """Send a request that writes, with a CRC-32C unless the store does not support it."""
        if self._checksums:
            try:
                return self._call(method, path, **given, **({} if crc is None else {"ChecksumCRC32C": _encoded(crc)}))
            except RefusedError as refused:
                if refused.args[0] != NO_CHECKSUMS:
                    raise
                self._checksums = False
        left = {name: value for name, value in given.items() if not name.startswith("Checksum")}
        return self._call(method, path, **left)

    def _pages(self, method: str, path: str, field: str, **given: Any) -> Iterator[dict[str, Any]]:
        pages = iter(self._client_here().get_paginator(method).paginate(Bucket=self.bucket, **given))
        limits = ListingLimits(path)
        while (page := self._guarded(path, lambda: next(pages, None))) is not None:
            listed = page.get(field, ())
            limits.check_page([tuple(map(str, one.values())) for one in listed])
            yield from listed

    def _call(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        client = self._client_here()
        return self._guarded(path, lambda: getattr(client, method)(Bucket=self.bucket, **given))

    def _guarded(self, path: str, request: Callable[[], _T]) -> _T:
        """Run `request`. Raises RefusedError, or StorageError without text that may hold credentials."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return request()
        except _RedirectedError as error:
            raise redirected(path, error.args[0]) from None
        except ClientError as error:
            said = error.response.get("Error", {})
            code, status = str(said.get("Code", "")), error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
            if code in _REFUSALS:
                raise RefusedError(_REFUSALS[code]) from None
            if status in (400, 501) and "checksum" in f"{code} {said.get('Message')}".lower():
                raise RefusedError(NO_CHECKSUMS) from None
            text = f"{code} <ServerTime>{said.get('ServerTime')} status code: {status}"
        except (BotoCoreError, HTTPClientError) as error:
            text = next((text for part, text in _TEXTS.items() if part in type(error).__name__), "")
        except ValueError:  # an endpoint that is no URL, perhaps with a password
            text = "Generic Config"
        raise failed_because(path, text)

    def _new_client(self) -> Any:
        return self._guarded(self.root, _new_client)


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
    client = boto3.Session(region_name=region).client("s3", config=config)
    client.meta.events.register("response-received.s3", _refuse_redirect)
    return client


class _RedirectedError(Exception):
    """A store redirects to the URL `args[0]`."""


def _refuse_redirect(response_dict: Any = None, **_: object) -> None:
    """Raise _RedirectedError, unless it is to another region: botocore would ask for the region without end."""
    headers = response_dict["headers"] if response_dict and response_dict["status_code"] // 100 == 3 else {}
    if "location" in headers and "x-amz-bucket-region" not in headers:
        raise _RedirectedError(headers["location"])


def _encoded(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()

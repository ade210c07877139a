"""Files written to S3 and Google Cloud Storage: whole and equal, or refused; sent once, whoever else sends them."""

import json
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import IntegrityError, OutputExistsError, StorageError, UsageError
from shardfeed.storage.address import destination
from shardfeed.storage.bucket_destination import Destination
from shardfeed.storage.storage import FileInfo
from shardfeed.storage.transfer import AT_ONCE

from buckets import SECRET, Bucket
from gcs import gcs_server
from processes import until
from web_server import web_server


@pytest.fixture
def root(bucket: Bucket) -> str:
    return f"s3://{bucket.name}/p"


@pytest.fixture(params=["s3", "gs"])
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same in S3, and in Google Cloud Storage."""
    if request.param == "s3":
        yield request.getfixturevalue("root")
    else:
        (tmp_path / "gcs" / "bucket").mkdir(parents=True)
        with gcs_server(tmp_path / "gcs"):
            yield "gs://bucket/p"


@pytest.fixture
def to(root: str) -> Destination:
    return destination(root)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(2 * Destination.part_bytes + 1000))
    return path


def unfinished(bucket: Bucket) -> list[Any]:
    return bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


def test_a_file_is_created_once(each: str) -> None:
    info, to = FileInfo.of(b"hello"), destination(each)
    assert to.info(f"{each}/a") is None
    assert to.read(f"{each}/a") is None
    assert to.put_new(f"{each}/a", b"hello", info)
    assert not to.put_new(f"{each}/a", b"hello", info)
    with pytest.raises(OutputExistsError, match="another file is there: its CRC-32C is"):
        to.put_new(f"{each}/a", b"jello", FileInfo.of(b"jello"))
    assert to.info(f"{each}/a") == info
    assert to.read(f"{each}/a") == b"hello"
    assert to.put_new(f"{each}/b/c", b"", FileInfo.of(b""))
    assert to.below(each) == {"a": 5, "b/c": 0}
    assert to.read_back == 0
    to.delete(f"{each}/a")
    to.delete(f"{each}/a")
    assert to.below(each) == {"b/c": 0}


def test_a_large_file_is_sent_in_parts(each: str, large: Path) -> None:
    info, to = FileInfo.of_file(str(large)), destination(each)
    assert to.put_new(f"{each}/large", str(large), info)
    assert to.read(f"{each}/large") == large.read_bytes()
    assert not to.put_new(f"{each}/large", str(large), info)
    assert to.info(f"{each}/large") == info
    assert to.read_back == 0, "the store has the checksum of all parts"
    assert to.abort_unfinished(each) == 0


@pytest.mark.parametrize("tries", [1, 3])
def test_another_writer_has_not_ended(to: Destination, root: str, bucket: Bucket, tries: int) -> None:
    """S3 answers 409 as long as another writer is creating the file."""
    bucket.proxy.fault = lambda method, path, part: (
        "conflict" if method == "PUT" and [r.fault for r in bucket.proxy.requests].count("conflict") < tries else ""
    )
    if tries == 1:
        assert to.put_new(f"{root}/a", b"hello", FileInfo.of(b"hello"))
    else:
        with pytest.raises(StorageError, match="another writer sends the same file, 3 times"):
            to.put_new(f"{root}/a", b"hello", FileInfo.of(b"hello"))


def test_many_writers_of_one_file(root: str, large: Path, bucket: Bucket) -> None:
    """Each succeeds, as the workers of a cluster that write the same shard.

    How many of them created it is not compared: of requests at the same moment, SeaweedFS can accept several.
    """
    info = FileInfo.of_file(str(large))
    writers = [pickle.loads(pickle.dumps(destination(root))) for _ in range(4)]
    with ThreadPoolExecutor(len(writers)) as pool:
        for name, what in (("small", b"hello"), ("large", str(large))):
            size = FileInfo.of(what) if isinstance(what, bytes) else info
            created = list(pool.map(lambda each, n=name, w=what, s=size: each.put_new(f"{root}/{n}", w, s), writers))
            assert len(created) == len(writers)
    assert writers[0].read(f"{root}/large") == large.read_bytes()
    writers[0].abort_unfinished(root)
    assert not unfinished(bucket)


def test_only_uploads_below_the_prefix_are_aborted(to: Destination, root: str, bucket: Bucket) -> None:
    for key in ("p/x", "p2/x"):
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)
    assert to.abort_unfinished(root) == 1
    assert [upload["Key"] for upload in unfinished(bucket)] == ["p2/x"]


def test_a_damaged_local_file_is_not_sent(each: str, large: Path) -> None:
    to = destination(each)
    for what in (b"hello", large.read_bytes()):
        info = FileInfo.of(what)
        large.write_bytes(what[:-1] + bytes([what[-1] ^ 1]))
        with pytest.raises(IntegrityError, match="large: its CRC-32C is"):
            to.put_new(f"{each}/a", str(large), info)
    assert to.below(each) == {}
    assert to.abort_unfinished(each) == 0


def test_connections_of_all_files_that_are_sent_at_once_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server(tmp_path) as server, ThreadPoolExecutor(AT_ONCE) as pool:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        server.fault = lambda path, part: "late"
        to = destination("gs://bucket/x")
        found = [pool.submit(to.info, f"gs://bucket/x/{number}") for number in range(AT_ONCE)]
        until(lambda: len(server.requests) == AT_ONCE)
        server.late.set()
        assert [one.result() for one in found] == [None] * AT_ONCE
    assert "pool is full" not in caplog.text


def test_a_forked_child_writes(each: str) -> None:
    to = destination(each)
    assert to.put_new(f"{each}/a", b"hello", FileInfo.of(b"hello"))
    if not (child := os.fork()):
        os._exit(0 if to.put_new(f"{each}/b", b"hello", FileInfo.of(b"hello")) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert to.below(each) == {"a": 5, "b": 5}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, r"access denied.*permission to write"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "cannot be written: the server refuses connections"),
        ({"AWS_ACCESS_KEY_ID": ""}, "no valid credentials"),
    ],
)
def test_errors_name_the_cause(
    root: str, environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(StorageError, match=said) as caught:
        destination(root).put_new(f"{root}/a", b"", FileInfo.of(b""))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["hf://datasets/a/b", "az://c/d", "https://host/x", "s3://bucket", "s3://b/../c", "dir"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        destination(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://key:secret@bucket/name", "query or a password"),
        ("s3://bucket/name;sig=secret", "query or a password"),
        ("s3://bucket/na\nme", "control character, such as a newline"),
        ("s3://buck\net/name", "control character, such as a newline"),
        ("s3://bucket/a//b", "an empty part"),
        ("s3://bucket/", "names no prefix"),
    ],
)
def test_a_url_that_cannot_be_written_to_is_refused_with_its_reason(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        destination(url)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"GOOGLE_BASE_URL": "nonsense"}, "a setting in the environment is not valid"),
        (
            {"GOOGLE_SKIP_SIGNATURE": "", "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"},
            "no valid cred.*permission to write",
        ),
    ],
)
def test_errors_of_google_name_the_cause(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"GOOGLE_SKIP_SIGNATURE": "true"} | environment).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageError, match=said):
        destination("gs://bucket/p").put_new("gs://bucket/p/a", b"", FileInfo.of(b""))


def google_lies(size: int, sent: int) -> Any:
    """Answer as a Google Cloud Storage without checksums, whose file has `size` bytes, of which it sends `sent`."""
    state = json.dumps({"name": "a", "bucket": "bucket", "size": str(size), "generation": "7"}).encode()

    def answer(asked: str, token: str) -> tuple[int, dict[str, str], bytes]:
        if "alt=media" in asked:
            return 206, {"Content-Range": f"bytes 0-{size - 1}/{size}"}, bytes(sent)
        return 200, {"Content-Type": "application/json"}, state

    return answer


@pytest.mark.promise(74)
def test_a_file_of_google_is_read_in_pieces(each: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that is not small would fill the memory."""
    to, content = destination(each), os.urandom(5000)
    monkeypatch.setattr("shardfeed.storage.google_destination._PIECE", 1000)
    assert to.put_new(f"{each}/a", content, FileInfo.of(content))
    pieces = list(to._content(f"{each}/a"))
    assert b"".join(pieces) == to.read(f"{each}/a") == content
    if each.startswith("gs"):
        assert [*map(len, pieces)] == [1000] * 5
    monkeypatch.setattr(to, "info_of_store", lambda path: (len(content), None))
    assert to.info(f"{each}/a") == FileInfo.of(content)
    assert to.read_back == 1
    with pytest.raises(OutputExistsError, match="has 5000 bytes, expected 3"):
        to.put_new(f"{each}/a", b"abc", FileInfo.of(b"abc"))
    assert to.read_back == 1, "another size says enough"


@pytest.mark.promise(74)
def test_an_answer_of_google_has_no_more_bytes_than_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server(tmp_path) as server:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        server.answer = google_lies(100, 50 << 20)
        with pytest.raises(StorageError, match="more than the 100 bytes"):
            destination("gs://bucket/x").read("gs://bucket/x/a")


@pytest.mark.promise(74)
def test_a_side_file_of_google_that_is_huge_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server(tmp_path) as server:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        monkeypatch.setattr("shardfeed.storage.bucket_destination.SIDE_FILE_BYTES", 1 << 20)
        server.answer = google_lies(3 << 30, 8 << 20)
        with pytest.raises(StorageError, match="has more than"):
            destination("gs://bucket/x").read("gs://bucket/x/a")
        assert sum("alt=media" in path for _, path, _ in server.requests) == 1

"""Files written to buckets: whole and equal, or refused; sent once, whoever else sends them."""

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import IntegrityError, OutputExistsError, StorageError, UsageError
from shardfeed.storage.destination import Destination, destination
from shardfeed.storage.s3_destination import PART_BYTES
from shardfeed.storage.storage import FileInfo

from buckets import KEY, SECRET, Bucket, bucket_behind
from seaweed import seaweed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with seaweed(tmp_path_factory.mktemp("seaweed"), KEY, SECRET) as port:
        yield port


@pytest.fixture
def bucket(server: int, tmp_path: Path) -> Iterator[Bucket]:
    with bucket_behind(server, tmp_path, f"bucket{os.urandom(4).hex()}") as bucket:
        yield bucket


@pytest.fixture
def root(bucket: Bucket) -> str:
    return f"s3://{bucket.name}/p"


@pytest.fixture
def to(root: str) -> Destination:
    return destination(root)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(2 * PART_BYTES + 1000))
    return path


def unfinished(bucket: Bucket) -> list[Any]:
    return bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


def content(bucket: Bucket, name: str) -> bytes:
    return bucket.client.get_object(Bucket=bucket.name, Key=f"p/{name}")["Body"].read()


def test_a_file_is_created_once(to: Destination, root: str) -> None:
    info = FileInfo.of(b"hello")
    assert to.info(f"{root}/a") is None
    assert to.put_new(f"{root}/a", b"hello", info)
    assert not to.put_new(f"{root}/a", b"hello", info)
    with pytest.raises(OutputExistsError, match="another file is there: its CRC-32C is"):
        to.put_new(f"{root}/a", b"jello", FileInfo.of(b"jello"))
    assert to.info(f"{root}/a") == info
    assert to.put_new(f"{root}/b/c", b"", FileInfo.of(b""))
    assert to.below(root) == {"a": 5, "b/c": 0}
    assert to.read_back == 0
    to.delete(f"{root}/a")
    to.delete(f"{root}/a")
    assert to.below(root) == {"b/c": 0}


def test_a_large_file_is_sent_in_parts(to: Destination, root: str, large: Path, bucket: Bucket) -> None:
    info = FileInfo.of_file(str(large))
    assert to.put_new(f"{root}/large", str(large), info)
    assert content(bucket, "large") == large.read_bytes()
    assert not to.put_new(f"{root}/large", str(large), info)
    assert to.info(f"{root}/large") == info
    assert to.read_back == 0, "the store has the checksum of all parts"
    assert not unfinished(bucket)


def test_many_writers_of_one_file(root: str, large: Path, bucket: Bucket) -> None:
    """Each succeeds; one of them created it. As the workers of a cluster that write the same shard."""
    info = FileInfo.of_file(str(large))
    writers = [pickle.loads(pickle.dumps(destination(root))) for _ in range(4)]
    with ThreadPoolExecutor(len(writers)) as pool:
        for name, what in (("small", b"hello"), ("large", str(large))):
            size = FileInfo.of(what) if isinstance(what, bytes) else info
            created = list(pool.map(lambda each, n=name, w=what, s=size: each.put_new(f"{root}/{n}", w, s), writers))
            assert sum(created) <= 1
    assert content(bucket, "large") == large.read_bytes()
    writers[0].abort_unfinished(root)
    assert not unfinished(bucket)


def test_only_uploads_below_the_prefix_are_aborted(to: Destination, root: str, bucket: Bucket) -> None:
    for key in ("p/x", "p2/x"):
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)
    assert to.abort_unfinished(root) == 1
    assert [upload["Key"] for upload in unfinished(bucket)] == ["p2/x"]


def test_a_damaged_local_file_is_not_sent(to: Destination, root: str, large: Path, bucket: Bucket) -> None:
    for what in (b"hello", large.read_bytes()):
        info = FileInfo.of(what)
        large.write_bytes(what[:-1] + bytes([what[-1] ^ 1]))
        with pytest.raises(IntegrityError, match="large: its CRC-32C is"):
            to.put_new(f"{root}/a", str(large), info)
    assert to.below(root) == {}
    assert not unfinished(bucket)


def test_a_forked_child_writes(to: Destination, root: str) -> None:
    assert to.put_new(f"{root}/a", b"hello", FileInfo.of(b"hello"))
    if not (child := os.fork()):
        os._exit(0 if to.put_new(f"{root}/b", b"hello", FileInfo.of(b"hello")) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert to.below(root) == {"a": 5, "b": 5}


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


def test_a_signed_url_is_refused() -> None:
    with pytest.raises(UsageError, match="query or a password"):
        destination("s3://key:secret@bucket/name")

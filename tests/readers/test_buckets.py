"""Datasets in buckets and on web servers: the same samples as from the disk, in few requests, or one clear error."""

import logging
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import IntegrityError, StorageError, UsageError
from shardfeed.pipelines import Blocks, order_samples
from shardfeed.readers import Dataset, verify
from shardfeed.storage.objects import ObjectStorage
from shardfeed.testing.storage import StorageContract, Stored
from shardfeed.tools import cli

from web_server import WebServer, web_server

KEY, SECRET = "TESTKEY", "secret-of-the-tests"


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of an S3 server with a bucket, which the environment names."""
    boto3 = pytest.importorskip("boto3", reason="the tests' extra installs it")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client
    server.stop()


@pytest.fixture(scope="module")
def address(s3: Any, flowers: Dataset) -> str:
    """The dataset `flowers` in the bucket."""
    return upload(s3, flowers.directory, "flowers")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    (tmp_path / "served").mkdir()
    with web_server(tmp_path / "served") as server:
        yield server


class TestBucket(StorageContract):
    """The contract of a storage, by a bucket."""

    @pytest.fixture
    def stored(self, s3: Any, request: pytest.FixtureRequest) -> Stored:
        prefix = request.node.name

        def put(name: str, content: bytes) -> None:
            s3.put_object(Bucket="bucket", Key=f"{prefix}/{name}", Body=content)

        return ObjectStorage("s3://bucket"), f"s3://bucket/{prefix}", put


def upload(s3: Any, directory: str, prefix: str) -> str:
    """Copy a dataset into the bucket; return its address."""
    for path in Path(directory).rglob("*"):
        if path.is_file():
            s3.upload_file(str(path), "bucket", f"{prefix}/{path.relative_to(directory)}")
    return f"s3://bucket/{prefix}"


def serve(web: WebServer, dataset: Dataset) -> str:
    """Copy a dataset to the web server; return its address."""
    shutil.copytree(dataset.directory, web.folder / "flowers")
    return f"{web.url}/flowers"


def everything(dataset: Dataset) -> list[bytes]:
    train = dataset["train"]
    return train.payloads(np.arange(len(train)))


def test_a_dataset_in_a_bucket_is_the_same(address: str, flowers: Dataset) -> None:
    there = shardfeed.open(address)
    assert everything(there) == everything(flowers)
    assert there["train"][3] == flowers["train"][3]
    assert there.class_names == flowers.class_names
    key = "image/height"
    assert there["train"].column(key).tolist() == flowers["train"].column(key).tolist()
    assert verify(there.directory).damages == []
    again = pickle.loads(pickle.dumps(there["train"]))
    assert again.payloads(np.arange(5)) == everything(flowers)[:5]
    assert SECRET.encode() not in pickle.dumps(there)
    assert KEY.encode() not in pickle.dumps(there)


@pytest.mark.parametrize("form", ["webdataset", "mds"])
def test_containers_are_read_there_too(s3: Any, flowers_folder: Path, tmp_path: Path, form: Any) -> None:
    convert(ImageFolder(flowers_folder), tmp_path / form, to=form)
    here, there = shardfeed.open(tmp_path / form), shardfeed.open(upload(s3, str(tmp_path / form), form))
    assert everything(there) == everything(here)


@pytest.mark.parametrize("order", [None, "global", "blocks"])
def test_tensorflow_has_the_same_batches(address: str, flowers: Dataset, order: Any) -> None:
    there = shardfeed.open(address)
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5}
    expected = Blocks(block_bytes=8 << 20) if order is None else order
    local = shardfeed.train_batches(flowers["train"], **options, order=expected, start_step=2).take(4)
    remote = shardfeed.train_batches(there["train"], **options, order=order, start_step=2).take(4)
    compared = 0
    for (images, labels), (found, numbers) in zip(local, remote, strict=True):
        assert np.array_equal(images, found)
        assert np.array_equal(labels, numbers)
        compared += 1
    assert compared == 4


TORCH = """
import sys
import torch
import shardfeed
from shardfeed.pipelines.torch import torch_loader

if __name__ == "__main__":
    def batches(path):
        data = shardfeed.open(path)
        order = shardfeed.pipelines.Blocks(block_bytes=8 << 20)  # the default in a bucket
        options = {} if path == sys.argv[1] else {"order": order}
        return list(torch_loader(data["train"], batch_size=8, image_size=32, seed=5, workers=2, **options))
    for one, other in zip(batches(sys.argv[1]), batches(sys.argv[2]), strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    print("equal")
"""


def test_workers_of_pytorch_read_there(address: str, flowers: Dataset, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TORCH)
    command = [sys.executable, str(tmp_path / "script.py"), address, flowers.directory]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("equal\n", 0), done.stderr


FORKED = """
import os, sys
import shardfeed
data = shardfeed.open(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        try:
            data["train"][0] if len(sys.argv) == 3 else shardfeed.open(sys.argv[1])
            os._exit(1)
        except shardfeed.errors.StorageError as error:
            os._exit(0 if "forkserver" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print(len(data["train"][0]) > 0)
"""


@pytest.mark.parametrize("extra", [[], ["opened again"]])
def test_a_forked_process_gets_an_error_and_does_not_hang(address: str, flowers: Dataset, extra: list[str]) -> None:
    command = [sys.executable, "-c", FORKED, address, "10", *extra]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout == "True\n"


def test_opening_takes_three_requests(web: WebServer, flowers: Dataset) -> None:
    train = shardfeed.open(serve(web, flowers))["train"]
    assert [path for _, path, _ in web.requests] == ["/flowers/manifest.json"]  # a web server cannot list files
    web.requests.clear()
    count = len(train)
    train.payloads(np.arange(count))
    shards = len(train.shards.info.shards)
    assert len(web.requests) == 2 * shards + 1, "an index and a run each, and the manifest once"
    web.requests.clear()
    places = np.random.default_rng(0).permutation(count)[: count // 2]
    train.payloads(places)
    assert len(web.requests) <= len(places), "a range each"
    assert {method for method, _, _ in web.requests} == {"GET"}


def test_blocks_take_few_requests(web: WebServer, flowers: Dataset) -> None:
    train = shardfeed.open(serve(web, flowers))["train"]
    samples, order = order_samples(train, batch_size=8, seed=3)
    epoch = np.concatenate([order.batch(step) for step in range(order.steps_per_epoch)])
    everything(shardfeed.open(f"{web.url}/flowers"))
    train.payloads(np.arange(1))
    web.requests.clear()
    samples.payloads(epoch)
    shards = len(train.shards.info.shards)
    left_out = len(train) - len(epoch)
    assert len(web.requests) <= 2 * shards + left_out + 1


@pytest.mark.parametrize("fault", ["503", "cut", "flip"])
def test_faults_on_the_way_do_not_change_the_samples(web: WebServer, flowers: Dataset, fault: str) -> None:
    train = shardfeed.open(serve(web, flowers))["train"]
    asked: set[tuple[str, str]] = set()

    def fails(path: str, part: str) -> str:
        """The first request for each third part fails."""
        new = path.endswith(".tfrecord") and (path, part) not in asked
        asked.add((path, part))
        return fault if new and len(asked) % 3 == 0 else ""

    web.fault = fails
    places = np.random.default_rng(1).permutation(len(train))
    found = [payload for part in np.array_split(places, 8) for payload in train.payloads(part)]
    assert len(web.requests) > len(asked) > 10
    expected = everything(flowers)
    assert found == [expected[place] for place in places]


def test_unreadable_files_are_one_short_error(web: WebServer, flowers: Dataset, monkeypatch: Any) -> None:
    monkeypatch.setattr("shardfeed.storage.objects._TRIES", 1)
    train = shardfeed.open(serve(web, flowers))["train"]
    web.fault = lambda path, part: "whole" if path.endswith(".tfrecord") else ""
    with pytest.raises(StorageError, match=r"flowers/train-.*: bytes \d+ to \d+ cannot be read") as raised:
        train.payloads(np.arange(3))
    assert len(str(raised.value)) < 300
    with pytest.raises(UsageError, match="not a dataset"):
        shardfeed.open(f"{web.url}/none")
    with pytest.raises(UsageError, match="URL of another kind"):
        shardfeed.open("ftp://host/flowers")


@pytest.mark.parametrize("tags", [True, False])
def test_a_dataset_that_is_replaced_is_an_error(tmp_path: Path, flowers: Dataset, tags: bool) -> None:
    (tmp_path / "served").mkdir()
    with web_server(tmp_path / "served", tags=tags) as web:
        train = shardfeed.open(serve(web, flowers))["train"]
        train.payloads(np.arange(4))
        folder = web.folder / "flowers"
        for path in folder.rglob("*.tfrecord"):  # of the same names and sizes
            content = path.read_bytes()
            path.write_bytes(content[::-1])
            os.utime(path, (1, 1))
        with pytest.raises(IntegrityError, match="replaced"):
            train.payloads(np.arange(4))
        manifest = folder / "manifest.json"
        manifest.write_bytes(manifest.read_bytes()[:-2])
        with pytest.raises(IntegrityError):
            train.payloads(np.arange(len(train)))


def test_what_is_missing_there_is_named(web: WebServer, flowers: Dataset) -> None:
    address = serve(web, flowers)
    shard = next((web.folder / "flowers").rglob("train-00001*.tfrecord"))
    shard.unlink()
    train = shardfeed.open(address)["train"]
    with pytest.raises(IntegrityError, match=r"train-00001.*missing"):
        train.payloads(np.arange(len(train)))
    assert [damage.problem for damage in verify(address).damages] == ["missing"]


def test_a_missing_shard_in_a_bucket_is_named_at_opening(s3: Any, flowers: Dataset) -> None:
    address = upload(s3, flowers.directory, "missing")
    s3.delete_object(Bucket="bucket", Key=f"missing/{flowers.manifest.splits['train'].shard_file(1)}")
    with pytest.raises(IntegrityError, match=r"train-00001.*is missing"):
        shardfeed.open(address)


def test_commands_take_addresses(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["inspect"], ["verify"], ["preview", "-o", str(tmp_path / "sheet.png")]):
        assert cli.main([arguments[0], address, *arguments[1:]]) == 0
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    for arguments in (["bench"], ["export", str(tmp_path / "out"), "--to", "folder"]):
        assert cli.main([arguments[0], address, *arguments[1:]]) == 2
        assert "is a URL," in capsys.readouterr().err


def test_a_local_dataset_needs_no_client(flowers: Dataset) -> None:
    code = "import sys, shardfeed; shardfeed.open(sys.argv[1]); print('shardfeed.storage.objects' in sys.modules)"
    command = [sys.executable, "-c", code, flowers.directory]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("address", ["https://me:{}@host/flowers", "az://container/flowers?sv=1&sig={}"])
def test_an_address_with_a_secret_is_refused_without_it(address: str) -> None:
    with pytest.raises(UsageError, match="a query or a password") as raised:
        shardfeed.open(address.format(SECRET))
    assert SECRET not in str(raised.value)

"""A bucket of a real S3 server behind a proxy that fails as it is told, for tests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shardfeed.readers import Dataset

from faulty_proxy import Proxy, faulty_proxy

KEY, SECRET = "KEYOFTHETESTS1234", "secret-of-the-tests/0123456789"


@dataclass
class Bucket:
    """A bucket, the proxy before it, and a client that does without the proxy."""

    name: str
    proxy: Proxy
    client: Any

    def upload(self, dataset: Dataset, name: str) -> str:
        """Copy a dataset; return its address."""
        (self.proxy.folder / self.name).mkdir(exist_ok=True)
        (self.proxy.folder / self.name / name).symlink_to(dataset.directory)
        for path in Path(dataset.directory).rglob("*"):
            if path.is_file():
                key = f"{name}/{path.relative_to(dataset.directory)}"
                self.client.put_object(Bucket=self.name, Key=key, Body=path.read_bytes())
        return f"s3://{self.name}/{name}"


@contextmanager
def bucket_behind(port: int, folder: Path, name: str, key: str = KEY, secret: str = SECRET) -> Iterator[Bucket]:
    """A new bucket of the S3 server at a port of this machine, which the environment names until the block ends."""
    boto3 = pytest.importorskip("boto3", reason="the tests' extra installs it")
    logging.getLogger("botocore").setLevel(logging.ERROR)
    with faulty_proxy(port, folder) as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        session = boto3.Session(key, secret)  # boto3.client would remember the keys of the first server
        client = session.client("s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{port}")
        client.create_bucket(Bucket=name)
        yield Bucket(name, proxy, client)

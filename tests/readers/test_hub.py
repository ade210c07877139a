"""Datasets on the Hugging Face Hub, of which a server of ours plays the part: commits, redirects and tokens."""

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import open_source
from shardfeed.errors import StorageError, UsageError
from shardfeed.pipelines import Blocks
from shardfeed.readers import Dataset

from web_server import WebServer, web_server

TOKEN, COMMIT, LATER = "hf_secretofthetests", "0123456789" * 4, "a" * 40
REPOSITORY = "datasets/user/flowers"


@pytest.fixture
def hub(tmp_path: Path, flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A private repository: small files come from the server itself, others by a redirect, for which no token is."""
    folder = tmp_path / "served"
    shutil.copytree(flowers.directory, folder / REPOSITORY / "resolve" / COMMIT / "v 1")
    with web_server(folder) as files, web_server(folder) as server:

        def answer(path: str, token: str) -> Any:
            if token != f"Bearer {TOKEN}":
                return 401, {}, b""
            if path.startswith("/api/"):
                known = path == f"/api/{REPOSITORY}/revision/main"
                return (200, {}, json.dumps({"sha": COMMIT}).encode()) if known else (404, {}, b"")
            return None if path.endswith(".json") else (302, {"Location": files.url + path}, b"")

        def refused(path: str, token: str) -> Any:
            return (400, {}, b"") if token else None

        server.answer, files.answer = answer, refused
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def test_the_same_samples_of_one_commit(hub: WebServer, flowers: Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    there = shardfeed.open(f"hf://{REPOSITORY}/v 1")
    assert there.directory == f"hf://{REPOSITORY}@{COMMIT}/v 1"
    assert len(hub.requests) == 2
    everything = np.arange(len(flowers["train"]))
    expected = flowers["train"].payloads(everything)
    assert there["train"].payloads(everything) == expected
    again = pickle.dumps(there["train"])
    assert TOKEN.encode() not in again
    assert {path.split("/")[5] for _, path, _ in hub.requests if not path.startswith("/api/")} == {COMMIT}
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "token").write_text(TOKEN + "\n")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert pickle.loads(again).payloads(everything[:3]) == expected[:3]


@pytest.mark.long
def test_a_loader_reads_there(hub: WebServer, flowers: Dataset) -> None:
    splits = [shardfeed.open(f"hf://{REPOSITORY}/v 1")["train"], flowers["train"]]
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "order": Blocks(buffer=40), "workers": 0}
    batches = [list(shardfeed.torch_loader(each, **options)) for each in splits]
    for (x, y), (images, labels) in zip(*batches, strict=True):
        assert np.array_equal(x, images)
        assert np.array_equal(y, labels)


def test_what_is_not_there_or_private_is_said(hub: WebServer, monkeypatch: Any) -> None:
    with pytest.raises(UsageError, match=f"{REPOSITORY}@v2: no such repository or revision"):
        shardfeed.open(f"hf://{REPOSITORY}@v2")
    with pytest.raises(UsageError, match="not a dataset"):
        shardfeed.open(f"hf://{REPOSITORY}@{LATER}")
    for wrong in ("hf://user/model", "hf://datasets/flowers", f"hf://{REPOSITORY}@a@b"):
        with pytest.raises(UsageError, match=r"write hf://datasets/USER/REPO@REVISION"):
            shardfeed.open(wrong)
    with pytest.raises(UsageError, match="copy it to this machine"):
        open_source(f"hf://{REPOSITORY}")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    for revision in ("main", COMMIT):
        with pytest.raises(StorageError, match=r"access denied.*HF_TOKEN") as raised:
            shardfeed.open(f"hf://{REPOSITORY}@{revision}")
        assert "hf_wrong" not in str(raised.value)
    hub.answer = lambda path, token: (503, {}, b"")
    with pytest.raises(StorageError, match="cannot be read: HTTP status 503"):
        shardfeed.open(f"hf://{REPOSITORY}")

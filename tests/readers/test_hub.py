"""Datasets on the Hugging Face Hub, of which a server of ours plays the part: commits, redirects and tokens."""

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

from hub_server import COMMIT, LATER, REPOSITORY, TOKEN, hub_server
from web_server import WebServer


@pytest.fixture
def hub(tmp_path: Path, flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    with hub_server(tmp_path / "served") as hub:
        shutil.copytree(flowers.directory, hub.files(COMMIT) / "v 1")
        monkeypatch.setenv("HF_ENDPOINT", hub.web.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub.web


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
    with pytest.raises(UsageError, match=f"{REPOSITORY}@v2: no such repository, revision or folder"):
        shardfeed.open(f"hf://{REPOSITORY}@v2")
    with pytest.raises(UsageError, match="not a dataset"):
        shardfeed.open(f"hf://{REPOSITORY}@{LATER}")
    for wrong in ("hf://user/model", "hf://datasets/flowers", f"hf://{REPOSITORY}@a@b"):
        with pytest.raises(UsageError, match=r"write hf://datasets/USER/REPO@REVISION"):
            shardfeed.open(wrong)
        with pytest.raises(UsageError, match=r"write hf://datasets/USER/REPO@REVISION"):
            open_source(wrong)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    for revision in ("main", COMMIT):
        with pytest.raises(StorageError, match=r"access denied.*HF_TOKEN") as raised:
            shardfeed.open(f"hf://{REPOSITORY}@{revision}")
        assert "hf_wrong" not in str(raised.value)
    monkeypatch.setattr("shardfeed.storage.hub.DEADLINE_SECONDS", 1)
    hub.answer = lambda path, token: (503, {}, b"")
    with pytest.raises(StorageError, match="cannot be read: HTTP status 503"):
        shardfeed.open(f"hf://{REPOSITORY}")

"""Sources on the Hugging Face Hub: the shards of the same source on a disk; and what its own client uploads."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import convert, open_source, pull
from shardfeed.converters.existing.split import reshard
from shardfeed.converters.sources import remote
from shardfeed.errors import StorageError, UsageError
from shardfeed.readers import Dataset, verify
from shardfeed.storage.hub import files_below

from hub_server import COMMIT, FORMER, LATER, REPOSITORY, TOKEN, Hub, hub_server, speak_lfs

HERE = f"hf://{REPOSITORY}"


@pytest.fixture
def hub(tmp_path: Path, flowers_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A repository of a folder of classes, `photos`, and the files of a repository."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    remote._storage.cache_clear()  # the server of each test has another port
    with hub_server(tmp_path / "served") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.web.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        shutil.copytree(flowers_folder, hub.files(COMMIT) / "photos")
        (hub.files(COMMIT) / "README.md").write_text("---\nlicense: mit\n---\n# Flowers\n")
        yield hub


def shards(dataset: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in dataset.rglob("*.tf*")}


def test_a_folder_there_gives_the_shards_of_the_folder_here(hub: Hub, flowers_folder: Path, tmp_path: Path) -> None:
    hub.page, hub.busy = 50, 2
    convert(flowers_folder, tmp_path / "here", shards=2, workers=1)
    convert(f"{HERE}/photos", tmp_path / "there", shards=2, workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here") != {}
    asked = hub.api()
    assert asked[0].endswith("/revision/main")
    pages = -(-len([*flowers_folder.rglob("*")]) // 50)
    assert len({one for one in asked if "/tree/" in one}) == pages > 1
    assert not any("/revision/" in one for one in asked[3:])


def test_tables_and_parquet_there(hub: Hub, flowers: Dataset, flowers_folder: Path, tmp_path: Path) -> None:
    files = hub.files(COMMIT)
    reshard(flowers.directory, tmp_path / "parquet", to="parquet")
    shutil.copytree(tmp_path / "parquet/data", files / "data")
    shutil.rmtree(files / "photos/tulip", ignore_errors=True)
    names = sorted(path.relative_to(files).as_posix() for path in (files / "photos").rglob("*.jpg"))[:6]
    (files / "labels.csv").write_text("".join(["file,label\n", *(f"{name},{name.split('/')[1]}\n" for name in names)]))
    assert len(open_source(f"{HERE}@{COMMIT}/labels.csv")) == 6
    there = open_source(f"{HERE}/data")
    assert len(there) == sum(map(len, flowers.values()))
    one = next(iter(sorted((files / "data").iterdir())))
    assert 0 < len(open_source(f"{HERE}/data/{one.name}")) <= len(there)


def test_what_changes_after_the_listing_does_not_matter(hub: Hub, flowers_folder: Path, tmp_path: Path) -> None:
    source = open_source(f"{HERE}/photos")
    shutil.copytree(hub.files(COMMIT), hub.files(LATER))
    image = next((hub.files(LATER) / "photos").rglob("*.jpg"))
    image.write_bytes(b"\0" * image.stat().st_size)
    hub.main = LATER
    convert(source, tmp_path / "there", workers=1)
    convert(flowers_folder, tmp_path / "here", workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")


def test_what_is_not_there_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, said in (
        (f"{HERE}/none", "no such file or folder; check the URL"),
        (f"{HERE}@v2/photos", "no such repository, revision or folder"),
        (f"{HERE}/photos?token=1", "got a URL with a query or a password"),
    ):
        with pytest.raises(UsageError, match=said) as raised:
            open_source(wrong)
        assert str(raised.value).startswith(HERE)
    monkeypatch.setattr("shardfeed.storage.hub.DEADLINE_SECONDS", 1)
    hub.busy = 3
    with pytest.raises(StorageError, match=r"HTTP status 429, after .*; run the same command again later"):
        open_source(f"{HERE}/photos")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(StorageError, match=r"access denied.*set HF_TOKEN"):
        open_source(f"{HERE}@{COMMIT}/photos")


def test_a_repository_is_read_by_the_name_that_it_has_now(hub: Hub, flowers: Dataset, tmp_path: Path) -> None:
    shutil.copytree(flowers.directory, hub.files(COMMIT) / "v1")
    former = f"hf://{FORMER}"
    assert shardfeed.open(f"{former}/v1").directory == f"{HERE}@{COMMIT}/v1"
    hub.web.requests.clear()
    convert(f"{former}/photos", tmp_path / "out", shards=2, workers=1)
    assert [path for _, path, _ in hub.web.requests if FORMER in path] == [f"/api/{FORMER}/revision/main"]
    convert(f"{HERE}/photos", tmp_path / "same", shards=2, workers=1)
    assert shards(tmp_path / "out") == shards(tmp_path / "same") != {}
    # With a commit no name is asked for: each request is redirected, and takes the token along.
    assert len(open_source(f"{former}@{COMMIT}/photos")) == len(open_source(f"{HERE}/photos"))
    there = shardfeed.open(f"{former}@{COMMIT}/v1")["train"]
    assert there[0]["image/encoded"] == flowers["train"][0]["image/encoded"]
    with pytest.raises(UsageError, match="no such file or folder"):
        open_source(f"{former}@{COMMIT}/none")


def test_a_listing_that_breaks_off_is_an_error(hub: Hub) -> None:
    hub.page, hub.lost = 50, True
    with pytest.raises(StorageError, match=r"photos: its listing broke off.*run the same command again later"):
        open_source(f"{HERE}/photos")


@pytest.mark.long
def test_what_the_hubs_own_client_uploads_is_read_and_lists_what_we_list(
    hub: Hub, flowers: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pytest.importorskip("huggingface_hub", reason="pip install huggingface_hub, to test with it")
    speak_lfs(tmp_path / "home", monkeypatch)
    api = client.HfApi(endpoint=hub.web.url, token=TOKEN)
    repository = REPOSITORY.removeprefix("datasets/")
    api.upload_folder(repo_id=repository, repo_type="dataset", folder_path=flowers.directory, path_in_repo="v1")
    there = shardfeed.open(f"{HERE}/v1")
    assert there.directory == f"hf://{REPOSITORY}@{LATER}/v1"
    assert [one["image/encoded"] for one in there["train"][:5]] == [
        one["image/encoded"] for one in flowers["train"][:5]
    ]
    assert not verify(f"{HERE}/v1").damages
    pull(f"{HERE}/v1", tmp_path / "copy")
    assert not verify(tmp_path / "copy").damages
    hub.page = 50
    tree = api.list_repo_tree(repository, "photos", repo_type="dataset", recursive=True)
    listed = {one.path: one.size for one in tree if hasattr(one, "size")}
    assert listed == dict(file for page in files_below(f"{HERE}@{LATER}", "photos") for file in page)
    name = next(iter(listed))
    fetched = client.hf_hub_download(
        repository, name, repo_type="dataset", endpoint=hub.web.url, token=TOKEN, local_dir=tmp_path / "fetched"
    )
    assert os.path.getsize(fetched) == listed[name]

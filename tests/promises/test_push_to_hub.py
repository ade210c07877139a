"""A dataset pushed to the Hugging Face Hub, of which a server of ours plays the part: whole in one commit, or not."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import CardOptions, card, pull, push, reshard
from shardfeed.errors import IntegrityError, MissingExtraError, OutputExistsError, StorageError, UsageError
from shardfeed.naming import BESIDE, CARD, MANIFEST
from shardfeed.readers import Dataset, verify
from shardfeed.storage.address import destination
from shardfeed.tools.cli import main as command

from hub_server import COMMIT, LATER, REPOSITORY, TOKEN, Hub, hub_server, speak_lfs

HERE = f"hf://{REPOSITORY}"
needs_client = pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A repository with one file, in which files of a shard's size are large."""
    speak_lfs(tmp_path / "home", monkeypatch)
    with hub_server(tmp_path / "served") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.web.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        (hub.files(COMMIT) / ".gitattributes").write_text("*.tar filter=lfs\n")
        yield hub


@pytest.fixture
def mine(tmp_path: Path, flowers: Dataset) -> Path:
    """A dataset with a card."""
    shutil.copytree(flowers.directory, tmp_path / "mine")
    card(tmp_path / "mine", CardOptions(license="mit"))
    return tmp_path / "mine"


def files(directory: str | Path) -> dict[str, bytes]:
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@needs_client
def test_there_and_back(hub: Hub, mine: Path, tmp_path: Path) -> None:
    expected = files(mine)
    hub.ignored = {"manifest.json", f"v 1/{MANIFEST}"}
    seen: list[int] = []
    pushed = push(mine, f"{HERE}/v 1/", progress=seen.append)
    assert pushed.sent == pushed.files == len(seen) == len(expected)
    assert sum(seen) == pushed.size == sum(map(len, expected.values()))
    assert files(hub.files(LATER) / "v 1") == expected
    assert len([path for method, path, _ in hub.web.requests if "/commit/" in path]) == 1
    large = [path for method, path, _ in hub._files.requests if method == "PUT"]
    assert len(large) == len({*large}) > 2
    assert shardfeed.open(f"{HERE}/v 1").directory == f"{HERE}@{LATER}/v 1"
    assert not verify(f"{HERE}/v 1").damages
    assert pull(f"{HERE}/v 1", tmp_path / "back").files == len(expected)
    assert files(tmp_path / "back") == expected
    hub.api()
    assert push(mine, f"{HERE}/v 1").sent == 0
    assert not any("POST" in one and "paths-info" not in one for one in hub.api())
    assert hub.main == LATER


@needs_client
def test_at_the_top_of_a_branch(hub: Hub, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.branches["v1.0"] = COMMIT
    assert command(["push", str(mine), f"{HERE}@v1.0"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{HERE}@v1.0: {len(files(mine))} files")
    assert not any(word in said.err for word in ("Upload", "Processing"))
    assert files(hub.files(hub.branches["v1.0"])) == files(mine) | files(hub.files(COMMIT))
    assert hub.main == COMMIT
    assert shardfeed.open(f"{HERE}@v1.0").keys() == shardfeed.open(mine).keys()


@needs_client
def test_only_what_was_asked_for_is_replaced(hub: Hub, mine: Path, tmp_path: Path) -> None:
    """Another dataset, another card: an error, unless it is to be replaced, which one commit does."""
    reshard(mine, tmp_path / "other", shards=3)
    push(mine, HERE)
    first = hub.main
    (mine / CARD).write_text("mine\n")
    for directory, place in ((tmp_path / "other", f"{HERE}/{MANIFEST}"), (mine, f"{HERE}/{CARD}")):
        with pytest.raises(OutputExistsError, match="replace=True") as raised:
            push(directory, HERE)
        assert raised.value.place == place
    assert push(mine, HERE, replace=True).sent == 1
    assert (hub.files(hub.main) / CARD).read_text() == "mine\n"
    card(tmp_path / "other")
    push(tmp_path / "other", HERE, replace=True)
    assert files(hub.files(hub.main)) == files(tmp_path / "other") | files(hub.files(COMMIT))
    assert shardfeed.open(f"{HERE}@{first}").directory == f"{HERE}@{first}"
    (hub.files(hub.main) / MANIFEST).unlink()
    for name in BESIDE:
        (mine / name).unlink()
    with pytest.raises(OutputExistsError, match="is a file of a dataset, but not of this one"):
        push(mine, HERE)


@needs_client
def test_replacing_removes_a_file_that_does_not_belong_to_the_same_dataset(hub: Hub, mine: Path) -> None:
    push(mine, HERE)
    (hub.files(hub.main) / "train-00000-of-00099.tfrecord").write_bytes(b"stale")
    with pytest.raises(OutputExistsError, match="replace=True"):
        push(mine, HERE)
    assert push(mine, HERE, replace=True).sent == 0
    assert files(hub.files(hub.main)) == files(mine) | files(hub.files(COMMIT))


@needs_client
def test_other_datasets_and_files_below_are_kept(hub: Hub, mine: Path, tmp_path: Path) -> None:
    """To replace a dataset of another format removes its files, not those of a dataset in a folder below."""
    for name in ("mds", "parquet"):
        reshard(mine, tmp_path / name, to=name)
    push(tmp_path / "mds", HERE)
    push(tmp_path / "parquet", f"{HERE}/below")
    push(mine, HERE, replace=True)
    below = {f"below/{name}": content for name, content in files(tmp_path / "parquet").items()}
    assert files(hub.files(hub.main)) == files(mine) | below | files(hub.files(COMMIT))
    push(tmp_path / "mds", HERE, replace=True)
    kept = {CARD: (mine / CARD).read_bytes()}  # people edit it; croissant.json has the checksums of the other dataset
    assert files(hub.files(hub.main)) == files(tmp_path / "mds") | kept | below | files(hub.files(COMMIT))


@needs_client
def test_a_missing_file_is_pushed_again(hub: Hub, mine: Path) -> None:
    push(mine, HERE)
    shard = next((hub.files(LATER)).glob("train-*"))
    shard.unlink()
    assert push(mine, HERE).sent == 1
    assert files(hub.files(hub.main)) == files(mine) | files(hub.files(COMMIT))


@needs_client
def test_what_was_changed_meanwhile_or_damaged_is_not_committed(hub: Hub, mine: Path) -> None:
    def changed(size: int) -> None:
        hub.main = LATER

    shutil.copytree(hub.files(COMMIT), hub.files(LATER))
    with pytest.raises(StorageError, match="another commit was made meanwhile; run the same command again"):
        push(mine, HERE, progress=changed)
    assert files(hub.files(LATER)) == files(hub.files(COMMIT))
    shard = next(mine.glob("train-*"))
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + b"\0")
    with pytest.raises(IntegrityError, match="its CRC-32C is"):
        push(mine, HERE)
    shard.write_bytes(content)
    sent = len(hub._files.requests)
    assert push(mine, HERE).sent == len(files(mine))
    assert len(hub._files.requests) <= sent + 1, "what was uploaded before is there; but the damaged shard"


@needs_client
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, {"X-Error-Message": "no right to write"}, b""), r"access denied \(HTTP status 403\): .*hf auth login"),
        ((422, {}, b'{"error": "too many files"}'), "HTTP status 422: .*too many files"),
    ],
)
def test_a_refusal_says_why(hub: Hub, mine: Path, answer: Any, said: str) -> None:
    hub.refuses = answer
    with pytest.raises(StorageError, match=said) as raised:
        push(mine, HERE)
    assert TOKEN not in str(raised.value)
    assert hub.main == COMMIT


@needs_client
@pytest.mark.parametrize(
    "body", [b'{"commitUrl": "x", "commitOid": "z", "hookOutput": ""}', b"{}", b"[]", b"5", b"<html>", b"[" * 100_000]
)
def test_an_answer_to_a_commit_that_is_not_the_hubs(hub: Hub, mine: Path, body: bytes) -> None:
    hub.refuses = (200, {"Content-Type": "application/json"}, body)
    with pytest.raises(StorageError, match=r"the answer is not the Hub's: .*; check HF_ENDPOINT"):
        push(mine, HERE)


@needs_client
def test_a_card_that_the_hub_refuses(hub: Hub, mine: Path) -> None:
    posted = hub.web.posted
    hub.web.posted = lambda path, token, body: (
        (400, {}, json.dumps({"errors": [{"message": '"license" must be one of'}]}).encode())
        if path == "/api/validate-yaml"
        else posted(path, token, body)
    )
    with pytest.raises(
        StorageError, match=r'Invalid metadata in README.md.*"license" must be one of; correct the lines'
    ):
        push(mine, HERE)


@needs_client
@pytest.mark.long
def test_the_advice_for_a_branch_is_typed(hub: Hub, mine: Path) -> None:
    with pytest.raises(UsageError, match="no such repository or branch") as raised:
        push(mine, f"{HERE}@v2")
    advised = re.findall("`(.*?)`", raised.value.remedy)
    assert len(advised) == 2
    for one in advised:
        subprocess.run([Path(sys.executable).with_name("hf"), *one.split()[1:]], check=True, stdout=subprocess.DEVNULL)
    assert push(mine, f"{HERE}@v2").sent == len(files(mine))


@needs_client
def test_places_that_cannot_be_pushed_to(hub: Hub, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, said in (
        (f"{HERE}@v2", r"no such repository or branch; .*hf repos branch create user/flowers v2 --repo-type dataset"),
        ("hf://datasets/user/none", "create it with `hf repos create user/none --repo-type dataset --exist-ok`$"),
        (f"{HERE}@a%20%60b", r"hf repos branch create user/flowers 'a `b' --repo-type dataset"),
        (f"{HERE}@{COMMIT}", "is a commit|got a commit"),
        (f"{HERE}/a/../b", "has an empty part"),
        (f"{HERE}?token={TOKEN}", "query or a password"),
        ("hf://user/model", "write hf://datasets/USER/REPO"),
    ):
        with pytest.raises(UsageError, match=said) as raised:
            push(mine, url)
        assert TOKEN not in str(raised.value)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(StorageError, match="access denied") as caught:
        push(mine, HERE)
    assert "hf_wrong" not in str(caught.value)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=r"cannot be read: URLError, .*; check the network"):
        push(mine, HERE)


def test_without_the_client(hub: Hub, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"huggingface_hub is not installed; pip install 'shardfeed\[cloud-wr"):
        push(mine, HERE)
    with pytest.raises(UsageError, match="copy it with `shardfeed push DIR URL`"):
        destination(HERE)


CHILD = "import sys; from shardfeed.converters import push; push(*sys.argv[1:])"


@needs_client
@pytest.mark.long
@pytest.mark.parametrize("at", ["preupload", "batch", "PUT", "verify", "commit"])
@pytest.mark.parametrize("after", [False, True], ids=["unsent", "unanswered"])
def test_killed_at_each_kind_of_request(hub: Hub, mine: Path, at: str, after: bool) -> None:
    """Another process sees the commit before, or the whole dataset; the same command goes on."""
    running: list[subprocess.Popen[bytes]] = []

    def strike() -> None:
        running[0].send_signal(signal.SIGKILL)
        running[0].wait()

    def killing(answer: Any) -> Any:
        def answered(path: str, token: str, body: bytes) -> Any:
            method = "PUT" if path.startswith("/lfs/") and not path.endswith("verify") else ""
            hit = at in (path.rpartition("?")[0] or path).split("/") or at == method
            if hit and running[0].poll() is None and not after:
                strike()
                return 500, {}, b""
            said = answer(path, token, body)
            if hit and running[0].poll() is None:
                strike()
            return said

        return answered

    for server in (hub.web, hub._files):
        server.posted = killing(server.posted)
    running.append(subprocess.Popen([sys.executable, "-c", CHILD, str(mine), HERE]))
    assert running[0].wait() == -signal.SIGKILL
    assert (hub.main == LATER) == (after and at == "commit")
    stored = {f"/lfs/{path.name}" for path in (hub.files(COMMIT).parents[4] / "lfs").iterdir()}
    hub._files.requests.clear()
    assert push(mine, HERE).sent == (0 if hub.main == LATER and after and at == "commit" else len(files(mine)))
    again = {path for method, path, _ in hub._files.requests if method == "PUT"}
    assert not again & stored
    assert files(hub.files(hub.main)) == files(mine) | files(hub.files(COMMIT))

"""No secret is in anything that is written or printed, nor in a command line: everything is searched for them."""

import base64
import json
import os
import pickle
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lying_server import Request, lying_server
from secret_scan import Scan

from shardfeed.errors import StorageError
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

from buckets import bucket_behind
from hub_server import REPOSITORY, TOKEN, hub_server, speak_lfs
from repository import SUPPORT
from seaweed import seaweed
from web_server import WebServer, web_server

pytestmark = pytest.mark.promise(60)

MARKS = ("AWS4-HMAC-SHA256", "X-Amz-Signature")  # of a signed request
COMMIT = "0123456789" * 4


def new_secrets() -> dict[str, str]:
    """Conspicuous ones, new each time: another run of this test must not find them."""
    names = ("access key", "secret key", "session token", "signature", "password", "hub", "azure key", "google key")
    made = {name: f"{secrets.token_hex(8)}/+{secrets.token_hex(8)}" for name in names}
    for name in ("access key", "signature", "password", "hub"):
        made[name] = secrets.token_hex(12)
    made["azure key"] = base64.b64encode(made["azure key"].encode()).decode()
    return made


@dataclass
class World:
    """A folder with all that a program of the tests may write, and its environment."""

    folder: Path
    scan: Scan
    environment: dict[str, str]
    lines: list[str] = field(default_factory=list)
    before: set[str] = field(default_factory=lambda: set(os.listdir("/dev/shm")))

    def look(self) -> None:
        """Search everything that is there at this moment."""
        shared = [Path("/dev/shm", name) for name in sorted(set(os.listdir("/dev/shm")) - self.before)]
        mine = [path for path in shared if path.name.startswith("shardfeed-") and path.is_dir()]
        self.scan.files([self.folder, *mine])
        for path in shared:
            if path.is_file():
                self.scan.search(str(path), path.read_bytes())
        self.scan.commands()

    def run(
        self,
        arguments: list[str],
        more: dict[str, str] | None = None,
        *,
        until: str = "",
        at: Callable[[str], None] = lambda name: None,
    ) -> int:
        """Run a program, and look at each of its moments; kill it at one whose name begins with `until`."""
        where = self.folder / "work"
        number = len(list(self.folder.glob("printed-*")))
        environment = {name: value for name, value in (self.environment | (more or {})).items() if value}
        with ExitStack() as stack:
            printed = stack.enter_context(open(self.folder / f"printed-{number}", "wb"))
            errors = stack.enter_context(open(self.folder / f"errors-{number}", "wb"))
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=where,
                    env=environment,
                )
            )
            stack.callback(process.kill)
            for line in process.stdout:
                printed.write(line)
                printed.flush()
                if line.startswith(b"@ "):
                    name = line[2:].decode().strip()
                    self.look()
                    if until and name.startswith(until):
                        process.kill()
                        break
                    at(name)
                    process.stdin.write(b"\n")
                    process.stdin.flush()
            status = process.wait()
        self.look()
        text = (self.folder / f"errors-{number}").read_text(errors="replace")
        assert status == (-9 if until else 0), text[-3000:]
        return status

    def door(self, stage: str, *arguments: str, **options: Any) -> None:
        """Run a stage of `bucket_uses.py`."""
        self.run([str(SUPPORT / "bucket_uses.py"), stage, *arguments], **options)


@pytest.fixture
def known() -> dict[str, str]:
    return new_secrets()


@pytest.fixture
def world(known: dict[str, str]) -> Iterator[World]:
    """In a directory with a short name: sockets below TMPDIR have names of at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="sf", dir="/tmp") as made:
        folder = Path(made)
        for name in ("tmp", "home", "work"):
            (folder / name).mkdir()
        kept = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "PYTHONUNBUFFERED": "1"}
        environment |= {"PYTHONPATH": str(SUPPORT / "debugging"), "RUST_LOG": "trace", "RUST_BACKTRACE": "1"}
        environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}
        environment |= {"AWS_ACCESS_KEY_ID": known["access key"], "AWS_SECRET_ACCESS_KEY": known["secret key"]}
        searched = known | {mark: mark for mark in MARKS}
        yield World(folder, Scan(searched), environment)


def test_the_search_finds_a_secret(world: World, known: dict[str, str]) -> None:
    """As it is, and as URLs, JSON, base64, UTF-16 and pickles have it; in files, names, links and command lines."""
    secret = known["secret key"]
    ways = {
        "plain": secret.encode(),
        "query": quote(secret, safe="").encode(),
        "json": json.dumps(secret).replace("/", r"\/").encode(),
        "hex": secret.encode().hex().encode(),
        "utf-16": secret.encode("utf-16-le"),
        **{f"basic-{size}": base64.b64encode(b"u" * size + secret.encode() + b":x") for size in range(5)},
        "url-safe": base64.urlsafe_b64encode(secret.encode()),
    }
    place = world.folder / "work" / "deep" / "er"
    place.mkdir(parents=True)
    world.look()
    assert not world.scan.found
    for name, content in ways.items():
        (place / name).write_bytes(b"\0\xff" + content + b"\n")
    (place / "link").symlink_to(f"/x/{known['password']}")
    (place / known["signature"]).mkdir()
    program = [sys.executable, "-c", "print(flush=True); input()", f"--token={known['session token']}"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # until it runs, /proc may show no command line
        world.look()
        process.communicate(b"\n")
    expected = {(str(place / name), "secret key") for name in ways}
    expected |= {
        (str(place / "link"), "password"),
        (str(place), "signature"),
        (" ".join(program) + " ", "session token"),
    }
    assert world.scan.found == expected


@pytest.mark.parametrize(
    "address",
    [
        "s3://{access key}:{secret key}@bucket/x",
        "az://container/x?sv=1&sig={signature}",
        "HTTPS://me:{password}@host:443/x?{signature}",
        "ftp://me:{password}@host/x?sig={signature}",
        "https://host/x#{session token}",
        "https://host/x;{session token}",
        "s3://bucket/x;token={session token}",
        "gs://bucket/x y#token={session token}",
    ],
)
def test_no_command_shows_a_secret_that_was_typed(
    tmp_path: Path,
    known: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
) -> None:
    """Where an address is expected, and where none is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "1.jpg").write_bytes(b"")
    typed = address.format_map(known)
    commands = ["adopt URL", "append URL images out", "append images URL out", "bench URL", "export URL out --to csv"]
    commands += ["filter URL out", "inspect URL", "merge URL URL out", "preview URL", "rebuild URL", "relabel URL out"]
    commands += ["remove URL out", "report URL", "report URL URL -o x.html", "reshard URL out --shards 2"]
    commands += ["salvage URL out", "split URL out", "verify URL", "demo URL", "convert URL out --log log"]
    commands += [f"convert images {rest}" for rest in ("URL", "out --labels URL", "out --images URL", "out --log URL")]
    commands += ["convert images out --class-names URL", "preview images -o URL", "report images -o URL", "URL"]
    for command in commands:
        status = main([typed if word == "URL" else word for word in command.split()])
        assert status == 2, command
    scan = Scan(known)
    scan.files([tmp_path])
    scan.search("printed", "".join(capfd.readouterr()).encode())
    assert not scan.found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pw@host:80/a?sig=1: gone, see http://h/b?c&d, or 'az://c/d?sv=1'", "https://host:80/a"),
        ("s3://KEY:se/cr@et@bucket/a", "s3://bucket/a"),
        ("https://host/a#se/cr: gone", "https://host/a"),
        ("https://host/a;se/cr;v=1/b?c&d", "https://host/a"),
        ("az://c/a#sv=1", "az://c/a"),
        ("az://c/a;sv=1", "az://c/a"),
        ("s3://bucket/C#/a;b.jpg: gone; renew", "s3://bucket/C#/a;b.jpg: gone; renew"),
        ("http://host:80/a@b/c?d", "http://host:80/a@b/c"),
        ("hf://datasets/user/repository@main/what?.jpg", "hf://datasets/user/repository@main/what?.jpg"),
        ("/data/me@x?a=b", "/data/me@x?a=b"),
    ],
)
def test_errors_have_addresses_without_secrets(text: str, expected: str) -> None:
    error = pickle.loads(pickle.dumps(StorageError(text, f"got {text}", f"not {text}")))
    assert error.place.startswith(expected)
    for part in (*error.args, str(error)):
        assert expected in part
        assert not re.search("pw|se/cr|sig=|c&d|sv=", part)


@pytest.mark.promise(76)
@pytest.mark.parametrize("status", [400, 403, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["text", "JSON", "header", "base64", "percent"])
def test_a_hub_that_repeats_a_header(
    flowers: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any, status: int, form: str
) -> None:
    """In its answer to a commit: neither the command nor the Hub's own client prints the token."""
    pytest.importorskip("huggingface_hub")
    speak_lfs(tmp_path / "home", monkeypatch)
    token = {"base64": base64.b64encode(f"user:{TOKEN}".encode()).decode(), "percent": quote(f"{TOKEN}", safe="")}
    said = f"bad header Authorization of x: Bearer {token.get(form, TOKEN)}"
    body = json.dumps({"error": said}) if form == "JSON" else said
    with hub_server(tmp_path / "served") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.web.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        hub.refuses = status, {"X-Error-Message": said} if form == "header" else {}, body.encode()
        assert main(["push", flowers.directory, f"hf://{REPOSITORY}/v1"]) == StorageError.exit_code
    printed = "".join(capfd.readouterr())
    assert "bad header" in printed
    assert TOKEN not in printed
    assert token.get(form, TOKEN) not in printed


@pytest.mark.promise(76)
@pytest.mark.parametrize("where", ["body", "reason", "redirect"])
@pytest.mark.parametrize("command", ["inspect URL", "pull URL out", "convert URL out", "push DATASET URL"])
@pytest.mark.parametrize("url", ["hf://datasets/u/r", "s3://bucket/d"])
def test_a_server_that_repeats_all_headers(
    flowers: Dataset,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: Any,
    where: str,
    command: str,
    url: str,
) -> None:
    known = new_secrets()
    environment = {"HF_TOKEN": known["hub"], "AWS_SESSION_TOKEN": known["session token"], "AWS_REGION": "us-east-1"}
    environment |= {"AWS_ACCESS_KEY_ID": known["access key"], "AWS_SECRET_ACCESS_KEY": known["secret key"]}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def answer(request: Request) -> None:
        repeated = request.head if where == "body" else " ".join(request.head.split())
        if where == "redirect":
            request.send(307, Location=f"http://elsewhere.invalid/{quote(repeated)}?{quote(repeated)}")
        elif where == "reason":
            request.connection.sendall(f"HTTP/1.1 400 {repeated}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"))
        else:
            request.send(400, f"<Error><Code>{repeated}</Code><Message>{repeated}</Message></Error>".encode())

    with lying_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        server.answer = answer
        words = [{"URL": url, "DATASET": flowers.directory}.get(word, word) for word in command.split()]
        assert main(words) in (2, 5)
    scan = Scan(known)
    scan.search("printed", "".join(capfd.readouterr()).encode())
    assert not scan.found


def upload(client: Any, bucket: str, folder: Path, prefix: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), bucket, f"{prefix}/{path.relative_to(folder)}")


@pytest.mark.long
def test_no_secret_is_left_by_any_door(
    world: World, known: dict[str, str], flowers: Dataset, flowers_folder: Path, tmp_path: Path
) -> None:
    """From and to a real S3 server that knows the keys: read, push, pull, train, kill, go on, convert."""
    for name in ("server", "proxy"):
        (tmp_path / name).mkdir()
    bad = Path(shutil.copytree(flowers_folder, tmp_path / "photos"))
    (bad / "rose" / "9999.jpg").write_bytes(b"no image")
    name = f"flowers-{world.folder.name}"
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = {known['access key']}\naws_secret_access_key = {known['secret key']}\n"
    )
    by_file = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    by_file |= {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    with ExitStack() as stack:
        port = stack.enter_context(seaweed(tmp_path / "server", known["access key"], known["secret key"]))
        bucket = stack.enter_context(
            bucket_behind(port, tmp_path / "proxy", "photos", known["access key"], known["secret key"])
        )
        world.environment["AWS_ENDPOINT_URL"] = bucket.proxy.url
        address = bucket.upload(flowers, name)
        upload(bucket.client, "photos", bad, "images")
        world.door("look", address)
        world.door("look", address, more=by_file)
        world.door("write", flowers.directory, str(flowers_folder), f"s3://photos/{world.folder.name}")
        for loader, cache, more in (("tensorflow", "cache", {}), ("spawn", "", by_file), ("fork", "", {})):
            world.door("train", loader, address, cache, until=f"{loader} step 3", more=more)
            position = json.loads((world.folder / "work" / f"{loader}-position.json").read_text())
            world.door("train", loader, address, cache, position, until=f"{loader} step 2", more=more)
        convert = ["-m", "shardfeed.tools.cli", "convert", "s3://photos/images", "made", "--log", "log", "--json"]
        asked = []

        def looks(method: str, path: str, part: str) -> str:
            if path.startswith("/photos/images/") and method == "GET":
                asked.append(path)
                if len(asked) == 100:
                    world.look()
            return ""

        bucket.proxy.fault = looks
        world.run([*convert, "--workers", "2", "--max-bad", "1"])
        assert len(asked) > 100
    searched = world.scan.searched
    for seen in (
        *("fetcher.log", "shardfeed-fetched", "manifest.json", "report.html", "sheet.png", "rejected.jsonl", "log"),
        *("destination.pickle", "error-another.pickle"),
        *("split.pickle", "spawn-split.pickle", "tensorflow-position.json", "column.pickle", "copied"),
    ):
        assert any(os.path.basename(path) == seen for path in searched), seen
    assert any(path.startswith("/dev/shm/shardfeed-") for path in searched)
    for command in ("shardfeed.pipelines.caching.fetcher", "multiprocessing.spawn"):
        assert any(command in line for line in searched), command
    assert "DEBUG:" in (world.folder / "errors-0").read_text()
    assert not world.scan.found, sorted(world.scan.found)


def table(web: WebServer, path: Path, known: dict[str, str]) -> None:
    """A table of signed addresses: one is gone, no server is at one, and one has a password."""
    query = f"?X-Amz-Signature={known['signature']}&X-Amz-Security-Token={quote(known['session token'])}"
    names = [f"photos/{image.relative_to(web.folder / 'photos')}" for image in (web.folder / "photos").rglob("*.*g")]
    user = f"me:{known['password']}"
    rows = [f"{web.url}/{name}{query}" for name in [*names[:40], "photos/rose/gone.jpg"]]
    rows += [f"http://127.0.0.1:1/rose/refused.jpg{query}", f"http://{user}@{web.url[7:]}/{names[0]}{query}"]
    rows += [f"{web.url}/{names[1]}{mark}{known['session token']}" for mark in ";#"]
    rows += [f"s3://{user}@none/rose/1.jpg", f"s3://none/rose/2.jpg{query}", f"ftp://{user}@host/rose/3.jpg{query}"]
    path.write_text("\n".join(["url,label", *(f"{row},{i % 2}" for i, row in enumerate(rows))]) + "\n")


def wrong_settings(web: WebServer, known: dict[str, str]) -> list[dict[str, str]]:
    """Environments in which nothing can be opened."""
    azure = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": known["azure key"]}
    google = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({"private_key": known["google key"]}), "HF_TOKEN": known["hub"]}
    keys = azure | google
    signed = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_SAS_KEY": f"?sv=1&sig={known['signature']}"}
    user = f"me:{known['password']}"
    made = []
    for url in ("http://127.0.0.1:1", f"http://{user}@127.0.0.1:1", f"http://{user}@{web.url[7:]}", f"{user}@host"):
        endpoints = dict.fromkeys(("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "HF_ENDPOINT"), url)
        made += [keys | endpoints, google | signed | endpoints]
    proxy = f"http://{user}@127.0.0.1:1"
    made.append(keys | {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "AWS_ENDPOINT_URL": "http://none.invalid"})
    made.append(
        keys | {"AWS_SESSION_TOKEN": known["session token"] + "\n", "AZURE_STORAGE_ACCOUNT_KEY": known["google key"]}
    )
    return made


FAULTS = ("403 AccessDenied", "404 NoSuchKey", "400 ExpiredToken", "503 SlowDown", "cut", "flip")


@pytest.mark.long
def test_no_secret_is_left_by_any_error(
    world: World, known: dict[str, str], flowers: Dataset, flowers_folder: Path, tmp_path: Path
) -> None:
    """From a server that repeats the head of a request in its answer, as some do; with a session token."""
    with web_server(tmp_path) as web:
        bucket = f"bucket{web.server_address[1]}"
        shutil.copytree(flowers.directory, tmp_path / bucket / "flowers")
        shutil.copytree(flowers.directory, tmp_path / "datasets/user/flowers/resolve" / COMMIT / "v1")
        shutil.copytree(flowers_folder, tmp_path / "photos")
        table(web, tmp_path / "list.csv", known)
        token = {"AWS_SESSION_TOKEN": known["session token"], "AWS_ENDPOINT_URL": web.url}
        token |= {"DATASET": flowers.directory}
        quick = {"PYTHONPATH": f"{SUPPORT / 'debugging'}:{SUPPORT / 'deadlines'}"}
        heads: list[str] = []

        def answer(path: str, head: str) -> Any:
            heads.append(head)
            if path.startswith("/api/"):
                return 200, {}, json.dumps({"sha": COMMIT}).encode()
            return None

        def fault(name: str) -> None:
            kind = name.removeprefix("fault ")
            web.fault = lambda path, part: kind if kind != "flip" or ".tfrecord" in path else ""

        web.answer = answer
        world.door("look", f"s3://{bucket}/flowers", more=token)
        world.door("faults", f"s3://{bucket}/flowers", *FAULTS, more=token | quick, at=fault)
        world.door("look", "hf://datasets/user/flowers/v1", more={"HF_ENDPOINT": web.url, "HF_TOKEN": known["hub"]})
        assert any(known["access key"] in head for head in heads)
        assert f"Bearer {known['hub']}" in heads
        for environment in wrong_settings(web, known):
            world.door("wrong", more=token | quick | environment)
        convert = ["-m", "shardfeed.tools.cli", "convert", str(tmp_path / "list.csv"), "made", "--log", "log"]
        world.run([*convert, "--max-bad", "11"], more=token | quick)
        assert any(known["signature"] in path for _, path, _ in web.requests)
    assert not world.scan.found, sorted(world.scan.found)

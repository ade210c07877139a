"""Buckets that refuse, lie or are hostile: one short error in plain words, and no request or file elsewhere."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from obstore.exceptions import GenericError

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.errors import ShardfeedError, StorageError, TooManyRejectedError
from shardfeed.pipelines import Cache, cached
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset, verify
from shardfeed.storage import objects
from shardfeed.storage.address import destination
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.storage import Part

from repository import SUPPORT
from web_server import WebServer, web_server

SECRETS = {"AWS_ACCESS_KEY_ID": "KEYOFTHETESTS", "AWS_SECRET_ACCESS_KEY": "SECRET/1", "AWS_SESSION_TOKEN": "TOKEN1"}
ACCESS = "check the credentials in the environment"
# What an S3 server answers -> what is said.
ANSWERS = {
    "400 ExpiredToken": r"the credentials have expired \(HTTP status 400\); renew them",
    "400 AuthorizationHeaderMalformed": r"the bucket is in another region \(HTTP status 400\); set AWS_REGION",
    "301 PermanentRedirect": "the bucket is in another region; set AWS_REGION",
    "400 InvalidRequest": rf"the server refuses the request \(HTTP status 400\); {ACCESS}.*AWS_REGION",
    "401 Unauthorized": rf"access denied \(HTTP status 401\); {ACCESS}",
    "403 RequestTimeTooSkewed": r"this machine's clock is wrong \(HTTP status 403\); set it",
    "403 InvalidAccessKeyId": rf"access denied \(HTTP status 403\); {ACCESS}",
    "404 NoSuchBucket": r"no such bucket \(HTTP status 404\); check the URL",
    "503 SlowDown": r"(bytes \d+ to \d+ )?cannot be read: HTTP status 503, after \d+ attempts in 1 s; check .* network",
}
# Settings of the environment, and what is said. None: not set.
SETTINGS: list[tuple[dict[str, str | None], str]] = [
    ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "s3://.*: cannot be read: the server refuses connections, after 3"),
    ({"AWS_ENDPOINT_URL": "https://none.invalid"}, "s3://.*: cannot be read: no server has this name, after 3"),
    ({"AWS_ENDPOINT_URL": "localhost:9000"}, "AWS_ENDPOINT_URL: is not a URL; set it to one such as"),
    ({"AWS_SESSION_TOKEN": "TOKEN1\n"}, "AWS_SESSION_TOKEN: begins or ends with a space or a newline"),
    ({"AWS_SESSION_TOKEN": "TOKEN1\nX"}, "s3://.*: a setting in the environment is not valid; check"),
    ({"AWS_SECRET_ACCESS_KEY": None}, "s3://.*: no valid credentials; check"),
    ({"AWS_ACCESS_KEY_ID": None, "AWS_PROFILE": "none"}, r"boto3 has no .*\(ProfileNotFound\); check AWS_PROFILE"),
]
HOSTILE = ("../../etc/x", "/etc/x", "..\\..\\x", "a/../../x", "%2e%2e/%2e%2e/x", "x\0", "x\n", "C:\\x", "~/x", ".", "")


@pytest.fixture
def web(tmp_path: Path, flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A server of objects, short deadlines, and keys."""
    for name, value in runpy.run_path(str(SUPPORT / "deadlines" / "sitecustomize.py"))["VALUES"].items():
        monkeypatch.setattr(objects, name, value)
    monkeypatch.setattr(objects, "_DEADLINE_SECONDS", 2)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT / "deadlines"))
    with web_server(tmp_path) as server:
        for name, value in {**SECRETS, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        shutil.copytree(flowers.directory, tmp_path / f"bucket{server.server_address[1]}" / "flowers")
        yield server


@pytest.fixture
def address(web: WebServer) -> str:
    return f"s3://bucket{web.server_address[1]}/flowers"  # a process has one client for each name


def said(call: Callable[..., object], *arguments: object) -> str:
    """The error of a call, one short line without a secret or a library's words."""
    with pytest.raises(ShardfeedError) as raised:
        call(*arguments)
    text = str(raised.value)
    assert len(text) < 300, text
    assert not re.search(r"\n|obstore|botocore|GenericError|Signature|" + "|".join(SECRETS.values()), text), text
    return text


@pytest.mark.promise(61)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_refusal_is_said_in_plain_words(web: WebServer, address: str, answer: str) -> None:
    train = shardfeed.open(address)["train"]
    web.fault = lambda path, part: answer
    for call, argument in ((shardfeed.open, address), (train.__getitem__, 0), (open_source, address)):
        assert re.match(f"{address}.*: {ANSWERS[answer]}", said(call, argument))


def test_bytes_that_were_not_asked_for_reach_no_file(web: WebServer, address: str) -> None:
    """Records beside them may be there already."""
    shards, taken = shardfeed.open(address)["train"].shards, list[int]()
    part = Part(shards.file(0), 10, 100)
    objects.receive(part, lambda data, at: taken.extend((at, len(data))))
    assert taken == [10, 100]
    web.fault = lambda path, part: "long" if part else ""
    assert "the response has a different" in said(objects.receive, part, lambda data, at: taken.append(at))
    assert len(taken) == 2


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize(("settings", "expected"), SETTINGS)
def test_a_wrong_setting_is_said_in_plain_words(
    address: str, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str | None], expected: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    for call in (shardfeed.open, open_source):
        assert re.search(expected, said(call, address))


def test_a_wrong_clock_is_measured() -> None:
    hour = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds").partition("+")[0]
    text = f"status code: 403 <Code>RequestTimeTooSkewed</Code><ServerTime>{hour}Z</ServerTime>"
    assert re.match(r"this machine's clock is wrong: 36\d\d s ahead of the server's", objects.cause(Exception(text))[0])


# Endpoint's variable, others, URL, and the host that the store redirects to: a port of its own, or another name.
REDIRECTS = [
    ("AWS_ENDPOINT_URL", {}, "s3://{}/x", "127.0.0.1"),
    ("AWS_ENDPOINT_URL", {}, "s3://{}/x", "localhost"),
    ("AWS_ENDPOINT_URL", {"AWS_SESSION_TOKEN": ""}, "s3://{}/x", "localhost"),
    ("AZURE_STORAGE_ENDPOINT", {"AZURE_STORAGE_SAS_KEY": "sv=1&sig=TOKEN1"}, "az://{}/x", "127.0.0.1"),
    ("GOOGLE_BASE_URL", {"GOOGLE_SKIP_SIGNATURE": "true"}, "gs://{}/x", "localhost"),
]


@pytest.mark.promise(60)
@pytest.mark.parametrize(("endpoint", "more", "address", "host"), REDIRECTS)
def test_a_store_that_redirects_gets_no_secret_to_another_host(
    web: WebServer, tmp_path: Path, monkeypatch: Any, endpoint: str, more: dict[str, str], address: str, host: str
) -> None:
    for name, value in {endpoint: web.url, "AZURE_STORAGE_ACCOUNT_NAME": "account", **more}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    address = address.format(f"bucket{web.server_address[1]}")
    (tmp_path / "elsewhere").mkdir()
    with web_server(tmp_path / "elsewhere") as other:
        there = f"{host}:{other.server_address[1]}"
        web.answer = lambda path, token: (307, {"Location": f"http://{there}/x?{path}"}, b"")
        storage = objects.ObjectStorage(address.rpartition("/")[0])
        for call in (storage.open, storage.version, lambda path: list(storage.below(path))):
            text = said(call, address)
            assert text.startswith(f"{address}: {web.url[7:]} redirects to another host, {there}, which"), text
            assert f"set {endpoint}" in text
        if not address.startswith("az"):
            assert f"redirects to another host, {there}" in said(destination(address).read, address)
        assert other.requests == []
    assert web.requests


def test_requests_with_a_session_token_reach_the_store(web: WebServer, address: str, flowers: Dataset) -> None:
    """They pass through the guard against redirects, also those that are truncated."""
    cut = iter(range(1000))
    web.fault = lambda path, part: "cut" if part and next(cut) % 3 == 0 else ""
    places = np.arange(40)
    assert shardfeed.open(address)["train"].payloads(places) == flowers["train"].payloads(places)
    assert {head.get("X-Amz-Security-Token", head.get("x-amz-security-token")) for head in web.heads} == {"TOKEN1"}
    assert all(path.startswith("/") for _, path, _ in web.requests)


@pytest.mark.promise(54)
@pytest.mark.parametrize("status", ["503 SlowDown", "429 TooManyRequests"])
def test_an_outage_is_waited_for(
    web: WebServer, address: str, flowers: Dataset, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Longer than a few attempts: 16 requests fail, then 16 are answered, and so on."""
    monkeypatch.setattr(objects, "_DEADLINE_SECONDS", 120)
    asked = iter(range(10**9))
    web.fault = lambda path, part: status if next(asked) % 32 < 16 else ""
    train = shardfeed.open(address)["train"]
    for start in range(0, 128, 8):
        places = np.arange(start, start + 8)
        assert train.payloads(places) == flowers["train"].payloads(places)
    assert next(asked) > 48


@pytest.mark.promise(54)
@pytest.mark.parametrize("share", [0.01, 0.5, 1])
def test_all_attempts_of_a_request_take_its_deadline(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """By a clock of the test: each attempt takes a share of the time that obstore may take, retries included."""
    clock, limits = SimpleNamespace(now=0.0), list[float]()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    def late(limit: float) -> None:
        limits.append(limit)
        clock.now += 2 * limit * share
        raise GenericError("operation timed out")

    monkeypatch.setattr(objects, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr(objects, "_new_clients", lambda root, scheme: (objects._ATTEMPT_SECONDS, None))
    storage = objects.ObjectStorage("s3://bucket")
    assert "after 3 attempts" in said(storage.call, "s3://bucket/x", late)
    storage.call("s3://bucket/x", lambda limit: None)  # the server is there
    clock.now = 0
    assert "no response in time" in said(storage.call, "s3://bucket/x", late)
    assert 119 <= clock.now <= 120.5, "an attempt that begins in the last second may take one"
    assert len(limits) > 4


@pytest.mark.promise(54)
def test_verify_says_why_a_file_in_a_bucket_cannot_be_read(web: WebServer, address: str) -> None:
    shard = next((web.folder / address[5:]).rglob("train-00000*.tfrecord"))
    web.fault = lambda path, part: "503" if path.endswith(shard.name) else ""
    assert re.search(rf"{shard.name}: cannot be read: HTTP status 503", said(verify, address))
    web.fault = lambda path, part: ""
    shard.write_bytes(shard.read_bytes()[:-9])
    damage = verify(address).damages[0]
    assert (damage.file, "expected" in damage.problem) == (shard.name, True)


def test_an_odd_name_beside_the_shards_does_not_matter(web: WebServer, address: str) -> None:
    web.listed = ["flowers//x"]
    assert len(shardfeed.open(address)["train"]) > 0
    assert not verify(address).damages


@pytest.mark.parametrize("address", ["s3://bucket/../flowers", "s3://a b/flowers", "https://host:99999/flowers"])
def test_an_address_that_no_request_can_hold(address: str) -> None:
    assert "is not a valid URL; check host" in said(shardfeed.open, address)


@pytest.mark.promise(61)
@pytest.mark.long
@pytest.mark.parametrize("answer", ["403 AccessDenied", "503 SlowDown", "404 NoSuchBucket"])
@pytest.mark.parametrize("loader", [shardfeed.train_batches, torch_loader])
def test_loaders_say_the_same(web: WebServer, address: str, loader: Any, answer: str) -> None:
    train = shardfeed.open(address)["train"]
    web.fault = lambda path, part: answer
    expected = ANSWERS.get(answer, "access denied").replace("in 1 s", "in . s")  # of the fetcher
    text = said(lambda: next(iter(loader(train, batch_size=8, image_size=32, seed=answer.count("0")))))
    assert re.match(f"{address}.*: {expected}", text)


@pytest.mark.long
def test_the_command_says_the_same(web: WebServer, address: str, tmp_path: Path) -> None:
    web.fault = lambda path, part: "400 ExpiredToken"
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", address, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (StorageError.exit_code, "")
    assert re.fullmatch(rf"shardfeed: {address}: {ANSWERS['400 ExpiredToken']}.*\n", done.stderr)


@pytest.mark.promise(61)
def test_an_expired_token_ends_a_conversion(web: WebServer, address: str, flowers_folder: Path, tmp_path: Path) -> None:
    """It rejects no image: all others would be rejected as well."""
    shutil.copytree(flowers_folder / "rose", web.folder / address[5:] / "photos" / "rose")
    source = open_source(f"{address}/photos")
    web.fault = lambda path, part: "400 ExpiredToken"
    assert "expired" in said(lambda: convert(source, tmp_path / "out", workers=1))


@pytest.mark.promise(60)
@pytest.mark.long
def test_an_unknown_certificate_is_refused(tmp_path: Path, flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is MISSING, which makes the certificate")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out own -days 9"
    made += " -subj /CN=host -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    subprocess.run(made.split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "pem").write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "own").read_bytes())
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    with web_server(tmp_path / "served", certificate=tmp_path / "pem") as web:
        for call in (shardfeed.open, open_source):
            text = said(call, f"{web.url}/flowers")
            assert re.match(f"{web.url}/flowers.*: its TLS certificate is not trusted; set SSL_CERT_FILE", text)
        (tmp_path / "list.csv").write_text(f"url,label\n{web.url}/a.jpg,a\n{web.url}/b.jpg,b\n")
        with pytest.raises(TooManyRejectedError) as raised:
            convert(open_source(tmp_path / "list.csv"), tmp_path / "out", workers=1)
        assert {one.why.partition(", after 1 attempt ")[0] for one in raised.value.rejected} == {
            "its TLS certificate is not trusted"
        }
        assert web.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own"))
        assert len(shardfeed.open(f"{web.url}/flowers")["train"]) == 161


@pytest.mark.promise(60)
@pytest.mark.parametrize("slot", ["split", "sidecar", "column", "folder", pytest.param("name", marks=pytest.mark.long)])
def test_names_in_a_manifest_stay_below_its_prefix(web: WebServer, address: str, tmp_path: Path, slot: str) -> None:
    """Hostile names with right checksums: of splits, files, features, the dataset, and the folder that it is in."""
    made = Path(web.folder / address[5:])
    manifest = made / "manifest.json"
    honest = json.loads(manifest.read_bytes())
    del honest["crc32c"]
    (tmp_path / "cache").mkdir()
    before = sorted(path for path in tmp_path.rglob("*"))
    for name in HOSTILE:
        content, split = json.loads(json.dumps(honest)), honest["splits"]["train"]
        file = {"bytes": split["shards"][0]["bytes"], "crc32c": split["shards"][0]["crc32c"]}
        if slot == "split":
            content["splits"] = {name: json.loads(json.dumps(split).replace('"train-', json.dumps(name)[:-1] + "-"))}
        elif slot == "sidecar":
            content["sidecars"][name] = file
        elif slot == "column":
            content["splits"]["train"]["columns"][name] = {
                "file": f"index/train.{name.replace('/', '.')}.npy",
                **file,
            }
        elif slot == "name":
            content["name"] = name
        rest = json.dumps(content, indent=1, sort_keys=True) + "\n"
        manifest.write_text(f'{{\n "crc32c": "{crc32c(rest.encode()):08x}",{rest[1:]}')
        there = f"{address}/{name}" if slot == "folder" else address
        web.requests.clear()
        try:
            train = shardfeed.open(there)["train"]
            verify(there)
            if slot == "name":
                train = cached(train, Cache(tmp_path / "cache", limit="1GB"))
                assert len(train.payloads(np.arange(3))) == 3
        except ShardfeedError:
            pass
        asked = [path for _, path, _ in web.requests if "list-type" not in path]
        assert all(path.startswith(f"/{address[5:]}") and ".." not in path.split("/") for path in asked), (name, asked)
    after = [path for path in sorted(tmp_path.rglob("*")) if path.relative_to(tmp_path).parts[0] != "cache"]
    assert after == [path for path in before if path != tmp_path / "cache"]

"""A dataset copied to a bucket and back, killed at every request: never readable in half, and nothing is sent twice."""

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import card, convert, pull, push
from shardfeed.errors import IntegrityError, OutputExistsError, ShardfeedError, StorageError, UsageError
from shardfeed.naming import MANIFEST
from shardfeed.readers import Dataset
from shardfeed.storage.address import destination
from shardfeed.storage.bucket_destination import Destination
from shardfeed.tools.cli import main as command

from buckets import Bucket
from faulty_proxy import faulty_proxy
from gcs import gcs_server

PART = 5 << 20  # the least of S3


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset with a shard of three parts."""
    folder = tmp_path_factory.mktemp("heavy")
    import numpy as np
    from PIL import Image

    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        pixels = np.random.default_rng(len(name)).integers(0, 256, (1300, 1300, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name / "1.png")
    convert(folder / "images", folder / "heavy", shards=1)
    dataset = shardfeed.open(folder / "heavy")
    assert 2 * PART - PART // 2 < dataset.manifest.splits["train"].size < 4 * PART
    return dataset


def files(directory: str | Path) -> dict[str, bytes]:
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stored(bucket: Bucket, prefix: str) -> dict[str, bytes]:
    found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=f"{prefix}/").get("Contents", [])
    get = bucket.client.get_object
    return {one["Key"][len(prefix) + 1 :]: get(Bucket=bucket.name, Key=one["Key"])["Body"].read() for one in found}


def unfinished(bucket: Bucket) -> list[Any]:
    return bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


# With one thread each run has the same requests; parts of 5 MiB, so that a small shard has some.
CHILD = f"""
import sys
from shardfeed.storage import transfer
from shardfeed.storage.bucket_destination import Destination
from shardfeed.converters import push
Destination.part_bytes, transfer.AT_ONCE = {PART}, int(sys.argv.pop())
push(*sys.argv[1:])
"""


def killed(bucket: Bucket, program: list[str], at: int, *, after: bool) -> bool:
    """Run a program and kill it at its request `at`: before it arrives, or when it is answered. Whether it was."""
    count, done, holder = 0, False, []

    def strike() -> None:
        nonlocal done
        done = True
        holder[0].send_signal(signal.SIGKILL)
        holder[0].wait()

    def fault(method: str, path: str, part: str) -> str:
        nonlocal count
        count += 1
        if count != at:
            return ""
        if after:
            return "answered"
        strike()
        return "dropped"

    bucket.proxy.fault, bucket.proxy.answered = fault, strike
    holder.append(subprocess.Popen(program, stderr=subprocess.PIPE))
    _, errors = holder[0].communicate()
    bucket.proxy.fault = lambda method, path, part: ""
    assert holder[0].returncode == (-signal.SIGKILL if done else 0), errors.decode()[-2000:]
    return done


@pytest.mark.long
@pytest.mark.parametrize(("after", "threads"), [(False, 1), (True, 1), (True, 6)], ids=["unsent", "unanswered", "many"])
def test_killed_at_every_request(bucket: Bucket, heavy: Dataset, after: bool, threads: int) -> None:
    """The same command goes on each time: one request further at every kill, until it ends."""
    expected, url = files(heavy.directory), f"s3://{bucket.name}/heavy"
    command = [sys.executable, "-c", CHILD, heavy.directory, url, str(threads)]
    at = kills = 0
    while killed(bucket, command, at := at + 1, after=after):
        kills += 1
        there = stored(bucket, "heavy")
        if MANIFEST in there:
            assert there == expected
        else:
            with pytest.raises(ShardfeedError):
                shardfeed.open(url)
    assert stored(bucket, "heavy") == expected
    assert not unfinished(bucket)
    if threads > 1:  # some were under way at the kill
        return
    assert kills > 12
    sent = (request for request in bucket.proxy.requests if request.method == "PUT" and request.status == 200)
    bodies = Counter((request.path, request.query) for request in sent)
    assert len([query for _, query in bodies if "partNumber" in query]) >= 2
    assert max(bodies.values()) == 1, "a part or a file that the store has is not sent again"


def test_there_and_back(bucket: Bucket, heavy: Dataset, tmp_path: Path) -> None:
    url = f"s3://{bucket.name}/there"
    pushed = push(heavy.directory, f"{url}/")
    assert pushed.sent == pushed.files == len(files(heavy.directory))
    assert pushed.read_back == 0
    assert push(heavy.directory, url).sent == 0
    assert shardfeed.open(url)["train"][0].keys() == heavy["train"][0].keys()
    pulled = pull(url, tmp_path / "back")
    assert pulled.fetched == pushed.files
    assert files(tmp_path / "back") == files(heavy.directory)
    assert pull(url, tmp_path / "back").fetched == 0
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_file_that_is_missing_there_is_pushed_again(bucket: Bucket, flowers: Dataset, tmp_path: Path) -> None:
    """As the error of `pull` advises."""
    url, shard = f"s3://{bucket.name}/missing", flowers.manifest.splits["train"].shard_file(0)
    push(flowers.directory, url)
    bucket.client.delete_object(Bucket=bucket.name, Key=f"missing/{shard}")
    with pytest.raises(IntegrityError, match="push the dataset again"):
        pull(url, tmp_path / "back")
    assert push(flowers.directory, url).sent == 1
    assert stored(bucket, "missing") == files(flowers.directory)


def test_the_card_goes_along(bucket: Bucket, flowers: Dataset, tmp_path: Path) -> None:
    url, mine = f"s3://{bucket.name}/card", tmp_path / "mine"
    shutil.copytree(flowers.directory, mine)
    push(mine, url)
    card(mine)
    assert push(mine, url).sent == 2
    assert stored(bucket, "card") == files(mine)
    once, again = pull(url, tmp_path / "back"), pull(url, tmp_path / "back")
    assert (once.files, once.fetched, again.fetched) == (len(files(mine)), len(files(mine)), 0)
    assert (again.files, again.size) == (once.files, once.size)
    assert files(tmp_path / "back") == files(mine)
    assert push(mine, url).sent == 0
    (mine / "README.md").write_text("another\n")
    with pytest.raises(OutputExistsError, match=r"README.md: another file is there"):
        push(mine, url)
    with pytest.raises(UsageError, match="a dataset in a bucket is never replaced"):
        push(mine, url, replace=True)


def test_another_dataset_is_never_overwritten(bucket: Bucket, heavy: Dataset, flowers: Dataset, tmp_path: Path) -> None:
    url = f"s3://{bucket.name}/one"
    push(flowers.directory, url)
    with pytest.raises(OutputExistsError, match="another dataset is there"):
        push(heavy.directory, url)
    assert stored(bucket, "one") == files(flowers.directory)
    bucket.client.delete_object(Bucket=bucket.name, Key=f"one/{MANIFEST}")
    with pytest.raises(OutputExistsError, match="not of this one: an earlier upload did not end"):
        push(heavy.directory, url)
    (tmp_path / "taken").mkdir()
    push(flowers.directory, url)
    with pytest.raises(OutputExistsError, match="exists already"):
        pull(url, tmp_path / "taken")


def test_bytes_flipped_on_their_way_are_refused_by_the_store(
    bucket: Bucket, heavy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file and a part: once is repaired by sending it again, each time is an error, and nothing of it is there."""
    monkeypatch.setattr(Destination, "part_bytes", PART)
    for name in ("features.json", heavy.manifest.splits["train"].shard_file(0)):
        url = f"s3://{bucket.name}/flipped/{name}"
        bucket.proxy.fault = lambda method, path, part, n=name: (
            "sent flipped" if method == "PUT" and path.endswith(n) else ""
        )
        bucket.proxy.requests.clear()
        with pytest.raises(StorageError, match="the bytes arrived damaged"):
            push(heavy.directory, url)
        flipped = [request.status for request in bucket.proxy.requests if request.fault]
        assert len(flipped) >= 3, "each time, of a large file perhaps several parts at once"
        assert set(flipped) == {400}
        assert not {name, MANIFEST}.intersection(stored(bucket, f"flipped/{name}"))
    bucket.proxy.fault = lambda method, path, part: (
        "sent flipped" if method == "PUT" and not any(r.fault for r in bucket.proxy.requests) else ""
    )
    push(heavy.directory, f"s3://{bucket.name}/once")
    assert stored(bucket, "once") == files(heavy.directory)
    assert not unfinished(bucket)


@pytest.mark.parametrize("store", ["no checksums", "refuses checksums"])
def test_a_store_without_checksums_is_read_back(
    bucket: Bucket, heavy: Dataset, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """Each file is read after it was sent, whole or in parts; a damaged one is sent again."""
    monkeypatch.setattr(Destination, "part_bytes", PART)
    expected, url = files(heavy.directory), f"s3://{bucket.name}/plain"
    bucket.proxy.fault = lambda method, path, part: store
    pushed = push(heavy.directory, url)
    assert stored(bucket, "plain") == expected
    assert pushed.read_back == len(expected)
    asked = [request for request in bucket.proxy.requests if request.status == 501]
    assert (len(asked) > 0) == (store == "refuses checksums")
    assert push(heavy.directory, url).read_back == 2, "the manifest alone, before and instead of sending it"

    for name in (MANIFEST, "features.json"):
        bucket.client.delete_object(Bucket=bucket.name, Key=f"plain/{name}")
    bucket.proxy.requests.clear()
    bucket.proxy.fault = lambda method, path, part: (
        "flip" if (method, flips(bucket)) == ("GET", 0) and path.endswith("features.json") else store
    )
    push(heavy.directory, url)
    sent = Counter(request.path.rpartition("/")[2] for request in bucket.proxy.requests if request.method == "PUT")
    assert flips(bucket) == 1
    assert sent["features.json"] >= 2
    assert stored(bucket, "plain") == expected


def flips(bucket: Bucket) -> int:
    return sum(request.fault == "flip" for request in bucket.proxy.requests)


def test_damage_on_the_way_back(bucket: Bucket, heavy: Dataset, tmp_path: Path) -> None:
    url, shard = f"s3://{bucket.name}/back", heavy.manifest.splits["train"].shard_file(0)
    push(heavy.directory, url)
    bucket.proxy.fault = lambda method, path, part: "flip" if path.endswith(shard) else ""
    with pytest.raises(ShardfeedError, match="its CRC-32C is"):
        pull(url, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    bucket.proxy.fault = lambda method, path, part: ""
    bucket.proxy.requests.clear()
    assert pull(url, tmp_path / "out").fetched == 2, "the shard and the manifest"
    assert files(tmp_path / "out") == files(heavy.directory)


PULLS = """
import sys
from shardfeed.storage import transfer
from shardfeed.converters import pull
transfer.AT_ONCE = 1
pull(*sys.argv[1:])
"""


@pytest.mark.long
def test_a_pull_killed_at_every_request(bucket: Bucket, heavy: Dataset, tmp_path: Path) -> None:
    url, out, at = f"s3://{bucket.name}/pulled", tmp_path / "out", 0
    push(heavy.directory, url)
    while killed(bucket, [sys.executable, "-c", PULLS, url, str(out)], at := at + 1, after=False):
        assert not out.exists()
    assert at > 5
    assert files(out) == files(heavy.directory)


CONVERTS = f"""
import sys
from shardfeed.storage import transfer
from shardfeed.storage.bucket_destination import Destination
from shardfeed.converters import convert
Destination.part_bytes, transfer.AT_ONCE = {PART}, 1
if __name__ == "__main__":
    convert(*sys.argv[1:], workers=1, shards=2)
"""


@pytest.mark.long
def test_a_conversion_into_a_bucket(
    bucket: Bucket, flowers_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at some requests of its last step, it goes on; the dataset is that of a local conversion."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    url = f"s3://{bucket.name}/deep/made"
    convert(flowers_folder, tmp_path / "made", shards=2)
    command, kills = [sys.executable, "-c", CONVERTS, str(flowers_folder), url], 0
    for at in (3, 6, 9, 12):
        kills += killed(bucket, command, at, after=bool(at % 2))
    assert kills == 4
    if killed(bucket, command, 10_000, after=False):
        raise AssertionError
    assert stored(bucket, "deep/made") == files(tmp_path / "made")
    assert not unfinished(bucket)
    assert not list((tmp_path / "tmp").rglob("made")), "the local dataset is removed"
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(OutputExistsError, match="exists already"):
        convert(flowers_folder, url, shards=2)
    with pytest.raises(UsageError, match="never replaced"):
        convert(flowers_folder, f"{url}2", replace=True)


@pytest.mark.long
def test_operations_write_to_a_bucket(
    bucket: Bucket, flowers: Dataset, flowers_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dataset is that of the same operation on the local disk, also if one begins in the dataset's directory."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(flowers.directory)
    (tmp_path / "more" / "rose").mkdir(parents=True)
    shutil.copy(flowers_folder / "rose" / "0001.jpg", tmp_path / "more" / "rose" / "new.jpg")
    (tmp_path / "classes.csv").write_text("old,new\nrose,flower\n")
    here, name = flowers.directory, "image/filename"
    for operation in (
        ["append", here, str(tmp_path / "more")],
        ["filter", here, "--where", "image/height > 0"],
        ["merge", here, str(tmp_path / "filter"), "--prefix"],
        ["relabel", here, "--map", str(tmp_path / "classes.csv")],
        ["remove", here, "--key", flowers["train"][0][name].decode()],
        ["reshard", here, "--shards", "1"],
        ["split", here, "--split", "a=0.5,b=0.5"],
    ):
        options = next((i for i, word in enumerate(operation) if word.startswith("--")), len(operation))
        for out in (str(tmp_path / operation[0]), f"s3://{bucket.name}/{operation[0]}"):
            assert command([*operation[:options], out, *operation[options:], "--quiet"]) == 0, operation
        assert stored(bucket, operation[0]) == files(tmp_path / operation[0])
    assert not unfinished(bucket)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["unsent", "unanswered"])
def test_google_cloud_storage(heavy: Dataset, flowers_folder: Path, tmp_path: Path, after: bool) -> None:
    """Killed at every request, the same command goes on, and sends no file twice. The emulator has no parts."""
    expected = files(heavy.directory)
    (tmp_path / "gcs" / "bucket").mkdir(parents=True)
    with gcs_server(tmp_path / "gcs") as port, faulty_proxy(port, tmp_path) as proxy:
        command = [sys.executable, "-c", CHILD, heavy.directory, "gs://bucket/heavy", "1"]

        def killed_at(number: int) -> bool:
            with pytest.MonkeyPatch.context() as patch:  # the emulator does not answer readers that know the proxy
                patch.setenv("GOOGLE_BASE_URL", proxy.url)
                return killed(Bucket("bucket", proxy, None), command, number, after=after)

        at = kills = 0
        while killed_at(at := at + 1):
            kills += 1
            if MANIFEST not in destination("gs://bucket/heavy").below("gs://bucket/heavy"):
                with pytest.raises(ShardfeedError):
                    shardfeed.open("gs://bucket/heavy")
        assert kills > 12
        sent = [request for request in proxy.requests if "uploadType=multipart" in request.query]
        assert {"ifGenerationMatch=0" in request.query for request in sent} == {True}
        assert [request.status for request in sent].count(200) == len(expected) - 1, "all but the shard"
        pull("gs://bucket/heavy", tmp_path / "back")
        assert files(tmp_path / "back") == expected
        with pytest.raises(OutputExistsError, match="exists already"):
            convert(flowers_folder, "gs://bucket/heavy")
        with pytest.raises(StorageError, match="no such bucket"):
            push(heavy.directory, "gs://other/heavy")


def test_outputs_that_must_be_local(flowers: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (
        ["salvage", flowers.directory, "s3://bucket/out"],
        ["export", flowers.directory, "s3://bucket/out", "--to", "folder"],
        ["adopt", str(tmp_path), "s3://bucket/out"],
    ):
        assert command(line) == 2
        assert "write to a local directory, and copy that with `aws s3 sync`" in capsys.readouterr().err


def test_an_endpoint_that_is_no_url(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "me:password@host")
    with pytest.raises(StorageError, match="a setting in the environment is not valid") as caught:
        push(flowers.directory, "s3://bucket/flowers")
    assert "password" not in str(caught.value)
    assert caught.value.__context__ is None

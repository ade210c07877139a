"""Sources in a bucket: the shards of the same source on a disk, in few requests, whatever happens on the way."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import (
    AnnotationOptions,
    ImageFolder,
    LabelOptions,
    LocalWorkers,
    RejectCode,
    convert,
    open_source,
)
from shardfeed.converters.sources import remote
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import StorageError, UsageError

from processes import descendants, until
from web_server import WebServer, web_server

KEY, SECRET = "TESTKEY", "secret-of-the-tests"


class Bucket:
    """A server of objects: `address` is that of a bucket whose objects are the files in `folder`."""

    def __init__(self, web: WebServer) -> None:
        self.web, name = web, f"bucket{web.server_address[1]}"  # a process has one client for each name
        self.address, self.folder = f"s3://{name}", web.folder / name
        self.folder.mkdir()

    def asked(self) -> tuple[list[str], list[str]]:
        """The listings, and the objects, that were asked for so far."""
        paths = [path for _, path, _ in self.web.requests]
        return [path for path in paths if "list-type" in path], [path for path in paths if "list-type" not in path]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    (tmp_path / "served").mkdir()
    (tmp_path / "temporary").mkdir()
    with web_server(tmp_path / "served") as web:
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
        monkeypatch.setattr("tempfile.tempdir", None)
        yield Bucket(web)


@pytest.fixture
def photos(bucket: Bucket, flowers_folder: Path) -> Path:
    """The flowers in the bucket, as a folder."""
    return Path(shutil.copytree(flowers_folder, bucket.folder / "photos"))


def shards(dataset: Path) -> dict[str, bytes]:
    """All files with samples."""
    found = {path.name: path.read_bytes() for path in dataset.rglob("*.tf*")}
    assert found
    return found


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardfeed.tools.cli", "convert", *map(str, arguments)], capture_output=True, text=True
    )


def test_a_prefix_of_class_folders_gives_the_shards_of_the_folder(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "here", shards=3)
    bucket.web.page = 80
    report = convert(f"{bucket.address}/photos", tmp_path / "there", shards=3, workers=LocalWorkers(2, "auto"))
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert report.images == 201
    listings, objects = bucket.asked()
    assert len(listings) == 3, "pages of 80"
    assert len(objects) == len(set(objects)) == 201


def test_by_the_command_line(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    (photos / "README.md").write_text("about")
    convert(photos, tmp_path / "here")
    done = command(f"{bucket.address}/photos/", tmp_path / "there", "--log", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert len(bucket.asked()[0]) == 1
    assert len(bucket.asked()[1]) == 202, "and the one that is no image"
    assert list((tmp_path / "temporary").iterdir()) == []
    written = b"".join(path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file())
    for secret in (SECRET, KEY, str(tmp_path / "temporary")):
        assert secret not in done.stdout + done.stderr + (tmp_path / "log").read_text()
        assert secret.encode() not in written


def test_threads_that_begin_together_share_clients_and_connections() -> None:
    together = threading.Barrier(32)

    def begin(_: int) -> object:
        together.wait(60)
        return remote.storage_of("s3://bucket-of-threads/a.jpg")

    with ThreadPoolExecutor(32) as pool:
        assert len(set(map(id, list(pool.map(begin, range(32)))))) == 1


@pytest.mark.parametrize("fault", ["503", "cut"])
def test_faults_on_the_way_do_not_change_the_shards(bucket: Bucket, photos: Path, tmp_path: Path, fault: str) -> None:
    failed: set[str] = set()

    def fails(path: str, part: str) -> str:
        new = path not in failed and hash(path) % 8 == 0
        failed.update([path] if new else [])
        return fault if new else ""

    bucket.web.fault = fails
    convert(f"S3{bucket.address[2:]}/photos", tmp_path / "there", workers=1)
    convert(photos, tmp_path / "here", workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert failed


def test_an_object_that_changes_is_rejected(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    source = open_source(f"{bucket.address}/photos")
    changed, gone, longer = (photos / "rose" / f"000{i}.jpg" for i in (1, 2, 3))
    changed.write_bytes(changed.read_bytes()[::-1])
    gone.unlink()
    longer.write_bytes(longer.read_bytes() + b"\0")
    report = convert(source, tmp_path / "out", max_bad=3, workers=1)
    assert [(one.key, one.what) for one in report.rejected] == [
        (path.relative_to(photos).as_posix().encode(), RejectCode.SOURCE_CHANGED) for path in (changed, gone, longer)
    ]


def test_a_killed_conversion_goes_on_with_the_objects_of_now(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "shardfeed.tools.cli", "convert", f"{bucket.address}/photos"]
    arguments += [str(tmp_path / "there"), "--shards", "12", "--workers", "1"]
    process = subprocess.Popen(arguments, start_new_session=True)

    def kills(path: str, part: str) -> str:
        if len(bucket.asked()[1]) == 150:
            os.killpg(process.pid, signal.SIGKILL)
        return ""

    bucket.web.fault = kills
    assert process.wait() == -signal.SIGKILL
    bucket.web.fault = lambda path, part: ""
    changed = photos / "rose" / "0001.jpg"
    changed.write_bytes((photos / "rose" / "0002.jpg").read_bytes())
    bucket.web.requests.clear()
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(bucket.asked()[1]) < 150, "finished shards were kept"
    convert(photos, tmp_path / "here", shards=12)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")


@pytest.mark.usefixtures("worker_processes")
def test_the_next_shard_is_requested_while_the_last_images_of_one_arrive(
    bucket: Bucket, photos: Path, tmp_path: Path
) -> None:
    """And both shards are written by another worker if this one is lost."""
    convert(photos, tmp_path / "here", shards=20)
    source = open_source(f"{bucket.address}/photos")
    bucket.web.fault = lambda path, part: "late" if path == bucket.asked()[1][0] else ""
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(convert, source, tmp_path / "there", shards=20, workers=1)
        until(lambda: len(bucket.asked()[1]) >= 20)  # a shard has 10 images or 11
        (worker,) = (pid for pid, each in descendants(os.getpid()).items() if "spawn_main" in each.command)
        os.kill(worker, signal.SIGKILL)
        bucket.web.late.set()
        report = made.result()
    assert any("a worker was lost" in warning for warning in report.notes)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    asked = Counter(bucket.asked()[1])
    assert len(asked) == 201
    assert max(asked.values()) == 2
    assert sum(asked.values()) <= 201 + 22, "only those of the lost worker are asked for again"


def test_label_files_and_annotations_are_copied_first(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    rows = [f"{path.relative_to(photos)},{path.parent.name}" for path in sorted(photos.rglob("*.*g"))]
    (photos / "labels.csv").write_text("path,label\n" + "\n".join(rows))
    shutil.copy(photos / "labels.csv", tmp_path / "labels.csv")
    convert(photos / "labels.csv", tmp_path / "here", workers=1)
    folder = f"{bucket.address}/photos"
    ways = [
        (f"{folder}/labels.csv", None),
        (folder, LabelOptions(labels=f"{folder}/labels.csv")),
        (tmp_path / "labels.csv", LabelOptions(images=folder)),
    ]
    for i, (path, options) in enumerate(ways):
        convert(open_source(path, options=options), tmp_path / f"there{i}", workers=1)
        assert shards(tmp_path / f"there{i}") == shards(tmp_path / "here")
    with pytest.raises(UsageError, match=r"^s3://\S*/photos/labels\.csv:1: .*breed"):
        open_source(f"{folder}/labels.csv", options=LabelOptions(label_columns=["breed"]))


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("coco/instances.json", {"images": "images", "tasks": ["boxes", "masks"]}),
        ("masks", {"images": "images", "class_names": "masks.txt"}),
        ("yolo", {}),
        ("boxes.csv", {"images": "images"}),
    ],
)
def test_annotations_and_masks_are_read_there(bucket: Bucket, tmp_path: Path, place: str, more: dict[str, Any]) -> None:
    """Masks are looked at before the plan is made, YOLO's lists name images that must be there."""
    scenes = shutil.copytree("data_samples/scenes", bucket.folder / "scenes")
    for at, out in ((str(scenes), "here"), (f"{bucket.address}/scenes", "there")):
        options = {**more, "images": f"{at}/{more['images']}"} if more else {}
        options |= {"class_names": f"{scenes}/masks.txt"} if "class_names" in more else {}
        convert(open_source(f"{at}/{place}", options=AnnotationOptions(**options)), tmp_path / out, workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")


@pytest.mark.parametrize("form", ["tfrecord", "webdataset", "parquet"])
def test_files_of_many_samples(bucket: Bucket, flowers_folder: Path, tmp_path: Path, form: Any) -> None:
    convert(ImageFolder(flowers_folder), tmp_path / "made", to=form, shards=2)
    end = {"tfrecord": ".tfrecord", "webdataset": ".tar", "parquet": ".parquet"}[form]
    (bucket.folder / "samples").mkdir()
    names = []
    for path in sorted((tmp_path / "made").rglob(f"*{end}")):
        names.append(shutil.copy(path, bucket.folder / "samples"))
    convert(bucket.folder / "samples", tmp_path / "here", workers=1)
    convert(f"{bucket.address}/samples", tmp_path / "there", workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    one = Path(names[0]).name
    pattern = one.replace("00000-of", "{00000..00001}-of")
    bucket.web.requests.clear()
    assert len(open_source(f"{bucket.address}/samples/{one}")) < 201
    if form != "tfrecord":
        assert len(open_source(f"{bucket.address}/samples/{pattern}")) == 201


def test_tars_are_read_in_place(bucket: Bucket, flowers_folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Their headers by large ranges, each image by its own, of the tar that was listed."""
    convert(ImageFolder(flowers_folder), tmp_path / "made", to="webdataset", shards=2)
    tars = [Path(shutil.copy(path, bucket.folder)) for path in (tmp_path / "made").rglob("*.tar")]
    monkeypatch.setattr(remote, "_PIECE_BYTES", 50_000)
    convert(bucket.folder, tmp_path / "here", workers=1)
    source = open_source(bucket.address)
    copied = [path for path in (tmp_path / "temporary").rglob("*") if path.is_file() and path.stat().st_blocks]
    assert copied == []
    pieces = sum(-(-tar.stat().st_size // 50_000) for tar in tars)
    assert pieces > 4
    assert pieces <= len(bucket.asked()[1]) <= 4 * pieces, "they are looked at before they are read"
    bucket.web.requests.clear()
    convert(source, tmp_path / "there", workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert len(bucket.asked()[1]) == 201
    tars[0].write_bytes(tars[0].read_bytes()[::-1])
    report = convert(source, tmp_path / "changed", workers=1, max_bad=150)
    assert {one.what for one in report.rejected} == {RejectCode.SOURCE_CHANGED}
    assert 90 <= len(report.rejected) <= 110


def test_files_that_were_not_copied_have_no_other_content(bucket: Bucket, photos: Path) -> None:
    """Those beside a label file that are large, or left out: a reader that opens one reads the object."""
    (photos / "labels.csv").write_text("path,label\nrose/0001.jpg,rose\n")
    (photos / "names.txt").write_text("small")
    (photos / "large.bin").write_bytes(bytes(range(256)) * 100)
    source: Any = open_source(f"{bucket.address}/photos/labels.csv")
    folder = Path(source.kept[0].path_of(f"{bucket.address}/photos"))
    assert (folder / "names.txt").read_text() == "small"
    for name in ("large.bin", "rose/0001.jpg"):
        with open_regular(folder / name) as file:
            assert file.read() == (photos / name).read_bytes()
            assert (file.seek(-3, 2), file.read(), file.read()) == (
                file.tell() - 3,
                (photos / name).read_bytes()[-3:],
                b"",
            )
    assert len(source) == 1


def test_an_address_without_a_source_is_an_error(bucket: Bucket, photos: Path) -> None:
    for address, said in (
        (f"{bucket.address}/none", "no such file or folder"),
        ("hf://datasets/flowers", "write hf://datasets/USER/REPO@REVISION/FOLDER"),
        ("ftp://host/flowers", "expected one of s3, .*copy it to this machine"),
        ("file:///photos", "expected one of s3, .*write only the path"),
        (f"{bucket.web.url}/photos", "folders are not listed by a web server; give a file"),
    ):
        with pytest.raises(UsageError, match=said) as raised:
            open_source(address)
        assert str(raised.value).startswith(address.partition("://")[0])


def test_access_that_is_denied(bucket: Bucket, photos: Path, tmp_path: Path) -> None:
    bucket.web.fault = lambda path, part: "403"
    with pytest.raises(StorageError, match=r"access denied \(HTTP status 403\); check the credentials"):
        open_source(f"{bucket.address}/photos")
    bucket.web.fault = lambda path, part: "403" if path.endswith("rose/0001.jpg") else ""
    report = convert(f"{bucket.address}/photos", tmp_path / "out", max_bad=1, workers=1)
    assert [(one.key, one.what) for one in report.rejected] == [(b"rose/0001.jpg", RejectCode.UNREADABLE)]
    assert report.rejected[0].why == "access denied (HTTP status 403)"


def test_a_bucket_that_is_gone_ends_the_run(
    bucket: Bucket, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardfeed.storage.objects._DEADLINE_SECONDS", 1)
    remote._storage.cache_clear()
    source = open_source(f"{bucket.address}/photos")
    bucket.web.fault = lambda path, part: "503"
    with pytest.raises(StorageError, match="cannot be read: HTTP status 503, after 1 attempt in"):
        convert(source, tmp_path / "out", workers=1)
    bucket.web.fault = lambda path, part: ""
    assert convert(source, tmp_path / "out", workers=1).manifest.splits["train"].records == 201


ODD = [
    "photos//x.jpg",
    "photos/./y.jpg",
    "photos/../z.jpg",
    "photos/rose/a\nb.jpg",
    "photos/rose//1.jpg",
    "photos/~//x",
]


@pytest.mark.parametrize("page", [10, 1000])
def test_an_odd_name_is_skipped_and_the_others_are_converted(
    bucket: Bucket, photos: Path, tmp_path: Path, page: int
) -> None:
    """obstore refuses a whole page with one: the files of the page are found by the store's own client."""
    convert(photos, tmp_path / "here", workers=1)
    bucket.web.page, bucket.web.listed = page, ODD
    report = convert(f"{bucket.address}/photos", tmp_path / "there", workers=1)
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    (note,) = [note for note in report.notes if "objects skipped" in note]
    assert f"cannot be file names: 6 ({bucket.address}/photos" in note
    assert len(bucket.asked()[1]) <= 201 + 201, "an image each, and at most one question for its version"


def test_an_odd_name_is_an_error_without_the_stores_own_client(
    bucket: Bucket, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    bucket.web.listed = ODD
    with pytest.raises(StorageError, match=r"photos: has the object 'photos/.*whose name is no path; rename it; in S3"):
        open_source(f"{bucket.address}/photos")


@pytest.mark.parametrize(("prefix", "said"), [("photos", "same names again and again, last 'photos/"), ("none", "end")])
def test_a_listing_without_an_end_is_an_error(
    bucket: Bucket, photos: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, said: str
) -> None:
    monkeypatch.setattr("shardfeed.storage.objects._DEADLINE_SECONDS", 2)
    bucket.web.endless, bucket.web.page = True, 50
    with pytest.raises(StorageError, match=said):
        open_source(f"{bucket.address}/{prefix}")


def test_names_that_no_file_can_have_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3", reason="the tests' extra installs it")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="photos-in-moto")
        image = next(Path("data_samples/shapes").rglob("*.jpg")).read_bytes()
        for name in ("cat/1.jpg", "cat/2 2%20.jpg", "dog/ü.jpg", "cat", "dog/"):
            client.put_object(Bucket="photos-in-moto", Key=f"p/{name}", Body=b"" if name == "dog/" else image)
        source = open_source("s3://photos-in-moto/p")
        assert [sample.key.decode() for sample in source] == ["cat/1.jpg", "cat/2 2%20.jpg", "dog/ü.jpg"]
        notes = convert(source, tmp_path / "out", workers=1).notes
        said = "objects skipped, as their names cannot be file names: 1 (s3://photos-in-moto/p/cat)"
        assert [note for note in notes if "objects skipped" in note] == [said]
    finally:
        server.stop()

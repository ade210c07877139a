"""Tables of addresses: images are read from web servers and buckets, and rejected where they cannot be."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_tfrecords import picture

from shardfeed.converters import LabelOptions, RejectCode, convert, open_source
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.sources import remote
from shardfeed.converters.sources.files.image_lookup import ImageLookup
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, TooManyRejectedError, UsageError

from web_server import WebServer, web_server


@pytest.fixture
def web(flowers_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(remote, "_PAUSE", 0.001)
    with web_server(flowers_folder) as server:
        yield server


def table(web: WebServer, path: Path, query: str = "", more: str = "") -> Path:
    """A table of all flowers, in no order."""
    images = sorted(web.folder.rglob("*.*g"), key=lambda image: image.name)
    rows = [
        f"{web.url}/{image.relative_to(web.folder)}{query},{i},{image.parent.name}" for i, image in enumerate(images)
    ]
    path.write_text("\n".join(["image_url,id,label", *rows, *filter(None, [more])]) + "\n")
    return path


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardfeed.tools.cli", "convert", *map(str, arguments)], capture_output=True, text=True
    )


def records(dataset: Path) -> list[bytes]:
    """The images and labels of all records, sorted."""
    import shardfeed

    train = shardfeed.open(dataset)["train"]
    return sorted(train[i]["image/encoded"] + train[i]["image/class/text"] for i in range(len(train)))


@pytest.mark.parametrize("fault", ["", "503", "cut"])
def test_images_are_read_from_a_web_server(web: WebServer, tmp_path: Path, fault: str) -> None:
    failed: set[str] = set()

    def fails(path: str, part: str) -> str:
        new = path not in failed and hash(path) % 4 == 0
        failed.update([path] if new else [])
        return fault if new else ""

    web.fault = fails
    convert(web.folder, tmp_path / "here", workers=1)
    convert(table(web, tmp_path / "list.csv"), tmp_path / "there", workers=1)
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert len(web.requests) == 201 + (len(failed) if fault else 0)


def test_duplicates_are_read_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As images are when they are converted: one after the other takes as many round trips as there are images."""
    threads: set[str] = set()

    def fetch(content: Any, max_bytes: int, before: Any = remote._fetch) -> bytes:
        threads.add(threading.current_thread().name)
        return before(content, max_bytes)

    monkeypatch.setattr(remote, "_fetch", fetch)
    for i in range(300):
        (tmp_path / f"{i}.png").write_bytes(picture(i % 100, "PNG", (6, 6)))
    with web_server(tmp_path) as server:
        rows = [f"{server.url}/{i}.png,{i % 2}" for i in range(300)]
        (tmp_path / "list.csv").write_text("\n".join(["image_url,label", *rows]) + "\n")
        options = PlanOptions(split={"train": 0.5, "test": 0.5}, group_duplicates=True)
        plan = make_plan(open_source(tmp_path / "list.csv"), options)
        assert len(server.requests) == 300
    assert (plan.groups.groups, plan.groups.largest) == (100, 3)
    assert len(threads) > 1
    assert all(name.startswith("shardfeed-fetch") for name in threads)


def test_by_the_command_line(web: WebServer, tmp_path: Path) -> None:
    """Queries may hold credentials: they are sent, and appear nowhere else."""
    path = table(web, tmp_path / "list.csv", query="?sig=SECRET", more=f"{web.url}/gone.jpg?sig=SECRET,9,rose")
    arguments = (path, tmp_path / "out", "--log", tmp_path / "log")
    done = command(*arguments)
    assert done.returncode == TooManyRejectedError.exit_code, done.stderr
    assert "gone.jpg: E_UNREADABLE, HTTP status 404, after 1 attempt in 0 s" in done.stdout + done.stderr
    assert len(web.requests) == 202
    web.requests.clear()
    staged = [file for file in tmp_path.rglob("*") if file.is_file() and file != path]
    assert len(staged) > 2
    assert not [file for file in staged if b"SECRET" in file.read_bytes()]
    again = command(*arguments, "--max-bad", "1")
    assert again.returncode == 0, again.stderr
    assert [path.partition("?")[0] for _, path, _ in web.requests] == ["/gone.jpg"], "it may be back"
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in [*files, tmp_path / "log"])
    assert b"gone.jpg" in written
    assert "SECRET" not in written.decode(errors="replace") + done.stdout + done.stderr + again.stdout + again.stderr


@pytest.mark.parametrize(("fault", "said"), [("503", "HTTP status 503"), ("cut", "the response is truncated")])
def test_what_cannot_be_read_is_rejected(web: WebServer, tmp_path: Path, fault: str, said: str) -> None:
    web.fault = lambda path, part: fault if path == "/rose/0007.jpg" else ""
    report = convert(table(web, tmp_path / "list.csv"), tmp_path / "out", max_bad=1, workers=1)
    (one,) = report.rejected
    assert (one.key, one.what) == (web.url.encode()[7:] + b"/rose/0007.jpg", RejectCode.UNREADABLE)
    assert one.why.startswith(f"{said}, after 4 attempts in ")


def test_an_address_among_file_names_is_named_without_its_query(web: WebServer, tmp_path: Path) -> None:
    rows = ["path,label", "rose/0001.jpg,rose", "tulip/0001.jpg,tulip", "https://me:SECRET@h/1.jpg?sig=SECRET,rose"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    source = open_source(tmp_path / "list.csv", options=LabelOptions(images=web.folder))
    assert [(one.key, one.code) for one in source.findings.rejected] == [(b"https://h/1.jpg", "E_PATH_ESCAPE")]
    found = ImageLookup(source.images.listing).find(rows[-1].partition(",")[0])  # type: ignore[attr-defined]
    assert isinstance(found, Skipped)
    assert (found.key, found.code) == (b"https://h/1.jpg", "E_PATH_ESCAPE")


def test_other_forms_of_tables(web: WebServer, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [f"{web.url}/{image.relative_to(web.folder)}" for image in sorted(web.folder.rglob("*.*g"))]
    labels = [address.split("/")[-2] for address in images]
    pq.write_table(pa.table({"url": images, "label": labels}), tmp_path / "list.parquet")
    rows = zip(images, labels, strict=True)
    (tmp_path / "list.jsonl").write_text("".join(f'{{"url": "{a}", "label": "{b}"}}\n' for a, b in rows))
    rows = zip(images, labels, strict=True)
    (tmp_path / "list.txt").write_text("".join(f"{a} {b}\n" for a, b in rows))
    (tmp_path / "bare.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(images, labels, strict=True)))
    for name in ("list.parquet", "list.jsonl", "list.txt", "bare.csv"):
        source = open_source(tmp_path / name)
        assert len(source) == 201, name
        assert source.schema.class_names["image/class/label"] == ("daisy", "rose", "tulip")
        assert source[0].image.path.decode() == images[0]  # type: ignore[union-attr]  # a file


def test_addresses_that_differ_in_the_query_alone(tmp_path: Path) -> None:
    rows = ["url,label", "http://h/x?id=1,a", "http://h/x?id=2,b", "https://me:pw@h/y.jpg?s=1,a", "none,b"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    source = open_source(tmp_path / "list.csv")
    keys = [sample.key for sample in source]
    assert len(set(keys)) == 3
    assert keys[2] == b"h/y.jpg"
    assert all(key.startswith(b"h/x?") and b"id" not in key for key in keys[:2])
    assert [(one.key, one.code) for one in source.findings.rejected] == [(b"none", "E_MISSING")]


def test_a_table_beside_its_images_is_read_as_before(web: WebServer, tmp_path: Path) -> None:
    rows = "name,url,label\nrose/0001.jpg,http://h/1.jpg,rose\ntulip/0001.jpg,http://h/2.jpg,tulip\n"
    (tmp_path / "list.csv").write_text(rows)
    options: dict[str, Any] = {"images": web.folder}
    source = open_source(tmp_path / "list.csv", options=LabelOptions(path_column="name", **options))
    assert [sample.key for sample in source] == [b"rose/0001.jpg", b"tulip/0001.jpg"]
    (tmp_path / "list.csv").write_text(rows.replace("name", "path"))
    assert [sample.key for sample in open_source(tmp_path / "list.csv", options=LabelOptions(**options))] == [
        b"rose/0001.jpg",
        b"tulip/0001.jpg",
    ]


def test_a_column_that_may_be_another_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("page,thumb,label\nhttp://h/1,http://h/1.jpg,a\nhttp://h/2,http://h/2.jpg,b\n")
    with pytest.raises(LabelFileError, match=r"page, thumb.*path_column"):
        open_source(tmp_path / "list.csv")
    source = open_source(tmp_path / "list.csv", options=LabelOptions(path_column="thumb", label_columns=["label"]))
    assert [sample.key for sample in source] == [b"h/1.jpg", b"h/2.jpg"]
    with pytest.raises(UsageError, match="exclude: is for files of a folder"):
        open_source(tmp_path / "list.csv", exclude="*.jpg", options=LabelOptions(path_column="thumb"))


def test_a_table_on_a_web_server(web: WebServer, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with web_server(tmp_path / "served") as other:
        table(web, tmp_path / "served" / "list.csv")
        source = open_source(f"{other.url}/list.csv")
        assert len(source) == 201
        assert [method for method, _, _ in other.requests] == ["HEAD", "GET"]
        with pytest.raises(UsageError, match="no such file, and folders are not listed by a web server"):
            open_source(f"{other.url}/none.csv")
    for secret in ("http://host/list.csv?sig=SECRET", "https://me:SECRET@host/list.csv"):
        done = command(secret, tmp_path / "out", "--log", tmp_path / "log")
        assert (done.returncode, "download the file" in done.stderr) == (2, True), done.stderr
        assert "SECRET" not in done.stderr + (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("name", "rows", "place"),
    [
        ("a.csv", ["image_url,label", "hf://datasets/u/r/v1/a.jpg,x"], "a.csv:2, column 'image_url'"),
        ("a.csv", ["path,id,label", "hf://datasets/u/r/v1/a.jpg,7,x"], "a.csv:2, column 'path'"),
        ("a.csv", ["hf://datasets/u/r/v1/a.jpg,x", "hf://datasets/u/r/v1/b.jpg,y"], "a.csv:2, column 0"),
        ("a.jsonl", ['{"image": "hf://datasets/u/r/v1/a.jpg", "label": "x"}'], "a.jsonl:1, column 'image'"),
    ],
    ids=["url", "path", "no header", "json"],
)
def test_urls_of_the_hub_are_refused_with_what_works(tmp_path: Path, name: str, rows: list[str], place: str) -> None:
    (tmp_path / name).write_text("\n".join(rows) + "\n")
    for options in (LabelOptions(), LabelOptions(path_column=0 if place.endswith(" 0") else place.split("'")[1])):
        with pytest.raises(LabelFileError) as raised:
            open_source(tmp_path / name, options=options)
        assert str(raised.value).startswith(f"{tmp_path / place}: a table cannot have hf:// URLs; ")
        assert "https://huggingface.co/datasets/USER/REPO/resolve/COMMIT/PATH" in str(raised.value)
        assert str(raised.value).endswith("or convert the folder hf://datasets/u/r/v1")


def test_one_url_of_the_hub_among_others_is_rejected_and_a_column_beside_the_paths_is_no_path(
    web: WebServer, tmp_path: Path
) -> None:
    urls = table(web, tmp_path / "list.csv", more="hf://datasets/u/r/a.jpg,201,rose")
    with pytest.raises(TooManyRejectedError, match=r"list.csv:203: a table cannot have hf:// URLs"):
        convert(urls, tmp_path / "out", dry_run=True)
    (tmp_path / "a.png").write_bytes(picture(1, "PNG", (6, 6)))
    (tmp_path / "b.csv").write_text("path,taken_from,label\na.png,hf://datasets/u/r/a.jpg,x\n")
    assert len(open_source(tmp_path / "b.csv")) == 1

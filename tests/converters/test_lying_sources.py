"""Sources of one's own that lie: the sample is rejected with its number, or one line names the code."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lying_sources import LIAR, LIES, RULE, SAMPLE, SOURCE, Lying, Sometimes, raising

import shardfeed
from shardfeed.converters import append, commit_shards, convert, shard_tasks, write_shard
from shardfeed.converters.report import Report
from shardfeed.errors import LeakError, ShardfeedError, TooManyRejectedError, UsageError
from shardfeed.readers import verify

pytestmark = pytest.mark.promise(75)

SAID_OF = {SOURCE: "Lying", RULE: r"source\[2\]|sample 1?2.jpg|its samples cannot be pickled|source.schema|split"}
# Values are compared with the schema, and images are read, by the worker: a dry run has no worker.
LATER = {name for name in LIES if name.startswith(("image ", "label ", "a feature", "column without"))}
LATER |= {name for name in LIES if name.endswith("when written")}
LATER -= {name for name in LIES if name.startswith(("image of", "image None", "image text", "image a "))}
FOR_PROCESSES = {"image not picklable", "image not loadable"}


def converted(source: Lying, folder: Path, **options: Any) -> Report:
    return convert(source, folder / "out", shards={"train": 2}, **options)


def dry(source: Lying, folder: Path, **options: Any) -> Report:
    return convert(source, folder / "out", dry_run=True, **{**options, "workers": None})


def appended(source: Lying, folder: Path, **options: Any) -> Report:
    if not (folder / "old").exists():
        convert(Lying(), folder / "old", workers=1)
    source.prefix = b"1"
    return append(folder / "old", source, folder / "out", **options)


WAYS: dict[str, Callable[..., Report]] = {"convert": converted, "dry run": dry, "append": appended}


def outcome(make: Callable[[], Lying], way: str, folder: Path, **options: Any) -> Report | ShardfeedError:
    """The report, or the error, which is one of ours."""
    try:
        return WAYS[way](make(), folder, **options)
    except ShardfeedError as error:
        return error


def check(name: str, way: str, folder: Path, **options: Any) -> None:
    blamed, make = LIES[name]
    got = outcome(make, way, folder, **options)
    in_time = way != "dry run" or name not in LATER
    if name in FOR_PROCESSES and options.get("workers") != 2:
        in_time = False
    if blamed == SAMPLE and in_time:
        check_rejected(got, folder)
        got = outcome(make, way, folder, max_bad=1, **options)
        assert isinstance(got, Report), got
        assert len(got.rejected) == 1
    elif blamed in SAID_OF and in_time:
        assert isinstance(got, UsageError), got
        assert re.search(SAID_OF[blamed], str(got)), str(got)
    else:
        assert isinstance(got, Report), got
    check_left(got, folder)


def check_rejected(error: Report | ShardfeedError, folder: Path) -> None:
    """One sample is rejected, with its number or its key, and nothing is committed."""
    assert isinstance(error, TooManyRejectedError), error
    (noted,) = error.rejected
    assert noted.what in ("E_SOURCE_ERROR", "E_CORRUPT")
    assert f"source[{LIAR}]" in noted.why or noted.key in (b"2.jpg", b"12.jpg")
    check_left(error, folder)


def check_left(got: Report | ShardfeedError, folder: Path) -> None:
    """A whole dataset is left, or none; and what is said is printable."""
    if isinstance(got, ShardfeedError):
        assert str(got).isprintable()
        assert not (folder / "out").exists()
        return
    assert all(text.isprintable() for text in (*got.notes, *(noted.why for noted in got.rejected)))
    if got.committed:
        verify(got.out)


@pytest.mark.parametrize("name", LIES)
def test_a_lying_source_is_named(name: str, tmp_path: Path) -> None:
    check(name, "convert", tmp_path, workers=1)


@pytest.mark.long
@pytest.mark.parametrize("way", ["dry run", "append"])
@pytest.mark.parametrize("name", LIES)
def test_a_lying_source_is_named_by_every_operation(name: str, way: str, tmp_path: Path) -> None:
    check(name, way, tmp_path, workers=1)


@pytest.mark.usefixtures("worker_processes")
@pytest.mark.parametrize("name", ["raises ValueError", "image raises SystemExit", "image not loadable"])
def test_a_lying_source_is_named_with_worker_processes(name: str, tmp_path: Path) -> None:
    check(name, "convert", tmp_path, workers=2)


@pytest.mark.long
@pytest.mark.usefixtures("worker_processes")
@pytest.mark.parametrize("name", [name for name, lie in LIES.items() if lie.blamed != SOURCE])
def test_every_lying_source_is_named_with_worker_processes(name: str, tmp_path: Path) -> None:
    check(name, "convert", tmp_path, workers=2)


def test_a_lying_source_is_named_on_a_cluster(tmp_path: Path) -> None:
    lie = LIES["raises when written"]
    tasks = shard_tasks(lie.make(), tmp_path / "out", max_bad=1)
    for task in tasks:
        write_shard(task)
    with pytest.raises(UsageError, match=r"Lying\.info raised ValueError: .x1bno"):
        shard_tasks(LIES["info raises"].make(), tmp_path / "none")
    report = commit_shards(tasks)
    assert [(noted.key, noted.what) for noted in report.rejected] == [(b"source[2]", "E_SOURCE_ERROR")]
    verify(report.out)


def test_a_source_that_raises_for_each_sample_says_so(tmp_path: Path) -> None:
    class None_(Lying):
        def __getitem__(self, i: int) -> Any:
            raise OSError(i, "no disk")

    for limit in (0, "100%"):
        with pytest.raises(TooManyRejectedError, match=r"all of its samples .* source\[4\]: .*no disk") as caught:
            convert(None_(), tmp_path / "out", max_bad=limit, workers=1)
        assert [noted.key for noted in caught.value.rejected] == [b"source[%d]" % i for i in range(5)]


def test_interrupting_a_source_interrupts_the_conversion(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert(Lying(raising(KeyboardInterrupt)), tmp_path / "out", workers=1)


def test_a_sample_that_fails_once_is_taken_by_the_next_call(tmp_path: Path) -> None:
    source = Lying(Sometimes(ValueError("later")))
    with pytest.raises(TooManyRejectedError, match="1 E_SOURCE_ERROR"):
        convert(source, tmp_path / "out", workers=1)
    assert convert(Lying(), tmp_path / "out", workers=1).rejected == []
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 5


def test_the_length_is_not_believed_where_no_sample_follows(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Lying.__len__ returned 274,877,906,944, but source\[5\] and the next 999"):
        convert(LIES["length 2^38"].make(), tmp_path / "out", workers=1)


def test_groups_and_leaks_are_looked_for_among_the_samples_that_are_left(tmp_path: Path) -> None:
    """Their tables have a row for each sample, and none for one that is left out."""
    lie = LIES["raises ValueError"]
    shares = {"train": 0.5, "test": 0.5}
    report = convert(
        lie.make(), tmp_path / "out", max_bad=1, workers=1, split=shares, group_pattern="(?P<group>.).*", no_leaks=False
    )
    data = shardfeed.open(report.out)
    assert sorted(key for split in data.values() for key in split.column("image/filename")) == [
        b"0.jpg", b"1.jpg", b"3.jpg", b"4.jpg",
    ]  # fmt: skip
    with pytest.raises(LeakError, match=r"\d.jpg"):  # all images are the same
        convert(lie.make(), tmp_path / "leak", max_bad=1, workers=1, no_leaks=True, split=shares)

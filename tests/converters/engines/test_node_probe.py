"""Check of the files that a node must see before it gets a shard."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.converters import ImageFolder
from shardfeed.converters.engines import node_probe
from shardfeed.converters.engines.node_probe import Probe, look
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.samples import made_by
from shardfeed.converters.shards.task import ShardTask
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import StorageError, UsageError
from shardfeed.schema import Schema, image_features
from shardfeed.storage.address import destination

from buckets import Bucket


@pytest.fixture
def task(folder: Callable[..., Path], tmp_path: Path) -> ShardTask:
    source = ImageFolder(folder(1))
    samples = (Sample(b"made", b"bytes"), *(source[i] for i in range(len(source))))
    schema = Schema(image_features(sha256=False), {})
    return ShardTask(str(tmp_path), "train", 0, 1, 0, samples, schema, ImageOptions())


def test_the_same_place(task: ShardTask, tmp_path: Path) -> None:
    probe = Probe(str(tmp_path), task)
    assert probe.question.sample == task.samples[1], "the first that is a file"
    probe.check(look(probe.question))


def test_another_place(task: ShardTask, tmp_path: Path) -> None:
    probe = Probe(str(tmp_path), task)
    Path(probe.question.path).write_bytes(b"theirs")
    with pytest.raises(StorageError, match=f"{re.escape(str(tmp_path))}: node .* it has another file there"):
        probe.check(look(probe.question))
    os.unlink(probe.question.path)
    with pytest.raises(StorageError, match="does not see this directory: No such file or directory; use a path"):
        probe.check(look(probe.question))


def test_other_images(task: ShardTask, tmp_path: Path) -> None:
    probe = Probe(str(tmp_path), task)
    path = task.samples[1].image.path  # type: ignore[union-attr]  # a SourceFile, as the test above says
    os.utime(path, ns=(1, 1))
    with pytest.raises(StorageError, match=r"0000.jpg: node .* does not see this image: E_SOURCE_CHANGED"):
        probe.check(look(probe.question))
    mine = Probe(str(tmp_path), task)
    assert mine.question.sample is None, "it cannot be read here either: its shard will say so"
    mine.check(look(mine.question))


def test_other_versions(task: ShardTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(str(tmp_path), task)
    real = made_by
    monkeypatch.setattr(node_probe, "made_by", lambda *what: {**real(*what), "pillow": "1.0", "more": "2"})
    with pytest.raises(UsageError, match=r"^node .*: has more 2, not None, pillow 1.0, not \d+.*; install the same"):
        probe.check(look(probe.question))


def test_a_bucket(task: ShardTask, bucket: Bucket) -> None:
    """A node must be able to read, create and remove files there, and leaves none."""
    place = f"s3://{bucket.name}/p"
    probe = Probe(place, task)
    probe.check(look(probe.question))
    assert len(destination(place).below(place)) == 1
    for refused in ("GET", "PUT", "DELETE"):
        bucket.proxy.fault = lambda method, path, part, r=refused: "403" if method == r else ""
        with pytest.raises(StorageError, match=rf"{place}: node .* cannot use this bucket: .*access denied"):
            probe.check(look(probe.question))
    bucket.proxy.fault = lambda method, path, part: ""
    bucket.client.delete_object(Bucket=bucket.name, Key=probe.question.path.removeprefix(f"s3://{bucket.name}/"))
    with pytest.raises(StorageError, match="the file of this check is not there; give each node the same endpoint"):
        probe.check(look(probe.question))

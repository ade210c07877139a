"""Conversion by `shard_tasks`, `write_shard` and `commit_shards`: the bytes of `convert`, also if tried twice."""

import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardfeed.converters import commit_shards, convert, shard_tasks, write_shard
from shardfeed.errors import OutputExistsError, TooManyRejectedError, UsageError

from buckets import Bucket
from trees import tree


@pytest.fixture
def expected(folder: Callable[..., Path], tmp_path: Path) -> dict[str, bytes]:
    """The dataset `flowers` that `convert` makes of the images below `tmp_path`."""
    (tmp_path / "expected").mkdir()
    convert(folder(5), tmp_path / "expected" / "flowers", shards=3, workers=1)
    return tree(tmp_path / "expected" / "flowers")


def stored(bucket: Bucket, prefix: str) -> dict[str, bytes]:
    found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=f"{prefix}/").get("Contents", [])
    get = bucket.client.get_object
    return {one["Key"][len(prefix) + 1 :]: get(Bucket=bucket.name, Key=one["Key"])["Body"].read() for one in found}


def files(of: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in of.items() if not name.endswith("/")}


def test_tasks_travel_and_a_second_try_writes_nothing(expected: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "flowers"
    tasks = shard_tasks(tmp_path / "images", out, shards=3)
    assert len(tasks) == 3
    with pytest.raises(UsageError, match=r"3 shards not written \(train-00000-of-00003.*call `shard_tasks` again"):
        commit_shards(tasks)
    first, *others = [pickle.loads(pickle.dumps(task)) for task in tasks]
    receipt = pickle.loads(pickle.dumps(write_shard(first)))
    written = os.stat(first.paths[0])
    assert write_shard(first) == receipt
    assert os.stat(first.paths[0]) == written
    assert receipt.columns
    with pytest.raises(UsageError, match=r"node .* has shardfeed .*, not 0\.0.*install the same versions"):
        write_shard(replace(first, made_by={**first.made_by, "shardfeed": "0.0"}))
    tasks = shard_tasks(tmp_path / "images", out, shards=3)
    assert [task.number for task in tasks] == [task.number for task in others] == [1, 2]
    for task in tasks:
        write_shard(task)
    report = commit_shards(tasks)
    assert report.committed
    assert report.kept == 3
    assert tree(out) == expected
    assert not list(tmp_path.glob(".flowers.staging*"))
    with pytest.raises(OutputExistsError):
        shard_tasks(tmp_path / "images", out, shards=3)


def test_too_many_rejected(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(2)
    next(root.rglob("*.jpg")).write_bytes(b"\xff\xd8 no image")
    tasks = shard_tasks(root, tmp_path / "out", shards=2)
    for task in tasks:
        write_shard(task)
    with pytest.raises(TooManyRejectedError, match="1 input rejected"):
        commit_shards(tasks)
    tasks = shard_tasks(root, tmp_path / "out", shards=2, max_bad=1)
    assert len(tasks) == 0
    assert len(commit_shards(tasks).rejected) == 1


def test_a_bucket(bucket: Bucket, expected: dict[str, bytes], tmp_path: Path) -> None:
    url = f"s3://{bucket.name}/flowers"
    tasks = shard_tasks(tmp_path / "images", url, shards=3)
    first = next(iter(tasks))
    receipt = write_shard(first)
    assert write_shard(first) == receipt
    sent = [request.path for request in bucket.proxy.requests if request.method == "PUT"]
    assert len(sent) == 3, "the shard, its index and its receipt, once"
    tasks = shard_tasks(tmp_path / "images", url, shards=3)
    assert [task.number for task in tasks] == [1, 2]
    for task in tasks:
        write_shard(task)
    with pytest.raises(OutputExistsError, match="another file is there"):
        write_shard(next(iter(shard_tasks(tmp_path / "images", url, shards=3, seed=1, restart=True))))
    tasks = shard_tasks(tmp_path / "images", url, shards=3, restart=True)
    assert len(tasks) == 0
    assert commit_shards(tasks).out == url
    assert stored(bucket, "flowers") == files(expected)
    with pytest.raises(OutputExistsError, match="exists already"):
        shard_tasks(tmp_path / "images", url, shards=3)


def test_nothing_remains_in_the_temporary_folder(
    bucket: Bucket, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, url, temporary = tmp_path / "images", f"s3://{bucket.name}/flowers", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    convert(root, url, shards=3, dry_run=True)
    assert not [*temporary.iterdir()]
    with pytest.raises(UsageError, match="none of"):
        convert(root, url, split={"train": 0.999, "test": 0.001})
    assert not [*temporary.iterdir()]
    convert(root, url, shards=3, workers=1)
    assert not [*temporary.iterdir()]
    tasks = shard_tasks(root, f"s3://{bucket.name}/other", shards=3)
    for task in tasks:
        write_shard(task)
    assert [*temporary.iterdir()], "what is begun"
    commit_shards(tasks)
    assert not [*temporary.iterdir()]
    with pytest.raises(OutputExistsError, match="exists already"):
        convert(root, url)
    assert not [*temporary.iterdir()]
    assert stored(bucket, "flowers") == files(expected)


@pytest.mark.long
@pytest.mark.parametrize("to", ["webdataset", "parquet", "mds"])
def test_other_formats_in_a_bucket(bucket: Bucket, folder: Callable[..., Path], tmp_path: Path, to: str) -> None:
    root = folder(2)
    convert(root, tmp_path / "flowers", shards=2, to=to, workers=1)
    tasks = shard_tasks(root, f"s3://{bucket.name}/flowers", shards=2, to=to)
    for task in tasks:
        write_shard(task)
    commit_shards(tasks)
    assert stored(bucket, "flowers") == files(tree(tmp_path / "flowers"))


@pytest.mark.long
def test_unreadable_images_are_tried_again(bucket: Bucket, expected: dict[str, bytes], tmp_path: Path) -> None:
    """By the next `shard_tasks`, which makes room for their shards in the bucket."""
    url, image = f"s3://{bucket.name}/flowers", next((tmp_path / "images").rglob("*.jpg"))
    tasks = shard_tasks(tmp_path / "images", url, shards=3)
    image.rename(hidden := image.with_name("hidden"))
    hidden.chmod(0)
    image.symlink_to("/proc/self/mem")  # an image that cannot be read, even by root
    for task in tasks:
        write_shard(task)
    with pytest.raises(TooManyRejectedError):
        commit_shards(tasks)
    image.unlink()
    hidden.rename(image)
    image.chmod(0o644)
    tasks = shard_tasks(tmp_path / "images", url, shards=3)
    for task in tasks:
        write_shard(task)
    commit_shards(tasks)
    assert stored(bucket, "flowers") == files(expected)


RECIPES = (Path(__file__).parents[2] / "docs" / "large-data.md").read_text()


@pytest.mark.long
def test_the_recipe_for_processes(bucket: Bucket, folder: Callable[..., Path], tmp_path: Path) -> None:
    """As a user runs it, from a bucket, and once more after its output is there.

    Its processes are forked from one that has read the bucket, except on Python 3.14 and later.
    """
    (tmp_path / "expected").mkdir()
    for path in folder(8).rglob("*.jpg"):
        key = str(path.relative_to(tmp_path))
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=path.read_bytes())
    convert(tmp_path / "images", tmp_path / "expected" / "flowers", split={"train": 0.9, "validation": 0.1})
    (code,) = re.findall(r"```py\n(# processes_convert\.py\n.*?)```", RECIPES, re.DOTALL)
    (tmp_path / "processes_convert.py").write_text(code)
    command = [sys.executable, "processes_convert.py", f"s3://{bucket.name}/images", f"s3://{bucket.name}/flowers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "committed, train: " in done.stdout
    assert stored(bucket, "flowers") == files(tree(tmp_path / "expected" / "flowers"))
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "exists already" in again.stderr


# In place of Slurm's: starts three copies of a program with the variables that Slurm sets.
SRUN = """#!/bin/sh
for copy in 0 1 2; do SLURM_NTASKS=3 SLURM_PROCID=$copy "$@" & copies="$copies $!"; done
for copy in $copies; do wait $copy || exit 1; done
"""


@pytest.mark.long
def test_the_recipe_for_slurm(folder: Callable[..., Path], tmp_path: Path) -> None:
    """In one job, whose second try finds one shard missing."""
    (tmp_path / "expected").mkdir()
    convert(folder(8), tmp_path / "expected" / "flowers", split={"train": 0.9, "validation": 0.1})
    (code,) = re.findall(r"```py\n(# slurm_convert\.py\n.*?)```", RECIPES, re.DOTALL)
    (tmp_path / "slurm_convert.py").write_text(code)
    (tmp_path / "srun").write_text(SRUN.replace("0 1 2", "1 2"))  # one of the copies is lost
    (tmp_path / "srun").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "slurm_convert.py", "images", "flowers"]

    def submit() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    lost = submit()
    assert lost.returncode == 1
    assert "1 shard not written" in lost.stderr
    shutil.rmtree(tmp_path / "tasks")
    (tmp_path / "srun").write_text(SRUN)
    done = submit()
    assert done.returncode == 0, done.stderr
    assert "committed, train: " in done.stdout
    assert tree(tmp_path / "flowers") == tree(tmp_path / "expected" / "flowers")


# A node: it carries out the tasks in its file, in their order, with a working directory and temporary files of its own.
NODE = """
import pickle, sys
from shardfeed.converters import write_shard
for task in pickle.load(open(sys.argv[1], "rb")):
    write_shard(task)
"""


@pytest.mark.long
@pytest.mark.promise(7)
@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.torture)])
@pytest.mark.parametrize("where", ["directory", "bucket"])
def test_nodes_are_killed_at_random(
    bucket: Bucket, expected: dict[str, bytes], tmp_path: Path, where: str, kills: int, seed: int
) -> None:
    """Two nodes have all tasks, in opposite orders, so that they also meet at one."""
    chance, out = random.Random(seed), str(tmp_path / "flowers")
    out = f"s3://{bucket.name}/flowers" if where == "bucket" else out
    tasks = [*shard_tasks(tmp_path / "images", out, shards=3)]
    for number in (0, 1):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "tasks").write_bytes(pickle.dumps(tasks[:: 1 - 2 * number]))

    def node(number: int) -> subprocess.Popen[bytes]:
        home = tmp_path / f"node{number}"
        return subprocess.Popen([sys.executable, "-c", NODE, "tasks"], cwd=home, env=os.environ | {"TMPDIR": str(home)})

    running = [node(0), node(1)]
    for _ in range(kills):
        time.sleep(chance.uniform(0, 3))
        number = chance.randrange(2)
        running[number].kill()
        running[number].wait()
        running[number] = node(number)
    assert [process.wait() for process in running] == [0, 0]
    remaining = shard_tasks(tmp_path / "images", out, shards=3)
    assert len(remaining) == 0
    commit_shards(remaining)
    if where == "bucket":
        assert stored(bucket, "flowers") == files(expected)
    else:
        assert tree(tmp_path / "flowers") == expected

"""RELIABILITY 2 and 4: killed exactly at each operation on storage, or failing at each sample."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.shards import write_shard as shard_writer
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import TooManyRejectedError

import in_process
from in_process import convert_here
from repository import ROOT, SUPPORT
from trees import tree

SHARDS = {  # of a mode that is a format: the shard, as it is called while it is made
    "webdataset": "data/train-*.tar",
    "parquet": "data/train-*.parquet",
    "mds": "train/shard.*.mds",
    "arrayrecord": "dataset/train-*.array_record",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A path for a directory that a test makes."""
    return tmp_path / "place"


def python_path(*first: Path) -> str:
    """A PYTHONPATH with `first` before what this process sees."""
    return os.pathsep.join([*map(str, first), *map(os.path.abspath, filter(None, sys.path))])


@pytest.mark.promise(2, 47)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [72, pytest.param(1, marks=pytest.mark.torture)])
@pytest.mark.parametrize(
    "mode",
    [
        "convert",
        *(
            pytest.param(mode, marks=pytest.mark.long)
            for mode in ("checkpoints", "edited", "replace", "objects", *SHARDS)
        ),
    ],
)
def test_killed_at_every_operation(
    mode: str, every: int, folder: Callable[..., Path], place: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    """Absent or complete, old or new; running again makes no finished shard again, and gives the same bytes.

    In mode "checkpoints" every shard goes on from where it was killed, image by image; in mode "objects" too, with
    boxes and masks. In mode "edited" an earlier run had finished its shards, of images that have changed since.
    """
    images = ROOT / "data_samples" / "scenes" / "coco" / "instances.json" if mode == "objects" else folder(4)
    command = [sys.executable, str(SUPPORT / "kill_trials.py"), str(images), str(place), mode, str(every), str(seed)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": python_path()}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not result["failures"], "\n".join(result["failures"])
    assert result["operations"] > 100
    assert result["trials"] > (result["operations"] if every == 1 else 30)
    kinds = " ".join(result["kinds"])
    shard = SHARDS.get(mode, "dataset/train-*.tfrecord")
    for kind in (f"rename {shard}", "write receipts/train-*", "fsync .out.staging", "unlink", "mkdir"):
        assert kind in kinds
    assert mode != "edited" or "rename receipts/train-*.json" in kinds
    assert mode not in ("checkpoints", "objects") or "rename dataset/train-*.tfrecord.checkpoint.partial" in kinds
    assert ("exchange" if mode == "replace" else "rename .out.staging/dataset") in kinds
    torture_result(f"killed at a disk operation: {mode}", trials=result["trials"], failures=0, seed=seed)


# (operation, end of its path): what a run of the real command dies at, in whichever process comes there.
ONCE = [
    ("mkdir", ".out.staging.partial/receipts"),
    ("write", "inputs.jsonl.partial"),
    ("rename", "plan.json.partial"),
    ("rename", ".out.staging.partial"),
    ("write", "index/train.image.class.label.npy.partial"),
    ("rename", "features.json.partial"),
    ("fsync", "manifest.json.partial"),
    ("rename", "manifest.json.partial"),
    ("rename", ".out.staging/dataset"),
    ("rename", ".out.staging"),
    ("rmdir", ".out.staging.partial"),
    ("unlink", ".out.lock"),
]
OF_A_SHARD = [
    ("create", "dataset/SHARD.tfrecord.partial"),
    ("write", "dataset/SHARD.tfrecord.partial"),
    ("fsync", "dataset/SHARD.tfrecord.partial"),
    ("rename", "dataset/SHARD.tfrecord.partial"),
    ("write", "dataset/index/SHARD.tfindex.partial"),
    ("rename", "dataset/index/SHARD.tfindex.partial"),
    ("write", "receipts/SHARD.json.partial"),
    ("fsync", "receipts/SHARD.json.partial"),
    ("rename", "receipts/SHARD.json.partial"),
]
STEMS = [f"train-{number:05d}-of-00007" for number in (0, 3, 6)]  # first, middle, last
POINTS = ONCE + [(name, path.replace("SHARD", stem)) for stem in STEMS for name, path in OF_A_SHARD]
ALL = [(*point, when) for point in POINTS for when in ("before", "after")]
FEW = [
    ("write", f"dataset/{STEMS[1]}.tfrecord.partial", "after"),
    ("rename", f"receipts/{STEMS[0]}.json.partial", "before"),
    ("fsync", "manifest.json.partial", "before"),
    ("rename", ".out.staging/dataset", "after"),
]


@pytest.mark.promise(2)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("points", [FEW, pytest.param(ALL, marks=pytest.mark.torture)], ids=["few", "all"])
@pytest.mark.long
def test_the_command_killed_at_a_named_point(
    points: list[tuple[str, str, str]], folder: Callable[..., Path], tmp_path: Path, torture_result: Callable[..., None]
) -> None:
    """The whole process group, by whichever of its processes comes to the point."""
    images = folder(12)
    (tmp_path / "whole").mkdir()
    convert(ImageFolder(images), tmp_path / "whole" / "out", shards=7, workers=1)
    expected = tree(tmp_path / "whole")
    hook = tmp_path / "hook"
    hook.mkdir()
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(images), "out", "--shards", "7", "--quiet"]
    command += ["--workers", "2"]
    for name, end, when in points:
        place = tmp_path / "place"
        place.mkdir()
        (hook / "sitecustomize.py").write_text(
            f"import os, signal, sys\nfrom pathlib import Path\nsys.path.insert(0, {str(SUPPORT)!r})\n"
            "import storage_ops\nsys.path.pop(0)\n"
            "def die(operation):\n"
            f"    if operation.name == {name!r} and operation.path.endswith({'/' + end!r}):\n"
            "        os.killpg(os.getpgrp(), signal.SIGKILL)\n"
            "def go_on(operation):\n    pass\n"
            f"kept = storage_ops.watched(Path({str(place)!r}), {'die, go_on' if when == 'before' else 'go_on, die'})\n"
            "kept.__enter__()\n"
        )
        environment = os.environ | {"PYTHONPATH": python_path(hook)}
        killed = subprocess.run(command, cwd=place, env=environment, start_new_session=True, check=False)
        what = f"{when} {name} {end}"
        assert killed.returncode == -signal.SIGKILL, f"{what}: never came there"
        if (place / "out").exists():
            assert {f"out/{key}": data for key, data in tree(place / "out").items()} | {"out/": b""} == expected, what
        finished = (place / "out").exists() and not (place / ".out.staging").exists()
        again = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert again.returncode == (2 if finished else 0), f"{what}: {again.stderr}"
        assert tree(place) == expected, what
        shutil.rmtree(place)
    torture_result("the command killed at a named point", trials=len(points), failures=0)


@pytest.mark.promise(4)
def test_an_encoder_that_fails_at_each_sample(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of its shard is left, under whatever name; those before are kept, and running again ends well."""
    images = folder(4)
    (tmp_path / "whole").mkdir()
    convert_here(images, tmp_path / "whole" / "out")
    expected = tree(tmp_path / "whole")
    real = shard_writer.store_image
    for k in range(12):
        count = 0

        def failing(*arguments: Any, k: int = k) -> Any:
            nonlocal count
            count += 1
            if count == k + 1:
                raise RuntimeError("a bug in the encoder")
            return real(*arguments)

        place = tmp_path / f"at{k}"
        place.mkdir()
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="a bug"):
            patch.setattr(shard_writer, "store_image", failing)
            convert_here(images, place / "out")
        done = k // 4  # shards of four
        assert not (place / "out").exists()
        names = sorted(path.name for path in (place / ".out.staging" / "dataset").rglob("*.tf*"))
        stems = [f"train-{number:05d}-of-00003" for number in range(done)]
        assert names == sorted(stem + suffix for stem in stems for suffix in (".tfrecord", ".tfindex"))
        assert len(list((place / ".out.staging" / "receipts").iterdir())) == done
        convert_here(images, place / "out")
        assert tree(place) == expected


class Failing:
    """An image folder whose `calls`th question raises; 0 for never."""

    def __init__(self, root: Path, calls: int) -> None:
        self._source = ImageFolder(root)
        self.schema = self._source.schema
        self.calls, self.asked = calls, 0

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, i: int) -> Sample:
        self.asked += 1
        if self.asked == self.calls:
            raise RuntimeError("the network is down")
        return self._source[i]


@pytest.mark.promise(4)
def test_a_source_that_fails_at_each_sample(
    folder: Callable[..., Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = folder(4)

    def run(calls: int, at: Path) -> Failing:
        source = Failing(images, calls)
        convert(source, at / "out", shards=3, workers=in_process.OwnEngine(1))
        return source

    (place / "whole").mkdir(parents=True)
    asked = run(0, place / "whole").asked
    expected = tree(place / "whole")
    assert asked >= 24
    begun = 0
    for calls in range(1, asked + 1):
        at = place / f"at{calls}"
        at.mkdir()
        try:
            run(calls, at)
        except TooManyRejectedError:  # the sample is rejected; the next run asks for it again
            pass
        else:  # a first look at a sample, which was asked for again
            assert tree(at) == expected
            continue
        left = tree(at)
        assert not [name for name in left if name.endswith(".partial") or name.startswith("out")]
        begun += ".out.staging/" in left
        shards = {Path(name).stem for name in left if name.endswith((".tfrecord", ".tfindex"))}
        assert {Path(name).stem for name in left if name.endswith(".json") and "/receipts/" in name} == shards
        run(0, at)
        assert tree(at) == expected
    assert 0 < begun < asked


@pytest.mark.promise(4)
@pytest.mark.parametrize("k", [0, 5])
def test_an_error_in_a_worker(k: int, folder: Callable[..., Path], tmp_path: Path) -> None:
    """A label without a class name is found while its record is made, in a process of its own."""
    from shardfeed.converters.images.options import ImageOptions
    from shardfeed.converters.shards.task import ShardTask
    from shardfeed.errors import UsageError
    from shardfeed.schema import LABEL, Feature, Schema, image_features

    image = next(folder(1).rglob("*.jpg")).read_bytes()
    schema = Schema({**image_features(sha256=False), LABEL: Feature("int64")}, {LABEL: ("a", "b")})
    samples = tuple(Sample(b"%d" % i, image, {LABEL: 7 if i == k else 1}) for i in range(6))
    shards = tmp_path / "shards"
    shards.mkdir()
    task = ShardTask(str(shards), "train", 0, 1, 0, samples, schema, ImageOptions())
    with LocalEngine(1) as engine, pytest.raises(UsageError, match=re.escape(f"sample {k}")):
        list(engine.run(iter([task])))
    assert not list(shards.iterdir())

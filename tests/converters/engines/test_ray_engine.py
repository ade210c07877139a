"""Conversion on a Ray cluster of two nodes, made on this machine: the same bytes, whatever is lost."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, RayWorkers, conversion, convert
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import StorageError, UsageError, WorkerLostError
from shardfeed.schema import Schema, image_features
from shardfeed.tools import cli, command_list

from processes import HANGS, descendants, processes, until, until_gone
from trees import tree

ray = pytest.importorskip("ray")
from shardfeed import ray_cluster  # noqa: E402  # it needs Ray, as do these
from shardfeed.converters.engines import node_probe, ray_engine  # noqa: E402
from shardfeed.converters.engines.ray_engine import RayEngine  # noqa: E402

pytestmark = pytest.mark.timeout(120)
SCHEMA = Schema(image_features(sha256=False), {})
# Imported by every worker process that a node starts: it may end itself, or wait, at an image.
TROUBLE = '''
import os, signal, time
from pathlib import Path

def ends(name, way, once=""):
    """The image's bytes; at first, or each time, `way` is done instead."""
    if not once or not os.path.exists(once):
        if once:
            Path(once).touch()
        if way == "sleep":
            time.sleep(60)
        # "actor": the process that has this one, as the end of a node would.
        os.kill(os.getppid() if way == "actor" else os.getpid(), signal.SIGKILL)
        time.sleep(60)
    return Path(name).read_bytes()

def slow(name, seconds):
    time.sleep(seconds)
    return Path(name).read_bytes()
'''


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("modules")
    (place / "ray_trouble.py").write_text(TROUBLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield place


@pytest.fixture
def image(flowers_folder: Path) -> Path:
    return flowers_folder / "rose" / "0001.jpg"


def trouble(image: Path, way: str, once: Path | str = "") -> Callable[[], bytes]:
    import ray_trouble  # pyright: ignore[reportMissingImports]  # written by `cluster`

    return partial(ray_trouble.ends, str(image), way, str(once))


def task(directory: Path, number: int, images: list[Any]) -> ShardTask:
    samples = tuple(Sample(b"%d-%d" % (number, i), image) for i, image in enumerate(images))
    return ShardTask(str(directory), "train", number, 9, 0, samples, SCHEMA, ImageOptions())


def run(engine: RayEngine, tasks: list[ShardTask]) -> dict[int, Receipt]:
    with engine:
        return {receipt.number: receipt for receipt in engine.run(iter(tasks))}


def arguments(root: Path, out: Path, address: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(root), str(out)]
    return [*command, "--engine", "ray", "--address", address, *more]


class Slow:
    """A folder whose images take `seconds` each."""

    def __init__(self, root: Path, seconds: float) -> None:
        import ray_trouble  # pyright: ignore[reportMissingImports]  # as above

        self.folder = ImageFolder(root)
        self.schema = self.folder.schema
        self.slow, self.root, self.seconds = ray_trouble.slow, root, seconds

    def __len__(self) -> int:
        return len(self.folder)

    def __getitem__(self, i: int) -> Sample:
        sample = self.folder[i]
        return replace(sample, image=partial(self.slow, self.root / os.fsdecode(sample.key), self.seconds))


def below(pid: int) -> list[int]:
    """Worker processes below `pid` that were started by `multiprocessing`."""
    return [each for each, process in descendants(pid).items() if "spawn_main" in process.command]


@pytest.mark.promise(7, 14)
@pytest.mark.long
def test_the_command_gives_the_same_bytes(cluster: Any, folder: Callable[..., Path], tmp_path: Path) -> None:
    """Although an actor is killed as soon as it has a shard; stdout has the report alone, whatever Ray prints."""
    root = folder(20, png_every=5)
    places = [tmp_path / "here", tmp_path / "there"]
    for place in places:
        place.mkdir()
    convert(ImageFolder(root), places[0] / "out", shards=5, workers=1)
    command = arguments(root, places[1] / "out", cluster.address, "--shards", "5", "--json")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    worker = until(lambda: below(os.getpid()))[0]
    os.kill(processes()[worker].parent, signal.SIGKILL)
    said, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    report = json.loads(said)
    assert [note for note in report["notes"] if "was lost at train-0000" in note], report["notes"]
    assert tree(places[1]) == tree(places[0]), "and nothing beside it"
    assert report["images"] >= 60


@pytest.mark.promise(5)
@pytest.mark.long
def test_a_signal_stops_it(cluster: Any, folder: Callable[..., Path], tmp_path: Path) -> None:
    """And the local engine takes up what was begun here."""
    root = folder(400)
    command = arguments(root, tmp_path / "out", cluster.address, "--shards", "24", "--quiet")
    receipts = tmp_path / ".out.staging" / "receipts"
    found = 0
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
        until(lambda found=found: len(list(receipts.glob("*.json"))) > found)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=HANGS)
        assert (process.returncode, len(errors.splitlines())) == (code, 1), errors
        assert "run the same command again to resume" in errors
        found = len(list(receipts.glob("*.json")))
        assert not (tmp_path / "out").exists()
    assert 2 <= found < 24
    until_gone(lambda: below(os.getpid()))
    report = convert(ImageFolder(root), tmp_path / "out", shards=24, workers=1)
    assert 0 < report.images < 1200
    (tmp_path / "whole").mkdir()
    convert(ImageFolder(root), tmp_path / "whole" / "out", shards=24, workers=2)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole" / "out")
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.long
@pytest.mark.promise(5)
@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
@pytest.mark.parametrize("call", ["wait", pytest.param("get", marks=pytest.mark.long)])
def test_a_signal_inside_a_call_of_ray(
    connected: Any,
    call: str,
    number: signal.Signals,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ray's own code runs the handler there, and passes no exception on but the one of Ctrl-C."""

    @ray.remote(num_cpus=0)
    class Sleeper:
        def sleep(self) -> None:
            time.sleep(600)

    sleeper = Sleeper.remote()
    answer = sleeper.sleep.remote()

    def run(args: object) -> int:
        threading.Thread(target=send_inside, args=[number, threading.get_ident()]).start()
        ray.wait([answer], timeout=60) if call == "wait" else ray.get(answer, timeout=60)
        return 0

    command = SimpleNamespace(add_arguments=lambda parser: None, run=run)
    for module in (cli, command_list):
        monkeypatch.setattr(module, "command_module", lambda name: command)
    assert cli.main(["verify"]) == 128 + number
    assert capsys.readouterr().err == f"shardfeed: {said}; run the same command again to resume\n"
    ray.kill(sleeper)


def send_inside(number: signal.Signals, thread: int) -> None:
    """Send this process a signal once `thread` stays at one instruction of `ray.wait` or `ray.get`."""
    stayed, place = 0, None
    while stayed < 20:
        frame = sys._current_frames()[thread]
        here = frame.f_code.co_filename, frame.f_lasti
        stayed = stayed + 1 if here == place and f"{os.sep}ray{os.sep}" in here[0] else 0
        place = here
        time.sleep(0.01)
    signal.raise_signal(number)


@pytest.mark.long
def test_a_connection_of_its_own_is_left(cluster: Any, image: Path, tmp_path: Path) -> None:
    ray.shutdown()  # another test may have joined the cluster
    handler = signal.getsignal(signal.SIGTERM)
    engine = RayEngine(str(tmp_path / "tries"), cluster.address)
    with engine:
        assert not ray.is_initialized()
        receipts = {
            r.number: r for r in engine.run(iter([task(tmp_path, n, [image.read_bytes()] * n) for n in range(5)]))
        }
        assert ray.is_initialized()
        assert signal.getsignal(signal.SIGTERM) is handler
    assert not ray.is_initialized()
    assert {n: r.info.records for n, r in receipts.items()} == {n: n for n in range(5)}
    assert engine.done() == (10, 10 * image.stat().st_size)
    assert engine.warnings == []
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 10, "five shards, five indexes"


@pytest.mark.long
def test_another_cluster_than_the_one_that_is_joined(connected: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"connected to"), RayEngine(str(tmp_path), "127.0.0.1:1") as engine:
        engine.start(1)
    assert ray.is_initialized()


@pytest.mark.promise(8, 9)
@pytest.mark.long
def test_poisonous_and_endless_images_are_condemned(connected: Any, image: Path, tmp_path: Path) -> None:
    whole = image.read_bytes()
    engine = RayEngine(str(tmp_path / "tries"), connected.address, image_timeout=1.0)
    images = [[whole, trouble(image, "worker"), whole], [whole, whole, trouble(image, "sleep")]]
    receipts = run(engine, [task(tmp_path, n, each) for n, each in enumerate(images)])
    assert [(r.key, r.what) for r in receipts[0].rejected] == [(b"0-1", "E_DECODER_CRASH")]
    assert [(r.key, r.what) for r in receipts[1].rejected] == [(b"1-2", "E_DECODE_TIMEOUT")]
    assert [receipts[n].info.records for n in (0, 1)] == [2, 2]
    assert len(engine.warnings) == 4
    assert all(said.startswith("on node ") for said in engine.warnings)


@pytest.mark.promise(7)
def test_a_lost_actor_costs_nothing(connected: Any, image: Path, tmp_path: Path) -> None:
    engine = RayEngine(str(tmp_path / "tries"), connected.address)
    images = [image.read_bytes(), trouble(image, "actor", tmp_path / "once"), image.read_bytes()]
    receipts = run(engine, [task(tmp_path, 0, images), task(tmp_path, 1, images[:1])])
    assert (tmp_path / "once").exists()
    assert receipts[0].info.records == 3
    assert receipts[0].rejected == ()
    assert len(engine.warnings) == 1
    assert "was lost at train-00000-of-00009 (ActorDiedError" in engine.warnings[0]
    assert not (tmp_path / "tries").exists()


@pytest.mark.long
@pytest.mark.promise(7)
def test_a_shard_that_loses_every_actor(
    connected: Any, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "LOSSES", 2)
    with pytest.raises(WorkerLostError, match=r"train-00000-of-00009: lost 2 workers.*resume"):
        run(RayEngine(str(tmp_path / "tries"), connected.address), [task(tmp_path, 0, [trouble(image, "actor")])])


@pytest.mark.long
def test_actors_that_cannot_begin(connected: Any, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_DOOMED", 2)
    monkeypatch.setattr(ray_engine, "ShardWriter", NeverBorn)
    with pytest.raises(WorkerLostError, match=r"2 in a row were lost before they started.*installed on every node"):
        run(RayEngine(str(tmp_path / "tries"), connected.address, 1), [task(tmp_path, 0, [image.read_bytes()])])


class NeverBorn:
    def __init__(self, *arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'shardfeed'")

    def look(self, question: object) -> None: ...


def hidden(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], object]) -> None:
    """Spoil what a node will look at, after it was put down here: as without a common disk."""

    class Spoiled(node_probe.Probe):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            spoil(self)

    monkeypatch.setattr(ray_engine, "Probe", Spoiled)


@pytest.mark.long
def test_a_node_must_see_the_output_and_the_images(
    connected: Any, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ImageFolder(folder(2))
    options: dict[str, Any] = {"shards": 2, "workers": RayWorkers(1, connected.address)}
    moved = tmp_path / "moved"
    spoils: list[tuple[Callable[[Any], Any], str]] = [
        (lambda probe: os.unlink(probe.question.path), r"tries: node \S+ does not see this directory: No such file"),
        (
            lambda probe: (tmp_path / "images").rename(moved),
            r"/images/.*jpg: node \S+ does not see this image: E_SOURCE",
        ),
    ]
    for spoil, said in spoils:
        hidden(monkeypatch, spoil)
        with pytest.raises(StorageError, match=said) as caught:
            convert(source, tmp_path / "out", **options)
        assert caught.value.exit_code == 5
        assert list((tmp_path / ".out.staging" / "receipts").iterdir()) == []
    moved.rename(tmp_path / "images")
    monkeypatch.setattr(ray_engine, "Probe", node_probe.Probe)
    gone = tmp_path / "images" / os.fsdecode(source[0].key)
    gone.unlink()
    report = convert(source, tmp_path / "out", **options, max_bad=1)
    assert [(noted.what, noted.key) for noted in report.rejected] == [("E_SOURCE_CHANGED", source[0].key)]


@pytest.mark.long
def test_what_cannot_be_sent_is_said(connected: Any, tmp_path: Path) -> None:
    """Images that do not pickle at all, and images that only Ray pickles."""
    for image in (threading.Lock().acquire, lambda: b""):
        with pytest.raises(UsageError, match="its samples cannot be pickled for workers"):
            run(RayEngine(str(tmp_path / "tries"), connected.address, 1), [task(tmp_path, 0, [image])])


def test_an_error_of_pickling_that_cannot_be_shown_is_said() -> None:
    class Mute(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    for error in (Mute("x"), ValueError("long " * 1000)):
        with pytest.raises(UsageError, match="cannot be pickled for workers") as caught, ray_engine._sending():
            raise error
        assert type(error).__name__ in caught.value.problem
        assert len(caught.value.problem) < 500


@pytest.mark.long
def test_a_workers_error_keeps_its_class_and_trace(
    connected: Any, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tries").mkdir()
    monkeypatch.setattr(ray_engine, "make_directory", lambda path: os.makedirs(tmp_path / "tries", exist_ok=True))
    with pytest.raises(StorageError, match="cannot create: No such file") as caught:
        run(RayEngine(str(tmp_path / "tries"), connected.address, 1), [task(tmp_path, 0, [image.read_bytes()])])
    assert caught.value.errno == errno.ENOENT
    assert "write_shard" in "".join(caught.value.__notes__)


@pytest.mark.long
def test_no_free_cpu_is_said_and_waited_for(
    connected: Any, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and again once all workers were lost."""
    monkeypatch.setattr(ray_engine, "_ROOM", 0.2)
    monkeypatch.setattr(ray_engine, "_LOOK", 0.1)

    @ray.remote(num_cpus=1)
    class Holder:
        def ready(self) -> bool:
            return True

    def hold() -> None:
        holders.extend(Holder.remote() for _ in range(2))
        ray.get([holder.ready.remote() for holder in holders])

    holders: list[Any] = []
    hold()
    begun, tries, told = tmp_path / "begun", str(tmp_path / "tries"), 1
    with warnings.catch_warnings(record=True) as said, RayEngine(tries, connected.address, 1) as engine:
        warnings.simplefilter("always")

        def poll() -> None:
            while len(said) >= told and holders:
                ray.kill(holders.pop())

        images = [image.read_bytes(), trouble(image, "sleep", begun)]
        receipts = engine.run(iter([task(tmp_path, number, [each]) for number, each in enumerate(images)]), poll)
        assert next(receipts).info.records == 1
        while not begun.exists():
            time.sleep(0.01)
        ray.kill(engine._writers[0].actor)
        hold()
        told = 2
        assert next(receipts).info.records == 1
    assert [str(each.message) for each in said] == ["the Ray cluster has no free CPU for a worker yet; waiting"] * 2


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (lambda: "ray", "expected an integer .* or LocalWorkers or RayWorkers or NamedWorkers or Engine"),
        (lambda: RayWorkers(0), "expected an integer of at least 1"),
        (lambda: RayWorkers(start_method="fork"), "expected 'auto' or"),
        (lambda: RayWorkers(address="ray://127.0.0.1:10001"), "on a machine of the cluster"),
        (lambda: RayWorkers(address="headnode"), "expected HOST:PORT"),
    ],
)
def test_arguments_are_checked(
    folder: Callable[..., Path], tmp_path: Path, workers: Callable[[], Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        convert(ImageFolder(folder(1)), tmp_path / "out", workers=workers())
    assert not list(tmp_path.glob(".out*"))


def test_an_address_where_nothing_answers(folder: Callable[..., Path], tmp_path: Path) -> None:
    """In a process of its own: this one is connected. Ray itself would try for minutes, until the test's timeout."""
    done = subprocess.run(
        arguments(folder(1), tmp_path / "out", "127.0.0.1:1"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert "no Ray cluster can be joined at 127.0.0.1:1: [Errno 111] Connection refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("mode", [None, "token"])
def test_a_cluster_that_asks_for_a_token(mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray says of it only that it failed to connect."""

    def refuse(*arguments: Any, **more: Any) -> None:
        raise ConnectionError("Failed to connect to GCS")

    monkeypatch.setattr(ray_cluster.ray, "init", refuse)
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    else:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(WorkerLostError, match="Failed to connect to GCS") as caught:
        ray_cluster._join(None, prints=False)
    assert ("`export RAY_AUTH_MODE=token`" in str(caught.value)) == (mode is None)


@pytest.mark.promise(7, 14)
@pytest.mark.long
def test_a_killed_node(
    connected: Any, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the second node away in the middle, for real; the tests after it have one node.

    An actor whose node is gone lives on for a second, and its shard must not be done by then.
    """
    monkeypatch.setattr(ray_engine, "_LOOK", 0.1)
    source = Slow(folder(6), 0.25)
    (tmp_path / "here").mkdir()
    convert(Slow(tmp_path / "images", 0), tmp_path / "here" / "out", shards=2, workers=1)
    killed = []

    def progress(state: conversion.Progress) -> None:
        if state.images >= 2 and len(below(os.getpid())) == 2 and not killed:
            killed.append(connected.second)
            connected.remove_node(connected.second, allow_graceful=False)

    report = convert(
        source, tmp_path / "out", shards=2, workers=RayWorkers(address=connected.address), progress=progress
    )
    assert killed
    assert tree(tmp_path / "out") == tree(tmp_path / "here" / "out")
    assert not list(tmp_path.glob(".out*"))
    lost = [note for note in report.notes if "was lost at" in note]
    assert len(lost) == 1, report.notes
    assert "the shard is tried again" in lost[0]
    assert report.images > 18, "what was lost was read twice"


def test_a_silent_head(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ray_cluster.Cluster(None)
    cluster.check()
    cluster._head = ("127.0.0.1", 1)
    cluster.check()
    monkeypatch.setattr(ray_cluster, "_SILENCE", 0.0)
    with pytest.raises(WorkerLostError, match=r"Ray cluster 127.0.0.1:1: its head node has not answered for 0 seconds"):
        cluster.check()


@pytest.mark.torture  # Ray takes a quarter of a minute to leave what is not there
@pytest.mark.promise(7)
def test_a_lost_head(
    connected: Any, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test: nothing is left of the cluster. What was finished is kept, and the local engine goes on."""
    monkeypatch.setattr(ray_cluster, "_SILENCE", 1.0)
    source = Slow(folder(10), 0.1)
    killed = []

    def progress(state: conversion.Progress) -> None:
        if state.shards and not killed:
            killed.append(connected.head_node)
            connected.head_node.kill_gcs_server()

    with pytest.raises(WorkerLostError, match=r"Ray cluster .*: its head node has not answered for") as caught:
        convert(source, tmp_path / "out", shards=10, workers=RayWorkers(address=connected.address), progress=progress)
    assert caught.value.exit_code == 5
    report = convert(source, tmp_path / "out", shards=10, workers=2)
    assert 0 < report.images < 30
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 30

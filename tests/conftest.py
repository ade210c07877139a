"""Small real inputs that many tests share."""

import datetime
import gc
import itertools
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# TensorFlow's start-up lines would drown what a failing test prints; the tests that look for warnings start children.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, LocalWorkers, conversion, convert
from shardfeed.converters.engines.choose_engine import choose_engine
from shardfeed.converters.engines.engine import AUTO, Engine
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

from buckets import KEY, SECRET, Bucket, bucket_behind
from in_process import OwnEngine
from pictures import image_bytes
from processes import until_gone
from seaweed import seaweed
from triton_first import load_triton_before_tensorflow

load_triton_before_tensorflow()

# A conversion waits for the disk some thirty times, so temporary directories are in memory where there is plenty.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Started in the background by a shell, this process and all its children would ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because a machine is slow.
settings.register_profile("shardfeed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shardfeed")

# An iterator of tf.data's in a reference cycle, as the traceback of an expected error makes one, must not be freed by
# the threads that make its batches: it would wait for itself (docs/faq.md). So this thread collects, between tests.
_TESTS_UNTIL_ALL = 1000  # are collected: the young, which most garbage is, take a millisecond, all a tenth of a second

CLASSES = ("daisy", "rose", "tulip")
_begun = itertools.count(1)


gc.disable()  # for the imports of all test files, too: a million objects, none of which is garbage


def pytest_configure(config: pytest.Config) -> None:
    # Without an address, Ray joins the cluster named in a file below RAY_TMPDIR, such as another pytest process's.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: the paths of sockets have at most 107 bytes
    os.environ["RAY_TMPDIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_finish() -> None:
    gc.freeze()  # so that no later collection, here or in a forked child, visits what was imported


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "coverage" in sys.modules and (running := sys.modules["coverage"].Coverage.current()):
        test = item.nodeid.partition("[")[0]
        running.switch_context(test)
        running.set_option("run:context", test)  # of the processes that the test starts
        os.environ["COVERAGE_PROCESS_CONFIG"] = running.config.serialize()
    gc.disable()  # a test may have turned it on
    gc.collect(0 if next(_begun) % _TESTS_UNTIL_ALL else 2)


def encoded(seed: int, width: int = 40, height: int = 32, kind: str = "JPEG") -> bytes:
    """A small image file of smooth random colours, different for each seed."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (4, 5, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    return image_bytes(image, kind, **({"quality": 90} if kind == "JPEG" else {}))


def make_folder(root: Path, per_class: int, classes: tuple[str, ...] = CLASSES, png_every: int = 0) -> Path:
    """root/class/0000.jpg ...; every `png_every`th image is a PNG."""
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            png = png_every and i % png_every == 0
            data = encoded(label * 10_000 + i, kind="PNG" if png else "JPEG", width=36 + i % 9)
            (root / name / f"{i:04d}.{'png' if png else 'jpg'}").write_bytes(data)
    return root


@pytest.fixture(scope="session", autouse=True)
def one_worker_is_this_process() -> Iterator[None]:
    """Without `workers`, or with one, shards are written in this process, by the function that a worker calls.

    Most tests need a dataset, and starting a process takes longer than a small conversion. A test about workers asks
    for more than one of them, or has the fixture `worker_processes`.
    """
    own = (None, 1, LocalWorkers(), LocalWorkers(1), LocalWorkers(start_method=AUTO), LocalWorkers(1, AUTO))

    def choose(workers: Any, tries: str) -> Engine:
        return OwnEngine(1) if workers in own and workers is not True else choose_engine(workers, tries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "choose_engine", choose)
        yield


@pytest.fixture
def worker_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are processes, in the number that users get."""
    monkeypatch.setattr(conversion, "choose_engine", choose_engine)


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory for a test that needs a disk: that of `tmp_path` may be in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A function that makes an image folder in the test's own directory."""
    return lambda per_class=8, **options: make_folder(tmp_path / "images", per_class, **options)


@pytest.fixture(scope="session")
def flowers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 classes of 67 images, about a tenth PNG. Read only."""
    return make_folder(tmp_path_factory.mktemp("source") / "images", 67, png_every=10)


@pytest.fixture(scope="session")
def flowers(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The folder converted: train (161) in 4 shards, validation (40) in 2. Read only."""
    out = tmp_path_factory.mktemp("dataset") / "flowers"
    shards = {"train": 4, "validation": 2}
    convert(ImageFolder(flowers_folder), out, split={"train": 0.8, "validation": 0.2}, shards=shards)
    return shardfeed.open(out)


@pytest.fixture(scope="module")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real S3 server."""
    with seaweed(tmp_path_factory.mktemp("seaweed"), KEY, SECRET) as port:
        yield port


@pytest.fixture
def bucket(s3_port: int, tmp_path: Path) -> Iterator[Bucket]:
    """A new bucket of that server, behind a proxy that fails as it is told."""
    with bucket_behind(s3_port, tmp_path, f"bucket{os.urandom(4).hex()}") as bucket:
        yield bucket


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, modules: Path) -> Iterator[Any]:
    """A Ray cluster of two CPUs, made on this machine, whose workers can import what is in `modules`.

    They are two nodes, of which `cluster.second` is to be killed; one, which begins sooner, if no long test runs.
    A test file that uses it has a fixture `modules`, of the module's scope.
    """
    here = [item for item in request.session.items if item.path == request.path]
    nodes = 2 if any(item.get_closest_marker(name) for item in here for name in ("long", "torture")) else 1
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(modules) + os.pathsep + os.environ.get("PYTHONPATH", ""))
        # A node that is killed without a word is missed after a second rather than half a minute.
        quick = {"health_check_period_ms": 200, "health_check_timeout_ms": 500, "health_check_failure_threshold": 3}
        memory = 200 << 20
        head = {
            "num_cpus": 3 - nodes,
            "object_store_memory": memory,
            "include_dashboard": False,
            "_system_config": quick,
        }
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        if nodes == 2:
            made.second = made.add_node(num_cpus=1, object_store_memory=memory)
        made.wait_for_nodes()
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def connected(cluster: Any) -> Any:
    """That cluster, which this process has joined."""
    import ray

    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse, after --help
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def threads_left() -> Callable[[], list[str]]:
    """A function that returns the names of threads begun since, once those that were told to end have done so."""
    before = set(threading.enumerate())

    def left() -> list[str]:
        until_gone(lambda: set(threading.enumerate()) - before)
        return []

    return left


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of a sweep: SHARDFEED_SEED, or a new one each time in a long sweep. A failing test prints it."""
    torture = request.node.get_closest_marker("torture") is not None
    number = int(os.environ.get("SHARDFEED_SEED", random.SystemRandom().randrange(2**32) if torture else 0))
    print(f"SHARDFEED_SEED={number}")
    return number


@pytest.fixture
def torture_result(request: pytest.FixtureRequest) -> Callable[..., None]:
    """torture_result("random kills", trials=200, failures=0, seed=7): a line for docs/reliability.md.

    Appended as JSON to the file that SHARDFEED_TORTURE_RESULTS names, as `make torture` does; else nothing is kept.
    """
    rows = [row for marker in request.node.iter_markers("promise") for row in marker.args]

    def keep(what: str, **counts: Any) -> None:
        path = os.environ.get("SHARDFEED_TORTURE_RESULTS")
        if not path:
            return
        made_on = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "version": shardfeed.__version__,
            "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            "cores": os.cpu_count(),
        }
        with open(path, "a") as file:
            file.write(json.dumps({"rows": rows, "what": what, **counts, **made_on}) + "\n")

    return keep

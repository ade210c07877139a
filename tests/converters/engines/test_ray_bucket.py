"""Ray nodes that share no directory convert from a bucket into a bucket: the same bytes, also if a node is killed."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import ImageFolder, RayWorkers, convert, pull
from shardfeed.errors import StorageError

from buckets import KEY, SECRET, Bucket, bucket_behind
from seaweed import seaweed
from trees import tree

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.long
# The node of its own mounts and processes: an empty disk is where this process has its files.
NODE = 'mount -t tmpfs none "$0" && mkdir "$TMPDIR" && exec "$@"'
ALONE = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]


class Nodes:
    """A Ray cluster whose head has no CPU, and two nodes that see nothing below `hidden`."""

    def __init__(self, hidden: Path) -> None:
        from ray.cluster_utils import Cluster

        quick = {"health_check_period_ms": 200, "health_check_timeout_ms": 500, "health_check_failure_threshold": 20}
        head = {"num_cpus": 0, "object_store_memory": 200 << 20, "include_dashboard": False, "_system_config": quick}
        self.hidden = hidden
        self.head = Cluster(initialize_head=True, head_node_args=head)
        self.known = {node["NodeID"] for node in self.head.global_state.node_table()}
        self.running = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a node, and wait until it has joined: without nodes, a conversion would wait for ever."""
        for _ in range(5):
            node = self._begin()
            until = time.monotonic() + 60
            while node.poll() is None and time.monotonic() < until:
                joined = {node["NodeID"] for node in self.head.global_state.node_table()} - self.known
                if joined:
                    self.known |= joined
                    return node
                time.sleep(0.2)
            node.kill()
            node.wait()
        raise AssertionError("five nodes in a row did not join the cluster")

    def _begin(self) -> subprocess.Popen[bytes]:
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={self.head.address}", "--block"]
        start += ["--num-cpus=1", "--object-store-memory=100000000"]
        command = [*ALONE, "sh", "-c", NODE, str(self.hidden), *start]
        # The head's mode: an earlier `ray.init()` of this process has set it to "token", else the head asks for none.
        environment = {"RAY_AUTH_MODE": "disabled"} | os.environ | {"TMPDIR": str(self.hidden / "tmp")}
        log = open(os.devnull, "wb")  # noqa: SIM115  # the child's
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def strike(self) -> None:
        """Kill a node with all of its processes, and start another."""
        node = self.running.pop(random.randrange(2))
        node.kill()
        node.wait()
        self.running.append(self._start())

    def stop(self) -> None:
        for node in self.running:
            node.kill()
            node.wait()
        ray.shutdown()
        self.head.shutdown()


@contextmanager
def apart(hidden: Path) -> Iterator[Nodes]:
    if subprocess.run([*ALONE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("this process may not make mount namespaces: run it as root")
    nodes = Nodes(hidden)
    try:
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    with ExitStack() as stack:
        port = stack.enter_context(seaweed(tmp_path, KEY, SECRET))
        yield stack.enter_context(bucket_behind(port, tmp_path, "bucket"))


@pytest.mark.promise(7)
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=[pytest.mark.torture, pytest.mark.timeout(7200)])])
def test_a_node_is_killed_at_random(
    bucket: Bucket,
    folder: Callable[..., Path],
    tmp_path: Path,
    kills: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    torture_result: Callable[..., Any],
) -> None:
    random.seed(seed)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    images = folder(40)
    for path in images.rglob("*.jpg"):
        bucket.client.put_object(Bucket="bucket", Key=f"images/{path.relative_to(images)}", Body=path.read_bytes())
    for place in ("here", "back"):
        (tmp_path / place).mkdir()
    convert("s3://bucket/images", tmp_path / "here" / "made", shards=12, workers=1)
    expected, lost = tree(tmp_path / "here" / "made"), 0
    with apart(tmp_path) as nodes:
        workers = RayWorkers(2, nodes.head.address)
        with pytest.raises(StorageError, match="does not see this directory"):
            convert(ImageFolder(images), tmp_path / "out", workers=workers)
        for kill in range(kills):
            began = time.monotonic()
            timer = threading.Timer(random.uniform(1, 6), nodes.strike)
            timer.start()
            url = f"s3://bucket/{kill}/made"
            report = convert("s3://bucket/images", url, shards=12, workers=workers)
            timer.join()
            lost += any("was lost at" in note for note in report.notes)
            pull(url, tmp_path / "back" / str(kill))
            assert tree(tmp_path / "back" / str(kill)) == expected
            assert not bucket.client.list_objects_v2(Bucket="bucket", Prefix=f"{kill}/made/.receipts").get("Contents")
            print(f"{time.monotonic() - began:.1f} s", report.notes)
    torture_result("Ray nodes without a common disk, one killed at random", trials=kills, failures=0, lost=lost)

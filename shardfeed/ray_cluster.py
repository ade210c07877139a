"""This process's connection to a Ray cluster: established without a wait of minutes, and monitored."""

import logging
import os
import re
import signal
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from shardfeed.errors import UsageError, WorkerLostError, shown

_ANSWERS = 5.0  # seconds in which a cluster must answer; Ray itself tries for minutes, and cannot be interrupted
_SILENCE = 20.0  # seconds without an answer from the head; after 60 Ray ends this process
_CHOSEN = (None, "auto", "local")  # addresses for which Ray chooses the cluster


def check_address(address: str | None) -> None:
    """Raise UsageError unless an address is HOST:PORT or one of `_CHOSEN`."""
    if address in _CHOSEN:
        return
    host, _, port = address.rpartition(":")
    if "/" in address:  # ray://...: Ray Client would run our code on another machine, which may not see the output
        problem = f"got {shown(address)}"
        raise UsageError("address", problem, "run on a machine of the cluster, with HOST:PORT of the head node")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise UsageError("address", f"got {shown(address)}, expected HOST:PORT", "`ray status` shows it")


class _Connection:
    """Ray has one connection per process, shared by all users."""

    def __init__(self) -> None:
        self.guard = threading.RLock()  # a finalizer may run while another cluster is joined
        self.users: weakref.WeakSet[Cluster] = weakref.WeakSet()
        self.made_here: tuple[str, str] | None = None


_connection = _Connection()


def _current() -> tuple[str, str] | None:
    """(GCS address, job id), which identify this process's connection; None if there is none."""
    if not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return context.gcs_address, context.get_job_id()


class Cluster:
    """A connection to the cluster at `address`: "host:port" of its head; None: chosen by Ray.

    Ray uses, in this order: the cluster that this process is connected to, the one in RAY_ADDRESS, one that runs on
    this machine, or a new one. `prints`: show the output of actors here.

    Raises WorkerLostError if there is none, UsageError if this process is connected to another.
    """

    def __init__(self, address: str | None, *, prints: bool = False) -> None:
        with _connection.guard:
            made = _current()
            if made is None:
                _join(address, prints)
                made = _connection.made_here = _current()
            elif address not in (None, "auto", made[0]):
                problem = f"got {address!r}, but this process is connected to {made[0]}"
                raise UsageError("address", problem, "leave it out")
            assert made is not None
            self._made = made
            _connection.users.add(self)
        self._head = _parts(made[0])
        self._heard = time.monotonic()

    def connected(self) -> bool:
        """Whether this connection is still open: other code may call `ray.shutdown`, and connect again."""
        return _current() == self._made

    def cpus(self) -> int:
        """Number of CPUs of all nodes together, busy or not; at least 1."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def check(self) -> None:
        """Raise WorkerLostError if the head has not answered for 20 seconds."""
        try:
            socket.create_connection(self._head, timeout=1).close()
            self._heard = time.monotonic()
        except OSError as error:
            silent = time.monotonic() - self._heard
            if silent > _SILENCE:
                problem = f"its head node has not answered for {silent:.0f} seconds: {error.strerror or error}"
                place = "Ray cluster {}:{}".format(*self._head)
                raise WorkerLostError(place, problem, "start it again, then run the same command again") from error

    def leave(self, actors: list[Any]) -> None:
        """End actors at once, and the connection if it was made here and is unused; a second call does nothing."""
        with _connection.guard:
            if self not in _connection.users:
                return
            _connection.users.discard(self)
            if not self.connected():
                return
            for actor in actors:
                with suppress(RayError):
                    ray.kill(actor)
            if _connection.made_here == self._made and not any(user.connected() for user in _connection.users):
                ray.shutdown()


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _join(address: str | None, prints: bool) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address is not None and address not in _CHOSEN:
            socket.create_connection(_parts(address), timeout=_ANSWERS).close()
        ray.init(address, include_dashboard=False, log_to_driver=prints, logging_level=logging.WARNING)
    except Exception as error:  # Ray has many
        problem = f"no Ray cluster can be joined{f' at {address}' if address else ''}"
        why = " ".join(str(error).split()) or type(error).__name__
        remedy = "`ray status` shows running clusters"
        if not isinstance(error, ConnectionRefusedError) and os.environ.get("RAY_AUTH_MODE") != "token":
            remedy += "; if `ray start` has enabled token authentication, as since 2.60, `export RAY_AUTH_MODE=token`"
        raise WorkerLostError("address", f"{problem}: {why}", remedy) from error
    finally:
        # Ray's own handler ends the process on the spot.
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)

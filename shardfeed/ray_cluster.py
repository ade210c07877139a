"""This process's connection to a Ray cluster: made without a wait of minutes, and watched."""

import logging
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from shardfeed.errors import UsageError, WorkerLostError

_ANSWERS = 5.0  # seconds in which an address must answer; Ray itself tries for minutes, and cannot be interrupted
_SILENCE = 20.0  # seconds without an answer from the head; after 60 Ray ends this process
_CHOSEN = (None, "auto", "local")  # addresses that leave it to Ray


def check_address(address: str | None) -> None:
    """Raises UsageError for an address that cannot be meant."""
    if address in _CHOSEN:
        return
    host, _, port = address.rpartition(":")
    if "/" in address:  # ray://...: Ray Client runs what we do here elsewhere, where the output may not be
        raise UsageError("address", f"got {address!r}", "run on a machine of the cluster, with HOST:PORT of its head")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError("address", f"got {address!r}, expected HOST:PORT", "`ray status` shows it")


class Cluster:
    """A connection to the cluster at `address`: "host:port" of its head; None as Ray chooses.

    That is the one this process is connected to, the one RAY_ADDRESS names, one that runs on this machine, or a new
    one. `prints`: show here what actors print.

    Raises WorkerLostError when there is none, UsageError when this process is connected to another.
    """

    def __init__(self, address: str | None, *, prints: bool = False) -> None:
        self._own = not ray.is_initialized()
        if self._own:
            _join(address, prints)
        head = ray.get_runtime_context().gcs_address
        if not self._own and address not in (None, "auto", head):
            raise UsageError("address", f"got {address!r}, but this process is connected to {head}", "leave it out")
        self._head = _parts(head)
        self._heard = time.monotonic()

    def cpus(self) -> int:
        """Of all nodes together, busy or not; at least 1."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def check(self) -> None:
        """Raises WorkerLostError when the head has not answered for 20 seconds."""
        try:
            socket.create_connection(self._head, timeout=1).close()
            self._heard = time.monotonic()
        except OSError as error:
            silent = time.monotonic() - self._heard
            if silent > _SILENCE:
                problem = f"its head has not answered for {silent:.0f} seconds: {error.strerror or error}"
                place = "Ray cluster {}:{}".format(*self._head)
                raise WorkerLostError(place, problem, "start it again, then run the same command again") from error

    def leave(self, actors: list[Any]) -> None:
        """End actors at once, and the connection if it was made here."""
        if not ray.is_initialized():
            return
        for actor in actors:
            with suppress(RayError):
                ray.kill(actor)
        if self._own:
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
        raise WorkerLostError("address", f"{problem}: {why}", "`ray status` shows those there are") from error
    finally:
        # Ray's own handler ends the process on the spot.
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)

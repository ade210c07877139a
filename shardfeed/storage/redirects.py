"""A guard against redirects: the client of an object store reaches the store, and no other host.

obstore follows redirects, and takes session tokens (`x-amz-security-token`) and signatures (in `Referer`) along. It
cannot be told not to, but it can be given a proxy. This one, for all hosts but the store's own, refuses every request.
Over plain HTTP, where another port of the host is as easily reached, it also relays the requests to the store itself.
"""

import errno
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import BinaryIO
from urllib.parse import urlsplit

_PIECE = 1 << 18  # bytes relayed at once
_MOST_HEAD = 1 << 18  # bytes of a request's lines
_MOST_CONNECTIONS = 256  # at once, each with two threads; the client has as many as requests, 32 for a reader
_IDLE_SECONDS = 100  # without a byte, twice as long as an attempt takes
_PAUSE_SECONDS = 0.1  # after an error of this process, such as too many open files
_CONNECT_SECONDS = 10
_REQUEST = re.compile(rb"([A-Z]+ )(?:http://)?([^/\s]+)(.*)", re.DOTALL)  # the first line of one to a proxy


class Guard:
    """A proxy of this process, which relays plain HTTP to `authority` ("host:port"; "": to none).

    `url`: its own. `refused`: the last other host and port that it was asked for, or "". `unreachable`: the error of
    the last connection to the store, or "". `exhausted`: of the last one from the client, such as too many open files.
    """

    def __init__(self, authority: str) -> None:
        self._authority = authority
        self.refused = self.unreachable = self.exhausted = ""
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="shardfeed-guard", daemon=True).start()

    def _accept(self) -> None:
        """Serve connections, a thread each, whatever goes wrong with one: without this thread no request has an end."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        while True:
            self._places.acquire()
            try:
                waiting.poll()  # accept fails without a free descriptor even if there is nothing to accept
                client, _ = self._listener.accept()
            except OSError as error:  # without a free descriptor the connection stays in the queue
                self._places.release()
                self.exhausted = str(error)
                self._refuse_one()
                continue
            self.exhausted = ""
            self._begin(self._serve_one, client)

    def _refuse_one(self) -> None:
        """Close a connection at once, so that its request fails now and is repeated, with the descriptor kept for it.

        Else the request would wait for its deadline, whatever becomes free meanwhile.
        """
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            with suppress(OSError):  # another thread may have taken the descriptor
                self._listener.accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        time.sleep(_PAUSE_SECONDS)

    def _begin(self, serve: Callable[[socket.socket], None], client: socket.socket) -> None:
        try:
            threading.Thread(target=serve, args=(client,), name="shardfeed-guard", daemon=True).start()
        except RuntimeError:  # no more threads
            client.close()
            self._places.release()
            time.sleep(_PAUSE_SECONDS)

    def _serve_one(self, client: socket.socket) -> None:
        try:
            with client, suppress(OSError, RuntimeError):  # RuntimeError: no more threads
                # Else the end of an answer waits for 40 ms.
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.settimeout(_IDLE_SECONDS)
                self._serve(client)
        finally:
            self._places.release()

    def _serve(self, client: socket.socket) -> None:
        """Relay the requests of a connection, which have no bodies, until one is for another host."""
        store: socket.socket | None = None
        try:
            with client.makefile("rb") as lines:
                while head := _read_head(lines):
                    found = _REQUEST.match(head[0])
                    authority = found[2].decode("latin-1").lower().removesuffix(":80") if found else ""
                    if found is None or authority != self._authority:
                        self.refused = authority
                        return
                    if store is None:
                        store = self._connect()
                        threading.Thread(
                            target=_relay, args=(store, client), name="shardfeed-guard", daemon=True
                        ).start()
                    store.sendall(b"".join((found[1], found[3], *head[1:])))
        finally:
            if store is not None:
                with suppress(OSError):
                    store.shutdown(socket.SHUT_RDWR)  # which ends the other thread

    def _connect(self) -> socket.socket:
        place = urlsplit(f"//{self._authority}")
        try:
            store = socket.create_connection((place.hostname, place.port or 80), _CONNECT_SECONDS)
        except OSError as error:
            self.unreachable = "dns error" if isinstance(error, socket.gaierror) else str(error)  # as obstore says it
            raise
        self.unreachable = ""
        store.settimeout(None)
        return store


def _read_head(lines: BinaryIO) -> list[bytes]:
    """The lines of a request before its body; [] at the connection's end. Raises OSError if they have no end."""
    head, size = list[bytes](), 0
    while line := lines.readline(_MOST_HEAD):
        head.append(line)
        size += len(line)
        if size > _MOST_HEAD:
            raise OSError(errno.EMSGSIZE, "a request without end")
        if line == b"\r\n":
            return head
    return []


def _relay(store: socket.socket, client: socket.socket) -> None:
    """Pass the answers on, and the end of the connection."""
    with store, suppress(OSError):
        while piece := store.recv(_PIECE):
            client.sendall(piece)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


guard = cache(Guard)  # one per store

"""A guard against redirects: the client of an object store reaches the store, and no other host.

obstore follows redirects, and takes session tokens (`x-amz-security-token`) and signatures (in `Referer`) along. It
cannot be told not to, but it can be given a proxy. This one, for all hosts but the store's own, refuses every request.
Over plain HTTP, where another port of the host is as easily reached, it also relays the requests to the store itself.
"""

import re
import socket
import threading
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

_PIECE = 1 << 18  # bytes relayed at once, and of a line
_CONNECT_SECONDS = 10
_REQUEST = re.compile(rb"([A-Z]+ )(?:http://)?([^/\s]+)(.*)", re.DOTALL)  # the first line of one to a proxy


class Guard:
    """A proxy of this process, which relays plain HTTP to `authority` ("host:port"; "": to none).

    `url`: its own. `refused`: the last other host and port that it was asked for, or "". `unreachable`: the error of
    the last connection to the store, or "".
    """

    def __init__(self, authority: str) -> None:
        self._authority = authority
        self.refused = self.unreachable = ""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="shardfeed-guard", daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the end of an answer waits for 40 ms
            threading.Thread(target=self._serve, args=(client,), name="shardfeed-guard", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Relay the requests of a connection, which have no bodies, until one is for another host."""
        store: socket.socket | None = None
        with client, client.makefile("rb") as lines, suppress(OSError):
            while found := _REQUEST.match(lines.readline(_PIECE)):
                authority = found[2].decode("latin-1").lower().removesuffix(":80")
                if authority != self._authority:
                    self.refused = authority
                    break
                if store is None:
                    store = self._connect()
                    threading.Thread(target=_relay, args=(store, client), name="shardfeed-guard", daemon=True).start()
                head = [found[1], found[3]]
                while head[-1] not in (b"\r\n", b""):
                    head.append(lines.readline(_PIECE))
                store.sendall(b"".join(head))
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


def _relay(store: socket.socket, client: socket.socket) -> None:
    """Pass the answers on, and the end of the connection."""
    with store, suppress(OSError):
        while piece := store.recv(_PIECE):
            client.sendall(piece)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


guard = cache(Guard)  # one per store

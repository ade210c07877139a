"""A server that lies, as the Hugging Face Hub, as S3 or as a web server: one function answers every request.

It speaks HTTP itself, so that heads and bodies may be anything. It logs the heads of requests, to repeat them.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

COMMIT = "0123456789" * 4
MEGABYTE = 1 << 20


@dataclass
class Request:
    """A request: method and path with its query; `head`: all its lines."""

    method: str
    path: str
    head: str
    connection: socket.socket

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer honestly: `headers` with "_" for "-"."""
        self.begin(status, len(body), **headers)
        if self.method != "HEAD":
            self.connection.sendall(body)

    def begin(self, status: int, size: int, **headers: str) -> None:
        """Send the head of an answer that says that `size` bytes follow."""
        lines = [f"HTTP/1.1 {status} OK", f"Content-Length: {size}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def send_file(self, size: int, content: Callable[[int, int], bytes]) -> None:
        """Answer honestly with a file, or the range of it that was asked for; `content`: its bytes from a to b."""
        asked = [line for line in self.head.splitlines() if line.lower().startswith("range:")]
        if not asked:
            self.send(200, content(0, size), ETag='"x"')
            return
        first, last = map(int, asked[0].partition("=")[2].split("-"))
        last = min(last, size - 1)
        self.send(206, content(first, last + 1), ETag='"x"', Content_Range=f"bytes {first}-{last}/{size}")

    def send_huge(self, size: int) -> None:
        """Say that there are `size` bytes, and send that many zeros."""
        self.begin(200, size, ETag='"x"')
        if self.method != "HEAD":
            for _ in range(size // MEGABYTE):
                self.connection.sendall(bytes(MEGABYTE))

    def send_slowly(self, seconds: float) -> None:
        """Send a byte of an answer every tenth of a second: no timeout of a socket notices."""
        self.begin(200, 1 << 20)
        for _ in range(int(seconds * 10)):
            self.connection.sendall(b" ")
            time.sleep(0.1)


Answer = Callable[[Request], None]


@dataclass
class LyingServer:
    """`answer`: answers each request, and returns when it has; `asked`: method and path of each."""

    url: str
    answer: Answer = lambda request: request.send(404)
    asked: list[str] = field(default_factory=list)

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection."""
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            while first := lines.readline():
                head = [first]
                while head[-1].strip():
                    head.append(lines.readline())
                text = b"".join(head).decode("latin-1")
                lengths = [line.split(b":")[1] for line in head if line.lower().startswith(b"content-length:")]
                lines.read(int(lengths[0]) if lengths else 0)
                method, path, _ = text.split(" ", 2)
                self.asked.append(f"{method} {path}")
                self.answer(Request(method, path, text, connection))


@contextmanager
def lying_server() -> Iterator[LyingServer]:
    """Serve until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    server = LyingServer(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def hub_answer(tree: Answer, other: Answer = lambda request: request.send(404)) -> Answer:
    """Answer as the Hub does, with a lie for listings, `tree`; `other`: for files and the rest."""

    def answer(request: Request) -> None:
        if "/revision/" in request.path:
            request.send(200, json.dumps({"sha": COMMIT, "id": "u/r"}).encode())
        elif "/tree/" in request.path or "/paths-info/" in request.path:
            tree(request)
        else:
            other(request)

    return answer


def entry(path: Any, size: Any = 10) -> dict[str, Any]:
    """An entry of a listing of the Hub."""
    return {"type": "file", "path": path, "size": size, "oid": "0" * 40}


def s3_page(names: list[str], token: str = "", size: str = "10") -> bytes:
    """A page of a listing of S3; `token`: where the next page begins, "" for the last one."""
    entries = "".join(
        f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size>"
        f'<LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag></Contents>'
        for name in names
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult>{entries}{more}</ListBucketResult>".encode()

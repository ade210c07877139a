"""As much of S3 as reading needs, for benchmarks: it sends files by `sendfile`, and so takes little of the machine.

It is a process of its own, whose CPU time no program is charged for. Each request waits for `latency`; all answers
together are sent at `speed` bytes/s at most.
"""

import ctypes
import multiprocessing
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_PIECE = 1 << 17  # bytes sent at once: many answers share the link evenly
_BURST = 0.01  # s of the link's time that may be made up for


class _Numbers(ctypes.Structure):
    _fields_ = (
        ("latency", ctypes.c_double),
        ("speed", ctypes.c_double),
        ("requests", ctypes.c_longlong),
        ("sent", ctypes.c_longlong),
    )


class FileServer:
    """Serves the files of a folder as the objects of any bucket.

    `numbers`, which both processes see: `latency`, s, and `speed`, bytes/s, may be set; `requests` and `sent`, bytes,
    are counted.
    """

    def __init__(self, folder: Path, latency: float, speed: float) -> None:
        self.folder, self.url = folder, ""
        self.numbers = RawValue(_Numbers, latency, speed, 0, 0)
        self._lock, self._free = threading.Lock(), 0.0

    def serve(self, server: socket.socket) -> None:
        """Answer requests until the process ends."""
        while True:
            threading.Thread(target=self._answer_all, args=(server.accept()[0],), daemon=True).start()

    def _answer_all(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError), client, client.makefile("rb") as asked:  # of a program that has ended
            while line := asked.readline():
                headers = dict(each.decode().lower().strip().split(": ", 1) for each in iter(asked.readline, b"\r\n"))
                method, target, _ = line.decode().split(" ")
                time.sleep(self.numbers.latency)
                self.numbers.requests += 1
                self._answer(client, method, target, headers.get("range", ""))

    def _answer(self, client: socket.socket, method: str, target: str, asked: str) -> None:
        address = urlsplit(target)
        key, query = unquote(address.path).lstrip("/").partition("/")[2], parse_qs(address.query)
        if "list-type" in query:
            body = self._listing(query.get("prefix", [""])[0], "delimiter" in query)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        path = self.folder / key
        if not path.is_file():
            client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        size, span = path.stat().st_size, re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        start, end = (int(span[1]), min(int(span[2] or size) + 1, size)) if span else (0, size)
        head = f'HTTP/1.1 {206 if span else 200} OK\r\nContent-Length: {end - start}\r\nETag: "{size}"\r\n'
        head += "Accept-Ranges: bytes\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        head += f"Content-Range: bytes {start}-{end - 1}/{size}\r\n" if span else ""
        client.sendall(f"{head}\r\n".encode())
        with open(path, "rb") as file:
            while start < end and method == "GET":
                self._wait_for(min(_PIECE, end - start))
                sent = os.sendfile(client.fileno(), file.fileno(), start, min(_PIECE, end - start))
                start += sent
                self.numbers.sent += sent

    def _wait_for(self, size: int) -> None:
        with self._lock:
            self._free = max(self._free, time.monotonic() - _BURST) + size / self.numbers.speed
            pause = self._free - time.monotonic()
        if pause > 0:
            time.sleep(pause)

    def _listing(self, prefix: str, one_level: bool) -> bytes:
        parts = ["<ListBucketResult><IsTruncated>false</IsTruncated>"]
        for path in sorted((self.folder / prefix).glob("*" if one_level else "**/*")):
            name = str(path.relative_to(self.folder))
            if path.is_dir() and one_level:
                parts.append(f"<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>")
            elif path.is_file():
                size = path.stat().st_size
                parts.append(f'<Contents><Key>{name}</Key><Size>{size}</Size><ETag>"{size}"</ETag>')
                parts.append("<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>")
        return "".join([*parts, "</ListBucketResult>"]).encode()


@contextmanager
def file_server(folder: Path, latency: float, speed: float) -> Iterator[FileServer]:
    """Serve a folder until the block ends."""
    served = FileServer(folder, latency, speed)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        served.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        process = multiprocessing.get_context("fork").Process(target=served.serve, args=(server,), daemon=True)
        process.start()
        try:
            yield served
        finally:
            process.terminate()
            process.join()

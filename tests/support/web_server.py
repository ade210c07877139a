"""A web server for tests: files of a folder by ranges, with ETags, which counts requests and fails as it is told."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Fault = Callable[[str, str], str]  # of a request's path and range: what goes wrong, or ""


class WebServer(ThreadingHTTPServer):
    """`requests`: method, path and range of each GET and HEAD. `fault`: "503", "cut", "flip", "whole" or ""."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, folder: Path, tags: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.tags = folder, tags
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[tuple[str, str, str]] = []
        self.fault: Fault = lambda path, part: ""
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have closed a connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def log_message(self, format: str, *args: object) -> None:
        """Requests are in `requests`."""

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_GET(self) -> None:
        self._answer("GET")

    def _answer(self, method: str) -> None:
        asked = self.headers.get("Range", "")
        with self.server.lock:
            self.server.requests.append((method, self.path, asked))
            fault = self.server.fault(self.path, asked)
        file = self.server.folder / self.path.lstrip("/")
        if fault == "503" or not file.is_file():
            self._head(503 if fault == "503" else 404, 0)
            return
        content = file.read_bytes()
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.server.tags and self.headers.get("If-Match", tag) != tag:
            self._head(412, 0)
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
        start, end = (int(found[1]), min(int(found[2]) + 1, len(content))) if found else (0, len(content))
        if fault == "whole":
            found, start, end = None, 0, len(content)
        headers = {"Last-Modified": self.date_time_string(int(file.stat().st_mtime))}
        if self.server.tags:
            headers["ETag"] = tag
        if found:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        self._head(206 if found else 200, end - start, headers)
        body = content[start:end]
        if fault == "flip":
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault == "cut":
            body = body[: len(body) // 2]
            self.close_connection = True
        if method == "GET":
            self.wfile.write(body)

    def _head(self, status: int, size: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(size)} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def web_server(folder: Path, *, tags: bool = True) -> Iterator[WebServer]:
    """Serve the files of a folder until the block ends; without `tags` as servers do that have no ETags."""
    server = WebServer(folder, tags)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A web server for tests: files of a folder by ranges, with ETags, which counts requests and fails as it is told.

It also lists a folder as S3 lists a bucket, so that an S3 client reads there.
"""

import hashlib
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Fault = Callable[[str, str], str]  # of a request's path and range: what goes wrong, or ""
# Of a request's path and Authorization: status, headers and body, or None for what a file answers.
Answer = Callable[[str, str], tuple[int, dict[str, str], bytes] | None]
Posted = Callable[[str, str, bytes], tuple[int, dict[str, str], bytes]]  # the same of a POST, with its body


class WebServer(ThreadingHTTPServer):
    """`requests`: method, path and range of each request. `fault`: "503", "400 ExpiredToken", "cut", "flip", "whole",
    "long" (more bytes than its head says are of the range), "late" (answered once the event `late` is set) or "".

    `answer`: what is answered instead of a file, `posted`: to a POST or PUT. `heads`: the headers of each GET and HEAD.
    `listed`: names in listings besides those of files. `endless`: each page of a listing is the same, and says that
    another one follows.
    """

    daemon_threads = True
    page = 1000  # files in one answer to a listing
    endless = False
    listed: Sequence[str] = ()
    request_queue_size = 100

    def __init__(self, folder: Path, tags: bool, certificate: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.tags = folder, tags
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server_address[1]}"
        self.requests: list[tuple[str, str, str]] = []
        self.heads: list[dict[str, str]] = []
        self.fault: Fault = lambda path, part: ""
        self.answer: Answer = lambda path, token: None
        self.posted: Posted = lambda path, token, body: (405, {}, b"")
        self.lock, self.late = threading.Lock(), threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have closed a connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body would wait 40 ms for the acknowledgement of its head
    server: WebServer

    def log_message(self, format: str, *args: object) -> None:
        """Requests are in `requests`."""

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._take("POST")

    def do_PUT(self) -> None:
        self._take("PUT")

    def _take(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.requests.append((method, self.path, ""))
            status, headers, content = self.server.posted(
                self.path, ", ".join(self.headers.get_all("Authorization", [])), body
            )
        self._head(status, len(content), headers)
        self.wfile.write(content)

    def _answer(self, method: str) -> None:
        asked = self.headers.get("Range", "")
        with self.server.lock:
            self.server.requests.append((method, self.path, asked))
            self.server.heads.append(dict(self.headers))
            fault = self.server.fault(self.path, asked)
            instead = self.server.answer(self.path, ", ".join(self.headers.get_all("Authorization", [])))
        if instead is not None:
            self._head(instead[0], len(instead[2]), instead[1])
            self.wfile.write(instead[2])
            return
        if fault == "late":
            self.server.late.wait(60)
        address = urlsplit(self.path)
        file = self.server.folder / unquote(address.path).lstrip("/")
        if fault[:1].isdigit():
            status, _, code = fault.partition(" ")
            body = f"<Error><Code>{code}</Code><Message>{self.headers}</Message></Error>".encode()
            self._head(int(status), len(body))
            if method == "GET":
                self.wfile.write(body)
            return
        if "list-type" in address.query:
            self._list(file, {name: values[0] for name, values in parse_qs(address.query).items()})
            return
        if not file.is_file():
            self._head(404, 0)
            return
        content = file.read_bytes()
        tag = _tag(content)
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
        body = content[start:end] + (bytes(64) if fault == "long" else b"")
        self._head(206 if found else 200, len(body), headers)
        if fault == "flip":
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault == "cut":
            body = body[: len(body) // 2]
            self.close_connection = True
        if method == "GET":
            self.wfile.write(body)

    def _list(self, bucket: Path, query: dict[str, str]) -> None:
        """Answer with a page of the files whose names begin with a prefix, in the order of their bytes."""
        after = query.get("continuation-token", query.get("start-after", ""))
        names = [path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()]
        names = sorted([*names, *self.server.listed], key=str.encode)
        prefix = query.get("prefix", "")
        names = [name for name in names if name.startswith(prefix) and name > after]
        folders = {prefix + name[len(prefix) :].partition("/")[0] + "/" for name in names if "/" in name[len(prefix) :]}
        if "delimiter" in query:
            names = [name for name in names if "/" not in name[len(prefix) :]]
        page = names[: self.server.page]
        entries = []
        for name in page:
            file = bucket / name if name not in self.server.listed else Path(__file__)
            state = file.stat()
            changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(state.st_mtime))
            tag = escape(_tag(file.read_bytes()))
            entries.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{state.st_size}</Size>"
                f"<LastModified>{changed}</LastModified><ETag>{tag}</ETag></Contents>"
            )
        token = escape(page[-1]) if len(page) < len(names) else ""
        if self.server.endless:
            token = "!"  # before all names
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        if "delimiter" in query:
            entries += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        body = f"<ListBucketResult>{''.join(entries)}{more}</ListBucketResult>".encode()
        self._head(200, len(body), {"Content-Type": "application/xml"})
        self.wfile.write(body)

    def _head(self, status: int, size: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(size)} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextmanager
def web_server(folder: Path, *, tags: bool = True, certificate: Path | None = None) -> Iterator[WebServer]:
    """Serve the files of a folder until the block ends; without `tags` as servers do that have no ETags.

    `certificate`: a file with one and its key, for https.
    """
    server = WebServer(folder, tags, certificate)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

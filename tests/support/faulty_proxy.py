"""A proxy before an object store, for tests: it fails as it is told, delays, limits the speed, and counts.

Requests are passed on as they came, signed headers and Host included, so that signatures stay right. An answer without
a fault is passed on as it arrives; another one is read whole and changed.
"""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

_PIECE = 1 << 16  # bytes sent at once
FAULTS = ("503", "reset", "cut", "stall", "whole", "shift", "flip", "swap", "slow")  # of answers

_CONTENT = b"<Error><Code>NotImplemented</Code><Message>A header, x-amz-checksum-crc32c, is unknown</Message></Error>"
_REFUSAL = b"HTTP/1.1 501 Not Implemented\r\nContent-Length: %d\r\n\r\n%s" % (len(_CONTENT), _CONTENT)


@dataclass(frozen=True)
class Request:
    """A request: its method, path without a query, range ("bytes=0-9" or ""), and the fault that it met, or "".

    `query`: of its address. `status`: that of the server behind, 0 if it did not get the request.
    """

    method: str
    path: str
    range: str
    fault: str
    query: str = ""
    status: int = 0


@dataclass
class Proxy:
    """`fault`: of a method, path and range, the fault to be met; `latency`: s; `speed`: bytes/s of all, 0: unlimited.

    `folder`: the files behind the paths, of which "whole", "shift" and "swap" send other bytes than were asked for.
    `stall`: s after which a stalled answer goes on. `sent`: bytes of bodies. Besides FAULTS there are "sent flipped":
    the last byte of the request's body; "dropped": the request is not passed on; "answered": `answered` is called when
    the server has answered, and the answer is not passed on; "no checksums": answers of a store that knows none;
    "refuses checksums": a store that does not take them; "conflict": status 409, and the request is not passed on.
    """

    upstream: int
    folder: Path
    fault: Callable[[str, str, str], str] = lambda method, path, part: ""
    answered: Callable[[], None] = lambda: None
    latency: float = 0
    speed: float = 0
    stall: float = 5
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    url: str = ""
    _free_at: float = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        above: asyncio.StreamWriter | None = None
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            source, above = await asyncio.open_connection("127.0.0.1", self.upstream)
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if _header(head, "expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    head = re.sub(rb"(?i)\r\nexpect:.*?(?=\r\n)", b"", head)
                body = await reader.readexactly(int(_header(head, "content-length") or 0))
                await self._take_time(len(body))
                method, target = head.split(b" ", 2)[:2]
                (path, _, query), part = target.decode().partition("?"), _header(head, "range")
                fault = self.fault(method.decode(), path, part)
                if fault == "dropped":
                    break
                if fault == "sent flipped" and body:
                    body = body[:-1] + bytes([body[-1] ^ 1])
                if fault == "refuses checksums" and re.search(rb"\r\nx-amz-checksum-(?!mode)", head, re.IGNORECASE):
                    self.requests.append(Request(method.decode(), path, part, fault, query, 501))
                    writer.write(_REFUSAL)
                    continue
                if fault == "conflict":
                    self.requests.append(Request(method.decode(), path, part, fault, query, 409))
                    writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
                    continue
                at = len(self.requests)
                self.requests.append(Request(method.decode(), path, part, fault, query))
                await asyncio.sleep(self.latency)
                above.write(head + body)
                answer = await source.readuntil(b"\r\n\r\n")
                request = self.requests[at] = replace(self.requests[at], status=int(answer.split(b" ", 2)[1]))
                if not fault and request.method == "GET" and (size := _header(answer, "content-length")):
                    writer.write(answer)
                    await self._relay(source, writer, int(size))
                    continue
                content = b"" if request.method == "HEAD" else await _body(source, answer)
                if fault == "answered":
                    self.answered()
                    break
                if not await self._answer(writer, request, answer, content):
                    break
        for each in (above, writer):
            if each is not None:
                each.close()

    async def _relay(self, source: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
        """Pass a body on as it arrives."""
        while size:
            piece = await source.read(min(size, _PIECE))
            if not piece:
                raise ConnectionError
            await self._take_time(len(piece))
            writer.write(piece)
            await writer.drain()
            size -= len(piece)
            self.sent += len(piece)

    async def _answer(self, writer: asyncio.StreamWriter, request: Request, head: bytes, body: bytes) -> bool:
        """Send an answer with its fault; whether the connection is still good."""
        fault = request.fault
        if fault == "reset":  # by an RST, at once
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        if fault == "slow":  # as a link of 5 MB/s with 30 ms per request
            await asyncio.sleep(0.03 + len(body) / 5e6)
        if fault.isdigit():
            head, body = f"HTTP/1.1 {fault} No\r\nContent-Length: 0\r\n\r\n".encode(), b""
        elif head.split(b" ", 2)[1] in (b"200", b"206"):
            head, body = self._changed(request, head, body)
        keep = len(body) // 2 if fault in ("cut", "stall") else len(body)
        writer.write(head)
        for start in range(0, keep, _PIECE):
            piece = body[start : min(start + _PIECE, keep)]
            await self._take_time(len(piece))
            writer.write(piece)
            await writer.drain()
            self.sent += len(piece)
        if fault == "stall":
            await asyncio.sleep(self.stall)
        return keep == len(body)

    def _changed(self, request: Request, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        if request.fault in ("no checksums", "refuses checksums"):
            head = re.sub(rb"(?i)\r\nx-amz-checksum-.*?(?=\r\n)", b"", head)
            body = body.replace(b"ChecksumCRC32C", b"UnknownElement")  # as long
        if request.fault == "flip" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.range)
        if found is None or request.fault not in ("whole", "shift", "swap"):
            return head, body
        start, end, content = int(found[1]), int(found[2]) + 1, (self.folder / request.path[1:]).read_bytes()
        if request.fault == "whole":
            body = content
            head = re.sub(rb"^HTTP/1.1 206.*?\r\n", b"HTTP/1.1 200 OK\r\n", head)
            head = re.sub(rb"(?i)\r\ncontent-range:.*?(?=\r\n)", b"", head)
            head = re.sub(rb"(?i)\r\ncontent-length:.*?(?=\r\n)", b"\r\nContent-Length: %d" % len(body), head)
        elif request.fault == "shift":
            body = (content[3:] + content[:3])[start:end]
        else:  # swapped for another object of the same size
            body = content[::-1][start:end]
            head = re.sub(rb"(?i)\r\netag:.*?(?=\r\n)", b'\r\nETag: "another"', head)
        return head, body

    async def _take_time(self, count: int) -> None:
        if self.speed:
            now = asyncio.get_running_loop().time()
            self._free_at = max(self._free_at, now) + count / self.speed
            await asyncio.sleep(self._free_at - now)


def _header(head: bytes, name: str) -> str:
    found = re.search(rf"\r\n{name}: *(.*?)\r\n".encode(), head, re.IGNORECASE)
    return found[1].decode() if found else ""


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """The body of an answer, as it is sent, chunks included."""
    if _header(head, "transfer-encoding").lower() != "chunked":
        return await reader.readexactly(int(_header(head, "content-length") or 0))
    found, size = b"", 1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line, 16)
        found += line + await reader.readexactly(size + 2)
    return found


@contextmanager
def faulty_proxy(upstream: int, folder: Path) -> Iterator[Proxy]:
    """Run a proxy before a port of this machine until the block ends."""
    proxy, loop = Proxy(upstream, folder), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 20))
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

"""One warning when a bucket or a server does not answer: what is asked again, and until when.

Requests say here when they begin and when an answer arrives. If nothing has arrived from a store for `SAID_AFTER`
seconds while a request waits, a thread warns, once until the store answers again. Of the processes of one program only
one warns.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b

from shardfeed.errors import escape
from shardfeed.user_warnings import warn_user

DEADLINE_SECONDS = 120  # for a request that reads, with all its attempts, while the store is out
SAID_AFTER = 10.0  # seconds
_LOOK_SECONDS = 0.5  # between two looks at the requests under way, and from the last one to the end of the thread


def _warn(message: str) -> None:
    with suppress(Warning):  # if warnings are errors, this thread has nobody to raise one to
        warn_user(message, RuntimeWarning)


# The fetcher of a cache, whose stderr is a file, passes messages on instead, until a store answers again.
say: Callable[[str], object] = _warn
over: Callable[[], object] | None = None


@dataclass(eq=False)
class PendingRequest:
    """A request to the store `root` for `path`, all its attempts together; `most`: the seconds that they may take."""

    root: str
    path: str
    most: float
    problem: str = ""  # of the last attempt
    begun: float = field(default_factory=time.monotonic)

    @property
    def message(self) -> str:
        """The warning: what is waited for, why, and until when."""
        left = self.begun + self.most - time.monotonic()
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + left))
        why = f" ({self.problem})" if self.problem else ""
        return f"{escape(self.path)}: no answer for {SAID_AFTER:g} s{why}; it is asked again until {until} at most"


class _Watch:
    """The requests under way in this process, and a thread that looks at them while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = set[PendingRequest]()
        self._last_answer: dict[str, float] = {}
        self._said: dict[str, socket.socket | None] = {}  # stores that do not answer, and the claims on saying so
        self._thread: threading.Thread | None = None

    def begin(self, request: PendingRequest) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._look, name="shardfeed-outage", daemon=True)
                thread.start()
                self._thread = thread
            self._requests.add(request)

    def end(self, request: PendingRequest) -> None:
        with self._lock:
            self._requests.discard(request)
            waits = any(one.root == request.root for one in self._requests)
        if not waits:  # it has failed, and nobody is waiting: another request is said anew
            self._end_outage(request.root)

    def note_answer(self, root: str) -> None:
        self._last_answer[root] = time.monotonic()
        self._end_outage(root)

    def _end_outage(self, root: str) -> None:
        with self._lock:
            if root not in self._said:
                return
            claim = self._said.pop(root)
        if claim is not None:
            claim.close()
        if over is not None:
            over()

    def _look(self) -> None:
        while True:
            with self._lock:
                if not self._requests:
                    self._thread = None
                    return
                silent, due_in = self._silent()
                claims = {request.root: claim_to_say(request.root) for request in silent}
                self._said |= {root: claim for root, (_, claim) in claims.items()}
            for request in silent:
                if claims[request.root][0]:
                    say(request.message)
            time.sleep(min(_LOOK_SECONDS, max(0.05, due_in)))

    def _silent(self) -> tuple[list[PendingRequest], float]:
        """The first request to each store that has become silent, and the seconds until the next may have."""
        now, due_in = time.monotonic(), SAID_AFTER
        silent: dict[str, PendingRequest] = {}
        for request in sorted(self._requests, key=lambda one: one.begun):
            since = max(request.begun, self._last_answer.get(request.root, 0.0))
            if request.root in self._said or request.root in silent:
                continue
            if now - since >= SAID_AFTER:
                silent[request.root] = request
            else:
                due_in = min(due_in, SAID_AFTER - (now - since))
        return [*silent.values()], due_in


_watch = _Watch()


def _forget() -> None:
    """Begin anew in a forked child, which has no such thread, and perhaps a lock that nobody will release."""
    global _watch
    _watch = _Watch()


os.register_at_fork(after_in_child=_forget)


def note_answer(root: str) -> None:
    """Note that a store has answered, perhaps only with the head of an answer."""
    _watch.note_answer(root)


@contextmanager
def awaited(root: str, path: str, most: float) -> Iterator[PendingRequest]:
    """A block in which a request waits for a store; `most`: seconds for all its attempts."""
    request, watch = PendingRequest(root, path, most), _watch
    watch.begin(request)
    try:
        yield request
        watch.note_answer(root)
    finally:
        watch.end(request)


def claim_to_say(about: str) -> tuple[bool, socket.socket | None]:
    """Whether this process is the first of its process group to say something, and what keeps the others from it.

    The claim ends when it is closed, at the latest with the process.
    """
    name = f"\0shardfeed-{os.getuid()}-{os.getpgrp()}-{blake2b(about.encode(), digest_size=12).hexdigest()}"
    try:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:  # no descriptor is left
        return True, None
    try:
        claim.bind(name)
    except OSError:
        claim.close()
        return False, None
    return True, claim

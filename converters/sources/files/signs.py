"""Signs of life of what may take minutes before the first image is read: listing and planning tell whoever listens.

Not an argument, as between a command and the loop that lists stand the constructors of all sources. Nobody need listen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Doing = Literal["listing", "planning"]
Listener = Callable[[Doing, int, int | None], object]

EVERY = 4096  # files or samples between two signs
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """A block in which `listener(doing, done, total)` is called now and then; `total` is None where nobody knows it."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(doing: Doing, done: int, total: int | None = None) -> None:
    """Say how far this is: after each EVERY of them, and at the end."""
    listener = _listener.get()
    if listener is not None:
        listener(doing, done, total)

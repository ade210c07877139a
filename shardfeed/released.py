"""Values that belong to objects, and are asked for once those are gone: no code runs when one goes.

A callback of a finalizer runs in whichever thread drops the last reference, often the main thread between two steps of
training. Python ignores exceptions there, and so a Ctrl-C that arrives in the callback: the program would go on.
"""

import weakref
from collections import deque
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Released(Generic[T]):
    """Values that are returned once their objects are gone. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._gone: deque[weakref.ref[Any]] = deque()

    def hold(self, owner: Any, value: T) -> None:
        """Keep `value` until nothing refers to `owner`."""
        reference = weakref.ref(owner, self._gone.append)  # compiled code, which no signal interrupts
        self._held[id(reference)] = reference, value

    def take(self) -> list[T]:
        """Return the values whose owners are gone, each once."""
        found: list[T] = []
        while self._gone:
            try:
                found.append(self._held.pop(id(self._gone.popleft()))[1])
            except IndexError:  # another thread took it
                break
        return found

"""Memory that shows whether it was written: the C library fills what it allocates and what is freed with one byte."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_PERTURB = -6  # M_PERTURB of mallopt(3)
POISONS = (0x35, 0xC7)


@contextmanager
def poisoned(byte: int) -> Iterator[None]:
    """Inside, blocks of more than a kilobyte begin with `byte` everywhere; smaller ones may be used again as they are.

    NumPy's large arrays, the decoders' and the compiled module's memory are among them.
    """
    libc = ctypes.CDLL(None)
    assert libc.mallopt(_PERTURB, byte ^ 0xFF) == 1, "this C library fills no memory"
    try:
        yield
    finally:
        libc.mallopt(_PERTURB, 0)


def same_under_poisons(make: Callable[[int], T]) -> T:
    """Return what `make`, called with a byte under the poison of that byte, makes of any memory it finds.

    Fails if it depends on the memory.
    """
    found = []
    for byte in POISONS:
        with poisoned(byte):
            found.append(make(byte))
    assert found[0] == found[1], "memory is returned that nothing wrote"
    return found[0]

"""Annotation files with a few bytes changed: the same ones each time."""

import random
import re
from collections.abc import Iterator, Sequence

_VALUES = re.compile(rb"[0-9][0-9.]*")


def damaged(text: bytes, pieces: Sequence[bytes], count: int, values: re.Pattern[bytes] = _VALUES) -> Iterator[bytes]:
    """`count` copies of `text`: in one up to three stretches are replaced by `pieces`, in the next some `values`."""
    draw = random.Random(0)
    for i in range(count):
        copy = bytearray(text)
        for _ in range(draw.randint(1, 3)):
            start = draw.randrange(len(copy))
            end = start + draw.randint(0, 12)
            if i % 2:
                start, end = draw.choice([match.span() for match in values.finditer(copy)])
            copy[start:end] = draw.choice(pieces)
        yield bytes(copy)

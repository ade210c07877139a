"""Values that nobody means: for what is about to be written, and for steps of training runs."""

from typing import Any

import numpy as np


class Odd:
    """An object of no use to anybody."""


DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]

# Values that somebody may give by mistake where text, a number, or a mapping belongs.
ODD: list[Any] = [
    *(None, True, -1, 5, 2.5, float("nan"), float("inf"), 2**63, 10**30, np.int64(3), np.float32(0.5), np.zeros(2)),
    *("", "\ud800", "\ud83d\ude00", "x" * 70, "a\nb", "a\0b", b"x", b"\xff", [], ["a"], (1, 2), {}, {"a": 1}),
    *({1: 2}, {1: 2, "1": 3}, {"x": (1, 2)}, {"x": float("nan")}, {"x": Odd()}, {3}, Odd(), DEEP),
]

BAD_STEPS: list[Any] = [2.0, 2.5, "5", True, False, None, -3, [1], (1,), {}, 2**63, 10**400, float("nan"), b"1", Odd()]
GOOD_STEPS: list[Any] = [0, 3, 2**62, np.int64(3), np.int32(3), np.uint8(3), np.array(3)]

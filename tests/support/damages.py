"""Random damage to bytes, for the tests that ask what is still found after it; and damage that a checksum covers."""

import json
import random
from typing import Any

from shardfeed.storage.checksum import crc32c


def damage(data: bytes, rng: random.Random, times: int) -> bytes:
    """`times` changes of random kinds at random places."""
    for _ in range(times):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        b = min(b, a + rng.choice([1, 8, 100, 2000]))
        kind = rng.choice(["flip", "cut", "insert", "remove", "double", "zero"])
        if kind == "flip" and data:
            at = min(a, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif kind == "cut":
            data = data[: max(a, len(data) - 500)]
        elif kind == "insert":
            data = data[:a] + rng.choice([bytes, rng.randbytes])(b - a) + data[a:]
        elif kind == "remove":
            data = data[:a] + data[b:]
        elif kind == "double":
            data = data[:b] + data[a:]
        elif kind == "zero":
            data = data[:a] + bytes(b - a) + data[b:]
    return data


def signed(content: dict[str, Any]) -> bytes:
    """The bytes of a manifest that holds `content`, with a checksum that is right. Raises ValueError for NaN."""
    content.pop("crc32c", None)
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"
    content["crc32c"] = f"{crc32c(text.encode()):08x}"
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()

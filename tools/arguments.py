"""Values as several commands take them: shares, numbers of shards, sizes in bytes."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from shardfeed.errors import UsageError

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "B": 1}


def assignments(option: str, text: str, kind: Callable[[str], Any]) -> dict[str, Any]:
    """`train=0.9,validation=0.1` as a mapping. Raises UsageError, in which `option` is the place."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        try:
            values[name.strip()] = kind(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise UsageError(option, f"got {text!r}, expected NAME=VALUE,NAME=VALUE")
    return values


def shard_numbers(text: str | None) -> int | Mapping[str, int] | None:
    """`8`, or `train=8,validation=2`, or nothing. Raises UsageError."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    return assignments("--shards", text, int)


def byte_size(text: str) -> int:
    """`256MB` in bytes. Raises argparse's error for what is no size."""
    number, unit = text.upper().strip(), "B"
    for candidate in _UNITS:
        if number.endswith(candidate):
            number, unit = number.removesuffix(candidate), candidate
            break
    try:
        return int(float(number) * _UNITS[unit])
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a size like 256MB") from None

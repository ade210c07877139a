"""What differs between the conversion that an earlier run began and the one that is asked for now, in words."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from shardfeed.errors import escape
from shardfeed.text import listing, number

_NAMED = 3  # images of each kind
_LISTED = 6  # options
_LONGEST = 60  # characters of a value


def other_manner(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What decides how images are stored and where they go, where that differs, a phrase each: options and versions.

    `before`, `now`: as of `Plan.identity`. Features and class names are the inputs' business: a folder that is gone is
    a class that is gone, and other labels cost no image.
    """
    said = [*_differences(before.get("options"), now["options"]), *_differences(before.get("made_by"), now["made_by"])]
    return said if len(said) <= _LISTED else [*said[:_LISTED], f"and {len(said) - _LISTED} more"]


def _differences(before: object, now: Mapping[str, Any]) -> list[str]:
    known = before if isinstance(before, dict) else {}
    if len(one := known.get("appended", ())) == len(other := now.get("appended", ())) > 0:
        # Of an append it is the last entry that differs.
        known, now = {**known, **one[-1], "appended": None}, {**now, **other[-1], "appended": None}
    keys = sorted(key for key in known.keys() | now.keys() if known.get(key) != now.get(key))
    return [f"{key} was {_short(known.get(key))}, now {_short(now.get(key))}" for key in keys]


def _short(value: object) -> str:
    text = escape(repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def other_inputs(before: Iterable[str], now: Iterable[str]) -> str:
    """ "1 image gone (a/bad.jpg), 2 new (b/1.jpg, b/2.jpg)", by the lines of two `Inputs`; "" where none differs."""
    old: dict[str, str] = dict(json.loads(line) for line in before)
    new: dict[str, str] = dict(json.loads(line) for line in now)
    kinds = {
        "gone": old.keys() - new.keys(),
        "new": new.keys() - old.keys(),
        "changed": {key for key in new.keys() & old.keys() if new[key] != old[key]},
    }
    said: list[str] = []
    for kind, keys in kinds.items():
        if keys:
            count = f"{len(keys):,}" if said else number(len(keys), "image")
            said.append(f"{count} {kind} ({listing(list(map(escape, sorted(keys))), _NAMED)})")
    return ", ".join(said)

"""Where each cell begins in a record of a label file: the offset to show when something is wrong with it.

Only asked for once an error is certain, so reading a label file does not pay for it.
"""

import json
import re
from typing import Any, NoReturn

_QUOTED = re.compile(r'"(?:[^"]|"")*+"')


def csv_starts(text: str, delimiter: str) -> list[int]:
    """Where each cell of the record begins, as the csv module splits it; an opening quote belongs to its cell."""
    starts, quoted, i = [0], False, 0
    while i < len(text):
        character = text[i]
        if quoted:
            if character == '"':
                if text[i + 1 : i + 2] == '"':
                    i += 1
                else:
                    quoted = False
        elif character == '"' and i == starts[-1]:
            quoted = True
        elif character == delimiter:
            starts.append(i + 1)
        elif character in "\r\n":
            break
        i += 1
    return starts


def csv_stray(text: str, delimiter: str) -> int | None:
    """Where the first text stands that follows a closing quote within its cell, which strict CSV has not; else None."""
    for start in csv_starts(text, delimiter):
        quoted = _QUOTED.match(text, start)
        if quoted and text[quoted.end() : quoted.end() + 1] not in ("", delimiter, "\r", "\n"):
            return quoted.end()
    return None


def text_starts(text: str) -> list[int]:
    """Where path and label begin; the label follows the last blank. One number where there is no path."""
    line = text.rstrip("\r\n \t")
    last = max(line.rfind(" "), line.rfind("\t"))
    return [0, last + 1] if line[: last + 1].strip(" \t") else [0]


def json_starts(text: str) -> dict[str, int]:
    """Where the value of each key of the object begins."""
    decoder = json_decoder()

    def after_blank(offset: int) -> int:
        return len(text) - len(text[offset:].lstrip(" \t\r\n"))

    starts: dict[str, int] = {}
    offset = after_blank(after_blank(0) + 1)  # past the brace
    while text[offset] != "}":
        key, offset = decoder.raw_decode(text, offset)
        starts[key] = after_blank(after_blank(offset) + 1)  # past the colon
        _, offset = decoder.raw_decode(text, starts[key])
        offset = after_blank(offset)
        if text[offset] == ",":
            offset = after_blank(offset + 1)
    return starts


class JsonObject(list[tuple[str, Any]]):
    """A JSON object as its (key, value) pairs, doubled keys included."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def json_decoder() -> json.JSONDecoder:
    """A decoder that leaves numbers as they are written: the whole column decides their dtype."""
    return json.JSONDecoder(object_pairs_hook=JsonObject, parse_int=str, parse_float=str, parse_constant=_refuse)

"""Numbers and tables formatted for people."""

import itertools
import math
import os
import re
import shlex
from collections.abc import Iterable, Sequence

from shardfeed.errors import UsageError, escape, name_bytes, shown

_MOST_DIGITS = 18  # of a number that is typed: int64 holds them all, and Python refuses some thousands
_DECIMAL = ("bytes", "kB", "MB", "GB", "TB")
_UNITS = {unit.upper(): 1000**power for power, unit in enumerate(_DECIMAL) if power}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "B": 1}  # "B" last: the others end in it


def byte_size(text: str) -> int:
    """`256MB` in bytes. Raises ValueError unless the text is a size of at least one byte, with its unit."""
    number, unit = text.upper().strip(), ""
    for candidate in _UNITS:
        if number.endswith(candidate):
            number, unit = number.removesuffix(candidate), candidate
            break
    size = float(number) * _UNITS.get(unit, 0)  # a number alone may be meant as a count
    if not 1 <= size < math.inf:  # nor "nan"
        raise ValueError(text)
    return int(size)


def typed_number(text: str | bytes) -> int | None:
    """The number that a text writes by at most 18 digits and nothing else; None for any other text."""
    is_number = text.isdigit() if isinstance(text, bytes) else text.isdecimal()
    return int(text) if is_number and len(text) <= _MOST_DIGITS else None


def compiled_pattern(option: str, pattern: str) -> re.Pattern[str]:
    """Compile a regular expression of a user. Raises UsageError, whose place is `option`, if it is not valid."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        why = "it has too many levels of brackets" if isinstance(error, RecursionError) else str(error)
        raise UsageError(option, f"{shown(pattern)} is not a valid regular expression: {why}", "correct it") from None


def size_text(size: float) -> str:
    """Bytes in decimal units: `1.2 MB`."""
    for unit in _DECIMAL:
        if round(size, 0 if unit == "bytes" else 1) < 1000 or unit == _DECIMAL[-1]:  # as it will be shown
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def number(count: int, one: str, several: str = "") -> str:
    """`1 image`, `8,118 images`; `several`: the plural, if it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def table(rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Rows in aligned columns: numbers to the right, text to the left."""
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    lines = []
    for row, cells in zip(rows, texts, strict=True):
        padded = [
            text.rjust(width) if isinstance(cell, int) else text.ljust(width)
            for cell, text, width in zip(row, cells, widths, strict=True)
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def shell_quoted(path: str | os.PathLike[str]) -> str:
    r"""A path on one printable line, quoted for a shell: `'my photos'`, or `$'a\x0ab'` with a newline."""
    text = os.fspath(path)
    text = f"./{text}" if text.startswith("-") else text
    if text.isprintable():
        return shlex.quote(text)
    plain = "".join(
        c if c.isprintable() and c not in "\\'" else "".join(f"\\x{byte:02x}" for byte in name_bytes(c)) for c in text
    )
    return f"$'{plain}'"


def in_usual_order(splits: Iterable[str]) -> list[str]:
    """Names of splits as people list them: train, validation, test, then the others by name."""
    usual = ("train", "validation", "test")
    return sorted(splits, key=lambda name: (usual.index(name) if name in usual else len(usual), name))


def listing(names: Sequence[str], shown: int = 12, separator: str = ", ") -> str:
    """`a, b, c and 7 more`."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return separator.join(names[:shown]) + more


def some(names: Iterable[bytes | str]) -> str:
    """`a, b, c, ...`: the first three names, escaped."""
    first = list(itertools.islice(names, 4))
    return ", ".join([*map(escape, first[:3]), *(["..."] if len(first) > 3 else [])])


def counted(what: str, names: Iterable[bytes | str], count: int) -> str:
    """A note: `what: 7 (a, b, c, ...)`."""
    return f"{what}: {count} ({some(names)})"


def did_you_mean(got: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for an unknown name: names that begin with it, else the nearest, else `otherwise`."""
    from difflib import get_close_matches  # not above: only what is mistyped needs it

    names = list(known)
    near = [name for name in names if len(got.strip("-")) > 1 and name.startswith(got)]
    near = near or get_close_matches(got, names, n=2, cutoff=0.6)
    return f"did you mean {listing(near, 3, ' or ')}?" if near else otherwise

"""The samples of a tar: members that follow each other and have one key."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from shardfeed.converters.sources.archives.tar import Member, members
from shardfeed.converters.sources.files.listing import is_hidden
from shardfeed.errors import UsageError, escape

_NAME = re.compile(rb"((?:.*/|)[^./]+)[.]([^/]*)\Z", re.DOTALL)
_META = re.compile(rb"__[^/]*__")


@dataclass
class TarSample:
    """One sample: its key as the tar has it, and its members by column."""

    key: bytes
    columns: dict[str, Member] = field(default_factory=dict)


@dataclass
class PassedOver:
    """Names of members that belong to no sample: `first`, some of them; `count`, of all."""

    first: list[bytes] = field(default_factory=list)
    count: int = 0

    def add(self, name: bytes) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < 4:
            self.first.append(name)


def key_and_column(name: bytes) -> tuple[bytes, str] | None:
    """`a/b.1.seg.png` is the column `1.seg.png` of the sample `a/b`; None where a name says neither.

    The first dot of the base name ends the key; columns are in lower case.
    """
    found = _NAME.match(name)
    return None if found is None else (found[1], found[2].decode("utf-8", "surrogateescape").lower())


def samples(file: BinaryIO, place: str, passed_over: PassedOver) -> Iterator[TarSample]:
    """The samples of a tar, in its order; meta data and hidden files are passed over in silence, others named.

    Raises UsageError for a tar that is not whole, and for a column that comes twice in a sample.
    """
    sample = None
    for member in members(file, place):
        name = member.name.removeprefix(b"./").lstrip(b"/")
        if _META.match(name) or any(
            is_hidden(part) or _META.fullmatch(part) for part in name.split(b"/") if part != b".."
        ):
            continue
        found = key_and_column(name)
        if found is None:
            passed_over.add(name)
            continue
        key, column = found
        if sample is None or sample.key != key:
            if sample is not None:
                yield sample
            sample = TarSample(key)
        if column in sample.columns:
            before = sample.columns[column].offset
            problem = f"the sample '{escape(key)}' has the column '{escape(column)}' twice"
            problem += f", at the bytes {before:,} and {member.offset:,}"
            raise UsageError(place, problem, "leave one of the two out")
        sample.columns[column] = member
    if sample is not None:
        yield sample

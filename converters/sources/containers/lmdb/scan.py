"""What a database holds, found in one pass over it, by its dialect."""

from array import array
from dataclasses import dataclass, field

from shardfeed.converters.images.sniff import HEAD_BYTES
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.containers.endings import ending_of
from shardfeed.converters.sources.containers.joined import Joined
from shardfeed.converters.sources.containers.lmdb.database import Database
from shardfeed.converters.sources.containers.lmdb.datum import read_datum
from shardfeed.converters.sources.containers.lmdb.dialects import (
    COUNT,
    SMALLEST_IMAGE,
    TEXT_IMAGE,
    TEXT_LABEL,
    Dialect,
)
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError
from shardfeed.text import counted

_SHOWN = 4  # keys, for a note, which says three and that there are more
_MOST_DIGITS = 19  # of a count, which int64 holds
_TEXT_BYTES = 1 << 16  # of what is written in an image


@dataclass
class Found:
    """Keys of images in their order, the `sizes` of their values in bytes, and what else there is.

    `ending`: what names of images like the first one end in. `labels`, of Caffe, and `texts`, of OCR: one for each
    image, or none.
    """

    keys: Joined = field(default_factory=Joined)
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    ending: bytes = b""
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    texts: Joined = field(default_factory=Joined)
    rejected: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, key: bytes, size: int) -> None:
        """An image more."""
        self.keys.append(key)
        self.sizes.append(size)


def scan(database: Database, dialect: Dialect) -> Found:
    """All that is in a database. Raises UsageError."""
    if dialect == "OCR":
        return _texts(database)
    return _datums(database) if dialect == "Caffe Datum" else _images(database)


def _images(database: Database) -> Found:
    found = Found()
    short: list[bytes] = []
    count = 0
    for key, value in database:
        if len(value) < SMALLEST_IMAGE:
            count += 1
            short += [key] if count <= _SHOWN else []
            continue
        if not found.keys:
            found.ending = ending_of(bytes(value[:HEAD_BYTES]))
        found.add(key, len(value))
    if count:
        found.notes.append(counted("keys whose values are too short for an image", short, count))
    return found


def _datums(database: Database) -> Found:
    found = Found()
    unlabelled = 0
    for key, value in database:
        try:
            datum = read_datum(value)
        except ValueError as error:
            found.rejected.append(Skipped(key, RejectCode.CORRUPT.value, f"no Datum: {error}"))
            continue
        if not found.keys:
            found.ending = ending_of(bytes(datum.data[:HEAD_BYTES])) if datum.encoded else b".png"
        found.add(key, len(value))
        found.labels.append(datum.label or 0)
        unlabelled += datum.label is None
    if unlabelled == len(found.keys):
        del found.labels[:]
    elif unlabelled:
        found.notes.append(f"{unlabelled} Datums do not say their label, which is 0 then")
    return found


def _texts(database: Database) -> Found:
    _, said = database.look(COUNT) or (0, b"")
    count = int(said) if said.isdigit() and len(said) <= _MOST_DIGITS else 0
    if not 0 < count < len(database):
        problem = f"says {said[:20]!r} under num-samples, expected how many of its {len(database)} keys are images"
        raise UsageError(database.state.path, problem, "export it again")
    found = Found()
    for i in range(1, count + 1):
        key = TEXT_IMAGE % i
        image, text = database.look(key, 0 if found.keys else HEAD_BYTES), database.look(TEXT_LABEL % i, _TEXT_BYTES)
        if image is None:
            budget().alive(database.state.path)
            found.rejected.append(Skipped(key, RejectCode.MISSING.value, "the database has no such key"))
        elif problem := _not_text(text):
            found.rejected.append(Skipped(key, RejectCode.NO_LABEL.value, f"{(TEXT_LABEL % i).decode()} {problem}"))
        else:
            if not found.keys:
                found.ending = ending_of(image[1])
            found.add(key, image[0])
            found.texts.append(text[1] if text else b"")
            budget().progress()
    return found


def _not_text(found: tuple[int, bytes] | None) -> str:
    """Why what was found is no text; "" where it is one."""
    if found is None:
        return "is not there"
    if found[0] > _TEXT_BYTES:
        return f"has {found[0]} bytes, expected {_TEXT_BYTES} at most"
    try:
        found[1].decode("utf-8")
    except UnicodeDecodeError:
        return f"is not UTF-8: {found[1][:40]!r}"
    return ""

"""What a database holds, found in one pass over it, by its dialect."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

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
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError
from shardfeed.text import counted

_TEXT_BYTES = 1 << 16  # of what is written in an image


@dataclass
class Found:
    """Keys of images in their order, the `sizes` of their values in bytes (uint32 [n]), and what else there is.

    `ending`: what names of images like the first one end in. `labels` int64 [n], of Caffe; `texts`, of OCR.
    """

    keys: Joined
    sizes: np.ndarray
    ending: bytes
    labels: np.ndarray | None = None
    texts: Joined | None = None
    rejected: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def scan(database: Database, dialect: Dialect) -> Found:
    """All that is in a database. Raises UsageError."""
    if dialect == "OCR":
        return _texts(database)
    return _datums(database) if dialect == "Caffe Datum" else _images(database)


def _images(database: Database) -> Found:
    sizes, heads, others = array("I"), [], []

    def keys() -> Iterator[bytes]:
        for key, value in database:
            if len(value) < SMALLEST_IMAGE:
                others.append(key)
                continue
            if not heads:
                heads.append(bytes(value[:HEAD_BYTES]))
            sizes.append(len(value))
            yield key

    found = Found(Joined(keys()), np.array(sizes, np.uint32), ending_of(heads[0]) if heads else b"")
    if others:
        found.notes.append(counted("keys whose values are too short for an image", others, len(others)))
    return found


def _datums(database: Database) -> Found:
    sizes, labels, unlabelled, endings = array("I"), array("q"), [0], []
    rejected: list[Skipped] = []

    def keys() -> Iterator[bytes]:
        for key, value in database:
            try:
                datum = read_datum(value)
            except ValueError as error:
                rejected.append(Skipped(key, RejectCode.CORRUPT.value, f"no Datum: {error}"))
                continue
            if not endings:
                endings.append(ending_of(bytes(datum.data[:HEAD_BYTES])) if datum.encoded else b".png")
            sizes.append(len(value))
            labels.append(datum.label or 0)
            unlabelled[0] += datum.label is None
            yield key

    found = Found(Joined(keys()), np.array(sizes, np.uint32), endings[0] if endings else b"", rejected=rejected)
    if unlabelled[0] < len(found.keys):
        found.labels = np.array(labels, np.int64)
        if unlabelled[0]:
            found.notes.append(f"{unlabelled[0]} Datums do not say their label, which is 0 then")
    return found


def _texts(database: Database) -> Found:
    _, said = database.look(COUNT) or (0, b"")
    if not said.isdigit() or len(said) > 9 or not int(said):
        problem = f"says {said[:20]!r} under num-samples, expected a number of samples"
        raise UsageError(database.state.path, problem, "export it again")
    sizes, endings, texts = array("I"), [], []
    rejected: list[Skipped] = []

    def keys() -> Iterator[bytes]:
        for i in range(1, int(said) + 1):
            key = TEXT_IMAGE % i
            image, text = database.look(key, 0 if endings else HEAD_BYTES), database.look(TEXT_LABEL % i, _TEXT_BYTES)
            if image is None:
                rejected.append(Skipped(key, RejectCode.MISSING.value, "the database has no such key"))
            elif problem := _not_text(text):
                rejected.append(Skipped(key, RejectCode.NO_LABEL.value, f"{(TEXT_LABEL % i).decode()} {problem}"))
            else:
                if not endings:
                    endings.append(ending_of(image[1]))
                sizes.append(image[0])
                texts.append(text[1] if text else b"")
                yield key

    made = Joined(keys())
    found = Found(made, np.array(sizes, np.uint32), endings[0] if endings else b"", rejected=rejected)
    found.texts = Joined(texts)
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

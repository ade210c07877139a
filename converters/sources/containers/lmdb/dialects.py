"""The ways in which images lie in LMDB databases, and what tells one from the other."""

import os
from itertools import islice
from typing import Literal

from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.sources.containers.lmdb.database import Database
from shardfeed.converters.sources.containers.lmdb.datum import read_datum
from shardfeed.errors import UsageError, escape

# Of images as they are: by key, LSUN; with meta_info.txt beside them, BasicSR. Of Caffe: Datum. With texts: OCR.
Dialect = Literal["LSUN", "BasicSR", "Caffe Datum", "OCR"]

SMALLEST_IMAGE = 32  # bytes; shorter values are numbers of samples and the like
COUNT, TEXT_IMAGE, TEXT_LABEL = b"num-samples", b"image-%09d", b"label-%09d"
META_INFO = "meta_info.txt"
_LOOKED_AT = 20  # values
_SHOWN = 3
_PICKLE_KEYS = (b"__keys__", b"__len__")
_ALTERNATIVE = "convert the folder of images that it was made of, or save it with the encoded images as values"


def dialect_of(database: Database) -> Dialect:
    """By the first keys and values. Raises UsageError for pickles, and for what is of no known dialect."""
    place = database.state.path
    for key in _PICKLE_KEYS:
        if database.look(key):
            problem = f"has the key {escape(key)}, as folder2lmdb writes it: its values are pickles, or pyarrow's"
            problem += " serialised objects, and loading those may run any program"
            raise UsageError(place, problem, _ALTERNATIVE)
    first = [(key, bytes(value[:HEAD_BYTES]), len(value)) for key, value in islice(database, _LOOKED_AT)]
    if database.look(COUNT) and any(key.startswith(TEXT_IMAGE[:6]) for key, _, _ in first):
        return "OCR"
    if not first:
        raise UsageError(place, "is an LMDB database without a key", "give the one with the images")
    large = [(key, head) for key, head, size in first if size >= SMALLEST_IMAGE]
    if large and all(begins_as_image(head) for _, head in large):
        return "BasicSR" if os.path.isfile(os.path.join(os.path.dirname(place), META_INFO)) else "LSUN"
    if pickled := [key for key, head in large if _is_pickle(head)]:
        problem = f"has values that are pickles (of the key {escape(pickled[0])}), and loading one may run any program"
        raise UsageError(place, problem, _ALTERNATIVE)
    if all(_is_datum(value) for _, value in islice(database, _LOOKED_AT)):
        return "Caffe Datum"
    shown = ", ".join(f"{escape(key)}: {size} bytes, {head[:16]!r}" for key, head, size in first[:_SHOWN])
    problem = f"is of no known dialect; its first keys and values are {shown}"
    remedy = "expected encoded images, Caffe's Datum, or image-000000001 and label-000000001"
    raise UsageError(place, problem, f"{remedy}; export it with the tool that made it")


def _is_pickle(head: bytes) -> bool:
    """Of protocols 2 to 5, which say so in their first two bytes and go on with a frame or an opcode."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _is_datum(value: memoryview) -> bool:
    """Raises UsageError for one with float pixels."""
    try:
        return not read_datum(value).floats
    except ValueError:
        return False

"""One LMDB database, or a folder of several, as samples; what lies in it is told by its first keys and values."""

import os
import re
from array import array
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import numpy as np

from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.containers.arrays.labels import label_column
from shardfeed.converters.sources.containers.arrays.names import split_of
from shardfeed.converters.sources.containers.endings import ending_of
from shardfeed.converters.sources.containers.handles import listed
from shardfeed.converters.sources.containers.lmdb.database import Database, LmdbImage
from shardfeed.converters.sources.containers.lmdb.datum import read_datum
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.blocks import block_source
from shardfeed.converters.sources.rows.class_column import class_column
from shardfeed.converters.sources.rows.columns import ByteStrings, Codes, ListedColumn, TextColumn
from shardfeed.converters.sources.rows.ledger import Names
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.errors import ShardfeedError, UsageError, argument, escape
from shardfeed.text import listing, number, some

# Of images as they are: by key, LSUN; with meta_info.txt beside them, BasicSR. Of Caffe: Datum. With texts: OCR.
Dialect = Literal["LSUN", "BasicSR", "Caffe Datum", "OCR"]

_MAGIC, _MAGIC_AT = (0xBEEFC0DE).to_bytes(4, "little"), 16  # of the meta page, behind the header of every page
_TEXT = "image/text"
_OF_CLASS = re.compile(r"(.+)_(?:train|val|test)(?:_lmdb|\.lmdb)?")  # as LSUN's are called: church_outdoor_train_lmdb
_SMALLEST_IMAGE = 32  # bytes; shorter values are numbers of samples and the like
_COUNT, _IMAGE, _LABEL = b"num-samples", b"image-%09d", b"label-%09d"
_MOST_DIGITS = 19  # of a count, which int64 holds
_TEXT_BYTES = 1 << 16  # of what is written in an image
_LOOKED_AT, _SHOWN = 20, 3  # values that tell the dialect, and that a message shows
_PICKLE_KEYS = (b"__keys__", b"__len__")
_ALTERNATIVE = "convert the folder of images that it was made of, or save it with the encoded images as values"


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """An LMDB database, as a folder with `data.mdb` or as a file, or a folder of them."""
    files = _databases(look)
    if not files:
        return None
    found = number(len(files), "LMDB database") + (f" ({some(files)})" if len(files) > 1 else "")
    try:
        return Evidence("lmdb", f"{found}, dialect {_dialect(look.path, files)}")
    except ShardfeedError as error:
        return Evidence("lmdb", found, missing_of(error))


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """The images of an LMDB database, or of all in a folder, whose names may tell splits, and LSUN's classes.

    Caffe's labels are classes; those of OCR are texts, `image/text`. Raises UsageError, MissingExtraError.
    """
    files, path = _databases(look), look.path
    if not files:
        raise UsageError(path, "is no LMDB database, and has none: no data.mdb", "check the path")
    if options.columns:
        raise UsageError(path, f"{argument('columns')} is for named columns, and LMDB has none", "leave it out")
    dialect = _dialect(path, files)
    scan = {"OCR": _texts, "Caffe Datum": _datums}.get(dialect, _images)
    blocks, notes, taken = [], [], []
    for name, file in files.items():
        stem = os.path.splitext(name)[0].removesuffix("_lmdb")
        prefix = os.fsencode(f"{stem}/") if len(files) > 1 else b""
        block = LmdbBlock(listed(file), prefix, split_of(stem), dialect == "Caffe Datum")
        with Database(block.file) as database:
            notes += scan(database, block)
        blocks.append(block)
        taken.append(f"{number(len(block), 'image')} from {escape(name)}{f', split {block.split}' * bool(block.split)}")
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        raise UsageError(path, "has no image", "check what the database holds")
    columns: list[ListedColumn] = []
    unlabelled: dict[int, str] = {}
    if dialect == "OCR":
        texts = blocks[0].texts if len(blocks) == 1 else ByteStrings(text for block in blocks for text in block.texts)
        columns = [TextColumn(_TEXT, texts, np.arange(len(texts), dtype=np.int64))]
    elif options.unlabelled:
        pass
    elif any(block.labels for block in blocks):
        labels = [_Labels(block.labels) if block.labels else len(block) for block in blocks]
        column, unlabelled, told = label_column(path, labels, options)
        notes += told
        columns.append(column)
    elif said := _by_names(list(files), files, blocks):
        column, told = class_column(said, options, path)
        notes += ["classes are called like the databases", *told]
        columns.append(column)
    else:
        notes.append("no labels: neither values nor names of databases tell any")
    rejected = [skipped for block in blocks for skipped in block.rejected]
    described = f"{dialect}: {listing(taken, separator='; ')}"
    return block_source(path, blocks, columns, unlabelled, rejected=rejected, notes=notes, described=described)


@dataclass(frozen=True, eq=False)
class LmdbBlock:
    """See `Block`: the images of one database; `keys` in it, `sizes` of values in bytes.

    `prefix`: what keys of samples begin with. `datum`: whether values are Caffe's. `labels`, of Caffe, and `texts`, of
    OCR: one for each image, or none. `endings`: the end of names of images like the first one.
    """

    file: SourceFile
    prefix: bytes
    split: str | None
    datum: bool
    keys: ByteStrings = field(default_factory=ByteStrings)
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    texts: ByteStrings = field(default_factory=ByteStrings)
    rejected: list[Skipped] = field(default_factory=list)
    endings: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: bytes, size: int, head: bytes, ending: bytes | None = None) -> None:
        """One more image, whose encoded bytes begin with `head`."""
        if not self.endings:
            self.endings.append(ending_of(head) if ending is None else ending)
        self.keys.add(key)
        self.sizes.append(size)

    def reject(self, key: bytes, code: RejectCode, reason: str) -> None:
        """List an image that cannot be taken."""
        self.rejected.append(Skipped(self.prefix + key, code.value, reason))

    def key(self, index: int, /) -> bytes:
        """The key of a sample."""
        key, ending = self.keys[index].lstrip(b"/"), self.endings[0]
        ends = (ending, b".jpeg") if ending == b".jpg" else (ending,)
        return self.prefix + (key if key.lower().endswith(ends) else key + ending)

    def content(self, index: int, /) -> LmdbImage:
        """A callable that reads an image."""
        return LmdbImage(self.file, self.keys[index], self.sizes[index], self.datum)


class _Labels:
    """See `Rows`: the labels of a database."""

    named = "label"

    def __init__(self, labels: "array[int]") -> None:
        self._labels = np.frombuffer(labels, np.int64)
        self.shape, self.dtype = self._labels.shape, self._labels.dtype

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._labels[start:stop]


def _by_names(names: list[str], files: dict[str, str], blocks: list[LmdbBlock]) -> Codes | None:
    """The classes of images by the names of their databases; None where those are no classes."""
    matches = [_OF_CLASS.fullmatch(name) for name in names]
    class_of = {file: match[1] for file, match in zip(files.values(), matches, strict=True) if match}
    if len(class_of) < len(names) or len(set(class_of.values())) < 2:
        return None
    said = Codes()
    said.add_many(
        [class_of[os.fsdecode(block.file.path)] for block in blocks], np.arange(len(blocks)).repeat([*map(len, blocks)])
    )
    return said


def _databases(look: Look) -> dict[str, str]:
    """Name -> file with the data: of the database at the path, or of those in the folder; no links."""
    path = os.path.abspath(look.path)
    if file := _data_file(look, path):
        return {os.path.basename(path): file}
    folders, names = look.names() if look.is_folder else ((), ())
    inside = sorted([*folders, *(name for name in names if name.endswith((".mdb", ".lmdb")))])
    paths = {name: os.path.join(path, name) for name in inside}
    return {name: file for name, one in paths.items() if not os.path.islink(one) and (file := _data_file(look, one))}


def _data_file(look: Look, path: str) -> str:
    """The file with the data of the database at `path`, a folder with `data.mdb` or a file; "" where it is none."""
    file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
    regular = os.path.isfile(file)  # to open a pipe would wait for ever
    return file if regular and look.head(file).startswith(_MAGIC, _MAGIC_AT) else ""


def _dialect(path: str, files: dict[str, str]) -> Dialect:
    """That of all databases. Raises UsageError where they differ."""
    found: dict[str, Dialect] = {}
    for name, file in files.items():
        with Database(listed(file)) as database:
            found[name] = _dialect_of(database)
    if len(set(found.values())) > 1:
        each = ", ".join(f"{escape(name)}: {dialect}" for name, dialect in found.items())
        raise UsageError(path, f"has databases of different dialects ({each})", "give one of them")
    return next(iter(found.values()))


def _dialect_of(database: Database) -> Dialect:
    """By the first keys and values. Raises UsageError for pickles, and for what is of no known dialect."""
    place = database.place
    for key in _PICKLE_KEYS:
        if database.look(key):
            problem = f"has the key {escape(key)}, as folder2lmdb writes it: its values are pickles, or pyarrow's"
            problem += " serialised objects, and loading those may run any program"
            raise UsageError(place, problem, _ALTERNATIVE)
    first = [(key, bytes(value[:HEAD_BYTES]), len(value)) for key, value in islice(database, _LOOKED_AT)]
    if database.look(_COUNT) and any(key.startswith(_IMAGE[:6]) for key, _, _ in first):
        return "OCR"
    if not first:
        raise UsageError(place, "is an LMDB database without a key", "give the one with the images")
    large = [(key, head) for key, head, size in first if size >= _SMALLEST_IMAGE]
    if large and all(begins_as_image(head) for _, head in large):
        return "BasicSR" if os.path.isfile(os.path.join(os.path.dirname(place), "meta_info.txt")) else "LSUN"
    # Pickles of protocols 2 to 5 say so in their first two bytes.
    if pickled := [key for key, head in large if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"]:
        problem = f"has values that are pickles (of the key {escape(pickled[0])}), and loading one may run any program"
        raise UsageError(place, problem, _ALTERNATIVE)
    if all(_is_datum(value) for _, value in islice(database, _LOOKED_AT)):
        return "Caffe Datum"
    shown = ", ".join(f"{escape(key)}: {size} bytes, {head[:16]!r}" for key, head, size in first[:_SHOWN])
    problem = f"is of no known dialect; its first keys and values are {shown}"
    remedy = "expected encoded images, Caffe's Datum, or image-000000001 and label-000000001"
    raise UsageError(place, problem, f"{remedy}; export it with the tool that made it")


def _is_datum(value: memoryview) -> bool:
    try:
        return not read_datum(value).floats
    except ValueError:
        return False


def _images(database: Database, block: LmdbBlock) -> list[str]:
    """Take encoded images under any keys; notes."""
    short = Names("keys whose values are too short for an image")
    for key, value in database:
        if len(value) < _SMALLEST_IMAGE:
            short.add(key)
        else:
            block.add(key, len(value), bytes(value[:HEAD_BYTES]))
    return short.note


def _datums(database: Database, block: LmdbBlock) -> list[str]:
    """Take Caffe's Datums; notes."""
    unlabelled = 0
    for key, value in database:
        try:
            datum = read_datum(value)
        except ValueError as error:
            block.reject(key, RejectCode.CORRUPT, f"no Datum: {error}")
            continue
        block.add(key, len(value), bytes(datum.data[:HEAD_BYTES]), None if datum.encoded else b".png")
        block.labels.append(datum.label or 0)
        unlabelled += datum.label is None
    if unlabelled == len(block):
        del block.labels[:]
    elif unlabelled:
        return [f"{number(unlabelled, 'Datum')} without a label, which is 0 then"]
    return []


def _texts(database: Database, block: LmdbBlock) -> list[str]:
    """Take images and their texts, both numbered from 1."""
    _, said = database.look(_COUNT) or (0, b"")
    count = int(said) if said.isdigit() and len(said) <= _MOST_DIGITS else 0
    if not 0 < count < len(database):
        problem = f"says {said[:20]!r} under num-samples, expected how many of its {len(database)} keys are images"
        raise UsageError(database.place, problem, "export it again")
    for i in range(1, count + 1):
        key = _IMAGE % i
        image, text = database.look(key, 0 if len(block) else HEAD_BYTES), database.look(_LABEL % i, _TEXT_BYTES)
        if image is None:
            budget().alive(database.place)
            block.reject(key, RejectCode.MISSING, "the database has no such key")
        elif problem := _not_text(text):
            block.reject(key, RejectCode.NO_LABEL, f"{(_LABEL % i).decode()} {problem}")
        else:
            block.add(key, image[0], image[1])
            block.texts.add(text[1] if text else b"")
            budget().progress()
    return []


def _not_text(found: tuple[int, bytes] | None) -> str:
    """Why a value is no text; "" where it is one."""
    if found is None:
        return "is not there"
    if found[0] > _TEXT_BYTES:
        return f"has {found[0]} bytes, expected {_TEXT_BYTES} at most"
    try:
        found[1].decode("utf-8")
    except UnicodeDecodeError:
        return f"is not UTF-8: {found[1][:40]!r}"
    return ""

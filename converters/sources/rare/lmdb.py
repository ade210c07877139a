"""Read an LMDB database, or a folder of several; the layout is recognised by the first keys and values.

A database is opened read-only without a lock, listed by another process, and read value by value.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import numpy as np

from shardfeed.converters.images.sniff import begins_as_image, ending_of
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.parts import close, listed, opened
from shardfeed.converters.sources.look import Evidence, Look, missing_of
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare import lmdb_walk as walk
from shardfeed.converters.sources.rare.array_pixels import PixelLayout
from shardfeed.converters.sources.rare.array_source import block_source, read_labels, refuse_columns, split_of
from shardfeed.converters.sources.rows.columns import ByteStrings, KnownClasses, Labels, TextColumn
from shardfeed.converters.sources.rows.rows import ColumnarSource, Ledger, Names, Rows
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import ShardfeedError, UsageError, escape, needing_extra
from shardfeed.text import listing, number, some

if TYPE_CHECKING:
    import lmdb

# Bytes after which the file is mapped again: until then, pages that were read count as memory of the process.
_MOST_MAPPED = 16 << 20
_LEAST_ENTRY = 10  # bytes of a key and its value in a page: a header of 8, and a place of 2
_AROUND = 64 << 10  # bytes that Linux maps around a page that is read
# Of encoded images: by key, LSUN; with meta_info.txt next to them, BasicSR. Of Caffe: Datum. With texts: OCR.
Dialect = Literal["LSUN", "BasicSR", "Caffe Datum", "OCR"]

_TEXT = "image/text"
_OF_CLASS = re.compile(r"(.+)_(?:train|val|test)(?:_lmdb|\.lmdb)?")  # as LSUN's are called: church_outdoor_train_lmdb
_SMALLEST_IMAGE = 32  # bytes; shorter values are numbers of samples and the like
_IMAGE, _LABEL = b"image-%09d", b"label-%09d"
_SHOWN = 3  # values that a message shows
*_PICKLE_KEYS, _COUNT = walk.ASKED
_ALTERNATIVE = "convert the original image folder, or save the database with encoded images as values"


class LmdbEntry(NamedTuple):
    """A key, its value's size and first bytes; `flags` and the others are of a Datum, as lmdb_walk.py has them.

    `head` is the fault of a value that is not a Datum although earlier values are.
    """

    key: bytes
    size: int
    head: bytes
    flags: int = 0
    label: int | None = None
    offset: int = 0


class Database:
    """A context manager that iterates once over the sorted keys of a database, which another process reads.

    `asked`: the first bytes of the values of the keys that identify the layout. `first`: some such entries. Raises
    UsageError if it is damaged.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file, self.place = file, os.fsdecode(file.path)
        close(file.path)
        _open(self.place).close()  # the best error for a truncated file

    def __enter__(self) -> Self:
        script = os.path.join(os.path.dirname(__file__), "lmdb_walk.py")
        self._stderr = tempfile.TemporaryFile()  # closed in __exit__
        command = [sys.executable, "-P", script, self.place]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=1 << 20)
        try:
            lines = self._lines()
            self.count, asked = next(lines)
            self.asked = {key.encode(): value.encode("latin1") for key, value in asked.items()}
            rows = (row for some in lines for row in some)
            parts = ((key.encode("latin1"), size, head.encode("latin1"), *datum) for key, size, head, *datum in rows)
            self._entries = (LmdbEntry(*part) for part in parts)
            self.first = [*islice(self._entries, walk.FIRST)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._child, self._stderr:
            self._child.kill()

    def __iter__(self) -> Iterator[LmdbEntry]:
        return chain(self.first, self._entries)

    def _lines(self) -> Iterator[Any]:
        """Yield the parsed JSON lines of the other process. Raises UsageError if it fails."""
        yield from map(json.loads, cast("IO[bytes]", self._child.stdout))
        if not (status := self._child.wait()):
            return
        self._stderr.seek(0)
        last = (self._stderr.read().decode(errors="replace").strip().splitlines() or [""])[-1]
        problem = escape(last[:200]) or f"reading it crashes the process ({status})"
        problem = f"is damaged, or not an LMDB database for this machine: {problem}"
        raise UsageError(self.place, problem, "copy it again")


def _open(path: str) -> "_Mapped":
    """Open the database. Raises UsageError if the file is truncated: a read beyond its end would kill the process."""
    with needing_extra(path):
        import lmdb
    try:
        environment = lmdb.open(path, **walk.OPEN, meminit=False)
    except lmdb.Error as error:
        problem = f"cannot be opened as an LMDB database: {escape(error)}"
        raise UsageError(path, problem, "copy it again, and close it where this process has it open") from None
    pages, size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
    stored, entries, problem = os.path.getsize(path), environment.stat()["entries"], ""
    if stored < pages * size:
        problem = f"is {stored} bytes long, expected {pages * size}: {pages} pages"
    elif entries * _LEAST_ENTRY > pages * size:
        problem = f"declares {entries:,} keys in {pages * size:,} bytes"
    if problem:
        environment.close()
        raise UsageError(path, problem, "it is truncated or damaged: copy it again")
    return _Mapped(environment)


class _Mapped:
    """An open database, and about how many bytes of it were read."""

    def __init__(self, environment: "lmdb.Environment") -> None:
        self.environment, self.read = environment, 0
        self.close = environment.close


@dataclass(frozen=True)
class LmdbImage:
    """The image under `key`: a content as `Sample.image` takes it. `size`: of the value in bytes.

    `datum`: whether the value is a Caffe Datum; else it is the encoded image. Raises RejectedError when called.
    """

    file: SourceFile
    key: bytes
    size: int
    datum: bool

    @property
    def mtime_ns(self) -> int:
        """Modification time of the data file."""
        return self.file.mtime_ns

    def __call__(self) -> bytes:
        """The encoded image."""
        import lmdb

        try:
            mapped = opened(self.file, _open)
            if mapped.read >= _MOST_MAPPED:
                close(self.file.path)
                mapped = opened(self.file, _open)
            with mapped.environment.begin() as transaction:
                value = transaction.get(self.key)
        except (lmdb.Error, UsageError) as error:
            raise RejectedError(RejectCode.UNREADABLE, escape(error)) from None
        mapped.read += _AROUND + len(value or b"")
        if value is None:
            raise RejectedError(RejectCode.CORRUPT, f"the database has no key {escape(self.key)}")
        return image_of(value) if self.datum else value


def image_of(value: bytes) -> bytes:
    """The encoded image of a Datum. Raises RejectedError.

    Pixels become a PNG: they are bytes, one plane after the other, blue, green, red, as in OpenCV. Encoded data are a
    JPEG or PNG file, with colours in the usual order.
    """
    try:
        datum = walk.read_datum(memoryview(value))
    except ValueError as error:
        raise RejectedError(RejectCode.CORRUPT, f"not a Datum: {error}") from None
    data = value[datum.offset : datum.offset + datum.size]
    if datum.encoded:
        return data
    shape = datum.channels, datum.height, datum.width
    if datum.floats or datum.channels not in (1, 3):
        what = "float pixels" if datum.floats else f"{datum.channels} channels"
        raise RejectedError(RejectCode.UNSUPPORTED, f"a Datum with {what}, expected 1 or 3 channels of bytes")
    layout = PixelLayout(shape, (1, 2, 0))
    if not layout.size or layout.size != len(data):
        sides = " x ".join(map(str, shape))
        problem = f"a Datum of {sides} has {len(data)} bytes, expected {layout.size}"
        raise RejectedError(RejectCode.CORRUPT, problem)
    return layout.png(np.frombuffer(data, np.uint8).reshape(shape)[::-1])  # blue, green, red to red, green, blue


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """An LMDB database, as a folder with `data.mdb` or as a file, or a folder of them."""
    del options
    files = _databases(look)
    if not files:
        return None
    found = number(len(files), "LMDB database") + (f" ({some(files)})" if len(files) > 1 else "")
    try:
        with Database(listed(next(iter(files.values())))) as database:
            return Evidence("lmdb", f"{found}, dialect {_dialect(database)}")
    except ShardfeedError as error:
        return Evidence("lmdb", found, missing_of(error))


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """The images of an LMDB database, or of all databases in a folder; their names may give splits, and LSUN's classes.

    Caffe's labels are classes; OCR's are texts, `image/text`. Raises UsageError, MissingExtraError.
    """
    files, path = _databases(look), look.path
    if not files:
        raise UsageError(path, "is not an LMDB database, and contains none: no data.mdb", "check the path")
    refuse_columns(look, options, "LMDB")
    dialects: dict[str, Dialect] = {}
    rows, blocks, notes, taken = Rows(path, options), [], [], []
    for name, file in files.items():
        stem = os.path.splitext(name)[0].removesuffix("_lmdb")
        prefix = os.fsencode(f"{stem}/") if len(files) > 1 else b""
        with Database(listed(file)) as database:
            dialect = dialects[name] = _dialect(database)
            if len(set(dialects.values())) > 1:
                each = ", ".join(f"{escape(one)}: {evidence}" for one, evidence in dialects.items())
                raise UsageError(path, f"has databases of different formats ({each})", "give one of them")
            block = LmdbBlock(database.file, prefix, split_of(stem), dialect == "Caffe Datum")
            notes += {"OCR": _texts, "Caffe Datum": _datums}.get(dialect, _images)(database, block, rows.ledger)
        blocks.append(block)
        taken.append(f"{number(len(block), 'image')} from {escape(name)}{f', split {block.split}' * bool(block.split)}")
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        raise UsageError(path, "has no images", "check the contents of the database")
    unlabelled = dict[int, str]()
    rows.names_columns = False
    if "OCR" in dialects.values():
        texts = blocks[0].texts if len(blocks) == 1 else ByteStrings(text for block in blocks for text in block.texts)
        rows.columns.append(TextColumn(_TEXT, texts, np.arange(len(texts), dtype=np.int64)))
    elif options.unlabelled:
        pass
    elif any(block.labels for block in blocks):
        arrays = [_Labels(block.labels) if block.labels else len(block) for block in blocks]
        labels, unlabelled, of_labels = read_labels(path, arrays)
        rows.labels.append(labels)
        notes += of_labels
    elif of_names := _by_names(path, files, blocks):
        rows.labels.append(of_names)
        notes.append("classes are named after the databases")
    else:
        notes.append("no labels, neither in values nor in names of databases")
    rows.ledger.notes += notes
    described = f"{next(iter(dialects.values()))}: {listing(taken, separator='; ')}"
    return block_source(blocks, rows, unlabelled, described=described)


@dataclass(eq=False)
class LmdbBlock:
    """See `Block`: the images of one database; `keys` in it, `sizes` of values in bytes.

    `prefix`: what keys of samples begin with. `datum`: whether values are Caffe's. `labels`, of Caffe, and `texts`, of
    OCR: one for each image, or none. `ending`: of names of images like the first one.
    """

    numbered = False  # the names of samples are their keys
    file: SourceFile
    prefix: bytes
    split: str | None
    datum: bool
    keys: ByteStrings = field(default_factory=ByteStrings)
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    texts: ByteStrings = field(default_factory=ByteStrings)
    ending: bytes = b""

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: bytes, size: int, head: bytes) -> None:
        """Add an image with encoded bytes that begin with `head`; b"" for pixels, which become a PNG."""
        if not self.keys:
            self.ending = ending_of(head) if head else b".png"
        self.keys.add(key)
        self.sizes.append(size)

    def key(self, index: int, /) -> bytes:
        """The key of a sample."""
        key, ending = self.keys[index].lstrip(b"/"), self.ending
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


def _by_names(place: str, files: dict[str, str], blocks: list[LmdbBlock]) -> Labels | None:
    """Return the classes of images by the names of their databases; None if the names are not classes."""
    class_of = {os.fsencode(file): match[1] for name, file in files.items() if (match := _OF_CLASS.fullmatch(name))}
    if len(class_of) < len(files) or len(set(class_of.values())) < 2:
        return None
    labels = Labels(known=KnownClasses(place=place))
    labels.add_many([class_of[block.file.path] for block in blocks], np.arange(len(blocks)).repeat([*map(len, blocks)]))
    return labels


def _databases(look: Look) -> dict[str, str]:
    """Find data files by database name: the database at the path, or those in the folder; links are ignored."""
    path = os.path.abspath(look.path)
    if file := _data_file(look, path):
        return {os.path.basename(path): file}
    folders, names = look.names() if look.is_folder else ((), ())
    inside = sorted([*folders, *(name for name in names if name.endswith((".mdb", ".lmdb")))])
    paths = {name: os.path.join(path, name) for name in inside}
    return {name: file for name, one in paths.items() if not os.path.islink(one) and (file := _data_file(look, one))}


def _data_file(look: Look, path: str) -> str:
    """Return the data file of the database at `path`, a folder with `data.mdb` or a file; "" if it is not one."""
    file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
    return file if look.kind_of(file) == "lmdb" else ""


def _dialect(database: Database) -> Dialect:
    """Decided by the first keys and values. Raises UsageError for pickles, and for unknown dialects."""
    place, first = database.place, database.first
    for key in _PICKLE_KEYS:
        if key in database.asked:
            problem = f"has the key {escape(key)}, as folder2lmdb writes it: its values are pickles, or pyarrow's"
            problem += " serialised objects, and loading those can run arbitrary code"
            raise UsageError(place, problem, _ALTERNATIVE)
    if _COUNT in database.asked and any(entry.key.startswith(_IMAGE[:6]) for entry in first):
        return "OCR"
    if not first:
        raise UsageError(place, "is an empty LMDB database", "give the one with the images")
    large = [entry for entry in first if entry.size >= _SMALLEST_IMAGE]
    if large and all(begins_as_image(entry.head) for entry in large):
        return "BasicSR" if os.path.isfile(os.path.join(os.path.dirname(place), "meta_info.txt")) else "LSUN"
    # Pickles of protocols 2 to 5 are recognised by their first two bytes.
    if pickled := [one.key for one in large if one.head[:1] == b"\x80" and one.head[1:2] in b"\x02\x03\x04\x05"]:
        found = f"has values that are pickles (of the key {escape(pickled[0])})"
        problem = f"{found}, and loading one can run arbitrary code"
        raise UsageError(place, problem, _ALTERNATIVE)
    if all(entry.flags & (walk.DATUM | walk.FLOATS) == walk.DATUM for entry in first):
        return "Caffe Datum"
    shown = ", ".join(f"{escape(one.key)}: {one.size} bytes, {one.head[:16]!r}" for one in first[:_SHOWN])
    problem = f"has no known format; its first keys and values are {shown}"
    remedy = "expected encoded images, Caffe's Datum, or image-000000001 and label-000000001"
    raise UsageError(place, problem, f"{remedy}; export it with the tool that made it")


def _images(database: Database, block: LmdbBlock, ledger: Ledger) -> list[str]:
    """Take encoded images under any keys; notes."""
    del ledger  # each has its bytes
    short = Names("keys whose values are too short for an image")
    for entry in database:
        if entry.size < _SMALLEST_IMAGE:
            short.add(entry.key)
        else:
            block.add(entry.key, entry.size, entry.head)
    return short.note


def _datums(database: Database, block: LmdbBlock, ledger: Ledger) -> list[str]:
    """Take Caffe's Datums; notes."""
    unlabelled = 0
    for entry in database:
        if not entry.flags & walk.DATUM:
            ledger.reject(block.prefix + entry.key, RejectCode.CORRUPT, f"not a Datum: {entry.head.decode()}")
            continue
        block.add(entry.key, entry.size, entry.head[entry.offset :] if entry.flags & walk.ENCODED else b"")
        block.labels.append(entry.label or 0)
        unlabelled += entry.label is None
    if unlabelled == len(block):
        del block.labels[:]
    elif unlabelled:
        return [f"{number(unlabelled, 'Datum')} without a label, set to 0"]
    return []


def _texts(database: Database, block: LmdbBlock, ledger: Ledger) -> list[str]:
    """Take images and their texts, both numbered from 1; sorted, all texts come behind the images."""
    samples = database.asked[_COUNT]
    count = int(samples) if samples.isdigit() and len(samples) < walk.ASKED_BYTES else 0
    if not 0 < count < database.count:
        problem = f"says {samples!r} under num-samples, expected the number of images among its {database.count} keys"
        raise UsageError(database.place, problem, "export it again")
    sizes, head = array("q", bytes(8 * (count + 1))), b""  # sizes of images, plus one; 0: no image
    for entry in database:
        digits = entry.key[6:]
        i = int(digits) if len(digits) == 9 and digits.isdigit() else 0
        if 0 < i <= count and entry.key == _IMAGE % i:
            sizes[i], head = entry.size + 1, head or entry.head
        elif 0 < i <= count and entry.key == _LABEL % i and sizes[i]:
            if problem := _not_text(entry):
                ledger.reject(block.prefix + _IMAGE % i, RejectCode.NO_LABEL, f"{entry.key.decode()} {problem}")
            else:
                block.add(_IMAGE % i, sizes[i] - 1, head)
                block.texts.add(entry.head)
            sizes[i] = -1
    for i in range(1, count + 1):
        if not sizes[i]:
            ledger.reject(block.prefix + _IMAGE % i, RejectCode.MISSING, "the database has no such key")
        elif sizes[i] > 0:
            ledger.reject(block.prefix + _IMAGE % i, RejectCode.NO_LABEL, f"{(_LABEL % i).decode()} is missing")
    return []


def _not_text(found: LmdbEntry) -> str:
    """Explain why a value is not text; "" if it is."""
    if found.size > len(found.head):
        return f"has {found.size} bytes, expected {walk.TEXT_BYTES} at most"
    try:
        found.head.decode("utf-8")
    except UnicodeDecodeError:
        return f"is not UTF-8: {found.head[:40]!r}"
    return ""

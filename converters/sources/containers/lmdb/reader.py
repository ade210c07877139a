"""One LMDB database, or a folder of several, as samples."""

import os
import re
from array import array
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.classes import BadLabelError, class_list, number_classes
from shardfeed.converters.sources.containers.arrays.names import split_of
from shardfeed.converters.sources.containers.class_numbers import numbered_classes
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.joined import Joined
from shardfeed.converters.sources.containers.lmdb.database import Database, LmdbImage, data_file
from shardfeed.converters.sources.containers.lmdb.dialects import Dialect, dialect_of
from shardfeed.converters.sources.containers.lmdb.scan import Found, scan
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.rows.columns import ClassColumn, ListedColumn, TextColumn
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import ShardfeedError, UsageError, argument, escape
from shardfeed.text import listing, number, some

_TEXT = "image/text"
_ENTRIES = 1000  # of a folder; one with more has no databases
_OF_CLASS = re.compile(r"(.+)_(?:train|val|test)(?:_lmdb|\.lmdb)?")  # as LSUN's are called: church_outdoor_train_lmdb


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """An LMDB database, as a folder with `data.mdb` or as a file, or a folder of them."""
    files = _databases(path)
    if not files:
        return None
    what = number(len(files), "LMDB database") + (f" ({some(files)})" if len(files) > 1 else "")
    try:
        return Evidence("lmdb", f"{what}, dialect {_dialect(path, files)}")
    except ShardfeedError as error:
        return Evidence("lmdb", what, missing_of(error))


def read(path: str, options: ContainerOptions) -> BlockSource:
    """The images of an LMDB database, or of all in a folder, whose names may tell splits, and LSUN's classes.

    Caffe's labels are classes; those of OCR are texts, `image/text`. Raises UsageError, MissingExtraError.
    """
    files = _databases(path)
    if not files:
        raise UsageError(path, "is no LMDB database, and has none: no data.mdb", "check the path")
    if options.columns:
        raise UsageError(path, f"{argument('columns')} is for named columns, and LMDB has none", "leave it out")
    dialect = _dialect(path, files)
    blocks: list[LmdbBlock] = []
    found: list[Found] = []
    for name, file in files.items():
        with Database(FileState.listed(file)) as database:
            one = scan(database, dialect)
        stem = os.path.splitext(name)[0].removesuffix("_lmdb")
        split = split_of(stem) or (split_named(options.split) if options.split else None)
        prefix = os.fsencode(f"{stem}/") if len(files) > 1 else b""
        blocks.append(
            LmdbBlock(database.state, prefix, split, one.keys, one.sizes, one.ending, dialect == "Caffe Datum")
        )
        found.append(one)
    if not any(map(len, blocks)):
        raise UsageError(path, "has no image", "check what the database holds")
    columns, notes = _columns(path, list(files), found, options)
    rejected, taken, said = [], [], []
    for name, block, one in zip(files, blocks, found, strict=True):
        into = f", split {block.split}" if block.split else ""
        taken.append(f"{number(len(block), 'image')} from {escape(name)}{into}")
        said += one.notes
        rejected += [replace(skipped, key=block.prefix + skipped.key) for skipped in one.rejected]
    rejected.sort(key=lambda skipped: skipped.key)
    described = f"{dialect}: {listing(taken, separator='; ')}"
    return BlockSource(blocks, columns, Findings(rejected, [*said, *notes]), described)


@dataclass(frozen=True, eq=False)
class LmdbBlock:
    """See `Block`: the images of one database; `keys` in it, `sizes` of values in bytes.

    `prefix`, `ending`: what keys of samples begin and end with. `datum`: whether values are Caffe's.
    """

    state: FileState
    prefix: bytes
    split: str | None
    keys: Joined
    sizes: "array[int]"
    ending: bytes
    datum: bool

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, index: int, /) -> bytes:
        """The key of a sample."""
        key = self.keys[index].lstrip(b"/")
        ends = (self.ending, b".jpeg") if self.ending == b".jpg" else (self.ending,)
        return self.prefix + (key if key.lower().endswith(ends) else key + self.ending)

    def content(self, index: int, /) -> LmdbImage:
        """What reads an image."""
        return LmdbImage(self.state, self.keys[index], self.sizes[index], self.datum)


def _databases(path: str) -> dict[str, str]:
    """Name -> file with the data: of the database at `path`, or of those in the folder, sorted; no links."""
    path = os.path.abspath(path)
    if file := data_file(path):
        return {os.path.basename(path): file}
    if not os.path.isdir(path):
        return {}
    try:
        with os.scandir(path) as entries:
            seen = list(islice(entries, _ENTRIES + 1))
    except OSError:
        return {}
    names = [entry.name for entry in seen if _may_be(entry)] if len(seen) <= _ENTRIES else []
    files = {name: data_file(os.path.join(path, name)) for name in sorted(names)}
    return {name: file for name, file in files.items() if file}


def _may_be(entry: os.DirEntry[str]) -> bool:
    own = not entry.is_symlink() and not entry.name.startswith(".")
    return own and (entry.is_dir() or entry.name.endswith((".mdb", ".lmdb")))


def _dialect(path: str, files: dict[str, str]) -> Dialect:
    """That of all databases. Raises UsageError where they differ."""
    found: dict[str, Dialect] = {}
    for name, file in files.items():
        with Database(FileState.listed(file)) as database:
            found[name] = dialect_of(database)
    if len(set(found.values())) > 1:
        each = ", ".join(f"{escape(name)}: {dialect}" for name, dialect in found.items())
        raise UsageError(path, f"has databases of different dialects ({each})", "give one of them")
    return next(iter(found.values()))


def _columns(
    path: str, names: list[str], found: list[Found], options: ContainerOptions
) -> tuple[list[ListedColumn], list[str]]:
    """The labels of all images, and notes."""
    if all(one.texts for one in found if one.keys):
        texts = found[0].texts if len(found) == 1 else Joined(text for one in found for text in one.texts)
        return [TextColumn(_TEXT, texts, np.arange(len(texts), dtype=np.int64))], []
    labels = [np.array(one.labels, np.int64) for one in found if one.labels]
    if labels and len(labels) < sum(bool(one.keys) for one in found):
        raise UsageError(path, f"{len(labels)} of {len(found)} databases have labels", "convert them apart")
    if labels:
        return [numbered_classes(path, np.concatenate(labels), options)], []
    matches = [_OF_CLASS.fullmatch(name) for name in names]
    classes = [match[1] for match in matches if match]
    if len(classes) < len(names) or len(set(classes)) < 2:
        return [], ["no labels: neither values nor names of databases tell any"]
    try:
        numbering = number_classes(set(classes), class_list(options.class_names), integers_are_labels=False)
    except BadLabelError as error:
        raise UsageError(path, error.problem, error.remedy) from None
    counts = [len(one.keys) for one in found]
    numbers = np.repeat(np.array([numbering.labels[name] for name in classes], np.int64), counts)
    return [ClassColumn("image/class", numbering.names, numbers)], ["classes are what the databases are called"]

"""A dataset out as files that other tools take: folders, COCO, YOLO, Pascal VOC, masks, CSV.

Before the final rename, the reader of its format checks an export: same images, splits and labels. Names decide which
files a reader takes, and each reader has its own rules; so the reader itself is used. It lists files and reads
annotations, but no images. Sums of digests are compared, which need little memory and no order.
"""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_args

import numpy as np

from shardfeed.annotations import XMIN
from shardfeed.converters.commit.output import check_new_output, check_outside
from shardfeed.converters.sources.annotations.coco_writer import CocoFormat
from shardfeed.converters.sources.annotations.csv_writer import CsvFormat
from shardfeed.converters.sources.annotations.folder_writer import FolderFormat
from shardfeed.converters.sources.annotations.masks_writer import MasksFormat
from shardfeed.converters.sources.annotations.voc_writer import VocFormat
from shardfeed.converters.sources.annotations.yolo_writer import YoloFormat
from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    ALL,
    WORDS,
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    losses_of,
)
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import info_of
from shardfeed.declared import Typed, checked
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError, escape, shown
from shardfeed.formats.registry import FORMATS
from shardfeed.free_space import room_in
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.schema import SHA256, SOURCE_ID
from shardfeed.split_words import renamed_splits
from shardfeed.storage.local import built, free_space, locked
from shardfeed.storage.storage import check_local, local_output
from shardfeed.text import listing

_BITS = 128
_DEFAULT = "train"  # the split of images without one
To = Literal["folder", "coco", "yolo", "voc", "masks", "csv"]
EXPORT_FORMATS: dict[str, type[ExportFormat]] = {
    form.NAME: form for form in (FolderFormat, CocoFormat, YoloFormat, VocFormat, MasksFormat, CsvFormat)
}
# What stores a dataset without labels as files of images.
_ONLY_IMAGES = "it has only images: `shardfeed reshard DATASET OUT --to webdataset` writes them into tars"
_KINDS = {b".jpg": b".jpg", b".jpeg": b".jpg", b".png": b".png"}  # what an extension promises


class ReadBack:
    """Images that a reader finds, or must find: their count, and a sum of the digests of their values.

    `splits`: the name by which a reader gives each split that was exported.
    """

    def __init__(self, part: RestoredPart, splits: Mapping[str, str]) -> None:
        self.part, self.splits, self.count, self.sum = part, splits, 0, 0

    def add(self, key: bytes, split: str, values: Mapping[str, Any], objects: int) -> None:
        """Add one image with its values; `objects`: how many it has."""
        found = [(feature, _plain(values[feature])) for feature in sorted(self.part.features) if feature in values]
        parts = (key, self.splits.get(split, split), found, objects if self.part.objects else 0)
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=_BITS // 8).digest()
        self.sum = (self.sum + int.from_bytes(digest, "little")) % (1 << _BITS)
        self.count += 1


def _plain(value: Any) -> Any:
    """A value as its source and its record have it alike."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return repr(value) if isinstance(value, float) else int(value)  # repr: so that NaN is NaN


def check(root: str, again: ReconvertCommand, expected: ReadBack, to: str) -> None:
    """Raise IntegrityError unless the reader finds the expected content in `root`."""
    path, options = again.arguments(root)
    found = ReadBack(expected.part, expected.splits)
    why = ""
    try:
        reader = options.pop("reader", None)
        source = open_source(path, reader=reader, options=options_of(options))
        findings = info_of(source).findings
        for one in [*findings.rejected[:1], *(findings.account.left_out[:1] if findings.account else ())][:1]:
            why = f"; the first one not read: {escape(one.key)}: {one.reason}"
        for sample in source:
            number = {} if sample.number is None else {SOURCE_ID: b"%d" % sample.number}
            objects = 0 if sample.objects is None else len(sample.objects)
            found.add(sample.key, sample.split or _DEFAULT, {**sample.features, **number}, objects)
    except ShardfeedError as error:
        raise _unlike(to, str(error).replace(root, "OUT")) from error
    if (found.count, found.sum) != (expected.count, expected.sum):
        other = "names, splits or labels differ" if found.count == expected.count else f"{found.count} images"
        raise _unlike(to, f"{other}, expected {expected.count}{why}")


def _unlike(to: str, problem: str) -> IntegrityError:
    text = f"reading the export gives a different dataset: {problem}"
    return IntegrityError(f"export to {to}", text, "nothing was written; use another format")


@dataclass(frozen=True)
class Exported:
    """Result of an export or, with `dry_run`, of a planned export.

    Attributes:
        out: the absolute path of the folder.
        to: the format.
        splits: images by split.
        files, size: number of files in the folder, and their size in bytes.
        left_out: kind of data that the format cannot store -> how many were left out.
        renamed: number of images that get a different name when they are converted again.
        notes: further remarks for the user, a sentence each.
        convert_commands: the commands that convert the folder again; each converts a different part.
        dry_run: whether nothing was written.
        seconds: duration of the export.

    Example:
        exported = export("flowers", "flowers-folder", to="folder")
        print(exported.splits, exported.convert_commands)
    """

    out: str
    to: str
    splits: Mapping[str, int]
    files: int
    size: int
    left_out: Mapping[str, int]
    renamed: int
    notes: tuple[str, ...]
    convert_commands: tuple[str, ...]
    dry_run: bool
    seconds: float

    @property
    def images(self) -> int:
        """Number of images in all splits."""
        return sum(self.splits.values())

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON value, for scripts."""
        found = {**asdict(self), "seconds": round(self.seconds, 3)}
        return {"bytes" if name == "size" else name: value for name, value in found.items()}


def shard_remedy(to: str) -> str:
    """The command that writes the format `to`, if it is one of shards; else ""."""
    return f"`shardfeed reshard DATASET OUT --to {to}` writes these shards" if to in FORMATS else ""


def _check_form(name: str, to: Any) -> None:
    if not isinstance(to, str) or to not in EXPORT_FORMATS:
        problem = f"got {shown(to)}, expected one of {', '.join(get_args(To))}"
        raise UsageError(name, problem, shard_remedy(to) if isinstance(to, str) else "")


def _typed_form(to: str) -> str:
    _check_form("to", to)
    return to


def _typed_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


@checked
def export(
    dataset: Annotated[str | os.PathLike[str] | Dataset, Typed("dataset directory; it is only read")],
    out: Annotated[str | os.PathLike[str], Typed("folder to create")],
    to: Annotated[To, _check_form, Typed("format to export to", flag="to", read=_typed_form)],
    *,
    drop: Annotated[
        str | Collection[str],
        Typed("data that may be left out: crowds, masks, ids, ... or all", "A,B", read=_typed_words),
    ] = (),
    dry_run: Annotated[bool, Typed("read everything, print the result, write nothing")] = False,
    progress: Callable[[int], object] = lambda images: None,
) -> Exported:
    """Write the images of a dataset and their annotations to the new folder `out`, in another format.

    Converting `out` with the result's `convert_commands` gives the same images byte for byte, and the same splits,
    labels, boxes, masks, keypoints, captions and ids, as far as the format can store them. Image files are written as
    they are stored, under the names in `image/filename`; the result counts names that the layout has to change. Before
    the finished folder is renamed to `out`, the format's reader checks that it finds the same images, names, splits and
    labels in the folder. If the export is killed, `out` does not exist, and the next run starts from the beginning.

    Example:
        export("flowers", "flowers-folder", to="folder")
        export("scenes", "scenes-yolo", to="yolo", drop=["crowds", "areas"])

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the folder to create, which must not exist.
        to: "folder" (one class per image), "coco", "yolo", "voc", "masks" (one class per pixel), "csv".
        drop: data that may be left out, because the format cannot store it: "classes", "captions", "boxes", "masks",
            "keypoints", "crowds", "areas", "rasters", "ids" (`image/source_id`), "twins" (equal objects of an image),
            keys of other features, or "all". The result counts the values that were left out. "crowds" leaves out crowd
            objects.
        dry_run: read everything, write nothing.
        progress: called with 1 after each image.

    Raises:
        UsageError: the format cannot store the dataset's main content, or other data that `drop` does not name; a file
            name leads outside `out` or is already used; `out` is inside the dataset.
        OutputExistsError: `out` already exists.
        IntegrityError: a record is damaged (with its position), or the written files do not hold the same data.
        MissingExtraError: "coco" with masks needs pycocotools, "yolo" needs PyYAML; both are in `shardfeed[objects]`.
        StorageError, BusyError: no free space, or another run is writing `out`.
    """
    started = time.monotonic()
    if not isinstance(dataset, Dataset):
        check_local(dataset)
        dataset = open_dataset(dataset)
    target = local_output(out)
    _check_out(target, dataset.directory)
    items = ExportRecords(dataset)
    losses = _losses(to, items, [drop] if isinstance(drop, str) else drop)
    if not dry_run:
        _check_room(os.path.dirname(target), items, to)
    with ExitStack() as stack:
        root = None
        if not dry_run:
            stack.enter_context(locked(target))
            _check_out(target, dataset.directory)  # again: a run that held the lock may have made it
            root = stack.enter_context(built(target))
        with ExportFiles(root, items.keeping_paths(EXPORT_FORMATS[to])) as tree:
            form = EXPORT_FORMATS[to](items, tree, losses)
            written = _Written(form, items)
            for item in items(losses):
                written.add(item)
                progress(1)
            again = form.finish()
        for how, found in zip(again, written.found, strict=True) if root is not None else ():
            check(root or "", how, found, to)
    return Exported(
        out=target,
        to=to,
        splits=items.counts,
        files=tree.files,
        size=tree.size,
        left_out=_left_out(losses, items),
        renamed=written.renamed,
        notes=(*form.notes, *written.notes, *_notes_of(tree)),
        convert_commands=tuple(one.command(target, items.stored) for one in again),
        dry_run=dry_run,
        seconds=time.monotonic() - started,
    )


def _notes_of(tree: ExportFiles) -> Iterator[str]:
    if tree.alike:
        yield f"names that differ only in case: {tree.alike:,}; on macOS and Windows one overwrites the other"


def _check_room(parent: str, items: ExportRecords, to: str) -> None:
    """Raise StorageError without space for the bytes of the records, or for as many files."""
    room_in(parent, kept_share=0).check(items.size, "free disk space, or choose another location")
    files, free = sum(items.counts.values()) * (1 + EXPORT_FORMATS[to].SIDE_FILES), free_space(parent).files
    if free is not None and files > free:
        problem = f"{files:,} files are needed, {free:,} (inodes) are free"
        raise StorageError(parent, problem, "choose another disk")


def _check_out(target: str, directory: str) -> None:
    check_new_output(target)
    check_outside(target, [directory])


def _losses(to: str, items: ExportRecords, drop: Collection[str]) -> DroppedFeatures:
    """List the losses of the format `to`. Raise UsageError if it cannot hold the dataset or `drop` does not fit."""
    storable = _storable(to, items)
    losses = partial(losses_of, to, items.schema, storable, own_ids=items.own_ids, where=items.directory)
    try:
        return losses(drop=drop)
    except UsageError:
        kinds = {**losses(drop=[ALL]).keys, **({"ids": (SOURCE_ID,)} if items.own_ids else {})}
        spared = items.without_content({word: keys for word, keys in kinds.items() if word not in drop})
        if not spared:
            raise
        items.without_loss = frozenset(spared)
        return losses(drop=[*drop, *spared])


def _storable(to: str, items: ExportRecords) -> frozenset[str]:
    """Find the features that the format `to` can store. Raise UsageError if it can store none, or there is no record.

    Set `items.fits`.
    """
    storable = EXPORT_FORMATS[to].storable(items)
    forms = [form for form in EXPORT_FORMATS.values() if form.storable(items)]
    items.fits = tuple(form for form in forms if not form.lost_split(items))
    if not storable:
        others = listing([form.NAME for form in items.fits or forms])
        remedy = f"it can be exported to {others}" if forms else _ONLY_IMAGES
        problem = f"{to} needs {EXPORT_FORMATS[to].NEEDS}, which the dataset does not have"
        raise UsageError(items.directory, problem, remedy)
    if not items.splits:
        raise UsageError(items.directory, "has no records", "there is nothing to export")
    return storable


def _left_out(losses: DroppedFeatures, items: ExportRecords) -> dict[str, int]:
    """Count what was left out, by word; not what an export leaves out because nothing is lost with it."""
    counts = dict.fromkeys(losses.keys, 0) | {word: count for word, count in items.left_out.items() if count}
    return {word: count for word, count in counts.items() if word not in items.without_loss}


class _Written:
    """The records passed to a form. `found`: what readers must find. `renamed`: number of changed names."""

    def __init__(self, form: ExportFormat, items: ExportRecords) -> None:
        splits = renamed_splits(items.splits, WORDS)
        self.found = [ReadBack(part, splits) for part in form.parts]
        self.renamed = self._otherwise = self._changed = 0
        self._form, self._items = form, items
        self._first = ""

    def add(self, item: ExportRecord) -> None:
        """Write one record, and count how it differs from its original."""
        before = self._items.left_out["twins"]
        key = self._form.add(item)
        objects = len(item.values.get(XMIN, ())) - (self._items.left_out["twins"] - before)
        for found in self.found:
            found.add(found.part.prefix + key, item.split.name, item.values, objects)
        if key != item.key:
            self._first = self._first or f"{escape(item.key or b'')} is {escape(key)}"
            self.renamed += 1
        kind = _KINDS.get(os.path.splitext(key)[1].lower())
        self._otherwise += kind is not None and kind != item.extension
        digest = item.values.get(SHA256)
        self._changed += digest is not None and bytes(digest) != hashlib.sha256(item.image).hexdigest().encode()

    @property
    def notes(self) -> Iterator[str]:
        """Notes on names and contents of files, for the report."""
        if self.renamed:
            yield f"images with another key when converted again: {self.renamed:,} ({self._first})"
        if self._otherwise:
            yield f"files whose extension does not match their format: {self._otherwise:,}"
        if self._changed:
            what = "images modified by the conversion, so image/key/sha256 will differ"
            yield f"{what}: {self._changed:,}"

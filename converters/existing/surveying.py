"""Survey of TFRecords made elsewhere: every record is read once, both its CRCs checked, its Example parsed.

That gives splits, schema, class names and labels, the format of every image, and the index. Nothing is written.

The schema has the roles of keys as `convert` finds them, and the class names; the records stay as they are.
"""

import glob
import os
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Annotated

import numpy as np

from shardfeed.annotations import CAPTION, OBJECT_LABEL, RASTER
from shardfeed.converters.existing.tally import ShardTally
from shardfeed.converters.sources.classes import NamesFile
from shardfeed.converters.sources.files.class_names import NamedClasses, in_label_order
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.record_columns import RecordColumns, find_columns, names_around
from shardfeed.converters.sources.record_features import FeatureLook, not_examples, supervised_keys
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.shard_names import (
    FoundSplit,
    find_shards,
    is_tfrecord,
    list_names,
    splits_by_pattern,
    usual_splits,
)
from shardfeed.converters.sources.tfrecord import packing
from shardfeed.declared import Typed, assignments, checked
from shardfeed.errors import IntegrityError, RecordError, ShardfeedError, UsageError, argument, escape, spell_out
from shardfeed.formats.example import decode
from shardfeed.formats.format import Fields
from shardfeed.formats.tfrecord import FOOTER_BYTES, whole_records
from shardfeed.naming import MANIFEST, check_split_name, label_names_file
from shardfeed.schema import ENCODED, IMAGE_KEYS, LABEL, Feature, Schema
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.storage import FileInfo, local_path
from shardfeed.text import listing, number

_MAX_CLASSES = 1 << 20  # a larger label is not a class number, and such a long list of names would be useless
_NO_IMAGE = f"no feature is the image, but {{}} contain images; name one with {argument('image_key', typed='KEY')}"
_NO_LABEL = "no feature is the label"
_LABEL_WORDS = frozenset(WORDS["label"])
_NAMED = 10  # damaged images named by their records
_PLAIN = {
    "gzip": "`gunzip -c FILE > NEW` for each, or write them without compression",
    "zlib": "read it with compression_type='ZLIB' and write it without",
}


@dataclass(frozen=True)
class FoundSchema:
    """The schema; `label`: the key with the role of the label, even where records lack it.

    `files`: files beside the records that are used. `notes`: remarks for the user.
    """

    schema: Schema
    label: str | None
    files: frozenset[str]
    notes: tuple[str, ...]


def may_be_labels(directory: str, label_key: str | None = None) -> Callable[[str], bool]:
    """Whether a key of integers may be a label: by what the user or TFDS's files name, or by its last word."""
    named = {LABEL, label_key, supervised_keys(directory)[1]}
    files = list_names(directory, os.DirEntry.is_file)
    return lambda key: key in named or label_names_file(key) in files or _last_word(key) in _LABEL_WORDS


def _last_word(key: str) -> str:
    return key.rpartition("/")[2].casefold()


def find_schema(
    look: FeatureLook,
    directory: str,
    splits: Iterable[FoundSplit],
    *,
    image_key: str | None = None,
    label_key: str | None = None,
    class_names: Sequence[str] | NamedClasses | None = None,
    ragged: Collection[str] = (),
) -> FoundSchema:
    """Find what all records have in common. Image and label are the keys from which `convert` would take them.

    Readers find them under our keys, so the image is one feature in every record, and the label is one number. Their
    classes are named by `class_names`, else by a file beside the records, else by the texts in them, else by number.
    `ragged`: keys that have any number of values. Raises UsageError if an argument does not fit, LabelFileError.
    """
    features, notes = look.features(ragged), list[str]()
    one = sorted(key for key, feature in features.items() if feature.scalar)
    images = [key for key in one if look.seen[key].images + look.seen[key].raw]
    numbers = [key for key in one if features[key].dtype != "bytes"]
    _check_given(features, "image", image_key, images, "one encoded image per record")
    _check_given(features, "label", label_key, numbers, "one number per record")
    documented = supervised_keys(directory)
    asked = {role: key for role, key in (("image", image_key), ("label", label_key)) if key is not None}
    try:
        options = ColumnOptions(columns=asked)
        columns = find_columns(look, options, directory, documented=documented, images=False)
    except UsageError as error:
        notes.append(f"no feature is the label: {error.problem}; name one with {argument('label_key', typed='KEY')}")
        options = ColumnOptions(columns=asked, unlabelled=True)
        columns = find_columns(look, options, directory, documented=documented, images=False)
    image = columns.roles.name("image")
    if image not in images or (image != ENCODED and ENCODED in features):
        found = f"{ENCODED} contains no images, judging by its bytes" if ENCODED in features else ""
        found = found or (_NO_IMAGE.format(listing([*map(escape, images)])) if images else "")
        notes.append(found or "no feature contains images, judging by its bytes")
        image = None
    role = columns.roles.name("label") or columns.roles.name("label text")
    said = (label_key, documented[1])  # which may also be fractions
    fitting = [key for key in numbers if features[key].dtype == "int64" or key in said]
    fitting = [key for key in fitting if key == LABEL or LABEL not in features]
    label = next((key for key in (role, documented[1]) if key in fitting), None)
    if role not in (None, LABEL, label) and look.seen[role].kind != "integer":
        remedy = f"name it with {argument('label_key', role)}" if role in numbers else "docs/adopt.md shows what to do"
        problem = f"it holds {look.seen[role].kind} values, expected one integer per record"
        notes.append(f"{escape(role)} is not the label, as {problem}; {remedy}")
    may_be_label = may_be_labels(directory, label_key)
    integers = [key for key, feature in features.items() if feature.dtype == "int64" and may_be_label(key)]
    names, files, of_names = _class_names(look, directory, splits, columns, integers, label, class_names)
    if image is not None:
        features[image] = replace(features[image], kind="image", alias=None if image == ENCODED else ENCODED)
    elif ENCODED in features and features[ENCODED].dtype == "bytes" and features[ENCODED].scalar:
        features[ENCODED] = replace(features[ENCODED], kind="bytes")  # its bytes are not an image
    if label is not None and label != LABEL:
        features[label] = replace(features[label], alias=LABEL)
    notes += of_names
    return FoundSchema(Schema(features, names).stated(), role, frozenset(files), tuple(map(spell_out, notes)))


def _check_given(
    features: Mapping[str, Feature], role: str, given: str | None, fitting: Sequence[str], expected: str
) -> None:
    """Raise UsageError if the user's key is not one of the fitting ones, or if records have our own key, too."""
    option, ours = f"{role}_key", ENCODED if role == "image" else LABEL
    if given is not None and given not in fitting:
        remedy = f"there is {listing([repr(key) for key in fitting]) or 'none'}"
        if role == "label" and given in features and features[given].dtype == "bytes":
            remedy += "; docs/adopt.md shows how to convert text labels"
        raise UsageError(option, f"got {escape(given)!r}, expected {expected}", remedy)
    if given not in (None, ours) and ours in features:
        remedy = f"leave it out, and pass {role}={given!r} to train_batches"
        raise UsageError(option, f"got {escape(given)!r}, but the records also have {ours!r}", remedy)


def _class_names(
    look: FeatureLook,
    directory: str,
    splits: Iterable[FoundSplit],
    columns: RecordColumns,
    integers: Sequence[str],
    label: str | None,
    given: Sequence[str] | NamedClasses | None,
) -> tuple[dict[str, tuple[str, ...]], set[str], list[str]]:
    """Class names by key, the files they come from, and notes. Raises UsageError if given names do not fit."""
    label = label if label in integers else LABEL if LABEL in integers else None  # an image may have several
    others = [key for key in integers if key != label and _last_word(key) == "label"]
    main = label or (others[0] if len(others) == 1 else "")
    if given is not None and not main:
        problem = f"got {number(len(given), 'name')}, but found no label feature"
        raise UsageError("class_names", problem, "name it with label_key")
    files = [file for split in splits for file in split.files if file is not None and given is None]
    beside = names_around(directory, files, dict(zip(integers, integers, strict=True)), main=main, option="class_names")
    if given is not None:
        beside[main] = NamesFile("", given if isinstance(given, Mapping) else dict(enumerate(given)))
    found: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    notes: list[str] = []
    for key in integers:
        seen, file = look.seen[key], beside.get(key, beside.get("") if key in (main, *columns.labels) else None)
        if file is not None:
            names = in_label_order(file.names)
            used.add(file.file)
            if seen.least >= 0 and seen.highest < len(names):
                found[key] = names
                notes += [f"class names of {escape(key)} come from {escape(file.file)}"] if file.file else []
                continue
            if not file.file:
                problem = f"got {len(names)} names, and the values of {escape(key)} are {seen.least} to {seen.highest}"
                raise UsageError("class_names", problem, "name every class in label order, starting with label 0")
            notes.append(f"{escape(file.file)} does not name all classes of {escape(key)}, so it is not used")
        texts = look.texts(key, notes)
        if (key == label or texts) and seen.least >= 0 and seen.highest < _MAX_CLASSES:
            found[key] = in_label_order(texts, seen.highest + 1)
    return found, used, notes


@dataclass(frozen=True)
class Survey:
    """Contents of a folder's files.

    `tallies[split][shard]`: counts of a file's records; `data[split][shard]`: its size and checksum. `distinct`: no two
    records are equal, judged by length and CRC. `ignored_files`: files that are neither shards nor metadata of shards.
    `notes`: further remarks for the user, one line each.

    Example:
        found = survey("records")
        print(found.records, found.schema.features.keys(), found.notes)
    """

    directory: str
    splits: tuple[FoundSplit, ...]
    schema: Schema
    tallies: Mapping[str, tuple[ShardTally, ...]]
    data: Mapping[str, tuple[FileInfo, ...]]
    distinct: bool
    ignored_files: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """Number of records in all files."""
        return sum(len(tally.sizes) for tallies in self.tallies.values() for tally in tallies)

    @property
    def size(self) -> int:
        """Size of all shards in bytes."""
        return sum(data.size for of_split in self.data.values() for data in of_split)

    @property
    def has_standard_names(self) -> bool:
        """True if the files already have the names that the format requires, so that no other directory is needed."""
        return all(split.has_standard_names for split in self.splits)


@checked
def survey(
    path: str | os.PathLike[str],
    *,
    split_name: Annotated[str | None, Typed("put all files into this split", "NAME")] = None,
    splits: Annotated[
        Mapping[str, str] | None,
        Typed(
            "files of a split: train='*.tfrec' (repeatable)",
            "NAME=PATTERN",
            "split",
            whole=lambda texts: assignments("splits", texts, str),
            many=True,
        ),
    ] = None,
    image_key: Annotated[
        str | None, Typed(f"feature with the image (default: {ENCODED}, else detected)", "KEY")
    ] = None,
    label_key: Annotated[str | None, Typed(f"feature with the label (default: {LABEL}, else detected)", "KEY")] = None,
    class_names: Annotated[
        Sequence[str] | NamedClasses | None,
        Typed("class names: one per line in label order, `1:cat`, JSON, YAML, CSV, or a label map", "FILE"),
    ] = None,
    partial: Annotated[bool, Typed("accept a split with missing shards")] = False,
    progress: Callable[[int], object] = lambda size: None,
) -> Survey:
    """Read every record of the TFRecord files in a folder; nothing is written.

    Args:
        path: the folder. If it holds no shards itself, but its subfolders do, each subfolder is a split.
        split_name: the one split that all files belong to; default: inferred from file names.
        splits: split -> `glob` pattern of its files, relative to the folder; the files may have any names.
        image_key: the feature with the image, which readers of the dataset get as `image/encoded`; default:
            `image/encoded` if it exists, else the only feature whose values are image files.
        label_key: the feature with the label, which readers of the dataset get as `image/class/label`; default:
            `image/class/label`, else the only integer feature with a known name, such as `label` or `target`.
        class_names: names of the label's classes, or of the objects' classes if images have none: a list from label 0,
            or a mapping by number. Default: the names in the folder's `KEY.labels.txt` (TFDS), `labels.txt` or
            `label_map.pbtxt`, else the names stored with the labels, else the numbers.
        partial: accept a split even if the names of its shards show that some shards are missing.
        progress: called with the number of bytes read.

    Raises:
        UsageError: the files cannot become a dataset, because of their names or contents: for example, they are
            compressed or empty, or hold no Examples.
        IntegrityError: a record is damaged, or features with one name have different dtypes; the message
            names shard and record.
        StorageError: a file cannot be read.

    Example:
        found = survey("records", label_key="image/class/label")
        print(found.records, found.notes)
    """
    directory = local_path(path)
    if split_name is not None:
        check_split_name(split_name)
    names = files_of(directory)
    found = splits_of(directory, split_name, splits)
    if not partial:
        for split in found:
            _check_complete(directory, split)
    found = [FoundSplit(split.name, tuple(file for file in split.files if file is not None)) for split in found]
    if not (splits or split_name or all(split.has_standard_names for split in found)):
        merged = usual_splits(found)
        if merged[0].name and len(merged) < len(found):
            found = merged  # a_train and b_train are one, as for `convert`
    is_label = may_be_labels(directory, label_key)
    look = FeatureLook()
    tallies: dict[str, tuple[ShardTally, ...]] = {}
    data: dict[str, tuple[FileInfo, ...]] = {}
    distinct = True
    for split in found:
        marks = array("Q")  # 8 bytes per record: its length and CRC
        read = [
            _read_shard(os.path.join(directory, file or ""), look, ShardTally(is_label), marks, progress)
            for file in split.files
        ]
        tallies[split.name] = tuple(tally for tally, _ in read)
        data[split.name] = tuple(info for _, info in read)
        distinct = distinct and len(np.unique(np.frombuffer(marks, np.uint64))) == len(marks)
    if not look.records:
        raise UsageError(directory, "its TFRecord files contain no records", "give files with records")
    if not look.seen:
        raise UsageError(directory, "no record has a feature", "only TFRecords of tf.train.Example can be read")
    of_keys = find_schema(look, directory, found, image_key=image_key, label_key=label_key, class_names=class_names)
    key, lost = of_keys.label, list[str]()
    if key is not None and look.seen[key].kind == "integer" and not of_keys.schema.features[key].scalar:
        lost = _check_label(directory, found, tallies, key)
    taken = {file for split in found for file in split.files} | of_keys.files
    return Survey(
        directory,
        tuple(found),
        of_keys.schema,
        tallies,
        data,
        distinct,
        tuple(name for name in names if name not in taken),
        (*of_keys.notes, *lost, *_label_note(of_keys), *_image_notes(found, tallies, of_keys.schema)),
    )


def splits_of(directory: str, split_name: str | None, patterns: Mapping[str, str] | None) -> list[FoundSplit]:
    """The splits of a folder: by patterns, by the names of its files, or by its folders. Raises UsageError."""
    if patterns:
        if split_name is not None:
            raise UsageError("split_name", "got both a split name and split patterns", "give one of them")
        return splits_by_pattern(directory, patterns)
    found = find_shards(directory, split_name)
    if found.root != directory:
        folder, count = os.path.basename(found.root), len(found.splits[0].files)
        problem = f"no TFRecord file in it; its folder {escape(folder)} has {count}"
        raise UsageError(directory, problem, f"give {escape(found.root)}")
    if found.splits:
        return found.splits
    known = "expected names such as .tfrecord, .tfrecords, .tfrec or -00000-of-00008; use a pattern for other names"
    pattern = argument("splits", {"train": "*.tar"}, typed="train='*.tar'")
    remedy = f"{known}: {pattern}"
    raise UsageError(directory, "no file in it or its folders is named like a TFRecord file", remedy)


def _check_label(
    directory: str, splits: Sequence[FoundSplit], tallies: Mapping[str, Sequence[ShardTally]], key: str
) -> list[str]:
    """Note a label that some records lack. Raise UsageError if no record of some splits lacks it, as in a test split.

    A feature is the same in all records of a dataset: the labels would be lost.
    """
    records = {name: sum(len(tally.sizes) for tally in of_split) for name, of_split in tallies.items()}
    counts = {name: sum(tally.labels_of(key) for tally in tallies[name]) for name in records if records[name]}
    lacking = [name for name, count in counts.items() if count < records[name]]
    told = listing([f"{name} has it in {counts[name]} of {records[name]} records" for name in lacking])
    patterns = {split.name: _pattern(split) for split in splits if split.name in counts.keys() - {*lacking}}
    if patterns:
        quoted = {name: shlex.quote(f"{name}={at}") for name, at in patterns.items()}
        ways = [argument("splits", {name: patterns[name]}, typed=typed) for name, typed in quoted.items()]
        remedy = f"to keep it as the label, adopt these alone: {' '.join(ways)}"
        if "*" in patterns.values():  # their names have nothing in common
            remedy = f"to keep it as the label, move the files of {listing(lacking)} away"
        raise UsageError(directory, f"{escape(key)} is not in all records: {told}", remedy)
    return [f"{escape(key)} is not the label, as some records lack it: {told}"]


def _pattern(split: FoundSplit) -> str:
    """The `glob` pattern of the files of a split: how their names begin."""
    files = [file for file in split.files if file is not None]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(files), max(files), strict=False))
    return glob.escape("".join(one for one, _ in alike)) + "*" * (len(files) > 1)


def _label_note(of_keys: FoundSchema) -> list[str]:
    """Note that no label was found, unless an earlier note says why. Objects have labels of their own."""
    schema = of_keys.schema
    labelled = {OBJECT_LABEL, CAPTION, RASTER} & schema.features.keys()
    if of_keys.label is not None or labelled or any(note.startswith(_NO_LABEL) for note in of_keys.notes):
        return []
    scalars = sorted(key for key, feature in schema.features.items() if feature.scalar and feature.dtype == "int64")
    candidates = [key for key in scalars if key not in IMAGE_KEYS]
    one = f" of {listing([*map(escape, candidates)], _NAMED)}" if candidates else ""
    remedy = f"if one{one} is it, name it with {argument('label_key', typed='KEY')}"
    return [spell_out(f"{_NO_LABEL}: loaders then give images alone; {remedy}")]


def _image_notes(
    splits: Sequence[FoundSplit], tallies: Mapping[str, Sequence[ShardTally]], schema: Schema
) -> list[str]:
    """Notes on the images that users should read before they train on them."""
    key = schema.key(ENCODED)
    if key is None or schema.kind(key) != "image":
        return []
    notes: list[str] = []
    counts: Counter[str] = Counter()
    for split in splits:
        for file, tally in zip(split.files, tallies[split.name], strict=True):
            counts.update(tally.formats(key))
            notes += [
                f"{escape(file)}, record {record}: its image is truncated, or its header is damaged"
                for where, record in tally.damaged
                if where == key and len(notes) < _NAMED
            ]
    formats = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    return [f"images in {escape(key)}: {formats}", *notes]


def files_of(directory: str) -> list[str]:
    """Names of the files of a folder, sorted; links are followed. Raises UsageError, StorageError."""
    return [name for name in list_names(directory, os.DirEntry.is_file, hidden=True) if name != MANIFEST]


def _check_complete(directory: str, split: FoundSplit) -> None:
    if split.missing:
        missing = listing([str(number) for number in split.missing])
        problem = f"split {split.name}: of {len(split.files)} shards {len(split.missing)} are missing: {missing}"
        raise UsageError(directory, problem, f"get them, or continue without them: {argument('partial', True)}")


def _read_shard(
    path: str, look: FeatureLook, tally: ShardTally, marks: array, progress: Callable[[int], object]
) -> tuple[ShardTally, FileInfo]:
    """One file's records, in `tally`, and checksum. Raises as `survey`."""
    size = crc = 0
    try:
        for piece in whole_records(path):
            framed = piece.framed or b""
            place = f"{path}, record {len(tally.sizes)}, offset {piece.start}"
            features = _example(piece.payload, place, first=not size)
            tally.add(features, len(framed), look.add(features, place))
            marks.append((len(framed) & 0xFFFFFFFF) << 32 | int.from_bytes(framed[-FOOTER_BYTES:], "little"))
            crc = extend_crc32c(crc, framed)
            size += len(framed)
            progress(len(framed))
    except RecordError as error:
        raise error if size else _not_a_tfrecord(path, error) from None
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return tally, FileInfo(size, crc)


def _example(payload: bytes, place: str, *, first: bool) -> Fields:
    try:
        other = not_examples(payload) if first else None  # a file holds the one or the other
        features = {} if other else decode(payload)
        other = other or (None if features else not_examples(payload))
    except IntegrityError as error:
        remedy = "only TFRecords of tf.train.Example can be read"
        raise IntegrityError(place, f"not a tf.train.Example: {error.problem}", remedy) from None
    if other:
        raise UsageError(place, f"records are {other[0]}, which are not supported", other[1])
    return features


def _not_a_tfrecord(path: str, error: RecordError) -> ShardfeedError:
    """Error for a file whose first record cannot be read."""
    if how := packing(path):
        return UsageError(path, f"compressed with {how}", f"random access needs plain files: {_PLAIN[how]}")
    if is_tfrecord(path):
        return error
    remedy = (
        "move it away, or if it is a TFRecord file: `shardfeed salvage DIR OUT` makes a dataset of its intact records"
    )
    return UsageError(path, f"not a TFRecord file, or its first record is damaged: {error.problem}", remedy)

"""Survey of TFRecords made elsewhere: every record is read once, both its CRCs checked, its Example parsed.

That gives splits, schema, class names and labels, the format of every image, and the index. Nothing is written.
"""

import glob
import os
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

import numpy as np

from shardfeed.converters.existing.record_schema import class_names as names_of
from shardfeed.converters.existing.record_schema import fits_class_names
from shardfeed.converters.existing.tally import ShardTally
from shardfeed.converters.sources.containers.records.columns import is_of_objects
from shardfeed.converters.sources.containers.records.features import UNKNOWN, FeatureLook, not_examples, supervised_keys
from shardfeed.converters.sources.containers.records.shard_names import FoundSplit, find_shards, splits_by_pattern
from shardfeed.converters.sources.containers.records.tfrecord import is_tfrecord, packing
from shardfeed.converters.sources.files.class_names import NamedClasses, in_label_order, names_beside
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.errors import IntegrityError, RecordError, ShardfeedError, UsageError, argument, escape
from shardfeed.formats.example import decode
from shardfeed.formats.format import Fields
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES
from shardfeed.formats.tfrecord.scan import whole_records
from shardfeed.naming import MANIFEST, check_split_name
from shardfeed.schema import ENCODED, LABEL, Feature, Schema
from shardfeed.storage.address import local_path
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.storage import FileInfo
from shardfeed.text import listing, number

_NAMED = 10  # damaged images named by their records
_LABEL_WORDS = frozenset(WORDS["label"])
_PLAIN = {
    "gzip": "`gunzip -c FILE > NEW` for each, or write them without compression",
    "zlib": "read it with compression_type='ZLIB' and write it without",
}


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


def survey(
    path: str | os.PathLike[str],
    *,
    split_name: str | None = None,
    splits: Mapping[str, str] | None = None,
    image_key: str | None = None,
    label_key: str | None = None,
    class_names: Sequence[str] | NamedClasses | None = None,
    partial: bool = False,
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
    is_label = {LABEL, label_key}
    look = FeatureLook()
    tallies: dict[str, tuple[ShardTally, ...]] = {}
    data: dict[str, tuple[FileInfo, ...]] = {}
    distinct = True
    for split in found:
        marks = array("Q")  # 8 bytes per record: its length and CRC
        read = [
            _read_shard(
                os.path.join(directory, file or ""),
                look,
                ShardTally(lambda key: key in is_label or _is_label(key)),
                marks,
                progress,
            )
            for file in split.files
        ]
        tallies[split.name] = tuple(tally for tally, _ in read)
        data[split.name] = tuple(info for _, info in read)
        distinct = distinct and len(np.unique(np.frombuffer(marks, np.uint64))) == len(marks)
    if not look.records:
        raise UsageError(directory, "its TFRecord files contain no records", "give files with records")
    features = look.features()
    if not features:
        raise UsageError(directory, "no record has a feature", "only TFRecords of tf.train.Example can be read")
    of_all = [tally for of_split in tallies.values() for tally in of_split]
    documented = supervised_keys(directory)
    image = choose_key("image", features, image_key, documented[0], _images(of_all, features))
    named = [label_key or LABEL] if label_key or LABEL in features else sorted(features)
    integers = [key for key in named if key in features and features[key].dtype == "int64"]
    labels = [key for key in integers if key == label_key or (_is_label(key) and not is_of_objects(key, features))]
    known = label_key is None and choose_key("label", features, None, documented[1]) is not None
    lost = [] if known else _check_labels(directory, found, tallies, labels)
    label = choose_key("label", features, label_key, documented[1])
    features = with_roles(features, image, label)
    class_names_of, files, notes = _class_names(directory, names, look, features, label, class_names)
    taken = {file for split in found for file in split.files} | files
    schema = Schema(features, class_names_of).stated()
    return Survey(
        directory,
        tuple(found),
        schema,
        tallies,
        data,
        distinct,
        tuple(name for name in names if name not in taken),
        (*notes, *lost, *_image_notes(found, tallies, schema)),
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


def _check_labels(
    directory: str, splits: Sequence[FoundSplit], tallies: Mapping[str, Sequence[ShardTally]], keys: Sequence[str]
) -> list[str]:
    """Note labels that some records lack. Raise UsageError if no record of some splits lacks them, as in a test split.

    A feature is the same in all records of a dataset: the labels would be lost.
    """
    notes: list[str] = []
    records = {name: sum(len(tally.sizes) for tally in of_split) for name, of_split in tallies.items()}
    for key in keys:
        counts = {name: sum(tally.labels_of(key) for tally in tallies[name]) for name in records if records[name]}
        lacking = [name for name, count in counts.items() if count < records[name]]
        told = listing([f"{name} has it in {counts[name]} of {records[name]} records" for name in lacking])
        patterns = {split.name: _pattern(split) for split in splits if split.name in counts.keys() - {*lacking}}
        if lacking and patterns:
            quoted = {name: shlex.quote(f"{name}={at}") for name, at in patterns.items()}
            ways = [argument("splits", {name: patterns[name]}, typed=typed) for name, typed in quoted.items()]
            remedy = f"to keep it as the label, adopt these alone: {' '.join(ways)}"
            raise UsageError(directory, f"{escape(key)} is not in all records: {told}", remedy)
        notes += [f"{escape(key)} is not the label, as some records lack it: {told}"] if lacking else []
    return notes


def _pattern(split: FoundSplit) -> str:
    """The `glob` pattern of the files of a split: how their names begin."""
    files = [file for file in split.files if file is not None]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(files), max(files), strict=False))
    return glob.escape("".join(one for one, _ in alike)) + "*" * (len(files) > 1)


def _images(tallies: Sequence[ShardTally], features: Mapping[str, Feature]) -> dict[str, int]:
    """Key -> records in which its value is an image by its bytes."""
    found = {
        key: sum(count for tally in tallies for kind, count in tally.formats(key).items() if kind != UNKNOWN)
        for key, feature in features.items()
        if feature.dtype == "bytes"
    }
    return {key: count for key, count in found.items() if count}


def choose_key(
    role: Literal["image", "label"],
    features: Mapping[str, Feature],
    given: str | None,
    documented: str | None,
    images: Mapping[str, int] | None = None,
) -> str | None:
    """Return the key of the feature with the image, or with the label, a number; None if none or several fit.

    The key is `given`; else TensorFlow's usual key; else `documented`, from another program's file; else the only
    image, or the feature with a usual last word. `images`: key -> records in which its value is an image by its
    bytes. Raises UsageError if `given` does not fit.
    """
    ours, option = (ENCODED, "image_key") if images is not None else (LABEL, "label_key")
    if images is not None:
        fitting = [key for key, feature in sorted(features.items()) if images.get(key) and feature.scalar]
    else:
        fitting = [key for key, feature in sorted(features.items()) if feature.dtype != "bytes" and feature.scalar]
    if given is not None and given not in fitting:
        text = images is None and given in features and features[given].dtype == "bytes"
        expected = "one encoded image per record" if images is not None else "one number per record"
        remedy = f"there is {listing([repr(key) for key in fitting]) or 'none'}"
        if text:
            remedy += "; docs/adopt.md shows how to convert text labels"
        raise UsageError(option, f"got {escape(given)!r}, expected {expected}", remedy)
    if given not in (None, ours) and ours in features:
        remedy = f"leave it out, and pass {role}={given!r} to train_batches"
        raise UsageError(option, f"got {escape(given)!r}, but the records also have {ours!r}", remedy)
    if given is not None or ours in features:
        return given or (ours if ours in fitting else None)
    if documented in fitting:
        return documented
    if images is not None and len(fitting) == 1:
        return fitting[0]
    whole = [key for key in fitting if features[key].dtype != "float32" and not is_of_objects(key, features)]
    called = [[key for key in whole if _last_word(key) == word] for word in WORDS[role]]
    first = next(filter(None, called), [])
    return first[0] if len(first) == 1 else None


def _is_label(key: str) -> bool:
    return _last_word(key) in _LABEL_WORDS


def _last_word(key: str) -> str:
    return key.rpartition("/")[2].casefold()


def with_roles(features: Mapping[str, Feature], image: str | None, label: str | None) -> dict[str, Feature]:
    """Mark the features that are image and label, with the keys by which readers look for them."""
    found = dict(features)
    if image is not None:
        found[image] = replace(found[image], kind="image", alias=None if image == ENCODED else ENCODED)
    elif ENCODED in found and found[ENCODED].dtype == "bytes" and found[ENCODED].scalar:
        found[ENCODED] = replace(found[ENCODED], kind="bytes")  # its bytes are not an image
    if label is not None and label != LABEL:
        found[label] = replace(found[label], alias=LABEL)
    return found


def _class_names(
    directory: str,
    files: Sequence[str],
    look: FeatureLook,
    features: Mapping[str, Feature],
    label: str | None,
    given: Sequence[str] | NamedClasses | None,
) -> tuple[dict[str, tuple[str, ...]], set[str], list[str]]:
    """Class names by key, the files they come from, and notes. Raises UsageError if given names do not fit."""
    label = label or (LABEL if LABEL in features else None)  # an image may have several
    others = [key for key, f in features.items() if f.dtype == "int64" and key != label and _last_word(key) == "label"]
    main = label or (others[0] if len(others) == 1 else None)
    if given is not None and main is None:
        raise UsageError(
            "class_names", f"got {number(len(given), 'name')}, but found no label feature", "name it with label_key"
        )
    found: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    notes: list[str] = []
    for key in ([label] if label else []) + others:
        if key == main and given is not None:
            by_number = given if isinstance(given, Mapping) else dict(enumerate(given))
            found |= names_of(look, in_label_order(by_number), key)
            continue
        beside = names_beside(directory, files, key, images=key == main)
        if beside is not None:
            file, by_number = beside
            used.add(file)
            names = in_label_order(by_number)
            if fits_class_names(look, key, names):
                found[key] = names
                notes.append(f"class names of {escape(key)} come from {escape(file)}")
                continue
            notes.append(f"{escape(file)} does not name all classes of {escape(key)}, so it is not used")
        if (key == label and features[key].dtype == "int64") or look.texts(key):
            found |= names_of(look, key=key)
    return found, used, notes


def _image_notes(
    splits: Sequence[FoundSplit], tallies: Mapping[str, Sequence[ShardTally]], schema: Schema
) -> list[str]:
    """Notes on the images that users should read before they train on them."""
    key = schema.key(ENCODED)
    if key is None or schema.kind(key) != "image":
        return [
            "no feature contains images, judging by its bytes"
            if key is None
            else f"{key} contains no images, judging by its bytes"
        ]
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
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file() and entry.name != MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such folder", "give the folder that holds the TFRecord files") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error


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
            look.add(features, place)
            tally.add(features, len(framed))
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

"""The schema of records that stay as they are: the roles of their keys as `convert` finds them, and the class names."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shardfeed.converters.sources.classes import NamesFile
from shardfeed.converters.sources.containers.records.columns import RecordColumns, find_columns, names_around
from shardfeed.converters.sources.containers.records.features import FeatureLook, supervised_keys
from shardfeed.converters.sources.containers.records.shard_names import FoundSplit, list_names
from shardfeed.converters.sources.files.class_names import NamedClasses, in_label_order
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.errors import UsageError, argument, escape, spell_out
from shardfeed.formats.format import Fields
from shardfeed.naming import label_names_file
from shardfeed.schema import ENCODED, LABEL, Feature, Schema
from shardfeed.text import listing, number

_MAX_CLASSES = 1 << 20  # a larger label is not a class number, and such a long list of names would be useless
_NO_IMAGE = f"no feature is the image, but {{}} contain images; name one with {argument('image_key', typed='KEY')}"
_LABEL_WORDS = frozenset(WORDS["label"])


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


def nonconformity(features: Fields, schema: Schema) -> str:
    """Describe why a record does not conform to `schema`, labels out of range included; "" if it does."""
    if problem := schema.mismatch(features):
        return problem
    for key, names in schema.class_names.items():
        for label in features[key][1] if key in features else ():
            if not 0 <= int(label) < len(names):
                return f"the label {int(label)} of {escape(key)}, expected 0 to {len(names) - 1}"
    return ""

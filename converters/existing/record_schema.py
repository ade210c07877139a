"""The schema of records that nobody described: which features they have, of which dtype, and how many values.

A feature is a scalar when every record has exactly one value of it, else ragged; one that some records lack is ragged.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.rows.class_names import in_label_order
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.formats.format import Fields
from shardfeed.schema import LABEL, Dtype, Feature, Schema, is_plain

_MAX_CLASSES = 1 << 20  # a label above is no class's number, and a list of so many names would serve nobody
_LABEL_END, _TEXT_END = "/label", "/text"


@dataclass
class _Seen:
    dtype: Dtype
    first: object  # where it was met first
    records: int = 0
    single: bool = True
    least: int = 0  # of int64 values
    highest: int = -1


class SchemaInference:
    """Records in by `add`, what they have in common out. Memory does not grow with the number of records."""

    def __init__(self) -> None:
        self.records = 0
        self._seen: dict[str, _Seen] = {}
        self._texts: dict[str, dict[int, str] | None] = {}  # by the label that they stand beside

    def add(self, features: Fields, place: object) -> None:
        """One record. Raises IntegrityError at `place` where a feature has another dtype than in an earlier record.

        Such a record counts for nothing.
        """
        for key, (dtype, _) in features.items():
            seen = self._seen.get(key)
            if seen is not None and seen.dtype != dtype:  # an empty list's counts too: TensorFlow's parser refuses it
                problem = f"feature {escape(key)} is {dtype}, and {seen.dtype} in {escape(seen.first)}"
                raise IntegrityError(place, problem, "write the records again with one dtype for each feature")
        for key, (dtype, values) in features.items():
            seen = self._seen.setdefault(key, _Seen(dtype, place))
            if len(values) and dtype == "int64":
                seen.least, seen.highest = min(seen.least, *map(int, values)), max(seen.highest, *map(int, values))
            seen.single &= len(values) == 1
            seen.records += 1
        self._add_texts(features)
        self.records += 1

    def _add_texts(self, features: Fields) -> None:
        """One name for each label, by `x/text` beside `x/label`, or none is trusted."""
        for key, (dtype, labels) in features.items():
            if dtype != "int64" or not len(labels) or not key.endswith(_LABEL_END):
                continue
            kind, texts = features.get(key.removesuffix(_LABEL_END) + _TEXT_END, ("bytes", ()))
            named = self._texts.setdefault(key, {})
            if named is None:
                continue
            if kind != "bytes" or len(texts) != len(labels):
                self._texts[key] = None
                continue
            for number, text in zip(labels, texts, strict=True):
                name = bytes(text).decode("utf-8", "surrogateescape")
                if named.setdefault(int(number), name) != name or not is_plain(name):
                    self._texts[key] = None
                    break

    def features(self, ragged: Collection[str] = ()) -> dict[str, Feature]:
        """Every feature with its dtype and shape.

        `ragged`: keys that have any number of values, even where each record happens to have one.
        """
        found: dict[str, Feature] = {}
        for key, seen in sorted(self._seen.items()):
            one = seen.single and seen.records == self.records and key not in ragged
            found[key] = Feature(seen.dtype, () if one else (None,))
        return found

    def could_name(self, key: str, names: Sequence[str]) -> bool:
        """Whether the values of an int64 feature are numbers of classes with these names."""
        seen = self._seen.get(key)
        return seen is not None and seen.dtype == "int64" and seen.least >= 0 and seen.highest < len(names)

    def class_names(self, given: tuple[str, ...] | None = None, key: str = LABEL) -> dict[str, tuple[str, ...]]:
        """Names of the label `key`: those `given`, else the texts beside the labels, else the numbers as text.

        Empty where the records have no such labels, or these are no numbers of classes. Raises UsageError where a label
        has no name among those given.
        """
        seen = self._seen.get(key)
        if given is not None and not self.could_name(key, given):
            integers = seen is not None and seen.dtype == "int64"
            labels = f"are {seen.least} to {seen.highest}" if seen and integers else "are not there, or no integers"
            problem = f"got {len(given)} names, and the values of {escape(key)} {labels}"
            raise UsageError("class_names", problem, "name every class in label order, the first is label 0's")
        if given is not None:
            return {key: given}
        if seen is None or seen.dtype != "int64" or seen.least < 0 or seen.highest >= _MAX_CLASSES:
            return {}
        return {key: in_label_order(self._texts.get(key) or {}, seen.highest + 1)}

    def has_texts(self, key: str) -> bool:
        """Whether each value of the label `key` has one text beside it."""
        return bool(self._texts.get(key))


def nonconformity(features: Fields, schema: Schema) -> str:
    """What keeps a record from being one of `schema`, labels out of range included; "" where nothing does."""
    if problem := schema.mismatch(features):
        return problem
    for key, names in schema.class_names.items():
        for label in features[key][1] if key in features else ():
            if not 0 <= int(label) < len(names):
                return f"the label {int(label)} of {escape(key)}, expected 0 to {len(names) - 1}"
    return ""

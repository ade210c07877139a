"""Classes of records without metadata, and checks of a record against a schema."""

from collections.abc import Sequence

from shardfeed.converters.sources.containers.records.features import FeatureLook
from shardfeed.converters.sources.files.class_names import in_label_order
from shardfeed.errors import UsageError, escape
from shardfeed.formats.format import Fields
from shardfeed.schema import LABEL, Schema

_MAX_CLASSES = 1 << 20  # a larger label is not a class number, and such a long list of names would be useless


def fits_class_names(look: FeatureLook, key: str, names: Sequence[str]) -> bool:
    """Whether the values of an int64 feature are numbers of classes with these names."""
    seen = look.seen.get(key)
    return seen is not None and seen.dtype == "int64" and seen.least >= 0 and seen.highest < len(names)


def class_names(
    look: FeatureLook, given: tuple[str, ...] | None = None, key: str = LABEL
) -> dict[str, tuple[str, ...]]:
    """Return names of the label `key`: the `given` ones, else the texts beside the labels, else the numbers as text.

    Empty if the records have no such labels, or these are not class numbers. Raises UsageError if a label has no name
    among the given ones.
    """
    seen = look.seen.get(key)
    integers = seen is not None and seen.dtype == "int64"
    if given is not None and not fits_class_names(look, key, given):
        labels = f"are {seen.least} to {seen.highest}" if seen and integers else "are missing, or not integers"
        problem = f"got {len(given)} names, and the values of {escape(key)} {labels}"
        raise UsageError("class_names", problem, "name every class in label order, starting with label 0")
    if given is not None:
        return {key: given}
    if seen is None or not integers or seen.least < 0 or seen.highest >= _MAX_CLASSES:
        return {}
    return {key: in_label_order(look.texts(key), seen.highest + 1)}


def nonconformity(features: Fields, schema: Schema) -> str:
    """Describe why a record does not conform to `schema`, labels out of range included; "" if it does."""
    if problem := schema.mismatch(features):
        return problem
    for key, names in schema.class_names.items():
        for label in features[key][1] if key in features else ():
            if not 0 <= int(label) < len(names):
                return f"the label {int(label)} of {escape(key)}, expected 0 to {len(names) - 1}"
    return ""

"""What was asked for is used, or refused: one check of every source that a reader makes."""

from collections.abc import Iterator

from shardfeed.annotations import CAPTION
from shardfeed.converters.sources.options import ColumnOptions, Options, naming
from shardfeed.converters.sources.rows.columns import ClassColumn, feature_key
from shardfeed.converters.sources.rows.roles import OPTION_ROLES
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import UsageError, argument
from shardfeed.schema import LABEL

_OF_CLASSES = ("class_names", "label_separator", "label_offset", "label_map")
_OF_OBJECTS = ("unit", "boxes_on")


def check_asked(place: str, options: Options, source: ColumnarSource) -> None:
    """Raise UsageError for an option that says something of classes, boxes or columns that the source does not have.

    A reader cannot forget this: the source itself is looked at. Options of how files are read are for the reader.
    """
    objects, features = source.objects, source.schema.features
    labelled, masked = any(isinstance(column, ClassColumn) for column in source.columns), source.rasters is not None
    there = {
        "boxes": objects is not None,
        "masks": objects is not None and objects.outlines is not None,
        "keypoints": objects is not None and objects.keypoints is not None,
        "captions": CAPTION in features,
        "classes": LABEL in features,
        "rasters": masked,
    }
    for task in sorted(getattr(options, "tasks", ())):
        if not there[task]:
            problem = f"{argument('tasks')} asks for {task}, and the source has none"
            raise UsageError(place, problem, "leave it out: all that it has is read")
    used = dict.fromkeys(_OF_CLASSES, labelled or objects is not None) | dict.fromkeys(_OF_OBJECTS, there["boxes"])
    used |= {"class_names": used["class_names"] or masked, "boxes_on": used["boxes_on"] or masked}
    used["label_separator"] = labelled
    for name in (name for name, is_used in used.items() if getattr(options, name, None) and not is_used):
        what = "boxes" if name in _OF_OBJECTS else "labels"
        if isinstance(options, ColumnOptions):
            column = naming("objects" if what == "boxes" else "label", "COLUMN")
            problem = f"{argument(name)} is for {what}, and no column is known to have them"
            raise UsageError(place, problem, f"name it, {column}, or leave the option out")
        raise UsageError(place, f"{argument(name)} is for {what}, and no image has any", "leave the option out")
    for option, column, feature in _columns(options):
        role = OPTION_ROLES.get(feature, feature)
        roles = {
            "mask": masked,
            "objects": there["boxes"],
            "split": source.splits is not None,
            "text": there["captions"],
        }
        roles |= {"label": there["classes"], "label text": there["classes"]}
        if not roles.get(role, role in ("image", "key", "number") or feature in features):
            problem = f"{argument(option)} names {column} for {feature}, and this reader makes none of it"
            raise UsageError(place, problem, "leave it out")


def _columns(options: Options) -> Iterator[tuple[str, str, str]]:
    """The columns that are asked for: option, column, and role or feature. The plan looks for that of groups."""
    for feature, column in getattr(options, "columns", {}).items():
        yield "columns", column, feature
    for name in ("text_columns", "number_columns"):
        for column in (one for one in getattr(options, name, ()) if isinstance(one, str)):
            yield name, column, feature_key(column)

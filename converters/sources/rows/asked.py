"""Check that what was asked for is used, or refuse it: one check of every source that a reader makes."""

from collections.abc import Iterator

from shardfeed.annotations import CAPTION
from shardfeed.converters.sources.options import ColumnOptions, Options, naming
from shardfeed.converters.sources.rows.columns import ClassColumn, feature_key
from shardfeed.converters.sources.rows.roles import OPTION_ROLES
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import UsageError, argument
from shardfeed.kinds import KINDS
from shardfeed.schema import LABEL


def check_asked(place: str, options: Options, source: ColumnarSource, *, names_columns: bool = True) -> None:
    """Raise UsageError for an option that says something of classes, boxes or columns that the source does not have.

    `names_columns`: whether `ColumnOptions` can name a column that has it.
    A reader cannot forget this: the source itself is looked at. Options of how files are read are for the reader.
    """
    objects, features = source.objects, source.schema.features
    labelled, boxed = any(isinstance(column, ClassColumn) for column in source.columns), objects is not None
    masked = source.rasters is not None
    tasks = {kind.word: kind.is_in(source.schema) for kind in KINDS} | {"classes": LABEL in features}
    for task in sorted(getattr(options, "tasks", ())):
        if not tasks[task]:
            problem = f"{argument('tasks')} asks for {task}, and the source has none"
            raise UsageError(place, problem, "leave it out: all that it has is read")
    used = {
        "class_names": labelled or boxed or masked,
        "label_separator": labelled,
        "label_offset": labelled or boxed,
        "label_map": labelled or boxed,
        "unit": boxed,
        "boxes_on": boxed or masked,
    }
    for name in (name for name, is_used in used.items() if getattr(options, name, None) and not is_used):
        what = "boxes" if name in ("unit", "boxes_on") else "labels"
        if isinstance(options, ColumnOptions) and names_columns:
            column = naming("objects" if what == "boxes" else "label", "COLUMN")
            problem = f"{argument(name)} is for {what}, and no column is known to have them"
            raise UsageError(place, problem, f"name it, {column}, or leave the option out")
        raise UsageError(place, f"{argument(name)} is for {what}, and no image has any", "leave the option out")
    roles = {
        **dict.fromkeys(("image", "key", "number"), True),
        **dict.fromkeys(("label", "label text"), LABEL in features),
        "text": CAPTION in features,
        "objects": boxed,
        "mask": masked,
        "split": source.splits is not None,
    }
    for option, column, feature in _columns(options):
        if not roles.get(OPTION_ROLES.get(feature, feature), feature in features):
            problem = f"{argument(option)} names {column} for {feature}, and this reader makes none of it"
            raise UsageError(place, problem, "leave it out")


def _columns(options: Options) -> Iterator[tuple[str, str, str]]:
    """The columns that are asked for: option, column, and role or feature. The plan looks for that of groups."""
    for feature, column in getattr(options, "columns", {}).items():
        yield "columns", column, feature
    for name in ("text_columns", "number_columns"):
        for column in (one for one in getattr(options, name, ()) if isinstance(one, str)):
            yield name, column, feature_key(column)

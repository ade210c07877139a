"""Options of sources, for labels, annotations and columns. Each is defined once, here, and checked once."""

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from shardfeed.converters.sources.classes import ClassList
from shardfeed.declared import Typed, checked, named_once
from shardfeed.errors import UsageError, argument, shown
from shardfeed.kinds import Task as Task
from shardfeed.schema import Feature
from shardfeed.text import typed_number

Column = str | int  # by name, or by number from 0
Format = Literal["csv", "tsv", "jsonl", "text", "parquet"]
Unit = Literal["pixels", "fractions"]
Path = str | os.PathLike[str]


def column_of(text: str) -> str | int:
    """A column's name, or its number from 1 as sources count from 0."""
    number = typed_number(text)
    if number is None:
        return text
    if number < 1:
        raise UsageError("column", f"got {text}, expected a number from 1", "the first column is 1")
    return number - 1


def number_column(text: str) -> tuple[Any, Feature | None]:
    """A column, and the feature that `:int` or `:float` and `:N` after it define."""
    found = re.fullmatch(r"(.+?)(?::(int|float)(?::([0-9]{1,6}))?)?", text)
    if found is None:
        raise UsageError("number_columns", f"got {text!r}, expected a column", "write NAME, NAME:float or NAME:float:3")
    name, dtype, count = found.groups()
    shape = () if count is None else (int(count),)
    return column_of(name), Feature("int64" if dtype == "int" else "float32", shape) if dtype else None


def separators(texts: Sequence[str]) -> str | dict[Any, str]:
    """Label separator of the first label column, or one for each column that is named before a `=`."""
    named = [text.partition("=") for text in texts]
    whole = [text for text, (name, _, separator) in zip(texts, named, strict=True) if not (name and separator)]
    if whole and len(named) > 1:
        raise UsageError("label_separator", f"got {whole[0]!r} with others", "write COLUMN=SEPARATOR for each")
    pairs = ((column_of(name), separator) for name, _, separator in named)
    return whole[0] if whole else named_once("label_separator", pairs)


def missing_value(text: str) -> tuple[Any, str]:
    """A column, and the value for its empty cells."""
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        raise UsageError("missing", f"got {text!r}, expected COLUMN=VALUE", "write for example age=nan")
    return column_of(name), value


def void_of(text: str) -> int | str:
    """Value of void in masks: a number, or "none" for masks without void."""
    number = typed_number(text)
    if text == "none":
        return text
    if number is None:
        raise UsageError("void", f"got {shown(text)}, expected a number or none")
    return number


@checked
@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options for image folders, file names and label files.

    Example:
        open_source("photos", options=LabelOptions(labels="labels.csv", label_columns=["breed"]))

    Attributes:
        labels: a label file for the images in the folder that is opened.
        images: the folder that the paths in a label file are relative to; default: the folder of the label file.
        pattern: a regular expression that matches file names; its group `label` is the class.
        unlabelled: read images without labels: all images in a folder, or the ones listed in a file.
        class_names: names in label order, or the path of a file with them, one per line or in another
            known form; or a mapping from column to either.
        label_offset, label_map: of the first label column of a label file, as in `ColumnOptions`.
        format: the label file's format: "csv", "tsv", "jsonl", "text" or "parquet"; default: by the file's name.
        path_column: the column of paths, by name or number from 0; default: the column with a known name such as
            "path", else the first (not in JSON or Parquet).
        label_columns: the columns of labels, by name or number from 0; the first is the class.
        text_columns: columns of text other than class names, such as captions.
        number_columns: columns of numbers that are not classes; a mapping may give the feature:
            `{"age": Feature("float32")}`.
        one_hot: columns of 0 and 1 (or -1 and 1), one per class.
        split_column: the column of split names; default: the column named "split".
        group_column: a column stored for `convert(..., group_column=)`, as text unless another option names it too.
        header: whether the first row names the columns; default: inferred from its content.
        delimiter: separator of the cells of a CSV file; default: detected from its first row.
        encoding: of all that is text in the source: tables, lists, documents, names in archives; default: from the
            byte order mark or the declaration of XML, else UTF-8. Text that can only be UTF-8 is read as UTF-8.
        label_separator: separator between several labels in a cell of the first label column; or a mapping from column
            to separator.
        missing: the value to use for empty cells, by column.
    """

    labels: Annotated[Path | None, Typed("labels: CSV, TSV, JSON Lines, or 'path label' text", "FILE")] = None
    path_column: Annotated[Column | None, Typed("column of the image path (numbers start at 1)", "NAME|N")] = None
    label_columns: Annotated[
        Sequence[Column] | None, Typed("label column; repeat for more labels", "NAME|N", "label-column", many=True)
    ] = None
    label_separator: Annotated[
        str | Mapping[Any, str] | None,
        Typed(
            "separates labels within a cell; C=S: only in column C", "S", "label-separator", whole=separators, many=True
        ),
    ] = None
    one_hot: Annotated[Sequence[Column], Typed("columns of 0 and 1, each named after its class", "A,B,C")] = ()
    text_columns: Annotated[
        Sequence[Column], Typed("column of free text, such as captions", "NAME|N", "text-column", many=True)
    ] = ()
    number_columns: Annotated[
        Sequence[Column] | Mapping[Any, Feature | None],
        Typed("column of numeric values: C, C:int, C:float, C:float:3", "C", "number-column", number_column, many=True),
    ] = ()
    missing: Annotated[
        Mapping[Any, str | float] | None,
        Typed("value for empty cells, e.g. age=nan", "COLUMN=VALUE", "missing", missing_value, many=True),
    ] = None
    unlabelled: Annotated[bool, Typed("convert images without labels, from a folder or a list")] = False
    split_column: Annotated[Column | None, Typed("column of the split (default: 'split', if present)", "NAME|N")] = None
    format: Annotated[Format | None, Typed("format of the label file: csv, tsv, jsonl, text", "F")] = None
    encoding: Annotated[
        str | None, Typed("encoding of text and of names in archives, e.g. gbk (default: UTF-8)", "E")
    ] = None
    pattern: Annotated[str | None, Typed("labels from file names, by the group (?P<label>...)", "REGEX")] = None
    class_names: Annotated[
        ClassList | Mapping[str, ClassList] | None, Typed("class names in order: lines, JSON, YAML, label map", "FILE")
    ] = None
    images: Annotated[Path | None, Typed("folder of the images, if SOURCE is an annotation file", "DIR")] = None
    label_offset: int = 0
    label_map: Path | None = None
    group_column: str | None = None
    header: Annotated[bool | None, Typed()] = None
    delimiter: Annotated[str | None, Typed()] = None

    def __post_init__(self) -> None:
        asked = self.number_columns.values() if isinstance(self.number_columns, Mapping) else ()
        for feature in filter(None, asked):
            if feature.dtype == "bytes" or feature.ragged or len(feature.shape) > 1:
                problem = f"got {feature}, expected int64 or float32, of the shape () or (n,)"
                raise UsageError("number_columns", problem, "leave the feature out: lists make it ragged")
        for name in ("pattern", "class_names", "label_offset", "label_map", "label_columns", "one_hot"):
            if self.unlabelled and getattr(self, name):
                raise UsageError("unlabelled", f"{argument(name)} is for labels", "leave one of the two out")


@checked
@dataclass(frozen=True, kw_only=True)
class AnnotationOptions:
    """Options for annotation files with boxes, masks, keypoints or captions.

    Example:
        open_source("instances.json", options=AnnotationOptions(images="photos", tasks=["masks"]))

    Attributes:
        images: the folder that image names are relative to; default: the folder named in the annotations, or the folder
            of the annotation file.
        tasks: kinds of annotations to read; default: all that the format supports, except masks, which cost time and
            disk space.
        class_names: names in label order, or the path of a file with them, if the annotations contain no names.
        unit: unit of boxes, keypoints and outlines; default: as the format defines. A source in pixels whose boxes all
            lie within 0 to 1 is refused unless `unit` is given.
        boxes_on: whether annotations refer to the "upright" or the "stored" image if EXIF rotates it; default: the one
            of the size that the annotations state.
        voc_origin: the number of the first pixel in Pascal VOC's files, 0 or 1.
        colours: colours or values of masks: a file with `name,r,g,b` or `name,value` per line.
        void: the value of mask pixels without a class; default: as the format defines, else 255; "none": masks have no
            such value.
        label_columns: the attribute or field with the class, of tools whose files may have several: VIA, Label Studio,
            FiftyOne.
        group_column: a field of each image, such as `video_id` in COCO's `images`, to store as the text `image/NAME`,
            so that `convert(..., group_column=)` can use it.
        delimiter: for tables, as in `LabelOptions`.
        encoding: of text and of names in archives, as in `LabelOptions`.
    """

    images: Path | None = None
    tasks: Annotated[Collection[Task], Typed("annotations: boxes, masks, keypoints, captions, ...", "A,B")] = ()
    class_names: ClassList | None = None
    unit: Annotated[Unit | None, Typed()] = None
    boxes_on: Annotated[Literal["upright", "stored"] | None, Typed()] = None
    voc_origin: Annotated[Literal[0, 1], Typed()] = 0
    colours: Annotated[Path | None, Typed("table of masks: name,r,g,b or name,value per class", "FILE")] = None
    void: Annotated[int | Literal["none"] | None, Typed(read=void_of)] = None
    label_columns: Sequence[Column] | None = None
    group_column: str | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", frozenset(self.tasks))
        for name in ("images", "colours"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else os.fsdecode(value))

    @property
    def upright(self) -> bool | None:
        """True if annotations refer to the upright image; None without `boxes_on`."""
        return None if self.boxes_on is None else self.boxes_on == "upright"


@checked
@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options for files that hold many samples: tars, Parquet, TFRecords, databases, arrays.

    Example:
        open_source("digits.npz", options=ColumnOptions(columns={"image": "x", "label": "y"}))

    Attributes:
        columns: role -> name of the column (array, dataset, feature, key) in the file. Roles: "image", "label", "key",
            "text", "split", "mask", "objects", or the key of another feature. Default: columns with known names.
        unlabelled: read samples without labels, even if the file has some.
        class_names: names in label order, or the path of a file with them; default: those in the file, else numbers.
        label_offset: the number of the first class in the file, subtracted from each label: 1 if 0 is the background.
        label_map: a label map (`.pbtxt`, or lines like `1:cat`) that numbers and names the classes.
        unit: unit of boxes, as in `AnnotationOptions`.
        one_hot: columns of 0 and 1 (or -1 and 1), one per class, as in `LabelOptions`.
        label_separator: separator between several labels in a text, as in `LabelOptions`.
        group_column: a column to store as `image/NAME`, so that `convert(..., group_column=)` can use it.
        encoding: of text and of names in archives, as in `LabelOptions`.
    """

    columns: Annotated[
        Mapping[str, str], Typed("columns to use, in Parquet etc.: image=jpg,label=cls", "A=B,C=D", many=True)
    ] = field(default_factory=dict)
    unlabelled: bool = False
    one_hot: Sequence[str] = ()
    label_separator: str | None = None
    class_names: ClassList | None = None
    label_offset: Annotated[int, Typed("number of the first class in the file (default 0)", "N")] = 0
    label_map: Annotated[Path | None, Typed("numbers and names of the classes, as in a .pbtxt", "FILE")] = None
    unit: Unit | None = None
    group_column: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_map", None if self.label_map is None else os.fsdecode(self.label_map))
        if self.one_hot and (self.unlabelled or "label" in self.columns):
            other = argument("unlabelled") if self.unlabelled else argument("columns")
            raise UsageError("one_hot", f"names the labels, and {other} says otherwise", "leave one of the two out")
        if self.unlabelled and "label" in self.columns:
            raise UsageError("unlabelled", f"{argument('columns')} names the label", "leave one of the two out")


@dataclass(frozen=True, kw_only=True)
class PixelOptions(ColumnOptions):
    """Options for CSV files of pixels: as for other files of many samples, or two of their columns as in label files.

    `label_columns`, with one column, and `split_column`: as in `LabelOptions`; they end up in `columns`.
    """

    label_columns: Sequence[Column] | None = None
    split_column: Column | None = None

    def __post_init__(self) -> None:
        named = {"label": next(iter(self.label_columns or ()), None), "split": self.split_column}
        asked = {role: str(column) for role, column in named.items() if column is not None}
        object.__setattr__(self, "columns", {**asked, **self.columns})
        super().__post_init__()


Options = LabelOptions | AnnotationOptions | ColumnOptions
CLASSES: tuple[type[Options], ...] = (LabelOptions, AnnotationOptions, ColumnOptions)


def given(options: Options | None) -> dict[str, Any]:
    """The options that were given: field name -> value, of those that differ from their default."""
    if options is None:
        return {}
    default = type(options)()
    values = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def of_reader(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """The options of a reader; a column of groups that they do not name otherwise is stored, too."""
    column = values.get("group_column")
    if column is not None and issubclass(kind, ColumnOptions) and column not in values.get("columns", {}).values():
        values = {**values, "columns": {**values.get("columns", {}), f"image/{column}": column}}
    elif column is not None and kind is LabelOptions:
        named = ("label_columns", "text_columns", "number_columns", "one_hot")
        if all(column not in values.get(name, ()) for name in named):
            values = {**values, "text_columns": [*values.get("text_columns", ()), column]}
    return kind(**values)


def options_of(values: Mapping[str, Any]) -> Options | None:
    """The options object for values by field name; those that are None, empty or the default count as not given.

    Raises UsageError for two that are about different kinds of sources.
    """
    defaults = {name: value for kind in CLASSES for name, value in vars(kind()).items()}
    empty = (None, "", (), [], {})
    values = {name: value for name, value in values.items() if value not in empty and value != defaults[name]}
    if not values:
        return None
    known = {kind: {one.name for one in fields(kind)} for kind in CLASSES}
    for kind, names in known.items():
        if values.keys() <= names:
            return kind(**values)
    first, *rest = values
    other = next((name for name in rest if not any({first, name} <= names for names in known.values())), rest[-1])
    problem = f"{argument(first)} and {argument(other)} are for different kinds of sources"
    raise UsageError(first, problem, "leave one of the two out")


def naming(what: str, column: str) -> str:
    """Format the option that makes `column` the column for `what`, for a message."""
    return argument("columns", python=f"columns={{{what!r}: {column!r}}}", typed=shlex.quote(f"{what}={column}"))

"""Tables with one row an object: the TensorFlow tutorial's, Open Images', AutoML's, keras-retinanet's, Kaggle's."""

import os

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.gathering import (
    Names,
    check_tasks,
    in_numbers,
    list_wanted,
    splits_of,
)
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.tables.row_filling import Filling
from shardfeed.converters.sources.annotations.tables.row_images import RowImages
from shardfeed.converters.sources.annotations.tables.row_tables import RowTable, find_tables
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, UsageError, escape


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """A table whose header, or the shape of whose rows, is that of a dialect; or folders of splits with such tables."""
    try:
        found = find_tables(path, options)
    except UsageError:
        return None
    if not found:
        return None
    table, dialect = found[0]
    where = escape(table.name)
    if isinstance(dialect, str):
        return Evidence("boxes-csv", f"{where} has a row for each object", dialect)
    return Evidence("boxes-csv", f"{where} has a row for each object: {dialect.name}")


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images that the rows of a table name, and the objects that each says of its image.

    Rows of one image may stand anywhere. Images are looked for under `options.images`, or in the folder of the table;
    where no row names a file, they are ids: names without extension. Of AutoML's gs:// paths the last parts are looked
    for. A row without coordinates says that there is no object, so that the image stays.

    The header says whether numbers are pixels or fractions. A table whose numbers cannot be what it says is refused.
    Features: boxes, classes where there is a column of them, size and flags where the dialect has them; of runs of
    pixels, masks and areas. A row that cannot be read is left out, E_LINE, under the name of the table.

    Raises UsageError, LabelFileError.
    """
    found = find_tables(path, options)
    if not found:
        remedy = "a header such as filename,width,height,class,xmin,ymin,xmax,ymax tells"
        raise LabelFileError(path, "got no table with a row for each object that is known", remedy)
    tables = []
    for table, dialect in found:
        if isinstance(dialect, str):
            raise LabelFileError(table.path, f"it has a row for each object; {dialect}", "add it, or rename one")
        inside = os.path.relpath(os.path.dirname(table.path) or ".", path) if os.path.isdir(path) else "."
        split = usual_split(inside)
        tables.append(RowTable(table, dialect, "" if inside == "." else inside + "/", split))
    runs = tables[0].dialect.place == "runs"
    if len({(one.dialect.place, one.dialect.unit) for one in tables}) > 1:
        raise LabelFileError(tables[1].table.path, "another kind of table than the first", "read one after the other")
    check_tasks("tasks", options, ["boxes", "masks"] if runs else ["boxes"])
    own = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return _source(RowImages(tables, list_wanted(options.images or own, options), options))


def _source(images: RowImages) -> AnnotatedSource:
    """Everything read."""
    table = _objects(images)
    splits = splits_of(images.splits(), images.options)
    for number, file in enumerate(images.files):
        if not isinstance(file, int) and images.listing.choice.wants(file.key):
            at, line = images.first[number]
            reason = f"{escape(at.table.name)}:{line}: {file.reason}"
            images.ledger.reject(file.key, RejectCode(file.code), reason)
    taken = images.listing.take(np.array(images.taken, np.int64))
    _note_unnamed(images)
    described = in_numbers(len(taken), table)
    findings = images.ledger.findings()
    return AnnotatedSource(taken, objects=table, splits=splits, findings=findings, described=described)


def _objects(images: RowImages) -> ObjectTable:
    """The second reading."""
    classes, only = ObjectClasses(images.classes, images.options.class_names), None
    labelled = any(of.dialect.label is not None for of in images.tables)
    if not labelled and images.options.class_names is not None:
        only = class_list(images.options.class_names)
        if only is not None and len(only) > 1:
            problem = f"got {len(only)} classes, and no column of the table says which one an object has"
            raise UsageError("class_names", problem, "name one class, or none")
    images.ledger.notes += classes.notes if labelled else ()
    dialect = images.tables[0].dialect
    runs = dialect.place == "runs"
    masks = runs and (not images.options.tasks or "masks" in images.options.tasks)
    table = ObjectTable(
        classes.names if labelled else only,
        class_ids=classes.ids if labelled else (),
        what="line",
        unit=dialect.unit,
        upright=images.options.upright,
        columns=[*dialect.flags],
        areas=runs,
        masks=masks,
    )
    Filling(images, table, classes if labelled else None).fill()
    return table


def _note_unnamed(images: RowImages) -> None:
    """Says in the notes what is there and was not taken."""
    unnamed = Names("images that no row names, not taken; a row without coordinates takes one without objects")
    for i, key in enumerate(images.listing):
        if i not in images.place and names_image(key):
            unnamed.add(key)
    unwanted = Names("rows' images that include and exclude leave out")
    for file in images.files:
        if isinstance(file, Skipped) and not images.listing.choice.wants(file.key):
            unwanted.add(file.key)
    unused = Names("columns not used")
    for name in images.tables[0].dialect.unused:
        unused.add(name)
    images.ledger.notes += [*unnamed.note, *unwanted.note, *unused.note]

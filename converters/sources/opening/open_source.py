"""From a path to the source it means: folders, named files, a label file, annotations, files of many samples."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from shardfeed.converters.elsewhere import check_kind, check_local
from shardfeed.converters.sources.annotations.options import Task
from shardfeed.converters.sources.annotations.recognise import almost, only_one
from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.containers import recognise
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.files.glance import Glance
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.guard import guarded
from shardfeed.converters.sources.labels.table import Column, Format
from shardfeed.converters.sources.opening import containers
from shardfeed.converters.sources.opening.annotated import annotation_options, open_annotated
from shardfeed.converters.sources.opening.plain import Plain
from shardfeed.converters.sources.opening.unopened import check_there
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError
from shardfeed.schema import Feature


def open_source(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    pattern: str | None = None,
    class_names: ClassList | Mapping[str, ClassList] | None = None,
    format: Format | None = None,
    path_column: Column | None = None,
    label_columns: Sequence[Column] | None = None,
    text_columns: Sequence[Column] = (),
    number_columns: Sequence[Column] | Mapping[Any, Feature | None] = (),
    one_hot: Sequence[Column] = (),
    split_column: Column | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    label_separator: str | Mapping[Any, str] | None = None,
    missing: Mapping[Any, str | float] | None = None,
    unlabelled: bool = False,
    include: Globs = (),
    exclude: Globs = (),
    follow_links: bool = False,
    images: str | os.PathLike[str] | None = None,
    reader: str | None = None,
    tasks: Collection[Task] = (),
    boxes_on: Literal["upright", "stored"] | None = None,
    voc_origin: Literal[0, 1] = 0,
    colours: str | os.PathLike[str] | None = None,
    void: int | Literal["none"] | None = None,
    columns: Mapping[str, str] | None = None,
    label_offset: int = 0,
    label_map: str | os.PathLike[str] | None = None,
) -> Source:
    """The source that a path means.

    What has annotations (COCO's files for example, or a folder with some) is recognised by its content, and is an
    `AnnotatedSource`; its `described` says by what. So are files of many samples: tars, Parquet, records, databases,
    arrays. Any other file is a label file, a `LabelFile`. A folder with
    `labels` is the root of that file's paths. Without, a folder with a `pattern`, or with files and no folder, is a
    `FileNames`, any other an `ImageFolder`.

        open_source("photos")                       # photos/cat/1.jpg, or photos/train/cat/1.jpg
        open_source("photos", labels="labels.csv")  # a table of paths in photos and labels
        open_source("photos", unlabelled=True)      # every image in it, without a label
        open_source("instances.json", images="photos", tasks=["masks"])  # COCO: boxes and masks
        open_source("shards/train-{00000..00012}.tar")  # WebDataset
        open_source("digits.npz", columns={"image": "x", "label": "y"})  # arrays

    Args:
        path: the folder of the images, or a label file beside them.
        labels: a label file for the images in `path`.
        pattern: a regular expression that fits file names; its group `label` is the class.
        class_names: names in label order, or the path of a file with one a line.
        format: of the label file: "csv", "tsv", "jsonl", "text" or "parquet"; default by its name.
        path_column: of the label file, by name or number from 0; default one with a usual name.
        label_columns: of the label file, likewise; the first is the class.
        text_columns: of the label file: texts that are no classes, such as captions.
        number_columns: of the label file: numbers that are no classes; see `LabelFile`, also for what follows.
        one_hot: of the label file: columns of 0 and 1, one a class.
        split_column: of the label file, likewise.
        header: whether the first row of the label file names the columns; default by what is in it.
        delimiter: between the cells of a CSV file; default by its first row.
        encoding: of the label file; default UTF-8, or what its first bytes say.
        label_separator: between several labels in one cell of the label file.
        missing: what stands for an empty cell, by column.
        unlabelled: images without labels: all of a folder, or those that a file lists.
        include: a pattern, or some, of the files that are wanted, relative to the folder; default all. `*` stands for
            any part of a name, `**` for any folders. Without a "/" a pattern fits names in every folder (`*.png`), with
            one it begins at the folder (`train/**/*.png`); one that fits a folder fits all that is in it.
        exclude: likewise, of files that are not wanted.
        follow_links: take what links outside the folder lead to.
        images: the folder that the image names in annotations, or in a label file, are relative to; default where the
            annotations say, or lie.
        reader: of what `path` is, where two would do: "coco" or "webdataset" for example, or "folder" or "labels" for
            what has no annotations.
        tasks: what is taken of annotations: "boxes", "masks", "keypoints", "captions", "classes", "rasters"; default
            what they are for, without masks.
        boxes_on: the image that annotations are of where its EXIF turns it, and nothing tells: "upright" or "stored".
        voc_origin: the number of the first pixel in Pascal VOC's files.
        colours: of masks, a file with `name,r,g,b` a line.
        void: the value in masks of pixels of no class; default what the format says, else 255; "none": there is none.
        columns: of a file of many samples, what holds a thing: "image", "label", "key", "text", "split", or the key of
            another feature, and its name there; default the usual names.
        label_offset: of a file of many samples, the number of its first class, which becomes 0.
        label_map: of a file of many samples, the label map (`.pbtxt`, or lines like `1:cat`) that names its classes.

    Raises:
        UsageError: arguments that do not go together, a path that is not there, files that tell no classes, or that
            two readers would read.
        LabelFileError: a label file that is not clear.
        StorageError: the folder cannot be read.
    """
    check_local(path)
    for other in (labels, images):
        if other is not None:
            check_kind(other)
    wanted: Mapping[str, Any] = {"include": include, "exclude": exclude, "follow_links": follow_links}
    of_annotations = annotation_options(
        images=images,
        tasks=tasks,
        boxes_on=boxes_on,
        voc_origin=voc_origin,
        colours=None if colours is None else os.fsdecode(colours),
        void=void,
        delimiter=delimiter,
        encoding=encoding,
        class_names=class_names,
        **wanted,
    )
    of_table = {
        "format": format,
        "path_column": path_column,
        "label_columns": label_columns,
        "text_columns": text_columns or None,
        "number_columns": number_columns or None,
        "one_hot": one_hot or None,
        "split_column": split_column,
        "header": header,
        "delimiter": delimiter,
        "encoding": encoding,
        "label_separator": label_separator,
        "missing": missing,
    }
    place = os.fsdecode(path)
    glance = Glance(place, recognise.ENDS)
    plain = Plain(path, labels, pattern, class_names, unlabelled, images, of_table, wanted, glance)
    of_container = ContainerOptions(
        columns=columns or {},
        class_names=None if isinstance(class_names, Mapping) else class_names,
        label_offset=label_offset,
        label_map=None if label_map is None else os.fsdecode(label_map),
    )
    others = {"images": images, "tasks": tasks or None, "boxes_on": boxes_on, "colours": colours, "void": void}
    said = [*plain.said, *(name for name, value in others.items() if value is not None)]
    with guarded(place):
        found = containers.recognise(glance, of_container, reader, said)
        if fit := only_one(place, found):
            return containers.read(place, of_container, fit, plain, asked=reader is not None)
        if reader is None and not said and not found:
            check_there(place)
        try:
            check_kind(path)
            return open_annotated(place, of_annotations, reader, plain)
        except UsageError:
            if near := almost(place, found, asking_helps=False):
                raise near from None
            raise

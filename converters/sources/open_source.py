"""From a path to the source it means: class folders, named files, a label file, or images without labels."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shardfeed.converters.elsewhere import check_kind
from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.file_names import FileNames
from shardfeed.converters.sources.files.listed_source import ListedSource
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.image_folder import ImageFolder
from shardfeed.converters.sources.labels.label_file import LabelFile
from shardfeed.converters.sources.labels.table import Column, Format
from shardfeed.converters.sources.unlabelled import Unlabelled
from shardfeed.errors import UsageError, argument
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
) -> ListedSource:
    """The source that a path means.

    A file is a label file, a `LabelFile`. A folder with `labels` is the root of that file's paths. Without, a folder
    with a `pattern`, or with files and no folder, is a `FileNames`, any other an `ImageFolder`.

        open_source("photos")                       # photos/cat/1.jpg, or photos/train/cat/1.jpg
        open_source("photos", labels="labels.csv")  # a table of paths in photos and labels
        open_source("photos", unlabelled=True)      # every image in it, without a label

    Args:
        path: the folder of the images, or a label file beside them.
        labels: a label file for the images in `path`.
        pattern: a regular expression that fits file names; its group `label` is the class.
        class_names: names in label order, or the path of a file with one a line.
        format: of the label file: "csv", "tsv", "jsonl" or "text"; default by its name.
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

    Raises:
        UsageError: arguments that do not go together, a path that is not there, or files that tell no classes.
        LabelFileError: a label file that is not clear.
        StorageError: the folder cannot be read.
    """
    check_kind(path)
    if labels is not None:
        check_kind(labels)
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
    if unlabelled:
        of_labels = {"pattern": pattern, "class_names": class_names, "label_columns": label_columns}
        for name, value in [*of_labels.items(), ("one_hot", one_hot or None)]:
            if value is not None:
                raise UsageError("unlabelled", f"{argument(name)} is about labels", "leave one of the two out")
        label_columns = ()
    is_file = os.path.isfile(path)
    if labels is not None or is_file:
        if pattern is not None:
            raise UsageError("pattern", "labels come either from a file or from file names", "leave one out")
        if labels is not None and is_file:
            raise UsageError(path, "is a file, and so is the one with the labels", "give the folder of the images")
        return LabelFile(
            path if labels is None else labels,
            None if labels is None else path,
            format=format,
            path_column=path_column,
            label_columns=label_columns,
            text_columns=text_columns,
            number_columns=number_columns,
            one_hot=one_hot,
            split_column=split_column,
            header=header,
            delimiter=delimiter,
            encoding=encoding,
            label_separator=label_separator,
            missing=missing,
            class_names=class_names,
            include=include,
            exclude=exclude,
            follow_links=follow_links,
        )
    named = [name for name, value in of_table.items() if value is not None]
    if named:
        problem = f"is a folder, and {argument(named[0])} is about a label file"
        raise UsageError(path, problem, f"give that file as {argument('labels')}")
    if unlabelled:
        return Unlabelled(path, include=include, exclude=exclude, follow_links=follow_links)
    if isinstance(class_names, Mapping):
        raise UsageError("class_names", "got a mapping, which is about the columns of a label file", "give the names")
    if pattern is not None or _is_flat(path):
        return FileNames(
            path,
            pattern=pattern,
            class_names=class_names,
            include=include,
            exclude=exclude,
            follow_links=follow_links,
        )
    return ImageFolder(path, class_names=class_names, include=include, exclude=exclude, follow_links=follow_links)


def _is_flat(root: str | os.PathLike[str]) -> bool:
    """Whether a folder has visible files and no visible folder: then only file names can carry labels."""
    try:
        with os.scandir(root) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            return bool(visible) and not any(entry.is_dir() for entry in visible)
    except OSError:
        return False  # the source says what is wrong

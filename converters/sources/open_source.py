"""From a path to the source it means: folders, named files, a label file, annotations, files of many samples."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from shardfeed.converters.elsewhere import check_kind, check_local
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.masks.pairs import may_have_masks
from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.annotations.recognise import (
    READERS,
    Evidence,
    almost,
    may_be_annotated,
    only_one,
    recognise,
)
from shardfeed.converters.sources.annotations.recognise import (
    reader as reader_of,
)
from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.containers import recognise as containers
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.files.listed_source import ListedSource
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.folders.file_names import FileNames
from shardfeed.converters.sources.folders.image_folder import ImageFolder
from shardfeed.converters.sources.folders.unlabelled import Unlabelled
from shardfeed.converters.sources.labels.table import Column, Format
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError, UsageError, argument
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST
from shardfeed.schema import LABEL, Feature
from shardfeed.text import some

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")  # beside shards of others they would be left out


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
        label_map: of a file of many samples, the label map (`.pbtxt`) that names its classes.

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
    options = _annotation_options(
        images=images,
        tasks=tasks,
        boxes_on=boxes_on,
        voc_origin=voc_origin,
        colours=None if colours is None else os.fsdecode(colours),
        void=void,
        delimiter=delimiter,
        encoding=encoding,
        class_names=class_names,
        include=include,
        exclude=exclude,
        follow_links=follow_links,
    )
    container = ContainerOptions(
        columns=columns or {},
        class_names=None if isinstance(class_names, Mapping) else class_names,
        label_offset=label_offset,
        label_map=None if label_map is None else os.fsdecode(label_map),
    )
    if unlabelled:
        of_labels = {"pattern": pattern, "class_names": class_names, "label_columns": label_columns}
        for name, value in [*of_labels.items(), ("one_hot", one_hot or None)]:
            if value is not None:
                raise UsageError("unlabelled", f"{argument(name)} is about labels", "leave one of the two out")
        label_columns = ()

    def plain() -> ListedSource:
        """What has no annotations."""
        is_file = os.path.isfile(path)
        if labels is not None or is_file:
            if pattern is not None:
                raise UsageError("pattern", "labels come either from a file or from file names", "leave one out")
            if labels is not None and is_file:
                raise UsageError(path, "is a file, and so is the one with the labels", "give the folder of the images")
            from shardfeed.converters.sources.labels.label_file import LabelFile  # not above: a folder needs none

            return LabelFile(
                path if labels is None else labels,
                images if labels is None else path,
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
        if images is not None:
            raise UsageError(path, f"is a folder of images, and {argument('images')} is one, too", "leave one out")
        if unlabelled:
            return Unlabelled(path, include=include, exclude=exclude, follow_links=follow_links)
        if isinstance(class_names, Mapping):
            problem = "got a mapping, which is about the columns of a label file"
            raise UsageError("class_names", problem, "give the names")
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

    of_plain = {"labels": labels, "pattern": pattern, "unlabelled": unlabelled or None, **of_table}
    of_both = ("delimiter", "encoding")
    named = [name for name, value in of_plain.items() if value is not None and name not in of_both]
    of_annotations = {"images": images, "tasks": tasks or None, "boxes_on": boxes_on, "colours": colours, "void": void}
    others = [*named, *(name for name, value in of_annotations.items() if value is not None)]
    text = os.fsdecode(path)
    found = _containers(text, container, reader, others)
    if fit := only_one(text, found):
        if reader is None and os.path.isdir(path) and (images_too := _images_beside(text) or some(_of_classes(plain))):
            only_one(text, [Evidence("folder", f"images ({images_too})"), fit])
        which: dict[str, Any] = {"include": include, "exclude": exclude, "follow_links": follow_links}
        for name in (name for name, value in which.items() if value):
            problem = f"{argument(name)} is about files of one image, and this is read as {fit.name}"
            remedy = f"give the one file that is wanted; or, where images are meant, {argument('reader', 'folder')}"
            raise UsageError(path, problem, remedy)
        return _read_container(text, container, fit, asked=reader is not None)
    try:
        check_kind(path)
        return _open(text, options, reader, plain, named)
    except UsageError:
        if near := almost(text, found, asking_helps=False):
            raise near from None
        raise


def _is_flat(root: str | os.PathLike[str]) -> bool:
    """Whether a folder has visible files and no visible folder: then only file names can carry labels."""
    try:
        with os.scandir(root) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            return bool(visible) and not any(entry.is_dir() for entry in visible)
    except OSError:
        return False  # the source says what is wrong


def _annotation_options(
    tasks: Collection[Task], images: str | os.PathLike[str] | None, class_names: Any, **others: Any
) -> AnnotationOptions:
    """Raises UsageError for tasks that there are not."""
    wanted: Collection[Any] = (tasks,) if isinstance(tasks, str) else tasks
    unknown = [task for task in wanted if task not in get_args(Task)]
    if unknown:
        raise UsageError("tasks", f"got {unknown[0]!r}, expected some of {', '.join(get_args(Task))}")
    for name, values in (("boxes_on", ("upright", "stored")), ("voc_origin", (0, 1))):
        if others[name] not in (*values, None):
            raise UsageError(name, f"got {others[name]!r}, expected {values[0]!r} or {values[1]!r}")
    return AnnotationOptions(
        images=None if images is None else os.fsdecode(images),
        tasks=frozenset(wanted),
        class_names=None if isinstance(class_names, Mapping) else class_names,
        **others,
    )


def _containers(path: str, options: ContainerOptions, name: str | None, others: Sequence[str]) -> Sequence[Evidence]:
    """What readers of files of many samples say of `path`, or the one that was asked for.

    `name`: of the reader, where it was said. `others`: arguments that were given and are about other sources. Raises
    UsageError for arguments that do not go together, and for a dataset.
    """
    if name is None and os.path.isfile(os.path.join(path, MANIFEST)) and has_manifest(path):
        remedy = "`shardfeed reshard DIR OUT` makes other shards of it, `append`, `merge`, `filter` and others more"
        raise UsageError(path, "is a dataset already", remedy)
    names = ["folder", "labels", *dict(READERS), *dict(containers.READERS)]
    if name is not None and name not in names:
        problem = f"got {name!r}, expected one of {', '.join(names)}"
        raise UsageError("reader", problem, "leave it out: files say what they are")
    if name in dict(containers.READERS):
        if others:
            problem = f"{name} reads files of many samples, and {argument(others[0])} is not about them"
            raise UsageError("reader", problem, "leave one of the two out")
        return [Evidence(str(name), "as asked")]
    found = containers.recognise(path, options) if name is None and not others else ()
    own = {"columns": options.columns, "label_offset": options.label_offset, "label_map": options.label_map}
    for said, value in own.items():
        if value and not found:
            problem = f"{argument(said)} is about files of many samples, and this is read as something else"
            raise UsageError(path, problem, f"leave it out, or say what it is by {argument('reader', typed='NAME')}")
    return found


def _read_container(path: str, options: ContainerOptions, fit: Evidence, asked: bool) -> Source:
    """The source that a reader of files of many samples makes; its `described` says by what it was recognised."""
    module = containers.reader(fit.name)
    assert module is not None, "it gave the evidence, or was named"
    source = module.read(path, options)
    told = f"read as {fit.name}, as asked" if asked else f"recognised as {fit.name}: {fit.found}"
    object.__setattr__(source, "described", told)
    return source


def _images_beside(path: str) -> str:
    """An image file in a folder or in the folders of its folders, relative; "" for a file, and for a folder without."""
    for folder, folders, names in os.walk(path):
        below = os.path.relpath(folder, path)
        image = next((name for name in names if name.lower().endswith(_IMAGES) and name[0] != "."), "")
        if image:
            return os.path.normpath(os.path.join(below, image))
        deepest = below != "." and os.sep in below  # train/cat/1.jpg
        folders[:] = [] if deepest else sorted(name for name in folders if name[0] != ".")
    return ""


def _open(
    path: str, options: AnnotationOptions, name: str | None, plain: Callable[[], ListedSource], of_plain: Sequence[str]
) -> ListedSource:
    """What has annotations, where `path` has any; else what `plain` opens.

    `name`: of the reader, where it was said. `of_plain`: arguments that were given and are not about annotations.
    """
    if name in ("folder", "labels") or (name is None and of_plain):
        return _without_annotations(path, options, plain)
    if name is not None:
        module = reader_of(name)
        if of_plain:
            problem = f"{name} reads annotations, and {argument(of_plain[0])} is not about them"
            raise UsageError("reader", problem, "leave one of the two out")
        if not os.path.exists(path):
            raise UsageError(path, "no such file or folder", "check the path")
        return _told(module.read(path, options), f"read as {name}, as asked")
    is_file = os.path.isfile(path)
    # Names of classes may be those of folders that are called like another layout's.
    looked = is_file or (options.class_names is None and may_be_annotated(path)) or may_have_masks(path)
    found = recognise(path, options) if looked else []
    if fit := only_one(path, found):
        if not is_file and (folder := _of_classes(plain)):
            only_one(path, [Evidence("folder", f"class folders ({some(folder)})"), fit])
        return _read(path, options, fit)
    try:
        return _without_annotations(path, options, plain)
    except UsageError:
        if not looked and os.path.isdir(path):
            found = recognise(path, options)
            if fit := only_one(path, found):
                return _read(path, options, fit)
        if near := almost(path, found):
            raise near from None
        raise


def _read(path: str, options: AnnotationOptions, fit: Evidence) -> AnnotatedSource:
    return _told(reader_of(fit.name).read(path, options), f"recognised as {fit.name}: {fit.found}")


def _told(source: AnnotatedSource, by: str) -> AnnotatedSource:
    """The same source, whose notes say what it was recognised by."""
    described = f"{by}; {source.described}" if source.described else by
    # Frozen, so that samples cannot change under a running conversion: nobody else has it yet.
    object.__setattr__(source, "described", described)
    object.__setattr__(source, "findings", replace(source.findings, notes=[described, *source.findings.notes]))
    return source


def _without_annotations(path: str, options: AnnotationOptions, plain: Callable[[], ListedSource]) -> ListedSource:
    """What `plain` opens. Raises UsageError for arguments that are about annotations."""
    source = plain()
    for name in ("tasks", "boxes_on", "voc_origin"):
        if getattr(options, name):
            problem = f"{argument(name)} is about annotations, and this is a source without"
            raise UsageError(path, problem, f"leave it out, or say what it is by {argument('reader', typed='NAME')}")
    return source


def _of_classes(plain: Callable[[], ListedSource]) -> Sequence[str]:
    """The names of the classes, where the folder has a folder for each of several; else nothing."""
    try:
        source = plain()
    except ShardfeedError:
        return ()
    names = source.schema.class_names.get(LABEL, ()) if isinstance(source, ImageFolder) else ()
    # The PNGs of panoptic files lie in a folder beside those, in annotations: no class is called so.
    return names if len(names) > 1 and "annotations" not in names else ()

"""From a path to the source that it means: one look, one list of readers, one check of the options."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardfeed.converters.elsewhere import check_local
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.guard import guarded
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions, Options, given
from shardfeed.converters.sources.reader import Evidence, Reader
from shardfeed.converters.sources.readers import BY_NAME, PLAIN, READERS, REFUSED
from shardfeed.converters.sources.source import Findings, Source
from shardfeed.errors import UsageError, argument, escape
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST

_SHOWN_HEAD = 12  # bytes of a file, in a message


def open_source(
    path: str | os.PathLike[str],
    *,
    reader: str | None = None,
    include: Globs = (),
    exclude: Globs = (),
    follow_links: bool = False,
    options: Options | None = None,
) -> Source:
    """Open the source that a path means.

    Files with annotations (COCO's for example, or a folder with some) are recognised by their content, and so are files
    of many samples: tars, Parquet, records, databases, arrays. Any other file is a label file. A folder is a folder of
    classes, or of images whose names say their classes.

        open_source("photos")                                                 # photos/cat/1.jpg, photos/train/cat/1.jpg
        open_source("photos", options=LabelOptions(labels="labels.csv"))      # a table of paths and labels
        open_source("photos", options=LabelOptions(unlabelled=True))          # every image in it, without a label
        open_source("instances.json", options=AnnotationOptions(images="photos", tasks=["masks"]))
        open_source("shards/train-{00000..00012}.tar")                        # WebDataset
        open_source("digits.npz", options=ColumnOptions(columns={"image": "x", "label": "y"}))

    Args:
        path: a folder, a file, or several files: `train-{00000..00012}.tar`.
        reader: the name of the reader, where two would do: "coco" or "webdataset" for example, or "folder" or "labels"
            where there are no annotations.
        include: a pattern, or some, of the files that are wanted, relative to the folder; default all. `*` stands for
            any part of a name, `**` for any folders. Without a "/" a pattern fits names in every folder (`*.png`), with
            one it begins at the folder (`train/**/*.png`); one that fits a folder fits all that is in it.
        exclude: likewise, of files that are not wanted.
        follow_links: take files and folders outside the folder that links in it lead to.
        options: `LabelOptions`, `AnnotationOptions` or `ColumnOptions`.

    Raises:
        UsageError: options that do not go together, a missing path, files that tell no classes, or that two readers
            would read.
        LabelFileError: a label file that is not clear.
        StorageError: the folder cannot be read.
    """
    check_local(path)
    look = Look(os.fsdecode(path), include, exclude, follow_links)
    values = given(options)
    for name in ("labels", "images"):
        _check_place(values.get(name))
    if reader is not None and reader not in BY_NAME:
        problem = f"got {reader!r}, expected one of {', '.join(BY_NAME)}"
        raise UsageError("reader", problem, "leave it out: files say what they are")
    with guarded(look.path):
        if reader is not None:
            return _read(BY_NAME[reader], look, values, f"read as {reader}, as asked")
        _check_there(look)
        found = [] if _is_plain(values) else recognise(look, values)
        if fit := _only_one(look, found):
            return _read(BY_NAME[fit.name], look, values, f"recognised as {fit.name}: {fit.found}")
        try:
            plain = BY_NAME["labels" if look.is_file or "labels" in values else "folder"]
            return _read(plain, look, values, "")
        except UsageError:
            if near := _near_miss(look, found):
                raise near from None
            raise


def recognise(look: Look, values: Mapping[str, Any]) -> Sequence[Evidence]:
    """The evidence of every reader that takes the path for its own, or almost. `values`: the options given."""
    found: list[Evidence] = []
    for one in READERS:
        if values.keys() <= set(one.takes) and one.name != "labels" and one.may_be(look):
            evidence = one.recognise(look, values)
            if evidence is not None:
                found.append(evidence)
    return found


def _is_plain(values: Mapping[str, Any]) -> bool:
    """Whether an option was given that only folders and label files have."""
    formats = (one for one in READERS if one.name not in PLAIN)
    return bool(values) and not any(values.keys() <= set(one.takes) for one in formats)


def _read(reader: Reader, look: Look, values: Mapping[str, Any], by: str) -> Source:
    """The source that `reader` makes. Raises UsageError for options that it does not take, and its own errors."""
    for name in values:
        if name not in reader.takes:
            able = [one.name for one in READERS if name in one.takes]
            problem = f"{argument(name)} is about {_some_of(able)}, and this is read as {reader.name}"
            raise UsageError(look.path, problem, f"leave it out, or say what it is: {argument('reader', typed='NAME')}")
    if not reader.chooses_files:
        for name in (name for name in ("include", "exclude", "follow_links") if getattr(look, name)):
            problem = f"{argument(name)} is about files of one image, and this is read as {reader.name}"
            remedy = f"give the one file that is wanted; or, where images are meant, {argument('reader', 'folder')}"
            raise UsageError(look.path, problem, remedy)
    source = reader.read(look, values)
    described = getattr(source, "described", None)
    if not by or described is None:
        return source
    findings: Findings = source.findings  # type: ignore[attr-defined]  # a source that describes itself has them
    said = f"{by}; {described}" if described else by
    notes = [said, *findings.notes]
    return replace(
        source,  # type: ignore[type-var]  # likewise
        described=said,
        findings=replace(findings, notes=notes, in_files=reader.options is ColumnOptions),
    )


def _some_of(names: Sequence[str]) -> str:
    """Some names of readers: `coco, yolo, voc and others`."""
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")


def _only_one(look: Look, found: Sequence[Evidence]) -> Evidence | None:
    """The one reader that is meant; None where none but a plain one is.

    Raises UsageError where two are.
    """
    fits = [one for one in found if not one.missing]
    if sure := [one for one in fits if one.sure]:
        fits = sure[:1]
    formats = [one for one in fits if one.name not in PLAIN]
    if not formats:
        return None
    if (
        not any(one.name == "folder" for one in fits)
        and look.image
        and BY_NAME[formats[0].name].options is ColumnOptions
    ):
        fits.append(Evidence("folder", f"images ({escape(look.image)})"))  # they would be left out
    if len(fits) > 1:
        each = "; ".join(f"{one.name}: {one.found}" for one in sorted(fits, key=lambda one: one.name not in PLAIN))
        choices = ", or ".join(argument("reader", one.name) for one in fits)
        raise UsageError(look.path, f"{len(fits)} readers fit it ({each})", f"say which is meant: {choices}")
    return fits[0]


def _near_miss(look: Look, found: Sequence[Evidence]) -> UsageError | None:
    """The error to raise where a reader almost fits, and no other source does."""
    near = [one for one in found if one.missing]
    if not near:
        return None
    problem = f"looks like a source for the reader {near[0].name}: {near[0].found}; {near[0].missing}"
    asking = BY_NAME[near[0].name].options is not ColumnOptions  # those find no more when they are asked for
    remedy = f"give {argument('reader', near[0].name)} where it is meant all the same" if asking else ""
    return UsageError(look.path, problem, remedy)


def _check_place(path: Any) -> None:
    """Raises UsageError for a file that is known to be neither images nor a label file."""
    if path is None:
        return
    check_local(path)
    text = os.fsdecode(path)
    for ends, what, remedy in REFUSED:
        if text.lower().endswith(ends) and os.path.isfile(text):
            raise UsageError(text, f"is {what}, expected a folder of images or a label file", remedy)


def _check_there(look: Look) -> None:
    """Raises UsageError for a path that is missing, a dataset, and a file whose name lies or that no reader takes."""
    first = next((path for path in look.paths if not os.path.lexists(path)), None)
    if first is not None:
        if len(look.paths) == 1:
            raise UsageError(look.path, "no such file or folder", "check the path")
        problem = f"{escape(first)} is missing, one of {len(look.paths):,} files that it means"
        raise UsageError(look.path, problem, "check the path")
    if look.is_folder and os.path.isfile(os.path.join(look.path, MANIFEST)) and has_manifest(look.path):
        remedy = "`shardfeed reshard DIR OUT` makes other shards of it, `append`, `merge`, `filter` and others more"
        raise UsageError(look.path, "is a dataset already", remedy)

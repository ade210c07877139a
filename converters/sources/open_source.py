"""Selection of the source for a path: one look, one list of readers, one check of the options."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from shardfeed.converters.sources.files.annotation_files import LABEL_FORMATS, json_file, recognise_annotations
from shardfeed.converters.sources.files.folder_layouts import label_table
from shardfeed.converters.sources.files.listing import Globs, names_image
from shardfeed.converters.sources.files.set_aside import says_nothing
from shardfeed.converters.sources.files.text import asking, document_refused
from shardfeed.converters.sources.files.volumes import (
    check_archives_inside,
    check_volumes,
    check_volumes_inside,
    is_of_folder,
)
from shardfeed.converters.sources.guard import guarded
from shardfeed.converters.sources.look import Evidence, Look, expand_braces
from shardfeed.converters.sources.options import AnnotationOptions, ColumnOptions, Options, naming
from shardfeed.converters.sources.readers import (
    ARCHIVE_ENDS,
    BY_NAME,
    PLAIN,
    READERS,
    REFUSED,
    SAMPLE_ENDS,
    Reader,
    fits_of_packages,
    reader_named,
    recognise,
)
from shardfeed.converters.sources.recognition.decision import check_folders, with_tried_advice
from shardfeed.converters.sources.recognition.request import Request
from shardfeed.converters.sources.rows.rows import ColumnarSource, noted
from shardfeed.converters.sources.source import Source
from shardfeed.converters.sources.splits.likely_lists import naming_likely_lists, with_likely_lists
from shardfeed.converters.sources.splits.split_list import (
    SplitLists,
    relocated,
    typed_split_lists,
    with_split_lists,
)
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument, escape
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST
from shardfeed.split_words import usual_split
from shardfeed.storage.storage import is_address
from shardfeed.text import some

_LINES = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{[^\n{}]*\}[ \t\r]*\n\s*\{")  # of JSON, a flat object on each
_SHOWN_HEAD = 12  # bytes of a file, in a message
_DOCUMENTS, _LOOKED_AT = (".json", ".jsonl", ".xml"), 20  # ends of names; files
_PLACES = ("labels", "images")  # options that name files beside the path
_OF_TABLES = ("class_names", "delimiter", "encoding")
# Options for columns of label files -> the role in `columns`, of files of many samples; "": a feature of its own.
_COLUMNS = {"label_columns": "label", "text_columns": "text", "split_column": "split", "path_column": "key"}
_COLUMNS |= {"number_columns": ""}


@checked
def open_source(
    path: str | os.PathLike[str],
    *,
    reader: Annotated[str | Reader | None, Typed("read SOURCE as this format: coco, labels, ...", "NAME")] = None,
    include: Annotated[
        Globs, Typed("only matching files: '*.png', 'a/**/*.jpg'; repeatable", "PATTERN", many=True)
    ] = (),
    exclude: Annotated[Globs, Typed("skip matching files or folders; repeatable", "PATTERN", many=True)] = (),
    follow_links: Annotated[bool, Typed("also follow links that point outside SOURCE")] = False,
    split_list: Annotated[
        SplitLists | None,
        Typed(
            "names of a split's images; FILE: with splits",
            "NAME=FILE",
            whole=typed_split_lists,
            many=True,
        ),
    ] = None,
    options: Options | None = None,
) -> Source:
    """Open a path as a source, choosing the reader by its content.

    Annotation files (such as COCO's, or a folder with some) are recognised by their content, and so are files that hold
    many samples: tars, Parquet, TFRecords, databases, arrays. Any other file is treated as a label file, and any other
    folder as a folder with one subfolder per class, or with images whose file names contain the class.

    Example:
        open_source("photos")                                                 # photos/cat/1.jpg, photos/train/cat/1.jpg
        open_source("photos", options=LabelOptions(labels="labels.csv"))      # a table of paths and labels
        open_source("s3://bucket/photos")                                     # the same folders in a bucket
        open_source("photos", options=LabelOptions(unlabelled=True))          # every image in it, without a label
        open_source("instances.json", options=AnnotationOptions(images="photos", tasks=["masks"]))
        open_source("shards/train-{00000..00012}.tar")                        # WebDataset
        open_source("digits.npz", options=ColumnOptions(columns={"image": "x", "label": "y"}))

    Args:
        path: a folder, a file, or several files: `train-{00000..00012}.tar`; or a URL of any of these in a bucket, such
            as "s3://bucket/photos".
        reader: the name of the reader, if two would fit: for example "coco" or "webdataset", or "folder" or "labels" to
            ignore annotations. Or your own `Reader`; its exceptions are passed on.
        include: one or more patterns of the files to include, relative to the folder; default all. `*` matches any part
            of a name, `**` any folders. A pattern without "/" matches names in every folder (`*.png`), one with "/"
            begins at the folder (`train/**/*.png`); a pattern that matches a folder matches everything in it.
        exclude: one or more patterns of the files to leave out.
        follow_links: also include files and folders outside of the folder if links in it lead there.
        split_list: the file, or files, with the names of the images of each split: `{"train": "train.txt", "test":
            "test.txt"}`; or one table of names and splits. Their paths are relative to the current directory, to
            `path`, or to a folder above it. "rest" in place of a file means the images in no list, "none" in place of a
            split leaves images out. Images in no list are left out if there are lists of "train" and of another split;
            otherwise say what they are.
        options: `LabelOptions`, `AnnotationOptions` or `ColumnOptions`.

    Raises:
        UsageError: options contradict each other, the path is missing, files have no classes, or files fit two readers.
        LabelFileError: a label file or a list of a split is ambiguous.
        StorageError: the folder cannot be read.
    """
    wanted: dict[str, Any] = {"include": include, "exclude": exclude, "follow_links": follow_links}
    request = Request.of(path, options, reader=reader, **wanted)  # type: ignore[arg-type]  # an address may be any
    with asking(request.values.get("encoding")):
        if is_address(path) or any(is_address(request.values.get(name)) for name in _PLACES):
            return _open_remote(request, split_list)
        return _with_splits(replace(request, path=os.fsdecode(path)), split_list)


def _with_splits(request: Request, split_list: SplitLists | None) -> Source:
    """The source of a path on this machine, with the splits of lists, or a note on files that look like some.

    Raises UsageError with advice that was tried.
    """
    opening = _Opening(request)
    try:
        source = opening.source()
        if not opening.request.is_narrowed:
            check_folders(source, opening.look)
    except UsageError as refusal:
        refusal = naming_likely_lists(refusal, opening.look)
        raise with_tried_advice(refusal, opening.request, opening.look, _opened) from refusal.__cause__
    if not split_list:
        return with_likely_lists(source, opening.look)
    with guarded(request.path):
        return with_split_lists(source, split_list, request.path, encoding=request.values.get("encoding"))


def _opened(request: Request) -> Source:
    """Open a request that advice makes of another one."""
    with asking(request.values.get("encoding")):
        return _Opening(request).source()


class _Opening:
    """The way from a path to its source: through archives and only folders, to a reader that recognises what is there.

    `request`, `look`: of what is opened now. `notes`: what was opened on the way. `kept`: the folders of archives.
    """

    def __init__(self, request: Request) -> None:
        self.request, self.notes, self.kept = request, list[str](), list[object]()
        self.look = Look(request.path, **request.wanted)

    def source(self) -> Source:
        """Return the source. Raises UsageError, LabelFileError, StorageError."""
        reader = self.request.reader
        if isinstance(reader, Reader):  # unguarded: exceptions of its code are not a sign of hostile files
            look = self._look()
            return _read(reader, look, self.request.values, f"read as {reader.name}, as requested")
        chosen = None if reader is None else reader_named(reader)
        while True:
            look = self._look()
            with guarded(look.path):
                source = self._recognised(look) if chosen is None else self._chosen(look, chosen)
            if source is not None:
                return self._noted(source)

    def _look(self) -> Look:
        """Look at the path. Raises UsageError if it is missing, or nothing that can be read."""
        if self.look.path != self.request.path:
            self.look = Look(self.request.path, **self.request.wanted)
        for name in _PLACES:
            _check_place(self.request.values.get(name))
        _check_there(self.look)
        return self.look

    def _chosen(self, look: Look, reader: Reader) -> Source | None:
        """The source of the reader that the user chose; None after a step into an archive."""
        of_folders = reader.options is not ColumnOptions and reader.name != "labels"
        if of_folders and (self._unpacked(look) or (self._unknown_to(look, reader) and self._entered(look))):
            return None
        return _read(reader, look, self.request.values, f"read as {reader.name}, as requested")

    def _recognised(self, look: Look) -> Source | None:
        """The source of the reader that recognises the path, else of class folders or labels; None after a step."""
        values = self.request.values
        _refuse_dataset(look)
        if table := _table_of_labels(look, values):
            return table
        _check_label_file(look, values)
        seen = recognise(look, values)
        if self._deeper_shows_more(look, seen) and self._entered(look):
            return None
        if fit := _choose_reader(look, seen):
            return _read(BY_NAME[fit.name], look, values, f"recognised as {fit.name}", fit)
        for one, fit in _of_packages(look, values):
            return _read(one, look, values, f"recognised as {one.name}", fit)
        if refused := _of_samples(look, values):
            raise refused
        if self._unpacked(look) or self._entered(look):
            return None
        return _plain(look, values, seen)

    def _unknown_to(self, look: Look, reader: Reader) -> bool:
        """Whether the reader that the user chose finds nothing of its own directly in a folder."""
        taken = {name: value for name, value in self.request.values.items() if name in reader.takes}
        asked = reader.options is AnnotationOptions and bool(_only_folder(look))
        return asked and reader.recognise(look, taken) is None

    def _deeper_shows_more(self, look: Look, seen: Sequence[Evidence]) -> bool:
        """Whether more readers fit the only folder of the path than the path: some look one level further than others.

        So annotations of one kind would be read, and those of another kind passed over.
        """
        if not seen or not _only_folder(look):
            return False
        inner = Look(os.path.join(look.path, _only_folder(look)), **self.request.wanted)
        deeper = recognise(inner, self.request.values)
        return _fits_of_annotations(deeper) > _fits_of_annotations(seen) > set()

    def _unpacked(self, look: Look) -> bool:
        """Go on in the folder of an archive, unpacked; False if the path is no archive."""
        if not (look.is_file and look.path.lower().endswith(ARCHIVE_ENDS)):
            return False
        from shardfeed.converters.sources.files.archive import is_archive, unpack  # not above: folders are usual

        if not is_archive(look.path):
            return False
        unpacked, notes = unpack(look.path)
        self.notes += [f"{escape(os.path.basename(look.path))} is unpacked into {unpacked.folder}", *notes]
        self.kept.append(unpacked)
        self.request = replace(self.request, path=unpacked.folder, is_unpacked=True)
        return True

    def _entered(self, look: Look) -> bool:
        """Go on in the only folder of the path; False if there is none."""
        inner = "" if "labels" in self.request.values else _only_folder(look)
        if not inner:
            return False
        beside = look.names()[1]
        note = f"the only folder in it is read: {escape(inner)}"
        self.notes.append(f"{note}; beside it, not read: {some(beside)}" if beside else note)
        self.request = replace(self.request, path=os.path.join(look.path, inner))
        return True

    def _noted(self, source: Source) -> Source:
        """The source with notes on the way to it in front of its own; unpacked files live as long as it does."""
        if not self.notes:
            return source
        assert isinstance(source, ColumnarSource)
        return noted(source, *self.notes).changed(kept=(*self.kept, source.kept))


def _fits_of_annotations(seen: Sequence[Evidence]) -> set[str]:
    """The names of the readers of annotations that fit."""
    return {one.name for one in seen if not one.missing and BY_NAME[one.name].options is AnnotationOptions}


def _refuse_dataset(look: Look) -> None:
    """Raise UsageError for a dataset of ours."""
    if look.is_folder and os.path.isfile(os.path.join(look.path, MANIFEST)) and has_manifest(look.path):
        remedy = "`shardfeed reshard DIR OUT` rewrites its shards; `append`, `merge` and `filter` change its contents"
        raise UsageError(look.path, "is already a dataset", remedy)


def _plain(look: Look, values: Mapping[str, Any], found: Sequence[Evidence]) -> Source:
    """The source of a folder of classes, or of a label file. Raises UsageError; of `found`, what is nearly complete."""
    if look.is_folder and not look.image:
        folders, files = look.names()
        check_volumes_inside(look.path, files)
        if not folders:
            check_archives_inside(look.path, files, ARCHIVE_ENDS)
    try:
        _check_name(look)
        if look.is_file and "format" not in values:
            _check_known(look.path, look)
        plain = BY_NAME["folder" if look.is_folder and "labels" not in values else "labels"]
        return _read(plain, look, values)
    except UsageError:
        if unread := _document_in_another_encoding(look):
            raise unread from None
        if near := _incomplete_match(look, found):
            raise near from None
        raise


def _document_in_another_encoding(look: Look) -> UsageError | None:
    """The error for the first of some JSON and XML files that is in an unknown encoding: no reader recognises it."""
    paths = map(look.full, islice(look.files(_DOCUMENTS), _LOOKED_AT))
    return next(filter(None, (document_refused(look.head(path), path) for path in paths)), None)


def _open_remote(request: Request, split_list: SplitLists | None) -> Source:
    """The source of a path, a label file or a folder of images at URLs, by folders that stand for the URLs."""
    from shardfeed.converters.sources.mirror import Mirror  # not above: local sources need no client

    mirror, alone = Mirror(request.exclude), not any(name in request.values for name in _PLACES)

    def local(place: Any) -> Any:
        if not is_address(place):
            return place
        place = mirror.bound(os.fsdecode(place))
        named = list(dict.fromkeys(mirror.take(one, with_images=alone) for one in expand_braces(place)))
        return named[0] if len(named) == 1 else mirror.path_of(place)

    places = {name: local(request.values[name]) for name in _PLACES if name in request.values}
    here = replace(request, path=local(request.path), values={**request.values, **places})
    wanted = {**here.wanted, "split_list": relocated(split_list, local)}
    with mirror.addresses_in_errors():
        return mirror.source(open_source(here.path, reader=here.reader, options=here.options, **wanted))


def _only_folder(look: Look) -> str:
    """The only folder in a wrapper, which holds nothing else of relevance; no image is directly in the inner one.

    "" if there is none: a folder of images may be the only class, and a folder named like a split is a split.
    """
    folders, files = look.names() if look.is_folder else ((), ())
    if len(folders) != 1 or usual_split(folders[0]):
        return ""
    files = tuple(name for name in files if not is_of_folder(name, folders[0], ARCHIVE_ENDS))
    if not all(says_nothing(name, look.head(look.full(name))) for name in files):
        return ""
    _, inner = look.names(folders[0])
    return "" if any(names_image(os.fsencode(name)) for name in inner) else folders[0]


def _table_of_labels(look: Look, values: Mapping[str, Any]) -> Source | None:
    """The boxes, or columns of classes, of a label file in a form that is known, unless an option names its columns."""
    if not look.is_folder or "labels" not in values or not values.keys() <= {"labels", *_OF_TABLES}:
        return None
    file = Look(os.fsdecode(values["labels"]), look.include, look.exclude, look.follow_links)
    of_table = {"images": look.path} | {name: values[name] for name in _OF_TABLES if name in values}
    if isinstance(of_table.get("class_names"), Mapping) or not file.is_file:
        return None
    for one in (BY_NAME["boxes-csv"], BY_NAME["classes-csv"], BY_NAME["captions"]):
        if not of_table.keys() <= set(one.takes) or not one.may_fit(file, of_table):
            continue
        evidence = one.recognise(file, of_table)
        if evidence is not None and not evidence.missing:
            return _read(one, file, of_table, f"recognised as {one.name}", evidence)
    return None


def _check_label_file(look: Look, values: Mapping[str, Any]) -> None:
    """Raise UsageError for JSON or XML in place of a label file; the remedy says how to read annotations in it."""
    path = os.fsdecode(values.get("labels", ""))
    if "format" in values or not look.is_folder or not os.path.isfile(path):
        return
    from shardfeed.converters.sources.rows.label_table import is_json_lines  # not above: for label files only

    if is_json_lines(path):
        return
    is_document = path.lower().endswith((".json", ".xml", ".manifest"))
    if is_document and (found := [one for one in recognise(Look(path), {"images": look.path}) if not one.missing]):
        remedy = f"give {escape(path)} instead of the folder, and {argument('images', look.path)}"
        raise UsageError(path, f"is not a label file: {found[0].found}", remedy)
    _check_known(path, Look(path))
    if path.lower().endswith(".xml"):
        remedy = "give the folder with the XML files instead of the images"
        raise UsageError(path, "is XML in no known annotation format, expected a label file", remedy)


def _check_known(path: str, look: Look) -> None:
    """Raise UsageError for JSON that no reader recognises; lines of JSON may be a label file, by its extension."""
    head = look.head(path)
    found = recognise_annotations(head) or (json_file(head) if look.kind_of(path) == "json" else None)
    kinds = ("tool",) if path.lower().endswith(tuple(LABEL_FORMATS)) else ("tool", "document", "packed")
    if found is None or found.kind not in kinds or head.lstrip().startswith(b"<"):
        return
    remedy = found.remedy
    if _LINES.match(head) and found.kind != "tool":
        columns = f"{argument('format', 'jsonl')} and {argument('path_column', typed='KEY')}"
        remedy = f"give {columns} if each line is an image; else {remedy}"
    elif found.kind == "document":
        remedy += ', or write CSV, or JSON Lines with one {"path": ..., "label": ...} per line'
    raise UsageError(path, f"is {found.what}, in no known annotation format, expected a label file", remedy)


def _read(
    reader: Reader, look: Look, values: Mapping[str, Any], by: str = "", evidence: Evidence | None = None
) -> Source:
    """The source that `reader` makes; `by`: how it was chosen; `evidence`: of a reader that recognised the path.

    Raises UsageError for options that it does not take.
    """
    for name in values:
        if name not in reader.takes:
            raise _unsupported_option(name, reader, look, values[name])
    if not reader.chooses_files:
        for name in (name for name in ("include", "exclude", "follow_links") if getattr(look, name)):
            problem = f"{argument(name)} applies to image files, but this is read as {reader.name}"
            remedy = f"give only the wanted file; or, for image files, {argument('reader', 'folder')}"
            remedy = remedy if look.is_folder else "leave it out"
            raise UsageError(look.path, problem, remedy)
    source = reader.read(look, values, evidence and evidence.parsed)
    if not by or not isinstance(source, ColumnarSource):
        return source
    in_files = reader.options is ColumnOptions
    found = "" if in_files or evidence is None else evidence.found  # of a container, `described` alone says the same
    description = ": ".join([by, "; ".join(filter(None, (found, source.described)))]).removesuffix(": ")
    findings = replace(source.findings, notes=[description, *source.findings.notes], in_files=in_files)
    return source.changed(described=description, findings=findings)


def _of_samples(look: Look, values: Mapping[str, Any]) -> UsageError | None:
    """Return the error if options name columns of a label file, and the path has files of many samples."""
    name = next((name for name in _COLUMNS if name in values and "labels" not in values), "")
    fits = [one for one in recognise(look, {}) if not one.missing] if name else []
    readers = [BY_NAME[one.name] for one in fits if BY_NAME[one.name].options is ColumnOptions]
    return _unsupported_option(name, readers[0], look, values[name]) if readers else None


def _unsupported_option(name: str, reader: Reader, look: Look, value: Any) -> UsageError:
    """Return the error for an option that the chosen reader does not support."""
    if reader.options is ColumnOptions and name in _COLUMNS and value != []:
        column = str(value if isinstance(value, str | int) else next(iter(value)))
        problem = f"{argument(name)} is for label files, but this is read as {reader.name}"
        return UsageError(look.path, problem, f"give {naming(_COLUMNS[name] or f'image/{column}', column)}")
    able = [one.name for one in READERS if name in one.takes]
    if reader.name == "folder" and name == "labels":
        problem = f"got {argument('labels')} and {argument('reader', 'folder')}, which reads no label file"
        return UsageError(look.path, problem, f"leave {argument('reader')} out")
    if reader.name == "folder" and "labels" in able and name != "images":
        problem = f"is a folder, but {argument(name)} is for a label file"
        files = [name for name in look.names()[1] if not names_image(os.fsencode(name))]
        heads = {name: recognise_annotations(look.head(os.path.join(look.path, name))) for name in files}
        table = label_table(os.fsencode(look.path), {os.fsencode(name): one for name, one in heads.items() if one})
        return UsageError(look.path, problem, f"give that file as {argument('labels', table or None)}")
    about = ", ".join(able[:3]) + (" and others" if len(able) > 3 else "")
    problem = f"{argument(name)} is for {about}, but this is read as {reader.name}"
    remedy = f"leave it out, or choose a reader with {argument('reader', typed='NAME')}"
    if name == "group_column" and reader.options is AnnotationOptions:
        remedy = f"group by file names with {argument('group_pattern')}"
    return UsageError(look.path, problem, remedy)


def _choose_reader(look: Look, found: Sequence[Evidence]) -> Evidence | None:
    """The only reader that fits; None if only a plain one does. Raises UsageError if two do."""
    fits = [one for one in found if not one.missing]
    fits = [one for one in fits if one.sure][:1] or fits
    formats = [one for one in fits if one.name not in PLAIN]
    if not formats:
        return None
    if look.image and fits == formats and BY_NAME[formats[0].name].options is ColumnOptions:
        fits = [Evidence("folder", f"images ({escape(look.image)})"), *fits]  # they would be left out
    _check_one(look, fits)
    return fits[0]


def _check_one(look: Look, fits: Sequence[Evidence]) -> None:
    """Raise UsageError if two readers fit."""
    if len(fits) > 1:
        fits = sorted(fits, key=lambda one: one.name not in PLAIN)
        each = "; ".join(f"{one.name}: {one.found}" for one in fits)
        choices = ", or ".join(argument("reader", one.name) for one in fits)
        raise UsageError(look.path, f"{len(fits)} readers match it ({each})", f"choose one: {choices}")


def _of_packages(look: Look, values: Mapping[str, Any]) -> Sequence[tuple[Reader, Evidence]]:
    """The reader of an installed package that fits, or none; its errors are warnings. Raises UsageError if two fit.

    They are not asked about folders of images alone, and not where a label file is given: most conversions wait for
    nobody's packages.
    """
    if look.holds_only_images or "labels" in values:
        return ()
    fits = [*fits_of_packages(look, values)]
    _check_one(look, [evidence for _, evidence in fits])
    return fits


def _incomplete_match(look: Look, found: Sequence[Evidence]) -> UsageError | None:
    """Return the error if a reader nearly fits and no other source does; None if none nearly fits."""
    near = next((one for one in found if one.missing), None)
    if near is None:
        return None
    asking_helps = BY_NAME[near.name].options is not ColumnOptions  # which find nothing more if they are chosen
    remedy = f"give {argument('reader', near.name)} to read it anyway" if asking_helps else ""
    problem = f"looks like a source for the reader {near.name}: {near.found}; {near.missing}"
    return UsageError(look.path, problem, remedy)


def _check_place(path: Any) -> None:
    """Raise UsageError for a URL, and for a file that is known to be neither images nor a label file."""
    if path is None:
        return
    text = os.fsdecode(path)
    for ends, what, remedy in REFUSED:
        if text.lower().endswith(ends) and os.path.isfile(text):
            raise UsageError(text, f"is {what}, expected a folder of images or a label file", remedy)


def _check_there(look: Look) -> None:
    """Raise UsageError if the path is missing, or one of the files that it means."""
    check_volumes(look.path)
    first = next((path for path in look.paths if _is_missing(path)), None)
    if first is not None:
        problem = "no such file or folder"
        if len(look.paths) > 1:
            problem = f"{escape(first)} is missing, one of the {len(look.paths):,} files that it matches"
        raise UsageError(look.path, problem, "check the path")


def _is_missing(path: str) -> bool:
    """Whether nothing exists at the path, as far as permissions show."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL
        return True
    except OSError:
        pass  # the source raises the error
    return False


def _check_name(look: Look) -> None:
    """Raise UsageError if no reader took a file in spite of its extension, or if its kind is never read."""
    path = look.paths[0]
    if look.is_folder or not os.path.isfile(path):
        return
    head = look.head(path)
    archive = path.lower().endswith(ARCHIVE_ENDS)
    if archive or (path.lower().endswith(SAMPLE_ENDS) and look.kind != "parquet"):  # which may be a label file
        got = f"it begins with {head[:_SHOWN_HEAD]!r}" if head else "it is empty"
        problem = f"is named like {'an archive' if archive else 'a file of many samples'}, but is not one: {got}"
        raise UsageError(look.path, problem, "copy it again, or rename it")
    _check_place(path)

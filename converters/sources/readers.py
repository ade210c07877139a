"""Interface of a reader; the one list of readers, and the list of known file types that are not read."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import isclass
from types import SimpleNamespace
from typing import Any, Protocol, cast, get_args

from shardfeed.converters.sources.annotations.tool_signs import TOOLS
from shardfeed.converters.sources.files.listing import MASK_FOLDERS, MASK_WORD
from shardfeed.converters.sources.guard import HostileError, guarded
from shardfeed.converters.sources.look import Evidence, Look, Signature, missing_of, signature_of
from shardfeed.converters.sources.options import (
    AnnotationOptions,
    ColumnOptions,
    LabelOptions,
    Options,
    PixelOptions,
    of_reader,
)
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError, escape, printable
from shardfeed.foreign import place, words
from shardfeed.plugins import Plugin, installed
from shardfeed.user_warnings import warn_user


class ReaderModule(Protocol):
    """The functions that the module of a reader has; `options` is of the class that its `Reader` names."""

    def recognise(self, look: Look, options: Any) -> Evidence | None:
        """Return evidence from the content of the path that this reader fits, cheaply; None if it does not."""
        ...

    def read(self, look: Look, options: Any, /, *parsed: Any) -> Source:
        """Return the source; `parsed`: `Evidence.parsed`, only where `recognise` gave it.

        Raises UsageError, LabelFileError, StorageError, MissingExtraError.
        """
        ...


@dataclass(frozen=True)
class Reader:
    """A reader of one format, for `open_source`.

    Its module is imported only if the path may fit according to `Look`, or if the user chose the reader.

    Attributes:
        name: the value for `--reader`, or `reader=` in Python.
        module: a module with `recognise` and `read`, or a function that imports and returns it. With a `signature`,
            `read` is enough.
        options: the class of its options.
        takes: the names of the options that the reader accepts; all others are refused.
        suffixes: suffixes of file names, in lower case; a folder must have a file with one of them. Empty: any suffix
            except those of images.
        chooses_files: whether the reader supports include, exclude and follow_links.
        kinds: kinds of files by their first bytes (`Look.kind`); a file of a different kind must have one of
            `suffixes`. None: any kind.
        names: a regular expression that must also match one of the names in the folder (`Look.suffixes`).
        signature: requirements on the first bytes of a file, in addition to its name.

    Example:
        module = SimpleNamespace(recognise=recognise, read=read)
        reader = Reader("boxes", module, AnnotationOptions, takes={"images", "class_names"}, suffixes=(".boxes",))
        source = open_source("all.boxes", reader=reader)
    """

    name: str
    module: ReaderModule | Callable[[], ReaderModule]
    options: type[Options]
    takes: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    chooses_files: bool = False
    kinds: tuple[str, ...] | None = None
    names: re.Pattern[str] | None = None
    signature: Signature | None = None

    def recognise(self, look: Look, given: Mapping[str, Any]) -> Evidence | None:
        """Return evidence that this reader fits the path, or None; `given`: options by name, all known to the reader.

        If a library reports that the path is damaged, the evidence contains this report in `missing`.
        """
        options = of_reader(self.options, given)
        try:
            with guarded(look.path):
                seen = None if self.signature is None else self.signature.evidence(self.name, look, self.suffixes)
                if self.signature is not None and (seen is None or seen.found):
                    return seen
                return self.load().recognise(look, options)
        except HostileError as error:
            return Evidence(self.name, "by its name or its first bytes", missing_of(error))

    def read(self, look: Look, given: Mapping[str, Any], parsed: Any = None) -> Source:
        """Return the source, from what `recognise` `parsed`; raises the errors of its module's `read`."""
        options = of_reader(self.options, given)
        return self.load().read(look, options, *([] if parsed is None else [parsed]))

    def load(self) -> ReaderModule:
        """Import the module, if needed, and return it."""
        return self.module() if callable(self.module) else self.module

    def may_fit(self, look: Look, given: Collection[str] = ()) -> bool:
        """Return whether this reader might read the files, judging by names and, for a single file, by its first bytes.

        `given`: names of options. If `images` is among them, the images are in another folder, and the file names need
        not match `names`.
        """
        if not look.is_folder:
            named = bool(self.suffixes) and look.paths[0].lower().endswith(self.suffixes)
            return named or self.kinds is None or look.kind in self.kinds
        if not self.suffixes and self.names is None:
            return not look.holds_only_images
        if self.suffixes and not any(name.endswith(self.suffixes) for name in look.suffixes):
            return False
        return self.names is None or "images" in given or any(map(self.names.search, look.suffixes))


_NAMES = frozenset({"class_names"})
_OF_TEXT = frozenset({"encoding"})  # also names in archives: every reader takes it
_OF_ANNOTATIONS = frozenset({"images", "tasks", "boxes_on"}) | _OF_TEXT
_OF_BOXES = _OF_ANNOTATIONS | _NAMES | {"unit"}
_OF_TABLES = frozenset({"delimiter"}) | _OF_TEXT
_GROUPS = frozenset({"group_column"})
_OF_COLUMNS = frozenset({"columns", "unlabelled", "label_offset", "label_map"}) | _NAMES | _GROUPS | _OF_TEXT
_OF_RECORDS = _OF_COLUMNS | {"unit", "one_hot", "label_separator"}
_OF_LABEL_FILES = frozenset(LabelOptions.__dataclass_fields__) - {"pattern"}
_OF_UNNAMED = _OF_COLUMNS - _GROUPS  # which would be columns
_OF_PIXELS = _OF_COLUMNS | {"label_columns", "split_column"}
_OF_FOLDERS = frozenset({"pattern", "unlabelled"}) | _NAMES | _OF_TEXT

_CSV_ENDS = (".csv", ".tsv", ".tab")
_TABLE_ENDS = (*_CSV_ENDS, ".txt", ".token")
_KEYED_ENDS = (".json", ".jsonl", ".ndjson", ".parquet")
_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_IMAGE_ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_TAR_ENDS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")


def _module(name: str) -> Any:
    """Import the `ReaderModule` of a reader in this list; here and not above, as few of them fit a path."""
    match name:
        case "webdataset":
            from shardfeed.converters.sources import webdataset as module
        case "parquet":
            from shardfeed.converters.sources import parquet as module
        case "tfrecord":
            from shardfeed.converters.sources import tfrecord as module
        case "arrayrecord":
            from shardfeed.converters.sources.rare import arrayrecord as module
        case "mds":
            from shardfeed.converters.sources.rare import mds as module
        case "npz":
            from shardfeed.converters.sources.rare import npz as module
        case "hdf5":
            from shardfeed.converters.sources.rare import hdf5 as module
        case "mat":
            from shardfeed.converters.sources.rare import mat as module
        case "idx":
            from shardfeed.converters.sources.rare import idx as module
        case "cifar":
            from shardfeed.converters.sources.rare import cifar as module
        case "stl10":
            from shardfeed.converters.sources.rare import stl10 as module
        case "lmdb":
            from shardfeed.converters.sources.rare import lmdb as module
        case "coco":
            from shardfeed.converters.sources.annotations import coco_reader as module
        case "yolo":
            from shardfeed.converters.sources.annotations import yolo_reader as module
        case "voc":
            from shardfeed.converters.sources.annotations import voc_reader as module
        case "kitti":
            from shardfeed.converters.sources.annotations import kitti as module
        case "dota":
            from shardfeed.converters.sources.annotations import dota as module
        case "masks":
            from shardfeed.converters.sources.annotations import masks_reader as module
        case "caption-files":
            from shardfeed.converters.sources.annotations import caption_files as module
        case "split-lists":
            from shardfeed.converters.sources.annotations import split_lists as module
        case "boxes-csv":
            from shardfeed.converters.sources.annotations import boxes_csv as module
        case "classes-csv":
            from shardfeed.converters.sources.annotations import classes_csv as module
        case "captions":
            from shardfeed.converters.sources.annotations import captions as module
        case "imagefolder":
            from shardfeed.converters.sources.annotations import imagefolder as module
        case "labelme":
            from shardfeed.converters.sources.annotations import labelme as module
        case "via":
            from shardfeed.converters.sources.annotations import via as module
        case "label-studio":
            from shardfeed.converters.sources.annotations import label_studio as module
        case "cvat":
            from shardfeed.converters.sources.annotations import cvat as module
        case "createml":
            from shardfeed.converters.sources.annotations import createml as module
        case "supervisely":
            from shardfeed.converters.sources.annotations import supervisely as module
        case "fiftyone":
            from shardfeed.converters.sources.annotations import fiftyone as module
        case "sagemaker":
            from shardfeed.converters.sources.annotations import sagemaker as module
        case "pixels-csv":
            from shardfeed.converters.sources.rare import pixels_csv as module
        case "labels":
            from shardfeed.converters.sources.rows import label_file as module
        case "folder":
            from shardfeed.converters.sources import image_folder as module
        case _:
            raise LookupError(name)
    return module


def _samples(name: str, takes: Collection[str], *suffixes: str, **more: Any) -> Reader:
    """A reader of files of many samples."""
    return Reader(name, partial(_module, name), ColumnOptions, takes, suffixes, **{"kinds": (), **more})


def _annotations(name: str, takes: Collection[str], *suffixes: str, **more: Any) -> Reader:
    """A reader of annotations next to images, selected by include and exclude."""
    more = {"chooses_files": True, "kinds": (), **more}
    return Reader(name, partial(_module, name), AnnotationOptions, takes, suffixes, **more)


_RECORDS = re.compile(r"\.(tfr|record)|[-_]of[-_]\d|^part-([rm]-)?\d")
_ARRAY_RECORDS = re.compile(r"array_?record")
# Words in names of folders of masks, and at the end of names of masks next to images; the reader checks further.
_MASKS = re.compile(
    rf"({'|'.join(re.escape(name.decode()) for name in sorted(MASK_FOLDERS))})[^/]*/"
    rf"|[-_.]({MASK_WORD.decode()})[a-z]*\."
)
# Karpathy's, or JSON Lines; not COCO's, which may be one line.
_NO_JSON_BUT = signature_of(
    "",
    begins=rb'(?:\xef\xbb\xbf)?\s*(?:[^\s{]|\Z|(?=.*"sentences")(?=.*"raw")'
    rb'|(?![^\n]*"annotations")\{[^\n]*\}[ \t\r]*(?:\n|\Z))',
)

READERS: tuple[Reader, ...] = (
    _samples("webdataset", _OF_RECORDS, *_TAR_ENDS, kinds=("tar",)),
    _samples("parquet", _OF_RECORDS, ".parquet", ".pq", kinds=("parquet",)),
    _samples("tfrecord", _OF_RECORDS, kinds=("other",), names=_RECORDS),
    _samples("arrayrecord", _OF_RECORDS, kinds=("other",), names=_ARRAY_RECORDS),
    _samples("mds", _OF_RECORDS, "index.json"),
    _samples("npz", _OF_COLUMNS, ".npz", ".npy"),
    _samples("hdf5", _OF_COLUMNS, ".h5", ".hdf5", ".hdf", ".he5", kinds=("hdf5",)),
    _samples("mat", _OF_COLUMNS, ".mat"),
    _samples("idx", _OF_UNNAMED, "ubyte", "ubyte.gz"),
    _samples("cifar", _OF_UNNAMED, ".bin", "batches.meta", "meta", "train"),
    _samples("stl10", _OF_UNNAMED, ".bin"),
    _samples("lmdb", _OF_UNNAMED, ".mdb", ".lmdb", kinds=("lmdb",)),
    _annotations("coco", _OF_ANNOTATIONS | {"unit"} | _GROUPS, ".json"),
    _annotations("yolo", _OF_BOXES, ".yaml", ".yml", ".txt", ".data"),
    _annotations("voc", _OF_BOXES | {"voc_origin"} | _GROUPS, ".xml"),
    _annotations("kitti", _OF_BOXES - {"images"}, ".txt"),
    _annotations("dota", _OF_BOXES - {"images"}, ".txt"),
    _annotations("masks", _OF_ANNOTATIONS | _NAMES | {"colours", "void"}, *_IMAGE_ENDS, names=_MASKS),
    _annotations("boxes-csv", _OF_BOXES | _OF_TABLES | _GROUPS, *_CSV_ENDS, "bbx_gt.txt", kinds=("other",)),
    _annotations("classes-csv", _OF_ANNOTATIONS | _NAMES | _OF_TABLES, "_classes.csv", kinds=("other",)),
    _annotations("captions", _OF_ANNOTATIONS | _OF_TABLES, *_TABLE_ENDS, *_KEYED_ENDS, signature=_NO_JSON_BUT),
    _annotations("imagefolder", _OF_BOXES | _OF_TABLES | _GROUPS, *_METADATA),
    _annotations("caption-files", _OF_ANNOTATIONS, ".txt", ".caption"),
    *(
        _annotations(name, _OF_BOXES.union(one.takes), *one.suffixes, signature=one.signature)
        for name, one in TOOLS.items()
    ),
    _annotations("split-lists", _NAMES | _OF_TEXT, ".txt"),
    Reader("pixels-csv", partial(_module, "pixels-csv"), PixelOptions, _OF_PIXELS, (".csv",), kinds=()),
    # Images with their labels in names or in a table: used if no other reader fits.
    Reader("labels", partial(_module, "labels"), LabelOptions, _OF_LABEL_FILES, chooses_files=True),
    Reader("folder", partial(_module, "folder"), LabelOptions, _OF_FOLDERS, chooses_files=True, kinds=()),
)
PLAIN = ("labels", "folder")
_OF_PLAIN = (LabelOptions, PixelOptions)  # of readers whose options others do not have
BY_NAME = {one.name: one for one in READERS}


@dataclass(frozen=True)
class PackageReader(Reader):
    """A reader of an installed package: what its code raises or returns is an error that names the package."""

    plugin: Plugin | None = None

    @classmethod
    def of(cls, plugin: Plugin) -> "PackageReader":
        """Import it. Raises UsageError."""
        found = plugin.load(f"a Reader named {plugin.name!r}", lambda found: _is_sound(found, plugin.name))
        return cls(**{one.name: getattr(found, one.name) for one in fields(Reader)}, plugin=plugin)

    def load(self) -> ReaderModule:
        """Import its module; a recursion without end of its functions is the package's fault, not the file's."""
        module = super().load()
        functions = {name: self._named(module, name) for name in ("recognise", "read")}
        return cast(ReaderModule, SimpleNamespace(**functions))

    def _named(self, module: ReaderModule, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            assert self.plugin is not None
            try:
                return getattr(module, name)(*arguments)
            except RecursionError as error:
                raise self.plugin.error(f"is not used: {words(error)} ({place(error)})") from error

        return call

    def fit(self, look: Look, given: Mapping[str, Any]) -> Evidence | None:
        """Return its evidence if it may fit and takes all options, else None. Raises UsageError if its code fails."""
        assert self.plugin is not None
        with self.plugin.blamed(said="is not used:"):
            if not given.keys() <= set(self.takes) or not self.may_fit(look, given):
                return None
            evidence = self.recognise(look, given)
        if evidence is None:
            return None
        if not isinstance(evidence, Evidence) or not all(isinstance(text, str) for text in evidence.texts):
            raise self.plugin.error(f"returned {escape(repr(evidence)[:60])} from recognise, expected Evidence or None")
        return replace(evidence, name=self.name, found=printable(evidence.found), missing=printable(evidence.missing))

    def read(self, look: Look, given: Mapping[str, Any], parsed: Any = None) -> Source:
        """Return the source. Raises UsageError, which names the package, if its code fails."""
        assert self.plugin is not None
        with self.plugin.blamed():
            with guarded(look.path):
                source = super().read(look, given, parsed)
            if isinstance(source, Source):
                return source
        problem = f"returned {escape(type(source).__name__)} from read, expected a Source"
        raise self.plugin.error(problem)


def _is_sound(found: Any, name: str) -> bool:
    """Whether what a package offers is a reader of this name, whose fields are what they are to be."""
    if not isinstance(found, Reader) or found.name != name:
        return False
    texts = all(isinstance(text, str) for text in (*found.takes, *found.suffixes, *(found.kinds or ())))
    return texts and isclass(found.options) and issubclass(found.options, get_args(Options))


def reader_named(name: str) -> Reader:
    """Return our reader of this name, or an installed package's. Raises UsageError."""
    if name in BY_NAME:
        return BY_NAME[name]
    theirs = installed("reader", BY_NAME)
    if name not in theirs:
        problem = f"got {name!r}, expected one of {', '.join([*BY_NAME, *theirs])}"
        raise UsageError("reader", problem, "leave it out: the format is detected")
    return PackageReader.of(theirs[name])


def fits_of_packages(look: Look, given: Mapping[str, Any]) -> Iterator[tuple[Reader, Evidence]]:
    """Yield the readers of installed packages that fit; a fault of a package is a warning, and stops no other one."""
    for plugin in installed("reader", BY_NAME).values():
        try:
            reader = PackageReader.of(plugin)
            evidence = reader.fit(look, given)
        except Exception as error:
            known = isinstance(error, UsageError)
            problem = f"{error.problem}; {error.remedy}" if known else f"{plugin.called} is not used: {words(error)}"
            warn_user(problem)
            continue
        if evidence is not None and not evidence.missing:
            yield reader, evidence


# Ends of names of files of many samples, in lower case. They are known by their content, but one may be broken; a
# .parquet may be a label file.
_NO_SIGN = (".parquet", *_TAR_ENDS[1:])
_ENDS = (end for one in READERS if one.options is ColumnOptions for end in one.suffixes)
RECORD_ENDS = (".tfrecord", ".tfrecords", ".tfrec", ".array_record", ".arrayrecord")
SAMPLE_ENDS = (
    *RECORD_ENDS,
    *(end for end in _ENDS if end.startswith(".") and end not in _NO_SIGN),
)
ARCHIVE_ENDS = (".zip", *_TAR_ENDS[1:], ".tbz", ".tbz2", ".txz")
_SOURCE = "read it with your own Source, a class with two methods: see docs/your-own-source.md"
# Extensions of files that are neither images nor label files -> what the file is, and what to do.
REFUSED = (
    ((".zip", *_TAR_ENDS), "an archive", "give it as SOURCE, which is unpacked, or unpack the file you need"),
    ((".7z", ".rar"), "an archive", "unpack it into a folder, and give that: 7z x FILE -oFOLDER"),
    ((".arrow", ".feather", ".pkl", ".pickle", ".pt", ".pth"), "a file of samples in an unsupported format", _SOURCE),
    ((".xlsx", ".xls", ".ods"), "a spreadsheet", "save it as CSV"),
    (
        tuple(end for end in SAMPLE_ENDS if end != ".pq"),
        "a file of many samples",
        "give it as the only source: it contains its labels",
    ),
)


def recognise(look: Look, values: Mapping[str, Any]) -> Sequence[Evidence]:
    """Return the evidence of every reader that fits the path, or nearly fits it. `values`: options given by the user.

    Readers that take all of the options are meant before those that do not. Where an option is one that only plain
    readers have, no other is asked but those that take all of them.
    """
    taken_by_others = {name for one in READERS if one.options not in _OF_PLAIN for name in one.takes}
    plain = not values.keys() <= taken_by_others or isinstance(values.get("class_names"), Mapping)
    found: list[tuple[bool, Evidence]] = []
    for one in READERS:
        if plain and (one.name in PLAIN or one.options not in _OF_PLAIN or not set(values) <= set(one.takes)):
            continue
        if one.name == "captions" and not {"unlabelled", "class_names"}.isdisjoint(values):
            continue  # the user says what else a table with texts is
        if one.name != "labels" and one.may_fit(look, values):
            taken = {name: value for name, value in values.items() if name in one.takes}
            evidence = one.recognise(look, taken)
            if evidence is not None:
                takes_all = len(taken) == len(values)
                if takes_all and evidence.sure and not evidence.missing:
                    return [evidence]
                found.append((takes_all, evidence))
    able = [evidence for takes_all, evidence in found if takes_all]
    if look.is_folder and "unlabelled" in values:  # images alone, whatever annotates them
        return able
    return able or [evidence for _, evidence in found]

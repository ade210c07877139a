"""Interface of a reader; the one list of readers, and the list of known file types that are not read."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from shardfeed.converters.sources.guard import HostileError, guarded
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import (
    AnnotationOptions,
    ColumnOptions,
    LabelOptions,
    Options,
    PixelOptions,
    of_reader,
)
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError, escape

_HERE = "shardfeed.converters.sources"


@dataclass(frozen=True)
class Evidence:
    """Evidence that a path fits a reader.

    `found`: what was found, as text. `missing`: files or options that are still needed, as text. `name`: the reader's
    name, as in `--reader`. `sure`: whether the evidence excludes all other readers, whatever they find.

    Example:
        def recognise(look, options):
            return Evidence("boxes", "lines of an image and its boxes") if look.first((".boxes",)) else None
    """

    name: str
    found: str
    missing: str = ""
    sure: bool = False


class ReaderModule(Protocol):
    """The functions that the module of a reader has; `options` is of the class that its `Reader` names."""

    def recognise(self, look: Look, options: Any) -> Evidence | None:
        """Return evidence from the content of the path that this reader fits, cheaply; None if it does not."""
        ...

    def read(self, look: Look, options: Any) -> Source:
        """Return the source. Raises UsageError, LabelFileError, StorageError, MissingExtraError."""
        ...


def missing_of(error: ShardfeedError) -> str:
    """Return problem and remedy of the error of an unreadable input, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: its arguments are formatted later, for Python or the command line
    return f"{problem}; {remedy}" if remedy else problem


@dataclass(frozen=True)
class Marks:
    """The beginning of a reader's files: `begins` matches their first bytes.

    `found`: the evidence in words, with {} for the name of such a file, where that is enough to know the reader.
    `beside`: name of a folder that must be next to the file, if a folder is read. `inside`: name of the folder of the
    file.
    """

    begins: re.Pattern[bytes]
    found: str = ""
    beside: str = ""
    inside: str = ""

    def first(self, look: Look, suffixes: tuple[str, ...]) -> str:
        """Return the path of the first matching file; "" if there is none."""
        for name in look.files(suffixes):
            inside = not self.inside or os.path.basename(os.path.dirname(name)) == self.inside
            if inside and self.begins.match(look.head(look.full(name))):
                return look.full(name)
        return ""

    def evidence(self, name: str, look: Look, suffixes: tuple[str, ...]) -> Evidence | None:
        """Evidence for the reader `name`, by its first file; None without such a file."""
        path = self.first(look, suffixes)
        alone = self.beside and not os.path.isdir(os.path.join(os.path.dirname(path), self.beside))
        if not path or (alone and look.is_folder):
            return None
        return Evidence(name, self.found.format(escape(os.path.basename(path))))


def _marks(found: str, *words: bytes, begins: bytes = b"", beside: str = "", inside: str = "") -> Marks:
    """Marks of a file that begins so, and has each of these words, or of `a|b` one, somewhere in its first bytes."""
    every = b"".join(b"(?=.*(?:%s))" % word for word in words)
    return Marks(re.compile(b"(?:%s)%s" % (begins, every), re.DOTALL), found, beside, inside)


@dataclass(frozen=True)
class Reader:
    """A reader of one format, for `open_source`.

    Its module is imported only if the path may fit according to `Look`, or if the user chose the reader.

    Attributes:
        name: the value for `--reader`, or `reader=` in Python.
        module: a module with `recognise` and `read`, or its name below `shardfeed.converters.sources`. With `marks`,
            `read` is enough.
        options: the class of its options.
        takes: the names of the options that the reader accepts; all others are refused.
        suffixes: suffixes of file names, in lower case; a folder must have a file with one of them. Empty: any suffix
            except those of images.
        chooses_files: whether the reader supports include, exclude and follow_links.
        kinds: kinds of files by their first bytes (`Look.kind`); a file of a different kind must have one of
            `suffixes`. None: any kind.
        names: a regular expression that must also match one of the names in the folder (`Look.suffixes`).
        marks: requirements on the first bytes of a file, in addition to its name.

    Example:
        module = SimpleNamespace(recognise=recognise, read=read)
        reader = Reader("boxes", module, AnnotationOptions, takes={"images", "class_names"}, suffixes=(".boxes",))
        source = open_source("all.boxes", reader=reader)
    """

    name: str
    module: str | ReaderModule
    options: type[Options]
    takes: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    chooses_files: bool = False
    kinds: tuple[str, ...] | None = None
    names: re.Pattern[str] | None = None
    marks: Marks | None = None

    def recognise(self, look: Look, given: Mapping[str, Any]) -> Evidence | None:
        """Return evidence that this reader fits the path, or None; `given`: options by name, all known to the reader.

        If a library reports that the path is damaged, the evidence contains this report in `missing`.
        """
        options = of_reader(self.options, given)
        try:
            with guarded(look.path):
                seen = None if self.marks is None else self.marks.evidence(self.name, look, self.suffixes)
                if self.marks is not None and (seen is None or seen.found):
                    return seen
                return self.load().recognise(look, options)
        except HostileError as error:
            return Evidence(self.name, "by its name or its first bytes", missing_of(error))

    def read(self, look: Look, given: Mapping[str, Any]) -> Source:
        """Return the source; raises the errors of its module's `read`."""
        options = of_reader(self.options, given)
        return self.load().read(look, options)

    def load(self) -> ReaderModule:
        """Import the module, if needed, and return it."""
        if not isinstance(self.module, str):
            return self.module
        return cast("ReaderModule", import_module(f"{_HERE}.{self.module}"))

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
_OF_ANNOTATIONS = frozenset({"images", "tasks", "boxes_on"})
_OF_BOXES = _OF_ANNOTATIONS | _NAMES | {"unit"}
_OF_TABLES = frozenset({"delimiter", "encoding"})
_GROUPS = frozenset({"group_column"})
_CLASS = frozenset({"label_columns"})
_OF_COLUMNS = frozenset({"columns", "unlabelled", "label_offset", "label_map"}) | _NAMES | _GROUPS
_OF_RECORDS = _OF_COLUMNS | {"unit", "one_hot", "label_separator"}
_OF_LABEL_FILES = frozenset(LabelOptions.__dataclass_fields__) - {"pattern"}
_OF_UNNAMED = _OF_COLUMNS - _GROUPS  # which would be columns
_OF_PIXELS = _OF_COLUMNS | {"label_columns", "split_column"}
_OF_FOLDERS = frozenset({"pattern", "unlabelled"}) | _NAMES

_TABLE_ENDS = (".csv", ".tsv", ".tab", ".txt", ".token")
_KEYED_ENDS = (".json", ".jsonl", ".ndjson", ".parquet")
_IMAGE_ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_TAR_ENDS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")


def _samples(name: str, module: str, takes: Collection[str], *suffixes: str, **more: Any) -> Reader:
    """A reader of files of many samples."""
    return Reader(name, f"containers.{module}", ColumnOptions, takes, suffixes, **{"kinds": (), **more})


def _annotations(name: str, module: str, takes: Collection[str], *suffixes: str, **more: Any) -> Reader:
    """A reader of annotations next to images, selected by include and exclude."""
    more = {"chooses_files": True, "kinds": (), **more}
    return Reader(name, f"annotations.{module}", AnnotationOptions, takes, suffixes, **more)


def _tool(
    name: str, found: str, *ends: str, words: Sequence[bytes] = (), more: Collection[str] = (), **begin: Any
) -> Reader:
    """A reader of the files of an annotation tool; `more`: options that it takes besides those of boxes."""
    marks, module = _marks(found, *words, **begin), f"tools.{name.replace('-', '_')}"
    return _annotations(name, module, {*_OF_BOXES, *more}, *ends, marks=marks)


_RECORDS = re.compile(r"\.(tfr|record)|[-_]of[-_]\d|^part-([rm]-)?\d")
_ARRAY_RECORDS = re.compile(r"array_?record")
# Words in names of folders of masks, and at the end of names of masks next to images; the reader checks further.
_MASKS = re.compile(
    r"(mask|label|annot|seg|gt|truth|target|trimap|matte|manual)[^/]*/"
    r"|[-_.](mask|label|annot|gt|groundtruth|seg|trimap|matte)[a-z]*\."
)
# Karpathy's, or JSON Lines; not COCO's, which may be one line.
_NO_JSON_BUT = _marks(
    "",
    begins=rb'(?:\xef\xbb\xbf)?\s*(?:[^\s{]|\Z|(?=.*"sentences")(?=.*"raw")'
    rb'|(?![^\n]*"annotations")\{[^\n]*\}[ \t\r]*(?:\n|\Z))',
)

READERS: tuple[Reader, ...] = (
    _samples("webdataset", "webdataset", _OF_RECORDS, *_TAR_ENDS, kinds=("tar",)),
    _samples("parquet", "parquet", _OF_RECORDS, ".parquet", ".pq", kinds=("parquet",)),
    _samples("tfrecord", "records.tfrecord", _OF_RECORDS, kinds=("other",), names=_RECORDS),
    _samples("arrayrecord", "records.arrayrecord", _OF_RECORDS, kinds=("other",), names=_ARRAY_RECORDS),
    _samples("mds", "mds", _OF_RECORDS, "index.json"),
    _samples("npz", "arrays.npz", _OF_COLUMNS, ".npz", ".npy"),
    _samples("hdf5", "arrays.hdf5", _OF_COLUMNS, ".h5", ".hdf5", ".hdf", ".he5", kinds=("hdf5",)),
    _samples("mat", "arrays.mat", _OF_COLUMNS, ".mat"),
    _samples("idx", "arrays.idx", _OF_UNNAMED, "ubyte", "ubyte.gz"),
    _samples("cifar", "arrays.cifar", _OF_UNNAMED, ".bin", "batches.meta", "meta", "train"),
    _samples("stl10", "arrays.stl10", _OF_UNNAMED, ".bin"),
    _samples("lmdb", "lmdb", _OF_UNNAMED, ".mdb", ".lmdb", kinds=("lmdb",)),
    _annotations("coco", "coco", _OF_ANNOTATIONS | {"unit"} | _GROUPS, ".json"),
    _annotations("yolo", "yolo.reader", _OF_BOXES, ".yaml", ".yml", ".txt", ".data"),
    _annotations("voc", "voc", _OF_BOXES | {"voc_origin", "encoding"} | _GROUPS, ".xml"),
    _annotations("kitti", "kitti", _OF_BOXES - {"images"}, ".txt"),
    _annotations("masks", "masks.reader", _OF_ANNOTATIONS | _NAMES | {"colours", "void"}, *_IMAGE_ENDS, names=_MASKS),
    _annotations(
        *("boxes-csv", "tables.boxes_csv", _OF_BOXES | _OF_TABLES | _GROUPS, ".csv", ".tsv", ".tab", "bbx_gt.txt"),
        kinds=("other",),
    ),
    _annotations(
        *("classes-csv", "tables.classes_csv", _OF_ANNOTATIONS | _NAMES | _OF_TABLES, "_classes.csv"), kinds=("other",)
    ),
    _annotations(
        *("captions", "tables.captions", _OF_ANNOTATIONS | _OF_TABLES, *_TABLE_ENDS, *_KEYED_ENDS), marks=_NO_JSON_BUT
    ),
    _annotations(
        *("imagefolder", "tables.imagefolder", _OF_BOXES | _OF_TABLES | _GROUPS),
        *("metadata.jsonl", "metadata.csv", "metadata.parquet"),
    ),
    _annotations("caption-files", "tables.caption_files", _OF_ANNOTATIONS | {"encoding"}, ".txt", ".caption"),
    _tool("labelme", "{} has shapes, as LabelMe saves them", ".json", words=(b'"shapes"', b'"imagePath"|"flags"')),
    _tool(
        *("via", "{} has regions, as VIA saves them", ".json", ".csv"),
        begins=rb'(?=.*"shape_attributes")(?=.*"filename")|filename,file_size,file_attr',
        more=_CLASS,
    ),
    _tool(
        *("label-studio", "{} has tasks, as Label Studio exports them", ".json", ".csv"),
        begins=rb'(?=.*"annotations")(?=.*"data")(?=.*(?:"result"|"file_upload"))'
        rb'|(?=\s*\[)(?=.*"annotator")(?=.*"id")|(?=[^\n]*annotator)(?=[^\n]*annotation_id|.*rectanglelabels)',
        more=_CLASS,
    ),
    _tool(
        *("cvat", "{} begins with <annotations>, as in CVAT", ".xml"),
        words=(b"<image |<track |<meta>",),
        begins=b"(?=.{0,387}<annotations>)",
        more=_GROUPS,
    ),
    _tool(
        *("createml", "{} is a list of images with coordinates", ".json"),
        words=(b'"image"', b'"annotations"', b'"coordinates"', b'"label"'),
        begins=rb"(?=[\xef\xbb\xbf\s]*\[)",
    ),
    _tool(
        *("supervisely", "{} has objects, as Supervisely saves them", ".json"),
        words=(b'"objects"', b'"size"', b'"classTitle"|"description"'),
        inside="ann",
    ),
    _tool(
        *("fiftyone", "{} has labels, as FiftyOne exports them", "samples.json", "labels.json"),
        begins=rb'(?=\s*\{.{0,190}"samples")(?=.*"filepath")'
        rb'|(?!\s*.{0,190}"images")(?=\s*.{0,190}"classes")(?=.*"labels")',
        beside="data",
        more=_GROUPS | _CLASS,
    ),
    _tool(
        *("sagemaker", "{} names images as source-ref, as SageMaker Ground Truth does"),
        *(".manifest", ".jsonl", ".json"),
        words=(b'"source-ref"',),
        begins=rb"\s*\{",
        more={"encoding"},
    ),
    _annotations("split-lists", "split_lists", _NAMES, ".txt"),
    Reader("pixels-csv", "containers.pixels_csv", PixelOptions, _OF_PIXELS, (".csv",), kinds=()),
    # Images with their labels in names or in a table: used if no other reader fits.
    Reader("labels", "labels.label_file", LabelOptions, _OF_LABEL_FILES, chooses_files=True),
    Reader("folder", "folders.image_folder", LabelOptions, _OF_FOLDERS, chooses_files=True, kinds=()),
)
PLAIN = ("labels", "folder")
BY_NAME = {one.name: one for one in READERS}

# Ends of names of files of many samples, in lower case. They are known by their content, but one may be broken; a
# .parquet may be a label file.
_NO_SIGN = (".parquet", *_TAR_ENDS[1:])
_ENDS = (end for one in READERS if one.options is ColumnOptions for end in one.suffixes)
SAMPLE_ENDS = (
    *(".tfrecord", ".tfrecords", ".tfrec", ".array_record", ".arrayrecord"),
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

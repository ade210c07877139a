"""The one list of readers, and of files that are known and not read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from shardfeed.converters.sources.guard import HostileError, guarded
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, ColumnOptions, LabelOptions, Options
from shardfeed.converters.sources.reader import Evidence, ReaderModule, missing_of
from shardfeed.converters.sources.source import Source

_HERE = "shardfeed.converters.sources"


@dataclass(frozen=True)
class Reader:
    """One reader. It is imported when a name in the folder ends in one of its suffixes, or when it is asked for.

    Attributes:
        name: as `--from` takes it, in Python `reader=`.
        module: with `recognise` and `read`: its name below `shardfeed.converters.sources`, or itself.
        options: the class of its options.
        takes: the names of those options that it takes; any other is refused.
        suffixes: ends of file names, in lower case, one of which must be in a folder; empty: any that is no image's.
        chooses_files: whether include, exclude and follow_links mean something to it.
    """

    name: str
    module: str | ReaderModule
    options: type[Options]
    takes: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    chooses_files: bool = False

    def recognise(self, look: Look, given: Mapping[str, Any]) -> Evidence | None:
        """Whether the path is meant; `given`: options by name, all of which it takes.

        That the path is damaged is what it lacks, where a library says so.
        """
        options = self.options(**given)
        try:
            with guarded(look.path):
                return self.load().recognise(look, options)
        except HostileError as error:
            return Evidence(self.name, "by its name or its first bytes", missing_of(error))

    def read(self, look: Look, given: Mapping[str, Any]) -> Source:
        """The source; raises what its module does."""
        options = self.options(**given)
        return self.load().read(look, options)

    def load(self) -> ReaderModule:
        """The module."""
        if not isinstance(self.module, str):
            return self.module
        return cast("ReaderModule", import_module(f"{_HERE}.{self.module}"))

    def may_be(self, look: Look) -> bool:
        """Whether names tell that this reader might be meant, before its module is imported; of a file only its content
        tells."""
        if not look.is_folder:
            return True
        if not self.suffixes:
            return not look.holds_images_alone
        return any(name.endswith(self.suffixes) for name in look.suffixes)


_NAMES = frozenset({"class_names"})
_OF_ANNOTATIONS = frozenset({"images", "tasks", "boxes_on"})
_OF_BOXES = _OF_ANNOTATIONS | _NAMES | {"unit"}
_OF_TABLES = frozenset({"delimiter", "encoding"})
_OF_COLUMNS = frozenset({"columns", "unlabelled", "label_offset", "label_map"}) | _NAMES
_OF_RECORDS = _OF_COLUMNS | {"unit"}
_OF_LABEL_FILES = frozenset(LabelOptions.__dataclass_fields__) - {"pattern"}
_OF_PIXELS = frozenset({"label_columns", "split_column", "unlabelled"}) | _NAMES
_OF_FOLDERS = frozenset({"pattern", "unlabelled"}) | _NAMES

_TABLE_ENDS = (".csv", ".tsv", ".tab", ".txt", ".token")
_IMAGE_ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_TAR_ENDS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")


def _samples(name: str, module: str, takes: Collection[str], *suffixes: str) -> Reader:
    """A reader of files of many samples."""
    return Reader(name, f"containers.{module}", ColumnOptions, takes, suffixes)


def _annotations(name: str, module: str, takes: Collection[str], *suffixes: str) -> Reader:
    """A reader of annotations beside images, of which include and exclude choose some."""
    return Reader(name, f"annotations.{module}", AnnotationOptions, takes, suffixes, chooses_files=True)


def _tool(name: str, *suffixes: str) -> Reader:
    """A reader of the files of an annotation tool."""
    module = f"annotations.tools.{name.replace('-', '_')}"
    return Reader(name, module, AnnotationOptions, _OF_BOXES, suffixes, chooses_files=True)


READERS: tuple[Reader, ...] = (
    _samples("webdataset", "webdataset", _OF_RECORDS, *_TAR_ENDS),
    _samples("parquet", "parquet", _OF_RECORDS, ".parquet", ".pq"),
    _samples("tfrecord", "records.tfrecord", _OF_RECORDS),
    _samples("arrayrecord", "records.arrayrecord", _OF_RECORDS),
    _samples("mds", "mds.reader", _OF_RECORDS, "index.json"),
    _samples("npz", "arrays.npz", _OF_COLUMNS, ".npz", ".npy"),
    _samples("hdf5", "arrays.hdf5", _OF_COLUMNS, ".h5", ".hdf5", ".hdf", ".he5"),
    _samples("mat", "arrays.mat", _OF_COLUMNS, ".mat"),
    _samples("idx", "arrays.idx", _OF_COLUMNS, "ubyte", "ubyte.gz"),
    _samples("cifar", "arrays.cifar", _OF_COLUMNS, ".bin", "batches.meta", "meta", "train"),
    _samples("stl10", "arrays.stl10", _OF_COLUMNS, ".bin"),
    _samples("lmdb", "lmdb.reader", _OF_COLUMNS, ".mdb", ".lmdb"),
    _annotations("coco", "coco", _OF_ANNOTATIONS | {"unit"}, ".json"),
    _annotations("yolo", "yolo.reader", _OF_BOXES, ".yaml", ".yml", ".txt", ".data"),
    _annotations("voc", "voc", _OF_BOXES | {"voc_origin", "encoding"}, ".xml"),
    _annotations("kitti", "kitti", _OF_BOXES - {"images"}, ".txt"),
    _annotations("masks", "masks", _OF_ANNOTATIONS | _NAMES | {"colours", "void"}, *_IMAGE_ENDS),
    _annotations("boxes-csv", "tables.boxes_csv", _OF_BOXES | _OF_TABLES, ".csv", ".tsv", ".tab", "bbx_gt.txt"),
    _annotations("classes-csv", "tables.classes_csv", _OF_ANNOTATIONS | _NAMES | _OF_TABLES, "_classes.csv"),
    _annotations("captions", "tables.captions", _OF_ANNOTATIONS | _OF_TABLES, *_TABLE_ENDS, ".json"),
    _annotations("imagefolder", "tables.imagefolder", _OF_BOXES | _OF_TABLES, "metadata.jsonl", "metadata.csv"),
    _tool("labelme", ".json"),
    _tool("via", ".json", ".csv"),
    _tool("label-studio", ".json", ".csv"),
    _tool("cvat", ".xml"),
    _tool("createml", ".json"),
    _tool("supervisely", ".json"),
    _tool("fiftyone", "samples.json", "labels.json"),
    _annotations("split-lists", "split_lists", _NAMES, ".txt"),
    Reader("pixels-csv", "containers.pixels_csv", LabelOptions, _OF_PIXELS, (".csv",)),
    # Images with their labels in names or in a table: what is read where no other reader is meant.
    Reader("labels", "labels.reader", LabelOptions, _OF_LABEL_FILES, chooses_files=True),
    Reader("folder", "folders.reader", LabelOptions, _OF_FOLDERS, chooses_files=True),
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
_SOURCE = "read it in a Source of your own, which is a class with two methods: see docs/your-own-source.md"
# Ends of names of files that are neither images nor a label file; what such a file is, and what to do.
REFUSED = (
    ((".zip", *_TAR_ENDS), "an archive", "give it as SOURCE, where it is unpacked, or unpack the file that is meant"),
    ((".7z", ".rar"), "an archive", "unpack it into a folder, and give that: 7z x FILE -oFOLDER"),
    ((".arrow", ".feather", ".pkl", ".pickle", ".pt", ".pth"), "a file of samples in a form of its own", _SOURCE),
    ((".xlsx", ".xls", ".ods"), "a spreadsheet", "save it as CSV"),
    (
        tuple(end for end in SAMPLE_ENDS if end != ".pq"),
        "a file of many samples",
        "give it alone: its labels are in it",
    ),
)

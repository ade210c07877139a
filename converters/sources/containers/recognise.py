"""Which reader of containers fits what a user points at, by its content."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from shardfeed.converters.sources.annotations.recognise import Evidence, asked
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.containers.packed.part_source import PartSource
from shardfeed.converters.sources.files.glance import Glance

# What `--from` takes; the module beside this one that has the reader, imported when it is needed; and what names in a
# folder end in of which one must be there, where the reader would look through all of them.
_READERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("webdataset", "webdataset.reader", ()),
    ("parquet", "parquet.reader", ()),
    ("tfrecord", "records.tfrecord", ()),
    ("arrayrecord", "records.arrayrecord", ()),
    ("mds", "mds.reader", ("index.json", "/")),
    ("npz", "arrays.npz", (".npz", ".npy")),
    ("hdf5", "arrays.hdf5", (".h5", ".hdf5", ".hdf", ".he5")),
    ("idx", "arrays.idx", ("ubyte", ".gz")),
    ("cifar", "arrays.cifar", ()),
    ("stl10", "arrays.stl10", ()),
    ("lmdb", "lmdb", ()),
)
READERS = tuple((name, module) for name, module, _ in _READERS)
ENDS = tuple(end for _, _, ends in _READERS for end in ends)


IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
_LOOKED_AT, _DEPTH = 1000, 3  # names in all, and folders below each other; no reader looks so deep


class Reader(Protocol):
    """What the module of a reader has."""

    def recognise(self, path: str, options: ContainerOptions) -> Evidence | None: ...

    def read(self, path: str, options: ContainerOptions) -> BlockSource | PartSource: ...


def reader(name: str) -> Reader | None:
    """The module of a reader; None where there is none of that name."""
    modules = dict(READERS)
    if name not in modules:
        return None
    return cast("Reader", import_module(f"shardfeed.converters.sources.containers.{modules[name]}"))


def recognise(path: str, options: ContainerOptions, glance: Glance | None = None) -> Sequence[Evidence]:
    """What every reader says that takes `path` for its own, or almost. `glance`: at its names, for `ENDS`."""
    if _holds_images_alone(path):
        return []  # the usual case, and importing all readers takes longer than converting a few images
    glance = glance or Glance(path, ENDS)
    modules = ((name, reader(name)) for name, _, ends in _READERS if glance.may_have(ends))
    found = (asked(name, path, module.recognise, options) for name, module in modules if module is not None)
    return [evidence for evidence in found if evidence is not None]


def _holds_images_alone(path: str) -> bool:
    """Whether each file in a folder, and in its folders, is called like an image; False where there are many."""
    folders, seen = [(path, 0)], 0
    try:
        while folders:
            folder, depth = folders.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _LOOKED_AT or entry.name.startswith("."):
                        return False
                    if entry.is_dir() and depth < _DEPTH:
                        folders.append((entry.path, depth + 1))
                    elif not entry.name.lower().endswith(IMAGES) or entry.is_dir():
                        return False
    except OSError:
        return False
    return True

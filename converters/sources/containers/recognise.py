"""Which reader of containers fits what a user points at, by its content."""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.containers.packed.part_source import PartSource

# What `--from` takes, and the module beside this one that has the reader; each is imported when it is needed.
READERS: tuple[tuple[str, str], ...] = (
    ("webdataset", "webdataset.reader"),
    ("parquet", "parquet.reader"),
    ("tfrecord", "records.tfrecord"),
    ("arrayrecord", "records.arrayrecord"),
    ("mds", "mds.reader"),
    ("npz", "arrays.npz"),
    ("hdf5", "arrays.hdf5"),
    ("idx", "arrays.idx"),
    ("cifar", "arrays.cifar"),
    ("stl10", "arrays.stl10"),
    ("lmdb", "lmdb"),
)


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


def recognise(path: str, options: ContainerOptions) -> Sequence[Evidence]:
    """What every reader says that takes `path` for its own, or almost."""
    modules = (reader(name) for name, _ in READERS)
    found = (module.recognise(path, options) for module in modules if module is not None)
    return [evidence for evidence in found if evidence is not None]

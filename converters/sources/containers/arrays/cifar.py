"""The binary version of CIFAR-10 and CIFAR-100.

A record is the label, in CIFAR-100 the coarse one and the fine one, one byte each, and 3072 bytes of pixels: red, then
green, then blue, each 32 rows of 32. The python version is pickles, which are not loaded.
"""

import os

import numpy as np

from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.containers.arrays.labels import classes_of
from shardfeed.converters.sources.containers.arrays.pixels import Layout
from shardfeed.converters.sources.containers.arrays.raw_arrays import PlainFile, RawArray, RawImages
from shardfeed.converters.sources.containers.arrays.source import ArrayBlock, evidence_of
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.source import Findings
from shardfeed.errors import UsageError, argument
from shardfeed.text import listing, number

_LAYOUT = Layout((3, 32, 32), (1, 2, 0))
# File -> its split; those of CIFAR-10, of CIFAR-100.
_TEN = {**{f"data_batch_{i}.bin": "train" for i in range(1, 6)}, "test_batch.bin": "test"}
_HUNDRED = {"train.bin": "train", "test.bin": "test"}
_NAMES_TEN, _NAMES_FINE, _NAMES_COARSE = "batches.meta.txt", "fine_label_names.txt", "coarse_label_names.txt"
_NAMES_BYTES = 1 << 16
_META = {"batches.meta": "cifar-10", "meta": "cifar-100"}  # of the python version: its name -> the binary one's


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """A folder with `data_batch_1.bin` or `test_batch.bin`, or `train.bin` and the names of fine labels."""
    if pickles := _pickles(path):
        return Evidence("cifar", "the python version of CIFAR", missing_of(pickles))
    files = _files(path)
    if not files:
        return None
    return evidence_of("cifar", f"CIFAR's binary files ({', '.join(files)})", lambda: _read(path, options, False))


def read(path: str, options: ContainerOptions) -> BlockSource:
    """The images of a folder with the binary version of CIFAR-10 or CIFAR-100.

    Of CIFAR-100 the fine label is the class, `image/class`, and the coarse one is `image/coarse`. Raises UsageError.
    """
    if pickles := _pickles(path):
        raise pickles
    return _read(path, options, True)


def _pickles(path: str) -> UsageError | None:
    """The error for the python version; None where it is not that."""
    for meta, name in _META.items():
        place = os.path.join(path, meta)
        if not os.path.isfile(place):
            continue
        try:
            with open(place, "rb") as file:
                head = file.read(2)
        except OSError:
            continue
        if head in (b"(d", b"}q") or head[:1] == b"\x80":
            problem = f"is the python version: its files ({meta}, ...) are pickles, and loading one may run any program"
            remedy = f"give the binary version: {name}-binary.tar.gz, unpacked, of the same images"
            return UsageError(path, problem, remedy)
    return None


def _files(path: str) -> dict[str, str]:
    """File -> split of those that are there; nothing where it is no such folder."""
    ten = {name: split for name, split in _TEN.items() if os.path.isfile(os.path.join(path, name))}
    hundred = {name: split for name, split in _HUNDRED.items() if os.path.isfile(os.path.join(path, name))}
    return ten or (hundred if os.path.isfile(os.path.join(path, _NAMES_FINE)) else {})


def _read(path: str, options: ContainerOptions, labelled: bool) -> BlockSource:
    files = _files(path)
    if not files:
        problem = f"has none of {', '.join([*_TEN, *_HUNDRED])}, the latter with {_NAMES_FINE} beside them"
        raise UsageError(path, problem, "give the folder that the binary version unpacks to")
    if options.columns:
        raise UsageError(path, f"{argument('columns')} is for named arrays, and CIFAR's have none", "leave it out")
    hundred = files.keys() <= _HUNDRED.keys()
    bytes_before = 2 if hundred else 1
    blocks, fine, coarse, taken, notes = [], [], [], [], []
    for name, split in files.items():
        place = os.path.join(path, name)
        state = FileState.listed(place)
        record = bytes_before + _LAYOUT.size
        count, rest = divmod(state.size, record)
        if rest or not count:
            problem = f"is {state.size} bytes long, expected a multiple of {record}"
            raise UsageError(place, problem, "it is cut, or of another kind: copy it again")
        file = PlainFile(state)
        images = RawArray(name, file, bytes_before, (count, *_LAYOUT.shape), np.dtype(np.uint8), record)
        labels = [RawArray(name, file, at, (count,), np.dtype(np.uint8), record) for at in range(bytes_before)]
        fine.append(labels[-1])
        coarse += labels[:-1]
        prefix = "" if hundred or split == "test" else f"{name.removesuffix('.bin')}/"
        blocks.append(ArrayBlock(RawImages(images, _LAYOUT), split, f"{split}/{prefix}".encode()))
        taken.append(f"{number(count, 'image')} from {name}, split {split}")
    lacking = [name for name in (_HUNDRED if hundred else _TEN) if name not in files]
    if lacking:
        notes.append(f"not there, and so not read: {listing(lacking)}")
    if not labelled:
        return BlockSource(blocks, (), Findings(notes=notes), "; ".join(taken))
    column, said = classes_of(path, fine, options, names_in(path, _NAMES_FINE if hundred else _NAMES_TEN))
    columns = [column]
    if hundred:
        plain = ContainerOptions()  # class lists and the like are said of the class, which is the fine label
        columns.append(classes_of(path, coarse, plain, names_in(path, _NAMES_COARSE), "image/coarse")[0])
    return BlockSource(blocks, columns, Findings(notes=[*notes, *said]), "; ".join(taken))


def names_in(path: str, name: str) -> tuple[str, ...] | None:
    """The names in a file, one a line, after which empty lines may follow; None without the file."""
    place = os.path.join(path, name)
    if not os.path.isfile(place):
        return None
    try:
        with open(place, encoding="utf-8") as file:
            return class_list([line.strip() for line in file.read(_NAMES_BYTES).rstrip().splitlines()])
    except (OSError, UnicodeDecodeError, UsageError) as error:
        raise UsageError(place, f"is no list of names: {error}", "copy it again") from None

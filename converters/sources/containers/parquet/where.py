"""Where the images of a column are, in all files; and the files themselves, by pyarrow."""

import os
from array import array
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from shardfeed.converters.sources.containers.options import naming
from shardfeed.converters.sources.containers.packed.compact import as_array
from shardfeed.converters.sources.containers.parquet.columns import ImageColumn
from shardfeed.converters.sources.containers.parquet.images import ImagePlaces, ParquetImages
from shardfeed.converters.sources.containers.parquet.thrift import read_struct
from shardfeed.converters.sources.files.source_files import SourceFiles
from shardfeed.converters.sources.rows.parts import Parts
from shardfeed.errors import UsageError, escape

WHOLE = "copy or download it again"
# Parquet's numbers, with the names that pyarrow's codecs have; LZO and the first LZ4 have none.
_CODECS = {0: "UNCOMPRESSED", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


def open_parquet(path: str) -> Any:
    """The file, by pyarrow. Raises UsageError for one that is cut, encrypted or none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=False, pre_buffer=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"cannot be read as Parquet: {escape(str(error)[:120])}"
        raise UsageError(path, problem, f"it is cut, encrypted or of another format: {WHOLE}") from None


class Where:
    """Offset and size of each image of a column that is kept, 16 bytes; of each file how to read them."""

    def __init__(self, column: ImageColumn) -> None:
        self.column, self.places = column, ImagePlaces()
        self.offsets, self.sizes = array("q"), array("q")
        self.codecs: list[str] = []
        self.most: list[int] = []
        self._chunks: list[_Chunk] = []

    def keep(self, offset: int, size: int) -> None:
        """One image, as `in_group` gave it."""
        self.offsets.append(offset)
        self.sizes.append(size)

    def images(self, files: SourceFiles, numbers: np.ndarray) -> ParquetImages:
        """All that are kept; `numbers`: int32 [n], the file of each."""
        parts = Parts(files.files, numbers, as_array(self.offsets), as_array(self.sizes))
        return self.places.images(parts, self.codecs, self.most)

    def begin(self, file: Any, place: str) -> None:
        """Note what is needed to read the images of the next file. Raises UsageError for a column of another layout."""
        leaf = _leaf(file, self.column.bytes_path)
        column = file.schema.column(leaf)
        if column.physical_type != "BYTE_ARRAY" or column.max_repetition_level:
            problem = f"the column '{escape(self.column.name)}' is of {column.physical_type}, expected one image a row"
            raise UsageError(place, problem, f"name another column: {naming('image', 'COLUMN')}")
        self._chunks = _chunks(place, leaf)
        codecs = {_CODECS.get(chunk.codec) for chunk in self._chunks} or {"UNCOMPRESSED"}
        if len(codecs) > 1 or None in codecs:
            problem = "its images are compressed in several ways, or in one that is not known or not used any more"
            raise UsageError(place, problem, f"write it again, with pyarrow, or {WHOLE}")
        self.codecs.extend(codec for codec in codecs if codec is not None)
        self.most.append(column.max_definition_level)

    def in_group(self, raw: BinaryIO, group: int) -> Iterator[tuple[int, int]]:
        """Offset and size of each image of a row group of the last file, as `ImagePlaces.rows` says."""
        start, size, rows, _ = self._chunks[group]
        return self.places.rows(raw, start, size, rows, self.codecs[-1], self.most[-1])


def _leaf(file: Any, path: str) -> int:
    """The number of a column, by its path in the file."""
    return next(i for i in range(len(file.schema)) if file.schema.column(i).path == path)


class _Chunk(NamedTuple):
    """The images of a row group: bytes from `start` on, rows, and Parquet's number of their compression."""

    start: int
    size: int
    rows: int
    codec: int


def _chunks(place: str, leaf: int) -> list[_Chunk]:
    """Those of column `leaf`, from the directory at the end of the file. Raises UsageError for one that is damaged.

    pyarrow has it, too, but asking it about a column whose compression it does not know ends the process.
    """
    try:
        with open(place, "rb") as file:
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            file.seek(-8 - size, os.SEEK_END)
            directory, _ = read_struct(file.read(size))
        return [_chunk(group[1][leaf]) for group in directory[4]]
    except (IndexError, KeyError, TypeError, ValueError, OSError, RecursionError):
        raise UsageError(place, "cannot be read as Parquet: its directory is damaged", WHOLE) from None


def _chunk(column: dict[int, Any]) -> _Chunk:
    """Raises KeyError or ValueError for what is none, or is in another file."""
    about = column[3]
    numbers = [about[field] for field in (9, 7, 5, 4)]
    dictionary = about.get(11) or numbers[0]  # 0, where some have none
    if 1 in column or not all(isinstance(number, int) and number >= 0 for number in (*numbers, dictionary)):
        raise ValueError
    return _Chunk(min(numbers[0], dictionary), *numbers[1:])

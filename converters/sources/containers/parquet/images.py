"""Images in a Parquet file: a part of it where they stand there as they are, else the page that they are in."""

import os
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.packed.compact import as_array
from shardfeed.converters.sources.containers.parquet.pages import (
    DICTIONARIES,
    PLAIN,
    BadPageError,
    Page,
    pages_of,
    plain_ends,
    present_rows,
    split_levels,
    unpack,
    walk_plain,
)
from shardfeed.converters.sources.rows.parts import FilePart, Parts
from shardfeed.converters.sources.source import Content
from shardfeed.errors import escape

_ROW_BITS = 24  # of a row's number in its page, beside the page's
_CACHED = 64 << 20  # bytes of pages that a process keeps
_MOST_PAGE = 256 << 20  # bytes of a page of several images that is read for one of them; `datasets` has 100 in one
_MOST_IMAGE = 1 << 30
_PAGE_NUMBERS = len(Page._fields)

# Of each row the place of its value, -1 for null; the values, each behind its length; and where each of those ends.
_Decoded = tuple[np.ndarray, bytes, list[int]]


@dataclass(frozen=True)
class PagePart:
    """The value of row `row` of a page that is compressed, or that names values of a `dictionary`.

    A content as `Sample.image` takes it. `size`: in bytes, about. `codec`: as pyarrow calls it, or UNCOMPRESSED.
    `most`: the definition level of a value. `file_size`, `mtime_ns`: of the file when it was listed. Raises
    RejectedError when called (`E_SOURCE_CHANGED`, `E_UNREADABLE`, `E_CORRUPT`; `E_MISSING` for null).
    """

    path: bytes
    page: Page
    dictionary: Page | None
    row: int
    size: int
    codec: str
    most: int
    file_size: int
    mtime_ns: int

    def __call__(self) -> bytes:
        """The bytes."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                if (state.st_size, state.st_mtime_ns) != (self.file_size, self.mtime_ns):
                    raise RejectedError(RejectCode.SOURCE_CHANGED, f"{self._name} is not as it was when it was listed")
                found = self._found(file)
        except FileNotFoundError:
            raise RejectedError(RejectCode.SOURCE_CHANGED, f"{self._name} was there and is gone") from None
        except OSError as error:
            problem = f"{self._name}: {os.strerror(error.errno or 0)} (errno {error.errno})"
            raise RejectedError(RejectCode.UNREADABLE, problem) from None
        except BadPageError as error:
            raise RejectedError(RejectCode.CORRUPT, f"{self._name}: {error}") from None
        if found is None:
            raise RejectedError(RejectCode.MISSING, f"{self._name}: the image is null")
        return found

    @property
    def _name(self) -> str:
        return escape(self.path)

    def _found(self, file: BinaryIO) -> bytes | None:
        """The value; None for null. Raises BadPageError."""
        places, values, ends = self._decoded(file, self.page)
        place = places[self.row].item()
        if place < 0:
            return None
        if self.dictionary is not None:
            _, values, ends = self._decoded(file, self.dictionary)
            if place >= len(ends):
                raise BadPageError(f"the page at byte {self.page.offset:,} names value {place:,} of {len(ends):,}")
        return values[(ends[place - 1] if place else 0) + 4 : ends[place]]

    def _decoded(self, file: BinaryIO, page: Page) -> _Decoded:
        key = (self.path, self.file_size, self.mtime_ns, page.offset)
        found = _CACHE.get(key)
        if found is None:
            found = _decode(file, page, self.codec, 0 if page is self.dictionary else self.most)
            _CACHE.put(key, found)
        return found


def _decode(file: BinaryIO, page: Page, codec: str, most: int) -> _Decoded:
    """A page. Raises BadPageError, OSError."""
    stored = os.pread(file.fileno(), page.stored, page.offset)
    if len(stored) < page.stored:
        raise BadPageError(f"the page at byte {page.offset:,} is cut")
    if page.levels < 0:
        levels, values = split_levels(_decompressed(stored, page, codec, page.size), page, most)
    else:
        levels = stored[: page.levels]
        values = _decompressed(stored[page.levels :], page, codec, page.size - page.levels)
    present = present_rows(levels, most, page.rows)
    count = int(present.sum())
    places = np.full(page.rows, -1, np.int64)
    if page.encoding in DICTIONARIES:
        places[present] = unpack(values[1:], values[0], count) if count and values[0] else 0
        return places, b"", []
    places[present] = np.arange(count)
    return places, values, plain_ends(values, count)


def _decompressed(data: bytes, page: Page, codec: str, size: int) -> bytes:
    if codec == "UNCOMPRESSED" or not page.compressed:
        return data
    import pyarrow as pa

    try:
        return pa.decompress(data, size, codec=codec, asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadPageError(
            f"the page at byte {page.offset:,} cannot be decompressed: {escape(str(error)[:80])}"
        ) from None


class _Cache:
    """The pages that were decoded last. Bytes and arrays alone, so that a process that is forked off may have it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, _Decoded] = OrderedDict()
        self._size = 0

    def get(self, key: Any) -> _Decoded | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Any, found: _Decoded) -> None:
        self._kept[key] = found
        self._size += _bytes(found)
        while self._size > _CACHED and len(self._kept) > 1:
            self._size -= _bytes(self._kept.popitem(last=False)[1])


def _bytes(found: _Decoded) -> int:
    return found[0].nbytes + len(found[1]) + 48 * len(found[2])


_CACHE = _Cache()


@dataclass(frozen=True, eq=False)
class ParquetImages:
    """Images by number. Where `parts.offsets[i]` is negative, the image is in a page of `pages`.

    `pages`: int64 [p, 2, 7], each page and its dictionary as `Page` has them, zeros for none; `codecs`: of the files.
    """

    parts: Parts
    pages: np.ndarray
    codecs: Sequence[str]
    most: Sequence[int]

    def __getitem__(self, index: int, /) -> Content:
        part: FilePart = self.parts[index]
        if part.offset >= 0:
            return part
        number, row = divmod(-part.offset - 1, 1 << _ROW_BITS)
        page, dictionary = (_page(numbers) for numbers in self.pages[number].tolist())
        of_file = int(self.parts.numbers[index])
        codec, most = self.codecs[of_file], self.most[of_file]
        assert page is not None
        return PagePart(part.path, page, dictionary, row, part.size, codec, most, part.file_size, part.mtime_ns)


def _page(numbers: list[int]) -> Page | None:
    return Page._make([*numbers[:-1], bool(numbers[-1])]) if any(numbers) else None


class ImagePlaces:
    """Finds where the images of files are, row by row, and makes `ParquetImages` of those that are kept."""

    def __init__(self) -> None:
        self._pages = array("q")
        self._count = 0
        self.largest = 0  # bytes of a page that is read for each of its images

    def rows(
        self, file: BinaryIO, start: int, size: int, rows: int, codec: str, most: int
    ) -> Iterator[tuple[int, int]]:
        """Offset and size of each row's image, as ParquetImages takes them; (-1, -1) where it is known to be null.

        The column takes `size` bytes from `start` on. Raises BadPageError.
        """
        left = rows
        for page, dictionary in pages_of(file, start, size, rows):
            if page.rows > left:
                raise BadPageError(f"the page at byte {page.offset:,} has more rows than its row group")
            left -= page.rows
            if page.encoding == PLAIN and (codec == "UNCOMPRESSED" or not page.compressed):
                yield from ((offset, size if offset >= 0 else -1) for offset, size in walk_plain(file, page, most))
                continue
            self.largest = max(self.largest, page.size if page.rows > 1 else 0)
            largest = max(page.size, dictionary.size if dictionary else 0)
            if page.rows >= 1 << _ROW_BITS or largest > (_MOST_PAGE if page.rows > 1 else _MOST_IMAGE):
                problem = (
                    f"the page at byte {page.offset:,} is compressed and has {page.rows:,} images in {largest:,} bytes"
                )
                raise BadPageError(f"{problem}, all of which would be read for each")
            self._pages.extend(map(int, page))
            self._pages.extend(map(int, dictionary or (0,) * _PAGE_NUMBERS))
            whole = page if dictionary is None else dictionary
            about = max(1, whole.size // max(1, whole.rows) - 4)
            first = self._count << _ROW_BITS
            self._count += 1
            yield from ((-(first + row) - 1, about) for row in range(page.rows))

    def images(self, parts: Parts, codecs: Sequence[str], most: Sequence[int]) -> ParquetImages:
        """Those at `parts`, whose offsets `rows` gave."""
        pages = as_array(self._pages).reshape(-1, 2, _PAGE_NUMBERS)
        return ParquetImages(parts, pages, codecs, most)

"""Label files with URLs of images as paths: https://host/a.jpg, s3://bucket/a.jpg.

No server is contacted here: the workers read the images. A sample's name is its URL, without `https://` and without the
query, which may hold a credential.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.options import Column
from shardfeed.converters.sources.remote import ASSUMED_BYTES, UNLISTED
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.errors import LabelFileError, argument, escape, without_secrets
from shardfeed.text import some

_ADDRESS = re.compile(r"\s*(?:https?|s3|gs|az)://([^/?#\s]+)(/[^?#]*)?", re.IGNORECASE)
_OF_THE_HUB = re.compile(r"\s*hf://", re.IGNORECASE)
_NO_COMMIT = "a table cannot have hf:// URLs"  # they would have to be bound to a commit, as folders there are
_AT_A_COMMIT = "https://huggingface.co/datasets/USER/REPO/resolve/COMMIT/PATH"
# Names of a column of URLs, the preferred ones first.
_USUAL = ("image_url", "img_url", "url", "image_uri", "uri", *WORDS["path"])


def column_of_addresses(table: LabelTable, lookup: PathLookup, asked: Column | None) -> int | None:
    """Return the column with the URLs of images; None if a row names a file of `lookup`, or no URL.

    `asked`: the column that the user named. Raises LabelFileError if several columns fit, and for hf:// URLs.
    """
    records = list(islice(table, 2))
    if not records:
        return None
    cells = [cell if isinstance(cell, str) else "" for cell in records[-1].cells]
    heads = [str(head).strip() for head in (table.keys if table.keyed else records[0].cells)] + [""] * len(cells)
    found = [column for column, cell in enumerate(cells) if _ADDRESS.match(cell)]
    if asked is not None:
        wanted = [column for column in range(len(cells)) if asked in (column, heads[column])]
        _check_commit(table, records[-1].line, heads, [(column, cells[column]) for column in wanted])
        return next((column for column in found if column in wanted), None)
    others = [(cell, head) for cell, head in zip(cells, heads, strict=False) if not _ADDRESS.match(cell)]
    if any(_names_file(lookup, cell, head.casefold()) for cell, head in others):
        return None
    if not found:
        paths = [one for one in enumerate(cells) if heads[one[0]].casefold() in WORDS["path"]]
        _check_commit(table, records[-1].line, heads, paths or [*enumerate(cells)])
        return None
    usual = next((column for word in _USUAL for column in found if heads[column].casefold() == word), None)
    if usual is None and len(found) > 1:
        names = some(heads[column] for column in found)
        problem = f"the columns {names} hold URLs, and it is unknown which are of the images"
        raise LabelFileError(table.place(records[0].line), problem, f"give {argument('path_column')}")
    return found[0] if usual is None else usual


def _check_commit(table: LabelTable, line: int, heads: list[str], cells: Iterable[tuple[int, str]]) -> None:
    """Raise LabelFileError for the first of the cells, with their columns, that is an hf:// URL."""
    for column, cell in cells:
        if _OF_THE_HUB.match(cell):
            head = "" if _OF_THE_HUB.match(heads[column]) else heads[column]
            remedy = f"write {_AT_A_COMMIT}, or convert the folder {escape(cell.strip().rpartition('/')[0])}"
            raise LabelFileError(table.place(line, head or column), _NO_COMMIT, remedy)


def _names_file(lookup: PathLookup, cell: str, head: str) -> bool:
    if not cell.strip():
        return False
    try:
        return isinstance(lookup.find(cell), int) or (head in WORDS["path"] and lookup.is_id(cell))
    except UnicodeEncodeError:  # half of a surrogate pair, which is reported where the rows are read
        return False


def has_header(table: LabelTable, column: int) -> bool:
    """Whether the first row has no URL in the column of URLs."""
    return not any(map(_ADDRESS.match, map(str, next(iter(table)).cells[column : column + 1])))


class AddressLookup(PathLookup):
    """Finds URLs: all URLs in a column of a table, instead of the files of a folder."""

    def __init__(self, table: LabelTable, column: int) -> None:
        cells = (cell for record in table for cell in record.cells[column : column + 1])
        written = {cell.strip(): b"" for cell in cells if isinstance(cell, str) and _ADDRESS.match(cell)}
        times = Counter(map(_name, written))
        for address in written:
            name = _name(address)
            if times[name] > 1:  # the query identifies the image
                name += "?" + blake2b(address.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
            written[address] = name.encode("utf-8", "surrogateescape")
        self._keys = written
        super().__init__(AddressListing.of((key, address) for address, key in written.items()))

    def find(self, text: str) -> int | Skipped:
        """The number of a URL, or why the cell is not one."""
        key = self._keys.get(text.strip())
        if key is None:
            reason = "not a URL, expected one like https://host/a.jpg or s3://bucket/a.jpg"
            if _OF_THE_HUB.match(text):
                reason = f"{_NO_COMMIT}: write {_AT_A_COMMIT}"
            return Skipped(without_secrets(text).encode("utf-8", "surrogateescape"), RejectCode.MISSING.value, reason)
        return super().find(key.decode("utf-8", "surrogateescape"))


def _name(address: str) -> str:
    """Host and path: `host/a.jpg`."""
    found = _ADDRESS.match(without_secrets(address))
    assert found is not None
    return found[1].rpartition("@")[2] + (found[2] or "/")


@dataclass(frozen=True, eq=False)
class AddressListing(Listing):
    """URLs by number, sorted by their names. Their sizes are unknown: one size is assumed for all."""

    addresses: Sequence[bytes] = ()

    @classmethod
    def of(cls, named: Iterable[tuple[bytes, str]]) -> "AddressListing":
        """The listing of URLs with their names."""
        pairs = sorted((key, address.encode("utf-8", "surrogateescape")) for key, address in named)
        keys = [key for key, _ in pairs]
        ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
        sizes, times = (np.full(len(keys), value, np.int64) for value in (ASSUMED_BYTES, UNLISTED))
        return cls(b"", b"".join(keys), ends, sizes, times, addresses=[address for _, address in pairs])

    def file(self, index: int) -> SourceFile:
        """The URL of image `index`, as a file."""
        return SourceFile(self.addresses[index], self.sizes.item(index), self.mtimes.item(index))

    def take(self, indices: np.ndarray) -> "AddressListing":
        """Only these URLs."""
        taken = super().take(indices)
        assert isinstance(taken, AddressListing)
        return replace(taken, addresses=[self.addresses[i] for i in indices.tolist()])

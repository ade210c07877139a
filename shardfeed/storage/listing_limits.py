"""Limits of a listing of files that a server sends page by page: it may not go round, nor go on for ever."""

import errno
from collections.abc import Sequence

from shardfeed.errors import StorageError
from shardfeed.text import number

MOST_FILES = 100_000_000  # names of one listing: a hundred times the images of ImageNet-21k's largest class tree
MOST_EMPTY_PAGES = 100  # one after another: a store may skip deleted objects page by page


class _Cycle:
    """Notices that a sequence goes round: an item at 1, 2, 4, 8, ... is kept, and any cycle comes back to one."""

    def __init__(self) -> None:
        self._count = self._repeated = 0
        self._marked: object = None

    def closed_by(self, items: Sequence[object]) -> bool:
        """Whether a sequence that goes on with these items, those of one page, has gone round."""
        self._repeated += items.count(self._marked)
        if self._repeated > 1:  # once is no cycle: "a" and "a/" may be listed under the same name
            return True
        self._count += 1
        if not self._count & (self._count - 1):
            self._marked, self._repeated = items[0], 0
        return False


class ListingLimits:
    """The limits of one listing; `place`: its URL, for errors."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._names, self._cursors = _Cycle(), _Cycle()
        self._files = self._empty = 0

    def check_page(self, files: Sequence[tuple[object, ...]], cursor: str = "") -> None:
        """Count a page: its files, each with its name first, and the server's word for where the next page begins.

        Raises StorageError.
        """
        self._files += len(files)
        self._empty = 0 if files else self._empty + 1
        goes_round = bool(files) and self._names.closed_by(files)
        if cursor:
            goes_round |= self._cursors.closed_by([cursor])
        if goes_round:
            raise endless(self._place, str(files[-1][0]) if files else "")
        if self._files > MOST_FILES:
            raise _refused(self._place, f"the server lists more than {number(MOST_FILES, 'file')}")
        if self._empty > MOST_EMPTY_PAGES:
            raise _refused(self._place, f"the server sends {number(self._empty, 'page')} without a file")


def endless(place: str, last: str) -> StorageError:
    """The error for a listing that goes round; `last`: the last name in it, or ""."""
    problem = f"the server lists the same names again and again, last {last!r}" if last else "the listing does not end"
    return _refused(place, problem)


def _refused(place: str, problem: str) -> StorageError:
    remedy = "report it to whoever runs the server, or copy the files to this machine"
    return StorageError(place, problem, remedy, errno.EIO)

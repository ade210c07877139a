"""The image that a name in an annotation file means, among the files below a root."""

import posixpath
import re

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import escape
from shardfeed.text import some

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_DRIVE = re.compile(r"[a-zA-Z]:[\\/]|\\\\")


class ImageFiles:
    """Finds images by their names: the path relative to the root; else the one file of which only the folders differ in
    number, so `a.jpg` may be `train/a.jpg`, and `coco/train/a.jpg` too. Folders of other names are never the same.

    A name may have Windows' separators. Addresses, absolute paths and `..` name no file. Never guesses between two.
    """

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self._guess = 0
        self._by_name: dict[bytes, list[int]] | None = None

    def find(self, name: str, folder: bytes = b"") -> int | Skipped:
        """The number of the file that `name` means, or why there is none; the reason is a clause.

        `folder`: where it is looked for, relative to the root with "/" at its end; elsewhere only by its whole path.
        """
        try:
            written = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return Skipped(escape(name).encode(), RejectCode.MISSING.value, "no such file: its name is no text")
        keys = [written]
        if b"\\" in written:
            keys.append(written.replace(b"\\", b"/"))
        for what, pattern in (("an address", _ADDRESS), ("an absolute path", _DRIVE)):
            if pattern.match(name):
                return Skipped(written, RejectCode.PATH_ESCAPE.value, f"{what}, expected a path below the root")
        if written.startswith(b"/"):
            return Skipped(written, RejectCode.PATH_ESCAPE.value, "an absolute path, expected one below the root")
        if b".." in keys[-1].split(b"/"):
            return Skipped(written, RejectCode.PATH_ESCAPE.value, "it leaves the root")
        for key in [posixpath.normpath(key) for key in keys]:
            for whole in (folder + key, key) if folder else (key,):
                index = self.listing.find(whole, self._guess)
                if index >= 0:
                    self._guess = index + 1
                    return index
        return self._by_base_name(posixpath.normpath(keys[-1]), folder)

    def _by_base_name(self, key: bytes, folder: bytes) -> int | Skipped:
        if self._by_name is None:
            self._by_name = {}
            for i, listed in enumerate(self.listing):
                self._by_name.setdefault(listed.rpartition(b"/")[2], []).append(i)
        alike = self._by_name.get(key.rpartition(b"/")[2], [])
        found = []
        for i in alike:
            listed = self.listing.key(i)
            if listed.startswith(folder) and _same_end(listed.removeprefix(folder), key):
                found.append(i)
        if len(found) == 1:
            return found[0]
        if found:
            names = some(map(self.listing.key, found))
            return Skipped(key, RejectCode.MISSING.value, f"{len(found)} files may be meant: {names}")
        hint = f" ({some(map(self.listing.key, alike))} is called alike)" if alike else ""
        return self.listing.missing(folder + key, hint)


def _same_end(one: bytes, other: bytes) -> bool:
    """Whether one of two paths is the end of the other, by whole names."""
    return (b"/" + one).endswith(b"/" + other) or other.endswith(b"/" + one)

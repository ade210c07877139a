"""The file that a path in a label file means: exactly that one, else the only one that differs in Unicode form."""

import os
import posixpath
import unicodedata

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing, is_hidden
from shardfeed.converters.sources.source import Skipped


class PathLookup:
    """Finds a label file's paths in a listing: relative to its root, or absolute and inside it."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self._roots = [root.rstrip(b"/") + b"/" for root in (listing.root, os.path.realpath(listing.root))]
        self._skipped = {skipped.key: skipped for skipped in listing.skipped}
        self._twins: dict[str, list[int]] | None = None
        self._guess = 0

    def find(self, text: str) -> int | Skipped:
        """The number of the file that `text` names, or why there is none; the reason is a clause.

        Raises UnicodeEncodeError where `text` has half of a surrogate pair, which no file name has.
        """
        written = text.encode("utf-8", "surrogateescape")
        index = self.listing.find(written, self._guess)
        if index < 0:
            key = self._relative(written)
            if key is None:
                return Skipped(written, RejectCode.PATH_ESCAPE.value, "it leaves the root")
            index = self.listing.find(key)
            for link, folder in self.listing.aliases if index < 0 else ():
                if key.startswith(link + b"/"):
                    index = max(index, self.listing.find(posixpath.join(folder, key[len(link) + 1 :])))
            if index < 0:
                return self._by_form(key)
        self._guess = index + 1
        return index

    def _relative(self, path: bytes) -> bytes | None:
        path = posixpath.normpath(path)
        if path.startswith(b"/"):
            roots = [root for root in self._roots if path.startswith(root)]
            return path[len(roots[0]) :] if roots else None
        return None if path == b".." or path.startswith(b"../") else path

    def _by_form(self, key: bytes) -> int | Skipped:
        if self._twins is None:
            self._twins = {}
            for i, listed in enumerate(self.listing):
                if not listed.isascii():
                    self._twins.setdefault(_nfc(listed), []).append(i)
        twins = self._twins.get(_nfc(key), [])
        if len(twins) == 1:
            return twins[0]
        if twins:
            reason = f"no such file, and {len(twins)} files that differ from it in Unicode form"
            return Skipped(key, RejectCode.MISSING.value, reason)
        return self._missing(key)

    def _missing(self, key: bytes) -> Skipped:
        parts = key.split(b"/")
        for depth in range(1, len(parts) + 1):
            skipped = self._skipped.get(b"/".join(parts[:depth]))
            if skipped:
                return Skipped(key, skipped.code, skipped.reason)
        if any(map(is_hidden, parts)):
            return Skipped(key, RejectCode.MISSING.value, "hidden names are passed over")
        return Skipped(key, RejectCode.MISSING.value, "no such file")


def _nfc(key: bytes) -> str:
    return unicodedata.normalize("NFC", key.decode("utf-8", "surrogateescape"))

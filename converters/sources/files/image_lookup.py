"""The file for a path in a label file: the exact match, else the only one that differs in Unicode form.

If no path of a table names a file, paths may be ids: names without extension, or without the folder.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import escape, without_secrets
from shardfeed.storage.address import is_address
from shardfeed.text import some

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_DRIVE = re.compile(r"[a-zA-Z]:[\\/]|\\\\")


class AmbiguousIdError(Exception):
    """An id that means more than one file: the `id` and two of the `files`."""

    def __init__(self, id: bytes, files: tuple[bytes, bytes]) -> None:
        super().__init__(id, files)
        self.id, self.files = id, files


class PathLookup:
    """Finds a label file's paths in a listing: relative to its root, or absolute and inside it."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self._roots = [root.rstrip(b"/") + b"/" for root in (listing.root, os.path.realpath(listing.root))]
        self._twins: dict[str, list[int]] | None = None
        self._ids: dict[bytes, list[int]] | None = None
        self._guess = 0

    def find(self, text: str) -> int | Skipped:
        """The number of the file that `text` names, or why there is none; the reason is a clause.

        Raises UnicodeEncodeError if `text` has half of a surrogate pair, which no file name has.
        """
        written = text.encode("utf-8", "surrogateescape")
        index = self.listing.find(written, self._guess)
        if index < 0:
            if is_address(text):
                return Skipped(_unsigned(text), RejectCode.MISSING.value, "a URL, where other rows have file names")
            key = self._relative(written)
            if key is None:
                return Skipped(written, RejectCode.PATH_ESCAPE.value, "it points outside the root")
            index = self.listing.find(key)
            for link, folder in self.listing.aliases if index < 0 else ():
                if key.startswith(link + b"/"):
                    index = max(index, self.listing.find(posixpath.join(folder, key[len(link) + 1 :])))
            if index < 0:
                return self._by_form(key)
        self._guess = index + 1
        return index

    def find_ids(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """The files that match `keys` as ids, if any does.

        For each id, this is the only file with a path that equals the id, without or with its extension; or, if no id
        matches from the root, with a path that ends in "/" and the id. Raises AmbiguousIdError if two images match, or
        two files not named like images.
        """
        ids = list(keys)
        for below in (False, True):
            found = {key: files for key in ids if (files := self._of_id(key, below=below))}
            if found:
                return {key: self._only(key, files) for key, files in found.items()}
        return {}

    def is_id(self, text: str) -> bool:
        """Whether `text` may be the id of an image."""
        try:
            found = self._of_id(text.encode("utf-8", "surrogateescape"), below=True)
        except UnicodeError:
            return False
        return any(names_image(self.listing.key(i)) for i in found)

    def _of_id(self, key: bytes, *, below: bool) -> list[int]:
        """The numbers of the files that an id may mean: from the root on, or anywhere `below` it."""
        if self._ids is None:
            self._ids = {}
            for i, listed in enumerate(self.listing):
                name = listed.rpartition(b"/")[2]
                for part in {name, os.path.splitext(name)[0]}:
                    self._ids.setdefault(part, []).append(i)
        found = []
        for i in self._ids.get(key.rpartition(b"/")[2], ()):
            path = self.listing.key(i)
            forms = (path, os.path.splitext(path)[0])
            if key in forms or (below and any(form.endswith(b"/" + key) for form in forms)):
                found.append(i)
        return found

    def _only(self, key: bytes, files: list[int]) -> int:
        images = [i for i in files if names_image(self.listing.key(i))] or files
        if len(images) > 1:
            raise AmbiguousIdError(key, (self.listing.key(images[0]), self.listing.key(images[1])))
        return images[0]

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
        return self.listing.missing(key)


def _unsigned(address: str) -> bytes:
    """An address as errors name it: its query may be a credential."""
    return without_secrets(address).encode("utf-8", "surrogateescape")


def _nfc(key: bytes) -> str:
    return unicodedata.normalize("NFC", key.decode("utf-8", "surrogateescape"))


class ImageLookup(PathLookup):
    """Finds the images that annotations name: as `PathLookup`, else the one file whose path ends in the name.

    `a.jpg` may be `train/a.jpg`, and `coco/train/a.jpg` too; folders with different names never match. A name may have
    Windows' separators. URLs, absolute paths outside and `..` match no file. Never guesses between two.
    """

    def __init__(self, listing: Listing) -> None:
        super().__init__(listing)
        self._by_base: dict[bytes, list[int]] | None = None

    def find(self, text: str, folder: bytes = b"") -> int | Skipped:
        """The number of the file that `text` names, or why there is none.

        `folder`: the folder to search, relative to the root, with "/" at its end; other folders only by the whole path.
        """
        try:
            written = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return Skipped(escape(text).encode(), RejectCode.MISSING.value, "no such file: its name is not text")
        if _ADDRESS.match(text):
            return Skipped(_unsigned(text), RejectCode.PATH_ESCAPE.value, "a URL: nothing is downloaded")
        if _DRIVE.match(text):
            return Skipped(written, RejectCode.PATH_ESCAPE.value, "an absolute path, expected a path below the root")
        tries = [text] + ([text.replace("\\", "/")] if "\\" in text else [])
        found: int | Skipped = -1
        for one in tries:
            for whole in (os.fsdecode(folder) + one, one) if folder and not one.startswith("/") else (one,):
                found = super().find(whole)
                if isinstance(found, int):
                    return found
        if isinstance(found, Skipped) and found.code == RejectCode.PATH_ESCAPE.value:
            return found
        key = posixpath.normpath(tries[-1].encode("utf-8", "surrogateescape"))
        if key.startswith(b"/") or b".." in key.split(b"/"):
            return Skipped(written, RejectCode.PATH_ESCAPE.value, "it points outside the root")
        return self._by_end(key, folder)

    def _by_end(self, key: bytes, folder: bytes) -> int | Skipped:
        if self._by_base is None:
            self._by_base = {}
            for i, listed in enumerate(self.listing):
                self._by_base.setdefault(listed.rpartition(b"/")[2], []).append(i)
        alike = self._by_base.get(key.rpartition(b"/")[2], [])
        found = []
        for i in alike:
            listed = self.listing.key(i)
            if listed.startswith(folder) and _same_end(listed.removeprefix(folder), key):
                found.append(i)
        if len(found) == 1:
            return found[0]
        if found:
            names = some(map(self.listing.key, found))
            return Skipped(key, RejectCode.MISSING.value, f"{len(found)} files match: {names}")
        hint = f" ({some(map(self.listing.key, alike))} has a similar name)" if alike else ""
        return self.listing.missing(folder + key, hint)


def _same_end(one: bytes, other: bytes) -> bool:
    """Whether one of two paths is the end of the other, by whole names."""
    return (b"/" + one).endswith(b"/" + other) or other.endswith(b"/" + one)

"""The file for a path in a label file: the exact match, else the only one that differs in Unicode form.

If no path of a table names a file, paths may be ids: names without extension, or without the folder.
"""

import os
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from urllib.parse import parse_qs, unquote, urlsplit

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import escape, name_bytes, without_secrets
from shardfeed.text import some

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_DRIVE = re.compile(r"[a-zA-Z]:[\\/]|\\\\")
_ABSOLUTE = "an absolute path, expected a path below the root"


class AmbiguousIdError(Exception):
    """An id that means more than one file: the `id`, and the `problem`, a clause."""

    def __init__(self, id: bytes, files: Iterable[bytes]) -> None:
        super().__init__(id, files)
        self.id, self.problem = id, f"'{escape(id)}' may be {' or '.join(map(escape, files))}"


class PathLookup:
    """Finds a label file's paths in a listing: relative to its root, or absolute and inside it.

    A path may have Windows' separators. `ends`: whether the user named the root; then `find_rest` finds files for paths
    of another machine: URLs, absolute paths outside of the root, and paths with `..`.
    """

    url = "a URL, where other rows have file names"

    def __init__(self, listing: Listing, *, ends: bool = False) -> None:
        self.listing, self.ends = listing, ends
        self._by_base: dict[bytes, list[int]] | None = None
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
        if index >= 0:
            self._guess = index + 1
            return index
        why = self.url if _ADDRESS.match(text) else _ABSOLUTE if _DRIVE.match(text) else ""
        found: int | Skipped | None = None
        for one in dict.fromkeys((text, text.replace("\\", "/"))) if not why else ():
            found = self._below(one)
            if isinstance(found, int):
                self._guess = found + 1
                return found
        if found is not None:
            return found
        unsigned = name_bytes(without_secrets(text))  # its query may be a credential
        return Skipped(unsigned, RejectCode.PATH_ESCAPE.value, why or "it points outside the root")

    def find_rest(self, missing: Iterable[Skipped], taken: Collection[int]) -> tuple[dict[bytes, int], list[str]]:
        """The files of paths that name none, once all are known; and a note on these.

        `taken`: the files of all others. The file whose whole path is the end of a path of another machine: none that
        is taken, and none for two paths. If no path names a file, paths are ids. Raises AmbiguousIdError.
        """
        missing, found = list(missing), dict[bytes, int]()
        for one in missing if self.ends else ():
            if one.code == RejectCode.PATH_ESCAPE.value and one.key not in found:
                end = self.by_end(path_of(one.key.decode("utf-8", "surrogateescape")))
                found |= {one.key: end} if isinstance(end, int) and end not in taken else {}
        times = Counter(found.values())
        found = {key: file for key, file in found.items() if times[file] == 1}
        what = "paths of another machine, found by their ends"
        if not found and not taken:
            found = self._find_ids(one.key for one in missing if not one.key.startswith((b"/", b"../")))
            what = "image names matched without extension or folder"
        examples = (f"'{escape(key)}' is '{escape(self.listing.key(file))}'" for key, file in found.items())
        return found, [f"{what}: {len(found):,} ({next(examples)})"] if found else []

    def by_end(self, path: str, folder: bytes = b"") -> int | Skipped:
        """The number of the one file in `folder` whose path is the end of this path, or the reverse."""
        key = posixpath.normpath(b"/" + path.encode("utf-8", "surrogateescape")).lstrip(b"/")
        if self._by_base is None:
            self._by_base = {}
            for i, listed in enumerate(self.listing):
                self._by_base.setdefault(listed.rpartition(b"/")[2], []).append(i)
        alike = self._by_base.get(key.rpartition(b"/")[2], [])
        found = []
        for i in alike:
            inside = b"/" + self.listing.key(i).removeprefix(folder)
            alike_ends = inside.endswith(b"/" + key) or (b"/" + key).endswith(inside)
            if self.listing.key(i).startswith(folder) and alike_ends:
                found.append(i)
        if len(found) == 1:
            return found[0]
        if found:
            names = some(map(self.listing.key, found))
            return Skipped(key, RejectCode.MISSING.value, f"{len(found)} files match: {names}")
        hint = f" ({some(map(self.listing.key, alike))} has a similar name)" if alike else ""
        return self.listing.missing(folder + key, hint)

    def _below(self, text: str) -> int | Skipped | None:
        """The number of the file at a path relative to the root, or why there is none; None outside of the root."""
        key = self._relative(text.encode("utf-8", "surrogateescape"))
        if key is None:
            return None
        index = self.listing.find(key)
        for link, folder in self.listing.aliases if index < 0 else ():
            if key.startswith(link + b"/"):
                index = max(index, self.listing.find(posixpath.join(folder, key[len(link) + 1 :])))
        return index if index >= 0 else self._by_form(key)

    def _find_ids(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """The files that match `keys` as ids, if any does.

        For each id, this is the only file with a path that equals the id, without or with its extension; or, if no id
        matches from the root, with a path that ends in "/" and the id. Raises AmbiguousIdError if two images match, or
        two files not named like images.
        """
        ids, found = list(dict.fromkeys(keys)), dict[bytes, int]()
        for below in (False, True):
            for key in ids:
                files = self._of_id(key, below=below)
                images = [i for i in files if names_image(self.listing.key(i))] or files
                if len(images) > 1:
                    raise AmbiguousIdError(key, (self.listing.key(images[0]), self.listing.key(images[1])))
                if images:
                    found[key] = images[0]
            if found:
                break
        return found

    def images_of(self, stem: bytes) -> list[int]:
        """The numbers of the images at a path without its extension."""
        found = self._of_id(stem, below=False)
        names = ((i, self.listing.key(i)) for i in found)
        return [i for i, name in names if os.path.splitext(name)[0] == stem and names_image(name)]

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


def path_of(text: str) -> str:
    """The path in a URL or in a path of another system, with "/" between its names; as Label Studio writes it, too."""
    if not _ADDRESS.match(text) and "/?d=" not in text:
        return text.replace("\\", "/")
    try:
        parts = urlsplit(text)
    except ValueError:  # a host in brackets
        return text
    local = parse_qs(parts.query).get("d")  # /data/local-files/?d=photos/a.jpg
    return local[0] if local else unquote(parts.path)


def _nfc(key: bytes) -> str:
    return unicodedata.normalize("NFC", key.decode("utf-8", "surrogateescape"))


class ImageLookup(PathLookup):
    """Finds the images that annotations name: as `PathLookup`, else the one file whose path ends in the name.

    `a.jpg` may be `train/a.jpg`, and `coco/train/a.jpg` too; folders with different names never match. Never guesses
    between two.
    """

    url = "a URL: nothing is downloaded"

    def find(self, text: str, folder: bytes = b"") -> int | Skipped:
        """The number of the file that `text` names, or why there is none.

        `folder`: the folder to search, relative to the root, with "/" at its end; other folders only by the whole path.
        """
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return Skipped(escape(text).encode(), RejectCode.MISSING.value, "no such file: its name is not text")
        within = os.fsdecode(folder) + text
        found = super().find(within) if folder and not text.startswith("/") else None
        found = found if isinstance(found, int) else super().find(text)
        if isinstance(found, int) or found.code == RejectCode.PATH_ESCAPE.value:
            return found
        return self.by_end(text.replace("\\", "/"), folder)

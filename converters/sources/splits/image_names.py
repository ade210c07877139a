"""The image that a list means by a name: a path, with or without its extension or its first folders, or a number."""

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cached_property

from shardfeed.converters.sources.files.image_lookup import path_of
from shardfeed.converters.sources.files.listing import names_image, split_words_in
from shardfeed.errors import name_text
from shardfeed.split_words import usual_split

Finder = Callable[[str], list[int]]  # the numbers of the images that a name may mean
_BESIDE_IMAGES = (".xml", ".txt", ".json", ".mat", ".png")  # of files that belong to an image, and are called like it
_SLASH = re.compile("/")
_NUMBER = re.compile(r"(\d+)\D*\Z")


class ImageNames:
    """The names of images: `keys`, relative paths."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = [unicodedata.normalize("NFC", name_text(key)) for key in keys]
        self._of_key = {key: number for number, key in enumerate(self.keys)}
        self._of_stem: dict[str, list[int]] = {}
        self._of_end: dict[str, list[int]] = {}  # by the last part of a path, and by the last two
        for number, key in enumerate(self.keys):
            stem = posixpath.splitext(key)[0]
            self._of_stem.setdefault(stem, []).append(number)
            for end in {*_ends(key), *_ends(stem)}:
                self._of_end.setdefault(end, []).append(number)

    def by_path(self, name: str) -> list[int]:
        """The images whose path agrees best with a name, from the end of both on; none with another folder."""
        path = _normal(name)
        if path in self._of_key:
            return [self._of_key[path]]
        stem = _stem(path)
        whole = self._of_stem.get(path) or self._of_stem.get(stem)
        return whole or self._by_end(path) or (self._by_end(stem) if stem != path else [])

    def _by_end(self, path: str) -> list[int]:
        """The images whose path, or else whose path without extension, is the end of a path, or the reverse."""
        if not path:
            return []
        within = [path[place.end() :] for place in _SLASH.finditer(path)]  # without its first folders
        shorter = next((self._of_key[end] for end in within if end in self._of_key), None)
        if shorter is not None:
            return [shorter]
        return self._longer(path) or next(filter(None, map(self._of_stem.get, within)), [])

    def _longer(self, path: str) -> list[int]:
        """The images whose path ends in a path; else those whose path without its extension does."""
        end, numbers = "/" + path, self._of_end.get(_ends(path)[-1], ())
        keys = [number for number in numbers if self.keys[number].endswith(end)]
        return keys or [number for number in numbers if posixpath.splitext(self.keys[number])[0].endswith(end)]

    def by_base(self, name: str) -> list[int]:
        """The images that have the last part of a name, in whatever folder."""
        return self._called(_normal(name))

    def by_number(self, name: str) -> list[int]:
        """The image whose name has this number, if each image has one of its own: `image_00017.jpg` for 17."""
        number = self._numbers.get(int(name)) if name.isdecimal() and len(name) < 18 else None
        return [] if number is None else [number]

    def of_split(self, images: list[int], split: str) -> list[int]:
        """Those of several images that a name may mean that are in a folder with a word for the split, if there are."""
        if len(images) < 2:
            return images
        folders = ((image, posixpath.dirname(self.keys[image])) for image in images)
        inside = [image for image, folder in folders if split in map(usual_split, split_words_in(folder))]
        return inside or images

    def _called(self, path: str) -> list[int]:
        name = posixpath.basename(path)
        stem = posixpath.basename(_stem(path))
        return sorted({*self._of_end.get(name, ()), *self._of_end.get(stem, ())}) if name else []

    @cached_property
    def _numbers(self) -> dict[int, int]:
        stems = (posixpath.splitext(posixpath.basename(key))[0] for key in self.keys)
        found = [int(match[1][-18:]) if (match := _NUMBER.search(stem)) else -1 for stem in stems]
        unlike = -1 in found or len({*found}) < len(found)
        return {} if unlike else {number: place for place, number in enumerate(found)}


def _normal(name: str) -> str:
    """A name as a path: NFC, "/" between its parts, without a beginning that says nothing."""
    path = unicodedata.normalize("NFC", path_of(name))
    return posixpath.normpath(path).lstrip("/").removeprefix("../") if path else ""


def _stem(path: str) -> str:
    """A path without its extension, if it has that of an image or of a file beside one."""
    stem, end = posixpath.splitext(path)
    return stem if names_image(os.fsencode("x" + end)) or end.lower() in _BESIDE_IMAGES else path


def _ends(path: str) -> list[str]:
    """The last part of a path, and the last two, if it has them."""
    parts = path.rsplit("/", 2)
    return [parts[-1], "/".join(parts[-2:])][: len(parts)]

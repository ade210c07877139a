"""The image that a list means by a name: a path, with or without its extension or its first folders, or a number."""

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cached_property

from shardfeed.converters.sources.files.image_lookup import path_of
from shardfeed.converters.sources.files.listing import names_image, split_words_in, usual_split
from shardfeed.errors import name_text

Finder = Callable[[str], list[int]]  # the numbers of the images that a name may mean
_BESIDE_IMAGES = (".xml", ".txt", ".json", ".mat", ".png")  # of files that belong to an image, and are called like it
_NUMBER = re.compile(r"(\d+)\D*\Z")


class ImageNames:
    """The names of images: `keys`, relative paths."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = [unicodedata.normalize("NFC", name_text(key)) for key in keys]
        self._alike: dict[str, list[int]] = {}
        for number, key in enumerate(self.keys):
            name = posixpath.basename(key)
            for form in {name, posixpath.splitext(name)[0]}:
                self._alike.setdefault(form, []).append(number)

    def by_path(self, name: str) -> list[int]:
        """The images whose path agrees best with a name, from the end of both on; none with another folder."""
        path = _normal(name)
        stem = _stem(path)
        ranks: dict[int, list[int]] = {}
        for number in self._called(path):
            key = self.keys[number]
            forms = ((path, key), (path, posixpath.splitext(key)[0]), (stem, posixpath.splitext(key)[0]))
            equal = next((rank for rank, (asked, own) in enumerate(forms) if asked == own), None)
            ends = next((rank for rank, (asked, own) in enumerate(forms, 3) if _is_end(asked, own)), None)
            rank = ends if equal is None else equal
            if rank is not None:
                ranks.setdefault(rank, []).append(number)
        return ranks[min(ranks)] if ranks else []

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
        return sorted({*self._alike.get(name, ()), *self._alike.get(stem, ())}) if name else []

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


def _is_end(one: str, other: str) -> bool:
    """Whether one path is the end of the other, by whole parts."""
    return one.endswith("/" + other) or other.endswith("/" + one)

"""A temporary folder that stands for a bucket while its files are examined.

In it each image, and each tar, is an empty file of its object's size, and every other file, such as annotations, is a
copy: so all readers work on it as on any folder. Modification times are numbers made of ETags. Tars are read through
`open_regular`, by ranges. The samples of the source have the addresses of their images in place of these files, and
workers read them there.
"""

import errno
import io
import os
import weakref
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

from shardfeed.annotations import Raster
from shardfeed.converters.sources.files.listing import Choice, Globs, is_hidden
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.guard import EVERY, mirrors, report_progress
from shardfeed.converters.sources.remote import Ranges, placed, read_in_place, storage_of, version_number
from shardfeed.converters.sources.rows.rows import ColumnarSource, Contents, Rasters
from shardfeed.converters.sources.source import Content, RasterImage, Source
from shardfeed.errors import IntegrityError, MissingExtraError, ShardfeedError, StorageError, UsageError, argument
from shardfeed.free_space import room_in
from shardfeed.storage.address import bucket_of, check_url, rooted
from shardfeed.storage.names import is_usable_name
from shardfeed.storage.objects import ObjectStorage, is_odd
from shardfeed.storage.storage import OpenFile, Part
from shardfeed.text import counted, number, size_text

_PIECE = 8 << 20  # bytes of a request
_GROUP_BYTES, _GROUP = 128 << 20, 256  # of copies in memory, and their number
_KEPT_FREE = 128 << 20  # bytes that others may need on the disk of the copies
_MORE_ROOM = f"name a folder with more room: TMPDIR=DIR, or leave files out: {argument('exclude', typed='PATTERN')}"
# Files that name images beside them, so that their folder is listed, too.
_LISTS = (".csv", ".tsv", ".tab", ".txt", ".lst", ".list", ".jsonl", ".ndjson", ".json", ".xml", ".yaml", ".yml")
_SMALL = 16 << 20  # bytes of such a file beside the given one, which may name it
_T = TypeVar("_T")


class _FileToCopy(NamedTuple):
    """A file to copy: its URL, its version, and the destination."""

    address: str
    size: int
    version: int
    path: str


class Mirror:
    """Folders in place of URLs. `exclude`: patterns of files that are not needed, and not copied.

    Exists as long as the sources made from it.
    """

    def __init__(self, exclude: Globs = ()) -> None:
        self._into = Unpacked()
        self._choice = Choice.of((), exclude)
        self._taken: list[str] = []
        self._folders: set[str] = set()
        self._odd: list[str] = []  # objects that no file can be called like
        self._copies: dict[bytes, int] = {}  # paths and bytes

    @property
    def folder(self) -> str:
        """The folder of all: below it are the scheme, the bucket, and the names in it."""
        if not self._into.folder:
            root = os.fsencode(self._into.made()) + b"/"
            mirrors[root] = partial(_opened, root, self._copies)
            weakref.finalize(self, mirrors.pop, root)
        return self._into.folder

    def bound(self, address: str) -> str:
        """The URL in its usual form; on the Hub at the current commit. Raises UsageError, StorageError."""
        scheme, _, rest = address.partition("://")
        address = f"{scheme.lower()}://{rest.rstrip('/')}"
        web = address.startswith("http")
        access = "download the file, and give its path" if web else "give only the URL, with credentials as usual"
        check_url(address, access)
        return rooted(address)[1]

    def path_of(self, address: str) -> str:
        """Return the local path that represents a URL."""
        scheme, _, rest = address.partition("://")
        return os.path.join(self.folder, scheme.lower(), rest.rstrip("/"))

    def take(self, address: str, *, with_images: bool = False) -> str:
        """The path of a folder that stands for the files at a URL, or of one file; created if it does not exist.

        `with_images`: whether to list the folder of a file too, if the file is one that names images.

        Raises UsageError if there is nothing at the URL or its kind is unknown, MissingExtraError, StorageError.
        """
        address = self.bound(address)
        web = address.startswith("http")
        storage, path = storage_of(address), self.path_of(address)
        if any(f"{address}/".startswith(f"{taken}/") for taken in self._taken) and os.path.lexists(path):
            return path
        self._taken.append(address)
        copies: list[_FileToCopy] = []
        if web:
            self._one(storage, address, path, copies)
        elif not self._list(storage, address, copies):
            if not storage.key(address):  # all of a bucket or repository, which is no file
                raise UsageError(address, "has no files", "check the URL, and that files were uploaded there")
            self._one(storage, address, path, copies)
            if with_images:
                copies += self._lists_beside(storage, address)
        self._copy(storage, copies)
        return path

    def _lists_beside(self, storage: ObjectStorage, address: str) -> list[_FileToCopy]:
        """The small files beside one that names images, which may belong to it; all files there are listed."""
        if not address.lower().endswith(_LISTS):
            return []
        beside: list[_FileToCopy] = []
        self._list(storage, address.rpartition("/")[0], beside)
        small = (one for one in beside if one.size <= _SMALL and one.address.lower().endswith(_LISTS))
        return [one for one in small if one.address != address]

    def _one(self, storage: ObjectStorage, address: str, path: str, copies: list[_FileToCopy]) -> None:
        try:
            version = storage.listed(address)
        except FileNotFoundError:
            if storage.root.startswith("http"):
                problem = "no such file, and folders are not listed by a web server"
                raise UsageError(address, problem, "give a file, or a table of URLs") from None
            raise UsageError(address, "no such file or folder", "check the URL") from None
        one = _FileToCopy(address, version[2], version_number(version), path)
        if not self._make_empty_file(one):
            raise UsageError(address, "its name cannot be that of a local file", "copy it to another name")
        if not read_in_place(os.fsencode(path)):
            copies.append(one)

    def _list(self, storage: ObjectStorage, address: str, copies: list[_FileToCopy]) -> int:
        """Create the files below a prefix, and add other files than images to `copies`. Returns the number of files."""
        count = 0
        for page in _one_ahead(storage.below(address, partial(_names, storage, address))):
            for name, size, version in page:
                key = os.fsencode(name[len(storage.key(address)) :].lstrip("/"))
                there = f"{storage.root}/{name}"
                one = _FileToCopy(there, size, version_number(version), self.path_of(there))
                if not self._make_empty_file(one):
                    continue
                count += 1
                if not (read_in_place(key) or any(map(is_hidden, key.split(b"/"))) or self._choice.leaves_out(key)):
                    copies.append(one)
                if not count % EVERY:
                    report_progress("listing", count)
        return count

    def _make_empty_file(self, one: _FileToCopy) -> bool:
        """Make an empty file in place of an object; False if no file can have this name."""
        folder = os.path.dirname(one.path)
        try:
            below_the_bucket = one.path[len(self.folder) :].lstrip("/")
            if is_odd(one.address.partition("://")[2]) or not is_usable_name(below_the_bucket):
                raise OSError(errno.EINVAL, "no name of a file")
            if folder not in self._folders:
                self._make(folder)
            file = os.open(one.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(file, one.size)
                os.utime(file, ns=(one.version, one.version))
            finally:
                os.close(file)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                problem = f"no room for an empty file for each image: {error.strerror}"
                raise StorageError(self.folder, problem, _MORE_ROOM) from None
            if one.size or error.errno != errno.EISDIR:
                self._odd.append(one.address)
            return False
        return True

    def _make(self, folder: str) -> None:
        """Make a folder; an object that is called like it, or like one above it, gives way."""
        above = folder
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            if os.path.getsize(above):  # web consoles create folders as empty objects with the folder's name
                self._odd.append(above)
            os.remove(above)
        os.makedirs(folder, exist_ok=True)
        self._folders.add(folder)

    def _copy(self, storage: ObjectStorage, copies: Sequence[_FileToCopy]) -> None:
        copies = [one for one in copies if os.path.isfile(one.path)]
        room_in(self.folder).check(sum(one.size for one in copies) + _KEPT_FREE, _MORE_ROOM)
        for group in _groups(copies):
            files: dict[_FileToCopy, OpenFile] = {one: storage.open(one.address, one.size) for one, _, _ in group}
            try:
                pieces = storage.read_many([Part(files[one], start, size) for one, start, size in group])
                for one, file in files.items():
                    if version_number(file.version) != one.version:  # type: ignore[arg-type]  # of this storage
                        raise IntegrityError(one.address, "has another ETag")
            except (FileNotFoundError, IntegrityError) as error:
                place = error.filename if isinstance(error, FileNotFoundError) else error.place
                raise StorageError(place, "changed while it was copied", "run the same command again") from None
            for (one, start, _), data in zip(group, pieces, strict=True):
                with open(one.path, "r+b") as copied:
                    copied.seek(start)
                    copied.write(data)
        for one in copies:
            os.utime(one.path, ns=(one.version, one.version))
            self._copies[os.fsencode(one.path)] = one.size

    @contextmanager
    def addresses_in_errors(self) -> Iterator[None]:
        """A block with errors that name URLs instead of paths in the folder."""
        try:
            yield
        except ShardfeedError as error:
            ShardfeedError.__init__(error, *map(self._shown, error.args))
            raise

    def _shown(self, text: str) -> str:
        for scheme in ("s3", "gs", "az", "hf", "https", "http"):
            text = text.replace(f"{self.folder}/{scheme}/", f"{scheme}://")
        return text

    def source(self, made: Source) -> Source:
        """The source that a reader made from the folder, with the images at their URLs. Raises UsageError."""
        if not isinstance(made, ColumnarSource):
            problem, remedy = f"{type(made).__name__} is its own kind of source", "copy the files to this machine"
            raise UsageError("reader", f"{problem}, which only reads local disks", remedy)
        found, root = made.findings, os.fsencode(self.folder) + b"/"
        notes = [*map(self._shown, found.notes)]
        if self._copies:
            copied = f"{number(len(self._copies), 'file')} of {size_text(sum(self._copies.values()))}"
            notes.append(f"copied first, as their names are neither of images nor of tars: {copied}")
        if self._odd:
            odd = [*map(self._shown, self._odd)]
            notes.append(counted("objects skipped, as their names cannot be file names", odd, len(odd)))
        rejected = [replace(one, reason=self._shown(one.reason)) for one in found.rejected]
        return made.changed(
            images=_Images(made.images, root),
            rasters=made.rasters and _Masks(made.rasters, root),
            findings=replace(found, notes=notes, rejected=rejected, folder=None),
            described=self._shown(made.described),
            kept=(self, made.kept),
        )


def _opened(root: bytes, copies: Container[bytes], path: bytes) -> BinaryIO | None:
    """Open the object that a path in the folder represents; None for a copy, which is opened directly."""
    if path in copies or not os.path.isfile(path):
        return None
    return io.BufferedReader(Ranges(path, root))  # type: ignore[return-value]  # as files are


def _one_ahead(pages: Iterator[_T]) -> Iterator[_T]:
    """The same pages, each of which is asked for while the one before is used."""
    with ThreadPoolExecutor(1, "shardfeed-list") as pool:
        coming = pool.submit(next, pages, None)
        while (page := coming.result()) is not None:
            coming = pool.submit(next, pages, None)
            yield page


def _names(storage: ObjectStorage, address: str) -> list[str]:
    """All names below an address, in the order of listings, by the store's own client; [] without it."""
    with suppress(MissingExtraError):
        found = () if storage.root.startswith("az") else bucket_of(storage.root).below(address)
        above = storage.key(address)
        return sorted((f"{above}/{name}".lstrip("/").removesuffix("/") for name in found), key=str.encode)
    return []


def _groups(copies: Sequence[_FileToCopy]) -> Iterator[list[tuple[_FileToCopy, int, int]]]:
    """Pieces of files, (file, start, size), as many as are held in memory at once."""
    group, held = list[tuple[_FileToCopy, int, int]](), 0
    for one in copies:
        for start in range(0, one.size, _PIECE):
            piece = min(_PIECE, one.size - start)
            if group and (held + piece > _GROUP_BYTES or len(group) == _GROUP):
                yield group
                group, held = [], 0
            group.append((one, start, piece))
            held += piece
    if group:
        yield group


@dataclass(frozen=True, eq=False)
class _Images:
    """Contents of a folder that stands for a bucket, with their URLs; `root`: path of that folder."""

    of: Contents
    root: bytes

    def __getitem__(self, index: int, /) -> Content:
        return placed(self.of[index], self.root)


@dataclass(frozen=True, eq=False)
class _Masks:
    """The same for masks."""

    of: Rasters
    root: bytes

    @property
    def raster(self) -> Raster:
        return self.of.raster

    def of_image(self, image: int) -> RasterImage:
        found = self.of.of_image(image)
        return replace(found, mask=placed(found.mask, self.root))

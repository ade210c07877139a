"""Listing a folder: one walk over its whole tree that opens no file.

The walk goes depth first through each folder's names in byte order, a folder counting as its name plus "/", so files
are sorted by the bytes of their relative path, and memory holds only the result.

On a local disk, threads would only cost CPU time. So the walk asks for each name in its turn until the disk has proved
slow; from then on `DiskAnswers` asks ahead, for many names at the same time. The result is the same either way.

`only_images`: files that are not images, by their names and first bytes, are counted and skipped.
"""

import errno
import os
import re
import stat
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, islice
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from shardfeed.converters.images.no_image import NoImage, recognise_file
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.annotation_files import AnnotationFile, recognise_annotations
from shardfeed.converters.sources.files.listing import Choice, Globs, Listing, is_hidden, names_image
from shardfeed.converters.sources.files.unpack import ByteStream, DamagedStreamError, form_of, unpacked
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import ShardfeedError, StorageError, UsageError, argument, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import counted, listing, number, some

# The machine's trouble, not the input's: rejecting the file would hide it.
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_LEAST = 4  # names kept: three are shown, and the fourth tells that there are more
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_TAIL = 5  # bytes at the end of a name that may hold an image's extension: none is longer
_SHOWN = 5  # extensions in a sentence
_READABLE = "check that the folder can be read"
_NEAR = 3  # files before and after one in a listing that may have its name
_MOST_LABELS = 1000  # files that may label images are searched for until there are so many
_REMARKS = (
    *(b"readme", b"license", b"licence", b"citation", b"changelog", b"requirements"),
    *(b"classes", b"labels.txt", b"class_names"),
)
# A FIFO put there since the listing must not block us.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def list_files(
    root: str | bytes | os.PathLike[str], *, include: Globs = (), exclude: Globs = (), follow_links: bool = False
) -> Listing:
    """Walk `root` once. Hidden names are counted and skipped; every other input is listed or in `skipped`.

    `include`, `exclude`: patterns (see Patterns) of files to take, all by default, and to leave out; left out files are
    counted. Folders that match `exclude` are not walked. Links inside the root are followed, except a link to a folder
    that is also listed under its own name, so each folder is walked once. With `follow_links`, links that leave the
    root are followed too, and their targets get the link's name. Raises UsageError if `root` is not a folder or a
    pattern is invalid, StorageError if it cannot be read.
    """
    choice = Choice.of(include, exclude)
    return _Walk(os.path.abspath(os.fsencode(root)), choice, follow_links=follow_links).listing()


_FOLLOW = f"follow links that point outside the folder: {argument('follow_links', True)}"


def some_files(root: str | bytes | os.PathLike[str], **chosen: Any) -> Listing:
    """As `list_files`, and raises UsageError for a folder without files."""
    listing = list_files(root, **chosen)
    if not len(listing):
        raise _no_files_error(listing)
    return listing


def _no_files_error(listing: Listing) -> UsageError:
    if not listing.skipped and listing.choice:
        problem = f"no matching file in it ({'; '.join(listing.notes) or 'it is empty'})"
        return UsageError(listing.root, problem, "change include or exclude: patterns of paths relative to the folder")
    if not listing.skipped:
        return UsageError(listing.root, f"no file in it ({listing.hidden} hidden names)", "check the path")
    first = listing.skipped[0]
    problem = f"none of {len(listing.skipped)} inputs can be read, the first: {escape(first.key)}: {first.reason}"
    outside = first.code == RejectCode.PATH_ESCAPE.value
    return UsageError(listing.root, problem, _FOLLOW if outside else "check that the files are readable")


class _Names:
    """Number of names found, and the smallest few, independent of the disk's order."""

    def __init__(self) -> None:
        self.count = 0
        self.least: list[bytes] = []

    def add(self, key: bytes) -> None:
        self.count += 1
        if len(self.least) < _LEAST or key < self.least[-1]:
            self.least = sorted([*self.least, key])[:_LEAST]


class _Walk:
    def __init__(self, root: bytes, choice: Choice, *, follow_links: bool) -> None:
        self.root, self.choice, self.follow_links = root, choice, follow_links
        self.base = root.rstrip(b"/") + b"/"
        self.disk = DiskAnswers(self.base, deepcopy(choice).takes)  # a copy, since `choice` counts the patterns in use
        self.real_base = b""
        self.blob = bytearray()
        self.ends, self.sizes, self.mtimes = array("q", [0]), array("q"), array("q")
        self.skipped: list[Skipped] = []
        self.bare: list[bytes] = []
        self.hidden, self.unwanted = _Names(), _Names()
        self.aliases: list[tuple[bytes, bytes]] = []
        self.again: set[bytes] = set()  # folders with "/" that were visited under another key before
        self.visited: dict[tuple[int, int], bytes] = {}  # (device, inode) of a folder -> its key with "/"

    def listing(self) -> Listing:
        try:
            mode = os.stat(self.root).st_mode
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path
            raise UsageError(self.root, "no such folder", "check the path") from None
        except OSError as error:
            raise StorageError(self.root, error.strerror or str(error), _READABLE) from None
        if not stat.S_ISDIR(mode):
            raise UsageError(self.root, "not a folder", "give the folder of the images")
        self.real_base = os.path.realpath(self.root).rstrip(b"/") + b"/"
        try:
            self._walk()
        finally:
            self.disk.close()
        report_progress("listing", len(self.sizes))
        return Listing(
            root=self.root,
            blob=bytes(self.blob),
            ends=np.frombuffer(self.ends, np.int64),
            sizes=np.frombuffer(self.sizes, np.int64),
            mtimes=np.frombuffer(self.mtimes, np.int64),
            skipped=tuple(sorted(self.skipped, key=lambda skipped: skipped.key)),
            bare=tuple(sorted(self.bare)),
            hidden=self.hidden.count,
            aliases=tuple(sorted(self.aliases)),
            notes=self._notes(),
            choice=self.choice,
        )

    def _walk(self) -> None:
        # A stack of our own: folders may be nested deeper than Python's calls.
        stack = [(b"", self.disk.in_turn(b"", self._names(b"")), 0)]
        while stack:
            prefix, names, met_before = stack[-1]
            for name in names:
                if name.endswith(b"/"):
                    key, met = prefix + name, self._names_seen()
                    stack.append((key, self.disk.in_turn(key, self._names(key)), met))
                    break
                self._list(prefix + name)
            else:
                stack.pop()
                if prefix and self._names_seen() == met_before and prefix not in self.again:
                    self.bare.append(prefix[:-1])

    def _names_seen(self) -> int:
        """Number of files listed and names left out so far; a folder that adds none is empty."""
        return len(self.sizes) + self.unwanted.count

    def _names(self, prefix: bytes) -> list[bytes]:
        """The visible names of a folder in byte order, folders with "/"."""
        names = []
        try:
            if not self._first_visit(prefix):
                return []
            with self.disk.scandir(prefix) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        self.hidden.add(prefix + entry.name)
                    elif entry.is_symlink():
                        names += self._follow(prefix + entry.name)
                    else:
                        names.append(entry.name + b"/" if entry.is_dir(follow_symlinks=False) else entry.name)
            if self.choice:
                names = [name for name in names if self._wants(prefix + name)]
        except OSError as error:
            if not prefix:
                raise StorageError(self.root, error.strerror or str(error), _READABLE) from None
            self._skip_unreadable(prefix[:-1], error)
            return []
        return sorted(names)

    def _first_visit(self, prefix: bytes) -> bool:
        # A bind mount or a link into a hidden folder may lead to the same folder twice, or round in circles.
        status = self.disk.stat(prefix)
        first = self.visited.setdefault((status.st_dev, status.st_ino), prefix)
        if first != prefix:
            self.aliases.append((prefix[:-1], first[:-1]))
            self.again.add(prefix)
        return first == prefix

    def _wants(self, key: bytes) -> bool:
        """Whether the patterns take the file or folder `key`; counts the ones left out."""
        wanted = self.choice.takes(key)
        if not wanted:
            self.unwanted.add(key)
        return wanted

    def _follow(self, key: bytes) -> list[bytes]:
        """The name of a link to list or to descend into, or nothing."""
        name = key.rpartition(b"/")[2]
        if self.choice.leaves_out(key + b"/"):
            return [name + b"/"]  # left out by the caller, wherever it leads
        try:
            mode = self.disk.stat(key).st_mode
        except OSError as error:
            if not self.choice.wants(key):
                return [name]  # likewise
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                self._skip(key, RejectCode.MISSING, f"a broken link ({error.strerror})")
            else:
                self._skip_unreadable(key, error)
            return []
        target = os.path.realpath(self.base + key)
        if not (target + b"/").startswith(self.real_base):
            if self.follow_links:
                return [name + b"/" if stat.S_ISDIR(mode) else name]
            if not stat.S_ISDIR(mode) and not self.choice.wants(key):
                return [name]
            # The link's own text, not its target on this machine: the report is part of the dataset.
            written = escape(os.readlink(self.base + key))
            reason = f"a link that points outside the root: {written} ({argument('follow_links', True)} includes it)"
            self._skip(key, RejectCode.PATH_ESCAPE, reason)
            if stat.S_ISDIR(mode):
                self.bare.append(key)
            return []
        if not stat.S_ISDIR(mode):
            return [name]
        inside = target[len(self.real_base) :]
        if any(map(is_hidden, inside.split(b"/"))) or self.choice.leaves_out(inside + b"/"):
            return [name + b"/"]  # its own name is not walked
        self.aliases.append((key, inside))
        return []

    def _list(self, key: bytes) -> None:
        try:
            status = self.disk.stat(key)
        except OSError as error:
            self._skip_unreadable(key, error)
            return
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
            self._skip(key, RejectCode.NOT_REGULAR, f"{kind}, expected a file")
            return
        self.blob += key
        self.ends.append(len(self.blob))
        self.sizes.append(status.st_size)
        self.mtimes.append(status.st_mtime_ns)
        if not len(self.sizes) % EVERY:
            report_progress("listing", len(self.sizes))

    def _skip(self, key: bytes, code: RejectCode, reason: str) -> None:
        self.skipped.append(Skipped(key, code.value, reason))

    def _skip_unreadable(self, key: bytes, error: OSError) -> None:
        if error.errno in _OUT_OF_RESOURCES:
            place = self.base + key
            raise StorageError(place, error.strerror or str(error), "raise the limit and run again") from None
        name = errno.errorcode.get(error.errno or 0, "OSError")
        self._skip(key, RejectCode.UNREADABLE, f"{name}: {error.strerror or error}")

    def _notes(self) -> tuple[str, ...]:
        unwanted = ("files and folders left out by include and exclude", self.unwanted)
        passed = [("ignored hidden names", self.hidden), unwanted]
        notes = [counted(what, names.least, names.count) for what, names in passed if names.count]
        notes += self.choice.unused()
        if self.aliases:
            links = [link + b" -> " + (folder or b".") for link, folder in sorted(self.aliases)]
            notes.append(counted("links to folders that are already listed under another name", links, len(links)))
        return tuple(notes)


@dataclass(frozen=True)
class SkippedFiles:
    """`files`: files that are not images. `notes`: sentences about them. `labels`: files that may label the images."""

    files: Listing
    notes: tuple[str, ...] = ()
    labels: Mapping[bytes, AnnotationFile] = field(default_factory=dict)


def only_images(files: Listing) -> tuple[Listing, SkippedFiles]:
    """Divide files into images, by name or by first bytes, and others.

    A file with an image's extension counts as an image and is not opened; faults are found when it is read. So does a
    file that cannot be opened. Raises UsageError if no file is an image, StorageError if no file descriptors are left.
    """
    doubtful = _other_names(files)
    others, kinds, labels = [], {}, dict[bytes, AnnotationFile]()
    for i in doubtful.tolist():
        head = head_of(files, i)
        if head is not None and not begins_as_image(head):
            others.append(i)
            kinds[i] = recognise_file(head)
            if len(labels) < _MOST_LABELS and (found := _labels_in(files, i, head)):
                labels[files.key(i)] = found
    if not others:
        return files, SkippedFiles(files.take(np.empty(0, np.int64)))
    if len(others) == len(files):
        raise _no_image(files, kinds)
    chosen = np.array(others, np.int64)
    archives = [files.key(i) for i in others if (kind := kinds[i]) and kind.archive]
    passed = files.take(chosen)
    counts = Counter(map(_extension, passed))
    ignored = f"{number(len(passed), 'file')} ignored, not images by name or content: {_kinds_text(counts)}"
    notes = [f"{ignored} ({some(_examples(passed, counts))})"]
    if archives:
        notes.append(counted("archives among them, which were not opened", archives, len(archives)))
    if labels:
        notes.append(annotations_note(labels))
    return files.take(np.delete(np.arange(len(files)), chosen)), SkippedFiles(passed, tuple(notes), labels)


def _labels_in(files: Listing, index: int, head: bytes) -> AnnotationFile | None:
    """Recognise labels by the first bytes of a file, or by its place next to an image of the same name; no README."""
    key = files.key(index)
    if not head or is_remark(key):
        return None
    near = map(files.key, range(max(index - _NEAR, 0), min(index + _NEAR + 1, len(files))))
    start = os.path.splitext(key)[0] + b"."
    of_image = any(name.startswith(start) and names_image(name) for name in near)
    return recognise_annotations(head) or (AnnotationFile("named like an image", "beside") if of_image else None)


def is_remark(key: bytes) -> bool:
    """Whether a file says nothing about single images, by its name: a README, a licence, the names of classes."""
    return key.rpartition(b"/")[2].lower().startswith(_REMARKS)


def labels_among(files: Listing, indices: Iterable[int]) -> dict[bytes, AnnotationFile]:
    """Find the files that may label images among the first 1000 of those that are no images."""
    found = ((files.key(i), _labels_in(files, i, head_of(files, i) or b"")) for i in islice(indices, _MOST_LABELS))
    return {key: one for key, one in found if one}


def annotations_note(labels: Mapping[bytes, AnnotationFile]) -> str:
    """Return the note on files that may label images and are not read."""
    count = f"{len(labels):,}{' or more' if len(labels) == _MOST_LABELS else ''}"
    return f"files that may label the images, not read: {count} ({shown_annotations(labels)})"


def shown_annotations(labels: Mapping[bytes, AnnotationFile]) -> str:
    """Return the first files of each kind with what they are: `a.json: JSON with the keys ..., b.csv: a table ...`."""
    firsts: dict[tuple[str, bytes], bytes] = {}  # by kind and folder
    for key, found in labels.items():
        firsts.setdefault((found.what.partition(" with ")[0], key.rpartition(b"/")[0].partition(b"/")[0]), key)
    return listing([f"{escape(key)}: {labels[key].what}" for key in firsts.values()], 3)


def _other_names(files: Listing) -> np.ndarray:
    """int64 [m]: the numbers of files without an image's extension."""
    if not len(files):
        return np.empty(0, np.int64)
    # Names have few different extensions, so a million are checked quickly.
    blob = np.frombuffer(bytes(_TAIL) + files.blob, np.uint8)
    tails = blob[files.ends[1:, None] + np.arange(_TAIL)]
    packed = (tails.astype(np.int64) << (8 * np.arange(_TAIL))).sum(axis=1)
    found, of_file = np.unique(packed, return_inverse=True)
    images = [names_image(b"x" + int(tail).to_bytes(_TAIL, "little")) for tail in found]
    return np.flatnonzero(~np.array(images, bool)[of_file])


def head_of(files: Listing, index: int) -> bytes | None:
    """Return the first bytes of a file; None if it cannot be read."""
    file = files.file(index)
    if not file.size:
        return b""
    try:
        fd = os.open(file.path, _FLAGS)
        try:
            return os.read(fd, HEAD_BYTES)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _OUT_OF_RESOURCES:
            raise storage_error(file.path, "read", error) from error
        return None


def _extension(key: bytes) -> str:
    """Extension for messages: `.txt`, in lower case, or "without extension"."""
    extension = os.path.splitext(key)[1].lower()
    return escape(extension) if 1 < len(extension) <= 12 else "without extension"


def _kinds_text(counts: Counter[str]) -> str:
    """`5,210 .ogg, 12 .txt and 3 more kinds`."""
    known = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    more = f" and {len(known) - _SHOWN} more kinds" if len(known) > _SHOWN else ""
    return listing([f"{count:,} {extension}" for extension, count in known[:_SHOWN]]) + more


def _examples(passed: Listing, counts: Counter[str]) -> Iterator[bytes]:
    """Order files: one of each extension first, the most frequent extension first; then the rest."""
    firsts: dict[str, bytes] = {}
    for key in passed:
        firsts.setdefault(_extension(key), key)
    shown = [firsts[extension] for extension in sorted(counts, key=lambda name: (-counts[name], name))]
    yield from shown
    yield from (key for key in passed if key not in shown)


# Folders that TensorFlow writes: a pattern of a file in it, what the folder is, and what to do.
_FOREIGN = (
    (
        re.compile(rb"(?:^|/)(?:snapshot\.metadata|dataset_spec\.pb)\Z|\.snapshot\Z"),
        "a dataset of tf.data's Dataset.save",
        "load it with tf.data.Dataset.load, and write its images as files or as TFRecords of tf.train.Example",
    ),
    (re.compile(rb"(?:^|/)events\.out\.tfevents\."), "a log of TensorBoard", "give the folder of the images"),
    (re.compile(rb"(?:^|/)saved_model\.pb\Z"), "a SavedModel, which is no dataset", "give the folder of the images"),
    (re.compile(rb"\.ckpt[^/]*\Z|(?:^|/)checkpoint\Z"), "a checkpoint of a model", "give the folder of the images"),
)


def _no_image(files: Listing, kinds: dict[int, NoImage | None]) -> UsageError:
    """Create the error for a folder without any usable file; it names the most frequent kinds, if known."""
    counts = Counter(map(_extension, files))
    usual = min(counts, key=lambda name: (-counts[name], name))
    first = next(i for i, key in enumerate(files) if _extension(key) == usual)
    among = "its only file" if len(files) == 1 else f"{len(files):,} files"
    remedy = _way_from(files, first, kinds[first])
    remedy = _FOLLOW if any(one.code == RejectCode.PATH_ESCAPE.value for one in files.skipped) else remedy
    remedy = remedy if files.sizes[first] else f"{escape(files.key(first))} is empty: copy it again"
    for pattern, what, way in _FOREIGN:
        if named := next((key for key in files if pattern.search(key)), None):
            problem = f"no image among {among}: {escape(named)} belongs to {what}"
            return UsageError(files.root, problem, way)
    return UsageError(files.root, f"no image among {among}: {_kinds_text(counts)}", remedy)


_NUMBERS = "write them as an .npz with the arrays images and labels, or read them with your own Source"
_LIBSVM = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[ \t]+\d+:[-+.\deE]+)+[ \t]*\r?\n")
_PLAIN_BYTES = 4096  # of a compressed file, that show what is in it


def _way_from(files: Listing, index: int, kind: NoImage | None) -> str:
    """The remedy for a file that is no image, by what it holds."""
    name = escape(files.key(index))
    head = head_of(files, index) or b""
    inside = _unpacked_head(files, index) if kind is not None and kind.archive else b""
    if lines := _numbers_in(inside or head):
        packed = f"{kind.what}, and in it are " if inside and kind else ""
        return f"{name} is {packed}{lines}: {_NUMBERS}" if packed else f"in {name} are {lines}: {_NUMBERS}"
    return f"{name} is {kind.what}: {kind.remedy}" if kind and kind.remedy else "check the path"


def _numbers_in(head: bytes) -> str:
    """Name lines of numbers, such as of pixels; "" for any other text."""
    if _LIBSVM.match(head):
        return "lines of numbers in LIBSVM's form"
    found = recognise_annotations(head)
    return found.what if found is not None and found.kind == "numbers" else ""


def _unpacked_head(files: Listing, index: int) -> bytes:
    """The first bytes in a compressed file; none if it is damaged, or not compressed by a form that is known."""
    path = os.fsdecode(files.file(index).path)
    try:
        form = form_of(path)
        return ByteStream(unpacked(path, form, path)).take(_PLAIN_BYTES) if form else b""
    except (DamagedStreamError, ShardfeedError, OSError):
        return b""


_BATCH = 1024  # names after which the waiting is judged: after fewer, a pause of this process could look like the disk
_STEP = 64  # names of a folder after which they are counted towards the batch
_SLOW = 0.05  # seconds of waiting for a batch. A local disk takes about none, a network disk 0.2 to 1
_THREADS = 32
# At most _AHEAD * _CHUNK * _MOST answers of about 1 kB are kept for each folder on the way to the current one.
_AHEAD = 2 * _THREADS  # chunks of a folder asked for before their turn
_CHUNK = 8  # names that a thread asks for at a time
_MOST = 128  # names in a tree that a thread reads as a whole


class _Answers(NamedTuple):
    """`statuses` of files and folders, and `entries` of folders, by key; folders with "/"."""

    statuses: dict[bytes, os.stat_result]
    entries: dict[bytes, list[os.DirEntry[bytes]]]


class DiskAnswers:
    """The disk's answers about the names below `base`. On a slow disk, threads ask ahead of the walk.

    `wants`: whether the walk will want the status of a key. Threads call it at the same time.
    """

    _slow = False  # whether the disk was, for any batch so far

    def __init__(self, base: bytes, wants: Callable[[bytes], bool]) -> None:
        self._base, self._wants = base, wants
        self._statuses, self._entries = _Answers({}, {})
        self._pool = ThreadPoolExecutor(_THREADS)  # starts no thread before its first task
        self._names, self._waited = 0, perf_counter() - thread_time()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)

    def stat(self, key: bytes) -> os.stat_result:
        """Return the status of a key, with links followed. Raises OSError."""
        known = self._statuses.get(key) if self._statuses else None
        return known or os.stat(self._base + key)

    def scandir(self, key: bytes) -> AbstractContextManager[Iterator[os.DirEntry[bytes]]]:
        """Return the entries of a folder, as `os.scandir` does. Raises OSError."""
        known = self._entries.get(key)
        return os.scandir(self._base + key) if known is None else nullcontext(iter(known))

    def in_turn(self, prefix: bytes, names: list[bytes]) -> Iterator[bytes]:
        """Yield the names in a folder. If the disk is slow, threads ask for the next ones meanwhile."""
        if not self._slow and len(names) <= _STEP:  # as in most folders: generators would cost some per cent
            self._judge(len(names))
            return iter(names)
        known = prefix in self._statuses  # and so is all that is in it
        return iter(names) if known else chain.from_iterable(self._chunks(prefix, names))

    def _chunks(self, prefix: bytes, names: list[bytes]) -> Iterator[list[bytes]]:
        left = iter(names)
        while not self._slow and (chunk := list(islice(left, _STEP))):
            yield chunk
            self._judge(len(chunk))
        size = min(_CHUNK, len(names) // _THREADS + 1)
        asked: deque[tuple[list[bytes], Future[_Answers]]] = deque()
        while True:
            while len(asked) < _AHEAD and (chunk := list(islice(left, size))):
                asked.append((chunk, self._pool.submit(self._ask, prefix, chunk)))
            if not asked:
                return
            chunk, future = asked.popleft()
            answers = future.result()
            self._statuses.update(answers.statuses)
            self._entries.update(answers.entries)
            yield chunk
            for key in answers.statuses:
                self._statuses.pop(key, None)  # if a folder changes meanwhile, a key may be asked for twice
            for key in answers.entries:
                self._entries.pop(key, None)

    def _judge(self, names: int) -> None:
        """Decide whether the disk is slow, once a batch is full with these `names`."""
        self._names += names
        if self._names >= _BATCH:
            waited = perf_counter() - thread_time()  # CPU time says nothing: patterns and links take it on every disk
            self._slow = self._slow or waited - self._waited > _SLOW
            self._names, self._waited = 0, waited

    def _ask(self, prefix: bytes, names: list[bytes]) -> _Answers:
        """Ask about names. Where there is an error, the walk asks again, and gets it in its turn."""
        answers = _Answers({}, {})
        for name in names:
            with suppress(OSError):
                self._ask_below(prefix + name, answers)
        return answers

    def _ask_below(self, top: bytes, answers: _Answers) -> None:
        """Ask about a name and, if it is a folder, all that is in it; about nothing if these are more than _MOST."""
        keys, entries = [top], {}
        for key in keys:  # which grow meanwhile
            if key.endswith(b"/"):
                room = _MOST - len(keys)
                with os.scandir(self._base + key) as inside:
                    entries[key] = list(islice(inside, room + 1))
                if len(entries[key]) > room:
                    return
                visible = (entry for entry in entries[key] if not is_hidden(entry.name))
                inner = (key + entry.name + b"/" * entry.is_dir(follow_symlinks=False) for entry in visible)
                keys += filter(self._wants, inner)
        answers.entries.update(entries)
        for key in keys:
            with suppress(OSError):
                answers.statuses[key] = os.stat(self._base + key)

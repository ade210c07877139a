"""Files among images that are no images: told by their names and first bytes, counted, and passed over."""

import errno
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.images.no_image import NoImage, what_it_is
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.errors import UsageError, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import counted, listing, some

_TAIL = 5  # bytes at the end of a name that say whether it is an image's: no extension of one is longer
_SHOWN = 5  # extensions in a sentence
# A FIFO put there since the listing must not block us.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@dataclass(frozen=True)
class PassedOver:
    """`files`: those that are no images. `notes`: sentences about them."""

    files: Listing
    notes: tuple[str, ...] = ()


def only_images(files: Listing) -> tuple[Listing, PassedOver]:
    """The files that are images by their names or by their first bytes, and the others.

    A name that says it is an image is believed here, and its file not opened: what is wrong with it is found, and
    held against it, when it is read. So is a file that cannot be opened. Raises UsageError where files are no images
    one and all, StorageError where the machine has no more file descriptors.
    """
    doubtful = _other_names(files)
    others, kinds = [], {}
    for i in doubtful.tolist():
        head = _head(files, i)
        if head is not None and not begins_as_image(head):
            others.append(i)
            kinds[i] = what_it_is(head)
    if not others:
        return files, PassedOver(files.take(np.empty(0, np.int64)))
    if len(others) == len(files):
        raise _no_image(files, kinds)
    chosen = np.array(others, np.int64)
    archives = [files.key(i) for i in others if (kind := kinds[i]) and kind.archive]
    passed = files.take(chosen)
    notes = [_note(passed)]
    if archives:
        notes.append(counted("archives among them, which were not looked into", archives, len(archives)))
    return files.take(np.setdiff1d(np.arange(len(files)), chosen)), PassedOver(passed, tuple(notes))


def _other_names(files: Listing) -> np.ndarray:
    """int64 [m]: the numbers of the files whose names are no image's."""
    if not len(files):
        return np.empty(0, np.int64)
    # Few ends of names differ, so a million of them are looked at in a blink.
    blob = np.frombuffer(bytes(_TAIL) + files.blob, np.uint8)
    tails = blob[files.ends[1:, None] + np.arange(_TAIL)]
    packed = (tails.astype(np.int64) << (8 * np.arange(_TAIL))).sum(axis=1)
    found, of_file = np.unique(packed, return_inverse=True)
    images = [names_image(b"x" + int(tail).to_bytes(_TAIL, "little")) for tail in found]
    return np.flatnonzero(~np.array(images, bool)[of_file])


def _head(files: Listing, index: int) -> bytes | None:
    """The first bytes of a file; None where they cannot be had."""
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
    """`.txt`, in lower case, or that there is none."""
    extension = os.path.splitext(key)[1].lower()
    return escape(extension) if 1 < len(extension) <= 12 else "without extension"


def _by_extension(files: Listing) -> Counter[str]:
    return Counter(map(_extension, files))


def _kinds_text(counts: Counter[str]) -> str:
    """`5,210 .ogg, 12 .txt and 3 more kinds`."""
    known = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    more = f" and {len(known) - _SHOWN} more kinds" if len(known) > _SHOWN else ""
    return listing([f"{count:,} {extension}" for extension, count in known[:_SHOWN]]) + more


def _note(passed: Listing) -> str:
    counts = _by_extension(passed)
    files = "1 file" if len(passed) == 1 else f"{len(passed):,} files"
    return (
        f"{files} passed over, images neither by name nor by content: {_kinds_text(counts)} "
        f"({some(_examples(passed, counts))})"
    )


def _examples(passed: Listing, counts: Counter[str]) -> Iterator[bytes]:
    """The first file of each extension, those first that most files have; then all others."""
    firsts: dict[str, bytes] = {}
    for key in passed:
        firsts.setdefault(_extension(key), key)
    shown = [firsts[extension] for extension in sorted(counts, key=lambda name: (-counts[name], name))]
    yield from shown
    yield from (key for key in passed if key not in shown)


def _no_image(files: Listing, kinds: dict[int, NoImage | None]) -> UsageError:
    """The error where all files are passed over; it says what the most frequent ones are, where that is known."""
    counts = _by_extension(files)
    usual = min(counts, key=lambda name: (-counts[name], name))
    first = next(i for i, key in enumerate(files) if _extension(key) == usual)
    kind = kinds[first]
    among = "its only file" if len(files) == 1 else f"{len(files):,} files"
    remedy = f"{escape(files.key(first))} is {kind.what}: {kind.remedy}" if kind and kind.remedy else "check the path"
    remedy = remedy if files.sizes[first] else f"{escape(files.key(first))} is empty: copy it again"
    return UsageError(files.root, f"no image among {among}: {_kinds_text(counts)}", remedy)

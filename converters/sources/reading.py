"""Contents of a sample: the bytes of its image, wherever they are, read ahead from a slow disk; its values, checked.

A record holds flat lists of one dtype. Any other value would be flattened, cut or taken for another number.
"""

import errno
import json
import os
import re
import resource
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT
from shardfeed.converters.rejects import MAX_FILE_BYTES, RejectCode, RejectedError, check_bytes
from shardfeed.converters.sources.files.text import as_utf8, lines_as_utf8
from shardfeed.converters.sources.foreign import call_foreign
from shardfeed.converters.sources.guard import budget, mirrors, open_regular
from shardfeed.converters.sources.source import Content, FinishedRecord, Sample, SourceFile
from shardfeed.errors import LabelFileError, UsageError, escape, name_text
from shardfeed.schema import IMAGE_KEYS, Dtype, Feature, Schema, Value
from shardfeed.storage.local import storage_error

_ADDRESS = re.compile(rb"(?:s3|gs|az|hf|https?)://", re.IGNORECASE)
_AHEAD = 32  # files; four already hide most of a disk's delay, this many let it sort its work
_FIRST = 64  # samples of a shard that are requested before it begins, if they are at URLs
_MOST_TEXT = 256_000_000  # bytes of a text file
MOST_WHOLE = 1 << 28  # bytes of a file of annotations: parsed it takes some ten times as much
_LOOK = 16  # images between two looks at whether anything came from the disk
_HINTS = hasattr(os, "posix_fadvise") and hasattr(resource, "RUSAGE_THREAD")  # Linux

# A FIFO put there since the listing must not block us: O_NONBLOCK opens it, fstat then tells.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# Not the file's fault but the machine's or ours: the next one would fare no better.
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


def read_image(sample: Sample, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read the bytes of a sample's image. Raises RejectedError if they cannot be read, or differ from the plan.

    A file of more than `max_bytes` is refused before any of it is read. Raises StorageError if the machine has no
    memory or no file descriptor left.
    """
    return read_content(sample.image, max_bytes)  # type: ignore[arg-type]  # of a record, no image is asked for


def read_content(content: Content, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read the bytes of an image or a mask; raises the same errors as `read_image`."""
    if mirrors or _is_remote(content):
        from shardfeed.converters.sources import remote  # not above: local files need no client

        for root in mirrors:
            content = remote.placed(content, root)
        if _is_remote(content):
            return remote.fetch(content, max_bytes)
    if isinstance(content, SourceFile):
        check_bytes(content.size, max_bytes)
        return _read_file(content)
    if isinstance(content, bytes):
        return content
    return call_foreign(content)


def read_lines(file: SourceFile) -> list[tuple[int, bytes]]:
    """The lines of a text file that are not blank, with their numbers from 1. Raises RejectedError, HostileError.

    Bytes that are not UTF-8 stay as they are, if no encoding was asked for: they may be of paths.
    """
    data = lines_as_utf8(read_content(file, _MOST_TEXT), name_text(file.path))
    return [(n, line) for n, line in enumerate(budget().lines(data, name_text(file.path)), 1) if line.strip()]


def read_whole(
    path: str, most: int = MOST_WHOLE, remedy: str = "split it, or check that it is the right file"
) -> bytes:
    """The text of a file of annotations, as UTF-8. Raises LabelFileError, as `read_raw` and for other encodings."""
    return as_utf8(read_raw(path, most, remedy), path)


def read_raw(path: str, most: int = MOST_WHOLE, remedy: str = "split it, or check that it is the right file") -> bytes:
    """The bytes of a file of annotations. Raises LabelFileError for one of more than `most`, or that cannot be read."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > most:
                raise LabelFileError(path, f"more than {most:,} bytes, too large to be read at once", remedy)
            return file.read()
    except OSError as error:
        raise LabelFileError(path, f"cannot be read: {error.strerror}", "check the path") from None


def _read_file(file: SourceFile) -> bytes:
    try:
        fd = os.open(file.path, _FLAGS)
        try:
            data = os.read(fd, file.size + 1)
            state = os.fstat(fd)
            while stat.S_ISREG(state.st_mode) and len(data) < min(file.size, state.st_size):
                more = os.read(fd, file.size + 1 - len(data))
                if not more:
                    break
                data += more
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise RejectedError(RejectCode.SOURCE_CHANGED, "it was deleted after it was listed") from None
    except OSError as error:
        if error.errno in _OURS:
            raise storage_error(file.path, "read", error) from error
        raise RejectedError(RejectCode.UNREADABLE, f"{os.strerror(error.errno or 0)} (errno {error.errno})") from None
    if not stat.S_ISREG(state.st_mode):
        raise RejectedError(RejectCode.NOT_REGULAR, "no longer a regular file")
    if len(data) != file.size or state.st_size != file.size or state.st_mtime_ns != file.mtime_ns:
        sizes = f"listed with {file.size} bytes, now {max(len(data), state.st_size)}"
        raise RejectedError(RejectCode.SOURCE_CHANGED, f"{sizes}; or its modification time differs")
    return data


class ReadAhead:
    """Reading ahead while images are read in order; changes nothing else.

    The kernel gets hints for files on a disk; the hints stop while nothing is read from the disk, because cached files
    need none, and start again later. Files at URLs are read in threads. `kept`: indices of samples that are not read.
    `after`: contents at URLs that the next object reads first, and that are requested when all of this one are.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        max_bytes: int = MAX_FILE_BYTES,
        kept: Collection[int] = frozenset(),
        after: Sequence[Content] = (),
    ) -> None:
        self._samples, self._max_bytes, self._kept, self._after = samples, max_bytes, kept, after
        self._hinted = 0  # samples before this one were announced
        self._input = _disk_input()
        self._remote: ModuleType | None = None
        self.active = False
        if any(_is_remote(content) for sample in samples for content in _contents(sample)):
            from shardfeed.converters.sources import remote

            remote.forget()
            self._remote = remote

    def before(self, place: int, alive: Callable[[], object] = lambda: None) -> None:
        """Announce the files up to `_AHEAD` after sample `place`, which is read next, if that helps.

        Waits for this sample's files at URLs, and calls `alive` every few seconds.
        """
        if self._remote:
            self._begin(place, self._remote)
            self._remote.wait_for(_contents(self._samples[place]), alive)
            return
        if place and place % _LOOK == 0:
            found = _disk_input()
            self.active, self._input = found != self._input, found
        if not self.active:
            return
        end = min(place + 1 + _AHEAD, len(self._samples))
        for sample in self._samples[max(place + 1, self._hinted) : end]:
            for content in _contents(sample):
                if isinstance(content, SourceFile):
                    _announce(content.path)
        self._hinted = end

    def _begin(self, place: int, remote: ModuleType) -> None:
        self._hinted, more, own = max(place, self._hinted), True, len(self._samples)
        while more and self._hinted < min(place + remote.AHEAD, own + len(self._after)):
            if self._hinted not in self._kept:
                if self._hinted < own:
                    contents = [*filter(_is_remote, _contents(self._samples[self._hinted]))]
                else:
                    contents = [self._after[self._hinted - own]]
                more = remote.begin(contents, self._max_bytes, of_next_shard=self._hinted >= own)
            self._hinted += 1


def first_at_urls(samples: Sequence[Sample], kept: Collection[int]) -> tuple[Any, ...]:
    """The contents at URLs of the first samples, for `after` of the `ReadAhead` before; see there for `kept`."""
    few = (sample for place, sample in enumerate(samples[:_FIRST]) if place not in kept)
    return tuple(content for sample in few for content in _contents(sample) if _is_remote(content))


def _is_remote(content: Any) -> bool:
    """Whether a content is at a URL: a file, or a part of one, with a URL as its path."""
    path = getattr(content, "path", None)
    return isinstance(path, bytes) and _ADDRESS.match(path) is not None


def _contents(sample: Sample) -> tuple[Content | FinishedRecord, ...]:
    return (sample.image,) if sample.raster is None else (sample.image, sample.raster.mask)


def _disk_input() -> int:
    """Return how much this thread has read from disks so far, announced files included, in blocks of 512 bytes."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock if _HINTS else 0


def _announce(path: bytes) -> None:
    try:
        fd = os.open(path, _FLAGS)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return  # reading it will say so
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
    except OSError:
        pass  # a FIFO, say
    finally:
        os.close(fd)


_TYPES: Mapping[Dtype, tuple[type, ...]] = {
    "bytes": (bytes,),
    "int64": (int, np.integer),
    "float32": (float, int, np.floating, np.integer),
}
_PLAIN: Mapping[Dtype, type] = {"bytes": bytes, "int64": int, "float32": float}
_INT64 = range(-(2**63), 2**63)


def own_features(schema: Schema) -> dict[str, Feature]:
    """The features of a dataset that its source gives, not the conversion."""
    made = IMAGE_KEYS | set(schema.object_keys)
    made |= {RASTER, RASTER_FORMAT} if schema.raster is not None else set()
    return {key: feature for key, feature in schema.features.items() if key not in made}


def checked_values(sample: Sample, features: Mapping[str, Feature]) -> dict[str, Value]:
    """The values of `sample`, lists of lists made flat, row by row.

    Raises UsageError, which names sample and key, if they do not match `features`.
    """
    if sample.features.keys() != features.keys():
        lacking = sorted(features.keys() - sample.features.keys())
        key = lacking[0] if lacking else sorted(sample.features.keys() - features.keys())[0]
        problem = "has no value" if lacking else "has a value, but source.schema has no such feature"
        raise _error(sample, key, problem, "give each sample exactly the features of the schema")
    values: dict[str, Value] = {}
    for key, feature in features.items():
        value = sample.features[key]
        # Most values of most samples: seen at once, as each image has a few.
        if feature.shape == () and type(value) is _PLAIN[feature.dtype] and (type(value) is not int or value in _INT64):
            values[key] = value
            continue
        values[key] = value if feature.scalar else _flat(value, len(feature.shape))
        if problem := _problem(feature, value, values[key]):
            raise _error(sample, key, problem, _remedy(feature, value))
    return values


def _error(sample: Sample, key: str, problem: str, remedy: str) -> UsageError:
    return UsageError(f"sample {name_text(sample.key)}, feature {key}", problem, remedy)


def _flat(value: Any, depth: int) -> Any:
    """Flatten nested lists of `depth` levels; return anything else as it is."""
    for _ in range(depth - 1):
        if not isinstance(value, list) or not all(isinstance(part, list) for part in value):
            return value
        value = [item for part in value for item in part]
    return value


def _problem(feature: Feature, value: Any, flat: Any) -> str:
    """Describe why `value` (`flat`: made flat) does not fit `feature`; "" if it does."""
    types = _TYPES[feature.dtype]
    if feature.scalar:
        if not isinstance(value, types):
            return f"got {_shown(value)}, expected one {_expected(feature)}"
    elif not isinstance(flat, list | tuple):
        return f"got {_shown(value)}, expected a list of {_expected(feature)}"
    for item in (value,) if feature.scalar else flat:
        if not isinstance(item, types):
            return f"got {_shown(item)} in the list, expected {_expected(feature)}"
        if feature.dtype == "int64" and int(item) not in _INT64:
            return f"got {int(item)}, expected a number that fits int64"
    if feature.count is not None and not feature.scalar and _shape(value) != feature.shape:
        return f"got {_shape(value)} values, expected {feature.shape}"
    if feature.kind == "tags" and len(set(flat)) < len(flat):
        twice = next(item for i, item in enumerate(flat) if item in flat[:i])
        return f"got the class {int(twice)} twice, expected each class once at most"
    return ""


def _shape(value: Any) -> tuple[int, ...]:
    """Shape of a list or of nested lists; it ends at the first level where lists differ in length."""
    shape: list[int] = []
    level: list[Any] = [value]
    while level and all(isinstance(part, list | tuple) for part in level) and len({len(part) for part in level}) == 1:
        shape.append(len(level[0]))
        level = [item for part in level for item in part]
    return tuple(shape)


def _expected(feature: Feature) -> str:
    return {"bytes": "bytes", "int64": "int", "float32": "float"}[feature.dtype]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"the text {escape(value)[:40]!r}" if isinstance(value, str) else type(value).__name__


def _remedy(feature: Feature, value: Any) -> str:
    if isinstance(value, str):
        if feature.dtype == "bytes":
            return "encode it: .encode()"
        return f"make a number of it: {_expected(feature)}(TEXT)"
    if isinstance(value, np.ndarray) and not feature.scalar:
        flat = value.ndim == len(feature.shape)
        return ".tolist() makes a list of it" if flat else f"flatten it, or give it Feature(shape={value.shape})"
    return "correct the source, or its schema"


def load(path: str) -> Any:
    """Load a JSON file. Raises LabelFileError if it is not valid JSON."""
    try:
        return json.loads(read_whole(path))
    except LabelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise LabelFileError(path, f"not JSON: {escape(str(error)[:120])}", "check that the file is complete") from None

"""Guard for untrusted input: limits on the resources that a file may demand, and handling of libraries' exceptions.

Progress, too: listing, planning and uploading may take minutes; `report_progress` calls the callback set by
`report_progress_to`.

A file may declare, nest, repeat or compress more than it holds. Every reader asks `budget()`, the `Budget` of the
source that is being opened, before it allocates or loops by a number from a file:

    with guarded(path):                                        # once, around the opening of a source
        budget().rows(count, os.path.getsize(path), path)      # in the reader, for each number that a file declares

Counting costs some integer operations: do it by file, by block or by long value, never by row.
"""

import errno
import os
import re
import stat
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import BinaryIO, Literal, cast

from shardfeed.errors import ShardfeedError, UsageError, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import size_text

# Pixels of drawings and masks compress to a hundredth, photos not at all; DEFLATE reaches 1,032, zstd 30,000.
MOST_RATIO = 200
UNPACKED_FREE = 256 << 20  # bytes that any file may decompress to, at any ratio: a small file of masks is harmless
# Labels of 62 classes take 5 bits each when packed, images that are all alike some bits; less is a number made up.
MOST_ROWS_PER_BYTE = 4
ROWS_FREE = 500_000  # rows that any file may declare: listing them takes less than 100 MB
# Python objects of a parsed text take up to 40 times its bytes, arrays of numbers 8 times their varints.
MOST_MEMORY_PER_BYTE = 40
MEMORY_FREE = 256 << 20  # bytes that anything may allocate while it is listed
MOST_DEPTH = 100  # levels of lists, groups or folders; no format for images has ten
MOST_DIGITS = 4300  # of an integer, as Python has it: beyond, the conversion is quadratic
MOST_LINE = 1 << 20  # bytes of a line or of a cell: a longer one is another kind of file
_SHOWN = 200  # characters of a library's words
_REMEDY = "download the file again; do not trust files from others"
# Modules that parse. Exceptions of their classes, or out of their code, mean that they do not understand the bytes.
# Whatever else is raised is a bug of ours, or a wrong option, and is not hidden.
_PARSERS = re.compile(
    r"(_lzma|lzma|zlib|gzip|bz2|zipfile|zstandard|tokenize|struct|binascii|_csv|json|xml|ast|yaml|PIL|pycocotools|pyarrow"
    r"|h5py|lmdb|array_record|scipy|numpy\.lib\.(_?format|_?npyio)\w*)(\.|\Z)"
)
# What content alone causes, wherever it is raised: too large, too deep, cut off, not text.
_OF_SIZES = (MemoryError, RecursionError, EOFError, UnicodeError)
_OF_CONTENT = (None, errno.EINVAL, errno.EOVERFLOW, errno.ERANGE, errno.EDOM, errno.ENAMETOOLONG)  # of an OSError
Doing = Literal["listing", "planning", "uploading"]
Listener = Callable[[Doing, int, int | None], object]
EVERY = 4096  # files or samples between two signs
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class HostileError(UsageError):
    """A file from outside is damaged, or asks for more than it may (exit code 2). Nothing was touched."""


class Budget:
    """Limits on what one source may use while it is opened. Every method raises HostileError beyond its limit.

    `place`: the source. The `place` of a method is the file that needs the resource, by default the source.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def unpacked(self, size: int, stored: int, place: str = "") -> None:
        """Check `size`, the bytes that `stored` bytes unpack to; both of the whole file so far."""
        most = max(UNPACKED_FREE, stored * MOST_RATIO)
        if size > most:
            problem = f"{size_text(stored)} decompress to {size_text(size)} or more"
            remedy = "if you trust it, decompress it by hand and convert the result"
            raise HostileError(place or self.place, f"{problem}, the limit is {MOST_RATIO} times as much", remedy)

    def rows(self, count: int, stored: int, place: str = "", what: str = "rows") -> None:
        """Check `count`, the rows, samples or members that a file of `stored` bytes declares."""
        if count > max(ROWS_FREE, stored * MOST_ROWS_PER_BYTE):
            problem = f"declares {count:,} {what} in {size_text(stored)}"
            most = f"expected at most {MOST_ROWS_PER_BYTE:,} per byte"
            raise HostileError(place or self.place, f"{problem}, {most}", _REMEDY)

    def memory(self, size: int, stored: int, place: str = "", what: str = "its values") -> None:
        """Check `size`, the bytes of memory that `stored` bytes of a file ask for."""
        if size > max(MEMORY_FREE, stored * MOST_MEMORY_PER_BYTE):
            problem = f"{what} would take {size_text(size)} of memory, but the file has {size_text(stored)}"
            raise HostileError(place or self.place, problem, _REMEDY)

    def depth(self, levels: int, place: str = "") -> None:
        """Check the levels of nesting."""
        if levels > MOST_DEPTH:
            raise HostileError(place or self.place, f"is nested more than {MOST_DEPTH} deep", _REMEDY)

    def line(self, size: int, place: str = "") -> None:
        """Check a line, or a cell, of `size` bytes or characters."""
        if size > MOST_LINE:
            problem = f"more than {MOST_LINE:,} characters in one line"
            raise HostileError(place or self.place, problem, "check that this is the right file")

    def lines(self, data: bytes, place: str = "") -> list[bytes]:
        """Return the lines of a text file; a line that is too long is an error."""
        found = data.splitlines()
        if len(data) > MOST_LINE:
            self.line(max(map(len, found)), place)
        return found

    def integer(self, digits: str | bytes, place: str = "") -> int:
        """Parse decimal digits as a number."""
        if len(digits) > MOST_DIGITS or not digits.isdigit():
            shown = f"{len(digits):,} characters" if len(digits) > 40 else repr(digits)
            raise HostileError(place or self.place, f"got {shown}, expected an integer", _REMEDY)
        return int(digits)


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def budget(place: str = "") -> Budget:
    """The budget of the source that is being opened; a new one if there is none."""
    return _current.get() or Budget(place)


@contextmanager
def guarded(place: str) -> Iterator[Budget]:
    """Give a source a budget, and turn parsers' exceptions for damaged or hostile content into HostileError.

    Our own errors, signals and bugs pass; an OSError of the machine becomes a StorageError. A nested guard uses the
    outer guard's budget.
    """
    outer = _current.get()
    token = _current.set(outer or Budget(place))
    try:
        yield budget()
    except (ShardfeedError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except OSError as error:
        if _of_parser(error) or error.errno in _OF_CONTENT:
            raise damaged(place, error) from error
        raise storage_error(str(error.filename or place), "read", error) from error
    except Exception as error:
        if isinstance(error, _OF_SIZES) or _of_parser(error):
            raise damaged(place, error) from error
        raise
    finally:
        _current.reset(token)


def damaged(place: str, error: BaseException) -> HostileError:
    """Create the error for a file on which a library failed with `error`."""
    message = str(error) if not isinstance(error, KeyError) else f"no {error}"
    kind = {MemoryError: "more memory than available", RecursionError: "nested too deep"}.get(type(error), "")
    message = kind or message or type(error).__name__
    return HostileError(place, f"damaged or hostile: {escape(message[:_SHOWN])}", _REMEDY)


def _of_parser(error: BaseException) -> bool:
    """Whether a parser raised this: by the class of the error, or by the code that it comes from.

    A TypeError or AttributeError is ours even there: what the parser was given is of the wrong type.
    """
    if isinstance(error, TypeError | AttributeError):
        return False
    raised_in = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(map(_PARSERS.match, (type(error).__module__, *raised_in[-1:])))


# Folders that represent buckets, with "/" at the end (see mirror.py) -> function that opens files that are not copies.
mirrors: dict[bytes, Callable[[bytes], BinaryIO | None]] = {}


def open_regular(path: str | bytes | os.PathLike[str], buffering: int = -1) -> BinaryIO:
    """Open a regular file to read. Raises OSError for anything else: opening a pipe would wait forever."""
    for root, open_there in mirrors.items():
        if os.fsencode(path).startswith(root) and (there := open_there(os.fsencode(path))) is not None:
            return there
    opener = lambda name, flags: os.open(name, flags | os.O_NONBLOCK)  # noqa: E731
    file = open(path, "rb", buffering, opener=opener)  # noqa: SIM115  # the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return cast("BinaryIO", file)


@contextmanager
def report_progress_to(listener: Listener) -> Iterator[None]:
    """A block in which `listener(doing, done, total)` is called now and then; `total` is None if unknown."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(doing: Doing, done: int, total: int | None = None) -> None:
    """Say how far this is: after each EVERY of them, and at the end."""
    listener = _listener.get()
    if listener is not None:
        listener(doing, done, total)

"""Errors that this package raises on purpose, each with the exit code of the command line.

A message is one line: `place: what is wrong (got, expected); what to do`. The builtin class that a caller would
expect is a second base, so `except FileExistsError` works. Text from outside (file names, cells) goes
through `escape`, so that a newline in a file name cannot forge a line of a log.

A message names arguments as the caller wrote them: `argument("max_bad", 8)` reads `max_bad=8` in Python, and `--max-bad
8` on the command line. The same applies to an argument's name as the place of a UsageError.
"""

import operator
import os
import re
import reprlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from typing import Any, NamedTuple

from shardfeed.hidden import without_secrets as without_secrets

__all__ = [
    "BusyError", "IntegrityError", "LabelFileError", "LeakError", "MissingExtraError", "NewerFormatError",
    "OrderMismatchError", "OutputExistsError", "PlanMismatchError", "RecordError", "ShardfeedError", "SpaceWarning",
    "SplitError", "StorageError", "TooManyRejectedError", "UsageError", "WorkerLostError",
]  # fmt: skip

_EXTRA_OF = {
    # an optional module -> its project, and the extra that installs it
    "tensorflow": ("TensorFlow", "tensorflow"),
    "keras": ("Keras", "keras"),
    "torch": ("PyTorch", "torch"),
    "ray": ("Ray", "ray"),
    "matplotlib": ("Matplotlib", "bench"),
    "jinja2": ("Jinja2", "report"),
    "pycocotools": ("pycocotools", "objects"),
    "yaml": ("PyYAML", "objects"),
    "pyarrow": ("pyarrow", "formats"),
    "array_record": ("array_record", "formats"),
    "zstandard": ("zstandard", "formats"),
    "lmdb": ("lmdb", "formats"),
    "h5py": ("h5py", "formats"),
    "scipy": ("SciPy", "formats"),
    "pillow_heif": ("pillow-heif", "heic"),
    "obstore": ("obstore", "cloud"),
    "boto3": ("boto3", "cloud-write"),
    "huggingface_hub": ("huggingface_hub", "cloud-write"),
    **dict.fromkeys(("google", "google.cloud", "google.cloud.storage"), ("google-cloud-storage", "cloud-write")),
}


_LONGEST = 20_000  # characters of a text from outside that a message shows
_LONGEST_VALUE = 100  # characters of a value that a message shows
_LARGEST_SHOWN = 2000  # bits of an integer that a message shows in digits: Python refuses to write very long ones

# An argument in a message: its name, how Python writes it, what follows the flag. Text from outside has none of these
# characters: `escape` writes them as \\ue000.
_ARGUMENT = re.compile("\ue000(.*?)\ue001(.*?)\ue001(.*?)\ue002", re.DOTALL)
_MARKS = "\ue000\ue001\ue002"


def argument(name: str, value: object = None, *, python: str = "", typed: str | Sequence[str] = "") -> str:
    """Format an argument for a message: `name=value` in Python, its flag on the command line.

    `python`: the text to show instead of `name=value`. `typed`: the text to show after the flag instead of the value,
    or several texts, each after the flag. True is shown as the flag alone, False as the flag with `no-`.
    """
    in_python = python or (name if value is None else f"{name}={value!r}")
    if isinstance(value, bool):
        name, value = (name if value else f"no_{name}"), None
    several = [typed] if isinstance(typed, str) else typed
    after = "\ue001".join(several) or ("" if value is None else shlex.quote(str(value)))
    return f"\ue000{name}\ue001{in_python}\ue001{after}\ue002"


SOURCE = "another source"  # the name of the argument without a flag, in advice


def as_source(folder: str | bytes, text: str = "") -> str:
    """Format a folder that is to be given in the place of the one that was; `text`: words for it instead of its path.

    It is marked as an argument is, so that advice can be tried before it is printed.
    """
    folder = name_text(folder) if isinstance(folder, bytes) else folder
    return f"\ue000{SOURCE}\ue001{text or escape(folder)}\ue001{folder}\ue002"


class MarkedArgument(NamedTuple):
    """An argument in a part of a message: as Python writes it, what follows its flag, and where it stands."""

    name: str
    python: str
    typed: str
    start: int
    end: int


def marked_arguments(text: str) -> Iterator[MarkedArgument]:
    """Yield the arguments in a part of an error's message (`error.args`), in order."""
    for found in _ARGUMENT.finditer(text):
        yield MarkedArgument(found[1], found[2], found[3], found.start(), found.end())


def _format_arguments(text: str, flags: Mapping[str, str]) -> str:
    """Format the arguments in a part of a message as in Python; those in `flags` as on the command line."""
    return _ARGUMENT.sub(lambda one: _as_typed(flags[one[1]], one[3]) if one[1] in flags else one[2], text)


def _as_typed(flag: str, after: str) -> str:
    """A flag and the text after it; the flag again before each further text."""
    return " ".join(f"{flag} {text}".rstrip() for text in after.split("\ue001"))


def arguments_in(error: "ShardfeedError") -> set[str]:
    """Return the names of the arguments in an error's message, as in Python."""
    return {found[1] for part in error.args for found in _ARGUMENT.finditer(part)}


def spell_out(text: str) -> str:
    """A text for reports and files, with each argument as it is typed and as Python writes it.

    Unlike a message it has readers of both kinds: `--boxes-on stored (in Python boxes_on='stored')`.
    """

    def one(found: re.Match[str]) -> str:
        name, python, typed = found.groups()
        flag = "--" + name.replace("_columns", "_column").replace("_", "-")
        return f"{_as_typed(flag, typed)} (in Python {python})"

    return _ARGUMENT.sub(one, text)


def name_text(name: bytes) -> str:
    """A file name's bytes as text: UTF-8, other bytes as lone surrogates, in every locale."""
    return name.decode("utf-8", "surrogateescape")


def name_bytes(text: str) -> bytes:
    """Inverse of `name_text`."""
    return text.encode("utf-8", "surrogateescape")


def escape(text: object) -> str:
    r"""`text` on one printable line: control characters, surrogates and other unprintables as `\n`, `\x07`, `\udc80`.

    A backslash is doubled, so two different names never look the same. Only texts longer than any path are cut.
    """
    if isinstance(text, os.PathLike):
        text = os.fspath(text)
    if isinstance(text, bytes):
        text = name_text(text)
    text = str(text)
    if len(text) > _LONGEST:
        return f"{escape(text[:_LONGEST])}... ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )


def on_one_line(text: str) -> str:
    """Escape what is not printable in a message; the names of arguments stay marked."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _MARKS else escape(c) for c in " ".join(text.split("\n")))


def shown(value: object) -> str:
    """Format any value for a message, as Python writes it: one printable line of about 100 characters at most.

    Of long lists and texts, only the beginning is read. An object may be anybody's: one that cannot be shown is named
    by its class.
    """
    try:
        text = " ".join(_BEGINNINGS.repr(value).split())
    except Exception:  # of its own __repr__, or because lists are nested too deep
        text = f"<{type(value).__name__} object>"
    text = "".join(c if c.isprintable() else escape(c) for c in text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


class _Beginnings(reprlib.Repr):
    """Format values as `repr` does, without what a message would cut off, however long, deep or large they are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 10
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = _LONGEST_VALUE
        self.maxset = self.maxfrozenset = self.maxdeque = _LONGEST_VALUE
        self.maxother = 10 * _LONGEST_VALUE

    def repr_str(self, x: str, level: int) -> str:
        del level
        return repr(x[: 2 * _LONGEST_VALUE])

    def repr_bytes(self, x: bytes, level: int) -> str:
        del level
        return repr(x[: 2 * _LONGEST_VALUE])

    def repr_bytearray(self, x: bytearray, level: int) -> str:
        del level
        return repr(x[: 2 * _LONGEST_VALUE])

    def repr_int(self, x: int, level: int) -> str:
        del level
        if x.bit_length() > _LARGEST_SHOWN:
            return f"{'-' if x < 0 else ''}an integer of {x.bit_length():,} bits"
        return repr(x)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if level <= 0:
            return "{...}"
        first = islice(x.items(), self.maxdict)
        return f"{{{', '.join(f'{self.repr1(key, level - 1)}: {self.repr1(each, level - 1)}' for key, each in first)}}}"

    def repr_instance(self, x: Any, level: int) -> str:
        del level
        return repr(x)


_BEGINNINGS = _Beginnings()


def printable(text: str) -> str:
    """A sentence on one printable line: `escape`, but for backslashes, so that doing it twice changes nothing more."""
    if text.isprintable():
        return text
    return "".join(c if c == "\\" else escape(c) for c in text)


class ShardfeedError(Exception):
    """Base class of all errors. `place` is a path, a shard and record, a line and column, or an argument's name.

    `place`, `problem` and `remedy` are its `args`, so that pickling keeps them. `format_message` formats it for the
    command line. Queries and passwords are removed from URLs, and the secrets of this process from any text.
    """

    exit_code = 1
    _place_may_be_argument = False

    def __init__(self, place: object, problem: str, remedy: str = "") -> None:
        # Not super(): with OSError as second base it would take the three for errno, message and file name.
        place = name_text(place) if isinstance(place, bytes) else str(place)
        texts = map(on_one_line, (problem, remedy))
        Exception.__init__(self, without_secrets(place, is_url=True), *map(without_secrets, texts))
        self.place, self.problem, self.remedy = (_format_arguments(part, {}) for part in self.args)

    def __str__(self) -> str:
        return self.format_message({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def format_message(self, flags: Mapping[str, str]) -> str:
        """Return the message as one line; `flags`: name of an argument in Python -> its flag on the command line."""
        place, problem, remedy = (_format_arguments(part, flags) for part in self.args)
        flag = flags.get(place) if self._place_may_be_argument else None
        line = f"{flag or escape(place)}: {problem}"
        return f"{line}; {remedy}" if remedy else line


class UsageError(ShardfeedError, ValueError):
    """An argument, an option or a class list is invalid (exit 2). Nothing was changed."""

    exit_code = 2
    _place_may_be_argument = True


class MissingExtraError(UsageError, ImportError):
    """A package that an extra installs is missing (exit 2). Nothing was changed."""


class LabelFileError(UsageError):
    """A label file is ambiguous or invalid (exit 2).

    `place` names the file, the line (from 1) and, for a single cell, the column: by name, or by number (from 0) if
    there is no header. Example: `labels.csv:812, column 'label'`.
    """


class OutputExistsError(UsageError, FileExistsError):
    """The output directory already exists (exit 2). Nothing was changed."""


class PlanMismatchError(UsageError):
    """An unfinished output was planned with other options or versions (exit 2). Nothing was changed."""


class LeakError(UsageError):
    """A file, or a group of samples, would be in two splits despite `no_leaks` (exit 2). Nothing was written."""


class SplitError(ShardfeedError, KeyError):
    """The dataset has no split of this name; the message lists its splits (exit 2)."""

    exit_code = 2


class TooManyRejectedError(ShardfeedError):
    """More inputs were rejected than allowed, or all inputs were rejected (exit 3). Nothing was committed.

    `rejected`: all of them, each with `key`, `what` (its code) and `why`. `report`: the conversion's or dry run's
    `shardfeed.converters.Report`, if everything else is converted and kept in staging; None if the source itself
    rejected too many, before anything was written.
    """

    exit_code = 3
    report: Any = None
    rejected: Sequence[Any] = ()


class IntegrityError(ShardfeedError, ValueError):
    """Bytes on disk differ from the manifest, the index or a checksum (exit 4)."""

    exit_code = 4


class NewerFormatError(IntegrityError):
    """The manifest is intact, but has a format version that this release does not know (exit 4)."""


class RecordError(IntegrityError):
    """One record is damaged; `place` is `shard, record r, offset o` with r from 0 and o in bytes."""


class StorageError(ShardfeedError, OSError):
    """A disk or storage error: a full disk, a missing permission, an I/O error (exit 5). The run can be resumed."""

    exit_code = 5

    def __init__(self, place: object, problem: str, remedy: str = "", errno: int | None = None) -> None:
        super().__init__(place, problem, remedy)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError keeps errno outside of both `args` and `__dict__`, and would lose it between processes.
        return type(self), self.args, {**self.__dict__, "errno": self.errno}


class SpaceWarning(UserWarning):
    """The disk seems to have less room than a conversion will need; issued before the first image is read."""


class WorkerLostError(ShardfeedError, RuntimeError):
    """Workers died too often (exit 5). The run can be resumed."""

    exit_code = 5


class BusyError(ShardfeedError):
    """Another run is writing this output (exit 6). Nothing was changed."""

    exit_code = 6


class OrderMismatchError(UsageError):
    """A position belongs to another order: other data, seed or batch size (exit 2). Nothing was changed."""


def at_least(place: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int. Raises UsageError unless it is an integer of at least `least`, and at most `most`."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        expected = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise UsageError(place, f"got {shown(value)}, expected an integer {expected}")
    return number


@contextmanager
def needing_extra(place: str) -> Iterator[None]:
    """Context manager for imports of optional packages; `place`: the name or option that the user asked for.

    Raises MissingExtraError, which names the extra, if its package is not installed. Any other missing module is a
    fault of the installation, and its ModuleNotFoundError is passed on.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_OF:
            raise
        project, extra = _EXTRA_OF[error.name]
        raise MissingExtraError(place, f"{project} is not installed", f"pip install 'shardfeed[{extra}]'") from error


def check_extra(module: str, place: str) -> None:
    """Raise MissingExtraError unless `module` is installed. Fast, because it is not imported."""
    with needing_extra(place):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)

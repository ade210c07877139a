"""Every error this package raises on purpose, and the exit code each gives the command line.

A message is one line: `place: what is wrong (got, expected); what to do`. The builtin class that a caller would
expect is a second base, so `except FileExistsError` works. Text from outside (file names, cells) goes
through `escape`, so that a newline in a file name cannot forge a line of a log.

A message names arguments as the caller wrote them: `argument("max_bad", 8)` reads `max_bad=8` in Python, and `--max-bad
8` on the command line. The place of a UsageError may be an argument's name, which follows the same rule.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

_EXTRA_OF = {
    "numba": (
        "numba",
        "seekable",
    ),  # a module that the core does without -> its project, and the extra that installs it
    "tensorflow": ("TensorFlow", "tensorflow"),
    "keras": ("Keras", "tensorflow"),
    "torch": ("PyTorch", "torch"),
    "ray": ("Ray", "ray"),
    "matplotlib": ("Matplotlib", "bench"),
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
}


_LONGEST = 20_000  # characters of a text from outside that a message shows

# An argument in a message: its name, how Python writes it, what follows the flag. Text from outside has none of these
# characters: `escape` writes them as \\ue000.
_ARGUMENT = re.compile("\ue000(.*?)\ue001(.*?)\ue001(.*?)\ue002", re.DOTALL)


def argument(name: str, value: object = None, *, python: str = "", typed: str = "") -> str:
    """An argument as part of a message: `name=value`, or `name` without a value, and on a command line its flag.

    `python`: what Python's users read instead, where that is no argument of this name. `typed`: what follows the flag,
    where that is not the value. True is the flag alone, False the flag with `no-`.
    """
    said = python or (name if value is None else f"{name}={value!r}")
    if isinstance(value, bool):
        name, value = (name if value else f"no_{name}"), None
    after = typed or ("" if value is None else shlex.quote(str(value)))
    return f"\ue000{name}\ue001{said}\ue001{after}\ue002"


def _said(text: str, flags: Mapping[str, str]) -> str:
    """A part of a message with its arguments as Python writes them, and those of `flags` as a command line does."""

    def one(found: re.Match[str]) -> str:
        name, python, typed = found.groups()
        return f"{flags[name]} {typed}".rstrip() if name in flags else python

    return _ARGUMENT.sub(one, text)


def name_text(name: bytes) -> str:
    """A file name's bytes as text: UTF-8, other bytes as lone surrogates, whatever the locale."""
    return name.decode("utf-8", "surrogateescape")


def name_bytes(text: str) -> bytes:
    """The bytes that `name_text` gave `text` for."""
    return text.encode("utf-8", "surrogateescape")


def escape(text: object) -> str:
    r"""`text` on one printable line: control characters, surrogates and other unprintables as `\n`, `\x07`, `\udc80`.

    A backslash is doubled, so two different names never look the same. No path is as long as what is cut.
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


class ShardfeedError(Exception):
    """Base of all. `place` is a path, a shard and record, a line and column, or an argument's name.

    Pickles: the three parts are `args`, so an error crosses processes whole. `said` words it for a command line.
    """

    exit_code = 1

    def __init__(self, place: object, problem: str, remedy: str = "") -> None:
        # Not super(): with OSError as second base it would take the three for errno, message and file name.
        Exception.__init__(self, name_text(place) if isinstance(place, bytes) else str(place), problem, remedy)
        self.place, self.problem, self.remedy = (_said(part, {}) for part in self.args)

    def __str__(self) -> str:
        return self.said({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def said(self, flags: Mapping[str, str]) -> str:
        """The message as a line; `flags`: how a command line calls the arguments it has, by their names in Python."""
        place, problem, remedy = (_said(part, flags) for part in self.args)
        line = f"{self._place(place, flags)}: {problem}"
        return f"{line}; {remedy}" if remedy else line

    def _place(self, place: str, flags: Mapping[str, str]) -> str:
        del flags
        return escape(place)


class UsageError(ShardfeedError, ValueError):
    """An argument, an option or a class list that cannot be meant (exit 2). Nothing was touched."""

    exit_code = 2

    def _place(self, place: str, flags: Mapping[str, str]) -> str:
        return flags.get(place, escape(place))


class MissingExtraError(UsageError, ImportError):
    """A request that needs a package which only an extra installs (exit 2). Nothing was touched."""


class LabelFileError(UsageError):
    """A label file that does not say what its rows mean (exit 2).

    `place` is the file, its line from 1, and where it is about one cell the column, by its name, or by its number from
    0 where there is no header: `labels.csv:812, column 'label'`.
    """


class OutputExistsError(UsageError, FileExistsError):
    """The output directory is there already (exit 2). Nothing was touched."""


class PlanMismatchError(UsageError):
    """A half-built output was planned with other options or versions (exit 2). Nothing was touched."""


class SplitError(ShardfeedError, KeyError):
    """A split that the dataset does not have; the message lists those it has (exit 2)."""

    exit_code = 2


class TooManyRejectedError(ShardfeedError):
    """More inputs were rejected than allowed, or all (exit 3): nothing was committed.

    `rejected`: all of them, each with `key`, `what` (its code) and `why`. `report`: the conversion's
    `shardfeed.converters.Report`, when all else is converted and kept in staging, or of a dry run; None when the source
    itself rejected too many, before anything was written.
    """

    exit_code = 3
    report: Any = None
    rejected: Sequence[Any] = ()


class IntegrityError(ShardfeedError, ValueError):
    """Bytes on disk that differ from the manifest, the index or a checksum (exit 4)."""

    exit_code = 4


class NewerFormatError(IntegrityError):
    """A whole manifest, of a format version that this release does not know (exit 4)."""


class RecordError(IntegrityError):
    """One record is damaged; `place` is `shard, record r, offset o` with r from 0 and o in bytes."""


class StorageError(ShardfeedError, OSError):
    """The disk or the machine refused: full, no permission, I/O error (exit 5). Staging is resumable."""

    exit_code = 5

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError keeps errno outside of both `args` and `__dict__`, and would lose it between processes.
        return type(self), self.args, {**self.__dict__, "errno": self.errno}


class SpaceWarning(UserWarning):
    """The disk seems to have less room than a conversion will need; issued before the first image is read."""


class WorkerLostError(ShardfeedError, RuntimeError):
    """Workers died more often than is worth retrying (exit 5). Staging is resumable."""

    exit_code = 5


class BusyError(ShardfeedError):
    """Another run is writing this output (exit 6). Nothing was touched."""

    exit_code = 6


class OrderMismatchError(UsageError):
    """A position that was counted in another order: other data, seed or batch size (exit 2). Nothing was touched."""


@contextmanager
def needing_extra(place: str) -> Iterator[None]:
    """Import inside what an extra installs; `place` is what the user asked for.

    Raises MissingExtraError, which names the extra, where its package is not there. Any other missing module is a fault
    of the installation, and its ModuleNotFoundError stays.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_OF:
            raise
        project, extra = _EXTRA_OF[error.name]
        raise MissingExtraError(place, f"{project} is not installed", f"pip install 'shardfeed[{extra}]'") from error


def check_extra(module: str, place: str) -> None:
    """Raise MissingExtraError unless `module` is installed. It is looked up without importing it, which is quick."""
    with needing_extra(place):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)

"""Every error this package raises on purpose, and the exit code each gives the command line.

A message is one line: `place: what is wrong (got, expected); what to do`. The builtin class that a caller would
expect is a second base, so `except FileExistsError` works. Text from outside (file names, cells) goes
through `escape`, so that a newline in a file name cannot forge a line of a log.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

_EXTRA_OF = {  # a module that the core does without -> its project, and the extra that installs it
    "tensorflow": ("TensorFlow", "tensorflow"),
    "keras": ("Keras", "tensorflow"),
    "torch": ("PyTorch", "torch"),
    "ray": ("Ray", "ray"),
    "matplotlib": ("Matplotlib", "bench"),
}


def name_text(name: bytes) -> str:
    """A file name's bytes as text: UTF-8, other bytes as lone surrogates, whatever the locale."""
    return name.decode("utf-8", "surrogateescape")


def name_bytes(text: str) -> bytes:
    """The bytes that `name_text` gave `text` for."""
    return text.encode("utf-8", "surrogateescape")


def escape(text: object) -> str:
    r"""`text` on one printable line: control characters, surrogates and other unprintables as `\n`, `\x07`, `\udc80`.

    A backslash is doubled, so two different names never look the same.
    """
    if isinstance(text, os.PathLike):
        text = os.fspath(text)
    if isinstance(text, bytes):
        text = name_text(text)
    return "".join(
        c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in str(text)
    )


class ShardfeedError(Exception):
    """Base of all. `place` is a path, a shard and record, a line and column, or an argument's name.

    Pickles: the three parts are `args`, so an error crosses processes whole.
    """

    exit_code = 1

    def __init__(self, place: object, problem: str, remedy: str = "") -> None:
        # Not super(): with OSError as second base it would take the three for errno, message and file name.
        Exception.__init__(self, name_text(place) if isinstance(place, bytes) else str(place), problem, remedy)
        self.place, self.problem, self.remedy = self.args

    def __str__(self) -> str:
        line = f"{escape(self.place)}: {self.problem}"
        return f"{line}; {self.remedy}" if self.remedy else line


class UsageError(ShardfeedError, ValueError):
    """An argument, an option or a class list that cannot be meant (exit 2). Nothing was touched."""

    exit_code = 2


class MissingExtraError(UsageError, ImportError):
    """What was asked for needs a package that only an extra installs (exit 2). Nothing was touched."""


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
    """More inputs were rejected than allowed, or all: converted, kept in staging, not committed (exit 3).

    `report` is the conversion's `shardfeed.converters.Report`.
    """

    exit_code = 3
    report: Any = None


class IntegrityError(ShardfeedError, ValueError):
    """Bytes on disk are not what the manifest, the index or a checksum says (exit 4)."""

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
    """The disk seems to have less room than a conversion will need; said before the first image is read."""


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
    """Raises MissingExtraError where `module` is not installed. Imports nothing, so it is quick."""
    with needing_extra(place):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)

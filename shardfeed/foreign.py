"""Errors of code that is not ours: of a source, an installed package, a transform.

Such code may raise anything, with any text. It is called inside a `try`, and what it raised is shown in one line.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import get_annotations, getattr_static
from typing import Protocol

from shardfeed.errors import escape

_SHOWN = 300  # characters of an error's text


_OPERATORS = ("__len__", "__getitem__")


class KnownByNames(type(Protocol)):
    """The class of a protocol: whether an object has its parts is decided by their names, without a call of its code.

    Python 3.12 does so by itself; before it asks for the value of each attribute, which may raise.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        names = {*vars(cls), *get_annotations(cls)}
        parts = [name for name in names if not name.startswith("_") or name in _OPERATORS]
        return all(getattr_static(instance, name, cls) is not cls for name in parts)


class Stop(BaseException):
    """A signal, as an exception: it passes through foreign code, and through all that catches foreign errors."""


def is_stop(error: BaseException) -> bool:
    """Return whether an exception that came out of foreign code means that this process is to stop.

    A KeyboardInterrupt does where Ctrl-C raises it. The command line raises a subclass instead, so that there a plain
    one is raised by the foreign code itself.
    """
    if isinstance(error, KeyboardInterrupt):
        by_signal = threading.current_thread() is threading.main_thread()
        by_signal = by_signal and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return by_signal or type(error) is not KeyboardInterrupt
    return isinstance(error, Stop | GeneratorExit)


def words(error: BaseException) -> str:
    """Return the type and the text of a foreign error, on one printable line: `ValueError: no such row`."""
    try:
        text = str(error)
    except Exception:  # it is foreign, too
        text = ""
    return f"{escape(type(error).__name__)}: {escape(text[:_SHOWN])}"


def asked_by_constructor(package: str) -> bool:
    """Return whether the caller of this function's caller is an `__init__` in a module of `package`.

    For signs that a library gives in no other way. Users, debuggers and displays that ask get a plain answer.
    """
    asking = sys._getframe(2)
    of_package = asking.f_globals.get("__name__", "").startswith(f"{package}.")
    return of_package and asking.f_code.co_name == "__init__"


def name_of(function: object) -> str:
    """Return the name of a function or of a callable's class, for a message."""
    function = getattr(function, "func", function)  # of functools.partial
    name = getattr(function, "__qualname__", None)
    return escape(name if isinstance(name, str) else type(function).__qualname__)


def noted(function: object, role: str, where: Callable[[], str]) -> AbstractContextManager[None]:
    """Call a user's function in this block: an exception of it stays what it is, with a line about the call.

    Only a StopIteration becomes the cause of a RuntimeError: whoever iterates would take it for the end of the data.
    `role`: the argument's name, such as "transform". `where`: makes the words for what it was called with.
    """
    return _Noted(function, role, where)


class _Noted(AbstractContextManager[None]):
    """The context of `noted`. Not a generator, through which a StopIteration cannot become another error."""

    def __init__(self, function: object, role: str, where: Callable[[], str]) -> None:
        self._function, self._role, self._where = function, role, where

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        error.add_note(f"{self._role} {name_of(self._function)} raised this for {self._where()}")
        if isinstance(error, StopIteration):
            raise RuntimeError(f"the {self._role} raised StopIteration at {self._where()}") from error


def place(error: BaseException) -> str:
    """Return file and line of the code that raised an error, for people who can correct it: `boxes/reader.py:12`."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "unknown place"
    folder, name = os.path.split(frames[-1].filename)
    return f"{escape(os.path.join(os.path.basename(folder), name))}:{frames[-1].lineno}"

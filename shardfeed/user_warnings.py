"""Warnings at the line of the user's code, however many of our functions, and of libraries, are between."""

import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from types import FrameType

_OURS = __name__.partition(".")[0]
_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_INSTALLED = ("site-packages", "dist-packages")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning whose file and line are those of the user's call that led here.

    That is the innermost frame of code that is neither ours nor installed; if there is none, as for a program that is
    installed itself, the innermost that is not ours; in a thread of ours, the function that warns.
    """
    caller = sys._getframe(1)
    outside = [frame for frame in _frames(caller) if not _is_ours_or_pythons(frame)]
    own_code = [frame for frame in outside if not _is_installed(frame)]
    frame = next(iter(own_code or outside), caller)
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours_or_pythons(frame: FrameType) -> bool:
    name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
    if name.partition(".")[0] == _OURS or file.startswith("<frozen "):
        return True
    return file.startswith(_LIBRARY) and not _is_installed(frame)


def _is_installed(frame: FrameType) -> bool:
    return any(folder in frame.f_code.co_filename.split(os.sep) for folder in _INSTALLED)

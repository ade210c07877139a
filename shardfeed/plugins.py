"""Readers, engines and commands that other installed packages add, by entry points.

Ask only where ours have no such name or recognise nothing: it takes up to a tenth of a second.
"""

import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from shardfeed.errors import ShardfeedError, UsageError, escape
from shardfeed.foreign import is_stop, place, words
from shardfeed.user_warnings import warn_user

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

Kind = Literal["reader", "engine", "command"]
_NAME = re.compile(r"\w[\w.-]*\Z")  # also in a shell's completion, where other characters have a meaning


class Plugin(NamedTuple):
    """A name that packages add; more than one entry point is an error when it is loaded."""

    kind: Kind
    name: str
    points: list["EntryPoint"]

    @property
    def packages(self) -> str:
        """The names and versions of its packages, on one printable line."""
        return " and ".join(map(_package, self.points))

    @property
    def called(self) -> str:
        """The words for it in a message: `the reader 'boxes' of their-boxes 1.5`."""
        return f"the {self.kind} {self.name!r} of {self.packages}"

    @property
    def _remedy(self) -> str:
        return f"update the package {self.packages.partition(' ')[0]}, or uninstall it"

    def load(self, expected: str, fits: Callable[[Any], bool]) -> Any:
        """Import it. Raises UsageError, which names the package, if that fails or it is not what is `expected`."""
        if len(self.points) > 1:
            raise UsageError(self.kind, f"{self.called}: two packages have this name", "uninstall one of them")
        try:
            found = self.points[0].load()
        except BaseException as error:
            if is_stop(error):
                raise
            raise UsageError(self.kind, f"{self.called} cannot be imported: {words(error)}", self._remedy) from error
        with self.blamed():
            fitting = fits(found)
            shown = escape(repr(found)[:100])
        if not fitting:
            raise UsageError(self.kind, f"{self.called} is {shown}, expected {expected}", self._remedy)
        return found

    @contextmanager
    def blamed(self, *passing: type[BaseException], said: str = "raised") -> Iterator[None]:
        """Call the package's code in this block, which raises UsageError for whatever that raises.

        It names the package, and file and line of its code. Signals, our own errors and those of `passing` pass.
        `said`: the words before the error.
        """
        try:
            yield
        except BaseException as error:
            if is_stop(error) or isinstance(error, (ShardfeedError, *passing)):
                raise
            raise self.error(f"{said} {words(error)} ({place(error)})") from error

    def error(self, problem: str) -> UsageError:
        """Return the error for a fault of the package's code."""
        return UsageError(self.kind, f"{self.called} {problem}", self._remedy)


def _package(point: "EntryPoint") -> str:
    """The name and the version of a package, as far as its metadata tell them."""
    return _named(point.dist) if point.dist else "unknown package"


def _named(distribution: "Distribution") -> str:
    try:
        return escape(f"{distribution.name} {distribution.version}")
    except Exception:  # it has no metadata, or damaged ones
        return "unknown package"


def installed(kind: Kind, ours: Container[str]) -> dict[str, Plugin]:
    """Return what installed packages add to the group `shardfeed.readers`, `.engines` or `.commands`, by name, sorted.

    A name in `ours` keeps its meaning: what a package adds under it is left out, with a warning. So is a name that
    cannot be typed.
    """
    found: dict[str, Plugin] = {}
    for point in sorted(_points(f"shardfeed.{kind}s"), key=lambda point: point.name):
        plugin = Plugin(kind, point.name, [point])
        if not _NAME.match(point.name):
            problem = "is not used: a name has letters, digits, '.', '_' and '-'"
            warn_user(f"the {kind} {escape(point.name)!r} of {plugin.packages} {problem}")
        elif point.name in ours:
            problem = f"is not used: shardfeed has a {kind} of this name"
            warn_user(f"{plugin.called} {problem}")
        else:
            found.setdefault(point.name, plugin._replace(points=[])).points.append(point)
    return found


def _points(group: str) -> list["EntryPoint"]:
    """The entry points of a group; those of a package whose list cannot be read are left out, with a warning."""
    from importlib.metadata import distributions, entry_points  # not above: it takes 70 ms

    try:
        return [*entry_points(group=group)]
    except Exception:  # some package's list cannot be read, perhaps none of ours
        points: list[EntryPoint] = []
        for distribution in distributions():
            try:
                points += distribution.entry_points.select(group=group)
            except Exception as error:
                problem = f"cannot be read: {words(error)}"
                warn_user(f"entry points of {_named(distribution)} {problem}")
        return points

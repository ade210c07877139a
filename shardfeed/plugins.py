"""Readers, engines and commands that other installed packages add, by entry points.

Ask only where ours have no such name or recognise nothing: it takes up to a tenth of a second.
"""

from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from shardfeed.errors import UsageError, escape
from shardfeed.user_warnings import warn_user

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["reader", "engine", "command"]


class Plugin(NamedTuple):
    """A name that packages add; more than one entry point is an error when it is loaded."""

    kind: Kind
    name: str
    points: list["EntryPoint"]

    @property
    def packages(self) -> str:
        """The names and versions of its packages."""
        return " and ".join(f"{point.dist.name} {point.dist.version}" for point in self.points if point.dist)

    def load(self, expected: str, fits: Callable[[Any], bool]) -> Any:
        """Import it. Raises UsageError, which names the package, if that fails or it is not what is `expected`."""
        called = f"the {self.kind} {escape(self.name)!r} of {escape(self.packages)}"
        if len(self.points) > 1:
            raise UsageError(self.kind, f"{called}: two packages have this name", "uninstall one of them")
        remedy = f"update the package {escape(self.packages.partition(' ')[0])}, or uninstall it"
        try:
            found = self.points[0].load()
        except (Exception, SystemExit) as error:
            problem = f"{called} cannot be imported: {type(error).__name__}: {escape(str(error)[:300])}"
            raise UsageError(self.kind, problem, remedy) from error
        if not fits(found):
            raise UsageError(self.kind, f"{called} is {escape(repr(found)[:100])}, expected {expected}", remedy)
        return found


def installed(kind: Kind, ours: Container[str]) -> dict[str, Plugin]:
    """Return what installed packages add to the group `shardfeed.readers`, `.engines` or `.commands`, by name, sorted.

    A name in `ours` keeps its meaning: what a package adds under it is left out, with a warning.
    """
    from importlib.metadata import distributions, entry_points  # not above: it takes 70 ms

    group = f"shardfeed.{kind}s"
    try:
        points: Iterable[EntryPoint] = entry_points(group=group)
    except Exception:  # some package's list cannot be read, perhaps none of ours
        points = []
        for one in distributions():
            try:
                points += one.entry_points.select(group=group)
            except Exception as error:
                warn_user(f"entry points of {one.name} {one.version} cannot be read: {error}")
    found: dict[str, Plugin] = {}
    for point in sorted(points, key=lambda point: point.name):
        of_name = Plugin(kind, point.name, [point])
        if point.name in ours:
            problem = f"is not used: shardfeed has a {kind} of this name"
            warn_user(f"the {kind} {point.name!r} of {of_name.packages} {problem}")
        else:
            found.setdefault(point.name, of_name._replace(points=[])).points.append(point)
    return found

"""The request of a user: a path, and the options that narrow how it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from shardfeed.converters.sources.files.listing import Globs
from shardfeed.converters.sources.options import Options, given, options_of
from shardfeed.converters.sources.readers import Reader
from shardfeed.errors import SOURCE


@dataclass(frozen=True)
class Request:
    """The arguments of `open_source`, and those of its options that were given, by name."""

    path: str
    reader: str | Reader | None = None
    include: Globs = ()
    exclude: Globs = ()
    follow_links: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    is_unpacked: bool = False  # whether the path is a folder that is removed at the end, which nobody can give

    @classmethod
    def of(cls, path: str, options: Options | None, **opening: Any) -> "Request":
        """Make the request of a call."""
        return cls(path, values=given(options), **opening)

    @property
    def options(self) -> Options | None:
        """The object with the options. Raises UsageError for two that are about different kinds of sources."""
        return options_of(self.values)

    @property
    def wanted(self) -> dict[str, Any]:
        """The arguments that select files."""
        return {"include": self.include, "exclude": self.exclude, "follow_links": self.follow_links}

    @property
    def is_narrowed(self) -> bool:
        """Whether the user said how the source is to be read."""
        return self.reader is not None or bool(self.values)

    def changed(self, change: Mapping[str, Any]) -> "Request":
        """The request with arguments that advice adds. Patterns are added to those that were given."""
        opening = {one.name for one in fields(Request)}
        made = {name: value for name, value in change.items() if name in opening}
        for name in ("include", "exclude"):
            if name in made:
                made[name] = (*_as_patterns(getattr(self, name)), *_as_patterns(made[name]))
        rest = {name: value for name, value in change.items() if name not in {*opening, SOURCE}}
        return replace(self, path=change.get(SOURCE, self.path), values={**self.values, **rest}, **made)


def _as_patterns(patterns: Globs) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)

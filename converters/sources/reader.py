"""What a reader is: a file that answers two questions, "am I meant?" and "what are my rows?"."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from shardfeed.converters.sources.legacy import old_options
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import Options
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError

_HERE = "shardfeed.converters.sources"


@dataclass(frozen=True)
class Evidence:
    """Why a reader takes something for its own, in words: `found`, what there is; `missing`, what it lacks to be read.

    `name`: of the reader, as `--from` takes it. `sure`: whether no other reader can be meant, whatever it finds.
    """

    name: str
    found: str
    missing: str = ""
    sure: bool = False


class ReaderModule(Protocol):
    """The functions that the module of a reader has; `options` is of the class that its `Reader` names."""

    def recognise(self, look: Look, options: Any) -> Evidence | None:
        """Whether the path is meant, by its content, cheaply; None where it is not."""
        ...

    def read(self, look: Look, options: Any) -> Source:
        """The source. Raises UsageError, LabelFileError, StorageError, MissingExtraError."""
        ...


@dataclass(frozen=True)
class Reader:
    """One reader. It is imported when a name in the folder ends in one of its suffixes, or when it is asked for.

    Attributes:
        name: as `--from` takes it, in Python `reader=`.
        module: with `recognise` and `read`, below `shardfeed.converters.sources`, or a whole dotted name.
        options: the class of its options.
        takes: the names of those options that it takes; any other is refused.
        suffixes: ends of file names, in lower case, one of which must be there; empty: it looks at every path.
        chooses_files: whether include, exclude and follow_links mean something to it.
    """

    name: str
    module: str
    options: type[Options]
    takes: Collection[str] = ()
    suffixes: tuple[str, ...] = ()
    chooses_files: bool = False
    legacy: bool = False  # its functions still take a path and the old options

    def recognise(self, look: Look, given: Mapping[str, Any]) -> Evidence | None:
        """Whether the path is meant; `given`: options by name, all of which it takes."""
        options = self.options(**given)
        if self.legacy:
            return self.load().recognise(look.path, old_options(look, options))  # type: ignore[arg-type]
        return self.load().recognise(look, options)

    def read(self, look: Look, given: Mapping[str, Any]) -> Source:
        """The source; raises what its module does."""
        options = self.options(**given)
        if self.legacy:
            return self.load().read(look.path, old_options(look, options))  # type: ignore[arg-type]
        return self.load().read(look, options)

    def load(self) -> ReaderModule:
        """The module."""
        name = self.module if "." in self.module and self.module.startswith("shardfeed") else f"{_HERE}.{self.module}"
        return cast("ReaderModule", import_module(name))

    def may_be(self, look: Look) -> bool:
        """Whether a name tells that this reader might be meant, before its module is imported."""
        return not self.suffixes or any(name.endswith(self.suffixes) for name in look.suffixes)


def missing_of(error: ShardfeedError) -> str:
    """What an error says of a thing that cannot be read, and what to do, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: arguments in it are to be told as where they are read
    return f"{problem}; {remedy}" if remedy else problem

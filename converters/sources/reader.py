"""What a reader is: a module that answers two questions, "am I meant?" and "what are my rows?"."""

from dataclasses import dataclass
from typing import Any, Protocol

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError


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


def missing_of(error: ShardfeedError) -> str:
    """What an error says of a thing that cannot be read, and what to do, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: arguments in it are to be told as where they are read
    return f"{problem}; {remedy}" if remedy else problem

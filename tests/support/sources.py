"""Readers by their names, as `open_source` finds and calls them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardfeed.converters import open_source
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import given
from shardfeed.converters.sources.readers import BY_NAME


def reader(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The `recognise` and `read` of a reader: both take a path and options, and `read` patterns of files, too."""

    def recognise(path: str | Path, options: Any = None) -> Evidence | None:
        return BY_NAME[name].recognise(Look(str(path)), given(options))

    def read(path: str | Path, options: Any = None, **files: Any) -> Any:
        return open_source(path, reader=name, options=options, **files)

    return recognise, read

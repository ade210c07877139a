"""The page: one HTML file of a template that escapes every value, without requests, and with a single script."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shardfeed.errors import escape
from shardfeed.version import __version__

_TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_CELL = 300  # characters
FIRST = 6  # pictures of a row that are shown at once


class Table(NamedTuple):
    """Rows of text and numbers, the first cell of each a heading. `search`: whether to search and sort by a column."""

    kind = "table"
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    search: bool = False


class Chart(NamedTuple):
    """Bars: the values of each as text, and its number in each series. `series`, `totals`: name and sum of each."""

    kind = "chart"
    title: str
    unit: str
    summary: str
    bars: Sequence[tuple[str, Sequence[int]]]
    series: Sequence[str]
    totals: Sequence[int]

    @property
    def tallest(self) -> float:
        """The largest share that a bar has of its series."""
        return max(count / (self.totals[i] or 1) for _, counts in self.bars for i, count in enumerate(counts))

    @property
    def table(self) -> Table:
        """The numbers of the bars."""
        return Table(self.title, (self.unit or "value", *self.series), [(text, *of) for text, of in self.bars])


class Map(NamedTuple):
    """Counts in cells, [rows][columns] from the top left on."""

    kind = "map"
    title: str
    summary: str
    cells: Sequence[Sequence[int]]


class Picture(NamedTuple):
    """`data`: a data URI, or "" with the reason in `problem`. `about`: size, class and split, in a line."""

    data: str
    name: str
    about: str
    problem: str


class PictureRow(NamedTuple):
    """Pictures of a class in a split, or of inputs; all but the first few are shown on a click."""

    kind = "tiles"
    title: str
    pictures: Sequence[Picture]


class Note(NamedTuple):
    """A paragraph of a section."""

    kind = "note"
    text: str


def render(content: Mapping[str, Any], *, framed: bool = False) -> bytes:
    """The page with this content, which is escaped; `framed`: as a frame of a notebook. Only its own script may run."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(
        autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["cut"] = lambda text: escape(text)[:_CELL]
    own = {name: loader.get_source(environment, f"page.{name}")[0] for name in ("js", "css")}
    hashes = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in own.items()}
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src 'sha256-{hashes['js']}'; style-src 'sha256-{hashes['css']}'"
    )
    values = {**content, "policy": policy, "version": __version__, "first": FIRST, "framed": framed}
    trusted = {name: Markup(text) for name, text in own.items()}  # files of this package
    page = environment.get_template("report.html").render(**values, **trusted)
    if framed:
        page = environment.get_template("inline.html").render(title=content["headline"], page=page)
    return page.encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """`value` for JSON, with tables and charts as dicts."""
    if isinstance(value, Mapping):
        return {key: plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return plain(value._asdict()) if hasattr(value, "_asdict") else [plain(of) for of in value]  # type: ignore[union-attr]
    return value

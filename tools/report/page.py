"""The page: one HTML file of templates that escape every value, without requests, and with a single script."""

import base64
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from shardfeed.errors import escape

_TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_CELL = 300  # characters


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """The page of a template with these values, which are escaped. Only its own script and style may run."""
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cut"] = _cut
    own = {name: _content(f"page.{name}") for name in ("js", "css")}
    hashes = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in own.items()}
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src 'sha256-{hashes['js']}'; style-src 'sha256-{hashes['css']}'"
    )
    trusted = {name: Markup(text) for name, text in own.items()}  # files of this package
    return (
        environment.get_template(template)
        .render(**values, **trusted, policy=policy)
        .encode("utf-8", "backslashreplace")
    )


def _cut(text: str) -> str:
    return escape(text)[:_CELL]


def _content(name: str) -> str:
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()

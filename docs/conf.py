"""Sphinx makes a site of this folder: `make docs`. Any warning ends the build (docs/design/020-docs-site.md)."""

import os
import re
from importlib import import_module
from typing import Any

from shardfeed.version import __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

project = "shardfeed"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"shardfeed {version}"
html_copy_source = False
html_show_copyright = False

# `page.md#a-heading` means on the site what it means in the repository.
myst_heading_anchors = 4

# A docstring says `name`, once, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88

# A package's names are imported when they are first asked for, and autodoc documents those that it finds.
for package in ("", ".converters", ".readers", ".pipelines", ".pipelines.torch", ".pipelines.prefetch"):
    face = import_module(f"shardfeed{package}")
    for name in face.__all__:
        setattr(face, name, getattr(face, name))


def code_in_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """What follows `Example:`, and what is indented after a blank line, is code: reStructuredText wants it said."""
    text = "\n".join(lines)
    text = re.sub(r"^Examples?:\n(?=\n? {4})", "**Example**\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\n\n)((?: {4,}.*\n|\n(?= {4}))+)", r".. code-block:: python\n\n\1\n", text + "\n")
    lines[:] = text.splitlines()


def setup(app: Any) -> None:
    """Before napoleon reads the `Args:` of a docstring."""
    app.connect("autodoc-process-docstring", code_in_docstring, priority=400)

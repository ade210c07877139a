"""Sphinx makes a site of this folder: `make docs`. Any warning ends the build (docs/design/015-report-and-site.md)."""

import re
import shutil
from importlib import import_module
from typing import Any, Union

from sphinx.ext.autodoc.mock import _MockObject, mock
from sphinx.util.inspect import signature

from shardfeed.version import __version__

project = "shardfeed"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
html_theme = "furo"
html_favicon = "pictures/favicon.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
copybutton_prompt_text = "$ "
html_title = f"shardfeed {version}"
html_copy_source = False
html_show_copyright = False

# Notebooks are shown with the outputs that `make tutorials` committed.
nb_execution_mode = "off"

# `page.md#a-heading` means on the site what it means in the repository.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# A docstring says `name`, once, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88

# The reference needs no framework: objects of the same names stand in for them, also in `tf.Tensor | None`.
autodoc_mock_imports = ["keras", "ray", "tensorflow", "torch"]
_MockObject.__or__ = _MockObject.__ror__ = lambda one, other: Union[other, one]  # noqa: UP007

# A package's names are imported when they are first asked for, and autodoc documents those that it finds.
with mock(autodoc_mock_imports):
    for package in ("", ".converters", ".readers", ".pipelines", ".pipelines.torch", ".pipelines.prefetch"):
        face = import_module(f"shardfeed{package}")
        for name in face.__all__:
            value = getattr(face, name)
            setattr(face, name, value)
            if isinstance(value, type) and issubclass(value, _MockObject):  # which would hide its `__init__`
                value.__signature__ = signature(value.__init__, bound_method=True)


def code_in_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Mark as code the text below `Example:` and text indented after a blank line, as reStructuredText requires."""
    text = "\n".join(lines)
    text = re.sub(r"^Examples?:\n(?=\n? {4})", "**Example**\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\n\n)((?: {4,}.*\n|\n(?= {4}))+)", r".. code-block:: python\n\n\1\n", text + "\n")
    lines[:] = text.splitlines()


def leave_out_of_search(app: Any, _doctree: Any) -> None:
    """Keep design notes from ranking above the pages."""
    page = app.env.current_document.docname
    if re.match(r"design/\d", page):
        app.env.metadata[page]["nosearch"] = True


PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="(.+?)">\s*<img alt="(.+?)" src="(.+?)">\s*</picture>')
TWO_IMAGES = r"""
```{image} \3
:alt: \2
:class: only-light
```
```{image} \1
:alt: \2
:class: only-dark
```
"""


def two_pictures(_app: Any, _page: str, source: list[str]) -> None:
    """Make two images of a `<picture>`, one for light pages and one for dark pages, as readers may switch."""
    source[0] = PICTURE.sub(TWO_IMAGES, source[0])


def copy_text_of_pages(app: Any, error: Exception | None) -> None:
    """Put llms.txt, and the text of each page that it names, beside the pages."""
    text = (app.srcdir / "llms.txt").read_text()
    for name in ("llms.txt", *re.findall(r"\]\(([^)]+)\)", text)) if error is None else ():
        shutil.copyfile(app.srcdir / name, app.outdir / name)


def setup(app: Any) -> None:
    """Connect them, the first before napoleon reads the `Args:` of a docstring."""
    app.connect("autodoc-process-docstring", code_in_docstring, priority=400)
    app.connect("doctree-read", leave_out_of_search)
    app.connect("source-read", two_pictures)
    app.connect("build-finished", copy_text_of_pages)

"""Sphinx makes a site of this folder: `make docs`. Any warning ends the build (docs/design/020-docs-site.md)."""

from importlib import import_module

from shardfeed.version import __version__

project = "shardfeed"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"shardfeed {version}"
html_copy_source = False

# `page.md#a-heading` means on the site what it means in the repository.
myst_heading_anchors = 4

# A docstring says `name`, once, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88

# A package's names are imported when they are first asked for, and autodoc documents those that it finds.
for package in ("shardfeed", "shardfeed.converters", "shardfeed.readers", "shardfeed.pipelines"):
    module = import_module(package)
    for name in module.__all__:
        setattr(module, name, getattr(module, name))
for package in ("shardfeed.pipelines.torch", "shardfeed.pipelines.prefetch"):
    module = import_module(package)
    for name in module.__all__:
        setattr(module, name, getattr(module, name))

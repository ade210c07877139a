"""Lazy imports of the public names of a package: each is imported from its module when first used."""

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from shardfeed.errors import needing_extra

_FRAMEWORKS = {"tensorflow", "torch", "keras"}  # the only folders and modules that import them
_IMPORT = re.compile(r"^ *from (shardfeed\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(
    package: str, packages: Sequence[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of `package`.

    The names and their modules are the imports `from module import name as name` in the package's source, which only
    type checkers execute. A name from a module that needs a missing extra raises MissingExtraError; `__all__` leaves
    out those of missing frameworks, so that `from package import *` works. No module of the package may have the same
    name: code that imports the module first would get the module instead.

    Args:
        package: its `__name__`.
        packages: names of packages in it, imported likewise.
    """
    loader: Any = sys.modules[package].__loader__  # as `inspect` does, whose import takes longer than all of this
    home_of = {name: module for module, name in _IMPORT.findall(loader.get_source(package))}
    missing = {name for name in _FRAMEWORKS.difference(package.split(".")) if find_spec(name) is None}

    def get(name: str) -> Any:
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing_extra(f"{package}.{name}"):
            for framework in missing.intersection(home_of[name].split(".")):  # not what the module imports first
                raise ModuleNotFoundError(name=framework)
            return getattr(import_module(home_of[name]), name)

    public = sorted(name for name, module in home_of.items() if missing.isdisjoint(module.split(".")))
    return public, get, lambda: sorted({*home_of, *packages})

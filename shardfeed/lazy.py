"""Lazy imports of the public names of a package: each is imported from its module when first used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from shardfeed.errors import needing_extra


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], packages: Sequence[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of `package`.

    A name from a module that needs a missing extra raises MissingExtraError. No module of the package may have the same
    name: code that imports the module first would get the module instead.

    Args:
        package: its `__name__`.
        homes: full module name -> the public names that are defined there.
        packages: names of packages in it, imported likewise.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing_extra(f"{package}.{name}"):
            return getattr(import_module(home_of[name]), name)

    public = sorted(home_of)
    return public, get, lambda: [*public, *packages]

"""A package's face: public names that are imported from the modules they live in when they are first used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from shardfeed.errors import needing_extra


def lazy_names(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of `package`; `homes` has a full module name -> the public names that live there.

    A name whose module needs an extra that is not installed raises MissingExtraError, which says so.
    No module of the package may have the name of one of them: whoever imported it first would get the module.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing_extra(f"{package}.{name}"):
            return getattr(import_module(home_of[name]), name)

    return sorted(home_of), get

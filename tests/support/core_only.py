"""Run in a process of its own: what the core does alone, and what it says where an extra is needed.

`core_only.py FOLDER OUT [hide]` converts the images of FOLDER. With `hide` nothing that an extra installs is found.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from typing import Any

OPTIONAL = {"tensorflow", "keras", "torch", "ray", "matplotlib", "turbojpeg", "jinja2"}


class WithoutExtras(MetaPathFinder):
    """Finds what `finder` finds, but none of `hidden`, what an extra would install: as if it were nowhere."""

    def __init__(self, finder: Any, hidden: Collection[str] = OPTIONAL) -> None:
        self._finder, self._hidden = finder, hidden

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        return None if fullname.partition(".")[0] in self._hidden else self._finder.find_spec(fullname, path, target)


def main() -> None:
    """Convert, verify and read; then ask for each thing that needs an extra, and print what is said."""
    folder, out, *hide = sys.argv[1:]
    if hide:
        sys.meta_path[:] = map(WithoutExtras, sys.meta_path)

    import shardfeed
    import shardfeed.converters as converters
    import shardfeed.pipelines as pipelines
    import shardfeed.pipelines.torch as pipelines_torch
    from shardfeed.converters import ImageFolder, ImageOptions, RayWorkers, convert
    from shardfeed.errors import UsageError
    from shardfeed.readers import verify
    from shardfeed.tools import cli

    convert(ImageFolder(folder), out, workers=1)
    assert not verify(out).damages
    train = shardfeed.open(out)["train"]
    assert all(train[i]["image/encoded"] for i in range(len(train)))

    for package in (shardfeed, converters, pipelines):  # as `from package import *` does
        assert all(getattr(package, name) for name in package.__all__)
    assert "convert" in shardfeed.__all__
    asked: list[Callable[[], object]] = [
        lambda: pipelines.prefetch_ray([list]),
        lambda: pipelines.cached(train, pipelines.Cache(f"{out}.cache", decoded=True)),
        lambda: convert(ImageFolder(folder), f"{out}.ray", workers=RayWorkers()),
        lambda: convert(ImageFolder(folder), f"{out}.baseline", image=ImageOptions(baseline=True)),
        *(
            lambda package=package, name=name: getattr(package, name)
            for package in (shardfeed, pipelines, pipelines_torch)
            for name in dir(package)
        ),
    ]
    for ask in asked:
        try:
            ask()
        except UsageError as error:
            print(error)
    for arguments in (
        ["bench", out],
        ["bench", out, "--plot", f"{out}.png"],
        ["report", out, "-o", f"{out}.html"],
        ["demo", "--out", f"{out}.demo"],
    ):
        assert cli.main(arguments) == UsageError.exit_code
    assert not OPTIONAL & sys.modules.keys()


if __name__ == "__main__":
    main()

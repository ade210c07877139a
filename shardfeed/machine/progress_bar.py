"""Progress bars in notebooks: their output is not a terminal, so a long cell would otherwise show nothing."""

from typing import Any

from shardfeed.machine.processes import in_notebook


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm with these options, on a terminal and in a notebook; elsewhere one that prints nothing."""
    from tqdm.auto import tqdm  # not above: most processes show no bar

    return tqdm(disable=False if in_notebook() else None, **options)

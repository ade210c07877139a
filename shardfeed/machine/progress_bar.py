"""Progress bars in notebooks: their output is not a terminal, so a long cell would otherwise show nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm with these options, on a terminal and in a notebook; elsewhere one that prints nothing."""
    from tqdm.auto import tqdm  # not above: most processes show no bar

    return tqdm(disable=False if in_notebook() else None, **options)


@contextmanager
def shown_in_notebook(progress: Callable[[Any], None] | None) -> Iterator[Callable[[Any], None] | None]:
    """Return `progress`, or if it is None in a notebook, a listener that draws a bar."""
    if progress is not None or not in_notebook():
        yield progress
        return
    with progress_bar(unit=" images") as bar:

        def show(state: Any) -> None:
            bar.total = state.images_planned
            bar.set_postfix_str(f"{state.shards}/{state.shards_planned} shards", refresh=False)
            bar.update(min(state.images, state.images_planned) - bar.n)  # a shard that is tried again counts twice

        yield show

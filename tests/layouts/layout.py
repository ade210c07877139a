"""An entry of the table of layouts: what a user has, what they type, and what they then expect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.layouts.files import Files

Build = Callable[[Files], None]


@dataclass(frozen=True)
class Gives:
    """The dataset that a user expects. What is not named here must not be in it: no label, no box, no caption.

    `splits`: samples of each, `"train 4, test 2"`. `classes`: names of the label (or tags), `"cat dog"` or a tuple, in
    label order; a set where the order is not the user's concern. `label`, `tags`, `boxes`, ...: by the end of a file's
    name. `gray`: value of all pixels of an image -> its label, for containers without names of images.
    `boxes`: `"dog 10 5 30 25; cat 0 0 60 40"`, left, top, right, bottom in pixels, in the source's order.
    `objects`: their number in all splits. `raster`: pixels of each class, and of "void". `masks`: pixels of each
    object. `points`: (x, y, visibility) of each object in turn. `values`: feature -> file -> value.
    """

    splits: str
    classes: str | tuple[str, ...] | set[str] | None = None
    label: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    gray: Mapping[int, str | None] = field(default_factory=dict)
    boxes: Mapping[str, str] = field(default_factory=dict)
    objects: int | None = None
    of: str | tuple[str, ...] | set[str] | None = None  # the classes of objects
    captions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    raster: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    masks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    points: Mapping[str, Sequence[tuple[float, float, int]]] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)  # file -> its split


@dataclass(frozen=True)
class Layout:
    """One layout. `typed` gives what is expected; or it is refused, with `says` in the message, and `then` gives it.

    Without `then` nothing can: the layout is refused rightly. Where `typed` gives it after all, `then` is not typed.
    `today` is what goes wrong at present, "" where nothing does: whoever mends it removes it, and writes the page anew.
    `needs`: packages without which it cannot be built.
    """

    name: str
    have: str
    typed: str
    build: Build
    gives: Gives | None
    says: tuple[str, ...] = ()
    then: str = ""
    code: int = 2
    today: str = ""
    needs: str = ""


class Topic:
    """Layouts of one kind: a section of the page."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.layouts: list[Layout] = []

    def layout(
        self,
        have: str,
        typed: str,
        gives: Gives | None = None,
        *,
        says: str | tuple[str, ...] = (),
        then: str = "",
        code: int = 2,
        today: str = "",
        needs: str = "",
    ) -> Callable[[Build], Build]:
        """Enter a layout, built by the function below. `needs`: a package without which it cannot be built."""
        words = (says,) if isinstance(says, str) else says
        assert gives is not None or words, "what does the user get?"

        def entered(build: Build) -> Build:
            self.layouts.append(Layout(build.__name__, have, typed, build, gives, words, then, code, today, needs))
            return build

        return entered


def names_of(names: str | tuple[str, ...] | set[str]) -> tuple[str, ...]:
    """The names in order, those of a set sorted."""
    return tuple(names.split()) if isinstance(names, str) else tuple(sorted(names)) if isinstance(names, set) else names


def out_of(command: str, root: Path) -> Path:
    """The dataset that a command makes: all are typed with `out` as its name."""
    assert "out" in command.split(), command
    return root / "out"

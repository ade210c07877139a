"""Rows of the table of remedies: an input, a command whose message advises, and what happens if that is typed."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.naming import LEFT_OUT, REJECTED
from shardfeed.tools.cli import main
from shardfeed.tools.command_list import command_parser

from pictures import image_bytes
from remedies.inventory import options, options_in, pattern

# An option as Python writes it, outside of "(in Python ...)", which a command should not say.
PYTHON_NAMES = re.compile(
    rf"(?<![\w(])({'|'.join(flag[2:].replace('-', '_') for flag in options() if len(flag) > 2)})=[^'\s]*['\[{{]"
)

_MASK = re.compile(r"mask|^labels/|panoptic_")  # in names of files that belong to an image


class Box:
    """A directory for one row, which is the current one. Its functions make small inputs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def image(self, name: str, seed: int = 0, size: tuple[int, int] = (40, 32)) -> None:
        """A JPEG or PNG of smooth colours, another for each name and seed."""
        colour = np.random.default_rng([seed, *name.encode()]).integers(0, 256, (4, 5, 3), np.uint8)
        picture = Image.fromarray(colour).resize(size, Image.Resampling.BICUBIC)
        self.write(name, image_bytes(picture, "PNG" if name.endswith(".png") else "JPEG"))

    def images(self, *names: str) -> None:
        for name in names:
            self.image(name)

    def broken(self, name: str) -> None:
        """A PNG whose pixels cannot be decoded, though each of its chunks has the right checksum."""
        self.image(name)
        data = (self.root / name).read_bytes()
        at = data.index(b"IDAT")
        size = int.from_bytes(data[at - 4 : at], "big")
        chunk = b"IDAT" + data[at + 4 : at + 20] + bytes(size - 16)
        self.write(name, data[:at] + chunk + crc32(chunk).to_bytes(4, "big") + data[at + 4 + size + 4 :])

    def mask(self, name: str, values: tuple[int, ...] = (0, 1), size: tuple[int, int] = (40, 32)) -> None:
        """A gray PNG of columns with these values."""
        width, height = size
        row = [values[x * len(values) // width] for x in range(width)]
        self.write(name, image_bytes(Image.fromarray(np.array([row] * height, np.uint8)), "PNG"))

    def colours(self, name: str, colours: tuple[tuple[int, ...], ...], size: tuple[int, int] = (40, 32)) -> None:
        """A PNG of columns with these colours."""
        width, height = size
        row = [colours[x * len(colours) // width] for x in range(width)]
        self.write(name, image_bytes(Image.fromarray(np.array([row] * height, np.uint8)), "PNG"))

    def folder(self, name: str = "images", classes: str = "daisy rose tulip", each: int = 2, first: int = 0) -> None:
        self.images(*(f"{name}/{label}/{i}.jpg" for label in classes.split() for i in range(first, first + each)))

    def damage(self, pattern: str, at: int = -20) -> None:
        """Flip a bit of the only file that matches."""
        (path,) = self.root.glob(pattern)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    def link(self, name: str, target: Path) -> None:
        (self.root / name).symlink_to(target)

    def type(self, command: str) -> int:
        """The exit code of a command of ours."""
        return main(shlex.split(command))


@dataclass(frozen=True)
class Way:
    """Part of an advice that a user takes, and the outcome.

    `take`: the options, or one command, that the message names; `drop`: those that are removed from the command, as
    "leave it out" says. `gives`: the samples of the dataset that is made, or by split; None if only the exit code says.
    `fill`: the user's values for options or placeholders. `onto`: the command that the options are added to, if it is
    another one. `listed`: inputs and annotations that are left out, and listed. `images`: those that the user wants of
    a folder that is converted, if they are not its image files without masks; each becomes a sample or is listed.
    `out`: the dataset that is made, if it is not the command's last word. `then`: the way to take from the next
    message.
    """

    take: str = ""
    gives: int | Mapping[str, int] | None = None
    fill: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    drop: str = field(default="", kw_only=True)
    onto: str = field(default="", kw_only=True)
    out: str = field(default="", kw_only=True)
    listed: int = field(default=0, kw_only=True)
    images: int = field(default=0, kw_only=True)
    then: "Way | None" = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Row:
    """`advice`: an id of the inventory. `command`: as typed, or what raises the error or returns a text."""

    advice: str
    make: Callable[[Box], object]
    command: str | Callable[[], object]
    ways: tuple[Way, ...]


ROWS: list[Row] = []


def advises(
    advice: str, command: str | Callable[[], object], *ways: Way
) -> Callable[[Callable[[Box], object]], Callable[[Box], object]]:
    """Decorate the function that makes the input of a row. Several rows may share an input."""

    def add(make: Callable[[Box], object]) -> Callable[[Box], object]:
        ROWS.append(Row(advice, make, command, ways))
        return make

    return add


_WORD = r"""((?:'[^']*'|"[^"]*"|[^\s;'"])+)"""  # as a shell reads it


def _value(command: str, flag: str) -> bool:
    """Whether an option of a command takes a value."""
    action = command_parser(command)._option_string_actions[flag]
    return action.nargs != 0


def _filled(text: str, fill: Mapping[str, str]) -> str:
    """A word of a message with the user's values for its placeholders."""
    return re.sub(r"\b[A-Z]+(\.[a-z]+)?\b", lambda found: fill.get(found[0], found[0]), text)


def taken(command: list[str], said: str, way: Way) -> list[str]:
    """The command after a user took this way from a message."""
    words = shlex.split(way.onto) if way.onto else list(command)
    for flag in way.drop.split():
        assert way.take or flag in options_in(said) or "leave" in said, f"{flag} is not in: {said}"
        at = next(i for i, word in enumerate(words) if word.partition("=")[0] == flag)
        del words[at : at + (2 if _value(words[0], flag) and "=" not in words[at] else 1)]
    if way.take.startswith("shardfeed "):
        found = re.search(rf"`?({re.escape(way.take)}[^`\n]*)`?", said)
        assert found, f"{way.take} is not in: {said}"
        typed = way.fill.get(way.take) or _filled(found[1], way.fill)
        return shlex.split(typed)[1:]
    for flag in way.take.split():
        if flag == "SOURCE":
            found = re.search(r"(\S+) as SOURCE", said)
            assert found, f"no SOURCE in: {said}"
            words[1] = way.fill.get("SOURCE", found[1])
            continue
        found = re.search(rf"(?<![\w-]){flag}(?![\w-])(?: {_WORD})?", said)
        assert found, f"{flag} is not in: {said}"
        words.append(flag)
        if _value(words[0], flag):
            value = way.fill.get(flag) or _filled(shlex.split(found[1].rstrip(",.):"))[0] if found[1] else "", way.fill)
            words.append(value)
    return words


def typed(command: list[str]) -> int:
    """The exit code of a command, as a shell gets it."""
    try:
        return main(command)
    except SystemExit as end:  # --help
        return int(end.code or 0)


def follow(row: Row, way: Way, printed: Callable[[], str], *, steps: int = 3) -> None:
    """Type the command of a row, then what its message advises, until it works."""
    command: list[str] = []
    if isinstance(row.command, str):
        command = shlex.split(row.command)
        typed(command)
        said = printed()
    else:
        try:
            said = str(row.command())
        except Exception as error:  # ours, or TensorFlow's around it
            said = str(error)
    assert "\ue000" not in said, f"an argument that is not formatted: {said}"
    for line in said.splitlines() if command else ():
        if line.startswith("shardfeed: ") and (found := PYTHON_NAMES.search(line)):
            raise AssertionError(f"{found[0]} is no option: {line}")
    advice = pattern(row.advice).search(said)
    assert advice, f"{row.advice!r} is not what is said: {said}"
    said = f"{said[advice.start() :]}\n{said}".partition("\nusage:")[0]  # first what begins with the advice
    taking: Way | None = way
    while taking is not None:
        assert steps, f"more than three steps: {said}"
        command = taken(command, said, taking)
        code = typed(command)
        said = printed()
        if code == 0:
            assert taking.then is None, f"worked at once: {shlex.join(command)}"
            check(taking, command)
            return
        assert taking.then is not None, f"{shlex.join(command)}: {said}"
        taking, steps = taking.then, steps - 1


def check(way: Way, command: list[str]) -> None:
    """Check that the dataset has all that it should."""
    if way.gives is None:
        return
    words = [word for word in command if not word.startswith("-")]
    out = way.out or next((word for word in ("new", "out") if word in words), words[-1])
    dataset = shardfeed.open(out)
    found = {name: len(dataset[name]) for name in dataset}
    expected = way.gives if isinstance(way.gives, Mapping) else sum(found.values())
    assert (found if isinstance(way.gives, Mapping) else way.gives) == expected, f"{shlex.join(command)}: {found}"
    rejected, left_out = (Path(out, name) for name in (REJECTED, LEFT_OUT))
    lists = {path: path.read_text().splitlines() if path.exists() else [] for path in (rejected, left_out)}
    assert sum(map(len, lists.values())) == way.listed, f"{shlex.join(command)}: {lists}"
    if images := way.images or _images(command):
        assert sum(found.values()) + len(lists[rejected]) == images, (
            f"{shlex.join(command)}: {found} of {images} images"
        )


def _images(command: list[str]) -> int:
    """How many images are in the folder that a command converts: 0 if there is none, or other files have them."""
    folder = command[command.index("--images") + 1] if "--images" in command else command[1]
    files = Path(folder).rglob("*") if command[0] == "convert" else ()
    return sum(path.suffix in (".jpg", ".png") and not _MASK.search(str(path.relative_to(folder))) for path in files)

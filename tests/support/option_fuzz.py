"""Commands typed with one option, or one word, that its user cannot have meant; each runs in this process.

`python tests/support/option_fuzz.py 5000` prints how they ended, and each kind of fault once.
"""

import contextlib
import io
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from argument_fuzz import LONGEST, RIGHT, Place, TooSlowError, misspelt, where, within

from shardfeed.tools.cli import main as run_command
from shardfeed.tools.command_list import COMMANDS, command_parser

# Commands whose right options take long, or reach the network: only words that are wrong by themselves are typed there.
NOT_TYPED = {"bench", "demo"}
WORDS = [
    *("", " ", "--", "-", "x", "no", "nan", "inf", "-1", "0", "3", "0.5", "1e999", "9" * 70, "1" * 5000, "x" * 5000),
    *("(" * 500, "[" * 900, "(?P<label>", "*", "**", "../../x", "/", ".", "a=b", "a=", "=b", "a=nan", "train=0.5"),
    *("train=0.5,train=0.5", "train=nan,test=1", "trian=1", ",", ",,", "a,b", "\x1b[31m", "x\ny", "\ud800", "\udcff"),
    *("2TB", "2 TB", "1e30GB", "0B", "%", "150%", "-3%", "s3:/no", "http://[", "file:///", "hf://", "None", "True"),
    *("x:int:3", "x:float:" + "9" * 30, "224x224", "224,224,224", "#ffffff", "red", "${x}", "'", '"', "\\", "é", "٣"),
]


class Typed:
    """Commands with right words, in a folder that has what they name."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def words(self, command: str) -> list[str]:
        """The words of a command that is right, and ends soon."""
        folder, place = place_folder(self.place), self.place
        data, photos, more = f"{folder}/data", f"{folder}/photos", f"{folder}/more"
        one = ["--workers", "1"]
        typed = {
            "convert": [photos, place.out(), *one],
            "inspect": [data],
            "verify": [data],
            "preview": [data, "--output", place.out() + ".png"],
            "report": [data, "--output", place.out() + ".html"],
            "bench": [data],
            "append": [data, more, place.out(), *one],
            "merge": [data, f"{folder}/moredata", place.out(), *one],
            "filter": [data, place.out(), "--where", "height > 3", *one],
            "relabel": [data, place.out(), "--map", "circle=ring", *one],
            "reshard": [data, place.out(), *one],
            "split": [data, place.out(), "--split", "train=0.5,validation=0.5", *one],
            "remove": [data, place.out(), "--key", "circle/0photos.jpg", *one],
            "export": [data, place.out(), "--to", "folder"],
            "salvage": [data, place.out()],
            "rebuild": [data, "--dry-run"],
            "adopt": [data, place.out(), "--dry-run"],
            "card": [place.copy()],
            "push": [data, "s3:/no"],
            "pull": ["s3:/no", place.out()],
            "demo": [],
            "completion": ["bash"],
        }
        return typed[command]


def place_folder(place: Place) -> str:
    """The folder of a place, as its user types it."""
    return os.fspath(place.folder)


def options(command: str) -> list[str]:
    """The options of a command that take a value."""
    actions = command_parser(command)._actions
    return [action.option_strings[-1] for action in actions if action.option_strings and action.nargs != 0]


def changed(typed: Typed, command: str, draws: random.Random) -> tuple[list[str], str]:
    """The words of a command with one that is wrong, and the option or the word in its place."""
    words = typed.words(command)
    names = options(command)
    value = draws.choice(WORDS)
    if draws.random() < 0.1 and names:
        name = misspelt(draws.choice(names), draws)
        return [*words, name, "3"], name
    if names and draws.random() < 0.8:
        name = draws.choice(names)
        if name == "--workers" and value.strip("-").isdecimal():
            value = "x"
        apart = draws.random() < 0.3
        return [*words, *([name, value] if apart else [f"{name}={value}"])], name
    spots = [at for at, word in enumerate(words) if not word.startswith("-")]
    if not spots or command in NOT_TYPED:
        return [*words, value], value
    at = draws.choice(spots)
    if at == 0 and value == "/":
        value = "/no"  # the whole disk is a right source, and takes as long as it is large
    return [*words[:at], value, *words[at + 1 :]], words[at - 1] if words[at - 1].startswith("--") else ""


def ended(command: str, words: list[str], name: str) -> tuple[str, str]:
    """How a command ended: a word, and what is to be seen of a fault."""
    shown = f"shardfeed {command} {' '.join(map(ascii, words))}"[:400]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), within(60):
            code = run_command([command, *words])
    except SystemExit as error:
        return ("right" if error.code in (0, None) else "left by itself"), shown
    except TooSlowError:
        return "without an end", shown
    except BaseException as error:
        return "raw", f"{shown}: {type(error).__name__}: {error!s:.200} {where(error)}"
    lines = [line for line in err.getvalue().split("\n") if line.startswith("shardfeed: ")]
    lines = [line for line in lines if not line.startswith(("shardfeed: warning:", "shardfeed: note:"))]
    if "Traceback" in err.getvalue() or code not in (0, 2, 3, 4, 5, 6):
        return "raw", f"{shown}: exit {code}: {err.getvalue()[-300:]!r}"
    if code == 0:
        return "right", shown
    if not lines or not lines[-1].isprintable() or len(lines[-1]) > LONGEST:
        return "unreadable", f"{shown}: {err.getvalue()[:300]!r}"
    if not re.match(r"shardfeed: [^:]+:", lines[-1]):
        return "nameless", f"{shown}: {lines[-1]}"
    return ("named" if name in lines[-1] else "of another place"), f"{shown}: {lines[-1]:.300}"


def commands(place: Place, draws: random.Random, count: int) -> Iterator[tuple[str, str, str, str]]:
    """Type that many commands: the command, the option, how it ended, and what is to be seen of it."""
    typed = Typed(place)
    tried = [command for command in COMMANDS if command not in NOT_TYPED]
    for number in range(count):
        command = draws.choice(tried)
        words, name = changed(typed, command, draws)
        yield command, name, *ended(command, words, name)
        if number % 50 == 49:
            shutil.rmtree(place.folder / "made")
            (place.folder / "made").mkdir()


def main() -> None:
    """Print how commands end."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "a/b")
        (inner / "made").mkdir(parents=True)
        os.chdir(inner)
        tally, seen = Counter[str](), dict[tuple[str, str, str], str]()
        for command, name, how, shown in commands(Place(inner), random.Random(seed), count):
            tally[how] += 1
            if how not in RIGHT:
                seen.setdefault((how, command, name), shown)
        for how, shown in sorted((how, shown) for (how, _, _), shown in seen.items()):
            print(f"{how}: {shown}".encode("ascii", "backslashreplace").decode())
        print(dict(tally))


if __name__ == "__main__":
    main()

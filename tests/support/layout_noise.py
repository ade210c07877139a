"""Noise over drawn sources: what downloads, systems and people leave beside the data, with the truth after it.

`noisy(seed)` draws a case of layout_generator.py and one to four noises. A sweep types its command, then each command
and option that the message prints:

    python -m tests.support.layout_noise --draws 5000 --seed 0 [--kinds "folders: classes" ...] [--noises NAME ...]

RIGHT: the dataset is true, and what is not stored is named. ASKED: refused, and everything printed that can be typed as
it is gives a right dataset. REFUSED: refused in words alone. UNNAMED: true, but a file beside that may well be data is
neither used nor named. WRONG: other data, without a word, or a traceback. BAD ADVICE: what was printed, typed, gives
other data or another error; of several readers one is to be right. Noise that is plainly no data must not turn RIGHT
into anything else: then it is LOST.
"""

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from shardfeed.converters import conversion
from shardfeed.schema import LABEL

from in_process import OwnEngine
from layout_advice import alone, alternatives, asks_more, filled, ways
from layout_generator import KINDS, Case, case
from layout_judge import Stored, Typed, arrived, silent_facts, stored, typed, untrue
from layout_noises import FIRST, JUNK, NOISES, Source

VERDICTS = ("RIGHT", "ASKED", "REFUSED", "UNNAMED", "LOST", "WRONG", "BAD ADVICE")
_STEPS = 3  # messages one after the other, at most


class Noisy(NamedTuple):
    """A source with noise; `seed` draws it again."""

    seed: int
    source: Source
    noises: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def plain(self) -> bool:
        return all(NOISES[name].plain for name in self.noises)

    def __str__(self) -> str:
        shown = replace(self.source.of, seed=self.seed, files=self.source.files)
        return f"{', '.join(self.noises) or 'no noise'}; {shown}"


def noisy(seed: int, kinds: Sequence[str] = tuple(KINDS), noises: Sequence[str] = tuple(NOISES)) -> Noisy:
    """Draw the case of a seed among `kinds`, and one to four of `noises` that apply to it."""
    rng, names = random.Random(f"noise {seed}"), list[str]()
    wanted = rng.choice((1, 1, 2, 2, 3, 4))
    for word in rng.sample(FIRST, len(FIRST)):
        name = rng.choice(JUNK) if word == "junk" else word
        if len(names) < wanted and name in noises and composed(seed, kinds, [*names, name]) is not None:
            names.append(name)
    drawn = composed(seed, kinds, names)
    assert drawn is not None
    return drawn


def composed(seed: int, kinds: Sequence[str], names: Sequence[str]) -> Noisy | None:
    """The case of a seed with these noises, in an order in which links are last; None if one does not apply."""
    of, ordered = case_of(seed, kinds), sorted(names, key=lambda name: name.startswith("links"))
    source = Source(of, dict(of.files))
    if sum(name.startswith("links") for name in names) > 1:
        return None
    if not all(NOISES[name].add(random.Random(f"{name} {seed}"), source) for name in ordered):
        return None
    return Noisy(seed, source, tuple(ordered), tuple(kinds))


def case_of(seed: int, kinds: Sequence[str]) -> Case:
    every = [*KINDS]
    kind = kinds[seed % len(kinds)]
    return case(seed // len(kinds) * len(every) + every.index(kind))


# --- what comes of it -------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """One of VERDICTS; `command`: what was typed last; `message`: what is wrong, or what was said."""

    name: str
    command: tuple[str, ...]
    message: str


@dataclass
class Judge:
    """Types commands in the empty folder `root`, which is the current one."""

    drawn: Noisy
    root: Path

    def verdict(self) -> Verdict:
        """Judge a source by its command, and by what is printed if that is refused."""
        self.drawn.source.write(self.root)
        command = self.of.command
        done = self._done(command)
        if isinstance(done, str):
            return Verdict("WRONG", command, done)
        if done.code == 0:
            return self._of_dataset(command, done)
        if bad := self._bad_advice(command, done.said, (done.said,)):
            return bad
        asked = ways(self.of, command, done.said) or filled(self.of, command, done.said)
        return Verdict("ASKED" if asked else "REFUSED", command, done.said)

    @property
    def of(self) -> Case:
        return replace(self.drawn.source.of, files=self.drawn.source.files)

    def _done(self, command: tuple[str, ...]) -> Typed | str:
        """Type a command, into a new folder; return what it did, or its traceback."""
        shutil.rmtree(self.root / "out", ignore_errors=True)
        try:
            return typed(command)
        except Exception as error:
            return f"a traceback: {error!r}"

    def _of_dataset(self, command: tuple[str, ...], done: Typed) -> Verdict:
        """The verdict of a dataset that was made by the first command."""
        of, found = self.of, stored(self.root / "out")
        silent = silent_facts(of, found, done)
        unused = [fact for fact in of.facts if fact.name in of.asked and not arrived(fact, found)]
        wrong = [*untrue(of, found, done), *self._wrong_additions(found)]
        wrong += [f"{fact.name} is asked for and not stored" for fact in unused]
        wrong += [f"{fact.name} is lost without a word" for fact in silent if fact.name not in self.drawn.source.beside]
        if wrong:
            return Verdict("WRONG", command, f"{'; '.join(wrong)}; notes: {done.report['notes']}")
        if silent:
            names = ", ".join(fact.name for fact in silent)
            return Verdict("UNNAMED", command, f"{names}; notes: {done.report['notes']}")
        return Verdict("RIGHT", command, str(done.report["notes"]))

    def _wrong_additions(self, found: Stored) -> list[str]:
        """Images that noise added, and that are stored as something that they are not."""
        wrong = []
        for number, (classes, splits) in self.drawn.source.added.items():
            record = found.records.get(number, {})
            if record.get(LABEL, classes) - classes:
                wrong.append(f"the added image {number} has the classes {sorted(record[LABEL])}")
            if record and found.splits[number] not in splits:
                wrong.append(f"the added image {number} is in {found.splits[number]}")
        return wrong[:2]

    def _bad_advice(
        self, command: tuple[str, ...], said: str, before: tuple[str, ...], *, part: bool = False
    ) -> Verdict | None:
        """Type all that a message prints, and return the first that is bad. `before`: the messages up to here."""
        for among in alternatives(ways(self.of, command, said), command):
            bad = [self._bad_way(way, before, part=part) for way in among]
            if all(bad):
                return bad[0]
        for way in filled(self.of, command, said):
            bad_way = self._bad_way(way, before, part=part)
            if bad_way and not bad_way.message.startswith("error"):
                return bad_way
        for way in alone(command, said):
            if bad_way := self._bad_way(way, before, part=True):
                return bad_way
        return None

    def _bad_way(self, way: tuple[str, ...], before: tuple[str, ...], *, part: bool) -> Verdict | None:
        """`part`: the command has a part of the source, so that other images are missing."""
        chain = "\n  then: ".join(before)
        done = self._done(way)
        if isinstance(done, str):
            return Verdict("BAD ADVICE", way, f"{done}\n  after: {chain}")
        if done.code == 0:
            wrong = self._wrong_by_choice(way, done, part=part)
            return Verdict("BAD ADVICE", way, f"{'; '.join(wrong)}\n  after: {chain}") if wrong else None
        if done.said in before or not asks_more(way, done.said):
            return Verdict("BAD ADVICE", way, f"error: {done.said}\n  after: {chain}")
        return self._bad_advice(way, done.said, (*before, done.said), part=part) if len(before) < _STEPS else None

    def _wrong_by_choice(self, way: tuple[str, ...], done: Typed, *, part: bool) -> list[str]:
        """List what is wrong with a dataset that was advised.

        A class that nobody could tell may be chosen, and `--unlabelled` leaves classes out.
        """
        found = stored(self.root / "out")
        wrong = untrue(self.of, found, done)
        if self.of.ambiguous or not any(fact.role == "class" for fact in self.of.facts):
            wrong = [one for one in wrong if "has the classes" not in one]
        if part or {"--max-bad", "--exclude"} & {*way}:  # as the user chose; a linked folder is rejected as one
            wrong = [one for one in wrong if "are lost" not in one]
        if part:
            return wrong
        left_out = {"class", "text", "number"} if "--unlabelled" in way else set[str]()
        chosen = [fact for fact in silent_facts(self.of, found, done) if fact.role not in left_out]
        silent = [fact for fact in chosen if fact.name not in self.drawn.source.beside]
        if not self.of.ambiguous:
            wrong += [f"{fact.role} {fact.name} is lost without a word" for fact in silent]
        return [*wrong, *self._wrong_additions(found)]


def verdict(drawn: Noisy, place: Path) -> Verdict:
    """The verdict of a source, judged in a new folder `place`, which then goes."""
    found = _judged_in(place, drawn)
    if drawn.plain and found.name in ("ASKED", "REFUSED", "BAD ADVICE"):
        bare = composed(drawn.seed, drawn.kinds, ())
        if bare and _judged_in(place, bare).name == "RIGHT":
            return found._replace(name="LOST", message=f"{found.name}: {found.message}")
    return found


def smallest(drawn: Noisy, found: Verdict, place: Path) -> tuple[Noisy, Verdict]:
    """The fewest of the noises that give a verdict of the same name, and that verdict."""
    for count in range(len(drawn.noises)):
        for names in combinations(drawn.noises, count):
            fewer = composed(drawn.seed, drawn.kinds, names)
            if fewer and (again := verdict(fewer, place)).name == found.name:
                return fewer, again
    return drawn, found


def _judged_in(place: Path, drawn: Noisy) -> Verdict:
    place.mkdir(parents=True)
    try:
        with contextlib.chdir(place):
            return Judge(drawn, place).verdict()
    finally:
        shutil.rmtree(place)


# --- the sweep --------------------------------------------------------------------------------------------------------

BAD = ("LOST", "WRONG", "BAD ADVICE")
_MEMORY = "/dev/shm"  # a conversion waits for the disk some thirty times


def one_process() -> None:
    """Shards are written in this process, by the function that a worker calls: starting one takes longer."""
    conversion.choose_engine = lambda workers, tries: OwnEngine(1)  # type: ignore[assignment]  # as conftest.py does


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=KINDS, metavar="KIND")
    parser.add_argument("--noises", nargs="+", default=[*NOISES], choices=NOISES, metavar="NOISE", help="draw of these")
    parser.add_argument("--exactly", nargs="*", choices=NOISES, metavar="NOISE", help="add these, draw none")
    parser.add_argument("--show", nargs="+", default=[*BAD], choices=VERDICTS, metavar="VERDICT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add a line to it for each draw")
    asked = parser.parse_args()
    one_process()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names that are no UTF-8
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as root:
        for drawn in _drawn(asked):
            found = verdict(drawn, place := Path(root, str(drawn.seed)))
            if found.name in BAD:
                drawn, found = smallest(drawn, found, place)
            counts[found.name] += 1
            if found.name in asked.show:
                print(
                    f"{found.name}: {drawn}\n  typed: {shlex.join(found.command)}\n  -> {found.message}\n", flush=True
                )
            if asked.json:
                line = {"seed": drawn.seed, "kind": drawn.source.of.kind, "noises": drawn.noises, **found._asdict()}
                with asked.json.open("a") as file:
                    file.write(json.dumps(line).replace(root, "") + "\n")
    print(", ".join(f"{name} {counts[name]}" for name in VERDICTS))
    return int(any(counts[name] for name in BAD))


def _drawn(asked: argparse.Namespace) -> Iterator[Noisy]:
    """The sources that were asked for: drawn, or each seed with exactly these noises, if they apply to it."""
    for seed in range(asked.seed, asked.seed + asked.draws):
        if asked.exactly is None:
            yield noisy(seed, asked.kinds, asked.noises)
        elif drawn := composed(seed, asked.kinds, asked.exactly):
            yield drawn


if __name__ == "__main__":
    sys.exit(main())

"""Drawn sources with noise: never other data in silence. `make noise` draws 5,000 of them (layout_noise.py)."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from layout_advice import ways
from layout_generator import KINDS, Case, Fact, case
from layout_noise import BAD, VERDICTS, Noisy, Verdict, composed, noisy, smallest, verdict
from layout_noises import JUNK, NOISES


class Known(NamedTuple):
    """A source with the fewest noises that make it bad today, and why. This list only becomes shorter."""

    seed: int
    noises: tuple[str, ...]
    why: str


KNOWN = (
    Known(18, ("masks", "links: symbolic"), "masks of the same names are taken for images that are links out"),
    Known(394, ("extra",), "a folder of other images makes classes of a folder for each sample"),
    Known(482, ("extra",), "images beside a tar are all that is read"),
    Known(1120, ("split word around",), "of two files of records in a folder called like a split, one is read"),
    Known(1327, ("split word around",), "an only folder is a class, as its name has a split's word"),
)


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("--unlabelled with --include a.png, or --class-names FILE", ["--unlabelled --include a.png"]),
        ("give --pattern '(?P<label>[^/]+)/.+'; --labels FILE.csv", ["--pattern '(?P<label>[^/]+)/.+'"]),
        ("leave it out by --exclude /test (and convert it alone by --unlabelled)", ["--exclude /test"]),
        ("give --columns image=values,label=NAME, or --split for groups", []),
        ("give --text-column breed for texts, --label-column breed for classes", ["--label-column breed"]),
    ],
)  # fmt: skip
def test_what_can_be_typed_as_it_is_printed(said: str, typed: list[str]) -> None:
    of = Case(0, "", ("convert", "data", "out"), {}, frozenset(), (Fact("class", "breed", {}),))
    assert ways(of, of.command, said) == [(*of.command, *shlex.split(one)) for one in typed]


def test_a_printed_command_and_another_source_are_typed() -> None:
    of = Case(0, "", ("convert", "data", "out"), {}, frozenset())
    said = "type `shardfeed convert data out --unlabelled`, or give data/list.csv as SOURCE with --reader labels"
    assert ways(of, of.command, said) == [
        (*of.command, "--unlabelled"),
        ("convert", "data/list.csv", "out", "--reader", "labels"),
    ]


def judge(seed: int, noises: Iterable[str], place: Path) -> Verdict:
    drawn = composed(seed, [*KINDS], [*noises])
    assert drawn is not None
    return verdict(drawn, place)


def wrong(drawn: Noisy, found: Verdict) -> str:
    return f"{drawn}\n  typed: {' '.join(found.command)}\n  -> {found.message}"


@pytest.mark.parametrize("name", NOISES)
def test_each_noise_applies_to_some_kind_and_is_the_same_again(name: str) -> None:
    drawn = [composed(seed, [*KINDS], [name]) for seed in range(len(KINDS))]
    again = [composed(seed, [*KINDS], [name]) for seed in range(len(KINDS))]
    assert any(drawn)
    assert [one and one.source for one in drawn] == [one and one.source for one in again]


@pytest.mark.parametrize("name", [*JUNK, "empty folder", "hidden images", "archive", "upper case"])
def test_what_is_no_data_changes_nothing(tmp_path: Path, name: str) -> None:
    """Class folders, a table and records with what is plainly no data."""
    seeds = [[*KINDS].index(kind) for kind in ("folders: classes", "table: class numbers", "records: classes")]
    for seed in seeds:
        if drawn := composed(seed, [*KINDS], [name]):
            check([(drawn, verdict(drawn, tmp_path / str(seed)))], tmp_path, BAD)


@pytest.mark.parametrize(
    "known", [pytest.param(one, marks=pytest.mark.xfail(strict=True, reason=one.why)) for one in KNOWN]
)
def test_known_to_be_bad(tmp_path: Path, known: Known) -> None:
    assert judge(known.seed, known.noises, tmp_path / "noisy").name not in BAD


def judged(seeds: Iterable[int], root: Path) -> list[tuple[Noisy, Verdict]]:
    return [(drawn, verdict(drawn, root / str(drawn.seed))) for drawn in map(noisy, seeds)]


def check(found: list[tuple[Noisy, Verdict]], root: Path, names: tuple[str, ...]) -> None:
    bad = [smallest(drawn, one, root / "again") for drawn, one in found if one.name in names]
    lines = [f"{one.name}: {wrong(drawn, one)}" for drawn, one in bad if not is_known(drawn)]
    assert not lines, f"{len(lines)} of {len(found)}:\n" + "\n\n".join(lines[:20])


def is_known(drawn: Noisy) -> bool:
    """Whether some known source of such a kind is bad with these noises, or fewer."""
    return any(
        family(case(one.seed).kind) == family(drawn.source.of.kind) and {*one.noises} <= {*drawn.noises}
        for one in KNOWN
    )


def family(kind: str) -> str:
    """Tables and records are one kind each, whatever their columns."""
    return kind if kind.startswith("folders") else kind.partition(":")[0]


def test_noise_never_gives_other_data_in_silence(tmp_path: Path) -> None:
    check(judged(range(len(KINDS)), tmp_path), tmp_path, ("WRONG",))


@pytest.mark.torture
def test_5000_noisy_sources(tmp_path: Path, seed: int, torture_result: Callable[..., None]) -> None:
    found = judged(range(seed, seed + 5000), tmp_path)
    counts = Counter(one.name for _, one in found)
    torture_result("noisy sources", sources=len(found), **{name.lower(): counts[name] for name in VERDICTS}, seed=seed)
    check(found, tmp_path, ("WRONG",))

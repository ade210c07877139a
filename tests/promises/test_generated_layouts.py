"""Drawn sources with known truth: what is stored is true, and what is not stored is named. Never wrong in silence.

Each case of layout_generator.py is converted by the command that a user types, and judged by layout_judge.py.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from layout_generator import KINDS, Case, case
from layout_judge import OUTCOMES, Outcome, outcome


def sweep(seeds: Iterable[int], root: Path) -> dict[int, tuple[Case, Outcome]]:
    """Judge each seed in a folder of its own, which then goes."""
    found = {}
    for seed in seeds:
        drawn, place = case(seed), root / str(seed)
        place.mkdir()
        with contextlib.chdir(place):
            found[seed] = drawn, outcome(drawn, place)
        shutil.rmtree(place)
    return found


def table(found: Mapping[int, tuple[Case, Outcome]]) -> str:
    """Outcomes by kind, and the first seed of each kind that is wrong."""
    lines = [f"| kind | {' | '.join(OUTCOMES)} | first wrong |", "|---|" + "---:|" * (len(OUTCOMES) + 1)]
    for kind in [*KINDS, "all"]:
        those = {seed: judged for seed, (drawn, judged) in found.items() if kind in (drawn.kind, "all")}
        counts = Counter(judged.name for judged in those.values())
        wrong = next((str(seed) for seed, judged in those.items() if judged.name == "WRONG"), "")
        lines.append(f"| {kind} | {' | '.join(str(counts[name]) for name in OUTCOMES)} | {wrong} |")
    return "\n".join(lines) + "\n"


def check(found: Mapping[int, tuple[Case, Outcome]]) -> None:
    wrong = [f"{drawn}\n  -> {judged.why}" for drawn, judged in found.values() if judged.name == "WRONG"]
    assert not wrong, f"{len(wrong)} of {len(found)} are wrong:\n" + "\n\n".join(wrong[:20])


def test_the_same_seed_draws_the_same_case() -> None:
    for seed in range(2 * len(KINDS)):
        assert case(seed) == case(seed)


def test_drawn_sources_are_never_wrong_in_silence(tmp_path: Path) -> None:
    check(sweep(range(len(KINDS)), tmp_path))


@pytest.mark.long
def test_200_drawn_sources_are_never_wrong_in_silence(tmp_path: Path) -> None:
    check(sweep(range(200), tmp_path))


@pytest.mark.torture
def test_1000_drawn_sources_are_never_wrong_in_silence(
    tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    found = sweep(range(seed, seed + 1000), tmp_path)
    counts = Counter(judged.name for _, judged in found.values())
    torture_result("drawn sources", sources=len(found), **{name.lower(): counts[name] for name in OUTCOMES}, seed=seed)
    if results := os.environ.get("SHARDFEED_TORTURE_RESULTS"):
        Path(results).with_name("generated_layouts.md").write_text(table(found))
    print(table(found))
    check(found)

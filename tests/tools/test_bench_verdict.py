"""Headlines, refusals, stages and factors of given measurements."""

from collections.abc import Iterator
from typing import Any

import pytest

from shardfeed.tools.bench.running import OutOfTimeError, Running, Slice, together
from shardfeed.tools.bench.verdict import disk_rate, factor, judge, stage_costs, step_ms, summary

ASKED: dict[str, Any] = {"batch_size": 64, "model_ms": 30.0, "seconds": 60.0}


def at(rate: float, *, cpu_us: float = 1000, seconds: float = 3.0) -> Slice:
    """A slice with so many images per second."""
    return Slice(round(rate * seconds), seconds, rate * seconds * cpu_us / 1e6)


def paused(wait_ms: float, step: float = 30.0, steps: int = 100) -> Slice:
    """A slice whose steps took `step` milliseconds and waited as long as `wait_ms` before."""
    return Slice(64 * steps, steps * (step + wait_ms) / 1e3, 1.0, (wait_ms,) * steps)


def test_rounds_that_agree_give_a_headline() -> None:
    rounds = [at(rate) for rate in (1800, 1750, 1700, 1850, 1780)]
    assert judge(rounds, None, **ASKED) is None
    assert together(rounds).rate == pytest.approx(1776)
    assert together(rounds).cpu_us == pytest.approx(1000)
    assert judge(rounds, paused(64 / 1776 * 1e3 - 30), **ASKED) is None


def test_too_few_rounds_give_none_and_the_seconds_that_are_enough() -> None:
    refused = judge([at(1800)] * 3, None, **ASKED, done=0.6)
    assert refused
    assert "3 of 5 rounds" in refused.problem
    assert refused.remedy == "give --seconds 150"
    nothing = judge([], None, **ASKED, done=0.0)
    assert nothing
    assert nothing.remedy == "give --seconds 4500"


def test_rounds_that_differ_give_none() -> None:
    refused = judge([at(rate) for rate in (1800, 1800, 1800, 1800, 900)], None, **ASKED)
    assert refused
    assert "900 to 1,800 images/s" in refused.problem
    assert "--seconds 120" in refused.remedy


def test_a_throughput_that_the_waits_contradict_gives_none() -> None:
    """45 images/s beside waits of 69 ms, which are 645 images/s, were once printed on one page."""
    refused = judge([at(45)] * 5, paused(69.3), **ASKED)
    assert refused
    assert "645 images/s with pauses" in refused.problem
    assert judge([at(645)] * 5, paused(69.3), **ASKED) is None


def test_a_model_that_hardly_waits_says_nothing_against_a_faster_pipeline() -> None:
    assert judge([at(9000)] * 5, paused(0.1), **ASKED) is None
    assert judge([at(9000)] * 5, paused(10), **ASKED) is not None


def test_waits_are_those_of_the_steps() -> None:
    waiting = Slice(64 * 4, 0.2, 1.0, (0.0, 10.0, 20.0, 50.0))
    assert step_ms(waiting) == pytest.approx(30)
    found = summary(waiting)
    assert (found["steps"], found["mean_wait_ms"], found["p50_wait_ms"], found["max_wait_ms"]) == (4, 20, 15, 50)
    assert found["lost_share"] == pytest.approx(0.4)


def test_stages_add_up_to_the_whole_and_none_is_negative() -> None:
    stages = stage_costs([[0.1, 0.12, 0.11], [0.5, 0.5, 0.6], [0.4, 0.42, 0.41], [0.9, 0.8, 0.9]])
    assert [stage.share for stage in stages] == pytest.approx([0.11, 0.30, 0.0, 0.49, 0.1])
    assert sum(stage.share for stage in stages) == pytest.approx(1)
    assert [stage.below_noise for stage in stages] == [False, False, True, False, False]
    assert [stage.noise for stage in stages] == pytest.approx([0.01, 0.06, 0.06, 0.06, 0.05])


def test_the_start_is_not_the_disk_and_noise_makes_no_disk_faster() -> None:
    """A start that took as long as all the rest was once subtracted: 309,882 images/s were printed."""
    assert disk_rate(576, 1.0, 64, 0.2) == pytest.approx(640)
    assert disk_rate(576, 1.0, 64, 0.999) == pytest.approx(576)
    assert disk_rate(64, 1.0, 64, 0.2) == pytest.approx(64)


def test_a_factor_is_that_of_pairs_which_agree() -> None:
    assert factor([(at(1000), at(2000)), (at(500), at(1000)), (at(1500), at(3000))]) == pytest.approx(2)
    assert factor([(at(1000), at(2000)), (at(1000), at(1000))]) is None


def test_a_slice_begins_when_what_was_made_ahead_is_taken() -> None:
    taken: list[int] = []

    def batches() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    running = Running(batches(), 8, ahead=3, deadline=float("inf"))
    assert taken == [0]
    found = running.slice(0.0)
    assert (found.images, len(found.waits_ms), len(taken)) == (32, 4, 1 + 4 + 4)
    again = running.slice(0.0, settle=False, pause_s=0.001)
    assert (again.images, len(taken)) == (32, 13)
    assert again.wall_s >= 0.004


def test_no_batch_is_taken_after_the_deadline() -> None:
    running = Running(iter(range(100)), 8, ahead=1, deadline=0.0)
    with pytest.raises(OutOfTimeError):
        running.slice(1.0)

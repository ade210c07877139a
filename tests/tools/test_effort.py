"""The plan of a measurement: all it counts together takes no longer than there is time, whatever the images are."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardfeed.tools.bench.effort import HEAVY, PIPELINES, PREPARED, VARIANTS, Effort, Pace, plan_effort

PACES = st.builds(Pace, start=st.floats(0.01, 2.0), image=st.floats(1e-5, 3.0))


def planned(seconds: float, pace: Pace, **options: object) -> Effort:
    """A plan for 1,000 images in batches of 64, if not told otherwise."""
    usual = {"rounds": 5, "batch_size": 64, "samples": 1000, "step_s": None, "parallelism": 2}
    return plan_effort(seconds, pace, **(usual | options))  # type: ignore[arg-type]


def forecast(effort: Effort, pace: Pace, *, step_s: float, parallelism: int) -> float:
    """Seconds that all of it takes, without imports; `step_s`: of a step of the model in this batch size."""
    batch_s = effort.batch_size * pace.image
    run = 2 * pace.start * PIPELINES + HEAVY * (effort.images * effort.epochs + effort.batch_size) * pace.image
    variants = effort.sampled * PREPARED * pace.image * parallelism
    variants += (
        (effort.variant_rounds + 1) * VARIANTS * (2 * pace.start + effort.windows * pace.image)
    )  # one to warm up
    waits = pace.start + effort.steps * max(step_s, batch_s) if effort.steps else 0
    return effort.rounds * run + effort.fresh_s + (pace.start + batch_s) * (effort.first_batches + 1) + waits + variants


@given(
    seconds=st.floats(0.1, 600),
    pace=PACES,
    rounds=st.integers(1, 10),
    batch_size=st.integers(1, 512),
    samples=st.integers(1, 5000),
    step_s=st.none() | st.floats(0.001, 2),
    parallelism=st.integers(1, 64),
)
@example(
    seconds=6, pace=Pace(start=0.01, image=1.0), rounds=1, batch_size=1, samples=1, step_s=None, parallelism=1
).via("a second round of the variants, planned as if its one crop took no time")
@example(
    seconds=1, pace=Pace(start=0.01, image=0.004), rounds=1, batch_size=2, samples=2, step_s=1.0, parallelism=1
).via("eight steps of a model, of batches for which there was time but for those")
def test_the_work_fits_into_the_time(
    seconds: float, pace: Pace, rounds: int, batch_size: int, samples: int, step_s: float | None, parallelism: int
) -> None:
    asked = {
        "rounds": rounds,
        "batch_size": min(batch_size, samples),
        "samples": samples,
        "step_s": step_s,
        "parallelism": parallelism,
    }
    found = planned(seconds, pace, **asked)
    assert 1 <= found.batch_size <= asked["batch_size"]
    assert 1 <= found.rounds <= rounds
    assert found.batch_size <= found.images <= max(4 * found.batch_size, samples)
    assert found.images % found.batch_size == 0
    assert 1 <= found.sampled <= samples
    assert found.windows >= found.sampled
    assert bool(found.steps) == (step_s is not None)

    def step_of(effort: Effort) -> float:
        return 0.0 if step_s is None else step_s * effort.batch_size / asked["batch_size"]

    least = planned(1e-9, pace, **asked)  # what cannot be done with less
    floor = forecast(least, pace, step_s=step_of(least), parallelism=parallelism)
    assert forecast(found, pace, step_s=step_of(found), parallelism=parallelism) <= seconds + floor


def test_wallpapers_are_measured_in_smaller_batches() -> None:
    """215 images of which each takes 80 ms: a batch of 64 is 5 s, and eight pipelines in five rounds 400 s of them."""
    pace = Pace(start=0.1, image=0.08)
    found = planned(10, pace, samples=215)
    images = found.rounds * PIPELINES * (found.images * found.epochs + found.batch_size) + found.windows
    assert found.batch_size < 8
    assert images < 200
    assert forecast(found, pace, step_s=0, parallelism=2) < 20  # two rounds of four images are more than its share
    assert planned(300, pace, samples=215).batch_size > 8


def test_small_images_are_measured_as_they_are_trained_on() -> None:
    found = planned(60, Pace(start=0.1, image=0.0005), samples=4000)
    assert (found.batch_size, found.rounds, found.sampled, found.variant_rounds) == (64, 5, 128, 3)
    assert found.images > 500
    whole = planned(60, Pace(start=0.1, image=0.0005), samples=300)
    assert (whole.images, whole.epochs) == (256, 4)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_no_more_rounds_than_asked_for(rounds: int) -> None:
    assert planned(600, Pace(0.1, 0.001), rounds=rounds).rounds == rounds

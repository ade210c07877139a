"""How much of everything is measured in the time there is: a plan of the whole, made from a short trial.

What takes time is images and starts: each pipeline that is run is built, started and gone through. So the plan counts
both.
"""

from dataclasses import dataclass

_FRESH, _ROUNDS, _WAITS, _VARIANTS = 1 / 8, 1 / 2, 1 / 8, 1 / 4  # shares of the time
PIPELINES = 8  # that a round runs: six stages, the decoder alone, larger batches
HEAVY = 6.5  # what they cost together, in terms of the whole pipeline: reading and parsing take little
VARIANTS = 6  # ways of storing the same images, with the one they are stored in
PREPARED = 15  # what making all variants of an image costs, in terms of a crop of it on one core
_FEWEST_ROUNDS = 2  # one says nothing of the noise
_FEWEST_BATCHES = 4  # of a run; the first is taken off it
_VARIANT_ROUNDS = 3
_SMALL_DATASET = 2048  # images; a smaller one is gone through several times a run
_MOST_STEPS, _FEWEST_STEPS = 1000, 8
_SAMPLED, _FEWEST_SAMPLED = 128, 2


@dataclass(frozen=True)
class Pace:
    """What a trial says, in seconds of wall time: `start`, to build and start a pipeline; `image`, each image in it."""

    start: float
    image: float


@dataclass(frozen=True)
class Effort:
    """What is measured. `batch_size`: what is asked for, or less where a batch of that takes too long.

    A run goes through `images` images, in `epochs` epochs where that is all there are; each pipeline has one in each of
    `rounds`. `fresh_s`: how long the new process takes batches. `first_batches`: how often the first one is timed.
    `steps`: of a model, 0 without one. Of `sampled` images other ways of storing them are tried, in `variant_rounds`
    rounds of `windows` crops.
    """

    batch_size: int
    images: int
    epochs: int
    rounds: int
    fresh_s: float
    first_batches: int
    steps: int
    sampled: int
    variant_rounds: int
    windows: int


def plan_effort(
    seconds: float, pace: Pace, *, rounds: int, batch_size: int, samples: int, step_s: float | None, parallelism: int
) -> Effort:
    """As much as `seconds` are enough for; never nothing, so that a few seconds may still become a few more.

    `rounds`: the most. `samples`: in the split. `step_s`: of the model with whole batches, None without one.
    """
    budget = seconds * _ROUNDS
    starts = 2 * PIPELINES * pace.start
    smallest = starts + (_FEWEST_BATCHES + 1) * HEAVY * pace.image  # a round of single images, and of a first one
    rounds = max(min(_FEWEST_ROUNDS, rounds), min(rounds, int(budget / 2 / starts), int(budget / smallest)))
    images = max(0.0, budget / rounds - starts) / (HEAVY * pace.image)  # that a round has time for, of each pipeline
    most = batch_size
    if step_s is not None:  # of which the fewest steps fit
        most = min(most, int(seconds * _WAITS / _FEWEST_STEPS / max(step_s / batch_size, pace.image)))
    batch = max(1, min(most, samples, int(images / (_FEWEST_BATCHES + 1))))
    count = max(_FEWEST_BATCHES * batch, int(images - batch) // batch * batch)
    epochs = 1
    if count >= samples:
        count, epochs = samples // batch * batch, max(1, min(count, _SMALL_DATASET) // samples)
    steps = 0
    if step_s is not None:
        step = max(step_s * batch / batch_size, batch * pace.image)
        steps = max(_FEWEST_STEPS, min(_MOST_STEPS, int(seconds * _WAITS / step)))
    budget = seconds * _VARIANTS
    fewest = min(_FEWEST_SAMPLED, samples)
    variant_starts = VARIANTS * 2 * pace.start
    shortest = variant_starts + VARIANTS * fewest * pace.image  # a round of as few crops as there may be
    variant_rounds = max(1, min(_VARIANT_ROUNDS, int(budget / 3 / shortest) - 1))
    left = max(0.0, budget - (variant_rounds + 1) * variant_starts)
    sampled = max(fewest, min(_SAMPLED, int(left / 2 / (PREPARED * pace.image * parallelism))))
    windows = int(left / 2 / (VARIANTS * (variant_rounds + 1) * pace.image))
    return Effort(
        batch_size=batch,
        images=count,
        epochs=epochs,
        rounds=rounds,
        fresh_s=seconds * _FRESH / 2,
        first_batches=max(1, min(rounds, int(seconds * _FRESH / 2 / (pace.start + batch * pace.image)) - 1)),
        steps=steps,
        sampled=min(sampled, samples),
        variant_rounds=variant_rounds,
        windows=max(min(sampled, samples), windows),
    )

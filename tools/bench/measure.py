"""Everything `shardfeed bench` measures, in the order in which it does, as one JSON value."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from shardfeed.errors import StorageError
from shardfeed.machine.budget import cpu_budget, memory_free
from shardfeed.machine.free_space import check_room
from shardfeed.readers.dataset import Dataset
from shardfeed.tools.bench.advice import Figures, advise
from shardfeed.tools.bench.effort import Pace, plan_effort
from shardfeed.tools.bench.fresh_process import measure_fresh
from shardfeed.tools.bench.rounds import Contender, Cost, handed_over, measure_rounds, stage_costs, through
from shardfeed.tools.bench.stages import STAGES, Workload, check_images
from shardfeed.tools.bench.stored_otherwise import StoredSample, measure_variants, sample_images, variants
from shardfeed.tools.bench.waits import Waits, measure_waits

_COLD_BYTES = 64 << 20  # read from the disk itself, to see how fast that is
_TRIAL_SHARE = 1 / 50  # of the time, at which the trial has seen enough
_TRIAL_IMAGES = (1, 8, 64, 512)
_SMALL_BATCH = 32  # where a larger one is tried too
_MB = 1e6

Progress = Callable[[str], object]


def measure(
    data: Dataset, work: Workload, *, rounds: int, seconds: float, model_ms: float | None, progress: Progress
) -> dict[str, Any]:
    """Measure `work`, a whole split of `data`; what docs/bench.md explains. `progress` is told what comes next.

    `seconds`: about what all of it takes, imports aside; with images so large that a batch takes too long, smaller ones
    are measured. `rounds`: at most. `model_ms`: of a step to be fed.
    Raises UsageError for a split without images, or with fewer than a batch.
    """
    split = work.split
    check_images(split)
    work.batches()  # refuses what cannot be meant, before anything takes time
    progress("trial")
    pace = _pace(work, seconds)
    effort = plan_effort(
        seconds,
        pace,
        rounds=rounds,
        batch_size=work.batch_size,
        samples=len(split),
        step_s=None if model_ms is None else model_ms / 1e3,
        parallelism=work.parallelism,
    )
    part = replace(work, batch_size=effort.batch_size)
    progress("disk")
    disk = _disk(part)
    progress("fresh process")
    fresh = measure_fresh(
        data.directory,
        split.name,
        batch_size=part.batch_size,
        image_size=work.image_size,
        order=work.order,
        parallelism=work.parallelism,
        seconds=effort.fresh_s,
    )
    progress("first batch")
    first_batch_s = statistics.median(_first_batch(part) for _ in range(effort.first_batches))
    progress("warm")
    cut = part.cut(effort.images if effort.images < len(split) - part.batch_size else len(split), effort.epochs)
    contenders = _contenders(cut)
    measure_rounds({"warm": contenders["hand_over"]}, 1)  # pages of all records, threads, caches
    names = iter([name for _ in range(effort.rounds) for name in contenders])
    costs = measure_rounds(contenders, effort.rounds, lambda: progress(next(names)))
    model = None
    if model_ms is not None:
        progress("waits")
        model = _model(work, part, model_ms, effort.steps, _rate(costs["hand_over"]))
    progress("variants")
    samples = sample_images(split, effort.sampled)
    found = measure_variants(
        samples,
        variants(samples, work.image_size),
        work.image_size,
        work.parallelism,
        rounds=effort.variant_rounds,
        windows=effort.windows,
    )
    part = cut
    report = _report(work, part, costs, samples)
    report["rounds"] = effort.rounds
    report["effort"] = asdict(effort)
    report["disk"] = disk
    report["first_batch"] = {
        "iterator_s": first_batch_s,
        "fresh_process_s": fresh["first_batch_s"],
        "import_s": fresh["import_s"],
    }
    report["memory"] = {
        "peak_bytes": fresh["peak_bytes"],
        "imported_bytes": fresh["imported_bytes"],
        "growth_bytes": fresh["peak_bytes"] - fresh["imported_bytes"],
        "batches": fresh["batches"],
        "whole_epoch": fresh["epoch"],
    }
    report["model"] = model
    figures = _figures(work, report, found, costs)
    report["pipeline"]["busy_share"] = figures.busy
    report["advice"] = [asdict(advice) for advice in advise(figures, _fits_in_memory)]
    report["model_bound"] = figures.model_bound if model else None
    return report


def _contenders(part: Workload) -> dict[str, Contender]:
    """The stages, the decoder alone, and larger batches where the batch is small; all of the same images."""
    one = part.cut(part.batch_size)

    def stage(name: str) -> Contender:
        consume = handed_over if name == "hand_over" else through
        return Contender(lambda: part.batches(name), part.images, one.batches(name), one.images, consume)

    found = {name: stage(name) for name in STAGES}
    held = part.held()
    if len(held):
        first = min(part.batch_size, len(held))
        alone = held.first(first).decoded(part.batch_size, part.parallelism)
        whole = held.decoded(part.batch_size, part.parallelism)
        found["decoder"] = Contender(lambda: whole, len(held), alone, first, through)
    if part.batch_size <= _SMALL_BATCH and (larger := _larger(part)):
        one_larger = larger.cut(larger.batch_size)
        found["larger_batch"] = Contender(
            larger.batches, larger.images, one_larger.batches(), one_larger.images, handed_over
        )
    return found


def _larger(part: Workload) -> Workload | None:
    """The same in batches four times as large; None where there are not at least two."""
    size = part.batch_size * 4
    if len(part.split) < 2 * size:
        return None
    return Workload(part.split, size, part.image_size, part.order, part.parallelism, part.epochs)


def _disk(work: Workload) -> dict[str, Any]:
    """Read some records in the pipeline's order from the disk itself: their pages are dropped from memory before."""
    count = max(work.batch_size, min(len(work.split), _COLD_BYTES * len(work.split) // work.split.record_bytes))
    part = work.cut(count)
    dataset, first = part.batches("read"), work.cut(work.batch_size).batches("read")
    for piece in part.split.shard_slices():
        fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    started = time.perf_counter()
    through(dataset)
    seconds, images = time.perf_counter() - started, part.images
    # What any run takes to start, however short, is not the disk's.
    started = time.perf_counter()
    through(first)
    start_s = time.perf_counter() - started
    if images > work.batch_size and start_s < seconds:
        seconds, images = seconds - start_s, images - work.batch_size
    rate = images / seconds
    return {
        "images": part.images,
        "images_per_s": rate,
        "mb_per_s": rate * part.split.record_bytes / len(part.split) / _MB,
        "dataset_bytes": work.split.record_bytes,
        "memory_free_bytes": memory_free(),
    }


def _pace(work: Workload, seconds: float) -> Pace:
    """What a start and an image take: of one image, of 8, 64, 512, until that takes a fiftieth of the time."""
    _through(replace(work.cut(1), batch_size=1))  # threads, caches, what is compiled once
    start, images, least = _through(replace(work.cut(1), batch_size=1)), 1, 1e-6
    image = start
    for count in _TRIAL_IMAGES[1:]:
        images = min(count, len(work.split))
        taken = _through(replace(work.cut(images), batch_size=min(images, work.batch_size)))
        image = max(least, (taken - start) / max(1, images - 1))
        if taken > seconds * _TRIAL_SHARE or images == len(work.split):
            break
    return Pace(start, image)


def _through(work: Workload) -> float:
    """Seconds to build a pipeline, to start it and to go through it."""
    started = time.perf_counter()
    handed_over(work.batches())
    return time.perf_counter() - started


def _first_batch(work: Workload) -> float:
    """Seconds from the start of an iteration to its first batch."""
    dataset = work.batches()
    started = time.perf_counter()
    next(iter(dataset))
    return time.perf_counter() - started


def _model(work: Workload, part: Workload, model_ms: float, steps: int, rate: float) -> dict[str, Any]:
    """The waits of steps of `model_ms`. Where `part` has smaller batches, a step is in proportion shorter there."""
    larger = work.batch_size / part.batch_size
    measured = measure_waits(part.batches(endless=True), model_ms / larger, steps)
    waits = Waits(measured.first_ms * larger, measured.waits_ms * larger, measured.step_ms * larger)
    return {
        "model_ms": model_ms,
        "step_ms": waits.step_ms,
        "images_per_s_wanted": work.batch_size / model_ms * 1e3,
        "shortest_step_ms": work.batch_size / rate * 1e3,
        "first_wait_ms": waits.first_ms,
        "all": waits.summary(),
        "steady": waits.summary(steady=True),
        "waits_ms": [round(wait, 3) for wait in waits.waits_ms.tolist()],
    }


def _rate(costs: list[Cost]) -> float:
    return 1e6 / statistics.median(cost.wall_us for cost in costs)


def _report(
    work: Workload, part: Workload, costs: dict[str, list[Cost]], samples: list[StoredSample]
) -> dict[str, Any]:
    """What the rounds say."""
    split = work.split
    prefixes = {name: [cost.cpu_us for cost in costs[name]] for name in STAGES}
    stages = [
        {
            "name": name,
            "cpu_us_per_image": stage.cpu_us,
            "noise_us_per_image": stage.noise_us,
            "below_noise": stage.below_noise,
            "up_to_here_cpu_us_per_image": [round(cost, 2) for cost in prefixes[name]],
            "up_to_here_images_per_s": _rate(costs[name]),
        }
        for name, stage in zip(STAGES, stage_costs(list(prefixes.values())), strict=True)
    ]
    whole = costs["hand_over"]
    rate = _rate(whole)
    mean_bytes = split.record_bytes / len(split)
    decoder = None
    if "decoder" in costs:
        alone = costs["decoder"]
        pairs = list(zip(alone, whole, strict=True))
        decoder = {
            "cpu_us_per_image": statistics.median(cost.cpu_us for cost in alone),
            "images_per_s": _rate(alone),
            # What is part of the whole can only by noise seem to take longer than that.
            "cpu_share": min(1.0, statistics.median(a.cpu_us / w.cpu_us for a, w in pairs)),
            "rate_share": min(1.0, statistics.median(a.wall_us / w.wall_us for a, w in pairs)),
            "rounds_cpu_us_per_image": [round(cost.cpu_us, 2) for cost in alone],
            "rounds_images_per_s": [round(1e6 / cost.wall_us, 1) for cost in alone],
        }
    busiest = max(statistics.median(cost.cpu_us / cost.wall_us for cost in each) for each in costs.values())  # cores
    heights, widths = ([getattr(s, side) for s in samples] for side in ("height", "width"))
    return {
        "split": split.name,
        "samples": len(split),
        "formats": dict(split.formats),
        "record_bytes_mean": mean_bytes,
        "median_height_px": round(statistics.median(heights)),
        "median_width_px": round(statistics.median(widths)),
        "progressive_share": sum(s.progressive for s in samples) / len(samples),
        "batch_size": work.batch_size,
        "batch_size_measured": part.batch_size,
        "image_size_px": work.image_size,
        "order": work.order,
        "parallelism": work.parallelism,
        "cores_granted": cpu_budget(),
        "images_per_round": part.images,
        "epochs_per_round": part.epochs if len(part.split) == len(split) else None,
        "stages": stages,
        "pipeline": {
            "cpu_us_per_image": statistics.median(cost.cpu_us for cost in whole),
            "images_per_s": rate,
            "encoded_mb_per_s": rate * mean_bytes / _MB,
            "busiest_share": min(1.0, busiest / cpu_budget()),
            "rounds_cpu_us_per_image": [round(cost.cpu_us, 2) for cost in whole],
            "rounds_images_per_s": [round(1e6 / cost.wall_us, 1) for cost in whole],
        },
        "decoder": decoder,
    }


def _figures(work: Workload, report: dict[str, Any], found: list[Any], costs: dict[str, list[Cost]]) -> Figures:
    stages = {stage["name"]: stage for stage in report["stages"]}
    larger = None
    if "larger_batch" in costs:
        cpu_us = statistics.median(cost.cpu_us for cost in costs["larger_batch"])
        larger = (report["batch_size_measured"] * 4, cpu_us)
    model = report["model"]
    return Figures(
        samples=len(work.split),
        dataset_bytes=work.split.record_bytes,
        memory_free_bytes=report["disk"]["memory_free_bytes"],
        cores=report["cores_granted"],
        parallelism=work.parallelism,
        batch_size=work.batch_size,
        image_size=work.image_size,
        cpu_us=report["pipeline"]["cpu_us_per_image"],
        read_us=stages["read"]["cpu_us_per_image"],
        rate=report["pipeline"]["images_per_s"],
        inside_rate=stages["batch"]["up_to_here_images_per_s"],
        disk_rate=report["disk"]["images_per_s"],
        progressive=report["progressive_share"],
        median_size=(report["median_height_px"], report["median_width_px"]),
        variants=found,
        busiest_share=report["pipeline"]["busiest_share"],
        larger_batch=larger,
        model_ms=model["model_ms"] if model else None,
        lost_share=model["steady"]["lost_share"] if model else None,
    )


def _fits_in_memory(size: int) -> bool:
    """Whether a cache of `size` bytes would be let into /dev/shm."""
    try:
        check_room("/dev/shm", size, "")
    except (StorageError, OSError):
        return False
    return True

"""Everything `shardfeed bench` measures, in the order in which it does, as one JSON value."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardfeed.machine.budget import cpu_budget, memory_free
from shardfeed.readers.dataset import Dataset
from shardfeed.tools.bench.changes import Look, converted, possible_changes, sample_of, try_change
from shardfeed.tools.bench.fresh_process import measure_fresh
from shardfeed.tools.bench.running import OutOfTimeError, Running, Slice, together
from shardfeed.tools.bench.stages import Workload
from shardfeed.tools.bench.verdict import ROUNDS, factor, judge, stage_costs, step_ms, summary

NO_WAIT = 0.02  # share of the time lost below which a step is said not to wait
_WORTH = 1.1  # times as fast; less is not worth a change
_COLD_BYTES = 64 << 20  # read from the disk itself, to see how fast that is
_PART_BYTES = 512 << 20  # of records that are gone through again and again, and so stay in memory
_REPEATS = 3  # of each pair of slices in a round
_SLICES = 80  # that the time is enough for, with starts, pauses and changes
_SHORTEST = 0.2  # seconds
_FRESH_SHARE = 1 / 20  # of the time, for batches in a new process
_MB = 1e6

Progress = Callable[[str], object]
Pairs = list[tuple[Slice, Slice]]


@dataclass(frozen=True)
class _Rounds:
    """The slices of the whole pipeline in each round, those with pauses, and the pairs with each other pipeline."""

    whole: list[Slice]
    waiting: list[Slice]
    pairs: dict[str, Pairs]
    done: float
    first_s: float


def describe(work: Workload, look: Look) -> dict[str, Any]:
    """The dataset and the pipeline, before anything has been measured."""
    split = work.split
    return {
        "split": split.name,
        "samples": len(split),
        "formats": dict(split.formats),
        "record_bytes_mean": split.record_bytes / len(split),
        "median_height_px": look.height,
        "median_width_px": look.width,
        "progressive_share": look.progressive,
        "batch_size": work.batch_size,
        "image_size_px": work.image_size,
        "order": work.order,
        "workers": work.workers,
        "cores_granted": cpu_budget(),
    }


def measure(
    data: Dataset,
    work: Workload,
    look: Look,
    *,
    seconds: float,
    model_ms: float | None,
    report: dict[str, Any],
    progress: Progress,
) -> None:
    """Measure `work`, a whole split of `data`, as docs/bench.md explains, and add what is found to `report`.

    `seconds`: about how long all of it takes, imports aside. `model_ms`: of a step to be fed. `progress` is told what
    has been measured.
    Raises UsageError for a split with fewer images than a batch.
    """
    split = work.split
    report["seconds"] = seconds
    work.batches()  # refuses what cannot be meant, before anything takes time
    deadline = time.perf_counter() + seconds
    report["disk"] = _disk(work)
    progress("disk")
    size = min(_PART_BYTES, memory_free() // 8)
    part = work.cut(max(2 * work.batch_size, min(len(split), size * len(split) // split.record_bytes)))
    rounds = _measure_rounds(part, max(_SHORTEST, seconds / _SLICES), model_ms, deadline, progress)
    report |= _rounds_report(work, rounds, seconds, model_ms)
    if report["refused"]:
        return
    progress("a new process")
    started = time.perf_counter()
    options = {name: getattr(work, name) for name in ("batch_size", "image_size", "order", "workers")}
    fresh = measure_fresh(data.directory, split.name, **options, seconds=seconds * _FRESH_SHARE)
    deadline += time.perf_counter() - started
    report["first_batch"] = {
        "iterator_s": rounds.first_s,
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
    if not report["model_bound"]:
        report |= _advice(work, look, report, max(_SHORTEST, seconds / _SLICES), deadline, progress)


def _disk(work: Workload) -> dict[str, Any]:
    """Read some records in the pipeline's order from the disk itself: their pages are dropped from memory before."""
    split = work.split
    part = work.cut(max(work.batch_size, min(len(split), _COLD_BYTES * len(split) // split.record_bytes)))
    dataset, first = part.batches("read"), work.cut(work.batch_size).batches("read")
    sum(1 for _ in first)  # threads, caches, what is compiled once
    for piece in part.split.shard_slices():
        fd = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    started = time.perf_counter()
    images = sum(work.batch_size for _ in dataset)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    sum(1 for _ in first)
    start_s = time.perf_counter() - started  # what any run takes to start is not the disk's
    if images > work.batch_size and start_s < seconds:
        seconds, images = seconds - start_s, images - work.batch_size
    rate = images / seconds
    return {
        "images": images,
        "images_per_s": rate,
        "mb_per_s": rate * split.record_bytes / len(split) / _MB,
        "dataset_bytes": split.record_bytes,
        "memory_free_bytes": memory_free(),
    }


def _measure_rounds(
    part: Workload, slice_s: float, model_ms: float | None, deadline: float, progress: Progress
) -> _Rounds:
    """Run the whole pipeline in turns with each stage's and with the decoder alone; a round is one of these."""
    rounds = _Rounds([], [], {}, 0.0, 0.0)
    others = [*part.stages[:-1], "decoder"]
    others += ["whole"] * (ROUNDS - len(others))
    found: Pairs = []
    first_s = 0.0
    try:
        whole = _running(part, deadline)
        first_s = whole.first_s
        for number, name in enumerate(others):
            other = _other(part, name, deadline)
            found, mine, waits = [], [], []
            for _ in range(_REPEATS):
                mine.append(whole.slice(slice_s))
                if model_ms is not None:
                    waits.append(whole.slice(slice_s, settle=False, pause_s=model_ms / 1e3))
                if other:
                    found.append((mine[-1], other.slice(slice_s)))
            rounds.whole.append(together(mine))
            rounds.waiting.extend(waits)
            if other:
                rounds.pairs[name] = found
            del other
            progress(f"round {number + 1} of {len(others)}, {together(rounds.whole).rate:,.0f} images/s so far")
    except OutOfTimeError:
        pass
    share = (len(rounds.whole) + len(found) % _REPEATS / _REPEATS) / len(others)
    return replace(rounds, done=share, first_s=first_s)


def _running(work: Workload, deadline: float, stage: str = "whole") -> Running:
    return Running(work.batches(stage, endless=True), work.batch_size, work.ahead, deadline)


def _other(part: Workload, name: str, deadline: float) -> Running | None:
    """The pipeline up to a stage, or the decoder alone; None where there is nothing for it to do."""
    if name != "decoder":
        return None if name == "whole" else _running(part, deadline, name)
    if part.apart or not len(held := part.held()):
        return None
    return Running(held.decoded(part.batch_size, part.workers), part.batch_size, part.ahead, deadline)


def _rounds_report(work: Workload, rounds: _Rounds, seconds: float, model_ms: float | None) -> dict[str, Any]:
    """The figures of the rounds, or why there are none."""
    waiting = together(rounds.waiting) if rounds.waiting else None
    refused = judge(
        rounds.whole,
        waiting,
        batch_size=work.batch_size,
        model_ms=model_ms,
        seconds=seconds,
        done=rounds.done,
    )
    report: dict[str, Any] = {
        "rounds": [{"images_per_s": each.rate, "cpu_us_per_image": each.cpu_us} for each in rounds.whole],
        "refused": asdict(refused) if refused else None,
        "pipeline": None,
        "stages": None,
        "decoder": None,
        "model": None,
        "model_bound": None,
        "advice": None,
        "not_tried": [],
    }
    if refused:
        return report
    whole, cores = together(rounds.whole), cpu_budget()
    decoder = rounds.pairs.pop("decoder", None)
    # The decoder alone keeps all threads busy: where it does not get the cores, others have them.
    cpu_bound = together(other for _, other in decoder) if decoder else whole
    report["pipeline"] = {
        "images_per_s": whole.rate,
        "cpu_us_per_image": whole.cpu_us,
        "encoded_mb_per_s": whole.rate * work.split.record_bytes / len(work.split) / _MB,
        "busy_share": min(1.0, whole.cpu_s / whole.wall_s / cores),
        "busiest_share": min(1.0, max(s.cpu_s / s.wall_s for s in (whole, cpu_bound)) / cores),
    }
    prefixes = {name: [o.cpu_us / w.cpu_us for w, o in pairs] for name, pairs in rounds.pairs.items()}
    report["stages"] = [
        {
            "name": name,
            "cpu_us_per_image": cost.share * whole.cpu_us,
            "share": cost.share,
            "noise_share": cost.noise,
            "below_noise": cost.below_noise,
        }
        for name, cost in zip(work.stages, stage_costs(list(prefixes.values())), strict=True)
    ]
    if decoder:
        share = min(1.0, statistics.median(o.cpu_us / w.cpu_us for w, o in decoder))
        reached = min(1.0, together(w for w, _ in decoder).rate / cpu_bound.rate)
        report["decoder"] = {
            "cpu_us_per_image": share * whole.cpu_us,
            "images_per_s": whole.rate / reached,
            "cpu_share": share,
            "rate_share": reached,
        }
    if waiting and model_ms is not None:
        found = summary(waiting)
        report["model"] = {
            "model_ms": model_ms,
            "step_ms": step_ms(waiting),
            "images_per_s": waiting.rate,
            "images_per_s_wanted": work.batch_size / model_ms * 1e3,
            "shortest_step_ms": work.batch_size / whole.rate * 1e3,
            **found,
            "waits_ms": [round(wait, 3) for wait in waiting.waits_ms],
        }
        report["model_bound"] = found["lost_share"] < NO_WAIT
    return report


def _advice(
    work: Workload, look: Look, report: dict[str, Any], slice_s: float, deadline: float, progress: Progress
) -> dict[str, Any]:
    """Measure the gain of each possible change on some of the images; the change that helps most comes first."""
    changes = list(possible_changes(work, look))
    found: list[dict[str, Any]] = []
    not_tried: list[dict[str, str]] = []
    sample = sample_of(work, look)
    wanted = work.batch_size / report["model"]["model_ms"] * 1e3 if report["model"] else None

    def left_out(change: str, why: str) -> None:
        not_tried.append({"change": change, "why": why})

    with tempfile.TemporaryDirectory(prefix="shardfeed-bench-") as directory:
        base: Running | None = None
        for change in changes:
            if sample is None:
                left_out(change.change, "two batches of such images take more memory than a sample may")
                continue
            try:
                if base is None:
                    sample = converted(sample, os.path.join(directory, "base"))
                    base = _running(sample, deadline)
                made = try_change(change, sample, directory)
                if isinstance(made, str):
                    left_out(change.change, made)
                    continue
                other = _running(made, deadline)
                pairs = [(base.slice(slice_s), other.slice(slice_s)) for _ in range(_REPEATS)]
            except OutOfTimeError:
                left_out(change.change, "the time was over")
                continue
            del other
            times = factor(pairs)
            if times is None:
                left_out(change.change, "its rounds did not agree")
            elif times >= _WORTH:
                enough = None if wanted is None else report["pipeline"]["images_per_s"] * times >= wanted
                found.append({"change": change.change, "why": change.why, "factor": times, "enough": enough})
            progress(f"tried: {change.change}")
        base = None
    return {"advice": sorted(found, key=lambda advice: -advice["factor"]), "not_tried": not_tried}

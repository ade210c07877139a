"""Everything `shardfeed bench` measures, in the order in which it does, as one JSON value."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from shardfeed.budget import cpu_budget, memory_free
from shardfeed.native import path_in_use
from shardfeed.pipelines.waits import NO_WAIT
from shardfeed.readers.dataset import Dataset
from shardfeed.tools.bench.changes import TypicalImage, measure_changes
from shardfeed.tools.bench.fresh_process import measure_fresh
from shardfeed.tools.bench.running import OutOfTimeError, Running, Slice, start, together
from shardfeed.tools.bench.stages import Workload
from shardfeed.tools.bench.verdict import REPEATS, ROUNDS, disk_rate, judge, stage_costs, step_ms, summary

_COLD_BYTES = 64 << 20  # read from the disk itself, to measure its speed
_PART_BYTES = 512 << 20  # of records that are read repeatedly, and so stay in memory
_SLICES = 80  # that fit into the time, with starts, pauses and changes
_SHORTEST = 0.2  # seconds
_FRESH_SHARE = 1 / 20  # of the time, for batches in a new process
_MB = 1e6

Progress = Callable[[str], object]
Pairs = list[tuple[Slice, Slice]]


@dataclass
class _Rounds:
    """The slices of the whole pipeline in each round, those with pauses, and the pairs with each other pipeline.

    `done`: the share of the rounds that was measured. `first_s`: seconds to the first batch.
    """

    whole: list[Slice] = field(default_factory=list)
    waiting: list[Slice] = field(default_factory=list)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    done: float = 0.0
    first_s: float = 0.0


def describe(work: Workload, typical: TypicalImage) -> dict[str, Any]:
    """The dataset and the pipeline, before anything has been measured."""
    split = work.split
    return {
        "split": split.name,
        "samples": len(split),
        "formats": dict(split.formats),
        "record_bytes_mean": split.record_bytes / len(split),
        "median_height_px": typical.height,
        "median_width_px": typical.width,
        "baseline_share": typical.baseline,
        "progressive_share": typical.progressive,
        "batch_size": work.batch_size,
        "image_size_px": work.image_size,
        "order": work.order,
        "workers": work.workers,
        "cores_granted": cpu_budget(),
        "decodes_by": path_in_use(),
    }


def measure(
    data: Dataset,
    work: Workload,
    typical: TypicalImage,
    *,
    seconds: float,
    model_ms: float | None,
    report: dict[str, Any],
    progress: Progress,
) -> None:
    """Measure `work`, a whole split of `data`, as docs/bench.md explains, and add the results to `report`.

    `seconds`: approximate total time, without imports. `model_ms`: duration of a step to be fed. `progress` is called
    with each measurement. Raises UsageError for a split with fewer images than a batch.
    """
    split = work.split
    report["seconds"] = seconds
    work.batches()  # refuses invalid values before anything takes time
    deadline = time.perf_counter() + seconds
    report["disk"] = _disk(work)
    progress(f"disk {report['disk']['images_per_s']:,.0f} images/s; starting the pipeline")
    size = min(_PART_BYTES, memory_free() // 8)
    part = work.cut(max(2 * work.batch_size, min(len(split), size * len(split) // split.record_bytes)))
    slice_s = max(_SHORTEST, seconds / _SLICES)
    rounds = _measure_rounds(part, slice_s, model_ms, deadline, progress)
    report |= _rounds_report(work, rounds, seconds, model_ms)
    if report["refused"]:
        return
    progress("a new process")
    started = time.perf_counter()
    fresh = measure_fresh(data.directory, work, seconds * _FRESH_SHARE)
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
        report |= measure_changes(work, typical, report, slice_s, deadline, progress)


def _disk(work: Workload) -> dict[str, Any]:
    """Read some records in the pipeline's order from the disk itself: their cached pages are dropped first."""
    split = work.split
    part = work.cut(max(work.batch_size, min(len(split), _COLD_BYTES * len(split) // split.record_bytes)))
    dataset, first = part.batches("read"), work.cut(work.batch_size).batches("read")
    sum(1 for _ in first)  # threads, caches, compilation
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
    rate = disk_rate(images, seconds, work.batch_size, time.perf_counter() - started)
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
    """Run the whole pipeline in turn with each stage's pipeline and with the decoder alone, a round each."""
    rounds = _Rounds()
    others = [*part.stages[:-1], "decoder"]
    others += ["whole"] * (ROUNDS - len(others))
    found: Pairs = []
    try:
        whole = start(part, deadline)
        rounds.first_s = whole.first_s
        for number, name in enumerate(others):
            other = _other(part, name, deadline)
            found, mine, waits = [], [], []
            for _ in range(REPEATS):
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
    rounds.done = (len(rounds.whole) + len(found) % REPEATS / REPEATS) / len(others)
    return rounds


def _other(part: Workload, name: str, deadline: float) -> Running | None:
    """The pipeline up to a stage, or the decoder alone; None if it has nothing to do."""
    if name != "decoder":
        return None if name == "whole" else start(part, deadline, name)
    if part.on_host or not len(held := part.held()):
        return None
    return Running(held.decoded(part.batch_size, part.workers), part.batch_size, part.ahead, deadline)


def _rounds_report(work: Workload, rounds: _Rounds, seconds: float, model_ms: float | None) -> dict[str, Any]:
    """The figures of the rounds, or why there are none."""
    waiting = together(rounds.waiting) if rounds.waiting else None
    figures = {"batch_size": work.batch_size, "model_ms": model_ms, "seconds": seconds, "done": rounds.done}
    refused = judge(rounds.whole, waiting, **figures)
    report: dict[str, Any] = {
        "rounds": [{"images_per_s": each.rate, "cpu_us_per_image": each.cpu_us} for each in rounds.whole],
        "refused": asdict(refused) if refused else None,
        **dict.fromkeys(("pipeline", "stages", "decoder", "model", "model_bound", "advice", "first_batch", "memory")),
        "not_tried": [],
    }
    if refused:
        return report
    whole, cores = together(rounds.whole), cpu_budget()
    decoder = rounds.pairs.pop("decoder", None)
    # The decoder alone keeps all threads busy: if it does not get the cores, other processes use them.
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

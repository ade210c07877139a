"""What `shardfeed bench` prints: the measured figures as sentences and tables, ending with what to type next."""

from typing import Any

from shardfeed.errors import escape
from shardfeed.text import number, shell_quoted, size_text, table

_FEW = 32  # images a run, below which what a pipeline's start takes does not go off cleanly
_OURS = 0.85  # of the cores, used by the busiest pipeline; where less, other processes took them

STAGE_NAMES = {
    "read": "read records",
    "parse": "parse",
    "decode": "decode the windows",
    "augment": "resize, flip, round",
    "batch": "batch",
    "hand_over": "hand over",
}


def report_text(report: dict[str, Any]) -> str:
    """The report of `bench.measure` as lines."""
    parts = [_head(report), _stages(report), _rates(report)]
    if report["model"]:
        parts.append(_model(report))
    parts += [_advice(report), _next(report)]
    return "\n\n".join(parts)


def _head(report: dict[str, Any]) -> str:
    formats = ", ".join(f"{kind} {count:,}" for kind, count in sorted(report["formats"].items())) or "formats unknown"
    height, width, size = report["median_height_px"], report["median_width_px"], report["image_size_px"]
    epochs = report["epochs_per_round"]
    used = number(epochs, "epoch") if epochs else f"{report['images_per_round']:,} images"
    batch = f"batches of {report['batch_size']}"
    if report["batch_size_measured"] < report["batch_size"]:
        batch += f" (measured: of {report['batch_size_measured']}, as --seconds are few for larger ones)"
    rough = "; few, so figures are rough: give more --seconds" if report["images_per_round"] < _FEW else ""
    return (
        f"{escape(report['dataset'])}, split {report['split']}: {report['samples']:,} images ({formats}), "
        f"{width}x{height} pixels, {size_text(report['record_bytes_mean'])} each\n"
        f"random crops of {size}x{size}, flipped, {batch}, order {report['order']}, "
        f"{number(report['parallelism'], 'thread')} on "
        f"{number(report['cores_granted'], 'granted core')}\n"
        f"medians of {report['rounds']} alternating rounds of {used}{rough}"
    )


def _stages(report: dict[str, Any]) -> str:
    whole = report["pipeline"]["cpu_us_per_image"]
    rows: list[list[object]] = [["stage", "CPU us/image", "share", "noise"]]
    for stage in report["stages"]:
        cost, noise = stage["cpu_us_per_image"], stage["noise_us_per_image"]
        shown: list[object] = ["below noise", ""] if stage["below_noise"] else [round(cost), f"{cost / whole:>5.0%}"]
        rows.append([STAGE_NAMES[stage["name"]], *shown, f"± {noise:,.0f}"])
    rows.append(["together", round(whole), f"{1:>5.0%}", ""])
    if report["decoder"]:
        alone = report["decoder"]["cpu_us_per_image"]
        rows.append(["the decoder alone", round(alone), f"{alone / whole:>5.0%}", "the same windows, in memory"])
    return f"where the CPU time goes, of all threads of the process:\n{table(rows)}"


def _rates(report: dict[str, Any]) -> str:
    pipeline, decoder, disk = report["pipeline"], report["decoder"], report["disk"]
    first, memory = report["first_batch"], report["memory"]
    rows = [
        [
            "throughput",
            f"{pipeline['images_per_s']:,.0f} images/s, {pipeline['encoded_mb_per_s']:,.1f} MB/s of records, "
            f"{pipeline['busy_share']:.0%} of {report['cores_granted']} cores busy",
        ]
    ]
    if pipeline["busiest_share"] < _OURS:
        taken = f"no pipeline got more than {pipeline['busiest_share']:.0%} of the cores: other processes run here,"
        rows += [["", taken], ["", "and on a quiet machine images/s are higher; trust CPU time"]]
    if decoder:
        reached = f"{decoder['rate_share']:.0%} of that, with {1 / decoder['cpu_share']:.2f} times the CPU time"
        if decoder["rate_share"] >= 1:
            reached = "all of that, as far as these rounds can tell"
        rate = max(decoder["images_per_s"], pipeline["images_per_s"])
        rows += [
            ["ceiling", f"{rate:,.0f} images/s: the decoder alone, on all cores granted"],
            ["reached", reached],
        ]
    else:
        rows.append(["ceiling", "none: the records hold pixels, nothing is decoded"])
    part = "an epoch" if memory["whole_epoch"] else number(memory["batches"], "batch", "batches")
    rows += [
        [
            "disk",
            f"{disk['images_per_s']:,.0f} images/s, {disk['mb_per_s']:,.1f} MB/s: {disk['images']:,} records read,",
        ],
        ["", "their pages dropped from memory before; all other figures are with pages in memory"],
        [
            "first batch",
            f"after {first['iterator_s']:.2f} s; in a new process after {first['fresh_process_s']:.2f} s, "
            f"and {first['import_s']:.1f} s of imports before",
        ],
        [
            "peak memory",
            f"{size_text(memory['peak_bytes'])} in a new process over {part}, "
            f"{size_text(memory['growth_bytes'])} more than after its imports",
        ],
    ]
    return table(rows)


def _model(report: dict[str, Any]) -> str:
    model, steady = report["model"], report["model"]["steady"]
    asked = f"A step of {model['model_ms']:g} ms"
    if report["model_bound"]:
        verdict = (
            f"{asked} would not wait: {steady['mean_wait_ms']:.2f} ms on average, {steady['lost_share']:.1%} lost."
        )
    else:
        verdict = (
            f"{asked} would wait {steady['mean_wait_ms']:.1f} ms for its batch on average, "
            f"{steady['lost_share']:.0%} of the time.\n"
            f"The shortest step that this pipeline keeps up with takes {model['shortest_step_ms']:.1f} ms."
        )
    rows: list[list[object]] = [["waits, ms", "steps", "mean", "p50", "p99", "time lost"]]
    for name, what in (("all", "all steps"), ("steady", "the last three quarters")):
        found = model[name]
        waits = [f"{found[f'{key}_wait_ms']:.2f}" for key in ("mean", "p50", "p99")]
        rows.append([what, int(found["steps"]), *waits, f"{found['lost_share']:.1%}"])
    return (
        f"{verdict}\n{table(rows)}\n"
        f"  the model could take {model['images_per_s_wanted']:,.0f} images/s; the first batch, after "
        f"{model['first_wait_ms'] / 1e3:.2f} s, is not counted\n"
        "  a step was a pause here: a real one also takes CPU time, to copy to the device and to launch what runs there"
    )


def _advice(report: dict[str, Any]) -> str:
    if report["model_bound"]:
        return "what would help most: nothing here, the model is the bottleneck"
    if not report["advice"]:
        return "what would help most: nothing that was tried is worth 1.1 times"
    lines = ["what would help most, as times the images/s while the CPU is the limit:"]
    for advice in report["advice"]:
        enough = {None: "", True: ", enough for this step", False: ", not enough for this step"}[advice["enough"]]
        lines.append(f"  {advice['factor']:.1f} x{enough}: {advice['change']}")
        lines.append(f"        {advice['why']}")
        lines.append(f"        {advice['estimate']}")
    return "\n".join(lines)


def _next(report: dict[str, Any]) -> str:
    place = shell_quoted(report["dataset"])
    if not report["model"]:
        step = round(report["batch_size"] / report["pipeline"]["images_per_s"] * 1e3)
        return (
            f"next: would your model wait? Steps of {step} ms and longer should not. Give the length of one:\n"
            f"  shardfeed bench {place} --batch-size {report['batch_size']} --model-ms {max(1, step)}"
        )
    if report["advice"]:
        options = f"--batch-size {report['batch_size']} --model-ms {report['model']['model_ms']:g}"
        return f"next: change the first of these, and measure again\n  shardfeed bench {place} {options}"
    return "\n".join(["next, in Python:", *(f"  {line}" for line in report["next"])])

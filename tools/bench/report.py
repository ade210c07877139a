"""Output of `shardfeed bench`: the measured figures as sentences and tables, ending with the next command to type."""

from typing import Any

from shardfeed.errors import escape
from shardfeed.text import number, shell_quoted, size_text, table
from shardfeed.tools.bench.verdict import LEAST_GAIN

_OURS = 0.85  # of the cores, used by the busiest pipeline; if less, other processes took them
_MOST = 0.5  # of the images, from which decoding them elsewhere is worth a word

STAGE_NAMES = {
    "read": "read records",
    "parse": "parse",
    "decode": "decode the crops",
    "augment": "resize, flip, round",
    "batch": "batch",
    "images": "decode to batch",
}


def head_text(report: dict[str, Any]) -> str:
    """The dataset and the pipeline, before anything has been measured."""
    formats = ", ".join(f"{kind} {count:,}" for kind, count in sorted(report["formats"].items())) or "formats unknown"
    height, width, size = report["median_height_px"], report["median_width_px"], report["image_size_px"]
    return (
        f"{escape(report['dataset'])}, split {report['split']}: {report['samples']:,} images ({formats}), "
        f"{width}x{height} pixels, {size_text(report['record_bytes_mean'])} each\n"
        f"random crops of {size}x{size}, flipped, batches of {report['batch_size']}, order {report['order']}, "
        f"{number(report['workers'], 'thread')} on "
        f"{number(report['cores_granted'], 'available core')}\ndecodes by {report['decodes_by']}"
    )


def report_text(report: dict[str, Any]) -> str:
    """The lines that follow the head: as much of the report of `bench.measure` as has been measured."""
    parts = []
    if report.get("refused"):
        refused = report["refused"]
        parts.append(f"no images/s, no advice: {refused['problem']}\nnext: {refused['remedy']}")
    elif "pipeline" in report:
        parts.append(_stages(report))
    if rates := _rates(report):
        parts.append(table(rates))
    if report.get("model"):
        parts.append(_model(report))
    if report.get("advice") is not None or report.get("model_bound"):
        parts += [_advice(report), _next(report)]
    return "\n\n".join(parts)


def _stages(report: dict[str, Any]) -> str:
    whole = report["pipeline"]["cpu_us_per_image"]
    rows: list[list[object]] = [["stage", "CPU us/image", "share", "noise"]]
    for stage in report["stages"]:
        cost, share = stage["cpu_us_per_image"], stage["share"]
        shown: list[object] = ["below noise", ""] if stage["below_noise"] else [round(cost), f"{share:>5.0%}"]
        rows.append([STAGE_NAMES[stage["name"]], *shown, f"± {stage['noise_share'] * whole:,.0f}"])
    rows.append(["together", round(whole), f"{1:>5.0%}", ""])
    if decoder := report["decoder"]:
        alone = round(decoder["cpu_us_per_image"])
        rows.append(["the decoder alone", alone, f"{decoder['cpu_share']:>5.0%}", "the same crops, in memory"])
    return f"where the CPU time goes, of all threads of the process:\n{table(rows)}"


def _rates(report: dict[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []
    if report.get("pipeline"):
        rows += _throughput(report)
    if disk := report.get("disk"):
        read = f"{disk['images_per_s']:,.0f} images/s, {disk['mb_per_s']:,.1f} MB/s: {disk['images']:,} records,"
        rows += [["disk", read], ["", "not in the page cache; all other figures are with the data in memory"]]
        pipeline = report.get("pipeline")
        slower = pipeline and disk["images_per_s"] < pipeline["images_per_s"]
        if slower and disk["dataset_bytes"] > disk["memory_free_bytes"]:
            rows += [
                ["", "the dataset does not fit into memory: the disk is the limit, so try a faster one,"],
                ["", 'cached(split, "DIRECTORY ON A FASTER DISK") for train_batches'],
            ]
    if first := report.get("first_batch"):
        memory = report["memory"]
        part = "an epoch" if memory["whole_epoch"] else number(memory["batches"], "batch", "batches")
        fresh = f"in a new process after {first['fresh_process_s']:.2f} s, plus {first['import_s']:.1f} s of imports"
        peak = f"{size_text(memory['peak_bytes'])} in a new process over {part}"
        growth = f"{size_text(memory['growth_bytes'])} more than after its imports"
        rows += [["first batch", f"after {first['iterator_s']:.2f} s; {fresh}"], ["peak memory", f"{peak}, {growth}"]]
    return rows


def _throughput(report: dict[str, Any]) -> list[list[str]]:
    pipeline, decoder = report["pipeline"], report["decoder"]
    rates = [each["images_per_s"] for each in report["rounds"]]
    rows = [
        [
            "throughput",
            f"{pipeline['images_per_s']:,.0f} images/s "
            f"({min(rates):,.0f} to {max(rates):,.0f} in {len(rates)} rounds), "
            f"{pipeline['encoded_mb_per_s']:,.1f} MB/s of records, "
            f"{pipeline['busy_share']:.0%} of {report['cores_granted']} cores busy",
        ]
    ]
    if pipeline["busiest_share"] < _OURS:
        taken = f"no pipeline used more than {pipeline['busiest_share']:.0%} of the cores: other processes are running,"
        rows += [["", taken], ["", "which lowers the images/s"]]
    if decoder:
        reached = f"{decoder['rate_share']:.0%} of that, with {1 / decoder['cpu_share']:.2f} times the CPU time"
        if decoder["rate_share"] >= 1:
            reached = "no measurable difference from it"
        rows += [
            ["ceiling", f"{decoder['images_per_s']:,.0f} images/s: the decoder alone, on all available cores"],
            ["reached", reached],
        ]
    else:
        raw = report["formats"].keys() == {"raw"}
        why = "the records hold raw pixels" if raw else "Python threads decode, not TensorFlow's decoder"
        rows.append(["ceiling", f"not measured: {why}"])
    return rows


def _model(report: dict[str, Any]) -> str:
    model = report["model"]
    asked = f"A step of {model['model_ms']:g} ms"
    if report["model_bound"]:
        verdict = f"{asked} would not wait: {model['mean_wait_ms']:.2f} ms on average, {model['lost_share']:.1%} lost."
    else:
        verdict = (
            f"{asked} would wait {model['mean_wait_ms']:.1f} ms for its batch on average, "
            f"{model['lost_share']:.0%} of the time.\n"
            f"The shortest step that this pipeline keeps up with takes {model['shortest_step_ms']:.1f} ms."
        )
    return (
        f"{verdict}\n"
        f"  {model['steps']:,} steps: half of the waits below {model['p50_wait_ms']:.2f} ms, 99 % below "
        f"{model['p99_wait_ms']:.2f} ms, the longest {model['max_wait_ms']:.2f} ms\n"
        f"  {model['images_per_s']:,.0f} images/s were used; the model could use "
        f"{model['images_per_s_wanted']:,.0f} images/s\n"
        "  steps are simulated by pauses: real ones also need CPU time, for copies to the device and kernel launches"
    )


def _advice(report: dict[str, Any]) -> str:
    if report["model_bound"]:
        return "what would help most: nothing in the pipeline, the model is the bottleneck"
    lines = [f"what would help most: no tested change gains {LEAST_GAIN} times"]
    if report["not_tried"]:
        lines = ["what would help most is unknown:"]
    if report["advice"]:
        lines = ["what would help most, as a factor of images/s, measured on some of your images:"]
    for advice in report["advice"]:
        enough = {None: "", True: ", enough for this step", False: ", not enough for this step"}[advice["enough"]]
        lines.append(f"  {advice['factor']:.1f} x{enough}: {advice['change']}")
        lines.append(f"        {advice['why']}")
    for left in report["not_tried"]:
        lines.append(f"  not measured, as {left['why']}: {left['change']}")
    if report["baseline_share"] >= _MOST:
        lines += _on_gpu(report)
    return "\n".join(lines)


def _on_gpu(report: dict[str, Any]) -> list[str]:
    """Say what a GPU that decodes would take over, and how many cores do it now."""
    cost, wanted = report["pipeline"]["cpu_us_per_image"], (report["model"] or {}).get("images_per_s_wanted", 1000)
    images = cost - report["stages"][0]["cpu_us_per_image"]  # all but reading
    return [
        '  not measured, as it needs PyTorch and an NVIDIA GPU: torch_loader(..., decode="cuda")',
        f"        {report['baseline_share']:.0%} of the images are baseline JPEGs, which the GPU decodes and crops: "
        f"{images:,.0f} of {cost:,.0f} us;",
        f"        on the CPU, {wanted:,.0f} images/s need {wanted * cost / 1e6:.1f} cores",
    ]


# Option of the command -> its figure in the report, and the value by default; None: it is always repeated.
_OPTIONS = {
    "split": ("split", "train"),
    "batch-size": ("batch_size", None),
    "image-size": ("image_size_px", 224),
    "order": ("order", "stream"),
    "seconds": ("seconds", 60),
}


def _again(report: dict[str, Any], *, seconds: float | None = None, model_ms: float | None = None) -> str:
    """Write the command of this run, with all of its options, or with other `seconds` or `model_ms`."""
    figures = report if seconds is None else report | {"seconds": seconds}
    options = {name: figures[key] for name, (key, usual) in _OPTIONS.items() if figures[key] != usual}
    if report["workers"] != report["cores_granted"]:
        options["workers"] = report["workers"]
    if model_ms is not None or report["model"]:
        options["model-ms"] = report["model"]["model_ms"] if model_ms is None else model_ms
    typed = [f"--{name} {_figure(value)}" for name, value in options.items()]
    return " ".join(["shardfeed bench", shell_quoted(report["dataset"]), *typed])


def _figure(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else shell_quoted(str(value))


def _next(report: dict[str, Any]) -> str:
    if not report["model"]:
        step = round(report["batch_size"] / report["pipeline"]["images_per_s"] * 1e3)
        return (
            f"next: would your model wait? Steps of {step} ms and longer should not. Give the length of a step:\n"
            f"  {_again(report, model_ms=max(1, step))}"
        )
    if report["advice"] == [] and report["not_tried"]:
        return f"next: give it more time\n  {_again(report, seconds=2 * report['seconds'])}"
    if report["advice"]:
        return f"next: change the first of these, and measure again\n  {_again(report)}"
    return "\n".join(["next, in Python:", *(f"  {line}" for line in report["next"])])

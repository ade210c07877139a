"""From the runs of the benchmark of conversion to its JSON and its Markdown table."""

import datetime
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conversion_contenders import COPYING, REENCODING

Measured = dict[str, float]  # a script's line of JSON: see conversions/measured.py
Runs = Mapping[str, Sequence[Measured]]


def net_seconds(run: Measured) -> float:
    """Without the start."""
    return run["seconds"] - run["start_seconds"]


def net_cpu_seconds(run: Measured) -> float:
    """Without the start."""
    return run["cpu_seconds"] - run["start_cpu_seconds"]


def all_seconds(run: Measured) -> float:
    return run["seconds"]


def median_of_pairs(
    first: Sequence[Measured], second: Sequence[Measured], value: Callable[[Measured, Measured], float]
) -> float:
    """The median over rounds of a figure made from two runs of the same round."""
    return statistics.median(value(a, b) for a, b in zip(first, second, strict=True))


def times(rounds: Sequence[Measured], baseline: Sequence[Measured], seconds: Callable[[Measured], float]) -> float:
    """How many times faster than the baseline."""
    return median_of_pairs(rounds, baseline, lambda run, base: seconds(base) / seconds(run))


def conversion_result(
    runs: Runs,
    found: Mapping[str, Mapping[str, str]],
    absent: Mapping[str, str],
    *,
    images: int,
    size: int,
    values: Mapping[str, int],
) -> dict[str, Any]:
    """All that is published, as a JSON value.

    runs: contender -> its counted runs, one a round. found: contender -> versions. absent: contender -> why not.
    images, size (bytes): of the folder. values: what filled in the contenders' arguments.
    """
    contenders = {}
    for name, rounds in runs.items():
        baseline = runs["tar" if name in COPYING else "pillow"]
        net = statistics.median(map(net_seconds, rounds))
        contenders[name] = {
            "seconds": statistics.median(run["seconds"] for run in rounds),
            "start_seconds": statistics.median(run["start_seconds"] for run in rounds),
            "net_seconds": net,
            "images_per_second": images / net,
            "megabytes_per_second": size / 1e6 / net,
            "times_baseline": times(rounds, baseline, net_seconds),
            "times_baseline_with_start": times(rounds, baseline, all_seconds),
            "cpu_microseconds_per_image": statistics.median(map(net_cpu_seconds, rounds)) / images * 1e6,
            "peak_bytes": max(run["peak_bytes"] for run in rounds),
            "versions": found[name],
            "rounds": list(rounds),
        }
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "images": images,
        "bytes": size,
        "rounds": len(runs["tar"]),
        **values,
        "contenders": contenders,
        "absent": dict(absent),
        "costs": costs(runs, images),
    }


def costs(runs: Runs, images: int) -> dict[str, float]:
    """Compare our own rows in pairs, as far as they were measured; each figure is a median over rounds.

    sha256: microseconds of CPU time per image. fsync: share added to the time without any, and to the time with one
    `sync -f` at the end instead. decode: share of the decoder's rate that conversion reaches, without hashes and with.
    """
    found: dict[str, float] = {}

    def add(name: str, first: str, second: str, value: Callable[[Measured, Measured], float]) -> None:
        if first in runs and second in runs:
            found[name] = median_of_pairs(runs[first], runs[second], value)

    def sha256(with_hash: Measured, without: Measured) -> float:
        return (net_cpu_seconds(with_hash) - net_cpu_seconds(without)) / images * 1e6

    add("sha256_cpu_microseconds_per_image", "header_hash", "header", sha256)
    add("fsync_share", "header", "header_no_fsync", lambda a, b: net_seconds(a) / net_seconds(b) - 1)
    add(
        "fsync_share_over_one_sync",
        *("header", "header_no_fsync"),
        lambda a, b: net_seconds(a) / (net_seconds(b) + b["sync_seconds"]) - 1,
    )
    add("decoder_share_without_hash", "decode", "codec", lambda a, b: net_seconds(b) / net_seconds(a))
    add("decoder_share", "default", "codec", lambda a, b: net_seconds(b) / net_seconds(a))
    return found


_COSTS = {
    "sha256_cpu_microseconds_per_image": "sha256 costs {:.0f} µs of CPU time per image (`--no-hash` skips it).",
    "fsync_share": "Calling fsync for every file changed the conversion time by {:+.1%} compared with no fsync,",
    "fsync_share_over_one_sync": "and by {:+.1%} compared with a single `sync -f` at the end.",
    "decoder_share_without_hash": "`--no-hash`, which decodes, reaches {:.0%} of the decoder's rate on {cores} cores.",
    "decoder_share": "The default, which also hashes, reaches {:.0%}.",
}


def conversion_markdown(result: Mapping[str, Any]) -> str:
    """Both tables, what fsync, sha256 and decoding cost, and who is missing."""
    machine = result["machine"]
    lines = [
        f"{result['images']:,} JPEGs of {result['bytes'] / result['images'] / 1e3:.0f} kB into files of about "
        f"{result['bytes'] / result['shards'] / 1e6:.0f} MB; medians of {result['rounds']} alternating rounds, "
        "read from the page cache, bytes on disk at the end; two processes unless noted. "
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"{result['date']}.",
        "",
        *_table(result, COPYING, "speed / tar"),
        "",
        *(_cost_lines(result)),
        "",
        f"Decoded, resized (shorter side {result['shorter']}) and encoded again:",
        "",
        *_table(result, REENCODING, "speed / Pillow"),
    ]
    if result["absent"]:
        lines += ["", *(f"- {_text(name, result)}: {reason}." for name, reason in result["absent"].items())]
    packages = {
        package: version for one in result["contenders"].values() for package, version in one["versions"].items()
    }
    lines += ["", ", ".join(f"{package} {version}" for package, version in sorted(packages.items())) + "."]
    return "\n".join(lines) + "\n"


def _table(result: Mapping[str, Any], names: Mapping[str, Any], times: str) -> list[str]:
    lines = [
        f"| | images/s | MB/s | {times} | with start-up | start-up, s | CPU µs/image | peak MB per process | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name in names:
        if name in result["contenders"]:
            m = result["contenders"][name]
            lines.append(
                f"| {_text(name, result)} | {m['images_per_second']:,.0f} | {m['megabytes_per_second']:,.0f} "
                f"| {m['times_baseline']:.2f} | {m['times_baseline_with_start']:.2f} | {m['start_seconds']:.2f} "
                f"| {m['cpu_microseconds_per_image']:,.0f} | {m['peak_bytes'] / 1e6:.0f} "
                f"| {names[name].remark} |"
            )
    return lines


def _cost_lines(result: Mapping[str, Any]) -> list[str]:
    cores = result["machine"]["cores"]
    return [text.format(result["costs"][name], cores=cores) for name, text in _COSTS.items() if name in result["costs"]]


def _text(name: str, result: Mapping[str, Any]) -> str:
    return (COPYING | REENCODING)[name].text.format(shorter=result["shorter"])


def machine() -> dict[str, Any]:
    """CPU, cores this process may use, kernel and Python."""
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }

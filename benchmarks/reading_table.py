"""Results of the reading benchmark over its rounds: medians, and a Markdown table."""

import statistics
from collections.abc import Mapping
from typing import Any

from reading_contenders import CONTENDERS, DECODER, OURS

HEADER = (
    "| | images/s | relative speed (min to max) | CPU µs/image | CPU / decoder | first batch, s | MB |",
    "|---|---:|---:|---:|---:|---:|---:|",
)
_TEXT = {contender.name: contender.text for contender in CONTENDERS}


def summarise(found: dict[str, dict[str, Any]]) -> None:
    """Add to each contender with rounds its medians, and ratios by round to those who ran in that round too."""
    ours, decoder = (_by_round(found.get(name, {})) for name in (OURS, DECODER))
    for result in found.values():
        if not result["rounds"]:
            continue
        rounds = _by_round(result)
        by_ours = [_rate(one) / _rate(ours[key]) for key, one in rounds.items() if key in ours]
        by_decoder = [_cpu(one) / _cpu(decoder[key]) for key, one in rounds.items() if key in decoder]
        result["summary"] = {
            "images_per_second": statistics.median(map(_rate, rounds.values())),
            "times_ours": _spread(by_ours),
            "cpu_us_per_image": statistics.median(map(_cpu, rounds.values())),
            "cpu_times_decoder": _spread(by_decoder),
            "first_batch_seconds": statistics.median(one["first_batch_seconds"] for one in rounds.values()),
            "memory_bytes": max(one["memory_bytes"] for one in rounds.values()),
        }


def markdown(result: Mapping[str, Any]) -> str:
    """A section for each set of photos, the fastest first; who has no figures stands below, with the reason."""
    machine = result["machine"]
    lines = [
        f"{result['date'][:10]}, commit {machine['commit']}, {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:.0f} GB, Linux {machine['kernel']}, Python {machine['python']}; medians of "
        f"{result['rounds']} rounds."
    ]
    for part in result["sets"]:
        lines += [
            "",
            f"{part['images']:,} JPEGs of {part['pixels']} pixels and {part['bytes_per_image'] / 1e3:,.0f} kB, to "
            f"{part['size']} x {part['size']}, batches of {part['batch']}, page cache warm, {part['workers']} workers:",
            "",
            *HEADER,
        ]
        found = part["contenders"]
        rated = [name for name in found if "summary" in found[name]]
        for name in sorted(rated, key=lambda name: _standing(found[name]["summary"])):
            lines.append(_row(_TEXT[name], found[name], bold=name.startswith("ours")))
        silent = [f"- {_TEXT[name]}: {one['error']}" for name, one in found.items() if one["error"]]
        if silent:
            lines += ["", "Not measured, or stopped early:", "", *silent]
    packages = {
        package: version
        for part in result["sets"]
        for one in part["contenders"].values()
        for package, version in one["versions"].items()
    }
    lines += ["", ", ".join(f"{package} {version}" for package, version in sorted(packages.items())) + "."]
    return "\n".join(lines) + "\n"


def _standing(summary: Mapping[str, Any]) -> tuple[float, float]:
    """To sort by: what was measured against ours first, as a rate alone depends on the group's time of the day."""
    by_ours = summary["times_ours"]
    return -by_ours["median"] if by_ours else 0.0, -summary["images_per_second"]


def _row(text: str, result: Mapping[str, Any], bold: bool) -> str:
    summary = result["summary"]
    cells = [
        f"**{text}**" if bold else text,
        f"{summary['images_per_second']:,.0f}",
        _ratio(summary["times_ours"]),
        f"{summary['cpu_us_per_image']:,.0f}",
        f"{summary['cpu_times_decoder']['median']:.2f}" if summary["cpu_times_decoder"] else "",
        f"{summary['first_batch_seconds']:.2f}",
        f"{summary['memory_bytes'] / 1e6:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(spread: Mapping[str, float] | None) -> str:
    return f"{spread['median']:.2f} ({spread['least']:.2f} to {spread['most']:.2f})" if spread else ""


def _spread(ratios: list[float]) -> dict[str, float] | None:
    return {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)} if ratios else None


def _by_round(result: Mapping[str, Any]) -> dict[tuple[int, int], dict[str, Any]]:
    return {(one["group"], one["round"]): one for one in result.get("rounds", [])}


def _rate(one: Mapping[str, Any]) -> float:
    return one["images"] / one["seconds"]


def _cpu(one: Mapping[str, Any]) -> float:
    """Microseconds per image."""
    return one["cpu_seconds"] / one["images"] * 1e6

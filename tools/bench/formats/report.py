"""What `shardfeed bench --formats` prints, below 100 columns."""

import statistics
import textwrap
from typing import Any

from shardfeed.errors import escape
from shardfeed.text import number, size_text, table
from shardfeed.tools.bench.formats.places import DISK

_WIDEST = 99  # columns
_ROUGH = 0.2  # of a median, as noise: above, other processes took their part


def report_text(report: dict[str, Any]) -> str:
    """The report of `formats.measure` as lines."""
    parts = [_head(report), _stored(report), _read(report)]
    if report["libraries"] or report["libraries_skipped"]:
        parts.append(_libraries(report))
    parts.append("what follows from that:\n" + "\n".join(_wrapped(sentence) for sentence in report["advice"]))
    return "\n\n".join(parts)


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, _WIDEST, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def _head(report: dict[str, Any]) -> str:
    images, decode, check = report["images"], report["decode"], report["check"]
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(report["kinds"].items())) or "formats unknown"
    left_out = f"; {number(report['rejected'], 'image')} could not be read" if report["rejected"] else ""
    lines = [
        f"{escape(report['source'])}: {images:,} of {number(report['of'], 'image')}, from all over it ({kinds}), "
        f"{size_text(report['image_bytes'] / images)} each{left_out}",
        f"One thread, {report['batch']} records at a time, CRCs checked; medians of "
        f"{number(report['rounds'], 'alternating round')}, ± half their spread.",
        f"To decode an image takes {decode['cpu_us']:,.0f} us of CPU, to check it in a conversion "
        f"{check['cpu_us']:,.0f} us: the same in every format.",
    ]
    lines += [f"Left out: {name}: {escape(why)}" for name, why in report["skipped"].items()]
    return "\n".join("\n  ".join(textwrap.wrap(line, _WIDEST, break_long_words=False)) for line in lines)


def _stored(report: dict[str, Any]) -> str:
    rows: list[list[object]] = [["", "size", "beside images", "written/s", "CPU us", "±", "with checks/s"]]
    for name, one in report["formats"].items():
        write = one["write"]
        rows.append(
            [
                name,
                size_text(one["bytes"]),
                f"{one['overhead_bytes'] / max(1, report['image_bytes']):.1%}",
                round(write["images_per_s"]),
                round(write["cpu_us"]),
                f"{write['noise']:.0%}",
                round(1e6 / (write["wall_us"] + report["check"]["wall_us"])),
            ]
        )
    return f"stored, and written until it is safe on the disk:\n{table(rows)}"


def _read(report: dict[str, Any]) -> str:
    rows: list[list[object]] = [
        ["", "", "in sequence/s", "±", "CPU us", "random/s", "±", "CPU us", "first, ms", "peak"]
    ]
    for name, one in report["formats"].items():
        for mode, of_mode in one["modes"].items():
            cells: list[object] = [name if mode == DISK else "", mode]
            for way in ("sequential", "random"):
                found = of_mode[way]
                cells += [round(found["images_per_s"]), f"{found['noise']:.0%}", _micro(found["cpu_us"])]
            rows.append([*cells, f"{of_mode['first_batch_s'] * 1e3:,.1f}", size_text(of_mode["peak_bytes"])])
        decoded = one["decoded"]
        cells = ["", "decoded", "", "", "", round(decoded["images_per_s"]), f"{decoded['noise']:.0%}"]
        rows.append([*cells, _micro(decoded["cpu_us"]), "", ""])
    notes = [
        "disk: pages dropped from memory before; cache: what was read stays in the kernel's memory; mapped: the same, "
        "mapped; preloaded: all files read first; decoded: cache, and made pixels. first: the first batch, from "
        "opening on. peak: memory of a new process.",
        f"The files are in {escape(report['where'])}"
        + (", which is in memory: no disk was read. --keep DIR takes another place." if report["in_memory"] else "."),
    ]
    if usual_noise(report) > _ROUGH:
        notes.append("Rounds differed much, so other processes ran here: images/s are rough, CPU times hold.")
    if not report["dropped"] and not report["in_memory"]:
        notes.append("The kernel kept pages that it was asked to drop, or does not say: `disk` may be memory.")
    return "read:\n" + table(rows) + "\n" + "\n".join(map(_wrapped, notes))


def usual_noise(report: dict[str, Any]) -> float:
    """Half of the spread of a rate over the rounds, in parts of it: the median of all readings."""
    modes = (of_mode for one in report["formats"].values() for of_mode in one["modes"].values())
    return statistics.median(of_mode[way]["noise"] for of_mode in modes for way in ("sequential", "random"))


def _micro(us: float) -> str:
    return f"{us:,.1f}" if us < 100 else f"{us:,.0f}"


def _libraries(report: dict[str, Any]) -> str:
    rows: list[list[object]] = [["", "by", "", "size", "in sequence/s", "±", "CPU us", "random/s"]]
    for one in report["libraries"]:
        for kind, codec in (("plain", "as it is"), ("compressed", one["codec"])):
            found = one[kind]
            way = found["sequential"]
            rows.append(
                [
                    one["format"] if kind == "plain" else "",
                    one["library"] if kind == "plain" else "",
                    codec,
                    size_text(found["bytes"]),
                    round(way["images_per_s"]),
                    f"{way['noise']:.0%}",
                    _micro(way["cpu_us"]),
                    round(found["random"]["images_per_s"]) if "random" in found else "no",
                ]
            )
    notes = []
    if report["libraries"]:
        notes.append(
            "Each library reads the shards as we wrote them, then what it compressed itself. no: the library reads "
            "a file, or a row group, from its beginning; compressed, nobody can do otherwise."
        )
    notes += [f"Left out: {name}: {escape(why)}" for name, why in report["libraries_skipped"].items()]
    shown = table(rows) + "\n" if report["libraries"] else ""
    return "by each format's own library, not compressed and compressed:\n" + shown + "\n".join(map(_wrapped, notes))

"""Which format, read how, compressed or not: `python benchmarks/formats.py [DATASET] [--table]`.

With DATASET, a dataset or a source of images: stores some of its images in each format, reads them in every way, and
prints the tables. Without: three kinds of images, photos of 65 kB, thumbnails of 2 kB, pixels of 32x32; with Mosaic's
`streaming` in an environment of its own (1 GB, made the first time). Takes six minutes after that, on a quiet machine.
Writes results/formats.json and the tables of docs/formats.md; `--table` only these, from the results.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from environments import ROOT, NotInstallableError, environment_python
from photos import make_photos
from reading import machine
from reading_contenders import MOSAIC

from contender import made_once  # isort: skip  # found once reading is imported

sys.path.insert(0, str(Path(__file__).parent / "formats"))

from measuring import measure, usual_noise  # isort: skip
from sample import sample_of  # isort: skip

RESULTS = Path(__file__).parent / "results"
WORK = RESULTS / "formats"
PAGE = ROOT / "docs" / "formats.md"
BEGIN, END = "<!-- made by benchmarks/formats.py -->\n", "<!-- the end of what it makes -->"
ROUNDS, SECONDS = 3, 0.2
PACKAGES = ("numpy", "tensorflow", "webdataset", "pyarrow", "array-record", "simplejpeg")
WITH_MOSAIC = ROOT / "benchmarks" / "conversions" / "with_mosaic.py"
MODES = ("cache", "mapped", "preloaded")


class Kind(NamedTuple):
    """A kind of images. `images`: how many, `side`: width and height in pixels; `raw`: stored as pixels."""

    name: str
    title: str
    images: int
    side: tuple[int, int]
    quality: int
    raw: bool = False


KINDS = (
    Kind("photos", "Photos of 500x375", 1500, (500, 375), 92),
    Kind("thumbnails", "Thumbnails of 64x64", 4000, (64, 64), 85),
    Kind("pixels", "Raw pixels of 32x32", 4000, (32, 32), 90, raw=True),
)


def images_of(kind: Kind) -> Path:
    """A folder of images, or a dataset of pixels; made unless it is there."""
    folder = WORK / f"{kind.name}-{kind.images}"
    made_once(folder, lambda out: make_photos(str(out), kind.images, kind.side, kind.quality))
    return made_once(WORK / f"{kind.name}-raw", lambda out: decode(folder, out)) if kind.raw else folder


def decode(folder: Path, out: Path) -> None:
    """A dataset of the same images as pixels."""
    import shardfeed
    from shardfeed.converters import convert
    from shardfeed.pipelines import Cache, cached

    convert(folder, WORK / "encoded", replace=True)
    cached(shardfeed.open(WORK / "encoded")["train"], Cache(str(WORK / "cache"), decoded=True))
    (copy,) = [path for path in (WORK / "cache").iterdir() if not path.name.startswith(".")]
    shutil.copytree(copy, out, dirs_exist_ok=True)
    for name in ("encoded", "cache"):
        shutil.rmtree(WORK / name)


def measured(
    path: Path, title: str, images: int, size: int, pythons: dict[str, list[str]], made: Path
) -> dict[str, Any]:
    """Measure `images` images of a dataset or source, `size` bytes at most; formats are written below `made`."""
    part = sample_of(str(path), images, size)
    say: Callable[[str], None] = lambda what: print(f"{title}: {what}", file=sys.stderr)  # noqa: E731
    with tempfile.TemporaryDirectory(dir=made) as directory:
        report = measure(part, directory, rounds=ROUNDS, seconds=SECONDS, progress=say, pythons=pythons)
    return {"title": title, **report, "where": ""}


def results_of(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Reports with the day, the machine and the packages they were measured with."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "packages": {name: version(name) for name in PACKAGES if find_spec(name.replace("-", "_"))},
        "kinds": reports,
    }


def mosaic() -> dict[str, list[str]]:
    """Command that runs a script where `streaming` is installed; nothing if it cannot be installed."""
    try:
        return {"mds": [environment_python(MOSAIC.name, MOSAIC.requirements, MOSAIC.probe), str(WITH_MOSAIC)]}
    except NotInstallableError as error:
        print(f"streaming is left out: {error}", file=sys.stderr)
        return {}


def table(results: dict[str, Any]) -> str:
    """Text and tables of the results for the documentation page, in Markdown."""
    on = results["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in results["packages"].items())
    on_what = f"{on['cpu']}, {on['cores']} cores, Linux {on['kernel']}, Python {on['python']}, {packages}"
    rounds = results["kinds"][0]["rounds"]
    parts = [f"{results['date']}, {on_what}; one thread, medians of {rounds} alternating rounds."]
    for report in results["kinds"]:
        parts += [f"### {report['title']}", _head(report), _rates(report), _costs(report), _theirs(report)]
        parts.append(_advice(report))
    return "\n\n".join(parts) + "\n"


def _head(report: dict[str, Any]) -> str:
    each, decode_us = report["image_bytes"] / report["images"] / 1e3, report["decode"]["cpu_us"]
    disk = "" if report["dropped"] else " Pages were not dropped, or the kernel does not say: `disk` may be memory."
    noise = f"Rates varied by ± {usual_noise(report):.0%} between rounds (median of all rates)."
    images = f"{report['images']:,} images of {each:,.1f} kB; decoding one takes {decode_us:,.1f} µs of CPU time."
    return f"{images} {noise}{disk}"


def _rates(report: dict[str, Any]) -> str:
    """Table of the rates at which our readers read the formats."""
    titles = ["images/s", "kB each", "written", "disk, in sequence", "disk, random", "cache, in sequence"]
    titles += [*(f"{mode}, random" for mode in MODES), "and decoded"]
    rows = []
    for name, one in report["formats"].items():
        disk, cache = one["modes"]["disk"], one["modes"]["cache"]
        found = [one["write"], disk["sequential"], disk["random"], cache["sequential"]]
        found += [*(one["modes"][mode]["random"] for mode in MODES), one["decoded"]]
        rows.append([name, f"{one['bytes'] / report['images'] / 1e3:,.2f}", *map(_rate, found)])
    return _markdown(titles, rows)


def _costs(report: dict[str, Any]) -> str:
    """Table of other costs: CPU time per image, time to the first batch, peak memory."""
    titles = ["", *(f"CPU µs per image, random: {MODES[0]}", *MODES[1:])]
    titles += ["first batch, ms: disk", *MODES, f"peak memory, MB: {MODES[0]}", *MODES[1:]]
    rows = []
    for name, one in report["formats"].items():
        modes = one["modes"]
        row = [name, *(f"{modes[mode]['random']['cpu_us']:,.1f}" for mode in MODES)]
        row += [f"{modes[mode]['first_batch_s'] * 1e3:,.1f}" for mode in ("disk", *MODES)]
        rows.append([*row, *(f"{modes[mode]['peak_bytes'] / 1e6:,.0f}" for mode in MODES)])
    return _markdown(titles, rows)


def _theirs(report: dict[str, Any]) -> str:
    """The same files, read by their own libraries."""
    titles = ["read by its own library", "in sequence/s", "CPU µs", "random/s", "compressed by", "kB each"]
    titles += ["in sequence/s", "CPU µs", "random/s"]
    rows = []
    for one in report["libraries"]:
        plain, packed = one["plain"], one["compressed"]
        row = [f"{one['format']}: {one['library']}", *_way(plain), one["codec"]]
        rows.append([*row, f"{packed['bytes'] / report['images'] / 1e3:,.2f}", *_way(packed)])
    silent = [f"- {name}: {why}" for name, why in report["libraries_skipped"].items()]
    return _markdown(titles, rows) + ("\n\nLeft out:\n\n" + "\n".join(silent) if silent else "")


def _way(found: dict[str, Any]) -> list[str]:
    random = _rate(found["random"]) if "random" in found else ""
    return [_rate(found["sequential"]), f"{found['sequential']['cpu_us']:,.1f}", random]


def _rate(found: dict[str, Any]) -> str:
    return f"{found['images_per_s']:,.0f}"


def _advice(report: dict[str, Any]) -> str:
    return "Advice:\n\n" + "\n".join(f"- {sentence}" for sentence in report["advice"])


def _markdown(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(results: dict[str, Any]) -> None:
    """Put the tables where the page has its marks."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", help="measure with these images, and print the tables")
    parser.add_argument(
        "--images", metavar="N", type=int, default=2000, help="of DATASET (default 2000; 200 MB at most)"
    )
    parser.add_argument("--on", metavar="DIR", help="the disk to measure (default: the one for temporary files)")
    parser.add_argument("--table", action="store_true", help="only the tables, from the results that are there")
    args = parser.parse_args()
    if args.dataset:
        path = Path(args.dataset)
        made = Path(args.on or tempfile.gettempdir())
        print(table(results_of([measured(path, path.name, args.images, 200_000_000, {}, made)])))
        return
    out = RESULTS / "formats.json"
    if not args.table:
        pythons = mosaic()
        WORK.mkdir(parents=True, exist_ok=True)
        reports = [measured(images_of(kind), kind.title, kind.images, 10**9, pythons, WORK) for kind in KINDS]
        out.write_text(json.dumps(results_of(reports), indent=1))
    write_page(json.loads(out.read_text()))


if __name__ == "__main__":
    main()

"""Conversion against tar and the other formats' writers: `python benchmarks/converting.py [PHOTOS]`.

Every run is a process of its own in an empty folder, ends when its bytes are on the disk (fsync, or `sync -f` for those
that do not), and starts after the last one's output was removed and the file system synced. A round runs every
contender once, in an order that turns from round to round; the first round is a warm-up and not counted. Each peer
has a virtual environment of its own, made the first time; one that cannot be installed, or fails, is listed with its
reason. Results go to benchmarks/results/converting.json and converting.md.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conversion_contenders import COPYING, REENCODING, Contender
from conversion_tables import Measured, conversion_markdown, conversion_result
from environments import NotInstallableError, clean_environment, environment_python, last_reason, versions

RESULTS = Path(__file__).parent / "results"
EVERYONE = COPYING | REENCODING
OWN = {name for name, contender in EVERYONE.items() if not contender.requirements}
BASELINES = ("tar", "pillow")  # of the two tables: always measured
SHARD_BYTES = 64_000_000  # what most peers write by default
SHORTER = 256  # pixels
FEW = 10  # photos whose conversion is all start
SECONDS = 900  # for one run
PEAK_ALLOWED = 150_000_000  # bytes resident in one of our processes where nothing is decoded


class FailedRunError(Exception):
    """Why a run gave no figure, in one line."""


@dataclass(frozen=True)
class Setting:
    """Settings shared by all runs: `values` fill in the contenders' arguments."""

    photos: str
    few: str
    images: int
    size: int
    values: Mapping[str, int]


def run_contender(contender: Contender, python: str, photos: str, out: str, values: Mapping[str, int]) -> Measured:
    """One run into the empty folder `out`: the line of JSON of its script (see conversions/measured.py)."""
    command = contender.command(python, photos, out, values)
    environment = clean_environment() if contender.requirements else os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    # A session of its own: whatever it started and left behind ends with it.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
    try:
        said, complained = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise FailedRunError(f"not finished after {SECONDS} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise FailedRunError(f"exit code {process.returncode}: {last_reason(complained)}")
    return json.loads(said.splitlines()[-1])


def measure(contender: Contender, python: str, setting: Setting, scratch: str) -> Measured:
    """One run in a clean folder, which is removed afterwards, and for those with `few` the one of ten photos."""

    def run(photos: str) -> Measured:
        with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as out:
            subprocess.run(["sync", "-f", scratch], check=True)
            return run_contender(contender, python, photos, out, setting.values)

    measured = run(setting.photos)
    if measured["images"] != setting.images:
        raise FailedRunError(f"its output holds {measured['images']} of {setting.images} images")
    if not contender.few:
        return measured | {"start_cpu_seconds": 0.0}  # the script left it out
    few = run(setting.few)
    return measured | {"start_seconds": few["seconds"], "start_cpu_seconds": few["cpu_seconds"]}


def interpreters(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Contender -> its Python, made where it is missing; contender -> why there is none."""
    pythons, absent = {}, {}
    for name in names:
        contender = EVERYONE[name]
        if not contender.requirements:
            pythons[name] = sys.executable
            continue
        print(f"{name}: its environment", flush=True)
        try:
            # The benchmark of reading has environments of its own: it needs other packages of the same peers.
            pythons[name] = environment_python(f"converting-{name}", contender.requirements, contender.probe)
        except NotInstallableError as error:
            absent[name] = f"not installable: {error}"
    return pythons, absent


def compare(
    setting: Setting, pythons: dict[str, str], absent: dict[str, str], rounds: int, warm_ups: int, scratch: str
) -> dict[str, list[Measured]]:
    """The counted runs of each contender in order of rounds; who fails goes from `pythons` to `absent`."""
    runs: dict[str, list[Measured]] = {name: [] for name in pythons}
    for number in range(-warm_ups, rounds):
        which = f"round {number + 1}" if number >= 0 else "warm-up"
        for name in turned(list(pythons), number + warm_ups):
            try:
                measured = measure(EVERYONE[name], pythons[name], setting, scratch)
            except FailedRunError as error:
                print(f"{which}, {name}: {error}", flush=True)
                if name in OWN:
                    raise
                absent[name] = f"failed: {error}"
                del pythons[name], runs[name]
                continue
            net = measured["seconds"] - measured["start_seconds"]
            print(f"{which}, {name}: {measured['seconds']:.2f} s, {setting.images / net:,.0f} images/s", flush=True)
            if number >= 0:
                runs[name].append(measured)
    return runs


def turned(names: list[str], number: int) -> list[str]:
    """The order of a round: each starts with another contender, every second one runs backwards."""
    at = (number * 5) % len(names)
    order = names[at:] + names[:at]
    return order[::-1] if number % 2 else order


def few_photos(photos: str, scratch: str) -> str:
    """A folder with a few of the photos, in two of their classes."""
    few = Path(scratch) / "few"
    for folder in sorted(path for path in Path(photos).iterdir() if path.is_dir())[:2]:
        (few / folder.name).mkdir(parents=True)
        for path in sorted(folder.glob("*.jpg"))[: FEW // 2]:
            shutil.copy(path, few / folder.name)
    return str(few)


def photos_folder(photos: str, count: int) -> str:
    """The folder of photos, drawn where it is missing."""
    if not os.path.isdir(photos):
        from photos import make_photos  # not above: what it imports would weigh on every measured process

        print(f"drawing {count} photos into {photos}", flush=True)
        os.makedirs(os.path.dirname(photos), exist_ok=True)
        make_photos(photos + ".partial", count)
        os.rename(photos + ".partial", photos)
    return photos


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure conversion against tar and the other formats' writers.")
    parser.add_argument("photos", nargs="?", default=RESULTS / "photos", help="image folder; drawn when it is missing")
    parser.add_argument("--count", type=int, default=4000, help="photos to draw where they are missing (4000)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (5)")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before those (1)")
    parser.add_argument("--scratch", help="folder for what is written (default: beside the photos)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for converting.json and converting.md")
    parser.add_argument("--only", nargs="+", choices=EVERYONE, default=list(EVERYONE), help="some of the contenders")
    args = parser.parse_args(arguments)
    photos = photos_folder(os.path.abspath(args.photos), args.count)
    names = [name for name in EVERYONE if name in args.only or name in BASELINES]
    pythons, absent = interpreters(names)
    sizes = [path.stat().st_size for path in Path(photos).rglob("*.jpg")]
    shards = max(2, round(sum(sizes) / SHARD_BYTES))
    values = {"shards": shards, "shard_bytes": SHARD_BYTES, "shorter": SHORTER}
    with tempfile.TemporaryDirectory(dir=args.scratch or os.path.dirname(photos)) as scratch:
        setting = Setting(photos, few_photos(photos, scratch), len(sizes), sum(sizes), values)
        runs = compare(setting, pythons, absent, args.rounds, args.warm_ups, scratch)
    found = {name: versions(python, EVERYONE[name].packages) for name, python in pythons.items()}
    result = conversion_result(runs, found, absent, images=len(sizes), size=sum(sizes), values=values)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "converting.json").write_text(json.dumps(result, indent=1) + "\n")
    text = conversion_markdown(result)
    (args.results / "converting.md").write_text(text)
    print(text)
    large = [name for name in ("header", "header_hash") if name in runs and _peak(runs[name]) >= PEAK_ALLOWED]
    for name in large:
        print(f"{name}: a process took more than {PEAK_ALLOWED / 1e6:.0f} MB", file=sys.stderr)
    return 1 if large else 0


def _peak(rounds: Sequence[Measured]) -> float:
    return max(run["peak_bytes"] for run in rounds)


if __name__ == "__main__":
    sys.exit(main())

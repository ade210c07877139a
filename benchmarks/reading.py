"""Reading for training, against the JPEG decoder and the other loaders: `python benchmarks/reading.py`.

One epoch: random resized crops of 224 x 224, flipped by chance, in uint8 batches with labels, shuffled. Each contender
is a process in an environment of its own (readings/contender.py has the protocol), started once and stopped while
others run. A round is one epoch of each, in turn, the order reversed from round to round; the first is not counted. So
that they fit into memory, they take part in groups, each with ours and the decoder as the common yardsticks.

A contender that cannot be installed, fails, hangs or delivers other images than it should is listed with the reason.
Results go to benchmarks/results/reading.json and reading.md, after every group.
"""

import argparse
import contextlib
import datetime
import hashlib
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contender_process import END_SECONDS, READINGS, ContenderError, ContenderProcess
from environments import NotInstallableError, clean_environment, environment_python
from photos import make_photos
from reading_contenders import OURS, YARDSTICKS, Contender, Environment, chosen
from reading_table import markdown, summarise

from contender import made_once, photo_files  # isort: skip  # found once contender_process is imported

RESULTS = Path(__file__).parent / "results"
COUNT, QUICK_COUNT, SIZE = 4000, 256, 224
INTERRUPTED_SECONDS = 1  # for contenders to end by themselves


@dataclass(frozen=True)
class PhotoSet:
    """Photos to read. `pixels`: width x height of those that are drawn, "various" of others."""

    name: str
    folder: Path
    batch: int
    pixels: str
    labels: Counter[int]  # how many photos have each
    data: Path  # for the contenders' copies


def photo_set(name: str, given: Path | None, count: int, pixels: tuple[int, int], batch: int, copies: Path) -> PhotoSet:
    """`given`, or a folder of photos that are drawn unless they are there."""
    if given is None:
        folder = RESULTS / ("photos" if (name, count) == ("photos", COUNT) else f"{name}-{count}")
        if not folder.exists():
            print(f"drawing {count} photos of {pixels[0]} x {pixels[1]} pixels", file=sys.stderr)
        made_once(folder, lambda out: make_photos(str(out), count, pixels))
    else:
        folder = given.absolute()
    paths, labels = photo_files(folder)
    if not paths:
        raise SystemExit(f"{folder}: has no JPEGs")
    identity = json.dumps([(os.path.relpath(path, folder), os.path.getsize(path)) for path in paths])
    copy = f"{folder.name}-{hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()}"
    described = "x".join(map(str, pixels)) if given is None else "various"
    return PhotoSet(name, folder, batch, described, Counter(labels), copies / copy)


def command(contender: Contender, photos: PhotoSet) -> tuple[list[str], dict[str, str]]:
    """Command line of a contender, and its environment variables. Raises NotInstallableError."""
    own: Environment = contender.environment
    python, variables = sys.executable, dict(os.environ)
    if own.requirements:
        python, variables = environment_python(own.name, own.requirements, own.probe), clean_environment()
    script = str(READINGS / contender.script)
    task = [str(photos.folder), str(photos.data), str(photos.batch), str(SIZE), str(workers()), contender.variant]
    return [python, script, *filter(None, task)], variables | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


def workers() -> int:
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def running(
    contenders: Sequence[Contender], photos: PhotoSet, found: dict[str, dict[str, Any]]
) -> Iterator[dict[str, ContenderProcess]]:
    """Start `contenders`; yield the processes that became ready, stopped. They are ended in any case."""
    processes: dict[str, ContenderProcess] = {}
    patience = INTERRUPTED_SECONDS
    try:
        for contender in contenders:
            print(f"starting {contender.name}", file=sys.stderr)
            try:
                line, variables = command(contender, photos)
                log = photos.data / "logs" / f"{contender.name.replace(' ', '-').replace(',', '')}.log"
                process = processes[contender.name] = ContenderProcess(line, variables, log)
                found[contender.name]["versions"] = process.ready()
            except (NotInstallableError, ContenderError) as error:
                drop(contender.name, str(error), processes, found)
        yield processes
        patience = END_SECONDS
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # what is left to do takes seconds, and must be done
        for process in processes.values():
            process.ask_to_end()
        deadline = time.monotonic() + patience
        for process in processes.values():
            process.end(deadline)
        end_on_signals()


def end_on_signals() -> None:
    """End on SIGINT and SIGTERM by an exception, so that no contender is left running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))


def drop(name: str, reason: str, processes: dict[str, ContenderProcess], found: dict[str, dict[str, Any]]) -> None:
    print(f"{name} is out: {reason}", file=sys.stderr)
    found[name]["error"] = reason
    if name in processes:
        processes[name].end(time.monotonic())
        del processes[name]  # last: until then an interrupt must find it


def check_epoch(answer: dict[str, Any], photos: PhotoSet) -> None:
    """Raise ContenderError unless each image was delivered once, but for a last batch that each worker may drop."""
    seen = Counter({int(label): number for label, number in answer["labels"].items()})
    if surplus := seen - photos.labels:
        raise ContenderError(f"delivered {surplus.total()} images more than there are of their labels")
    if (missing := (photos.labels - seen).total()) >= photos.batch * workers():
        raise ContenderError(f"left out {missing} of {photos.labels.total()} images")


def run_group(
    group: int, contenders: Sequence[Contender], photos: PhotoSet, rounds: int, found: dict[str, dict[str, Any]]
) -> None:
    with running(contenders, photos, found) as processes:
        for number in range(rounds + 1):
            for name in list(processes) if number % 2 else list(reversed(processes)):
                try:
                    answer = processes[name].epoch()
                    check_epoch(answer, photos)
                except ContenderError as error:
                    drop(name, str(error), processes, found)
                    continue
                rate = answer["images"] / answer["seconds"]
                print(f"{photos.name}, round {number or 'of warming up'}: {name} {rate:,.0f} images/s", file=sys.stderr)
                if number:
                    found[name]["rounds"].append({"group": group, "round": number, **answer})


def grouped(contenders: Sequence[Contender], at_once: int) -> list[list[Contender]]:
    """Groups of at most `at_once`, as even as can be, and the yardsticks in each."""
    common = [contender for contender in contenders if contender.name in YARDSTICKS]
    others = [contender for contender in contenders if contender.name not in YARDSTICKS]
    groups = max(1, -(-len(others) // max(1, at_once - len(common))))
    cuts = [len(others) * number // groups for number in range(groups + 1)]
    return [common + others[begin:end] for begin, end in itertools.pairwise(cuts)]


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return {
        "cpu": model,
        "cores": workers(),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        "commit": commit(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of this repository, in short."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()


def save(result: dict[str, Any], folder: Path) -> str:
    for part in result["sets"]:
        summarise(part["contenders"])
    text = markdown(result)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reading.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "reading.md").write_text(text)
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure loaders, one epoch each in turn.")
    parser.add_argument("--rounds", type=int, help="counted rounds after one that is not (5)")
    parser.add_argument("--count", type=int, help=f"photos of 500 x 375 ({COUNT})")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"contenders, beside {' and '.join(YARDSTICKS)}")
    parser.add_argument("--large", action=argparse.BooleanOptionalAction, help="12-megapixel photos too (yes)")
    parser.add_argument("--quick", action="store_true", help=f"1 round, {QUICK_COUNT} photos, no large ones")
    parser.add_argument("--at-once", type=int, default=8, help="contenders in memory at the same time (8)")
    parser.add_argument("--batch", type=int, default=64, help="images (64; an eighth of that of large ones)")
    parser.add_argument("--photos", type=Path, help="an image folder of your own, in place of photos that are drawn")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for reading.json and reading.md")
    parser.add_argument("--copies", type=Path, default=RESULTS / "reading", help="folder for the data in other forms")
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.count = args.count or (QUICK_COUNT if args.quick else COUNT)
    args.large = not args.quick and args.photos is None if args.large is None else args.large
    if args.rounds < 1 or args.count < args.batch:
        parser.error("expected at least 1 round, and photos for a batch")
    try:
        chosen(args.only, False)
    except ValueError as error:
        parser.error(f"--only: {error}")
    return args


def main() -> int:
    args = arguments()
    end_on_signals()
    copies = args.copies.absolute()
    sets = [photo_set("photos", args.photos, args.count, (500, 375), args.batch, copies)]
    if args.large:
        count = max(16, args.count * 96 // COUNT)
        sets.append(photo_set("large-photos", None, count, (4000, 3000), max(1, args.batch // 8), copies))
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    result: dict[str, Any] = {"date": date, "machine": machine(), "rounds": args.rounds, "ours": OURS, "sets": []}
    text = ""
    for photos in sets:
        contenders = chosen(args.only, large=photos.name != "photos")
        found = {one.name: {"text": one.text, "versions": {}, "rounds": [], "error": None} for one in contenders}
        sizes = sum(os.path.getsize(path) for path in photo_files(photos.folder)[0])
        result["sets"].append(
            {
                "name": photos.name,
                "images": photos.labels.total(),
                "bytes_per_image": sizes / photos.labels.total(),
                "pixels": photos.pixels,
                "size": SIZE,
                "batch": photos.batch,
                "workers": workers(),
                "contenders": found,
            }
        )
        for number, group in enumerate(grouped(contenders, args.at_once)):
            run_group(number, group, photos, args.rounds, found)
            text = save(result, args.results)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`torch_loader` and `array_batches` beside a DataLoader over the folder, with Pillow and OpenCV.

Random resized crops, flipped by chance, in uint8 batches with labels, shuffled, with as many persistent workers each,
or threads.
A round is an epoch of each in turn, the order reversed from round to round; the first is not counted. CPU time is that
of this process and of the loader's workers: on a machine that is shared it says more than the rate does.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "readings"))

from contender import photo_files  # isort: skip
from torch_folder import Folder  # isort: skip

from torch.utils.data import DataLoader

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.pipelines import array_batches
from shardfeed.pipelines.torch import random_resized_crop, torch_loader
from shardfeed.readers.split import Split

OURS, THREADS = "torch_loader", "array_batches"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """CPU seconds of this process and its living children."""
    me, found = os.getpid(), 0.0
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(entry) == me or int(fields[1]) == me:
                found += (int(fields[11]) + int(fields[12])) / TICKS
    return found


def contenders(args: argparse.Namespace) -> dict[str, Callable[[], Iterable[Any]]]:
    def split(seekable: bool) -> Split:
        data = args.dataset.with_name(args.dataset.name + ("-seekable" if seekable else ""))
        if not data.exists():
            convert(ImageFolder(args.photos), data, split={"train": 1.0}, image=ImageOptions(seekable=seekable))
        return next(iter(shardfeed.open(data).values()))

    def folder(decoder: str) -> DataLoader[Any]:
        return DataLoader(
            Folder(args.photos, args.size, decoder),
            batch_size=args.batch,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=True,
            drop_last=True,
        )

    def ours(seekable: bool, antialias: bool) -> Iterable[Any]:
        crop = random_resized_crop(args.size, antialias=antialias)
        return torch_loader(split(seekable), batch_size=args.batch, image_transform=crop, workers=args.workers)

    def arrays(seekable: bool) -> Iterable[Any]:
        return array_batches(split(seekable), batch_size=args.batch, image_size=args.size, workers=args.workers)

    makers: dict[str, Callable[[], Iterable[Any]]] = {
        OURS: lambda: ours(False, True),
        f"{OURS}, `--seekable`": lambda: ours(True, True),
        f"{OURS}, `antialias=False`": lambda: ours(False, False),
        f"{OURS}, `--seekable`, `antialias=False`": lambda: ours(True, False),
        THREADS: lambda: arrays(False),
        f"{THREADS}, `--seekable`": lambda: arrays(True),
    }
    return makers | {f"DataLoader, {name}": lambda name=name: folder(name.lower()) for name in ("Pillow", "OpenCV")}


def epoch(loader: Iterable[Any]) -> tuple[float, float]:
    """Images a second, and microseconds of CPU an image."""
    wall, cpu, images = time.perf_counter(), cpu_seconds(), 0
    for pixels, labels in loader:
        assert len(pixels) == len(labels)
        images += len(labels)
    return images / (time.perf_counter() - wall), (cpu_seconds() - cpu) / images * 1e6


def table(found: dict[str, list[tuple[float, float]]]) -> str:
    lines = [
        "| | images/s | CPU µs/image | speed / Pillow | Pillow's CPU / this |",
        "|---|---:|---:|---:|---:|",
    ]
    base = found["DataLoader, Pillow"]
    for name, rounds in found.items():
        rate, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
        faster = sorted(mine[0] / theirs[0] for mine, theirs in zip(rounds, base, strict=True))
        cheaper = sorted(theirs[1] / mine[1] for mine, theirs in zip(rounds, base, strict=True))
        spans = [f"{statistics.median(r):.2f} ({r[0]:.2f} to {r[-1]:.2f})" for r in (faster, cheaper)]
        lines.append(f"| {name} | {rate:,.0f} | {cpu:,.0f} | {spans[0]} | {spans[1]} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure loaders, one epoch each in turn.")
    parser.add_argument("photos", type=Path, help="an image folder of JPEGs (benchmarks/photos.py draws one)")
    parser.add_argument("dataset", type=Path, help="the folder converted; made where it is not there")
    parser.add_argument("--rounds", type=int, default=5, help="counted, after one that is not (5)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if not photo_files(args.photos)[0]:
        parser.error(f"{args.photos}: has no JPEGs")
    loaders = {name: make() for name, make in contenders(args).items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
    for number in range(args.rounds + 1):
        for name in list(loaders) if number % 2 else list(reversed(loaders)):
            rate, cpu = epoch(loaders[name])
            print(f"round {number or 'of warming up'}: {name} {rate:,.0f} images/s, {cpu:,.0f} µs", file=sys.stderr)
            if number:
                found[name].append((rate, cpu))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

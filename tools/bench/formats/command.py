"""`shardfeed bench --formats DIR_OR_SOURCE`: the options, the directory for what is written, and what is printed."""

import argparse
import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Iterator

from tqdm import tqdm

from shardfeed.errors import OutputExistsError, UsageError, argument, escape
from shardfeed.storage.local import storage_error
from shardfeed.tools.bench.formats.measure import measure
from shardfeed.tools.bench.formats.report import report_text
from shardfeed.tools.bench.formats.sample import sample_of
from shardfeed.version import __version__

IMAGES, ROUNDS = 2000, 3
_BYTES = 200_000_000  # of the sample, at most
_SECONDS = 0.2  # of one reading, where the bytes are in memory
# Options of the other kind of measurement, and their defaults.
_NOT_THESE = {"split": None, "batch_size": 64, "image_size": 224, "order": "stream", "parallelism": None}
_NOT_THESE |= {"seconds": 60.0, "model_ms": None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that `--formats` has."""
    group = parser.add_argument_group("formats")
    group.add_argument(
        "--formats", action="store_true", help="compare formats of shards: DATASET may be a source of images, too"
    )
    group.add_argument("--images", metavar="N", type=int, help=f"of the sample (default {IMAGES}; 200 MB at most)")
    group.add_argument("--keep", metavar="DIR", help="write the datasets there, and leave them (default: temporary)")


def check(args: argparse.Namespace) -> None:
    """Raises UsageError for options that cannot be meant with `--formats`, or without it."""
    if not args.formats:
        for name in ("images", "keep"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name}", "it says what --formats measures", "give --formats, too")
        return
    for name, usual in _NOT_THESE.items():
        if getattr(args, name) != usual:
            problem = f"--formats does not measure a pipeline, and has no {argument(name)}"
            raise UsageError(f"--{name.replace('_', '-')}", problem, "leave one of both out")
    if args.images is not None and args.images < 1:
        raise UsageError("--images", f"got {args.images}, expected at least 1")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    part = sample_of(args.dataset, args.images or IMAGES, _BYTES)
    with _directory(args.keep) as directory:
        bar = tqdm(unit="run", disable=True if args.json else None)
        with bar:
            report = measure(
                part,
                directory,
                rounds=args.rounds or ROUNDS,
                seconds=_SECONDS,
                progress=lambda what: (bar.set_postfix_str(what), bar.update()),
            )
    made_by = {"shardfeed": __version__, "python": platform.python_version(), "machine": platform.machine()}
    report = {"source": args.dataset, **report, "made_by": made_by}
    if args.plot:
        from shardfeed.tools.bench.formats.plot import draw

        draw(report, args.plot)
    if args.json:
        print(json.dumps(report))
        return 0
    print(report_text(report))
    if args.keep:
        print(f"\nkept: {escape(args.keep)}")
    if args.plot:
        print(f"\ndrawn: {escape(args.plot)}")
    return 0


@contextlib.contextmanager
def _directory(keep: str | None) -> Iterator[str]:
    """An empty directory: `keep`, made, or a temporary one, which is gone afterwards.

    Beside the data would be where others look for data, and may be read-only; `keep` may be any disk.
    Raises OutputExistsError, StorageError.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="shardfeed-formats-") as directory:
            yield directory
        return
    try:
        os.makedirs(keep)
    except FileExistsError:
        if not os.path.isdir(keep) or os.listdir(keep):
            raise OutputExistsError("--keep", f"{escape(keep)!r} is there already", "name a new directory") from None
    except OSError as error:
        raise storage_error(keep, "make", error) from error
    yield keep

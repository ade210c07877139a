"""`shardfeed bench DIR`: the time of each stage of an input pipeline, and whether it is fast enough."""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

import shardfeed
from shardfeed.budget import cpu_budget
from shardfeed.errors import IntegrityError, ShardfeedError, UsageError, at_least, check_extra, escape
from shardfeed.pipelines.orders.shapes import MOST_PIXELS
from shardfeed.processes import MOST_WORKERS
from shardfeed.storage.storage import check_local
from shardfeed.text import in_usual_order, shell_quoted
from shardfeed.tools.arguments import check_output
from shardfeed.tools.bench.report import head_text, report_text
from shardfeed.tools.next_steps import training_lines
from shardfeed.version import __version__

_ORDERS = ("stream", "global", "blocks", "stored")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    add = parser.add_argument
    add("dataset", help="dataset directory")
    add("--split", metavar="NAME", help="split to read (default: train, else the first)")
    add("--batch-size", metavar="N", type=int, default=64, help="images per batch (default 64)")
    add("--image-size", metavar="PX", type=int, default=224, help="side of the crops in pixels (default 224)")
    add("--order", metavar="O", choices=_ORDERS, default="stream", help="stream (default), global, blocks or stored")
    add("--workers", metavar="N", type=int, help="threads (default: available cores)")
    add("--seconds", metavar="S", type=float, default=60.0, help="approximate duration, without imports (default 60)")
    add("--model-ms", metavar="X", type=float, help="check whether training steps of X ms would wait")
    add("--json", action="store_true", help="print all figures as JSON")
    add("--plot", metavar="FILE.png", help="draw a chart; needs shardfeed[bench]")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    _check(args)
    check_extra("tensorflow", "shardfeed bench")
    check_local(args.dataset)
    data = shardfeed.open(args.dataset)
    name = args.split or (in_usual_order(data) or ["train"])[0]
    split = data[name]
    with _quiet_stderr() as terminal:
        from shardfeed.tools.bench.changes import typical_image
        from shardfeed.tools.bench.measure import describe, measure
        from shardfeed.tools.bench.stages import Workload, check_images

        check_images(split)
        if args.batch_size > len(split):  # checked here, before TensorFlow is imported
            raise UsageError("--batch-size", f"got {args.batch_size}, expected at most {len(split)}")
        work = Workload(split, args.batch_size, args.image_size, args.order, args.workers or cpu_budget())
        typical = typical_image(split)
        report = {"dataset": args.dataset, **describe(work, typical)}
        if not args.json:
            print(head_text(report), flush=True)
        bar = tqdm(bar_format="{elapsed} {desc}", file=terminal, disable=True if args.json else None, leave=False)

        try:
            with bar, _named_damage(args.dataset):
                options = {"seconds": args.seconds, "model_ms": args.model_ms}
                measure(data, work, typical, **options, report=report, progress=bar.set_description_str)
        except BaseException as stopped:
            if not isinstance(stopped, Exception) and not args.json:
                print(f"\n{report_text(report)}".rstrip(), flush=True)  # the measurements until then
            raise
        sizes = {"batch_size": args.batch_size, "image_size": args.image_size}
        lines = training_lines(args.dataset, split.schema, name, len(split), **sizes, order=args.order)
        report |= {"made_by": _versions(), "next": lines}
        drawn = args.plot and report["pipeline"]
        if drawn:
            from shardfeed.tools.bench.plot import draw

            draw(report, args.plot)
    if args.json:
        print(json.dumps(report))
    else:
        print(f"\n{report_text(report)}")
        if args.plot:
            print(f"\ndrawn: {escape(args.plot)}" if drawn else "\nno chart, as there are no measurements")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the options before anything is opened; raise UsageError for an invalid value."""
    for option, value, most in (
        ("--batch-size", args.batch_size, None),
        ("--image-size", args.image_size, MOST_PIXELS),
        ("--workers", args.workers, MOST_WORKERS),
    ):
        if value is not None:
            at_least(option, value, 1, most)
    for option, number in (("--seconds", args.seconds), ("--model-ms", args.model_ms)):
        if number is not None and not 0 < number < 1e6:
            raise UsageError(option, f"got {number:g}, expected more than 0 and less than a million")
    if args.plot:
        check_output("--plot", args.plot, ".png")
        check_extra("matplotlib", "--plot")


@contextmanager
def _quiet_stderr() -> Iterator[TextIO]:
    """Redirect file descriptor 2 to a file, as TensorFlow's start-up lines cannot be disabled; yields the terminal.

    After an unexpected error, that file is printed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log, os.fdopen(terminal, "w") as text:
        os.dup2(log.fileno(), 2)
        unexpected = False
        try:
            yield text
        except Exception as error:
            unexpected = not isinstance(error, ShardfeedError)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            if unexpected:
                log.seek(0)
                os.write(2, log.read())


@contextmanager
def _named_damage(dataset: str) -> Iterator[None]:
    """Turn TensorFlow's error for a damaged or undecodable record into our own."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # batches stay on the host: only the pipeline is measured
    try:
        yield
    except tf.errors.OpError as error:
        problem = f"the pipeline stopped: {escape(error.message)[:400]}"
        raise IntegrityError(dataset, problem, f"shardfeed verify {shell_quoted(dataset)} --deep") from None


def _versions() -> dict[str, Any]:
    import tensorflow as tf

    return {
        "shardfeed": __version__,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }

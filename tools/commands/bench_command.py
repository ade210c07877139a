"""`shardfeed bench DIR`: the time of each stage of an input pipeline, and whether it is fast enough."""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TextIO

from tqdm import tqdm

import shardfeed
from shardfeed.budget import cpu_budget
from shardfeed.declared import Positive, Range, Typed, checked
from shardfeed.errors import IntegrityError, ShardfeedError, UsageError, check_extra, escape
from shardfeed.pipelines.orders.shapes import Side
from shardfeed.processes import MOST_WORKERS
from shardfeed.storage.storage import check_local
from shardfeed.text import in_usual_order, shell_quoted
from shardfeed.tools.arguments import check_output, command
from shardfeed.tools.bench.report import head_text, report_text
from shardfeed.tools.next_steps import training_lines
from shardfeed.version import __version__

_Threads = Annotated[int, Range(1, MOST_WORKERS)]


def _duration(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < 1e6:
        raise UsageError(name, f"got {value:g}, expected more than 0 and less than a million")


@checked
def bench(
    dataset: Annotated[str, Typed("dataset directory")],
    *,
    split: Annotated[str | None, Typed("split to read (default: train, else the first)", "NAME")] = None,
    batch_size: Annotated[Positive, Typed("images per batch (default 64)", "N")] = 64,
    image_size: Annotated[Side, Typed("side of the crops in pixels (default 224)", "PX")] = 224,
    order: Annotated[
        Literal["stream", "global", "blocks", "stored"], Typed("stream (default), global, blocks or stored", "O")
    ] = "stream",
    workers: Annotated[_Threads | None, Typed("threads (default: available cores)", "N")] = None,
    seconds: Annotated[float, _duration, Typed("approximate duration, without imports (default 60)", "S")] = 60.0,
    model_ms: Annotated[float | None, _duration, Typed("check whether training steps of X ms would wait", "X")] = None,
    as_json: Annotated[bool, Typed("print all figures as JSON", flag="json")] = False,
    plot: Annotated[str | None, Typed("draw a chart; needs shardfeed[bench]", "FILE.png")] = None,
) -> int:
    """Measure and print; exit code 0."""
    if plot:
        check_output("plot", plot, ".png")
        check_extra("matplotlib", "--plot")
    check_extra("tensorflow", "shardfeed bench")
    check_local(dataset)
    data = shardfeed.open(dataset)
    name = split or (in_usual_order(data) or ["train"])[0]
    of = data[name]
    with _quiet_stderr() as terminal:
        from shardfeed.tools.bench.changes import typical_image
        from shardfeed.tools.bench.measure import describe, measure
        from shardfeed.tools.bench.stages import Workload, check_images

        check_images(of)
        if batch_size > len(of):  # checked here, before TensorFlow is imported
            raise UsageError("batch_size", f"got {batch_size}, expected at most {len(of)}")
        work = Workload(of, batch_size, image_size, order, workers or cpu_budget())
        typical = typical_image(of)
        report = {"dataset": dataset, **describe(work, typical)}
        if not as_json:
            print(head_text(report), flush=True)
        bar = tqdm(bar_format="{elapsed} {desc}", file=terminal, disable=True if as_json else None, leave=False)

        try:
            with bar, _named_damage(dataset):
                options = {"seconds": seconds, "model_ms": model_ms}
                measure(data, work, typical, **options, report=report, progress=bar.set_description_str)
        except BaseException as stopped:
            if not isinstance(stopped, Exception) and not as_json:
                print(f"\n{report_text(report)}".rstrip(), flush=True)  # the measurements until then
            raise
        sizes: dict[str, Any] = {"batch_size": batch_size, "image_size": image_size}
        lines = training_lines(dataset, of.schema, name, len(of), **sizes, order=order)
        report |= {"made_by": _versions(), "next": lines}
        if plot and report["pipeline"]:
            from shardfeed.tools.bench.plot import draw

            draw(report, plot)
    if as_json:
        print(json.dumps(report))
    else:
        print(f"\n{report_text(report)}")
        if plot:
            print(f"\ndrawn: {escape(plot)}" if report["pipeline"] else "\nno chart, as there are no measurements")
    return 0


add_arguments, run = command(bench)


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

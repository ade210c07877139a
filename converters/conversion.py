"""Samples in, committed dataset out: plan, write the shards that are missing, check them, commit by one rename."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from shardfeed.converters.commit.finish import finish
from shardfeed.converters.commit.kept_shards import keep_shards
from shardfeed.converters.commit.output import Output, check_apart
from shardfeed.converters.commit.rehearsal import rehearse
from shardfeed.converters.commit.reject_limit import MaxBad, RejectLimits
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.engines.choose_engine import Workers, choose_engine
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.missing_shards import Progress, check_shards, finished_shards, write_missing
from shardfeed.converters.planning.onto import GrowingSource
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.planning.split_shares import Shares
from shardfeed.converters.report import Begun, Noticed, Report
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.source import RecordedSource, Source, findings_of
from shardfeed.errors import UsageError
from shardfeed.formats.registry import NATIVE
from shardfeed.storage.addresses import check_local
from shardfeed.text import byte_size


def convert(
    source: Source | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    split: Mapping[str, float] | Shares | None = None,
    to: str = NATIVE.name,
    shards: int | str | Mapping[str, int] | None = None,
    seed: int = 0,
    image: ImageOptions | None = None,
    max_bad: MaxBad = 0,
    replace: bool = False,
    restart: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    workers: Workers = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Convert `source` into the dataset directory `out`, or take up where an earlier, stopped run left off.

    Images may have been added, removed or repaired since: only the shards that this changes are made again. The bytes
    depend on the source and on the options above `max_bad` alone: not on workers, engine or interruptions. A script
    needs no `__main__` guard: workers do not import it.

    Args:
        source: the samples: a path as `open_source` takes it, an image folder, a label file or annotations; a source
            that is one; or your own, see `shardfeed.converters.sources.source`.
        out: the directory to create; its parent must exist.
        split: share of each split, adding up to 1, for samples whose source names no split; default all in "train".
            `Shares` says how they are drawn.
        to: the format of the shards: "tfrecord", "webdataset", "parquet", "mds" or "arrayrecord".
        shards: number of shards of each split, or the bytes of source images that a shard should hold, about, as text
            like "64MB". By default 256 MB at most, and less in a small dataset: it has 16 shards at least as long as
            each has 8 MB or 512 images.
        seed: decides the order of samples, and their split where `split` draws it.
        image: how images are checked and re-encoded.
        max_bad: rejected inputs allowed, a count or text like "0.5%"; more, and nothing is committed. Or by name:
            `{"images": 3, "objects": "1%"}`, where objects are annotations that are left out for a fault of their own.
        replace: swap `out` for the new dataset when it exists.
        restart: remove what an earlier, stopped run left, and begin anew.
        verify: read every byte again before the commit.
        dry_run: write nothing: the report says what the dataset would be. What the run would refuse is refused.
        workers: processes of this machine; default one for each CPU that this process is granted. Or `LocalWorkers`,
            `RayWorkers` on the nodes of a Ray cluster, or an `Engine` of your own, for this one conversion.
        progress: called a few times a second.

    Raises:
        UsageError: something about the arguments or the source; nothing was touched. Subclasses: OutputExistsError,
            PlanMismatchError (an unfinished conversion with other options is in the way).
        TooManyRejectedError: the source rejected too many, and nothing was written; or images were, and all else is
            converted and kept. The same call with a higher `max_bad` then only commits, unless all inputs were
            rejected; after a repair, only what changed is read again.
        StorageError, WorkerLostError: what is finished is kept; the same call resumes.
        BusyError: another process is converting into `out`.
    """
    started = time.monotonic()
    if isinstance(source, str | os.PathLike):
        source = open_source(source)
    if not isinstance(source, Source):
        problem = f"got {type(source).__name__}, expected a path, or samples with a schema, a length and items"
        raise UsageError("source", problem, "see shardfeed.converters.sources.source")
    check_local(out)
    out = os.path.abspath(os.fspath(out))
    made_with = source.made_with if isinstance(source, RecordedSource) else None
    onto = source.onto if isinstance(source, GrowingSource) else None
    image = image or ImageOptions()
    drawn, (number, size) = Shares.of(split), _number_or_size(shards)
    options = PlanOptions(drawn.shares, number, size, seed, image, drawn.by, to, made_with, onto)
    limits = RejectLimits.of(max_bad)
    check_apart(out, findings_of(source).folder)
    staging = Staging(out)
    writers = choose_engine(workers, staging.tries)
    if dry_run:
        return rehearse(out, source, options, limits, staging, replace=replace, restart=restart)
    # An engine ends before the lock is let go of, the inner one, and also where the output is refused, the outer one.
    with ended(writers), Output.open(out, staging, replace=replace, restart=restart) as output, ended(writers):
        if not output.committed:
            writers.start(len(source))  # they take a while to come up: the plan is made meanwhile
        plan = make_plan(source, options)
        limits.check_plan(out, plan)
        if manifest := output.finished(plan):
            return Report.of_earlier_run(out, manifest, time.monotonic() - started)
        check_space(plan.forecast, out, staging.dataset)
        changed = staging.begin(plan)
        finished = finished_shards(plan, staging)
        kept = keep_shards(plan, staging.dataset, every_byte=verify)
        receipts = write_missing(plan, source, staging, finished, writers, progress)
        noticed = Noticed.of(plan, receipts)
        manifest = finish(out, plan, receipts, noticed, staging.dataset)
        check_shards(receipts, plan, staging.dataset, every_byte=verify)
        begun = Begun(len(finished.receipts), finished.others.taken, changed)
        report = Report.of(out, plan, noticed, manifest, writers, begun, time.monotonic() - started)
        limits.check(report, inputs=len(plan) + len(plan.findings.rejected))
        return report.committed_with([*kept, *output.commit()])


def _number_or_size(
    shards: int | str | Mapping[str, int] | None,
) -> tuple[int | Mapping[str, int] | None, int | None]:
    """How many shards, or how large each. Raises UsageError for text that is no size."""
    if not isinstance(shards, str):
        return shards, None
    try:
        return None, byte_size(shards)
    except (ValueError, OverflowError):
        raise UsageError("shards", f"got {shards!r}, expected numbers, or a size like '256MB'") from None


@contextmanager
def ended(engine: Engine) -> Iterator[None]:
    """A block after which the engine does nothing more, however it ends."""
    try:
        yield
    finally:
        engine.stop()

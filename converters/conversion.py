"""Conversion of samples to a committed dataset: plan, write the missing shards, check them, commit by one rename."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardfeed.converters.commit.finish import finish
from shardfeed.converters.commit.output import Output, check_apart
from shardfeed.converters.commit.rehearsal import rehearse
from shardfeed.converters.commit.reject_limit import MaxBad, RejectLimits
from shardfeed.converters.commit.staging import Staging, keep_shards
from shardfeed.converters.commit.upload import LocalPlace, Upload
from shardfeed.converters.engines.choose_engine import Workers, choose_engine, ended
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.onto import GrowingSource
from shardfeed.converters.planning.options import PlanOptions, number_or_size
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.planned_shard import PlannedShard
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.planning.split_shares import Groups, Shares
from shardfeed.converters.report import Begun, Noticed, Report
from shardfeed.converters.shards.earlier import EarlierShards
from shardfeed.converters.shards.receipts import load_receipt, receipt_count, receipt_path, save_receipt, still_whole
from shardfeed.converters.shards.task import Kept, Receipt, ShardTask, checkpoint_path, shard_paths
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import RecordedSource, Sample, Source, findings_of
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.registry import NATIVE
from shardfeed.machine.progress_bar import shown_in_notebook
from shardfeed.storage.address import is_address, local_path
from shardfeed.storage.local import fsync_directory, remove_file, storage_error
from shardfeed.storage.storage import FileInfo


@dataclass(frozen=True)
class Progress:
    """Progress of a conversion: images read and planned, bytes of sources read, shards done and planned.

    Example:
        def show(progress):
            print(f"{progress.images} of {progress.images_planned} images")

        convert("photos", "out", progress=show)
    """

    images: int
    images_planned: int
    source_bytes: int
    shards: int
    shards_planned: int


def convert(
    source: Source | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    split: Mapping[str, float] | Shares | None = None,
    group_column: str | None = None,
    group_pattern: str | None = None,
    group_duplicates: bool = False,
    to: str = NATIVE.name,
    shards: int | str | Mapping[str, int] | None = None,
    seed: int = 0,
    image: ImageOptions | None = None,
    max_bad: MaxBad = 0,
    no_leaks: bool = False,
    replace: bool = False,
    restart: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    workers: Workers = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Convert `source` into the dataset `out`, or continue where an earlier run stopped.

    Images may have been added, removed or repaired since then: only the affected shards are written again. The
    dataset's bytes depend only on the source and the options listed before `max_bad`, not on workers, engine or
    interruptions. A script needs no `__main__` guard: workers do not import it.

    Args:
        source: the samples: a path that `open_source` accepts (an image folder, a label file or annotations), a source
            from this package, or your own source (see `shardfeed.converters.sources.source`).
        out: the directory to create; its parent must exist. Or a URL such as "s3://bucket/name": the dataset is made
            in the temporary directory (TMPDIR), uploaded as the last step, and removed there.
        split: share of each split, adding up to 1, for samples without a split in the source; default: all in "train".
            Use `Shares` to choose how samples are drawn.
        group_column: a column, a field of the images in annotations such as COCO's, or a feature of your own source:
            samples with the same value go to the same split.
        group_pattern: a regular expression for the whole file name, or, with a "/", for the whole path: samples with
            the same text in the named group `group` share a split. "roboflow" groups the versions of an original image.
        group_duplicates: files that are equal byte for byte go to the same split.
        to: the format of the shards: "tfrecord", "webdataset", "parquet", "mds" or "arrayrecord".
        shards: number of shards of each split, or the approximate bytes of source images per shard, as text like
            "64MB". Default: at most 256 MB each, and at least 16 shards if each then has at least 8 MB or 512 images.
        seed: decides the order of samples, and their splits if `split` draws them.
        image: how images are checked and re-encoded.
        max_bad: limit for rejected inputs, a count or text like "0.5%"; with more, nothing is committed. Or separate
            limits: `{"images": 3, "objects": "1%"}`, where "objects" limits the annotations left out because they are
            faulty.
        no_leaks: raise an error if a file, or a group, would be in two splits.
        replace: if `out` exists, replace it with the new dataset.
        restart: discard the unfinished work of an earlier run, and start from the beginning.
        verify: read every byte again before the commit.
        dry_run: write nothing: the report describes the dataset that would be written. A dry run raises the errors that
            the run would raise.
        workers: number of processes on this machine; default one per CPU available to this process. Or `LocalWorkers`,
            `RayWorkers` on the nodes of a Ray cluster, or your own `Engine`. An `Engine` serves one conversion only.
        progress: called with a `Progress` a few times a second; default: a bar in a notebook, nothing elsewhere.

    Raises:
        UsageError: the arguments or the source are invalid; nothing was changed. Subclasses: OutputExistsError,
            PlanMismatchError (an unfinished conversion with other options is in the way), LeakError (`no_leaks`).
        TooManyRejectedError: too many inputs were rejected. If the source rejected them, nothing was written; if the
            workers did, all other inputs are converted and their shards are kept. The same call with a higher `max_bad`
            then only commits, unless all inputs were rejected; after a repair, only changed files are read again.
        StorageError, WorkerLostError: finished shards are kept; the same call resumes.
        BusyError: another process is converting into `out`.

    Example:
        report = convert("photos", "out", split={"train": 0.9, "validation": 0.1})
        print(report.images, report.notes)
        data = shardfeed.open("out")
    """
    started = time.monotonic()
    if isinstance(source, str | os.PathLike):
        source = open_source(source, options=options_of({"group_column": group_column}))
    if not isinstance(source, Source):
        problem = f"got {type(source).__name__}, expected a path, or samples with a schema, a length and items"
        raise UsageError("source", problem, "see shardfeed.converters.sources.source")
    place = Upload(os.fspath(out)) if is_address(out) else LocalPlace(local_path(out))
    out, replace = place.local, place.may_replace(replace)
    made_with = source.made_with if isinstance(source, RecordedSource) else None
    onto = source.onto if isinstance(source, GrowingSource) else None
    image = image or ImageOptions()
    drawn, (number, size) = Shares.of(split), number_or_size(shards)
    groups = Groups(group_column, group_pattern, group_duplicates)
    options = PlanOptions(drawn.shares, number, size, seed, image, drawn.by, to, made_with, onto, groups)
    limits = RejectLimits.of(max_bad)
    check_apart(out, findings_of(source).folder)
    staging = Staging(out)
    writers = choose_engine(workers, staging.tries)
    if dry_run:
        return place.reported(
            rehearse(out, source, options, limits, staging, no_leaks=no_leaks, replace=replace, restart=restart)
        )
    # An engine ends before the lock is released (inner), and also if the output is refused (outer).
    with ended(writers), Output.open(out, staging, replace=replace, restart=restart) as output, ended(writers):
        if not output.committed:
            writers.start(len(source))  # they take a while to come up: the plan is made meanwhile
        plan = make_plan(source, options, no_leaks, os.path.dirname(out))
        limits.check_plan(out, plan)
        if manifest := output.finished(plan, place.send):
            return place.reported(Report.of_earlier_run(out, manifest, time.monotonic() - started))
        check_space(plan.forecast, out, staging.dataset)
        changed = staging.begin(plan)
        finished = finished_shards(plan, staging)
        kept = keep_shards(plan, staging.dataset, every_byte=verify)
        with shown_in_notebook(progress) as listener:
            receipts = write_missing(plan, source, staging, finished, writers, listener)
        noticed = Noticed.of(plan, receipts)
        manifest = finish(out, plan, receipts, noticed, staging.dataset)
        check_shards(receipts, plan, staging.dataset, every_byte=verify)
        begun = Begun(len(finished.receipts), finished.others.taken, changed)
        report = Report.of(out, plan, noticed, manifest, writers, begun, time.monotonic() - started)
        limits.check(report, inputs=len(plan) + len(plan.findings.rejected))
        return place.reported(report.committed_with([*kept, *output.commit(place.send)]))


class Finished(NamedTuple):
    """Reusable work of an earlier run: receipts by (split, shard number), and shards from which images can be taken."""

    receipts: dict[tuple[str, int], Receipt]
    others: EarlierShards


def finished_shards(plan: Plan, staging: Staging) -> Finished:
    """The intact shards of an earlier run that equal this plan's byte for byte; and other shards.

    A receipt of different content is removed durably: its shard will be overwritten, and later inputs may match the
    receipt again.
    """
    found = Finished({}, EarlierShards(staging.earlier))
    stale = False
    for shard in plan.shards:
        path = receipt_path(staging.receipts, shard.split, shard.number, shard.count)
        receipt = load_receipt(path)
        files = shard_paths(staging.dataset, shard.split, shard.number, shard.count, plan.options.to)
        if receipt is None or not still_whole(receipt, *files):
            if os.path.lexists(path):
                remove_file(path)
                stale = True
        elif receipt.digest == plan.shard_digest(shard) and not receipt.retry_may_help:
            found.receipts[shard.split, shard.number] = receipt
        else:
            found.others.set_aside(receipt, path, *files)
            stale = True
    planned = {receipt_path("", shard.split, shard.number, shard.count) for shard in plan.shards}
    for name in sorted(set(os.listdir(staging.receipts)) - planned):  # if the number of shards has changed
        path = os.path.join(staging.receipts, name)
        receipt, count = load_receipt(path), receipt_count(name)
        if receipt is not None and count:
            files = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
            if still_whole(receipt, *files):
                found.others.set_aside(receipt, path, *files)
    if stale:
        fsync_directory(staging.receipts)
    return found


def write_missing(
    plan: Plan,
    source: Source,
    staging: Staging,
    finished: Finished,
    engine: Engine,
    progress: Callable[[Progress], None] | None,
) -> list[Receipt]:
    """Write the shards that are not `finished`, and return the receipts of all in the plan's order.

    Raises as the engine does; shards finished by then have receipts.
    """
    receipts, earlier = dict(finished.receipts), finished.others
    missing = [shard for shard in plan.shards if (shard.split, shard.number) not in receipts]
    before = len(plan) - sum(len(shard) for shard in missing)
    shard_counts = {shard.split: shard.count for shard in plan.shards}

    def report_progress() -> None:
        if progress is not None:
            images, size = engine.done()
            progress(Progress(before + images, len(plan), size, len(receipts), len(plan.shards)))

    def samples_of(shard: PlannedShard) -> tuple[Sample, ...]:
        return tuple(source[int(i)] for i in shard.samples)

    def stored(shard: PlannedShard, samples: tuple[Sample, ...]) -> dict[int, Kept]:
        return earlier.find(samples, plan.schema, plan.options.image, (shard.split, shard.number))

    def tasks() -> Iterator[ShardTask]:
        for shard in missing:
            samples = samples_of(shard)
            kept = stored(shard, samples)
            earlier.taken += len(kept)
            yield ShardTask(
                directory=staging.dataset,
                split=shard.split,
                number=shard.number,
                count=shard.count,
                first=shard.first,
                samples=samples,
                schema=plan.schema,
                image=plan.options.image,
                digest=plan.shard_digest(shard),
                kept=kept,
                format=plan.options.to,
            )

    if earlier:  # the disk may not hold both all of them and the new ones: each is removed after its last use
        for shard in missing:
            stored(shard, samples_of(shard))
        earlier.remove_unused()
    for receipt in engine.run(tasks(), report_progress):
        count = shard_counts[receipt.split]
        path = receipt_path(staging.receipts, receipt.split, receipt.number, count)
        receipts[receipt.split, receipt.number] = save_receipt(path, receipt)
        data, _ = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
        if os.path.lexists(checkpoint := checkpoint_path(data)):
            remove_file(checkpoint)
        earlier.remove_unused((receipt.split, receipt.number))
        report_progress()
    return [receipts[shard.split, shard.number] for shard in plan.shards]


def check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare the files on disk with the receipts: sizes and index, and with `every_byte` all bytes.

    Raises IntegrityError, StorageError.
    """
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        data, index = shard_paths(directory, shard.split, shard.number, shard.count, plan.options.to)
        for path, info, whole in ((data, receipt.info.data, every_byte), (index, receipt.info.index, True)):
            try:
                found = FileInfo.of_file(path) if whole else FileInfo(os.path.getsize(path), info.crc32c)
            except OSError as error:
                raise storage_error(path, "read", error) from error
            if problem := info.difference(found):
                remedy = "check the disk, remove the file, run again"
                raise IntegrityError(path, problem, remedy)

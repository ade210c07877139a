"""Samples in, committed dataset out: plan, write the shards that are missing, check them, commit by one rename."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import Literal

from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import check_output, owner
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.commit.tfds_view import tfds_files
from shardfeed.converters.engines.choose_engine import choose_engine
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.missing_shards import Progress, check_shards, write_shards
from shardfeed.converters.planning.plan import DEFAULT_SHARD_SIZE, Plan, PlanOptions, inputs_listing, make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import (
    Report,
    all_rejected,
    counts_by_code,
    noted_lines,
    rejections_allowed,
    unasked,
    without_counted,
)
from shardfeed.converters.shards.task import Noted, Receipt
from shardfeed.converters.sources.source import Source, findings_of
from shardfeed.errors import (
    OutputExistsError,
    StorageError,
    TooManyRejectedError,
    escape,
)
from shardfeed.manifest import Manifest, SplitInfo, read_manifest
from shardfeed.naming import NORMALISED, REJECTED, dataset_name
from shardfeed.storage.local import Lock, exchange, fsync_directory, publish
from shardfeed.text import listing


def convert(
    source: Source,
    out: str | os.PathLike[str],
    *,
    split: Mapping[str, float] | None = None,
    shards: int | Mapping[str, int] | None = None,
    shard_size: int = DEFAULT_SHARD_SIZE,
    seed: int = 0,
    sha256: bool = True,
    image: ImageOptions | None = None,
    max_bad: int | str = 0,
    replace: bool = False,
    verify: bool = False,
    workers: int | None = None,
    start_method: str = "spawn",
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Convert `source` into the dataset directory `out`, or take up where an earlier, stopped run left off.

    The bytes depend on the source and on the options above `max_bad` alone: not on workers, engine or
    interruptions. A script needs no `__main__` guard: workers do not import it.

    Args:
        source: the samples; see `shardfeed.converters.sources.source`.
        out: the directory to create; its parent must exist.
        split: share of each split, adding up to 1, for samples whose source names no split; default all in "train".
        shards: number of shards of each split; default as many as `shard_size` (bytes of source images) asks for.
        seed: decides the order of samples, and their split where `split` draws it.
        sha256: store the hash of every source file.
        image: how images are checked and re-encoded.
        max_bad: rejected inputs allowed, a count or text like "0.5%"; more, and nothing is committed.
        replace: swap `out` for the new dataset when it exists.
        verify: read every byte again before the commit.
        workers: processes; default one for each CPU that this process is granted, with Ray one for each of the cluster.
        start_method: of those processes, "spawn" or "forkserver".
        engine: "local" for this machine, "ray" for the nodes of a Ray cluster, which must all see the images and the
            output under the same paths; needs `shardfeed[ray]`.
        address: "host:port" of the Ray cluster; default the one this process is connected to, that of RAY_ADDRESS, one
            that runs on this machine, or a new one here, in this order.
        progress: called a few times a second.

    Raises:
        UsageError: something about the arguments or the source; nothing was touched. Subclasses: OutputExistsError,
            PlanMismatchError (an unfinished conversion of something else is in the way).
        TooManyRejectedError: all is converted and kept; the same call with a higher `max_bad` only commits.
        StorageError, WorkerLostError: what is finished is kept; the same call resumes.
        BusyError: another process is converting into `out`.
    """
    started = time.monotonic()
    out = os.path.abspath(os.fspath(out))
    options = PlanOptions(split, shards, shard_size, seed, sha256, image or ImageOptions())
    staging = Staging(out)
    writers = choose_engine(engine, address, workers, start_method, staging.tries)
    skipped = findings_of(source).rejected
    allowed = rejections_allowed(max_bad, len(source) + len(skipped))
    check_output(out, replace=replace)
    lock = Lock(staging.lock, owner())
    try:
        committed = staging.committed(out)
        taken = OutputExistsError(out, "exists already", "choose another name, or replace it with --replace")
        if not committed:
            staging.sweep()
            if os.path.lexists(out) and not replace:
                raise taken
            writers.start(len(source))  # they take a while to come up: the plan is made meanwhile
        plan = make_plan(source, options)
        if committed:
            same = staging.is_of(_plan_json(plan), lambda: inputs_listing(source, plan))
            report = _finished_earlier(out, time.monotonic() - started)
            staging.clear()
            if same:
                return report
            if not replace:
                raise taken
        check_space(plan.forecast, out, staging.dataset)
        staging.begin(_plan_json(plan), lambda: inputs_listing(source, plan))
        receipts = write_shards(plan, source, staging, writers, progress)
        rejected = all_rejected(skipped, receipts)
        normalised = _sorted(noted for receipt in receipts for noted in receipt.normalised)
        manifest = _stage_manifest(out, plan, receipts, rejected, normalised, staging.dataset)
        check_shards(receipts, plan, staging.dataset, every_byte=verify)
        odd, counted = without_counted(noted for receipt in receipts for noted in receipt.warnings)
        images, size = writers.done()
        report = Report(
            out=out,
            committed=len(rejected) <= allowed,
            manifest=manifest,
            rejected=rejected,
            normalised=normalised,
            warnings=odd,
            notes=[*plan.findings.notes, *_absent_classes(plan, manifest), *counted, *writers.warnings],
            images=images,
            source_bytes=size,
            seconds=time.monotonic() - started,
        )
        if not report.committed:
            raise _too_many(report, allowed)
        if os.path.lexists(out) and not replace:  # it came while this ran
            raise taken
        check_output(out, replace=replace)
        _commit(staging, out, replace=os.path.lexists(out))
        return replace_fields(report, notes=[*report.notes, *_clear(staging)])
    finally:
        writers.stop()
        lock.release()


def _plan_json(plan: Plan) -> dict[str, object]:
    """What must agree for a resume to give the same bytes."""
    return {"options": plan.options.to_json(), "schema": plan.schema.to_json(), "made_by": dict(plan.made_by)}


def _stage_manifest(
    out: str,
    plan: Plan,
    receipts: Sequence[Receipt],
    rejected: Sequence[Noted],
    normalised: Sequence[Noted],
    directory: str,
) -> Manifest:
    """Write label columns, sidecars and manifest into `directory`, and remove what is not part of the dataset."""
    splits: dict[str, SplitInfo] = {}
    for split in plan.split_sizes():
        of_split = [receipt for receipt in receipts if receipt.split == split]
        splits[split] = split_info(directory, split, plan.schema, of_split)
    name = dataset_name(os.path.basename(out))
    sidecars = tfds_files(name, plan.schema, splits, plan.options.image)
    if rejected:
        sidecars[REJECTED] = noted_lines(rejected)
    if changed := unasked(normalised):
        sidecars[NORMALISED] = noted_lines(changed)
    return stage_manifest(
        directory,
        name=name,
        schema=plan.schema,
        splits=splits,
        sidecars=sidecars,
        fingerprint=plan.fingerprint,
        options=plan.options.to_json(),
        rejected=counts_by_code(rejected),
        made_by=plan.made_by,
    )


def _absent_classes(plan: Plan, manifest: Manifest) -> Iterator[str]:
    """A sentence for each drawn split that lacks classes: with few images a class, chance leaves some out."""
    for name, info in manifest.splits.items() if plan.drawn else ():
        for key, counts in info.class_counts.items():
            absent = [manifest.schema.class_names[key][label] for label, count in enumerate(counts) if not count]
            if absent:
                yield f"split {name} has no image of {len(absent)} classes: {listing(list(map(escape, absent)), 5)}"


def _commit(staging: Staging, out: str, *, replace: bool) -> None:
    staging.note_commit()
    if replace:
        exchange(staging.dataset, out)
    else:
        publish(staging.dataset, out)


def _clear(staging: Staging) -> Iterator[str]:
    """Remove what a committed dataset leaves behind; a sentence where that fails, which changes nothing about it."""
    try:
        staging.clear()
    except StorageError as error:
        yield f"the dataset is complete, but its leftovers could not be removed: {error}"


def _finished_earlier(out: str, seconds: float) -> Report:
    """The report of a run that finds its work committed: an earlier one was stopped between commit and clean-up."""
    fsync_directory(os.path.dirname(out))  # that run may have been stopped before this, too
    note = "an earlier run had committed this dataset; only its leftovers were removed"
    return Report(out, True, read_manifest(out), (), (), (), [note], 0, 0, seconds)


def _too_many(report: Report, allowed: int) -> TooManyRejectedError:
    first = ", ".join(f"{count} {code}" for code, count in report.manifest.rejected.items())
    error = TooManyRejectedError(
        report.out,
        f"{len(report.rejected)} inputs rejected ({first}), {allowed} allowed; all else is converted, not committed",
        f"repair them, or run again with --max-bad {len(report.rejected)} to commit at once",
    )
    error.report = report
    return error


def _sorted(noted: Iterator[Noted]) -> list[Noted]:
    return sorted(noted, key=lambda entry: (entry.key, entry.what, entry.why))

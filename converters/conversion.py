"""Conversion of samples to a committed dataset: plan, write the missing shards, check them, commit by one rename."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from dataclasses import replace as replaced
from typing import Annotated, NamedTuple

from shardfeed.converters.commit.finish import check_readable, finish
from shardfeed.converters.commit.output import Output, check_apart, check_output, check_untaken
from shardfeed.converters.commit.staging import Finished, LocalOutput, Staging, keep_shards
from shardfeed.converters.engines.choose_engine import RayWorkers, Workers, choose_engine, ended, typed_workers
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import DatasetOptions, Out, PlanOptions
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.samples import PlannedShard
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import MaxBad, RejectLimits, Remarks, Report, ResumedWork, typed_limits
from shardfeed.converters.shards.receipts import receipt_path, save_receipt
from shardfeed.converters.shards.task import Receipt, ReusableImage, ShardTask, checkpoint_path, shard_paths
from shardfeed.converters.sources.foreign import known
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import Sample, Source, info_of
from shardfeed.converters.sources.splits.split_list import SplitLists, check_all_have_splits, with_split_lists
from shardfeed.declared import Typed, checked, taking
from shardfeed.errors import TooManyRejectedError, UsageError, argument
from shardfeed.processes import in_notebook, progress_bar
from shardfeed.read_back import json_text
from shardfeed.storage.local import remove_file
from shardfeed.storage.storage import is_address, local_path


@checked
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options for what a conversion refuses or removes, as `convert` explains them."""

    max_bad: Annotated[MaxBad, Typed(parts=typed_limits)] = 0
    no_leaks: Annotated[bool, Typed("fail if a file or a group is in two splits")] = False
    replace: Annotated[bool, Typed("replace OUT when the new dataset is complete")] = False
    restart: Annotated[bool, Typed("discard an interrupted run and start over")] = False


@checked
@dataclass(frozen=True)
class PlannedConversion(OutputOptions, DatasetOptions):
    """The arguments of a conversion whose shards others write; `convert` explains them."""

    source: Annotated[
        Source | str | os.PathLike[str],
        Typed("folder (SOURCE/[train/]class/image), label file, annotations or shards"),
        "see shardfeed.converters.sources.source",
    ]
    out: Out
    split_list: SplitLists | None = field(default=None, kw_only=True)


class Job(NamedTuple):
    """A conversion that was asked for: the samples, the options, and where the dataset is made."""

    source: Source
    place: LocalOutput
    staging: Staging
    options: PlanOptions
    limits: RejectLimits
    replace: bool

    @classmethod
    def of(cls, asked: PlannedConversion, *, by_nodes: bool) -> "Job":
        """Check what was asked for. `by_nodes`: the nodes of a cluster send the shards to a bucket."""
        source, out = asked.source, asked.out
        if isinstance(source, str | os.PathLike):
            options_of_source = options_of({"group_column": asked.group_column})
            source = open_source(source, split_list=asked.split_list, options=options_of_source)
        elif asked.split_list:
            source = with_split_lists(source, asked.split_list)
        source = known(source)
        if is_address(out):
            from shardfeed.converters.commit.upload import Upload, UploadByNodes  # not above: a disk needs no client

            place: LocalOutput = (UploadByNodes if by_nodes else Upload)(os.fspath(out))
        else:
            place = LocalOutput(local_path(out))
        replace = place.may_replace(asked.replace)
        info = info_of(source)
        given = {option.name: getattr(asked, option.name) for option in fields(DatasetOptions)}
        given["image"] = asked.image or ImageOptions()
        options = PlanOptions(**given, made_with=info.made_with, onto=info.onto)
        if options.split_by == "hash" and options.fractions is None and info.onto is None:
            in_python = "split=Shares({'train': 0.9, 'test': 0.1}, 'hash')"
            shown = argument("split", python=in_python, typed="train=0.9,test=0.1")
            raise UsageError("split_by", "is how splits are drawn, and there are no shares", f"for example {shown}")
        if options.fractions is None and info.onto is None:
            check_all_have_splits(source)
        limits = RejectLimits.parse(asked.max_bad)
        check_apart(place.local, info.findings.folder)
        return cls(source, place, Staging(place.local), options, limits, replace)

    @property
    def out(self) -> str:
        """The directory that the dataset is made in (absolute); for a URL, one of temporary files."""
        return self.place.local

    @contextmanager
    def output(self, *, restart: bool = False) -> Iterator[Output]:
        """The output, locked for a block; see `Output.open`."""
        opened = Output.open(self.out, self.staging, replace=self.replace, restart=restart)
        with self.place.folder(), opened as output:
            yield output

    def rehearse(self, *, no_leaks: bool, restart: bool) -> Report:
        """Report the dataset that the conversion would make; nothing is converted.

        Raise the errors that the conversion would raise before it reads its first image. Other runs that work on the
        same output are not looked for: they may be done when this one begins.
        """
        out, staging, replace = self.out, self.staging, self.replace
        check_output(out, replace=replace)
        finished = not restart and staging.committed(out)  # whether an earlier run has only left something to clear up
        if not finished:
            check_untaken(out, replace=replace)
        plan = self._made_plan(no_leaks=no_leaks)
        try:
            self.limits.check_plan(out, plan)
        except TooManyRejectedError as error:
            error.report = Report.of_plan(out, plan, self.source)
            raise
        if restart:
            staging.check_ours()
        elif not (finished and staging.is_of(plan)):
            check_untaken(out, replace=replace)
            staging.left_by(plan)
        check_space(plan.forecast, out, staging.dataset)
        return Report.of_plan(out, plan, self.source)

    def plan(self, *, no_leaks: bool) -> Plan:
        """Plan the shards. Raises TooManyRejectedError if the source left out too much."""
        plan = self._made_plan(no_leaks=no_leaks)
        self.limits.check_plan(self.out, plan)
        return plan

    def _made_plan(self, *, no_leaks: bool) -> Plan:
        json_text("the dataset's manifest", {"options": self.options.to_json()})  # a source's own may hold anything
        plan = make_plan(self.source, self.options, no_leaks, os.path.dirname(self.out))
        check_readable(self.out, plan)
        return plan


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


@checked
@dataclass(frozen=True)
class Conversion(PlannedConversion):
    """The arguments of `convert`, which explains them."""

    _: KW_ONLY
    verify: Annotated[bool, Typed("read every byte again before committing")] = False
    dry_run: Annotated[bool, Typed("print the result, write nothing")] = False
    workers: Annotated[Workers, Typed(parts=typed_workers)] = None
    progress: Callable[[Progress], None] | None = None


@taking(Conversion)
def convert(asked: Conversion) -> Report:
    """Convert `source` into the dataset `out`, or continue where an earlier run stopped.

    Images may have been added, removed or repaired since then: only the affected shards are written again. The
    dataset's bytes depend only on the source and the options listed before `max_bad`, not on workers, engine or
    interruptions. A script needs no `__main__` guard: workers do not import it.

    Args:
        source: the samples: a path that `open_source` accepts (an image folder, a label file or annotations), a source
            from this package, or your own source (see `shardfeed.converters.sources.source`).
        out: the directory to create; its parent must exist. Or a URL such as "s3://bucket/name": the dataset is created
            in the temporary directory (TMPDIR), uploaded as the last step, and removed there. `RayWorkers` send their
            shards themselves.
        split: share of each split, adding up to 1, for samples without a split in the source; default: all in "train".
            Use `Shares` to choose how samples are drawn.
        split_list: files with the names of the images of each split, for samples with names: `{"train": "train.txt",
            "test": "test.txt"}`, or a table of names and splits; as in `open_source`.
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
    job = Job.of(asked, by_nodes=isinstance(asked.workers, RayWorkers))
    writers = choose_engine(asked.workers, job.staging.tries)
    if asked.dry_run:
        with job.place.folder():
            return job.place.reported(job.rehearse(no_leaks=asked.no_leaks, restart=asked.restart))
    # An engine ends before the lock is released (inner), and also if the output is refused (outer).
    with ended(writers), job.output(restart=asked.restart) as output, ended(writers):
        if not output.committed:
            writers.start(len(job.source))  # they take a while to come up: the plan is made meanwhile
        plan = job.plan(no_leaks=asked.no_leaks)
        return carry_out(job, plan, output, writers, started, verify=asked.verify, progress=asked.progress)


def carry_out(
    job: Job,
    plan: Plan,
    output: Output,
    writers: Engine,
    started: float,
    *,
    verify: bool = False,
    progress: Callable[[Progress], None] | None = None,
    anew: bool = True,
) -> Report:
    """Write the missing shards of `plan`, check all, and commit. `anew`: rewrite shards with unreadable images.

    Raises as `convert`.
    """
    out, staging, place = job.out, job.staging, job.place
    if manifest := output.finished(plan, place.send):
        return place.reported(Report.of_earlier_run(out, manifest, time.monotonic() - started))
    place.check_space(plan, staging)
    changed = staging.begin(plan)
    finished = place.finished(plan, staging, anew=anew)
    kept = keep_shards(plan, staging.dataset, every_byte=verify)
    with shown_in_notebook(progress) as listener:
        receipts = write_missing(plan, job.source, staging, finished, writers, listener, place.shards_go_to(staging))
    noticed = Remarks.of(plan, receipts)
    manifest = finish(out, plan, receipts, noticed, staging.dataset)
    place.check_shards(receipts, plan, staging, every_byte=verify)
    begun = ResumedWork(len(finished.receipts), finished.others.taken, changed)
    report = Report.of(out, plan, noticed, manifest, writers, begun, time.monotonic() - started)
    job.limits.check(report, inputs=len(plan) + len(plan.findings.rejected))
    return place.reported(report.committed_with([*kept, *output.commit(place.send)]))


@contextmanager
def shown_in_notebook(progress: Callable[[Progress], None] | None) -> Iterator[Callable[[Progress], None] | None]:
    """Return `progress`, or if it is None in a notebook, a listener that draws a bar."""
    if progress is not None or not in_notebook():
        yield progress
        return
    with progress_bar(unit=" images") as bar:

        def show(state: Progress) -> None:
            bar.total = state.images_planned
            bar.set_postfix_str(f"{state.shards}/{state.shards_planned} shards", refresh=False)
            bar.update(min(state.images, state.images_planned) - bar.n)  # a shard that is tried again counts twice

        yield show


def write_missing(
    plan: Plan,
    source: Source,
    staging: Staging,
    finished: Finished,
    engine: Engine,
    progress: Callable[[Progress], None] | None,
    directory: str = "",
) -> list[Receipt]:
    """Write the shards that are not `finished`, and return the receipts of all in the plan's order.

    `directory`: of the tasks, by default that of the staged dataset.

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

    def stored(shard: PlannedShard, samples: tuple[Sample, ...]) -> dict[int, ReusableImage]:
        return earlier.find(samples, plan.schema, plan.options.image, (shard.split, shard.number))

    def tasks() -> Iterator[ShardTask]:
        for left, shard in zip(reversed(range(len(missing))), missing, strict=True):
            task = shard_task(plan, source, shard, directory or staging.dataset)
            kept = stored(shard, task.samples)
            earlier.taken += len(kept)
            yield replaced(task, kept=kept, left=left)

    if earlier:  # the disk may not hold both all of them and the new ones: each is removed after its last use
        for shard in missing:
            stored(shard, samples_of(source, shard))
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


def samples_of(source: Source, shard: PlannedShard) -> tuple[Sample, ...]:
    """The samples of a shard, in order."""
    return tuple(source[int(i)] for i in shard.samples)


def shard_task(plan: Plan, source: Source, shard: PlannedShard, directory: str, receipts: str = "") -> ShardTask:
    """The task of a shard; `directory`, `receipts`: where to."""
    return ShardTask(
        directory=directory,
        split=shard.split,
        number=shard.number,
        count=shard.count,
        first=shard.first,
        samples=samples_of(source, shard),
        schema=plan.schema,
        image=plan.options.image,
        digest=plan.shard_digest(shard),
        format=plan.options.to,
        receipts=receipts,
        made_by=plan.made_by,
    )

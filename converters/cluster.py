"""Conversion on any cluster: tasks, which nodes carry out without a shared disk, and the commit."""

import time
from collections.abc import Callable, Iterator

from shardfeed.converters.commit.upload import Upload
from shardfeed.converters.conversion import Job, PlannedConversion, carry_out, shard_task
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.planning.samples import PlannedShard
from shardfeed.converters.report import Report
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.declared import checked, taking
from shardfeed.errors import UsageError
from shardfeed.text import listing, number

_NAMED = 3  # shards in a message


class ShardTasks:
    """The unfinished tasks of a conversion. Iterate over them, and pass each task to `write_shard` on any node.

    Afterwards, `commit_shards` publishes the dataset. Each iteration creates the tasks again, one at a time. A task
    contains the samples of one shard, and can be pickled.

    Example:
        tasks = shard_tasks("photos", "out")  # or URLs: "s3://bucket/photos"
        print(len(tasks))
    """

    def __init__(self, job: Job, plan: Plan, missing: list[PlannedShard]) -> None:
        self.job, self.plan, self._missing = job, plan, missing

    def __len__(self) -> int:
        return len(self._missing)

    def __iter__(self) -> Iterator[ShardTask]:
        place, staging = self.job.place, self.job.staging
        for shard in self._missing:
            yield shard_task(self.plan, self.job.source, shard, place.shards_go_to(staging), staging.receipts)

    def __repr__(self) -> str:
        return f"<{number(len(self._missing), 'task')} of {number(len(self.plan.shards), 'shard')}>"


@taking(PlannedConversion)
def shard_tasks(asked: PlannedConversion) -> ShardTasks:
    """Plan the conversion of `source` into `out`, for a cluster that runs `write_shard`, followed by `commit_shards`.

    The dataset is byte for byte the one that `convert` creates. After a kill, the same call returns the unfinished
    tasks.

    Args:
        source: as in `convert`. The nodes read the images from URLs, or from paths that are the same on every node.
        out: a URL such as "s3://bucket/name", or a directory that has this path in this process and on every node.
        split, split_list, group_column, group_pattern, group_duplicates, to, shards, seed, image, max_bad, no_leaks: as
            in `convert`.
        replace, restart: as in `convert`; a dataset in a bucket is never replaced. `restart` does not remove shards
            from a bucket.

    Raises: as `convert`, before any image is read.

    Example:
        tasks = shard_tasks("photos", "out", split={"train": 0.9, "validation": 0.1})
        for task in tasks:  # on the nodes of a cluster
            write_shard(task)
        report = commit_shards(tasks)
    """
    job = Job.of(asked, by_nodes=True)
    with job.output(restart=asked.restart) as output:
        plan = job.plan(no_leaks=asked.no_leaks)
        if output.committed and job.staging.is_of(plan):  # a commit was stopped before its end
            return ShardTasks(job, plan, [])
        job.place.check_space(plan, job.staging)
        job.staging.begin(plan)
        finished = job.place.finished(plan, job.staging, anew=True)
        finished.others.remove_unused()
        missing = [shard for shard in plan.shards if (shard.split, shard.number) not in finished.receipts]
        return ShardTasks(job, plan, missing)


@checked
def commit_shards(tasks: ShardTasks) -> Report:
    """Publish the dataset after `write_shard` has written its shards: check that none is missing, write the manifest.

    In a bucket, the size and CRC-32C of every shard are compared with its receipt, and the manifest is sent last;
    before that, the dataset cannot be opened. In a directory, one rename publishes the dataset.

    Args:
        tasks: the result of `shard_tasks`, in the same process. The receipts are read from the output.

    Raises:
        UsageError: some tasks are not done. Call `shard_tasks` again, which returns them.
        TooManyRejectedError: more inputs than `max_bad` were rejected. Call `shard_tasks` with a higher limit, and
            `commit_shards` again.
        OutputExistsError, IntegrityError, StorageError, BusyError: as in `convert`.

    Example:
        tasks = shard_tasks("photos", "out")
        for task in tasks:  # on the nodes of a cluster
            write_shard(task)
        report = commit_shards(tasks)
        print(report.notes, report.rejected)
    """
    job, started = tasks.job, time.monotonic()
    with job.output() as output:
        shown = job.place.url if isinstance(job.place, Upload) else job.out
        return carry_out(job, tasks.plan, output, _NoWorkers(shown), started, anew=False)


class _NoWorkers:
    """An engine that writes nothing, because all shards must exist. `out`: path or URL of the dataset."""

    def __init__(self, out: str) -> None:
        self.warnings: list[str] = []
        self._out = out

    def start(self, tasks: int) -> None:
        pass

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        """Raise UsageError if there is a task."""
        missing = [task.stem for task in tasks]
        if missing:
            problem = f"{number(len(missing), 'shard')} not written ({listing(missing, _NAMED)})"
            raise UsageError(self._out, problem, "call `shard_tasks` again, and write_shard for each of its tasks")
        yield from ()

    def done(self) -> tuple[int, int]:
        return 0, 0

    def stop(self) -> None:
        pass

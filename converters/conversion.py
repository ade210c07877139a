"""Samples in, committed dataset out: plan, write the shards that are missing, check them, commit by one rename."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import PIL
import simplejpeg
from PIL import features

import shardfeed
from shardfeed.budget import cpu_budget
from shardfeed.converters import transcode
from shardfeed.converters.engine import LocalEngine
from shardfeed.converters.image_options import ImageOptions
from shardfeed.converters.interop import tfds_files
from shardfeed.converters.plan import DEFAULT_SHARD_SIZE, Plan, PlannedShard, PlanOptions, inputs_listing, make_plan
from shardfeed.converters.receipts import load_receipt, receipt_path, save_receipt, still_whole
from shardfeed.converters.report import (
    Report,
    all_rejected,
    counts_by_code,
    noted_lines,
    rejections_allowed,
    unasked,
    without_counted,
)
from shardfeed.converters.shard_writer import Noted, Receipt, ShardTask
from shardfeed.converters.source import Sample, Skipped, Source
from shardfeed.converters.space import check_space
from shardfeed.converters.staging import Staging
from shardfeed.errors import IntegrityError, OutputExistsError, StorageError, TooManyRejectedError, UsageError, escape
from shardfeed.files import Lock, NewFile, exchange, file_checksum, publish, remove_file, write_file
from shardfeed.label_column import column_header, column_keys, column_name
from shardfeed.manifest import FileInfo, Manifest, SplitInfo, read_manifest
from shardfeed.naming import INDEX_SUFFIX, MANIFEST, NORMALISED, RECORD_SUFFIX, REJECTED, dataset_name, shard_stem
from shardfeed.schema import Schema


@dataclass(frozen=True)
class Progress:
    """How far a running conversion is: images read and planned, bytes of sources read, shards done and planned."""

    images: int
    images_planned: int
    source_bytes: int
    shards: int
    shards_planned: int


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
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Convert `source` into the dataset directory `out`, or take up where an earlier, stopped run left off.

    The bytes depend on the source and on the options above `max_bad` alone: not on workers, start method or
    interruptions. A script needs no `__main__` guard: workers do not import it.

    Args:
        source: the samples; see `shardfeed.converters.source`.
        out: the directory to create; its parent must exist.
        split: share of each split, adding up to 1, for samples whose source names no split; default all in "train".
        shards: number of shards of each split; default as many as `shard_size` (bytes of source images) asks for.
        seed: decides the order of samples, and their split where `split` draws it.
        sha256: store the hash of every source file.
        image: how images are checked and re-encoded.
        max_bad: rejected inputs allowed, a count or text like "0.5%"; more, and nothing is committed.
        replace: swap `out` for the new dataset when it exists.
        verify: read every byte again before the commit.
        workers: processes; default one for each CPU that this process is granted.
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
    engine = LocalEngine(cpu_budget() if workers is None else workers, start_method)
    skipped: Sequence[Skipped] = getattr(source, "rejected", ())
    allowed = rejections_allowed(max_bad, len(source) + len(skipped))
    _check_output(out, replace=replace)
    staging = Staging(out)
    lock = Lock(staging.lock, f"process {os.getpid()} on {socket.gethostname()}")
    try:
        if os.path.lexists(out) and not replace:
            if not staging.committed():
                raise OutputExistsError(out, "exists already", "choose another name, or replace it with --replace")
            staging.clear()
            return _finished_earlier(out, time.monotonic() - started)
        engine.start(len(source))  # they take a while to come up: the plan is made meanwhile
        plan = make_plan(source, options)
        check_space(plan, out, staging.dataset)
        staging.begin(_plan_json(plan), lambda: inputs_listing(source, plan))
        receipts = _write_shards(plan, source, staging, engine, progress)
        rejected = all_rejected(skipped, receipts)
        normalised = _sorted(noted for receipt in receipts for noted in receipt.normalised)
        manifest = _stage_manifest(out, plan, receipts, rejected, normalised, staging.dataset)
        _check_shards(receipts, plan, staging.dataset, every_byte=verify)
        warnings, counted = without_counted(noted for receipt in receipts for noted in receipt.warnings)
        images, size = engine.done()
        report = Report(
            out=out,
            committed=len(rejected) <= allowed,
            manifest=manifest,
            rejected=rejected,
            normalised=normalised,
            warnings=warnings,
            notes=[*getattr(source, "notes", ()), *_absent_classes(plan, manifest), *counted, *engine.warnings],
            images=images,
            source_bytes=size,
            seconds=time.monotonic() - started,
        )
        if not report.committed:
            raise _too_many(report, allowed)
        _commit(staging, out, replace=os.path.lexists(out))
        return report
    finally:
        engine.stop()
        lock.release()


def _check_output(out: str, *, replace: bool) -> None:
    """Refuse before any image is read what could not be written in the end."""
    parent = os.path.dirname(out)
    if not os.path.isdir(parent):
        raise UsageError(out, "its parent directory does not exist", f"create {parent} first")
    if os.path.lexists(out) and not os.path.isdir(out):
        raise OutputExistsError(out, "exists and is no directory", "choose another name")
    if replace and os.path.isdir(out) and not os.path.isfile(os.path.join(out, MANIFEST)):
        raise OutputExistsError(out, f"holds no {MANIFEST}: not a dataset, so not replaced", "choose another name")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(parent, "cannot be written", "choose another place, or change its permissions")


def _plan_json(plan: Plan) -> dict[str, object]:
    """What must agree for a resume to give the same bytes."""
    return {"options": plan.options.to_json(), "schema": plan.schema.to_json(), "made_by": _made_by(plan)}


def _made_by(plan: Plan) -> dict[str, str]:
    """Versions of what decides bytes: ours, the codecs that re-encode, and the one that refuses damaged images."""
    codecs = {name: str(features.version(name)) for name in ("libjpeg_turbo", "zlib") if features.check(name)}
    if plan.options.image.baseline:
        codecs[transcode.PACKAGE] = transcode.tool_version()
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": shardfeed.__version__, "pillow": PIL.__version__, **checker, **codecs}


def _write_shards(
    plan: Plan,
    source: Source,
    staging: Staging,
    engine: LocalEngine,
    progress: Callable[[Progress], None] | None,
) -> list[Receipt]:
    """Every shard's receipt in the plan's order, having written those that an earlier run did not."""
    receipts: dict[tuple[str, int], Receipt] = {}
    missing: list[PlannedShard] = []
    for shard in plan.shards:
        receipt = load_receipt(receipt_path(staging.receipts, shard.split, shard.number, shard.count))
        stem = os.path.join(staging.dataset, shard_stem(shard.split, shard.number, shard.count))
        if receipt is not None and still_whole(receipt, stem):
            receipts[shard.split, shard.number] = receipt
        else:
            missing.append(shard)
    before = len(plan) - sum(len(shard.samples) for shard in missing)
    shard_counts = {shard.split: shard.count for shard in plan.shards}

    def report_progress() -> None:
        if progress is not None:
            images, size = engine.done()
            progress(Progress(before + images, len(plan), size, len(receipts), len(plan.shards)))

    def tasks() -> Iterator[ShardTask]:
        for shard in missing:
            samples: tuple[Sample, ...] = tuple(source[int(i)] for i in shard.samples)
            yield ShardTask(
                directory=staging.dataset,
                split=shard.split,
                number=shard.number,
                count=shard.count,
                first=shard.first,
                samples=samples,
                schema=plan.schema,
                image=plan.options.image,
            )

    for receipt in engine.run(tasks(), report_progress):
        count = shard_counts[receipt.split]
        save_receipt(receipt_path(staging.receipts, receipt.split, receipt.number, count), receipt)
        receipts[receipt.split, receipt.number] = receipt
        report_progress()
    return [receipts[shard.split, shard.number] for shard in plan.shards]


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
        columns = _write_columns(directory, split, plan.schema, of_split)
        splits[split] = _split_info(split, of_split, columns)
    name = dataset_name(os.path.basename(out))
    sidecars = tfds_files(name, plan.schema, splits, plan.options.image)
    if rejected:
        sidecars[REJECTED] = noted_lines(rejected)
    if changed := unasked(normalised):
        sidecars[NORMALISED] = noted_lines(changed)
    infos = {file: FileInfo(*write_file(os.path.join(directory, file), data)) for file, data in sidecars.items()}
    manifest = Manifest(
        name=name,
        schema=plan.schema,
        splits=splits,
        sidecars=infos,
        fingerprint=plan.fingerprint,
        options=plan.options.to_json(),
        rejected=counts_by_code(rejected),
        made_by=_made_by(plan),
    )
    for file in set(os.listdir(directory)) - manifest.files().keys():
        remove_file(os.path.join(directory, file))
    write_file(os.path.join(directory, MANIFEST), manifest.to_bytes())
    return manifest


def _write_columns(directory: str, split: str, schema: Schema, receipts: Sequence[Receipt]) -> dict[str, FileInfo]:
    """The label columns of a split, put together from its shards'; none for a split without records."""
    records = sum(receipt.info.records for receipt in receipts)
    columns: dict[str, FileInfo] = {}
    for key in column_keys(split, schema) if records else ():
        with NewFile(os.path.join(directory, column_name(split, key))) as file:
            file.write([column_header(records)])
            for receipt in receipts:
                file.write([receipt.columns[key]])
        columns[key] = FileInfo(file.size, file.crc32c)
    return columns


def _split_info(name: str, receipts: Sequence[Receipt], columns: Mapping[str, FileInfo]) -> SplitInfo:
    counts: dict[str, list[int]] = {}
    formats: dict[str, int] = {}
    for receipt in receipts:
        for key, values in receipt.class_counts.items():
            totals = counts.setdefault(key, [0] * len(values))
            totals[:] = [a + b for a, b in zip(totals, values, strict=True)]
        for kind, number in receipt.formats.items():
            formats[kind] = formats.get(kind, 0) + number
    shards = tuple(receipt.info for receipt in receipts)
    return SplitInfo(name, shards, {key: tuple(values) for key, values in counts.items()}, formats, columns)


def _check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare what lies on disk with the receipts: sizes and index, and with `every_byte` all of it."""
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        stem = os.path.join(directory, shard_stem(shard.split, shard.number, shard.count))
        data, index = stem + RECORD_SUFFIX, stem + INDEX_SUFFIX
        found_data = file_checksum(data) if every_byte else (os.path.getsize(data), receipt.info.data.crc32c)
        expected_data = (receipt.info.data.size, receipt.info.data.crc32c)
        expected_index = (receipt.info.index.size, receipt.info.index.crc32c)
        for path, found, expected in (
            (data, found_data, expected_data),
            (index, file_checksum(index), expected_index),
        ):
            if found != expected:
                raise IntegrityError(
                    path,
                    f"got {found[0]} bytes with CRC-32C {found[1]:08x}, expected {expected[0]} with {expected[1]:08x}",
                    "the disk or something else changed it; check the disk, remove the file, run again",
                )


def _absent_classes(plan: Plan, manifest: Manifest) -> Iterator[str]:
    """A sentence for each drawn split that lacks classes: with few images a class, chance leaves some out."""
    for name, info in manifest.splits.items() if plan.drawn else ():
        for key, counts in info.class_counts.items():
            absent = [manifest.schema.class_names[key][label] for label, count in enumerate(counts) if not count]
            if absent:
                more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
                yield f"split {name} has no image of {len(absent)} classes: {', '.join(map(escape, absent[:5]))}{more}"


def _commit(staging: Staging, out: str, *, replace: bool) -> None:
    if replace:
        # After the swap the old dataset lies where the new one was built: no later run may take it for finished shards.
        staging.forget()
        exchange(staging.dataset, out)
    else:
        publish(staging.dataset, out)
    staging.clear()


def _finished_earlier(out: str, seconds: float) -> Report:
    """The report of a run that finds its work committed: an earlier one was stopped between commit and clean-up."""
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

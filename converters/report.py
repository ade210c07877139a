"""Report of a conversion, for people and scripts: counts, everything left out with its reason, and the time taken.

And the limits on what may be left out: beyond them nothing is committed.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.planning.append_target import ColumnsBefore
from shardfeed.converters.planning.groups import GroupShares
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.rejects import NOTHING, Account, AnnotationCode
from shardfeed.converters.shards.same_pictures import SamePictures, StoredSplit, same_pictures
from shardfeed.converters.shards.task import Receipt, Remark, noted_of
from shardfeed.converters.sources.source import Source
from shardfeed.declared import Typed, checked
from shardfeed.errors import (
    ShardfeedError,
    TooManyRejectedError,
    UsageError,
    argument,
    escape,
    name_bytes,
    name_text,
    shown,
)
from shardfeed.formats.format import ShardInfo
from shardfeed.manifest import Manifest, SplitInfo, version_of
from shardfeed.naming import dataset_name
from shardfeed.schema import LABEL, PNG16
from shardfeed.shard_table import ShardTable
from shardfeed.storage.storage import FileInfo
from shardfeed.text import in_usual_order, listing, number, some


class ResumedWork(NamedTuple):
    """Reusable work of an earlier, stopped run: number of shards kept, and of images taken over from its other shards.

    `changed`: in words, which inputs have changed since.
    """

    shards: int
    images: int
    changed: str

    def notes(self, shards: int) -> Iterator[str]:
        """A sentence about that, where inputs have changed; `shards`: of the dataset."""
        if self.changed:
            kept = f"{self.shards:,} of {number(shards, 'shard')} {'is' if 1 in (self.shards, shards) else 'are'} kept"
            others = f", and {number(self.images, 'image')} of the others" if self.images else ""
            yield f"since the earlier run: {self.changed}; {kept}{others}"


class Remarks(NamedTuple):
    """Remarks on single inputs, each list sorted by key.

    `rejected`: left out, while listing or while converting. `normalised`: stored with other bytes than the source's.
    `warnings`: stored, with something odd. `progressive`: number of JPEGs kept that decode slowly. `same`: pictures in
    two splits, or in two classes. `account`: of the annotations, including those that the source left out; None if
    there are none to account for.
    """

    rejected: Sequence[Remark]
    normalised: Sequence[Remark]
    warnings: Sequence[Remark]
    progressive: int
    same: SamePictures
    account: Account | None

    @classmethod
    def of(cls, plan: Plan, receipts: Sequence[Receipt]) -> "Remarks":
        """Collect the remarks on the source and on every shard."""
        rejected = [*listed_rejects(plan), *(noted for receipt in receipts for noted in receipt.rejected)]
        onto = plan.options.onto
        before = {name: info for name, info in onto.manifest.splits.items() if info.records} if onto else {}
        stored = [StoredSplit(name, info, ColumnsBefore(onto, info)) for name, info in before.items() if onto]
        return cls(
            rejected=sorted(rejected, key=lambda noted: noted.key),
            normalised=sorted((noted for receipt in receipts for noted in receipt.normalised), key=_by_key),
            warnings=sorted((noted for receipt in receipts for noted in receipt.warnings), key=_by_key),
            progressive=sum(receipt.progressive for receipt in receipts),
            same=same_pictures(plan.schema, [*stored, *receipts]),
            account=_account(plan, receipts),
        )


class Planned(NamedTuple):
    """Figures that only a dry run reports.

    `raw_bytes`: of pixels that would be stored, None if files are; `exact`: whether that is no estimate. `objects`:
    number before any is clipped or left out, None if there are no objects; `without_objects`: images without any.
    """

    raw_bytes: int | None
    exact: bool
    objects: int | None
    without_objects: int


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of `convert`.

    `out`: the output directory. `committed`: whether the directory exists now. `manifest`: the dataset's manifest, even
    if it was not committed. `rejected`: inputs left out, `normalised`: inputs stored with different bytes, `warnings`:
    inputs stored although unusual, each sorted by key. `notes`: sentences about the source and the run. `images`,
    `source_bytes`: read in this run, `seconds`: duration of this run. `kept`: shards that an earlier run had finished.
    `same_pictures`: images that occur, byte for byte the same, in two splits or two classes. `account`: how many
    annotations were read and written, and which were left out; None without annotations. `planned`: the plan of a dry
    run. `groups`: the shares that could be reached with groups kept together; None without groups.

    Example:
        report = convert("photos", "out", max_bad="1%")
        print(report.images, report.notes)
        print([(noted.key, noted.what) for noted in report.rejected])
    """

    out: str
    committed: bool
    manifest: Manifest
    rejected: Sequence[Remark]
    normalised: Sequence[Remark]
    warnings: Sequence[Remark]
    notes: Sequence[str]
    images: int
    source_bytes: int
    seconds: float
    kept: int = 0
    same_pictures: SamePictures = field(default_factory=SamePictures)
    account: Account | None = None
    planned: Planned | None = None
    groups: GroupShares | None = None

    def __repr__(self) -> str:
        splits = self.manifest.splits
        sizes = ", ".join(f"{name}: {splits[name].records:,}" for name in in_usual_order(splits))
        lists = ("rejected", "normalised", "warnings", "notes")
        counts = ", ".join(
            number(len(found), name.removesuffix("s"), name) for name in lists if (found := getattr(self, name))
        )
        return f"Report({self.out!r}, {'' if self.committed else 'not '}committed, {sizes}{counts and '; '}{counts})"

    def _repr_html_(self) -> str:
        from shardfeed.readers.dataset import open as open_dataset  # not above: only notebooks show it
        from shardfeed.readers.notebook import manifest_html, notes_html, pictures_html

        rejected = [f"rejected: {count:,} {code}" for code, count in counts_by_code(self.rejected).items()]
        try:
            dataset = open_dataset(self.out) if self.committed else None
        except ShardfeedError:  # moved or replaced since
            dataset = None
        picture = pictures_html(dataset[in_usual_order(dataset)[0]]) if dataset else ""
        return notes_html(repr(self), [*rejected, *self.notes]) + manifest_html(self.manifest) + picture

    @classmethod
    def of(
        cls,
        out: str,
        plan: Plan,
        noticed: Remarks,
        manifest: Manifest,
        engine: Engine,
        begun: ResumedWork,
        seconds: float,
    ) -> "Report":
        """Create the report of a conversion that is finished but not yet committed."""
        images, size = engine.done()
        notes = [*begun.notes(len(plan.shards)), *plan.findings.notes, *plan.notes]
        empty = (name for name, split in manifest.splits.items() if not split.records)
        notes += [f"split {name} is empty: every image of it was rejected" for name in empty]
        notes += [*_absent_classes(plan, manifest), *noticed.same.notes()]
        if plan.options.made_with is None:  # existing records: reported when they were made
            notes += _kept_slow(noticed.progressive, manifest)
        notes += engine.warnings
        return cls(
            out=out,
            committed=False,
            manifest=manifest,
            rejected=noticed.rejected,
            normalised=noticed.normalised,
            warnings=noticed.warnings,
            notes=notes,
            images=max(0, images - begun.images),
            source_bytes=size,
            seconds=seconds,
            kept=begun.shards,
            same_pictures=noticed.same,
            account=noticed.account,
            groups=plan.groups,
        )

    @classmethod
    def of_plan(cls, out: str, plan: Plan, source: Source) -> "Report":
        """Create the report of a dataset that is only planned: shards have no size, and hold all planned records."""
        nothing = FileInfo(0, 0)
        objects = _PlannedObjects(plan, source) if plan.schema.object_keys and plan.options.made_with is None else None
        splits: dict[str, SplitInfo] = {}
        for name in plan.split_sizes():
            shards = [len(shard) for shard in plan.shards if shard.split == name]
            infos = ShardTable.of(ShardInfo(records, nothing, nothing) for records in shards)
            counts = {LABEL: plan.class_counts[name]} if name in plan.class_counts else {}
            if objects is not None and OBJECT_LABEL in plan.schema.class_names:
                counts[OBJECT_LABEL] = tuple(objects.of_class[name].tolist())
            splits[name] = SplitInfo(name, infos, counts, version=version_of(plan.options.to), format=plan.options.to)
        figures = (None, 0) if objects is None else (objects.count, objects.without)
        manifest = Manifest(
            name=dataset_name(out),
            schema=plan.schema,
            splits=splits,
            sidecars={},
            fingerprint=plan.fingerprint,
            options=plan.options.to_json(),
            rejected=counts_by_code(listed_rejects(plan)),
            made_by=plan.made_by,
            version=version_of(plan.options.to),
            format=plan.options.to,
        )
        return cls(
            out=out,
            committed=False,
            manifest=manifest,
            rejected=listed_rejects(plan),
            normalised=(),
            warnings=(),
            notes=[*plan.findings.notes, *plan.notes],
            images=0,
            source_bytes=plan.source_bytes,
            seconds=0.0,
            account=plan.findings.account,
            planned=Planned(plan.forecast.pixels, plan.forecast.exact, *figures),
            groups=plan.groups,
        )

    @classmethod
    def of_earlier_run(cls, out: str, manifest: Manifest, seconds: float) -> "Report":
        """Create the report of a run that only cleans up after an earlier run, which was stopped after its commit."""
        note = "an earlier run had committed this dataset; only its temporary files were removed"
        kept = sum(len(split.shards) for split in manifest.splits.values())
        return cls(out, True, manifest, (), (), (), [note], 0, 0, seconds, kept)

    def committed_with(self, notes: Sequence[str]) -> "Report":
        """Return a copy that marks the dataset as committed. `notes`: remarks to add about the commit."""
        return replace(self, committed=True, notes=[*self.notes, *notes])

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable.

        `splits` and `dataset_*` describe the whole dataset; `images`, `source_bytes` and `seconds` describe this run
        alone: a run that only commits reads nothing.
        """
        left_out = [noted_json(noted) for noted in noted_of(self.account.left_out if self.account else ())]
        splits = self.manifest.splits
        return {
            "out": self.out,
            "committed": self.committed,
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.size,
                    "shards": len(split.shards),
                    "class_counts": {key: list(counts) for key, counts in split.class_counts.items()},
                }
                for name, split in splits.items()
            },
            "fingerprint": self.manifest.fingerprint,
            "features": self.manifest.schema.to_json(),
            "class_names": {key: list(names) for key, names in self.manifest.schema.class_names.items()},
            "rejected": [noted_json(noted) for noted in self.rejected],
            "normalised": dict(Counter(noted.what for noted in self.normalised)),
            "warnings": [noted_json(noted) for noted in self.warnings],
            "annotations": None if self.account is None else self.account.to_json(),
            "notes": list(self.notes),
            "dataset_images": sum(split.records for split in splits.values()),
            "dataset_bytes": sum(split.size for split in splits.values()),
            "shards_kept": self.kept,
            "same_pictures": self.same_pictures.to_json(),
            "groups": None if self.groups is None else asdict(self.groups),
            "images": self.images,
            "source_bytes": self.source_bytes,
            "seconds": round(self.seconds, 3),
            "planned": None if self.planned is None else {**self.planned._asdict(), "left_out": left_out},
        }


class _PlannedObjects:
    """The objects of planned images: `count`, images `without`, and those `of_class`, int64 [classes], by split."""

    def __init__(self, plan: Plan, source: Source) -> None:
        classes = len(plan.schema.class_names.get(OBJECT_LABEL, ()))
        self.count = self.without = 0
        self.of_class = {name: np.zeros(classes, np.int64) for name in plan.split_sizes()}
        for shard in plan.shards:
            for i in shard.samples.tolist():
                objects = source[i].objects
                if objects is None or not len(objects):
                    self.without += 1
                    continue
                self.count += len(objects)
                labels = np.asarray(objects.columns.get(OBJECT_LABEL, ()), np.int64)
                np.add.at(self.of_class[shard.split], labels[(labels >= 0) & (labels < classes)], 1)


def noted_json(noted: Remark) -> dict[str, str]:
    """A line of `rejected.jsonl` or `normalised.jsonl`; bytes that are not UTF-8 become lone surrogates."""
    return {"key": name_text(noted.key), "code": noted.what, "reason": noted.why}


def noted_lines(entries: Sequence[Remark]) -> bytes:
    """The content of `rejected.jsonl` and its like: one object per line, in this order."""
    return b"".join(json.dumps(noted_json(noted), sort_keys=True).encode() + b"\n" for noted in entries)


def listed_entries(lines: bytes) -> Iterator[dict[str, str]]:
    """The entries of `rejected.jsonl` and its like; a line that `noted_lines` did not write is left out.

    An adopted folder may have a file of another program by such a name.
    """
    for line in lines.splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            value = json.loads(line)
            entry = {name: value[name] for name in ("key", "code", "reason")}
            name_bytes(entry["key"])  # of a file, as readers ask for it
            if all(isinstance(text, str) for text in entry.values()):
                yield entry


def unrequested(normalised: Sequence[Remark]) -> list[Remark]:
    """Images changed without a request by the options: only these are listed."""
    return [noted for noted in normalised if not noted.asked]


def _account(plan: Plan, receipts: Sequence[Receipt]) -> Account | None:
    """Account of all annotations, sorted by key. Raise IntegrityError if one is neither written nor listed."""
    found = plan.findings.account
    if found is None and (not plan.schema.object_keys or plan.options.made_with is not None):
        return None
    account = Account.total([found or Account(), *(receipt.account for receipt in receipts)])
    account.check("annotations")
    lists = (account.left_out, account.clips)
    left_out, clips = (tuple(sorted(of, key=lambda one: (one.key, one.reason))) for of in lists)
    return replace(account, left_out=left_out, clips=clips)


def _kept_slow(progressive: int, manifest: Manifest) -> Iterator[str]:
    """Sentences about progressive JPEGs, which may be very many, and PNGs among JPEGs, at which some decoders stop."""
    if progressive:
        images = number(progressive, "progressive JPEG was", "progressive JPEGs were")
        slow = f"{images} kept, which decode 2.7 times slower than baseline JPEGs"
        yield f"{slow}: --baseline (in Python ImageOptions(baseline=True)) converts them without loss"
    kinds = PNG16, "png", "jpeg"
    deep, pngs, jpegs = (sum(split.formats.get(kind, 0) for split in manifest.splits.values()) for kind in kinds)
    if deep and pngs + jpegs:
        yield f"{deep:,} of {deep + pngs + jpegs:,} images have 16 bits, and a batch has 16 or 8: select one of the two"
    if pngs and jpegs:
        mixed = f"{number(pngs, 'PNG is', 'PNGs are')} among {jpegs:,} JPEGs, but some readers only decode JPEG"
        yield f"{mixed}: --png-to-jpeg (in Python ImageOptions(png_to_jpeg=True)) stores all as JPEG"


def _by_key(noted: Remark) -> tuple[bytes, str, str]:
    return noted.key, noted.what, noted.why


def _absent_classes(plan: Plan, manifest: Manifest) -> Iterator[str]:
    """A sentence for each drawn split that lacks classes: with few images a class, chance leaves some out."""
    for name, info in manifest.splits.items() if plan.drawn else ():
        for key, counts in info.class_counts.items():
            names = manifest.schema.class_names[key]
            absent = [escape(names[label]) for label, count in enumerate(counts) if not count]
            if absent:
                classes = number(len(absent), "class", "classes")
                yield f"split {name} has no image of {classes}: {listing(absent, 5)}"


def listed_rejects(plan: Plan) -> list[Remark]:
    """Images that the source itself left out, sorted by key."""
    return sorted(noted_of(plan.findings.rejected), key=lambda noted: noted.key)


def counts_by_code(rejected: Sequence[Remark]) -> Mapping[str, int]:
    """Number of rejected inputs by code, codes sorted."""
    return dict(sorted(Counter(noted.what for noted in rejected).items()))


@dataclass(frozen=True)
class RejectLimit:
    """Number of inputs that may be left out: a count, or a share of all, which is rounded down."""

    count: int = 0
    share: float | None = None

    @classmethod
    def parse(cls, most: int | str, name: str = "max_bad") -> "RejectLimit":
        """Parse a count, or text like "12" or "0.5%". Raise UsageError for anything else; `name`: of the argument."""
        text = most.strip() if isinstance(most, str) else shown(most)
        try:
            found = cls(share=float(text[:-1]) / 100) if text.endswith("%") else cls(int(text))
        except ValueError:
            raise UsageError(name, f"got {shown(text)}, expected a count or a percentage like 0.5%") from None
        if found.count < 0 or (found.share is not None and not 0 <= found.share <= 1):
            raise UsageError(name, f"got {shown(text)}, expected 0 or more, at most 100%")
        return found

    @property
    def text(self) -> str:
        """The limit as `parse` takes it."""
        return str(self.count) if self.share is None else f"{100 * self.share:g}%"

    def allowed(self, total: int) -> int:
        """Number of inputs that may be left out of `total`."""
        return self.count if self.share is None else int(self.share * total)


MaxBad = int | str | Mapping[str, int | str]


@checked
def typed_limits(
    max_bad: Annotated[str, Typed("rejected images allowed (default 0)", "N|P%")] = "0",
    max_bad_objects: Annotated[str, Typed("rejected annotations allowed (default 0)", "N|P%")] = "0",
) -> MaxBad:
    """Make the `max_bad` of a command line."""
    return {"images": max_bad, "objects": max_bad_objects}


class RejectLimits(NamedTuple):
    """Limits for rejected images and for rejected annotations."""

    images: RejectLimit
    objects: RejectLimit

    @classmethod
    def parse(cls, max_bad: MaxBad) -> "RejectLimits":
        """Make the limits from one for images alone, or from a mapping with "images" and "objects".

        Raise UsageError for other names.
        """
        most = max_bad if isinstance(max_bad, Mapping) else {"images": max_bad}
        for name in most.keys() - {"images", "objects"}:
            raise UsageError("max_bad", f"got {name!r}, expected 'images' or 'objects'")
        return cls(
            RejectLimit.parse(most.get("images", 0)), RejectLimit.parse(most.get("objects", 0), "max_bad_objects")
        )

    def check_plan(self, out: str, plan: Plan) -> None:
        """Raise TooManyRejectedError if the source itself left out more than allowed; no image is converted then."""
        without = f"leave them out with {argument('exclude', typed='PATTERN')}, "
        without = "" if plan.findings.in_files else without
        remedy = f"nothing was written; repair or remove them, {without}or run again with "
        rejected = listed_rejects(plan)
        if (allowed := self.images.allowed(len(plan) + len(rejected))) < len(rejected):
            enough = self._enough("images", len(rejected))
            raise _too_many(out, rejected, "input", f"{allowed:,} allowed", remedy + enough)
        remedy = "nothing was written; repair them, or run again with "
        account = plan.findings.account or NOTHING
        bad, allowed = noted_of(account.bad), self.objects.allowed(account.read + plan.annotations)
        if len(bad) > allowed:
            enough = f"{self._enough('objects', len(bad))} (or more: the images have not been read yet)"
            if doubt := _one_cause(bad, account.read + plan.annotations):
                remedy, enough = "nothing was written; ", doubt
            raise _too_many(out, bad, "annotation", f"{allowed:,} allowed", remedy + enough)

    def _enough(self, name: str, count: int) -> str:
        """The argument that allows for `count` images, or objects, and for as many of the others as now."""
        limits = {"images": self.images, "objects": self.objects}
        allowed: dict[str, int | str] = {kind: limit.text for kind, limit in limits.items() if limit.text != "0"}
        allowed[name] = count
        python = f"max_bad={count if [*allowed] == ['images'] else allowed}"
        return argument("max_bad" if name == "images" else "max_bad_objects", count, python=python)

    def check(self, report: Report, inputs: int) -> None:
        """Raise TooManyRejectedError, with `report` attached, if more was left out than allowed.

        `inputs`: number of images, rejected ones included. If all are rejected, it is raised whatever the limit: an
        empty dataset is of no use, and a script would not notice it.
        """
        rejected, allowed, account = report.rejected, self.images.allowed(inputs), report.account or NOTHING
        kept = "the rest is converted, not committed; repair or remove them and run the same command again, "
        if not any(split.records for split in report.manifest.splits.values()):
            remedy = "the dataset would be empty, so it is not committed; "
            remedy += "repair or replace them, and run the same command again"
            error = _too_many(report.out, rejected, "input", "all of them", remedy)
        elif len(rejected) > allowed:
            remedy = f"{kept}or run again with {self._enough('images', len(rejected))} to commit at once"
            error = _too_many(report.out, rejected, "input", f"{allowed:,} allowed", remedy)
        elif len(bad := noted_of(account.bad)) > (allowed := self.objects.allowed(account.read)):
            remedy = f"{kept}or run again with {self._enough('objects', len(bad))} to commit at once"
            remedy = _one_cause(bad, account.read) or remedy
            error = _too_many(report.out, bad, "annotation", f"{allowed:,} allowed", remedy)
        else:
            return
        error.report = report
        raise error


_FEW = 4  # annotations that do not tell a wrong reading from faults of their own
_CAUSES = {
    AnnotationCode.BOX_OUTSIDE: "corners may be taken for sizes, or the boxes are of images of another size",
    AnnotationCode.BOX_EMPTY: "sizes may be taken for corners, or the corners are in another order",
    AnnotationCode.CATEGORY: "its class numbers may begin at another number than the classes",
    AnnotationCode.ORPHAN: "its ids of images may be written in another way than those of the images",
    AnnotationCode.KEYPOINTS: "its key points may be those of another list of names",
    AnnotationCode.OUTLINE: "its runs may be relative to each other, or its outlines in another unit or form",
    AnnotationCode.VALUE: "its columns or keys may mean something else",
    AnnotationCode.LINE: "its lines may have another form",
}


def _one_cause(bad: Sequence[Remark], read: int) -> str:
    """The remedy where most of the annotations fail for one cause: not they are wrong, but the reading; else ""."""
    code, count = next(iter(Counter(noted.what for noted in bad).most_common(1)), ("", 0))
    if read < _FEW or 2 * count <= read or code not in _CAUSES:
        return ""
    cause = _CAUSES[AnnotationCode(code)]
    return f"{count:,} of {read:,} fail alike, so the file means something else than is read: {cause}; correct it"


def _too_many(out: str, rejected: Sequence[Remark], what: str, limit: str, remedy: str) -> TooManyRejectedError:
    """The error, which names the first rejected inputs; `limit`: the limit exceeded."""
    codes = ", ".join(f"{count:,} {code}" for code, count in counts_by_code(rejected).items())
    of_inputs = what == "input"  # which often share a reason
    first = some(noted.key if of_inputs else f"{name_text(noted.key)}, {noted.why}" for noted in rejected)
    first += f"; the first: {rejected[0].why}" if of_inputs and rejected and rejected[0].why else ""
    done = "rejected" if of_inputs else "left out"
    error = TooManyRejectedError(out, f"{number(len(rejected), what)} {done} ({codes}: {first}), {limit}", remedy)
    error.rejected = tuple(rejected)
    return error

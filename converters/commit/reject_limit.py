"""Limits on how many images and annotations may be left out. Beyond them nothing is committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.report import Report, counts_by_code, listed_rejects
from shardfeed.converters.shards.task import Noted, noted_of
from shardfeed.converters.sources.objects import NOTHING
from shardfeed.errors import TooManyRejectedError, UsageError, argument, name_text
from shardfeed.text import number, some


@dataclass(frozen=True)
class RejectLimit:
    """Number of inputs that may be left out: a count, or a share of all, which is rounded down."""

    count: int = 0
    share: float | None = None

    @classmethod
    def of(cls, most: int | str, name: str = "max_bad") -> "RejectLimit":
        """Parse a count, or text like "12" or "0.5%". Raise UsageError for anything else; `name`: of the argument."""
        text = str(most).strip()
        try:
            found = cls(share=float(text[:-1]) / 100) if text.endswith("%") else cls(int(text))
        except ValueError:
            raise UsageError(name, f"got {text!r}, expected a count or a percentage like 0.5%") from None
        if found.count < 0 or (found.share is not None and not 0 <= found.share <= 1):
            raise UsageError(name, f"got {text!r}, expected 0 or more, at most 100%")
        return found

    @property
    def text(self) -> str:
        """The limit as `of` takes it."""
        return str(self.count) if self.share is None else f"{100 * self.share:g}%"

    def allowed(self, total: int) -> int:
        """Number of inputs that may be left out of `total`."""
        return self.count if self.share is None else int(self.share * total)


MaxBad = int | str | Mapping[str, int | str]


class RejectLimits(NamedTuple):
    """Limits for rejected images and for rejected annotations."""

    images: RejectLimit
    objects: RejectLimit

    @classmethod
    def of(cls, max_bad: MaxBad) -> "RejectLimits":
        """Make the limits from one for images alone, or from a mapping with "images" and "objects".

        Raise UsageError for other names.
        """
        most = max_bad if isinstance(max_bad, Mapping) else {"images": max_bad}
        for name in most.keys() - {"images", "objects"}:
            raise UsageError("max_bad", f"got {name!r}, expected 'images' or 'objects'")
        return cls(RejectLimit.of(most.get("images", 0)), RejectLimit.of(most.get("objects", 0), "max_bad_objects"))

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
            error = _too_many(report.out, bad, "annotation", f"{allowed:,} allowed", remedy)
        else:
            return
        error.report = report
        raise error


def _too_many(out: str, rejected: Sequence[Noted], what: str, limit: str, remedy: str) -> TooManyRejectedError:
    """The error, which names the first rejected inputs; `limit`: the limit exceeded."""
    codes = ", ".join(f"{count:,} {code}" for code, count in counts_by_code(rejected).items())
    of_inputs = what == "input"  # which often share a reason
    first = some(noted.key if of_inputs else f"{name_text(noted.key)}, {noted.why}" for noted in rejected)
    first += f"; the first: {rejected[0].why}" if of_inputs and rejected and rejected[0].why else ""
    done = "rejected" if of_inputs else "left out"
    error = TooManyRejectedError(out, f"{number(len(rejected), what)} {done} ({codes}: {first}), {limit}", remedy)
    error.rejected = tuple(rejected)
    return error

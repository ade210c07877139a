"""A conversion that was asked for: its arguments are checked, and nothing is read or written yet."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, NamedTuple

from shardfeed.converters.commit.local_place import LocalPlace
from shardfeed.converters.commit.output import Output, check_apart, check_output, check_untaken
from shardfeed.converters.commit.reject_limit import MaxBad, RejectLimits
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import PlanOptions, number_or_size
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.planning.split_shares import Groups, Shares
from shardfeed.converters.report import Report
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import TooManyRejectedError, UsageError, argument
from shardfeed.storage.address import is_address, local_path

SourceLike = Annotated[Source | str | os.PathLike[str], "see shardfeed.converters.sources.source"]
ImageLike = Annotated[ImageOptions | None, "for example ImageOptions(size=64)"]


class Job(NamedTuple):
    """A conversion that was asked for: the samples, the options, and where the dataset is made."""

    source: Source
    place: LocalPlace
    staging: Staging
    options: PlanOptions
    limits: RejectLimits
    replace: bool

    @classmethod
    def of(
        cls,
        source: Source | str | os.PathLike[str],
        out: str | os.PathLike[str],
        split: Mapping[str, float] | Shares | None,
        groups: Groups,
        to: str,
        shards: int | str | Mapping[str, int] | None,
        seed: int,
        image: ImageOptions | None,
        max_bad: MaxBad,
        *,
        replace: bool,
        by_nodes: bool,
    ) -> "Job":
        """Check the arguments of `convert`. `by_nodes`: the nodes of a cluster send the shards to a bucket."""
        if isinstance(source, str | os.PathLike):
            source = open_source(source, options=options_of({"group_column": groups.column}))
        if is_address(out):
            from shardfeed.converters.commit.upload import Upload, UploadByNodes  # not above: a disk needs no client

            place: LocalPlace = (UploadByNodes if by_nodes else Upload)(os.fspath(out))
        else:
            place = LocalPlace(local_path(out))
        replace = place.may_replace(replace)
        info = info_of(source)
        drawn, (number, size) = Shares.of(split), number_or_size(shards)
        if drawn.by == "hash" and drawn.shares is None and info.onto is None:
            in_python = "split=Shares({'train': 0.9, 'test': 0.1}, 'hash')"
            shown = argument("split", python=in_python, typed="train=0.9,test=0.1")
            raise UsageError("split_by", "is how splits are drawn, and there are no shares", f"for example {shown}")
        image = image or ImageOptions()
        made_with, onto = info.made_with, info.onto
        options = PlanOptions(drawn.shares, number, size, seed, image, drawn.by, to, made_with, onto, groups)
        limits = RejectLimits.of(max_bad)
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
        plan = make_plan(self.source, self.options, no_leaks, os.path.dirname(out))
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
        plan = make_plan(self.source, self.options, no_leaks, os.path.dirname(self.out))
        self.limits.check_plan(self.out, plan)
        return plan

"""A conversion that writes nothing: its report, or the error that it would raise."""

import os

from shardfeed.converters.commit.output import check_output, check_untaken
from shardfeed.converters.commit.reject_limit import RejectLimits
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import Report
from shardfeed.converters.sources.source import Source
from shardfeed.errors import TooManyRejectedError


def rehearse(
    out: str,
    source: Source,
    options: PlanOptions,
    limits: RejectLimits,
    staging: Staging,
    *,
    no_leaks: bool,
    replace: bool,
    restart: bool,
) -> Report:
    """Report the dataset that a conversion into `out` (absolute) would make; nothing is converted.

    Raise the errors that the conversion would raise before it reads its first image. Other runs that work on the same
    output are not looked for: they may be done when this one begins.
    """
    check_output(out, replace=replace)
    finished = not restart and staging.committed(out)  # whether an earlier run has only left something to clear up
    if not finished:
        check_untaken(out, replace=replace)
    plan = make_plan(source, options, no_leaks, os.path.dirname(out))
    try:
        limits.check_plan(out, plan)
    except TooManyRejectedError as error:
        error.report = Report.of_plan(out, plan, source)
        raise
    if restart:
        staging.check_ours()
    elif not (finished and staging.is_of(plan)):
        check_untaken(out, replace=replace)
        staging.left_by(plan)
    check_space(plan.forecast, out, staging.dataset)
    return Report.of_plan(out, plan, source)

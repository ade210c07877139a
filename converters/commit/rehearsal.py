"""A conversion that writes nothing: what it would make, or why it would be refused."""

from shardfeed.converters.commit.output import check_output, check_untaken
from shardfeed.converters.commit.reject_limit import RejectLimits
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import Report
from shardfeed.converters.sources.source import Source


def rehearse(
    out: str,
    source: Source,
    options: PlanOptions,
    limits: RejectLimits,
    staging: Staging,
    *,
    replace: bool,
    restart: bool,
) -> Report:
    """What a conversion into `out` (absolute) would make. Raises what it would before it reads the first image."""
    plan = make_plan(source, options)
    limits.check_plan(out, plan)
    _check_place(out, staging, plan, replace=replace, restart=restart)
    check_space(plan.forecast, out, staging.dataset)
    return Report.of_plan(out, plan)


def _check_place(out: str, staging: Staging, plan: Plan, *, replace: bool, restart: bool) -> None:
    """Raises what the run would, of its output and of what an earlier run left.

    It does not look whether another run is at it: that one may be done when this one begins.
    """
    check_output(out, replace=replace)
    if not restart and staging.committed(out) and staging.is_of(plan):
        return  # there is only something to clear up
    check_untaken(out, replace=replace)
    if restart:
        staging.check_ours()
    else:
        staging.left_by(plan)

"""The decision on a refusal: what of its advice is printed, and which other readings are offered.

- A clause that names no option is the user's to do, and stays.
- A clause that names options stays if the request with them, tried here on the user's own files, holds (`rules`).
- Where one does not, up to three other readings that hold stand in its place, each with what it gives.
"""

from collections.abc import Iterator

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.recognition.advice import Clause, clauses_of
from shardfeed.converters.sources.recognition.alternatives import Change, alternatives
from shardfeed.converters.sources.recognition.request import Request
from shardfeed.converters.sources.recognition.trial import Opener, Trials
from shardfeed.errors import SOURCE, LabelFileError, MissingExtraError, ShardfeedError, UsageError, argument, arguments_in, as_source

_MOST = 3  # readings that a message offers


def with_tried_advice(refusal: UsageError, request: Request, opened: Opener) -> UsageError:
    """Return the refusal of a request with advice that was tried; the same error, where none of it fails.

    `opened`: what opens a request and gives no advice of its own. Where the user said how the source is to be read, or
    a cell of a table is at fault, advice is about that, and stays.
    """
    if request.is_narrowed or isinstance(refusal, LabelFileError | MissingExtraError):
        return refusal
    trials = Trials(opened)
    clauses = [*clauses_of(refusal)]
    kept = [clause for clause in clauses if clause.change is None or _leads_on(clause.change, request, refusal, trials)]
    if len(kept) == len(clauses):
        return refusal
    remedy = "; ".join([*(clause.text for clause in kept), *_offers(request, trials, kept)])
    return type(refusal)(refusal.args[0], refusal.args[1], remedy)


def _leads_on(change: Change, request: Request, refusal: ShardfeedError, trials: Trials) -> bool:
    """Whether a request holds with a change, or is refused for another reason, with advice of its own."""
    verdict = trials.of(request.changed(change))
    if verdict.refusal is None:
        return verdict.holds
    has_advice = bool(verdict.refusal.remedy) or bool(arguments_in(verdict.refusal))
    return has_advice and verdict.refusal.problem != refusal.problem


def _offers(request: Request, trials: Trials, kept: list[Clause]) -> Iterator[str]:
    """Yield up to three further readings that hold, as what is to be typed, and what each gives."""
    said = [request.changed(clause.change) for clause in kept if clause.change]
    room = _MOST - len(said)
    for change in alternatives(Look(request.path, **request.wanted)):
        new = request.changed(change)
        if not room:
            return
        if new in said or new == request or not (verdict := trials.of(new)).holds:
            continue
        yield f"{_typed(change)} gives {verdict.outcome}"
        room -= 1


def _typed(change: Change) -> str:
    """A change as it is typed."""
    parts = (as_source(value) if name == SOURCE else argument(name, value) for name, value in change.items())
    return " with ".join(parts)

"""Trials: a request is opened as the user would, and what it gives is judged, before a message names it."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from shardfeed.converters.sources.recognition.outcome import Outcome
from shardfeed.converters.sources.recognition.request import Request
from shardfeed.converters.sources.recognition.rules import ALL, Rule, faults_of
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError

Opener = Callable[[Request], Source]


class Verdict(NamedTuple):
    """The result of a trial: what the request gives and what speaks against that, or the error that refuses it.

    A request holds if it gives something, and nothing speaks against it.
    """

    outcome: Outcome | None = None
    faults: tuple[str, ...] = ()
    refusal: ShardfeedError | None = None

    @property
    def holds(self) -> bool:
        """Whether advice may end here."""
        return self.outcome is not None and not self.faults


class Trials:
    """Trials of readings of one source, each made once. `opened`: what opens a request, or raises ShardfeedError.

    Example:
        trials = Trials(opened)
        verdict = trials.of(request.changed({"unlabelled": True}))
        if verdict.holds:
            print(verdict.outcome)                            # 1,200 images, train 1,000, test 200
    """

    def __init__(self, opened: Opener, rules: Iterable[Rule] = ALL) -> None:
        self._opened, self._rules = opened, tuple(rules)
        self._made: list[tuple[Request, Verdict]] = []

    def of(self, request: Request) -> Verdict:
        """Return what trying a request showed."""
        for tried, verdict in self._made:
            if tried == request:
                return verdict
        verdict = self._judged(request)
        self._made.append((request, verdict))
        return verdict

    def _judged(self, request: Request) -> Verdict:
        try:
            source = self._opened(request)
        except ShardfeedError as refusal:
            return Verdict(refusal=refusal)
        except Exception:  # of a reader of somebody else's: it does not hold, and the refusal is what the user needs
            return Verdict()
        if not isinstance(source, ColumnarSource):
            return Verdict()
        outcome = Outcome(source)
        return Verdict(outcome, tuple(faults_of(outcome, self._rules)))

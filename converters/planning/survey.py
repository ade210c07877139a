"""The first look at all samples of a source: what a plan keeps of each."""

from shardfeed.converters.planning.groups import Members
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.samples import (
    MOST_SPLITS,
    Inputs,
    OwnSamples,
    PlanRows,
    check_any_left,
    sample_size,
    sample_state,
)
from shardfeed.converters.planning.split_shares import draw, has_label, label_of
from shardfeed.converters.sources.foreign import survey
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.source import FinishedRecord, Sample, Source
from shardfeed.errors import UsageError
from shardfeed.naming import check_split_name
from shardfeed.schema import Schema


class PlanSurvey:
    """All samples of a source, each looked at once: their rows, states and groups.

    `names`: of the splits that samples name, each with its number. `unnamed`: samples whose split is to be drawn.
    `annotations`: number of objects.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        options: PlanOptions,
        *,
        no_leaks: bool,
        directory: str | None,
        buckets: int | None,
    ) -> None:
        self.source, self.schema, self.options = source, schema, options
        self.rows, self.inputs = PlanRows(len(source), directory, buckets), Inputs(directory)
        self.names: dict[str, int] = {}
        self.related = Members(options, source.schema, no_leaks=no_leaks) if options.groups or no_leaks else None
        self.labelled = has_label(schema)
        self.annotations = self.unnamed = 0
        self._features = sorted(source.schema.features)
        self._own = OwnSamples(source)

    def read(self) -> None:
        """Read all. Raises UsageError for one that no dataset can hold, TooManyRejectedError if none is left."""
        count = len(self.source)
        for i, number, sample in survey(self.source):
            if not i % EVERY:
                report_progress("planning", i, count)
            self._add(i, number, sample)
        report_progress("planning", count, count)
        check_any_left(self.source)
        self.rows.end()
        self._own.check_unique(self.source)
        for name in self.names:
            check_split_name(name)
        if self.related is not None:
            self.related.read_hashes(self.source)

    def _add(self, i: int, number: int, sample: Sample) -> None:
        self._own.check(number, sample)
        size = sample_size(sample)
        state = sample_state(sample, size, self._features)
        if self.related is not None:
            self.related.add(sample)
        self.inputs.add(sample.key, state)
        self.annotations += len(sample.objects or ())
        split = -1 if sample.split is None else self._split(number, sample.split)
        self.unnamed += split < 0
        label = label_of(sample) if self.labelled else 0
        self.rows.add(draw(sample.key, self.options.seed), i, state, size, label, split, _has_own_id(sample))

    def _split(self, number: int, name: str) -> int:
        """The number of the split that sample `number` names."""
        split = self.names.setdefault(name, len(self.names))
        if split >= MOST_SPLITS:
            problem = f"names one more split, {name!r}; there may be {MOST_SPLITS:,}"
            raise UsageError(f"source[{number}]", problem, "take a column with few values, such as train and test")
        return split


def _has_own_id(sample: Sample) -> bool:
    made = sample.image
    return not made.counted if isinstance(made, FinishedRecord) else sample.number is not None

"""Contract tests for a source of records (`SourceInfo.made_with`), for your own class to inherit.

from shardfeed.testing.recorded_source import RecordedSourceContract


class TestEverySecond(RecordedSourceContract):
    @pytest.fixture
    def build(self, dataset):
        return lambda: EverySecond(dataset)
"""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.sources.source import FinishedRecord, Sample, Source, info_of
from shardfeed.formats.example import decode
from shardfeed.naming import check_split_name
from shardfeed.schema import LABEL
from shardfeed.testing.source import spread_over


class RecordedSourceContract:
    """A source of records is deterministic, picklable and random access, and its records match its schema.

    Override the fixture `build`: a function without arguments that returns a new source with at least two samples.
    """

    @pytest.fixture
    def build(self) -> Callable[[], Any]:
        """Return a function that creates the source; override this fixture."""
        raise NotImplementedError("override the fixture `build`: a function that makes the source")

    def test_is_a_source_of_records(self, build: Callable[[], Any]) -> None:
        """Check that it implements `Source`, and that each sample has a record."""
        source = build()
        assert isinstance(source, Source)
        assert info_of(source).made_with is not None
        assert len(source) >= 2, "give the contract a source of two samples or more"
        assert all(
            type(source[i]) is Sample and isinstance(source[i].image, FinishedRecord) for i in range(len(source))
        )

    def test_ends_at_its_length(self, build: Callable[[], Any]) -> None:
        """Check that an index beyond the length raises IndexError, so that a loop over the source ends."""
        source = build()
        for beyond in (-1, len(source), len(source) + 1, 2**40):
            with pytest.raises(IndexError):
                source[beyond]

    def test_says_the_same_each_time(self, build: Callable[[], Any]) -> None:
        """Check that samples are the same in any order, in a new source, and after pickling."""
        source = build()
        count = len(source)
        expected = [_contents(source[i]) for i in range(count)]
        for again in (build(), pickle.loads(pickle.dumps(source))):
            assert (len(again), again.schema, info_of(again)) == (count, source.schema, info_of(source))
            assert [_contents(again[i]) for i in reversed(range(count))][::-1] == expected
        for i in spread_over(source):
            assert _contents(pickle.loads(pickle.dumps(source[i]))) == expected[i]

    def test_keys_and_splits_are_sound(self, build: Callable[[], Any]) -> None:
        """Check that each key is bytes and names one sample, and that the name of each split can name files."""
        source = build()
        keys = [source[i].key for i in range(len(source))]
        assert all(type(key) is bytes and key for key in keys)
        assert len(set(keys)) == len(keys), "two samples with one key"
        for split in {source[i].split for i in range(len(source))} - {None}:
            check_split_name(str(split))

    def test_records_are_as_the_schema_says(self, build: Callable[[], Any]) -> None:
        """Check that each record decodes, has the features and classes of the schema, and the label of its sample."""
        source = build()
        schema = source.schema
        for i in spread_over(source):
            sample = source[i]
            assert sample.image.size > 0
            found = decode(sample.image(i))
            assert not schema.mismatch(found)
            for key, names in schema.class_names.items():
                assert all(0 <= int(label) < len(names) for label in found.get(key, ("", ()))[1])
            if LABEL in sample.features:
                assert found[LABEL][1][0] == sample.features[LABEL]

    def test_a_digest_stands_for_one_record(self, build: Callable[[], Any]) -> None:
        """Check that different records have different digests."""
        source = build()
        digests = [source[i].image.digest for i in range(len(source))]
        assert len(set(digests)) == len(digests)

    def test_can_be_planned(self, build: Callable[[], Any]) -> None:
        """Check that the source can be planned, and that the same source gives the same plan."""
        source = build()
        options = PlanOptions(made_with=info_of(source).made_with)
        plan = make_plan(source, options)
        assert sorted(int(i) for shard in plan.shards for i in shard.samples) == list(range(len(source)))
        assert make_plan(build(), options).identity() == plan.identity()


def _contents(sample: Sample) -> tuple[Any, ...]:
    """Return the parts of a sample to compare, the payload included."""
    assert isinstance(sample.image, FinishedRecord)
    return sample.key, sample.split, repr(sample.features), sample.image.digest, sample.image(7)

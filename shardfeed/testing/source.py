"""Contract tests for a source (`shardfeed.converters.Source`), for your own class to inherit.

from shardfeed.testing.source import SourceContract


class TestDigits(SourceContract):
    @pytest.fixture
    def build(self):
        return lambda: Digits("digits.npz")
"""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.reading import own_features, read_image
from shardfeed.converters.sources.source import Sample, Source, SourceFile, info_of
from shardfeed.naming import check_split_name

_LOOKED_AT = 20  # samples with images or records that are read, spread over the source
_TYPES = {"int64": int, "float32": float, "bytes": bytes}


class SourceContract:
    """A source is deterministic, picklable and random access, and its samples match its schema.

    Override the fixture `build`: a function without arguments that returns a new source with at least two samples.
    `keys_are_sorted`: whether your source promises to list its samples by the bytes of their keys. The image of a
    sample may be a file, bytes, or a callable.
    """

    keys_are_sorted = False

    @pytest.fixture
    def build(self) -> Callable[[], Source]:
        """Return a function that creates the source; override this fixture."""
        raise NotImplementedError("override the fixture `build`: a function that makes the source")

    def test_is_a_source(self, build: Callable[[], Source]) -> None:
        """Check that the source has a schema, a length and items."""
        source = build()
        assert isinstance(source, Source), "a source has `schema`, `__len__` and `__getitem__`"
        assert len(source) >= 2, "give the contract a source of two samples or more"
        assert all(type(source[i]) is Sample for i in range(len(source)))

    def test_ends_at_its_length(self, build: Callable[[], Source]) -> None:
        """Check that an index beyond the length raises IndexError, so that a loop over the source ends."""
        source = build()
        for beyond in (len(source), len(source) + 1, 2**40):
            with pytest.raises(IndexError):
                source[beyond]

    def test_says_the_same_each_time(self, build: Callable[[], Source]) -> None:
        """Check that samples are the same in any order and in a new source: a conversion asks twice, a resume again."""
        source, again = build(), build()
        count = len(source)
        assert (len(again), again.schema) == (count, source.schema)
        samples = [source[i] for i in range(count)]
        backwards = [again[i] for i in reversed(range(count))][::-1]
        for one, others in zip(samples, zip(backwards, (source[i] for i in range(count)), strict=True), strict=True):
            for other in others:
                assert (one.key, one.split) == (other.key, other.split)
                assert repr(one.features) == repr(other.features)  # a nan equals none, not even itself
        assert _images(source) == _images(again) == _images(source)

    def test_pickles(self, build: Callable[[], Source]) -> None:
        """Check that the source can be pickled, and each sample, with the function that reads its image."""
        source = build()
        again = pickle.loads(pickle.dumps(source))
        assert (len(again), again.schema, info_of(again)) == (len(source), source.schema, info_of(source))
        assert [again[i].key for i in range(len(again))] == [source[i].key for i in range(len(source))]
        assert _images(again) == _images(source)
        for i in spread_over(source):
            assert pickle.loads(pickle.dumps(source[i])).key == source[i].key

    def test_keys_are_unique_relative_names(self, build: Callable[[], Source]) -> None:
        """Check that each key is bytes, names one sample, and does not depend on the source's location."""
        source = build()
        keys = [source[i].key for i in range(len(source))]
        assert all(type(key) is bytes and key for key in keys)
        assert len(set(keys)) == len(keys), "two samples with one key"
        assert not [key for key in keys if key.startswith(b"/")], "an absolute path"
        if self.keys_are_sorted:
            assert keys == sorted(keys)

    def test_samples_are_as_the_schema_says(self, build: Callable[[], Source]) -> None:
        """Check that samples have exactly the schema's features (except for objects), its dtypes and classes."""
        source = build()
        schema = source.schema
        own = own_features(schema)  # without those that a worker makes of objects and masks
        for i in range(len(source)):
            sample = source[i]
            assert sample.features.keys() == own.keys()
            for key, feature in own.items():
                value = sample.features[key]
                assert isinstance(value, list) != feature.scalar, f"{key}: one value for the shape (), else a list"
                items: list[Any] = value if isinstance(value, list) else [value]
                for _ in feature.shape[1:]:
                    items = [item for part in items for item in part]
                if feature.count is not None:
                    assert len(items) == feature.count, f"{key}: {len(items)} values for the shape {feature.shape}"
                for item in items:
                    assert type(item) is _TYPES[feature.dtype], f"{key}: {item!r} is no {feature.dtype}"
                    if key in schema.class_names:
                        assert 0 <= int(item) < len(schema.class_names[key]), f"{key}: no class {item!r}"
                if feature.kind == "tags":
                    assert len(set(items)) == len(items), f"{key}: a class twice"

    def test_splits_have_names(self, build: Callable[[], Source]) -> None:
        """Check that the name of each split can name files, or is None if the options of the conversion decide."""
        source = build()
        for split in {source[i].split for i in range(len(source))} - {None}:
            check_split_name(str(split))

    def test_images_can_be_read(self, build: Callable[[], Source]) -> None:
        """Check that each image can be read, from a file, bytes or a callable; a file must be the one listed."""
        for data in _images(build()):
            assert type(data) is bytes
            assert data

    def test_what_is_left_out_is_named(self, build: Callable[[], Source]) -> None:
        """Check that rejected inputs are listed once, sorted, with a known code and a reason, and not offered."""
        source = build()
        found = info_of(source).findings
        keys = [skipped.key for skipped in found.rejected]
        assert keys == sorted(set(keys))
        assert not set(keys) & {source[i].key for i in range(len(source))}
        for skipped in found.rejected:
            assert RejectCode(skipped.code).value == skipped.code
            assert skipped.reason.isprintable()
        assert all(isinstance(note, str) and note.isprintable() for note in found.notes)

    def test_can_be_planned(self, build: Callable[[], Source]) -> None:
        """Check that the source can be planned, and that the same source gives the same plan."""
        plan = make_plan(build(), PlanOptions())
        assert sorted(int(i) for shard in plan.shards for i in shard.samples) == list(range(len(build())))
        assert make_plan(build(), PlanOptions()).identity() == plan.identity()


def spread_over(source: Any) -> range:
    """Return the numbers of some samples."""
    return range(0, len(source), -(-len(source) // _LOOKED_AT))


def _images(source: Source) -> list[bytes]:
    """Return the images of some samples. Fails if one cannot be read."""
    found = []
    for i in spread_over(source):
        sample = source[i]
        assert isinstance(sample.image, SourceFile | bytes) or callable(sample.image)
        try:
            found.append(read_image(sample))
        except RejectedError as error:
            pytest.fail(f"sample {i}: {error}")
    return found

"""Classes in balance where a record has several: by the rarest one, read once."""

import io
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters import Sample, convert
from shardfeed.converters.sources.classes import Numbering
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.errors import RecordError, UsageError
from shardfeed.pipelines import Global, Position, cached, mix, order_samples
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.pipelines.orders.strata import StratifiedOrder
from shardfeed.readers import Dataset, Split, columns
from shardfeed.readers.columns import rarest, rarest_classes
from shardfeed.schema import LABEL, Feature, Schema

NAMES = ("cat", "dog", "eel", "fox")
TAGS = "image/tag/label"
# Of image i: cats nearly everywhere, a dog in half, eels in five, no fox, and nothing in every eighth.
CLASSES = [[] if i % 8 == 7 else [0] * (1 + i % 3) + [1] * (i % 2) + [2] * (2 * (i % 11 == 0)) for i in range(48)]


class Several:
    """Images with objects of several classes, and the same classes as tags."""

    def __init__(self, fox_in: int | None = None) -> None:
        out = io.BytesIO()
        Image.new("RGB", (40, 32)).save(out, "PNG")
        self.image = out.getvalue()
        objects = ObjectGather()
        for i, labels in enumerate(CLASSES):
            objects.set_size(i, 40, 32)
            for n, label in enumerate(labels):
                objects.add(i, 10 * i + n, (n, n, n + 10, n + 10), str(label))
        if fox_in is not None:
            objects.add(fox_in, 999, (1, 1, 9, 9), "3")
        self.table = objects.finish(
            Numbering(NAMES, {str(i): i for i in range(4)}), None, lambda *_: pytest.fail("left out")
        )
        tags = Schema({TAGS: Feature("int64", (None,), "tags")}, {TAGS: NAMES})
        self.schema = self.table.joined(tags)

    def __len__(self) -> int:
        return len(CLASSES)

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < len(self):
            raise IndexError(i)
        features: dict[str, Any] = {TAGS: sorted(set(CLASSES[i]))}
        return Sample(b"%02d.png" % i, self.image, features, objects=self.table.of_image(i), number=i)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("several") / "out"
    convert(Several(), out, shards=3, workers=1)
    return shardfeed.open(out)


@pytest.fixture
def train(dataset: Dataset) -> Split:
    """Opened anew: nothing has been read."""
    return shardfeed.open(dataset.directory)["train"]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys for which all records were read."""
    found: list[str] = []

    def noted(shards: Any, schema: Any, key: str) -> Any:
        found.append(key)
        return read_values(shards, schema, key)

    read_values = columns.read_values
    monkeypatch.setattr(columns, "read_values", noted)
    return found


def rarest_of(split: Split) -> np.ndarray:
    return rarest_classes(split.shards, split.schema, OBJECT_LABEL, split.places(np.arange(len(split))))


def slowly(records: list[list[int]], classes: int) -> list[int]:
    """The rule in its own words."""
    having = Counter(label for labels in records for label in set(labels))
    return [min(set(labels), key=lambda label: (having[label], label)) if labels else classes for labels in records]


def labels_of(split: Any) -> list[list[int]]:
    return [record[OBJECT_LABEL].tolist() for record in split]


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.lists(st.integers(0, n - 1))))))
def test_the_rarest_class(case: tuple[int, list[list[int]]]) -> None:
    classes, records = case
    sets = [sorted(set(labels)) for labels in records]
    counts = np.array([len(labels) for labels in sets], np.int64)
    labels = np.array([label for labels in sets for label in labels], np.uint8)
    found = rarest(counts, labels, classes)
    assert found.dtype == np.int64
    assert found.tolist() == slowly(records, classes)


@given(st.data())
def test_any_view_has_the_rarest_classes_of_its_samples(dataset: Dataset, data: st.DataObject) -> None:
    """A class is as rare as it is among the samples that the view has, however often each."""
    train = dataset["train"]
    view = train.select(np.array(data.draw(st.lists(st.integers(0, len(train) - 1))), np.int64))
    assert rarest_of(view).tolist() == slowly(labels_of(view), len(NAMES))


@pytest.mark.parametrize("view", [slice(None), slice(5, 30), slice(None, None, -2), slice(0.5, 1.0), slice(3, 3)])
def test_slices_have_the_rarest_classes_of_their_samples(train: Split, view: slice) -> None:
    assert rarest_of(train[view]).tolist() == slowly(labels_of(train[view]), len(NAMES))


def test_each_class_has_its_share_of_each_batch(train: Split) -> None:
    arranged, order = order_samples(train, batch_size=8, seed=3, order=Global(balance="class"))
    assert isinstance(arranged, Split)
    assert isinstance(order, StratifiedOrder)
    everywhere = slowly(labels_of(train), len(NAMES))
    assert order.strata == tuple(everywhere.count(label) for label in (0, 1, 2, len(NAMES))), "no fox, no stratum"
    by_place = dict(enumerate(everywhere))
    for step in range(3 * order.steps_per_epoch):
        places = arranged.places(order.batch(step)).tolist()
        assert sorted(by_place[place] for place in places) == [0, 0, 1, 1, 2, 2, 4, 4]
    by_key = order_samples(train, batch_size=8, seed=3, order=Global(balance=OBJECT_LABEL))[1]
    tags = order_samples(train, batch_size=8, seed=3, order=Global(balance=TAGS))[1]
    assert order == by_key == tags, "a set of tags is as good as objects"


def test_an_order_knows_the_classes_it_was_made_for(train: Split, tmp_path: Path) -> None:
    """Two datasets that differ in one object have orders of their own, and a position is of one of them."""
    order = order_samples(train, batch_size=8, order=Global(balance="class"))[1]
    source = Several(fox_in=7)
    convert(source, tmp_path / "out", shards=3, workers=1)
    other = order_samples(shardfeed.open(tmp_path / "out")["train"], batch_size=8, order=Global(balance="class"))[1]
    assert isinstance(order, StratifiedOrder)
    assert isinstance(other, StratifiedOrder)
    assert order.dataset != other.dataset
    assert len(other.strata) == len(order.strata) + 1
    assert Position.from_json(Position(5, order).to_json()).order == order


def test_records_are_read_once(train: Split, readings: list[str], tmp_path: Path) -> None:
    balanced = Global(balance="class")
    arranged, order = order_samples(train, batch_size=8, order=balanced)
    assert readings == [OBJECT_LABEL]
    made = pickle.loads(pickle.dumps(arranged))
    assert isinstance(order, IndexedOrder)
    assert made.payloads(order.batch(9)) == arranged.payloads(order.batch(9))
    for split in (train, pickle.loads(pickle.dumps(train)), cached(train, tmp_path)):
        assert order_samples(split, batch_size=8, order=balanced)[1] == order
    for samples in (train[:30], made, mix([(train[:20], 1), (train[20:], 1)])):
        order_samples(samples, batch_size=8, order=balanced)
    assert readings == [OBJECT_LABEL]
    order_samples(train, batch_size=8, order=Global(balance=TAGS))
    assert readings == [OBJECT_LABEL, TAGS]


def test_classes_kept_with_a_split_are_small(train: Split) -> None:
    before = len(pickle.dumps(train))
    rarest_of(train)
    counts, labels = train.shards.class_sets[OBJECT_LABEL]
    assert counts.nbytes + labels.nbytes == len(train) + sum(len(set(labels)) for labels in CLASSES)
    assert len(pickle.dumps(train)) < before + counts.nbytes + labels.nbytes + 500


def test_weights_of_objects(train: Split) -> None:
    everywhere = slowly(labels_of(train), len(NAMES))
    for weights in ({"cat": 1, "dog": 0, "eel": 2, "": 1}, [1, 0, 2, 0, 1]):
        arranged, order = order_samples(train, batch_size=8, order=Global(weights=weights))
        assert isinstance(order, IndexedOrder)
        found = sorted(everywhere[place] for place in arranged.places(order.batch(2)).tolist())
        assert found == [0, 0, 2, 2, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Global(balance="image/height"), rf"got 'image/height', expected a label .*\['{OBJECT_LABEL}', '{TAGS}'\]"),
        (Global(weights=[1, 1, 1, 1]), "weights: got 4, expected 5, .* the last for samples without a class"),
        (Global(weights={"cat": 1, "dog": 1, "eel": 1}), r"no weight for '' \(samples without a class\)"),
        (Global(weights={"bat": 1}), r"'bat', which is not a class; the classes are cat, dog, eel, fox, ''"),
    ],
)
def test_bad_orders(train: Split, order: Global, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_samples(train, batch_size=8, order=order)


def test_a_label_out_of_range_names_its_record(train: Split) -> None:
    train.schema = Schema(train.schema.features, {OBJECT_LABEL: NAMES[:2]})
    with pytest.raises(RecordError, match=rf"tfrecord, record \d+, offset \d+: {OBJECT_LABEL} is 2, expected 0 to 1"):
        order_samples(train, batch_size=8, order=Global(balance="class"))
    assert not train.shards.class_sets


def test_a_damaged_record_is_named(train: Split, tmp_path: Path) -> None:
    shutil.copytree(Path(train.shards.directory), tmp_path / "out")
    path = tmp_path / "out" / "train-00001-of-00003.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match=r"train-00001-of-00003\.tfrecord, record \d+, .* damaged"):
        order_samples(shardfeed.open(tmp_path / "out")["train"], batch_size=8, order=Global(balance="class"))


def test_the_class_of_the_image_comes_before_those_of_its_objects(dataset: Dataset, flowers: Dataset) -> None:
    """Where a dataset has both, "class" is what it was before."""
    for split in (dataset["train"], flowers["train"]):
        assert (LABEL in split.schema.class_names) == (OBJECT_LABEL not in split.schema.class_names)
    both = shardfeed.open(flowers.directory)["train"]
    features = {**both.schema.features, OBJECT_LABEL: Feature("int64", (None,), "label")}
    both.schema = Schema(features, {**both.schema.class_names, OBJECT_LABEL: NAMES})
    balanced = Global(balance="class")
    assert (
        order_samples(both, batch_size=6, order=balanced)[1]
        == order_samples(flowers["train"], batch_size=6, order=balanced)[1]
    )
    assert order_samples(both, batch_size=6, order=Global(balance=OBJECT_LABEL))[1].samples == len(both), "none has any"

"""Several splits as one: numbered, read, told apart, refused where labels would mean two things."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import here
from seekable_images import drawn, jpeg

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert, from_dicts
from shardfeed.converters.existing.adopt import adopt
from shardfeed.converters.existing.surveying import survey
from shardfeed.errors import UsageError
from shardfeed.formats.example import decode
from shardfeed.pipelines import Global, mix, order_samples
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.pipelines.samples import Mixture, images_checked
from shardfeed.readers import Dataset, Split
from shardfeed.schema import ENCODED, FILENAME, LABEL, SHA256


def converted(folder: Path, out: Path, **options: object) -> Split:
    convert(ImageFolder(folder), out, workers=1, **options)  # type: ignore[arg-type]  # as given by the test
    return shardfeed.open(out)["train"]


@pytest.fixture
def both(flowers: Dataset) -> Mixture:
    return mix([(flowers["train"], 3), (flowers["validation"][:20], 1)])


def test_mixture_numbers_its_parts_one_after_the_other(flowers: Dataset, both: Mixture) -> None:
    train, validation = flowers["train"], flowers["validation"][:20]
    assert len(both) == len(train) + 20
    indices = np.array([0, len(train), len(train) - 1, len(both) - 1, 5, 5])
    expected = [train.payload(0), validation.payload(0), train.payload(-1), validation.payload(19)]
    assert both.payloads(indices) == [*expected, train.payload(5), train.payload(5)]
    assert both.payloads(np.zeros(0, np.int64)) == []
    assert len(set(both.places(np.arange(len(both))).tolist())) == len(both)
    assert both.record_bytes == train.record_bytes + validation.record_bytes
    assert set(both.formats) == set(train.formats)
    for bad in (-1, len(both)):
        with pytest.raises(IndexError, match=f"got the index {bad}"):
            both.payloads(np.array([bad]))


def test_a_place_is_the_samples_own_in_any_arrangement(flowers: Dataset, both: Mixture) -> None:
    arranged, _ = order_samples(both, batch_size=6, order=Global(balance="class"))
    plain = dict(zip(both.payloads(np.arange(len(both))), both.places(np.arange(len(both))).tolist(), strict=True))
    found = arranged.places(np.arange(len(arranged))).tolist()
    assert [plain[payload] for payload in arranged.payloads(np.arange(len(arranged)))] == found
    assert found != sorted(found)


def test_shares_of_each_batch(flowers: Dataset, both: Mixture) -> None:
    arranged, order = order_samples(both, batch_size=8, seed=2)
    assert isinstance(order, IndexedOrder)
    first = len(flowers["train"])
    seen = []
    for step in range(2 * order.steps_per_epoch):
        batch = order.batch(step)
        assert (batch >= first).sum() == 2
        seen += batch.tolist()
    assert arranged.fingerprint == both.fingerprint == order.dataset
    small = np.bincount([index - first for index in seen if index >= first], minlength=20)
    assert small.max() - small.min() <= 1, "the small split is gone through evenly"


def test_fingerprints_tell_mixtures_apart(flowers: Dataset) -> None:
    train, validation = flowers["train"], flowers["validation"]
    mixtures = [
        mix([(train, 3), (validation, 1)]),
        mix([(train, 1), (validation, 1)]),
        mix([(validation, 1), (train, 3)]),
        mix([(train[:-1], 3), (validation, 1)]),
        mix([(train, 3)]),
    ]
    assert len({mixture.fingerprint for mixture in mixtures}) == 5
    assert mix([(train, np.int64(3)), (validation, np.float32(1))]).fingerprint == mixtures[0].fingerprint  # type: ignore[list-item]  # NumPy numbers are numbers


def test_two_datasets_share_what_both_have(folder: Callable[..., Path], tmp_path: Path) -> None:
    images = folder()
    hashed = converted(images, tmp_path / "hashed")
    plain = converted(images, tmp_path / "plain", image=ImageOptions(sha256=False), seed=1)
    mixture = mix([(hashed, 1), (plain, 1)])
    assert SHA256 in hashed.schema.features
    assert SHA256 not in mixture.schema.features
    assert {ENCODED, LABEL} <= set(mixture.schema.features)
    assert mixture.schema.class_names == hashed.schema.class_names
    names = [decode(payload)[FILENAME][1][0] for payload in mixture.payloads(np.arange(len(mixture)))]
    assert sorted(names) == sorted(2 * [record[FILENAME] for record in plain])  # type: ignore[operator]  # bytes


@pytest.mark.parametrize("classes", [("daisy", "iris", "tulip"), ("daisy", "rose")])
def test_other_class_names_are_refused(
    folder: Callable[..., Path], tmp_path: Path, flowers: Dataset, classes: tuple[str, ...]
) -> None:
    other = converted(folder(classes=classes), tmp_path / "other")
    what = "class 1 is 'rose' and 'iris'" if "iris" in classes else "their numbers differ"
    with pytest.raises(UsageError, match=f"class names of image/class/label differ: {what}; .*relabel.*merge"):
        mix([(flowers["train"], 1), (other, 1)])


def test_bad_arguments(flowers: Dataset) -> None:
    train = flowers["train"]
    with pytest.raises(UsageError, match="parts: got no splits"):
        mix([])
    for parts in ([train, train], [(train, 1), "a"], [("a", 1)], [(train, 1, 1)], train, {"train": 1}, 3):
        with pytest.raises(UsageError, match=r"parts: got .*, expected .*\(Split, a number\); for example mix"):
            mix(parts)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="parts: split train has no samples; leave it out"):
        mix([(train[:0], 1)])
    for weight in (0, -1, float("inf"), float("nan"), "1"):
        with pytest.raises(UsageError, match="parts: got "):
            mix([(train, weight)])  # type: ignore[list-item]  # one of them is text


def stored(out: Path, **options: Any) -> Split:
    source = from_dicts({"image": jpeg(drawn(20, 30, n)), "key": str(n)} for n in range(3))
    convert(source, out, image=ImageOptions(**options), workers=here())
    return shardfeed.open(out)["train"]


def test_which_images_are_known_to_be_whole(tmp_path: Path) -> None:
    decoded, unknown = stored(tmp_path / "decode"), stored(tmp_path / "header", check="header")
    assert images_checked(decoded)
    assert images_checked(decoded[1:])
    assert images_checked(pickle.loads(pickle.dumps(decoded)))
    assert images_checked(mix([(decoded, 1), (decoded[1:], 2)]))
    assert not images_checked(unknown)
    assert not images_checked(mix([(decoded, 1), (unknown, 2)]))
    assert not images_checked(stored(tmp_path / "none", check="none"))
    (tmp_path / "adopted").mkdir()
    shutil.copy(tmp_path / "decode" / "train-00000-of-00001.tfrecord", tmp_path / "adopted")
    adopt(survey(tmp_path / "adopted"))
    assert not images_checked(shardfeed.open(tmp_path / "adopted")["train"]), (
        "nobody has decoded another program's images"
    )

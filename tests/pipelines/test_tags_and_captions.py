"""Sets of classes as multi-hot vectors, and one caption of several: the same for TensorFlow and for PyTorch."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch
from datasets import stored
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.annotations import CAPTION
from shardfeed.converters import Sample
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.pipelines import (
    distribute_eval,
    draw_caption,
    eval_batches,
    make_batches,
    mix,
    multi_hot,
    train_batches,
)
from shardfeed.pipelines.torch import draw_caption as torch_draw_caption
from shardfeed.pipelines.torch import multi_hot as torch_multi_hot
from shardfeed.pipelines.torch import torch_eval_loader, torch_loader
from shardfeed.pipelines.windows import SPARE, sample_seeds
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, LABEL, Feature, Schema
from shardfeed.tools.cli import main

NAMES = ("clear", "haze", "road", "water")
SETS = [[2, 0], [], [3], [0, 1, 2, 3], [1]]
TAGS = Feature("int64", (None,), "tags")
OPTIONS: dict[str, Any] = {"batch_size": 6, "image_size": 16, "seed": 3, "order": "global"}


SCHEMA = Schema(
    {LABEL: TAGS, "image/old/label": Feature("int64", (None,), "label"), CAPTION: Feature("bytes", (None,), "text")},
    {LABEL: NAMES, "image/old/label": NAMES},
)


def tagged(out: Path, schema: Schema = SCHEMA) -> Dataset:
    """Twenty images with a set of classes, the old way of saying it beside, and 0 to 3 captions each."""
    image, samples = tf.io.encode_jpeg(np.full((16, 16, 3), 90, np.uint8)).numpy(), []
    for i in range(20):
        captions = [b"%d, %d" % (i, n) for n in range(i % 4)]
        features: Any = {LABEL: SETS[i % 5], "image/old/label": SETS[i % 5], CAPTION: captions}
        samples.append(Sample(b"%02d.jpg" % i, image, features))
    return stored(out, schema, samples, shards=2)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return tagged(tmp_path_factory.mktemp("tags") / "out")


def hot(found: list[int]) -> list[float]:
    return [float(label in found) for label in range(len(NAMES))]


def test_training_batches_are_multi_hot_and_the_same_in_both(dataset: Dataset) -> None:
    train = dataset["train"]
    batches: Any = train_batches(train, **OPTIONS)
    assert batches.element_spec[1] == tf.TensorSpec([6, 4], tf.float32)
    ours = [labels for _, labels in batches.as_numpy_iterator()]
    theirs = [labels for _, labels in torch_loader(train, workers=0, **OPTIONS)]
    assert all(labels.dtype == torch.float32 for labels in theirs)
    assert np.array_equal(np.concatenate(ours), torch.cat(theirs).numpy())
    assert 4 <= len({tuple(row) for row in np.concatenate(ours).tolist()}) <= len(SETS)


def test_evaluation_batches_are_multi_hot_and_the_same_in_both(dataset: Dataset) -> None:
    train = dataset["train"]
    records: Any = list(train)
    expected = [hot(list(record[LABEL])) for record in records]
    batches: Any = eval_batches(train, batch_size=8, image_size=16)
    assert np.concatenate([labels for _, labels in batches.as_numpy_iterator()]).tolist() == expected
    loader = torch_eval_loader(train, batch_size=8, image_size=16, workers=0)
    assert torch.cat([labels for _, labels in loader]).tolist() == expected
    feed = distribute_eval(tf.distribute.get_strategy(), train, batch_size=8, image_size=16)
    found = [labels[mask].numpy() for _, labels, mask in feed.batches]
    assert np.concatenate(found).tolist() == expected


def test_a_mix_of_splits_has_tags_too(dataset: Dataset) -> None:
    both = mix([(dataset["train"][:0.5], 1), (dataset["train"][0.5:], 1)])
    _, labels = next(iter(train_batches(both, **OPTIONS)))
    assert labels.shape == (6, 4)


def test_transforms_of_others_have_tags_too(dataset: Dataset) -> None:
    loader = torch_loader(
        dataset["train"], batch_size=6, image_transform=lambda image: image.resize((8, 8)), workers=0, seed=3
    )
    _, labels = next(iter(loader))
    assert labels.shape == (6, 4)


def test_sets_of_the_old_kind_are_read_by_a_transform(dataset: Dataset) -> None:
    """Datasets made before there were tags say "label" of any number of classes."""
    train = dataset["train"]
    for make in (train_batches, torch_loader):
        with pytest.raises(
            UsageError, match="with one number per record, or tags; use multi_hot in your own transform"
        ):
            make(train, label="image/old/label", **OPTIONS)
    with pytest.raises(UsageError, match="there is 'image/class/label'"):
        train_batches(train, label=CAPTION, **OPTIONS)
    batches: Any = make_batches(
        train,
        lambda features, seed: (multi_hot(features["image/old/label"], 4), multi_hot(features[LABEL], 4)),
        batch_size=20,
        order="stored",
    )
    ((old, new),) = batches.as_numpy_iterator()
    assert np.array_equal(old, new)


@pytest.mark.parametrize("function", [multi_hot, torch_multi_hot])
@pytest.mark.parametrize("labels", [[1, 3], (1, 3), np.array([1, 3], np.int32), torch.tensor([1, 3])])
def test_a_set_of_classes_may_be_any_list_of_integers(function: Any, labels: Any) -> None:
    assert function(labels, 4).numpy().tolist() == [0, 1, 0, 1]
    assert function(labels[:0], 4).numpy().tolist() == [0] * 4


def test_tags_without_class_names_are_refused_with_a_remedy(tmp_path: Path) -> None:
    nameless = tagged(tmp_path / "out", Schema(SCHEMA.features, {}))["train"]
    with pytest.raises(UsageError, match="image/class/label has no class names; give multi_hot the number of classes"):
        train_batches(nameless, **OPTIONS)


@given(st.lists(st.integers(0, 6)), st.integers(7, 9))
def test_multi_hot_is_one_where_a_class_is_named(labels: list[int], classes: int) -> None:
    expected = [float(label in labels) for label in range(classes)]
    assert torch_multi_hot(labels, classes).tolist() == expected
    assert torch_multi_hot(np.array(labels, np.int64), classes).tolist() == expected
    assert multi_hot(tf.constant(labels, tf.int64), classes).numpy().tolist() == expected


@pytest.mark.parametrize("label", [-1, 4])
def test_multi_hot_refuses_unknown_classes(label: int) -> None:
    with pytest.raises(IntegrityError, match=f"got the label {label}, expected 0 to 3"):
        torch_multi_hot([0, label], 4)
    with pytest.raises(tf.errors.InvalidArgumentError):
        multi_hot(tf.constant([0, label], tf.int64), 4)
    for function in (partial(multi_hot, tf.zeros([0], tf.int64)), partial(torch_multi_hot, [])):
        with pytest.raises(UsageError, match="classes: got 0"):
            function(0)  # type: ignore[arg-type]  # of either framework


def test_tfds_and_the_commands_know_sets(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    builder = tfds.builder_from_directory(dataset.directory)
    assert builder.info.features[LABEL].feature.names == list(NAMES)
    records: Any = {record[FILENAME]: record for record in dataset["train"]}
    for row in tfds.as_numpy(builder.as_dataset(split="train")):
        ours = records[row[FILENAME]]
        assert row[LABEL].tolist() == ours[LABEL].tolist()
        assert row[CAPTION].tolist() == ours[CAPTION]
    assert dataset["train"].class_counts[LABEL] == (8, 8, 8, 8)
    assert main(["inspect", dataset.directory, "--details"]) == 0
    assert re.search(r"image/class/label +int64 +tags +any number", capsys.readouterr().out)
    assert main(["preview", dataset.directory, "-o", str(tmp_path / "sheet.png")]) == 0
    assert "20 images, 4 classes" in capsys.readouterr().out


# --- captions ------------------------------------------------------------------------------------------------------


class NameAndCaption:
    """A transform that pickles."""

    def __call__(self, record: Mapping[str, Any], seed: int) -> tuple[bytes, bytes]:
        return record[FILENAME], torch_draw_caption(record, seed)


def drawn_by_tensorflow(dataset: Dataset, start_step: int, steps: int) -> list[tuple[bytes, bytes]]:
    batches: Any = make_batches(
        dataset["train"],
        lambda features, seed: (features[FILENAME], draw_caption(features, seed)),
        batch_size=5,
        order="global",
        seed=7,
        start_step=start_step,
        keys=[FILENAME, CAPTION],
    ).take(steps)
    return [pair for names, texts in batches.as_numpy_iterator() for pair in zip(names, texts, strict=True)]


def test_both_draw_the_same_caption_also_of_a_run_that_goes_on(dataset: Dataset) -> None:
    ours = drawn_by_tensorflow(dataset, 0, 40)
    loader = torch_loader(
        dataset["train"], batch_size=5, order="global", seed=7, transform=NameAndCaption(), workers=0, start_step=0
    )
    theirs = [
        pair for _, (names, texts) in zip(range(40), loader, strict=False) for pair in zip(names, texts, strict=True)
    ]
    assert ours == theirs
    assert drawn_by_tensorflow(dataset, 17, 23) == ours[17 * 5 :]
    for name, text in ours:
        i = int(name[:2])
        assert text in [b"%d, %d" % (i, n) for n in range(i % 4)] or (text == b"" and i % 4 == 0)
    thrice = [text[-1:] for name, text in ours if int(name[:2]) % 4 == 3]
    assert all(thrice.count(b"%d" % n) > 5 for n in range(3)), "each is drawn in some of ten epochs"


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 40))
def test_the_same_seed_draws_the_same_caption(first: int, second: int, count: int) -> None:
    captions = [b"%d" % n for n in range(count)]
    (own,) = sample_seeds(np.array([[first, second]], np.int64))
    found = torch_draw_caption({CAPTION: captions}, own)
    assert found == (captions[int(np.floor(own.uniform[SPARE] * np.float32(count)))] if count else b"")
    seed = tf.constant([first, second], tf.int64)
    assert draw_caption({CAPTION: tf.constant(captions, tf.string)}, seed).numpy() == found


@given(st.integers(1, 2**23), st.floats(0, 1 - 2**-23, width=32))
def test_no_draw_is_beyond_the_last_caption(count: int, uniform: float) -> None:
    assert int(np.float32(uniform) * np.float32(count)) < count


def test_single_caption_is_returned_and_other_features_are_refused() -> None:
    seed = tf.constant([1, 2], tf.int64)
    assert torch_draw_caption({CAPTION: b"a dog"}, 5) == b"a dog"
    assert torch_draw_caption({CAPTION: [b"a", b"b"]}, 5) in (b"a", b"b")
    assert draw_caption({CAPTION: tf.constant("a dog")}, seed).numpy() == b"a dog"
    with pytest.raises(UsageError, match="got 'said', expected a text feature; there is 'image/caption'"):
        torch_draw_caption({CAPTION: b"a dog", "n": 3}, 5, "said")
    with pytest.raises(UsageError, match="got 'n', expected a text feature; there is 'image/caption'"):
        draw_caption({CAPTION: tf.constant("a dog"), "n": tf.constant(3)}, seed, "n")

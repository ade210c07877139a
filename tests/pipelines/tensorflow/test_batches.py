import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from batches import Batches, same, taken

import shardfeed
from shardfeed.converters import LabelFile, convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import Global, Stream, make_batches, random_resized_crop, resize_center_crop, train_batches
from shardfeed.pipelines.tensorflow.assembly import Transform
from shardfeed.readers import Dataset, Split
from shardfeed.schema import ENCODED, FILENAME, FORMAT, LABEL


def place(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A transform that shows what a sample was given: its seed, of which the second number is its place."""
    return seed[1], seed[0], features[FILENAME]


def places(batches: Batches) -> list[int]:
    return [int(number) for batch in batches for number in batch[0]]


def test_train_batches_are_what_fit_wants(train: Split) -> None:
    dataset = train_batches(train, batch_size=10, image_size=(24, 32))
    assert dataset.element_spec == (
        tf.TensorSpec([10, 24, 32, 3], tf.uint8),
        tf.TensorSpec([10], tf.int64),
    )
    steps = len(train) // 10
    assert len(train) % 10
    assert dataset.cardinality() == steps
    found = taken(dataset)
    assert len(found) == steps
    assert found[0][0].std() > 10


def test_images_and_labels_belong_together(train: Split) -> None:
    crop = resize_center_crop(16)
    dataset = make_batches(train, lambda f, s: (crop(f, s), f[LABEL], s[1]), batch_size=16, seed=3)
    for images, labels, numbers in taken(dataset, 2):
        for image, label, number in zip(images, labels, numbers, strict=True):
            sample = train[int(number)]
            assert label == sample[LABEL]
            alone = crop({ENCODED: tf.constant(sample[ENCODED])}, tf.zeros(2, tf.int64))
            np.testing.assert_array_equal(image, alone.numpy())


def test_an_epoch_is_a_permutation_and_the_next_another(train: Split) -> None:
    dataset = make_batches(train, place, batch_size=1, seed=1)
    epochs = [places(taken(dataset)) for _ in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(len(train)))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    again = make_batches(train, place, batch_size=1, seed=1)
    assert [places(taken(again)) for _ in range(3)] == epochs
    assert places(taken(make_batches(train, place, batch_size=1, seed=2))) not in epochs


def test_dropped_remainder_differs_by_epoch(train: Split) -> None:
    size = len(train) // 2 - 1  # leaves out 2 or 3
    dataset = make_batches(train, place, batch_size=size)
    left_out = []
    for _ in range(4):
        epoch = places(taken(dataset))
        assert len(set(epoch)) == len(epoch) == 2 * size
        left_out.append(set(range(len(train))) - set(epoch))
    assert len(set(map(frozenset, left_out))) > 1


def test_without_drop_remainder_every_sample_comes(train: Split) -> None:
    dataset = make_batches(train, place, batch_size=50, drop_remainder=False)
    found = taken(dataset)
    assert dataset.cardinality() == len(found) == -(-len(train) // 50)
    assert len(found[-1][0]) == len(train) % 50
    assert sorted(places(found)) == list(range(len(train)))


def test_repeat_runs_through_the_epochs(train: Split) -> None:
    size = 20
    steps = len(train) // size
    assert len(train) % size
    dataset = make_batches(train, place, batch_size=size, seed=4, start_step=0)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    found = taken(dataset, 3 * steps)
    epochs = [places(found[e * steps : (e + 1) * steps]) for e in range(3)]
    for epoch in epochs:
        assert len(set(epoch)) == steps * size
    assert epochs[0] != epochs[1] != epochs[2]
    sample_seeds = [{int(seed) for batch in found[e * steps : (e + 1) * steps] for seed in batch[1]} for e in range(3)]
    assert [len(seeds) for seeds in sample_seeds] == [1, 1, 1]
    assert len(set.union(*sample_seeds)) == 3, "epochs share the seed of their augmentation"
    assert same(taken(dataset, 4), found[:4]), "a new iteration starts with the first epoch"


@pytest.mark.parametrize("start_step", [pytest.param(None, marks=pytest.mark.long), 0])
def test_bit_for_bit_the_same_with_any_number_of_workers(train: Split, start_step: int | None) -> None:
    assert set(train.formats) == {"jpeg", "png"}
    options: dict[str, Any] = {"batch_size": 12, "image_size": 24, "seed": 9, "order": Stream(buffer=32)}
    options["start_step"] = start_step
    reference = taken(train_batches(train, workers=1, **options), 25)
    assert same(taken(train_batches(train, workers=8, **options), 25), reference)
    tf.random.set_seed(5)
    assert same(taken(train_batches(train, workers=3, **options), 25), reference)
    assert not same(taken(train_batches(train, workers=1, **(options | {"seed": 10})), 25), reference)


@pytest.mark.long
def test_iterations_do_not_depend_on_the_global_seed(train: Split) -> None:
    epochs = []
    for seed in (1, 2):
        tf.random.set_seed(seed)
        dataset = make_batches(train, place, batch_size=30, seed=2)
        epochs.append([places(taken(dataset)) for _ in range(3)])
    assert epochs[0] == epochs[1]


@pytest.mark.long
def test_the_same_sample_is_cut_anew_each_epoch(train: Split) -> None:
    crop = random_resized_crop(24)
    dataset = make_batches(train[:1], lambda f, s: (crop(f, s), s), batch_size=1)
    images = {taken(dataset)[0][0].tobytes() for _ in range(5)}
    assert len(images) == 5


def test_stored_order(train: Split) -> None:
    dataset = make_batches(train, place, batch_size=7, order="stored", drop_remainder=False)
    assert places(taken(dataset)) == places(taken(dataset)) == list(range(len(train)))
    part = make_batches(train[20:50], place, batch_size=7, order="stored")
    assert places(taken(part)) == list(range(20, 48))
    repeated = make_batches(train[20:50], place, batch_size=15, order="stored", start_step=0)
    assert places(taken(repeated, 3)) == [*range(20, 50), *range(20, 35)]


def test_stored_order_evaluates_where_it_drops_nothing(train: Split) -> None:
    dataset = make_batches(train, place, batch_size=7, order="stored", drop_remainder=False)
    evaluated = [taken(dataset) for _ in range(2)]
    assert same(*evaluated), "the same seeds too"
    trained = make_batches(train, place, batch_size=7, order="stored")
    endless = taken(make_batches(train, place, batch_size=7, order="stored", start_step=0), 2 * (len(train) // 7))
    first, second = taken(trained), taken(trained)
    assert same(first + second, endless)
    assert first[0][1][0] == evaluated[0][0][1][0] != second[0][1][0]


def test_a_part_of_an_epoch(train: Split) -> None:
    dataset = make_batches(train, place, batch_size=5, order=Stream(epoch_samples=40))
    assert dataset.cardinality() == 8
    whole = make_batches(train, place, batch_size=5)
    assert same(taken(dataset), taken(whole)[:8])


def test_a_slice_of_the_split(train: Split) -> None:
    dataset = make_batches(train[30:41], place, batch_size=11)
    (epoch,) = (places(taken(dataset)),)
    assert sorted(epoch) == list(range(30, 41))


def test_keys_choose_what_is_parsed(train: Split) -> None:
    seen: list[set[str]] = []

    def transform(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        seen.append(set(features))
        return features[LABEL]

    taken(make_batches(train, transform, batch_size=4, keys=[LABEL]), 1)
    taken(make_batches(train, transform, batch_size=4), 1)
    assert seen == [{LABEL}, set(train.schema.features)]


def test_the_format_is_a_constant_where_there_is_one(flowers: Dataset, tmp_path: Path) -> None:
    static: list[object] = []

    def transform(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        static.append(tf.get_static_value(features[FORMAT]))
        return features[FORMAT], features[LABEL]

    taken(make_batches(flowers["train"], transform, batch_size=4), 1)
    only_jpeg = labelled_file(tmp_path, [{"x": [1.0]}] * 3)
    (batch,) = taken(make_batches(only_jpeg, transform, batch_size=3, keys=[FORMAT, LABEL]))
    assert batch[0].tolist() == [b"jpeg"] * 3
    assert static[0] is None
    assert static[1] == b"jpeg"


def labelled_file(folder: Path, rows: list[dict[str, Any]]) -> Split:
    """A dataset of one split from JSON Lines: an image, the label 0, and the values of each row."""
    from PIL import Image

    lines = []
    for number, row in enumerate(rows):
        Image.new("RGB", (20 + number, 16), (number, 2, 3)).save(folder / f"{number}.jpg")
        lines.append(json.dumps({"path": f"{number}.jpg", "label": number % 2, **row}))
    (folder / "labels.jsonl").write_text("\n".join(lines))
    source = LabelFile(folder / "labels.jsonl", label_columns=["label", *rows[0]])
    convert(source, folder / "out", split={"train": 1.0}, workers=1)
    return shardfeed.open(folder / "out")["train"]


ROWS = [{"ymin": [0.1] * n, "kinds": list(range(10, 10 + n)), "words": ["a"] * n} for n in (2, 0, 5, 1, 3)]


def boxes(features: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
    return {
        "image": random_resized_crop(8)(features, seed),
        "ymin": features["image/ymin"],
        "kinds": features["image/kinds"],
        "place": seed[1],
        "words": features["image/words/text"],
    }


def test_ragged_features_are_padded(tmp_path: Path) -> None:
    split = labelled_file(tmp_path, ROWS)
    dataset = make_batches(split, boxes, batch_size=2, pad=-1, drop_remainder=False, seed=3)
    assert dataset.element_spec["image"].shape.as_list() == [None, 8, 8, 3]
    seen = []
    for batch in dataset.as_numpy_iterator():
        counts = [len(split[int(i)]["image/ymin"]) for i in batch["place"]]
        assert batch["ymin"].shape == (len(counts), max(counts))
        assert batch["ymin"].dtype == np.float32
        for row, index in enumerate(batch["place"]):
            sample, n = split[int(index)], counts[row]
            np.testing.assert_array_equal(batch["ymin"][row], [*sample["image/ymin"], *[-1] * (max(counts) - n)])
            np.testing.assert_array_equal(batch["kinds"][row], [*sample["image/kinds"], *[-1] * (max(counts) - n)])
            assert batch["words"][row].tolist() == [*[b"a"] * n, *[b""] * (max(counts) - n)]
        seen += batch["place"].tolist()
    assert sorted(seen) == list(range(5))
    fixed = make_batches(split, boxes, batch_size=2, pad=0)
    assert fixed.element_spec["ymin"].shape.as_list() == [2, None]
    assert fixed.cardinality() == 2


def test_ragged_features_without_padding_are_refused(tmp_path: Path) -> None:
    split = labelled_file(tmp_path, ROWS)
    with pytest.raises(UsageError, match=r"shape \(None,\).*pad="):
        make_batches(split, boxes, batch_size=2)
    with pytest.raises(UsageError, match=r"pad: got 0.5.*int64"):
        make_batches(split, boxes, batch_size=2, pad=0.5)
    with pytest.raises(UsageError, match=r"pad: got -1.*uint8"):
        make_batches(split, lambda f, s: tf.io.decode_raw(f[ENCODED], tf.uint8), batch_size=2, pad=-1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 1000}, r"batch_size: got 1000, expected at most 1\d\d, .*split train"),
        ({"order": Stream(epoch_samples=1000)}, "epoch_samples: got 1000, expected at most"),
        ({"order": Global(epoch_samples=7)}, "batch_size: got 8, expected at most 7"),
        ({"start_step": 0, "drop_remainder": False}, "start_step: got 0 with drop_remainder=False"),
        ({"keys": ["image/lable"]}, "keys: got 'image/lable'.*image/class/label"),
    ],
)
def test_bad_arguments(train: Split, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_batches(train, place, **({"batch_size": 8} | options))


@pytest.mark.promise(27)
def test_empty_split(train: Split) -> None:
    with pytest.raises(UsageError, match="split train: it has no samples"):
        train_batches(train[:0], batch_size=8, image_size=8)


def test_other_labels(tmp_path: Path) -> None:
    split = labelled_file(tmp_path, [{"weight": 0.5 + n} for n in range(6)])
    (batch,) = taken(train_batches(split, batch_size=6, image_size=8, label="image/weight"))
    assert sorted(batch[1].tolist()) == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_largest_seed(train: Split) -> None:
    transform: Transform = place
    assert len(taken(make_batches(train, transform, batch_size=8, seed=2**63 - 1), 2)) == 2

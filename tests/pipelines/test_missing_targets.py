"""Regression: samples whose number is missing (NaN) are left out and counted, by all that makes batches of a label."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines import distribute, distribute_eval, mix
from shardfeed.pipelines.torch import random_resized_crop
from shardfeed.readers import Split
from shardfeed.tools.cli import main

AGE = "image/age"
OPTIONS: dict[str, Any] = {"batch_size": 4, "image_size": 8, "label": AGE}
WARNED = "left out: 10 of 30 samples of split train have no number in image/age"


def converted(root: Path, out: Path, ages: list[str]) -> Split:
    paths = sorted(path.relative_to(root) for path in root.rglob("*.jpg"))
    rows = [f"{path},{age}\n" for path, age in zip(paths, ages, strict=True)]
    (out.parent / "ages.csv").write_text("path,age\n" + "".join(rows))
    labels = ["--labels", str(out.parent / "ages.csv"), "--number-column", "age:float", "--missing", "age=nan"]
    assert main(["convert", str(root), str(out), *labels, "--workers", "1", "--quiet"]) == 0
    return shardfeed.open(out)["train"]


@pytest.fixture
def split(folder: Callable[..., Path], tmp_path: Path) -> Split:
    """Thirty images, the ages 0 to 29, every third of them missing."""
    return converted(folder(10), tmp_path / "out", ["" if i % 3 == 0 else str(i) for i in range(30)])


def numbers(batches: Any) -> list[float]:
    return [float(number) for batch in batches for number in batch[1]]


def test_no_batch_has_a_missing_target(split: Split) -> None:
    known = [float(i) for i in range(30) if i % 3]
    stored = [float(record[AGE]) for record in split if not np.isnan(record[AGE])]  # type: ignore[arg-type]
    crop = random_resized_crop(8)
    one, parallel = tf.distribute.get_strategy(), {"workers": 0}
    trained: list[Callable[[], Any]] = [
        lambda: shardfeed.train_batches(split, **OPTIONS),
        lambda: shardfeed.train_batches(split, order="blocks", **OPTIONS),
        lambda: shardfeed.torch_loader(split, **OPTIONS, **parallel),
        lambda: shardfeed.torch_loader(split, batch_size=4, label=AGE, image_transform=crop, workers=0),
        lambda: distribute(one, split, **OPTIONS).batches.take(5),
    ]
    for make in trained:
        with pytest.warns(RuntimeWarning, match=WARNED) as caught:
            batches = make()
        assert [warned.filename for warned in caught] == [__file__]  # the line of the user's call
        assert sorted(numbers(batches)) == known
    for evaluate in (
        lambda: shardfeed.eval_batches(split, **OPTIONS),
        lambda: shardfeed.torch_eval_loader(split, **OPTIONS, **parallel),
        lambda: distribute_eval(one, split, **OPTIONS).batches,
    ):
        with pytest.warns(RuntimeWarning, match=WARNED) as caught:
            batches = evaluate()
        assert [warned.filename for warned in caught] == [__file__]
        assert numbers(batches) == stored
    with pytest.warns(RuntimeWarning, match=WARNED):
        assert shardfeed.train_batches(split, **OPTIONS).cardinality() == 5
    with pytest.warns(RuntimeWarning, match=WARNED), pytest.raises(UsageError, match='use order="global"'):
        shardfeed.train_batches(split, order="stream", **OPTIONS)


def test_both_frameworks_leave_out_the_same(split: Split) -> None:
    with pytest.warns(RuntimeWarning, match=WARNED):
        ours = numbers(shardfeed.train_batches(split, seed=3, order="global", **OPTIONS))
    with pytest.warns(RuntimeWarning, match=WARNED):
        assert numbers(shardfeed.torch_loader(split, seed=3, workers=0, **OPTIONS)) == ours


def test_a_mix_leaves_them_out_of_each_part(split: Split) -> None:
    with pytest.warns(RuntimeWarning, match="left out: ") as caught:
        batches = shardfeed.train_batches(mix([(split[:0.5], 1), (split[0.5:], 1)]), **OPTIONS)
    assert {warned.filename for warned in caught} == {__file__}
    found = numbers(batches)
    assert found
    assert not np.isnan(found).any()


def test_prediction_keeps_them(split: Split) -> None:
    loader = shardfeed.torch_predict_loader(split, batch_size=8, image_size=8, key=AGE, workers=0)
    ages = torch.cat([ages for _, ages in loader]).numpy()
    np.testing.assert_array_equal(ages, split.column(AGE))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whole_columns_are_not_touched(folder: Callable[..., Path], tmp_path: Path) -> None:
    split = converted(folder(3), tmp_path / "out", [str(i) for i in range(9)])
    batches = shardfeed.train_batches(split, order="stream", **OPTIONS)
    assert len(numbers(batches)) == 8
    assert shardfeed.torch_loader(split, workers=0, **OPTIONS).order.dataset == split.fingerprint


def test_no_number_at_all_is_refused(split: Split) -> None:
    without = split.select(np.isnan(split.column(AGE)))
    for make in (shardfeed.train_batches, shardfeed.torch_eval_loader):
        with pytest.raises(UsageError, match=r"^label: 10 of 10 samples of split train have no number in image/age"):
            make(without, **OPTIONS)

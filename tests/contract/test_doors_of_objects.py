"""Methods, operators and options whose wrong arguments once ended in an error of Python, NumPy or TensorFlow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch
from argument_fuzz import DEEP, Hostile, Lines

import shardfeed
from shardfeed import pipelines
from shardfeed.converters import export
from shardfeed.converters.sources.options import column_of
from shardfeed.declared import checked
from shardfeed.errors import ShardfeedError, SplitError, UsageError, shown
from shardfeed.pipelines import WaitRecorder, array_batches, cached
from shardfeed.pipelines import torch as torch_pipelines
from shardfeed.readers import Dataset

Run = Callable[..., tuple[int, str, str]]
Call = Callable[[Dataset], object]


def batches(data: Dataset) -> Any:
    return array_batches(data["train"], batch_size=4, image_size=16)


def loader(data: Dataset) -> Any:
    return torch_pipelines.torch_loader(data["train"], batch_size=4, image_size=16, workers=0)


RECORDER: Any = WaitRecorder()
TF: Any = pipelines
TORCH: Any = torch_pipelines
CALLS: dict[str, tuple[Call, str]] = {
    "record text": (lambda data: RECORDER.record("x", 1.0), "asked"),
    "record NaN": (lambda data: RECORDER.record(1.0, float("nan")), "came"),
    "share of text": (lambda data: RECORDER.share("x"), "last"),
    "share of no steps": (lambda data: RECORDER.share(0), "last"),
    "plot to a number": (lambda data: RECORDER.plot(3), "path"),
    "plot of no kind": (lambda data: RECORDER.plot("/tmp/waits.nothing"), "path"),
    "page at a number": (lambda data: shardfeed.report(data.directory).save(3), "output"),  # type: ignore[arg-type]
    "rest of x": (lambda data: batches(data).rest_of_epoch("x"), "step"),
    "seek a number": (lambda data: batches(data).seek(5), "position"),
    "slice by text": (lambda data: data["train"]["a":"b"], "index"),  # type: ignore[misc]
    "slice by 0": (lambda data: data["train"][::0], "index"),
    "a hostile index": (lambda data: data["train"][Hostile()], "index"),  # type: ignore[index]
    "samples of None": (lambda data: cached(None, "/tmp/none"), "samples"),  # type: ignore[call-overload]
    "caption of text": (lambda data: TORCH.draw_caption("x", 3), "record"),
    "caption of a key": (lambda data: TORCH.draw_caption(data["train"][0], 3, "none"), "key"),
    "image of a number": (lambda data: TORCH.decode_image(3), "record"),
    "image of no record": (lambda data: TORCH.decode_image({"x": 3}), "record"),
    "crop of text": (lambda data: TORCH.letterbox(16)("x", 3), "record"),
    "seed of text": (lambda data: TORCH.random_resized_crop(16)(data["train"][0], "x"), "seed"),
    "a device beyond": (lambda data: TORCH.to_device(loader(data), 2**63 - 1), "device"),
    "a loader that is none": (lambda data: TORCH.to_device(3, "cpu"), "loader"),
    "an epoch of text": (lambda data: loader(data).set_epoch("x"), "epoch"),
    "an epoch of text on a device": (lambda data: TORCH.to_device(loader(data), "cpu").set_epoch("x"), "epoch"),
    "a state of text": (lambda data: loader(data).load_state_dict("x"), "state_dict"),
    "labels beyond": (lambda data: TORCH.multi_hot([10**30], 3), "labels"),
    "labels of two axes": (lambda data: TORCH.multi_hot(np.zeros((2, 2), np.int64), 3), "labels"),
    "too many classes": (lambda data: TORCH.multi_hot([0], 2**62), "classes"),
    "an offset beyond": (lambda data: TORCH.detection(TORCH.letterbox(16), label_offset=10**400), "label_offset"),
    "an offset beyond, TensorFlow": (
        lambda data: TF.detection(TF.letterbox(16), max_objects=3, label_offset=10**400),
        "label_offset",
    ),
    "labels beyond classes": (lambda data: TF.multi_hot((1, 2, 3), 3), "labels"),
    "a caption of numbers": (lambda data: TF.draw_caption({"x": 3}, tf.constant([3, 3]), "x"), "features"),
    "no schema": (lambda data: TORCH.detection(TORCH.letterbox(16)).bind("x"), "schema"),
    "no mesh": (lambda data: pipelines.Ranks.of_mesh(Hostile()), "mesh"),
    "a deep seed": (lambda data: array_batches(data["train"], batch_size=4, image_size=16, seed=DEEP), "seed"),  # type: ignore[arg-type]
    "an array of formats": (lambda data: export(data, "/tmp/none", np.zeros((2, 2))), "to"),  # type: ignore[arg-type]
    "a huge number": (lambda data: shardfeed.open(10**5000), "path"),  # type: ignore[arg-type]
}


@pytest.mark.promise(73)
@pytest.mark.parametrize(("call", "place"), CALLS.values(), ids=CALLS.keys())
def test_a_wrong_argument_is_named_on_one_line(flowers: Dataset, call: Call, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(flowers)
    assert caught.value.place == place
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_dataset_has_no_split_of_another_type(flowers: Dataset) -> None:
    names: list[Any] = [[1, 2], {}, Hostile(), 3, None, DEEP]
    for name in names:
        assert name not in flowers
        with pytest.raises(SplitError, match="no split"):
            flowers[name]


def test_the_place_of_a_batch_of_keras_is_a_number(flowers: Dataset) -> None:
    fed: Any = shardfeed.keras_batches(batches(flowers))
    for index in ("x", -1, 1.5, None):
        with pytest.raises(UsageError, match=r"^index: got"):
            fed[index]
    fed[np.int64(0)]


def test_a_number_beyond_floats_is_no_number() -> None:
    @checked
    def share(share: float) -> float:
        return share

    for number in (10**400, -(10**400)):
        with pytest.raises(UsageError, match=r"^share: got .*expected a number"):
            share(number)
    assert share(3) == 3


VALUES = {
    "deep": DEEP,
    "deep inside": {"x": DEEP},
    "hostile": Hostile(),
    "lines": Lines(),
    "huge": 10**5000,
    "long text": "x" * 10**6,
    "long bytes": b"x" * 10**6,
    "long list": [0] * 10**6,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_any_value_is_shown_on_one_short_line(value: Any) -> None:
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 103


def test_a_message_is_one_line_whatever_stands_in_it() -> None:
    error = ShardfeedError("place", "first\nsecond\x1b[31m", "try\rthis")
    assert str(error) == "place: first second\\x1b[31m; try\\rthis"


def test_images_of_a_tensor_are_still_taken(flowers: Dataset) -> None:
    assert torch_pipelines.decode_image(flowers["train"][0]).dtype == torch.uint8
    assert (TF.multi_hot(np.array([0, 2]), 3).numpy() == [1, 0, 1]).all()


@pytest.mark.promise(73)
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--columns", "--"),
        ("--encoding", "--"),
        ("--delimiter", "--"),
        ("--unit", "--"),
        ("--group-pattern", "(" * 500),
        ("--pattern", "(" * 500),
        ("--shards", "1" * 5000),
        ("--void", "1" * 5000),
        ("--seed", "1" * 5000),
        ("--max-bad", "1" * 5000),
    ],
)
def test_an_option_is_named_with_its_value(
    run: Run, flowers_folder: Path, tmp_path: Path, option: str, value: str
) -> None:
    code, _, err = run("convert", flowers_folder, tmp_path / "out", f"{option}={value}")
    assert code == 2
    assert option in err.splitlines()[0]


def test_dashes_are_a_value(run: Run, flowers_folder: Path, tmp_path: Path) -> None:
    code, _, err = run("report", flowers_folder, "--output=--")
    assert (code, "--output: got '--', expected a name that ends in" in err) == (2, True)


def test_a_column_is_a_number_of_few_digits() -> None:
    assert column_of("3") == 2
    assert column_of("1" * 5000) == "1" * 5000

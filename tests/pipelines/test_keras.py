"""`keras_batches`: each fit trains on the steps of `array_batches`, whatever Keras asks for beside them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import Global, Position, array_batches, eval_array_batches, keras_batches, mix, train_batches
from shardfeed.readers import Dataset

from repository import ROOT, SUPPORT

pytest.importorskip("cv2")
keras = pytest.importorskip("keras")

WITHOUT = "torch without TensorFlow"
BACKENDS = ["tensorflow", "torch", "jax", WITHOUT]


def steps(first: int, after: int) -> list[int]:
    return list(range(first, after))


# What `steps_of_fits` in tests/support/keras_fits.py is to find, with seven steps in an epoch.
FITS = {
    "validation": steps(0, 14),
    "class weights": steps(14, 21),
    "another model": steps(21, 28),
    "fewer steps": steps(28, 38),  # 3, 3, the last of the epoch, and 3 of the next: as Keras does with a finite dataset
    "after an epoch left by its steps": steps(42, 49),
    "stopped": steps(49, 52),
    "after a stop": steps(56, 63),
    "resumed": steps(10, 14),
    "after a resume": steps(14, 28),
    "resumed before the last step": steps(20, 21),
    "inspected": steps(21, 35),
}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """README's dataset, whose folder is the current one."""
    here = tmp_path_factory.mktemp("keras")
    out = str(here / "shapes")
    split = {"train": 0.7, "validation": 0.2, "test": 0.1}
    convert(ImageFolder(str(ROOT / "data_samples" / "shapes")), out, split=split, workers=1)
    return out


def on_backend(backend: str, *arguments: Any, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    name = backend.split()[0]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install {name}")
    variables = {"KERAS_BACKEND": name, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    hide = ["hide"] if backend == WITHOUT else []
    command = [sys.executable, SUPPORT / "keras_fits.py", *map(str, arguments), *hide]
    return subprocess.run(command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False)


def printed(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("built", [False, pytest.param(True, marks=pytest.mark.long)], ids=["unbuilt", "built"])
def test_each_fit_sees_the_next_steps(shapes: str, built: bool) -> None:
    from keras_fits import steps_of_fits

    data = shardfeed.open(shapes)
    found = steps_of_fits(data["train"], data["validation"], built=built)
    assert found == FITS | {"predicted": len(data["validation"])}


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_fit_sees_the_next_steps_on_each_backend(shapes: str, backend: str) -> None:
    expected = FITS | {"predicted": len(shardfeed.open(shapes)["validation"])}
    assert printed(on_backend(backend, "fits", shapes)) == [expected, expected]


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_program_of_readme_sees_the_same_pixels_on_each_backend(shapes: str, tmp_path: Path, backend: str) -> None:
    (code,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        if "import keras" in block
    )
    (tmp_path / "program.py").write_text(code)
    seen = printed(on_backend(backend, "program", tmp_path / "program.py", cwd=Path(shapes).parent))
    data = shardfeed.open(shapes)
    train = array_batches(data["train"], batch_size=12, image_size=48, seed=7)
    validation = eval_array_batches(data["validation"], batch_size=12, image_size=48)
    each = (images.astype(np.float32) for batches in (train, train, validation) for images, _ in batches)
    expected = [zlib.crc32(images.tobytes()) for images in each]
    built_with = 0 if backend == "tensorflow" else len(seen) - len(expected)  # the first batch, to build the model
    assert built_with <= 2
    assert set(seen[:built_with]) <= {expected[0]}
    assert seen[built_with:] == expected


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_run_goes_on_with_the_next_batch(shapes: str, tmp_path: Path, backend: str) -> None:
    assert on_backend(backend, "resume", shapes, tmp_path, 18).returncode < 0
    listed = tmp_path / "steps.txt"
    assert [int(line) for line in listed.read_text().splitlines()] == steps(0, 18)
    listed.unlink()
    assert on_backend(backend, "resume", shapes, tmp_path).returncode == 0  # saved after 15 steps
    assert [int(line) for line in listed.read_text().splitlines()] == steps(15, 28)


def fed(data: Dataset, **options: Any) -> Any:
    return keras_batches(array_batches(data["train"], batch_size=24, image_size=24, **options))


def small_model() -> Any:
    made = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)])
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


@pytest.mark.parametrize("kind", ["torch_loader", "torch_eval_loader"])
def test_the_length_of_a_loader_is_the_same_for_whoever_asks(shapes: str, kind: str) -> None:
    """Also for a function in a module of Keras: only the constructor of its adapter is told that it is wrong."""
    pytest.importorskip("torch")
    loader = getattr(shardfeed, kind)(shardfeed.open(shapes)["train"], batch_size=24, image_size=24, workers=0)
    asking: dict[str, Any] = {"__name__": "keras.src.utils.summary"}
    exec("def length(loader):\n    return len(loader)", asking)
    assert asking["length"](loader) == len(loader) == 7


def test_a_fit_that_shuffles_is_refused(shapes: str) -> None:
    with pytest.raises(Exception, match=r"UsageError: shuffle: got batch \d of an epoch before batch \d") as caught:
        small_model().fit(fed(shardfeed.open(shapes)), epochs=9, verbose=0)  # of TensorFlow, with the text of ours
    assert "shuffle=False" in str(caught.value)


def test_a_fit_from_within_an_epoch_ends_with_it(shapes: str) -> None:
    """Keras takes the number of steps in the first epoch for that of all."""
    batches = array_batches(shardfeed.open(shapes)["train"], batch_size=24, image_size=24)
    batches.seek(Position(5, batches.order))
    train, model = keras_batches(batches), small_model()
    with pytest.raises(Exception, match="UsageError: epochs: this fit began within an epoch"):
        model.fit(train, epochs=2, shuffle=False, verbose=0)
    begun = int(model.optimizer.iterations)  # TensorFlow counts the refused step too
    batches.seek(Position(5, batches.order))
    model.fit(train, epochs=1, shuffle=False, verbose=0)  # as the advice says
    model.fit(train, initial_epoch=1, epochs=3, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) - begun == 2 + 14


def test_a_run_continues_with_other_weights(shapes: str) -> None:
    """Each batch that Keras asks for, before and after, is that of the order with both weights."""
    data, options = shardfeed.open(shapes), {"batch_size": 24, "image_size": 24}
    parts = [data["train"], data["validation"]]
    before = array_batches(mix([(parts[0], 3), (parts[1], 1)]), **options)
    after = array_batches(mix(parts, {0: (3, 1), 5: (1, 1)}), **options)
    after.seek(Position(5, before.order).continued_with(after.order))
    found = [batch[1].tolist() for batch in islice(before.rest_of_epoch(0), 5)]
    train = keras_batches(after)
    train.on_epoch_end()  # as a fit calls it when it begins
    found += [train[number][1].tolist() for number in range(train.num_batches)]
    labels = np.concatenate([part.column("image/class/label") for part in parts])
    assert found == [labels[after.order.batch(step)].tolist() for step in range(len(after))]


def test_channels_first_is_refused(shapes: str) -> None:
    data, before = shardfeed.open(shapes), keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(UsageError, match="channels_last") as caught:
            fed(data)
        batches = array_batches(data["train"], batch_size=24, image_size=24)
        images, _ = keras_batches(batches, lambda batch: (batch[0].transpose(0, 3, 1, 2), batch[1]))[0]
    finally:
        keras.config.set_image_data_format(before)
    assert caught.value.place == "image_data_format"
    assert images.shape == (24, 3, 24, 24)
    assert fed(data)[0][0].shape == (24, 24, 24, 3)  # as the advice says


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("kind", ["torch_loader", "torch_eval_loader"])
def test_a_loader_of_pytorch_is_refused(shapes: str, method: str, kind: str) -> None:
    pytest.importorskip("torch")
    loader = getattr(shardfeed, kind)(shardfeed.open(shapes)["train"], batch_size=24, image_size=24, workers=0)
    with pytest.raises(UsageError, match="keras_batches") as caught:
        getattr(small_model(), method)(loader)
    assert caught.value.place == "x"


def test_batches_that_keras_cannot_take_are_refused(shapes: str) -> None:
    data = shardfeed.open(shapes)
    with pytest.raises(UsageError) as caught:
        fed(data, start_step=0)
    assert caught.value.place == "start_step"
    with pytest.raises(UsageError, match=r"got .*, expected ArrayBatches"):
        keras_batches([1])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'images', 'image/filename'") as caught:
        small_model().fit(fed(data, features=["image/filename"]), shuffle=False, verbose=0)
    assert caught.value.place == "arrange"


def test_batches_of_several_shapes_are_refused_on_tensorflow_and_the_remedy_trains(shapes: str) -> None:
    train, order = shardfeed.open(shapes)["train"], Global(shapes=[(24, 32), (32, 24)])
    with pytest.raises(UsageError, match=r"shapes: .*give fit train_batches\(split, order=Global") as caught:
        keras_batches(array_batches(train, batch_size=24, order=order))
    assert caught.value.args[0] == "shapes"
    model = keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(train_batches(train, batch_size=24, order=order), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


def test_masks_and_weights_of_a_segmentation(tmp_path: Path) -> None:
    convert(scenes("rasters"), tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")
    batches = array_batches(data["train"], batch_size=4, image_size=16, targets=["raster"], seed=3)
    train = keras_batches(batches, lambda batch: (batch["images"], batch["raster"], (batch["raster"] != 255) * 1.0))
    model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(4, 1)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255))
    history = model.fit(train, epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()

"""`shardfeed demo`: from drawn shapes to a trained network, with the code of each step."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.declared import Positive, Typed, checked
from shardfeed.errors import IntegrityError, check_extra, escape
from shardfeed.naming import MANIFEST
from shardfeed.readers import Dataset, verify
from shardfeed.storage.local import disk_errors
from shardfeed.text import number, size_text
from shardfeed.tools.arguments import command
from shardfeed.tools.shapes import SIZE, draw_shapes

ACCURACY_WANTED = 0.9  # of the test split; a third is chance
_SPLIT = {"train": 0.7, "validation": 0.1, "test": 0.2}
_BATCH = 24  # approximate images in a global batch: a multiple of the replicas
_VALIDATE_EVERY = 5  # epochs


@checked
def demo(
    *,
    samples: Annotated[str | None, Typed("image folder (default: generated shapes)", "DIR")] = None,
    out: Annotated[str, Typed("folder to write to (default demo_output)", "DIR")] = "demo_output",
    epochs: Annotated[Positive, Typed("epochs of training (default 40)", "N")] = 40,
) -> int:
    """Convert, verify, train, evaluate. A network that learned too little gives a message, not an error."""
    check_extra("tensorflow", "shardfeed demo")
    started = time.monotonic()
    dataset = os.path.join(out, "dataset")
    with disk_errors(out, "create"):
        os.makedirs(out, exist_ok=True)
    images = samples or os.path.join(out, "samples", "shapes")
    if not samples:
        lines = (">>> from shardfeed.tools.shapes import draw_shapes", f">>> draw_shapes({images!r})")
        _step("Draw some images:", *lines)
        draw_shapes(images)
    _convert(images, dataset)
    _verify(dataset)
    data = shardfeed.open(dataset)
    log = os.path.join(out, "tensorflow.log")
    with _stderr_in(log):
        accuracy = _train(data, dataset, epochs)
    print(f"\ntest accuracy {accuracy:.1%}, {time.monotonic() - started:.0f} s in all")
    if accuracy < ACCURACY_WANTED:
        print(f"at least {ACCURACY_WANTED:.0%} is typical after 40 epochs: increase --epochs, or see {escape(log)}")
    print(_next_lines(dataset))
    return 0


add_arguments, run = command(demo)


def _step(what: str, *lines: str) -> None:
    """Print the next step, and the lines that would do it."""
    print(f"\n{what}", *(f"  {line}" for line in lines), sep="\n", flush=True)


def _convert(samples: str, dataset: str) -> None:
    split = ",".join(f"{name}={share}" for name, share in _SPLIT.items())
    # Replace only an earlier dataset: anything else in the way is an error.
    replace = os.path.exists(os.path.join(dataset, MANIFEST))
    option = " --replace" if replace else ""
    _step("Convert them:", f"$ shardfeed convert {shlex.quote(samples)} {shlex.quote(dataset)} --split {split}{option}")
    report = convert(ImageFolder(samples), dataset, split=_SPLIT, replace=replace)
    counts = ", ".join(f"{info.records} {name}" for name, info in report.manifest.splits.items())
    print(f"  {number(report.images, 'image')}, {size_text(report.source_bytes)}, in {report.seconds:.1f} s: {counts}")


def _verify(dataset: str) -> None:
    _step("Verify every byte:", f"$ shardfeed verify {shlex.quote(dataset)}")
    result = verify(dataset)
    if result.damages:
        raise IntegrityError(dataset, str(result.damages[0]), f"`shardfeed verify {shlex.quote(dataset)}` lists all")
    counted = f"{number(result.files, 'file')}, {number(result.records, 'record')}"
    print(f"  {counted}, {size_text(result.bytes)}: all bytes unchanged")


@contextmanager
def _stderr_in(path: str) -> Iterator[None]:
    """Redirect file descriptor 2 to a file: TensorFlow's start-up messages cannot be disabled, and hide the demo."""
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with open(path, "wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


def _train(data: Dataset, dataset: str, epochs: int) -> float:
    """Share of the test split that a network trained on the other splits classifies correctly."""
    import keras
    import tensorflow as tf

    from shardfeed.pipelines import distribute, eval_batches

    devices = _devices(tf)
    batch = max(1, _BATCH // len(devices)) * len(devices)
    same = f"batch_size={batch}, image_size={SIZE}"
    _step(
        f"Train on {', '.join(devices)}:",
        f">>> data = shardfeed.open({dataset!r})",
        f">>> strategy = tf.distribute.MirroredStrategy({devices})",
        f'>>> train = distribute(strategy, data["train"], {same})',
        f'>>> validation = eval_batches(data["validation"], {same}, replicas={len(devices)})',
        ">>> model.fit(train.batches, steps_per_epoch=train.steps_per_epoch, validation_data=validation, ...)",
    )
    keras.utils.set_random_seed(0)
    strategy = tf.distribute.MirroredStrategy(devices)
    train = distribute(strategy, data["train"], batch_size=batch, image_size=SIZE)
    validation = eval_batches(data["validation"], batch_size=batch, image_size=SIZE, replicas=len(devices))
    with strategy.scope():
        model = _network(len(data.class_names), steps=epochs * train.steps_per_epoch)
    every = min(epochs, _VALIDATE_EVERY)
    model.fit(
        train.batches,
        steps_per_epoch=train.steps_per_epoch,
        validation_data=validation,
        validation_freq=every,
        epochs=epochs,
        verbose=0,
        callbacks=[_epoch_lines(epochs, every, train.steps_per_epoch * batch)],
    )
    _step(
        "Evaluate on unseen images:",
        f'>>> test = eval_batches(data["test"], {same}, replicas={len(devices)})',
        ">>> model.evaluate(test)",
    )
    test = eval_batches(data["test"], batch_size=batch, image_size=SIZE, replicas=len(devices))
    return model.evaluate(test, verbose=0, return_dict=True)["accuracy"]


def _devices(tf: Any) -> list[str]:
    """Every GPU or, without a GPU, the CPU as two devices, so that batches are distributed in any case."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    kind = "GPU" if gpus else "CPU"
    return [f"{kind}:{number}" for number in range(len(gpus) or 2)]


def _network(classes: int, steps: int) -> Any:
    """A small convolutional network that takes uint8 [b, 64, 64, 3], to be trained for `steps`."""
    import keras
    from keras import layers

    blocks = []
    for filters in (16, 32, 64):
        convolution = layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer="he_normal")
        blocks += [convolution, layers.MaxPooling2D()]
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3), dtype="uint8"),
            layers.Rescaling(1 / 127.5, offset=-1),  # on the device: bytes travel, not floats
            *blocks,
            layers.GlobalMaxPooling2D(),
            layers.Dense(classes),
        ]
    )
    # Without the decay, one run in four ends at 95 %, depending on its last steps.
    rate: Any = keras.optimizers.schedules.CosineDecay(3e-3, steps)  # Keras's own annotation only has floats
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


def _epoch_lines(epochs: int, every: int, images: int) -> Any:
    """A Keras callback that prints a line at every `every`th epoch; an epoch trains on `images`."""
    import keras

    class EpochLines(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.started = self.trained = time.monotonic()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.trained = time.monotonic()  # validation follows the last one

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if (epoch + 1) % every == 0:
                rate = images / (self.trained - self.started)
                accuracy = f"accuracy {logs['accuracy']:.2f}, validation {logs['val_accuracy']:.2f}"
                print(f"  epoch {epoch + 1:2d}/{epochs}: {accuracy}, {rate:,.0f} images/s", flush=True)

    return EpochLines()


def _next_lines(dataset: str) -> str:
    path = shlex.quote(dataset)
    return f"""
Look at it:
  $ shardfeed preview {path} -o sheet.png
  $ shardfeed inspect {path}
Now with your own images, one folder per class:
  $ shardfeed convert PHOTOS DATASET --split train=0.9,validation=0.1"""

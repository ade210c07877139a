"""The batches that a Keras model sees of `keras_batches`, on the backend of this process: also a script, for one.

    keras_fits.py fits DATASET                 prints the steps of each fit of `steps_of_fits`
    keras_fits.py program FILE                 runs it for two epochs, and prints a checksum of each batch of images
    keras_fits.py resume DATASET DIR [STEP]    trains, from what DIR holds, lists its steps there, is killed in STEP

With `hide` at the end, TensorFlow cannot be imported.
"""

import inspect
import itertools
import json
import os
import signal
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core_only import WithoutExtras

if sys.argv[-1] == "hide":
    sys.meta_path[:] = [WithoutExtras(finder, {"tensorflow"}) for finder in sys.meta_path]

import keras
import numpy as np

import shardfeed
from shardfeed.pipelines import Position

SIZE, PER_EPOCH = (24, 20), 7
QUIET: dict[str, Any] = {"shuffle": False, "verbose": 0}


class Look(keras.layers.Layer):
    """Calls `seen` with the images of each training step, and passes them on."""

    def __init__(self, seen: Callable[[np.ndarray], None]) -> None:
        super().__init__(dtype="uint8")
        self.seen = seen

    def call(self, images: Any, training: bool | None = None) -> Any:
        if training and (found := concrete(images)) is not None:
            self.seen(found)
        return images


def concrete(value: Any) -> np.ndarray | None:
    """The array; None for what a backend passes to learn shapes."""
    try:
        return np.asarray(keras.ops.convert_to_numpy(value))
    except Exception:  # of each backend's own
        return None


def model(seen: Callable[[np.ndarray], None], *, built: bool = False) -> Any:
    """A model; Keras builds it in its first fit, with a batch, unless it is `built`."""
    start: list[Any] = [keras.layers.Input((*SIZE, 3), dtype="uint8")] if built else []
    layers = [*start, Look(seen), keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)]
    made = keras.Sequential(layers)
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True)
    return made


class Batches:
    """The training batches of a dataset with three classes, and the steps that a model has seen of them."""

    def __init__(self, train: Any) -> None:
        self.train = train
        with self.arrays(start_step=0) as batches:
            found = [zlib.crc32(images.tobytes()) for images, _ in itertools.islice(batches, 10 * PER_EPOCH)]
        self.step_of = {checksum: step for step, checksum in enumerate(found)}
        assert len(self.step_of) == len(found)
        self.seen: list[int | None] = []

    def arrays(self, **options: Any) -> Any:
        batch = len(self.train) // PER_EPOCH
        return shardfeed.array_batches(self.train, batch_size=batch, image_size=SIZE, seed=5, **options)

    def see(self, images: np.ndarray) -> None:
        self.seen.append(self.step_of.get(zlib.crc32(np.ascontiguousarray(images).tobytes())))

    def taken(self) -> list[int | None]:
        """The steps seen since the last call."""
        seen, self.seen = self.seen, []
        return seen


class Stop(keras.callbacks.Callback):
    """Ends a fit after the third step of its epoch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        if batch == 2:
            self.model.stop_training = True  # type: ignore[union-attr]


class Inspect(keras.callbacks.Callback):
    """Reads all that a debugger or a notebook shows of what a fit was given, after each of its batches."""

    def __init__(self, fed: Any) -> None:
        super().__init__()
        self.fed = fed

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        assert self.fed.workers == 1
        assert {"workers", "num_batches"} <= dict(inspect.getmembers(self.fed)).keys()


def steps_of_fits(train: Any, validation: Any, *, built: bool) -> dict[str, Any]:
    """The steps that models see in one fit after another, by what is special in each."""
    batches, found = Batches(train), {}
    arrays = batches.arrays()
    fed = shardfeed.keras_batches(arrays)
    evaluated = shardfeed.keras_batches(shardfeed.eval_array_batches(validation, batch_size=20, image_size=SIZE))
    first = model(batches.see, built=built)

    def fit(what: str, trained: Any = first, **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Your input ran out of data")
            trained.fit(fed, **QUIET, **options)
        found[what] = batches.taken()

    fit("validation", epochs=2, validation_data=evaluated)
    fit("class weights", class_weight={0: 1.0, 1: 2.0, 2: 3.0})
    fit("another model", model(batches.see, built=built), epochs=2, initial_epoch=1)
    fit("fewer steps", epochs=4, steps_per_epoch=3)
    fit("after an epoch left by its steps", steps_per_epoch=PER_EPOCH)
    fit("stopped", epochs=2, callbacks=[Stop()])
    fit("after a stop")
    arrays.seek(Position(10, arrays.order))
    other = model(batches.see, built=built)
    fit("resumed", other, epochs=2, initial_epoch=1, validation_data=evaluated)
    fit("after a resume", other, epochs=4, initial_epoch=2)
    arrays.seek(Position(20, arrays.order))
    fit("resumed before the last step")
    fit("inspected", epochs=2, callbacks=[Inspect(fed)])
    found["predicted"] = len(first.predict(evaluated, verbose=0))
    return found


class Save(keras.callbacks.Callback):
    """Saves model and position every five steps, as docs/resume.md shows, and lists the steps that were seen."""

    def __init__(self, folder: Path, batches: Batches, arrays: Any, killed: int | None) -> None:
        super().__init__()
        self.folder, self.batches, self.arrays, self.killed = folder, batches, arrays, killed
        self.step = arrays.step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        with open(self.folder / "steps.txt", "a") as file:
            print(*self.batches.taken(), file=file)
        self.step += 1
        if self.step == self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.step % 5 == 0:
            self.model.save_weights(self.folder / f"{self.step}.weights.h5")  # not all, which would need our layer  # type: ignore[union-attr]
            Position(self.step, self.arrays.order).save(self.folder / "position.json")


def resume(train: Any, folder: Path, killed: int | None) -> None:
    """Train four epochs, from where the last run in `folder` was saved."""
    batches = Batches(train)
    arrays, trained = batches.arrays(), model(batches.see, built=True)
    if (saved := Position.load(folder / "position.json")) is not None:
        trained.load_weights(folder / f"{saved.step}.weights.h5")
        arrays.seek(saved)
    save = Save(folder, batches, arrays, killed)
    fed, epoch = shardfeed.keras_batches(arrays), arrays.epoch
    if arrays.step % len(arrays):
        trained.fit(fed, initial_epoch=epoch, epochs=epoch + 1, callbacks=[save], **QUIET)
        epoch += 1
    trained.fit(fed, initial_epoch=epoch, epochs=4, callbacks=[save], **QUIET)


def program(path: Path) -> list[int]:
    """Run a program for two epochs; checksums of the images that its model, which begins with Rescaling, has seen."""
    seen: list[int] = []
    call, compiled = keras.layers.Rescaling.call, keras.Sequential.compile

    def looked(self: Any, inputs: Any) -> Any:
        if (found := concrete(inputs)) is not None:
            seen.append(zlib.crc32(np.ascontiguousarray(found).tobytes()))
        return call(self, inputs)

    def eagerly(self: Any, *given: Any, **options: Any) -> Any:
        return compiled(self, *given, run_eagerly=True, **options)

    keras.layers.Rescaling.call, keras.Sequential.compile = looked, eagerly
    exec(compile(path.read_text().replace("epochs=30", "epochs=2"), path, "exec"), {"__name__": "__main__"})
    return seen


if __name__ == "__main__":
    what, given, *rest = (argument for argument in sys.argv[1:] if argument != "hide")
    if what == "program":
        print(json.dumps(program(Path(given))))
    else:
        dataset = shardfeed.open(given)
        if what == "resume":
            resume(dataset["train"], Path(rest[0]), int(rest[1]) if rest[1:] else None)
        else:
            of_both = [steps_of_fits(dataset["train"], dataset["validation"], built=built) for built in (False, True)]
            print(json.dumps(of_both))
    hidden = sys.argv[-1] == "hide"
    assert not hidden or "tensorflow" not in sys.modules

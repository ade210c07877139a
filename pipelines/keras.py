"""Batches of `array_batches` for Keras on any backend.

Keras asks for more batches than it trains on: to learn shapes, to build the model, ahead, and for iterations that it
drops. So a number means the same batch however often it is asked for; only what Keras says of fits and epochs counts.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

from shardfeed.declared import Natural, checked
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.foreign import asked_by_constructor
from shardfeed.pipelines.arrays import ArrayBatches, TrainingArrays
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.orders.shapes import ShapeOrder


@checked
def keras_batches(batches: ArrayBatches, arrange: Callable[[Any], Any] | None = None) -> keras.utils.PyDataset:
    """Make what Keras' `fit`, `evaluate` and `predict` take, on any backend; TensorFlow is not needed.

    Each epoch of `fit` is the next epoch of `batches`, also in a second `fit`, or after an epoch that was left early.
    `initial_epoch` only numbers the epochs; `batches.position` counts whole ones. Pass `shuffle=False`: the batches are
    shuffled already.

    Args:
        batches: of `array_batches`, or `eval_array_batches`. After `batches.seek(position)`, the next `fit` begins
            there; within an epoch, it trains on the rest of it, and must end with it (`epochs=initial_epoch + 1`).
        arrange: called with each batch; returns images, (images, y), (images, y, sample weights) or a dict of inputs.
            None: (images, labels); batches with `features` or `targets` need it.

    Raises:
        UsageError: if Keras is older than 3.9, if the batches are endless (`start_step`), if they have several shapes
            on TensorFlow, if Keras expects the channels first, without `arrange`. From `fit`: if it shuffles, or goes
            on after the rest of an epoch.
        RecordError: from `fit`, as in `array_batches`. With TensorFlow, the text of an error is in one of its own.

    Example:
        train = keras_batches(array_batches(data["train"], batch_size=256, image_size=224))
        validation = keras_batches(eval_array_batches(data["validation"], batch_size=256, image_size=224))
        model.fit(train, validation_data=validation, epochs=9, shuffle=False)
    """
    if tuple(map(int, keras.__version__.split(".")[:2])) < (3, 9):  # which says less of fits and epochs
        raise UsageError("keras", f"this is Keras {keras.__version__}, expected 3.9", "pip install --upgrade keras")
    if isinstance(batches, TrainingArrays) and batches.endless:
        raise UsageError("start_step", "got endless batches, and fit has epochs", "leave it out; see batches.seek")
    if isinstance(batches.order, ShapeOrder) and keras.backend.backend() == "tensorflow":
        problem = "got several, and Keras on TensorFlow takes batches of one shape from Python"
        raise UsageError("shapes", problem, "give fit train_batches(split, order=Global(shapes=...), ...) instead")
    if arrange is None and keras.config.image_data_format() == "channels_first":
        remedy = 'call keras.config.set_image_data_format("channels_last"), or transpose them in arrange='
        raise UsageError("image_data_format", "got channels_first for images [b, height, width, 3]", remedy)
    return _KerasBatches(batches, arrange)


class _KerasBatches(OneWay, keras.utils.PyDataset):
    """Item i: batch i of the running iteration, which begins with the first batch that counts. Thread-safe."""

    def __init__(self, batches: ArrayBatches, arrange: Callable[[Any], Any] | None) -> None:
        super().__init__()
        self._batches, self._arrange = batches, arrange
        self._lock = threading.Lock()  # TensorFlow asks from threads of its own
        self._made: Iterator[Any] = iter(())
        self._next = -1  # step of `_made`
        self._first = self._asked = 0  # of this iteration: its first step; batches asked for, 0 if all
        self._begun = self._short = False  # this iteration; within an epoch
        self._trial = True  # before the first epoch of a fit: what is asked for does not count

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def num_batches(self) -> int:  # of an epoch, or of the rest of one
        return len(self) - self._batches.step % len(self)

    @property
    def workers(self) -> int:  # type: ignore[override]  # the threads are those of `batches`
        """Always 1. A fit begins when the constructor of Keras' adapter reads it; all other reads change nothing.

        Keras says in no other way that a fit begins. `on_epoch_end` without `on_epoch_begin` before it means that one
        begins, but only if the one before was not interrupted; and `predict` on TensorFlow and PyTorch does without it.
        """
        if asked_by_constructor("keras"):
            self._expect_a_fit()
        return 1

    def _expect_a_fit(self) -> None:
        self.on_epoch_end()
        self._trial, self._short, self._asked, self._next = True, False, 0, -1

    def on_epoch_end(self) -> None:  # also called between the building of a model and the first epoch
        with self._lock:
            if self._begun and isinstance(self._batches, TrainingArrays) and self._batches.step == self._first:
                self._batches.step = (self._first // len(self) + 1) * len(self)
            self._asked = 0 if self._trial else self._asked
            self._begun = self._trial = False

    @checked
    def __getitem__(self, index: Natural) -> Any:
        with self._lock:
            batch = self._counted(index)
        if batch is None:  # the rest of an iteration, without those that are left out
            raise IntegrityError("damaged", "no record of a batch is intact, and Keras expects all batches")
        if self._arrange is not None:
            return self._arrange(batch)
        if isinstance(batch, dict):
            problem = f"batches are dicts with {', '.join(map(repr, batch))}, and Keras takes images and labels"
            raise UsageError("arrange", problem, 'give arrange=lambda batch: (batch["images"], batch[...])')
        return batch

    def _counted(self, index: int) -> Any:
        """The batch of the running iteration, and what follows from its being asked for; None if none is left."""
        if index > self._asked:
            problem = f"got batch {index} of an epoch before batch {self._asked}: an order that no seed repeats"
            raise UsageError("shuffle", problem, "give fit shuffle=False: the batches are shuffled already")
        if index == 0 and not self._begun and not self._trial:
            self._begin()
        step = index + (self._batches.step if self._trial else self._first)
        is_last = (step + 1) % len(self) == 0
        if index == self._asked:
            self._asked = 0 if is_last else index + 1
        if step != self._next or step % len(self) == 0:
            self._made = self._batches.rest_of_epoch(step)
        self._next = step + 1
        return next(self._made, None)

    def _begin(self) -> None:
        """Begin an iteration that counts. Raises UsageError after the rest of an epoch."""
        if self._short:
            problem = "this fit began within an epoch, and Keras would train on as few steps of all others"
            raise UsageError("epochs", problem, "give it epochs=initial_epoch + 1, and call fit again")
        self._first, self._begun, self._asked = self._batches.step, True, 0
        self._short = self._first % len(self) > 0

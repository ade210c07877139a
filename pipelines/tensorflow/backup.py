"""A Keras callback to resume a killed `fit`: model, optimizer and position in the batches, saved together.

Keras's own weights file is not enough: it leaves out the states of seed generators (Dropout, layers that augment), so
that a resumed run would draw other masks than the uninterrupted one; and on a full disk HDF5 kills the process.

`step-00000120.npz` has the variables in the model's order; `backup.json` names that file, the step, and the order of
the samples. The variables are written first, under a new name, and then the JSON is replaced by one rename: a kill
leaves either the old pair or the new one.
"""

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np

from shardfeed.declared import Positive, checked
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.tensorflow.distribute import Distributed, Feed
from shardfeed.read_back import checked_text
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import TEMPORARY, NewFile, make_directory, remove_file, storage_error, write_file
from shardfeed.storage.storage import file_checksum

_EPOCH, _STEP, _END = "epoch", "step", "end"  # whether a step or an epoch was about to begin when the state was saved
RECORD = "backup.json"
_FORMAT = 1
_VARIABLES = re.compile(rf"step-\d+\.npz({re.escape(TEMPORARY)})?")
_ANEW = "restore it, or start in another directory"
_CUT = "the rest of the epoch is done"  # a true value of `stop_training` that no other callback sets


@checked
class Backup(keras.callbacks.Callback):
    """Save the state of a `fit` over a feed (see `distribute`), and resume from it with exactly the remaining batches.

    Example:
        backup = Backup("run", feed, every=100)
        model.fit(backup.batches, steps_per_epoch=feed.steps_per_epoch, epochs=9, callbacks=[backup], shuffle=False)

    The same lines start a run and, after a kill, continue it; once the last epoch is finished, `fit` does not train,
    and the model has its final weights. With more epochs, training continues from there.

    `directory`: created if it is missing; use one per run. `every`: steps between two backups; None for one backup at
    the end of each epoch. One more is always saved at the end of `fit`, unless the loss is not finite. `continued`: the
    feed may be of another mixture than the backup, with which the run goes on, as in `Position.continued_with`.

    A backup holds the variables of the model and its optimizer, the states of the model's seed generators, and the
    position in the data. A resumed run therefore ends with the weights of the uninterrupted run, bit for bit if the
    device's operations are deterministic (`tf.config.experimental.enable_op_determinism`). The resumed run may have a
    different number of replicas.

    Metrics are not saved: for the resumed epoch they cover only the remaining steps, even in the history. The state of
    other callbacks, such as the best loss so far, is not saved either, but changes that they made to the model and the
    optimizer are saved. Put this callback last in the list, so that the last backup includes weights that another
    callback sets at the end of `fit`.

    The model must be built before `fit`, and have the layers and the optimizer of the previous run. The steps of an
    epoch and `every` must be multiples of `steps_per_execution`.

    Raises OrderMismatchError when the backup is from a run with a different order (different data, seed or batch size);
    IntegrityError for a damaged backup; UsageError, when `fit` starts, for a `fit` that cannot be resumed exactly;
    StorageError when a backup cannot be written: the previous backup stays intact.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        feed: Feed,
        *,
        every: Positive | None = None,
        continued: bool = False,
    ) -> None:
        super().__init__()
        self._directory = os.fspath(directory)
        self._feed = feed
        self._every = every
        self._saved = SavedState.load(self._directory)
        if self._saved:
            position, place = self._saved.position, os.path.join(self._directory, RECORD)
            if continued:
                self._saved = replace(self._saved, position=position.continued_with(feed.order, place))
            else:
                position.check(feed.order, place)
        make_directory(self._directory)
        self._given: int | None = None  # the first step of the batches handed out
        self._done = self.step  # steps, counted as a step begins
        self._epoch_start = self.step
        self._to_restore: str | None = None  # when the state must be restored again

    @property
    def step(self) -> int:
        """Number of steps finished at the time of the backup, from epoch 0; without a backup, the feed's first step."""
        return self._saved.position.step if self._saved else self._feed.start_step

    @property
    def batches(self) -> Distributed:
        """The feed's batches from `step` onwards, for one call of `fit`."""
        self._given = self.step
        return self._feed.at(self.step).batches

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Check that this `fit` can resume exactly, and restore the model."""
        steps, together = self._feed.steps_per_epoch, self._trained.steps_per_execution
        if self._given != self.step:
            problem = f"it resumes at step {self.step}, but the batches do not start there"
            raise UsageError("fit", problem, "pass backup.batches to fit")
        given = (self.params or {}).get("steps")
        if given != steps:
            remedy = "for other epochs pass to distribute order=Global(epoch_samples=...)"
            raise UsageError("steps_per_epoch", f"got {given}, expected {steps}, as in the feed", remedy)
        for name, value in (("steps_per_epoch", steps), ("every", self._every or 0), ("step", self.step)):
            if value % together:
                raise UsageError(name, f"got {value}, expected a multiple of steps_per_execution, {together}")
        if not self._trained.built:
            problem = "not built, so its weights cannot be restored"
            raise UsageError("model", problem, "add an Input, or call it on a batch")
        self._given = None
        self._done = self.step
        if self._saved:
            self._restore(self._saved)
            self._to_restore = self._saved.before
        self._trained._initial_epoch = self.step // steps  # as keras.callbacks.BackupAndRestore does

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Save the state after the previous epoch if a backup is due, or restore the saved state in a resumed run."""
        self._trained._initial_epoch = None  # it would also apply to the model's next `fit`
        expected = self._done // self._feed.steps_per_epoch
        if epoch != expected:
            problem = f"got {epoch}, but the batches are those of epoch {expected}"
            raise UsageError("initial_epoch", problem, "leave it out")
        self._epoch_start = self._done
        self._before(_EPOCH, self._every is None or self._done % self._every == 0)

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Save the state if a backup is due; end a resumed epoch, shorter than `fit` expects, after its last step.

        Unlike `on_train_batch_end`, this does not make Keras wait for the end of each step.
        """
        self._before(_STEP, self._every is not None and self._done % self._every == 0)
        self._done += self._trained.steps_per_execution
        steps = self._feed.steps_per_epoch
        if self._epoch_start % steps and self._done % steps == 0 and not self._trained.stop_training:
            self._trained.stop_training = _CUT

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reset `model.stop_training` if this callback set it to end a resumed epoch, so that training continues.

        If another callback set it, it stays set.
        """
        if self._trained.stop_training is _CUT:
            self._trained.stop_training = False

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Save the final state, even if another callback stopped the training."""
        self._trained._initial_epoch = None
        if self._done != self.step and math.isfinite((logs or {}).get("loss", 0.0)):
            self._save(_END)

    @property
    def _trained(self) -> keras.Model:
        assert self.model is not None  # Keras sets it before it calls callbacks
        return self.model

    def _before(self, what: str, wanted: bool) -> None:
        """Restore or save the state as an epoch or a step begins.

        Restoring at the start of `fit` is not enough: callbacks that ran before this point in the saved run have run
        again, such as a schedule that multiplies the learning rate.
        """
        if self._saved and self._to_restore == what:
            self._to_restore = None
            self._restore(self._saved)
        elif wanted and self._done != self.step:
            self._save(what)

    def _save(self, before: str) -> None:
        position = Position(self._done, self._feed.order)
        values = ((v.path, np.asarray(keras.ops.convert_to_numpy(v))) for v in _variables(self._trained))
        self._saved = SavedState.save(self._directory, position, before, values)

    def _restore(self, saved: "SavedState") -> None:
        model, values = self._trained, saved.read(self._directory)
        if model.optimizer and not model.optimizer.built:
            with model.distribute_strategy.scope():
                model.optimizer.build(model.trainable_variables)
        variables = _variables(model)
        kept = [(value.shape, value.itemsize) for value in values]
        if kept != [(tuple(variable.shape), np.dtype(variable.dtype).itemsize) for variable in variables]:
            raise UsageError(
                os.path.join(self._directory, saved.variables),
                "holds the variables of another model or optimizer",
                "build the same model and optimizer, or start in another directory",
            )
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value.view(variable.dtype) if value.dtype.kind == "V" else value)


def _variables(model: keras.Model) -> list[keras.Variable]:
    """All variables that training changes, except metrics: weights, seed generators, and the optimizers' state."""
    optimizers = [value for value in vars(model).values() if isinstance(value, keras.optimizers.Optimizer)]
    return [*model.variables, *(variable for optimizer in optimizers for variable in optimizer.variables)]


@dataclass(frozen=True)
class SavedState:
    """Content of `backup.json`.

    `before`: the step or epoch that was about to begin. `variables`, `size`, `crc32c`: the file of the variables, its
    bytes and checksum.
    """

    position: Position
    before: str
    variables: str
    size: int
    crc32c: int

    def to_json(self) -> str:
        """One line that includes its CRC-32C; `from_json` reads it."""
        content = {"format": _FORMAT, **vars(self), "position": json.loads(self.position.to_json())}
        checksum = crc32c(json.dumps(content, sort_keys=True).encode())
        return json.dumps({**content, "checksum": checksum}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> "SavedState":
        """The inverse of `to_json`. Raises IntegrityError, with `path` as its place, for any other text."""
        try:
            value = json.loads(text)
            if type(value["format"]) is not int or value["format"] > _FORMAT:
                raise ValueError(f"its format is {value['format']!r}, this release reads {_FORMAT}")
            stated = {key: value[key] for key in cls.__dataclass_fields__}
            saved = cls(**{**stated, "position": Position.from_json(json.dumps(stated["position"]), path)})
            if not _VARIABLES.fullmatch(saved.variables):
                raise ValueError(f"got {escape(saved.variables)} as the file of its variables")
            if json.loads(saved.to_json()) != value:
                raise ValueError("changed since it was written: its checksum does not match")
            return saved
        except IntegrityError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IntegrityError(path, f"not a backup: {type(error).__name__}: {error}", _ANEW) from None

    @classmethod
    def load(cls, directory: str) -> "SavedState | None":
        """Read the directory's JSON; None without one.

        Raises IntegrityError unless `save` wrote it, StorageError if it cannot be read.
        """
        path = os.path.join(directory, RECORD)
        try:
            with open(path, "rb") as file:
                return cls.from_json(file.read(), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(path, "read", error) from error

    @classmethod
    def save(
        cls, directory: str, position: Position, before: str, variables: Iterable[tuple[str, np.ndarray]]
    ) -> "SavedState":
        """Write the variables (name, value), one after the other, then the JSON; then remove older variables.

        Raises StorageError, and UsageError for values that `read` would not give back; the previous state then stays
        intact.
        """
        name = f"step-{position.step:08d}.npz"
        with NewFile(os.path.join(directory, name)) as file, zipfile.ZipFile(_Stream(file), "w") as archive:
            for number, (variable, value) in enumerate(variables):
                _write_variable(archive, number, variable, value)
        saved = cls(position, before, name, file.size, file.crc32c)
        path = os.path.join(directory, RECORD)
        text = checked_text(path, saved.to_json, partial(cls.from_json, path=path), saved)
        write_file(path, f"{text}\n".encode())
        for old in os.listdir(directory):
            if _VARIABLES.fullmatch(old) and old != name:
                remove_file(os.path.join(directory, old))
        return saved

    def read(self, directory: str) -> list[np.ndarray]:
        """The variables, in order; numbers that NumPy's format lacks (bfloat16) as bytes, dtype kind V.

        Raises IntegrityError if the file is missing, or has changed since it was written.
        """
        path = os.path.join(directory, self.variables)
        try:
            found = file_checksum(path)
        except OSError as error:
            raise IntegrityError(path, f"cannot be read: {error.strerror}", _ANEW) from error
        if found != (self.size, self.crc32c):
            raise IntegrityError(path, "changed since it was written: its checksum does not match", _ANEW)
        with np.load(path) as archive:
            return [archive[name] for name in archive.files]


def _write_variable(archive: zipfile.ZipFile, number: int, name: str, value: np.ndarray) -> None:
    """Write a variable as a member that `np.load` finds: any name, as text that is printable."""
    if value.dtype.hasobject:  # which a reader would have to unpickle
        problem = f"the variable {escape(name)} has the dtype {value.dtype}, expected numbers"
        raise UsageError("model", problem, "keep it out of the model's variables")
    with archive.open(f"{number} {escape(name)}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, value, allow_pickle=False)


class _Stream(io.RawIOBase):
    """A file object for `zipfile` that writes to a NewFile."""

    def __init__(self, file: NewFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write([bytes(data)])
        return len(data)

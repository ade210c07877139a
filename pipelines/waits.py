"""Record how long each step of a training run waited for its batch."""

import os
import time
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from shardfeed.declared import Count, Range, checked
from shardfeed.errors import UsageError, escape, needing_extra
from shardfeed.storage.local import disk_errors

if TYPE_CHECKING:
    import keras

Seconds = Annotated[float, Range(0, 2**63)]  # of a clock

NO_WAIT = 0.02  # share of the time spent waiting below which a step does not count as waiting
_WINDOW = 100  # steps over which a share is taken
_MOST_BARS = 400  # of a plot
_WAIT_COLOR = "#D55E00"


class WaitRecorder:
    """A record of how long each step waited for its batch: did the model wait for data, and since which step?

    Batches pass through `watch` unchanged, and every wait is kept (16 bytes per step). Waits of less than 2 % of the
    time are noise.

    Example:
        waits = WaitRecorder()
        model.fit(waits.watch(batches), epochs=9, callbacks=[waits.callback()])  # for batch in waits.watch(loader): ...
        print(waits)
        waits.plot("waits.png")
    """

    def __init__(self) -> None:
        self._asked, self._came = array("d"), array("d")  # seconds, of each batch

    def __len__(self) -> int:
        """Number of batches so far."""
        return len(self._came)

    def __str__(self) -> str:
        """Summarise the record in one line."""
        if not len(self):
            return "no batch yet"
        waits, text = self.waits_ms, f"{len(self):,} steps, waiting {self.share():.1%} of the time"
        text += f"; half of the waits below {np.median(waits):.2f} ms, the longest {waits.max():.1f} ms"
        since = self.since()
        return text if since is None else f"{text}; waiting since step {since:,}"

    @checked
    def watch(self, batches: Any) -> Any:
        """Return the same batches, and record the wait for each batch.

        Args:
            batches: a `tf.data.Dataset`: the result is a dataset with the same elements. Or any other iterable, such as
                a PyTorch loader: the result has the same length and attributes (such as `state_dict`).

        If `tf.distribute` places a `tf.data` pipeline on several devices, it adds buffers: the recorded waits are then
        the waits for the buffers.

        Raises UsageError if `batches` is neither.
        """
        if hasattr(batches, "element_spec") and hasattr(batches, "prefetch"):
            return self._watch_dataset(batches)
        if not isinstance(batches, Iterable):
            problem = f"got {type(batches).__name__}, expected a tf.data.Dataset, or a loader"
            raise UsageError("batches", problem, "give the object that `fit` or the loop iterates over")
        return _Watched(batches, self)

    def _watch_dataset(self, batches: Any) -> Any:
        import tensorflow as tf

        from shardfeed.readers.tensorflow.indexed import call_from_tensorflow, python_call

        def now_in_python() -> tuple[np.float64]:
            with call_from_tensorflow():
                return (np.float64(time.monotonic()),)

        def record(asked: np.ndarray, came: np.ndarray) -> tuple[()]:
            with call_from_tensorflow():
                self.record(float(asked), float(came))
            return ()

        # `tf.timestamp` is the clock on the wall, which may be set back.
        look_at_clock, call_record = python_call(now_in_python, [tf.float64]), python_call(record, [])

        def recorded(asked: Any, batch: Any, came: Any) -> Any:
            call_record(asked, came)
            return batch

        # A zip takes its elements one after the other: the time before a batch, the batch, the time after it.
        now = tf.data.Dataset.counter().map(lambda _: tf.ensure_shape(look_at_clock()[0], []))
        watched = tf.data.Dataset.zip((now, batches, now)).map(recorded)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # otherwise prefetching would wait, not the step
        return watched.with_options(options)

    @checked
    def record(self, asked: Seconds, came: Seconds) -> None:
        """Record a batch requested and received at these times, in seconds; for loops that cannot use `watch`.

        Raises UsageError unless both are numbers of at least 0.
        """
        self._asked.append(asked)
        self._came.append(came)

    @property
    def waits_ms(self) -> np.ndarray:
        """The wait of each step in milliseconds, float64 [steps]."""
        return (np.array(self._came) - np.array(self._asked)) * 1e3

    @checked
    def share(self, last: Count | None = None) -> float:
        """Compute the fraction of the time spent waiting, 0 to 1: in the whole run, or in its `last` steps.

        Raises UsageError unless `last` is an integer of at least 1.
        """
        asked, came = (np.array(times[-(last or 0) :]) for times in (self._asked, self._came))
        spent = came[-1] - asked[0] if len(came) else 0.0
        return float((came - asked).sum() / spent) if spent > 0 else 0.0

    def since(self) -> int | None:
        """Find the step, counted from 0, since which the run waited for data; None if it did not wait at its end.

        From that step on, the run waits for at least 2 % of the time in each window of 100 steps.
        """
        asked, came, found = np.array(self._asked), np.array(self._came), None
        for end in range(len(came), 0, -_WINDOW):
            window = slice(max(0, end - _WINDOW), end)
            if (came[window] - asked[window]).sum() < NO_WAIT * (came[end - 1] - asked[window.start]):
                break
            found = window.start
        return found

    def callback(self) -> "keras.callbacks.Callback":
        """Create a Keras callback that logs the fraction of each epoch spent waiting for batches, as `waiting`.

        Keras's progress bar, `History`, `CSVLogger` and `TensorBoard` show this value.
        """
        import keras

        class Waiting(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.first = len(recorder)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                if logs is not None and len(recorder) > self.first:
                    logs["waiting"] = recorder.share(len(recorder) - self.first)

        recorder = self
        return Waiting()

    @checked
    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the waits as an image, PNG unless the name has a different extension.

        Raises UsageError for an extension that matplotlib does not write, StorageError if the file cannot be written,
        MissingExtraError if matplotlib is not installed.
        """
        with needing_extra("bench"):
            from matplotlib.backend_bases import FigureCanvasBase
            from matplotlib.figure import Figure

        ending = os.path.splitext(os.fspath(path))[1][1:].lower()
        endings = FigureCanvasBase.get_supported_filetypes()
        if ending and ending not in endings:
            raise UsageError("path", f"got the extension {escape(ending)!r}, expected one of {', '.join(endings)}")
        figure = Figure(figsize=(8, 3.6), dpi=110, layout="constrained")
        axis = figure.subplots()
        draw_waits(axis, self.waits_ms)
        axis.set_title(str(self), fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        with disk_errors(os.fspath(path), "write"):
            figure.savefig(path)


class _Watched:
    """A loader whose waits are recorded; otherwise like the loader."""

    def __init__(self, batches: Iterable[Any], recorder: WaitRecorder) -> None:
        self._batches, self._recorder = batches, recorder

    def __iter__(self) -> Iterator[Any]:
        asked = time.monotonic()
        for batch in self._batches:
            self._recorder.record(asked, time.monotonic())
            yield batch
            asked = time.monotonic()

    def __len__(self) -> int:
        return len(self._batches)  # pyright: ignore[reportArgumentType]  # raises TypeError for what has no length

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # names that copy and pickle look up before there is a loader
            raise AttributeError(name)
        return getattr(self._batches, name)


def draw_waits(axis: Any, waits_ms: np.ndarray) -> None:
    """Draw the wait of each step on a matplotlib axis; many steps are averaged. A line shows the mean."""
    from matplotlib.ticker import MaxNLocator

    each = -(-len(waits_ms) // _MOST_BARS) or 1
    starts = np.arange(0, len(waits_ms), each)
    bars = np.add.reduceat(waits_ms, starts) / np.diff(starts, append=len(waits_ms)) if len(waits_ms) else waits_ms
    axis.bar(starts + (each + 1) / 2, bars, width=each, color=_WAIT_COLOR)
    mean = float(waits_ms.mean()) if len(waits_ms) else 0.0
    axis.hlines(mean, 0.5, len(waits_ms) + 0.5, color="black", linewidth=1.2)
    white = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
    axis.text(len(waits_ms), mean, f"mean {mean:.1f} ms ", ha="right", va="bottom", fontsize=9, bbox=white)
    axis.set_xlim(0.5, len(waits_ms) + 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("step")
    axis.set_ylabel("wait for the batch, ms")

"""DataLoaders over `TorchSamples`: errors are raised unchanged, and batches are counted, so that a run can resume."""

import atexit
import gc
import io
import multiprocessing
import multiprocessing.context
import os
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from multiprocessing import spawn
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any

from torch.utils.data import DataLoader

from shardfeed.declared import Epoch, Step, checked
from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.foreign import asked_by_constructor
from shardfeed.pipelines.caching.client import begin_reading, chunk_of
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.orders.order import progress
from shardfeed.pipelines.ranks import Ranks
from shardfeed.pipelines.torch.collate import Collate, DamagedBatch
from shardfeed.pipelines.torch.samples import TorchSamples
from shardfeed.pipelines.torch.steps import EvenSteps, SharedSteps, Steps, check_unchanged
from shardfeed.pipelines.torch.workers import WorkerPlan, shared_memory_check, start_method
from shardfeed.processes import GUARD, check_may_start, keep_heap, loss, signals_later
from shardfeed.readers.skip import Skip

_END = object()
_LOST = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (is killed|exited)")  # as PyTorch begins them
_workers: weakref.WeakSet[Any] = weakref.WeakSet()  # the processes of all loaders


def _begin_worker(number: int) -> None:
    """Initialise a worker to use one thread: PyTorch has one there, but OpenCV would use every core in each worker."""
    del number
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the trainer decides
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
    if cv2 := sys.modules.get("cv2"):  # inherited
        cv2.setNumThreads(0)  # with 1 it would join threads that a forked process does not have, and hang
    keep_heap(loader=True)
    gc.freeze()  # garbage collection in a forked worker would write to inherited objects, and so copy every page
    trainer = multiprocessing.parent_process()
    if trainer is not None and trainer.pid != os.getppid():
        # PyTorch's workers watch their parent. Here that is the fork server, which lives as long as its workers: both
        # would outlive a killed trainer forever.
        threading.Thread(target=_end_after, args=(trainer,), daemon=True).start()


def _check_sent(part: Any) -> None:
    """Raise UsageError if workers that are not forked could not get `part` of a loader: all would end far from here."""
    sent, remedy = io.BytesIO(), "define functions and classes at the top of a module, or give workers=0"
    starting: Any = SimpleNamespace(DupFd=int, duplicate_for_child=int)
    multiprocessing.context.set_spawning_popen(starting)  # else locks do not pickle, which only new processes may get
    try:
        ForkingPickler(sent).dump(part)
    except Exception as error:
        problem = f"a transform, batch_transform or collate_fn cannot be sent to them: {type(error).__name__}: {error}"
        raise UsageError("workers", problem, remedy) from None
    finally:
        multiprocessing.context.set_spawning_popen(None)
    script = spawn.get_preparation_data("")
    path = script.get("init_main_from_path", "")
    if (path or b"__main__" in sent.getvalue()) and not ("init_main_from_name" in script or os.path.exists(path)):
        problem = "they cannot import this program, which is in a notebook, typed or from a pipe"
        raise UsageError("workers", problem, remedy)


def _loss(error: Exception) -> WorkerLostError | None:
    """The error to raise if `error` says that a worker of a loader is gone; None for errors of the worker's own."""
    text = str(error)
    if isinstance(error.__cause__, WorkerLostError):  # of the signal's handler, while PyTorch waited for a batch
        return error.__cause__.with_traceback(None)
    said = _LOST.match(text)
    pids = said[1].split(", ") if said else ()
    lost = [each for each in _workers if (str(each.pid) in pids if said else each.exitcode)]
    vague = text == "Pin memory thread exited unexpectedly"  # that thread gets the batch, and ends
    vague |= isinstance(error, ConnectionError | EOFError) and "DataLoader worker" not in text
    if not (lost if said else vague):
        return None  # also of a loader of others
    guard = GUARD if lost and lost[0]._start_method != "fork" else ""
    place = f"DataLoader worker {', '.join(str(each.pid) for each in lost)}".rstrip()
    return loss(place, lost[0].exitcode if lost else None, guard)


def _translate_losses(workers: Iterable[Any]) -> None:
    """Translate the errors of PyTorch's handler of SIGCHLD, which raises them anywhere, also in the user's own code."""
    _workers.update(workers)
    handler: Any = signal.getsignal(signal.SIGCHLD)
    ours = not callable(handler) or getattr(handler, "func", None) is _raise_lost
    if not ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, partial(_raise_lost, handler))
        atexit.register(signal.signal, signal.SIGCHLD, signal.SIG_DFL)  # Python then ends the workers: no loss


def _raise_lost(handler: Any, number: int, frame: Any) -> None:
    try:
        return handler(number, frame)
    except RuntimeError as raised:
        error = _loss(raised) or raised
    try:
        raise error  # not above: it would refer to PyTorch's, and so to all frames
    finally:
        del error  # as in `_delivered`


def _end_after(trainer: Any) -> None:
    trainer.join()
    os._exit(1)


class SampleLoader(OneWay, DataLoader[Any]):
    """DataLoader of `torch_eval_loader` and `torch_predict_loader`. Errors in workers are raised unchanged.

    Example:
        loader = torch_eval_loader(data["validation"], batch_size=256, image_size=224)
        print(len(loader))  # batches, the last one included
    """

    def __init__(
        self,
        dataset: TorchSamples,
        sampler: Steps | EvenSteps,
        *,
        pad: float | None,
        collate_fn: Callable[[list[Any]], Any] | None,
        damaged: Skip | None,
        workers: WorkerPlan,
        process: Ranks,
        given_ranks: bool,
    ) -> None:
        collate = Collate(pad, collate_fn)
        collate.reuses = workers.count > 0
        super().__init__(
            dataset,
            batch_sampler=sampler,
            num_workers=workers.count,
            collate_fn=collate,
            pin_memory=workers.pin_memory,
            multiprocessing_context=start_method(workers, dataset.samples) if workers.count else None,
            prefetch_factor=workers.prefetch if workers.count else None,
            worker_init_fn=_begin_worker,
            persistent_workers=workers.count > 0,  # else each epoch would start them again
        )
        self._damaged, self._workers, self.process, self._collate = damaged, workers, process, collate
        self._given_ranks = given_ranks  # set by the caller, who knows more than the environment variables
        self._iteration: object = None  # the one that may continue

    def __len__(self) -> int:
        """Return the number of batches, the last one included.

        Raises UsageError if the constructor of Keras' adapter asks, and for nobody else. Before it iterates, the
        adapter reads only the batch size, the dataset and this number, and Keras knows loaders by their class: to be
        asked here is the only sign that Keras, which expects other images, got the loader.
        """
        if asked_by_constructor("keras"):
            problem = "Keras got a loader for PyTorch, with images [b, 3, height, width], expected channels last"
            raise UsageError("x", problem, "give it shardfeed.keras_batches(shardfeed.array_batches(...))")
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch says its own private class
        """Start an iteration. An earlier iteration of this loader can then no longer continue (UsageError).

        Workers serve one iteration at a time. Raises UsageError if this process has changed its rank since the loader
        was made: all ranks would get the same batches.
        """
        if not self._given_ranks:
            check_unchanged(self.process)
        self._iteration = iteration = object()
        if not all(worker.is_alive() for worker in getattr(self._iterator, "_workers", ())):  # lost in the user's code
            self._iterator = None
        undisturbed: Any = nullcontext()
        if self._iterator is None and self.num_workers:  # workers are about to start, and batch sizes will be known
            check_may_start("workers", remedy="give workers=0, or ")
            method = (self.multiprocessing_context or multiprocessing).get_start_method()
            undisturbed = signals_later(fork=method == "fork")
            if method != "fork":
                _check_sent((self.dataset, self._collate))
            self._collate.check_room = shared_memory_check(self._workers, self.process.ranks_on_this_machine)
        assert isinstance(self.batch_sampler, SharedSteps)
        with self.batch_sampler.for_our_loader(), undisturbed:
            try:
                batches = super().__iter__()
            except (EOFError, ConnectionError):  # the fork server imports the script, from Python 3.12.8 and 3.13.1 on
                raise loss("fork server", None, GUARD) from None
            _translate_losses(getattr(batches, "_workers", ()))
        return self._delivered(batches, iteration)

    def _delivered(self, batches: Iterator[Any], iteration: object) -> Iterator[Any]:
        assert isinstance(self.dataset, TorchSamples)
        try:
            while True:
                if self._iteration is not iteration:
                    problem = "was iterated again before its batches ended"
                    raise UsageError(
                        "loader", problem, "make a separate loader for each loop that runs at the same time"
                    )
                try:
                    made = next(batches, _END)
                    error = made.error if isinstance(made, DamagedBatch) else None
                except Exception as raised:
                    # The frames that raise a worker's error refer to it: a cycle, which would keep all frames above.
                    made, error = None, raised.with_traceback(None) if self.num_workers else raised
                    if self.num_workers:
                        error = _loss(raised) or error
                if error is not None:
                    self._iterator = (
                        None  # with it, the workers end: lost, or of no use, they are not the next iteration's
                    )
                    try:
                        raise error
                    finally:
                        # Its traceback refers to this frame and its objects: workers collected as garbage end late.
                        del error, made, batches
                if made is _END:
                    return
                if isinstance(made, DamagedBatch):
                    for left_out in made.left_out:
                        assert self._damaged is not None
                        self._damaged.note(left_out)
                    if made.batch is None:  # of an evaluation, where omitted records are not replaced
                        continue
                    made = made.batch
                yield made
        finally:
            if self._iteration is iteration:
                self.dataset.close()


class TorchLoader(SampleLoader):
    """A DataLoader for training: each iteration is the next epoch; its state counts the batches returned.

    `order` determines the samples of each step. `step`: number of batches returned so far, over all epochs, not
    counting batches that workers have prefetched. `endless`: whether an iteration has no end, as with a `start_step`.
    If you leave an iteration early, after at least one batch, it counts as an epoch: the next iteration starts a new
    one. Created by `torch_loader`.

    `batch_sampler` has the same step, state and `set_epoch`. If another loader iterates over it, the step counts the
    batches that this one has drawn.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224)
        torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, "checkpoint.pt")
        loader.load_state_dict(torch.load("checkpoint.pt")["loader"])
    """

    def __init__(self, dataset: TorchSamples, sampler: Steps, **options: Any) -> None:
        super().__init__(dataset, sampler, **options)
        self.order, self.endless = sampler.order, sampler.endless
        # PyTorch's would say that samples come in stored order: Lightning's overfit_batches would not find that they do
        # not, and train on other batches in each epoch. As an item, because DataLoaders allow no new samplers.
        vars(self)["sampler"] = sampler.sampler

    def __repr__(self) -> str:
        assert isinstance(self.dataset, TorchSamples)
        return f"TorchLoader({self.dataset.samples.name!r}, {progress(self.order, self.step, endless=self.endless)})"

    @property
    def _steps(self) -> Steps:
        assert isinstance(self.batch_sampler, Steps)
        return self.batch_sampler

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch; `len(loader)` is the same."""
        return self.order.steps_per_epoch

    @property
    def step(self) -> int:
        return self._steps.step

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return self._steps.epoch

    def __iter__(self) -> Iterator[Any]:
        return self._counted(*self._begin())

    def _begin(self) -> tuple[Iterator[Any], int]:
        first = self._steps.begin()
        assert isinstance(self.dataset, TorchSamples)
        begin_reading(self.dataset.samples, chunk_of(self.order, first))
        return super().__iter__(), first

    def _counted(self, batches: Iterator[Any], first: int) -> Iterator[Any]:
        if self._steps.moved:  # Lightning asks for an iterator before it says which epoch it is
            batches, first = self._begin()
        for step, batch in enumerate(batches, first):
            self._steps.done(step)
            yield batch

    @checked
    def set_epoch(self, epoch: Epoch) -> None:
        """Make the next iteration epoch `epoch`, from its start, or after the batch of a state loaded in that epoch.

        You need it only to repeat or skip epochs, and to resume by skipping batches, as other programs do; they call it
        themselves. An endless iteration has no epochs and stays where it is.

        Raises UsageError for an epoch other than that of a state loaded before, or one that was begun after it.
        """
        self._steps.set_epoch(epoch)

    @checked
    def state_dict(self, step: Step | None = None) -> dict[str, str]:
        """Return the state for `load_state_dict`: the order, and `step` (default: number of batches returned so far).

        The state is the same on all ranks, and for any number of ranks. Raises UsageError for a step that is not an
        integer from 0 to 2^63 - 1; and without `step` in the middle of an epoch of another loader over `batch_sampler`,
        which may draw batches ahead of those that it returns.
        """
        return self._steps.state_dict(self._steps.returned() if step is None else step)

    def load_state_dict(self, state: dict[str, str]) -> None:
        """Continue after the batch at which `state` was taken: the next iteration gives the epoch's remaining batches.

        Raises OrderMismatchError for a state of a different dataset, seed, batch size or order, IntegrityError for a
        damaged state, UsageError for anything else.
        """
        self._steps.load_state_dict(state)

"""A map-style PyTorch dataset over the samples of an order: a batch is made at once, by threads or in a worker."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from shardfeed.errors import IntegrityError, RecordError, ShardfeedError
from shardfeed.foreign import noted
from shardfeed.pipelines.arguments import check_record
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.caching.client import reads_in_turn
from shardfeed.pipelines.decoding.batch import Decode, ReusedMemory
from shardfeed.pipelines.engine import Ahead, BatchMaker, DrawnReader, Parser, Records
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.orders.arithmetic import hashed
from shardfeed.pipelines.orders.order import DrawnSamples
from shardfeed.pipelines.samples import named
from shardfeed.pipelines.torch.encoded import parts_of
from shardfeed.pipelines.torch.shared_images import SHARED_IMAGES, apart
from shardfeed.pipelines.torch.workers import Threads
from shardfeed.pipelines.windows import SampleSeed, batch_seed, sample_seeds
from shardfeed.processes import keep_heap
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, RESTARTS, WIDTH

# From a record, as `split[i]` gives it, and the sample's seed to the parts of a batch: tensors, arrays, numbers, bytes,
# or a nest of these.
Transform = Annotated[Callable[[Mapping[str, Any], SampleSeed], Any], "give a function of a record and a seed"]
T = TypeVar("T")
# A sample's index, and its number of earlier passes: as `order.DrawnSamples`, for one sample.
Key = tuple[int, int]
# From the samples of a batch, its seed, and a function that names it for errors, to the batch.
MakeBatch = Callable[[Sequence[Any], SampleSeed, Callable[[], str]], Any]


class ViewTransform(ABC, Generic[T]):
    """A transform whose sample follows from its image, which is that of the transform `image`, and the image's view.

    `follow` makes the sample; `record` may lack the image.
    """

    image: Any

    @abstractmethod
    def follow(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> T: ...

    def __call__(self, record: Mapping[str, Any], seed: int) -> T:
        check_record("record", record)
        return self.follow(record, *self.image.see(record, seed))


def runs_no_python(transform: Any) -> bool:
    """Whether the engine makes a transform's images, and only code of this package runs for a sample."""
    both = isinstance(transform, ViewTransform) and (transform, transform.image)
    return bool(both) and all(type(each).__call__ is ViewTransform.__call__ for each in both)


class StepKeys(list[Key]):
    """Keys of a batch, and its chunk of the order and shape, if any; where it was drawn, also its step and source."""

    step = 0
    source: Any = None  # the `SharedSteps`

    def __init__(self, keys: Iterable[Key], chunk: int | None, shape: tuple[int, int] | None = None) -> None:
        super().__init__(keys)
        self.chunk, self.shape = chunk, shape

    def __reduce__(self) -> tuple[Any, ...]:
        return StepKeys, (list(self), self.chunk, self.shape)


class FetchedBatch(list[Any]):
    """The samples of a batch, for `collate`; and the damaged ones, to be reported to the user's process.

    `seed`: of the batch, equal to its first sample's. `error`: the reason if there is no batch. `left_out`: damaged
    records that are not in it. `made`: the batch itself, if it was made with the samples.
    """

    seed: int = 0
    made: Any = None
    error: ShardfeedError | None = None
    left_out: Sequence[RecordError] = ()


class TorchSamples(OneWay, Dataset[Any]):
    """Dataset of samples after `transform`, by (index, pass) or by index; pickles as paths.

    The batches that follow a step are made ahead, by threads, where `transform` runs no Python of the user's, and no
    worker processes are used. `again`: a plain index, from a sampler of other code, is another pass each time, drawn
    from PyTorch's seed in this process (workers get a new one for each iteration); else it is pass 0. `keys`: features
    that are parsed. `dtype`: of pixels that the engine makes. `skip`: damaged records are left out instead of
    raising. `decode`: as in `torch_loader`. `batches`: makes a batch of its samples, its seed, and a function that
    names it; None: `Collate` does, for the loader.
    """

    def __init__(
        self,
        read: DrawnReader,
        transform: Transform,
        *,
        again: bool,
        dtype: np.dtype,
        keys: Iterable[str] | None = None,
        skip: bool = False,
        threads: Threads | None = None,
        decode: Decode = "cpu",
        batches: MakeBatch | None = None,
    ) -> None:
        self.samples, self.order, self.transform, self.decode = read.samples, read.order, transform, decode
        self._threads = threads or Threads(0, 1, False)
        self._make = _Maker(read, transform, keys, threads, dtype=dtype, skip=skip, decode=decode, batches=batches)
        self._again, self._drawn = again, 0
        self._running: _Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None}

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, key: int | Key) -> Any:
        """Return one sample. Raises RecordError, and the errors of the transform."""
        return self._make.samples([self._keyed(key)], None, None)[0]

    def __getitems__(self, keys: Sequence[int | Key]) -> list[Any]:
        """Return a batch with one read: a `FetchedBatch`, or a list for mere indices, from a sampler of other code."""
        if isinstance(keys, StepKeys):
            ahead = self._threads.number and keys.source is not None and get_worker_info() is None
            return self._made_ahead(keys) if ahead else self._make.fetched(keys, keys.chunk)
        drawn = [self._keyed(key) for key in keys]
        return self._make.fetched(drawn, None) if drawn == list(keys) else self._make.samples(drawn, None, None)

    def seeds(self, keys: Sequence[Key]) -> np.ndarray:
        """The order's seeds of samples: int64 [k, 2]."""
        return seeds_of(self._make.read, keys)

    def close(self) -> None:
        """End the threads that make batches ahead."""
        running, self._running = self._running, None
        if running is not None:
            running.ahead.close()

    def _made_ahead(self, keys: StepKeys) -> FetchedBatch:
        """Return the batch of a step, and have the following ones made, if that has not begun."""
        source, step = keys.source, keys.step
        assert source is not None
        running, self._running = self._running, None  # until there is the batch: it may be left by Ctrl-C
        if running is None or not running.goes_on(source, step):
            stride = 1 if running is None else running.stride_to(source, step)
            del running  # which ends its threads
            # Not `self`, which would live as long as the threads. A copy has an engine of its own.
            make, draw = copy(self._make), source.keys

            def made(step: int) -> tuple[StepKeys, FetchedBatch]:
                keys = draw(step)
                return keys, make.fetched(keys, keys.chunk)

            steps = range(step, source.end(step), stride)
            in_turn = reads_in_turn(self.samples, self.order)
            ahead = Ahead(made, steps, make.begin().close, self._threads.ready, in_turn=in_turn)
            running = _Running(source, steps, ahead)
        found, fetched = next(running.ahead)
        running.last, self._running = step, running
        if step == running.steps[-1]:
            running.ahead.close()
        return fetched if found == keys else self._make.fetched(keys, keys.chunk)  # others may have changed the keys

    def _keyed(self, key: int | Key) -> Key:
        if isinstance(key, tuple):
            return key
        if not self._again:
            return key, 0
        self._drawn += 1
        return key, int(hashed(torch.initial_seed(), self._drawn)) >> 2  # an int64, and some more


class _Running:
    """The batches of some steps that this process makes ahead; `last`: the step of the one that was taken last."""

    def __init__(self, source: Any, steps: range, ahead: Ahead[tuple[StepKeys, FetchedBatch]]) -> None:
        self.source, self.steps, self.ahead = source, steps, ahead
        self.last = steps.start - steps.step
        self._process = os.getpid()

    def goes_on(self, source: Any, step: int) -> bool:
        """Whether the next batch is that of `step`."""
        same = (self._process, self.source) == (os.getpid(), source)
        return same and step == self.last + self.steps.step and step in self.steps

    def stride_to(self, source: Any, step: int) -> int:
        """By how much the steps that follow may be apart: several processes may take turns, as Accelerate's do."""
        if self.source is not source or step <= self.last:
            return 1
        return self.steps.step if step >= self.steps.stop else step - self.last


class _Maker:
    """Makes the samples of a batch. Pickles, and then decodes in the caller's thread. Thread-safe."""

    def __init__(
        self,
        read: DrawnReader,
        transform: Transform,
        keys: Iterable[str] | None,
        threads: Threads | None,
        *,
        dtype: np.dtype,
        skip: bool,
        decode: Decode,
        batches: MakeBatch | None,
    ) -> None:
        self.read, self._transform, self._skip, self._decode = read, transform, skip, decode
        self._dtype, self._batches = dtype, batches
        self._threads, self._seeds = threads or Threads(0, 1, False), threads is None
        samples, schema = read.samples, read.samples.schema
        wanted = set(schema.features) if keys is None else {schema.key(key) or key for key in keys}
        if schema.key(ENCODED) in wanted:
            wanted |= {RESTARTS} & schema.features.keys()
            if {"raw", PNG16} & samples.formats.keys():  # raw pixels have no header with their shape
                wanted |= {FORMAT, HEIGHT, WIDTH}
        self._wanted, self._parse = wanted, Parser(schema, wanted)
        self._engine: BatchMaker[Any] | None = None
        self._process = 0  # that made the engine: a fork has no threads
        self._memory = ReusedMemory()  # of all iterations: each would take memory of its own
        keep_heap(loader=True)  # here; a worker calls it, too
        self._shares = False  # in a worker, after its first batch, for which `Collate` looks for room

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_process": 0}

    def fetched(self, keys: Sequence[Key], chunk: int | None) -> FetchedBatch:
        """Return the batch of a step, or an error of a record as a value: torch would raise RuntimeError instead."""
        fetched = FetchedBatch()
        first = seeds_of(self.read, keys[:1]) if self._seeds or self._batches is not None else None
        if self._seeds and first is not None:  # no `collate_fn` runs where threads may make the batches
            fetched.seed = sample_seeds(first)[0]
        try:
            # The user's `Skip`, in another process, counts them and warns.
            left_out: list[RecordError] | None = [] if self._skip else None
            fetched += self.samples(keys, chunk, left_out)
            fetched.left_out = left_out or ()
            if self._batches is not None and first is not None and fetched:
                fetched.made = self._batches(fetched, batch_seed(first), lambda: _named_batch(keys))
        except ShardfeedError as error:
            fetched.error = error
        return fetched

    def samples(self, keys: Sequence[Key], chunk: int | None, left_out: list[RecordError] | None) -> list[Any]:
        """Read and transform the samples; damaged records raise, or their errors are appended to `left_out`."""
        indices, passes = np.array(keys, np.int64).reshape(-1, 2).T
        drawn = DrawnSamples(indices, passes, getattr(keys, "shape", None))
        records = self.read(drawn, chunk, None if left_out is None else left_out.append)
        if not records.payloads:
            return []
        if not runs_no_python(self._transform):
            return self._by_python(records)
        engine = self._engine if self._engine is not None and self._process == os.getpid() else self.begin()
        _, made = engine(records)
        self._shares = get_worker_info() is not None
        return made

    def begin(self) -> BatchMaker[Any]:
        """Make the engine of this process, and return it."""
        transform: Any = self._transform  # a `ViewTransform`
        worker, encoded = get_worker_info() is not None, self._decode == "cuda"
        threads = 0 if worker else self._threads.number
        self._process = os.getpid()
        self._engine = BatchMaker(
            self.read.samples,
            transform.image.crop,
            self._wanted,
            transform.follow,
            threads=threads,
            each=partial(parts_of, crop=transform.image.crop) if encoded else apart,
            dtype=self._dtype,
            shrink=transform.image.shrink,
            allocate=self._shared if worker and not encoded else _pinned if self._threads.pinned else self._memory,
            decode=self._decode,
        )
        return self._engine

    def _shared(self, shape: tuple[int, ...]) -> np.ndarray:
        """Memory for the images of a worker's batch."""
        return SHARED_IMAGES.take(shape).numpy() if self._shares else np.empty(shape, np.uint8)

    def _by_python(self, records: Records) -> list[Any]:
        """The samples by a transform that decodes itself."""
        made = []
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in workers: without workers, two threads for an image only wait
        try:
            seeds = sample_seeds(records.seeds, records.shape)
            for row, (payload, seed) in enumerate(zip(records.payloads, seeds, strict=True)):
                made.append(self._transformed(payload, seed, partial(records.where, row)))
        finally:
            torch.set_num_threads(threads)
        return made

    def _parsed(self, payload: bytes, where: Callable[[], str]) -> Mapping[str, Any]:
        try:
            return self._parse(payload)
        except IntegrityError as error:  # CRC right, content not
            raise RecordError(where() + named(payload), error.problem, error.remedy) from None

    def _transformed(self, payload: bytes, seed: SampleSeed, where: Callable[[], str]) -> Any:
        """The sample of a record. What the user's function raises has a line that names it and the record."""
        record = self._parsed(payload, where)
        function: Any = self._transform
        role = "transform"
        if hasattr(function, "image_transform"):  # of an `ImageTransformed`
            function, role = function.image_transform, "image_transform"
        try:
            with noted(function, role, lambda: where() + named(payload)):
                return self._transform(record, seed)
        except IntegrityError as error:  # of an image, which our own parts of a transform decode
            raise RecordError(where() + named(payload), error.problem, error.remedy) from None


def seeds_of(read: DrawnReader, keys: Sequence[Key]) -> np.ndarray:
    """The order's seeds of samples: int64 [k, 2]."""
    index, passed = np.array(keys, np.int64).reshape(-1, 2).T
    return read.order.sample_seeds(passed, read.samples.places(index))


def _named_batch(keys: Sequence[Key]) -> str:
    return f"the batch of step {keys.step}" if isinstance(keys, StepKeys) else f"a batch of {len(keys)} samples"


def _pinned(shape: tuple[int, ...]) -> np.ndarray:
    """Pinned memory, which PyTorch gives again once no copy from it is under way."""
    return torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()

"""A map-style PyTorch dataset over the samples of an order: one read per batch, transformed in the worker."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from shardfeed.errors import IntegrityError, RecordError, ShardfeedError
from shardfeed.formats.example import decode
from shardfeed.pipelines.caching.client import chunk_of, reading
from shardfeed.pipelines.decoding.compiled import compiled_decoder
from shardfeed.pipelines.geometry import View
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.pipelines.orders.permutation import hashed
from shardfeed.pipelines.samples import Samples, named
from shardfeed.pipelines.torch.shared_images import SHARED_IMAGES
from shardfeed.pipelines.windows import SampleSeed, sample_seeds
from shardfeed.readers.skip import read_intact
from shardfeed.readers.split import Record, checked_record
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH, Schema

_TOGETHER = 4 << 20  # bytes of records planned at once: they should stay in the processor's cache

# From a record, as `split[i]` gives it, and the sample's seed to the parts of a batch: tensors, arrays, numbers, bytes,
# or a nest of these.
Transform = Callable[[Mapping[str, Any], SampleSeed], Any]
T = TypeVar("T")
_CUT = (ENCODED, RESTARTS)  # the features that a record lacks once its image is made
# An image, uint8 [3, height, width], its view, and the Example of its record without it.
Image = tuple[torch.Tensor, View, bytes]
# A sample's index, and its number of earlier passes: as `order.Drawn`, for one sample.
Key = tuple[int, int]


class StepKeys(list[Key]):
    """The keys of a batch, and its step of the run; None if the batch does not come from the order."""

    def __init__(self, keys: Iterable[Key], step: int | None) -> None:
        super().__init__(keys)
        self.step = step

    def __reduce__(self) -> tuple[Any, ...]:
        return StepKeys, (list(self), self.step)


class TwoSteps(ABC, Generic[T]):
    """A transform in two steps: `plan` looks at a record, and returns a function that makes the sample.

    Several records are planned before the first sample is made, as `decoding.pixels.plan_view` recommends.
    """

    @abstractmethod
    def plan(self, record: Mapping[str, Any], seed: int) -> Callable[[], T]: ...

    def __call__(self, record: Mapping[str, Any], seed: int) -> T:
        return self.plan(record, seed)()


class Following(TwoSteps[T]):
    """A transform whose sample follows from its image, which is that of the transform `image`, and the image's view.

    `image` has a `crop`, and `antialias`. `followed` makes the sample; `record` may lack the image.
    """

    image: Any

    @abstractmethod
    def followed(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> T: ...

    def plan(self, record: Mapping[str, Any], seed: int) -> Callable[[], T]:
        see = self.image.plan_view(record, seed)
        return lambda: self.followed(record, *see())


def planning(transform: Callable[..., T]) -> Callable[..., Callable[[], T]]:
    """The first step of a transform. Without a `plan`, or with its own `__call__`, it only stores the call."""
    if isinstance(transform, TwoSteps) and type(transform).__call__ is TwoSteps.__call__:
        return transform.plan
    return partial(partial, transform)


class Fetched(list[Any]):
    """The samples of a batch, for `collate`; and the damaged ones, to be reported to the user's process.

    `seed`: of the batch, equal to its first sample's. `error`: the reason if there is no batch. `left_out`: damaged
    records that are not in it.
    """

    seed: int = 0
    error: ShardfeedError | None = None
    left_out: Sequence[RecordError] = ()


class TorchSamples(Dataset[Any]):
    """Dataset of `samples` after `transform`, by (index, pass) or by index; pickles as paths.

    `again`: a plain index, from a sampler of other code, is another pass each time, drawn from PyTorch's seed in this
    process (workers get a new one for each iteration); else it is pass 0. `keys`: features that are parsed. `skip`:
    damaged records are left out instead of raising; with `fill`, an intact record of the batch is repeated in place of
    each. `may_be_empty`: a batch may be left with none.
    """

    def __init__(
        self,
        samples: Samples,
        order: IndexedOrder,
        transform: Transform,
        *,
        again: bool,
        keys: Iterable[str] | None = None,
        skip: bool = False,
        fill: bool = True,
        may_be_empty: bool = False,
    ) -> None:
        self.samples, self.order, self.transform = samples, order, transform
        self._skip, self._fill, self._may_be_empty = skip, fill, may_be_empty
        self._again, self._drawn = again, 0
        schema = samples.schema
        wanted = set(schema.features) if keys is None else {schema.key(key) or key for key in keys}
        if schema.key(ENCODED) in wanted:
            wanted |= {RESTARTS} & schema.features.keys()
            if "raw" in samples.formats:  # raw pixels have no header with their shape
                wanted |= {FORMAT, HEIGHT, WIDTH}
        self._aliases = {alias: key for alias, key in schema.aliases.items() if key in wanted}
        self._schema = Schema({key: schema.features[key] for key in schema.features if key in wanted}, {})
        self._others = Schema({key: self._schema.features[key] for key in self._schema.features if key not in _CUT}, {})
        self._shares = False  # in a worker, after its first batch, for which `Collate` looks for room

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, key: int | Key) -> Any:
        """Return one sample. Raises RecordError, and the errors of the transform."""
        return self._transformed([self._keyed(key)], None)[0]

    def __getitems__(self, keys: Sequence[int | Key]) -> list[Any]:
        """Return a batch with one read: `Fetched`, or a plain list for mere indices, from a sampler of other code."""
        steps = [key for key in keys if isinstance(key, tuple)]
        if len(steps) == len(keys):
            step = keys.step if isinstance(keys, StepKeys) else None
            with reading(self.samples, None if step is None else chunk_of(self.order, step)):
                return self._fetched(steps)
        return self._transformed([self._keyed(key) for key in keys], None)

    def _keyed(self, key: int | Key) -> Key:
        if isinstance(key, tuple):
            return key
        if not self._again:
            return key, 0
        self._drawn += 1
        return key, int(hashed(torch.initial_seed(), self._drawn)) >> 2  # an int64, and some more

    def _fetched(self, keys: Sequence[Key]) -> Fetched:
        """Return the batch of a step, or an error of a record as a value: torch would raise RuntimeError instead."""
        fetched = Fetched()
        index, passed = np.array(keys[:1], np.int64).T
        fetched.seed = sample_seeds(self.order.sample_seeds(passed, self.samples.places(index)))[0]
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in workers: without workers, two threads for an image only wait
        try:
            # The user's `Skip`, in another process, counts them and warns.
            left_out: list[RecordError] | None = [] if self._skip else None
            fetched += self._transformed(keys, left_out)
            fetched.left_out = left_out or ()
        except ShardfeedError as error:
            fetched.error = error
        finally:
            torch.set_num_threads(threads)
        return fetched

    def _transformed(self, keys: Sequence[Key], left_out: list[RecordError] | None) -> list[Any]:
        """Read and transform the samples; damaged records raise, or their errors are appended to `left_out`."""
        indices, passes = np.array(keys, np.int64).reshape(-1, 2).T
        places = self.samples.places(indices)
        rows = np.arange(len(indices))
        if left_out is None:
            payloads = self.samples.payloads(indices)
        else:
            group = np.zeros(len(indices), np.int64) if self._fill else None
            found = read_intact(self.samples.payloads, indices, left_out.append, fill=group, place=self.samples.name)
            payloads, rows = found.payloads, found.rows
            passes[found.rows] += found.again  # of another pass, as for TensorFlow
        seeds = self.order.sample_seeds(passes, places)[rows]
        ready = self._images(payloads, seeds)
        own = sample_seeds(seeds) if None in ready else [None] * len(payloads)
        made: list[Any] = []
        plan = planning(self.transform)

        def planned(payload: bytes, seed: SampleSeed, image: Image | None) -> Callable[[], Any]:
            if image is not None:
                return partial(self._followed, *image)
            record = checked_record(decode(payload, self._schema.features), self._schema)
            return plan(self._with_aliases(record), seed)

        for part in _groups(payloads):
            todo = list(zip(payloads[part], indices[rows[part]], own[part], ready[part], strict=True))
            steps = deque(self._named(payload, at, planned, payload, *each) for payload, at, *each in todo)
            # Each is released before the next is made: it may hold the whole image.
            made += [self._named(payload, at, steps.popleft()) for payload, at, *_ in todo]
        if not made and not self._may_be_empty:
            raise IntegrityError(self.samples.name, f"{len(keys)} records of one batch are all damaged")
        return made

    def _images(self, payloads: Sequence[bytes], seeds: np.ndarray) -> "Sequence[Image | None]":
        """Make the images of a batch at once, by the compiled module; None for those that it does not make."""
        transform, ready = self.transform, [None] * len(payloads)
        if not isinstance(transform, Following) or "raw" in self.samples.formats:
            return ready
        if any(planning(step) != step.plan for step in (transform, transform.image)):  # a call of its own
            return ready
        decode_all = compiled_decoder(transform.image.crop, [key for key in _CUT if key in self._schema.features])
        if decode_all is None or not payloads:
            return ready
        found = decode_all(payloads, seeds)
        shape = (len(payloads), *transform.image.crop.target, 3)
        images = SHARED_IMAGES.take(shape) if self._shares else torch.empty(shape, dtype=torch.uint8)
        self._shares = get_worker_info() is not None
        found.make(images.numpy(), transform.image.antialias)
        made = zip(found.made.tolist(), images.permute(0, 3, 1, 2).unbind(), found.views(), found.others(), strict=True)
        return [(image, view, others) if well else None for well, image, view, others in made]

    def _followed(self, image: torch.Tensor, view: View, others: bytes) -> Any:
        """Make the sample whose image is made, from a record without it."""
        record = checked_record(decode(others, self._others.features), self._others)
        assert isinstance(self.transform, Following)
        return self.transform.followed(self._with_aliases(record), image, view)

    def _named(self, payload: bytes, index: Any, step: Callable[..., Any], *args: Any) -> Any:
        """Call `step` and return its result; its errors name the record."""
        try:
            return step(*args)
        except IntegrityError as error:  # CRC right, content not
            where = self.samples.where(int(index)) + named(payload)
            raise RecordError(where, error.problem, error.remedy) from None
        except StopIteration as error:  # a DataLoader would take it for the end of the data
            raise RuntimeError(f"the transform raised StopIteration at {self.samples.where(int(index))}") from error

    def _with_aliases(self, record: Record) -> Record:
        """The record, in which features are also stored under their aliases."""
        return record | {alias: record[key] for alias, key in self._aliases.items() if key in record}


def _groups(payloads: Sequence[bytes]) -> Iterator[slice]:
    """Divide records into runs of at most _TOGETHER bytes; a larger record is a run of its own."""
    start = size = 0
    for at, payload in enumerate(payloads):
        if size and size + len(payload) > _TOGETHER:
            yield slice(start, at)
            start, size = at, 0
        size += len(payload)
    yield slice(start, len(payloads))

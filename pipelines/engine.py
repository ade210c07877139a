"""Batches without a framework: read, decoded and cropped by threads, ahead of their use.

`BatchMaker` makes the batch of any samples that an order has drawn; `Ahead` has the batches of some steps made, in
their order, and ends its threads when it is closed or no one refers to it.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from shardfeed.errors import IntegrityError, MissingExtraError, RecordError
from shardfeed.machine.processes import limit_arenas
from shardfeed.pipelines.caching.client import reading
from shardfeed.pipelines.decoding.batch import BatchDecoder, UndecodableError
from shardfeed.pipelines.geometry import Crop, View
from shardfeed.pipelines.orders.order import Drawn, IndexedOrder
from shardfeed.pipelines.prefetch import Prefetcher, prefetch_threads
from shardfeed.pipelines.samples import Samples, named
from shardfeed.readers.skip import Skip, read_intact

T = TypeVar("T")

_AT_ONCE = 2  # batches: one is read, or its last images are made, while the decoder's threads work on another


class BatchMaker(Generic[T]):
    """Makes (images uint8 [b, height, width, 3], what `finish` makes of the rest of each record, in a list).

    Images are the windows that `crop` cuts. `finish`: from a serialized Example without its image, and the view. Its
    IntegrityErrors name the record. `damaged`: counts damaged records, which are left out; None: they raise. `fill`: an
    intact record of the batch is repeated for each that is left out. `may_be_empty`: a batch may be left with none.
    `threads`: images decoded at once. Thread-safe.
    """

    def __init__(
        self,
        samples: Samples,
        order: IndexedOrder,
        crop: Crop,
        finish: Callable[[bytes, View], T],
        *,
        damaged: Skip | None,
        fill: bool,
        may_be_empty: bool,
        threads: int,
    ) -> None:
        self._samples, self._order, self._finish = samples, order, finish
        self._damaged, self._fill, self._may_be_empty = damaged, fill, may_be_empty
        limit_arenas(threads)
        self._decoder = BatchDecoder(crop, samples.schema, samples.formats, threads)
        self.close = self._decoder.close

    def __call__(self, drawn: Drawn, chunk: int | None) -> tuple[np.ndarray, list[T]] | None:
        """Return the batch of some samples; None if it is empty. `chunk`: of the order, if they are read in it.

        Raises RecordError for a damaged record, IntegrityError if there are too many.
        """
        indices, passes = drawn
        with reading(self._samples, chunk):
            if self._damaged is None:
                payloads = self._samples.payloads(indices)
            else:
                group = np.zeros(len(indices), np.int64) if self._fill else None
                note, place = self._damaged.note, self._samples.name
                found = read_intact(self._samples.payloads, indices, note, fill=group, place=place)
                payloads, indices = found.payloads, indices[found.rows]
                passes = passes[found.rows] + found.again
        if not payloads:
            if self._may_be_empty:
                return None
            raise IntegrityError(self._samples.name, f"{len(drawn.indices)} records of one batch are all damaged")
        try:
            batch = self._decoder(payloads, self._order.sample_seeds(passes, self._samples.places(indices)))
        except UndecodableError as error:
            at = next(i for i, payload in enumerate(payloads) if payload is error.payload)
            raise self._of_record(payloads[at], indices[at], error.why) from None
        except ImportError as error:
            problem = "OpenCV, which resizes all images but plain JPEGs with the compiled module, cannot be imported"
            raise MissingExtraError("images", problem, "pip install opencv-python-headless") from error
        rest = []
        for payload, index, others, view in zip(payloads, indices, batch.others, batch.views, strict=True):
            try:
                rest.append(self._finish(others, view))
            except IntegrityError as error:  # CRC right, content not
                raise self._of_record(payload, index, error) from None
        return batch.images, rest

    def _of_record(self, payload: bytes, index: Any, error: IntegrityError) -> RecordError:
        return RecordError(self._samples.where(int(index)) + named(payload), error.problem, error.remedy)


class Ahead(Iterator[T]):
    """Iterator of `make(step)` for each of `steps`, made by threads ahead of its use, without the Nones.

    At most four are in memory besides those in use. `close` ends the threads, and then calls `closing`; it is called
    after the last one, after an error, when nothing refers to this, and when the interpreter ends.
    """

    def __init__(self, make: Callable[[int], T | None], steps: range, closing: Callable[[], object]) -> None:
        producers = [lambda worker: map(make, steps[worker.number :: worker.count])] * _AT_ONCE
        prefetcher = prefetch_threads(producers, buffer=1)
        self.close = weakref.finalize(self, _close, prefetcher, closing)
        self._batches = iter(prefetcher)

    def __next__(self) -> T:
        try:
            while (batch := next(self._batches)) is None:
                pass
            return batch
        except BaseException:
            self.close()
            raise


def _close(prefetcher: Prefetcher, closing: Callable[[], object]) -> None:
    prefetcher.close()
    closing()

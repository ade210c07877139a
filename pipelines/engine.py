"""The engine of batches, without a framework: records are read, decoded and cropped by threads, ahead of their use.

A `DrawnReader` reads what an order has drawn, a `BatchMaker` makes the batch of these records, an `ImageMaker` its
images alone, and `Ahead` has the batches of some steps made, in their order.
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from shardfeed.errors import IntegrityError, MissingExtraError, RecordError
from shardfeed.foreign import name_of
from shardfeed.formats.example import decode
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.caching.client import reading
from shardfeed.pipelines.decoding.batch import Batch, Decode, UndecodableError
from shardfeed.pipelines.decoding.packed import decoder_of
from shardfeed.pipelines.orders.order import BlockOrder, DrawnSamples, IndexedOrder
from shardfeed.pipelines.prefetch import prefetch_threads
from shardfeed.pipelines.samples import Samples, images_checked, named
from shardfeed.processes import limit_arenas
from shardfeed.readers.skip import read_intact
from shardfeed.readers.split import Record, Split, checked_record
from shardfeed.schema import Schema

T = TypeVar("T")

_AT_ONCE = 2  # batches: one is read, or its last images are made, while the decoder's threads work on another


class Records(NamedTuple):
    """Serialized records [k], their seeds, int64 [k, 2], and the place of the record in a row, for errors.

    `shape`: of the batch, if its order decides it.
    """

    payloads: list[bytes]
    seeds: np.ndarray
    where: Callable[[int], str]
    shape: tuple[int, int] | None = None


class DrawnReader:
    """Reads what an order has drawn from its samples. Thread-safe.

    `fill`: an intact record of a batch is repeated in place of each damaged one that is left out. `may_be_empty`: a
    batch may be left with none.
    """

    def __init__(self, samples: Samples, order: IndexedOrder, *, fill: bool = True, may_be_empty: bool = False) -> None:
        self.samples, self.order = samples, order
        self._fill, self._may_be_empty = fill, may_be_empty
        self._windows: tuple[int, ...] = ()  # of blocks, that were loaded last

    def __call__(self, drawn: DrawnSamples, chunk: int | None, note: Callable[[RecordError], None] | None) -> Records:
        """Read a batch. `chunk`: of the order, if it is known.

        `note` is called with the error of each damaged record, which is left out; None: it raises. What is repeated in
        its place is in another pass, and so gets another crop. Raises IntegrityError if too many are damaged.
        """
        samples, (indices, passes, shape) = self.samples, drawn
        self.load(chunk)
        with reading(samples, chunk):
            if note is None:
                payloads = samples.payloads(indices)
            else:
                found = read_intact(samples.payloads, indices, note, fill=self._fill, place=samples.name)
                payloads, indices = found.payloads, indices[found.rows]
                passes = passes[found.rows] + found.again
        if not payloads and not self._may_be_empty:
            raise IntegrityError(samples.name, f"{len(drawn.indices)} records of one batch are all damaged")
        seeds = self.order.sample_seeds(passes, samples.places(indices))
        return Records(payloads, seeds, lambda row: samples.where(int(indices[row])), shape)

    def load(self, chunk: int | None) -> None:
        """Read a window of blocks into the page cache, block by block: random reads are slow where it is used."""
        order, samples = self.order, self.samples
        if not isinstance(order, BlockOrder) or chunk in (None, *self._windows) or not isinstance(samples, Split):
            return
        self._windows = (*self._windows[-2:], chunk)
        shards = samples.shards
        if shards.ahead is None and (shards.copy is None or shards.copy.filler is None):  # else it is fetched ahead
            epoch, number = divmod(chunk, order.chunks_per_epoch)
            window = np.arange(number * order.chunk, min((number + 1) * order.chunk, order.epoch_samples))
            samples.shards.load(np.sort(samples.places(order.draw(epoch, window).indices)))


class Parser:
    """Makes records with the features `keys` from serialized Examples, also under their aliases. Pickles."""

    def __init__(self, schema: Schema, keys: Collection[str]) -> None:
        self._aliases = {alias: key for alias, key in schema.aliases.items() if key in keys}
        self._schema = Schema({key: schema.features[key] for key in schema.features if key in keys}, {})

    def __call__(self, payload: bytes) -> Record:
        """Return the record. Raises IntegrityError if it does not match the schema."""
        record = checked_record(decode(payload, self._schema.features), self._schema, {})
        return record | {alias: record[key] for alias, key in self._aliases.items()}


class ImageMaker:
    """Makes the images of records: the windows that `crop` cuts. Thread-safe.

    `threads`: images decoded at once; 0: by the caller. `decode`: where they become pixels; "cuda": they are `Packed`
    for a GPU. `options`: `dtype`, `shrink` and `allocate` of `BatchDecoder`. `keys`: the features that are taken out of
    the records.
    """

    def __init__(self, samples: Samples, crop: Crop, *, threads: int, decode: Decode = "cpu", **options: Any) -> None:
        limit_arenas(threads)
        of = crop, samples.schema, samples.formats, threads
        self._decoder = decoder_of(decode, *of, check=not images_checked(samples), **options)
        self.start, self.close = self._decoder.start, self._decoder.close
        self.keys = frozenset(self._decoder.keys)

    def __call__(self, records: Records) -> Batch:
        """Return the images with their views, and the rest of the records. Raises RecordError for one not decodable."""
        try:
            return self._decoder.at(records.shape)(records.payloads, records.seeds)
        except UndecodableError as error:
            row = next(row for row, payload in enumerate(records.payloads) if payload is error.payload)
            raise _of_record(records, row, error.why) from None
        except ImportError as error:
            problem = "OpenCV, which resizes all images but plain JPEGs with the compiled module, cannot be imported"
            raise MissingExtraError("images", problem, "pip install opencv-python-headless") from error


class BatchMaker(Generic[T]):
    """Makes batches of records: images, as `ImageMaker` makes them, and a list of what `finish` makes. Thread-safe.

    `finish`: from a record with the features `keys`, but for the image; the image as `each` gives it; and its view. Its
    IntegrityErrors name the record. `each`: from the batch of images to one for each record. Others: of `ImageMaker`.
    """

    def __init__(
        self,
        samples: Samples,
        crop: Crop,
        keys: Collection[str],
        finish: Callable[[Record, Any, View], T],
        *,
        each: Callable[[Any], Iterable[Any]] = lambda images: images[0] if isinstance(images, list) else images,
        **options: Any,
    ) -> None:
        self._finish, self._each = finish, each
        self._images = ImageMaker(samples, crop, **options)
        self._parse = Parser(samples.schema, set(keys) - self._images.keys)
        self.close = self._images.close

    def __call__(self, records: Records) -> tuple[Any, list[T]]:
        """Return their batch. Raises RecordError as `ImageMaker` does."""
        batch = self._images(records)
        rest: list[T] = []
        for image, others, view in zip(self._each(batch.images), batch.others, batch.views, strict=True):
            try:
                rest.append(self._finish(self._parse(others), image, view))
            except IntegrityError as error:  # CRC right, content not
                raise _of_record(records, len(rest), error) from None
            except Exception as error:  # of a function of the user's
                row = len(rest)
                error.add_note(f"{name_of(self._finish)} raised this for {_place(records, row)}")
                raise
        return batch.images, rest


def _of_record(records: Records, row: int, error: IntegrityError) -> RecordError:
    return RecordError(_place(records, row), error.problem, error.remedy)


def _place(records: Records, row: int) -> str:
    return records.where(row) + named(records.payloads[row])


class Ahead(Iterator[T]):
    """Iterator of `make(step)` for each of `steps`, made by threads ahead of its use, without the Nones.

    `ready`: batches that wait for their use. Two more are being made, or with `in_turn` one. `close` ends the threads
    and calls `closing`; it is called at the end, after an error, when nothing refers to this, and at exit.
    """

    def __init__(
        self, make: Callable[[int], T | None], steps: range, closing: Callable[[], object], ready: int, *, in_turn: bool
    ) -> None:
        lanes = 1 if in_turn else min(_AT_ONCE, ready)
        producers = [lambda worker: map(make, steps[worker.number :: worker.count])] * lanes
        prefetcher = prefetch_threads(producers, buffer=-(-ready // lanes))
        self.close = weakref.finalize(self, lambda: (prefetcher.close(), closing()))
        self._batches = iter(prefetcher)

    def __next__(self) -> T:
        try:
            return next(batch for batch in self._batches if batch is not None)
        except BaseException:
            self.close()
            raise

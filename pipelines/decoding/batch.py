"""Many images as one array, made by threads: decoded and resized by `pixels`, directly into the array.

Neither library holds the interpreter's lock while it works; the Python code around both takes some 60 microseconds per
image.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from itertools import accumulate, chain
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.formats.example import cut_out, decode
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.edits import MOVES, Edits
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.augment.view import ChooseView, View
from shardfeed.pipelines.decoding.compiled import Allocate, compiled_decoder
from shardfeed.pipelines.decoding.pixels import Shrink, fit, plan_view
from shardfeed.pipelines.windows import view_seeds
from shardfeed.released import Released
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, RESTARTS, WIDTH, Schema

T = TypeVar("T")
# Where images become pixels; "like_cuda": on the CPU, the pixels of "cuda".
Decode = Literal["cpu", "cuda", "like_cuda"]

_MOST_OF_TASK = 16  # images: handing over a task costs as much as the Python code for an image
_FREE = 2  # batches whose memory is kept while no one uses it
UINT8 = np.dtype(np.uint8)
_ALIGNED = 64  # bytes: arrays at multiples of this become tensors without a copy


class Batch(NamedTuple):
    """Batch of k records: images, [k, height, width, channels] or `Packed`, views, and Examples of other features.

    Of several crops a list of images, and the views of the first.
    """

    images: Any
    views: list[View]
    others: list[bytes]


class UndecodableError(Exception):
    """The image of `payload` does not decode; `why` does not name the record."""

    def __init__(self, payload: bytes, why: IntegrityError) -> None:
        super().__init__(payload, why)
        self.payload, self.why = payload, why


class BatchDecoder:
    """Makes batches of the windows that `crop` cuts from images. Thread-safe.

    `schema`: of the records. `formats`: all values of `image/format`. `dtype`: see `pixel_dtype`. `threads`: images
    decoded at once; 0: by the caller alone. `shrink`: see `fit`. `allocate`: makes the arrays of batches; None: memory
    is used again once nothing refers to it. `like_cuda`: see `plan_view`. `keys`: the features that a batch's Examples
    omit.
    """

    def __init__(
        self,
        crop: Crop,
        schema: Schema,
        formats: Iterable[str],
        threads: int,
        *,
        dtype: np.dtype = UINT8,
        shrink: Shrink | None = None,
        allocate: Allocate | None = None,
        like_cuda: bool = False,
    ) -> None:
        self._crop, self._shrink, self._like_cuda, self._dtype = crop, shrink, like_cuda, dtype
        self._beside = (FORMAT, HEIGHT, WIDTH) if "raw" in formats else ()  # raw pixels have no header
        # The names of these features in the records, which may have them under aliases, and their usual names.
        named = {schema.key(name): name for name in (ENCODED, RESTARTS)}
        self._names = {key: name for key, name in named.items() if key is not None}
        self.keys = list(self._names)
        self._threads = max(1, threads)
        self._pool = ThreadPoolExecutor(threads, "shardfeed-decode") if threads else None
        self._allocate = allocate or ReusedMemory()
        plain = not self._beside and dtype == UINT8 and all(part.channels == 3 for part in crop.parts)
        self._compiled = compiled_decoder(crop, self.keys, like_cuda) if plain else None

    def __call__(self, payloads: Sequence[bytes], seeds: np.ndarray) -> Batch:
        """Return the batch of some records, with their seeds, int64 [k, 2]. Raises UndecodableError."""
        count, parts = len(payloads), self._crop.parts
        images = self._room(count)
        views, others, rest = cast(list[Any], [None] * count), [b""] * count, list(range(count))
        edits = [part.edits(view_seeds(seeds, number)) for number, part in enumerate(parts)]
        if self._compiled is not None and not self._crop.letterboxes and count:
            found = self._compiled(payloads, seeds)
            self._in_threads(lambda _: found.make(images, self._shrink is not None, edits), range(self._threads))
            views, others, rest = found.views(), found.others(), np.flatnonzero(~found.made).tolist()
        for number in reversed(range(len(parts) if rest else 0)):  # the first view is the record's
            made = self._one_by_one(rest, payloads, view_seeds(seeds, number), images[number], parts[number])
            for at, view, other in zip(rest, *made, strict=True):
                views[at], others[at] = view, other
            self._edit(images[number], edits[number], rest)
        if edits[0] is not None:
            views = with_moves(views, edits[0])
        return Batch(images if self._crop.several else images[0], views, others)

    def _room(self, count: int) -> list[np.ndarray]:
        """Memory for the images of each view, [count, height, width, channels], in one piece."""
        shapes = [(count, *crop.target, crop.channels) for crop in self._crop.parts]
        sizes = [math.prod(shape) * self._dtype.itemsize for shape in shapes]
        starts = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes[:-1]), initial=0))
        whole = self._allocate((starts[-1] + sizes[-1],))
        pieces = (whole[start : start + size] for start, size in zip(starts, sizes, strict=True))
        return [piece.view(self._dtype).reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def at(self, shape: tuple[int, int] | None) -> "BatchDecoder":
        """The decoder of a batch of this shape, with the same threads; itself if the crop has a size."""
        if (crop := self._crop.at(shape)) is self._crop:
            return self
        made = copy(self)
        made._crop, made._compiled = crop, self._compiled and compiled_decoder(crop, self.keys, self._like_cuda)
        return made

    def start(self) -> None:
        """Start the threads now, not with the first batch.

        Python counts the thread that starts another as one of its own, for ever if it is a library's.
        """
        if self._pool is not None:
            all_started = threading.Barrier(self._threads)
            for _ in range(self._threads):  # while each of them waits, the pool starts another
                self._pool.submit(all_started.wait)

    def close(self) -> None:
        """Have the threads end. Other threads may still call: they then decode themselves."""
        # They end with the pool. `shutdown` takes a lock and waits: this may be called where garbage is collected, in
        # one of the threads, or in one that holds the lock.
        self._pool = None

    def _one_by_one(
        self, which: Sequence[int], payloads: Sequence[bytes], seeds: np.ndarray, images: Any, crop: Crop
    ) -> tuple[list[View], list[bytes]]:
        """Fill some of `images`, which are found by number; return their views, and the rest of their records."""
        choices = crop.choices(seeds[which])
        # Two per thread, so that a slow task delays no others.
        count = min(_MOST_OF_TASK, -(-len(which) // (2 * self._threads))) or 1

        def part(start: int) -> list[tuple[View, bytes]]:
            mine = zip(which[start : start + count], choices[start : start + count], strict=True)
            return [self._make(payloads[at], choose, images[at], crop) for at, choose in mine]

        made = list(chain.from_iterable(self._in_threads(part, range(0, len(which), count))))
        return [view for view, _ in made], [others for _, others in made]

    def _edit(self, images: np.ndarray, edits: Edits | None, which: Sequence[int]) -> None:
        """Carry out the edits of some images of a view, in threads."""
        if edits is None:
            return
        count = -(-len(which) // self._threads) or 1

        def part(start: int) -> None:
            for row in which[start : start + count]:
                edit_image(images[row], edits, row)

        self._in_threads(part, range(0, len(which), count))

    def _in_threads(self, call: Callable[[int], T], numbers: Iterable[int]) -> list[T]:
        """Results of `call` for each number, in their order."""
        numbers, pool = list(numbers), self._pool
        if pool is None:
            return [call(number) for number in numbers]
        try:
            parts: list[Future[T]] = [pool.submit(call, number) for number in numbers]
        except RuntimeError:  # the interpreter is about to end, and starts no new threads
            return [call(number) for number in numbers]
        return [part.result() for part in parts]

    def _make(self, payload: bytes, choose: ChooseView, image: np.ndarray, crop: Crop) -> tuple[View, bytes]:
        """Fill `image`, [height, width, channels]; return its view, and the rest of the record.

        Images are planned one after the other: planning several at once would hold the interpreter's lock for as long.
        """
        try:
            record, others = self._record(payload)
            planned = plan_view(record, choose, like_cuda=self._like_cuda, gray=crop.channels == 1)
            pixels = planned.pixels()
        except IntegrityError as error:
            raise UndecodableError(payload, error) from None
        fit(pixels, planned.view, image, crop.fill, self._shrink)
        return planned.view, others

    def _record(self, payload: bytes) -> tuple[dict[str, Any], bytes]:
        """The image of a record, as `plan_view` takes it, and the rest of the record. Raises IntegrityError."""
        record: dict[str, Any] = {} if self._dtype == UINT8 else {FORMAT: PNG16.encode()}
        others = payload
        for key, name in self._names.items():
            value, others = cut_out(others, key)
            if value is not None:
                record[name] = value if name == ENCODED else bytes(value)
        for key, (_, values) in decode(others, self._beside).items() if self._beside else ():
            if len(values):
                record[key] = values[0] if key == FORMAT else int(values[0])
        for key in (ENCODED, *self._beside):
            if key not in record:
                raise IntegrityError("record", f"it has no {key}")
        return record, others


def with_moves(views: list[View], edits: Edits) -> list[View]:
    """The views of images after their edits."""
    moved = np.flatnonzero(np.isin(edits.kinds, MOVES).any(1)).tolist()
    for row in moved:
        views[row] = views[row]._replace(moves=edits.moves(row))
    return views


class ReusedMemory:
    """Memory of arrays, reused once nothing refers to them: fresh pages cost more than filling. Copies are empty."""

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        self._lent: Released[np.ndarray] = Released()

    def __reduce__(self) -> tuple[Any, ...]:
        return ReusedMemory, ()

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an uninitialised array of bytes, at an address that is a multiple of _ALIGNED."""
        size = math.prod(shape) + _ALIGNED
        self._free += self._lent.take()
        del self._free[_FREE:]
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if len(memory) < size:
            memory = np.empty(size, np.uint8)
        # All its views refer to this array, not to the memory, which is released with the last view.
        whole = np.frombuffer(memory.data, np.uint8)
        self._lent.hold(whole, memory)
        start = -memory.ctypes.data % _ALIGNED
        return whole[start : start + math.prod(shape)].reshape(shape)

"""Images of a batch by the compiled module: from records to pixels without the interpreter's lock.

It knows plain and seekable JPEGs in records of the canonical form, and refuses all others, and whatever is damaged:
those `batch` makes one by one, as all of them without the compiled module. Pixels, views and errors are the same.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from shardfeed.native import library
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.windows import Window, view_seeds
from shardfeed.schema import ENCODED, RESTARTS

Allocate = Callable[[tuple[int, ...]], np.ndarray]  # from a shape to an array of bytes that no one else uses

# As native.h has them.
_RECORD = np.dtype(
    [
        *((name, np.int64) for name in ("payload", "size", "image", "image_size", "restarts", "restarts_size")),
        ("cuts", np.int64, 4),
        ("others", np.int64),
        *((name, np.int32) for name in ("height", "width", "known", "made")),
    ]
)
_TARGET = np.dtype(
    [("images", np.int64), ("tall", np.int32), ("wide", np.int32)]
    + [(name, np.int64) for name in ("kinds", "numbers", "slots")]
)
_VIEW = np.dtype([(name, np.int32) for name in ("top", "left", "height", "width", "ratio", "mirrored")])


class CompiledImages:
    """The images of some records: found first, then made by as many threads as call `make`.

    `seeds`: int64 [k, 2], for the windows. `like_cuda`: see `plan_view`. `made`: bool [k], those that are made, once
    the threads are through, or that `pack` packed.
    """

    def __init__(
        self,
        loaded: ctypes.CDLL,
        crop: Crop,
        seekable: bool,
        like_cuda: bool,
        payloads: Sequence[bytes],
        seeds: np.ndarray,
    ) -> None:
        self._library, self._crop, self._like_cuda, self._payloads = loaded, crop, like_cuda, payloads
        self._records = np.zeros(len(payloads), _RECORD)
        pointers = (ctypes.c_char_p * len(payloads))(*payloads)  # of `payloads`, which keeps them
        # Not by `ctypes.cast`: its result refers to itself, and would keep `payloads` until garbage is collected.
        self._records["payload"] = np.frombuffer(memoryview(pointers), np.int64)
        self._records["size"] = list(map(len, payloads))
        self._library.shardfeed_find(len(payloads), _address(self._records), seekable)
        self._sizes = np.stack([self._records["height"], self._records["width"]], 1).astype(np.int64)
        known = self._records["known"] != 0
        self._sizes[~known] = 1  # any view: nothing is made of it
        self._views = np.empty((len(payloads), len(crop.parts)), _VIEW)
        seen = [self._choose(part, view_seeds(seeds, number), number) for number, part in enumerate(crop.parts)]
        self._windows, self._mirrored = seen[0]
        self._next = np.zeros(1, np.int32)

    def _choose(self, crop: Crop, seeds: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Choose a view of each image: its window, in whole pixels of the smaller image, and whether it is mirrored."""
        windows, mirrored = crop.windows(seeds, self._sizes)
        # As `geometry.reduction`.
        fits = (windows[:, 2:] // np.array(crop.target)).min(1)
        ratios = np.select([fits >= 8, fits >= 4, fits >= 2], [8, 4, 2], 1)
        ratios = np.ones_like(fits) if self._like_cuda else ratios
        views = self._views[:, number]
        for column, name in enumerate(("top", "left", "height", "width")):
            views[name] = windows[:, column]
        views["ratio"], views["mirrored"] = ratios, mirrored
        return windows - windows % ratios[:, None], mirrored

    def make(self, images: Sequence[np.ndarray], antialias: bool, edits: Sequence[Edits | None]) -> None:
        """Make images until none is left, into those of each view, uint8 [k, height, width, 3], and edit them."""
        targets = np.array([_target(*of_view) for of_view in zip(images, edits, strict=True)], _TARGET)
        self._library.shardfeed_make(
            len(self._payloads),
            _address(self._records),
            _address(self._views),
            len(images),
            _address(targets),
            antialias,
            not self._like_cuda,
            _address(self._next),
        )

    def pack(self, allocate: Allocate, check: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Copy what shows the views into memory from `allocate`: see `Packed`, whose parts are returned.

        Images that are not `made` have room for their pixels, and no place.
        """
        count, target = len(self._payloads), self._crop.target
        ends, places = np.empty(count, np.int64), np.empty((count, 11), np.int32)
        places[:, 4:6] = self._windows[:, 2:]
        contents = [tuple(view.content) for view in self.views()]  # with padding, if it is a letterbox
        places[:, 6:10] = np.array(contents, np.int32) if self._crop.letterboxes else (0, 0, *target)
        places[:, 10] = self._mirrored
        pixels = 3 * math.prod(target)
        size = int(np.where(self._records["known"] != 0, self._records["image_size"], pixels).sum())
        while True:
            data = allocate((size,))
            arrays = map(_address, (self._records, self._views, data, ends, places))
            self._library.shardfeed_pack(count, check, ctypes.c_int64(pixels), ctypes.c_int64(size), *arrays)
            if ends[-1] <= size:
                return data[: ends[-1]], ends, self.made, places
            size = int(ends[-1])  # some, which are small as files, must be made

    @property
    def made(self) -> np.ndarray:
        return self._records["made"] != 0

    def views(self) -> list[View]:
        """Return the view of each image."""
        target = self._crop.target
        if self._crop.letterboxes:
            return [self._crop.view(*size) for size in self._sizes.tolist()]
        return [
            cropped((height, width), Window(*window), target, mirrored)
            for (height, width), window, mirrored in zip(
                self._sizes.tolist(), self._windows.tolist(), self._mirrored.tolist(), strict=True
            )
        ]

    def others(self) -> list[bytes]:
        """Return the Examples without their images; b"" for unknown Examples."""
        sizes = self._records["others"] * (self._records["known"] != 0)
        whole = np.empty(int(sizes.sum()), np.uint8)
        self._library.shardfeed_others(len(sizes), _address(self._records), _address(whole))
        joined, ends = whole.tobytes(), sizes.cumsum().tolist()
        return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def compiled_decoder(
    crop: Crop, keys: Sequence[str], like_cuda: bool = False
) -> Callable[[Sequence[bytes], np.ndarray], CompiledImages] | None:
    """Return the maker of `CompiledImages` of payloads and seeds; None if the compiled module is off or cannot do it.

    `keys`: the features that are cut out of the records. `like_cuda`: see `plan_view`.
    """
    loaded = library()
    if loaded is None or not {ENCODED} <= {*keys} <= {ENCODED, RESTARTS}:
        return None
    return partial(CompiledImages, loaded, crop, RESTARTS in keys, like_cuda)


def _target(images: np.ndarray, edits: Edits | None) -> tuple[int, ...]:
    """A row of _TARGET: where the images of a view go, and what is done to them there."""
    done = (0, 0, 0) if edits is None else (edits.kinds.ctypes.data, edits.numbers.ctypes.data, edits.kinds.shape[1])
    return (images.ctypes.data, *images.shape[1:3], *done)


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)

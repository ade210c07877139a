"""Shared memory for the images of batches, which a worker fills again once the trainer has released them.

New memory is filled with zeros by the kernel, one page fault for each 4 kB. On the virtual machine of the benchmarks, a
fault takes about 3 µs, and an image of 224 x 224 pixels 37 of them.
"""

import os
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch

_END = 64  # bytes behind the images; the last one is 1 as long as the trainer may use them


class Lent:
    """A batch of images in a worker, which arrives in the trainer as a tensor.

    Its memory is the trainer's until nothing there refers to the tensor.
    """

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.images,)


class SharedImages:
    """The shared memory of a worker: `kept` pieces at most are used again, 0 until that is known to fit."""

    def __init__(self) -> None:
        self.kept = 0
        self._pieces: list[torch.UntypedStorage] = []  # lent, or free again
        self._taken = 0  # address of the last piece, until it is lent

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a tensor of bytes that no one else uses."""
        size = prod(shape) + _END
        fits = (n for n, piece in enumerate(self._pieces) if piece.nbytes() >= size and not piece[piece.nbytes() - 1])
        number = next(fits, None)
        # As PyTorch's own collate function calls it.
        piece = torch.UntypedStorage._new_shared(size) if number is None else self._pieces.pop(number)
        self._taken = piece.data_ptr()
        return _bytes(piece)[: prod(shape)].view(shape)

    def lend(self, images: torch.Tensor) -> Lent | None:
        """Return the batch `images`, if `take` made its memory, the first time only."""
        piece = images.untyped_storage()
        if piece.data_ptr() != self._taken:
            return None
        self._taken = 0
        piece[piece.nbytes() - 1] = 1
        if len(self._pieces) < self.kept:
            self._pieces.append(piece)
        return Lent(images)


def joined(images: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The batch, stored as [k, height, width, channels], whose images these are, in order; None if there is none.

    Without an operation for each image: those on tensors let the threads that make batches take the interpreter's lock.
    """
    first, whole = images[0], images[0].untyped_storage()
    start, strides = first.data_ptr(), first.stride()
    if first.ndim != 3 or not first.permute(1, 2, 0).is_contiguous():
        return None
    if start != whole.data_ptr() or whole.nbytes() < len(images) * first.nbytes:
        return None
    if any(one.data_ptr() != start + n * first.nbytes or one.stride() != strides for n, one in enumerate(images)):
        return None
    return first.as_strided((len(images), *first.shape), (first.numel(), *first.stride()))


SHARED_IMAGES = SharedImages()  # of this process


def _received(images: torch.Tensor) -> torch.Tensor:
    """The images in the trainer: a tensor that refers to an array, which ends when nothing refers to the tensor."""
    lent = images.numpy()
    weakref.finalize(lent, _give_back, _bytes(images.untyped_storage()).numpy(), os.getpid()).atexit = False
    return torch.from_numpy(lent)


def _give_back(piece: np.ndarray, owner: int) -> None:
    if os.getpid() == owner:  # a process forked since may drop its copy of the tensor while the trainer still reads it
        piece[-1] = 0


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)

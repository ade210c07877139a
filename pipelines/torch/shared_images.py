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

_END = 64  # bytes behind the images: one for each view, which is 1 as long as the trainer may use it


class SharedBatch:
    """A batch of images in a worker, which arrives in the trainer as a tensor; `view`: its number among the views.

    Its memory is the trainer's until nothing there refers to the tensor, nor to that of another view.
    """

    def __init__(self, images: torch.Tensor, view: int) -> None:
        self.images, self._view = images, view

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.images, self._view)


class SharedImages:
    """The shared memory of a worker: `kept` pieces at most are used again, 0 until that is known to fit.

    A piece holds the images of a batch, of all its views.
    """

    def __init__(self) -> None:
        self.kept = 0
        self._pieces: list[torch.UntypedStorage] = []  # lent, or free again
        self._taken: torch.UntypedStorage | None = None  # the last piece
        self._shared: list[int] = []  # addresses of the views in it that are lent

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a tensor of bytes that no one else uses."""
        size = prod(shape) + _END
        free = (number for number, piece in enumerate(self._pieces) if not _ends(piece).any())
        number = max(free, key=lambda number: self._pieces[number].nbytes(), default=None)
        # One that is too small makes room for a larger one.
        piece = None if number is None else self._pieces.pop(number)
        if piece is None or piece.nbytes() < size:
            piece = torch.UntypedStorage._new_shared(size)  # as PyTorch's own collate function calls it
        self._taken, self._shared = piece, []
        return _bytes(piece)[: prod(shape)].view(shape)

    def share(self, images: torch.Tensor) -> SharedBatch | None:
        """Return the batch `images`, a view, if it is in what `take` returned last; the first time only."""
        piece, address, view = images.untyped_storage(), images.data_ptr(), len(self._shared)
        if self._taken is None or piece.data_ptr() != self._taken.data_ptr():
            return None
        if address in self._shared or view == _END:
            return None
        _ends(piece)[view] = 1
        if not view and len(self._pieces) < self.kept:
            self._pieces.append(piece)
        self._shared.append(address)
        return SharedBatch(images, view)


def apart(images: np.ndarray | list[np.ndarray]) -> list[Any]:
    """The images of a batch, [k, height, width, channels], as tensors [channels, height, width], for `joined`.

    They are parts of the tensor whose memory the array is, if there is one. Of several views: a list for each image.
    """
    if isinstance(images, list):
        return list(map(list, zip(*map(apart, images), strict=True)))
    whole = tensor_of(images).permute(0, 3, 1, 2)
    parts = list(whole.unbind())
    vars(parts[0])["batch"] = whole  # so that nothing of the user's is taken for ours, and handed on without a copy
    return parts


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """An array as a tensor: of the tensor whose memory it is, if there is one, which may be pinned."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, torch.Tensor):
        return torch.from_numpy(array)
    start = array.ctypes.data - owner.data_ptr()
    found = owner.view(-1)[start : start + array.nbytes]
    return (found.view(torch.uint16) if array.dtype == np.uint16 else found).view(array.shape)


def joined(images: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The batch that `apart` took apart, if these are its images, in order; else None.

    Without an operation for each image: those on tensors let the threads that make batches take the interpreter's lock.
    """
    whole: torch.Tensor | None = vars(images[0]).get("batch")
    if whole is None or len(whole) != len(images):
        return None
    start, size = whole.data_ptr(), images[0].nbytes
    return whole if all(one.data_ptr() == start + n * size for n, one in enumerate(images)) else None


SHARED_IMAGES = SharedImages()  # of this process


def _received(images: torch.Tensor, view: int) -> torch.Tensor:
    """The images in the trainer: a tensor that refers to an array, which ends when nothing refers to the tensor."""
    lent = images.numpy()
    # Not `Released`: the worker needs the memory at once. A Ctrl-C within these few microseconds would be lost.
    weakref.finalize(lent, _give_back, _ends(images.untyped_storage()).numpy(), view, os.getpid()).atexit = False
    return torch.from_numpy(lent)


def _give_back(ends: np.ndarray, view: int, owner: int) -> None:
    if os.getpid() == owner:  # a process forked since may drop its copy of the tensor while the trainer still reads it
        ends[view] = 0


def _ends(piece: torch.UntypedStorage) -> torch.Tensor:
    return _bytes(piece)[-_END:]


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)

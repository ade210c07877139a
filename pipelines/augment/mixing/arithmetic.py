"""Mixing of a batch, by what was drawn for it: here of NumPy arrays, in their own memory.

Frameworks register theirs: `pipelines/torch/mixing.py` and `pipelines/tensorflow/mixing.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from shardfeed.errors import UsageError, shown
from shardfeed.pipelines.windows import Window

BITS = 8  # of the fraction of a share, so that the arithmetic of 8-bit pixels fits into 16 bits
WHOLE = 1 << BITS
_PIECE = 1 << 14  # values that are blended at once: more would not stay in the processor's cache


class Mixed(NamedTuple):
    """A draw for a batch: each sample keeps a `share` of itself, 0..1; the rest is the sample before it.

    `box`: of the images, in pixels, if that part is replaced instead of all of them being blended, with a share in
    steps of 1/256.
    """

    share: float
    box: Window | None = None


Draw = Callable[[Any, int, int], Mixed]  # from the seed of a batch, and the height and width of its images


# From images, labels, the seed of a batch, what draws, and the number of classes to the batch.
# By the name of the library: the pages are built without the libraries.
_MIXERS: dict[str, Callable[[Any, Any, Any, Draw, int | None], Any]] = {}
Mixer = TypeVar("Mixer", bound=Callable[..., Any])


def mixes(library: str) -> Callable[[Mixer], Mixer]:
    """Have the function below mix the arrays or tensors of a library."""

    def add(mixer: Mixer) -> Mixer:
        _MIXERS[library] = mixer
        return mixer

    return add


def mixed(images: Any, labels: Any, seed: Any, draw: Draw, classes: int | None) -> Any:
    """The batch (images, labels), mixed, by the kind of its images. `classes`: of labels that are numbers of classes.

    Raises UsageError for images of another kind, without a number of classes where it is needed, or if it is too small.
    """
    for kind in type(images).__mro__:  # a tensor of another package may be one of PyTorch's, too
        mixer = _MIXERS.get(kind.__module__.partition(".")[0])
        if mixer is not None:
            return mixer(images, labels, seed, draw, classes)
    remedy = "give it to a loader as batch_transform=, or mix NumPy arrays"
    raise UsageError("batch_transform", f"got images {shown(images)}, expected an array or a tensor", remedy)


@mixes("numpy")
def mixed_arrays(images: np.ndarray, labels: Any, seed: Any, draw: Draw, classes: int | None) -> Any:
    """The batch, mixed in its own memory: images [b, height, width, channels]."""
    drawn = draw(seed, *images.shape[1:3])
    mix_images(images, drawn)
    return images, mixed_labels(np.asarray(labels), drawn, classes)


def mix_images(images: np.ndarray, drawn: Mixed) -> None:
    """Mix each image with the one before it, in place; the first one with the last."""
    if drawn.share == 1 or not len(images):
        return
    last = images[-1].copy()
    for row in range(len(images) - 1, -1, -1):  # from behind: each needs the one before it as it was
        _mix_image(images[row], images[row - 1] if row else last, drawn)


def _mix_image(image: np.ndarray, other: np.ndarray, drawn: Mixed) -> None:
    if drawn.box is not None:
        top, left, height, width = drawn.box
        part = slice(top, top + height), slice(left, left + width)
        image[part] = other[part]
    elif image.dtype.kind == "f":
        image *= drawn.share
        image += other * image.dtype.type(1 - drawn.share)
    else:
        _blend(image, other, drawn.share)


def _blend(image: np.ndarray, other: np.ndarray, share: float) -> None:
    """Blend an image of whole numbers with another one, in place."""
    wide: Any = np.uint16 if image.dtype == np.uint8 else np.uint32
    part = round(share * WHOLE)
    rows = max(1, _PIECE // image[0].size)
    sums, rest = np.empty((2, rows, *image.shape[1:]), wide)
    for top in range(0, len(image), rows):
        piece, beside = image[top : top + rows], other[top : top + rows]
        total = np.multiply(piece, wide(part), out=sums[: len(piece)])
        total += np.multiply(beside, wide(WHOLE - part), out=rest[: len(piece)])
        total += wide(WHOLE >> 1)
        total >>= wide(BITS)
        piece[:] = total


def mixed_labels(labels: np.ndarray, drawn: Mixed, classes: int | None) -> np.ndarray:
    """Soft labels: float32 [b, classes], or in the shape of float labels."""
    soft = labels if labels.dtype.kind == "f" else one_hot(labels, classes)
    share = np.float32(drawn.share)
    return (soft * share + np.roll(soft, 1, 0) * (np.float32(1) - share)).astype(np.float32)


def one_hot(labels: np.ndarray, classes: int | None) -> np.ndarray:
    """float32 [b, classes] of int labels [b]. Raises UsageError without a number of classes, or if it is too small."""
    check_classes(labels, classes)
    assert classes is not None
    hot = np.zeros((len(labels), classes), np.float32)
    hot[np.arange(len(labels)), labels] = 1
    return hot


_PIXELS = {"uint8", "uint16", "float16", "bfloat16", "float32", "float64"}


def check_images(images: Any) -> None:
    """Raise UsageError unless an array or a tensor is a batch of images, by its dimensions and dtype."""
    dtype = getattr(images.dtype, "name", None) or str(images.dtype).removeprefix("torch.")
    if images.ndim not in (4, None) or dtype not in _PIXELS:  # None: of a graph's tensor of any dimensions
        problem = f"got images {list(images.shape)} of {dtype}, expected 4 dimensions of uint8, uint16 or float"
        raise UsageError("batch_transform", problem, "mix in a function of your own")


def check_classes(labels: Any, classes: int | None) -> None:
    """Raise UsageError unless there is a number of classes, and all labels, an array of integers, are below it."""
    if classes is None:
        raise UsageError("classes", "got none, and the labels are numbers of classes", "give it: mixup(classes=1000)")
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        problem = f"got the label {int(wrong[0])}, expected 0 to {classes - 1}"
        raise UsageError("classes", problem, "give the number of all classes")

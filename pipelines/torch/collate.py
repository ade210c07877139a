"""Collation of samples to a batch: nested, of fixed shape or padded, in shared memory if done by a worker.

Detectors get a `Target` for each image, and a list of them per batch, as their lengths differ.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np
import torch
from torch.utils._pytree import register_pytree_node
from torch.utils.data import default_collate

import shardfeed.pipelines.torch.mixing  # noqa: F401  # so that mixings know PyTorch's tensors
from shardfeed.declared import checked
from shardfeed.errors import IntegrityError, ShardfeedError, UsageError
from shardfeed.foreign import noted
from shardfeed.pipelines.arguments import check_function
from shardfeed.pipelines.batch_transforms import BatchTransform, transformed_batch
from shardfeed.pipelines.torch.encoded import EncodedImage, batch_of
from shardfeed.pipelines.torch.samples import FetchedBatch
from shardfeed.pipelines.torch.shared_images import SHARED_IMAGES, SharedBatch, joined
from shardfeed.pipelines.torch.workers import batch_bytes
from shardfeed.pipelines.windows import SampleSeed
from shardfeed.text import number

CollateFunction = Annotated[Callable[[list[Any]], Any], "give a function of the list of a batch's samples"]

_OWN_SEED = 0x0BA7C45EED  # so that a batch draws different numbers than its first sample
_NONE = "no value with that key"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context in which the generators of PyTorch (CPU), `random` and NumPy are seeded with `seed`, 0 to 2^63 - 1.

    Afterwards their state is restored: without workers they belong to the user's process.
    """
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would seed GPUs too
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


class DamagedBatch:
    """Sent by a worker to the loader in place of a batch: the batch, if any, and the error or the omitted records.

    If a loader of another program takes it for a batch, it raises the error when it is used.
    """

    def __init__(self, fetched: FetchedBatch, batch: Any) -> None:
        self.error, self.left_out, self.batch = fetched.error, tuple(fetched.left_out), batch

    def _refuse(self, *_: object) -> NoReturn:
        if self.error is not None:
            raise self.error
        first = self.left_out[0]
        remedy = "iterate over the loader that torch_loader returns: only that one supports damaged="
        raise IntegrityError(first.place, first.problem, remedy)

    __iter__ = __len__ = __getitem__ = _refuse

    def pin_memory(self) -> "DamagedBatch":
        """As torch calls it."""
        from torch.utils.data._utils.pin_memory import pin_memory

        self.batch = pin_memory(self.batch)
        return self


@checked
class Collate:
    """A picklable function from samples to a batch.

    Tensors and arrays are stacked, [k, ...]; if their shape varies, they are padded at the end with `pad` (0 or 1 for
    bool tensors) to the longest one in the batch. Images stored as [height, width, channels] and viewed as [channels,
    height, width] give a batch [k, channels, height, width] in the channels-last memory format, at no cost. Numbers
    become int64, float32 or bool [k]; bytes and text, lists of them, and each `Target` go into a list. Other dicts,
    tuples and named tuples are collated recursively.

    If `collate_fn` is given, it makes the batch instead, from a list of samples. In a loader, its draws from the
    generators of PyTorch, `random` and NumPy depend only on the batch's first sample and its epoch.

    Loaders set `check_room` and `reuses`. `check_room` is called with the bytes of the first batch, before it goes to
    shared memory: it raises an error if there is no room, and returns how many batches' memory the worker may reuse.
    `reuses`: whether the worker fills the memory of image batches again, once the training process has released them.

    Raises UsageError for `pad` together with `collate_fn`, for shapes that vary without `pad`, for dtypes that vary,
    for samples of different structure, and for other types.

    Example:
        collate = Collate(pad=-1)
        labels = collate([torch.tensor([1, 2]), torch.tensor([3])])  # [[1, 2], [3, -1]]
    """

    def __init__(self, pad: float | None = None, collate_fn: CollateFunction | None = None) -> None:
        if collate_fn is not None and pad is not None:
            raise UsageError("pad, collate_fn", "expected one of them", "pad in the collate_fn")
        check_function("collate_fn", collate_fn, "samples")
        self.pad, self.collate_fn = pad, collate_fn
        self.check_room: Callable[[int], int] | None = None
        self.reuses = False

    def __call__(self, samples: Sequence[Any]) -> Any:
        if not isinstance(samples, FetchedBatch):
            return self._made(samples)
        batch = samples.made
        try:
            if samples and not samples.error:
                self._check_first(samples if batch is None else batch)
                if batch is None:
                    with seeded(_OWN_SEED ^ samples.seed) if self.collate_fn is not None else nullcontext():
                        batch = self._made(samples)
        except ShardfeedError as error:
            samples.error, batch = error, None
        return DamagedBatch(samples, batch) if samples.error or samples.left_out else batch

    def _check_first(self, batch: Any) -> None:
        """Check, with the first batch or its samples, that shared memory has room for such batches."""
        if self.check_room is not None:
            SHARED_IMAGES.kept = self.check_room(batch_bytes(batch))
            self.check_room = None

    def _made(self, samples: Sequence[Any]) -> Any:
        """Return a batch of at least one sample."""
        if self.collate_fn is None:
            return self._collate_nested(samples, "sample")
        with noted(self.collate_fn, "collate_fn", lambda: number(len(samples), "sample")):
            return self.collate_fn(list(samples))

    def _collate_nested(self, values: Sequence[Any], place: str) -> Any:
        first = values[0]
        kinds = {type(value) for value in values}
        if len(kinds) > 1 and not kinds <= _NUMBERS:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise UsageError(place, f"got {names} in one batch, expected one type", "convert them in the transform")
        if isinstance(first, torch.Tensor):
            return self._tensors(values, place)
        if isinstance(first, bytes | str):  # before NumPy's numbers, which may be of either kind
            return list(values)
        if isinstance(first, np.ndarray | np.generic):
            return self._tensors([torch.as_tensor(writable(value)) for value in values], place)
        if isinstance(first, bool):
            return torch.tensor(values, dtype=torch.bool)
        if isinstance(first, int | float):
            whole = all(isinstance(value, int) for value in values)
            return torch.tensor(values, dtype=torch.int64 if whole else torch.float32)
        if isinstance(first, Target):
            return Targets(values)
        if isinstance(first, EncodedImage):
            return batch_of(values)
        if isinstance(first, Mapping):
            if any(value.keys() != first.keys() for value in values):
                raise UsageError(place, "samples have different keys", "return the same keys for every sample")
            return {key: self._collate_nested([value[key] for value in values], f"{place}[{key!r}]") for key in first}
        if isinstance(first, list) and all(isinstance(item, bytes | str) for value in values for item in value):
            return list(values)
        if isinstance(first, tuple | list):
            if len({len(value) for value in values}) > 1:
                raise UsageError(place, "samples have different lengths", "return arrays, which pad= can pad")
            columns = [
                self._collate_nested(list(column), f"{place}[{n}]")
                for n, column in enumerate(zip(*values, strict=True))
            ]
            return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
        problem = f"got {type(first).__name__}, expected tensors, arrays, numbers, bytes, or containers of them"
        raise UsageError(place, problem)

    def _tensors(self, tensors: Sequence[torch.Tensor], place: str) -> torch.Tensor | SharedBatch:
        dtypes = {tensor.dtype for tensor in tensors}
        if len(dtypes) > 1:  # in a worker PyTorch would take the first dtype, and large numbers would wrap
            names = ", ".join(sorted(map(str, dtypes)))
            raise UsageError(place, f"got {names} in one batch, expected one dtype", "cast in the transform")
        shapes = {tensor.shape for tensor in tensors}
        if len(shapes) > 1:
            if self.pad is None or len({len(shape) for shape in shapes}) > 1:
                shown = ", ".join(sorted(str(tuple(shape)) for shape in shapes)[:3])
                problem = f"shapes vary within a batch: {shown}"
                raise UsageError(place, problem, "give pad=..., or return one shape for every sample")
            longest = [max(sides) for sides in zip(*shapes, strict=True)]
            return default_collate([_padded(tensor, longest, self.pad, place) for tensor in tensors])
        whole = joined(tensors)
        if whole is not None and self.reuses:
            whole = SHARED_IMAGES.share(whole)
        if whole is not None:
            return whole
        if all(tensor.ndim == 3 and tensor.permute(1, 2, 0).is_contiguous() for tensor in tensors):
            return default_collate([tensor.permute(1, 2, 0) for tensor in tensors]).permute(0, 3, 1, 2)
        return default_collate(list(tensors))  # which stacks in a worker directly into shared memory


@dataclass(frozen=True)
class TransformedBatches:
    """Makes batches of samples by `collate`, and then by `batch_transform`, a function of a batch and its seed."""

    collate: Collate
    batch_transform: BatchTransform

    def __call__(self, samples: Sequence[Any], seed: SampleSeed, where: Callable[[], str]) -> Any:
        """The batch of some samples. `where` names it, for errors."""
        batch = self.collate(list(samples))
        return transformed_batch(self.batch_transform, batch, seed, where)


_NUMBERS = {int, float}


def writable(value: Any) -> Any:
    """An array that PyTorch can convert: also for numbers, and for arrays that it would warn about or refuse."""
    array = np.asarray(value)
    fit = array.flags.writeable and array.dtype.isnative and min(array.strides, default=0) >= 0
    return array if fit else array.astype(array.dtype.newbyteorder("="))  # keeps the memory order of its axes


def _padded(tensor: torch.Tensor, longest: Sequence[int], pad: float, place: str) -> torch.Tensor:
    whole = not tensor.dtype.is_floating_point
    if whole:
        limits = None if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype)
        least, most = (limits.min, limits.max) if limits else (0, 1)
        if not (float(pad).is_integer() and least <= pad <= most):
            problem = f"got {pad!r}, which {tensor.dtype} of {place} cannot hold"
            raise UsageError("pad", problem, "give another number, or cast in the transform")
    padded = tensor.new_full(list(longest), int(pad) if whole else pad)
    padded[tuple(slice(side) for side in tensor.shape)] = tensor
    return padded


class Target(dict[str, Any]):
    """Annotations of one image, by name: tensors of any length, numbers, text. Batches contain a list of targets.

    Tensors may be torchvision tv_tensors, and stay tv_tensors between processes and in pinned memory; torchvision's
    transforms treat a Target as a dict.

    Example:
        def image_and_boxes(record, seed):
            return decode_image(record), Target(boxes=torch.tensor(record["image/object/bbox/xmin"]))
    """

    def pin_memory(self) -> "Target":
        """Pin the tensors; called by torch. torch's own pinning would turn tv_tensors into plain tensors."""
        return Target((key, pinned(value)) for key, value in self.items())


# Otherwise PyTorch's pytrees, and so torchvision's transforms, would take a subclass of `dict` for a leaf.
register_pytree_node(
    Target,
    lambda target: (list(target.values()), list(target)),
    lambda values, keys: Target(zip(keys, values, strict=True)),
)


class Targets(list[Target]):
    """The targets of a batch. They are sent between processes as one tensor per key: each takes a file descriptor."""

    def __reduce__(self) -> tuple[Any, ...]:
        keys = list(dict.fromkeys(key for target in self for key in target))
        columns = {key: _packed([target.get(key, _NONE) for target in self]) for key in keys}
        return _unpacked, (len(self), columns)

    def __copy__(self) -> "Targets":
        return Targets(self)


def pinned(value: Any) -> Any:
    """A tensor in pinned memory, of the same class; anything else unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    return _of_class(value.as_subclass(torch.Tensor).pin_memory(), type(value), dict(value.__dict__))


def _of_class(tensor: torch.Tensor, kind: type, attributes: dict[str, Any]) -> torch.Tensor:
    """A plain tensor as one of `kind`, which has those attributes: a tv_tensor knows its format and canvas."""
    if kind is torch.Tensor:
        return tensor
    made = tensor.as_subclass(kind)
    made.__dict__.update(attributes)
    return made


def _packed(values: list[Any]) -> Any:
    """Values of a key: (numbers of all, shape, class and attributes of each) for tensors of one dtype, else a list."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors or len(tensors) < len(values) or len({tensor.dtype for tensor in tensors}) > 1:
        return values
    plain = [tensor.as_subclass(torch.Tensor) for tensor in tensors]
    whole = torch.cat([tensor.reshape(-1) for tensor in plain])
    return whole, [(tuple(tensor.shape), type(tensor), dict(tensor.__dict__)) for tensor in tensors]


def _unpacked(count: int, columns: dict[str, Any]) -> list[Target]:
    """The inverse of `_packed`, for each key: a plain list of targets, whose tensors are views."""
    targets = [Target() for _ in range(count)]
    for key, column in columns.items():
        values = column
        if isinstance(column, tuple):
            whole, each = column
            parts = whole.split([torch.Size(shape).numel() for shape, _, _ in each])
            values = [
                _of_class(part.reshape(shape), kind, attributes)
                for part, (shape, kind, attributes) in zip(parts, each, strict=True)
            ]
        for target, value in zip(targets, values, strict=True):
            if not (isinstance(value, str) and value == _NONE):
                target[key] = value
    return targets

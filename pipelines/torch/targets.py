"""Targets of detectors: one dict per image, and a list of them per batch, as their lengths differ."""

from typing import Any

import torch
from torch.utils._pytree import register_pytree_node


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


_NONE = "no value with that key"


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

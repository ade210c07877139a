"""Records in, batches on devices out: `train_batches`, `eval_batches`, `make_batches`, `distribute`, and transforms.

Importing this package does not import TensorFlow; using one of its names does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfeed.pipelines.augment import letterbox, random_resized_crop, resize_center_crop
    from shardfeed.pipelines.batches import make_batches, train_batches
    from shardfeed.pipelines.distribution import Feed, distribute
    from shardfeed.pipelines.evaluation import eval_batches

__all__ = [
    "Feed",
    "distribute",
    "eval_batches",
    "letterbox",
    "make_batches",
    "random_resized_crop",
    "resize_center_crop",
    "train_batches",
]

_ROOMS = {
    "augment": ("letterbox", "random_resized_crop", "resize_center_crop"),
    "batches": ("make_batches", "train_batches"),
    "distribution": ("Feed", "distribute"),
    "evaluation": ("eval_batches",),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"shardfeed.pipelines.{room}"), name)
    raise AttributeError(f"module 'shardfeed.pipelines' has no attribute {name!r}")

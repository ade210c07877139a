"""Records in, batches on devices out, for Keras and for loops of your own, on one device and on many machines.

Importing this package does not import TensorFlow; using a name that builds batches does. What decides their order does
not: `order`, `ordering`, `mixture` and `position` are NumPy, `torch` is for PyTorch, and `prefetch` for any producer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfeed.pipelines.augment import letterbox, random_resized_crop, resize_center_crop
    from shardfeed.pipelines.backup import Backup
    from shardfeed.pipelines.batches import make_batches, train_batches
    from shardfeed.pipelines.cache import Cache, cached
    from shardfeed.pipelines.distribution import Feed, distribute
    from shardfeed.pipelines.evaluation import EvalFeed, distribute_eval, eval_batches
    from shardfeed.pipelines.mixture import mix
    from shardfeed.pipelines.ordering import order_samples
    from shardfeed.pipelines.position import Position
    from shardfeed.pipelines.prefetch import as_dataset, prefetch_processes, prefetch_ray, prefetch_threads

__all__ = [
    "Backup",
    "Cache",
    "EvalFeed",
    "Feed",
    "Position",
    "as_dataset",
    "cached",
    "distribute",
    "distribute_eval",
    "eval_batches",
    "letterbox",
    "make_batches",
    "mix",
    "order_samples",
    "prefetch_processes",
    "prefetch_ray",
    "prefetch_threads",
    "random_resized_crop",
    "resize_center_crop",
    "train_batches",
]

_ROOMS = {
    "augment": ("letterbox", "random_resized_crop", "resize_center_crop"),
    "backup": ("Backup",),
    "batches": ("make_batches", "train_batches"),
    "cache": ("Cache", "cached"),
    "distribution": ("Feed", "distribute"),
    "evaluation": ("EvalFeed", "distribute_eval", "eval_batches"),
    "ordering": ("order_samples",),
    "position": ("Position",),
    "mixture": ("mix",),
    "prefetch": ("as_dataset", "prefetch_processes", "prefetch_ray", "prefetch_threads"),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"shardfeed.pipelines.{room}"), name)
    raise AttributeError(f"module 'shardfeed.pipelines' has no attribute {name!r}")

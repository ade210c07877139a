"""Functions that change whole batches: what `batch_transform=` of the loaders takes, and how they call it."""

from collections.abc import Callable
from typing import Annotated, Any

from shardfeed.errors import UsageError
from shardfeed.foreign import name_of, noted
from shardfeed.pipelines.augment.mixing.mixing import Mixing
from shardfeed.schema import Schema

# From a batch and its seed to another batch. The seed is a `SampleSeed`; in TensorFlow's graphs int64 [2].
BatchTransform = Annotated[
    Callable[[Any, Any], Any],
    "for example batch_transform=one_of([mixup(), cutmix()]), or a function of a batch and a seed that calls others",
]


def bound_batch_transform(batch_transform: Any, schema: Schema, label: str | None, **others: Any) -> Any:
    """The function for batches of (images, labels), which knows the classes of `label` if it mixes them.

    `others`: arguments by which batches are something else. Raises UsageError for a mixing with one of them, without a
    label, or if the number of classes is unknown or too small.
    """
    if not isinstance(batch_transform, Mixing):
        return batch_transform
    other = next((name for name, given in others.items() if given), None)
    if other is not None:
        problem = f"got {batch_transform!r} and {other}, and it mixes batches of (images, labels)"
        raise UsageError("batch_transform", problem, f"leave {other} out, or mix in a function of your own")
    return batch_transform.for_labels(schema, label)


def transformed_batch(batch_transform: BatchTransform, batch: Any, seed: Any, where: Callable[[], str]) -> Any:
    """Return what a batch transform makes of a batch, named by `where`. Raises UsageError as `check_returned` does."""
    with noted(batch_transform, "batch_transform", where):
        made = batch_transform(batch, seed)
    check_returned(made, batch_transform)
    return made


def check_returned(batch: Any, batch_transform: BatchTransform) -> None:
    """Raise UsageError if a batch transform returned None, which a loader would take for no batch."""
    if batch is None:
        problem = f"{name_of(batch_transform)} returned None, expected a batch"
        raise UsageError("batch_transform", problem, "return the batch, also one that was changed in place")

"""Creation of an order from the user's choice: `order_samples` reads the samples and defines the order fully."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.budget import memory_budget
from shardfeed.declared import Count, Seed, checked
from shardfeed.errors import UsageError, at_least, escape, shown
from shardfeed.pipelines.orders.arithmetic import MAX_SIZE, apportion
from shardfeed.pipelines.orders.choices import Blocks, Global, OrderLike, Stored, Stream, Weights, order_object
from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder, Order, StoredOrder, StreamOrder
from shardfeed.pipelines.orders.shapes import Shape, ShapeOrder, nearest
from shardfeed.pipelines.orders.strata import MOST_DRAWN, PhasedOrder, StratifiedOrder
from shardfeed.pipelines.samples import Mixture, Samples, SamplesLike
from shardfeed.readers.columns import rarest_classes
from shardfeed.readers.shards import is_local
from shardfeed.readers.split import Split
from shardfeed.schema import HEIGHT, LABEL, WIDTH

SHUFFLE_RECORDS = 16_384  # buffer if memory allows: 1 GB of 64 KB photos, filled in seconds from a local disk
SHUFFLE_SHARE = 1 / 4  # maximum share of the memory: the model's host memory and decoded batches need the rest

_REMOTE_BLOCK_BYTES = 8 << 20  # at 200 MB/s reading then takes as long as a request of 30 ms


@checked
def order_samples(
    samples: SamplesLike,
    *,
    batch_size: Count,
    seed: Seed = 0,
    order: OrderLike | None = None,
    drop_remainder: bool = True,
) -> tuple[Samples, Order]:
    """Return (samples, order), where `order` computes the indices into `samples` that each step uses.

    Neither TensorFlow nor PyTorch is needed. The returned samples are `samples` itself; if classes are balanced, or
    batches have shapes, they are the same samples, class by class or shape by shape.

    Args:
        samples: a split, a part of one, or a `mix`.
        batch_size: samples per step over all replicas or ranks.
        seed: 0 to 2^63 - 1; for the order, and for each sample's augmentation.
        order: "stream", "global", "blocks" or "stored", or `Stream`, `Global`, `Blocks` or `Stored` with options. None:
            "stream"; for a dataset in a bucket `Blocks(block_bytes=8 << 20)`; "global" for a `mix` or a selection.
        drop_remainder: True: an epoch has whole batches only. False: an epoch's last batch may be smaller.

    Raises UsageError if there are no samples, if they cannot fill a batch, or if they do not support the order.

    Example:
        samples, order = order_samples(data["train"], batch_size=256, order="global", seed=7)
        order.steps_per_epoch            # batches of an epoch
        samples[order.batch(1000)[0]]    # the first sample of step 1000
    """
    if len(samples) == 0:
        raise UsageError(f"split {samples.name}", "it has no samples", "use another split")
    if len(samples) > MAX_SIZE:
        raise UsageError(f"split {samples.name}", f"it has {len(samples)} samples, expected at most 2^40")
    wanted = order_object(default_order(samples, Stream()) if order is None else order)
    if isinstance(wanted, Global):
        if wanted.shapes is not None:
            return _by_shape(samples, batch_size, seed, wanted.shapes, drop_remainder)
        if isinstance(samples, Mixture) or wanted.balance is not None or wanted.weights is not None:
            if not drop_remainder:
                raise UsageError("drop_remainder", "got False, expected True with balance, weights or a mixture")
            return _stratified(samples, batch_size, seed, wanted)
    elif isinstance(samples, Mixture):
        raise UsageError("order", f"got {wanted!r}, expected 'global', or Global(...): a mixture needs random access")
    if isinstance(wanted, Stream) and isinstance(samples, Split):
        samples.check_streamable()
    asked = None if isinstance(wanted, Stored) else wanted.epoch_samples
    length = _epoch_samples(samples, batch_size, asked, drop_remainder)
    common = (samples.fingerprint, len(samples), batch_size, length, seed)
    if isinstance(wanted, Stream):
        return samples, StreamOrder(*common, _buffer(samples, wanted))
    if isinstance(wanted, Blocks):
        buffer = _buffer(samples, wanted)
        block = max(1, min(-(-wanted.block_bytes * len(samples) // max(1, samples.record_bytes)), buffer // 4))
        return samples, BlockOrder(*common, block, max(1, buffer // block) * block)
    return samples, (GlobalOrder if isinstance(wanted, Global) else StoredOrder)(*common)


def default_order(samples: Samples, local: OrderLike) -> OrderLike:
    """The order unless the caller gives one: `local` for a split of a local disk, large blocks in a bucket.

    It depends on the dataset's original location, because a cache must not change the order.
    """
    if not (isinstance(samples, Split) and samples.contiguous):
        return Global()
    return local if is_local(samples.shards.storage) else Blocks(block_bytes=_REMOTE_BLOCK_BYTES)


def _buffer(samples: Samples, wanted: Stream | Blocks) -> int:
    """Records of the buffer, or of a window."""
    if wanted.buffer is not None:
        return min(wanted.buffer, len(samples))
    records = shuffle_buffer_records(len(samples), samples.read_bytes, memory_budget())
    # A window is in the page cache, and the next one is read while it is used.
    return max(1, records // 4) if isinstance(wanted, Blocks) else records


def _epoch_samples(samples: Samples, batch_size: int, asked: int | None, drop_remainder: bool) -> int:
    """Samples in an epoch: only those in whole batches, if the rest is dropped."""
    count = len(samples) if asked is None else asked
    if count > len(samples):
        raise UsageError("epoch_samples", f"got {count}, expected at most {len(samples)}, all of split {samples.name}")
    if not drop_remainder:
        return count
    return _whole_batches(samples, batch_size, count, ", or, in make_batches, drop_remainder=False")


def _whole_batches(samples: Samples, batch_size: int, count: int, other_remedy: str = "") -> int:
    if batch_size > count:
        problem = f"got {batch_size}, expected at most {count}, the samples per epoch of split {samples.name}"
        raise UsageError("batch_size", problem, f"use a smaller batch{other_remedy}")
    return count // batch_size * batch_size


def _by_shape(
    samples: Samples, batch_size: int, seed: int, shapes: Sequence[Shape], drop_remainder: bool
) -> tuple[Samples, Order]:
    if isinstance(samples, Mixture):
        problem = "got a mixture, whose parts are drawn by weight"
        raise UsageError("shapes", problem, "`shardfeed merge` makes one dataset of several")
    which = nearest(*image_sides(samples), shapes)
    length = _epoch_samples(samples, batch_size, None, drop_remainder)
    view = samples.select(np.argsort(which, kind="stable"))
    heights, widths = zip(*shapes, strict=True)
    strata = tuple(np.bincount(which, minlength=len(shapes)).tolist())
    return view, ShapeOrder(view.fingerprint, len(view), batch_size, length, seed, heights, widths, strata)


def image_sides(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Heights and widths of the images, int64 [n] each. Raises UsageError if the records do not say them."""
    if missing := [key for key in (HEIGHT, WIDTH) if split.schema.key(key) is None]:
        problem = f"the records have no {missing[0]!r}, and the aspect ratio decides the shape"
        raise UsageError("shapes", problem, "leave shapes out, or convert the images again")
    sides = split.column(HEIGHT), split.column(WIDTH)
    if len(split) and min(side.min() for side in sides) < 1:
        raise UsageError("shapes", f"an image of split {split.name} has a height or a width below 1", "remove it")
    return sides


def _stratified(samples: Samples, batch_size: int, seed: int, wanted: Global) -> tuple[Samples, Order]:
    balance, weights = wanted.balance, wanted.weights
    parts = samples.parts if isinstance(samples, Mixture) else (samples,)
    phases = samples.phases if isinstance(samples, Mixture) else ((0, (1.0,)),)
    arranged: list[Split] = []
    strata: list[int] = []
    shares: list[list[float]] = []  # of each part
    for part in parts:
        if not isinstance(part, Split):
            raise UsageError("samples", f"got {type(part).__name__}, expected a Split or a Mixture")
        if balance is None and weights is None:
            view, sizes, inner = part, [len(part)], [1.0]
        else:
            view, sizes, inner = _class_strata(part, balance or "class", weights)
        arranged.append(view)
        strata += sizes
        shares.append(inner)
    first = samples.first_parts if isinstance(samples, Mixture) else parts
    count = sum(map(len, first)) if wanted.epoch_samples is None else wanted.epoch_samples
    at_least("epoch_samples", count, 1, min(StratifiedOrder.most_steps * batch_size, MAX_SIZE))
    length = _whole_batches(samples, batch_size, count)
    view = replace(samples, parts=tuple(arranged)) if isinstance(samples, Mixture) else arranged[0]
    starts = tuple(step for step, _ in phases)
    at_least("weights", starts[-1], 0, MOST_DRAWN // batch_size)
    quotas = []
    for _, weights in phases:
        of_parts = zip(weights, shares, strict=False)  # later parts are not in it
        quotas.append(apportion(length, [w * share / sum(inner) for w, inner in of_parts for share in inner]))
    common = (view.fingerprint, len(view), batch_size, length, seed)
    if isinstance(view, Mixture) and len(phases) > 1:
        return view, PhasedOrder(*common, starts, view.fingerprints, tuple(strata), tuple(quotas))
    return view, StratifiedOrder(*common, tuple(strata), quotas[0])


def _class_strata(split: Split, key: str, weights: Weights | None) -> tuple[Split, list[int], list[float]]:
    """The split arranged by the class of feature `key`, and the samples and weight of each class with samples."""
    labels = split.schema.class_names
    if key == "class":
        key = OBJECT_LABEL if OBJECT_LABEL in labels and (split.schema.key(LABEL) or LABEL) not in labels else LABEL
    key = split.schema.key(key) or key
    if key not in labels:
        problem = f"got {shown(key)}, expected a label whose classes have names"
        raise UsageError("balance", problem, f"there is {sorted(labels) or 'none'}")
    names = labels[key]
    if split.schema.features[key].scalar:
        column = split.column(key)
    else:  # several classes per record; samples without a class form the last class, "" in weights
        places = split.places(np.arange(len(split)))
        column, names = rarest_classes(split.shards, split.schema, key, places), (*names, "")
    sizes = np.bincount(column, minlength=len(names))
    by_class = _by_class(names, sizes, weights)
    kept = [label for label in range(len(names)) if sizes[label] and by_class[label] > 0]
    if not kept:
        raise UsageError("weights", "no class with samples has a weight above 0")
    in_order = np.argsort(column, kind="stable")
    if sizes[kept].sum() < len(column):
        in_order = in_order[np.isin(np.arange(len(names)), kept)[column[in_order]]]
    del column
    return split.select(in_order), [int(sizes[label]) for label in kept], [by_class[label] for label in kept]


def _by_class(names: Sequence[str], sizes: np.ndarray, weights: Weights | None) -> list[float]:
    """The weight of each class; 1 if none are given."""
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, Mapping):
        if unknown := sorted(set(weights) - set(names)):
            problem = f"got {shown(unknown[0])}, which is not a class"
            raise UsageError("weights", problem, f"the classes are {_first_names(names)}")
        absent = [name for name, size in zip(names, sizes, strict=True) if size and name not in weights]
        if absent:
            problem = f"no weight for {_first_names(absent)}"
            raise UsageError("weights", problem, "give one for each class; 0 leaves it out")
        return [float(weights.get(name, 0)) for name in names]
    if len(weights) != len(names):
        last = ", the last for samples without a class" if names[-1] == "" else ""
        raise UsageError("weights", f"got {len(weights)}, expected {len(names)}, one for each class{last}")
    return [float(weight) for weight in weights]


def _first_names(names: Sequence[str]) -> str:
    shown = ", ".join(escape(name) or "'' (samples without a class)" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def shuffle_buffer_records(records: int, record_bytes: int, memory: int) -> int:
    """Number of records in the shuffle buffer by default: at least 1, at most `records`.

    `record_bytes`: of all records together; `memory`: the budget in bytes. It is 16,384, halved until it takes at most
    a quarter of the memory: a step function, because the order of samples depends on it, and two machines with about
    the same memory should give the same order.
    """
    mean = record_bytes / records
    buffer = SHUFFLE_RECORDS
    while buffer > 1 and min(buffer, records) * mean > memory * SHUFFLE_SHARE:
        buffer //= 2
    return min(buffer, records)

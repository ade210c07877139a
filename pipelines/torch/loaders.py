"""Batches for PyTorch, on one process and on many: the same samples at the same step as for TensorFlow.

`torch_loader` gives a DataLoader: its batch sampler is the project's order, its dataset reads a batch at once and
decodes it in a worker, and its state is one integer. Nothing here imports TensorFlow.
"""

from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import Size, at_least, check_shared_batch, image_or_transform, image_size
from shardfeed.pipelines.caching.cache import CacheLike, cached
from shardfeed.pipelines.orders.choose_order import OrderName, Weights, order_samples
from shardfeed.pipelines.orders.order import IndexedOrder, StoredOrder
from shardfeed.pipelines.samples import Samples
from shardfeed.pipelines.torch.collate import Collate
from shardfeed.pipelines.torch.device import to_device
from shardfeed.pipelines.torch.images import (
    ImageAndLabel,
    decode_image,
    random_resized_crop,
    resize_center_crop,
)
from shardfeed.pipelines.torch.loading import SampleLoader, TorchLoader
from shardfeed.pipelines.torch.ranks import Ranks, this_process
from shardfeed.pipelines.torch.samples import TorchSamples, Transform
from shardfeed.pipelines.torch.steps import EvenSteps, Steps
from shardfeed.pipelines.torch.workers import Workers, plan_workers
from shardfeed.readers.skip import Skip
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL

__all__ = [
    "Collate",
    "SampleLoader",
    "TorchLoader",
    "decode_image",
    "random_resized_crop",
    "resize_center_crop",
    "to_device",
    "torch_eval_loader",
    "torch_loader",
]


def torch_loader(
    samples: Samples,
    *,
    batch_size: int,
    image_size: Size | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    order: OrderName = "global",
    label: str = LABEL,
    balance: str | None = None,
    weights: Weights | None = None,
    epoch_samples: int | None = None,
    repeat: bool = False,
    start_step: int = 0,
    pad: float | None = None,
    cache: CacheLike | None = None,
    damaged: Skip | None = None,
    shuffle_buffer: int | None = None,
    workers: int | None = None,
    prefetch: int | None = None,
    pin_memory: bool | None = None,
    multiprocessing_context: str | None = None,
    rank: int | None = None,
    ranks: int | None = None,
) -> TorchLoader:
    """Training batches of `samples`, a split or a `mix`: a DataLoader, each iteration of which is the next epoch.

    With `image_size`: (images uint8 [b, 3, height, width] in the channels-last memory format, labels int64 [b]), each
    image cut by `random_resized_crop(image_size)`. With `transform` instead, what `transform(record, seed)` gives,
    put together by `Collate(pad)`: `record` is a dict as `split[i]` gives it, `seed` an int of 0 to 2^63 - 1, the
    sample's own in this epoch, for any generator (`torch.manual_seed(seed)`, `numpy.random.default_rng(seed)`).

    `batch_size` is that of a step of all ranks together: each of them has b = `batch_size / ranks` samples of it. Which
    samples, and which windows, a step has depends on `seed`, `order` and the global batch size alone, and is as
    `make_batches(..., repeat=True)` has it with TensorFlow.

    `order`, `seed`, `balance`, `weights`, `epoch_samples`, `cache` and `shuffle_buffer`: as in `make_batches`, but that
    there is no "stream". With "blocks" the samples are the same, and read batch by batch, not block by block.
    `repeat`: epochs follow each other in one endless iteration, without a pause between them.
    `start_step`: the step, counted from the first of epoch 0, to begin with; a state knows more, see `TorchLoader`.
    `damaged`: a record whose CRC is wrong raises, unless a `Skip` is given, which counts what all workers leave out;
    another sample of the batch comes twice in its stead.
    `workers`: processes that read and decode; unless given, the CPUs granted, shared out among the ranks of this
    machine; 0 for none. They live as long as the loader. `prefetch`: batches ahead for each of them; unless given, 2,
    or 1 where 2 would take a quarter of the memory granted. `pin_memory`: unless given, where there is a CUDA GPU.
    `multiprocessing_context`: "fork", "spawn" or "forkserver", unless given Python's default.
    `rank`, `ranks`: this process among those that share the batches; unless given, as torch.distributed says where it
    is initialised, else as torchrun says in the environment, else 0 of 1.

    Raises UsageError as `make_batches` does, for "stream", when the ranks cannot share a batch evenly, and unless
    exactly one of `image_size` and `transform` is given. Iterating raises StorageError where /dev/shm has no room for
    the batches under way, before they are written, and UsageError where a later iteration has begun meanwhile.
    """
    if order == "stream":
        problem = "got 'stream', which is TensorFlow's: shards in sequence, through a buffer"
        raise UsageError("order", problem, 'use "global", or "blocks" on a disk that seeks')
    keys, transform = image_or_transform(
        samples.schema, image_size, transform, lambda size: ImageAndLabel(random_resized_crop(size), label), label
    )
    process = this_process(rank, ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    arranged, chosen = order_samples(
        cached(samples, cache),
        batch_size=batch_size,
        order=order,
        seed=seed,
        balance=balance,
        weights=weights,
        epoch_samples=epoch_samples,
        shuffle_buffer=shuffle_buffer,
    )
    assert isinstance(chosen, IndexedOrder)
    return TorchLoader(
        TorchSamples(arranged, chosen, transform, keys=keys, skip=damaged is not None),
        Steps(chosen, rank=process.rank, ranks=process.ranks, repeat=repeat),
        start_step=at_least("start_step", start_step, 0),
        repeat=repeat,
        pad=pad,
        damaged=damaged,
        workers=_workers(workers, prefetch, image_size, batch_size // process.ranks, process),
        local_ranks=process.local,
        pin_memory=pin_memory,
        multiprocessing_context=multiprocessing_context,
    )


def torch_eval_loader(
    split: Split,
    *,
    batch_size: int,
    image_size: Size | None = None,
    transform: Transform | None = None,
    label: str = LABEL,
    pad: float | None = None,
    cache: CacheLike | None = None,
    damaged: Skip | None = None,
    workers: int | None = None,
    prefetch: int | None = None,
    pin_memory: bool | None = None,
    multiprocessing_context: str | None = None,
    rank: int | None = None,
    ranks: int | None = None,
) -> SampleLoader:
    """Batches for evaluation: every sample exactly once, in stored order, over all ranks; a DataLoader.

    As `torch_loader`, which explains the arguments, with each image cut by `resize_center_crop(image_size)`. One rank
    has batches of `batch_size`, and a smaller one at the end. Several have consecutive shares of the split, as many
    steps each (a model under DDP would wait for a rank that has fewer), and no empty batch: their batches hold about
    `batch_size / ranks`. Add up sums and counts over the ranks, not means.

    A damaged record that a `Skip` leaves out is missing from its batch. Where nothing is left of a batch there is none;
    with several ranks, which must have as many steps each, that raises IntegrityError.

    Raises UsageError as `torch_loader` does, and for a split with fewer samples than ranks.
    """
    keys, transform = image_or_transform(
        split.schema, image_size, transform, lambda size: ImageAndLabel(resize_center_crop(size), label), label
    )
    process = this_process(rank, ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    split = cached(split, cache)
    _, stored = order_samples(split, batch_size=batch_size, order="stored", drop_remainder=False)
    assert isinstance(stored, StoredOrder)
    return SampleLoader(
        TorchSamples(
            split,
            stored,
            transform,
            keys=keys,
            skip=damaged is not None,
            fill=False,
            may_be_empty=process.ranks == 1,
        ),
        EvenSteps(stored, rank=process.rank, ranks=process.ranks),
        pad=pad,
        damaged=damaged,
        workers=_workers(workers, prefetch, image_size, -(-batch_size // process.ranks), process),
        local_ranks=process.local,
        pin_memory=pin_memory,
        multiprocessing_context=multiprocessing_context,
    )


def _workers(count: int | None, prefetch: int | None, size: Size | None, batch: int, process: Ranks) -> Workers:
    """Planned for `batch` images, where there is a `size`."""
    height, width = (0, 0) if size is None else image_size(size)
    return plan_workers(count, prefetch, batch * 3 * height * width, process.local)

"""Trains without end and prints every step, for tests that kill it and go on elsewhere.

    python steps.py LOADER ORDER RANK RUNS

LOADER is "tensorflow", whose replicas are the ranks, "numpy", PyTorch's "threads", or how its worker starts. ORDER is
one of ORDERS. RUNS is JSON: of each run the number of ranks, the dataset's address, and a position or null. The runs
take turns: after step 3 of one of them it is step 3 of the next. Of each step a line of JSON is printed: ranks, the
step, the digests of the shares that this process has, and the position after it.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import shardfeed
from shardfeed.pipelines import Blocks, Global, Position, Ranks, Stream

SIZE = 32
OPTIONS: dict[str, Any] = {"batch_size": 12, "seed": 5}
ORDERS = {
    "global": Global(),
    "blocks": Blocks(buffer=60, block_bytes=14_000),  # three windows of the 161 records
    "stream": Stream(buffer=60),
}
Step = tuple[int, list[Any], str]  # its number, the shares (images, labels) of this process, the position after it


def digest(images: Any, labels: Any) -> str:
    """SHA-256 of a share of a batch."""
    arrays = [np.ascontiguousarray(each) for each in (images, labels)]
    return hashlib.sha256(b"".join(repr((one.shape, one.dtype)).encode() + one.tobytes() for one in arrays)).hexdigest()


def tensorflow_steps(order: Any, replicas: int, address: str, position: str | None) -> Iterator[Step]:
    import tensorflow as tf

    from shardfeed.pipelines import distribute

    if replicas == 1:
        strategy = tf.distribute.get_strategy()
    else:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
    feed = distribute(strategy, shardfeed.open(address)["train"], image_size=SIZE, order=order, **OPTIONS)
    if position is not None:
        feed = feed.at(position)
    for step, (images, labels) in enumerate(feed.batches, feed.start_step):
        shares = zip(*map(strategy.experimental_local_results, (images, labels)), strict=True)
        yield step, list(shares), feed.position(step + 1)


def array_steps(order: Any, rank: int, ranks: int, address: str, position: str | None) -> Iterator[Step]:
    options = OPTIONS | {"image_size": SIZE, "order": order, "start_step": 0, "ranks": Ranks(rank, ranks)}
    batches = shardfeed.array_batches(shardfeed.open(address)["train"], **options)
    if position is not None:
        batches.seek(Position.from_json(position, "position"))
    for step, batch in enumerate(batches, batches.step):
        yield step, [batch], batches.position.to_json()


def torch_steps(method: str, order: Any, rank: int, ranks: int, address: str, position: str | None) -> Iterator[Step]:
    from shardfeed.pipelines.torch import Workers, random_resized_crop, torch_loader

    split, crop = shardfeed.open(address)["train"], random_resized_crop(SIZE, antialias=False)
    options = OPTIONS | {"image_transform": crop, "order": order, "start_step": 0, "ranks": Ranks(rank, ranks)}
    loader = torch_loader(split, workers=2 if method == "threads" else Workers(1, start_method=method), **options)
    if position is not None:
        loader.load_state_dict({"position": position})
    for step, (images, labels) in enumerate(loader, loader.step):
        yield step, [(images.permute(0, 2, 3, 1).numpy(), labels.numpy())], loader.state_dict()["position"]


def steps_of(name: str, order: str, rank: int, run: tuple[int, str, str | None]) -> Iterator[Step]:
    """The steps of a run: its ranks, or replicas, the dataset's address, and the position from where it goes on."""
    if name == "tensorflow":
        return tensorflow_steps(ORDERS[order], *run)
    if name == "numpy":
        return array_steps(ORDERS[order], rank, *run)
    return torch_steps(name, ORDERS[order], rank, *run)


def main(name: str, order: str, rank: int, runs: list[tuple[int, str, str | None]]) -> None:
    if name == "tensorflow":
        import tensorflow as tf

        most = max(ranks for ranks, _, _ in runs)
        devices = [tf.config.LogicalDeviceConfiguration()] * most
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    started = [(run[0], steps_of(name, order, rank, run)) for run in runs if rank < run[0]]
    while True:
        for ranks, steps in started:
            step, shares, position = next(steps)
            print(json.dumps([ranks, step, [digest(*share) for share in shares], position]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))

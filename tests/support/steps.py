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
from shardfeed.pipelines import Blocks, Global, Position, Ranks, Stream, mix
from shardfeed.pipelines.augment import affine, color_jitter, gaussian_blur, recipes

SIZE = 32
AUGMENT = [
    color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    affine(15, (0.1, 0.1)),
    gaussian_blur(5, p=0.5),
    *recipes.torchvision_classification,
]
OPTIONS: dict[str, Any] = {"batch_size": 12, "seed": 5, "augment": AUGMENT}
ORDERS = {
    "global": Global(),
    "blocks": Blocks(buffer=60, block_bytes=14_000),  # three windows of the 161 records
    "stream": Stream(buffer=60),
    "mixed": Global(epoch_samples=60),  # of a mixture that a run goes on with: see `samples_of`
}
Step = tuple[int, list[Any], str]  # its number, the shares (images, labels) of this process, the position after it


def samples_of(address: str, order: str, *, begun: bool = True) -> Any:
    """The samples of a run; if it has begun with two parts of a mixture, those with which it goes on."""
    data = shardfeed.open(address)
    if order != "mixed":
        return data["train"]
    parts = [data["train"][:50], data["validation"][:9], data["train"][50:90]]
    return mix(parts, {0: (3, 1, 0), 3: (1, 1, 1), 7: (0, 1, 3)}) if begun else mix([(parts[0], 3), (parts[1], 1)])


def continued(position: str, order: Any) -> Position:
    return Position.from_json(position, "position").continued_with(order)


def digest(images: Any, labels: Any) -> str:
    """SHA-256 of a share of a batch."""
    arrays = [np.ascontiguousarray(each) for each in (images, labels)]
    return hashlib.sha256(b"".join(repr((one.shape, one.dtype)).encode() + one.tobytes() for one in arrays)).hexdigest()


def tensorflow_steps(order: str, replicas: int, address: str, position: str | None) -> Iterator[Step]:
    import tensorflow as tf

    from shardfeed.pipelines import distribute

    if replicas == 1:
        strategy = tf.distribute.get_strategy()
    else:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
    samples = samples_of(address, order, begun=position is not None)
    feed = distribute(strategy, samples, image_size=SIZE, order=ORDERS[order], **OPTIONS)
    if position is not None:
        feed = feed.at(continued(position, feed.order).to_json())
    for step, (images, labels) in enumerate(feed.batches, feed.start_step):
        shares = zip(*map(strategy.experimental_local_results, (images, labels)), strict=True)
        yield step, list(shares), feed.position(step + 1)


def array_steps(order: str, rank: int, ranks: int, address: str, position: str | None) -> Iterator[Step]:
    options = OPTIONS | {"image_size": SIZE, "order": ORDERS[order], "start_step": 0, "ranks": Ranks(rank, ranks)}
    batches = shardfeed.array_batches(samples_of(address, order, begun=position is not None), **options)
    if position is not None:
        batches.seek(continued(position, batches.order))
    for step, batch in enumerate(batches, batches.step):
        yield step, [batch], batches.position.to_json()


def torch_steps(method: str, order: str, rank: int, ranks: int, address: str, position: str | None) -> Iterator[Step]:
    from shardfeed.pipelines.torch import Workers, random_resized_crop, torch_loader

    samples, crop = samples_of(address, order, begun=position is not None), random_resized_crop(SIZE, antialias=False)
    options = OPTIONS | {"image_transform": crop, "order": ORDERS[order], "start_step": 0, "ranks": Ranks(rank, ranks)}
    loader = torch_loader(samples, workers=2 if method == "threads" else Workers(1, start_method=method), **options)
    if position is not None:
        loader.load_state_dict({"position": continued(position, loader.order).to_json()})
    for step, (images, labels) in enumerate(loader, loader.step):
        yield step, [(images.permute(0, 2, 3, 1).numpy(), labels.numpy())], loader.state_dict()["position"]


def steps_of(name: str, order: str, rank: int, run: tuple[int, str, str | None]) -> Iterator[Step]:
    """The steps of a run: its ranks, or replicas, the dataset's address, and the position from where it goes on."""
    if name == "tensorflow":
        return tensorflow_steps(order, *run)
    if name == "numpy":
        return array_steps(order, rank, *run)
    return torch_steps(name, order, rank, *run)


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

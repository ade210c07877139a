"""Trains without end and prints every step, for tests that kill it and go on elsewhere.

    python steps.py LOADER RANK RUNS

LOADER is "tensorflow" or "stream", whose replicas are the ranks, or how PyTorch's worker starts. RUNS is JSON: of each
run the number of ranks, the dataset's address, and a position or null. The runs take turns: after step 3 of one of them
it is step 3 of the next. Of each step a line of JSON is printed: ranks, the step, the digests of the shares that this
process has, and the position after it.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import shardfeed
from shardfeed.pipelines import Blocks, Stream

OPTIONS: dict[str, Any] = {
    "batch_size": 12,
    "image_size": 32,
    "seed": 5,
    "order": Blocks(buffer=60, block_bytes=14_000),  # three windows of the 161 records
}
STREAM = OPTIONS | {"order": Stream(buffer=60)}
Step = tuple[int, list[str], str]


def digest(images: Any, labels: Any) -> str:
    """SHA-256 of a share of a batch."""
    arrays = [np.ascontiguousarray(each) for each in (images, labels)]
    return hashlib.sha256(b"".join(repr((one.shape, one.dtype)).encode() + one.tobytes() for one in arrays)).hexdigest()


def tensorflow_steps(options: dict[str, Any], replicas: int, address: str, position: str | None) -> Iterator[Step]:
    import tensorflow as tf

    from shardfeed.pipelines import distribute

    if replicas == 1:
        strategy = tf.distribute.get_strategy()
    else:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
    feed = distribute(strategy, shardfeed.open(address)["train"], **options)
    if position is not None:
        feed = feed.at(position)
    for step, (images, labels) in enumerate(feed.batches, feed.start_step):
        shares = zip(*map(strategy.experimental_local_results, (images, labels)), strict=True)
        yield step, [digest(*share) for share in shares], feed.position(step + 1)


def torch_steps(rank: int, ranks: int, method: str, address: str, position: str | None) -> Iterator[Step]:
    from shardfeed.pipelines.torch import Ranks, Workers, torch_loader

    split = shardfeed.open(address)["train"]
    workers = Workers(1, start_method=method)
    loader = torch_loader(split, **OPTIONS, start_step=0, workers=workers, ranks=Ranks(rank, ranks))
    if position is not None:
        loader.load_state_dict({"position": position})
    first = loader.step
    for step, batch in enumerate(loader, first):
        yield step, [digest(*batch)], loader.state_dict()["position"]


def main(name: str, rank: int, runs: list[tuple[int, str, str | None]]) -> None:
    if name in ("tensorflow", "stream"):
        import tensorflow as tf

        most = max(ranks for ranks, _, _ in runs)
        devices = [tf.config.LogicalDeviceConfiguration()] * most
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
        options = STREAM if name == "stream" else OPTIONS
        started = [(run[0], tensorflow_steps(options, *run)) for run in runs]
    else:
        started = [(run[0], torch_steps(rank, run[0], name, *run[1:])) for run in runs if rank < run[0]]
    while True:
        for ranks, steps in started:
            print(json.dumps([ranks, *next(steps)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))

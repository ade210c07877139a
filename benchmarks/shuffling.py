"""Draws docs/shuffling.webp, how the orders shuffle beside a shuffle buffer alone: `python benchmarks/shuffling.py`.

10,000 samples in 8 shards, one epoch of each order. Above: the place in storage of the sample at each position of the
epoch; a good shuffle is an even gray, structure is what is left of the storage's order. Below: how far apart samples
end up that are stored next to each other.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "docs" / "pictures")]

from style import LIGHT, Look, charts, save  # noqa: E402  # of the docs, which are no package

SHARDS, SAMPLES, BUFFER = 8, 10_000, 1_000


def orders() -> dict[str, np.ndarray]:
    """Name -> place in storage by position, int64 [SAMPLES], of one epoch."""
    import tensorflow as tf
    from order import small_records

    from shardfeed.pipelines import Stream, make_batches, order_samples
    from shardfeed.pipelines.orders.order import BlockOrder

    buffer = tf.data.Dataset.range(SAMPLES).shuffle(BUFFER, seed=1).batch(SAMPLES)
    found = {f"shuffle buffer of {BUFFER:,} alone": next(iter(buffer)).numpy()}
    with tempfile.TemporaryDirectory() as scratch:
        split = small_records(Path(scratch) / "small", SHARDS, SAMPLES // SHARDS)
        stream = make_batches(
            split,
            lambda features, seed: seed[1],
            batch_size=SAMPLES,
            order=Stream(buffer=BUFFER),
            seed=1,
            keys=[],
        )
        found[f'order="stream", buffer {BUFFER:,}'] = next(iter(stream)).numpy()
        _, everywhere = order_samples(split, batch_size=SAMPLES, order="global", seed=1)
    # Blocks of a megabyte of 64 kB photos: the records here are small, and would make blocks of 250.
    blocks = BlockOrder("", SAMPLES, SAMPLES, SAMPLES, 1, 16, BUFFER // 16 * 16)
    found[f'order="blocks" of 16, window {BUFFER:,}'] = blocks.batch(0)
    found['order="global"'] = everywhere.batch(0)  # type: ignore[attr-defined]  # a global order
    return found


def draw(found: dict[str, np.ndarray], look: Look, path: Path) -> None:
    """Write a picture of a column for each order."""
    with charts(look) as plt:
        figure, axes = plt.subplots(
            2, len(found), figsize=(12, 5.6), height_ratios=(2, 1), sharey="row", layout="constrained"
        )
        for (name, places), above, below in zip(found.items(), *axes, strict=True):
            at = np.argsort(places)
            apart = np.abs(np.diff(at))
            above.plot(range(0, len(places), 10), places[::10], ",", color=look.blue)  # fewer points: a smaller picture
            above.set_title(name, fontsize=11)
            above.set_xlabel("position in the epoch")
            below.hist(apart, bins=50, range=(0, SAMPLES), color=look.blue)
            below.set_yscale("log")
            below.set_xlabel(f"positions between neighbours\n(median {np.median(apart):,.0f})")
        axes[0, 0].set_ylabel("place in storage")
        axes[1, 0].set_ylabel("pairs")
        for axis in axes.flat:
            axis.set_xticks(range(0, SAMPLES + 1, 5_000))
            axis.xaxis.set_major_formatter("{x:,.0f}")
        for axis in axes[0]:
            axis.set_yticks(range(0, SAMPLES + 1, 2_500))
            axis.yaxis.set_major_formatter("{x:,.0f}")
        save(figure, path, colours=8)
        plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw how the orders shuffle.")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "shuffling.webp")
    args = parser.parse_args()
    found = orders()
    for name, places in found.items():
        assert np.array_equal(np.sort(places), np.arange(SAMPLES)), name
        apart = np.abs(np.diff(np.argsort(places)))
        print(f"{name}: neighbours apart by {np.median(apart):,.0f} (median), {np.mean(apart):,.0f} (mean)")
    draw(found, LIGHT, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

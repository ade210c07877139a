"""Batches of one shape: ours beside the bucket sampler of a training script of diffusers, on the same list of sizes.

    python benchmarks/shape_batches.py SCRIPT

SCRIPT: diffusers' examples/dreambooth/train_dreambooth_lora_flux_kontext.py. Only its class BucketBatchSampler is run,
unchanged, with its settings; Accelerate, which this needs, shards it, as `accelerator.prepare` does. 20,000 sizes as of
photos, 4 ranks, 16 images each. Prints of each: samples of an epoch that are lost, or come twice; steps at which ranks
have several shapes; and the same for an epoch that is killed in the middle and resumed, which the script begins again,
as the class has no state. Then what the shapes cut away.
"""

import ast
import random
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from shardfeed.pipelines import shapes_of_area
from shardfeed.pipelines.orders.shapes import ShapeOrder, by_ratio, fits, nearest
from shardfeed.text import table

IMAGES, RANKS, EACH = 20_000, 4, 16
RATIOS = {3 / 2: 38, 2 / 3: 16, 4 / 3: 16, 3 / 4: 9, 16 / 9: 9, 9 / 16: 3, 1.0: 6}  # of 100 photos; 3 have any other


def sizes() -> tuple[np.ndarray, np.ndarray]:
    """Heights and widths."""
    draw = np.random.default_rng(0)
    weights = np.array([*RATIOS.values(), 100 - sum(RATIOS.values())]) / 100
    which = draw.choice(len(weights), IMAGES, p=weights)
    ratios = np.append([*RATIOS], 0.0)[which]
    ratios = np.where(ratios == 0, 2 ** draw.uniform(-1.2, 1.2, IMAGES), ratios)
    area = draw.uniform(0.5e6, 12e6, IMAGES)
    return np.sqrt(area / ratios).astype(int), np.sqrt(area * ratios).astype(int)


def of_diffusers(script: str, buckets: list[int], count: int) -> list[list[list[int]]]:
    """Samples of each rank, step by step."""
    import accelerate
    from torch.utils.data import BatchSampler

    tree = ast.parse(Path(script).read_text())
    (node,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "BucketBatchSampler")
    names = {"BatchSampler": BatchSampler, "random": random, "DreamBoothDataset": object}
    exec(compile(ast.Module([node], []), script, "exec"), names)
    dataset = SimpleNamespace(buckets=range(count), pixel_values=[(None, bucket) for bucket in buckets])
    ranks = []
    for rank in range(RANKS):
        random.seed(0)  # as `set_seed` in each process
        sampler = names["BucketBatchSampler"](dataset, batch_size=EACH, drop_last=True)
        ranks.append(list(accelerate.data_loader.BatchSamplerShard(sampler, RANKS, rank)))
    return [list(step) for step in zip(*ranks, strict=True)]


def figures(steps: list[list[list[int]]], shapes: list[set[int]]) -> list[object]:
    """Lost, repeated, steps of several shapes."""
    seen = Counter(sample for step in steps for part in step for sample in part)
    return [len(steps), IMAGES - len(seen), seen.total() - len(seen), sum(len(of_step) > 1 for of_step in shapes)]


def main(script: str) -> None:
    heights, widths = sizes()
    shapes = by_ratio(shapes_of_area(1024 * 1024))
    buckets = nearest(heights, widths, shapes)
    strata = tuple(np.bincount(buckets, minlength=len(shapes)).tolist())
    arranged = np.argsort(buckets, kind="stable")
    tall, wide = zip(*shapes, strict=True)
    batch = RANKS * EACH
    order = ShapeOrder("ab" * 16, IMAGES, batch, IMAGES // batch * batch, 0, tall, wide, strata)

    def ours(steps: range) -> list[list[list[int]]]:
        return [[arranged[order.batch(step, rank, RANKS)].tolist() for rank in range(RANKS)] for step in steps]

    theirs = of_diffusers(script, buckets.tolist(), len(shapes))
    half = len(theirs) // 2
    whole = range(order.steps_per_epoch)
    of_theirs = [{int(buckets[part[0]]) for part in step} for step in theirs]
    rows: list[list[object]] = [["", "steps", "lost", "repeated", "steps of several shapes"]]
    rows.append(["shardfeed", *figures(ours(whole), [{0}] * len(whole))])
    rows.append(["shardfeed, resumed", *figures(ours(whole[:half]) + ours(whole[half:]), [{0}] * len(whole))])
    rows.append(["diffusers", *figures(theirs, of_theirs)])
    rows.append(["diffusers, resumed", *figures(theirs[:half] + theirs, of_theirs[:half] + of_theirs)])
    print(table(rows))
    print(f"shapes: {len(shapes)}, images of each: {', '.join(map(str, strata))}")

    # What the shapes of border batches cost.
    cut = sum(fit.cut * fit.images for fit in fits(heights, widths, shapes)) / IMAGES
    (square,) = fits(heights, widths, [(1, 1)])
    found, mixed = 0.0, 0
    for step in whole:
        indices = arranged[order.batch(step)]
        found += fits(heights[indices], widths[indices], [order.shape(step)])[0].cut * len(indices)
        mixed += len({*buckets[indices].tolist()}) > 1
    shown = (
        f"{cut:.2%} by the nearest shape, {found / len(whole) / batch:.2%} in batches, {square.cut:.1%} by one square"
    )
    print(f"cut away: {shown}")
    print(f"batches of two shapes or more: {mixed} of {len(whole)}")


if __name__ == "__main__":
    main(sys.argv[1])

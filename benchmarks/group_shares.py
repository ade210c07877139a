"""Errors of shares that groups allow, and how many images move when 1% of the groups are added.

    python benchmarks/group_shares.py [SEEDS]

Beside shardfeed's draw stands StratifiedGroupKFold of scikit-learn, where it is installed: of its folds one is
validation, one is test, and the others are train. "all" is the largest error of a split in percentage points; "classes"
is how many images, in percent, would have to change their split for each class to have its shares exactly.
"""

import hashlib
import sys
import time
from collections.abc import Callable

import numpy as np

from shardfeed.converters.planning.group_shares import draw_group_splits

try:
    from sklearn.model_selection import StratifiedGroupKFold
except ImportError:
    StratifiedGroupKFold = None

TENTHS = {"train": 0.8, "validation": 0.1, "test": 0.1}
FIFTHS = {f"fold_{i}": 0.2 for i in range(5)}


def structure(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The group and the class of each image."""
    some = np.random.default_rng(seed)
    if name == "12 patients, 3 classes in each":
        sizes, classes = some.integers(20, 200, 12), 3
    elif name == "120 patients, 2 classes in each":
        sizes, classes = some.geometric(1 / 40, 120), 2
    elif name == "60 videos, two of them huge, 4 classes in each":
        sizes, classes = np.concatenate([[600, 300], some.integers(5, 30, 58)]), 4
    elif name == "400 videos, 10 classes, 70% of one":
        sizes, classes = some.lognormal(3, 1, 400).astype(int) + 1, 10
    else:
        sizes, classes = some.integers(1, 4, 10_000), 100
    groups = np.repeat(np.arange(len(sizes)), sizes)
    mixed = some.integers(0, classes, len(groups))
    if classes == 2:
        return groups, (some.random(len(groups)) < some.beta(0.5, 2, len(sizes))[groups]).astype(int)
    pure = {10: 0.7, 100: 1.0}.get(classes, 0.0)
    return groups, np.where(some.random(len(groups)) < pure, some.integers(0, classes, len(sizes))[groups], mixed)


def ours(groups: np.ndarray, labels: np.ndarray, shares: dict[str, float], seed: int) -> np.ndarray:
    """The split of each image, by number."""
    ids, numbers = np.unique(groups, return_inverse=True)
    drawn = (hashlib.blake2b(b"%d %d" % (seed, group), digest_size=8).digest() for group in ids)
    draws = np.frombuffer(b"".join(drawn), "<u8")
    found = draw_group_splits(numbers, draws, labels.astype(np.int32), shares, "exact", np.full(len(ids), -1), [])
    split_of = np.zeros(len(groups), int)
    for number, name in enumerate(shares):
        split_of[found[name]] = number
    return split_of


def theirs(groups: np.ndarray, labels: np.ndarray, shares: dict[str, float], seed: int) -> np.ndarray:
    """Likewise."""
    folds = StratifiedGroupKFold(10 if shares is TENTHS else 5, shuffle=True, random_state=seed)
    split_of = np.zeros(len(groups), int)
    for number, (_, members) in enumerate(folds.split(np.zeros(len(groups)), labels, groups)):
        split_of[members] = number if number < len(shares) else 0
    return split_of


def errors(split_of: np.ndarray, labels: np.ndarray, shares: dict[str, float]) -> tuple[float, float]:
    """In percent: of the worst split, and of all classes."""
    found, parts = np.zeros((labels.max() + 1, len(shares))), np.array([*shares.values()])
    np.add.at(found, (labels, split_of), 1)
    wrong = np.abs(found - found.sum(axis=1, keepdims=True) * parts).sum() / 2
    return 100 * np.abs(found.sum(axis=0) / len(labels) - parts).max(), 100 * wrong / len(labels)


def measured(
    draw: Callable[..., np.ndarray], name: str, shares: dict[str, float], seeds: int
) -> tuple[float, float, float, float]:
    """Mean errors, milliseconds, and percent of the images that move when the last 1% of groups are added."""
    rows = []
    for seed in range(seeds):
        groups, labels = structure(name, seed)
        began = time.perf_counter()
        split_of = draw(groups, labels, shares, seed)
        spent = 1000 * (time.perf_counter() - began)
        count = int(groups.max()) + 1
        before = groups < count - max(1, count // 100)
        moved = 100 * np.mean(draw(groups[before], labels[before], shares, seed) != split_of[before])
        rows.append((*errors(split_of, labels, shares), spent, moved))
    return tuple(np.mean(rows, axis=0).tolist())


def main() -> None:
    """Print a table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    names = ["12 patients, 3 classes in each", "120 patients, 2 classes in each"]
    names += ["60 videos, two of them huge, 4 classes in each", "400 videos, 10 classes, 70% of one"]
    names += ["10,000 originals of 1 to 3 images, 100 classes"]
    print("| images | splits | by | all | classes | moved | ms |\n|---|---|---|---:|---:|---:|---:|")
    for name in names:
        for shares, said in ((TENTHS, "80/10/10"), (FIFTHS, "5 x 20")):
            for by, draw in (("shardfeed", ours), *([("scikit-learn", theirs)] if StratifiedGroupKFold else [])):
                of_all, of_classes, spent, moved = measured(draw, name, shares, seeds)
                row = f"{of_all:.3f}% | {of_classes:.2f}% | {moved:.1f}% | {spent:,.0f}"
                print(f"| {name} | {said} | {by} | {row} |", flush=True)


if __name__ == "__main__":
    main()

"""What augmentations cost: `benchmarks/augment.py PHOTOS FOLDER`.

PHOTOS is an image folder of JPEGs (photos.py draws one). FOLDER holds the dataset, which is made if it is missing.

1. CPU time an image of 224x224 of each loader with each recipe, beside crop and flip, in turn as in_turn.py has them.
2. Microseconds of one edit of such an image: compiled with AVX2, compiled without, and NumPy's.
3. Microseconds an image of the draws of a recipe, for a batch of 64.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import in_turn
import numpy as np

from shardfeed.converters import ImageFolder, convert
from shardfeed.native import library
from shardfeed.pipelines.augment import recipes
from shardfeed.pipelines.augment.augmentation import drawn_edits
from shardfeed.pipelines.augment.edits import NUMBERS, Edit
from shardfeed.pipelines.augment.host import edit_compiled, edited

BATCH, TARGET = 64, (224, 224)
RECIPES = ("moco_v2", "simclr", "torchvision_classification")
LOADERS = {"`array_batches`": "loader=arrays", "`torch_loader`": "loader=torch", "`train_batches`": "order=global"}
SAME = np.eye(3).ravel().tolist()
HALF_CONTRAST = [*np.eye(3).ravel() / 2, *np.tile([0.15, 0.29, 0.06], 3)]
TURNED = [0.9, 0.1, 3, -0.1, 0.9, 4, 0, 0, 1]
EDITS: dict[str, tuple[Edit, list[float]]] = {
    "colours": (Edit.MATRIX, SAME),
    "colours with the mean": (Edit.MATRIX, HALF_CONTRAST),
    "posterize": (Edit.POSTERIZE, [4]),
    "equalize": (Edit.EQUALIZE, []),
    "autocontrast": (Edit.AUTOCONTRAST, []),
    "blur, sigma 0.7": (Edit.BLUR, [0.7, 11]),
    "blur, sigma 1.2": (Edit.BLUR, [1.2, 11]),
    "blur, sigma 2": (Edit.BLUR, [2, 11]),
    "sharpness": (Edit.SHARPNESS, [1.5]),
    "affine, nearest": (Edit.WARP, [*TURNED, 0]),
    "affine, bilinear": (Edit.WARP, [*TURNED, 1]),
    "perspective, bilinear": (Edit.WARP, [*TURNED[:6], 1e-4, 0, 1, 1]),
    "quarter turn": (Edit.TURN, [1]),
    "erasing": (Edit.ERASE, [50, 50, 80, 80]),
}


def microseconds(call: Callable[[], object], times: int = 40) -> float:
    """The least time of a call: that of another process is not in it."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return min(found) * 1e6


def print_edits() -> None:
    image = np.random.default_rng(0).integers(0, 256, (*TARGET, 3)).astype(np.uint8)
    loaded = library()
    print("| edit | AVX2, µs | without, µs | NumPy, µs |\n|---|---:|---:|---:|")
    for name, (kind, numbers) in EDITS.items():
        kinds, values = np.array([kind], np.int32), np.zeros((1, NUMBERS))
        values[0, : len(numbers)] = numbers
        cells = (
            [
                microseconds(lambda plain=plain: edit_compiled(loaded, image, kinds, values, plain=plain))
                for plain in (False, True)
            ]
            if loaded
            else []
        )
        cells.append(microseconds(lambda: edited(image, kinds, values), 5))
        print(f"| {name} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |")


def print_draws() -> None:
    seeds = np.random.default_rng(0).integers(0, 2**40, (BATCH, 2))
    print("| recipe | draws, µs/image |\n|---|---:|")
    for name in RECIPES:
        augment = getattr(recipes, name)
        print(f"| {name} | {microseconds(lambda augment=augment: drawn_edits(augment, seeds, TARGET)) / BATCH:.1f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what augmentations cost.")
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn (1.5)")
    parser.add_argument("--only", choices=("loaders", "parts"))
    args = parser.parse_args()
    data = args.folder / "photos"
    if not data.exists():
        convert(ImageFolder(args.photos), data, split={"train": 1.0})
    if args.only != "parts":
        for name, options in LOADERS.items():
            print(f"\n{name}\n", flush=True)
            plain = f"{sys.executable}:{data}:{options}"
            rows = [f"crop, flip={plain}", *(f"{recipe}={plain}:augment={recipe}" for recipe in RECIPES)]
            in_turn.compare(rows, args.cycles, args.seconds)
    if args.only != "loaders":
        print_edits()
        print_draws()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Augmentations beside torchvision's functions: `python benchmarks/against_torchvision.py [FOLDER]`.

A table has each operation with the same parameters: the largest and the mean difference of a value, in levels of 255,
over the images of FOLDER, or drawn photos; and for geometry the share of pixels that differ by more than one level.
docs/augmentations.md has it. Images are as large as networks see them, cropped at the centre.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

import numpy as np  # noqa: E402
from photos import photo  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from torchvision_cases import CASES, Case, Difference  # noqa: E402

PHOTOS = 24
SIDE = 224


def photos(folder: Path | None) -> Iterator[np.ndarray]:
    """Images, uint8 [SIDE, SIDE, 3]."""
    drawn = (photo(number, (500, 375)) for number in range(PHOTOS))
    images = drawn if folder is None else (Image.open(file).convert("RGB") for file in sorted(folder.iterdir()))
    for image in images:
        yield np.asarray(ImageOps.fit(image, (SIDE, SIDE), Image.Resampling.LANCZOS))


def differences(case: Case, images: list[np.ndarray]) -> list[Difference]:
    return [Difference.of(case.made_by_us(image), case.made_by_torchvision(image), 1) for image in images]


def main() -> int:
    parser = argparse.ArgumentParser(description="Differences of augmentations from torchvision's.")
    parser.add_argument("folder", type=Path, nargs="?", help="images; without it photos are drawn")
    images = list(photos(parser.parse_args().folder))
    print(f"{len(images)} images of {SIDE} x {SIDE}\n")
    print("| operation | largest | mean | pixels beyond 1 |\n|---|---:|---:|---:|")
    for case in CASES:
        found = differences(case, images)
        largest, mean, beyond = (max(each.largest for each in found), *np.mean([(d.mean, d.beyond) for d in found], 0))
        print(f"| {case.name} | {largest} | {mean:.3f} | {100 * beyond:.2f} % |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

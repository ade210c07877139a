"""Draws docs/pictures/draws.webp, twelve draws of an image: `python docs/pictures/draws.py`.

It is what `shardfeed preview --augment torchvision_classification` writes for an image of data_samples/scenes, smaller.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from PIL import Image
from style import LIGHT, sheets

HERE = Path(__file__).parent
SCENES = HERE.parent.parent / "data_samples" / "scenes"


def main() -> int:
    """Write the picture, one for light and dark pages."""
    parser = argparse.ArgumentParser(description="Draw an image as a recipe augments it.")
    parser.add_argument("--out", type=Path, default=HERE / "draws.webp")
    args = parser.parse_args()

    from shardfeed.tools.cli import main as shardfeed_command

    with tempfile.TemporaryDirectory() as scratch:
        dataset = f"{scratch}/scenes"
        source = [str(SCENES / "coco" / "instances.json"), dataset, "--images", str(SCENES / "images")]
        shardfeed_command(["convert", *source, "--split", "train=1", "--tasks", "boxes,masks"])
        with sheets(LIGHT):
            recipe = ["--augment", "torchvision_classification", "--seed", "11"]
            shardfeed_command(["preview", dataset, "-o", f"{scratch}/draws.png", *recipe])
        with Image.open(f"{scratch}/draws.png") as sheet:
            small = sheet.resize((sheet.width * 2 // 3, sheet.height * 2 // 3), Image.Resampling.LANCZOS)
            small.save(args.out, quality=50, method=6)
    return 0


if __name__ == "__main__":
    sys.exit(main())

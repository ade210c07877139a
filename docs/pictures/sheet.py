"""Draws docs/pictures/sheet.webp, a contact sheet of objects: `python docs/pictures/sheet.py`.

It is what `shardfeed preview` writes for half of data_samples/scenes.
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
    parser = argparse.ArgumentParser(description="Draw a contact sheet of objects.")
    parser.add_argument("--out", type=Path, default=HERE / "sheet.webp")
    args = parser.parse_args()

    from shardfeed.tools.cli import main as shardfeed_command

    with tempfile.TemporaryDirectory() as scratch:
        dataset = f"{scratch}/scenes"
        source = [str(SCENES / "coco" / "instances.json"), dataset, "--images", str(SCENES / "images")]
        shardfeed_command(["convert", *source, "--split", "train=0.5,validation=0.5"])
        with sheets(LIGHT):
            shardfeed_command(["preview", dataset, "-o", f"{scratch}/sheet.png", "--columns", "4"])
        with Image.open(f"{scratch}/sheet.png") as sheet:
            sheet.save(args.out, quality=45, method=6)
    return 0


if __name__ == "__main__":
    sys.exit(main())

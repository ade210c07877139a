"""Faults planted among photos, and which of them `shardfeed report` finds: `python benchmarks/report_planted.py DIR`.

DIR gets `images` (train and test, in class folders; other tools can be run on it), `planted.json` and the dataset.
"""

import argparse
import io
import json
import random
import subprocess
import time
from pathlib import Path

from photos import CLASSES, photo
from PIL import Image, ImageEnhance, ImageFilter

SIZE = (256, 192)  # pixels
EACH_NEAR = 50  # near duplicates of each kind


def encoded(image: Image.Image, quality: int = 92) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def cropped(image: Image.Image, share: float) -> Image.Image:
    """Without `share` of its width and height, half of it on each side."""
    left, top = (round(side * share / 2) for side in image.size)
    return image.crop((left, top, image.width - left, image.height - top))


NEAR = {
    "encoded": lambda image: encoded(image, 50),
    "resized": lambda image: encoded(image.resize((160, 120), Image.Resampling.LANCZOS)),
    "cropped 4 %": lambda image: encoded(cropped(image, 0.04)),
    "cropped 8 %": lambda image: encoded(cropped(image, 0.08)),
    "brightened": lambda image: encoded(ImageEnhance.Brightness(image).enhance(1.25)),
}


def plant(root: Path, count: int) -> dict[str, list[str]]:
    """Write the images; keys by what is planted."""
    draw = random.Random(1)
    planted: dict[str, list[str]] = {}

    def write(split: str, label: int, name: str, data: bytes, what: str = "") -> None:
        path = root / split / f"class_{label}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if what:
            planted.setdefault(what, []).append(f"{split}/class_{label}/{name}")

    originals = [(number, number % CLASSES) for number in range(count)]
    for number, label in originals:
        write("train" if number % 5 else "test", label, f"{number:06d}.jpg", encoded(photo(number, SIZE)))
    chosen = draw.sample([one for one in originals if one[0] % 5], 200 + EACH_NEAR * len(NEAR) + 20)
    for number, label in chosen[:200]:
        source = root / "train" / f"class_{label}" / f"{number:06d}.jpg"
        write("test", label, f"exact_{number:06d}.jpg", source.read_bytes())
        planted.setdefault("exact", []).append(f"train/class_{label}/{number:06d}.jpg")
    for i, (number, label) in enumerate(chosen[200:-20]):
        what = list(NEAR)[i % len(NEAR)]
        write("test", label, f"near_{number:06d}.jpg", NEAR[what](photo(number, SIZE)))
        planted.setdefault(what, []).append(f"train/class_{label}/{number:06d}.jpg")
    for number, label in chosen[-20:]:
        source = root / "train" / f"class_{label}" / f"{number:06d}.jpg"
        planted.setdefault("two labels", []).append(f"train/class_{label}/{number:06d}.jpg")
        write("train", (label + 1) % CLASSES, f"other_{number:06d}.jpg", source.read_bytes(), "two labels")
    for i in range(10):
        blank = Image.new("RGB", SIZE, (25 * i, 90, 255 - 25 * i))
        write("train", i, f"blank_{i}.jpg", encoded(blank), "blank")
        blurred = photo(count + i, SIZE).filter(ImageFilter.GaussianBlur(4))
        write("train", i, f"blurred_{i}.jpg", encoded(blurred), "blurred")
    return planted


CODES = {
    "exact": "equal-across-splits",
    **dict.fromkeys(NEAR, "alike-across-splits"),
    "two labels": "two-labels",
    "blank": "blank",
    "blurred": "blurred",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Plant faults among photos, and count what the report finds.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--count", type=int, default=20_000)
    args = parser.parse_args()
    images, out, page = (args.directory / name for name in ("images", "dataset", "report.html"))
    if not images.exists():
        (args.directory / "planted.json").write_text(json.dumps(plant(images, args.count)))
    if not out.exists():
        subprocess.run(["shardfeed", "convert", images, out, "--quiet"], check=True)
    started = time.monotonic()
    subprocess.run(["shardfeed", "report", out, "-o", page, "--quiet"], check=True)
    print(f"{time.monotonic() - started:.1f} s, page of {page.stat().st_size / 1e6:.1f} MB")
    planted = json.loads((args.directory / "planted.json").read_text())
    found: dict[str, set[str]] = {}
    for code in set(CODES.values()):
        keys = args.directory / "report_files" / f"{code}.txt"
        found[code] = set(keys.read_text().split()) if keys.exists() else set()
    print("| planted | | found |\n|---|---|---|")
    for what, code in CODES.items():
        print(f"| {what} | {len(planted[what])} | {len(found[code] & {*planted[what]})} |")
    for code, keys in sorted(found.items()):
        right = {key for what, of in CODES.items() if of == code for key in planted[what]}
        print(f"false alarms of {code}: {len(keys - right)} of {len(keys)}")


if __name__ == "__main__":
    main()

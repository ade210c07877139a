"""How far resized pixels are from the exact, antialiased ones: `python benchmarks/pixels.py`.

The exact ones: all of the image decoded, the window resized by Pillow with its bilinear (triangle) filter, which
widens with the scale. Mean absolute differences in levels of 0..255, over random windows of drawn photos, by how many
times the window is larger than the target; with what one image costs beyond the first method.
"""

import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
RESULTS = Path(__file__).parent / "results"
SCALES = (1.2, 1.5, 1.9, 2.5, 3.5, 4.5, 7.0, 12.0)
TARGET, IMAGES = 224, 6


def jpeg(number: int, size: tuple[int, int]) -> bytes:
    from photos import photo

    out = io.BytesIO()
    photo(number, size).save(out, "JPEG", quality=92)
    return out.getvalue()


def main() -> int:
    import tensorflow as tf

    from shardfeed.pipelines.tensorflow.decode import decode_window, resized

    def ours(data: bytes, window: list[int], *, antialias: bool) -> np.ndarray:
        features = {"image/encoded": tf.constant(data), "image/format": tf.constant(b"jpeg")}
        choice = tf.constant(window), tf.constant([TARGET, TARGET])
        decoded = decode_window(features, lambda shape: choice, antialias=antialias)
        return resized(decoded.pixels, decoded.target, antialias=antialias).numpy()

    def plain(data: bytes, window: list[int]) -> np.ndarray:
        pixels = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.cast(tf.round(tf.image.resize(pixels, [TARGET, TARGET])), tf.uint8).numpy()

    methods = {
        "decoded in full, bilinear": plain,
        "ours": lambda data, window: ours(data, window, antialias=False),
        "ours, antialias=True": lambda data, window: ours(data, window, antialias=True),
    }
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for scale in SCALES:
        side = round(TARGET * scale)
        size = (round(side * 1.4), round(side * 1.2))
        errors: dict[str, list[float]] = {name: [] for name in methods}
        seconds: dict[str, list[float]] = {name: [] for name in methods}
        for number in range(IMAGES):
            data = jpeg(number, size)
            left, top = int(rng.integers(size[0] - side)), int(rng.integers(size[1] - side))
            whole = Image.open(io.BytesIO(data)).convert("RGB").crop((left, top, left + side, top + side))
            exact = np.asarray(whole.resize((TARGET, TARGET), Image.Resampling.BILINEAR), np.float64)
            for name, method in methods.items():
                method(data, [top, left, side, side])
                started = time.process_time()
                found = method(data, [top, left, side, side])
                seconds[name].append(time.process_time() - started)
                errors[name].append(float(np.abs(found - exact).mean()))
        row = {name: round(float(np.mean(values)), 2) for name, values in errors.items()}
        cost = {name: round(float(np.median(values)) * 1e3, 2) for name, values in seconds.items()}
        rows.append({"scale": scale, "mean_absolute_error": row, "cpu_ms": cost})
    lines = ["| window / target | " + " | ".join(methods) + " |", "|---:|" + "---:|" * len(methods)]
    for row in rows:
        cells = [f"{row['mean_absolute_error'][name]:.2f} ({row['cpu_ms'][name]:.1f} ms)" for name in methods]
        lines.append(f"| {row['scale']:g} | " + " | ".join(cells) + " |")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "pixels.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "pixels.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Cost of each JPEG decoder as a check of images, and the damage it sees: `python benchmarks/codecs.py [PHOTOS]`.

Photos are encoded in five ways, damaged in ten, and given to every decoder, alone and behind shardfeed's own look at
headers and markers. A damaged file is *harmed* when Pillow's full decode fails or gives other pixels than the whole
file's; the tables count how many of those are refused, and how many unharmed ones. Time is CPU time of the check on
whole photos, at the least work a decoder offers that still reads every bit; decoders alternate. Results go to
benchmarks/results/codecs.json and codecs.md. Decoders that are not installed are left out.
"""

import argparse
import importlib
import io
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.converters import ImageOptions
from shardfeed.converters.images.jpeg import check_scans, read_jpeg_header
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import MAX_PIXELS

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
OURS, TENSORFLOW = "shardfeed --check decode", "TensorFlow, ratio 8"
BEHIND = ", behind ours"

Check = Callable[[bytes], object]  # raises on an image that it refuses
Damage = Callable[[bytes, int, random.Random], bytes]  # (file, offset of the first image data, draws)

ENCODINGS: dict[str, dict[str, Any]] = {
    "baseline 4:2:0": {"subsampling": "4:2:0"},
    "baseline 4:4:4": {"subsampling": "4:4:4"},
    "gray": {},
    "progressive": {"progressive": True},
    "restart markers": {"restart_marker_rows": 1},
}


def encoded(photo: bytes, name: str) -> bytes:
    image, out = Image.open(io.BytesIO(photo)), io.BytesIO()
    image.convert("L" if name == "gray" else "RGB").save(out, "JPEG", quality=92, **ENCODINGS[name])
    return out.getvalue()


def in_scan(data: bytes, scan: int, draws: random.Random) -> int:
    return draws.randrange(scan, len(data) - 2)


def cut(data: bytes, scan: int, draws: random.Random) -> bytes:
    return data[: draws.randrange(2, len(data) - 2)]


def cut_with_end_marker(data: bytes, scan: int, draws: random.Random) -> bytes:
    return data[: in_scan(data, scan, draws)] + b"\xff\xd9"


def zeroed(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = in_scan(data, scan, draws)
    size = min(draws.choice((16, 512, 4096)), len(data) - 2 - at)
    return data[:at] + bytes(size) + data[at + size :]


def flipped_bit(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = in_scan(data, scan, draws)
    return data[:at] + bytes((data[at] ^ 1 << draws.randrange(8),)) + data[at + 1 :]


def swapped(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = in_scan(data, scan, draws) - 1
    return data[:at] + data[at + 1 : at + 2] + data[at : at + 1] + data[at + 2 :]


def inserted(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = in_scan(data, scan, draws)
    return data[:at] + draws.randbytes(draws.choice((1, 4, 64))) + data[at:]


def removed(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = in_scan(data, scan, draws)
    return data[:at] + data[min(at + draws.choice((1, 4, 64)), len(data) - 2) :]


def header_byte(data: bytes, scan: int, draws: random.Random) -> bytes:
    at = draws.randrange(2, scan)
    return data[:at] + bytes((data[at] ^ draws.randrange(1, 256),)) + data[at + 1 :]


def appended(data: bytes, scan: int, draws: random.Random) -> bytes:
    return data + draws.randbytes(draws.choice((1, 100)))


def padded(data: bytes, scan: int, draws: random.Random) -> bytes:
    return data[:-2] + bytes(draws.choice((1, 7))) + data[-2:]


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "cut, end marker put back": cut_with_end_marker,
    "16 to 4096 bytes zeroed": zeroed,
    "one bit flipped": flipped_bit,
    "two bytes swapped": swapped,
    "1 to 64 bytes inserted": inserted,
    "1 to 64 bytes removed": removed,
    "one header byte changed": header_byte,
    "bytes appended": appended,
    "zeros before the end marker": padded,
}


def pillow_pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def decoders() -> dict[str, Check]:
    """Every decoder there is here, doing as little as it can while reading all bits."""

    def pillow(data: bytes) -> None:
        image = Image.open(io.BytesIO(data), formats=["JPEG"])
        image.draft("L", (max(1, image.width // 8), max(1, image.height // 8)))
        image.load()

    found: dict[str, Check] = {"Pillow, 1/8": pillow}
    with suppress(ImportError):
        simplejpeg = importlib.import_module("simplejpeg")
        eighth = {"min_height": 1, "min_width": 1, "min_factor": 8}
        found["simplejpeg strict, 1/8 gray"] = lambda data: simplejpeg.decode_jpeg(data, "GRAY", **eighth)
        found["simplejpeg strict, full"] = lambda data: simplejpeg.decode_jpeg(data, "RGB")
    with suppress(ImportError):
        cv2 = importlib.import_module("cv2")
        cv2.setNumThreads(1)

        def opencv(data: bytes) -> None:
            if cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_REDUCED_GRAYSCALE_8) is None:
                raise ValueError("no image")

        found["OpenCV, 1/8 gray"] = opencv
    with suppress(ImportError):
        imagecodecs = importlib.import_module("imagecodecs")
        found["imagecodecs, full"] = imagecodecs.jpeg8_decode
    with suppress(ImportError):
        tf = importlib.import_module("tensorflow")
        found[TENSORFLOW] = lambda data: tf.io.decode_jpeg(data, ratio=8)
    return found


def own_checks(data: bytes) -> None:
    """Check the header and the markers in the image data, which needs no decoder."""
    check_scans(data, read_jpeg_header(data, MAX_PIXELS))


def refuses(check: Check, data: bytes) -> bool:
    try:
        check(data)
    except Exception:  # every decoder has its own
        return True
    return False


@contextmanager
def silence() -> Any:
    """OpenCV's libjpeg writes its warnings to the process's standard error."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def speed(photos: Sequence[bytes], checks: dict[str, Check]) -> dict[str, float]:
    """CPU microseconds for an image, medians of alternating rounds."""
    times: dict[str, list[float]] = {name: [] for name in checks}
    for _ in range(ROUNDS):
        for name, check in checks.items():
            started = time.process_time()
            for photo in photos:
                check(photo)
            times[name].append((time.process_time() - started) / len(photos) * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def damage(photos: Sequence[bytes], checks: dict[str, Check], tries: int) -> dict[str, Any]:
    """By damage: files, those harmed, how many harmed and unharmed ones each check refuses.

    `passed`: files that pass our check, whatever was done to them; `lost`: those of them that TensorFlow refuses.
    """
    rows: dict[str, Any] = {}
    draws = random.Random(1)
    for name in ENCODINGS:
        for photo in photos:
            whole = encoded(photo, name)
            scan, pixels = read_jpeg_header(whole, MAX_PIXELS).scan, pillow_pixels(whole)
            for kind, spoil in DAMAGES.items():
                for _ in range(tries):
                    data = spoil(whole, scan, draws)
                    if data == whole:
                        continue
                    try:
                        harmed = not np.array_equal(pillow_pixels(data), pixels)
                    except Exception:  # refused
                        harmed = True
                    verdicts = {check: refuses(decode, data) for check, decode in checks.items()}
                    _count(rows, kind, harmed, verdicts)
                    if kind == "one bit flipped":
                        _count(rows, f"the same, {name}", harmed, verdicts)
    return rows


def _count(rows: dict[str, Any], kind: str, harmed: bool, verdicts: dict[str, bool]) -> None:
    empty = {"harmed": 0, "unharmed": 0, "passed": 0, "lost": 0, "refused": {}}
    row, state = rows.setdefault(kind, empty), "harmed" if harmed else "unharmed"
    row[state] += 1
    row["passed"] += not verdicts[OURS]
    row["lost"] += not verdicts[OURS] and verdicts.get(TENSORFLOW, False)
    for check, refused in verdicts.items():
        of_check = row["refused"].setdefault(check, {"harmed": 0, "unharmed": 0})
        of_check[state] += refused


def markdown(result: dict[str, Any]) -> str:
    lines = ["| check | CPU µs/image |", "|---|---:|"]
    lines += [f"| {name} | {time:.0f} |" for name, time in result["microseconds"].items()]
    rows = result["damage"]
    names = list(next(iter(rows.values()))["refused"])
    ours = [name for name in names if name.startswith(OURS)]
    behind = [name for name in names if name.endswith(BEHIND)]
    for title, shown in (
        ("by the decoders alone", [name for name in names if name not in (*ours, *behind)]),
        ("behind our header and marker checks", [*behind, *ours]),
    ):
        lines += ["", f"Refused {title}, in percent of the harmed files / of the unharmed ones:", ""]
        heads = [name.removesuffix(BEHIND) for name in shown]
        lines += ["| damage | harmed | unharmed | " + " | ".join(heads) + " |"]
        lines += ["|---|---:|---:|" + "---:|" * len(shown)]
        for kind, row in rows.items():
            cells = [_percent(row["refused"][name], row) for name in shown]
            lines.append(f"| {kind} | {row['harmed']} | {row['unharmed']} | " + " | ".join(cells) + " |")
    passed, lost = (sum(row[key] for kind, row in rows.items() if kind in DAMAGES) for key in ("passed", "lost"))
    lines += ["", f"Of {passed} damaged files that `{OURS}` passes, TensorFlow refuses {lost}."]
    return "\n".join(lines) + "\n"


def _percent(refused: dict[str, int], row: dict[str, Any]) -> str:
    return " / ".join(f"{100 * refused[what] / row[what]:.1f}" if row[what] else "–" for what in ("harmed", "unharmed"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what decoders cost and which damage they see.")
    parser.add_argument("photos", nargs="?", default=RESULTS / "photos", help="image folder of JPEGs")
    parser.add_argument("--photos", dest="timed", type=int, default=200, help="photos to time (200)")
    parser.add_argument("--damaged", type=int, default=20, help="photos to damage (20)")
    parser.add_argument("--tries", type=int, default=10, help="damaged files of each kind, encoding and photo (10)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for codecs.json and codecs.md")
    args = parser.parse_args(arguments)
    paths = sorted(Path(args.photos).rglob("*.jpg"))
    if not paths:
        parser.error(f"no *.jpg in {args.photos}: draw some with benchmarks/photos.py")
    photos = [path.read_bytes() for path in paths[:: max(1, len(paths) // args.timed)]]
    alone = decoders()
    checks: dict[str, Check] = {"our header and marker checks": own_checks, **alone}
    for name, decode in alone.items():

        def both(data: bytes, decode: Check = decode) -> None:
            own_checks(data)
            decode(data)

        checks[name + BEHIND] = both
    options = ImageOptions()
    checks[OURS] = lambda data: store_image(data, options)

    def without_warning(data: bytes) -> None:
        if store_image(data, options).warnings:
            raise ValueError("a warning")

    checks[f"{OURS}, warned of included"] = without_warning
    with silence():
        result = {
            "microseconds": speed(
                photos,
                {name: check for name, check in checks.items() if "," not in name.removeprefix(OURS) or name in alone},
            ),
            "damage": damage(photos[:: max(1, len(photos) // args.damaged)][: args.damaged], checks, args.tries),
        }
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "codecs.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.results / "codecs.md").write_text(markdown(result))
    print(markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

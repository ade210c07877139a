"""Other people's programs over our shards: `python benchmarks/other_programs.py [NAME ...]`, or `make peers`.

Each script of `programs/` reads the same few datasets with programs that know nothing of us, in an environment of its
own, and compares every record with what was written. The table of docs/other-programs.md is made of what they say. A
program that cannot be installed is listed with the reason; one that reads wrongly ends this with 1.
"""

import argparse
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, ROOT, NotInstallableError, clean_environment, environment_python, last_reason
from photos import make_photos

SCRIPTS = Path(__file__).parent / "programs"
RESULTS = Path(__file__).parent / "results" / "other_programs.json"
PAGE = ROOT / "docs" / "other-programs.md"
BEGIN, END = "<!-- made by `make peers` -->\n", "<!-- the end of what `make peers` makes -->"
SIDE, PHOTOS, BOXES = (160, 120), 240, 48
SPLITS = ("train", "train", "test", "train", "validation", "train")  # of each six photos
SCENES = ROOT / "data_samples" / "scenes"
DRAWN = (  # of scenes: a name, what is converted, options
    ("scenes", "coco/instances.json", "--tasks", "boxes,masks"),
    ("people", "coco/keypoints.json", "--tasks", "boxes,keypoints"),
    ("ground", "masks", "--class-names", SCENES / "masks.txt"),
)
IN_FORMATS = ("webdataset", "parquet", "mds", "arrayrecord")  # photos and scenes lie as `photos-mds`, too
_SECONDS = 900  # for one script
_HEADER = re.compile(r"^# /// script\n((?:#.*\n)+?)# ///$", re.MULTILINE)


def requirements(script: Path) -> list[str]:
    """Read a script's requirements from its inline metadata (PEP 723)."""
    found = _HEADER.search(script.read_text())
    assert found, f"{script}: no `# /// script`"
    return tomllib.loads(re.sub("^# ?", "", found[1], flags=re.MULTILINE))["dependencies"]


def make_datasets(root: Path) -> None:
    """The datasets below `root`, and `expected.json`, what is in them."""
    import shardfeed
    from shardfeed.converters import convert
    from shardfeed.converters.existing.dataset_source import DatasetSource

    photos = root / "source"
    make_photos(str(photos), PHOTOS, SIDE)
    for name in ("photos", "boxes"):
        (root / name).mkdir(exist_ok=True)
    pictures = sorted(path for path in photos.rglob("*") if path.is_file())
    lines = [f"{path},{path.parent.name},{SPLITS[number % 6]}" for number, path in enumerate(pictures)]
    (root / "photos.csv").write_text("\n".join(["file,label,split", *lines]) + "\n")
    _shardfeed("convert", root / "photos.csv", root / "photos/1.0.0", "--shards", 3)
    rows = []
    for number, picture in enumerate(pictures[:BOXES]):
        boxes = [(0.1, 0.2, 0.4, 0.6), (0.25, 0.3, 0.75, 0.9)][: 1 + number % 2]
        sides = zip(*boxes, strict=True)
        row: dict[str, Any] = {"file": str(picture), "kind": picture.parent.name}
        row |= {
            f"object/bbox/{key}": list(side) for key, side in zip(("ymin", "xmin", "ymax", "xmax"), sides, strict=True)
        }
        row["object/class"] = [("cat", "dog")[(number + i) % 2] for i in range(len(boxes))]
        rows.append(json.dumps(row))
    (root / "boxes.jsonl").write_text("\n".join(rows) + "\n")
    columns = ["kind", *(f"object/bbox/{key}" for key in ("ymin", "xmin", "ymax", "xmax")), "object/class"]
    options = [word for column in columns for word in ("--label-column", column)]
    _shardfeed("convert", root / "boxes.jsonl", root / "boxes/1.0.0", *options, "--shards", 2)
    for name, source, *options in DRAWN:
        (root / name).mkdir(exist_ok=True)
        _shardfeed("convert", SCENES / source, root / name / "1.0.0", "--images", SCENES / "images", *options)
    for name, to in itertools.product(("photos", "scenes"), IN_FORMATS):
        (root / f"{name}-{to}").mkdir(exist_ok=True)
        convert(DatasetSource(root / name / "1.0.0"), root / f"{name}-{to}" / "1.0.0", to=to, shards=2)
    expected: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in ("photos", "boxes", *(name for name, *_ in DRAWN)):
        data = shardfeed.open(root / name / "1.0.0")
        expected[name] = {split: [_expected(record) for record in records] for split, records in data.items()}
    (root / "expected.json").write_text(json.dumps(expected))


def _expected(record: Any) -> dict[str, Any]:
    """Expected values of one record, by the keys that checks compare."""
    found = {
        "name": record["image/filename"].decode(),
        "id": record["image/source_id"].decode(),
        "size": [record["image/height"], record["image/width"]],
        "bytes": hashlib.sha256(record["image/encoded"]).hexdigest(),
    }
    if "image/class/label" in record:
        found["label"] = record["image/class/label"]
    if "image/object/class/label" in record:
        found["objects"] = record["image/object/class/label"].tolist()
        sides = [record[f"image/object/bbox/{key}"].tolist() for key in ("ymin", "xmin", "ymax", "xmax")]
        found["boxes"] = [[round(side, 4) for side in box] for box in zip(*sides, strict=True)]
    if "image/object/is_crowd" in record:
        found["crowd"] = record["image/object/is_crowd"].tolist()
        found["area"] = record["image/object/area"].tolist()
    if "image/object/mask" in record:
        found["mask bytes"] = [hashlib.sha256(mask).hexdigest() for mask in record["image/object/mask"]]
        masks = [_pixels(mask) for mask in record["image/object/mask"]]
        found["mask sums"] = [int(mask.sum()) for mask in masks]
        found["mask pixels"] = [hashlib.sha256(mask.tobytes()).hexdigest() for mask in masks]
    if "image/object/keypoint/x" in record:
        sides = [record[f"image/object/keypoint/{key}"].tolist() for key in ("x", "y", "visibility")]
        found["key points"] = [[round(x, 4), round(y, 4), seen] for x, y, seen in zip(*sides, strict=True)]
    if "image/segmentation/class/encoded" in record:
        found["raster"] = hashlib.sha256(_pixels(record["image/segmentation/class/encoded"]).tobytes()).hexdigest()
    return found


def _pixels(png: bytes) -> Any:
    """Pixels of a PNG with one channel, uint8 [height, width], decoded by Pillow."""
    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)))


def _shardfeed(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "shardfeed.tools.cli", *map(str, words)], check=True, stdout=sys.stderr)


def run(script: Path, root: Path) -> list[dict[str, Any]]:
    """Run a script; return a dict per check, and one with the reason if it was not installable or ended early."""
    wanted = requirements(script)
    nothing = {"program": script.stem, "version": "", "call": "", "note": "", "compared": {}}
    try:
        python = environment_python(f"programs-{script.stem}", wanted)
    except NotInstallableError as error:
        return [nothing | {"error": f"not installed: {error}", "absent": True}]
    if any(one.startswith("shardfeed") for one in wanted):  # as it is now, not as it was when this was made
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(ROOT)]
        subprocess.run(install, check=True)
    environment = clean_environment() | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(SCRIPTS)}
    with tempfile.TemporaryDirectory() as here:
        try:
            done = subprocess.run(
                [python, str(script), str(root)], env=environment, cwd=here, capture_output=True, text=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
            said, status, output = done.stderr, done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            said, status, output = f"TimeoutError: not done after {_SECONDS} s", 1, _text(error.stdout)
    (ENVIRONMENTS / f"programs-{script.stem}.log").write_text(said)
    rows = [json.loads(line) for line in output.splitlines()]
    if status:
        rows.append(nothing | {"error": last_reason(said)})
    return rows


def _text(output: bytes | str | None) -> str:
    return output.decode() if isinstance(output, bytes) else output or ""


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The table of the page."""
    lines = ["| program | version | what to type | records compared |", "|---|---|---|---|"]
    for row in sorted((row for rows in results.values() for row in rows), key=lambda row: row["program"].lower()):
        if row["error"]:
            result = f"**{row['error']}**" if not row.get("absent") else row["error"]
        else:
            keys: dict[int, list[str]] = {}
            for key, count in row["compared"].items():
                keys.setdefault(count, []).append(key)
            result = "; ".join(f"{count} records: {', '.join(some)}" for count, some in keys.items())
        note = f"; {row['note']}" if row["note"] and not row["error"] else ""
        call = f"`{row['call']}`" if row["call"] and "`" not in row["call"] else row["call"]
        cells = [row["program"], row["version"].partition("+")[0], call, (result + note).replace("|", "\\|")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_page(results: dict[str, list[dict[str, Any]]]) -> None:
    """Put the table where the page has its own."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{rest.split(END)[1]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts; 1 where a program read wrongly."""
    known = {path.stem: path for path in sorted(SCRIPTS.glob("*.py")) if path.stem != "program"}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*known, []], help="scripts of programs/; all of them")
    parser.add_argument("--datasets", type=Path, help="where the datasets are, or shall be; a temporary folder")
    parser.add_argument("--remove", action="store_true", help="remove each environment behind it; they take gigabytes")
    args = parser.parse_args(arguments)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    with tempfile.TemporaryDirectory() as temporary:
        root = args.datasets or Path(temporary, "data")
        if not (root / "expected.json").is_file():
            make_datasets(root)
        for name in args.names or known:
            results[name] = run(known[name], root.resolve())
            for row in results[name]:
                print(f"{name}: {row['program']} {row['version']}: {row['error'] or row['compared']}", flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1))
            if args.remove:
                shutil.rmtree(ENVIRONMENTS / f"programs-{name}", ignore_errors=True)
    results = {name: results[name] for name in known if name in results}
    write_page(results)
    wrong = [row for rows in results.values() for row in rows if row["error"] and not row.get("absent")]
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(main())

"""How a large COCO file is read: `python benchmarks/annotations.py --objects 1000000 --scratch DIR`.

Makes a file of so many objects with polygons, and their images as links to a few files that nobody opens. Then reads it
in processes of their own, one after the other: as the source of a conversion and its plan, which is all that the parent
of a conversion does before workers start; and by pycocotools' COCO(), which loads and indexes it. Prints objects a
second of CPU time, which neighbours on the machine do not change, and the largest memory that each process held.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

_LINKS = 20_000  # of one file: a file system allows so many


def make(folder: Path, objects: int, images: int, points: int) -> Path:
    """A file as COCO writes them, images and categories around the annotations, and the folder of its images."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "images").mkdir(parents=True)
    draw = random.Random(0)
    file = folder / "instances.json"
    with open(file, "w") as out:
        out.write('{"info": {"description": "drawn"}, "licenses": [], "images": [')
        for i in range(images):
            name = f"{i:012}.jpg"
            out.write("," * (i > 0))
            out.write(json.dumps({"license": 4, "file_name": name, "height": 480, "width": 640, "id": i}))
            link(folder / "images", name, i)
        out.write('], "annotations": [')
        regions = [region(draw, points) for _ in range(4096)]
        for i in range(objects):
            entry = f'"iscrowd": {int(i % 100 == 0)}, "image_id": {i % images}, "category_id": {1 + i % 80}'
            out.write(f'{", " if i else ""}{{{regions[i % 4096]}, {entry}, "id": {100_000 + i}}}')
        out.write('], "categories": ')
        out.write(json.dumps([{"supercategory": "x", "id": i + 1, "name": f"class {i}"} for i in range(80)]))
        out.write("}")
    return file


def region(draw: random.Random, points: int) -> str:
    """The members of an annotation that say where it is, as JSON without brackets."""
    x, y = round(draw.uniform(0, 500), 2), round(draw.uniform(0, 300), 2)
    corners = [round(side + draw.uniform(0, 100), 2) for _ in range(points) for side in (x, y)]
    return json.dumps({"segmentation": [corners], "area": 4321.25, "bbox": [x, y, 100.5, 100.25]})[1:-1]


def link(folder: Path, name: str, number: int) -> None:
    """A name for a file of one byte, which the first of so many makes."""
    if number % _LINKS == 0:
        (folder / name).write_bytes(b"x")
    else:
        os.link(folder / f"{number - number % _LINKS:012}.jpg", folder / name)


def read(file: str, *, masks: bool) -> tuple[int, dict[str, float]]:
    """Open and plan, as a conversion does; objects and seconds of CPU."""
    from shardfeed.converters import AnnotationOptions, open_source
    from shardfeed.converters.planning.options import PlanOptions
    from shardfeed.converters.planning.plan import make_plan

    started = time.process_time()
    source = open_source(
        file, options=AnnotationOptions(images=Path(file).parent / "images", tasks=["boxes", "masks"] if masks else [])
    )
    opened = time.process_time()
    plan = make_plan(source, PlanOptions())
    return plan.annotations, {"open": opened - started, "plan": time.process_time() - opened}


def load(file: str) -> tuple[int, dict[str, float]]:
    """Load by pycocotools."""
    from pycocotools.coco import COCO

    started = time.process_time()
    coco = COCO(file)
    return len(coco.anns), {"open": time.process_time() - started}


def one(how: str, file: str) -> None:
    """Read in this process, and print what that took, as JSON."""
    sys.stdout, out = sys.stderr, sys.stdout
    objects, seconds = load(file) if how == "pycocotools" else read(file, masks=how == "masks")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"objects": objects, "seconds": seconds, "peak": peak}), file=out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how a large COCO file is read.")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--images", type=int, help="default a seventh of the objects, as in COCO")
    parser.add_argument("--points", type=int, default=20, help="of each polygon")
    parser.add_argument("--scratch", type=Path, required=True, help="an empty folder; removed in the end")
    parser.add_argument("--without", nargs="*", default=[], help="boxes, masks, pycocotools: what is left out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one, str(args.scratch))
        return 0
    file = make(args.scratch, args.objects, args.images or max(1, args.objects // 7), args.points)
    print(f"{args.objects:,} objects, {file.stat().st_size / 1e9:.2f} GB of JSON\n", flush=True)
    print("| | objects/s | seconds of CPU | peak memory |\n|---|---:|---|---:|", flush=True)
    for how in ("boxes", "masks", "pycocotools"):
        if how in args.without:
            continue
        command = [sys.executable, __file__, "--one", how, "--scratch", str(file)]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        seconds = ", ".join(f"{name} {took:.0f}" for name, took in found["seconds"].items())
        rate = found["objects"] / sum(found["seconds"].values())
        print(f"| {how} | {rate:,.0f} | {seconds} | {found['peak'] / 2**20:,.0f} MiB |", flush=True)
    shutil.rmtree(args.scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How much code lies between files and shards, and between shards and a batch: this project's files that run.

    python benchmarks/journey.py [--list]

Converts a few images in this process: of folders, of a COCO file and of a tar. Makes one batch of those of the folders,
first with tf.data, then with PyTorch. `files`: of this project with a function that ran. `lines`: of those files,
whole. `ran`: lines of functions that ran.
"""

import argparse
import io
import json
import shutil
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.shards.write_shard import write_shard

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data_samples" / "shapes"
# What runs in a worker process before and around `write_shard`: it cannot be watched from here.
ONLY_IN_WORKERS = (
    "converters/engines/worker.py",
    "converters/engines/lifeline.py",
    "converters/engines/worker.py",
    "shardfeed/machine/processes.py",
)


def ours(file: str) -> str:
    """A file's path in the repository; "" for one that is not of this project."""
    path = Path(file).resolve()
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
    return str(path.relative_to(ROOT)) if inside else ""


def traced(action: Callable[[], object]) -> dict[str, set[int]]:
    """File -> lines inside functions that ran, in all threads."""
    ran: dict[str, set[int]] = {}
    names: dict[str, str] = {}

    def line(frame: object, event: str, argument: object) -> object:
        code: CodeType = frame.f_code  # type: ignore[attr-defined]
        name = names.setdefault(code.co_filename, ours(code.co_filename))
        if not name or code.co_name in ("<module>", "<lambda>") or not code.co_flags & 0x02:  # functions alone
            return None
        ran.setdefault(name, set()).add(frame.f_lineno)  # type: ignore[attr-defined]
        return line

    threading.settrace(line)
    sys.settrace(line)
    try:
        action()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return ran


def lines_of(paths: set[str]) -> int:
    return sum(len((ROOT / path).read_text().splitlines()) for path in paths)


def write_coco(place: Path) -> Path:
    """The sample images in one folder, and a box in each as a COCO file beside them."""
    paths = sorted(SAMPLES.rglob("*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    (place / "images").mkdir(parents=True)
    for path in paths:
        shutil.copyfile(path, place / "images" / path.name)
    images = [{"id": number, "file_name": path.name} for number, path in enumerate(paths)]
    objects = [
        {"id": number, "image_id": number, "category_id": classes.index(path.parent.name), "bbox": [2, 3, 20, 15]}
        for number, path in enumerate(paths)
    ]
    categories = [{"id": number, "name": name} for number, name in enumerate(classes)]
    entries = {"images": images, "annotations": objects, "categories": categories}
    (place / "instances.json").write_text(json.dumps(entries))
    return place


def write_tar(path: Path) -> Path:
    """The sample images as a tar of WebDataset."""
    with tarfile.open(path, "w") as out:
        for number, image in enumerate(sorted(SAMPLES.rglob("*.jpg"))):
            for suffix, data in (("jpg", image.read_bytes()), ("cls", b"%d" % (number % 3))):
                member = tarfile.TarInfo(f"{number:06}.{suffix}")
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
    return path


class InThisProcess:
    """An engine that writes each shard where a worker's functions can be watched."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def start(self, tasks: int) -> None:
        pass

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        yield from map(write_shard, tasks)

    def done(self) -> tuple[int, int]:
        return 0, 0

    def stop(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the files")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    out = place / "dataset of folders"

    def making(name: str, path: Path) -> Callable[[], None]:
        def make() -> None:
            convert(open_source(path), place / f"dataset of {name}", workers=1)  # what this process does
            convert(open_source(path), place / f"{name} again", workers=InThisProcess())  # and what a worker does

        return make

    def tensorflow_batch() -> None:
        from shardfeed.pipelines import train_batches

        next(iter(train_batches(shardfeed.open(out)["train"], batch_size=8, image_size=32)))

    def torch_batch() -> None:
        from shardfeed.pipelines.torch import torch_loader

        next(iter(torch_loader(shardfeed.open(out)["train"], batch_size=8, image_size=32, workers=0)))

    sources = {"folders": SAMPLES, "COCO": write_coco(place / "coco"), "tar": write_tar(place / "samples.tar")}
    runs = {f"{name} to shards": traced(making(name, path)) for name, path in sources.items()}
    for converted in runs.values():
        for path in ONLY_IN_WORKERS:
            converted.setdefault(path, set())
    runs |= {"shards to TensorFlow": traced(tensorflow_batch), "shards to PyTorch": traced(torch_batch)}
    both = {
        f"folders to {name} batch": ("folders to shards", f"shards to {name}") for name in ("TensorFlow", "PyTorch")
    }
    print(f"{'':26} files  lines    ran")
    for name, ran in runs.items():
        print(f"{name:26} {len(ran):5} {lines_of(set(ran)):6} {sum(map(len, ran.values())):6}")
        if options.list:
            for file, lines in sorted(ran.items(), key=lambda item: -lines_of({item[0]})):
                print(f"    {file:50} {lines_of({file}):5} {len(lines):5}")
    for name, parts in both.items():
        files = set().union(*(runs[part] for part in parts))
        print(f"{name:26} {len(files):5} {lines_of(files):6}")


if __name__ == "__main__":
    main()

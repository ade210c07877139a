"""How much code lies between files and shards, and between shards and a batch: this project's files that run.

    python benchmarks/journey.py [--list | --json] [folder coco tar torch tensorflow]

Converts six images in this process: of folders, of a COCO file and of a tar. Makes one batch of those of the folders
with PyTorch, and with tf.data. `files`: of this project with a function that ran. `lines`: of those files, whole.
`hops`: calls from a function of one file to one of another; code that is not of this project counts as its caller,
and so does the check of arguments.
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
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.shards.write_shard import write_shard

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
ROOT = Path(__file__).parent.parent
SAMPLES = [
    path
    for of_class in sorted((ROOT / "data_samples" / "shapes").iterdir())
    for path in sorted(of_class.glob("*.jpg"))[:2]
]
# What runs in a worker process around `write_shard`: it cannot be watched from here.
ONLY_IN_WORKERS = (
    "converters/engines/worker.py",
    "shardfeed/processes.py",
)
HANDS_ON = ("shardfeed/declared.py", "shardfeed/shapes.py")  # check the arguments of public functions, and call these


def ours(file: str) -> str:
    """A file's path in the repository; "" for one that is not of this project."""
    path = Path(file).resolve()
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
    return str(path.relative_to(ROOT)) if inside else ""


@dataclass
class Journey:
    """Functions that ran, each as file, name and line, and for each file those that it calls."""

    functions: set[tuple[str, str, int]] = field(default_factory=set)
    calls: dict[str, set[str]] = field(default_factory=dict)
    hops: int = 0

    @property
    def files(self) -> set[str]:
        """The files entered."""
        return {file for file, _, _ in self.functions}

    def follow(self, action: Callable[[], object]) -> None:
        """Add what runs during `action`, in all threads."""
        names: dict[str, str] = {}

        def name(code: CodeType) -> str:
            if code.co_filename not in names:
                names[code.co_filename] = ours(code.co_filename)
            return names[code.co_filename]

        def called(frame: FrameType, event: str, _argument: object) -> None:
            code = frame.f_code
            if event != "call" or not name(code) or not code.co_flags & 0x02:  # neither modules nor classes' bodies
                return
            self.functions.add((name(code), code.co_name, code.co_firstlineno))
            caller = frame.f_back
            while caller and name(caller.f_code) in ("", *HANDS_ON):
                caller = caller.f_back
            if caller and name(code) not in (*HANDS_ON, name(caller.f_code)):
                self.hops += 1
                self.calls.setdefault(name(caller.f_code), set()).add(name(code))

        threading.setprofile(called)
        sys.setprofile(called)
        try:
            action()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def lines_of(paths: set[str]) -> int:
    return sum(len((ROOT / path).read_text().splitlines()) for path in paths)


def write_folder(place: Path) -> Path:
    """A folder per class with the sample images."""
    for path in SAMPLES:
        (place / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place / path.parent.name / path.name)
    return place


def write_coco(place: Path) -> Path:
    """The sample images in one folder, and a box in each as a COCO file beside them."""
    classes = sorted({path.parent.name for path in SAMPLES})
    (place / "images").mkdir(parents=True)
    for path in SAMPLES:
        shutil.copyfile(path, place / "images" / path.name)
    images = [{"id": number, "file_name": path.name} for number, path in enumerate(SAMPLES)]
    objects = [
        {"id": number, "image_id": number, "category_id": classes.index(path.parent.name), "bbox": [2, 3, 20, 15]}
        for number, path in enumerate(SAMPLES)
    ]
    categories = [{"id": number, "name": name} for number, name in enumerate(classes)]
    entries = {"images": images, "annotations": objects, "categories": categories}
    (place / "instances.json").write_text(json.dumps(entries))
    return place


def write_tar(path: Path) -> Path:
    """The sample images as a tar of WebDataset."""
    with tarfile.open(path, "w") as out:
        for number, image in enumerate(SAMPLES):
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
    """Follow the journeys, and print what they are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--list", action="store_true", help="name the files")
    shown.add_argument("--json", action="store_true", help="for each journey and file: the files that it calls")
    parser.add_argument("journeys", nargs="*", help="default: all")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    out = place / "folder again"

    def making(name: str, path: Path) -> Callable[[Journey], None]:
        def make(journey: Journey) -> None:
            engine = Journey()  # the same, and what starts a worker and waits for it
            engine.follow(lambda: convert(open_source(path), place / name, workers=1))
            journey.follow(lambda: convert(open_source(path), place / f"{name} again", workers=InThisProcess()))
            journey.functions |= engine.functions | {(file, "", 0) for file in ONLY_IN_WORKERS}
            for file, called in engine.calls.items():
                journey.calls.setdefault(file, set()).update(called)

        return make

    def torch_batch() -> None:
        from shardfeed.pipelines.torch import torch_loader

        next(iter(torch_loader(shardfeed.open(out)["train"], batch_size=4, image_size=32, workers=0)))

    def tensorflow_batch() -> None:
        from shardfeed.pipelines import train_batches

        next(iter(train_batches(shardfeed.open(out)["train"], batch_size=4, image_size=32)))

    journeys: dict[str, Callable[[Journey], None]] = {
        "folder": making("folder", write_folder(place / "photos")),
        "coco": making("coco", write_coco(place / "coco source")),
        "tar": making("tar", write_tar(place / "samples.tar")),
        "torch": lambda journey: journey.follow(torch_batch),
        "tensorflow": lambda journey: journey.follow(tensorflow_batch),
    }
    made = {name: Journey() for name in journeys if not options.journeys or name in options.journeys}
    for name, journey in made.items():
        journeys[name](journey)
    shutil.rmtree(place)
    if options.json:
        print(json.dumps({n: {f: sorted(j.calls.get(f, ())) for f in sorted(j.files)} for n, j in made.items()}))
        return
    print(f"{'':12} files  lines  functions  folders   hops")
    for name, journey in made.items():
        folders = {file.rpartition("/")[0] for file in journey.files}
        figures = f"{len(journey.files):5} {lines_of(journey.files):6} {len(journey.functions):10}"
        print(f"{name:12} {figures} {len(folders):8} {journey.hops:6}")
        if options.list:
            for file in sorted(journey.files, key=lambda file: (-len(journey.calls.get(file, ())), file)):
                print(f"    {file:50} {lines_of({file}):5} lines, calls {len(journey.calls.get(file, ()))} files")


if __name__ == "__main__":
    main()

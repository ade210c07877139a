"""How much code lies between a folder of images and a batch: files that run, and what importing them pulls in.

    python benchmarks/journey.py [--list]

Converts a few images in this process and makes one batch of them, first with tf.data, then with PyTorch, under Python's
monitoring of lines. `files`: of this project with a function that ran. `lines`: of those files, whole. `ran`: lines of
functions that ran. `closure`: files that the imports of the entry's module reach, those inside functions too, and
their lines.
"""

import argparse
import ast
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.shards.write_shard import write_shard

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
ROOT = Path(__file__).parent.parent
# What runs in a worker process before and around `write_shard`: it cannot be watched from here.
ONLY_IN_WORKERS = (
    "converters/engines/worker.py",
    "converters/engines/lifeline.py",
    "converters/engines/memory_limit.py",
    "shardfeed/machine/malloc.py",
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


def file_of(dotted: str) -> Path | None:
    """Where a module of this project is; None for others."""
    parts = dotted.split(".")
    if parts[0] != "shardfeed":
        return None
    tail = parts[1:] if len(parts) > 1 and parts[1] in PACKAGES else parts
    path = ROOT.joinpath(*tail)
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found if found.exists() else None


def closure(module: str) -> set[Path]:
    """The files that a module's imports reach."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        path = file_of(waiting.pop())
        if path is None or path in found:
            continue
        found.add(path)
        if path.name == "__init__.py":  # a face imports what is used
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    return {path for path in found if path.name != "__init__.py"}


def lines_of(paths: set[str]) -> int:
    return sum(len((ROOT / path).read_text().splitlines()) for path in paths)


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
    source = ROOT / "data_samples" / "shapes"
    out = place / "dataset"

    def make_dataset() -> None:
        convert(ImageFolder(source), out, workers=1)  # what this process does
        convert(ImageFolder(source), place / "again", workers=InThisProcess())  # and what a worker does

    def tensorflow_batch() -> None:
        from shardfeed.pipelines import train_batches

        next(iter(train_batches(shardfeed.open(out)["train"], batch_size=8, image_size=32)))

    def torch_batch() -> None:
        from shardfeed.pipelines.torch import torch_loader

        next(iter(torch_loader(shardfeed.open(out)["train"], batch_size=8, image_size=32, workers=0)))

    converted = traced(make_dataset)
    for path in ONLY_IN_WORKERS:
        converted.setdefault(path, set())
    runs = {"convert": converted, "TensorFlow": traced(tensorflow_batch), "PyTorch": traced(torch_batch)}
    both = {"folder to tf.data batch": ("convert", "TensorFlow"), "folder to PyTorch batch": ("convert", "PyTorch")}
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

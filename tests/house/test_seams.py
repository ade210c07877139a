"""The seams: who knows in which format shards are, and who reads a dataset's files. Neither list may grow."""

import ast
from pathlib import Path

import pytest

from repository import ROOT

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
# Where formats are known: those of our shards, and those of files that others wrote.
_OTHERS = ("parquet", "shard_names", "tfrecord", "webdataset", "rare/arrayrecord")
SEAM = ("shardfeed/formats/", "shardfeed/testing/", *(f"converters/sources/{name}.py" for name in _OTHERS))

# Files outside of formats/ that know that a shard is a TFRecord, and why. At most ten.
KNOWS_TFRECORD = {
    "converters/commit/tfds_view.py": "TFDS is told the format by its name",
    "converters/sources/readers.py": "files by the ends of their names",
    "converters/existing/adopt.py": "TFRecords that others wrote",
    "converters/existing/surveying.py": "TFRecords that others wrote",
    "converters/existing/rebuild.py": "an index, made of the records of any TFRecord",
    "converters/existing/salvage.py": "records of damaged TFRecords",
    "readers/tensorflow/stream.py": "TensorFlow reads shards itself, by its TFRecordDataset",
}

# Calls that reach a file in readers/ and pipelines/ by another way than a storage, and why each is no dataset's.
ASKS_THE_DISK = {
    ("readers/tensorflow/indexed.py", "os.listdir"): "the threads of this process, in /proc",
    ("readers/tensorflow/indexed.py", "open"): "the state of a thread, in /proc",
    ("pipelines/orders/position.py", "open"): "where a training run is, a file of the user's",
    ("pipelines/tensorflow/backup.py", "open"): "a backup of a training run",
    ("pipelines/tensorflow/backup.py", "os.listdir"): "backups of a training run",
    ("pipelines/caching/copies.py", "os.path.isdir"): "whether there is a cache",
    ("pipelines/caching/cache.py", "os.path.isdir"): "the folder of caches",
    ("pipelines/caching/fetcher.py", "os.open"): "a file that shows whether holes can be made",
    ("pipelines/caching/fetcher.py", "os.stat"): "whether that lock is still in the directory",
    ("pipelines/caching/client.py", "open"): "the log of the fetcher, and a lock of those who read",
    ("pipelines/caching/client.py", "os.open"): "the directory of the fetcher's socket",
    ("pipelines/caching/client.py", "os.path.isdir"): "whether there is shared memory",
    ("pipelines/caching/client.py", "os.lstat"): "whose directory it is",
    ("pipelines/caching/sparse.py", "os.scandir"): "copies that earlier processes left",
    ("pipelines/caching/sparse.py", "entry.is_dir"): "copies that earlier processes left",
    ("pipelines/torch/loading.py", "os.path.exists"): "whether workers can import the program",
    ("pipelines/torch/workers.py", "os.path.isdir"): "whether there is shared memory",
}

DISK_CALLS = {f"os.{name}" for name in ("open", "stat", "lstat", "listdir", "scandir", "pread", "read", "walk")}
DISK_CALLS |= {f"os.path.{name}" for name in ("exists", "lexists", "isfile", "isdir", "getsize", "getmtime")}
DISK_METHODS = {"read_bytes", "read_text", "iterdir", "glob", "rglob", "is_file", "is_dir", "exists"}


def knows_tfrecord(tree: ast.AST) -> bool:
    """Whether code names TFRecord: imports what is behind the seam, or has the word in a name or a text.

    Documentation may, and sentences that speak of TFRecords: the word is what users know.
    """
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        words = []
        if isinstance(node, ast.ImportFrom):
            words = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            words = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            words = [node.attr.lower()]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            words = [node.value]
        if any("tfrecord" in word or "tfindex" in word for word in words):
            return True
    return False


def disk_calls(tree: ast.AST) -> set[str]:
    """The calls that open, list or ask for files, as they are written."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name == "open" or name in DISK_CALLS or method in DISK_METHODS:
                found.add(name)
    return found


def test_few_know_the_format_of_shards() -> None:
    found = {
        name
        for path in FILES
        if not (name := str(path.relative_to(ROOT))).startswith(SEAM) and knows_tfrecord(ast.parse(path.read_text()))
    }
    assert found == KNOWS_TFRECORD.keys(), "go through shardfeed.formats, or take the name off the list"
    assert len(found) <= 10


@pytest.mark.parametrize("package", ["readers", "pipelines"])
def test_datasets_are_read_through_a_storage(package: str) -> None:
    found = {
        (name, call)
        for path in FILES
        if (name := str(path.relative_to(ROOT))).startswith(f"{package}/")
        for call in disk_calls(ast.parse(path.read_text()))
    }
    expected = {place for place in ASKS_THE_DISK if place[0].startswith(f"{package}/")}
    assert found == expected, "read it through shardfeed.storage, or take the name off the list"


@pytest.mark.parametrize(
    "code",
    [
        "from shardfeed.formats.tfrecord import unframe",
        "from shardfeed.formats import tfrecord",
        "import shardfeed.formats.tfrecord",
        "tf.data.TFRecordDataset(path)",
        "path = stem + '.tfrecord'",
        "glob('*.tfindex')",
    ],
)
def test_what_counts_as_knowing(code: str) -> None:
    assert knows_tfrecord(ast.parse(code))
    assert not knows_tfrecord(ast.parse('"""About TFRecord."""\nfrom shardfeed.formats.registry import NATIVE'))


def test_what_counts_as_asking_the_disk() -> None:
    code = "open(p); os.open(p, 0); Path(p).read_bytes(); os.path.getsize(p); storage.open(p); file.read(0, 1)"
    assert disk_calls(ast.parse(code)) == {"open", "os.open", "Path(p).read_bytes", "os.path.getsize"}


def test_paths_are_where_the_lists_say() -> None:
    for name in [*KNOWS_TFRECORD, *(place for place, _ in ASKS_THE_DISK)]:
        assert Path(ROOT / name).is_file(), name

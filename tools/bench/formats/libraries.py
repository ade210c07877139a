"""Each format's own library, reading the shards that we wrote and a copy of them that it compressed itself."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from shardfeed.formats.registry import NATIVE
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.tools.bench.formats.reading import run_fresh
from shardfeed.tools.bench.formats.sample import SPLIT

_PYTHON = (sys.executable, "-P")  # -P: modules beside the script are not to be taken for others of their names
_SCRIPT = os.path.join(os.path.dirname(__file__), "library_process.py")


@dataclass(frozen=True)
class Library:
    """What reads a format. `name`: as people call it. `module`: what is imported. `codec`: how it compresses."""

    format: str
    name: str
    module: str
    codec: str

    @property
    def installed(self) -> bool:
        """Whether this interpreter has it."""
        return find_spec(self.module) is not None


LIBRARIES = (
    Library(NATIVE.name, "TensorFlow", "tensorflow", "GZIP"),
    Library("webdataset", "webdataset", "webdataset", "gzip"),
    Library("parquet", "pyarrow", "pyarrow", "zstd"),
    Library("mds", "streaming", "streaming", "zstd"),
    Library("arrayrecord", "array_record", "array_record", "zstd"),
)


def read_by_library(
    library: Library, directory: str, out: str, rounds: int, seconds: float, python: Sequence[str] = _PYTHON
) -> dict[str, Any]:
    """What a new process found, the library reading a dataset, and a copy that it makes of it in `out`.

    `python`: the command that runs a script where the library is installed.
    `plain`, `compressed`: for each of "sequential" and, where it reads at random, "random" a list of {"wall_us",
    "cpu_us"} of an image, one for each round; "bytes" of the files. Raises IntegrityError with what it said when it
    fails.
    """
    split = open_dataset(directory)[SPLIT]
    asked = {
        "module": library.module,
        "paths": [piece.path for piece in split.shard_slices()],
        "records": len(split),
        "out": out,
        "rounds": rounds,
        "seconds": seconds,
    }
    return run_fresh([*python, _SCRIPT, json.dumps(asked)], directory)

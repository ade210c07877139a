"""Open sources in forked children, one a line of stdin, and print what came of each: for `support/hostile.py`."""

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

from shardfeed.converters.engines.worker import limit_memory
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.readers import READERS
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import ShardfeedError

SAMPLES = 3  # of a source whose images are read
ALLOWANCE = 3 << 30  # bytes beyond which an allocation fails, so that no test takes the machine with it


def memory() -> int:
    """Bytes that this process had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


reading: list[bool] = []  # whether images are: a table may be a link, what it names may not


def opened(path: str, options: dict[str, Any]) -> str:
    """Open a source and read its first images; return "read", or the error."""
    try:
        source = open_source(path, **options)
        info_of(source)
        reading.append(True)
        for i in range(min(len(source), SAMPLES)):
            with suppress(RejectedError):
                read_image(source[i])
        return "read"
    except ShardfeedError as error:
        return f"{type(error).__name__}: {str(error)[:1000]}"
    except Exception:
        return f"TRACEBACK\n{traceback.format_exc()}"


def serve_one(request: dict[str, Any]) -> None:
    """Answer in a child, which ends; the kernel ends it for too many seconds, whatever code runs."""
    folder, outside = request["temporary"], os.path.realpath(request["outside"])
    escapes: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            written = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if (reading and path.startswith(outside)) or (
                written and not path.startswith((os.path.realpath(folder), "/dev/"))
            ):
                escapes.append(path)

    tempfile.tempdir = folder
    sys.addaudithook(hook)
    limit_memory(ALLOWANCE)
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"] + 1))
    signal.alarm(request["seconds"] * 12)
    before = memory()
    said = opened(request["path"], request["options"])
    taken = memory() - before
    gc.collect()
    answer = {"said": said, "memory": taken, "left": os.listdir(folder), "escapes": escapes}
    os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Load all readers, so that no child spends its seconds on it."""
    for module in ("h5py", "lmdb", "pyarrow.parquet", "scipy.io", "yaml", "zstandard"):
        import_module(module)
    import_module("array_record.python.array_record_module")
    for reader in READERS:
        reader.load()
    gc.freeze()  # else collecting in a child would copy every page of what is loaded
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                serve_one(json.loads(line))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print("done" if code == 0 else f"killed by {signal.Signals(-code).name}" if code < 0 else code, flush=True)


if __name__ == "__main__":
    main()

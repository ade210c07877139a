"""Measure a new process from inside: `python -m shardfeed.tools.bench.fresh_process JSON`.

It imports, opens, makes batches, and reads an epoch or as much of it as fits in the time allowed; one line of JSON has
the time of the first batch and the memory used. The peak is VmHWM of /proc: `ru_maxrss` starts with that of the process
that started this one.
"""

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from shardfeed.errors import IntegrityError, escape
from shardfeed.text import shell_quoted

if TYPE_CHECKING:  # not imported here, as the new process measures its imports
    from shardfeed.tools.bench.stages import Workload

_PEAK, _NOW = "VmHWM:", "VmRSS:"


def measure_fresh(directory: str, work: "Workload", seconds: float) -> dict[str, Any]:
    """Measure a new process that takes batches for an epoch, or for `seconds` after the first batch.

    `import_s`: to import shardfeed and TensorFlow. `first_batch_s`: from there to the first batch. `epoch`: whether the
    whole epoch was read; `batches`: number of batches. Memory in bytes: `imported_bytes` after the import, `peak_bytes`
    at the peak.

    Raises IntegrityError with the process's output when it fails.
    """
    options = {name: getattr(work, name) for name in ("batch_size", "image_size", "order", "workers")}
    asked = {"directory": directory, "split": work.split.name, "options": options, "seconds": seconds}
    command = [sys.executable, "-m", "shardfeed.tools.bench.fresh_process", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        problem = f"a process that reads it ended with {done.returncode}: {escape(message)}"
        raise IntegrityError(directory, problem, f"shardfeed verify {shell_quoted(directory)} --deep")
    return json.loads(done.stdout.splitlines()[-1])


def memory_bytes(field: str) -> int:
    """A line of /proc/self/status: `VmHWM:` is the peak of resident memory, `VmRSS:` the current value."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    import tensorflow as tf

    import shardfeed
    from shardfeed.tools.bench.stages import Workload

    tf.config.set_visible_devices([], "GPU")
    imported, imported_bytes = time.perf_counter(), memory_bytes(_NOW)
    split = shardfeed.open(asked["directory"])[asked["split"]]
    work = Workload(split, **asked["options"])
    count, first = 0, 0.0
    epoch = True
    for _ in work.batches():
        now = time.perf_counter()
        first = first or now
        count += 1
        if now - first > asked["seconds"]:
            epoch = (count + 1) * work.batch_size > len(split)
            break
    return {
        "import_s": imported - started,
        "first_batch_s": first - imported,
        "batches": count,
        "epoch": epoch,
        "imported_bytes": imported_bytes,
        "peak_bytes": memory_bytes(_PEAK),
    }


if __name__ == "__main__":
    print(json.dumps(_run(json.loads(sys.argv[1]))))

import os
import subprocess
import sys

FAULTS = """
import resource, sys
from shardfeed.processes import keep_heap
if sys.argv[1] == "kept":
    keep_heap()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for round in range(20):
    before = faults()
    blocks = [bytes(100_000) for _ in range(40)]
    del blocks
print(faults() - before)
"""


def faults(how: str, **environment: str) -> int:
    """Pages that are faulted in again, where memory is kept or as usual."""
    command = [sys.executable, "-c", FAULTS, how]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_is_not_faulted_in_again() -> None:
    kept = faults("kept")
    assert kept < 50
    assert faults("usual") > 10 * kept


def test_the_environment_has_the_last_word() -> None:
    given = {"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}
    assert min(faults("kept", **each) for each in given) > 5 * faults("kept")

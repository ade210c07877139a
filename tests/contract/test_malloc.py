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


def test_freed_memory_is_not_faulted_in_again() -> None:
    found = {
        how: int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)
        for how in ("kept", "usual")
    }
    assert found["kept"] < 50
    assert found["usual"] > 10 * found["kept"]

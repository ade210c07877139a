"""CPU and memory budgets, from cgroup files of both versions."""

from pathlib import Path

import pytest

from shardfeed.budget import cpu_budget, memory_budget, memory_free

HERE = "/tenant/job"
GIB = 1 << 30


def machine(root: Path, cgroups: str, **files: str) -> str:
    """A root with /proc/self/cgroup and control files; keys are paths below /sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroups)
    for path, text in files.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(root)


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 16 * GIB // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)


def test_without_cgroups_the_machine_counts(tmp_path: Path) -> None:
    assert cpu_budget(str(tmp_path)) == 8
    assert memory_budget(str(tmp_path)) == 16 * GIB


@pytest.mark.parametrize(
    ("quota", "cpus"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1), ("9900000 100000", 8)],
)
def test_version_2_cpu_quota(tmp_path: Path, quota: str, cpus: int) -> None:
    assert cpu_budget(machine(tmp_path, f"0::{HERE}\n", **{"tenant/job/cpu.max": quota})) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1", 8), ("300000", 3), ("50000", 1)])
@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_version_1_cpu_quota(tmp_path: Path, mount: str, quota: str, cpus: int) -> None:
    files = {f"{mount}{HERE}/cpu.cfs_quota_us": quota, f"{mount}{HERE}/cpu.cfs_period_us": "100000"}
    assert cpu_budget(machine(tmp_path, f"7:memory:/x\n4:cpu,cpuacct:{HERE}\n0::/\n", **files)) == cpus


@pytest.mark.parametrize(
    ("cgroups", "files", "memory"),
    [
        (f"0::{HERE}\n", {"tenant/job/memory.max": "max"}, 16 * GIB),
        (f"0::{HERE}\n", {"tenant/job/memory.max": str(2 * GIB)}, 2 * GIB),
        (f"0::{HERE}\n", {"tenant/job/memory.max": str(4 * GIB), "tenant/job/memory.high": str(3 * GIB)}, 3 * GIB),
        (f"0::{HERE}\n", {"tenant/memory.max": str(GIB), "tenant/job/memory.max": str(2 * GIB)}, GIB),
        (f"5:memory:{HERE}\n", {f"memory{HERE}/memory.limit_in_bytes": str(GIB)}, GIB),
        (f"5:memory:{HERE}\n", {f"memory{HERE}/memory.limit_in_bytes": "9223372036854771712"}, 16 * GIB),
        # /proc names the path on the host, the container's own cgroup is mounted as the top one.
        ("0::/kubepods/pod1/c1\n", {"memory.max": str(GIB)}, GIB),
        ("5:memory:/docker/c1\n", {"memory/memory.limit_in_bytes": str(GIB)}, GIB),
        # Another process's cgroup.
        (f"0::{HERE}\n", {"tenant/other/memory.max": str(GIB)}, 16 * GIB),
    ],
)
def test_memory_limit(tmp_path: Path, cgroups: str, files: dict[str, str], memory: int) -> None:
    assert memory_budget(machine(tmp_path, cgroups, **files)) == memory


@pytest.mark.parametrize(
    ("cgroups", "files", "free"),
    [
        ("", {}, 6 * GIB),
        (f"0::{HERE}\n", {"tenant/job/memory.max": str(4 * GIB), "tenant/job/memory.current": str(3 * GIB)}, GIB),
        # Above what the machine has available; without limit; used up.
        (f"0::{HERE}\n", {"tenant/job/memory.max": str(12 * GIB), "tenant/job/memory.current": str(GIB)}, 6 * GIB),
        (f"0::{HERE}\n", {"tenant/job/memory.max": "max", "tenant/job/memory.current": str(GIB)}, 6 * GIB),
        (f"0::{HERE}\n", {"tenant/memory.max": str(GIB), "tenant/memory.current": str(2 * GIB)}, 0),
        (
            f"5:memory:{HERE}\n",
            {f"memory{HERE}/memory.limit_in_bytes": str(GIB), f"memory{HERE}/memory.usage_in_bytes": str(GIB // 4)},
            GIB * 3 // 4,
        ),
    ],
)
def test_memory_free(tmp_path: Path, cgroups: str, files: dict[str, str], free: int) -> None:
    root = machine(tmp_path, cgroups, **files)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: {16 << 20} kB\nMemFree: 1 kB\nMemAvailable: {6 << 20} kB\n")
    assert memory_free(root) == free


@pytest.mark.parametrize(
    ("mount", "limit", "used", "total"),
    [("", "memory.max", "memory.current", ""), ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")],
)
def test_cached_pages_of_files_are_free(tmp_path: Path, mount: str, limit: str, used: str, total: str) -> None:
    """But not those of files in memory, which the kernel lists with the processes' own."""
    here = f"{mount}{HERE}".lstrip("/")
    stat = f"anon 5\nactive_file 9\n{total}active_file {GIB}\n{total}inactive_file {GIB}\ninactive_anon {3 * GIB}\n"
    files = {f"{here}/{limit}": str(8 * GIB), f"{here}/{used}": str(7 * GIB), f"{here}/memory.stat": stat}
    assert memory_free(machine(tmp_path, f"{'5:memory' if mount else '0:'}:{HERE}\n", **files)) == 3 * GIB


def test_without_meminfo_the_machine_is_free(tmp_path: Path) -> None:
    assert memory_free(str(tmp_path)) == 16 * GIB


def test_this_machine_grants_something() -> None:
    assert cpu_budget() >= 1
    assert memory_budget() > 1 << 20
    assert memory_free() > 1 << 20

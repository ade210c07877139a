"""CPUs and memory available to this process under its cgroups.

In a container with a tenth of the host's cores, counting all of them starts ten times too many workers, as TensorFlow
and Python's `os.cpu_count` do. So the cgroup is read, version 2 and version 1.
"""

import math
import os
from collections.abc import Iterator


def no_numpy_threads() -> None:
    """Keep OpenBLAS from starting threads; call this before importing NumPy. They would spin for a while on each core.

    They took 50 ms of CPU time on two cores. If the environment sets a number of threads, it is respected.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def cpu_budget(root: str = "/") -> int:
    """Number of CPUs that this process may use, by its affinity mask and its cgroups' quotas; at least 1.

    A quota of 1.5 CPUs gives 2. `root`: the directory with `/proc` and `/sys`.
    """
    granted = float(len(os.sched_getaffinity(0)))
    for directory in _cgroup_directories(root, "cpu"):
        quota, period = _numbers(directory, "cpu.max", 2)  # version 2: "<quota or max> <period>", microseconds
        if quota is None:
            (quota,) = _numbers(directory, "cpu.cfs_quota_us", 1)  # version 1; -1 without a quota
            (period,) = _numbers(directory, "cpu.cfs_period_us", 1)
        if quota is not None and period is not None and quota > 0 and period > 0:
            granted = min(granted, quota / period)
    return max(1, math.ceil(granted))


def memory_budget(root: str = "/") -> int:
    """Bytes of memory that this process's cgroups may hold, or the machine's memory if that is less.

    A limit, not the free memory: defaults derived from it are the same in every run on one machine.
    """
    granted = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([granted, *(limit for _, limit in _memory_limits(root))])


def memory_free(root: str = "/") -> int:
    """Bytes of memory that can still be allocated, within the cgroups' limits and the machine's available memory.

    Cached pages of files on disks count as free, because the system drops them when needed; files in memory do not.
    """
    free = _named(os.path.join(root, "proc/meminfo")).get("MemAvailable:", memory_budget(root) >> 10) << 10  # in KiB
    for directory, limit in _memory_limits(root):
        (used,) = _numbers(directory, "memory.current", 1)
        if used is None:
            (used,) = _numbers(directory, "memory.usage_in_bytes", 1)
        if used is not None:
            stat = _named(os.path.join(directory, "memory.stat"))
            # Version 1 counts the cgroups below under "total_"; files in memory are on neither of these lists.
            cached = sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in ("active_file", "inactive_file"))
            free = min(free, limit - used + cached)
    return max(0, free)


def _memory_limits(root: str) -> Iterator[tuple[str, int]]:
    """(directory, bytes) of each limit of this process's cgroups."""
    for directory in _cgroup_directories(root, "memory"):
        # memory.high is where the kernel starts to throttle; memory.limit_in_bytes is version 1's.
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            (limit,) = _numbers(directory, name, 1)
            if limit is not None and limit > 0:
                yield directory, limit


def _cgroup_directories(root: str, controller: str) -> Iterator[str]:
    """Every directory that may limit this process: its own cgroup and those above, in both versions' hierarchies.

    A container often sees its own cgroup mounted as the top one while /proc names the path on the host, so each path is
    tried from the whole down to nothing. Missing directories are yielded too.
    """
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield os.path.join(root, mount, *parts[:depth])


def _named(path: str) -> dict[str, int]:
    """Parse a file of lines "name number ..."; empty if there is none."""
    try:
        with open(path) as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _numbers(directory: str, name: str, count: int) -> list[int | None]:
    """The first `count` words of a control file; None for a word that is not a number ("max") or not there."""
    try:
        with open(os.path.join(directory, name)) as file:
            words = file.read().split()
    except OSError:
        words = []
    return [int(word) if word.lstrip("-").isdigit() else None for word in (words + [""] * count)[:count]]

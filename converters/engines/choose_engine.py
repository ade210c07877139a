"""Choose an engine by the `workers` that the user asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from shardfeed.budget import cpu_budget
from shardfeed.converters.engines.engine import AUTO, Engine, StartedBy
from shardfeed.converters.engines.foreign_engine import guarded_engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.declared import Positive, Text, Typed, checked
from shardfeed.errors import UsageError, argument, escape, needing_extra
from shardfeed.plugins import installed
from shardfeed.processes import WorkerCount
from shardfeed.text import did_you_mean


@checked
@dataclass(frozen=True)
class LocalWorkers:
    """Worker processes on this machine.

    Args:
        count: number of processes, 1 to 4,096; default one per CPU available to this process.
        start_method: "spawn" (default), "forkserver" or "auto". "auto", the default of the command line, forks if
            there are few images and this process has one thread, which halves the start time, and spawns otherwise.

    Example:
        convert("photos", "out", workers=LocalWorkers(8, start_method="forkserver"))
    """

    count: WorkerCount | None = None
    start_method: StartedBy = "spawn"


@checked
@dataclass(frozen=True)
class RayWorkers:
    """Processes on the nodes of a Ray cluster; needs `shardfeed[ray]`.

    All nodes must see the images and the output under the same paths or URLs. If the output is a URL, the nodes send
    the shards there, and need no common directory.

    Args:
        count: number of processes; default one per CPU of the cluster.
        address: "host:port" of the cluster; default, in this order: the cluster that this process is connected to, the
            one in RAY_ADDRESS, one running on this machine, or a new one on this machine.
        start_method: as in `LocalWorkers`.

    Example:
        convert("s3://bucket/photos", "s3://bucket/out", workers=RayWorkers(address="10.0.0.1:6379"))
    """

    count: Positive | None = None
    address: Text | None = None
    start_method: StartedBy = "spawn"


@checked
@dataclass(frozen=True)
class NamedWorkers:
    """Workers of an engine that another installed package adds, under a name of its own.

    The package's entry point in the group `shardfeed.engines` is a function `make(workers, tries)`: it gets this object
    and a directory for shards that are not accepted yet, and returns an `Engine`.

    Args:
        engine: the name, as on the command line: `--engine NAME`.
        count: number of processes; default: the engine decides.
        address: where the workers are, if the engine needs it.
        start_method: as in `LocalWorkers`.

    Example:
        convert("photos", "out", workers=NamedWorkers("slurm", 64))  # a package that adds "slurm" is installed
    """

    engine: Text
    count: Positive | None = None
    address: Text | None = None
    start_method: StartedBy = "spawn"


Workers = WorkerCount | LocalWorkers | RayWorkers | NamedWorkers | Engine | None


def _local(workers: Any, tries: str) -> Engine:
    return LocalEngine(cpu_budget() if workers.count is None else workers.count, workers.start_method)


def _ray(workers: Any, tries: str) -> Engine:
    with needing_extra("workers"):
        from shardfeed.converters.engines.ray_engine import RayEngine  # not above: Ray takes a second
    return RayEngine(tries, workers.address, workers.count, workers.start_method)


ENGINES: dict[str, Callable[[Any, str], Engine]] = {"local": _local, "ray": _ray}


def choose_engine(workers: Workers, tries: str) -> Engine:
    """Return an engine with these workers, not started yet, or the engine given.

    `tries`: the directory in which an engine on several machines writes shards before they are accepted.
    """
    if isinstance(workers, Engine):
        return guarded_engine(workers)
    if workers is None or isinstance(workers, int):
        workers = LocalWorkers(workers)
    if isinstance(workers, NamedWorkers):
        return _engine_named(workers.engine)(workers, tries)
    return ENGINES["local" if isinstance(workers, LocalWorkers) else "ray"](workers, tries)


def _engine_named(name: str) -> Callable[[Any, str], Engine]:
    """Return the maker of the engine of this name: ours, or an installed package's. Raises UsageError."""
    if name in ENGINES:
        return ENGINES[name]
    theirs = installed("engine", ENGINES)
    if name not in theirs:
        names = [*ENGINES, *theirs]
        remedy = did_you_mean(name, names, "install the package that adds it")
        raise UsageError("engine", f"got {escape(name)!r}, expected one of {', '.join(names)}", remedy)
    plugin = theirs[name]
    make = plugin.load("a function of (workers, tries)", callable)

    def made(workers: Any, tries: str) -> Engine:
        with plugin.blamed():
            engine = make(workers, tries)
        return guarded_engine(engine, plugin.called)

    return made


@checked
def typed_workers(
    count: Annotated[Positive | None, Typed("worker processes (default: one per core)", "N", "workers")] = None,
    engine: Annotated[
        Literal["local", "ray"] | str, Typed("where workers run; ray needs shardfeed[ray]", "{local,ray}")
    ] = "local",
    address: Annotated[str | None, Typed()] = None,  # docs/large-data.md explains it
    start_method: Annotated[StartedBy, Typed()] = AUTO,  # a command's process is ours: no other code was in it before
) -> LocalWorkers | RayWorkers | NamedWorkers:
    """Make the workers that a command line asks for. Raises UsageError."""
    if engine == "ray":
        return RayWorkers(count, address, start_method)
    if engine != "local":
        _engine_named(engine)  # an unknown one is refused before the source is listed
        return NamedWorkers(engine, count, address, start_method)
    if address is not None:
        problem = f"got {escape(address)!r}, the address of a Ray cluster"
        raise UsageError("address", problem, f"also give {argument('engine', 'ray')}")
    return LocalWorkers(count, start_method)


@contextmanager
def ended(engine: Engine) -> Iterator[None]:
    """A block after which the engine does nothing more, however it ends."""
    try:
        yield
    finally:
        engine.stop()

"""From arguments to an engine."""

from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.errors import UsageError, needing_extra
from shardfeed.machine.budget import cpu_budget


def choose_engine(
    engine: str | Engine, address: str | None, workers: int | None, start_method: str, tries: str
) -> Engine:
    """The engine called "local" or "ray", not started yet, or the one that was given. Raises UsageError for any other.

    `tries`: where one on several machines has shards written before they count.
    """
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise UsageError("engine", f"got {type(engine).__name__}, expected local, ray or an Engine")
        for argument, value in (("workers", workers), ("address", address)):
            if value is not None:
                raise UsageError(argument, f"got {value!r} beside an engine of its own", "give it to that engine")
        return engine
    if engine == "local":
        if address is not None:
            raise UsageError("address", f"got {address!r}, which says where Ray is", "choose the engine ray, too")
        return LocalEngine(cpu_budget() if workers is None else workers, start_method)
    if engine != "ray":
        raise UsageError("engine", f"got {engine!r}, expected local, ray or an Engine")
    with needing_extra("engine"):
        from shardfeed.converters.engines.ray_engine import RayEngine  # not above: Ray takes a second
    return RayEngine(tries, address, workers, start_method)

"""From arguments to an engine."""

from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.errors import UsageError, needing_extra
from shardfeed.machine.budget import cpu_budget


def choose_engine(name: str, address: str | None, workers: int | None, start_method: str, tries: str) -> Engine:
    """The engine called `name`, "local" or "ray", not started yet. Raises UsageError for any other.

    `tries`: where one on several machines has shards written before they count.
    """
    if name == "local":
        if address is not None:
            raise UsageError("address", f"got {address!r}, which says where Ray is", "choose the engine ray, too")
        return LocalEngine(cpu_budget() if workers is None else workers, start_method)
    if name != "ray":
        raise UsageError("engine", f"got {name!r}, expected local or ray")
    with needing_extra("engine"):
        from shardfeed.converters.engines.ray_engine import RayEngine  # not above: Ray takes a second
    return RayEngine(tries, address, workers, start_method)

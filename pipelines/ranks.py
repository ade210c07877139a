"""The processes that share the batches of a run, and how they share those of an evaluation; without a framework."""

import math
import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from shardfeed.declared import Natural, Positive, checked
from shardfeed.errors import UsageError, at_least, shown
from shardfeed.text import typed_number


@checked
@dataclass(frozen=True)
class Ranks:
    """The rank of this process among the processes that share the batches: `rank` of `ranks`, counted from 0.

    Args:
        rank: 0 to `ranks` - 1.
        ranks: number of processes on all machines.
        local: number of processes that run on this machine and share its CPUs and memory, those with the same rank
            included. None: the environment variable LOCAL_WORLD_SIZE, which torchrun sets, else 1.

    Raises:
        UsageError: for invalid numbers.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, ranks=Ranks(rank=0, ranks=4))
    """

    rank: Natural
    ranks: Positive
    local: Positive | None = None

    def __post_init__(self) -> None:
        at_least("rank", self.rank, 0, self.ranks - 1)

    @classmethod
    @checked
    def of_mesh(cls, mesh: Any) -> "Ranks":
        """Return the rank in `mesh`, the dimensions of a PyTorch `DeviceMesh` that divide the data.

        Processes that differ only in other dimensions get the same samples. Raises UsageError for anything else, and in
        a process that is not in the mesh.

        Example:
            mesh = init_device_mesh("cuda", (8, 2, 4), mesh_dim_names=("replicate", "shard", "tp"))
            ranks = Ranks.of_mesh(mesh["replicate", "shard"])
        """
        try:
            place, shape = mesh.get_coordinate(), tuple(mesh.shape)
        except AttributeError:
            raise UsageError("mesh", f"got {shown(mesh)}, expected a DeviceMesh", 'for example mesh["dp"]') from None
        if place is None:
            raise UsageError("mesh", "this process is not in it", "make loaders only in processes of the mesh")
        return cls(int(np.ravel_multi_index(place, shape)), math.prod(shape), _number("LOCAL_WORLD_SIZE", 0) or None)

    @property
    def ranks_on_this_machine(self) -> int:
        """Number of processes on this machine."""
        return self.local or min(self.ranks, max(1, _number("LOCAL_WORLD_SIZE", 1)))


RanksLike = Annotated[Ranks | None, "for example ranks=Ranks(rank=0, ranks=2)"]


def ranks_of_jax() -> Ranks | None:
    """The rank of this process, if `jax.distributed` is initialised in it; JAX is not imported for that."""
    jax: Any = sys.modules.get("jax")
    return Ranks(jax.process_index(), jax.process_count()) if jax and jax.distributed.is_initialized() else None


def ranks_of_environment() -> Ranks:
    """The rank from RANK and WORLD_SIZE; else 0 of 1. Raises UsageError for invalid variables."""
    ranks = _number("WORLD_SIZE", 1)
    if ranks > 1 and not os.environ.get("RANK", "").strip():  # as Lightning starts its processes
        problem = f"not in the environment, where WORLD_SIZE is {ranks}"
        remedy = "make loaders once torch.distributed is initialised, or give ranks=Ranks(...)"
        raise UsageError("RANK", problem, remedy)
    return Ranks(_number("RANK", 0), ranks)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    number = typed_number(text) if text else default
    if number is None:
        raise UsageError(name, f"got {shown(text)} in the environment, expected a number")
    return number


def even_cuts(samples: int, batch_size: int, rank: int, ranks: int) -> list[int]:
    """Where the batches of a rank begin, and the last one ends: every sample once, the same number of steps for each.

    One rank has batches of `batch_size`, and a smaller one at the end. Several ranks have consecutive shares of the
    samples, in batches that differ by one sample at most; none is empty. Raises UsageError for fewer samples than
    ranks.
    """
    if samples < ranks:
        raise UsageError("ranks", f"got {ranks}, expected at most {samples}, the samples of the split")
    if ranks == 1:
        return [*range(0, samples, batch_size), samples]
    steps = min(-(-samples // batch_size), samples // ranks)
    first, last = samples * rank // ranks, samples * (rank + 1) // ranks
    return [first + (last - first) * step // steps for step in range(steps + 1)]

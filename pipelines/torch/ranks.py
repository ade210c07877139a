"""Which of how many processes this is: by torch.distributed, or by the environment that torchrun makes."""

import os
from dataclasses import dataclass

import torch.distributed

from shardfeed.errors import UsageError, escape
from shardfeed.pipelines.arguments import at_least


@dataclass(frozen=True)
class Ranks:
    """This process among those that share the batches: number `rank` of `ranks`, counted from 0.

    Args:
        rank: 0 to `ranks` - 1.
        ranks: how many processes there are, on all machines.
        local: how many of them run on this machine, which share its CPUs and memory. None: as LOCAL_WORLD_SIZE in the
            environment says, which torchrun sets, else 1.

    Raises:
        UsageError: for numbers that cannot be meant.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, ranks=Ranks(rank=0, ranks=4))
    """

    rank: int
    ranks: int
    local: int | None = None

    def __post_init__(self) -> None:
        at_least("ranks", self.ranks, 1)
        if at_least("rank", self.rank, 0) >= self.ranks:
            problem = f"got rank {self.rank} of {self.ranks}, expected 0 to {self.ranks - 1}"
            raise UsageError("ranks", problem)
        if self.local is not None and at_least("local", self.local, 1) > self.ranks:
            raise UsageError("ranks", f"got local={self.local}, expected 1 to {self.ranks}")

    @property
    def here(self) -> int:
        """Ranks on this machine."""
        return self.local or min(self.ranks, max(1, _number("LOCAL_WORLD_SIZE", 1)))


def check_unchanged(made_for: Ranks) -> None:
    """Raises UsageError where this process has become another of the ranks than a loader was made for."""
    now = this_process()
    if now != made_for:
        was, remedy = f"{made_for.rank} of {made_for.ranks}", "initialise torch.distributed before making loaders"
        problem = f"the loader was made as process {was}, and this is now {now.rank} of {now.ranks}"
        raise UsageError("ranks", problem, f"{remedy}, or give ranks=Ranks(...)")


def this_process() -> Ranks:
    """As torch.distributed says where it is initialised, else as RANK and WORLD_SIZE do; else 0 of 1.

    Raises UsageError for an environment that cannot be meant.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
    ranks = _number("WORLD_SIZE", 1)
    if ranks > 1 and not os.environ.get("RANK", "").strip():  # as Lightning starts its processes
        problem = f"not in the environment, where WORLD_SIZE is {ranks}"
        raise UsageError(
            "RANK", problem, "make loaders once torch.distributed is initialised, or give ranks=Ranks(...)"
        )
    return Ranks(_number("RANK", 0), ranks)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if text and not text.isdecimal():
        raise UsageError(name, f"got {escape(text)!r} in the environment, expected a number")
    return int(text) if text else default

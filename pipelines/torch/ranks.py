"""Which of how many processes this is: by torch.distributed, or by the environment that torchrun makes."""

import os
from typing import NamedTuple

import torch.distributed

from shardfeed.errors import UsageError, escape


class Ranks(NamedTuple):
    """This process is number `rank` of `ranks`, of which `local` run on this machine."""

    rank: int
    ranks: int
    local: int


def this_process(rank: int | None = None, ranks: int | None = None) -> Ranks:
    """As given; else as torch.distributed says where it is initialised, else RANK and WORLD_SIZE; else 0 of 1.

    Raises UsageError for one given without the other, and for numbers that cannot be meant.
    """
    if (rank is None) != (ranks is None):
        raise UsageError("rank, ranks", f"got {rank!r} of {ranks!r}, expected both or none")
    if rank is not None and ranks is not None:
        found = rank, ranks
    elif torch.distributed.is_available() and torch.distributed.is_initialized():
        found = torch.distributed.get_rank(), torch.distributed.get_world_size()
    else:
        found = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= found[0] < found[1]:
        raise UsageError("rank, ranks", f"got rank {found[0]} of {found[1]}, expected 0 to {found[1] - 1}")
    return Ranks(*found, local=min(found[1], max(1, _number("LOCAL_WORLD_SIZE", 1))))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if text and not text.isdecimal():
        raise UsageError(name, f"got {escape(text)!r} in the environment, expected a number")
    return int(text) if text else default

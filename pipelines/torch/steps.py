"""The order as a batch sampler of PyTorch: the samples of each step, from any step onwards, for any rank."""

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed
from torch.utils.data import Sampler

from shardfeed.errors import UsageError, at_least, escape
from shardfeed.pipelines.orders.order import IndexedOrder, StoredOrder
from shardfeed.pipelines.torch.samples import Key, StepKeys


@dataclass(frozen=True)
class Ranks:
    """The rank of this process among the processes that share the batches: `rank` of `ranks`, counted from 0.

    Args:
        rank: 0 to `ranks` - 1.
        ranks: number of processes on all machines.
        local: number of these processes that run on this machine and share its CPUs and memory. None: the environment
            variable LOCAL_WORLD_SIZE, which torchrun sets, else 1.

    Raises:
        UsageError: for invalid numbers.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, ranks=Ranks(rank=0, ranks=4))
    """

    rank: int
    ranks: int
    local: int | None = None

    def __post_init__(self) -> None:
        at_least("ranks", self.ranks, 1)
        at_least("rank", self.rank, 0, self.ranks - 1)
        if self.local is not None:
            at_least("local", self.local, 1, self.ranks)

    @property
    def ranks_on_this_machine(self) -> int:
        """Number of ranks on this machine."""
        return self.local or min(self.ranks, max(1, _number("LOCAL_WORLD_SIZE", 1)))


def check_unchanged(made_for: Ranks) -> None:
    """Raise UsageError if this process is no longer the rank that a loader was made for."""
    now = this_process()
    if now != made_for:
        was, remedy = f"{made_for.rank} of {made_for.ranks}", "initialise torch.distributed before making loaders"
        problem = f"the loader was made as process {was}, and this is now {now.rank} of {now.ranks}"
        raise UsageError("ranks", problem, f"{remedy}, or give ranks=Ranks(...)")


def this_process(given: Ranks | None = None) -> Ranks:
    """Return `given`, else the rank from torch.distributed if initialised, else from RANK and WORLD_SIZE; else 0 of 1.

    Raises UsageError for anything else that is given, and for invalid environment variables.
    """
    if isinstance(given, Ranks):
        return given
    if given is not None:
        raise UsageError("ranks", f"got {given!r}, expected Ranks or None", "for example ranks=Ranks(rank=0, ranks=2)")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
    ranks = _number("WORLD_SIZE", 1)
    if ranks > 1 and not os.environ.get("RANK", "").strip():  # as Lightning starts its processes
        problem = f"not in the environment, where WORLD_SIZE is {ranks}"
        remedy = "make loaders once torch.distributed is initialised, or give ranks=Ranks(...)"
        raise UsageError("RANK", problem, remedy)
    return Ranks(_number("RANK", 0), ranks)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if text and not text.isdecimal():
        raise UsageError(name, f"got {escape(text)!r} in the environment, expected a number")
    return int(text) if text else default


def state_entry(state: Any, key: str) -> Any:
    """`state[key]`. Raises UsageError for a state that no `state_dict` has returned."""
    if not isinstance(state, Mapping) or key not in state:
        problem = f"got a {type(state).__name__} without {key!r}, expected what state_dict() returned"
        raise UsageError("state_dict", problem)
    return state[key]


class SharedSteps(Sampler[list[Key]]):
    """The keys of each step for one of several ranks; with several, only one loader may iterate over it.

    Another loader, above all the result of `accelerator.prepare`, might divide the batches again: each process would
    get a share of its share, and the rest of the data would be lost.
    """

    _ranks = 1
    _ours = False

    @contextmanager
    def for_our_loader(self) -> Iterator[None]:
        """Context manager in which an iteration may begin."""
        self._ours = True
        try:
            yield
        finally:
            self._ours = False

    def __iter__(self) -> Iterator[list[Key]]:
        if self._ranks > 1 and not self._ours:
            raise UsageError(
                "ranks",
                f"the loader already takes one of {self._ranks} shares of each batch, and another loader wraps it: "
                "if that divides the batches too, samples are lost",
                "iterate over the loader itself, without accelerator.prepare, or give ranks=Ranks(0, 1)",
            )
        return self._keys()

    def _keys(self) -> Iterator[list[Key]]:
        raise NotImplementedError


class Steps(SharedSteps):
    """The keys of each step, `TorchSamples`' own, from step `start` to the end of its epoch, or without end.

    Its state is the next step to be drawn, so that a `StatefulDataLoader` over it resumes too. `len` is an epoch's.
    """

    def __init__(self, order: IndexedOrder, *, rank: int = 0, ranks: int = 1, endless: bool = False) -> None:
        self.order, self.start = order, 0
        self._rank, self._ranks, self._endless = rank, ranks, endless

    def __len__(self) -> int:
        return self.order.steps_per_epoch

    def _keys(self) -> Iterator[list[Key]]:
        first = self.start
        end = None if self._endless else (first // len(self) + 1) * len(self)
        for step in itertools.count(first) if end is None else range(first, end):
            self.start = step + 1
            drawn = self.order.drawn(step, self._rank, self._ranks)
            yield StepKeys(zip(drawn.indices.tolist(), drawn.passes.tolist(), strict=True), step)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = at_least("step", state_entry(state, "step"), 0)


class EvenSteps(SharedSteps):
    """Every sample once, in stored order, over all ranks: the same number of steps for each, none empty.

    One rank has batches of the order's size, and a smaller one at the end. Several ranks have consecutive shares of the
    samples, in batches that differ by one sample at most. Raises UsageError if there are fewer samples than ranks.
    """

    def __init__(self, order: StoredOrder, *, rank: int = 0, ranks: int = 1) -> None:
        count, self._ranks = order.samples, ranks
        if count < ranks:
            raise UsageError("ranks", f"got {ranks}, expected at most {count}, the samples of the split")
        if ranks == 1:
            self._cuts = [*range(0, count, order.batch_size), count]
            return
        steps = min(order.steps_per_epoch, count // ranks)
        first, last = count * rank // ranks, count * (rank + 1) // ranks
        self._cuts = [first + (last - first) * step // steps for step in range(steps + 1)]

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def _keys(self) -> Iterator[list[Key]]:
        for step, (start, stop) in enumerate(itertools.pairwise(self._cuts)):
            yield StepKeys(((index, 0) for index in range(start, stop)), step if self._ranks == 1 else None)

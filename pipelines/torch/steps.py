"""The order as a batch sampler of PyTorch: the samples of each step, from any step onwards, for any rank."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed
from torch.utils.data import Sampler

from shardfeed.declared import Epoch, Step, check, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.caching.client import chunk_of
from shardfeed.pipelines.orders.order import IndexedOrder, StoredOrder
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.ranks import Ranks, even_cuts, ranks_of_environment
from shardfeed.pipelines.torch.samples import Key, StepKeys
from shardfeed.user_warnings import warn_user


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
    if given is not None:
        return given
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        ranks = Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
        _warn_of_mesh(ranks)
        return ranks
    return ranks_of_environment()


def _warn_of_mesh(ranks: Ranks) -> None:
    """Warn on rank 0 if there is a device mesh of several dimensions: we do not know which of them divide the data.

    PyTorch keeps no list of meshes, but the description of each dimension's process group is "mesh_" and its name.
    """
    groups = getattr(torch.distributed.distributed_c10d, "_get_all_pg_configs", list)()
    smaller = {group["pg_desc"] for group in groups if 1 < group["pg_size"] < ranks.ranks}
    names = [name.removeprefix("mesh_") for name in sorted(smaller) if name.startswith("mesh_")]
    if names and ranks.rank == 0:
        problem = (
            f"a device mesh has the dimensions {', '.join(names)}; each of {ranks.ranks} processes gets other samples"
        )
        remedy = "give ranks=Ranks.of_mesh(mesh[...]) with the dimensions that divide the data"
        warn_user(f"ranks: {problem}; {remedy}", RuntimeWarning)


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

    def keys(self, step: int) -> StepKeys:
        """The keys of a step, for this rank."""
        raise NotImplementedError

    def end(self, step: int) -> int:
        """The end of the iteration in which a step is."""
        raise NotImplementedError

    def _with_source(
        self, keys: Iterable[Key], step: int, chunk: int | None, shape: tuple[int, int] | None = None
    ) -> StepKeys:
        made = StepKeys(keys, chunk, shape)
        made.step, made.source = step, self
        return made


class Steps(SharedSteps):
    """The keys of each step, `TorchSamples`' own: each iteration is the next epoch, or what is left of a loaded one.

    `step`: number of steps done: returned by our loader, or drawn by another. An iteration that is left after a batch
    counts as an epoch. `endless`, after a `start_step`: iterations go on over all epochs. `len` is an epoch's.
    """

    def __init__(self, order: IndexedOrder, *, rank: int = 0, ranks: int = 1, start_step: int | None = None) -> None:
        self.order = order
        self.step = start_step or 0
        self.endless = start_step is not None
        self._rank, self._ranks = rank, ranks
        self._begun: int | None = None  # the epoch of the last step, unless a state was loaded or an epoch set since
        self._loaded = False
        self.moved = False  # by a state or an epoch, and no step since
        self._drawn = False  # whether another loader has drawn the last step, and may not have returned it

    def __len__(self) -> int:
        return self.order.steps_per_epoch

    @property
    def step(self) -> int:
        return self._step

    @step.setter
    @checked
    def step(self, step: Step) -> None:
        self._step = step

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return self.step // len(self)

    @property
    def sampler(self) -> "_TrainersEpoch":
        """For Lightning, which looks for `set_epoch` only here."""
        return _TrainersEpoch(self)

    def begin(self) -> int:
        """Return the first step of the iteration that begins now."""
        if self._begun == self.epoch and not self.endless:
            self.step = (self.epoch + 1) * len(self)
        self.moved = False
        return self.step

    def done(self, step: int, *, drawn: bool = False) -> None:
        """Note that `step` is done, or `drawn` by another loader; raises as `check_epoch`."""
        self.check_epoch(step // len(self))
        self._step = step + 1  # not checked: this runs for each batch
        self._begun = step // len(self)
        self.moved, self._drawn = False, drawn

    def check_epoch(self, epoch: int) -> None:
        """Raise UsageError in an iteration of `epoch` if another epoch was set, or a state of another loaded."""
        if self.moved and not self.endless and epoch != self.epoch:
            problem = f"epoch {self.epoch} was set or loaded during an iteration of epoch {epoch}"
            raise UsageError("loader", problem, "do so before the iteration begins and workers prefetch batches")

    def returned(self) -> int:
        """Number of steps done. Raises UsageError in the middle of an epoch that another loader draws."""
        if self._drawn and not self.moved and self.step % len(self):
            problem = f"step {self.step} was drawn by another loader, which may have returned fewer batches"
            remedy = "save that loader's own state, or give the number that it has returned over all epochs"
            raise UsageError("state_dict", problem, f"{remedy}: loader.state_dict({self.step - 1})")
        return self.step

    def following(self) -> int:
        """The epoch of the next iteration."""
        return self.epoch if self._begun is None else self._begun + 1

    def keys(self, step: int) -> StepKeys:
        drawn = self.order.drawn(step, self._rank, self._ranks)
        pairs = zip(drawn.indices.tolist(), drawn.passes.tolist(), strict=True)
        return self._with_source(pairs, step, chunk_of(self.order, step), drawn.shape)

    def end(self, step: int) -> int:
        return sys.maxsize if self.endless else (step // len(self) + 1) * len(self)

    def _keys(self) -> Iterator[list[Key]]:
        return _Iteration(self, counted=not self._ours)

    @checked
    def set_epoch(self, epoch: Epoch) -> None:
        following, fresh = self.following(), self._begun is None
        if self.endless:  # its iterations are not epochs
            if fresh and not self._loaded and epoch not in (0, following):
                problem = f"got {epoch}, and an endless iteration has no epochs"
                raise UsageError("set_epoch", problem, f"give start_step={epoch * len(self)}")
            return
        if self._loaded and (epoch != following if fresh else epoch < following):
            problem = f"got {epoch}, but the loaded state goes on in epoch {following}"
            raise UsageError("set_epoch", problem, f"call set_epoch({following}) on the loader that you iterate over")
        if self._begun is not None and epoch <= self._begun:
            problem = f"set_epoch: epoch {epoch} has begun before, and its samples and crops come again"
            warn_user(f"{problem}; after a restart or a break, set_epoch({following}) goes on", RuntimeWarning)
        if not (fresh and epoch == following):
            self.step, self._begun, self.moved = epoch * len(self), None, True

    @checked
    def state_dict(self, step: Step | None = None) -> dict[str, str]:
        return {"position": Position(self.step if step is None else step, self.order).to_json()}

    def load_state_dict(self, state: dict[str, str]) -> None:
        position = Position.from_json(state_entry(state, "position"), "state_dict")
        position.check(self.order, "state_dict")
        self.step, self._begun, self._loaded, self.moved = position.step, None, True, True


class _Iteration(Iterator[list[Key]]):
    """An iteration over `steps`, which counts what is drawn if `counted`. It begins with its first step.

    Other loaders ask for more iterations than they use, and draw ahead of what they return. Its state, the epoch, tells
    a `StatefulDataLoader` at the end of an epoch from one before the next.
    """

    def __init__(self, steps: Steps, *, counted: bool) -> None:
        self._steps, self._counted = steps, counted
        self._left: Iterator[int] | None = None
        self._epoch: int | None = None

    def __next__(self) -> list[Key]:
        steps = self._steps
        if self._left is None:
            first = steps.begin()
            self._begin(first, steps.epoch)
        assert self._left is not None
        assert self._epoch is not None
        steps.check_epoch(self._epoch)
        step = next(self._left)
        if self._counted:
            steps.done(step, drawn=True)
        return steps.keys(step)

    def _begin(self, first: int, epoch: int) -> None:
        steps, self._epoch = self._steps, epoch
        self._left = itertools.count(first) if steps.endless else iter(range(first, (epoch + 1) * len(steps)))

    def state_dict(self) -> dict[str, int | None]:
        return {"epoch": self._epoch}

    def load_state_dict(self, state: dict[str, int | None]) -> None:
        epoch = state_entry(state, "epoch")
        check("state_dict", epoch, Epoch | None)
        if epoch is not None:
            self._begin(self._steps.step, epoch)
            self._steps.moved = False


@dataclass(frozen=True)
class _TrainersEpoch:
    """The epoch of a trainer that saves our state, but has no other way to tell a loader that was made again.

    Where our epoch is ahead, it stays: the trainer has begun a short loader again within one epoch of a longer one.
    """

    steps: Steps

    @checked
    def set_epoch(self, epoch: Epoch) -> None:
        if epoch > self.steps.following():
            self.steps.set_epoch(epoch)


class EvenSteps(SharedSteps):
    """Every sample once, in stored order, over all ranks, as `even_cuts` divides them."""

    def __init__(self, order: StoredOrder, *, rank: int = 0, ranks: int = 1) -> None:
        self._ranks = ranks
        self._cuts = even_cuts(order.samples, order.batch_size, rank, ranks)

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def keys(self, step: int) -> StepKeys:
        pairs = ((index, 0) for index in range(*self._cuts[step : step + 2]))
        return self._with_source(pairs, step, step if self._ranks == 1 else None)

    def end(self, step: int) -> int:
        return len(self)

    def _keys(self) -> Iterator[list[Key]]:
        return map(self.keys, range(len(self)))

"""Our order in the loops of other programs: whole, resumed and left early, the same samples and seeds as in our own."""

import copy
import gc
import itertools
import pickle
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from odd_values import BAD_STEPS, GOOD_STEPS
from torch.utils.data import BatchSampler, DataLoader, WeightedRandomSampler

from shardfeed.errors import OrderMismatchError, UsageError
from shardfeed.pipelines.torch import random_resized_crop, to_device, torch_eval_loader, torch_loader
from shardfeed.readers import Dataset

from processes import until_gone

BATCH = 12
EPOCHS = 3
Rows = list[list[tuple[int, int]]]


def number_and_seed(record: Mapping[str, Any], seed: int) -> dict[str, int]:
    return {"number": int(record["image/source_id"]), "seed": seed}


def make(flowers: Dataset, workers: int = 0, **options: Any) -> Any:
    options = {"batch_size": BATCH, "transform": number_and_seed, "seed": 3, "workers": workers} | options
    return torch_loader(flowers["train"], **options)


def row(batch: Any) -> list[tuple[int, int]]:
    return list(zip(batch["number"].tolist(), batch["seed"].tolist(), strict=True))


def rows(batches: Any) -> Rows:
    return [row(batch) for batch in batches]


@pytest.fixture(scope="module")
def epochs(flowers: Dataset) -> list[Rows]:
    """The epochs as our own loop sees them."""
    loader = make(flowers)
    return [rows(loader) for _ in range(EPOCHS + 1)]


def over(ours: Any, sampler: Any = None, **options: Any) -> DataLoader[Any]:
    """A loader of others over our parts."""
    return DataLoader(ours.dataset, batch_sampler=sampler or ours.batch_sampler, collate_fn=ours.collate_fn, **options)


class Skipping(BatchSampler):
    """As Accelerate resumes: it draws batches, and drops the first ones."""

    def __init__(self, sampler: Any, count: int) -> None:
        self.batch_sampler, self.count = sampler, count

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.batch_sampler), self.count, None)

    def __len__(self) -> int:
        return len(self.batch_sampler) - self.count


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long), 2])
def test_another_loader_goes_on_with_the_next_epoch(flowers: Dataset, epochs: list[Rows], workers: int) -> None:
    """Whole, left early, or never begun, however far ahead it has drawn."""
    loader = over(make(flowers), num_workers=workers)
    assert rows(loader) == epochs[0]
    assert rows(itertools.islice(loader, 2)) == epochs[1][:2]
    if not workers:
        iter(loader)
    assert rows(loader) == epochs[2]


@pytest.mark.parametrize(("told", "workers"), [("loader", 0), ("loader", 2), ("sampler", 2), ("feed", 0)])
def test_resumed_by_skipping(flowers: Dataset, epochs: list[Rows], workers: int, told: str) -> None:
    for epoch, step in ((0, 2), (1, 3), (2, 0)):
        ours = make(flowers)
        {"loader": ours, "sampler": ours.batch_sampler, "feed": to_device(ours, "cpu")}[told].set_epoch(epoch)
        assert rows(over(ours, Skipping(ours.batch_sampler, step), num_workers=workers)) == epochs[epoch][step:]
        assert ours.state_dict() == ours.batch_sampler.state_dict() == make(flowers).state_dict(ours.step)
        ours.set_epoch(epoch + 1)
        assert rows(ours) == epochs[epoch + 1]


def test_set_epoch_in_our_own_loop(flowers: Dataset, epochs: list[Rows]) -> None:
    loader = make(flowers)
    for epoch in (0, 1, 1, 3, 0):
        loader.set_epoch(epoch)
        assert rows(loader) == epochs[epoch]
    assert rows(loader) == epochs[1]
    for workers in (0, 1):  # told after the iteration was asked for, as by Lightning
        loader = make(flowers, workers)
        batches = iter(loader)
        loader.set_epoch(2)
        assert rows(batches) == epochs[2]
        assert loader.epoch == 3
        batches = iter(loader)
        next(batches)
        loader.set_epoch(1)
        with pytest.raises(UsageError, match="epoch 1 was set or loaded during an iteration of epoch 3; do so before"):
            next(batches)


def test_set_epoch_and_a_loaded_state(flowers: Dataset, epochs: list[Rows]) -> None:
    """Either alone resumes; together they must agree."""
    steps = len(epochs[0])
    state = make(flowers).state_dict(steps + 3)
    loader = make(flowers)
    loader.load_state_dict(state)
    for epoch in (0, 2):
        with pytest.raises(
            UsageError, match=rf"got {epoch}, but the loaded state goes on in epoch 1; call set_epoch\(1"
        ):
            loader.set_epoch(epoch)
    loader.set_epoch(1)
    assert rows(loader) == epochs[1][3:]
    with pytest.raises(UsageError, match=r"got 1, .* call set_epoch\(2\) on the loader that you iterate over"):
        loader.set_epoch(1)  # a loop that counts from the resume on
    loader.set_epoch(3)
    assert rows(loader) == epochs[3]
    with pytest.raises(UsageError, match="epoch: got -1"):
        loader.set_epoch(-1)


def test_endless_iterations_have_no_epochs(flowers: Dataset, epochs: list[Rows]) -> None:
    steps = len(epochs[0])
    loader = make(flowers, start_step=0)
    with pytest.raises(UsageError, match=f"give start_step={2 * steps}$"):
        loader.set_epoch(2)
    for epoch in range(3):  # of a trainer's own, of four batches each
        loader.set_epoch(epoch)
        assert rows(itertools.islice(loader, 4)) == list(itertools.chain(*epochs))[4 * epoch : 4 * epoch + 4]


def stateful(ours: Any, workers: int, **options: Any) -> Any:
    kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    parts = {"batch_sampler": ours.batch_sampler, "collate_fn": ours.collate_fn, "num_workers": workers}
    return kind(ours.dataset, **parts, **options)


@pytest.mark.parametrize(
    ("workers", "at"),
    [
        *((0, "middle"), (0, "end"), (2, "middle")),
        *(pytest.param(n, at, marks=pytest.mark.long) for n, at in ((1, "middle"), (1, "end"), (2, "end"))),
    ],
)
def test_torchdata_resumes(flowers: Dataset, epochs: list[Rows], workers: int, at: str) -> None:
    loader = stateful(make(flowers), workers)
    assert rows(loader) == epochs[0]
    taken = 4 if at == "middle" else len(epochs[1])
    batches = iter(loader)
    assert rows(itertools.islice(batches, taken)) == epochs[1][:taken]
    if at == "end":
        assert next(batches, None) is None
    state = loader.state_dict()
    again = stateful(make(flowers), workers)
    again.load_state_dict(state)
    if at == "middle":
        assert rows(again) == epochs[1][taken:]
    assert rows(again) == epochs[2]
    assert rows(loader) == epochs[2]
    other = stateful(make(flowers, seed=4), workers)
    other.load_state_dict(state)
    with pytest.raises(OrderMismatchError, match="seed was 3, now 4"):
        rows(other)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_sampler_of_others_gets_other_crops_each_time(flowers: Dataset, workers: int) -> None:
    ours = make(flowers)
    every = len(ours.dataset)

    def drawn(seed: int, times: int) -> list[Rows]:
        sampler = WeightedRandomSampler(torch.ones(every).tolist(), every)
        loader: Any = DataLoader(
            make(flowers).dataset, batch_size=BATCH, sampler=sampler, collate_fn=ours.collate_fn, num_workers=workers
        )
        torch.manual_seed(seed)
        return [rows(loader) for _ in range(times)]

    found = drawn(1, 2)
    seeds = [seed for batches in found for batch in batches for _, seed in batch]
    assert len(set(seeds)) == len(seeds) == 2 * every
    assert drawn(1, 2) == found  # PyTorch's seed is theirs, too
    assert drawn(2, 2) != found
    evaluated = torch_eval_loader(flowers["train"], batch_size=BATCH, transform=number_and_seed, workers=0).dataset
    assert evaluated[3] == evaluated[3]


def pictures(batches: Any) -> list[list[int]]:
    """A checksum of each image of each batch."""
    return [[zlib.crc32(image.contiguous().numpy().tobytes()) for image in images] for images, _ in batches]


def threads(flowers: Dataset, count: int = 2, **options: Any) -> Any:
    return make(flowers, count, transform=None, image_size=16, **options)


MORE_WORKERS = [
    (0, 0),
    (0, 1),
    (0, 2),
    (2, 1),
    (2, 2),
]  # in workers no threads are started


class Turns(BatchSampler):
    """As several processes of Accelerate's share batches: each gets every n-th."""

    def __init__(self, sampler: Any, rank: int) -> None:
        self.batch_sampler, self.rank = sampler, rank

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.batch_sampler), self.rank, None, 2)

    def __len__(self) -> int:
        return len(self.batch_sampler) // 2


@pytest.mark.parametrize(
    ("count", "workers"),
    [(2, 0), *(pytest.param(n, m, marks=pytest.mark.long) for n, m in MORE_WORKERS)],
)
def test_threads_make_the_batches_of_other_loaders(flowers: Dataset, count: int, workers: int) -> None:
    """`count`: of threads; `workers`: of the other loader."""
    loader = threads(flowers, 0)
    expected = [pictures(loader) for _ in range(EPOCHS + 1)]
    assert len({picture for epoch in expected for batch in epoch for picture in batch}) > 3 * 150  # crops differ
    steps = len(expected[0])
    loader = over(threads(flowers, count), num_workers=workers)
    assert pictures(loader) == expected[0]
    assert pictures(itertools.islice(loader, 2)) == expected[1][:2]
    assert pictures(loader) == expected[2]
    for epoch, step in ((0, 2), (1, 3), (2, 0)):
        ours = threads(flowers, count)
        ours.set_epoch(epoch)
        assert pictures(over(ours, Skipping(ours.batch_sampler, step), num_workers=workers)) == expected[epoch][step:]
        assert pictures(ours) == expected[epoch + 1]
    for rank in (0, 1):
        ours = threads(flowers, count)
        turns = over(ours, Turns(ours.batch_sampler, rank), num_workers=workers)
        for epoch in range(2):
            ours.set_epoch(epoch)
            assert pictures(turns) == expected[epoch][rank::2]
    for taken in (4, steps):
        theirs = stateful(threads(flowers, count), workers)
        assert pictures(theirs) == expected[0]
        batches = iter(theirs)
        assert pictures(itertools.islice(batches, taken)) == expected[1][:taken]
        if taken == steps:
            assert next(batches, None) is None
        again = stateful(threads(flowers, count), workers)
        again.load_state_dict(theirs.state_dict())
        if taken < steps:
            assert pictures(again) == expected[1][taken:]
        assert pictures(again) == expected[2]


def test_threads_end_with_the_loops_of_others(flowers: Dataset) -> None:
    """Left early, failed, two at once, copied while they run."""
    before = set(threading.enumerate())
    for turn in range(8):
        ours = threads(flowers)
        loader = over(ours)
        batches = iter(loader)
        first = pictures([next(batches)])
        assert set(threading.enumerate()) - before
        copied = copy.deepcopy(ours) if turn % 2 else pickle.loads(pickle.dumps(ours.dataset))
        if turn % 2:
            copied.load_state_dict(copied.state_dict(0))
            assert pictures(itertools.islice(copied, 1)) == first
        with pytest.raises(KeyboardInterrupt):
            for number, _ in enumerate(zip(loader, threads(flowers, seed=turn), strict=True)):
                if number == 3:
                    raise KeyboardInterrupt
        del ours, loader, batches, copied
        gc.collect()
    until_gone(lambda: set(threading.enumerate()) - before)


def test_steps_that_another_loader_draws_have_no_state_in_mid_epoch(flowers: Dataset, epochs: list[Rows]) -> None:
    ours = make(flowers)
    batches = iter(over(ours))
    ahead = [next(batches) for _ in range(3)]  # as Accelerate, which returns the second when it has drawn the third
    with pytest.raises(UsageError, match=r"step 3 was drawn by another loader.*: loader\.state_dict\(2\)"):
        ours.state_dict()
    again = make(flowers)
    again.load_state_dict(ours.state_dict(2))
    assert rows(again)[0] == row(ahead[2]) == epochs[0][2]
    assert len(rows(batches)) == len(epochs[0]) - 3
    assert ours.state_dict() == make(flowers).state_dict(len(epochs[0]))
    with pytest.warns(RuntimeWarning, match=r"epoch 0 has begun before, .* set_epoch\(1\) goes on"):
        ours.set_epoch(0)  # as Accelerate in the second epoch after a restart
    ours.set_epoch(1)
    assert rows(ours) == epochs[1]


POOL = """
import multiprocessing
import sys
import shardfeed
from shardfeed.converters import convert, from_dicts
from shardfeed.pipelines import prefetch_processes
from shardfeed.pipelines.torch import Workers, torch_loader

def batches(workers):
    loader = torch_loader(shardfeed.open(sys.argv[1])["train"], batch_size=12, image_size=16, workers=workers)
    return len(list(loader)), loader.num_workers

def written(_):
    return convert(from_dicts([{"image": open(sys.argv[2], "rb").read(), "key": "a"}]), "out", workers=1)

def prefetched(_):
    return list(prefetch_processes([range(3)]))

def tried(task):
    try:
        return task[0](task[1])
    except Exception as error:
        return f"{type(error).__name__}: {error}"

if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool:
        asked = Workers(1, processes=True)
        for found in pool.map(tried, [(batches, 1), (batches, asked), (written, None), (prefetched, None)]):
            print(found)
"""


def test_in_a_daemon_process(flowers: Dataset, flowers_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    image = next(flowers_folder.rglob("*.jpg"))
    command = [sys.executable, "pool.py", flowers.directory, str(image)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    threads, asked, converted, prefetched = done.stdout.splitlines()
    assert threads == str((len(make(flowers)), 0))
    reason = "this process is a daemon, like those of multiprocessing.Pool, and cannot start processes"
    pool = "use concurrent.futures.ProcessPoolExecutor instead of a Pool"
    assert asked == f"UsageError: workers: {reason}; give workers=0, or {pool}"
    assert converted == f"UsageError: workers: {reason}; {pool}"
    assert prefetched == f"UsageError: prefetch_processes: {reason}; use prefetch_threads, or {pool}"
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_accelerate(flowers: Dataset, epochs: list[Rows], workers: int) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    pytest.importorskip("torchdata.stateful_dataloader")

    def prepared(**options: Any) -> Any:
        settings = accelerate.utils.DataLoaderConfiguration(**options)
        return accelerate.Accelerator(cpu=True, dataloader_config=settings).prepare(make(flowers, workers))

    loader = prepared()
    assert [rows(loader) for _ in range(EPOCHS)] == epochs[:EPOCHS]
    for epoch, step in ((0, 2), (1, 3)):
        loader = prepared()
        loader.set_epoch(epoch)
        assert rows(accelerate.skip_first_batches(loader, step)) == epochs[epoch][step:]
        loader.set_epoch(epoch + 1)
        assert rows(loader) == epochs[epoch + 1]
    for taken in (3, len(epochs[0])):  # its save_state stores the loader's state if it is a StatefulDataLoader
        loader = prepared(use_stateful_dataloader=True)
        rows(loader)
        state = [loader.state_dict() for _ in zip(range(taken), loader, strict=False)][-1]
        again = prepared(use_stateful_dataloader=True)
        again.load_state_dict(state)
        again.set_epoch(1 + taken // len(epochs[0]))
        if taken == 3:
            assert rows(again) == epochs[1][3:]
        assert rows(again) == epochs[2]


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("prepare", [False, True])
def test_trainer_of_hugging_face(
    flowers: Dataset, epochs: list[Rows], tmp_path: Path, workers: int, prepare: bool
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    flat, steps = list(itertools.chain(*epochs[:EPOCHS])), len(epochs[0])

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: Rows = []

        def forward(self, number: Any = None, seed: Any = None, **rest: Any) -> Any:
            self.seen.append(row({"number": number, "seed": seed}))
            return {"loss": self.weight.sum()}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            loader = make(flowers, workers)
            return self.accelerator.prepare(loader) if prepare else loader

    class Stop(transformers.TrainerCallback):
        def __init__(self, step: int) -> None:
            self.step = step

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.global_step == self.step:
                control.should_save = control.should_training_stop = True

    def trained(folder: Path, stop: int | None = None, resume: str | None = None) -> Rows:
        net = Net()
        options = {"save_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True}
        arguments = transformers.TrainingArguments(str(folder), num_train_epochs=EPOCHS, **options)
        Trainer(net, arguments, callbacks=[Stop(stop)] if stop else []).train(resume_from_checkpoint=resume)
        return net.seen

    assert trained(tmp_path / "whole") == flat
    for stop in (3, steps, steps + 3):
        folder = tmp_path / str(stop)
        assert trained(folder, stop) == flat[:stop]
        assert trained(folder, resume=str(folder / f"checkpoint-{stop}")) == flat[stop:]
        shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("reload", [0, 1])
def test_lightning(flowers: Dataset, epochs: list[Rows], tmp_path: Path, workers: int, reload: int) -> None:
    """With `reload`, it makes the loader again for each epoch."""
    lightning: Any = pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed")
    flat, steps = list(itertools.chain(*epochs[:EPOCHS])), len(epochs[0])

    class Module(lightning.LightningModule):
        def __init__(self, stop: int = -1) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: Rows = []
            self.stop = stop

        def train_dataloader(self) -> Any:
            return make(flowers, workers)

        def training_step(self, batch: Any, number: int) -> Any:
            self.seen.append(row(batch))
            return self.weight.sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

        def on_train_batch_end(self, *args: Any) -> None:
            if self.trainer.global_step == self.stop:
                self.trainer.save_checkpoint(tmp_path / "stopped.ckpt")
                raise KeyboardInterrupt

    def trained(module: Any, checkpoint: Path | None = None, keep: bool = False, **options: Any) -> Rows:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        options = {"max_epochs": EPOCHS, "accelerator": "cpu", "default_root_dir": tmp_path} | quiet | options
        trainer = lightning.Trainer(reload_dataloaders_every_n_epochs=reload, enable_checkpointing=keep, **options)
        with suppress(KeyboardInterrupt, SystemExit):
            trainer.fit(module, ckpt_path=checkpoint)
        return module.seen

    assert trained(Module()) == flat
    with pytest.raises(TypeError, match="Lightning can't inject"):
        trained(Module(), overfit_batches=2)  # whose epochs would differ
    assert trained(Module(), limit_train_batches=3) == [row for epoch in epochs[:EPOCHS] for row in epoch[:3]]
    for stop in (3, steps, steps + 3):
        assert trained(Module(stop)) == flat[:stop]
        assert trained(Module(), tmp_path / "stopped.ckpt") == flat[stop:]
    saved = lightning.callbacks.ModelCheckpoint(tmp_path, "ended", save_on_train_epoch_end=True)
    assert trained(Module(), keep=True, callbacks=[saved], max_epochs=2) == flat[: 2 * steps]
    assert trained(Module(), tmp_path / "ended.ckpt") == flat[2 * steps :]


@pytest.mark.promise(72)
def test_states_of_torch_loaders_are_read_back(flowers: Dataset) -> None:
    train = flowers["train"]
    loader = torch_loader(train, transform=random_resized_crop(16), batch_size=8, workers=0)
    sampler: Any = loader.batch_sampler
    feed = to_device(loader, "cpu")
    for step in [*GOOD_STEPS, torch.tensor(3)]:
        loader.load_state_dict(loader.state_dict(step))
        assert (loader.step, type(loader.step)) == (int(step), int)
        assert loader.state_dict() == sampler.state_dict(step) == feed.state_dict()
    for step in BAD_STEPS:
        if step is not None:
            with pytest.raises(UsageError, match="step"):
                loader.state_dict(step)
            with pytest.raises(UsageError, match="step"):
                sampler.state_dict(step)
        with pytest.raises(UsageError, match="step"):
            sampler.step = step
    assert loader.step == 3
    drawn: Any = iter(sampler)
    for epoch in (-1, 2.5, "x", True):
        with pytest.raises(UsageError, match="state_dict"):
            drawn.load_state_dict({"epoch": epoch})

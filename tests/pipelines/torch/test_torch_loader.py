"""`torch_loader`: TensorFlow's samples at TensorFlow's steps, epochs, states, ranks, damaged records."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_transforms import opencv_threads
from torch.utils.data import DataLoader

import shardfeed
from shardfeed.errors import IntegrityError, OrderMismatchError, RecordError, StorageError, UsageError
from shardfeed.pipelines import Blocks, Global, Stream, make_batches, mix, order_samples, train_batches
from shardfeed.pipelines.orders.choices import OrderLike, OrderName
from shardfeed.pipelines.torch import Ranks, Workers, random_resized_crop, torch_eval_loader, torch_loader
from shardfeed.pipelines.torch.images import GeometricTransform
from shardfeed.readers import Dataset, Skip, Split

BATCH = 12


def number(record: Mapping[str, Any], seed: int) -> int:
    """A transform to the sample's own number."""
    return int(record["image/source_id"])


def number_and_seed(record: Mapping[str, Any], seed: int) -> tuple[int, int]:
    return int(record["image/source_id"]), seed


def numbers(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def plain(split: Any, **options: Any) -> Any:
    return torch_loader(split, **({"batch_size": BATCH, "transform": number, "workers": 0} | options))


ORDERS: list[dict[str, Any]] = [
    {"order": "global"},
    {"order": Blocks(buffer=40)},
    {"order": "stored"},
    {"order": Global(balance="class")},
    {"order": Global(weights={"daisy": 3, "rose": 1, "tulip": 0})},
    {"order": Global(epoch_samples=60)},
]


@pytest.mark.parametrize(
    "options",
    [
        ORDERS[0],
        *(pytest.param(options, marks=pytest.mark.long) for options in ORDERS[1:]),
        pytest.param({"mixed": True}, marks=pytest.mark.long),
        {"mixed": True, "order": Global(balance="class")},
    ],
    ids=str,
)
def test_the_same_samples_at_the_same_step_as_tensorflow(flowers: Dataset, options: dict[str, Any]) -> None:
    import tensorflow as tf

    train = flowers["train"]
    options = dict(options)
    samples = mix([(train[:50], 2), (train[50:], 1)]) if options.pop("mixed", False) else train
    steps = 30  # of more than two epochs
    batches = make_batches(
        samples,
        lambda features, seed: tf.strings.to_number(features["image/source_id"], tf.int64),
        batch_size=BATCH,
        seed=5,
        start_step=0,
        keys=["image/source_id"],
        workers=2,
        **({"order": "global"} | options),
    )
    expected = [batch.numpy().tolist() for batch in batches.take(steps)]
    loader = plain(samples, seed=5, **options)
    found: list[list[int]] = []
    while len(found) < steps:
        found += numbers(loader)
    assert found[:steps] == expected
    endless = iter(plain(samples, seed=5, start_step=0, **options))
    assert [next(endless).tolist() for _ in range(steps)] == expected


@pytest.mark.long
@pytest.mark.parametrize(
    "order",
    [
        "global",
        Global(balance="class"),
        *(pytest.param(order, marks=pytest.mark.long) for order in ("stored", Blocks(buffer=40))),
    ],
    ids=str,
)
def test_iterations_are_tensorflows_epochs(flowers: Dataset, order: OrderLike) -> None:
    """A dataset that ends, an endless one and a loader, side by side: the samples of three epochs, and their crops."""
    train = flowers["train"]
    options: dict[str, Any] = {"batch_size": BATCH, "image_size": 32, "seed": 5, "order": order}
    ending, loader = train_batches(train, **options), torch_loader(train, workers=0, **options)
    endless = train_batches(train, start_step=0, **options).as_numpy_iterator()
    for _ in range(3):
        epoch = list(ending.as_numpy_iterator())
        assert len(epoch) == len(loader)
        for (images, labels), (same_images, same_labels), (mine, my_labels) in zip(
            epoch, itertools.islice(endless, len(loader)), loader, strict=True
        ):
            assert labels.tolist() == same_labels.tolist() == my_labels.tolist()
            assert (images == same_images).all()
            assert np.abs(mine.permute(0, 2, 3, 1).numpy().astype(int) - images).mean() < 3


def test_batches(flowers: Dataset) -> None:
    loader = torch_loader(flowers["train"], batch_size=BATCH, image_size=(20, 24), seed=1, workers=2)
    assert isinstance(loader, DataLoader)
    assert len(loader) == len(flowers["train"]) // BATCH
    for images, labels in loader:
        assert (images.shape, images.dtype) == ((BATCH, 3, 20, 24), torch.uint8)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (labels.shape, labels.dtype) == ((BATCH,), torch.int64)
    alone = torch_loader(flowers["train"], batch_size=BATCH, image_size=(20, 24), seed=1, workers=0)
    assert torch.equal(list(alone)[-1][0], images)
    steps = f"{len(loader)} steps per epoch, {len(loader)} done"
    assert repr(loader) == f"TorchLoader('train', batch size {BATCH}, order global, seed 1, {steps})"


@pytest.mark.parametrize("size", [(20, 24), (8, 10)])  # the second is made smaller by decoders, and by areas
def test_without_antialiasing_pixels_are_tensorflows(flowers: Dataset, size: tuple[int, int]) -> None:
    """In training, in evaluation and in a letterbox, of JPEGs and of PNGs."""
    pytest.importorskip("cv2")
    from shardfeed import pipelines
    from shardfeed.pipelines import torch as of_torch

    split = flowers["validation"]
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("random_resized_crop", {"area": (0.2, 1.0)}),
        ("resize_center_crop", {}),
        ("letterbox", {"fill": 9}),
    ]
    for name, options in kinds:
        crop = getattr(pipelines, name)(size, **options)
        same = getattr(of_torch, name)(size, **options, antialias=False)
        expected = make_batches(split, crop, batch_size=BATCH, seed=4, order="global")
        found = torch_loader(split, batch_size=BATCH, transform=same, seed=4, workers=0)
        antialiased = torch_loader(split, batch_size=BATCH, transform=replace(same, antialias=True), seed=4, workers=0)
        differ = 0
        for images, theirs, others in zip(found, expected, antialiased, strict=True):
            assert images.is_contiguous(memory_format=torch.channels_last)
            assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), theirs.numpy())
            differ += not torch.equal(images, others)
        assert differ


def test_a_crop_with_options_gives_images_and_labels(flowers: Dataset) -> None:
    usual = torch_loader(flowers["train"], batch_size=BATCH, image_size=24, workers=0)
    given = torch_loader(flowers["train"], batch_size=BATCH, image_transform=random_resized_crop(24), workers=0)
    other = torch_loader(
        flowers["train"], batch_size=BATCH, image_transform=random_resized_crop(24, area=(0.1, 0.2)), workers=0
    )
    for (images, labels), (same, likewise), (differs, _) in zip(usual, given, other, strict=True):
        assert torch.equal(images, same)
        assert torch.equal(labels, likewise)
        assert not torch.equal(images, differs)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_opencv_has_one_thread_in_a_worker(flowers: Dataset, method: Any) -> None:
    """Also in one that was forked from a process whose threads of OpenCV run, which it has not."""
    cv2 = pytest.importorskip("cv2")
    here = cv2.getNumThreads()
    cv2.setNumThreads(2)
    for _ in range(3):  # of a size that both take a part in
        cv2.resize(np.zeros((2000, 2000, 3), np.uint8), (1500, 1500))
    try:
        loader = plain(flowers["train"], transform=opencv_threads, workers=Workers(1, start_method=method))
        assert next(iter(loader)).tolist() == [1] * BATCH
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(here)


def test_each_iteration_is_the_next_epoch(flowers: Dataset) -> None:
    loader = plain(flowers["train"])
    epochs = [numbers(loader) for _ in range(3)]
    assert loader.epoch == 3
    for epoch in epochs:
        assert len({sample for batch in epoch for sample in batch}) == len(loader) * BATCH
    assert len({str(epoch) for epoch in epochs}) == 3
    other = plain(flowers["train"], start_step=len(loader))
    assert [batch.tolist() for batch in itertools.islice(other, 2 * len(loader))] == epochs[1] + epochs[2]
    assert numbers(plain(flowers["train"])) == epochs[0]
    assert numbers(plain(flowers["train"], seed=1)) != epochs[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_left_early_counts_as_an_epoch(flowers: Dataset, workers: int) -> None:
    loader = plain(flowers["train"], workers=workers)
    other = plain(flowers["train"])
    epochs = [numbers(other) for _ in range(4)]
    assert next(iter(loader)).tolist() == epochs[0][0]
    assert loader.step == 1
    for place, batch in enumerate(loader):
        assert batch.tolist() == epochs[1][place]
        if place == 4:
            break
    assert loader.step == len(loader) + 5
    assert numbers(loader) == epochs[2]
    assert numbers(loader) == epochs[3]


def fails_where(record: Mapping[str, Any], seed: int, file: Path) -> int:
    if file.exists():
        raise ZeroDivisionError("mine")
    return number(record, seed)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_that_gave_no_batch_is_no_epoch(flowers: Dataset, workers: int, tmp_path: Path) -> None:
    file = tmp_path / "fail"
    loader = plain(flowers["train"], transform=partial(fails_where, file=file), workers=workers)
    iter(loader)
    file.touch()
    with pytest.raises(ZeroDivisionError, match="mine"):
        next(iter(loader))
    file.unlink()
    assert loader.step == 0
    assert numbers(loader) == numbers(plain(flowers["train"]))


def make_loader(kind: str, split: Split, **options: Any) -> Any:
    options = {"batch_size": BATCH, "transform": number} | options
    return (torch_loader if kind == "training" else torch_eval_loader)(split, **options)


@pytest.mark.parametrize("kind", ["training", "evaluation"])
@pytest.mark.parametrize("workers", [0, 2])
def test_one_iteration_at_a_time(flowers: Dataset, kind: str, workers: int) -> None:
    """Both would take batches of the same workers, some twice and some never."""
    loader = make_loader(kind, flowers["train"], workers=workers)
    first = iter(loader)
    next(first)
    second = iter(loader)
    begun = next(second).tolist()
    with pytest.raises(UsageError, match="loader: was iterated again before its batches ended; make a separate loader"):
        next(first)
    assert next(first, None) is None
    epochs = make_loader(kind, flowers["train"], workers=0)
    assert numbers(epochs)[0] != begun or kind == "evaluation"
    assert [begun, *(batch.tolist() for batch in second)] == numbers(epochs)
    with pytest.raises(UsageError, match="iterated again"):
        list(zip(loader, loader, strict=True))


def test_the_seed_is_the_samples_own_in_its_epoch(flowers: Dataset) -> None:
    loader = plain(flowers["train"], transform=number_and_seed)
    drawn: list[dict[int, int]] = []
    for _ in range(2):
        drawn.append({n: s for ns, ss in loader for n, s in zip(ns.tolist(), ss.tolist(), strict=True)})
    both = drawn[0].keys() & drawn[1].keys()
    assert len(set(drawn[0].values())) == len(drawn[0])
    assert all(drawn[0][sample] != drawn[1][sample] for sample in both)
    larger = plain(flowers["train"], transform=number_and_seed, batch_size=30)
    again = {n: s for ns, ss in larger for n, s in zip(ns.tolist(), ss.tolist(), strict=True)}
    assert all(drawn[0][sample] == again[sample] for sample in drawn[0].keys() & again.keys())
    assert min(again.values()) >= 0
    assert max(again.values()) < 2**63


@pytest.mark.long
@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_resumes_at_every_step_on_any_number_of_ranks(flowers: Dataset, options: dict[str, Any]) -> None:
    split = flowers["train"]

    def ranks(count: int, **more: Any) -> list[Any]:
        return [plain(split, ranks=Ranks(rank, count), **options, **more) for rank in range(count)]

    def together(loaders: list[Any]) -> list[list[int]]:
        return [list(itertools.chain(*parts)) for parts in zip(*map(numbers, loaders), strict=True)]

    (whole,) = ranks(1)
    epochs = numbers(whole) + numbers(whole)
    steps = len(whole)
    (taking,) = ranks(1)
    states = [taking.state_dict()]
    for _ in taking:
        states.append(json.loads(json.dumps(taking.state_dict())))
    assert len(states) == steps + 1
    for step, state in enumerate(states):
        for count in (1, 2, 3, 4) if step in (0, steps) else (1 + step % 4,):
            loaders = ranks(count)
            for loader in loaders:
                loader.load_state_dict(state)
            found = together(loaders)
            if step < steps:
                assert found == epochs[step:steps], (step, count)
                assert len({str(loader.state_dict()) for loader in loaders}) == 1
                found = together(loaders) if step % 5 == 0 else epochs[steps:]
            assert found == epochs[steps:], (step, count)


def test_resumes_with_workers(flowers: Dataset) -> None:
    """Workers are many batches ahead; the state counts what was handed out."""
    loader = plain(flowers["train"], workers=Workers(2, prefetch=4))
    whole = numbers(plain(flowers["train"]))
    for step, _ in enumerate(loader, 1):
        if step == 3:
            state = loader.state_dict()
            break
    again = plain(flowers["train"], workers=1)
    again.load_state_dict(state)
    assert numbers(again) == whole[3:]
    # In the same loader too, whose workers go on.
    loader.load_state_dict(state)
    assert numbers(loader) == whole[3:]


@pytest.mark.parametrize("library", ["torch", "torchdata"])
def test_errors_in_a_loader_of_others(
    flowers: Dataset, damaged: tuple[Dataset, list[int]], library: str, recwarn: pytest.WarningsRecorder
) -> None:
    """It takes for a batch whatever `collate_fn` gives: who uses that is told why it is none."""
    if library == "torch":
        kind: Any = DataLoader
    else:
        kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def first(ours: Any) -> Any:
        return next(iter(kind(ours.dataset, batch_sampler=ours.batch_sampler, collate_fn=ours.collate_fn)))

    batch = first(plain(flowers["train"], transform=ragged))
    for use in (iter, len, lambda batch: batch["n"]):
        with pytest.raises(UsageError, match="shapes vary"):
            use(batch)
    options = {"batch_size": 4, "transform": stored, "order": "stored"}
    with pytest.raises(RecordError, match="record 3"):
        len(first(plain(damaged[0]["train"], **options)))
    with pytest.raises(IntegrityError, match=r"record 3.* iterate over the loader that torch_loader returns"):
        len(first(plain(damaged[0]["train"], **options, damaged=Skip(2))))


def test_a_state_of_another_run_is_refused(flowers: Dataset) -> None:
    loader = plain(flowers["train"])
    for other in (
        plain(flowers["validation"]),
        plain(flowers["train"], seed=1),
        plain(flowers["train"], batch_size=6),
        plain(flowers["train"], order=Global(balance="class")),
    ):
        with pytest.raises(OrderMismatchError, match="saved with another order"):
            loader.load_state_dict(other.state_dict())
    text = loader.state_dict()["position"]
    for of in (loader, loader.batch_sampler):
        with pytest.raises(IntegrityError, match="checksum"):
            of.load_state_dict({"position": text.replace('"step": 0', '"step": 1')})
        for state in ({}, None, text, [], {"step": 3}, {"position": 3}, {"position": None}):
            with pytest.raises((UsageError, IntegrityError), match="state_dict: "):
                of.load_state_dict(state)


@pytest.mark.long
@pytest.mark.parametrize("options", ORDERS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_ranks_share_each_step(flowers: Dataset, options: dict[str, Any], count: int) -> None:
    loaders = [plain(flowers["train"], ranks=Ranks(rank, count), **options) for rank in range(count)]
    whole = numbers(plain(flowers["train"], **options))
    shares = [numbers(loader) for loader in loaders]
    assert [len(share) for share in shares] == [len(whole)] * count
    assert all(len(batch) == BATCH // count for share in shares for batch in share)
    assert [list(itertools.chain(*parts)) for parts in zip(*shares, strict=True)] == whole
    if options["order"] in ("global", "stored") or isinstance(options["order"], Blocks):
        everything = [sample for batch in whole for sample in batch]
        assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(("samples", "batch_size"), [(40, 12), (36, 12), (37, 12), (5, 12), (4, 12), (13, 12)])
def test_evaluation_sees_each_sample_once(flowers: Dataset, count: int, samples: int, batch_size: int) -> None:
    split = flowers["train"][:samples]
    shares = [
        numbers(torch_eval_loader(split, batch_size=batch_size, transform=number, workers=0, ranks=Ranks(rank, count)))
        for rank in range(count)
    ]
    everything = sorted(sample for share in shares for batch in share for sample in batch)
    assert everything == sorted(int(record["image/source_id"]) for record in split)
    assert len({len(share) for share in shares}) == 1
    sizes = [len(batch) for share in shares for batch in share]
    assert min(sizes) >= 1
    if count == 1:
        assert sizes == [batch_size] * (samples // batch_size) + [samples % batch_size] * (samples % batch_size > 0)
    else:
        assert max(sizes) <= -(-batch_size // count) + 1


def test_evaluation_batches(flowers: Dataset) -> None:
    split = flowers["validation"]
    loader = torch_eval_loader(split, batch_size=16, image_size=20, workers=2)
    for _ in range(2):
        labels = torch.cat([labels for _, labels in loader]).tolist()
        assert labels == split.column("image/class/label").tolist()
    images, labels = next(iter(loader))
    assert images.shape == (16, 3, 20, 20)
    with pytest.raises(UsageError, match=r"ranks: got 50, expected at most"):
        torch_eval_loader(split, batch_size=100, image_size=20, ranks=Ranks(0, 50))


@pytest.mark.long
@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_workers_may_be_spawned(flowers: Dataset, method: str) -> None:
    options = {"batch_size": 40, "image_size": 16, "seed": 2}
    loader = torch_loader(flowers["train"], workers=Workers(1, start_method=method), **options)
    expected = list(torch_loader(flowers["train"], workers=0, **options))
    found = list(loader)
    assert len(found) == len(expected)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found, expected, strict=True))


@pytest.fixture
def damaged(folder: Callable[..., Path], tmp_path: Path) -> tuple[Dataset, list[int]]:
    """24 samples in one shard, two of which are damaged: their numbers."""
    from shardfeed.converters import ImageFolder, convert

    convert(ImageFolder(folder(8)), tmp_path / "out", split={"train": 1.0}, shards={"train": 1}, workers=1)
    data = shardfeed.open(tmp_path / "out")
    train = data["train"]
    shard = Path(train.shards.path(0))
    content = bytearray(shard.read_bytes())
    bad = []
    for index in (3, 17):
        at = content.index(train[index]["image/encoded"])
        content[at + 50] ^= 0xFF
        bad.append(index)
    assert bytes(content) != shard.read_bytes()
    shard.write_bytes(content)
    return data, [int(index) for index in bad]


def stored(record: Mapping[str, Any], seed: int) -> str:
    return record["image/filename"].decode()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_record_raises_as_it_is(damaged: tuple[Dataset, list[int]], workers: int) -> None:
    data, _ = damaged
    loader = torch_loader(data["train"], batch_size=4, transform=stored, order="stored", workers=workers)
    with pytest.raises(RecordError, match="record 3") as caught:
        list(loader)
    assert caught.value.exit_code == 4


class Fails:
    """At one record."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def __call__(self, record: Mapping[str, Any], seed: int) -> bytes:
        if record["image/filename"] == self.name:
            raise IntegrityError("image", "it is odd")
        return record["image/filename"]


def test_an_error_names_its_record(flowers: Dataset) -> None:
    split = flowers["validation"]
    for index in (0, 7, BATCH + 5):
        name = split[index]["image/filename"]
        loader = torch_eval_loader(split, batch_size=BATCH, transform=Fails(name), workers=0)
        with pytest.raises(RecordError, match=f"{name.decode()}.*it is odd") as caught:
            list(loader)
        assert caught.value.place.startswith(split.where(index))


class Halved(GeometricTransform):
    def __call__(self, record: Mapping[str, Any], seed: int) -> torch.Tensor:
        return super().__call__(record, seed) / 2


def test_overridden_call_of_a_transform_is_used(flowers: Dataset) -> None:
    crop = random_resized_crop(24)
    own = Halved(crop.crop)
    options: dict[str, Any] = {"batch_size": BATCH, "workers": 0}
    first, half = (next(iter(torch_loader(flowers["train"], transform=each, **options))) for each in (crop, own))
    assert torch.equal(first / 2, half)
    with pytest.raises(UsageError, match=r"Halved, which has a call of its own.*transform="):
        torch_loader(flowers["train"], image_transform=own, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_records_are_left_out(damaged: tuple[Dataset, list[int]], workers: int) -> None:
    data, bad = damaged
    skip = Skip(2)
    options: dict[str, Any] = {"batch_size": 4, "transform": stored, "workers": workers, "damaged": skip}
    with pytest.warns(RuntimeWarning, match="left out"):
        found = [name for batch in torch_eval_loader(data["train"], **options) for name in batch]
    assert len(found) == len(set(found)) == 24 - len(bad)
    assert sorted(re.findall(r"record (\d+),", error.place)[0] for error in skip.found) == sorted(map(str, bad))
    batches = list(torch_loader(data["train"], order="stored", **options))
    assert [len(batch) for batch in batches] == [4] * 6
    assert sorted({name for batch in batches for name in batch}) == sorted(found)
    assert len(skip.found) == 2  # once each, whatever process met them
    with pytest.raises(IntegrityError, match="may be left out"), pytest.warns(RuntimeWarning):
        list(torch_eval_loader(data["train"], **(options | {"damaged": Skip(1)})))


@pytest.mark.filterwarnings("ignore:left out")
def test_replacements_of_damaged_records_have_tensorflows_windows(damaged: tuple[Dataset, list[int]]) -> None:
    options: dict[str, Any] = {"batch_size": 4, "image_size": 32, "order": "stored"}
    theirs = train_batches(damaged[0]["train"], damaged=Skip(2), **options)
    mine = torch_loader(damaged[0]["train"], damaged=Skip(2), workers=0, **options)
    for (expected, _), (images, _) in zip(theirs.as_numpy_iterator(), mine, strict=True):
        apart = np.abs(images.permute(0, 2, 3, 1).numpy().astype(int) - expected).mean((1, 2, 3))
        assert apart.max() < 6, apart


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_of_damaged_records_alone(damaged: tuple[Dataset, list[int]], workers: int) -> None:
    """Evaluation goes on without it, unless other ranks count on as many steps."""
    data, bad = damaged
    options: dict[str, Any] = {"batch_size": 1, "transform": stored, "workers": workers}
    skip = Skip(2)
    with pytest.warns(RuntimeWarning, match="left out"):
        found = list(torch_eval_loader(data["train"], **options, damaged=skip))
    assert [len(batch) for batch in found] == [1] * (24 - len(bad))
    assert len(skip.found) == 2
    with pytest.raises(IntegrityError, match="1 records of one batch are all damaged"):
        list(torch_eval_loader(data["train"], **(options | {"batch_size": 2}), damaged=Skip(2), ranks=Ranks(0, 2)))


def no_image(record: Mapping[str, Any], seed: int) -> Any:
    return random_resized_crop(8)({**record, "image/encoded": b"\xff\xd8\xff"}, seed)


def broken(record: Mapping[str, Any], seed: int) -> Any:
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_transforms(flowers: Dataset, workers: int) -> None:
    with pytest.raises(
        RecordError, match=r"train-0000\d-of-00004.tfrecord, record \d+, offset \d+ \(.*\.jpg\): it does not"
    ):
        list(plain(flowers["train"], transform=no_image, workers=workers))
    with pytest.raises(ZeroDivisionError, match="mine"):
        list(plain(flowers["train"], transform=broken, workers=workers))
    with pytest.raises(RuntimeError, match=r"the transform raised StopIteration at .*\.tfrecord, record \d+, offset"):
        list(plain(flowers["train"], transform=stops, workers=workers))


def stops(record: Mapping[str, Any], seed: int) -> Any:
    """Raise StopIteration, as a forgotten default of `next` does; torch would take it for the end of the epoch."""
    return next(iter([]))


def ragged(record: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {"n": np.arange(int(record["image/source_id"]) % 4)}


@pytest.mark.parametrize("workers", [0, 1])
def test_padding(flowers: Dataset, workers: int) -> None:
    loader = plain(flowers["train"], transform=ragged, pad=-1, workers=workers)
    batch = next(iter(loader))["n"]
    assert batch.shape == (BATCH, 3)
    assert {row.count(-1) for row in batch.tolist()} <= {0, 1, 2, 3}
    with pytest.raises(UsageError, match="shapes vary"):
        next(iter(plain(flowers["train"], transform=ragged, workers=workers)))


def wide(record: Mapping[str, Any], seed: int) -> torch.Tensor:
    return torch.zeros((), dtype=torch.uint8).expand(25_000_000)  # so large in a batch alone


def test_shared_memory_is_looked_at_before_a_batch_goes_there(flowers: Dataset) -> None:
    loader = plain(flowers["train"], transform=wide, batch_size=60, workers=Workers(2, prefetch=100))
    for _ in range(2):
        with pytest.raises(
            StorageError, match=r"/dev/shm: .* GB are needed, .*fewer workers, Workers\(prefetch=1\)"
        ) as caught:
            next(iter(loader))
        assert caught.value.exit_code == 5


RAN: list[int] = []  # seeds


def noted(record: Mapping[str, Any], seed: int) -> int:
    RAN.append(seed)
    torch.manual_seed(0)
    return os.getpid()


def test_a_transform_runs_in_workers_alone(flowers: Dataset) -> None:
    """In the training process it would move the generators, and open what forked workers then share."""
    RAN.clear()
    before = torch.get_rng_state()
    loader = plain(flowers["train"], transform=noted, workers=1)
    batches = iter(loader)  # which draws a number itself
    drawn = torch.get_rng_state()
    assert os.getpid() not in next(batches).tolist()
    assert not RAN
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.set_rng_state(before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "stream"}, "order: got 'stream'"),
        ({"order": Stream(buffer=9)}, r"order: got Stream\(buffer=9"),
        ({"image_size": 8}, "expected exactly one"),
        ({"transform": None}, "expected exactly one"),
        ({"transform": None, "image_size": 8, "label": "image/filename"}, "label"),
        ({"ranks": Ranks(0, 5)}, "a multiple of the 5 ranks; use 10 or 15"),
        ({"batch_size": 1000}, "batch_size.*use a smaller batch, or, in make_batches, drop_remainder=False"),
    ],
)
def test_arguments_are_checked(flowers: Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plain(flowers["train"], **options)


CHILD = """
import sys
import shardfeed
from shardfeed.pipelines import Global
from shardfeed.pipelines.torch import to_device, torch_eval_loader, torch_loader
data = shardfeed.open(sys.argv[1])
options = {"batch_size": 16, "image_size": 16, "order": Global(balance="class")}
loader = torch_loader(data["train"], workers=int(sys.argv[2]), **options)
def modules():
    assert not {"tensorflow", "keras"} & set(sys.modules), sorted(sys.modules)
for images, labels in to_device(loader, "cpu", dtype=None): pass
for images, labels in torch_eval_loader(data["validation"], batch_size=16, image_size=16, workers=0): pass
loader.load_state_dict(loader.state_dict())
modules()
print("none")
"""


@pytest.mark.parametrize("workers", [1, pytest.param(0, marks=pytest.mark.long)])
def test_tensorflow_is_never_imported(flowers: Dataset, workers: int) -> None:
    command = [sys.executable, "-c", CHILD, flowers.directory, str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "none\n"
    assert done.stderr == ""


def test_the_order_is_that_of_order_samples(flowers: Dataset) -> None:
    split: Split = flowers["train"]
    name: OrderName = "global"
    loader = plain(split, seed=9, order=name)
    _, order = order_samples(split, batch_size=BATCH, seed=9, order=name)
    assert loader.order == order
    assert plain(split, seed=9, order=None).order == order
    assert loader.dataset[3] == int(split[3]["image/source_id"])
    assert len(loader.dataset) == len(split)

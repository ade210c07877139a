"""Loops and transforms of others over our loaders: each sample is counted once, or somebody says why not."""

import itertools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, default_collate

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import Ranks, decode_image, torch_eval_loader, torch_loader
from shardfeed.readers import Dataset, Skip

LABEL = "image/class/label"


def number(record: Mapping[str, Any], seed: int) -> int:
    return int(record["image/source_id"])


class Every(BatchSampler):
    """Wrapper that Accelerate puts around the batch sampler of a prepared loader."""

    def __init__(self, sampler: Any, part: int, parts: int) -> None:
        self.batch_sampler, self.part, self.parts = sampler, part, parts

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.batch_sampler), self.part, None, self.parts)


def prepared(loader: Any, part: int) -> DataLoader[Any]:
    return DataLoader(loader.dataset, batch_sampler=Every(loader.batch_sampler, part, 2), collate_fn=loader.collate_fn)


@pytest.mark.parametrize("make", [torch_loader, torch_eval_loader])
def test_a_share_of_a_share_is_refused(flowers: Dataset, make: Any) -> None:
    options = {"batch_size": 8, "transform": number, "workers": 0}
    split = flowers["validation"]
    for rank in range(2):
        shared = make(split, ranks=Ranks(rank, 2), **options)
        with pytest.raises(UsageError, match=r"one of 2 shares .*samples are lost.*without accelerator.prepare, or"):
            next(iter(prepared(shared, rank)))
        assert len(list(shared)) == len(shared)  # itself it may
    # The remedy: the other loader shares out, ours does not.
    found = [
        n for rank in range(2) for batch in prepared(make(split, ranks=Ranks(0, 1), **options), rank) for n in batch
    ]
    steps = len(split) // 8 * 8 if make is torch_loader else len(split)
    assert len(found) == len({int(n) for n in found}) == steps


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_made_before_its_rank_was_known(
    flowers: Dataset, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    early = torch_loader(flowers["train"], batch_size=8, transform=number, workers=workers)
    told = torch_loader(flowers["train"], batch_size=8, transform=number, workers=workers, ranks=Ranks(0, 1))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="made as process 0 of 1, and this is now 1 of 2"):
        next(iter(early))
    assert len(next(iter(told))) == 8


def test_a_sampler_of_others_over_our_dataset(flowers: Dataset) -> None:
    """Indexes alone, one or many: each is a sample, whatever the step it would have had with us."""
    split = flowers["validation"]
    dataset = torch_loader(split, batch_size=8, transform=number, workers=0).dataset
    wanted = sorted(int(record["image/source_id"]) for record in split)  # type: ignore[arg-type]
    for options in ({}, {"batch_size": None}, {"batch_size": 8}, {"batch_size": 7, "num_workers": 1}):
        assert sorted(itertools.chain.from_iterable(map(np.ravel, DataLoader(dataset, **options)))) == wanted
    both = [DistributedSampler(dataset, 2, rank, drop_last=False) for rank in range(2)]
    found = {int(n) for sampler in both for batch in DataLoader(dataset, batch_size=4, sampler=sampler) for n in batch}
    assert sorted(found) == wanted


class Jitter:
    """Like torchvision's: an image of Pillow in, a tensor out, from generators of the whole process."""

    def __call__(self, image: Image.Image) -> torch.Tensor:
        assert image.mode == "RGB"
        image = image.resize((8, 6))
        noise = torch.rand(()) + random.random() + np.random.random()
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() + noise


def small_image(image: Image.Image) -> Image.Image:
    return image.resize((8, 6))


def small_array(image: Image.Image) -> np.ndarray:
    return np.array(image.resize((8, 6)))


def grey(image: Image.Image) -> Image.Image:
    return image.convert("L").resize((8, 6))


def drawn(loader: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(images.clone(), labels.clone()) for images, labels in loader]


def equal(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(one, other, strict=True)
    )


def test_a_transform_of_images_draws_the_same_for_a_sample(flowers: Dataset) -> None:
    """On any number of workers, after a resume, with any batch size; and another in the next epoch."""
    split = flowers["train"][:40]

    def loader(workers: int = 0, batch_size: int = 8) -> Any:
        return torch_loader(split, batch_size=batch_size, image_transform=Jitter(), seed=3, workers=workers)

    first = loader()
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    first.dataset[3]
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]
    assert np.array_equal(before[2][1], after[2][1])
    epochs = [drawn(first), drawn(first)]
    assert epochs[0][0][0].shape == (8, 3, 6, 8)
    assert equal(drawn(loader(2)), epochs[0])
    resumed = loader()
    resumed.load_state_dict(loader().state_dict(step=7))
    assert equal(drawn(resumed), epochs[1][2:])
    pictures = [{image.numpy().tobytes() for images, _ in batches for image in images} for batches in epochs]
    assert len(pictures[0]) == len(pictures[1]) == 40
    assert not pictures[0] & pictures[1]
    larger = drawn(loader(batch_size=10))
    assert {image.numpy().tobytes() for images, _ in larger for image in images} == pictures[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_images_in_and_images_out(flowers: Dataset, workers: int) -> None:
    split = flowers["validation"][:4]
    wanted = np.stack(
        [np.array(Image.fromarray(decode_image(r).permute(1, 2, 0).numpy()).resize((8, 6))) for r in split]
    )
    for transform in (small_image, small_array):
        ((images, labels),) = torch_eval_loader(split, batch_size=4, image_transform=transform, workers=workers)
        assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), wanted)
        assert images.dtype == torch.uint8
        assert labels.tolist() == split.column(LABEL).tolist()
    ((images, _),) = torch_eval_loader(split, batch_size=4, image_transform=grey, workers=workers)
    assert images.shape == (4, 1, 6, 8)


class Flip:
    """Like one of albumentations: named arguments, a generator of its own, which has its own seed."""

    __module__ = "albumentations.core.composition"

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def set_random_state(self, generator: np.random.Generator, python: random.Random) -> None:
        self.generator = generator

    def __call__(self, *, image: np.ndarray) -> dict[str, Any]:
        return {"image": np.full((4, 5, 3), self.generator.random() + image.dtype.itemsize, np.float32)}


def test_albumentations_is_called_by_name_and_seeded(flowers: Dataset) -> None:
    def batches(workers: int) -> Any:
        made = torch_loader(flowers["train"][:16], batch_size=8, image_transform=Flip(), seed=3, workers=workers)
        return drawn(made)

    found = batches(0)
    assert found[0][0].shape == (8, 3, 4, 5)
    assert len({float(image[0, 0, 0]) for images, _ in found for image in images}) == 16
    assert equal(found, batches(2))


class Resize:
    """Like torchvision's: it returns what it gets, a tensor or an image of Pillow."""

    __module__ = "torchvision.transforms.v2"

    def __init__(self, *steps: Any) -> None:
        self.steps = steps

    def __call__(self, image: Any) -> Any:
        assert isinstance(image, Image.Image)
        assert image.mode == "RGB"
        image = image.resize((5, 4))
        for step in self.steps:
            image = step(image)
        return image


def test_torchvision_gets_pillow_images_and_returns_tensors(flowers: Dataset) -> None:
    def first(*steps: Any) -> torch.Tensor:
        transform = Resize(*steps)
        ((images, _),) = torch_eval_loader(flowers["train"][:4], batch_size=4, image_transform=transform, workers=0)
        return images

    assert first(np.array, torch.from_numpy, lambda image: image.permute(2, 0, 1)).shape == (4, 3, 4, 5)
    with pytest.raises(UsageError, match=r"it returned a Pillow image, expected a tensor; put v2.ToImage\(\)"):
        first()


class Module(torch.nn.Module):
    def forward(self, image: Any) -> Any:
        return image


class Named:
    __module__ = "albumentations"

    def __call__(self, *, image: Any) -> Any:
        return {"image": image}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"transform": Resize()},
            "transform: got Resize of torchvision, which takes images; pass it as image_transform=",
        ),
        ({"transform": Flip()}, "transform: got Flip of albumentations"),
        (
            {"transform": Module()},
            r"expected a function: transform\(record, seed\); .*image_transf",
        ),
        ({"transform": lambda image: image}, "pass a function of an image as image_transform="),
        ({"transform": 3}, "transform: got 3"),
        ({"transform": Resize}, "transform: got <class"),
        ({"image_transform": number}, r"expected a function: image_transform\(image\); .* as transform="),
        ({"image_transform": Resize}, r"call it, as in image_transform=Resize\(\)"),
        ({"image_transform": Named()}, "install albumentations 2.0 or newer"),
        ({"image_transform": Module(), "label": "image/filename"}, "label: got 'image/filename'"),
        ({"image_transform": Module(), "image_size": 8}, "expected exactly one of them"),
        ({"transform": number, "collate_fn": list, "pad": 0}, "pad, collate_fn: expected one of them"),
        (
            {"transform": number, "collate_fn": lambda: None},
            r"collate_fn: got .*expected a function: collate_fn\(samples\)",
        ),
    ],
)
@pytest.mark.parametrize("make", [torch_loader, torch_eval_loader])
def test_transforms_with_wrong_arguments_are_refused(
    flowers: Dataset, make: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(flowers["train"], batch_size=8, **options)


def nothing(image: Image.Image) -> None:
    return None


@pytest.mark.parametrize("workers", [0, 1])
def test_image_transform_without_an_image_is_refused(flowers: Dataset, workers: int) -> None:
    loader = torch_loader(flowers["train"], batch_size=8, image_transform=nothing, workers=workers)
    with pytest.raises(UsageError, match="image_transform: it returned NoneType; expected an image"):
        next(iter(loader))


def mixed(samples: list[Any]) -> Any:
    """MixUp over the default collate: what a batch becomes depends on PyTorch's generator."""
    images, labels = default_collate([(torch.tensor([float(index)]), label) for index, label in samples])
    share = torch.rand(())
    return images * share + images.flip(0) * (1 - share), labels, share


def index_and_label(record: Mapping[str, Any], seed: int) -> tuple[int, int]:
    return int(record["image/source_id"]), int(record[LABEL])


def test_collate_fn_draws_the_same_for_a_batch(flowers: Dataset) -> None:
    def loader(workers: int = 0) -> Any:
        return torch_loader(
            flowers["train"], batch_size=8, transform=index_and_label, seed=3, workers=workers, collate_fn=mixed
        )

    def shares(batches: Any) -> list[float]:
        return [float(share) for _, _, share in batches]

    first = loader()
    epochs = [shares(first), shares(first)]
    assert len(set(epochs[0] + epochs[1])) == 2 * len(first)
    assert shares(loader(2)) == epochs[0]
    resumed = loader(1)
    resumed.load_state_dict(loader().state_dict(step=len(first) + 3))
    assert shares(resumed) == epochs[1][3:]


def test_collate_fn_and_damaged_records(flowers: Dataset, tmp_path: Path) -> None:
    """It sees what is left, in a list, and nothing of how a batch comes from a worker."""
    shutil.copytree(flowers.directory, tmp_path / "copy")
    shard = sorted((tmp_path / "copy").glob("validation*.tfrecord"))[0]
    data = bytearray(shard.read_bytes())
    data[60] ^= 1
    shard.write_bytes(data)
    split = shardfeed.open(tmp_path / "copy")["validation"]
    skip = Skip(1)
    loader = torch_eval_loader(split, batch_size=8, transform=number, collate_fn=list, damaged=skip, workers=1)
    with pytest.warns(RuntimeWarning, match="left out, 1 of at most 1"):
        found = [n for batch in loader for n in batch]
    assert len(found) == len(set(found)) == len(split) - 1
    assert len(skip.found) == 1


TWO = """
import sys
import accelerate
import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import torch_loader

accelerator = accelerate.Accelerator(cpu=True)
loader = torch_loader(shardfeed.open(sys.argv[1])["train"], batch_size=16, image_size=16, workers=0)
assert accelerator.num_processes == 2
assert sum(len(labels) for _, labels in loader) == len(loader) * 8
try:
    for _ in accelerator.prepare(loader):
        pass
except UsageError as error:
    assert "accelerator.prepare" in str(error)
else:
    raise AssertionError("nobody said anything")
"""


@pytest.mark.long
def test_accelerate_on_two_processes(flowers: Dataset, tmp_path: Path) -> None:
    """Where it is installed; `make peers` installs it."""
    pytest.importorskip("accelerate", reason="accelerate is not installed: `make peers` runs this with it")
    (tmp_path / "two.py").write_text(TWO)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "two.py"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [*command, flowers.directory], cwd=tmp_path, capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]

"""Shared memory of batches: used again once the trainer has released it, and not before."""

import gc
import os
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from shardfeed.pipelines import crop
from shardfeed.pipelines.torch import Workers, random_resized_crop, torch_loader
from shardfeed.pipelines.torch.collate import Collate
from shardfeed.pipelines.torch.shared_images import SHARED_IMAGES, SharedBatch, apart
from shardfeed.readers import Dataset

from decoding_paths import COMPILED, built, path_taken

SHAPE = (3, 4, 5, 3)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    SHARED_IMAGES.__init__()
    SHARED_IMAGES.kept = 2
    yield
    SHARED_IMAGES.__init__()


def taken(first: int = 0) -> torch.Tensor:
    images = SHARED_IMAGES.take(SHAPE).permute(0, 3, 1, 2)
    return images.copy_(torch.arange(first, first + images.numel()).reshape(images.shape) % 251)


def lending() -> Collate:
    collate = Collate()
    collate.reuses = True
    return collate


def parts(images: torch.Tensor) -> list[torch.Tensor]:
    """As the engine makes them."""
    return apart(images.permute(0, 2, 3, 1).numpy())


def lent(images: torch.Tensor) -> SharedBatch:
    batch = lending()(parts(images))
    assert isinstance(batch, SharedBatch)
    return batch


def received(batch: SharedBatch) -> torch.Tensor:
    return pickle.loads(bytes(ForkingPickler.dumps(batch)))


def test_images_are_the_batch() -> None:
    """They are not copied, unless a sample has an image twice, or the images come in another order."""
    images = taken()
    first, second = lending()([(image, image) for image in parts(images)])
    assert isinstance(first, SharedBatch)
    assert first.images.data_ptr() == images.data_ptr() != second.data_ptr()
    assert first.images.stride() == second.stride() == images.stride()
    assert torch.equal(first.images, images)
    assert torch.equal(second, images)
    for chosen in ([2, 1, 0], [0, 0, 0], [1, 2]):
        images = taken()
        batch = lending()([parts(images)[n] for n in chosen])
        assert torch.equal(batch, images[chosen])


def test_images_of_the_user_are_copied() -> None:
    """A transform may keep its images, in one tensor: what is done to a batch in place must not reach them."""
    kept = torch.zeros(SHAPE, dtype=torch.uint8).permute(0, 3, 1, 2)
    Collate()(list(kept)).add_(1)
    assert not kept.any()


def test_memory_is_used_again_when_nothing_refers_to_the_batch() -> None:
    images = taken()
    address, expected = images.data_ptr(), images.clone()
    batch = received(lent(images))
    assert torch.equal(batch, expected)
    assert batch.stride() == expected.stride()
    part = batch[1:, :, 2]
    array = part.numpy()
    del batch, part, images
    gc.collect()
    other = taken(7)
    assert other.data_ptr() != address, "an array refers to it"
    assert (array == expected[1:, :, 2].numpy()).all()
    lent(other)  # never received: its memory is not free
    del array
    assert SHARED_IMAGES.take(SHAPE).data_ptr() == address
    assert SHARED_IMAGES.take(SHAPE).data_ptr() != other.data_ptr()


def test_a_forked_process_does_not_release_the_batch_of_its_parent() -> None:
    batch = received(lent(taken()))
    expected = batch.clone()
    child = os.fork()
    if not child:
        del batch
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert SHARED_IMAGES.take(SHAPE).data_ptr() != batch.data_ptr()
    assert torch.equal(batch, expected)


def test_views_share_a_piece_until_the_trainer_has_released_all() -> None:
    small, large = (2, 3, 3, 3), (2, 6, 5, 3)
    sizes = [torch.Size(shape).numel() for shape in (small, large)]

    def filled() -> tuple[int, list[torch.Tensor]]:
        whole = SHARED_IMAGES.take((sum(sizes),)).copy_(torch.arange(sum(sizes)) % 251)
        views = zip(whole.split(sizes), (small, large), strict=True)
        return whole.data_ptr(), [view.view(shape) for view, shape in views]

    address, views = filled()
    expected = [view.clone().permute(0, 3, 1, 2) for view in views]
    batch = lending()([(images, 0) for images in apart([view.numpy() for view in views])])[0]
    assert [view.images.data_ptr() for view in batch] == [view.data_ptr() for view in views], "none is copied"
    first, second = map(received, batch)
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])
    del first
    assert filled()[0] != address
    assert torch.equal(second, expected[1])
    del second
    assert filled()[0] == address


def test_memory_that_is_too_small_makes_room() -> None:
    """With `Global(shapes=...)`, the first batches may be those of the smallest shape."""
    small = [received(lent(taken())) for _ in range(SHARED_IMAGES.kept)]
    small.clear()
    large = SHARED_IMAGES.take((5, *SHAPE[1:])).permute(0, 3, 1, 2)
    address = large.data_ptr()
    received(lent(large))
    assert SHARED_IMAGES.take((4, *SHAPE[1:])).data_ptr() == address


def test_memory_of_a_batch_that_is_not_shared_is_not_reused() -> None:
    """A function of the user may send images on as they are."""
    images = taken()
    assert Collate(collate_fn=list)(parts(images))
    pieces = [SHARED_IMAGES.take(SHAPE).data_ptr() for _ in range(3)]
    assert images.data_ptr() not in pieces


def _doubled(samples: list[Any]) -> Any:
    images, labels = Collate()(samples)
    return images.float() * 2, labels


@built
def test_a_function_of_the_user_gets_tensors_of_collate(flowers: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 4, "image_transform": random_resized_crop((20, 24)), "seed": 1}
    with path_taken(COMPILED):
        doubled = torch_loader(flowers["train"], workers=1, collate_fn=_doubled, **options)
        alone = torch_loader(flowers["train"], workers=0, **options)
        for (images, _), (expected, _) in zip(doubled, alone, strict=True):
            assert torch.equal(images, expected.float() * 2)


def test_larger_memory_is_used_for_a_smaller_batch() -> None:
    received(lent(taken()))
    images = SHARED_IMAGES.take((1, *SHAPE[1:])).permute(0, 3, 1, 2).fill_(9)
    assert images.untyped_storage().nbytes() > torch.Size(SHAPE).numel()
    assert torch.equal(received(lent(images)), images)


@built
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long), "forkserver"])
def test_batches_that_are_kept_keep_their_images(flowers: Dataset, method: str) -> None:
    """With each way to start workers, the compiled module makes the batches of a loader without any."""
    options: dict[str, Any] = {"batch_size": 4, "image_transform": random_resized_crop((20, 24)), "seed": 1}
    with path_taken(COMPILED):
        loader = torch_loader(flowers["train"], workers=Workers(1, start_method=method), **options)
        alone = torch_loader(flowers["train"], workers=0, **options)
        for _ in range(2):
            held = [images for images, _ in loader]
            assert all(torch.equal(mine, images) for mine, (images, _) in zip(held, alone, strict=True))
            assert len({images.data_ptr() for images in held}) == len(held) > 3


def test_views_of_worker_processes_are_not_copied(flowers: Dataset) -> None:
    """After the first batch, which tells how large they are, the views of a batch lie one behind the other."""
    options: dict[str, Any] = {"batch_size": 4, "views": [crop(16), crop((20, 24))], "seed": 1}
    loader = torch_loader(flowers["train"], workers=Workers(1, processes=True), **options)
    alone = torch_loader(flowers["train"], workers=0, **options)
    for kept in range(2):
        held = [(views[kept], views[1].data_ptr() - views[0].data_ptr()) for views, _ in loader]
        assert {apart for _, apart in held[1 - kept :]} == {4 * 16 * 16 * 3}
        assert all(torch.equal(mine, views[kept]) for (mine, _), (views, _) in zip(held, alone, strict=True))

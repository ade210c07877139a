"""Views on a device, by plain PyTorch: the pixels of `interpolate`, at their place in the batch."""

import numpy as np
import pytest
import torch

from shardfeed.pipelines.torch.encoded import resize_views

from resize_cases import DTYPES, assert_near, interpolated, made, some_views


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_window_is_resized_as_by_interpolate(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    for turn in range(12):  # each side with each scale
        views = some_views(rng, 5, longest=(1, 7, 40, 225)[turn % 4], shrink=20)
        scale = (None, 0.017, 1.3)[turn % 3]
        found = made(resize_views, views, dtype, scale=scale)
        assert_near(found, interpolated(views, torch.float64), scale)
        if scale is None and dtype == torch.uint8:
            assert (found.int() - interpolated(views, torch.uint8).int()).abs().max() <= 1


def test_a_window_is_mirrored_within_its_content() -> None:
    image = torch.arange(3 * 3 * 4, dtype=torch.uint8).reshape(3, 3, 4)
    place = torch.tensor([[3, 4, 1, 1, 2, 3, 1, 2, 2, 3, 1]], dtype=torch.int32)
    out = torch.empty((1, 3, 4, 6), dtype=torch.uint8).to(memory_format=torch.channels_last)
    resize_views([image], place, out, fill=9, scale=None, shift=None)
    assert out[0, 0].tolist() == [[9, 9, 9, 9, 9, 9], [9, 9, 7, 6, 5, 9], [9, 9, 11, 10, 9, 9], [9, 9, 9, 9, 9, 9]]
    assert out[0, 2, 1].tolist() == [9, 9, 31, 30, 29, 9]
    scale, shift = torch.tensor([2.0, 1, 1]), torch.tensor([10.0, 0, 0])
    resize_views([image], place, out, fill=9, scale=scale, shift=shift)
    assert out[0, :, 1].tolist() == [[28, 28, 24, 22, 20, 28], [9, 9, 19, 18, 17, 9], [9, 9, 31, 30, 29, 9]]


def test_an_image_of_another_size_is_refused() -> None:
    views = some_views(np.random.default_rng(2), 3)
    views.images[1] = torch.zeros((3, 50, 70), dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"images\[1\]: got \[3, 50, 70\], expected \[3, "):
        made(resize_views, views, torch.float32)


def test_a_batch_may_be_empty() -> None:
    none = torch.empty((0, 3, 8, 8), dtype=torch.uint8)
    resize_views([], torch.empty((0, 11), dtype=torch.int32), none, fill=0, scale=None, shift=None)

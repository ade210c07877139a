"""Edits of a batch of images on any device: by a kernel, or by PyTorch's operations."""

from importlib.util import find_spec

from torch import Tensor

from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.torch.edit_operations import edit_with_operations


def edit_batch(images: Tensor, edits: Edits) -> Tensor:
    """The images after their edits. `images`: uint8 [k, 3, height, width], which may be changed; any memory format.

    On a CUDA device by kernels, if Triton is installed. The pixels are the same in any case.
    """
    if images.is_cuda and len(images) and find_spec("triton") is not None:
        from shardfeed.pipelines.torch.edit_kernel import edit_with_kernel

        return edit_with_kernel(images, edits)
    return edit_with_operations(images, edits)

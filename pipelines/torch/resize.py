"""The views of a batch of decoded images, on the device where they are: cropped, resized, mirrored, padded, normalised.

The filter is the triangle of `torch.nn.functional.interpolate(mode="bilinear", antialias=True)`. On a CUDA device one
kernel does all of it (`resize_kernel`); elsewhere it is a few operations of PyTorch for each image.
"""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import interpolate, pad


def resize_views(
    images: Sequence[Tensor], places: Tensor, out: Tensor, fill: int, scale: Tensor | None, shift: Tensor | None
) -> None:
    """Fill `out` with what is to be seen of some images: value * scale + shift, computed in float32.

    On a CUDA device the work is queued on the current stream, and nothing waits for it.

    Args:
        images: k uint8 tensors [3, height, width], 0 to 255, with any strides, on the device of `out`.
        places: int32 [k, 11] on the CPU: see `Packed`. Windows are within their image, contents within the target, and
            both have at least one pixel.
        out: [k, 3, height, width] in channels-last memory: uint8 (rounded to the nearest, and clamped to 0..255),
            float16, bfloat16 or float32.
        fill: the value around the content, 0 to 255 as in the images.
        scale, shift: float32 [3] on the device. None: values stay 0 to 255.

    Raises:
        ValueError: if an image does not have the size that its place gives.
        ModuleNotFoundError: on a CUDA device without Triton.
    """
    if not len(images):
        return
    for at, (image, size) in enumerate(zip(images, places[:, :2].tolist(), strict=True)):
        if list(image.shape) != [3, *size]:  # the kernel would read what is not its own
            raise ValueError(f"images[{at}]: got {list(image.shape)}, expected {[3, *size]}")
    if out.is_cuda:
        from shardfeed.pipelines.torch.resize_kernel import resize_with_kernel

        resize_with_kernel(images, places, out, fill, scale, shift)
        return
    for image, place, view in zip(images, places.tolist(), out, strict=True):
        _, _, top, left, tall, wide, content_top, content_left, content_tall, content_wide, mirrored = place
        window = image[:, top : top + tall, left : left + wide]
        content = _resized(window.float(), content_tall, content_wide)
        padding = (content_left, view.shape[2] - content_left - content_wide)
        padding += (content_top, view.shape[1] - content_top - content_tall)
        seen = pad(content.flip(2) if mirrored else content, padding, value=fill)
        if scale is not None and shift is not None:
            seen = seen * scale[:, None, None] + shift[:, None, None]
        view.copy_(seen if view.is_floating_point() else (seen + 0.5).clamp(0, 255))


def _resized(pixels: Tensor, height: int, width: int) -> Tensor:
    """Resize pixels, float32 [3, h, w], to [3, height, width]."""
    if height > 1 == width:  # PyTorch 2.13 fills a column with its first row, and resizes a row rightly
        return _resized(pixels.mT, width, height).mT
    return interpolate(pixels[None], (height, width), mode="bilinear", antialias=True)[0]

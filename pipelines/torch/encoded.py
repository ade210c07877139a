"""Images of a batch as bytes, which the device that they go to decodes, crops, resizes and normalises.

On a CUDA GPU, TorchCodec decodes the JPEGs of a batch on the GPU's JPEG engine (nvJPEG), and one kernel does the rest.
Elsewhere libjpeg decodes on the CPU, to the same pixels, and a few operations of PyTorch for each image do the rest.
The filter is the triangle of `interpolate(mode="bilinear", antialias=True)`. docs/gpu-decoding.md says what differs
from other loaders.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, get_args

import numpy as np
import torch
from torch.nn.functional import interpolate, pad

from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.view import cropped
from shardfeed.pipelines.decoding.batch import Decode
from shardfeed.pipelines.decoding.packed import Packed
from shardfeed.pipelines.decoding.pixels import plan_view
from shardfeed.pipelines.torch.edits import edit_batch
from shardfeed.pipelines.torch.shared_images import tensor_of
from shardfeed.pipelines.windows import Window
from shardfeed.schema import ENCODED
from shardfeed.user_warnings import warn_user

_TORCHCODEC = (0, 17)  # the first that waits for its stream: docs/design/012-batches.md
DECODED = 256 << 20  # bytes of decoded images at once on a device; a batch with more is decoded in parts


class EncodedImages:
    """The images of a batch as bytes, in batches of loaders with `decode="cuda"`; `to` makes the tensor of them.

    `shape`: that of the tensor, [b, 3, height, width]. `to_device` calls `to` ahead of the use, in a thread; trainers
    that move batches to the GPU themselves, such as Lightning, call it, too.

    Example:
        for images, labels in torch_loader(data["train"], batch_size=256, image_size=224, decode="cuda"):
            loss = criterion(model(images.to("cuda") / 255), labels.to("cuda"))
    """

    def __init__(self, packed: Packed, crop: Crop) -> None:
        self.shape = torch.Size((len(packed.ends), 3, *crop.target))
        self._data, self._fill = tensor_of(packed.data), crop.fill
        self._ends, self._is_jpeg, self._places = packed.ends, packed.is_jpeg, packed.places
        self._edits = packed.edits

    def __len__(self) -> int:
        return self.shape[0]

    def pin_memory(self) -> "EncodedImages":
        """The same in pinned memory, as PyTorch calls it."""
        pinned = copy.copy(self)
        pinned._data = self._data.pin_memory()
        return pinned

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> torch.Tensor:
        """Decode the images there: uint8 [b, 3, height, width] in the channels-last memory format.

        On a GPU this waits for the JPEG engine and for what is queued on the current stream, not on others;
        `non_blocking` is accepted as for tensors.
        """
        del non_blocking
        return self.made(torch.device(device), torch.uint8)

    def cuda(self, device: torch.device | str | int = "cuda", *, non_blocking: bool = False) -> torch.Tensor:
        """As `to` a GPU; by default the current one."""
        return self.to(device, non_blocking=non_blocking)

    def made(
        self, device: torch.device, dtype: torch.dtype, factors: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """As `to`, in any dtype. `factors`: float32 [3] each, there: the images are pixel * scale + shift."""
        if self._edits is not None:
            edited = edit_batch(self._seen(device, torch.uint8, None), self._edits)
            return edited if dtype == torch.uint8 else scaled(edited, dtype, factors)
        return self._seen(device, dtype, factors)

    def _seen(
        self, device: torch.device, dtype: torch.dtype, factors: tuple[torch.Tensor, torch.Tensor] | None
    ) -> torch.Tensor:
        """As `made`, before the edits."""
        count, channels, height, width = self.shape
        made = torch.empty((count, height, width, channels), dtype=dtype, device=device).permute(0, 3, 1, 2)
        sizes = 3 * self._places[:, 0].astype(np.int64) * self._places[:, 1]
        starts = np.flatnonzero(np.diff((sizes.cumsum() - sizes) // DECODED, prepend=-1)).tolist()
        for part in map(slice, starts, [*starts[1:], count]):
            rows, places = range(count)[part], torch.from_numpy(self._places[part])
            # The images have no name here, so that their memory is free before the next are decoded.
            resize_views(self._images(rows, made.device), places, made[part], self._fill, *(factors or (None, None)))
        return made

    def _images(self, rows: range, device: torch.device) -> list[torch.Tensor]:
        """Some of the images, uint8 [3, height, width], on a device with an index, else a decoder may take GPU 0."""
        parts = self._data.split(np.diff(self._ends, prepend=0).tolist())
        jpegs = [row for row in rows if self._is_jpeg[row]]
        images = dict(zip(jpegs, _decoded([parts[row] for row in jpegs], device), strict=True))
        for row in {*rows} - images.keys():
            pixels = parts[row].view(*self._places[row, :2].tolist(), 3)
            images[row] = pixels.to(device, non_blocking=True).permute(2, 0, 1)
        return [images[row] for row in rows]


@dataclass(slots=True)
class EncodedImage:
    """One of the images of a batch, `row`, for `batch_of`. `nbytes`: of memory."""

    batch: EncodedImages
    row: int
    nbytes: int


def scaled(images: torch.Tensor, dtype: torch.dtype, factors: tuple[torch.Tensor, torch.Tensor] | None) -> torch.Tensor:
    """Images [b, channels, height, width] as pixel * scale + shift, in another dtype. `factors`: [channels] each."""
    if factors is None:
        return images.to(dtype)
    scale, shift = (values.reshape(1, -1, 1, 1) for values in factors)
    return torch.addcmul(shift, images, scale).to(dtype)


def parts_of(packed: Packed, crop: Crop) -> list[EncodedImage]:
    """The images of a batch one by one."""
    batch = EncodedImages(packed, crop)
    return [EncodedImage(batch, *each) for each in enumerate(np.diff(packed.ends, prepend=0).tolist())]


def batch_of(parts: Sequence[EncodedImage]) -> EncodedImages:
    """The batch of which these are all images, in order. Raises UsageError for others."""
    batch = parts[0].batch
    if [(part.batch, part.row) for part in parts] != [(batch, row) for row in range(len(batch))]:
        problem = "got samples that were not made together, as another loader drew them one by one"
        raise UsageError("decode", problem, 'iterate over the loader itself, or leave out decode="cuda"')
    return batch


def check_decode(decode: Decode) -> None:
    """Raise UsageError for another word, or without a GPU; MissingExtraError without the packages for it."""
    if decode not in get_args(Decode):
        raise UsageError("decode", f"got {decode!r}, expected one of {', '.join(get_args(Decode))}")
    if decode != "cuda":
        return
    if not torch.cuda.is_available():
        remedy = 'leave it out, or give decode="like_cuda" for the same pixels from the CPU'
        raise UsageError("decode", 'got "cuda", but PyTorch finds no CUDA GPU here', remedy)
    for module, project in (("torchcodec.decoders", "TorchCodec"), ("triton", "Triton")):
        try:
            import_module(module)
        except (ImportError, OSError, RuntimeError) as error:  # its libraries do not fit the PyTorch that is here
            problem = f"{project} cannot be imported: {str(error).strip().splitlines()[0]}"
            raise MissingExtraError('decode="cuda"', problem, "pip install 'shardfeed[gpu]'") from error
    found = version("torchcodec")
    if tuple(map(int, found.split(".")[:2])) < _TORCHCODEC:
        problem = f"got TorchCodec {found}, expected 0.17 or newer: others overwrite images that a step still reads"
        raise UsageError("decode", problem, "pip install 'torchcodec>=0.17'")


def _decoded(jpegs: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Decode JPEGs, uint8 [n] on the CPU, to uint8 [3, height, width] on the device."""
    if device.type != "cuda" or not jpegs:
        return [_by_libjpeg(jpeg).to(device) for jpeg in jpegs]
    decode: Any = import_module("torchcodec.decoders").decode_jpeg
    try:
        return decode(list(jpegs), device=device, mode="RGB")  # gray ones, too
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if len(jpegs) > 1:  # one is refused: which?
            return [image for jpeg in jpegs for image in _decoded([jpeg], device)]
        text = f"an image that the GPU's JPEG decoder refuses is decoded on the CPU: {error}"
        warn_user(text, RuntimeWarning)
        return [_by_libjpeg(jpegs[0]).to(device)]


def _by_libjpeg(jpeg: torch.Tensor) -> torch.Tensor:
    """Decode a JPEG on the CPU to the same pixels. Raises IntegrityError if it is damaged."""
    record = {ENCODED: jpeg.numpy().tobytes()}
    planned = plan_view(record, lambda *size: cropped(size, Window(0, 0, *size), size), like_cuda=True)
    return torch.from_numpy(planned.pixels()).permute(2, 0, 1)


def resize_views(
    images: Sequence[torch.Tensor],
    places: torch.Tensor,
    out: torch.Tensor,
    fill: int,
    scale: torch.Tensor | None,
    shift: torch.Tensor | None,
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


def _resized(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Resize pixels, float32 [3, h, w], to [3, height, width]."""
    if height > 1 == width:  # PyTorch 2.13 fills a column with its first row, and resizes a row rightly
        return _resized(pixels.mT, width, height).mT
    return interpolate(pixels[None], (height, width), mode="bilinear", antialias=True)[0]

"""Blurred images."""

from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Fraction, Range, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits
from shardfeed.pipelines.augment.ranges import Span, ordered, within

Sigma = Annotated[float, Range(0.01, 100)]


@checked
def gaussian_blur(
    kernel_size: Annotated[int, Range(1, 601)], sigma: Sigma | tuple[Sigma, Sigma] = (0.1, 2.0), *, p: Fraction = 1.0
) -> "GaussianBlur":
    """Blur an image by a Gaussian: torchvision's GaussianBlur.

    Weights beyond three sigma, 0.3 % of all, are left out. Beyond the border the image is mirrored.

    Args:
        kernel_size: width and height of the filter in pixels, odd, 1 to 601; 23 in SimCLR, for crops of 224 pixels.
        sigma: in pixels, 0.01 to 100, or (least, most), drawn uniformly.
        p: how often an image is blurred, 0 to 1.

    Raises UsageError for an even size, a value out of range, or a range that is empty.

    Example:
        augment = [gaussian_blur(23, (0.1, 2.0), p=0.5)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    if kernel_size % 2 == 0:
        raise UsageError("kernel_size", f"got {kernel_size}, expected an odd number", f"give {kernel_size + 1}")
    span = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    return GaussianBlur(kernel_size, ordered("sigma", span), p)


@dataclass(frozen=True, repr=False)
class GaussianBlur(Augmentation):
    """An augmentation as `gaussian_blur` makes it."""

    kernel_size: int
    sigma: Span
    p: float

    def edits(self, draws: Draws) -> Edits:
        coin, number = draws.uniform(2).T
        return Edits.of(Edit.BLUR, within(self.sigma, number), self.kernel_size // 2, count=len(draws)).where(
            coin < self.p
        )

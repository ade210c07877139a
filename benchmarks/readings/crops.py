"""The random resized crop of the contenders that bring none of their own: torchvision's rule, with Pillow or OpenCV.

Both cut, resize and flip as their users do: Pillow resizes out of the decoded image (`box=`, with its antialiasing),
OpenCV with INTER_LINEAR. Both scale by 2, 4 or 8 while they decode where the window stays at least the target's size.
"""

import io
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

Window = tuple[int, int, int, int]  # top, left, height, width in pixels
Crop = Callable[[bytes, int], "np.ndarray[Any, Any]"]  # of a JPEG, to uint8 [size, size, 3]

_AREA, _RATIO, _ATTEMPTS = (0.08, 1.0), (3 / 4, 4 / 3), 10
PACKAGES = {"pillow": "pillow", "opencv": "opencv-python-headless"}
_START_OF_FRAME = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


def crop_of(decoder: str) -> Crop:
    """`decoder`: "pillow" or "opencv", which is told to use no threads of its own: the loader has them."""
    if decoder == "pillow":
        return pillow_crop
    import cv2

    cv2.setNumThreads(0)
    return opencv_crop


def random_window(height: int, width: int) -> Window:
    """Draw a window of a `height` x `width` image from Python's global generator, which loaders seed in each worker."""
    low, high = math.log(_RATIO[0]), math.log(_RATIO[1])
    for _ in range(_ATTEMPTS):
        area = height * width * random.uniform(*_AREA)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    w, h = min(width, round(height * _RATIO[1])), min(height, round(width / _RATIO[0]))
    return (height - h) // 2, (width - w) // 2, h, w


def scale_of(window: Window, size: int) -> int:
    """1, 2, 4 or 8: by how much to shrink while decoding."""
    return next((scale for scale in (8, 4, 2) if min(window[2:]) >= scale * size), 1)


def pillow_crop(encoded: bytes, size: int) -> "np.ndarray[Any, Any]":
    from PIL import Image

    image = Image.open(io.BytesIO(encoded))
    width, height = image.size
    window = random_window(height, width)
    scale = scale_of(window, size)
    if scale > 1:
        image.draft("RGB", (width // scale, height // scale))
    top, left, h, w = (side / scale for side in window)
    box = (left, top, min(left + w, image.size[0]), min(top + h, image.size[1]))
    image = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=box)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def opencv_crop(encoded: bytes, size: int) -> "np.ndarray[Any, Any]":
    import cv2

    window = random_window(*jpeg_shape(encoded))
    scale = scale_of(window, size)
    flags = {1: cv2.IMREAD_COLOR, 2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4}
    flag = flags.get(scale, cv2.IMREAD_REDUCED_COLOR_8) | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flag)
    top, left, height, width = (side // scale for side in window)
    image = cv2.resize(image[top : top + height, left : left + width], (size, size), interpolation=cv2.INTER_LINEAR)
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)  # last, where the image is small


def jpeg_shape(encoded: bytes) -> tuple[int, int]:
    """(height, width) in pixels, from the header alone."""
    at = 2
    while encoded[at + 1] not in _START_OF_FRAME:
        at += 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
    return int.from_bytes(encoded[at + 5 : at + 7], "big"), int.from_bytes(encoded[at + 7 : at + 9], "big")

"""Transforms for the tests of PyTorch's loaders, in a module that workers which are spawned can import."""

from collections.abc import Mapping
from typing import Any


def opencv_threads(record: Mapping[str, Any], seed: int) -> int:
    import cv2

    return cv2.getNumThreads()

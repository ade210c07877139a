"""Transforms for the tests of PyTorch's loaders, in a module that workers which are spawned can import."""

import os
import time
from collections.abc import Mapping
from typing import Any


def slow_pid(record: Mapping[str, Any], seed: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def opencv_threads(record: Mapping[str, Any], seed: int) -> int:
    import cv2

    return cv2.getNumThreads()

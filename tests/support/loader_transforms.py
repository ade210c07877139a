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


class TwoWordsError(Exception):
    """It cannot be made of one text, as DataLoader makes errors of workers again."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one, other)


def fails_at_seven(record: Mapping[str, Any], seed: int) -> int:
    """The label, but for the image whose name has a 7."""
    if b"7" in record["image/filename"]:
        raise KeyError("no such cell")
    return int(record["image/class/label"])


def fails_with_two_words(record: Mapping[str, Any], seed: int) -> int:
    raise TwoWordsError("no", "cell")


def fails_for_all(image: Any) -> Any:
    raise KeyError("no such cell")


class Fails:
    """A transform, and not a function."""

    def __call__(self, *_: Any) -> Any:
        raise KeyError("no such cell")

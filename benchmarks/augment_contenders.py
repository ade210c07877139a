"""Batches of an image folder with a recipe, as other libraries make them, for in_turn.py: counts images for ever.

    augment_contenders.py FOLDER COUNTER OPTIONS

OPTIONS, as JSON: `contender`, "torchvision", "albumentations", "kornia" or "dali", and `recipe`, "plain",
"torchvision" or "simclr". Each makes random crops of 224 pixels, flipped half of the time, in batches of 64, with two
processes or threads. Kornia augments batches that torchvision has cropped; DALI runs on the CPU.
"""

import json
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

BATCH, SIZE = 64, 224


def torchvision_steps(recipe: str) -> list[Any]:
    from torchvision.transforms import v2

    jitter = v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8)
    return {
        "plain": [],
        "torchvision": [v2.TrivialAugmentWide(), v2.RandomErasing(0.1)],
        "simclr": [jitter, v2.RandomGrayscale(0.2), v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], 0.5)],
    }[recipe]


def torchvision(folder: str, recipe: str, workers: int = 2) -> Iterator[Any]:
    import torch
    from torchvision import datasets
    from torchvision.transforms import v2

    crop = [v2.ToImage(), v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]
    samples = datasets.ImageFolder(folder, v2.Compose([*crop, *torchvision_steps(recipe)]))
    loader = torch.utils.data.DataLoader(
        samples, BATCH, shuffle=True, num_workers=workers, drop_last=True, persistent_workers=True
    )
    while True:
        for images, _ in loader:
            yield images


def albumentations(folder: str, recipe: str) -> Iterator[Any]:
    import albumentations as A
    import cv2
    import numpy as np
    import torch
    from albumentations.pytorch import ToTensorV2
    from torchvision import datasets

    cv2.setNumThreads(0)
    steps = {
        "plain": [],
        "torchvision": None,  # it has no TrivialAugment
        "simclr": [
            A.ColorJitter((0.2, 1.8), (0.2, 1.8), (0.2, 1.8), (-0.2, 0.2), p=0.8),
            A.ToGray(p=0.2),
            A.GaussianBlur((23, 23), (0.1, 2.0), p=0.5),
        ],
    }[recipe]
    if steps is None:
        sys.exit("albumentations has no TrivialAugment")
    augment = A.Compose([A.RandomResizedCrop((SIZE, SIZE)), A.HorizontalFlip(), *steps, ToTensorV2()])
    samples = datasets.ImageFolder(folder, lambda image: augment(image=np.asarray(image))["image"])
    loader = torch.utils.data.DataLoader(
        samples, BATCH, shuffle=True, num_workers=2, drop_last=True, persistent_workers=True
    )
    while True:
        for images, _ in loader:
            yield images


def kornia(folder: str, recipe: str) -> Iterator[Any]:
    import kornia.augmentation as K
    import torch

    torch.set_num_threads(2)
    jitter = K.ColorJitter(0.8, 0.8, 0.8, 0.2, p=0.8)
    steps = {
        "plain": [],
        "torchvision": [K.auto.TrivialAugment(), K.RandomErasing(p=0.1)],
        "simclr": [jitter, K.RandomGrayscale(p=0.2), K.RandomGaussianBlur((23, 23), (0.1, 2.0), p=0.5)],
    }[recipe]
    augment = torch.nn.Sequential(*steps)
    for images in torchvision(folder, "plain"):
        yield augment(images / 255) if steps else images


def dali(folder: str, recipe: str) -> Iterator[Any]:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.auto_aug import trivial_augment

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, enable_conditionals=True)
    def pipeline() -> Any:
        files, _ = fn.readers.file(file_root=folder, random_shuffle=True)
        images = fn.decoders.image_random_crop(files, random_area=(0.08, 1.0))
        images = fn.resize(images, size=(SIZE, SIZE), antialias=True)
        images = fn.flip(images, horizontal=fn.random.coin_flip())
        if recipe == "torchvision":
            images = trivial_augment.trivial_augment_wide(images)
        if recipe == "simclr":
            factors = [fn.random.uniform(range=(0.2, 1.8)) for _ in range(3)]
            images = fn.color_twist(
                images,
                brightness=factors[0],
                contrast=factors[1],
                saturation=factors[2],
                hue=fn.random.uniform(range=(-72.0, 72.0)),
            )
            images = fn.gaussian_blur(images, window_size=23, sigma=fn.random.uniform(range=(0.1, 2.0)))
        return fn.cast(images, dtype=types.UINT8)

    made = pipeline()
    made.build()
    while True:
        yield made.run()


def main() -> None:
    folder, counter, given = sys.argv[1:]
    options = json.loads(given)
    counted = mmap.mmap(os.open(counter, os.O_RDWR), 8)
    contenders = {"torchvision": torchvision, "albumentations": albumentations, "kornia": kornia, "dali": dali}
    images = 0
    for _ in contenders[options["contender"]](folder, options["recipe"]):
        images += BATCH
        counted[:8] = struct.pack("q", images)


if __name__ == "__main__":
    main()

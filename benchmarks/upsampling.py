"""Differences that decode="cuda" makes: `python benchmarks/upsampling.py pixels`, or `accuracy`, of a small network.

A GPU repeats subsampled colours, where the CPU interpolates them; and the CPU lets the decoder shrink large images.
docs/gpu-decoding.md has the tables. Needs PyTorch, and no GPU: "like_cuda" makes the same pixels on the CPU.
"""

import argparse
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from photos import photo
from PIL import Image, ImageDraw
from torch import nn

from shardfeed.formats.example import encode
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding.batch import BatchDecoder
from shardfeed.pipelines.torch.images import shrunk
from shardfeed.schema import ENCODED, Feature, Schema

FEATURES = {ENCODED: Feature("bytes")}
KINDS: dict[str, dict[str, Any]] = {
    "4:2:0, quality 75": {"subsampling": "4:2:0", "quality": 75},
    "4:2:0, quality 92": {"subsampling": "4:2:0", "quality": 92},
    "4:2:2, quality 92": {"subsampling": "4:2:2", "quality": 92},
    "4:4:4, quality 92": {"subsampling": "4:4:4", "quality": 92},
    "gray": {"quality": 92},
}
PHOTOS = 100
PETALS = (4, 5, 6, 7, 8)  # a flower's class
TRAINED, TESTED, EPOCHS, BATCH = 4000, 4000, 8, 50
SIDE = 32  # pixels of the network's input


def made(files: list[bytes], crop: Crop, like_cuda: bool, epoch: int = 0) -> np.ndarray:
    """The crops of some JPEGs, uint8 [k, height, width, 3]."""
    decode = BatchDecoder(crop, Schema(FEATURES), {"jpeg"}, 2, shrink=shrunk, like_cuda=like_cuda)
    seeds = np.stack([np.arange(len(files)), np.full(len(files), epoch)], 1)
    return decode([encode(FEATURES, {ENCODED: data}) for data in files], seeds).images


def jpeg(image: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def print_pixels() -> None:
    """Mean and largest difference of the two, in levels."""
    crops = {"as decoded": CenterCrop((375, 500), 1.0), "to 224 x 224": CenterCrop((224, 224), 1.0)}
    crops["to 112 x 112"] = CenterCrop((112, 112), 1.0)
    print("| photos of 500 x 375 |", *(f"{name}: mean | max |" for name in crops))
    for kind, options in KINDS.items():
        pictures = (photo(number, (500, 375)) for number in range(PHOTOS))
        files = [jpeg(image.convert("L" if kind == "gray" else "RGB"), **options) for image in pictures]
        cells = []
        for crop in crops.values():
            one, other = (made(files, crop, like_cuda).astype(np.int16) for like_cuda in (False, True))
            apart = np.abs(one - other)
            cells.append(f"{apart.mean():.2f} | {apart.max()} |")
        print(f"| {kind} |", *cells)


def flower(draw: np.random.Generator, petals: int, side: int, only_colour: bool) -> Image.Image:
    """A flower on a ground of another colour, or of another colour and the same brightness, with noise."""
    colours = draw.integers(50, 206, (2, 3))
    while np.abs(colours[0, 1:] - colours[1, 1:]).sum() < 60:
        colours = draw.integers(50, 206, (2, 3))
    if only_colour:
        colours[:, 0] = 128
    ground, petal = (tuple(colour.tolist()) for colour in colours)
    scale = 4  # drawn larger, for smooth edges
    image = Image.new("YCbCr", (scale * side, scale * side), ground)
    x, y = draw.uniform(0.42, 0.58, 2) * scale * side
    radius, depth, turn = draw.uniform(0.25, 0.35) * scale * side, draw.uniform(0.15, 0.3), draw.uniform(0, 2 * np.pi)
    angles = np.linspace(0, 2 * np.pi, 200)
    radii = radius * (1 + depth * np.cos(petals * angles + turn))
    ImageDraw.Draw(image).polygon(
        list(zip(x + radii * np.cos(angles), y + radii * np.sin(angles), strict=True)), fill=petal
    )
    pixels = np.array(image.resize((side, side), Image.Resampling.BOX)).astype(np.float64)
    pixels[:, :, 0] += draw.normal(0, 12, (side, side))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8), "YCbCr").convert("RGB")


def flowers(count: int, seed: int, side: int, only_colour: bool) -> tuple[list[bytes], torch.Tensor]:
    """JPEGs, 4:2:0 of quality 75, and their classes, int64 [count]."""
    draw = np.random.default_rng([seed, side])
    labels = np.arange(count) % len(PETALS)
    files = [jpeg(flower(draw, PETALS[label], side, only_colour), quality=75) for label in labels]
    return files, torch.from_numpy(labels)


def ready(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 64 - 2


def trained(
    files: list[bytes], labels: torch.Tensor, like_cuda: bool, seed: int
) -> Callable[[np.ndarray], torch.Tensor]:
    """A network trained for EPOCHS: from images to classes."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, len(PETALS)))
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.05)
    steps = EPOCHS * len(files) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    crop = RandomCrop((SIDE, SIDE), RandomWindow((0.8, 1.0), (0.9, 1.1)), True)
    for epoch in range(EPOCHS):
        images = ready(made(files, crop, like_cuda, epoch + seed * EPOCHS))
        for rows in torch.randperm(len(files)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    return lambda images: torch.no_grad()(model)(ready(images)).argmax(1)


def print_accuracies(seeds: int) -> None:
    """Accuracies in percent: mean and standard deviation over seeds; and of the difference of one network's two."""
    print("| flowers | trained with | evaluated with cpu | with like_cuda | difference |")
    for side, only_colour in ((128, False), (SIDE, False), (128, True), (SIDE, True)):
        test, answers = flowers(TESTED, 0, side, only_colour)
        seen = [made(test, CenterCrop((SIDE, SIDE), 1.0), like_cuda) for like_cuda in (False, True)]
        for like_cuda in (False, True):
            found = []
            for seed in range(1, seeds + 1):
                predict = trained(*flowers(TRAINED, seed, side, only_colour), like_cuda, seed)
                found.append([100 * (predict(images) == answers).double().mean().item() for images in seen])
            each = np.array(found)
            cells = [*each.T, each[:, 1] - each[:, 0]]
            name = f"{side} x {side}{', of one brightness' if only_colour else ''}"
            figures = " | ".join(f"{cell.mean():.2f} ± {cell.std(ddof=1):.2f}" for cell in cells)
            print(f"| {name} | {'like_cuda' if like_cuda else 'cpu'} | {figures} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="What repeated colours change: pixels, or a network's accuracy.")
    parser.add_argument("what", choices=["pixels", "accuracy"])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    if args.what == "pixels":
        print_pixels()
    else:
        print_accuracies(args.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

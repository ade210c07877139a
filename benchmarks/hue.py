"""Hue as a rotation, as ours, beside hue in HSV, as torchvision's: `python benchmarks/hue.py hue`, or `petals`.

A small network learns flowers, whose class is the number of petals and their hue, or the petals alone, with
`color_jitter(0.4, 0.4, 0.4)` and a hue that turns by up to a tenth of the circle, or not at all. A table has the
accuracy on flowers that were not seen, in percent, mean and standard deviation over seeds, and the difference from HSV
of the networks of one seed. docs/augmentations.md has it. It takes six minutes of one core.
"""

import argparse
import colorsys
import sys
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

from shardfeed.pipelines.augment import color_jitter
from shardfeed.pipelines.augment.augmentation import Augmentation, drawn_edits
from shardfeed.pipelines.augment.host import edit_image

PETALS, HUES = (3, 5, 8), 4  # each of both makes a class
SPREAD = 0.04  # of a hue within its class: standard deviation, as a share of the circle
TRAINED, TESTED, EPOCHS, BATCH = 2400, 2400, 15, 50
SIDE = 32  # pixels
TURN = 0.1  # at most, as a share of the circle
JITTER = color_jitter(0.4, 0.4, 0.4)

Changed = Callable[[np.ndarray, np.ndarray], np.ndarray]  # from images and their seeds to images


def flower(draw: np.random.Generator, petals: int, hue: float) -> np.ndarray:
    """A flower of this hue before any other colour, with noise: uint8 [SIDE, SIDE, 3]."""
    scale = 4  # drawn larger, for smooth edges
    colours = [
        colorsys.hsv_to_rgb(turn % 1, draw.uniform(0.3, 0.9), draw.uniform(0.3, 0.9)) for turn in (hue, draw.random())
    ]
    petal, ground = (tuple(round(255 * value) for value in colour) for colour in colours)
    image = Image.new("RGB", (scale * SIDE, scale * SIDE), ground)
    x, y = draw.uniform(0.42, 0.58, 2) * scale * SIDE
    radius, depth, turn = draw.uniform(0.25, 0.35) * scale * SIDE, draw.uniform(0.2, 0.4), draw.uniform(0, 2 * np.pi)
    angles = np.linspace(0, 2 * np.pi, 200)
    radii = radius * (1 + depth * np.cos(petals * angles + turn))
    outline = zip(x + radii * np.cos(angles), y + radii * np.sin(angles), strict=True)
    ImageDraw.Draw(image).polygon(list(outline), fill=petal)
    pixels = np.array(image.resize((SIDE, SIDE), Image.Resampling.BOX)) + draw.normal(0, 8, (SIDE, SIDE, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def flowers(count: int, seed: int, of_hue: bool) -> tuple[np.ndarray, torch.Tensor]:
    """Images, uint8 [count, SIDE, SIDE, 3], and their classes, int64 [count], which are of a hue or of any."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % (len(PETALS) * (HUES if of_hue else 1))
    hues = labels // len(PETALS) / HUES + draw.normal(0, SPREAD, count) if of_hue else draw.random(count)
    images = [flower(draw, PETALS[label % len(PETALS)], hue) for label, hue in zip(labels, hues, strict=True)]
    return np.stack(images), torch.from_numpy(labels)


def edited(images: np.ndarray, seeds: np.ndarray, augment: list[Augmentation]) -> np.ndarray:
    made, edits = images.copy(), drawn_edits(augment, seeds, (SIDE, SIDE))
    for row in range(len(made)):
        edit_image(made[row], edits, row)
    return made


def without_hue(images: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return edited(images, seeds, [JITTER])


def by_rotation(images: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return edited(without_hue(images, seeds), seeds, [color_jitter(hue=TURN)])


def in_hsv(images: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    turns = np.array([np.random.default_rng(pair.tolist()).uniform(-TURN, TURN) for pair in seeds])
    return turned_in_hsv(without_hue(images, seeds), turns)


def turned_in_hsv(images: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Turn hues by shares of the circle, float64 [k], at the same saturation and value."""
    values = images / 255
    most, least = values.max(-1), values.min(-1)
    chroma = most - least
    safe = np.where(chroma == 0, 1, chroma)
    red, green, blue = values.transpose(3, 0, 1, 2)
    sixths = np.where(
        most == red, (green - blue) / safe, np.where(most == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    )
    sixths = sixths + 6 * turns[:, None, None]
    channels = []
    for shift in (5, 3, 1):  # of red, green and blue
        place = (shift + sixths) % 6
        channels.append(most - chroma * np.clip(np.minimum(place, 4 - place), 0, 1))
    return np.rint(255 * np.stack(channels, -1)).astype(np.uint8)


CHANGES: dict[str, Changed] = {"HSV": in_hsv, "a rotation": by_rotation, "none": without_hue}


def ready(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 64 - 2


def accuracy(change: Changed, seed: int, of_hue: bool) -> float:
    """The accuracy of a network that was trained with a change of the images, in percent."""
    images, labels = flowers(TRAINED, seed, of_hue)
    unseen, answers = flowers(TESTED, 0, of_hue)
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, len(PETALS) * HUES))
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=EPOCHS * TRAINED // BATCH)
    for epoch in range(EPOCHS):
        seeds = np.stack([np.arange(TRAINED), np.full(TRAINED, seed * EPOCHS + epoch)], 1)
        inputs = ready(change(images, seeds))
        for rows in torch.randperm(TRAINED).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        return 100 * (model(ready(unseen)).argmax(1) == answers).double().mean().item()


def main() -> int:
    parser = argparse.ArgumentParser(description="Accuracy of a small network with hue as a rotation and in HSV.")
    parser.add_argument("classes", choices=["hue", "petals"])
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(1)
    of_hue, seeds = args.classes == "hue", range(1, args.seeds + 1)
    found = np.array([[accuracy(change, seed, of_hue) for change in CHANGES.values()] for seed in seeds])
    print("| hue | accuracy | difference from HSV |\n|---|---:|---:|")
    for name, each in zip(CHANGES, found.T, strict=True):
        cells = [f"{figures.mean():.2f} ± {figures.std(ddof=1):.2f}" for figures in (each, each - found[:, 0])]
        print(f"| {name} | {cells[0]} | {cells[1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

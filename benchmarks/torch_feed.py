"""A training loop fed by `to_device(torch_loader(...))` beside the same loop on one batch that is always there.

`python benchmarks/torch_feed.py DATASET` says the rate with the feed over the rate without: on a GPU if there is one.
On the CPU model and workers share the cores, so that it says what they cost, not whether the feed keeps up. Rounds
alternate; a round is `--steps` steps of each, timed from one end to the next, the device waited for.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import shardfeed
from shardfeed.pipelines.torch import to_device, torch_loader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Batch = tuple[torch.Tensor, torch.Tensor]


def residual_model(width: int, classes: int) -> nn.Module:
    """A residual network of some twenty convolutions, about a ResNet-18 for a width of 64."""

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()),
                *(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)),
            )
            self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(images) + self.skip(images))

    stages = [Block(width << max(0, n - 1), width << n, 2 if n else 1) for n in range(4)]
    again = [Block(width << n, width << n, 1) for n in range(4)]
    layers = [nn.Conv2d(3, width, 7, 4, 3, bias=False), *itertools.chain(*zip(stages, again, strict=True))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << 3, classes))


def training_step(model: nn.Module, device: torch.device) -> Callable[[Batch], None]:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(batch: Batch) -> None:
        images, labels = batch
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def seconds_a_step(batches: Iterator[Any], steps: int, step: Callable[[Batch], None], device: torch.device) -> float:
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    step(next(batches))
    wait()
    started = time.perf_counter()
    for _ in range(steps):
        step(next(batches))
    wait()
    return (time.perf_counter() - started) / steps


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure training steps, fed and not.")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--batch", type=int, default=256 if torch.cuda.is_available() else 16)
    parser.add_argument("--size", type=int, default=224 if torch.cuda.is_available() else 96)
    parser.add_argument("--width", type=int, default=64 if torch.cuda.is_available() else 16, help="of the model")
    parser.add_argument("--workers", type=int, help="of the loader (the CPUs granted)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    split = next(iter(shardfeed.open(args.dataset).values()))
    loader = torch_loader(split, batch_size=args.batch, image_size=args.size, start_step=0, workers=args.workers)
    fed = iter(to_device(loader, device, mean=MEAN, std=STD))
    constant = itertools.repeat(next(fed))
    model = residual_model(args.width, max(2, len(split.class_names))).to(device, memory_format=torch.channels_last)
    step = training_step(model, device)
    ratios = []
    for number in range(args.rounds + 1):
        pair = [seconds_a_step(batches, args.steps, step, device) for batches in (constant, fed)]
        name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        shown = f"{pair[0] * 1e3:.1f} ms per step on one batch, {pair[1] * 1e3:.1f} ms fed: {pair[0] / pair[1]:.3f}"
        print(f"{name}, round {number or 'of warming up'}: {shown}", file=sys.stderr)
        ratios += [pair[0] / pair[1]] if number else []
    print(f"rate with the feed over the rate without: {statistics.median(ratios):.3f} (of {args.rounds} rounds)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Training steps on a GPU, fed by `torch_loader` and by others: `python benchmarks/gpu.py PHOTOS FOLDER`.

PHOTOS is an image folder of JPEGs (photos.py draws one). FOLDER holds the two datasets, plain and seekable, which are
made where they are missing. A step trains one of torchvision's models in bfloat16 on random resized crops, flipped by
chance, normalised to float32. The images/s of each feed are divided by those of the same steps on one batch that stays
on the GPU: 1 where the GPU never waits. Rounds take all feeds in turn, the order reversed from round to round; the
first is not counted. It needs CUDA builds of torchvision and TorchCodec.

- `to_device`: `torch_loader` as in its documentation.
- "without to_device": the same loader, with `.to(device, non_blocking=True)` before the step.
- DataLoader: over the image folder with Pillow or OpenCV (readings/torch_folder.py), pinned, `.to(non_blocking=True)`.
- TorchCodec: a DataLoader of bytes; a batch is decoded on the GPU (nvJPEG), cropped and resized there (antialiased), on
  a stream of its own, ahead of the step.
"""

import argparse
import itertools
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "readings"))

from contender import photo_files  # isort: skip
from crops import random_window  # isort: skip
from torch_folder import Folder  # isort: skip

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, RandomSampler
from torch_loader import cpu_seconds
from torchcodec.decoders import decode_jpeg

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.pipelines.torch import random_resized_crop, to_device, torch_loader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEVICE = torch.device("cuda")
CONSTANT = "one batch, always there"
Feed = Iterator[tuple[torch.Tensor, torch.Tensor]]


class Encoded(Folder):
    """The bytes of each file, and its label."""

    def __init__(self, photos: Path) -> None:
        self.paths, self.labels = photo_files(photos)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.frombuffer(bytearray(Path(self.paths[index]).read_bytes()), dtype=torch.uint8), self.labels[index]


def joined(samples: list[tuple[Any, int]]) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """The bytes of all files as one tensor, which takes one shared memory file, their lengths, and the labels."""
    encoded, labels = zip(*samples, strict=True)
    return torch.cat(encoded), [len(each) for each in encoded], torch.tensor(labels)


def copied(loader: Iterable[Any]) -> Feed:
    """Copy each batch when it is used, and normalise it there."""
    mean, std = (torch.tensor(values, device=DEVICE).reshape(1, -1, 1, 1) * 255 for values in (MEAN, STD))
    for images, labels in loader:
        moved = images.to(DEVICE, non_blocking=True)
        if moved.shape[-1] == 3:
            moved = moved.permute(0, 3, 1, 2)
        yield (moved - mean) / std, labels.to(DEVICE, non_blocking=True)


def decoded_there(loader: Iterable[Any], size: int) -> Feed:
    """Decode on the GPU, one batch ahead of its use."""
    stream = torch.cuda.Stream()
    mean, std = (torch.tensor(values, device=DEVICE).reshape(1, -1, 1, 1) * 255 for values in (MEAN, STD))

    def crop(image: torch.Tensor) -> torch.Tensor:
        top, left, height, width = random_window(*image.shape[1:])
        window = image[None, :, top : top + height, left : left + width].float()
        resized = nn.functional.interpolate(window, (size, size), mode="bilinear", antialias=True)
        return resized.flip(3) if random.random() < 0.5 else resized

    ahead: deque[tuple[tuple[torch.Tensor, torch.Tensor], torch.cuda.Event]] = deque()
    for encoded, lengths, labels in loader:  # without end
        with torch.cuda.stream(stream):
            pixels = torch.cat([crop(image) for image in decode_jpeg(encoded.split(lengths), device="cuda")])
            images = ((pixels - mean) / std).contiguous(memory_format=torch.channels_last)
            made = images, labels.pin_memory().to(DEVICE, non_blocking=True)
            ahead.append((made, stream.record_event()))
        if len(ahead) > 1:
            batch, done = ahead.popleft()
            current = torch.cuda.current_stream()
            current.wait_event(done)
            for tensor in batch:
                tensor.record_stream(current)
            yield batch


def feeds(args: argparse.Namespace, workers: int) -> dict[str, Feed]:
    def ours(name: str, antialias: bool = True) -> Iterable[Any]:
        data = args.folder / name
        if not data.exists():
            convert(ImageFolder(args.photos), data, split={"train": 1}, image=ImageOptions(seekable=name == "seekable"))
        split, crop = shardfeed.open(data)["train"], random_resized_crop(args.size, antialias=antialias)
        return torch_loader(split, batch_size=args.batch, image_transform=crop, start_step=0, workers=workers)

    def folder(decoder: str | None) -> Iterator[Any]:
        made = Folder(args.photos, args.size, decoder) if decoder else Encoded(args.photos)
        options: dict[str, Any] = {} if decoder else {"collate_fn": joined}
        options |= {"num_workers": workers, "pin_memory": bool(decoder)}
        # Without end, as ours: at the end of each epoch, a DataLoader would wait until its queue is empty.
        endless = RandomSampler(made, num_samples=10**9)
        return iter(DataLoader(made, args.batch, sampler=endless, **options))

    def on_device(name: str, antialias: bool = True) -> Feed:
        return iter(to_device(ours(name, antialias), DEVICE, mean=MEAN, std=STD))

    makers: dict[str, Callable[[], Feed]] = {
        "`torch_loader`, `to_device`": lambda: on_device("plain"),
        "`torch_loader`, `to_device`, `antialias=False`": lambda: on_device("plain", False),
        "`torch_loader`, `to_device`, `--seekable`": lambda: on_device("seekable"),
        "`torch_loader`, without `to_device`": lambda: copied(iter(ours("plain"))),
        "DataLoader, OpenCV (not antialiased)": lambda: copied(folder("opencv")),
        "DataLoader, Pillow": lambda: copied(folder("pillow")),
        "DataLoader of bytes, TorchCodec on the GPU": lambda: decoded_there(folder(None), args.size),
    }
    chosen = [name for name in makers if all(word not in name for word in args.without)]
    return {name: makers[name]() for name in chosen}


def training(name: str, classes: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    if name == "none":
        return lambda images, labels: None
    model: nn.Module = getattr(torchvision.models, name)(num_classes=classes)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def rate(feed: Feed, step: Callable[[torch.Tensor, torch.Tensor], None], seconds: float) -> tuple[float, float]:
    """Images per second, from one step's end on the GPU to another's, and CPU microseconds per image.

    The batches of the first two seconds do not count: some were made before. Up to two batches per worker were, which
    is 8,192 images with 16 workers, so a turn of a feed that is nearly fast enough must be long.
    """
    begun, images, started, cpu = time.perf_counter(), 0, 0.0, 0.0
    while not started or time.perf_counter() - started < seconds:
        if not started and time.perf_counter() - begun > 2:
            torch.cuda.synchronize()
            started, cpu = time.perf_counter(), cpu_seconds()
        pixels, labels = next(feed)
        step(pixels, labels)
        images += len(labels) if started else 0
    torch.cuda.synchronize()
    return images / (time.perf_counter() - started), (cpu_seconds() - cpu) / images * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure training steps on a GPU, by what feeds them.")
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="resnet50", help="of torchvision; none: batches are only taken (resnet50)")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, nargs="+", default=[16], help="processes of each loader, in turn")
    parser.add_argument("--seconds", type=float, default=30, help="of each feed in a round (30)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="WORD", help="leave out feeds with this in the name"
    )
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    classes = 1 + max(photo_files(args.photos)[1], default=-1)
    if not classes:
        parser.error(f"{args.photos}: has no JPEGs")
    step = training(args.model, classes)
    shape = (args.batch, 3, args.size, args.size)
    constant = torch.randn(shape, device=DEVICE).contiguous(memory_format=torch.channels_last)
    batch = constant, torch.randint(classes, (args.batch,), device=DEVICE)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {args.model}, batches of {args.batch}\n")
    for workers in args.workers:
        sources = feeds(args, workers) | ({CONSTANT: itertools.repeat(batch)} if args.model != "none" else {})
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
        for number in range(args.rounds + 1):
            for name in list(sources) if number % 2 else list(reversed(sources)):
                result = rate(sources[name], step, args.seconds if number else 2)
                print(f"{workers} workers, round {number}: {name} {result[0]:,.0f} images/s", file=sys.stderr)
                found[name] += [result] if number else []
        print(f"| {workers} workers | images/s | of one batch | CPU µs/image |", "|---|---:|---:|---:|", sep="\n")
        for name, rounds in found.items():
            images, cpu = (statistics.median(each) for each in zip(*rounds, strict=True))
            pairs = zip(rounds, found.get(CONSTANT, rounds), strict=True)
            share = statistics.median(mine[0] / most[0] for mine, most in pairs)
            print(f"| {name} | {images:,.0f} | {share:.3f} | {cpu:,.0f} |", flush=True)
        print()
        sources.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())

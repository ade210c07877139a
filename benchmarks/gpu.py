"""Training steps on a GPU, fed by `torch_loader` and by others: `python benchmarks/gpu.py PHOTOS FOLDER`.

PHOTOS is an image folder of JPEGs (photos.py draws one). FOLDER holds the two datasets, plain and seekable, which are
made where they are missing. A step trains one of torchvision's models in bfloat16 on random resized crops, flipped by
chance, normalised to float32. The images/s of each feed are divided by those of the same steps on one batch that stays
on the GPU: 1 where the GPU never waits. Rounds take all feeds in turn, the order reversed from round to round. A feed
is made anew for each of its turns, and nothing counts until two seconds after its first batch. It needs CUDA builds of
torchvision and TorchCodec.

- `decode="cuda"`: `torch_loader` hands over bytes and windows, and `to_device` decodes and crops there. In threads, or
  with worker processes. All others decode on the CPU, but one:
- `to_device`: `torch_loader` as in its documentation.
- "without to_device": the same loader, with `.to(device, non_blocking=True)` before the step.
- DataLoader: over the image folder with Pillow or OpenCV (readings/torch_folder.py), pinned, `.to(non_blocking=True)`.
- TorchCodec: a DataLoader of bytes, as one writes it by hand; a batch is decoded on the GPU (nvJPEG), cropped and
  resized there (antialiased), image by image, on a stream of its own but between the steps.

"GPU MB" is what PyTorch reserved there during a turn, beyond what the same steps reserve on one batch. The JPEG
decoder's own memory is not PyTorch's: a line under the tables has it.
"""

import argparse
import gc
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
from shardfeed.pipelines.torch import Workers, random_resized_crop, to_device, torch_loader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEVICE = torch.device("cuda")
CONSTANT = "one batch, always there"
Feed = Iterator[tuple[torch.Tensor, torch.Tensor]]
Step = Callable[[torch.Tensor, torch.Tensor], None]


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


def feeds(args: argparse.Namespace) -> dict[str, Callable[[int], Feed]]:
    """Return a function for each feed, which makes it with a number of workers."""
    datasets = {}
    for name in ("plain", "seekable"):
        if not (args.folder / name).exists():
            image = ImageOptions(seekable=name == "seekable")
            convert(ImageFolder(args.photos), args.folder / name, split={"train": 1}, image=image)
        datasets[name] = shardfeed.open(args.folder / name)["train"]

    def ours(name: str, workers: int | Workers, antialias: bool = True, **options: Any) -> Iterable[Any]:
        crop = random_resized_crop(args.size, antialias=antialias)
        options |= {"batch_size": args.batch, "image_transform": crop, "start_step": 0, "workers": workers}
        return torch_loader(datasets[name], **options)

    def folder(decoder: str | None, workers: int) -> Iterator[Any]:
        made = Folder(args.photos, args.size, decoder) if decoder else Encoded(args.photos)
        options: dict[str, Any] = {} if decoder else {"collate_fn": joined}
        options |= {"num_workers": workers, "pin_memory": bool(decoder)}
        # Without end, as ours: at the end of each epoch, a DataLoader would wait until its queue is empty.
        endless = RandomSampler(made, num_samples=10**9)
        return iter(DataLoader(made, args.batch, sampler=endless, **options))

    def on_device(name: str, workers: int | Workers, **options: Any) -> Feed:
        return iter(to_device(ours(name, workers, **options), DEVICE, mean=MEAN, std=STD))

    def decoding(name: str, workers: int | Workers) -> Feed:
        return on_device(name, workers, decode="cuda")

    makers: dict[str, Callable[[int], Feed]] = {
        '`decode="cuda"`': lambda count: decoding("plain", count),
        '`decode="cuda"`, `--seekable`': lambda count: decoding("seekable", count),
        '`decode="cuda"`, processes': lambda count: decoding("plain", Workers(count, processes=True)),
        '`decode="cuda"`, `--seekable`, processes': lambda count: decoding("seekable", Workers(count, processes=True)),
        "`to_device`": lambda count: on_device("plain", count),
        "`to_device`, `antialias=False`": lambda count: on_device("plain", count, antialias=False),
        "`to_device`, `--seekable`": lambda count: on_device("seekable", count),
        "without `to_device`": lambda count: copied(iter(ours("plain", count))),
        "DataLoader, OpenCV (not antialiased)": lambda count: copied(folder("opencv", count)),
        "DataLoader, Pillow": lambda count: copied(folder("pillow", count)),
        "DataLoader of bytes, TorchCodec": lambda count: decoded_there(folder(None, count), args.size),
    }
    return {name: maker for name, maker in makers.items() if all(word not in name for word in args.without)}


def training(args: argparse.Namespace, classes: int) -> Step:
    if args.model == "none":
        return lambda images, labels: None
    model: nn.Module = getattr(torchvision.models, args.model)(num_classes=classes)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=args.compile is not None)
    if args.compile is not None:
        torch.backends.cudnn.benchmark = True
        model.compile(mode=args.compile)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def turn(feed: Feed, step: Step, seconds: float) -> tuple[float, float, float]:
    """Images per second, from one step's end on the GPU to another's, CPU microseconds per image, and MB on the GPU.

    The batches of the first two seconds do not count: some were made before. Up to two batches per worker were, which
    is 8,192 images with 16 worker processes, so a turn of a feed that is nearly fast enough must be long.
    """
    gc.collect()  # the feed before this one
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step(*next(feed))
    begun, images, started, cpu = time.perf_counter(), 0, 0.0, 0.0
    while not started or time.perf_counter() - started < seconds:
        if not started and time.perf_counter() - begun > 2:
            torch.cuda.synchronize()
            started, cpu = time.perf_counter(), cpu_seconds()
        pixels, labels = next(feed)
        step(pixels, labels)
        images += len(labels) if started else 0
    torch.cuda.synchronize()
    rate, cost = images / (time.perf_counter() - started), (cpu_seconds() - cpu) / images * 1e6
    return rate, cost, torch.cuda.max_memory_reserved() / 1e6


def not_pytorchs() -> float:
    """MB of the GPU in use, by whomever, that PyTorch has not reserved."""
    free, whole = torch.cuda.mem_get_info()
    return (whole - free - torch.cuda.memory_reserved()) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure training steps on a GPU, by what feeds them.")
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="resnet50", help="of torchvision; none: batches are only taken (resnet50)")
    parser.add_argument(
        "--compile",
        nargs="?",
        const="default",
        metavar="MODE",
        help="torch.compile the model, in one of its modes such as reduce-overhead (with CUDA graphs); SGD is fused",
    )
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, nargs="+", default=[16], help="of each loader, in turn (16)")
    parser.add_argument("--seconds", type=float, default=30, help="of each feed in a round (30)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=1e9, help="no round begins that would end after this many seconds"
    )
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="WORD", help="leave out feeds with this in the name"
    )
    args = parser.parse_args()
    begun = time.perf_counter()
    args.folder.mkdir(parents=True, exist_ok=True)
    classes = 1 + max(photo_files(args.photos)[1], default=-1)
    if not classes:
        parser.error(f"{args.photos}: has no JPEGs")
    makers, step = feeds(args), training(args, classes)
    shape = (args.batch, 3, args.size, args.size)
    constant = torch.randn(shape, device=DEVICE).contiguous(memory_format=torch.channels_last)
    batch = constant, torch.randint(classes, (args.batch,), device=DEVICE)
    for _ in range(20):  # compiled, algorithms chosen
        step(*batch)
    torch.cuda.synchronize()
    others = not_pytorchs()
    if args.model != "none":  # first, so that a run that is cut short has it
        makers = {CONSTANT: lambda count: itertools.repeat(batch)} | makers
    compiled = "" if args.compile is None else f", compiled ({args.compile})"
    versions = f"PyTorch {torch.__version__}, {args.model}{compiled}, batches of {args.batch}"
    print(f"{torch.cuda.get_device_name()}, {versions}\n", flush=True)
    for workers in args.workers:
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in makers}
        for number in range(args.rounds):
            if time.perf_counter() - begun + len(makers) * (args.seconds + 3) > args.limit:
                print(f"no time left for round {number} with {workers} workers", file=sys.stderr)
                break
            for name in reversed(makers) if number % 2 else list(makers):
                feed = makers[name](workers)
                found[name].append(turn(feed, step, args.seconds))
                del feed
                print(f"{workers} workers, round {number}: {name} {found[name][-1][0]:,.0f} images/s", file=sys.stderr)
        if not all(found.values()):
            break
        head = f"| {workers} workers | images/s | of one batch | CPU µs/image | GPU MB |"
        print(head, "|---|---:|---:|---:|---:|", sep="\n")
        for name, rounds in found.items():
            images, cpu, _ = (statistics.median(each) for each in zip(*rounds, strict=True))
            pairs = list(zip(rounds, found.get(CONSTANT, rounds), strict=True))
            share = statistics.median(mine[0] / alone[0] for mine, alone in pairs)
            memory = max(mine[2] - alone[2] for mine, alone in pairs)
            print(f"| {name} | {images:,.0f} | {share:.3f} | {cpu:,.0f} | {memory:,.0f} |", flush=True)
        print()
    print(f"{not_pytorchs() - others:,.0f} MB more than before the first feed are in use outside of PyTorch's memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())

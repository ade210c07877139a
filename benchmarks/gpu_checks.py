"""Checks of `decode="cuda"` that need a GPU: `python benchmarks/gpu_checks.py FOLDER`.

FOLDER gets the datasets of drawn images, which are made where they are missing. A table says what was found, and the
command exits with 1 if anything is wrong. `--cpu` makes the checks that need no GPU: all is as there, but libjpeg
decodes in the place of nvJPEG, and PyTorch resizes in the place of the kernel.

- pixels: images of mixed kinds, beside `decode="like_cuda"`, which may differ by one level (rounding). From records as
  other programs wrote them, cropped at random and letterboxed; and converted to seekable ones.
- verdicts: damaged and odd files one by one. Both ways decode one, to the same pixels, or name its record. Where a
  coefficient is larger than any encoder's, libjpeg wraps around and the GPU does not: such files are only counted.
- boxes: one batch of samples for a detector, equal to those of `decode="like_cuda"`.
- queued steps: batches that steps read late, while the next ones are decoded, have the pixels that they have alone.
- memory: the peak of PyTorch's beside what the feed says before its first batch, in a loop that waits for its steps.
- CUDA graph, torch.compile: training with a step that is one, or has them, gives the losses of the step itself.
"""

import argparse
import copy
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

import numpy as np  # noqa: E402
import simplejpeg  # noqa: E402
import torch  # noqa: E402
from photos import photo  # noqa: E402
from PIL import Image  # noqa: E402
from torch import nn  # noqa: E402

import shardfeed  # noqa: E402
from shardfeed.converters import ImageOptions, adopt, convert, from_dicts, survey  # noqa: E402
from shardfeed.errors import ShardfeedError  # noqa: E402
from shardfeed.formats.example import encode  # noqa: E402
from shardfeed.formats.tfrecord import frame  # noqa: E402
from shardfeed.pipelines.torch import (  # noqa: E402
    detection,
    letterbox,
    loaders,
    random_resized_crop,
    to_device,
    torch_eval_loader,
    torch_loader,
    torch_predict_loader,
)
from shardfeed.readers.split import Split  # noqa: E402
from shardfeed.schema import Feature  # noqa: E402

from damaged_jpegs import DAMAGES, damaged_jpeg  # noqa: E402
from pictures import image_bytes  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(500, 375)] * 9 + [(333, 257)] * 4 + [(375, 500)] * 3 + [(64, 64), (17, 300), (1, 1), (1600, 1200)]
SLOW = 50_000_000  # cycles of the GPU: some 25 ms


class Found(NamedTuple):
    right: bool
    text: str


def by_simplejpeg(image: Any, sampling: str) -> bytes:
    return simplejpeg.encode_jpeg(np.asarray(image), quality=85, colorsubsampling=sampling)


KINDS: dict[str, Callable[[Any], bytes]] = {
    "4:2:0": lambda image: image_bytes(image, "JPEG", quality=92),
    "4:2:0, quality 30": lambda image: image_bytes(image, "JPEG", quality=30),
    "4:2:2": lambda image: image_bytes(image, "JPEG", quality=85, subsampling="4:2:2"),
    "4:4:4": lambda image: image_bytes(image, "JPEG", quality=85, subsampling="4:4:4"),
    "4:4:0": lambda image: by_simplejpeg(image, "440"),
    "4:1:1": lambda image: by_simplejpeg(image, "411"),
    "gray": lambda image: image_bytes(image.convert("L"), "JPEG"),
    "gray, factors of 2": lambda image: image_bytes(image.convert("L"), "JPEG", subsampling="4:2:0"),
    "restarts": lambda image: image_bytes(image, "JPEG", restart_marker_blocks=7),
    "optimised": lambda image: image_bytes(image, "JPEG", optimize=True),
    "progressive": lambda image: image_bytes(image, "JPEG", progressive=True),
    "RGB": lambda image: image_bytes(image, "JPEG", keep_rgb=True),
    "CMYK": lambda image: image_bytes(image.convert("CMYK"), "JPEG"),
    "PNG": lambda image: image_bytes(image, "PNG", compress_level=1),
}


@cache
def drawn(number: int, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(photo(number, size))


@cache
def picture(number: int) -> bytes:
    """The image `number`: one of eight photos of its size, shifted, in one of the kinds."""
    size = SIZES[number % len(SIZES)]
    shifted = np.roll(drawn(number % 8, size), (number // 7, number // 3), (0, 1))
    return list(KINDS.values())[number % len(KINDS)](Image.fromarray(shifted))


def damaged(count: int) -> Iterator[bytes]:
    """Damaged JPEGs of each kind, and every tenth another image, that is whole, cut or has a part of zeros."""
    rng = random.Random(5)
    for number in range(count):
        if number % 10:
            yield damaged_jpeg(list(DAMAGES)[number % len(DAMAGES)], rng)
            continue
        data = bytearray(picture(number // 10 * 20 // 3))
        at = rng.randrange(20, max(21, len(data)))
        if number % 3 == 1:
            del data[at:]
        elif number % 3 == 2:
            data[at : at + 400] = bytes(len(data[at : at + 400]))
        yield bytes(data)


def as_others_wrote(out: Path, images: Iterable[bytes]) -> Split:
    """A dataset of these bytes, whatever they are, with labels 0 to 9."""
    if not out.exists():
        folder = out.with_name(out.name + "-records")
        folder.mkdir(parents=True, exist_ok=True)
        features = {"image/encoded": Feature("bytes"), "image/class/label": Feature("int64")}
        with open(folder / "train-00000-of-00001.tfrecord", "wb") as file:
            for number, data in enumerate(images):
                file.write(frame(encode(features, {"image/encoded": data, "image/class/label": number % 10})))
        adopt(survey(folder, image_key="image/encoded", label_key="image/class/label"), out)
    return shardfeed.open(out)["train"]


def converted(out: Path, rows: Iterable[dict[str, Any]], image: ImageOptions, **options: Any) -> Split:
    if not out.exists():
        convert(from_dicts(rows, **options), out, split={"train": 1}, image=image)
    return shardfeed.open(out)["train"]


def overflows(data: bytes) -> bool:
    """Whether the two integer transforms of libjpeg are far apart: by 8 levels at most in files of encoders."""
    one, other = (simplejpeg.decode_jpeg(data, fastdct=fast, strict=False).astype(int) for fast in (False, True))
    return bool((abs(one - other) > 16).any())


def difference(batches: Iterable[Any], others: Iterable[Any]) -> Found:
    """Beside each other: the largest difference of pixels, the share of larger ones than a level; all else is equal."""
    most = larger = pixels = images = 0
    for (found, rest), (expected, other) in zip(batches, others, strict=True):
        assert same(rest, other), "labels or boxes differ"
        apart = (found.cpu().int() - expected.int()).abs()
        most, larger = max(most, int(apart.max())), larger + int((apart > 1).sum())
        pixels, images = pixels + apart.numel(), images + len(apart)
    text = f"{images:,} images: {most} levels at most, {larger / max(1, pixels):.2%} of the values by more than one"
    return Found(bool(images) and most <= 1, text)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return torch.equal(found.cpu(), expected)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


class Checks:
    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        self.args, self.device, self.folder = args, device, args.folder

    def mixed(self) -> Split:
        return as_others_wrote(self.folder / "mixed", map(picture, range(self.args.images)))

    def seekable(self) -> Split:
        rows = ({"image": picture(n), "key": str(n), "label": n % 10} for n in range(self.args.images))
        names = [str(n) for n in range(10)]
        return converted(self.folder / "seekable", rows, ImageOptions(seekable=True), class_names=names)

    def both(self, make: Callable[..., Any], split: Split, **options: Any) -> Found:
        """A loader's batches beside those of the CPU; most images are JPEGs, which must be decoded there."""
        jpegs = 0

        def counted(loader: Iterable[Any]) -> Iterator[Any]:
            nonlocal jpegs
            for images, rest in loader:
                jpegs += int(images._is_jpeg.sum())
                yield images, rest

        feed = to_device(counted(make(split, decode="cuda", **options)), self.device)
        right, text = difference(feed, make(split, decode="like_cuda", **options))
        return Found(right and jpegs > len(split) / 2, f"{text}; {jpegs:,} decoded there")

    def pixels(self) -> Found:
        crop = random_resized_crop(224)
        return self.both(torch_loader, self.mixed(), batch_size=50, image_transform=crop, seed=3)

    def pixels_letterboxed(self) -> Found:
        return self.both(torch_eval_loader, self.mixed(), batch_size=50, image_transform=letterbox((200, 256)))

    def pixels_of_seekable(self) -> Found:
        crop = random_resized_crop(224)
        return self.both(torch_loader, self.seekable(), batch_size=50, image_transform=crop, seed=3)

    def verdicts(self) -> Found:
        split = as_others_wrote(self.folder / "damaged", damaged(self.args.damaged))
        apart, decoded, overflow, odd = 0, 0, 0, []
        with warnings.catch_warnings(record=True) as refused:
            warnings.simplefilter("always")
            for number in range(len(split)):
                found, expected = (self.verdict(split[number : number + 1], way) for way in ("cuda", "like_cuda"))
                if isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor):
                    decoded += 1
                    levels = int((found.cpu().int() - expected.cpu().int()).abs().max())
                    if levels > 1 and overflows(split[number]["image/encoded"]):
                        overflow += 1
                        continue
                    apart = max(apart, levels)
                    odd += [number] if levels > 1 else []
                elif isinstance(found, torch.Tensor) or isinstance(expected, torch.Tensor) or found != expected:
                    odd.append(number)
        text = f"{len(split):,} files: {decoded:,} decode, {apart} levels apart at most; {len(refused)} warnings; "
        text += f"{overflow} further apart, as coefficients overflow; "
        return Found(not odd, text + f"{len(odd)} of another verdict or pixels: {odd[:20]}")

    def verdict(self, split: Split, decode: str) -> torch.Tensor | str:
        """The pixels of the only image, or the record that an error names."""
        options: dict[str, Any] = {"batch_size": 1, "image_size": 64, "key": "image/class/label"}
        try:
            ((images, _),) = torch_predict_loader(split, decode=decode, workers=0, **options)  # type: ignore[arg-type]
            return images.to(self.device)
        except ShardfeedError as error:
            return error.place

    def boxes(self) -> Found:
        draw, rows = np.random.default_rng(1), []
        for number in range(1000):
            corners = np.sort(draw.uniform(0, 1, (number % 7, 2, 2)), 1).reshape(-1, 4)
            labels = [f"{label}" for label in draw.integers(0, 3, number % 7)]
            rows.append({"image": picture(number), "key": str(number), "boxes": corners.tolist(), "labels": labels})
        names = {"class_names": ["0", "1", "2"], "fractions": True}
        split = converted(self.folder / "boxes", rows, ImageOptions(), **names)
        transform = detection(random_resized_crop(224, area=(0.3, 1.0)))
        return self.both(torch_loader, split, batch_size=len(split), transform=transform, seed=3)

    def feed(self, batch: int, split: Split, **options: Any) -> Any:
        crop = {"batch_size": batch, "image_size": 224, "start_step": 0, "workers": 4}
        return to_device(torch_loader(split, decode="cuda", **crop), self.device, **options)  # type: ignore[arg-type]

    def queued_steps(self) -> Found:
        split, alone, late = self.mixed(), [], []
        for _, (images, _) in zip(range(100), self.feed(64, split).loader, strict=False):
            alone.append(images.to(self.device))
            torch.cuda.synchronize()
        for _, (images, _) in zip(range(100), self.feed(64, split, ahead=3), strict=False):
            torch.cuda._sleep(SLOW)
            late.append(images.clone())
        changed = sum(not torch.equal(*pair) for pair in zip(alone, late, strict=True))
        return Found(not changed, f"{changed} of {len(late)} batches have changed pixels")

    def memory(self) -> Found:
        peaks = {}
        for waits in (True, False):
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before, feed = torch.cuda.memory_allocated(), self.feed(256, self.mixed(), mean=MEAN, std=STD)
            said = feed.device_bytes
            for _, (images, _) in zip(range(40), feed, strict=False):
                torch.cuda._sleep(SLOW)
                images.square_()
                if waits:  # as a loop that reads its loss; another may queue steps, whose batches are still needed
                    torch.cuda.current_stream().synchronize()
            peaks[waits] = torch.cuda.max_memory_allocated() - before
            del feed, images
        free, whole = torch.cuda.mem_get_info()
        others = whole - free - torch.cuda.memory_reserved()
        text = (
            f"{peaks[True] / 1e6:,.0f} MB at most, {said / 1e6:,.0f} said; {peaks[False] / 1e6:,.0f} with queued steps"
        )
        return Found(peaks[True] <= said, f"{text}; {others / 1e6:,.0f} outside of PyTorch's memory")

    def cuda_graph(self) -> Found:
        def captured(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Step:
            held, known, step = images.clone(), labels.clone(), eager(model)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    step(held, known)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # Only what this thread does is in the graph: the feed's decodes meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                loss = step(held, known)

            def replayed(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
                held.copy_(images)
                known.copy_(labels)
                graph.replay()
                return loss.clone()

            return replayed

        return self.losses(captured)

    def compiled_step(self) -> Found:
        return self.losses(lambda model, *_: eager(torch.compile(model, mode="reduce-overhead")))

    def losses(self, make: Callable[..., "Step"]) -> Found:
        """Train with what `make` makes of a model while the feed runs, and with the same model as it is."""
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 10)).to(self.device)
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        batches = iter(self.feed(64, self.mixed(), mean=MEAN, std=STD))
        step = make(model, *next(batches))
        plain = eager(copy.deepcopy(model))
        pairs = [(step(*batch), plain(*batch)) for _, batch in zip(range(50), batches, strict=False)]
        found, expected = (torch.stack(each).cpu() for each in zip(*pairs, strict=True))
        apart = ((found - expected).abs() / expected).max().item()
        return Found(apart < 0.01, f"{len(pairs)} steps: losses differ by {apart:.1e} of themselves at most")


Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def eager(model: Any) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach().clone()

    return step


def main() -> int:
    parser = argparse.ArgumentParser(description="Check what only a GPU can show of decoding there.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cpu", action="store_true", help="what needs no GPU, decoded by the CPU in its place")
    parser.add_argument("--images", type=int, default=2000, help="of mixed kinds (2,000)")
    parser.add_argument("--damaged", type=int, default=10_000, help="files (10,000)")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="checks with one of these in the name")
    args = parser.parse_args()
    checks = Checks(args, torch.device("cpu" if args.cpu else "cuda"))
    found: dict[str, Callable[[], Found]] = {
        "pixels, cropped": checks.pixels,
        "pixels, letterboxed": checks.pixels_letterboxed,
        "pixels, seekable": checks.pixels_of_seekable,
        "verdicts": checks.verdicts,
        "boxes": checks.boxes,
    }
    if args.cpu:
        loaders.check_decode = lambda decode: None  # type: ignore[attr-defined]  # it asks for a GPU
    else:
        found |= {
            "queued steps": checks.queued_steps,
            "memory": checks.memory,
            "CUDA graph": checks.cuda_graph,
            "torch.compile": checks.compiled_step,
        }
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| check | | found | s |", "|---|---|---|---:|", sep="\n", flush=True)
    wrong = 0
    for name, check in found.items():
        if args.only and not any(word in name for word in args.only):
            continue
        started = time.perf_counter()
        try:
            right, text = check()
        except Exception as error:
            traceback.print_exc()
            right, text = False, f"{type(error).__name__}: {error}".splitlines()[0]
        wrong += not right
        print(
            f"| {name} | {'right' if right else 'WRONG'} | {text} | {time.perf_counter() - started:.0f} |", flush=True
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Draws SVGs: of code.md, concepts.md, how-it-runs.md, gpu-decoding.md in docs. `python docs/pictures/drawings.py`.

All colours are legible on a white page and on a dark one, and the drawings are narrow, so that a telephone shows them
large enough to read. The order in `order.svg` is computed by the order itself, and the pixels in `colour-edge.svg` by
the decoder.
"""

import argparse
import base64
import io
import sys
from html import escape
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image, ImageDraw

from shardfeed.pipelines.orders.order import GlobalOrder

HERE = Path(__file__).parent
WIDTH = 480
GREY, BLUE, GREEN, PURPLE, SLATE = "#7a828c", "#2f6fb0", "#2a7d63", "#8256a8", "#5d6773"
DISK, THREADS, MEMORY, DEVICE = SLATE, BLUE, GREEN, PURPLE

SAMPLES, BATCH, DEVICES, SEED = 10, 4, 2, 7


class Drawing:
    """Boxes, frames and arrows, in pixels; `title` and `described` are read aloud in place of the picture."""

    def __init__(self, height: int, title: str, described: str) -> None:
        self.height = height
        self.parts = [f"<title>{escape(title)}</title>", f"<desc>{escape(described)}</desc>"]

    def text(self, x: float, y: float, text: str, fill: str = GREY, size: int = 14, **more: str) -> None:
        given = {"text-anchor": "middle"} | {key.replace("_", "-"): value for key, value in more.items()}
        extra = "".join(f' {key}="{value}"' for key, value in given.items())
        self.parts.append(f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}"{extra}>{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, fill: str, label: str) -> None:
        """A filled box; the first line of its label is bold."""
        lines = label.split("\n")
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}"/>')
        first = y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            weight = "600" if number == 0 else "400"
            self.text(x + width / 2, first + 18 * number, line, "#ffffff", 14 - bool(number), font_weight=weight)

    def frame(self, x: float, y: float, width: float, height: float, label: str) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="10" fill="none" stroke="{GREY}" '
            'stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
        self.text(x + 12, y + 20, label, text_anchor="start", font_weight="600")

    def arrow(self, x: float, start: float, end: float, label: str = "", dashed: bool = False) -> None:
        """A vertical arrow, with its label to the right."""
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        tip = -6 if end > start else 6
        self.parts.append(
            f'<path d="M{x:g} {start:g}V{end + tip:g}" stroke="{GREY}" stroke-width="2" fill="none"{dash}/>'
            f'<path d="M{x - 6:g} {end + tip:g}h12L{x:g} {end:g}z" fill="{GREY}"/>'
        )
        if label:
            self.text(x + 12, (start + end) / 2 + 5, label, size=13, text_anchor="start")

    def legend(self, y: float, *entries: tuple[str, str]) -> None:
        for number, (fill, label) in enumerate(entries):
            x = 10 + number * 118
            self.parts.append(f'<rect x="{x}" y="{y:g}" width="13" height="13" rx="3" fill="{fill}"/>')
            self.text(x + 19, y + 11.5, label, size=13, text_anchor="start")

    def to_text(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" role="img" '
            f'viewBox="0 0 {WIDTH} {self.height}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif">'
        )
        return "\n".join([head, *self.parts, "</svg>", ""])


LEGEND = ((DISK, "files"), (THREADS, "threads"), (MEMORY, "memory"), (DEVICE, "GPU"))


def processes() -> str:
    """Draw the processes from images to batches, in the order of time."""
    drawing = Drawing(
        758,
        "What runs when: the front process, workers, the trainer and the fetcher",
        "The front process plans, workers write shards, the front process commits; the trainer's threads make batches.",
    )
    drawing.legend(6, *LEGEND[:3])
    drawing.box(10, 34, 460, 30, DISK, "your images and labels")
    drawing.arrow(340, 64, 114)
    drawing.frame(4, 84, 472, 96, "front process: convert(), while workers start")
    drawing.box(
        14,
        114,
        452,
        56,
        THREADS,
        "the source, then the plan\nthe split and shard of each sample; no image is converted",
    )
    drawing.arrow(340, 180, 240)
    drawing.text(352, 200, "a task per shard", size=13, text_anchor="start")
    drawing.frame(4, 210, 472, 96, "workers")
    drawing.box(
        14, 240, 452, 56, THREADS, "write_shard(), one per available CPU\nread, check, make records, write the shard"
    )
    drawing.arrow(340, 306, 366)
    drawing.text(352, 326, "a receipt per shard", size=13, text_anchor="start")
    drawing.frame(4, 336, 472, 96, "front process")
    drawing.box(14, 366, 452, 56, THREADS, "the commit\ncolumns, manifest; last, the directory gets its name")
    drawing.arrow(340, 422, 452)
    drawing.box(10, 452, 460, 30, DISK, "a dataset, on a disk or in a bucket")
    drawing.arrow(200, 482, 620)
    drawing.text(188, 552, "from a disk", size=13, text_anchor="end")
    drawing.arrow(430, 482, 526)
    drawing.frame(244, 496, 232, 78, "fetcher, for buckets")
    drawing.box(254, 526, 212, 38, THREADS, "one per machine\ndownloads ahead of the order")
    drawing.arrow(430, 564, 620)
    drawing.frame(4, 590, 472, 160, "trainer, one per rank")
    drawing.box(14, 620, 452, 44, THREADS, "threads, or worker processes\nan order's samples, records, pixels")
    drawing.arrow(240, 664, 680)
    drawing.box(14, 680, 452, 22, MEMORY, "batches, ahead")
    drawing.arrow(240, 702, 718)
    drawing.box(14, 718, 452, 24, THREADS, "your loop")
    return drawing.to_text()


def tensorflow_run() -> str:
    """Draw the process of a TensorFlow run."""
    drawing = Drawing(
        586,
        "A TensorFlow run: one process",
        "Files, the page cache, two ways of reading, two batches made ahead, the training loop, the GPU.",
    )
    drawing.legend(6, *LEGEND)
    drawing.box(10, 34, 460, 48, DISK, "shards and their indexes\nin the machine's page cache once they have been read")
    drawing.frame(4, 108, 472, 380, "one process")
    drawing.arrow(122, 82, 166)
    drawing.arrow(358, 82, 166)
    drawing.text(132, 154, 'order="stream"', size=13, text_anchor="start", font_family="monospace")
    drawing.text(368, 154, '"global"', size=13, text_anchor="start", font_family="monospace")
    drawing.box(14, 166, 216, 62, THREADS, "TensorFlow's threads\n16 shards in turn, each in\nsequence; checks CRCs")
    drawing.box(250, 166, 216, 62, THREADS, "2 to 4 Python calls\neach reads one batch by\npositions; checks CRCs")
    drawing.arrow(122, 228, 252)
    drawing.box(14, 252, 216, 44, MEMORY, "shuffle buffer\nat most 16,384 records")
    drawing.arrow(122, 296, 312)
    drawing.arrow(358, 228, 312)
    decoding = "one per available CPU: decode the window,\nresize with OpenCV, flip, into the batch"
    drawing.box(14, 312, 452, 62, THREADS, f"Python's threads\n{decoding}")
    drawing.arrow(240, 374, 394)
    drawing.box(14, 394, 452, 30, MEMORY, "2 prefetched batches, uint8")
    drawing.arrow(240, 424, 446)
    drawing.box(14, 446, 452, 30, THREADS, "fit, or your loop")
    drawing.arrow(240, 476, 520, "one batch per step")
    drawing.box(14, 520, 452, 48, DEVICE, "GPU\ncast, normalise, train")
    return drawing.to_text()


def pytorch_run() -> str:
    """Draw the threads of a PyTorch or NumPy run, and PyTorch's worker processes."""
    drawing = Drawing(
        626,
        "A PyTorch or NumPy run: threads of one process, or worker processes",
        "Files; threads that read and decode, or worker processes; batches made ahead; the training loop; the GPU.",
    )
    drawing.legend(6, *LEGEND)
    drawing.box(10, 34, 460, 48, DISK, "shards and their indexes\nin the machine's page cache once they have been read")
    drawing.arrow(200, 82, 138)
    drawing.arrow(440, 82, 138)
    drawing.frame(4, 108, 232, 208, "your process")
    drawing.frame(244, 108, 232, 208, "or W processes")
    drawing.box(14, 138, 212, 62, THREADS, "2 threads\neach reads one batch by\npositions; checks CRCs")
    drawing.arrow(120, 200, 224)
    drawing.box(
        14, 224, 212, 80, THREADS, "decoding threads\none per available CPU:\ndecode, resize, flip,\ninto the batch"
    )
    work = "each reads a batch by\npositions, decodes, runs\nyour function on each\nimage, makes the batch"
    drawing.box(254, 138, 212, 166, THREADS, f"one thread in each\n{work}")
    drawing.arrow(120, 304, 340)
    drawing.arrow(360, 304, 340)
    drawing.box(14, 340, 212, 48, MEMORY, "2 batches ahead\nuint8; pinned if there is a GPU")
    drawing.box(254, 340, 212, 48, MEMORY, "/dev/shm\n2 batches ahead for each")
    drawing.frame(4, 412, 472, 112, "your process")
    drawing.arrow(200, 388, 446)
    drawing.arrow(440, 388, 446)
    drawing.box(14, 446, 452, 66, THREADS, "your loop\nto_device copies 2 batches ahead, on a CUDA stream")
    drawing.arrow(240, 512, 560)
    drawing.box(14, 560, 452, 48, DEVICE, "GPU\nuint8 to float32, normalise, train")
    return drawing.to_text()


def order() -> str:
    """Draw samples, shards, an order and its steps."""
    epoch = GlobalOrder("0" * 32, SAMPLES, BATCH, SAMPLES - SAMPLES % BATCH, SEED)
    places = epoch.draw(0, np.arange(epoch.epoch_samples)).indices
    left = sorted(set(range(SAMPLES)) - set(places.tolist()))
    drawing = Drawing(
        478,
        f"{SAMPLES} samples, 2 shards, global batches of {BATCH} on {DEVICES} GPUs",
        f"The order of epoch 0 is {places.tolist()}; {left} do not fill a batch and are left out of this epoch.",
    )

    def row(y: float, numbers: list[int], start: float, fill: str) -> None:
        for at, number in enumerate(numbers):
            drawing.box(start + at * 42, y, 36, 30, fill, str(number))

    drawing.text(10, 18, f"{SAMPLES} samples: images with their labels", text_anchor="start")
    row(28, list(range(SAMPLES)), 30, SLATE)
    drawing.arrow(240, 62, 92, "shardfeed convert")
    half = SAMPLES // 2
    drawing.frame(16, 94, 220, 72, "train-00000-of-00002")
    drawing.frame(244, 94, 220, 72, "train-00001-of-00002")
    row(124, list(range(half)), 24, GREEN)
    row(124, list(range(half, SAMPLES)), 252, GREEN)
    drawing.text(
        10, 188, "2 shards: one record per sample, at a fixed place in the split", size=13, text_anchor="start"
    )
    drawing.arrow(240, 200, 232, f"the order: seed {SEED}, epoch 0")
    row(234, places.tolist(), 30, BLUE)
    row(234, left, 30 + len(places) * 42, GREY)
    drawing.text(10, 286, "left out of this epoch, too few for a batch:", size=13, text_anchor="start")
    drawing.text(470, 286, f"{SAMPLES} = 2 x {BATCH} + {len(left)}", size=13, text_anchor="end")
    drawing.arrow(240, 298, 330, f"global batches of {BATCH}")
    share = BATCH // DEVICES
    for step in range(epoch.steps_per_epoch):
        x = 16 + step * 228
        drawing.frame(x, 334, 220, 110, f"step {step}")
        for device in range(DEVICES):
            first = step * BATCH + device * share
            drawing.text(x + 60 + 104 * device, 380, f"GPU {device}", size=13)
            row(392, places[first : first + share].tolist(), x + 21 + 104 * device, PURPLE)
    drawing.text(16, 466, "position 0", size=13, text_anchor="start")
    drawing.text(244, 466, "position 1", size=13, text_anchor="start")
    drawing.text(464, 466, "position 2", size=13, text_anchor="end")
    return drawing.to_text()


def colour_edge() -> str:
    """Draw an edge between two colours, before and after a JPEG, decoded in both ways."""
    side, window = 64, (slice(16, 28), slice(9, 25))
    image = Image.new("RGB", (side, side), "#2f6fb0")
    ImageDraw.Draw(image).ellipse((13, 13, 51, 51), fill="#e0552f")
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=90)
    cpu, gpu = (simplejpeg.decode_jpeg(encoded.getvalue(), fastupsample=fast) for fast in (False, True))
    apart = np.abs(cpu.astype(int) - gpu)
    drawing = Drawing(
        424,
        "An edge between two colours, decoded in both ways",
        "The picture; its JPEG with interpolated colours; with repeated colours, in steps of 2 pixels; the difference.",
    )
    panels = {
        "before the JPEG": np.asarray(image),
        "the CPU: interpolated": cpu,
        "the GPU, like_cuda: repeated": gpu,
        f"difference (at most {apart[window].max()} levels) times 4": np.minimum(4 * apart, 255),
    }
    for number, (label, pixels) in enumerate(panels.items()):
        x, y = 8 + number % 2 * 240, 26 + number // 2 * 208
        drawing.text(x, y - 8, label, size=13, text_anchor="start")
        drawing.parts.append(_enlarged(pixels[window], x, y, 14))
    return drawing.to_text()


def _enlarged(pixels: np.ndarray, x: int, y: int, times: int) -> str:
    """Pixels [h, w, 3] as squares of `times` units."""
    png = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(png, "PNG", optimize=True)
    size = f'width="{times * pixels.shape[1]}" height="{times * pixels.shape[0]}"'
    data = base64.b64encode(png.getvalue()).decode()
    return f'<image x="{x}" y="{y}" {size} style="image-rendering: pixelated" href="data:image/png;base64,{data}"/>'


DRAWINGS = {
    "processes.svg": processes,
    "tensorflow-run.svg": tensorflow_run,
    "pytorch-run.svg": pytorch_run,
    "order.svg": order,
    "colour-edge.svg": colour_edge,
}


def main() -> int:
    """Write the drawings."""
    parser = argparse.ArgumentParser(description="Draw the SVGs of the pages.")
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    for name, draw in DRAWINGS.items():
        (args.out / name).write_text(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())

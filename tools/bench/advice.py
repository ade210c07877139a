"""Which change would help a pipeline most: from measured figures to changes in order of effect.

Nothing here is measured. A factor is of images per second as long as the CPU is what limits them, unless `why` says
otherwise; what a change of the bytes would save was measured on a sample (variants.py).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardfeed.text import size_text
from shardfeed.tools.bench.stored_otherwise import Variant, stored_side

NO_WAIT = 0.02  # share of the time lost below which a step is said not to wait
_WORTH = 1.1  # times as fast; less is not worth a change
_BUSY = 0.85  # of what could be had of the cores; above it the CPU is what limits
_MEMORY_DIRECTORY = "/dev/shm"


@dataclass(frozen=True)
class Figures:
    """What was measured. Rates in images per second, costs in CPU microseconds an image.

    `cpu_us`: of the whole pipeline, `read_us` of its first stage. `rate`: handed over to Python; `inside_rate`:
    without that. `disk_rate`: of reading alone, from the disk itself. `progressive`: share of progressive JPEGs.
    `median_size`: (height, width) in pixels. `larger_batch`: (its size, the pipeline's cost with it), if measured.
    `lost_share`: of the time of steps of `model_ms`, in the steady state. `busiest_share`: of the granted cores, that
    the busiest of the pipelines measured kept busy; less than all of them where other processes took some.
    """

    samples: int
    dataset_bytes: int
    memory_free_bytes: int
    cores: int
    parallelism: int
    batch_size: int
    image_size: int
    cpu_us: float
    read_us: float
    rate: float
    inside_rate: float
    disk_rate: float
    progressive: float
    median_size: tuple[int, int]
    variants: Sequence[Variant]
    busiest_share: float = 1.0
    larger_batch: tuple[int, float] | None = None
    model_ms: float | None = None
    lost_share: float | None = None

    @property
    def busy(self) -> float:
        """Share of the granted cores that the pipeline used while it ran as fast as it could."""
        return min(1.0, self.cpu_us * self.rate / 1e6 / self.cores)

    @property
    def efficiency(self) -> float:
        """Share of what could be had of the granted cores that the pipeline used."""
        return min(1.0, self.busy / self.busiest_share)

    @property
    def quiet_rate(self) -> float:
        """Images per second, were all granted cores to be had."""
        return self.rate / self.busiest_share

    @property
    def needed_rate(self) -> float | None:
        """Images per second that steps of `model_ms` take."""
        return self.batch_size / self.model_ms * 1e3 if self.model_ms else None

    @property
    def model_bound(self) -> bool:
        """Whether a step of `model_ms` hardly waits: then nothing here would make training faster."""
        return self.lost_share is not None and self.lost_share < NO_WAIT


@dataclass(frozen=True)
class Advice:
    """One change. `factor`: times as many images per second, None where that cannot be said.

    `estimate`: how the factor was found. `enough`: whether steps of the given length would not wait any more, None
    where that was not asked or cannot be said.
    """

    change: str
    why: str
    factor: float | None
    estimate: str
    enough: bool | None = None


def advise(figures: Figures, fits: Callable[[int], bool]) -> list[Advice]:
    """Changes worth trying, the one that helps most first; none where the model is the bottleneck.

    `fits(bytes)`: whether so much more may be held in /dev/shm.
    """
    if figures.model_bound:
        return []
    found = [*_other_bytes(figures, fits), *_machine(figures), *_loop(figures)]
    worth = [advice for advice in found if advice.factor is None or advice.factor >= _WORTH]
    return sorted(worth, key=lambda advice: -(advice.factor or 1.0))


def _advice(figures: Figures, change: str, why: str, factor: float, estimate: str) -> Advice:
    needed = figures.needed_rate
    enough = None if needed is None else figures.quiet_rate * factor >= needed
    return Advice(change, why, factor, estimate, enough)


def _other_bytes(figures: Figures, fits: Callable[[int], bool]) -> list[Advice]:
    """The same images stored otherwise."""
    side = stored_side(figures.image_size)
    height, width = figures.median_size
    found = []
    for variant in figures.variants:
        size = round(variant.bytes_per_image * figures.samples)
        most = math.inf
        if variant.name == "resized":
            change = f"shardfeed convert SOURCE OUT --resize-shorter {side}"
            why = (
                f"images are {width}x{height}, crops {figures.image_size}; "
                f"with a shorter side of {side}, small windows hold less detail"
            )
            estimate = "measured: a sample of your images, really shrunk and encoded again"
        elif variant.name == "baseline":
            change = "shardfeed convert SOURCE OUT --baseline"
            why = f"{figures.progressive:.0%} of the images are progressive JPEGs, of which all is decoded for any crop"
            estimate = "measured: a sample of your images, coded again as baseline"
        elif variant.name == "seekable":
            change = "shardfeed convert SOURCE OUT --seekable"
            why = (
                'a crop is decoded without the rest of its image, in PyTorch and with order="global" or "blocks"; '
                "a hundredth more bytes, and the same pixels"
            )
            estimate = "measured: a sample of your images, with restart markers"
        elif variant.name == "jpeg":
            change = "store JPEGs of quality 92 instead of PNGs, and convert those"
            why = "a PNG is decoded whole for any crop; a JPEG loses a little"
            estimate = "measured: a sample of your images as JPEGs"
        elif fits(size):
            shrink = f"shardfeed convert SOURCE OUT --resize-shorter {side}, then " if variant.name != "raw" else ""
            change = f'{shrink}cached(split, Cache("{_MEMORY_DIRECTORY}", decoded=True)) for train_batches'
            why = f"nothing is decoded after the first time; decoded pixels take {size_text(size)} of memory"
            estimate = "measured: a sample of your images as pixels"
        elif variant.name == "raw" and any(other.name == "resized_raw" for other in figures.variants):
            continue  # the smaller pixels are the better offer
        else:
            shrink = f" --resize-shorter {side}" if variant.name != "raw" else ""
            change = f"shardfeed convert SOURCE OUT{shrink} --encode raw"
            why = f"nothing is decoded; {size_text(size)} on disk, too much for {_MEMORY_DIRECTORY}"
            estimate = "measured: a sample of your images as pixels, at most as fast as the disk"
            most = figures.disk_rate * variant.original_bytes / variant.bytes_per_image / figures.rate
        # The sample has no order and no shuffle buffer; what those cost stays, and is part of what reading does.
        rest_us = min(max(0.0, figures.cpu_us - variant.original_us), figures.read_us)
        factor = min(most, (variant.original_us + rest_us) / (variant.cpu_us + rest_us))
        found.append(_advice(figures, change, why, factor, estimate))
    return found


def _machine(figures: Figures) -> list[Advice]:
    """Disk, cores and threads."""
    found = []
    if figures.disk_rate < figures.rate and figures.dataset_bytes > figures.memory_free_bytes:
        why = (
            f"the disk gives {figures.disk_rate:,.0f} images/s, the pipeline can take {figures.rate:,.0f}, "
            f"and {size_text(figures.dataset_bytes)} do not stay in memory"
        )
        factor = figures.rate / figures.disk_rate
        change = 'cached(split, "DIRECTORY ON A FASTER DISK") for train_batches'
        found.append(_advice(figures, change, why, factor, "computed: at most this, on a disk that is fast enough"))
    if figures.parallelism < figures.cores:
        factor = figures.cores / figures.parallelism
        change = f"leave out --parallelism, which makes it {figures.cores}"
        why = f"{figures.parallelism} threads were asked for, {figures.cores} cores are granted"
        found.append(_advice(figures, change, why, factor, "computed: in proportion, at most this"))
    needed = figures.needed_rate
    if needed is not None and needed > figures.quiet_rate and figures.efficiency >= _BUSY:
        cores = math.ceil(needed * figures.cpu_us / 1e6 / figures.efficiency)
        if cores > figures.cores:
            why = f"{needed:,.0f} images/s take {needed * figures.cpu_us / 1e6:.1f} cores, {figures.cores} are granted"
            estimate = "computed: in proportion to the cores, at the share of them that was kept busy here"
            change = f"{cores} cores for this process"
            found.append(Advice(change, why, cores / figures.cores, estimate, enough=True))
    return found


def _loop(figures: Figures) -> list[Advice]:
    """How batches are taken."""
    found = []
    factor = figures.inside_rate / figures.rate
    # Where others run too, wall times of two pipelines cannot be compared.
    if figures.busiest_share >= _BUSY > figures.efficiency and factor >= _WORTH:
        why = f"{figures.busy:.0%} of the cores were busy: taking batches in Python holds the pipeline up"
        change = "take batches inside a tf.function, or larger ones"
        found.append(_advice(figures, change, why, factor, "measured: the same pipeline gone through in TensorFlow"))
    if figures.larger_batch:
        batch_size, cpu_us = figures.larger_batch
        why = f"each batch of {figures.batch_size} costs about as much to hand over as one of {batch_size}"
        change = f"batches of {batch_size}, where the model allows"
        found.append(
            _advice(figures, change, why, figures.cpu_us / cpu_us, "measured: the same images in such batches")
        )
    return found

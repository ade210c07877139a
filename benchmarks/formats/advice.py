"""Which format, read how, packed or not: sentences, and the arithmetic behind them.

Training reads records at random and decodes them. So what counts is the time of both: a format that is read twice as
fast gives next to nothing where the decoder takes nine tenths of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from one_reading import CACHE, DISK, MAPPED, PRELOADED

from shardfeed.text import size_text

WORTH = 1.1  # times: less is no reason to change anything
_LITTLE = 0.05  # of the bytes: less is no reason to compress


@dataclass(frozen=True)
class Read:
    """A format: microseconds of a record that is read at random, by mode; of one from the disk in sequence; bytes."""

    format: str
    cpu_us: Mapping[str, float]
    wall_us: Mapping[str, float]
    disk_sequential_us: float
    size: int


@dataclass(frozen=True)
class Packed:
    """Bytes of a record as it is and compressed, and the CPU microseconds that this costs when it is read.

    `random`: whether compressed records can be read at random.
    """

    format: str
    codec: str
    plain: float
    compressed: float
    more_us: float
    random: bool = False

    @property
    def saved(self) -> float:
        """The share of the bytes."""
        return 1 - self.compressed / self.plain

    @property
    def breaks_even(self) -> float:
        """MB/s of a disk or network below which one thread has a compressed record earlier; inf where always."""
        return (self.plain - self.compressed) / self.more_us if self.more_us > 0 else float("inf")


def advise(
    formats: Sequence[Read], decode_us: float, packed: Sequence[Packed], image_bytes: int, dropped: bool | None = True
) -> list[str]:
    """Advise about format, preloading, the disk and compression for these images, in one or two sentences each.

    `formats`: the first is the usual one. `decode_us`: CPU microseconds to decode an image. `image_bytes`: bytes of
    all images. `dropped`: whether the data read "from the disk" did come from the disk.
    """
    usual = formats[0]
    best = min(formats, key=lambda one: delivered(one, decode_us))
    worth = delivered(usual, decode_us) >= WORTH * delivered(best, decode_us)
    chosen = best if worth else usual
    said = [_format(usual, formats, chosen, decode_us), _preload(chosen, decode_us, image_bytes)]
    if dropped:
        said.append(_disk(chosen, decode_us))
    if packed:
        said.append(_compression(next((one for one in packed if one.format == chosen.format), packed[0])))
    return said


def delivered(read: Read, decode_us: float, mode: str = CACHE) -> float:
    """CPU microseconds until a record, picked at random, is pixels."""
    return read.cpu_us[mode] + decode_us


def _format(usual: Read, formats: Sequence[Read], chosen: Read, decode_us: float) -> str:
    others = [one for one in formats if one is not usual]
    if not others:
        return f"There is nothing to compare {usual.format} with: no other format could be made."
    best = min(others, key=lambda one: delivered(one, decode_us))
    factor = delivered(usual, decode_us) / delivered(best, decode_us)
    if chosen is not usual:
        faster = f"its images are read and decoded {factor:.2f} times as fast as {usual.format}'s"
        return f"Take {best.format}: {faster}. `shardfeed convert SOURCE OUT --to {best.format}` writes it."
    share = decode_us / delivered(usual, decode_us)
    reason = f", because the decoder takes {share:.0%} of the time" if share > 1 / 2 else ""
    return f"Keep {usual.format}: {best.format}, the fastest other format, is {factor:.2f} times as fast{reason}."


def _preload(usual: Read, decode_us: float, image_bytes: int) -> str:
    factors = {mode: delivered(usual, decode_us) / delivered(usual, decode_us, mode) for mode in (PRELOADED, MAPPED)}
    brings = f"preloading is {factors[PRELOADED]:.2f} times as fast, and mapping {factors[MAPPED]:.2f} times"
    if max(factors.values()) < WORTH:
        return f"Read lazily: {brings}, because the page cache keeps the files. Preloading needs the memory twice."
    return (
        f"If the dataset fits into memory (these images: {size_text(image_bytes)}): {brings}. "
        "`shardfeed.open(DIR, storage=...)` accepts a storage object that keeps files in memory."
    )


def _disk(usual: Read, decode_us: float) -> str:
    """One thread; what is read and what is decoded do not overlap."""
    cache = usual.wall_us[CACHE] + decode_us
    random, sequential = (usual.wall_us[DISK] + decode_us) / cache, (usual.disk_sequential_us + decode_us) / cache
    if random < WORTH:
        return f"This disk keeps up: an image takes {random:.2f} times as long as from the page cache, read at random."
    orders = 'order="stream" or "blocks"' if sequential < random / WORTH else "more threads"
    return (
        f"If the dataset is larger than memory, an image from this disk takes {random:.2f} times as long as from "
        f"the page cache if read at random, and {sequential:.2f} times in sequence: use {orders}."
    )


def _compression(packed: Packed) -> str:
    codec = f"{packed.codec} ({packed.format})"
    if packed.saved < _LITTLE:
        saves = f"saves {max(0.0, packed.saved):.1%} of the bytes"
        return f"Do not compress: {codec} {saves}, and costs {max(0.0, packed.more_us):,.0f} us per image."
    lost = "" if packed.random else " It allows no random access."
    if packed.breaks_even == float("inf"):
        return f"Compress, if you like: {codec} saves {packed.saved:.0%} of the bytes, and costs no time.{lost}"
    return (
        f"Compress only if reading is slow: {codec} saves {packed.saved:.0%} of the bytes, costs "
        f"{packed.more_us:,.0f} us per image, and is faster if the storage delivers less "
        f"than {packed.breaks_even:,.0f} MB/s per thread.{lost}"
    )

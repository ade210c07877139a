"""The memory limit of a worker: what asks for too much costs one image and not the machine (RELIABILITY.md 34, E)."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.engines.worker import ALLOWANCE
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.sources.source import Sample
from shardfeed.schema import Schema, image_features

from pictures import image_bytes

pytestmark = [
    pytest.mark.promise("E"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's"),
]


def encoded(kind: str, mode: str = "RGB", side: int = 8, **options: object) -> bytes:
    return image_bytes(Image.radial_gradient("L").resize((side, side)).convert(mode), kind, **options)


def written(directory: Path, *images: object) -> tuple[Receipt, list[str]]:
    """Receipt of a shard of `images` by a real worker, and the warnings of the engine."""
    samples = tuple(Sample(b"%d" % i, image) for i, image in enumerate(images))  # type: ignore[arg-type]
    schema = Schema(image_features(sha256=False), {})
    task = ShardTask(str(directory), "train", 0, 1, 0, samples, schema, ImageOptions())
    with LocalEngine(1) as engine:
        (receipt,) = engine.run(iter([task]))
    return receipt, engine.warnings


@pytest.fixture
def greedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that workers can import: `take` allocates before it answers, `tighten` leaves `allowance`.

    What an allocator has freed and kept counts as taken and can be given out again, so that an image may find its
    memory there: `tighten` takes that first.
    """
    (tmp_path / "greedy_images.py").write_text(
        "from shardfeed.converters.engines.worker import limit_memory\n"
        "kept = []\n"
        "def take(size, data):\n"
        "    taken = bytearray(size)\n"
        "    return data if len(taken) == size else b''\n"
        "def tighten(allowance, data):\n"
        "    limit_memory(0)\n"
        "    try:\n"
        "        while len(kept) < 1 << 14:\n"
        "            kept.append(bytearray(1 << 18))\n"
        "    except MemoryError:\n"
        "        limit_memory(allowance)\n"
        "    return data\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import greedy_images  # pyright: ignore[reportMissingImports]  # written above

    return greedy_images


def test_a_worker_may_not_take_more(tmp_path: Path, greedy: ModuleType) -> None:
    """The allocation fails, the worker lives, the other images are stored."""
    small = encoded("JPEG")
    more, less = partial(greedy.take, ALLOWANCE + (1 << 30), small), partial(greedy.take, 1 << 30, small)
    receipt, warnings = written(tmp_path, small, more, less, small)
    assert [(noted.key, noted.what, noted.why) for noted in receipt.rejected] == [
        (b"1", "E_SOURCE_ERROR", "MemoryError: ")
    ]
    assert receipt.info.records == 3
    assert warnings == []


@pytest.mark.promise(34)
def test_a_decoder_that_gets_no_memory_rejects_its_image(tmp_path: Path, greedy: ModuleType) -> None:
    large = [("PNG", "RGBA"), ("JPEG", "CMYK"), ("TIFF", "RGB"), ("BMP", "RGB"), ("WebP", "RGB")]
    files = [encoded(kind, mode, 2500, **({"method": 0} if kind == "WebP" else {})) for kind, mode in large]
    receipt, warnings = written(tmp_path, *(partial(greedy.tighten, 4 << 20, file) for file in files), encoded("JPEG"))
    # libwebp does not say why it gives up.
    assert [noted.what for noted in receipt.rejected] == ["E_TOO_LARGE"] * 4 + ["E_CORRUPT"]
    assert receipt.info.records == 1
    assert warnings == []


@pytest.mark.torture
def test_the_most_expensive_image_that_is_allowed_is_stored(
    tmp_path: Path, torture_result: Callable[..., None]
) -> None:
    """As many pixels as an image may have, with alpha: 3.4 GB at its peak, which must be well below the limit."""
    side = int(MAX_PIXELS**0.5)
    receipt, warnings = written(tmp_path, encoded("PNG", "RGBA", side, compress_level=1))
    assert receipt.rejected == ()
    assert warnings == []
    torture_result("179 megapixels with alpha under the memory limit", trials=1, failures=0)

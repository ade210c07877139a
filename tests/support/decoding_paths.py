"""Both ways to decode, the compiled module's and Python's, for tests that what they make is the same."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from seekable_images import any_jpeg

from shardfeed import native
from shardfeed.formats.example import encode
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding.batch import Batch, BatchDecoder, UndecodableError
from shardfeed.schema import ENCODED, FORMAT, LABEL, RESTARTS, Feature, Schema

FEATURES = {ENCODED: Feature("bytes"), FORMAT: Feature("bytes"), LABEL: Feature("int64"), RESTARTS: Feature("bytes")}
COMPILED, PYTHON = "1", "0"  # what SHARDFEED_NATIVE says

built = pytest.mark.skipif(native._loaded()[0] is None, reason=f"the compiled module {native._loaded()[1]}")


@contextmanager
def path_taken(path: str) -> Iterator[None]:
    """Decode by this path inside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.VARIABLE, path)
        yield


def decoder(path: str, crop: Crop) -> BatchDecoder:
    with path_taken(path):
        made = BatchDecoder(crop, Schema(FEATURES), {"jpeg"}, 1)
    assert (made._compiled is None) == (path == PYTHON)
    return made


def outcome(decode: BatchDecoder, payload: bytes, seeds: np.ndarray) -> Any:
    """Views, other features and pixels of windows of a record; or its error."""
    try:
        batch: Batch = decode([payload] * len(seeds), seeds)
    except UndecodableError as error:
        return type(error.why), str(error.why), error.payload == payload
    return batch.views, batch.others, batch.images.tobytes()


def any_record(rng: random.Random) -> tuple[bytes, tuple[int, int]]:
    """A record with a JPEG, seekable or not, and its (height, width)."""
    data, height, width = any_jpeg(rng)
    return record(data, row_lengths(data) if rng.random() < 0.8 else b"", rng), (height, width)


def record(data: bytes, lengths: bytes, rng: random.Random) -> bytes:
    return encode(FEATURES, {ENCODED: data, FORMAT: b"jpeg", LABEL: rng.randrange(1000), RESTARTS: lengths})


def any_crop(rng: random.Random, size: Sequence[int]) -> Crop:
    """A crop to any size: enlarged, as it is, or made smaller by up to 10."""
    factor = rng.choice([0.5, 1, 1, 2, 3, 4, 8, 10])
    height, width = (max(1, int(side * rng.random() / factor)) for side in size)
    if rng.random() < 0.2:
        return CenterCrop((height, width), rng.choice([0.3, 0.875, 1.0]))
    ratios = rng.choice([(3 / 4, 4 / 3), (0.1, 10.0)])
    return RandomCrop((height, width), RandomWindow((rng.choice([0.001, 0.02, 0.3]), 1.0), ratios), True)


def damaged(payload: bytes, rng: random.Random) -> bytes:
    """A record in which some bytes are others or missing: of the Example, of the JPEG's header, markers or codes."""
    data = bytearray(payload)
    image = payload.find(b"\xff\xd8\xff")
    kind = rng.randrange(7)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data))
        if kind in (2, 3):
            at = rng.randrange(image, min(len(data), image + 650))
        elif kind == 4:
            at = rng.randrange(min(60, len(data)))
        elif kind == 5:
            at = rng.choice([i for i in range(len(data) - 1) if data[i] == 0xFF and data[i + 1]] or [at])
        if kind == 6:
            del data[at : at + rng.randint(1, 40)]
            data = data or bytearray(b"x")
        else:
            data[at] = rng.choice([0, 255, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
    return bytes(data)


def check_windows(count: int, seed: int) -> None:
    """So many windows of any images are the same on both paths, and most are made by the compiled module."""
    rng, checked, made = random.Random(seed), 0, 0
    while checked < count:
        payload, size = any_record(rng)
        crop = any_crop(rng, size)
        seeds = np.array([[rng.randrange(2**40), rng.randrange(2**40)] for _ in range(24)], np.int64)
        one, other = (decoder(path, crop) for path in (COMPILED, PYTHON))
        assert outcome(one, payload, seeds) == outcome(other, payload, seeds), (size, crop, seeds.tolist())
        made += is_compiled(one, payload, seeds)
        checked += len(seeds)
    assert made == checked // 24


def check_damages(count: int, seed: int) -> tuple[int, int]:
    """So many damaged records give the same on both paths. Returns the numbers of errors, and of images compiled."""
    rng, errors, made = random.Random(seed), 0, 0
    for turn in range(count):
        if turn % 10 == 0:
            payload, _ = any_record(rng)
            crop = RandomCrop((rng.randint(1, 40), rng.randint(1, 40)), RandomWindow((0.05, 1.0), (0.75, 1.33)), True)
            one, other = (decoder(path, crop) for path in (COMPILED, PYTHON))
        broken = damaged(payload, rng)
        seeds = np.array([[rng.randrange(2**40), turn]], np.int64)
        found, expected = outcome(one, broken, seeds), outcome(other, broken, seeds)
        assert found == expected, (turn, broken.hex() if len(broken) < 2000 else len(broken))
        errors += not isinstance(expected[0], list)
        made += is_compiled(one, broken, seeds)
    return errors, made


def is_compiled(decode: BatchDecoder, payload: bytes, seeds: np.ndarray) -> bool:
    """Whether the compiled module makes the image of this record, rather than hand it to Python."""
    assert decode._compiled is not None
    found = decode._compiled([payload], seeds[:1])
    found.make([np.empty((1, *decode._crop.target, 3), np.uint8)], False, [None])
    return bool(found.made[0])


def path_fixture() -> Any:
    """A fixture for a file whose tests all run on both paths."""

    @pytest.fixture(autouse=True, scope="module", params=[pytest.param(COMPILED, marks=built, id="compiled"), PYTHON])
    def path(request: pytest.FixtureRequest) -> Iterator[str]:
        with path_taken(request.param):
            yield request.param

    return path

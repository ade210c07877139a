"""Damage JPEGs and records under the sanitizers of addresses and undefined behaviour: `make fuzz`."""

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from seekable_images import any_jpeg, several_jpegs

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import store_image
from shardfeed.formats.example import encode
from shardfeed.native import library, path_in_use
from shardfeed.schema import ENCODED, LABEL, RESTARTS, Feature

from repository import ROOT, SUPPORT

NATIVE = ROOT / "shardfeed/native"
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{NATIVE}"]
COMPILER = shutil.which("g++")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no fuzzing without g++"),
    pytest.mark.skipif(library() is None, reason=f"no fuzzing: {path_in_use()}"),
]


def files(seed: int) -> list[bytes]:
    draws = random.Random(seed)
    return [*several_jpegs(30), *(any_jpeg(draws)[0] for _ in range(60))]


def records(seed: int) -> list[bytes]:
    features = {ENCODED: Feature("bytes", ()), RESTARTS: Feature("bytes", ()), LABEL: Feature("int64", ())}
    stored = [store_image(data, ImageOptions(seekable=True)) for data in files(seed)]
    return [encode(features, {ENCODED: each.encoded, RESTARTS: each.restarts, LABEL: 3}) for each in stored]


@pytest.mark.long
@pytest.mark.parametrize("corpus", [files, records])
def test_no_byte_outside_is_touched(corpus: Callable[[int], list[bytes]], tmp_path: Path, seed: int) -> None:
    fuzz(corpus, tmp_path, 30, seed)


@pytest.mark.torture
@pytest.mark.parametrize("corpus", [files, records])
def test_no_byte_outside_is_touched_for_long(
    corpus: Callable[[int], list[bytes]], tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    tried = fuzz(corpus, tmp_path, seconds := 1200, seed)
    torture_result(f"fuzzed compiled {corpus.__name__}", trials=tried, failures=0, seconds=seconds, seed=seed)


def fuzz(corpus: Callable[[int], list[bytes]], directory: Path, seconds: int, seed: int) -> int:
    """Count damaged files, or records; the program compares results with libjpeg's, or with those of a new decoder."""
    assert COMPILER is not None
    program, held = directory / "fuzz", directory / "corpus"
    main = SUPPORT / f"fuzz_{corpus.__name__}.cpp"
    subprocess.run([COMPILER, *FLAGS, main, *sorted(NATIVE.glob("*.cpp")), "-ljpeg", "-o", program], check=True)
    held.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in corpus(seed)))
    ran = subprocess.run([program, str(seed), str(seconds), held], cwd=directory, capture_output=True, text=True)
    print(ran.stdout, ran.stderr)  # the file or record is `missed.*` in the directory
    assert ran.returncode == 0
    tried, *counts = [int(word) for word in ran.stdout.split() if word.isdigit()]
    assert tried > seconds
    assert min(counts) > 0
    return tried

"""Damage JPEGs and records, and edit images, under the sanitizers of addresses and undefined behaviour: `make fuzz`."""

import random
import re
import shutil
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
FLAGS = ["-std=c++17", "-O1", "-g", "-fno-sanitize-recover=all", f"-I{NATIVE}", f"-I{SUPPORT}"]
SECONDS = 2400
SANITIZERS = "address,undefined"
COMPILER, CLANG = shutil.which("g++"), shutil.which("clang++")
CHOICES = 8  # bytes at the end of an input of fuzz.cpp
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no fuzzing without g++"),
    pytest.mark.skipif(library() is None, reason=f"no fuzzing: {path_in_use()}"),
]


@pytest.fixture
def corpus(tmp_path: Path, seed: int) -> Path:
    """A folder of JPEGs and records, whole ones, each followed by its choices."""
    draws, folder = random.Random(seed), tmp_path / "corpus"
    files = [*several_jpegs(30), *(any_jpeg(draws)[0] for _ in range(60))]
    features = {ENCODED: Feature("bytes", ()), RESTARTS: Feature("bytes", ()), LABEL: Feature("int64", ())}
    stored = [store_image(data, ImageOptions(seekable=True)) for data in files]
    records = [encode(features, {ENCODED: each.encoded, RESTARTS: each.restarts, LABEL: 3}) for each in stored]
    folder.mkdir()
    for number, data in enumerate(files + records):
        (folder / str(number)).write_bytes(data + draws.randbytes(CHOICES))
    return folder


@pytest.mark.long
def test_no_byte_outside_is_touched(corpus: Path, tmp_path: Path, seed: int) -> None:
    program = built("g++", SANITIZERS, tmp_path)
    tried, *counts = numbers(ran(program, seed, 60, corpus).stdout)
    assert tried > 60
    assert min(counts) > 0


@pytest.mark.torture
def test_no_byte_outside_is_touched_for_long(
    corpus: Path, tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    """libFuzzer chooses inputs by the code that they reach."""
    if CLANG is None:
        pytest.skip("no libFuzzer: Debian has it in clang and libclang-rt-14-dev")
    program = built("clang++", f"{SANITIZERS},fuzzer", tmp_path, "-DLIBFUZZER")
    (tmp_path / "found").mkdir()
    options = [f"-max_total_time={SECONDS}", "-max_len=20000", "-timeout=60", "-print_final_stats=1"]
    said = ran(program, f"-seed={seed % 2**32}", *options, tmp_path / "found", corpus).stderr
    tried = int(re.findall(r"number_of_executed_units: (\d+)", said)[-1])
    edges = int(re.findall(r"cov: (\d+)", said)[-1])
    torture_result("fuzzed compiled module", trials=tried, failures=0, edges=edges, seconds=SECONDS, seed=seed)


def built(compiler: str, sanitizers: str, directory: Path, *more: str) -> Path:
    sources = [*sorted(SUPPORT.glob("fuzz*.cpp")), *sorted(NATIVE.glob("*.cpp"))]
    program = directory / "fuzz"
    subprocess.run([compiler, *FLAGS, f"-fsanitize={sanitizers}", *more, *sources, "-ljpeg", "-o", program], check=True)
    return program


def ran(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program, which fails where results differ from libjpeg's, or from those of a new decoder."""
    done = subprocess.run([program, *map(str, arguments)], cwd=program.parent, capture_output=True, text=True)
    print(done.stdout, done.stderr)  # the input is `missed` or `crash-*` in the directory
    assert done.returncode == 0
    return done


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]

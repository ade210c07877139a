"""Huffman codes read and written by the compiled module: the bytes and the verdicts of the code that it replaces."""

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import simplejpeg
from seekable_images import any_jpeg, drawn, jpeg

from shardfeed.converters.images.baseline import NotTranscodableError
from shardfeed.converters.images.jpeg import complaint, read_jpeg_header
from shardfeed.converters.images.seekable import to_seekable
from shardfeed.converters.rejects import MAX_PIXELS, RejectedError
from shardfeed.native import VARIABLE, library, path_in_use
from shardfeed.native.codes import DamagedCodesError, have_same_codes, is_whole, recoded

from repository import ROOT

needs_module = pytest.mark.skipif(library() is None, reason=path_in_use())
KINDS: list[dict[str, object]] = [
    {"subsampling": "4:2:0"},
    {"subsampling": "4:4:4", "optimize": True},
    {"subsampling": "4:2:2", "restart_marker_blocks": 7},
    {"progressive": True},
]


def damaged(data: bytes, draws: random.Random) -> bytes:
    """The file with one to three changes, half of them in its header."""
    broken = bytearray(data)
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(2, len(broken) if draws.random() < 0.5 else 600)
        match draws.randrange(5):
            case 0:
                broken[at] ^= 1 << draws.randrange(8)
            case 1:
                broken[at] = draws.randrange(256)
            case 2:
                broken[at - 1 : at + 1] = 0xFF, draws.randrange(0xC0, 0x100)
            case 3:
                del broken[at : at + draws.choice((1, 2, 30))]
            case _:
                return bytes(broken[:at]) + b"\xff\xd9"
    return bytes(broken)


def originals(seed: int) -> list[bytes]:
    pictures = [drawn(90, 333, seed), drawn(130, 70, seed + 1), drawn(64, 200, seed + 2).convert("L")]
    return [jpeg(picture, **kind) for picture in pictures for kind in KINDS]


def outcome(data: bytes) -> bytes | None:
    """The file with markers; None if it is refused."""
    try:
        return to_seekable(data, read_jpeg_header(data, MAX_PIXELS))
    except (NotTranscodableError, RejectedError):
        return None


def check_outcomes(files: list[bytes], monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """Both ways make the same bytes of each file, or refuse it."""
    pytest.importorskip("numba", reason="no wheel for this Python or machine")
    monkeypatch.delenv(VARIABLE, raising=False)
    compiled = [outcome(data) for data in files]
    monkeypatch.setenv(VARIABLE, "0")
    for data, made in zip(files, compiled, strict=True):
        assert made == outcome(data)
    return compiled


@needs_module
def test_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = random.Random(21)
    files = [any_jpeg(draws)[0] for _ in range(80)]
    assert (
        sum(made not in (None, data) for made, data in zip(check_outcomes(files, monkeypatch), files, strict=True)) > 40
    )


@needs_module
@pytest.mark.long
def test_the_same_bytes_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = random.Random(22)
    check_outcomes([any_jpeg(draws)[0] for _ in range(3000)], monkeypatch)


@needs_module
def test_the_same_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, whole = random.Random(23), originals(1)
    made = check_outcomes([damaged(draws.choice(whole), draws) for _ in range(400)], monkeypatch)
    assert made.count(None) > 100
    assert made.count(None) < 390


@needs_module
@pytest.mark.long
def test_the_same_of_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, whole = random.Random(24), originals(5)
    check_outcomes([damaged(draws.choice(whole), draws) for _ in range(10_000)], monkeypatch)


def decoder_is_silent(data: bytes, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(VARIABLE, "0")
    try:
        return complaint(data) is None
    except RejectedError:
        return False


def count_whole(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of so many damaged files are whole after all; the decoder has no word to say about them."""
    draws, files, found = random.Random(seed), originals(seed), 0
    for _ in range(count):
        data = damaged(draws.choice(files), draws)
        monkeypatch.delenv(VARIABLE, raising=False)
        if is_whole(data):
            found += 1
            assert decoder_is_silent(data, monkeypatch)
    return found


@needs_module
@pytest.mark.promise(33)
def test_no_damage_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 20 < count_whole(1000, 25, monkeypatch) < 500


@needs_module
@pytest.mark.long
@pytest.mark.promise(33)
def test_no_damage_of_many_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_whole(20_000, 26, monkeypatch)


@needs_module
def test_whole_files_need_no_other_decoder() -> None:
    draws = random.Random(27)
    for _ in range(60):
        assert is_whole(any_jpeg(draws)[0])
    assert not is_whole(jpeg(drawn(64, 64, 1), progressive=True))
    assert not is_whole(b"")


@needs_module
def test_a_change_of_a_copy_is_seen() -> None:
    draws, data = random.Random(28), jpeg(drawn(90, 333, 8))
    copy, same = outcome(data), 0
    assert copy is not None
    assert have_same_codes(data, copy)
    for _ in range(2000):
        broken = damaged(copy, draws)
        if have_same_codes(data, broken):
            same += 1
            found, expected = (simplejpeg.decode_jpeg(each, strict=True) for each in (broken, data))
            assert (found == expected).all()
    assert same  # of comments and the bits that fill the last byte


@needs_module
def test_too_little_room() -> None:
    data = jpeg(drawn(90, 333, 8))
    for room in (0, 1, len(data) // 2):
        with pytest.raises(MemoryError):
            recoded(data, 3, b"", room)
    with pytest.raises(DamagedCodesError, match="header"):
        recoded(b"\xff\xd8", 3, b"", 1000)


def test_without_the_module_a_decoder_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    data = jpeg(drawn(64, 64, 1))
    assert not is_whole(data)
    assert not have_same_codes(data, data)
    assert complaint(data) is None


@pytest.mark.long
def test_no_byte_outside_is_touched(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path, 60, seed)


@pytest.mark.torture
def test_no_byte_outside_is_touched_for_long(tmp_path: Path, seed: int, torture_result: Callable[..., None]) -> None:
    tried = fuzz(tmp_path, seconds := 1800, seed)
    torture_result("fuzzed compiled codes", trials=tried, failures=0, seconds=seconds, seed=seed)


def fuzz(directory: Path, seconds: int, seed: int) -> int:
    """Count files damaged under the sanitizers of addresses and of undefined behaviour; libjpeg judges each result."""
    compiler = shutil.which("g++")
    if compiler is None or library() is None:
        pytest.skip(f"no fuzzing: {'no g++' if compiler is None else path_in_use()}")
    native, program, corpus = ROOT / "shardfeed/native", directory / "fuzz", directory / "corpus"
    sources = [native / f"{name}.cpp" for name in ("recode", "compare", "scan")]
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{native}"]
    main = ROOT / "tests/support/fuzz_codes.cpp"
    subprocess.run([compiler, *flags, main, *sources, "-ljpeg", "-o", program], check=True)
    draws = random.Random(seed)
    files = [*originals(30), *(any_jpeg(draws)[0] for _ in range(60))]
    corpus.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in files))
    ran = subprocess.run([program, str(seed), str(seconds), corpus], cwd=directory, capture_output=True, text=True)
    print(ran.stdout, ran.stderr)  # `missed.jpg` in the directory is the file
    assert ran.returncode == 0
    tried, *counts = [int(word) for word in ran.stdout.split() if word.isdigit()]
    assert tried > seconds
    assert min(counts) > 0
    return tried

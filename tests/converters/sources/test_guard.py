"""The guard: what may be asked for, and libraries' exceptions as ours."""

import ast
import errno
import io
import json
import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest

from shardfeed.converters.sources.guard import (
    MOST_DEPTH,
    MOST_DIGITS,
    MOST_LINE,
    ROWS_FREE,
    UNPACKED_FREE,
    Budget,
    HostileError,
    budget,
    guarded,
)
from shardfeed.errors import LabelFileError, StorageError, UsageError


def of_library(module: str, name: str) -> Exception:
    return getattr(pytest.importorskip(module), name)("said so")


def raised(parse: Callable[[], object]) -> Exception:
    """The exception with which a parser ends, from its own code."""
    with pytest.raises(Exception) as caught:  # any
        parse()
    return caught.value


def empty_zip() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(), "w")


RAISED: dict[str, Callable[[], Exception]] = {
    "lzma": lambda: lzma.LZMAError("said so"),
    "zlib": lambda: zlib.error("said so"),
    "zip": lambda: zipfile.BadZipFile("said so"),
    "tokens": lambda: tokenize.TokenError("said so"),
    "struct": lambda: struct.error("said so"),
    "json": lambda: json.JSONDecodeError("said so", "", 0),
    "text": lambda: raised(lambda: b"\xff".decode()),
    **{kind.__name__: lambda kind=kind: kind("said so") for kind in (EOFError, MemoryError, RecursionError)},
    "NumPy": lambda: raised(lambda: np.load(io.BytesIO(b"\x93NUMPY\x01\x00\x04\x00{(\n]"))),
    "Python in a header": lambda: raised(lambda: ast.literal_eval("f()")),
    "member of a zip": lambda: raised(lambda: empty_zip().getinfo("a")),
    "HDF5": lambda: OSError("said so"),
    "seek": lambda: OSError(errno.EINVAL, "said so"),
    "Arrow": lambda: of_library("pyarrow", "ArrowInvalid"),
    "LMDB": lambda: of_library("lmdb", "CorruptedError"),
    "YAML": lambda: of_library("yaml", "YAMLError"),
    "zstd": lambda: of_library("zstandard", "ZstdError"),
    "image": lambda: import_module("PIL").UnidentifiedImageError("said so"),
}


@pytest.mark.promise("52")
@pytest.mark.parametrize("name", RAISED)
def test_an_exception_of_a_library_is_ours(name: str) -> None:
    error = RAISED[name]()
    with pytest.raises(HostileError) as caught, guarded("place"):
        raise error
    assert caught.value.place == "place"
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is error
    assert caught.value.remedy


@pytest.mark.parametrize(
    "error",
    [
        *(UsageError("a", "b"), LabelFileError("a", "b"), KeyboardInterrupt()),
        *(kind("bug") for kind in (TypeError, ValueError, KeyError, IndexError, OverflowError, RuntimeError)),
    ],
)
def test_our_own_signals_and_bugs_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, guarded("place"):
        raise error
    assert caught.value is error


def test_a_fault_of_the_machine_stays_one() -> None:
    with pytest.raises(StorageError) as caught, guarded("place"):
        raise OSError(errno.EIO, "broken disk", "file")
    assert (caught.value.exit_code, caught.value.place) == (5, "file")


def test_long_words_are_cut_and_escaped() -> None:
    with pytest.raises(HostileError) as caught, guarded("place"):
        raise EOFError("\n" * 10_000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


DRAWS: dict[str, tuple[Callable[[Budget], object], Callable[[Budget], object]]] = {
    "unpacked": (lambda b: b.unpacked(UNPACKED_FREE, 1), lambda b: b.unpacked(UNPACKED_FREE + 1, 1)),
    "ratio": (lambda b: b.unpacked(10**12, 10**10), lambda b: b.unpacked(10**13, 10**10)),
    "rows": (lambda b: b.rows(ROWS_FREE, 1), lambda b: b.rows(ROWS_FREE + 1, 1)),
    "rows of a large file": (lambda b: b.rows(10**9, 10**9), lambda b: b.rows(10**10, 10**9)),
    "memory": (lambda b: b.memory(10**9, 10**8), lambda b: b.memory(10**9, 10**6)),
    "depth": (lambda b: b.depth(MOST_DEPTH), lambda b: b.depth(MOST_DEPTH + 1)),
    "line": (lambda b: b.line(MOST_LINE), lambda b: b.line(MOST_LINE + 1)),
    "lines": (lambda b: b.lines(b"a\n" * MOST_LINE), lambda b: b.lines(b"a\n" + b"a" * (MOST_LINE + 1))),
    "digits": (lambda b: b.integer("9" * MOST_DIGITS), lambda b: b.integer("9" * (MOST_DIGITS + 1))),
    "no digits": (lambda b: b.integer(b"12"), lambda b: b.integer(b"-1")),
}


@pytest.mark.promise("51")
@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_beyond_its_limit_is_refused(name: str) -> None:
    fits, exceeds = DRAWS[name]
    fits(Budget("place"))
    with pytest.raises(HostileError) as caught:
        exceeds(Budget("place"))
    assert caught.value.place == "place"


def test_one_budget_for_all_readers_of_a_source() -> None:
    with guarded("outer") as outer:
        assert budget() is outer
        with guarded("inner") as inner:
            assert inner is outer
        assert budget() is outer
    assert budget("other") is not outer

"""Listing: files by number, found by key."""

import numpy as np
import pytest

from shardfeed.converters.sources.files.listing import Listing, is_hidden, names_image
from shardfeed.converters.sources.source import SourceFile
from shardfeed.text import counted, some


def listing(*keys: bytes) -> Listing:
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    numbers = np.arange(len(keys), dtype=np.int64)
    return Listing(b"/data", b"".join(keys), ends, numbers + 10, numbers + 1000)


KEYS = [b"a", b"a/b.jpg", b"a/caf\xe9.jpg", b"b", b"line\nbreak"]


def test_keys_and_files_by_number() -> None:
    files = listing(*KEYS)
    assert list(files) == KEYS == [files.key(i) for i in range(len(files))]
    assert files.file(1) == SourceFile(b"/data/a/b.jpg", 11, 1001)


@pytest.mark.parametrize("guess", [-1, 0, 2, 99])
def test_find(guess: int) -> None:
    files = listing(*KEYS)
    assert [files.find(key, guess) for key in KEYS] == [0, 1, 2, 3, 4]
    assert [files.find(key, guess) for key in (b"", b"a/", b"a/b", b"zzz", b"line")] == [-1] * 5
    assert listing().find(b"a", guess) == -1


def test_take_keeps_some_files() -> None:
    taken = listing(*KEYS).take(np.array([1, 4]))
    assert list(taken) == [b"a/b.jpg", b"line\nbreak"]
    assert taken.file(1) == SourceFile(b"/data/line\nbreak", 14, 1004)
    assert not list(listing(*KEYS).take(np.array([], np.int64)))


def test_is_immutable() -> None:
    with pytest.raises(ValueError, match="read-only"):
        listing(*KEYS).sizes[0] = 1


@pytest.mark.promise(30)
@pytest.mark.parametrize("name", [b".DS_Store", b"._x.jpg", b".ipynb_checkpoints", b"Thumbs.db", b"THUMBS.DB"])
def test_hidden(name: bytes) -> None:
    assert is_hidden(name)
    assert not is_hidden(b"x" + name)


def test_names_image() -> None:
    assert names_image(b"a.b/X.JPEG")
    assert not names_image(b"a.jpg/README")
    assert not names_image(b"jpg")


def test_counted_shows_three_escaped() -> None:
    assert some([b"a\nb"]) == "a\\nb"
    assert counted("lost", (name for name in "abcdef"), 6) == "lost: 6 (a, b, c, ...)"
    assert counted("lost", "abc", 3) == "lost: 3 (a, b, c)"

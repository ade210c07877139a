"""A reader of one's own: what it does wrong is told as it is."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardfeed.converters import AnnotationOptions, Annotations, Reader, Source, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.rows.source import FilePart
from shardfeed.errors import UsageError


def opened(root: Path, read: Callable[..., Source]) -> Source:
    module: Any = SimpleNamespace(read=read)
    return open_source(root, reader=Reader("mine", module, AnnotationOptions, takes={"images"}))


def test_its_mistakes_are_not_taken_for_hostile_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2")

    def read(look: Any, options: AnnotationOptions) -> Source:
        raise ValueError("not enough values to unpack")

    with pytest.raises(ValueError, match="not enough values"):
        opened(tmp_path, read)


def test_a_flag_needs_a_feature_key(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2")

    def read(look: Any, options: AnnotationOptions) -> Source:
        found = Annotations(look.path, look, options, what="line")
        found.object(found.image("a.jpg", where="line 1"), 1, [0, 0, 1, 1], "cat", flags={"difficult": 1})
        return found.source()

    with pytest.raises(UsageError, match='write "image/object/difficult"'):
        opened(tmp_path, read)


def test_an_image_that_its_file_cuts_off_is_truncated(tmp_path: Path) -> None:
    file = tmp_path / "a.pack"
    file.write_bytes(b"0123456789")
    state = file.stat()
    part = FilePart(bytes(file), 4, 8, state.st_size, state.st_mtime_ns)
    with pytest.raises(RejectedError, match="ends 2 bytes before") as raised:
        part()
    assert raised.value.code == RejectCode.TRUNCATED

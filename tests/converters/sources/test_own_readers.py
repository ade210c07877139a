"""A reader of one's own: what it does wrong is told as it is."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardfeed.converters import AnnotationOptions, Annotations, Evidence, Reader, Source, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.parts import FilePart
from shardfeed.converters.sources.guard import HostileError
from shardfeed.converters.sources.readers import BY_NAME
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


BUGS: dict[type[Exception], Callable[[], object]] = {
    ValueError: lambda: int("x"),
    KeyError: lambda: {}["x"],
    IndexError: lambda: [][0],
    OverflowError: lambda: float(10**400),
    ZeroDivisionError: lambda: 1 // 0,
}


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_of_our_reader_is_not_called_a_hostile_file(
    bug: type[Exception], chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the list of readers one has a bug, in `read` if it is chosen, else while it recognises the path."""
    (tmp_path / "a.mine").write_text("1 2")

    def read(look: Any, options: AnnotationOptions) -> Any:
        return BUGS[bug]()

    module: Any = SimpleNamespace(recognise=read, read=read)
    mine = Reader("mine", module, AnnotationOptions, suffixes=(".mine",), kinds=())
    monkeypatch.setattr("shardfeed.converters.sources.readers.READERS", (mine,))
    monkeypatch.setitem(BY_NAME, "mine", mine)
    with pytest.raises(bug):
        open_source(tmp_path, reader="mine" if chosen else None)


def test_a_damaged_file_that_a_parser_refuses_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.mine").write_text("{")

    def read(look: Any, options: AnnotationOptions) -> Any:
        return json.loads((tmp_path / "a.mine").read_text())

    mine = Reader("mine", SimpleNamespace(read=read), AnnotationOptions)  # type: ignore[arg-type]
    monkeypatch.setitem(BY_NAME, "mine", mine)
    with pytest.raises(HostileError, match="Expecting property name"):
        open_source(tmp_path, reader="mine")


def test_what_recognise_parsed_is_given_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.mine").write_text("1 2")

    def read(look: Any, options: AnnotationOptions, *parsed: Any) -> Any:
        raise UsageError("mine", f"got {parsed}")

    module = SimpleNamespace(recognise=lambda look, options: Evidence("mine", "it is", parsed=["1", "2"]), read=read)
    mine = Reader("mine", module, AnnotationOptions, suffixes=(".mine",), kinds=())
    monkeypatch.setattr("shardfeed.converters.sources.readers.READERS", (mine,))
    monkeypatch.setitem(BY_NAME, "mine", mine)
    with pytest.raises(UsageError, match=r"got \(\['1', '2'\],\)"):
        open_source(tmp_path)
    with pytest.raises(UsageError, match=r"got \(\)"):
        open_source(tmp_path, reader="mine")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"flags": {"difficult": 1}}, 'write "image/object/difficult"'),
        ({"points": {"rotaded": [0, 0] * 4}}, "points: got 'rotaded', expected keypoints or rotated"),
    ],
)
def test_what_an_object_has_besides_is_of_a_known_key(tmp_path: Path, known: dict[str, Any], said: str) -> None:
    (tmp_path / "a.txt").write_text("1 2")

    def read(look: Any, options: AnnotationOptions) -> Source:
        found = Annotations(look.path, look, options, what="line")
        found.object(found.image("a.jpg", where="line 1"), 1, [0, 0, 1, 1], "cat", **known)
        return found.source()

    with pytest.raises(UsageError, match=said):
        opened(tmp_path, read)


def test_an_image_that_its_file_cuts_off_is_truncated(tmp_path: Path) -> None:
    file = tmp_path / "a.pack"
    file.write_bytes(b"0123456789")
    state = file.stat()
    part = FilePart(bytes(file), 4, 8, state.st_size, state.st_mtime_ns)
    with pytest.raises(RejectedError, match="ends 2 bytes before") as raised:
        part()
    assert raised.value.code == RejectCode.TRUNCATED

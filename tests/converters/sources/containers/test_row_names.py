"""Names of rows become keys only if they can be paths of files."""

import pytest

from shardfeed.converters.sources.rows.columns import RowNames


@pytest.mark.parametrize("name", [b"a//b", b"a/./b", b"/a", b"../a", b"a\0b", b"s3://a/b", b"", b"x" * 256])
def test_names_that_cannot_be_paths_are_not_kept(name: bytes) -> None:
    names = RowNames([""], 3)
    names.add(b"a/b", b".png")
    names.add(name, b"")
    assert names.unique() is None


def test_other_names_are_kept() -> None:
    names = RowNames([""], 3)
    names.add(b"./a\\b", b".png")
    names.add(b"c.png", b".png")
    kept = names.unique()
    assert kept is not None
    assert [*kept] == [b"a/b.png", b"c.png"]

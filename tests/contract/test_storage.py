"""The local disk is a storage: the tests of its contract, run over it."""

from pathlib import Path

import pytest

from shardfeed.storage.local import make_directory, write_file
from shardfeed.storage.storage import LOCAL
from shardfeed.testing.storage import StorageContract, Stored


class TestLocal(StorageContract):
    """Contract of local storage; the tests replace files by a rename, as a converter does."""

    @pytest.fixture
    def stored(self, tmp_path: Path) -> Stored:
        (tmp_path / "data").mkdir()

        def put(name: str, content: bytes) -> None:
            path = tmp_path / "data" / name
            make_directory(str(path.parent))
            write_file(str(path), content)

        return LOCAL, str(tmp_path / "data"), put


def test_what_is_no_file_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"123")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    assert dict(LOCAL.entries(str(tmp_path))) == {
        "folder": -1,
        "link": 3,
        "file": 3,
        "dangling": -1,
    }

"""Contract tests for a storage (`shardfeed.storage.storage.Storage`), for your own class to inherit.

from shardfeed.testing.storage import StorageContract


class TestBucket(StorageContract):
    @pytest.fixture
    def stored(self, bucket):
        def put(name, content):
            bucket.upload(f"data/{name}", content)
        return BucketStorage(bucket), "data", put
"""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from shardfeed.errors import IntegrityError
from shardfeed.storage.storage import Part, Storage, sizes_by_name, whole

Stored = tuple[Storage, str, Callable[[str, bytes], object]]
CONTENT = bytes(range(256)) * 17


class StorageContract:
    """A storage lists entries and reads ranges of files, of one state of a file at a time.

    Override the fixture `stored`: the storage, an empty directory in it, and a function that writes a file there, and
    replaces a file of the same name. The name may contain one directory: "index/a".
    """

    @pytest.fixture
    def stored(self) -> Stored:
        """Return the storage, a directory, and a function that puts a file there; override this fixture."""
        raise NotImplementedError("override the fixture `stored`: storage, directory, and a function that puts a file")

    def test_any_range(self, stored: Stored) -> None:
        """Check that a read returns exactly the requested bytes; fewer at the end of the file, none after it."""
        storage, directory, put = stored
        put("a", CONTENT)
        file = storage.open(f"{directory}/a")
        assert (file.path, file.size) == (f"{directory}/a", len(CONTENT))
        for start, size in ((0, 0), (0, 1), (5, 100), (4000, 352), (0, len(CONTENT)), (4300, 100), (9000, 10)):
            assert file.read(start, size) == CONTENT[start : start + size]
        assert whole(file) == CONTENT

    def test_an_empty_file(self, stored: Stored) -> None:
        """Check that an empty file can be opened and read."""
        storage, directory, put = stored
        put("a", b"")
        file = storage.open(f"{directory}/a")
        assert (file.size, file.read(0, 10), whole(file)) == (0, b"", b"")

    def test_lists_names_and_sizes(self, stored: Stored) -> None:
        """Check that files are listed with sizes, other entries without, and only for the requested directories."""
        storage, directory, put = stored
        with suppress(FileNotFoundError):  # where a directory is what its files are called
            assert sizes_by_name(storage, directory) == {}
        for name, content in (("a", b"1"), ("b.c", b"22"), ("index/d", b"333")):
            put(name, content)
        assert sizes_by_name(storage, directory) == {"a": 1, "b.c": 2, "index": -1}
        assert sizes_by_name(storage, directory, ["index", "none", "a"]) == {"a": 1, "b.c": 2, "index/d": 3}

    def test_what_is_not_there(self, stored: Stored) -> None:
        """Check that a missing file or directory raises FileNotFoundError."""
        storage, directory, put = stored
        put("a", b"")
        with pytest.raises(FileNotFoundError):
            storage.open(f"{directory}/none")
        with pytest.raises(FileNotFoundError):
            storage.entries(f"{directory}/none")

    def test_a_file_that_is_replaced(self, stored: Stored) -> None:
        """Check that a replaced file keeps its content for open readers, or fails, and that its version changes."""
        storage, directory, put = stored
        put("a", CONTENT)
        before = storage.open(f"{directory}/a")
        assert storage.open(f"{directory}/a").version == before.version == storage.version(f"{directory}/a")
        known = storage.open(f"{directory}/a", len(CONTENT))
        assert known.read(0, 5) == CONTENT[:5]
        put("a", CONTENT[::-1])
        after = storage.open(f"{directory}/a")
        assert before.version != after.version
        assert (whole(before), whole(after)) == (CONTENT, CONTENT[::-1])
        assert hash(before.version) != hash(after.version)
        with suppress(IntegrityError):
            assert known.read(5, 5) == CONTENT[5:10]

    def test_many_parts_at_once(self, stored: Stored) -> None:
        """Check that parts are returned in order, and that the error for a missing file names it."""
        storage, directory, put = stored
        put("a", CONTENT)
        put("b", CONTENT[::-1])
        a, b = (storage.open(f"{directory}/{name}", len(CONTENT)) for name in ("a", "b"))
        parts = [Part(file, start, size) for start in range(0, 900, 90) for file, size in ((a, 7), (b, 200))]
        contents = {a.path: CONTENT, b.path: CONTENT[::-1]}
        expected = [contents[part.file.path][part.start : part.start + part.size] for part in parts]
        assert storage.read_many(parts) == expected
        assert storage.read_many([]) == []
        with pytest.raises(FileNotFoundError):
            storage.read_many([Part(storage.open(f"{directory}/none", 5), 0, 5)])

    def test_pickles(self, stored: Stored) -> None:
        """Check that the storage can be pickled: it is sent to other processes with a split."""
        storage, directory, put = stored
        put("a", CONTENT)
        again = pickle.loads(pickle.dumps(storage))
        assert whole(again.open(f"{directory}/a")) == CONTENT

    def test_threads_read_at_once(self, stored: Stored) -> None:
        """Check that many threads can read from one open file."""
        storage, directory, put = stored
        put("a", CONTENT)
        file = storage.open(f"{directory}/a")
        with ThreadPoolExecutor(8) as pool:
            starts = list(range(0, len(CONTENT), 7)) * 3
            assert list(pool.map(lambda at: file.read(at, 7), starts)) == [CONTENT[at : at + 7] for at in starts]

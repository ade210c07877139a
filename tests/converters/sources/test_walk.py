"""The walk: every regular file once, in byte order, and nothing silent about the rest (RELIABILITY.md 30, 35, 36)."""

import errno
import os
import pickle
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.converters.sources.files import walk as read_ahead
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.walk import DiskAnswers, list_files
from shardfeed.errors import StorageError, UsageError, spell_out


@pytest.fixture(autouse=True, params=[False, True], ids=["local disk", "slow disk"])
def _disk(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiskAnswers, "_slow", request.param)
        patch.setattr(read_ahead, "_MOST", 8)  # so that trees of these tests are also read in parts
        yield


def plant(root: Path, *keys: bytes | str) -> Path:
    """Write a file for each key; its content is its key."""
    for key in map(os.fsencode, keys):
        path = os.path.join(os.fsencode(root), key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(key)
    return root


def codes(listing: Listing) -> dict[bytes, str]:
    return {skipped.key: skipped.code for skipped in listing.skipped}


def reasons(listing: Listing) -> dict[bytes, str]:
    return {skipped.key: skipped.reason for skipped in listing.skipped}


@settings(max_examples=25)
@given(st.sets(st.lists(st.sampled_from(["a", "a.", "a-", "a0", "A", "é"]), min_size=1, max_size=4).map(tuple)))
def test_order_of_any_tree(tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]]) -> None:
    root = tmp_path_factory.mktemp("tree")
    # A file ends in ".f", which no folder does.
    keys = [os.fsencode("/".join(path) + ".f") for path in paths]
    assert list(list_files(plant(root, *keys))) == sorted(keys)


def test_size_and_time(tmp_path: Path) -> None:
    plant(tmp_path, "a.jpg")
    os.utime(tmp_path / "a.jpg", ns=(5, 1_234_567_891_234_567_890))
    file = list_files(tmp_path).file(0)
    assert (file.size, file.mtime_ns) == (5, 1_234_567_891_234_567_890)


HIDDEN = [
    ".DS_Store",
    "Thumbs.db",
    "._x.jpg",
    ".ipynb_checkpoints/x.jpg",
    "__MACOSX/x.jpg",
    "@eaDir/x.jpg",
    "desktop.ini",
]


@pytest.mark.promise(30)
@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_names_are_passed_over_and_counted(tmp_path: Path, name: str) -> None:
    listing = list_files(plant(tmp_path, "c/x.jpg", f"c/{name}", name))
    assert list(listing) == [b"c/x.jpg"]
    assert listing.hidden == 2
    first, second = sorted([name.split("/")[0], f"c/{name.split('/')[0]}"])
    assert listing.notes == (f"ignored hidden names: 2 ({first}, {second})",)


ODD = {
    "not UTF-8": b"caf\xe9.jpg",
    "newline": b"a\nb.jpg",
    "tab": b"a\tb.jpg",
    "spaces": b" a  b .jpg",
    "quotes": b"\"a\" 'b'.jpg",
    "255 bytes": b"x" * 251 + b".jpg",
    "dots": b"a..b...jpg.",
    "comma and backslash": b"a,b\\c.jpg",
}


@pytest.mark.promise(35)
@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_odd_names_round_trip(tmp_path: Path, name: bytes) -> None:
    listing = list_files(plant(tmp_path, b"d" + name + b"/" + name if len(name) < 200 else name))
    with open(listing.file(0).path, "rb") as file:
        assert file.read() == listing.key(0)
    assert listing.key(0).endswith(name)


@pytest.mark.promise(35)
def test_unicode_twins_and_equal_base_names_are_different_files(tmp_path: Path) -> None:
    keys = ["a/caf\u00e9.jpg", "a/cafe\u0301.jpg", "b/caf\u00e9.jpg"]
    assert list(list_files(plant(tmp_path, *keys))) == sorted(map(os.fsencode, keys))


@pytest.mark.promise(36)
def test_a_link_to_a_folder_in_the_root_lists_it_once(tmp_path: Path) -> None:
    plant(tmp_path, "z/x.jpg")
    (tmp_path / "a").symlink_to("z")  # sorts before the folder's own name, which is the one to keep
    (tmp_path / "z" / "up").symlink_to("..")
    (tmp_path / "z" / "self").symlink_to(".")
    listing = list_files(tmp_path)
    assert list(listing) == [b"z/x.jpg"]
    assert listing.aliases == ((b"a", b"z"), (b"z/self", b"z"), (b"z/up", b""))
    assert listing.notes == (
        "links to folders that are already listed under another name: 3 (a -> z, z/self -> z, z/up -> .)",
    )


@pytest.mark.promise(36)
def test_a_link_into_a_hidden_folder_is_followed_once(tmp_path: Path) -> None:
    plant(tmp_path, ".store/v1/x.jpg")
    (tmp_path / "new").symlink_to(".store/v1")
    (tmp_path / "old").symlink_to(".store/v1")
    (tmp_path / ".store" / "v1" / "again").symlink_to("..")
    listing = list_files(tmp_path)
    assert list(listing) == [b"new/x.jpg"]
    assert (b"old", b"new") in listing.aliases


@pytest.mark.promise(36)
def test_a_link_to_a_file_in_the_root_is_a_file(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", ".store/y")
    (tmp_path / "a" / "link.jpg").symlink_to("x.jpg")
    (tmp_path / "a" / "y.jpg").symlink_to("../.store/y")
    listing = list_files(tmp_path)
    assert list(listing) == [b"a/link.jpg", b"a/x.jpg", b"a/y.jpg"]
    assert [listing.file(i).size for i in range(3)] == [len("a/x.jpg"), len("a/x.jpg"), len(".store/y")]


@pytest.mark.promise(36)
def test_a_link_out_of_the_root_is_an_escape(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", "a/x.jpg")
    plant(tmp_path / "root-2", "secret.jpg")  # its path begins with the root's
    (root / "a" / "file.jpg").symlink_to("../../root-2/secret.jpg")
    (root / "folder").symlink_to("../root-2")
    listing = list_files(root)
    assert list(listing) == [b"a/x.jpg"]
    assert codes(listing) == {b"a/file.jpg": "E_PATH_ESCAPE", b"folder": "E_PATH_ESCAPE"}
    reason = spell_out(reasons(listing)[b"folder"])
    assert reason.startswith("a link that points outside the root: ../root-2 (--follow-links (in Python")
    assert listing.bare == (b"folder",)


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    plant(tmp_path / "real", "a/x.jpg")
    (tmp_path / "real" / "a" / "y.jpg").symlink_to("x.jpg")
    (tmp_path / "root").symlink_to("real")
    listing = list_files(tmp_path / "root")
    assert list(listing) == [b"a/x.jpg", b"a/y.jpg"]
    assert listing.file(0).path == os.fsencode(tmp_path / "root" / "a" / "x.jpg")


@pytest.mark.promise(36)
def test_broken_links_are_missing(tmp_path: Path) -> None:
    plant(tmp_path, "x.jpg")
    (tmp_path / "gone.jpg").symlink_to("nothing.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    listing = list_files(tmp_path)
    assert list(listing) == [b"x.jpg"]
    assert codes(listing) == {b"gone.jpg": "E_MISSING", b"loop.jpg": "E_MISSING"}


@pytest.mark.promise(36)
def test_only_regular_files_and_never_blocks(tmp_path: Path) -> None:
    plant(tmp_path, "x.jpg")
    os.mkfifo(tmp_path / "fifo.jpg")  # opening it would wait for a writer
    (tmp_path / "link.jpg").symlink_to("fifo.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.jpg"))
        listing = list_files(tmp_path)
    assert list(listing) == [b"x.jpg"]
    assert reasons(listing) == {
        b"fifo.jpg": "a FIFO, expected a file",
        b"link.jpg": "a FIFO, expected a file",
        b"socket.jpg": "a socket, expected a file",
    }
    assert set(codes(listing).values()) == {"E_NOT_REGULAR"}


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "x.jpg")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # 20 names of 250 bytes: longer than a path may be, for every user
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    listing = list_files(tmp_path)
    assert list(listing) == [b"x.jpg"]
    assert set(codes(listing).values()) == {"E_UNREADABLE"}
    assert list(reasons(listing).values()) == ["ENAMETOOLONG: File name too long"]


def test_a_file_that_cannot_be_asked_for_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "x.jpg")
    (tmp_path / "link.jpg").symlink_to("n" * 300)
    here, length = os.open(tmp_path, os.O_RDONLY), len(os.fsencode(tmp_path))
    while length + 251 < 4096:  # the last folder can still be named, a long name in it cannot
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, length = inner, length + 251
    os.close(os.open("f" * 250, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    listing = list_files(tmp_path)
    assert list(listing) == [b"x.jpg"]
    assert [skipped.key[-8:] for skipped in listing.skipped] == [b"ffffffff", b"link.jpg"]
    assert set(reasons(listing).values()) == {"ENAMETOOLONG: File name too long"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", "b/x.jpg")
    (tmp_path / "a").chmod(0)
    try:
        listing = list_files(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o700)
    assert list(listing) == [b"b/x.jpg"]
    assert reasons(listing) == {b"a": "EACCES: Permission denied"}


def test_running_out_of_descriptors_is_not_the_inputs_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "a/x.jpg")
    scandir = os.scandir

    def failing(path: bytes) -> object:
        if path.endswith(b"a/"):
            raise OSError(errno.EMFILE, "Too many open files")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)  # the real thing would hit the first folder, which always raises
    with pytest.raises(StorageError, match="Too many open files"):
        list_files(tmp_path)


def test_folders_without_a_file_are_told(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", "c/.hidden")
    (tmp_path / "b" / "deep").mkdir(parents=True)
    assert list_files(tmp_path).bare == (b"b", b"b/deep", b"c")


def test_an_empty_folder(tmp_path: Path) -> None:
    listing = list_files(tmp_path)
    assert len(listing) == 0
    assert list(listing) == []
    assert len(pickle.loads(pickle.dumps(listing))) == 0


@pytest.mark.parametrize(
    ("name", "problem"), [("none", "no such folder"), ("file", "not a folder"), ("a\0", "no such")]
)
def test_a_root_that_is_no_folder(tmp_path: Path, name: str, problem: str) -> None:
    plant(tmp_path, "file")
    with pytest.raises(UsageError, match=problem):
        list_files(f"{tmp_path}/{name}")


def test_a_root_that_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        list_files(tmp_path / ("n" * 300))


def test_the_root_is_absolute_whatever_it_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path / "data", "x.jpg")
    monkeypatch.chdir(tmp_path)
    for root in ("data", "data/", "./data/../data", os.fsencode(tmp_path / "data"), tmp_path / "data"):
        assert list_files(root).file(0).path == os.fsencode(tmp_path / "data" / "x.jpg")


def test_folders_deeper_than_pythons_stack(tmp_path: Path) -> None:
    path, made = str(tmp_path), []
    for _ in range(1100):
        path += "/d"
        os.mkdir(path)
        made.append(path)
    plant(Path(path), "x.jpg")
    listing = list_files(tmp_path)
    assert listing.key(0).count(b"/d") == 1099
    os.remove(listing.file(0).path)
    for path in reversed(made):  # pytest's own clean-up recurses
        os.rmdir(path)


def test_a_listing_costs_little_memory(tmp_path: Path) -> None:
    count = 10_000
    for i in range(count):
        os.close(os.open(tmp_path / f"n01440764_{i:08d}.JPEG", os.O_CREAT | os.O_WRONLY))
    list_files(tmp_path)
    tracemalloc.start()
    listing = list_files(tmp_path)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(listing) == count
    assert kept / count < 100
    assert peak / count < 200


@pytest.mark.promise(36)
def test_links_that_leave_the_root_are_followed_where_asked(tmp_path: Path) -> None:
    """As of a subset made of links: train/n01 -> /imagenet/train/n01."""
    plant(tmp_path / "all", "n01/x.jpg", "n01/deep/y.jpg", "n02/x.jpg", "n03/x.jpg")
    root = plant(tmp_path / "root", "own/x.jpg")
    (root / "n01").symlink_to(tmp_path / "all" / "n01")
    (root / "n03").symlink_to("../all/n03")
    (root / "own" / "file.jpg").symlink_to(tmp_path / "all" / "n02" / "x.jpg")
    listing = list_files(root, follow_links=True)
    assert list(listing) == [b"n01/deep/y.jpg", b"n01/x.jpg", b"n03/x.jpg", b"own/file.jpg", b"own/x.jpg"]
    assert not listing.skipped
    assert not listing.bare
    with open(listing.file(0).path, "rb") as file:
        assert file.read() == b"n01/deep/y.jpg"


@pytest.mark.promise(36)
def test_followed_links_never_go_round_in_circles_and_list_a_folder_once(tmp_path: Path) -> None:
    outside = plant(tmp_path / "outside", "c/x.jpg")
    root = plant(tmp_path / "root", "a/x.jpg")
    (root / "b").symlink_to("../outside")
    (root / "again").symlink_to("../outside/c")  # sorts before, and so keeps the files
    (root / "d").symlink_to("../outside")
    (root / "up").symlink_to("..")
    (outside / "home").symlink_to("../root")
    (outside / "c" / "self").symlink_to(".")
    listing = list_files(root, follow_links=True)
    assert list(listing) == [b"a/x.jpg", b"again/x.jpg"]
    assert dict(listing.aliases) == {
        b"again/self": b"again",
        b"b/c": b"again",
        b"b/home": b"",
        b"d": b"b",
        b"up/outside": b"b",
        b"up/root": b"",
    }
    assert b"d" not in listing.bare, "a folder that is listed elsewhere is no empty one"


KEYS = (
    "a.jpg",
    "b.png",
    "cat/1.jpg",
    "cat/2.png",
    "cat/old/3.jpg",
    "masks/1.png",
    "train/dog/4.jpg",
    "train/masks/5.jpg",
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include": "*.png"}, "b.png cat/2.png masks/1.png"),
        ({"include": ["*.png", "a.*"]}, "a.jpg b.png cat/2.png masks/1.png"),
        ({"include": "cat"}, "cat/1.jpg cat/2.png cat/old/3.jpg"),
        ({"include": "cat/*.jpg"}, "cat/1.jpg"),
        ({"include": "cat/**/*.jpg"}, "cat/1.jpg cat/old/3.jpg"),
        ({"include": "**/*.jpg", "exclude": ["train/", "old"]}, "a.jpg cat/1.jpg"),
        ({"exclude": "masks"}, "a.jpg b.png cat/1.jpg cat/2.png cat/old/3.jpg train/dog/4.jpg"),
        ({"exclude": "/masks"}, "a.jpg b.png cat/1.jpg cat/2.png cat/old/3.jpg train/dog/4.jpg train/masks/5.jpg"),
        ({"exclude": ["**/old", "train/**", "?.*"]}, ""),
        ({"exclude": ["c*", "train", "masks"]}, "a.jpg b.png"),
        ({"include": "[!ab].*", "exclude": "[12].*"}, "cat/old/3.jpg train/dog/4.jpg train/masks/5.jpg"),
    ],
)
def test_files_are_chosen_by_patterns(tmp_path: Path, options: dict, expected: str) -> None:
    listing = list_files(plant(tmp_path, *KEYS), **options)
    assert [key.decode() for key in listing] == expected.split()
    assert any(note.startswith("files and folders left out by include and exclude: ") for note in listing.notes)
    assert not listing.bare, "a folder whose files are not wanted is no empty class"
    assert all(listing.choice.wants(key) for key in listing)
    assert not any(listing.choice.wants(key.encode()) for key in set(KEYS) - set(expected.split()))


def test_a_pattern_that_matches_nothing_is_told(tmp_path: Path) -> None:
    listing = list_files(plant(tmp_path, "a.jpg", "b.png"), exclude=["*.pgn", "*.png"])
    assert listing.notes == (
        "files and folders left out by include and exclude: 1 (b.png)",
        "nothing matched the exclude pattern '*.pgn'",
    )


def test_links_that_are_not_wanted_are_not_held_against_the_folder(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", "a.jpg", "store/v1/x.jpg")
    (root / "gone.txt").symlink_to("nowhere")
    (root / "out.txt").symlink_to("../elsewhere.txt")
    (tmp_path / "elsewhere.txt").write_text("x")
    (root / "away").symlink_to("..")
    (root / "cat").symlink_to("store/v1")
    assert len(list_files(root).skipped) == 3
    assert list(codes(list_files(root, include="*.jpg"))) == [b"away"], "what wanted files may lie in is told"
    listing = list_files(root, exclude=["*.txt", "away", "store"])
    assert (list(listing), listing.skipped) == ([b"a.jpg", b"cat/x.jpg"], ()), "the link is now the only name"


@pytest.mark.parametrize("pattern", ["", "/", "./", "..", b"*.jpg", None, 3])
def test_what_is_no_pattern(tmp_path: Path, pattern: object) -> None:
    with pytest.raises(UsageError, match=r"^exclude: got the pattern "):
        list_files(plant(tmp_path, "a.jpg"), exclude=[pattern])  # type: ignore[list-item]  # that is what is refused

"""`verify`: any change to any byte is found, and placed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.example import encode
from shardfeed.readers import Dataset, verify
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH, Feature, Value
from shardfeed.tools.commands.verify_command import check_image

SHARD = "train-00001-of-00004.tfrecord"
INDEX = "index/train-00001-of-00004.tfindex"


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


def test_an_untouched_dataset(flowers: Dataset) -> None:
    result = verify(flowers.directory)
    assert result.damages == []
    assert result.records == sum(map(len, flowers.values()))
    assert result.files == len(flowers.manifest.files())
    assert result.bytes == sum(file.size for file in flowers.manifest.files().values())


def change(path: Path, edit: Callable[[bytes], bytes]) -> None:
    before = path.read_bytes()
    after = edit(before)
    assert after != before, "the corruptor changed nothing"
    path.write_bytes(after)


def flip(offset: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:offset] + bytes([data[offset] ^ 1]) + data[offset:][1:]


def starts(directory: Path) -> list[int]:
    return [int(line.split()[0]) for line in (directory / INDEX).read_text().splitlines()]


@pytest.mark.promise(19)
@pytest.mark.parametrize("within", [0, 7, 8, 11, 12, 60, -1])
def test_a_flipped_bit_has_a_record_and_an_offset(copy: Path, within: int) -> None:
    """One of each kind of byte: length, its CRC, data, last byte of the data's CRC."""
    offsets = starts(copy)
    offset = offsets[3] + within if within >= 0 else offsets[4] - 1
    change(copy / SHARD, flip(offset))
    damages = verify(copy).damages
    assert [(d.file, d.record, d.offset) for d in damages[1:]] == [(SHARD, 3, offsets[3])]
    assert "its CRC-32C is" in damages[0].problem


@pytest.mark.promise(19)
def test_every_flip_of_a_small_dataset_is_found(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(1, classes=("a",))), tmp_path / "out")
    path = tmp_path / "out" / "train-00000-of-00001.tfrecord"
    data = path.read_bytes()
    for bit in range(0, len(data) * 8, 7):
        path.write_bytes(flip_bit(data, bit))
        assert verify(tmp_path / "out").damages, bit


def flip_bit(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@pytest.mark.promise(25)
@pytest.mark.parametrize(
    "kind",
    [
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "image.class.label.labels.txt",
        "index/validation.image.class.label.npy",
        "index/validation.image.filename.npy",
        INDEX,
    ],
)
def test_every_other_file_is_checked(copy: Path, kind: str) -> None:
    change(copy / kind, flip(10))
    assert [damage.file for damage in verify(copy).damages] == [kind]


@pytest.mark.promise(20)
def test_structural_changes(copy: Path) -> None:
    path = copy / SHARD
    whole = path.read_bytes()
    offsets = starts(copy)
    first, second = whole[: offsets[1]], whole[offsets[1] : offsets[2]]
    rest = whole[offsets[2] :]
    for changed in (
        second + first + rest,  # swapped
        second + rest,  # removed
        first + first + second + rest,  # doubled
        whole + b"\0",  # appended
        whole + first,
        whole[: offsets[-1]],  # cut at a boundary, which reads as a clean end
        whole[:-1],
        b"",
    ):
        path.write_bytes(changed)
        assert any(damage.file == SHARD for damage in verify(copy).damages)
    path.write_bytes(whole)
    assert verify(copy).damages == []


@pytest.mark.promise(23)
def test_missing_extra_and_swapped_files(copy: Path) -> None:
    (copy / "features.json").unlink()
    a, b = copy / "validation-00000-of-00002.tfrecord", copy / "validation-00001-of-00002.tfrecord"
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    found = {damage.file for damage in verify(copy).damages}
    assert found == {"features.json", a.name, b.name}


@pytest.mark.promise(23)
def test_a_file_of_a_stranger_is_named_and_is_no_damage(copy: Path) -> None:
    for name in ("README.md", ".DS_Store", "left.txt"):
        (copy / name).write_text("x")
    result = verify(copy)
    assert (result.damages, result.strangers) == ([], [".DS_Store", "README.md", "left.txt"])
    (copy / "other-00000-of-00001.tfrecord").write_bytes(b"")  # a glob of shards would take it for one
    result = verify(copy)
    assert [str(damage) for damage in result.damages] == ["other-00000-of-00001.tfrecord: not part of the dataset"]


@pytest.mark.promise(19, 24)
def test_damage_with_a_damaged_index(copy: Path) -> None:
    index = copy / INDEX
    offsets = starts(copy)
    change(index, flip(0))
    change(copy / SHARD, flip(offsets[2] + 40))
    found = [(d.file, d.record, d.offset) for d in verify(copy).damages]
    assert (INDEX, None, None) in found
    assert (SHARD, 2, offsets[2]) in found, "the lengths lead to it without the index"
    change(copy / SHARD, flip(offsets[5]))
    found = [(d.file, d.record, d.offset) for d in verify(copy).damages]
    assert (SHARD, 5, offsets[5]) in found


def test_not_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        verify(tmp_path)


def test_deep_sees_records_that_do_not_decode(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(2, png_every=2)
    change(root / "rose" / "0000.png", flip(-60))
    convert(ImageFolder(root), tmp_path / "out", image=ImageOptions(check="none"))
    assert verify(tmp_path / "out").damages == []
    damages = verify(tmp_path / "out", check_image).damages
    assert len(damages) == 1
    assert damages[0].record is not None
    train = shardfeed.open(tmp_path / "out")["train"]
    assert train[damages[0].record]["image/filename"] == b"rose/0000.png"


def raw_record(**changed: Value) -> bytes:
    values: dict[str, Value] = {ENCODED: bytes(18), FORMAT: b"raw", HEIGHT: 2, WIDTH: 3} | changed
    schema = {key: Feature("bytes" if isinstance(value, bytes) else "int64") for key, value in values.items()}
    return encode(schema, values)


def test_deep_looks_at_raw_pixels() -> None:
    check_image(raw_record())
    for changed in ({ENCODED: bytes(17)}, {WIDTH: 4}, {FORMAT: b"png"}, {FORMAT: 3}, {HEIGHT: b"2"}):
        with pytest.raises(IntegrityError):
            check_image(raw_record(**changed))
    with pytest.raises(IntegrityError):
        check_image(encode({ENCODED: Feature("bytes")}, {ENCODED: bytes(18)}))


@pytest.mark.parametrize("size", [(10, 12), None])
def test_deep_takes_a_raw_dataset(folder: Callable[..., Path], tmp_path: Path, size: tuple[int, int] | None) -> None:
    convert(
        ImageFolder(folder(3, png_every=2)), tmp_path / "out", image=ImageOptions(encode="raw", size=size), workers=1
    )
    result = verify(tmp_path / "out", check_image)
    assert (result.damages, result.records) == ([], 9)

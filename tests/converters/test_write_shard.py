"""One shard: the same task gives the same files, whoever writes it and whenever."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.column import column_dtype, column_keys, parse_column
from shardfeed.converters import ImageFolder, ImageOptions, Sample, convert
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.shards import write_shard as shard_writer
from shardfeed.converters.shards.receipts import EarlierShards, save_receipt
from shardfeed.converters.shards.task import IMAGE_IDENTITY, Receipt, ShardTask, shard_paths
from shardfeed.converters.shards.write_shard import write_shard
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import StorageError, UsageError
from shardfeed.formats.example import decode
from shardfeed.formats.registry import NATIVE
from shardfeed.schema import FILENAME, FORMAT, LABEL, SHA256, SOURCE_ID, TEXT, Feature, Schema, image_features
from shardfeed.storage.local import TEMPORARY
from shardfeed.storage.storage import LOCAL, FileInfo

from pictures import image_bytes
from repository import ROOT

SCHEMA = Schema(image_features(sha256=True) | {LABEL: Feature("int64"), TEXT: Feature("bytes")}, {LABEL: ("a", "b")})


def task(directory: Path, images: list[bytes], **changes: object) -> ShardTask:
    samples = tuple(
        Sample(b"%d.jpg" % i, image, {LABEL: i % 2, TEXT: (b"a", b"b")[i % 2]}) for i, image in enumerate(images)
    )
    values: dict[str, object] = {"first": 40, "samples": samples, "schema": SCHEMA, "image": ImageOptions()}
    directory.mkdir(exist_ok=True)
    values |= {"directory": str(directory), "split": "train", "number": 1, "count": 3}
    return ShardTask(**{**values, **changes})  # type: ignore[arg-type]


def encoded(shade: int, kind: str = "JPEG") -> bytes:
    return image_bytes(Image.new("RGB", (20 + shade, 12), (shade, 100, 50)), kind)


IMAGES = [encoded(0), encoded(1, kind="PNG"), b"no image", encoded(3)]


def test_the_receipt_says_what_is_on_disk(tmp_path: Path) -> None:
    receipt = write_shard(task(tmp_path / "out", IMAGES))
    data, index = shard_paths(str(tmp_path / "out"), "train", 1, 3)
    assert (receipt.split, receipt.number, receipt.info.records) == ("train", 1, 3)
    assert receipt.info.data == FileInfo.of_file(data)
    assert receipt.info.index == FileInfo.of_file(index)
    assert receipt.class_counts == {LABEL: (1, 2)}
    assert receipt.formats == {"jpeg": 2, "png": 1}
    assert [(noted.key, noted.what) for noted in receipt.rejected] == [(b"2.jpg", "E_NOT_IMAGE")]
    view = NATIVE.view(receipt.info, Path(index).read_bytes(), index)
    records = [decode(payload) for payload in view.read(LOCAL.open(data), 0, 3)]
    assert [record[SOURCE_ID][1] for record in records] == [[b"40"], [b"41"], [b"43"]], "a rejected one leaves a gap"
    assert receipt.columns.keys() == {*column_keys("train", SCHEMA), IMAGE_IDENTITY}
    assert len(receipt.columns[IMAGE_IDENTITY]) == 16 + 3 * 16
    for key in column_keys("train", SCHEMA):
        column = receipt.columns[key]
        values = parse_column(column, 3, column_dtype(SCHEMA, key), key)
        assert values.tolist() == [next(iter(record[key][1])) for record in records], key


def test_the_same_task_gives_the_same(tmp_path: Path) -> None:
    first, second = (write_shard(task(tmp_path / place, IMAGES)) for place in "ab")
    assert first == second


SAID = {
    "one": Feature("int64"),
    "many": Feature("float32", (None,)),
    "three": Feature("int64", (3,)),
    "grid": Feature("float32", (2, 2)),
    "name": Feature("bytes"),
    "tags": Feature("int64", (None,), "tags"),
}
RIGHT: dict[str, object] = {
    "one": 1,
    "many": [0.5],
    "three": [1, 2, 3],
    "grid": [[1.0, 2.0], [3.0, 4.0]],
    "name": b"x",
} | {"tags": [2, 0]}


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("many", np.ones((2, 2)), "got an array of shape (2, 2), expected a list of float; flatten it, or give it"),
        ("many", np.ones(2), "got an array of shape (2,), expected a list of float; .tolist() makes a list of it"),
        ("many", [[1.0, 2.0], [3.0, 4.0]], "got list in the list, expected float"),
        ("many", 1.0, "got float, expected a list of float"),
        ("three", [1, 2], "got (2,) values, expected (3,)"),
        ("grid", [[1.0], [2.0, 3.0, 4.0]], "got (2,) values, expected (2, 2)"),
        ("grid", [1.0, 2.0, 3.0, 4.0], "got (4,) values, expected (2, 2)"),
        ("one", "1", "got the text '1', expected one int; make a number of it: int(TEXT)"),
        ("one", 1.0, "got float, expected one int"),
        ("one", 2**63, f"got {2**63}, expected a number that fits int64"),
        ("one", [1], "got list, expected one int"),
        ("name", "x", "got the text 'x', expected one bytes; encode it: .encode()"),
        ("name", None, "got NoneType, expected one bytes"),
        ("tags", [3, 1, 3], "got the class 3 twice, expected each class once at most; correct the source"),
    ],
)
def test_values_unlike_the_schema_name_sample_and_key(tmp_path: Path, key: str, value: object, problem: str) -> None:
    pairs = ((b"a", RIGHT), (b"b", RIGHT | {key: value}))
    samples = tuple(Sample(name, IMAGES[0], said) for name, said in pairs)  # type: ignore[arg-type]  # that is the point
    schema = Schema(image_features(sha256=True) | SAID)
    with pytest.raises(UsageError) as caught:
        write_shard(task(tmp_path / "out", [], samples=samples, schema=schema))
    assert caught.value.place == f"sample b, feature {key}"
    assert str(caught.value).removeprefix(f"sample b, feature {key}: ").startswith(problem)
    assert not list((tmp_path / "out").iterdir())


def test_a_sample_with_other_features_than_the_schema(tmp_path: Path) -> None:
    schema = Schema(image_features(sha256=True) | SAID)
    for changed, problem in (({"more": 1}, "more: has a value, but source.schema has no"), ({}, "one: has no value")):
        features = (RIGHT | changed) if changed else {key: value for key, value in RIGHT.items() if key != "one"}
        samples = (Sample(b"a", IMAGES[0], features),)  # type: ignore[arg-type]  # what is wrong is the point
        with pytest.raises(UsageError, match=f"sample a, feature {problem}"):
            write_shard(task(tmp_path / "out", [], samples=samples, schema=schema))


def test_a_condemned_image_is_not_touched(tmp_path: Path) -> None:
    receipt = write_shard(task(tmp_path / "out", IMAGES, condemned={0: RejectCode.DECODE_TIMEOUT}))
    assert [noted.what for noted in receipt.rejected] == ["E_DECODE_TIMEOUT", "E_NOT_IMAGE"]
    assert receipt.info.records == 2


def test_a_shard_of_nothing_but_rejected_images(tmp_path: Path) -> None:
    receipt = write_shard(task(tmp_path / "out", [b"no image"]))
    assert (receipt.info.records, receipt.info.data.size, receipt.info.index.size) == (0, 0, 0)
    columns = {key: column for key, column in receipt.columns.items() if key != IMAGE_IDENTITY}
    assert [len(parse_column(c, 0, column_dtype(SCHEMA, k), k)) for k, c in columns.items()] == [0] * 8


def test_progress_tells_places_and_bytes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_shard(task(tmp_path / "out", IMAGES), lambda place, size: told.append((place, size)))
    assert [place for place, _ in told] == [0, 1, 2, 3, 4]
    assert sum(size for _, size in told) == sum(map(len, IMAGES))


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    bad = task(tmp_path / "out", [*IMAGES, encoded(5)])
    bad.samples[4].features[LABEL] = 2  # type: ignore[index]  # a dict here
    with pytest.raises(UsageError, match="got the label 2"):
        write_shard(bad)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    with pytest.raises(StorageError, match="cannot create"):
        write_shard(replace(task(tmp_path / "out", IMAGES), directory=str(tmp_path / "none")))


# CRC-32C of each shard of a conversion and of its index, as the last commit that wrote format 1 made them.
GOLDEN = [
    (80, 142911, 0xAF4010D5, 0xF9B6269C),
    (80, 143244, 0xA8F94C78, 0xB4668BE4),
    (80, 143406, 0x9244EAA9, 0xB8F6D8CF),
]


def test_shards_are_byte_for_byte_what_they_were(tmp_path: Path) -> None:
    convert(ImageFolder(ROOT / "data_samples" / "shapes"), tmp_path / "shapes", shards=3, workers=1)
    split = shardfeed.open(tmp_path / "shapes").manifest.splits["train"]
    assert [(s.records, s.data.size, s.data.crc32c, s.index.crc32c) for s in split.shards] == GOLDEN
    train = shardfeed.open(tmp_path / "shapes")["train"]
    assert train.column(FORMAT).tolist() == [b"jpeg"] * len(train)
    assert len(np.unique(train.column(FILENAME))) == len(train)


@pytest.fixture
def every_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint before each image, and a try that is killed clears nothing up."""
    monkeypatch.setattr(shard_writer, "CHECKPOINT_SECONDS", -1.0)


def killed_before(place: int, the_task: ShardTask) -> None:
    """In a process of its own."""
    pid = os.fork()
    if pid == 0:
        write_shard(the_task, lambda at, size: os._exit(7) if at == place else None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def read_by(the_task: ShardTask) -> tuple[Receipt, list[int]]:
    """The receipt, and the places of the samples that were looked at."""
    places: list[int] = []
    receipt = write_shard(the_task, lambda place, size: places.append(place))
    return receipt, places


@pytest.mark.promise(1)
@pytest.mark.usefixtures("every_image")
def test_a_try_goes_on_where_one_was_killed(tmp_path: Path) -> None:
    images = [*IMAGES, encoded(4), b"", encoded(5, kind="PNG")]
    expected = write_shard(task(tmp_path / "whole", images, digest="d"))
    for place in range(len(images) + 1):
        the_task = task(tmp_path / f"at{place}", images, digest="d")
        killed_before(place, the_task)
        receipt, places = read_by(the_task)
        assert receipt == expected
        assert places == list(range(min(place, len(images) - 1), len(images) + 1)), "what was durable is not made again"
        for path, other in zip(the_task.paths, shard_paths(str(tmp_path / "whole"), "train", 1, 3), strict=True):
            assert Path(path).read_bytes() == Path(other).read_bytes()


@pytest.mark.usefixtures("every_image")
@pytest.mark.parametrize("what", ["digest", "checkpoint", "data", "cut", "gone", "no digest", "unreadable"])
def test_a_checkpoint_that_does_not_fit_is_not_used(what: str, tmp_path: Path) -> None:
    """The shard is written from its beginning."""
    images: list[bytes] = [encoded(i) for i in range(6)]
    expected = write_shard(task(tmp_path / "whole", images, digest="now"))
    the_task = task(tmp_path / "out", images, digest="now")
    before = the_task
    if what == "digest":
        before = replace(the_task, digest="before")
    elif what == "no digest":
        before = replace(the_task, digest="")
    elif what == "unreadable":
        gone = Sample(b"0.jpg", SourceFile(bytes(tmp_path), 5, 0), the_task.samples[0].features)
        before = replace(the_task, samples=(gone, *the_task.samples[1:]))
    killed_before(4, before)
    data, checkpoint = Path(the_task.paths[0] + TEMPORARY), Path(the_task.checkpoint)
    assert checkpoint.exists() == (what != "no digest")
    if what == "checkpoint":
        checkpoint.write_bytes(checkpoint.read_bytes().replace(b"train", b"tra1n"))
    elif what == "data":
        data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    elif what == "cut":
        data.write_bytes(data.read_bytes()[:100])
    elif what == "gone":
        data.unlink()
    receipt, places = read_by(the_task)
    assert places == list(range(7))
    assert receipt == expected
    assert (
        Path(the_task.paths[0]).read_bytes()
        == Path(shard_paths(str(tmp_path / "whole"), "train", 1, 3)[0]).read_bytes()
    )


def test_a_shard_of_a_moment_makes_no_checkpoint(tmp_path: Path) -> None:
    the_task = task(tmp_path / "out", IMAGES, digest="d")
    write_shard(the_task)
    assert not Path(the_task.checkpoint).exists()


@pytest.mark.usefixtures("every_image")
def test_an_image_condemned_after_the_checkpoint(tmp_path: Path) -> None:
    images = [encoded(i) for i in range(5)]
    condemned = {3: RejectCode.DECODER_CRASH}
    expected = write_shard(task(tmp_path / "whole", images, digest="d", condemned=condemned))
    killed_before(3, task(tmp_path / "out", images, digest="d"))
    receipt, places = read_by(task(tmp_path / "out", images, digest="d", condemned=condemned))
    assert receipt == expected
    assert places == [3, 4, 5]


def test_images_of_an_earlier_shard_are_not_read_again(tmp_path: Path) -> None:
    """Whatever their number, place and labels are now; one that is not as it was is read again."""
    images = [encoded(0), encoded(1, kind="PNG"), b"no image", *map(encoded, range(3, 8))]
    before = task(tmp_path / "before", images, digest="a")
    receipt = write_shard(before)
    earlier = EarlierShards(str(tmp_path / "earlier"))
    path = str(tmp_path / "receipt.json")
    earlier.set_aside(save_receipt(path, receipt), path, *before.paths)
    assert not any(map(os.path.lexists, (path, *before.paths)))
    again = EarlierShards(str(tmp_path / "earlier"))
    samples = tuple(replace(sample, features={LABEL: 0, TEXT: b"a"}) for sample in reversed(before.samples))
    other = task(tmp_path / "now", [], samples=samples, first=7)
    expected = write_shard(replace(other, directory=task(tmp_path / "whole", []).directory))
    for found in (earlier, again):
        kept = found.find(samples, SCHEMA, other.image, ("train", 1))
        assert kept.keys() == {0, 1, 2, 3, 4, 6, 7}
    broken = Path(kept[0].path)
    broken.write_bytes(broken.read_bytes()[:-1] + b"x")
    with pytest.MonkeyPatch.context() as patch:
        read: list[bytes] = []
        patch.setattr(
            shard_writer, "read_image", lambda sample, most: read.append(sample.key) or read_image(sample, most)
        )
        assert write_shard(replace(other, kept=kept)) == expected
    assert read == [b"7.jpg", b"2.jpg"], "the damaged one, and the one that was rejected"
    assert again.find(samples, SCHEMA, ImageOptions(quality=50), ("train", 1)) == {}
    assert again.find(samples, image_schema_without_hash(), other.image, ("train", 1)) == {}
    again.remove_unused()
    assert broken.exists()
    again.remove_unused(("train", 1))
    assert not broken.exists()


def image_schema_without_hash() -> Schema:
    return Schema({key: feature for key, feature in SCHEMA.features.items() if key != SHA256}, SCHEMA.class_names)

"""`salvage`: every undamaged record of the dataset, once, and nothing else; the damaged dataset is only read."""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, Salvaged, adopt, convert, salvage, survey
from shardfeed.converters.existing.salvage.search import Search
from shardfeed.errors import IntegrityError, OutputExistsError, UsageError
from shardfeed.formats.tfrecord.example import decode, encode
from shardfeed.formats.tfrecord.framing import frame
from shardfeed.manifest import FileInfo, ShardInfo, read_manifest
from shardfeed.pipelines import train_batches
from shardfeed.readers import Dataset, verify
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, Feature, Schema

from damages import damage
from trees import tree

SHARD = "train-00001-of-00004.tfrecord"
INDEX = SHARD.replace("record", "index")
COLUMN = "train.image.class.label.npy"


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


def payloads(directory: Path) -> dict[str, list[bytes]]:
    """The records of each shard of a sound dataset, by the shard's name."""
    found: dict[str, list[bytes]] = {}
    for split in shardfeed.open(directory).values():
        first = 0
        for number, info in enumerate(split.shards.info.shards):
            name = os.path.basename(split.shards.path(number))
            found[name] = [split.payload(first + i) for i in range(info.records)]
            first += info.records
    return found


def frames(directory: Path, shard: str = SHARD) -> list[bytes]:
    return [frame(payload) for payload in payloads(directory)[shard]]


def salvaged(damaged: Path, out: Path) -> tuple[Salvaged, dict[str, list[bytes]]]:
    """Salvage; nothing is written into the damaged dataset, and the new one is sound in every way that is checked."""
    before = tree(damaged)
    result = salvage(damaged, out)
    assert tree(damaged) == before
    assert sorted(p.name for p in out.parent.iterdir() if p.name.startswith(".")) == []
    assert verify(out).damages == []
    found = payloads(out)
    assert sum(map(len, found.values())) == result.recovered
    for split in shardfeed.open(out).values():
        labels = split.column(LABEL).tolist() if len(split) else []
        assert labels == [record[LABEL] for record in split]
        assert list(split.class_counts[LABEL]) == [labels.count(c) for c in range(3)]
    return result, found


@pytest.mark.promise(23)
def test_nothing_lost_gives_the_same_shards(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    for name in (INDEX, COLUMN, "features.json"):
        (copy / name).unlink()
    (copy / "left.txt").write_text("x")
    whole = payloads(Path(flowers.directory))
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole
    assert (result.lost, result.shards) == (0, ())
    assert any("left.txt is not part" in note for note in result.notes)
    again = shardfeed.open(tmp_path / "out").manifest
    assert again.fingerprint == flowers.manifest.fingerprint
    assert again.options == flowers.manifest.options
    assert again.splits == flowers.manifest.splits, "indexes and columns byte for byte"


@pytest.mark.parametrize("index", ["whole", "damaged", "missing"])
@pytest.mark.parametrize("manifest", [True, False])
def test_a_flip_in_the_data_and_one_in_a_length(
    copy: Path, flowers: Dataset, tmp_path: Path, index: str, manifest: bool
) -> None:
    whole = payloads(Path(flowers.directory))
    starts = [int(line.split()[0]) for line in (copy / INDEX).read_text().splitlines()]
    data = bytearray((copy / SHARD).read_bytes())
    data[starts[3] + 400] ^= 1  # within the image
    data[starts[7]] ^= 1
    (copy / SHARD).write_bytes(data)
    if index == "missing":
        (copy / INDEX).unlink()
    elif index == "damaged":
        (copy / INDEX).write_text((copy / INDEX).read_text().replace("1", "2", 1))
    if not manifest:
        (copy / "manifest.json").write_bytes((copy / "manifest.json").read_bytes()[:-40])
    result, found = salvaged(copy, tmp_path / "out")
    assert found[SHARD] == [p for i, p in enumerate(whole[SHARD]) if i not in (3, 7)]
    assert {name: p for name, p in found.items() if name != SHARD} == {n: p for n, p in whole.items() if n != SHARD}
    assert (result.lost, result.recovered) == (2, 199)
    told = {shard.name: shard for shard in result.shards}[SHARD]
    assert (told.expected, told.recovered, told.left_out) == (len(whole[SHARD]), len(whole[SHARD]) - 2, ())
    if not manifest:
        assert any("manifest.json is damaged" in note for note in result.notes)
        assert shardfeed.open(tmp_path / "out").class_names == flowers.class_names
        return
    names = {n: decode(whole[SHARD][n]) for n in (3, 7)}
    assert [(lost.number, lost.source_id) for lost in told.lost] == [
        (n, names[n][SOURCE_ID][1][0].decode()) for n in (3, 7)
    ]
    assert told.lost[0].filename == names[3][FILENAME][1][0].decode()
    kept = json.loads((tmp_path / "out" / "salvaged.json").read_text())
    assert kept["lost"] == 2
    assert [lost["number"] for lost in kept["shards"][0]["lost_records"]] == [3, 7]


def test_structural_changes_are_undone(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    """Records doubled, swapped, appended from other shards: each once, in its own shard and place."""
    whole = payloads(Path(flowers.directory))
    other = "train-00003-of-00004.tfrecord"
    f, g = frames(copy), frames(copy, other)
    stranger = [frame(payload) for payload in payloads(Path(flowers.directory))["validation-00000-of-00002.tfrecord"]]
    changed = [f[1], f[0], *f[2:], f[5], g[0], stranger[0]]
    for number, index in enumerate((True, False)):
        (copy / SHARD).write_bytes(b"".join(changed))
        (copy / other).write_bytes(b"".join(g[1:-1]) + g[-1][:-1])  # its first record lies in SHARD only
        if not index:
            (copy / INDEX).unlink()
        result, found = salvaged(copy, tmp_path / f"out{number}")
        assert found[SHARD] == whole[SHARD]
        assert found[other] == whole[other][:-1]
        assert result.lost == 1
        assert [lost.number for shard in result.shards for lost in shard.lost] == [len(g) - 1]


@pytest.mark.promise(23)
def test_swapped_renamed_missing_and_stale_shards(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    whole = payloads(Path(flowers.directory))
    a, b, c, d = (f"train-{i:05d}-of-00004.tfrecord" for i in range(4))
    (copy / a).rename(copy / "swap")
    (copy / b).rename(copy / a)
    (copy / "swap").rename(copy / b)
    (copy / c).rename(copy / "copy of c.tfrecord")
    (copy / d).unlink()
    shutil.copy(Path(flowers.directory) / b, copy / "train-00003-of-00016.tfrecord")
    shutil.copy(Path(flowers.directory) / "validation-00000-of-00002.tfrecord", copy / "train-00004-of-00016.tfrecord")
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole | {d: []}
    assert [(shard.name, shard.problem, shard.recovered) for shard in result.shards] == [(d, "missing", 0)]
    assert len(result.shards[0].lost) == len(whole[d]) == result.lost
    assert any(note.startswith("train-00004-of-00016.tfrecord is not part") for note in result.notes)


def test_records_of_another_dataset_under_our_names(copy: Path, flowers_folder: Path, tmp_path: Path) -> None:
    """Source ids of the right range in whole frames: index and label column tell that they are strangers."""
    convert(ImageFolder(flowers_folder), tmp_path / "other", split={"train": 0.8, "validation": 0.2}, seed=5, workers=2,
            shards={"train": 4, "validation": 2})  # fmt: skip
    strangers = (tmp_path / "other" / SHARD).read_bytes()
    whole = payloads(copy)
    ours = set(whole[SHARD])
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes() + strangers)
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole
    assert result.lost == 0
    assert len(result.shards[0].left_out) > 20
    (copy / SHARD).write_bytes(strangers)
    result, found = salvaged(copy, tmp_path / "out2")
    assert len(set(found[SHARD]) - ours) < 5, "only where number, size and label happen to be those of ours"
    assert result.lost is not None
    assert result.lost > len(ours) - 5


def test_right_crc_but_no_record_of_the_dataset(copy: Path, tmp_path: Path) -> None:
    f = frames(copy)
    whole = payloads(copy)[SHARD]
    record = encode({LABEL: Feature("int64")}, {LABEL: 1})
    (copy / SHARD).write_bytes(b"".join([*f[:2], frame(b"\xff\xff no example"), frame(record), *f[3:]]))
    result, found = salvaged(copy, tmp_path / "out")
    assert found[SHARD] == [*whole[:2], *whole[3:]]
    assert len(result.shards[0].left_out) == 2
    assert "no feature" in " ".join(result.shards[0].left_out)
    assert [lost.number for lost in result.shards[0].lost] == [2]


def test_a_salvaged_dataset_is_salvaged_again(copy: Path, tmp_path: Path) -> None:
    """Its source ids have gaps now; records are still told apart, and the batches can be read."""
    f = frames(copy)
    (copy / SHARD).write_bytes(b"".join(f[:4] + f[6:]))
    salvaged(copy, tmp_path / "one")
    data = (tmp_path / "one" / SHARD).read_bytes()
    (tmp_path / "one" / SHARD).write_bytes(data[: -len(f[-1])] + f[0] + b"x")
    result, found = salvaged(tmp_path / "one", tmp_path / "two")
    assert [frame(payload) for payload in found[SHARD]] == f[:4] + f[6:-1]
    assert result.lost == 1
    assert [lost.number for lost in result.shards[0].lost] == [len(f) - 3]
    train = shardfeed.open(tmp_path / "two")["train"]
    images, labels = next(iter(train_batches(train, batch_size=16, image_size=16)))
    assert images.shape == (16, 16, 16, 3)
    assert labels.shape == (16,)


def test_rejected_inputs_leave_gaps(tmp_path: Path, folder: Callable[..., Path]) -> None:
    root = folder(8)
    for name in ("daisy/0002.jpg", "rose/0000.jpg", "tulip/0005.jpg"):
        (root / name).write_bytes(b"no image")
    convert(ImageFolder(root), tmp_path / "data", shards=3, max_bad=3, workers=1)
    whole = payloads(tmp_path / "data")
    names = sorted(whole)
    for name, index in ((names[1], True), (names[2], False)):
        f = [frame(payload) for payload in whole[name]]
        (tmp_path / "data" / name).write_bytes(f[0] + b"?" + b"".join(f[2:]) + f[0])
        if not index:
            (tmp_path / "data" / name.replace("record", "index")).unlink()
    result, found = salvaged(tmp_path / "data", tmp_path / "out")
    assert {n: p[:1] + p[2:] if n != names[0] else p for n, p in whole.items()} == found
    assert [[lost.number for lost in shard.lost] for shard in result.shards] == [[1], []], (
        "without index: lost or rejected?"
    )
    assert shardfeed.open(tmp_path / "out").manifest.rejected == {"E_NOT_IMAGE": 3}


@pytest.mark.parametrize("named", [True, False])
def test_adopted_records_without_identity(tmp_path: Path, named: bool) -> None:
    """No source id; where all records differ a second copy is known as one, else the index says how many there were."""
    schema = {"x": Feature("float32", (None,)), LABEL: Feature("int64")}
    made = [frame(encode(schema, {"x": [float(i)] * (1 + i % 3), LABEL: i % 3})) for i in range(20)]
    if not named:
        made[9] = made[3]
    home = tmp_path / "home"
    home.mkdir()
    for number, part in enumerate((made[:10], made[10:])):
        (home / f"train-{number:05d}-of-00002.tfrecord").write_bytes(b"".join(part))
    adopt(survey(home))
    shard = home / "train-00000-of-00002.tfrecord"
    shard.write_bytes(
        b"".join([*made[:5], b"\0\0", *made[6:10], made[0] if named else b"", made[12] if named else b""])
    )
    result, found = salvaged(home, tmp_path / "out")
    assert [frame(p) for p in found[shard.name]] == made[:5] + made[6:10]
    assert result.lost == 1
    assert [lost.number for lost in result.shards[0].lost] == [5]


def test_raw_pixels_and_many_label_features(flowers_folder: Path, tmp_path: Path) -> None:
    options = ImageOptions(encode="raw", size=(10, 12))
    convert(ImageFolder(flowers_folder), tmp_path / "raw", image=options, shards=2, workers=1)
    (tmp_path / "raw" / "manifest.json").unlink()
    whole = (tmp_path / "raw" / "features.json").read_bytes()
    result, found = salvaged(tmp_path / "raw", tmp_path / "out")
    assert result.lost == 0
    assert sum(map(len, found.values())) == 201
    assert (tmp_path / "out" / "features.json").read_bytes() == whole


@pytest.mark.parametrize(
    "info", ["{", '{"splits": [{"name": "train", "shardLengths": ["99999999999", "-1", "1", "1"]}]}', "[]"]
)
def test_side_files_of_any_content(copy: Path, flowers: Dataset, tmp_path: Path, info: str) -> None:
    """Nothing vouches for them without a manifest."""
    (copy / "manifest.json").unlink()
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:-1])
    (copy / "dataset_info.json").write_text(info)
    (copy / "features.json").write_text('{"featuresDict": {"features": []}}')
    (copy / "image.class.label.labels.txt").write_text("one\n\ntwo")
    result, found = salvaged(copy, tmp_path / "out")
    assert (result.lost, result.recovered) == (None, 200)
    out = shardfeed.open(tmp_path / "out")
    assert out.class_names == flowers.class_names, "by the texts beside the labels"
    assert out.manifest.schema == flowers.manifest.schema
    assert sum(map(len, found.values())) == 200


def test_what_is_refused(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputExistsError):
        salvage(copy, copy)
    with pytest.raises(UsageError, match="only read"):
        salvage(copy, copy / "out")
    with pytest.raises(UsageError, match="no such"):
        salvage(tmp_path / "none", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no shard"):
        salvage(tmp_path / "empty", tmp_path / "out")
    for path in copy.glob("*.tfrecord"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(IntegrityError, match="no record"):
        salvage(copy, tmp_path / "out")
    shutil.copy(copy / "train-00000-of-00004.tfrecord", copy / "train-00000-of-00005.tfrecord")
    (copy / "manifest.json").unlink()
    with pytest.raises(UsageError, match="-of-00004, -of-00005"):
        salvage(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def one_trial(
    whole: dict[str, list[bytes]], original: Path, work: Path, rng: random.Random, gaps: bool = False
) -> bool:
    """Damage a copy, salvage it, compare with what a search for bytes finds in its files. Whether any was lost."""
    damaged, out = work / "damaged", work / "out"
    for directory in (damaged, out):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(original, damaged)
    shards = sorted(whole)
    for name in rng.sample(shards, rng.randrange(1, len(shards))):
        path = damaged / name
        data = damage(path.read_bytes(), rng, rng.randrange(1, 6))
        if rng.random() < 0.2:
            # Of the same split: one of another, whose id is free here, passes where neither index nor column is left.
            data += frame(rng.choice(whole[rng.choice([other for other in shards if other[:5] == name[:5]])]))
        path.write_bytes(data)
        index = damaged / name.replace("record", "index")
        if rng.random() < 0.3:
            index.write_bytes(damage(index.read_bytes(), rng, 1))
        elif rng.random() < 0.2:
            index.unlink()
    if rng.random() < 0.3:
        (damaged / COLUMN).unlink()
    if manifest_gone := rng.random() < 0.3:
        (damaged / "manifest.json").write_bytes((damaged / "manifest.json").read_bytes()[: -rng.randrange(1, 2000)])
    found = Counter(payload for of_shard in salvaged(damaged, out)[1].values() for payload in of_shard)
    content = [(name.split("-")[0], (damaged / name).read_bytes()) for name in shards]
    expected: Counter[bytes] = Counter()
    for name, of_shard in whole.items():
        split = name.split("-")[0]
        for payload in of_shard:
            # A train record in a shard of validation is no record of validation; without a manifest nothing says so.
            where = [other for other, data in content if frame(payload) in data]
            expected[payload] = len(set(where)) if manifest_gone else int(split in where)
    assert found == +expected
    return sum(expected.values()) < sum(map(len, whole.values()))


@pytest.mark.promise(20, 24)
def test_random_damage(flowers: Dataset, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    whole = payloads(Path(flowers.directory))
    lossy = sum(one_trial(whole, Path(flowers.directory), tmp_path, rng) for _ in range(12))
    assert lossy > 6, "the damage did nothing"


@pytest.mark.torture
@pytest.mark.promise(20, 24)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rejected", [0, 4])
def test_random_damage_many_times(
    tmp_path: Path, folder: Callable[..., Path], rejected: int, seed: int, torture_result: Callable[..., None]
) -> None:
    """Also where rejected inputs left gaps in the source ids, so that these do not say a record's number."""
    root = folder(67, png_every=10)
    for path in sorted(root.glob("*/*.jpg"))[5 : 5 + rejected]:
        path.write_bytes(b"no image")
    shards = {"train": 4, "validation": 2}
    convert(ImageFolder(root), tmp_path / "data", split={"train": 0.8, "validation": 0.2}, shards=shards, max_bad=4)
    rng = random.Random(seed)
    whole = payloads(tmp_path / "data")
    lossy = sum(one_trial(whole, tmp_path / "data", tmp_path, rng) for _ in range(500))
    what = f"damaged datasets salvaged, {rejected} inputs rejected before"
    torture_result(what, trials=500, with_losses=lossy, failures=0, seed=seed)


@pytest.fixture
def raw(folder: Callable[..., Path], tmp_path: Path) -> Path:
    """Records of one size, in two splits: sizes and places tell nothing."""
    images = folder(20)
    image = ImageOptions(encode="raw", size=(8, 8))
    convert(ImageFolder(images), tmp_path / "raw", split={"train": 0.5, "test": 0.5}, shards=2, image=image, workers=1)
    return tmp_path / "raw"


@pytest.mark.promise(23)
@pytest.mark.parametrize("genuine", [True, False])
@pytest.mark.parametrize("other_whole", [True, False])
def test_records_of_another_split_are_strangers(raw: Path, tmp_path: Path, genuine: bool, other_whole: bool) -> None:
    """They lie where the index has records of their size, with source ids in range and, here and there, the label."""
    whole = payloads(raw)
    ours, theirs = "train-00000-of-00002.tfrecord", "test-00000-of-00002.tfrecord"
    content = (raw / theirs).read_bytes() + ((raw / ours).read_bytes() if genuine else b"")
    (raw / ours).write_bytes(content)
    if not other_whole:
        data = bytearray((raw / theirs).read_bytes())
        data[200] ^= 1
        (raw / theirs).write_bytes(data)
    result, found = salvaged(raw, tmp_path / "out")
    assert found[ours] == (whole[ours] if genuine else [])
    assert found[theirs] == whole[theirs], "the copy that lies in the other split is as good"
    assert {name for name in found if found[name] != whole[name]} <= {ours, theirs}
    # Alone in that file, they are the other shard, whole; else the first of them takes the place of a damaged one.
    used = not other_whole and genuine
    assert sum(len(shard.left_out) for shard in result.shards) == len(whole[theirs]) - used


@pytest.mark.promise(23)
def test_the_same_images_in_another_conversion_are_strangers(folder: Callable[..., Path], tmp_path: Path) -> None:
    images, image = folder(10), ImageOptions(encode="raw", size=(8, 8))
    for name, seed in (("ours", 0), ("theirs", 9)):
        convert(ImageFolder(images), tmp_path / name, shards=3, image=image, seed=seed, workers=1)
    whole = payloads(tmp_path / "ours")
    shard = "train-00001-of-00003.tfrecord"
    shutil.copyfile(tmp_path / "theirs" / shard, tmp_path / "ours" / shard)
    _, found = salvaged(tmp_path / "ours", tmp_path / "out")
    names = [decode(payload)[FILENAME][1][0] for of_shard in found.values() for payload in of_shard]
    assert len(set(names)) == len(names), "no image twice"
    assert {name: p for name, p in found.items() if name != shard} == {n: p for n, p in whole.items() if n != shard}


@pytest.mark.promise(23)
def test_a_copy_of_a_whole_shard_without_its_index(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Behind the records of another, with rejected inputs: ranges of source ids overlap then."""
    images, copy = folder(10), tmp_path / "copy"
    for path in sorted(images.glob("*/*.jpg"))[3:9:2]:
        path.write_bytes(b"no image")
    image = ImageOptions(encode="raw", size=(8, 8))
    convert(ImageFolder(images), copy, shards=4, image=image, max_bad=3, workers=1)
    whole = payloads(copy)
    first, lost, last = (f"train-0000{n}-of-00004.tfrecord" for n in (0, 1, 2))
    (copy / last.replace("record", "index")).unlink()
    (copy / first).write_bytes((copy / first).read_bytes() + (copy / last).read_bytes())
    (copy / lost).unlink()
    result, found = salvaged(copy, tmp_path / "out")
    assert found == {**whole, lost: []}, "nothing of the whole shard stands in for what is lost"
    assert result.lost == len(whole[lost])


def foreign(place: Path, ids: list[list[int]]) -> list[list[bytes]]:
    """Shards of records with those ids, as others write them: in any order, some again and again."""
    place.mkdir()
    features = {SOURCE_ID: Feature("bytes"), FILENAME: Feature("bytes"), LABEL: Feature("int64")}
    shards = []
    for shard, numbers in enumerate(ids):
        values = [{SOURCE_ID: b"%d" % n, FILENAME: b"%d.jpg" % n, LABEL: n % 3} for n in numbers]
        shards.append([frame(encode(features, value)) for value in values])
        (place / f"train-{shard:05d}-of-{len(ids):05d}.tfrecord").write_bytes(b"".join(shards[-1]))
    return shards


@pytest.mark.promise(23)
@pytest.mark.parametrize("manifest", ["never", "lost"])
def test_records_of_others_keep_their_order(tmp_path: Path, seed: int, manifest: str) -> None:
    ids = random.Random(seed).sample(range(10**6), 60)
    place = tmp_path / "coco"
    shards = foreign(place, [ids[:20], ids[20:40] + ids[20:25], ids[40:]])
    if manifest == "lost":
        adopt(survey(place))
        (place / "manifest.json").unlink()
    path = place / "train-00001-of-00003.tfrecord"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    salvage(place, tmp_path / "out")
    found = [(tmp_path / "out" / name.name).read_bytes() for name in sorted(place.glob("*.tfrecord"))]
    assert found[0] == b"".join(shards[0])
    assert found[2] == b"".join(shards[2])
    assert found[1] in (b"".join(shards[1][1:]), b"".join(shards[1][1:21])), "repetitions may count as damage there"


@pytest.mark.promise(23)
def test_repetitions_of_others_stay_where_nothing_is_damaged(tmp_path: Path) -> None:
    shards = foreign(tmp_path / "six", [[7] * 6, [1, 2, 3]])
    result = salvage(tmp_path / "six", tmp_path / "out")
    found = [(tmp_path / "out" / f"train-0000{n}-of-00002.tfrecord").read_bytes() for n in (0, 1)]
    assert found == [b"".join(of_shard) for of_shard in shards]
    assert result.recovered == 9


@pytest.mark.promise(23)
def test_side_files_come_along(tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    foreign(place, [[3, 1, 2], [5, 4, 6]])
    (place / "README.txt").write_text("mine")
    adopt(survey(place))
    for number in range(2):
        target = tmp_path / f"out{number}"
        path = place / "train-00000-of-00002.tfrecord"
        data = bytearray(path.read_bytes())
        data[60] ^= 1
        path.write_bytes(data)
        result = salvage(place, target)
        assert (target / "README.txt").read_text() == "mine"
        assert verify(target).damages == []
        place = target
        assert result.lost == 1
    told = json.loads((target / "salvaged.json").read_text())
    assert told["earlier"]["lost"] == told["lost"] == 1
    assert "earlier" not in told["earlier"]
    (target / "README.txt").write_text("changed")
    result = salvage(target, tmp_path / "last")
    assert any("README.txt is missing or damaged" in note for note in result.notes)
    assert (tmp_path / "last" / "salvaged.json").read_bytes() == (target / "salvaged.json").read_bytes()


@pytest.mark.promise(12)
def test_a_dataset_that_is_replaced_meanwhile(
    copy: Path, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(ImageFolder(folder(8)), tmp_path / "other", shards=1, workers=1)
    other = tmp_path / "other" / "train-00000-of-00001.tfrecord"
    whole = Search.schema

    def meanwhile(self: Search) -> Schema:
        shutil.copyfile(other, copy / "train-00000-of-00004.tfrecord")
        return whole(self)

    data = bytearray((copy / SHARD).read_bytes())
    data[500] ^= 1
    (copy / SHARD).write_bytes(data)
    monkeypatch.setattr(Search, "schema", meanwhile)
    with pytest.raises(IntegrityError, match="changed while it was read"):
        salvage(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.promise(22)
def test_a_manifest_that_lies_about_what_is_not_there(copy: Path, tmp_path: Path) -> None:
    """Its checksum is right. A missing shard of 2^40 records, a column of labels without names."""
    manifest = read_manifest(str(copy))
    (copy / SHARD).unlink()
    split = manifest.splits["train"]
    shards = list(split.shards)
    huge = 1 << 40
    shards[1] = ShardInfo(huge, FileInfo(huge * 16, 1), FileInfo(huge * 5, 1))
    lying = replace(split, shards=tuple(shards))
    splits = {**manifest.splits, "train": lying}
    for name, value in (
        ("huge", replace(manifest, splits={**splits, "train": replace(lying, columns={})})),
        ("nameless", replace(manifest, schema=Schema(manifest.schema.features, {}))),
    ):
        (copy / "manifest.json").write_bytes(value.to_bytes())
        result = salvage(copy, tmp_path / name)
        assert result.recovered > 100
        assert all(not shard.lost for shard in result.shards) == (name == "huge")

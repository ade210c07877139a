"""`salvage`: every whole record of the dataset, once and where it lay, and nothing else; the old one is only read."""

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from foreign_tfrecords import picture

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, Salvaged, adopt, convert, salvage, survey
from shardfeed.converters.existing import salvage as salvaging
from shardfeed.converters.existing.salvage import Survivors
from shardfeed.errors import IntegrityError, OutputExistsError, UsageError
from shardfeed.formats.example import decode, encode
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import frame
from shardfeed.manifest import FileInfo, read_manifest
from shardfeed.pipelines import train_batches
from shardfeed.readers import Dataset, verify
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, Feature, Schema
from shardfeed.shard_table import ShardTable

from damages import damage
from trees import tree

SHARD = "train-00001-of-00004.tfrecord"
INDEX = "index/train-00001-of-00004.tfindex"
COLUMN = "index/train.image.class.label.npy"


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
    f = frames(copy)
    data = bytearray(b"".join(f))
    data[sum(map(len, f[:3])) + 400] ^= 1  # within the image
    data[sum(map(len, f[:7]))] ^= 1
    (copy / SHARD).write_bytes(data)
    if index == "missing":
        (copy / INDEX).unlink()
    elif index == "damaged":
        (copy / INDEX).write_bytes(b"x" + (copy / INDEX).read_bytes()[1:])
    if not manifest:
        (copy / "manifest.json").write_bytes((copy / "manifest.json").read_bytes()[:-40])
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole | {SHARD: [p for i, p in enumerate(whole[SHARD]) if i not in (3, 7)]}
    assert (result.lost, result.recovered) == (2, 199)
    (told,) = result.shards
    assert (told.name, told.problem) == (SHARD, "damaged")
    assert (told.expected, told.recovered, told.lost) == (len(whole[SHARD]), len(whole[SHARD]) - 2, 2)
    assert (told.doubled, told.refused, told.lost_bytes) == (0, 0, len(f[3]) + len(f[7]))
    kept = json.loads((tmp_path / "out" / "salvaged.json").read_text())
    assert kept["lost"] == 2
    assert kept["shards"] == [told.to_json()]
    if not manifest:
        assert any("manifest.json is damaged" in note for note in result.notes)
        assert shardfeed.open(tmp_path / "out").class_names == flowers.class_names


@pytest.mark.promise(20)
def test_records_stay_where_they_lie_each_once(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    """Swapped ones keep their new order; those that a whole shard has, or that came before, are left out."""
    whole = payloads(Path(flowers.directory))
    other = "train-00003-of-00004.tfrecord"
    f, g = frames(copy), frames(copy, other)
    in_whole = [frame(payload) for payload in whole["validation-00000-of-00002.tfrecord"]]
    (copy / SHARD).write_bytes(b"".join([f[1], f[0], *f[2:], f[5], g[0], in_whole[0]]))
    (copy / other).write_bytes(b"".join([*g[1:-1], g[-1][:-1]]))
    result, found = salvaged(copy, tmp_path / "out")
    w = whole[SHARD]
    assert found == whole | {SHARD: [w[1], w[0], *w[2:], whole[other][0]], other: whole[other][1:-1]}
    first, second = result.shards
    assert (first.doubled, first.recovered - (first.expected or 0), first.lost) == (2, 1, 0)
    assert (second.lost, second.lost_bytes) == (2, len(g[0]) + len(g[-1]))
    assert result.lost == 2, "what each shard is short of"


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
    assert result.shards[0].lost == len(whole[d]) == result.lost
    assert result.shards[0].lost_bytes == sum(len(frame(payload)) for payload in whole[d])
    assert any(note.startswith("train-00004-of-00016.tfrecord is not part") for note in result.notes)


@pytest.mark.promise(23)
def test_a_shard_of_another_conversion_of_the_same_images(copy: Path, flowers_folder: Path, tmp_path: Path) -> None:
    """No image is there twice: those of whole shards stay, others are taken where they lie."""
    convert(ImageFolder(flowers_folder), tmp_path / "other", split={"train": 0.8, "validation": 0.2}, seed=5,
            shards={"train": 4, "validation": 2})  # fmt: skip
    whole = payloads(copy)
    strangers = payloads(tmp_path / "other")[SHARD]

    def name(payload: bytes) -> bytes:
        return bytes(decode(payload)[FILENAME][1][0])

    (copy / SHARD).write_bytes((copy / SHARD).read_bytes() + b"".join(map(frame, strangers)))
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole, "all of those images are in the dataset"
    assert (result.lost, result.shards[0].doubled) == (0, len(strangers))
    (copy / SHARD).write_bytes(b"".join(map(frame, strangers)))
    result, found = salvaged(copy, tmp_path / "out2")
    ours = {name(payload) for shard, of_shard in whole.items() if shard != SHARD for payload in of_shard}
    assert found == whole | {SHARD: [payload for payload in strangers if name(payload) not in ours]}


def test_right_crc_but_no_record_of_the_dataset(copy: Path, tmp_path: Path) -> None:
    f = frames(copy)
    whole = payloads(copy)[SHARD]
    record = encode({LABEL: Feature("int64")}, {LABEL: 1})
    (copy / SHARD).write_bytes(b"".join([*f[:2], frame(b"\xff\xff no example"), frame(record), *f[3:]]))
    result, found = salvaged(copy, tmp_path / "out")
    assert found[SHARD] == [*whole[:2], *whole[3:]]
    assert (result.shards[0].refused, result.shards[0].lost) == (2, 1)
    start = len(f[0]) + len(f[1])
    assert [reason.split(":")[0] for reason in result.shards[0].reasons] == [
        f"offset {start}", f"offset {start + len(frame(b'xx no example'))}"]  # fmt: skip
    assert "no feature" in result.shards[0].reasons[1]


def test_a_salvaged_dataset_is_salvaged_again(copy: Path, tmp_path: Path) -> None:
    """Records are still told apart, and the batches can be read."""
    f = frames(copy)
    (copy / SHARD).write_bytes(b"".join(f[:4] + f[6:]))
    salvaged(copy, tmp_path / "one")
    data = (tmp_path / "one" / SHARD).read_bytes()
    (tmp_path / "one" / SHARD).write_bytes(data[: -len(f[-1])] + f[0] + b"x")
    result, found = salvaged(tmp_path / "one", tmp_path / "two")
    assert [frame(payload) for payload in found[SHARD]] == f[:4] + f[6:-1]
    assert (result.lost, result.shards[0].doubled) == (1, 1)
    train = shardfeed.open(tmp_path / "two")["train"]
    images, labels = next(iter(train_batches(train, batch_size=16, image_size=16)))
    assert images.shape == (16, 16, 16, 3)
    assert labels.shape == (16,)


def test_after_rejected_inputs(tmp_path: Path, folder: Callable[..., Path]) -> None:
    root = folder(8)
    for name in ("daisy/0002.jpg", "rose/0000.jpg", "tulip/0005.jpg"):
        (root / name).write_bytes(b"no image")
    convert(ImageFolder(root), tmp_path / "data", shards=3, max_bad=3, workers=1)
    whole = payloads(tmp_path / "data")
    damaged = sorted(whole)[1]
    f = [frame(payload) for payload in whole[damaged]]
    (tmp_path / "data" / damaged).write_bytes(f[0] + b"?" + b"".join(f[2:]) + f[0])
    result, found = salvaged(tmp_path / "data", tmp_path / "out")
    assert found == whole | {damaged: whole[damaged][:1] + whole[damaged][2:]}
    assert [(shard.lost, shard.doubled) for shard in result.shards] == [(1, 1)]
    assert shardfeed.open(tmp_path / "out").manifest.rejected == {"E_NOT_IMAGE": 3}


@pytest.mark.parametrize("repeating", [False, True])
def test_adopted_records_without_names(tmp_path: Path, repeating: bool) -> None:
    """They are told apart by their bytes; where equal ones belong to the dataset, all that are whole are taken."""
    schema = {"x": Feature("float32", (None,)), LABEL: Feature("int64")}
    made = [frame(encode(schema, {"x": [float(i)] * (1 + i % 3), LABEL: i % 3})) for i in range(20)]
    if repeating:
        made[9] = made[3]
    home = tmp_path / "home"
    home.mkdir()
    for number, part in enumerate((made[:10], made[10:])):
        (home / f"train-{number:05d}-of-00002.tfrecord").write_bytes(b"".join(part))
    adopt(survey(home))
    shard = home / "train-00000-of-00002.tfrecord"
    lying = [*made[:5], *made[6:10], made[0], made[12]]
    shard.write_bytes(b"".join([*lying[:5], b"\0\0", *lying[5:]]))
    result, found = salvaged(home, tmp_path / "out")
    assert [frame(p) for p in found[shard.name]] == (lying if repeating else lying[:-2])
    assert result.shards[0].doubled == (0 if repeating else 2)


def test_files_of_one_name_in_data_of_others(tmp_path: Path) -> None:
    """`image/filename` may be `0.jpg` in every folder there: it is no name of a record."""
    schema = {FILENAME: Feature("bytes"), LABEL: Feature("int64")}
    made = [frame(encode(schema, {FILENAME: b"%d.jpg" % (i % 2), LABEL: i})) for i in range(8)]
    home = tmp_path / "home"
    home.mkdir()
    shard = home / "train-00000-of-00001.tfrecord"
    for number, manifest in enumerate((True, False)):
        shard.write_bytes(b"".join(made))
        if manifest:
            adopt(survey(home))
        else:
            (home / "manifest.json").unlink()
        shard.write_bytes(b"".join([*made[:3], b"?", *made[4:], made[5]]))
        salvage(home, tmp_path / f"out{number}")
        found = (tmp_path / f"out{number}" / shard.name).read_bytes()
        assert found == b"".join([*made[:3], *made[4:]])


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
    with pytest.raises(UsageError, match="named like a shard"):
        salvage(tmp_path / "empty", tmp_path / "out")
    for path in copy.glob("*.tfrecord"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(IntegrityError, match="no intact record"):
        salvage(copy, tmp_path / "out")
    shutil.copy(copy / "train-00000-of-00004.tfrecord", copy / "train-00000-of-00005.tfrecord")
    (copy / "manifest.json").unlink()
    with pytest.raises(UsageError, match="-of-00004, -of-00005"):
        salvage(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def records_in(data: bytes, payloads: list[bytes]) -> list[bytes]:
    """Those of `payloads` whose whole frames lie in `data`, in order, as often as they do: by nothing but a search."""
    found: list[tuple[int, bytes]] = []
    for payload in payloads:
        at = data.find(frame(payload))
        while at >= 0:
            found.append((at, payload))
            at = data.find(frame(payload), at + 1)
    return [payload for _, payload in sorted(found)]


def by_the_rule(
    damaged: Path, whole: dict[str, list[bytes]], order: list[str], manifest: bool
) -> dict[str, list[bytes]]:
    """Records to be salvaged: intact shards whole, then from each other shard the records not yet taken, in its order.

    With a manifest each payload is taken once in all splits, without a manifest once per split.
    """
    shards = sorted(whole, key=lambda name: (order.index(name.split("-")[0]), name))
    everything = [payload for of_shard in whole.values() for payload in of_shard]
    lying = {name: (damaged / name).read_bytes() for name in shards}
    found: dict[str, list[bytes]] = {}
    for name in shards:
        original = b"".join(map(frame, whole[name]))
        records = records_in(lying[name], everything)
        if manifest and original in lying.values():
            found[name] = whole[name]
        elif not manifest and len(records) == len(whole[name]) and b"".join(map(frame, records)) == lying[name]:
            found[name] = records
    taken = {("" if manifest else name.split("-")[0], payload) for name in found for payload in found[name]}
    for name in shards:
        if name not in found:
            found[name] = []
            for payload in records_in(lying[name], everything):
                key = ("" if manifest else name.split("-")[0], payload)
                if key not in taken:
                    taken.add(key)
                    found[name].append(payload)
    return found


def one_trial(whole: dict[str, list[bytes]], original: Path, work: Path, rng: random.Random) -> bool:
    """Damage a copy, salvage it, compare with what a search for bytes finds in its files. Whether any was lost."""
    damaged, out = work / "damaged", work / "out"
    for directory in (damaged, out):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(original, damaged)
    shards = sorted(whole)
    for name in rng.sample(shards, rng.randrange(1, len(shards))):
        path = damaged / name
        data = damage(path.read_bytes(), rng, rng.randrange(1, 6))
        if rng.random() < 0.3:
            data += frame(rng.choice(whole[rng.choice(shards)]))
        path.write_bytes(data)
        index = damaged / "index" / name.replace("record", "index")
        if rng.random() < 0.3:
            index.write_bytes(damage(index.read_bytes(), rng, 1))
        elif rng.random() < 0.2:
            index.unlink()
    if rng.random() < 0.3:
        (damaged / COLUMN).unlink()
    order = list(read_manifest(str(damaged)).splits)
    if manifest_gone := rng.random() < 0.3:
        (damaged / "manifest.json").write_bytes((damaged / "manifest.json").read_bytes()[: -rng.randrange(1, 2000)])
        order = sorted(order)
    expected = by_the_rule(damaged, whole, order, not manifest_gone)
    result, found = salvaged(damaged, out)
    assert found == expected
    return bool(result.lost)


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


@pytest.mark.promise(23)
def test_a_copy_of_a_whole_shard_behind_another(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    whole = payloads(Path(flowers.directory))
    lost, last = "train-00000-of-00004.tfrecord", "validation-00001-of-00002.tfrecord"
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes() + (copy / last).read_bytes())
    (copy / lost).unlink()
    result, found = salvaged(copy, tmp_path / "out")
    assert found == whole | {lost: []}, "nothing of the whole shard stands in for what is lost"
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


@pytest.mark.promise(20, 23)
def test_a_shard_of_others_in_the_place_of_another(tmp_path: Path) -> None:
    """A shard under another one's name is not salvaged as that one, even if its records have no names of their own."""
    place = tmp_path / "twice"
    shards = foreign(place, [[*range(9), 8], [*range(10, 20)]])
    adopt(survey(place))
    first, second = (place / f"train-0000{n}-of-00002.tfrecord" for n in (0, 1))
    second.write_bytes(first.read_bytes())
    result = salvage(place, tmp_path / "out")
    assert (result.recovered, result.lost) == (10, 10)
    assert (tmp_path / "out" / first.name).read_bytes() == b"".join(shards[0])
    assert (tmp_path / "out" / second.name).read_bytes() == b""


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
    look = salvaging.look_for_survivors

    def meanwhile(directory: str, progress: Callable[[int], object]) -> Survivors:
        found = look(directory, progress)
        shutil.copyfile(other, copy / "train-00000-of-00004.tfrecord")
        return found

    data = bytearray((copy / SHARD).read_bytes())
    data[500] ^= 1
    (copy / SHARD).write_bytes(data)
    monkeypatch.setattr(salvaging, "look_for_survivors", meanwhile)
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
    lying = replace(split, shards=ShardTable.of(shards))
    splits = {**manifest.splits, "train": lying}
    for name, value in (
        ("huge", replace(manifest, splits={**splits, "train": replace(lying, columns={})})),
        ("nameless", replace(manifest, schema=Schema(manifest.schema.features, {}))),
    ):
        (copy / "manifest.json").write_bytes(value.to_bytes())
        result = salvage(copy, tmp_path / name)
        assert result.recovered > 100
        assert (result.lost or 0) >= (huge if name == "huge" else 1)


@pytest.mark.parametrize("adopted", [True, False])
def test_records_of_others_keep_image_and_label(tmp_path: Path, adopted: bool) -> None:
    """Salvaged, they train, also if the directory was never adopted."""
    schema = {"pic": Feature("bytes"), "y": Feature("int64"), "category": Feature("int64")}
    made = [frame(encode(schema, {"pic": picture(i), "y": 7, "category": i % 3})) for i in range(6)]
    home = tmp_path / "home"
    home.mkdir()
    shard = home / "train-00000-of-00001.tfrecord"
    shard.write_bytes(b"".join(made))
    if adopted:
        adopt(survey(home), tmp_path / "data")
        shard = tmp_path / "data" / shard.name
        shard.unlink() if shard.is_symlink() else None
    shard.write_bytes(b"".join([*made[:3], b"?", *made[4:]]))
    salvage(shard.parent, tmp_path / "out")
    data = shardfeed.open(tmp_path / "out")
    assert len(data["train"]) == 5
    assert (data.manifest.schema.key("image/encoded"), data.manifest.schema.key(LABEL)) == ("pic", "category")
    assert data.class_names == ("0", "1", "2")
    _, labels = next(iter(train_batches(data["train"], batch_size=2, image_size=8)))
    assert labels.shape == (2,)

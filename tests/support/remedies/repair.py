"""Remedies of damaged datasets, and of shards that others wrote."""

from collections.abc import Callable
from pathlib import Path

import shardfeed
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.readers.skip import Skip
from shardfeed.schema import ENCODED, LABEL, Feature

from remedies.typed import Box, Way, advises

DIR = {"DIR": "out", "OUT": "new", "DATASET": "out"}
REBUILD = Way("shardfeed rebuild", fill=DIR)


def read_all() -> None:
    list(shardfeed.open("out")["train"])


def read_what_goes(lost: str, cut: int = 0) -> Callable[[], None]:
    """Read a dataset of which a file is lost or cut once it is open."""

    def read() -> None:
        split = shardfeed.open("out")["train"]
        (path,) = Path("out").rglob(lost)
        if cut:
            path.write_bytes(path.read_bytes()[:-cut])
        else:
            path.unlink()
        list(split)

    return read


@advises(
    "readers/columns.py: `shardfeed rebuild DIR` restores it",
    lambda: shardfeed.open("out")["train"].column(LABEL),
    REBUILD,
)
@advises("converters/commit/finish.py: `shardfeed rebuild DIR` restores it", "append out more new", REBUILD)
@advises(
    "tools/commands/verify_command.py: `shardfeed rebuild DIR` restores indexes, `shardfeed salvage",
    "verify out",
    REBUILD,
    Way("shardfeed salvage", 6, fill=DIR),
)
@advises(
    "tools/commands/rebuild_command.py: nothing was written; next: shardfeed rebuild {}",
    "rebuild out --dry-run",
    Way("shardfeed rebuild"),
)
def a_damaged_column(box: Box) -> None:
    box.folder()
    box.folder("more", "rose tulip", 1, 5)
    assert box.type("convert images out") == 0
    for path in (box.root / "out").rglob("*label*.npy"):
        box.damage(str(path.relative_to(box.root)), -1)


@advises("converters/commit/finish.py: `shardfeed rebuild DIR` makes it", "append out more new", REBUILD)
def a_short_column(box: Box) -> None:
    box.folder()
    box.folder("more", "rose tulip", 1, 5)
    assert box.type("convert images out") == 0
    for path in (box.root / "out").rglob("*label*.npy"):
        path.write_bytes(path.read_bytes()[:-8])


@advises(
    "readers/dataset.py: restore it; `shardfeed rebuild DIR` restores indexes, `shardfeed salvage",
    "inspect out",
    REBUILD,
    Way("shardfeed salvage", 6, fill=DIR),
)
def a_lost_index(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    for path in (box.root / "out" / "index").glob("*index*"):
        path.unlink()


@advises("shardfeed/formats/tfrecord.py: `shardfeed rebuild DIR` restores it", read_all, REBUILD)
def a_damaged_index(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    box.damage("out/index/*.tfindex", 0)


@advises(
    "shardfeed/manifest.py: restore the file from a copy, or `shardfeed salvage DIR OUT` makes a",
    "inspect out",
    Way("shardfeed salvage", 6, fill=DIR),
)
@advises("tools/commands/salvage_command.py: next: shardfeed verify {}", "salvage out new", Way("shardfeed verify"))
def a_damaged_manifest(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    box.damage("out/manifest.json")


@advises(
    "converters/existing/rebuild.py: `shardfeed salvage DIR OUT` makes a dataset of the intact",
    "rebuild out",
    Way("shardfeed salvage", 5, fill=DIR),
)
def a_shard_that_was_cut(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    for path in (box.root / "out").glob("*.tfrecord"):
        path.write_bytes(path.read_bytes()[:-5])


@advises(
    "shardfeed/formats/tfrecord.py: `shardfeed salvage DIR OUT` makes a dataset of the intact",
    "adopt theirs new",
    Way("shardfeed salvage", 5, fill={"DIR": "theirs", "OUT": "new"}),
)
def a_damaged_record_of_others(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    (path,) = (box.root / "out").glob("*.tfrecord")
    box.write("theirs/train.tfrecord", path.read_bytes())
    box.damage("theirs/train.tfrecord", -500)


@advises(
    "converters/existing/surveying.py: move it away, or if it is a TFRecord file: `shardfeed",
    "adopt theirs new",
    Way("shardfeed salvage", 5, fill={"DIR": "theirs", "OUT": "new"}),
)
def a_damaged_first_record_of_others(box: Box) -> None:
    a_damaged_record_of_others(box)
    box.damage("theirs/train.tfrecord", -500)
    box.damage("theirs/train.tfrecord", 1)


@advises(
    "tools/commands/rebuild_command.py: {}: {}: not in the shards; restore it from a copy, or use",
    "rebuild out",
    Way("shardfeed salvage", 6, fill=DIR),
)
def the_list_of_rejected_is_lost(box: Box) -> None:
    box.folder()
    box.write("images/rose/bad.jpg", b"\xff\xd8 no more")
    assert box.type("convert images out --max-bad 1") == 0
    (box.root / "out/rejected.jsonl").unlink()


@advises(
    "shardfeed/formats/tfrecord.py: run `shardfeed verify DIR`",
    read_what_goes("*.tfrecord", 5),
    Way("shardfeed verify", fill=DIR, then=Way("shardfeed salvage", 5, fill=DIR)),
)
def a_shard_that_is_cut_while_it_is_read(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0


def read_batches(limit: int) -> None:
    list(shardfeed.train_batches(shardfeed.open("out")["train"], batch_size=6, image_size=8, damaged=Skip(limit)))


@advises(
    "readers/skip.py: `shardfeed verify DIR` lists all, `shardfeed salvage DIR OUT` makes a",
    lambda: read_batches(1),
    Way("shardfeed salvage", 4, fill=DIR),
    Way("shardfeed verify", fill=DIR, then=Way("shardfeed salvage", 4, fill=DIR)),
)
@advises(
    "converters/existing/passport.py: `shardfeed verify DIR` names all damage",
    "card out",
    Way("shardfeed verify", fill=DIR, then=Way("shardfeed salvage", 4, fill=DIR)),
)
def two_damaged_records(box: Box) -> None:
    box.folder()
    assert box.type("convert images out") == 0
    box.damage("out/*.tfrecord", -300)
    box.damage("out/*.tfrecord", 300)


@advises(
    "readers/skip.py: `shardfeed salvage DIR OUT` makes a dataset of the intact records",
    lambda: read_batches(9),
    Way("shardfeed salvage", 3, fill=DIR),
)
def all_records_of_a_batch_are_damaged(box: Box) -> None:
    box.folder("images/train")
    box.folder("images/test", each=1)
    assert box.type("convert images out") == 0
    (path,) = (box.root / "out").glob("train*.tfrecord")
    data = bytearray(path.read_bytes())
    for i in range(6):
        data[len(data) * (2 * i + 1) // 12] ^= 1
    path.write_bytes(data)


@advises(
    "converters/existing/salvage.py: `shardfeed reshard DIR OUT --max-bad N` keeps the",
    "salvage out new",
    Way("shardfeed reshard", 5, listed=1, fill=DIR | {"N": "1"}),
)
@advises(
    "shardfeed/formats/container.py: run `shardfeed verify DIR`",
    read_all,
    Way(
        "shardfeed verify",
        fill=DIR,
        then=Way("shardfeed salvage", fill=DIR, then=Way("shardfeed reshard", 5, listed=1, fill=DIR | {"N": "1"})),
    ),
)
def a_damaged_tar(box: Box) -> None:
    box.folder()
    assert box.type("convert images out --to webdataset") == 0
    (path,) = (box.root / "out").glob("**/*.tar")
    data = bytearray(path.read_bytes())
    data[data.index(b"\xff\xd8") + 300] ^= 1
    path.write_bytes(data)


NAMES = {"DIR": "out", "NEW": "new", "NAMES": "names.txt"}


@advises(
    "converters/existing/salvage.py: ; if an index is lost, `shardfeed rebuild DIR` shows",
    "salvage out new",
    Way("shardfeed rebuild", fill=DIR, then=Way("shardfeed convert", 6, fill=NAMES)),
)
@advises(
    "converters/existing/rebuild.py: shardfeed convert DIR NEW", "rebuild out", Way("shardfeed convert", 6, fill=NAMES)
)
def an_index_of_a_tar_is_lost(box: Box) -> None:
    box.folder()
    box.write("names.txt", "daisy\nrose\ntulip\n")
    assert box.type("convert images out --to webdataset") == 0
    for path in (box.root / "out" / "index").glob("*.index"):
        path.unlink()


@advises(
    "shardfeed/manifest.py: give the directory of a completed `shardfeed convert`",
    "inspect images",
    Way("shardfeed convert", fill={"shardfeed convert": "shardfeed convert images out"}),
)
def a_folder_that_is_no_dataset(box: Box) -> None:
    box.folder()


def records(box: Box, name: str, count: int, *, label: bool = True, first: int = 0) -> None:
    """A TFRecord file of `count` images, of two classes."""
    for i in range(first, first + count):
        box.image(f"tmp/{i}.jpg")
    schema = {ENCODED: Feature("bytes")} | ({LABEL: Feature("int64")} if label else {})
    rows = [{ENCODED: (box.root / f"tmp/{i}.jpg").read_bytes(), LABEL: i % 2} for i in range(first, first + count)]
    box.write(name, b"".join(frame(encode(schema, {key: row[key] for key in schema})) for row in rows))


@advises(
    "tools/commands/adopt_command.py: nothing was written; next: shardfeed adopt {}",
    "adopt theirs --dry-run",
    Way("shardfeed adopt", 4, out="theirs"),
)
def records_of_others(box: Box) -> None:
    records(box, "theirs/train-00000-of-00001.tfrecord", 4)


@advises(
    "tools/commands/adopt_command.py: nothing was written; next, with links to these files:",
    "adopt theirs --dry-run",
    Way("shardfeed adopt", 4, fill={"OUT": "new"}),
)
@advises("tools/commands/adopt_command.py: next: shardfeed verify {}", "adopt theirs new", Way("shardfeed verify"))
def records_with_other_names(box: Box) -> None:
    records(box, "theirs/a.tfrec", 4)


@advises(
    "converters/existing/surveying.py: {}: --split train='*.tar'",
    "adopt theirs new",
    Way("--split", 4, fill={"--split": "train=*.rec"}),
)
def records_with_unknown_names(box: Box) -> None:
    records(box, "theirs/a.rec", 4)


@advises(
    "converters/existing/surveying.py: to keep it as the label, adopt these alone: --split {}",
    "adopt theirs new",
    Way("--split", {"train": 4}),
)
def records_without_labels_in_test(box: Box) -> None:
    records(box, "theirs/train.tfrecord", 4)
    records(box, "theirs/test.tfrecord", 2, label=False, first=7)


@advises(
    "converters/existing/surveying.py: get them, or continue without them: --partial",
    "adopt theirs new",
    Way("--partial", 4),
)
def a_shard_of_others_is_lost(box: Box) -> None:
    records(box, "theirs/train-00000-of-00002", 4)


@advises(
    "converters/existing/making.py: `shardfeed convert DIR NEW --reader {}` makes a dataset with",
    "append theirs images new",
    Way("shardfeed convert", 4, fill={"DIR": "theirs", "NEW": "new"}),
)
def an_adopted_dataset_to_append_to(box: Box) -> None:
    records(box, "theirs/train-00000-of-00001.tfrecord", 4)
    box.folder()
    assert box.type("adopt theirs") == 0

"""Images of one patient, original or file stay in one split, in every operation that draws splits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import here, sound
from foreign_tfrecords import picture

import shardfeed
from shardfeed.converters import LabelOptions, Sample, Shares, append, convert, merge, open_source, split
from shardfeed.converters.planning.groups import Members
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.errors import LeakError, UsageError
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, LABEL, Feature, Schema
from shardfeed.tools.cli import main

HALVES = {"train": 0.5, "test": 0.5}
PATIENT = "image/patient"


class Patients:
    """Images by name, each with a patient; a name may have a split, and files may be equal."""

    schema = Schema({PATIENT: Feature("bytes")})

    def __init__(self, rows: dict[str, tuple[str, int]], splits: dict[str, str] | None = None) -> None:
        self._rows, self._splits = rows, splits or {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        name, (patient, number) = [*self._rows.items()][index]
        features = {PATIENT: patient.encode()}
        return Sample(name.encode(), picture(number, "PNG", (6, 6)), features, self._splits.get(name))


def patients(count: int, images: int = 3, first: int = 0) -> dict[str, tuple[str, int]]:
    """So many images of each patient, all different."""
    every = [(p, i) for p in range(first, first + count) for i in range(images)]
    return {f"p{p}_{i}.png": (f"pat{p}", images * p + i) for p, i in every}


def places(dataset: Dataset | Path, key: str = PATIENT) -> dict[bytes, set[str]]:
    """The splits of each value of a feature."""
    opened = dataset if isinstance(dataset, Dataset) else shardfeed.open(dataset)
    found: dict[bytes, set[str]] = {}
    for name, of_split in opened.items():
        for value in of_split.column(key):
            found.setdefault(bytes(value), set()).add(name)
    return found


@pytest.mark.parametrize("by", ["exact", "hash"])
@pytest.mark.parametrize(
    "rule",
    [
        {"group_column": "patient"},
        {"group_column": PATIENT},
        {"group_pattern": r"(?P<group>p\d+)_.*"},
        {"group_pattern": r"(?P<group>.*)_[^/]*"},
    ],
)
def test_a_patient_is_in_one_split(tmp_path: Path, rule: dict[str, Any], by: Any) -> None:
    report = convert(Patients(patients(12)), tmp_path / "out", split=Shares(HALVES, by), workers=here(), **rule)
    assert all(len(found) == 1 for found in places(tmp_path / "out").values())
    assert (report.groups.groups, report.groups.largest) == (12, 3)
    if by == "exact":
        assert report.groups.got == {"train": 0.5, "test": 0.5}
        said = "36 images in 12 groups, the largest has 3; asked for train 50%, test 50%, got 50%, 50%"
        assert said in report.notes
    given = {key.removeprefix("group_"): value for key, value in rule.items()}
    assert shardfeed.open(tmp_path / "out").manifest.options["groups"] == given


def test_rules_are_joined() -> None:
    """a and b share a patient, b and c a name, c and d their bytes; e has none of it."""
    rows = {"x/1_1": ("p", 1), "y/2_1": ("p", 2), "z/2_2": ("", 3), "z/3_1": ("", 3), "z/4_1": ("", 4)}
    groups: dict[str, Any] = {"group_column": "patient", "group_pattern": "(?P<group>.*)_.*", "group_duplicates": True}
    for seed in range(20):
        plan = make_plan(Patients(rows), PlanOptions(split=HALVES, **groups, seed=seed))
        of_split = {i: shard.split for shard in plan.shards for i in shard.samples.tolist()}
        assert of_split[0] == of_split[1] == of_split[2] == of_split[3] != of_split[4]
        assert (plan.groups.groups, plan.groups.largest) == (2, 4)


def test_empty_values_and_names_that_do_not_match_are_no_group() -> None:
    rows = {f"{i}.png": ("", i) for i in range(10)}
    plan = make_plan(Patients(rows), PlanOptions(split=HALVES, group_column="patient", group_pattern="(?P<group>a)_.*"))
    assert plan.groups.groups == 10
    assert "10 names of 10 do not match the group pattern: 0.png, 1.png, 2.png, ..." in plan.notes


def test_roboflow_stands_for_originals() -> None:
    names = ["a_jpg.rf.0a1b.jpg", "a_jpg.rf.9c.jpg", "b_png.rf.0a1b.jpg", "plain.jpg"]
    rows = {f"images/{name}": ("", i) for i, name in enumerate(names)}
    plan = make_plan(Patients(rows), PlanOptions(split=HALVES, group_pattern="roboflow"))
    assert (plan.groups.groups, plan.groups.largest) == (3, 2)


@pytest.mark.parametrize(
    "groups", [{"group_column": "patient"}, {"group_pattern": r"(?P<group>p\d+)_.*"}, {"group_duplicates": True}]
)
def test_by_hash_no_group_moves_when_others_are_added(groups: dict[str, Any]) -> None:
    def found(rows: dict[str, tuple[str, int]]) -> dict[str, str]:
        source = Patients(rows)
        plan = make_plan(source, PlanOptions(split=Shares(HALVES, "hash"), **groups))
        return {source[i].key.decode(): shard.split for shard in plan.shards for i in shard.samples.tolist()}

    before, after = patients(20), patients(30, 4)
    if "group_duplicates" in groups:
        after = patients(30)
    was, now = found(before), found(before | after)
    assert {key: now[key] for key in was} == was


def test_files_are_hashed_only_where_sizes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    class Sized:
        def __init__(self, key: bytes, size: int) -> None:
            self.key, self.size = key, size

        def __call__(self) -> bytes:
            read.append(self.key)
            return b"x" * self.size

    class Files(Patients):
        def __getitem__(self, index: int) -> Sample:
            sizes = [5, 6, 5, 7, 0, 0]
            return Sample(b"%d" % index, Sized(b"%d" % index, sizes[index]), {PATIENT: b""})

    plan = make_plan(Files({str(i): ("", i) for i in range(6)}), PlanOptions(split=HALVES, group_duplicates=True))
    assert sorted(read) == [b"0", b"2"]
    assert (plan.groups.groups, plan.groups.largest) == (5, 2)


def leaking() -> Patients:
    """A picture that the source has in train and in test."""
    rows = patients(4) | {"copy.png": ("other", 0)}
    return Patients(rows, dict.fromkeys(rows, "train") | {"copy.png": "test"})


@pytest.mark.parametrize("dry_run", [False, True])
def test_no_leaks_refuses_a_file_in_two_splits_before_anything_is_written(tmp_path: Path, dry_run: bool) -> None:
    with pytest.raises(LeakError) as caught:
        convert(leaking(), tmp_path / "out", no_leaks=True, dry_run=dry_run, workers=here())
    assert caught.value.place == "no_leaks"
    assert "E_LEAK: 1 file is in more than one split: p0_0.png (train) = copy.png (test)" in str(caught.value)
    assert "shardfeed split --group-duplicates" in str(caught.value)
    assert list(tmp_path.iterdir()) == [] if dry_run else not (tmp_path / "out").exists()
    report = convert(leaking(), tmp_path / "out", workers=here())
    assert any("also in train, byte for byte" in note for note in report.notes)


def test_no_leaks_passes_where_copies_are_kept_together(tmp_path: Path) -> None:
    rows = patients(4) | {f"copy{i}.png": ("other", i) for i in range(6)}
    with pytest.raises(LeakError, match="group_duplicates=True keeps copies in one split"):
        convert(Patients(rows), tmp_path / "out", split=HALVES, no_leaks=True, workers=here())
    report = convert(
        Patients(rows), tmp_path / "out", split=HALVES, group_duplicates=True, no_leaks=True, workers=here()
    )
    assert not report.same_pictures.splits


def test_the_command_that_the_message_names_mends_it(tmp_path: Path) -> None:
    convert(leaking(), tmp_path / "out", workers=here())
    with pytest.raises(LeakError):
        split(tmp_path / "out", tmp_path / "no", {"a": 0.5, "b": 0.5}, of="train", no_leaks=True, workers=here())
    report = split(tmp_path / "out", tmp_path / "mended", HALVES, group_duplicates=True, no_leaks=True, workers=here())
    assert not report.same_pictures.splits
    assert sound(tmp_path / "mended")
    assert shardfeed.open(tmp_path / "mended").manifest.options["groups"] == {"duplicates": True}


def test_groups_of_a_source_with_its_own_splits(tmp_path: Path) -> None:
    rows = patients(6)
    source = Patients(rows, dict.fromkeys(rows, "train") | {"p0_1.png": "test", "p1_1.png": "test"})
    report = convert(source, tmp_path / "out", group_column="patient", workers=here())
    note = "2 groups are in more than one split: p0_2.png (train) = p0_1.png (test), p1_2.png (train) = p1_1.png (test)"
    assert note in report.notes
    with pytest.raises(LeakError, match="E_LEAK: 2 groups are in more than one split"):
        convert(source, tmp_path / "no", group_column="patient", no_leaks=True)
    some = Patients(rows, {"p0_1.png": "test", "p1_1.png": "official"})  # the others follow
    convert(some, tmp_path / "some", split=HALVES, group_column="patient", workers=here())
    found = places(tmp_path / "some")
    assert (found[b"pat0"], found[b"pat1"]) == ({"test"}, {"official"})
    assert all(len(names) == 1 for names in found.values())


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        ({"label_columns": ["breed", "patient"]}, f"{PATIENT}/label"),
        ({"label_columns": ["breed"], "text_columns": ["patient"]}, PATIENT),
        ({"label_columns": ["breed"], "number_columns": ["patient"]}, PATIENT),
        ({"label_columns": ["breed"]}, PATIENT),
    ],
    ids=["label", "text", "number", "group alone"],
)
def test_groups_by_a_column_of_any_kind(tmp_path: Path, options: dict[str, Any], feature: str) -> None:
    rows = ["image,breed,patient"]
    for i in range(12):
        (tmp_path / f"{i}.png").write_bytes(picture(i, "PNG", (6, 6)))
        rows.append(f"{i}.png,{['cat', 'dog'][i % 2]},{i // 2}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    source = open_source(tmp_path / "labels.csv", options=LabelOptions(**options, group_column="patient"))
    convert(source, tmp_path / "out", split=HALVES, group_column="patient", workers=here())
    found = [set(map(str, of_split.column(feature))) for of_split in shardfeed.open(tmp_path / "out").values()]
    assert len(found) == 2
    assert found[0].isdisjoint(found[1])
    assert all(found)


def test_without_shares_groups_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there are no shares; for example split=\{'train': 0.9"):
        convert(Patients(patients(2)), tmp_path / "out", group_column="patient")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group_column": "doctor"}, "group_column: got 'doctor', expected a feature .*: there are image/patient;"),
        ({"group_column": "format"}, "group_column: got 'format', expected a feature .*: there are image/patient;"),
        ({"group_pattern": "("}, "group_pattern: '\\(' is not a valid regular expression"),
        ({"group_pattern": "a"}, "group_pattern: 'a' has no group 'group'"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        convert(Patients(patients(2)), tmp_path / "out", split=HALVES, **given)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Images of 8 patients, three each, in a folder with a table of their breeds and patients."""
    (tmp_path / "photos").mkdir()
    lines = ["path,patient,breed"]
    for name, (patient, number) in patients(8).items():
        (tmp_path / "photos" / name).write_bytes(picture(number))
        lines.append(f"{name},{patient},{'ab'[number % 2]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_column_of_a_label_file_is_stored(table: Path) -> None:
    """And the breed is still the label, though nobody named it."""
    arguments = ["convert", table / "photos", table / "out", "--labels", table / "labels.csv", "--workers", "1"]
    assert main([*map(str, arguments), "--split", "train=0.5,test=0.5", "--group-column", "patient", "--quiet"]) == 0
    data = shardfeed.open(table / "out")
    assert data.class_names == ("a", "b")
    assert all(len(found) == 1 for found in places(data).values())
    options = LabelOptions(labels=table / "labels.csv", label_columns=["patient"])
    source = open_source(table / "photos", options=options)
    plan = make_plan(source, PlanOptions(split=HALVES, group_column=LABEL))
    assert plan.groups.groups == 8, "a class may be a group"


@pytest.mark.parametrize("typed", [[], ["--columns", "image/patient=patient"]])
def test_the_column_of_parquet_is_stored(tmp_path: Path, typed: list[str]) -> None:
    rows = [{"image": picture(n), "label": n % 2, "patient": n // 3} for n in range(12)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    arguments = ["convert", str(tmp_path / "a.parquet"), str(tmp_path / "out"), *typed, "--quiet", "--workers", "1"]
    assert main([*arguments, "--split", "train=0.5,test=0.5", "--group-column", "patient"]) == 0
    data = shardfeed.open(tmp_path / "out")
    found = {name: set(of_split.column(PATIENT).tolist()) for name, of_split in data.items()}
    assert found["train"] | found["test"] == {0, 1, 2, 3}
    assert not found["train"] & found["test"]


def test_a_reader_without_columns_says_so(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(table / "photos"), str(table / "out"), "--split", "train=0.5,test=0.5", "--group-column", "x"]
    assert main(["convert", *arguments]) == 2
    assert "--group-column is for a label file" in capsys.readouterr().err


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A dataset of 10 patients, in groups."""
    options: dict[str, Any] = {"split": HALVES, "group_column": "patient", "workers": here()}
    convert(Patients(patients(10)), tmp_path / "old", **options)
    return tmp_path / "old"


def test_append_keeps_to_the_groups_of_the_dataset(old: Path, tmp_path: Path) -> None:
    more = {f"late{p}.png": (f"pat{p}", 1000 + p) for p in range(20)}
    append(old, Patients(more), tmp_path / "out", workers=here())
    found = places(tmp_path / "out")
    assert len(found) == 20
    assert all(len(names) == 1 for names in found.values())
    assert {value: names for value, names in found.items() if value in places(old)} == places(old)
    assert sound(tmp_path / "out")


def test_append_puts_copies_beside_what_is_there(old: Path, tmp_path: Path) -> None:
    copies = Patients({f"copy{p}.png": ("", 3 * p) for p in range(10)})
    with pytest.raises(LeakError, match=r"E_LEAK: \d+ files are in more than one split: .*group_duplicates=True"):
        append(old, copies, tmp_path / "out", no_leaks=True)
    report = append(old, copies, tmp_path / "loose", workers=here())
    assert any("byte for byte" in note for note in report.notes)
    report = append(old, copies, tmp_path / "out", group_duplicates=True, no_leaks=True, workers=here())
    assert not report.same_pictures.splits


def test_append_finds_patterns_in_the_names_that_are_there(tmp_path: Path) -> None:
    pattern = r"(?P<group>p\d+)_.*"
    convert(Patients(patients(10)), tmp_path / "old", split=HALVES, group_pattern=pattern, workers=here())
    append(
        tmp_path / "old", Patients({f"p{p}_9.png": ("x", 99 + p) for p in range(10)}), tmp_path / "out", workers=here()
    )
    found: dict[bytes, set[str]] = {}
    for key, names in places(tmp_path / "out", FILENAME).items():
        found.setdefault(key.split(b"_")[0], set()).update(names)
    assert len(found) == 10
    assert all(len(names) == 1 for names in found.values())


def test_the_command_line_appends_with_the_column_of_the_dataset(table: Path) -> None:
    shared = ["--labels", str(table / "labels.csv"), "--quiet", "--workers", "1"]
    photos = str(table / "photos")
    shares = ["--split", "train=0.5,test=0.5", "--group-column", "patient"]
    assert main(["convert", photos, str(table / "old"), *shared, *shares]) == 0
    (table / "photos" / "new.jpg").write_bytes(picture(777))
    with (table / "labels.csv").open("a") as file:
        file.write("new.jpg,pat3,a\n")
    assert main(["append", str(table / "old"), photos, str(table / "out"), *shared]) == 0
    assert all(len(found) == 1 for found in places(table / "out").values())


def test_merge_and_no_leaks(old: Path, tmp_path: Path) -> None:
    rows = {f"other{p}.png": ("x", 3 * p) for p in range(10)}
    convert(Patients(rows), tmp_path / "more", split=HALVES, seed=2, workers=here())
    report = merge([old, tmp_path / "more"], tmp_path / "both", workers=here())
    assert any("byte for byte" in note for note in report.notes)
    with pytest.raises(LeakError, match="remove one of each"):
        merge([old, tmp_path / "more"], tmp_path / "no", no_leaks=True)
    assert not (tmp_path / "no").exists()


def test_split_groups_by_a_stored_column(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["split", str(old), str(tmp_path / "out"), "--split", "a=0.6,b=0.4", "--group-column", "patient"]
    assert main([*arguments, "--json", "--workers", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["groups"] == {
        "images": 30,
        "groups": 10,
        "largest": 3,
        "asked": {"a": 0.6, "b": 0.4},
        "got": {"a": 0.6, "b": 0.4},
    }
    assert all(len(found) == 1 for found in places(tmp_path / "out").values())


def test_without_stored_hashes_duplicates_cannot_be_found(tmp_path: Path) -> None:
    image = shardfeed.converters.ImageOptions(sha256=False)
    convert(Patients(patients(3)), tmp_path / "out", image=image, workers=here())
    with pytest.raises(UsageError, match="has no SHA-256 of its file"):
        split(tmp_path / "out", tmp_path / "no", HALVES, group_duplicates=True)
    with pytest.raises(UsageError, match="has no column of image/key/sha256"):
        append(tmp_path / "out", Patients(patients(2, first=5)), tmp_path / "no", no_leaks=True)


def test_floats_and_classes_are_the_same_in_a_column_and_in_a_source() -> None:
    def shared(schema: Schema, *values: Any) -> set[bytes]:
        members = Members(PlanOptions(group_column="x"), schema, no_leaks=False)
        return {members._drawn(members._text(value)) for value in values}

    assert len(shared(Schema({"image/x": Feature("float32")}), 0.1, np.float32(0.1))) == 1
    assert len(shared(Schema({"image/x": Feature("int64")}), 7, np.int64(7))) == 1
    classes = Schema({"image/x/label": Feature("int64")}, {"image/x/label": ("a", "b")})
    more = Schema({"image/x/label": Feature("int64")}, {"image/x/label": ("0", "a", "b")})
    assert shared(classes, 0, np.int64(1)) == shared(more, 1, 2)


def chains() -> Iterator[tuple[int, list[list[int]]]]:
    for seed in range(200):
        some = np.random.default_rng(seed)
        count = int(some.integers(1, 40))
        yield count, [some.integers(0, 1 + count // int(some.integers(1, 4)), count).tolist() for _ in range(3)]


def test_whatever_is_linked_is_one_group() -> None:
    """Compared with a search from sample to sample."""
    for count, rules in chains():
        shared = [bytearray(b"".join(value.to_bytes(16, "little") for value in values)) for values in rules]
        found = Members(PlanOptions(), Schema({}), no_leaks=False)._joined([*shared])
        expected = list(range(count))
        for start in range(count):
            reached, ahead = {start}, [start]
            while ahead:
                one = ahead.pop()
                near = {b for values in rules for b in range(count) if values[b] == values[one] != 0}
                ahead += near - reached
                reached |= near
            expected[start] = min(reached)
        assert np.unique(expected, return_inverse=True)[1].tolist() == found.tolist()

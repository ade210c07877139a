"""Contract of every source (shardfeed/testing/source.py), run over each one here; and the errors of broken ones."""

import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import put

from shardfeed.converters.conversion import convert
from shardfeed.converters.sources.image_folder import FileNames, ImageFolder, Unlabelled
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.converters.sources.rows.rows import ListedSource
from shardfeed.converters.sources.source import Findings, Sample, Skipped, SourceFile, SourceInfo
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT, Feature, Schema
from shardfeed.testing.source import SourceContract

ROWS = [("cats/2.jpg", "cat", 3), ("cats/1.jpg", "cat", 4), ("dogs/é 1.jpg", "dog", 9), ("dogs/gone.jpg", "dog", 1)]

# Each builds a source from a relative path, in the folder that `plant` filled.
BUILDERS: dict[str, Callable[[], ListedSource]] = {
    "classes": lambda: ImageFolder("classes"),
    "splits": lambda: ImageFolder("splits", class_names=["dog", "cat", "cow"]),
    "csv": lambda: LabelFile("l.csv", "classes", label_columns=["label", "n"]),
    "text": lambda: LabelFile("l.txt", "classes"),
    "jsonl": lambda: LabelFile("l.jsonl", "classes", label_columns=["label", "n", "tags"]),
    "kinds": lambda: LabelFile(
        "l.jsonl", "classes", label_columns=["tags"], text_columns=["label"], number_columns=["n"]
    ),
    "ids": lambda: LabelFile("ids.csv", "classes", one_hot=["cat", "dog"], missing={"dog": 0}),
    "list": lambda: LabelFile("list.txt", "classes", label_columns=[]),
    "unlabelled": lambda: Unlabelled("splits"),
    "names": lambda: FileNames("names"),
    "pattern": lambda: FileNames("names", pattern=r"(?P<split>[a-z])(?P<label>.*)_\d+\.jpg"),
}


def plant(root: Path) -> None:
    splits = [f"splits/{split}/{key}" for split in ("train", "val") for key in ("cat/1.jpg", "dog/2.jpg")]
    names = ["names/cat_1.jpg", "names/dog_1.jpg", "names/x/cat_2.jpg", "names/lost.jpg", "names/README"]
    for key in [*(f"classes/{key}" for key, *_ in ROWS[:3]), "classes/stray.jpg", *splits, *names]:
        path = root / key
        put(path, key)
    os.mkfifo(root / "classes" / "cats" / "fifo.jpg")
    (root / "l.csv").write_text("path,label,n,split\n" + "".join(f"{p},{c},{n},train\n" for p, c, n in ROWS))
    (root / "ids.csv").write_text("id,cat,dog\ncats/2,1,1\ncats/1,1,0\ndogs/é 1,0,\n")
    (root / "list.txt").write_text("".join(f"{p}\n" for p, *_ in ROWS))
    (root / "l.txt").write_text("".join(f"{p} {int(c == 'dog')}\n" for p, c, _ in ROWS))
    lines = [json.dumps({"path": p, "label": c, "n": [n] * n, "tags": [c, "x"]}) for p, c, n in ROWS]
    (root / "l.jsonl").write_text("\n".join(lines))


@pytest.fixture(params=BUILDERS)
def build(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], ListedSource]:
    plant(tmp_path)
    monkeypatch.chdir(tmp_path)
    return BUILDERS[request.param]


Build = Callable[[], ListedSource]


class TestListedSources(SourceContract):
    """Contract of every source, for each one that lists files."""

    keys_are_sorted = True

    @pytest.fixture
    def build(self, build: Build) -> Build:
        return build


def test_pickles_whole(build: Build) -> None:
    source = build()
    again = pickle.loads(pickle.dumps(source))
    assert list(again) == list(source)
    assert again.root == source.root
    assert pickle.dumps(again[0]) == pickle.dumps(source[0])


@pytest.mark.promise(35)
def test_keys_are_unique_sorted_and_lead_to_the_file(build: Build) -> None:
    source = build()
    keys = [sample.key for sample in source]
    assert keys == sorted(set(keys))
    for sample in source:
        assert isinstance(sample.image, SourceFile)
        assert sample.image.path == source.root + b"/" + sample.key
        status = os.stat(sample.image.path)
        assert (sample.image.size, sample.image.mtime_ns) == (status.st_size, status.st_mtime_ns)


def test_labels_have_their_text_and_every_feature_a_kind(build: Build) -> None:
    source = build()
    schema = source.schema
    assert not schema.features or {LABEL, TEXT} <= schema.features.keys()
    assert sorted(schema.of_kind("label") + schema.of_kind("tags")) == sorted(schema.class_names)
    assert schema == schema.stated()
    for key, names in schema.class_names.items():
        for sample in source:
            label, text = sample.features[key], sample.features[key.removesuffix("label") + "text"]
            assert isinstance(label, list) == isinstance(text, list)
            labels, texts = (label, text) if isinstance(label, list) else ([label], [text])
            assert [names[number].encode() for number in labels] == texts  # type: ignore[index, arg-type]


def test_splits_are_named_or_left_to_the_plan(build: Build) -> None:
    splits = {sample.split for sample in build()}
    assert None not in splits or splits == {None}


def test_works_from_another_folder(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = build()
    before = list(source)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert list(source) == before
    image = source[0].image
    assert isinstance(image, SourceFile)
    assert os.path.isfile(image.path)


class Drawn:
    """A source that lists no files: every second image is bytes, the others are made when they are read."""

    schema = Schema({LABEL: Feature("int64"), "image/sizes": Feature("float32", (None,))}, {LABEL: ("a", "b")})

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < 5:
            raise IndexError(index)
        image = b"%d" % index if index % 2 else partial(bytes, index + 1)
        return Sample(b"%d" % index, image, {LABEL: index % 2, "image/sizes": [0.5] * index})


class TestDrawn(SourceContract):
    """The contract holds for a source without files."""

    @pytest.fixture
    def build(self) -> type[Drawn]:
        return Drawn


class Endless(Drawn):
    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(index % 5)


class Changed(Drawn):
    """A subclass changes one thing about a sample."""

    change: Mapping[str, Any] = {}

    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), **self.change)


class Twins(Changed):
    change: Mapping[str, Any] = {"key": b"same"}


class Absolute(Drawn):
    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), key=b"/data/%d" % index)


class NoSuchClass(Changed):
    change: Mapping[str, Any] = {"features": {LABEL: 2, "image/sizes": []}}


class FeatureMissing(Changed):
    change: Mapping[str, Any] = {"features": {LABEL: 0}}


class OfNumpy(Changed):
    change: Mapping[str, Any] = {"features": {LABEL: np.int64(0), "image/sizes": []}}


class NotAList(Changed):
    change: Mapping[str, Any] = {"features": {LABEL: 0, "image/sizes": 0.5}}


class OddSplit(Changed):
    change: Mapping[str, Any] = {"split": "a/b"}


class Unreadable(Changed):
    change: Mapping[str, Any] = {"image": SourceFile(b"/nowhere", 1, 1)}


class Forgetful(Drawn):
    """Says something else when it is asked again."""

    calls = itertools.count()

    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), features={LABEL: next(self.calls) % 2, "image/sizes": []})


class Unpicklable(Drawn):
    def __init__(self) -> None:
        self.state = lambda: None


class Unsound(Drawn):
    def info(self) -> SourceInfo:
        return SourceInfo(Findings([Skipped(b"z", "E_EMPTY", "empty"), Skipped(b"a", "E_EMPTY", "empty")]))


class WithoutSchema:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"%d" % index, b"")


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (WithoutSchema, "test_is_a_source"),
        (Endless, "test_ends_at_its_length"),
        (Forgetful, "test_says_the_same_each_time"),
        (Unpicklable, "test_pickles"),
        (Twins, "test_keys_are_unique_relative_names"),
        (Absolute, "test_keys_are_unique_relative_names"),
        (FeatureMissing, "test_samples_are_as_the_schema_says"),
        (OfNumpy, "test_samples_are_as_the_schema_says"),
        (NotAList, "test_samples_are_as_the_schema_says"),
        (NoSuchClass, "test_samples_are_as_the_schema_says"),
        (OddSplit, "test_splits_have_names"),
        (Unreadable, "test_images_can_be_read"),
        (Unsound, "test_what_is_left_out_is_named"),
        (Twins, "test_can_be_planned"),
    ],
)
def test_the_contract_finds_what_is_broken(broken: type, test: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, UsageError, AttributeError, pickle.PicklingError)):
        getattr(SourceContract(), test)(broken)
    getattr(SourceContract(), test)(Drawn)


PRINT_ALL = """
import runpy, sys
module = runpy.run_path(sys.argv[1])
for name, build in module["BUILDERS"].items():
    source = build()
    print(name, list(source), source.schema, source.findings)
"""


def test_hash_seed_and_locale_do_not_matter(tmp_path: Path) -> None:
    plant(tmp_path)
    here = os.path.abspath(__file__)
    path = os.pathsep.join(os.path.abspath(p) for p in sys.path)  # where this run found the package
    outputs = set()
    for seed, locale, mode in [("1", "C.UTF-8", "1"), ("2", "POSIX", "0")]:  # the second one's file names are ASCII
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
        environment |= {"LC_ALL": locale, "PYTHONUTF8": mode, "PYTHONCOERCECLOCALE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", PRINT_ALL, here], capture_output=True, cwd=tmp_path, env=environment, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert outputs.pop().count(b"\n") == len(BUILDERS)


def test_info_of_an_own_source_reaches_the_report(tmp_path: Path) -> None:
    class Told(Drawn):
        def info(self) -> SourceInfo:
            return SourceInfo(Findings([Skipped(b"z", "E_EMPTY", "empty")], ["scanned"]))

    report = convert(Told(), tmp_path / "out", dry_run=True, max_bad=1)
    assert "scanned" in report.notes
    assert [one.key for one in report.rejected] == [b"z"]


def test_an_attribute_named_info_is_an_error(tmp_path: Path) -> None:
    class Odd(Drawn):
        info = "scanned"

    with pytest.raises(UsageError, match="got str from the source's `info`"):
        convert(Odd(), tmp_path / "out")


def test_findings_without_info_are_an_error(tmp_path: Path) -> None:
    """They were read from the attribute once, and would be lost now; the remedy is typed."""

    class Old(Drawn):
        findings = Findings([Skipped(b"z", "E_EMPTY", "empty")])

    with pytest.raises(UsageError, match=r"has findings as an attribute.*def info\(self\): return SourceInfo"):
        convert(Old(), tmp_path / "out")

    class New(Old):
        def info(self) -> SourceInfo:
            return SourceInfo(self.findings)

    assert [one.key for one in convert(New(), tmp_path / "out", dry_run=True, max_bad=1).rejected] == [b"z"]

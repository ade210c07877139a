"""What every source promises (converters/sources/source.py), asked of each one that lists files."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.file_names import FileNames
from shardfeed.converters.sources.files.listed_source import ListedSource
from shardfeed.converters.sources.image_folder import ImageFolder
from shardfeed.converters.sources.labels.label_file import LabelFile
from shardfeed.converters.sources.source import Skipped, Source, SourceFile
from shardfeed.schema import LABEL, TEXT, Schema, image_features

ROWS = [("cats/2.jpg", "cat", 3), ("cats/1.jpg", "cat", 4), ("dogs/é 1.jpg", "dog", 9), ("dogs/gone.jpg", "dog", 1)]

# Each builds a source from a relative path, in the folder that `plant` filled.
BUILDERS: dict[str, Callable[[], ListedSource]] = {
    "classes": lambda: ImageFolder("classes"),
    "splits": lambda: ImageFolder("splits", class_names=["dog", "cat", "cow"]),
    "csv": lambda: LabelFile("l.csv", "classes", label_columns=["label", "n"]),
    "text": lambda: LabelFile("l.txt", "classes"),
    "jsonl": lambda: LabelFile("l.jsonl", "classes", label_columns=["label", "n", "tags"]),
    "names": lambda: FileNames("names"),
    "pattern": lambda: FileNames("names", pattern=r"(?P<split>[a-z])(?P<label>.*)_\d+\.jpg"),
}


def plant(root: Path) -> None:
    splits = [f"splits/{split}/{key}" for split in ("train", "val") for key in ("cat/1.jpg", "dog/2.jpg")]
    names = ["names/cat_1.jpg", "names/dog_1.jpg", "names/x/cat_2.jpg", "names/lost.jpg", "names/README"]
    for key in [*(f"classes/{key}" for key, *_ in ROWS[:3]), "classes/stray.jpg", *splits, *names]:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key)
    os.mkfifo(root / "classes" / "cats" / "fifo.jpg")
    (root / "l.csv").write_text("path,label,n,split\n" + "".join(f"{p},{c},{n},train\n" for p, c, n in ROWS))
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


def test_is_a_source_that_says_the_same_each_time(build: Build) -> None:
    source: Source = build()
    assert isinstance(source, Source)
    assert len(source) > 1
    samples = [source[i] for i in range(len(source))]
    assert samples == [source[i] for i in range(len(source))]
    assert samples == list(build())
    with pytest.raises(IndexError):
        source[len(source)]


def test_pickles_whole_and_small(build: Build) -> None:
    source = build()
    again = pickle.loads(pickle.dumps(source))
    assert list(again) == list(source)
    assert (again.schema, again.root) == (source.schema, source.root)
    assert again.findings == source.findings
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


def test_features_are_exactly_those_of_the_source(build: Build) -> None:
    source = build()
    Schema(image_features(sha256=True) | dict(source.schema.features), dict(source.schema.class_names))
    kinds = {"int64": int, "float32": float, "bytes": bytes}
    for sample in source:
        assert sample.features.keys() == source.schema.features.keys()
        for key, value in sample.features.items():
            feature = source.schema.features[key]
            assert isinstance(value, list) == feature.ragged
            for item in value if isinstance(value, list) else [value]:
                assert type(item) is kinds[feature.dtype]


def test_labels_are_in_range_and_have_their_text(build: Build) -> None:
    source = build()
    assert {LABEL, TEXT} <= source.schema.features.keys()
    for key, names in source.schema.class_names.items():
        assert key.endswith("/label")
        assert len(set(names)) == len(names)
        for sample in source:
            label, text = sample.features[key], sample.features[key.removesuffix("label") + "text"]
            assert isinstance(label, list) == isinstance(text, list)
            labels, texts = (label, text) if isinstance(label, list) else ([label], [text])
            assert [names[number].encode() for number in labels] == texts  # type: ignore[index, arg-type]
            assert min(labels, default=0) >= 0  # type: ignore[type-var, operator]


def test_splits_are_named_or_left_to_the_plan(build: Build) -> None:
    splits = {sample.split for sample in build()}
    assert None not in splits or splits == {None}


def test_what_is_left_out_is_named(build: Build) -> None:
    source = build()
    keys = [skipped.key for skipped in source.findings.rejected]
    assert keys == sorted(set(keys))
    assert not set(keys) & {sample.key for sample in source}
    for skipped in source.findings.rejected:
        assert isinstance(skipped, Skipped)
        assert RejectCode(skipped.code).value == skipped.code
        assert skipped.reason.isprintable()
    assert all(isinstance(note, str) and note.isprintable() for note in source.findings.notes)


def test_works_from_another_folder(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = build()
    before = list(source)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert list(source) == before
    image = source[0].image
    assert isinstance(image, SourceFile)
    assert os.path.isfile(image.path)


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

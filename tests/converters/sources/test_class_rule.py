"""One rule numbers classes: the same labels get the same numbers from every reader, or the same refusal.

What a refusal advises is done here as it is said, and must work.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_images import image_file

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters import AnnotationOptions, ColumnOptions, LabelOptions, from_dicts, open_source
from shardfeed.converters.sources.source import Source
from shardfeed.errors import ShardfeedError, UsageError
from shardfeed.schema import LABEL, TEXT
from tests.converters.sources.builders import BUILDERS

NUMBERED = (
    "labels",
    "tfrecord",
    "arrayrecord",
    "parquet",
    "npz",
    "hdf5",
    "mds",
    "webdataset",
)  # take offsets and maps, too
LISTED = ("imagefolder", "from_dicts", "file_names")  # class names alone
NAMED = ("folder", "split-lists")  # integers are names
READERS = (*NUMBERED, *LISTED, *NAMED)

Labels = Sequence[int] | Sequence[str]


class Case(NamedTuple):
    """Labels of images, options, and label -> class that come of them, or what the refusal says.

    `ids`: the numbers that the classes had, if those are others. `folders`: the classes of folders of these names, if
    not the same. `files`: name -> content; an option that names one gets its path.
    """

    labels: Labels
    options: Mapping[str, Any]
    classes: Sequence[str] | str
    found: Sequence[int] = ()
    ids: tuple[int, ...] = ()
    folders: Sequence[str] | str | None = None
    files: Mapping[str, str] = {}


IMAGE = image_file()
FROM_ONE = "got 3 integer labels from 1 to 3, expected 0 to 2: labels start at 1, not at 0"
GAPS = "got 3 integer labels from 0 to 4, expected 0 to 2: label 1 is missing"
CAT_DOG_EEL = "cat\ndog\neel\n"
CASES = {
    "names": Case(["dog", "cat", "eel"], {}, ["cat", "dog", "eel"], [1, 0, 2]),
    "names and a list": Case(["dog", "cat"], {"class_names": ["eel", "dog", "cat"]}, ["eel", "dog", "cat"], [1, 2]),
    "names and a list that lacks one": Case(["dog", "cat"], {"class_names": ["dog", "eel"]}, "got the class 'cat'"),
    "names and a numbered file": Case(
        ["dog", "cat"], {"class_names": "names"}, ["cat", "dog"], [1, 0], files={"names": "1:cat\n2:dog\n"}
    ),
    "0 to K-1": Case([2, 0, 1], {}, ["0", "1", "2"], [2, 0, 1]),
    "0 to 10": Case([*range(11)], {}, [*map(str, range(11))], [*range(11)]),
    "0 to K-1 and a list": Case([2, 0, 1], {"class_names": ["cat", "dog", "eel"]}, ["cat", "dog", "eel"], [2, 0, 1]),
    "0 to K-1 and a file": Case(
        [2, 0, 1], {"class_names": "names"}, ["cat", "dog", "eel"], [2, 0, 1], files={"names": CAT_DOG_EEL}
    ),
    "0 to K-1 and too short a list": Case(
        [2, 0, 1], {"class_names": ["cat", "dog"]}, "got the label 2, expected 0 to 1, the numbers of the classes"
    ),
    "1 to K": Case([3, 1, 2], {}, FROM_ONE, folders=["1", "2", "3"]),
    "1 to K and their names": Case([3, 1, 2], {"class_names": ["1", "2", "3"]}, ["1", "2", "3"], [2, 0, 1]),
    "1 to K and a list from 0": Case(
        [3, 1, 2], {"class_names": ["void", "cat", "dog", "eel"]}, ["void", "cat", "dog", "eel"], [3, 1, 2]
    ),
    "1 to K and a list of K": Case(
        [3, 1, 2], {"class_names": ["cat", "dog", "eel"]}, "got the label 3, expected 0 to 2"
    ),
    "1 to K and a file from 1": Case(
        [3, 1, 2],
        {"class_names": "names"},
        ["cat", "dog", "eel"],
        [2, 0, 1],
        (1, 2, 3),
        files={"names": "1: cat\n2: dog\n3: eel\n"},
    ),
    "1 to K and JSON from 1": Case(
        [3, 1, 2],
        {"class_names": "names.json"},
        ["cat", "dog", "eel"],
        [2, 0, 1],
        (1, 2, 3),
        files={"names.json": '{"1": "cat", "2": "dog", "3": "eel"}'},
    ),
    "integers that the list names in part": Case(
        [0, 1, 2], {"class_names": ["1", "2", "3"]}, "got the class '0', expected one of the class list (1, 2, 3)"
    ),
    "integers that a numbered file names in part": Case(
        [0, 1, 2], {"class_names": "stars"}, ["1", "2", "3"], [0, 1, 2], files={"stars": "0:1\n1:2\n2:3\n"}
    ),
    "integers that are names in another order": Case(
        [1, 10, 2], {"class_names": "keras.json"}, ["1", "10", "2"], [0, 1, 2],
        files={"keras.json": '{"1": 0, "10": 1, "2": 2}'},
    ),
    "gaps": Case([4, 0, 2], {}, GAPS, folders=["0", "2", "4"]),
    "gaps and a long list": Case([4, 0, 2], {"class_names": [*"abcde"]}, [*"abcde"], [4, 0, 2]),
    "gaps and their names": Case([4, 0, 2], {"class_names": ["0", "2", "4"]}, ["0", "2", "4"], [2, 0, 1]),
    "an offset": Case([3, 1, 2], {"label_offset": 1}, ["1", "2", "3"], [2, 0, 1], (1, 2, 3)),
    "an offset and a list": Case(
        [3, 1, 2],
        {"label_offset": 1, "class_names": ["cat", "dog", "eel"]},
        ["cat", "dog", "eel"],
        [2, 0, 1],
        (1, 2, 3),
    ),
    "an offset and names": Case(["cat", "dog"], {"label_offset": 1}, "label_offset is for numbers, but labels are"),
    "an offset above a label": Case(
        [0, 1, 2], {"label_offset": 1}, "got 3 integer labels from 0 to 2, expected 1 to 3: labels start at 0, not at 1"
    ),
    "an offset and gaps": Case(
        [1, 2, 4], {"label_offset": 1}, "got 3 integer labels from 1 to 4, expected 1 to 3: label 3 is missing"
    ),
    "a label map": Case(
        [7, 1, 3], {"label_map": "map"}, ["ant", "bee", "cat"], [2, 0, 1], (1, 3, 7),
        files={"map": "7:cat\n1:ant\n3:bee\n"},
    ),
    "a label map that lacks one": Case(
        [7, 1], {"label_map": "map"}, "got the label 7, expected one of 1", files={"map": "1:ant\n"}
    ),
    "a label map and names": Case(
        ["cat", "dog"], {"label_map": "map"}, "label_map is for numbers, but labels are texts",
        files={"map": "1:cat\n2:dog\n"},
    ),
    "a label map and a list": Case(
        [1, 2], {"label_map": "map", "class_names": ["cat", "dog"]}, "names and numbers the classes",
        files={"map": "1:cat\n2:dog\n"},
    ),
}  # fmt: skip


def opened(reader: str, folder: Path, labels: Labels, options: Mapping[str, Any]) -> Source:
    """Two images of each label, in their order, in the format of a reader."""
    rows = [label for label in labels for _ in range(2)]
    files = [{"image": IMAGE, "key": f"{i:03}", "label": label} for i, label in enumerate(rows)]
    if reader == "from_dicts":
        dicts = [{"image": one["image"], "key": f"{one['key']}.png", "label": one["label"]} for one in files]
        return from_dicts(dicts, **options)
    if reader == "file_names":
        for one in files:
            (folder / f"{one['label']}_x{one['key']}.png").write_bytes(one["image"])
        return open_source(folder, options=LabelOptions(pattern=r"(?P<label>[^/_]+)_x\d+\.png", **options))
    builder = BUILDERS[reader]
    builder.write(folder, {"train": files})
    return open_source(folder / builder.path, options=builder.kind(**options))


def written(folder: Path, case: Case) -> dict[str, Any]:
    """The options of a case, whose files are written."""
    for name, content in case.files.items():
        (folder / name).write_text(content)
    paths = {name: str(folder / name) for name in case.files}
    return {name: paths.get(str(value), value) for name, value in case.options.items()}


def labels_of(source: Source) -> list[tuple[int, str]]:
    """Label and class of every second image, in the order in which they were given."""
    samples = sorted(source, key=lambda sample: int(re.findall(rb"\d+", sample.key)[-1]))
    found = [(sample.features[LABEL], sample.features[TEXT].decode()) for sample in samples]
    assert found[::2] == found[1::2]
    return found[::2]


def combined() -> list[tuple[str, str]]:
    """Each case with each reader that takes its options."""
    for_all = {name for name, case in CASES.items() if case.options.keys() <= {"class_names"}}
    return [(name, reader) for name in CASES for reader in READERS if name in for_all or reader in NUMBERED]


@pytest.mark.parametrize(("name", "reader"), combined())
def test_the_same_labels_have_the_same_classes(tmp_path: Path, name: str, reader: str) -> None:
    case, folder = CASES[name], tmp_path / "in"
    options, classes = written(tmp_path, case), case.classes
    folder.mkdir()
    if case.folders is not None and reader in NAMED:
        labels = [case.folders.index(str(label)) for label in case.labels]
        assert [label for label, _ in labels_of(opened(reader, folder, case.labels, options))] == labels
    elif isinstance(classes, str):
        with pytest.raises(ShardfeedError, match=re.escape(classes)) as caught:
            opened(reader, folder, case.labels, options)
        for ways, expected in remedies(str(caught.value), case.labels, tmp_path):
            again = tmp_path / f"again{len(list(tmp_path.iterdir()))}"
            again.mkdir()
            assert [
                label for label, _ in labels_of(opened(reader, again, case.labels, {**options, **ways}))
            ] == expected
    else:
        source = opened(reader, folder, case.labels, options)
        assert source.schema.class_names[LABEL] == tuple(classes)
        assert source.schema.class_ids.get(LABEL, ()) == case.ids
        assert labels_of(source) == [(label, classes[label]) for label in case.found]


def remedies(message: str, labels: Labels, folder: Path) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Options for each way that a message names, and the labels that it promises."""
    numbers = [label for label in labels if isinstance(label, int)]
    ranks = [sorted({*numbers}).index(number) for number in numbers]
    if offset := re.search(r"label_offset=(\d+)", message):
        yield {"label_offset": int(offset[1])}, [number - int(offset[1]) for number in numbers]
    if "makes label 1 the class 0" in message:
        yield {"class_names": [str(number) for number in sorted(numbers)]}, ranks
    if count := re.search(r"(\d+) names, with 'background' first, keep|: (\d+) names keep", message):
        yield {"class_names": ["background", *(f"c{i}" for i in range(1, int(count[1] or count[2])))]}, numbers
    if "integers as names renumber" in message:
        yield {"class_names": [str(number) for number in sorted(numbers)]}, ranks
    if every := re.search(r"with a name for each of (\d+) to (\d+)", message):
        first, last = int(every[1]), int(every[2])
        yield {"class_names": [f"c{i}" for i in range(first, last + 1)]}, [number - first for number in numbers]
    if "label_map, with the number and name" in message:
        (folder / "whole_map").write_text("".join(f"{number}:c{number}\n" for number in numbers))
        yield {"label_map": str(folder / "whole_map"), "label_offset": 0}, ranks
    if "number the lines of the class list from 1" in message:
        (folder / "from_one").write_text("1:cat\n2:dog\n3:eel\n")
        yield {"class_names": str(folder / "from_one")}, [number - 1 for number in numbers]
    if "number the lines of the list: `0:1`" in message:
        (folder / "from_zero").write_text("0:1\n1:2\n2:3\n")
        yield {"class_names": str(folder / "from_zero")}, numbers


# --- objects: integers are numbers of classes that need not count, and an object of another class is left out

OF_OBJECTS = {
    "names": Case(["dog", "cat"], {}, ["cat", "dog"], [1, 0]),
    "1 to K": Case([3, 1, 2], {}, ["1", "2", "3"], [2, 0, 1], (1, 2, 3)),
    "gaps": Case([4, 1, 20], {}, ["1", "4", "20"], [1, 0, 2], (1, 4, 20)),
    "gaps and a long list": Case([4, 1, 2], {"class_names": [*"abcde"]}, [*"abcde"], [4, 1, 2]),
    "names of the list and no class": Case(["cat", "owl"], {"class_names": ["dog", "cat"]}, ["dog", "cat"], [1]),
    "numbers of the list and no class": Case([1, 7], {"class_names": ["dog", "cat"]}, ["dog", "cat"], [1]),
    "names that are integers": Case([3, 1, 2], {"class_names": ["1", "2", "3"]}, ["1", "2", "3"], [2, 0, 1]),
    "1 to K and a file from 1": Case(
        [3, 1, 2],
        {"class_names": "names"},
        ["cat", "dog", "eel"],
        [2, 0, 1],
        (1, 2, 3),
        files={"names": "1:cat\n2:dog\n3:eel\n"},
    ),
    "1 to K and a list of K": Case(
        [3, 1, 2], {"class_names": ["cat", "dog", "eel"]}, "got the label 3, expected 0 to 2"
    ),
}


def opened_objects(reader: str, folder: Path, labels: Labels, options: Mapping[str, Any]) -> Source:
    """An image with an object for each label, in the format of a reader."""
    if reader == "from_dicts":
        dicts = [
            {"image": IMAGE, "key": f"{i}.png", "boxes": [[2, 4, 12, 16]], "labels": [label]}
            for i, label in enumerate(labels)
        ]
        return from_dicts(dicts, **options)
    things = [[{"bbox": [2.0, 4.0, 10.0, 12.0], "category": label}] for label in labels]
    BUILDERS[reader].write(
        folder, {"train": [{"image": IMAGE, "key": f"{i:03}", "objects": found} for i, found in enumerate(things)]}
    )
    return open_source(folder / BUILDERS[reader].path, options=BUILDERS[reader].kind(**options))


@pytest.mark.parametrize("reader", ["from_dicts", "webdataset", "parquet", "imagefolder", "boxes-csv"])
@pytest.mark.parametrize("name", OF_OBJECTS)
def test_the_same_objects_have_the_same_classes(tmp_path: Path, name: str, reader: str) -> None:
    case, folder = OF_OBJECTS[name], tmp_path / "in"
    options, classes = written(tmp_path, case), case.classes
    folder.mkdir()
    if isinstance(classes, str):
        with pytest.raises(ShardfeedError, match=classes) as caught:
            opened_objects(reader, folder, case.labels, options)
        ((ways, expected),) = remedies(str(caught.value), case.labels, tmp_path)
        case, options = case._replace(found=expected, classes=["cat", "dog", "eel"], ids=(1, 2, 3)), {**options, **ways}
    source = opened_objects(reader, folder, case.labels, options)
    assert source.schema.class_names[OBJECT_LABEL] == tuple(case.classes)
    assert source.schema.class_ids.get(OBJECT_LABEL, ()) == case.ids
    found = [label for sample in source if sample.objects for label in sample.objects.columns[OBJECT_LABEL]]
    assert found == case.found


# --- names of the format, and a list of the user


def stated_parquet(folder: Path, names: Sequence[str] | None) -> Source:
    """A column of numbers that `datasets` wrote with their names."""
    about = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": [{"bytes": IMAGE, "path": f"{i}.png"} for i in range(2)], "label": [1, 0]})
    metadata = {b"huggingface": json.dumps(about).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), folder / "a.parquet")
    return open_source(folder / "a.parquet", options=ColumnOptions(class_names=names))


def stated_columns(folder: Path, names: Sequence[str] | None) -> Source:
    """A CSV with a column of 0 and 1 for each class."""
    for i in range(2):
        (folder / f"{i}.png").write_bytes(IMAGE)
    (folder / "labels.csv").write_text("path,cat,dog\n0.png,0,1\n1.png,1,0\n")
    return open_source(folder / "labels.csv", options=LabelOptions(one_hot=["cat", "dog"], class_names=names))


def stated_roboflow(folder: Path, names: Sequence[str] | None) -> Source:
    """Roboflow's file of classes."""
    stated_columns(folder, None)
    (folder / "labels.csv").rename(folder / "_classes.csv")
    (folder / "_classes.csv").write_text("filename,cat,dog\n0.png,0,1\n1.png,1,0\n")
    return open_source(folder, options=AnnotationOptions(class_names=names))


@pytest.mark.parametrize("write", [stated_parquet, stated_columns, stated_roboflow])
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (None, [(1, "dog"), (0, "cat")]),
        (["cat", "dog"], [(1, "dog"), (0, "cat")]),
        (["dog", "cat"], [(0, "dog"), (1, "cat")]),
        (["Katze", "Hund"], [(1, "Hund"), (0, "Katze")]),
        (["cat", "Hund"], [(1, "Hund"), (0, "cat")]),
        (["dog", "bird"], "got 2 names for 2 classes (cat, dog)"),
        (["a", "b", "c"], "got 3 names for 2 classes (cat, dog)"),
        (["one"], "got 1 name for 2 classes (cat, dog)"),
    ],
)
def test_a_list_orders_the_classes_of_the_format_or_renames_each(
    tmp_path: Path, write: Callable[[Path, Any], Source], names: list[str] | None, found: Any
) -> None:
    if isinstance(found, str):
        with pytest.raises(UsageError, match=re.escape(f"class_names: {found}")):
            write(tmp_path, names)
        return
    source = write(tmp_path, names)
    labels = [sample.features[LABEL] for sample in source]
    assert [(label, source.schema.class_names[LABEL][label]) for label in labels] == found

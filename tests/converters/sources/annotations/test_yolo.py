"""YOLO's datasets in every layout that its tools write: the same images, splits and objects; and what is refused."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECT_LABEL, OBJECT_TEXT, XMAX, XMIN, YMAX, YMIN
from shardfeed.converters import convert, open_source
from shardfeed.converters.sources.annotations import yolo_reader as reader
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.errors import LabelFileError, MissingExtraError, ShardfeedError, UsageError
from shardfeed.testing.source import SourceContract

A, B = "0 0.5 0.5 0.2 0.4\n1 0.25 0.25 0.5 0.5\n", "1 0.1 0.1 0.2 0.2\n"
NAMES = "cat\ndog\n"
YAML = "names: [cat, dog]\n"
TRUE = [("1", "train", [0, 1]), ("2", "train", []), ("3", "validation", [1])]  # image, split, classes


def plant(root: Path, files: dict[str, str]) -> Path:
    """Files with these texts; those that are called as images are images of 40 x 20 pixels, all different."""
    for i, (name, text) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith((".jpg", ".png")):
            Image.new("RGB", (40, 20), (i * 20, 9, 9)).save(path)
        else:
            path.write_text(text)
    return root


def of_splits(image: str, label: str, **more: str) -> dict[str, str]:
    """The three images; `image` and `label` are their paths, with {} for the split and the name."""
    files: dict[str, str] = dict(more)
    for name, split, text in (("1", "train", A), ("2", "train", ""), ("3", "val", B)):
        files[image.format(split=split, name=name)] = ""
        if text:
            files[label.format(split=split, name=name)] = text
    return files


IN_FOLDERS = of_splits("images/{split}/{name}.jpg", "labels/{split}/{name}.txt")
IN_SPLITS = of_splits("{split}/images/{name}.jpg", "{split}/labels/{name}.txt")
BESIDE = of_splits("obj_train_data/{name}.jpg", "obj_train_data/{name}.txt")
LISTS = {"train.txt": "{0}1.jpg\n{0}2.jpg\n", "val.txt": "{0}3.jpg\n"}


def lists(before: str, after: str = "obj_train_data/", **more: str) -> dict[str, str]:
    return {name.replace("val", "valid"): text.format(before + after) for name, text in LISTS.items()} | more


LAYOUTS: dict[str, dict[str, str]] = {
    "ultralytics": IN_FOLDERS | {"data.yaml": YAML + "path: .\ntrain: images/train\nval: images/val\ntest:\nnc: 2\n"},
    "another machine": IN_FOLDERS
    | {"dataset.yaml": "path: /content/ds\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n"},
    "absolute": IN_FOLDERS | {"mine.yml": YAML + "train: /content/ds/images/train\nval: 'D:\\ds\\images\\val'\n"},
    "started elsewhere": IN_FOLDERS | {"data.yaml": YAML + "train: ../ds/images/train\nval: ds/images/val/\n"},
    "roboflow": of_splits("{split}/images/{name}.rf.0a.jpg", "{split}/labels/{name}.rf.0a.txt")
    | {
        "data.yaml": YAML
        + "train: ../train/images\nval: ../val/images\ntest: ../test/images\nroboflow:\n  version: 1\n"
    },
    "whole folders": IN_SPLITS | {"data.yaml": YAML + "train: train\nvalid: val\n"},
    "lists": IN_FOLDERS
    | {
        "data.yaml": YAML + "train: [lists/train.txt, images/train]\nval: lists/val.txt\n",
        "lists/train.txt": "../images/train/1.jpg\r\n\r\n../images/train/1.jpg\n",
        "lists/val.txt": "images/val/3.jpg",
    },
    "lists with ./": IN_FOLDERS
    | {
        "data.yaml": YAML + "train: train.txt\nval: val.txt\n",
        "train.txt": "./images/train/1.jpg\n./images/train/2.jpg\n",
        "val.txt": "./images/val/3.jpg\n",
    },
    "lists of another machine": IN_FOLDERS
    | {
        "data.yaml": YAML + "train: train.txt\nval: val.txt\n",
        "train.txt": "/content/x/images/train/1.jpg\n/content/x/images/train/2.jpg\n",
        "val.txt": "C:\\x\\images\\val\\3.jpg\n",
    },
    "darknet": BESIDE
    | lists("data/", **{"obj.names": NAMES})
    | {
        "obj.data": "classes = 2\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\nbackup = b/\n"
    },
    "darknet without obj.data": BESIDE | lists("", **{"obj.names": NAMES}),
    "labelimg": IN_FOLDERS | {"labels/train/classes.txt": NAMES, "labels/val/classes.txt": NAMES},
    "beside": of_splits("{split}/{name}.jpg", "{split}/{name}.txt") | {"classes.txt": NAMES},
    "roboflow darknet": of_splits("{split}/{name}.jpg", "{split}/{name}.txt")
    | {f"{split}/_darknet.labels": NAMES for split in ("train", "val")},
    "no description": IN_SPLITS,
}


def told(source: Any) -> list[tuple[str, str | None, list[int]]]:
    """(name, split, labels) of each sample, by name."""
    found = []
    for sample in source:
        name = os.path.basename(os.fsdecode(sample.key)).partition(".")[0]
        found.append((name, sample.split, list(sample.objects.columns[OBJECT_LABEL])))
    return sorted(found)


def options(**more: Any) -> dict[str, Any]:
    return more


_CHOSEN = ("include", "exclude", "follow_links")


def read(path: str, given: dict[str, Any]) -> Any:
    chosen = {name: value for name, value in given.items() if name in _CHOSEN}
    options = AnnotationOptions(**{name: value for name, value in given.items() if name not in chosen})
    return open_source(path, reader="yolo", options=options, **chosen)


def recognise(path: str, given: dict[str, Any]) -> Evidence | None:
    return reader.recognise(Look(path), AnnotationOptions(**given))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_says_the_same(tmp_path: Path, name: str) -> None:
    root = plant(tmp_path / "ds", LAYOUTS[name])
    given = options(class_names=["cat", "dog"] if name == "no description" else None)
    evidence = recognise(str(root), given)
    assert (evidence.name, evidence.missing) == ("yolo", "")
    source = read(str(root), given)
    assert told(source) == TRUE
    assert source.schema.class_names == {OBJECT_LABEL: ("cat", "dog")}
    assert list(source.findings.rejected) == []
    assert source.findings.account.read == 0
    assert source.described == "read as yolo, as requested: 2 classes, lines of class and box"
    for file in root.iterdir():
        if file.suffix in (".yaml", ".yml", ".data"):
            assert told(read(str(file), given)) == TRUE
            assert recognise(str(file), given) is not None


def test_a_conversion_writes_the_boxes_and_never_the_source(tmp_path: Path) -> None:
    root = plant(tmp_path / "ds", LAYOUTS["roboflow"])
    before = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in sorted(root.rglob("*"))}
    report = convert(read(str(root), options()), tmp_path / "out", workers=1)
    assert (report.account.read, report.account.written) == (3, 3)
    records = {record["image/filename"]: record for record in shardfeed.open(tmp_path / "out")["train"]}
    record: Any = records[b"train/images/1.rf.0a.jpg"]
    sides = [[round(float(x), 6) for x in record[key]] for key in (XMIN, YMIN, XMAX, YMAX)]
    assert sides == [[0.4, 0.0], [0.3, 0.0], [0.6, 0.5], [0.7, 0.5]]
    assert list(record[OBJECT_TEXT]) == [b"cat", b"dog"]
    after = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in sorted(root.rglob("*"))}
    assert after == before
    assert "test: ../test/images is missing" in report.notes


class TestYoloSource(SourceContract):
    keys_are_sorted = True

    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Any]:
        files = LAYOUTS["lists"] | {"lists/val.txt": "images/val/3.jpg\nimages/val/gone.jpg\n"}
        root = plant(tmp_path / "ds", files | {"labels/train/lost.txt": A, "labels/val/gone.txt": B})
        return lambda: read(str(root), options())


def test_names_stay_as_they_are_written(tmp_path: Path) -> None:
    words = "  - no\n  - 007\n  - 1.0\n  - on\n  - null\n  - 2001-01-01\n"
    root = plant(tmp_path, {"images/1.jpg": "", "labels/1.txt": "", "data.yaml": "train: images\nnames:\n" + words})
    names = read(str(root), options()).schema.class_names[OBJECT_LABEL]
    assert names == ("no", "007", "1.0", "on", "null", "2001-01-01")


def test_images_may_lie_elsewhere(tmp_path: Path) -> None:
    plant(tmp_path / "far", IN_FOLDERS)
    file = plant(tmp_path / "near", {"my.yaml": YAML + "train: images/train\nval: ../images/val\n"}) / "my.yaml"
    with pytest.raises(UsageError, match=r"my\.yaml, train: 'images/train' is not in .*images") as caught:
        read(str(file), options())
    assert "--images DIR" in caught.value.format_message({"images": "--images"})
    assert told(read(str(file), options(images=str(tmp_path / "far")))) == TRUE
    file.write_text(YAML + f"path: {tmp_path / 'far'}\ntrain: images/train\nval: images/val\n")
    assert told(read(str(file), options())) == TRUE
    file.write_text(YAML + "path: ../far\ntrain: images/train\nval: images/val\n")
    assert told(read(str(file), options())) == TRUE


@pytest.mark.parametrize(
    "written", ["{new}/images/val", "../new/images/val", "../new/images/val/3.jpg", "../new/val.txt"]
)
def test_a_folder_outside_that_exists_is_meant(tmp_path: Path, written: str) -> None:
    """As Ultralytics does, whatever the dataset's own folder has under a name that ends alike."""
    plant(tmp_path / "new", {"images/val/3.jpg": "", "labels/val/3.txt": B, "val.txt": "./images/val/3.jpg\n"})
    root = plant(tmp_path / "ds", IN_FOLDERS | {"images/val/old.jpg": "", "labels/val/old.txt": A})
    (root / "data.yaml").write_text(YAML + f"train: images/train\nval: {written.format(new=tmp_path / 'new')}\n")
    source = read(str(root), options())
    assert told(source) == TRUE
    assert [sample.key for sample in source] == [
        b"ds/images/train/1.jpg", b"ds/images/train/2.jpg", b"new/images/val/3.jpg",
    ]  # fmt: skip
    assert "is outside of" in " ".join(source.findings.notes)
    source = read(str(root), options(exclude="new/**"))
    assert told(source) == TRUE[:2]
    (root / "data.yaml").write_text(YAML + "train: images/train\nval: ..\n")
    with pytest.raises(UsageError, match=r"validation: '\.\.' is not in"):
        read(str(root), options())


def test_what_was_chosen_is_said(tmp_path: Path) -> None:
    root = plant(tmp_path / "ds", LAYOUTS["another machine"])
    assert any("path of dataset.yaml has no images" in note for note in read(str(root), options()).findings.notes)
    root = plant(tmp_path / "lists", LAYOUTS["lists of another machine"])
    notes = read(str(root), options()).findings.notes
    assert any("train.txt begin with /content/x/, which is not in" in note for note in notes)
    root = plant(tmp_path / "twice", LAYOUTS["lists"] | {"images/other/9.jpg": ""})
    notes = read(str(root), options()).findings.notes
    assert "images listed twice, used once: 2 (images/train/1.jpg, images/train/1.jpg)" in notes
    assert "images in no split, left out: 1 (images/other/9.jpg)" in notes
    assert "images without a label file, treated as images without objects: 1" in notes


def test_images_of_two_splits_are_in_the_first(tmp_path: Path) -> None:
    files = LAYOUTS["lists with ./"] | {"val.txt": "./images/val/3.jpg\n./images/train/1.jpg\n"}
    source = read(str(plant(tmp_path / "ds", files)), options())
    assert told(source) == TRUE
    assert any("several splits, kept in" in note and "1 (images/train/1.jpg)" in note for note in source.findings.notes)


def test_a_split_whose_images_are_all_in_another_is_left_out(tmp_path: Path) -> None:
    """Ultralytics' coco128 names the same folder twice."""
    files = LAYOUTS["ultralytics"] | {"data.yaml": YAML + "train: images/train\nval: images/train\n"}
    source = read(str(plant(tmp_path / "ds", files)), options())
    assert told(source) == TRUE[:2]
    said = "validation: all 2 images are also in another split: validation is left out"
    assert said in source.findings.notes


def test_images_that_are_not_there_take_their_lines_along(tmp_path: Path) -> None:
    files = LAYOUTS["lists with ./"] | {"labels/val/4.txt": A, "val.txt": "./images/val/3.jpg\n./images/val/4.jpg\n"}
    source = read(str(plant(tmp_path / "ds", files)), options())
    assert [(s.key, s.code) for s in source.findings.rejected] == [(b"images/val/4.jpg", "E_MISSING")]
    account = source.findings.account
    assert [(one.key, one.code) for one in account.left_out] == [(b"images/val/4.jpg", "E_IMAGE")] * 2
    assert account.left_out[1].reason == "line 2 of labels/val/4.txt: its image is missing"
    report = convert(source, tmp_path / "out", workers=1, max_bad=1)
    assert (report.account.read, report.account.written) == (5, 3)


@pytest.mark.parametrize(
    "line", ["/etc/hostname.jpg", "../../secret.jpg", "https://x.org/1.jpg", "http://a\x00b.jpg", "\udc80.jpg"]
)
def test_nothing_leads_out_of_the_folder(tmp_path: Path, line: str) -> None:
    plant(tmp_path, {"secret.jpg": ""})
    root = plant(tmp_path / "a" / "ds", LAYOUTS["lists with ./"])
    (root / "val.txt").write_bytes(b"./images/val/3.jpg\n" + line.encode("utf-8", "surrogateescape") + b"\n")
    source = read(str(root), options())
    assert [s.code for s in source.findings.rejected if s.code in ("E_MISSING", "E_PATH_ESCAPE")] != []
    assert told(source) == TRUE


def test_labels_without_an_image_are_listed(tmp_path: Path) -> None:
    more = {"labels/train/9.txt": A, "labels/train/8.txt": "", "labels/train/README.txt": "Made by us\n"}
    source = read(str(plant(tmp_path, LAYOUTS["ultralytics"] | more)), options())
    account = source.findings.account
    assert [(one.key, one.code) for one in account.left_out] == [(b"labels/train/9.txt", "E_ORPHAN")] * 2
    assert any("text files next to the labels that are not labels: 2" in note for note in source.findings.notes)


def test_a_file_of_labels_for_two_images_is_said(tmp_path: Path) -> None:
    root = plant(tmp_path, {"images/1.jpg": "", "images/1.png": "", "labels/1.txt": A, "classes.txt": NAMES + "cow\n"})
    source = read(str(root), options())
    assert told(source) == [("1", None, [0, 1])] * 2
    assert "images that share a label file: 2 (images/1.jpg, images/1.png)" in source.findings.notes
    assert "classes without objects in the source, kept: 1 (cow)" in source.findings.notes


def test_a_flat_folder_may_have_many_files(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"{i:03}.txt": B for i in range(250)} | {"249.jpg": "", "a.jpg": "", "classes.txt": NAMES})
    assert recognise(str(root), options()) is not None
    source = read(str(root), options())
    assert told(source) == [("249", None, [1]), ("a", None, [])]
    assert len(source.findings.account.left_out) == 249


def test_links_are_followed_inside_the_folder_only(tmp_path: Path) -> None:
    root = plant(tmp_path / "in", of_splits("raw/{split}/{name}.jpg", "labels/{split}/{name}.txt"))
    (root / "images").symlink_to("raw")
    (root / "data.yaml").write_text(YAML + "train: images/train\nval: images/val\n")
    assert told(read(str(root), options())) == TRUE
    (root / "data.yaml").unlink()
    (root / "classes.txt").write_text(NAMES)
    assert [labels for _, _, labels in told(read(str(root), options()))] == [[0, 1], [], [1]]

    plant(tmp_path / "far", IN_FOLDERS)
    out = plant(tmp_path / "out", {"data.yaml": YAML + "train: images/train\nval: images/val\n"})
    (out / "images").symlink_to(tmp_path / "far" / "images")
    (out / "labels").symlink_to(tmp_path / "far" / "labels")
    with pytest.raises(UsageError, match="a link that points outside the root"):
        read(str(out), options())
    assert told(read(str(out), options(follow_links=True))) == TRUE
    (out / "images").unlink()
    plant(out, {name: "" for name in IN_FOLDERS if name.endswith("jpg")})
    with pytest.raises(UsageError, match=r"its labels, labels/train/1.txt: a link that points outside the root"):
        read(str(out), options())


def test_labels_that_cannot_be_read_cost_the_image(tmp_path: Path) -> None:
    root = plant(tmp_path, LAYOUTS["ultralytics"])
    (root / "labels/train/1.txt").unlink()
    os.mkfifo(root / "labels/train/1.txt")
    source = read(str(root), options())
    assert [(s.key, s.code) for s in source.findings.rejected] == [(b"images/train/1.jpg", "E_NOT_REGULAR")]
    assert told(source) == TRUE[1:]
    (root / "labels/train/1.txt").unlink()
    (root / "labels/train/1.txt").symlink_to("nowhere.txt")
    assert [s.code for s in read(str(root), options()).findings.rejected] == ["E_MISSING"]


def test_include_and_exclude_choose_images(tmp_path: Path) -> None:
    root = plant(tmp_path, LAYOUTS["ultralytics"])
    source = read(str(root), options(include="*.jpg", exclude="images/train/2.jpg"))
    assert told(source) == [TRUE[0], TRUE[2]]
    assert "images left out by include and exclude: 1 (images/train/2.jpg)" in source.findings.notes
    with pytest.raises(UsageError, match="no matching image"):
        read(str(root), options(include="*.png"))


NO_LABELS = {name: text for name, text in IN_FOLDERS.items() if name.endswith("jpg")}


def test_no_labels_is_never_silent(tmp_path: Path) -> None:
    yaml = {"data.yaml": YAML + "train: images/train\nval: images/val\n"}
    place = r"looked for 'labels/train/1.txt' and 'images/train/1.txt' for the image 'images/train/1.jpg'"
    with pytest.raises(UsageError, match=rf"no image of the split train has a label file: {place}"):
        read(str(plant(tmp_path / "none", NO_LABELS | yaml)), options())
    with pytest.raises(UsageError, match=r"there is 'annotations/1.txt': put them there; an empty .txt means"):
        read(str(plant(tmp_path / "else", NO_LABELS | yaml | {"annotations/1.txt": A})), options())
    with pytest.raises(UsageError, match="no image of the split validation has"):
        read(str(plant(tmp_path / "val", NO_LABELS | yaml | {"labels/train/1.txt": A})), options())
    test = NO_LABELS | {"labels/train/1.txt": A, "data.yaml": YAML + "train: images/train\ntest: images/val\n"}
    notes = read(str(plant(tmp_path / "test", test)), options()).findings.notes
    assert "no image of the split test has a label file" in notes


BAD_YAML = {
    "[": ":2:1: not YAML",
    "": "not a mapping",
    "- a": "not a mapping",
    "\x00": "not YAML",
    "a: !!python/object/apply:os.system [ls]": "not YAML",
    "a: !!int x\nnames: [a]": "not YAML",
    "[" * 800: "not YAML",
    "names: [a]\nnames: [b]": ":2:1: not YAML: a duplicate key",
    "names:\n  0: a\n  0: b": ":3:3: not YAML: a duplicate key",
    "names:\n  0: a\n  2: b": "names: got 2 numbered names, without the number 1",
    "names:\n  1: a\n  2: b": "without the number 0",
    "names:\n  x: a": "names: expected a list of class names",
    "names: []": "names: expected a list of class names",
    "names: cat": "names: expected a list of class names",
    "names: [a, [b]]": "names: expected a list of class names",
    "names: [a, a]": "names, name 2: 'a' is already",
    "names: [a, '']": "names, name 2: got the class name",
    "names: [a]\nnc: 2": "nc: got '2', and 1 names",
    "names: [a]\nnc: many": "nc: got 'many', and 1 names",
    "names: [a]\npath: [x]": "path: got a list, expected a folder",
    "names: [a]\ntask: classify": "task: got 'classify', expected one of detect",
    "names: [a]\ntask: pose": "a kpt_shape",
    "names: [a]\ntask: detect\nkpt_shape: [1, 2]": "with a kpt_shape",
    "names: [a]\ntrain: {x: y}": "train: got a dict",
    "names: [a]\ntrain: x\nval: x\nvalid: x": "valid: is the split validation, like val",
    "names: [a]\nkpt_shape: 17": "kpt_shape: expected",
    "names: [a]\nkpt_shape: [17, 4]": "kpt_shape: expected",
    "names: [a]\nkpt_shape: [999999, 3]": "10,000 at most",
    "names: [a]\nkpt_shape: [2, 3]\nflip_idx: [0]": "flip_idx: expected the 2 numbers 0 to 1",
    "names: [a]\nkpt_shape: [3, 3]\nflip_idx: [1, 2, 0]": "flip_idx: expected",
    "names: [a]\nkpt_shape: [2, 3]\nflip_idx: no": "flip_idx: expected",
    "names: [a]\nkpt_shape: [2, 3]\nkpt_names: [a]": "kpt_names: expected 2 different names",
    "names: [a]\nkpt_shape: [2, 3]\nkpt_names: {0: [a, b], 1: [b, a]}": "kpt_names: expected one list",
    "train: images": "no file names the classes",
    "names: [a]\ntrain: nowhere": "train: 'nowhere' is not in",
    "names: [a]\ntrain: labels": "no image in it",
    "names: [a]\ntrain: labels/1.txt": "all 2 images are missing",
}


@pytest.mark.parametrize("text", BAD_YAML)
def test_a_data_yaml_that_cannot_be_meant(tmp_path: Path, text: str) -> None:
    root = plant(tmp_path, {"images/1.jpg": "", "labels/1.txt": A, "data.yaml": text})
    with pytest.raises(UsageError, match=BAD_YAML[text]) as caught:
        read(str(root / "data.yaml"), options())
    assert len(str(caught.value)) < 600
    recognise(str(root), options())
    recognise(str(root / "data.yaml"), options())


WORDS = st.sampled_from(
    ["cat", "images", "0", "1", "3", "~", "no", "''", "../x", "images/1.jpg", ".", "labels", "&a", "*a"]
)
VALUES = st.recursive(
    WORDS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)), max_leaves=6
)
KEYS = ["names", "nc", "path", "train", "val", "test", "task", "kpt_shape", "flip_idx", "kpt_names"]


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), names=st.booleans())
def test_any_data_yaml_is_read_or_refused(tmp_path: Path, said: dict[str, Any], names: bool) -> None:
    if not (tmp_path / "images").exists():
        plant(tmp_path, {"images/1.jpg": "", "labels/1.txt": A})
    said = said | ({"names": ["cat", "dog"]} if names else {})
    (tmp_path / "data.yaml").write_text("".join(f"{key}: {_flow(value)}\n" for key, value in said.items()))
    recognise(str(tmp_path), options())
    with suppress(UsageError):
        assert len(read(str(tmp_path), options())) == 1


def _flow(value: Any) -> str:
    """YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else value


def test_two_descriptions_are_refused(tmp_path: Path) -> None:
    files = LAYOUTS["ultralytics"] | {"dataset.yaml": "names: [a]\n"}
    with pytest.raises(UsageError, match=r"more than one file describes a YOLO dataset \(data.yaml, dataset.yaml\)"):
        read(str(plant(tmp_path / "yaml", files)), options())
    assert recognise(str(tmp_path / "yaml"), options()) is not None
    files = LAYOUTS["labelimg"] | {"labels/val/classes.txt": "dog\ncat\n"}
    with pytest.raises(UsageError, match=r"labels/val/classes.txt: lists different classes than"):
        read(str(plant(tmp_path / "lists", files)), options())
    with pytest.raises(UsageError, match="lists different classes"):
        read(str(plant(tmp_path / "given", LAYOUTS["ultralytics"])), options(class_names=["x"]))
    assert told(read(str(tmp_path / "given"), options(class_names=["cat", "dog"]))) == TRUE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obj.data": "train = data/train.txt\nnames\n"}, r"obj.data:2: got no '='"),
        ({"obj.data": "train = train.txt\ntrain = train.txt\n"}, r"obj.data:2: train appears twice"),
        ({"obj.data": "classes = 3\ntrain = train.txt\nnames = obj.names\n"}, "got '3', and 2 names in obj.names"),
        ({"obj.data": "train = train.txt\nnames = no.names\n"}, "no file 'no.names'"),
        ({"obj.data": "train = gone.txt\nnames = obj.names\n"}, "train: 'gone.txt' is not in .*give the folder of"),
        ({"obj.names": "cat\n\ndog\n"}, r"obj.names:2:1"),
    ],
)
def test_a_darknet_description_that_cannot_be_meant(tmp_path: Path, change: dict[str, str], message: str) -> None:
    root = plant(tmp_path, LAYOUTS["darknet"] | change)
    with pytest.raises(UsageError, match=message):
        read(str(root / "obj.data"), options())


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cat/1.jpg": "", "dog/1.jpg": ""},
        {"images/1.jpg": "", "labels/1.txt": "a cat on a mat, at night\n"},
        {"images/1.jpg": "", "labels/1.txt": "0 100 100 20 20\n"},
        {"images/1.jpg": "", "labels/1.png": ""},
        {"1.jpg": "", "1.txt": "a cat"},
        {"config.yaml": "lr: 3\n", "1.jpg": ""},
        {"data.yaml": "lr: 3\n", "1.jpg": ""},
        {"x.data": "abc", "1.jpg": ""},
    ],
)
def test_other_folders_are_not_taken_for_it(tmp_path: Path, files: dict[str, str]) -> None:
    root = plant(tmp_path, files)
    assert recognise(str(root), options()) is None
    assert recognise(str(root / "nothing"), options()) is None
    for name in files:
        assert recognise(str(root / name), options()) is None


def test_without_pyyaml_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path, LAYOUTS["ultralytics"])
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"shardfeed\[objects\]"):
        read(str(root), options())
    assert recognise(str(root), options()) is not None


def test_what_is_none_is_said(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "x", "1.jpg": ""})
    for path, message in (("a.txt", "is not a"), ("gone", "no such file or folder")):
        with pytest.raises(UsageError, match=message):
            read(str(tmp_path / path), options())
    with pytest.raises(LabelFileError, match="more than 4,000,000 bytes"):
        (tmp_path / "data.yaml").write_bytes(b"a" * 5_000_000)
        read(str(tmp_path / "data.yaml"), options())
    with pytest.raises(ShardfeedError, match="no such folder"):
        read(str(plant(tmp_path / "ds", LAYOUTS["ultralytics"])), options(images=str(tmp_path / "gone")))

"""Remedies of folders of images, and of the choice of a reader."""

import io
import json
import tarfile

from remedies.annotations import coco, voc
from remedies.typed import Box, Way, advises

FLAT = {"FILE": "t.csv", "REGEX": "(?P<label>[a-z]+)_[0-9]+.jpg"}


@advises(
    "converters/sources/image_folder.py: give their labels by {} (a table of paths and",
    "convert set out --reader folder",
    Way("--labels", fill={"FILE": "t.csv"}, then=Way(drop="--reader", gives=4)),
    Way("--pattern", 4, fill={"REGEX": ".*/(?P<label>[a-z]+)_[0-9]+.jpg"}),
)
def a_flat_folder(box: Box) -> None:
    names = [f"{label}_{i}.jpg" for label in ("cat", "dog") for i in range(2)]
    box.images(*(f"set/train/{name}" for name in names[::2]), *(f"set/test/{name}" for name in names[1::2]))
    rows = [f"{'train' if i % 2 == 0 else 'test'}/{name},{name[:3]}" for i, name in enumerate(names)]
    box.write("t.csv", "\n".join(["path,label", *rows]) + "\n")


@advises(
    "converters/sources/image_folder.py: {}give --pattern REGEX with a group 'label', such as",
    "convert flat out",
    Way("--pattern", 6, fill={"REGEX": "(?P<label>[0-9]+)-.*"}),
    Way("--labels", 6, fill=FLAT),
)
@advises("converters/sources/files/folder_layouts.py: --labels FILE", "convert flat out", Way("--labels", 6, fill=FLAT))
@advises(
    "converters/sources/image_folder.py: , or --unlabelled to convert without labels",
    "convert flat out",
    Way("--unlabelled", 6),
)
def names_without_a_class(box: Box) -> None:
    box.images(*(f"flat/{i % 2}-{i:03d}x.jpg" for i in range(6)))
    box.write("t.csv", "path,label\n" + "".join(f"{i % 2}-{i:03d}x.jpg,{'ab'[i % 2]}\n" for i in range(6)))


@advises(
    "converters/sources/files/folder_layouts.py: --labels {}, with --label-column COLUMN unless it",
    "convert flat out",
    Way("--labels --label-column", 6, fill={"COLUMN": "kind"}),
)
def a_table_beside_names_without_a_class(box: Box) -> None:
    box.images(*(f"flat/{i:03d}.jpg" for i in range(6)))
    box.write("flat/notes.csv", "path,kind,age\n" + "".join(f"{i:03d}.jpg,{'ab'[i % 2]},{i}\n" for i in range(6)))


@advises(
    "converters/sources/image_folder.py: move the others out, or give --class-names when",
    "convert set out",
    Way("--class-names", 8, fill={"--class-names": "names.txt"}),
)
def splits_beside_another_folder(box: Box) -> None:
    for top in ("train", "test", "rose", "tulip"):
        box.images(f"set/{top}/1.jpg", f"set/{top}/2.jpg")
    box.write("names.txt", "train\ntest\nrose\ntulip\n")


@advises(
    "converters/sources/image_folder.py: leave it out by --exclude /{} (and convert it",
    "convert set out --reader folder",
    Way("--exclude", 4, images=4),
    Way("--unlabelled", 2, onto="convert set/test out"),
    Way("--labels", fill={"FILE": "t.csv"}, then=Way(drop="--reader", gives=6)),
    Way("--pattern", 6, fill={"REGEX": "(?P<split>train|test)/(.*/)?(?P<label>[a-z]+)[^/]*"}),
)
def a_split_without_classes(box: Box) -> None:
    keys = [
        "train/cat/cat1.jpg",
        "train/cat/cat2.jpg",
        "train/dog/dog1.jpg",
        "train/dog/dog2.jpg",
        "test/cat.jpg",
        "test/dog.jpg",
    ]
    box.images(*(f"set/{key}" for key in keys))
    box.write("t.csv", "path,label\n" + "".join(f"{key},{key.rpartition('/')[2][:3]}\n" for key in keys))


@advises(
    "converters/sources/image_folder.py: give {} as SOURCE, {}or --class-names FILE with the",
    "convert set out --reader folder",
    Way("SOURCE", 4, fill={"SOURCE": "set/photos"}),
    Way("--class-names", 4, fill={"FILE": "one.txt"}),
)
def a_folder_too_high(box: Box) -> None:
    box.folder("set/photos", "rose tulip")
    box.write("one.txt", "photos\n")


@advises(
    "converters/sources/image_folder.py: give {} as SOURCE, {}or --class-names FILE with the",
    "convert set out",
    Way("SOURCE", 4, fill={"SOURCE": "set/photos"}),
    Way("--class-names", 4, fill={"FILE": "one.txt"}),
    Way("--unlabelled", 4),
)
def a_folder_too_high_beside_lists(box: Box) -> None:
    box.folder("set/photos", "rose tulip")
    box.write("set/labels/a.txt", "1 2 3 4\n5 6 7 8\n")
    box.write("one.txt", "photos\n")


@advises(
    "converters/sources/files/folder_layouts.py: {}choose a reader with --reader NAME, {}{}",
    "convert set out --reader folder",
    Way("--reader", 4, fill={"NAME": "coco"}),
    Way("--unlabelled", 4),
    Way("--class-names", 4, fill={"FILE": "one.txt"}),
)
@advises(
    "converters/sources/files/folder_layouts.py: or list the folders in --class-names FILE to use",
    "convert set out --reader folder",
    Way("--class-names", 4, fill={"FILE": "one.txt"}),
)
def a_coco_dataset_as_folders(box: Box) -> None:
    coco(box, "set/annotations/instances_train2017.json", "set/train2017")
    box.write("one.txt", "train2017\n")


@advises(
    "converters/sources/files/folder_layouts.py: --unlabelled with --{} {} converts the images",
    "convert set out",
    Way("--unlabelled --include", 6),
    Way("--class-names", 12, fill={"FILE": "names.txt"}, images=12),
)
def a_folder_for_each_sample(box: Box) -> None:
    for i in range(6):
        box.image(f"set/case{i}/image.png")
        box.mask(f"set/case{i}/mask.png", (0, 1, i + 2))
    box.write("names.txt", "".join(f"case{i}\n" for i in range(6)))


@advises(
    "converters/sources/files/folder_layouts.py: choose a reader with --reader NAME, if one fits;",
    "convert set out",
    Way("--unlabelled", 2),
    Way("--class-names", 2, fill={"FILE": "one.txt"}),
)
def annotations_that_nobody_reads(box: Box) -> None:
    box.images("set/Images/1.jpg", "set/Images/2.jpg")
    box.write(
        "set/annotation_train.odgt",
        json.dumps({"ID": "1", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3, 4]}]}) + "\n",
    )
    box.write("one.txt", "Images\n")


@advises(
    "converters/sources/image_folder.py: give --pattern [^/]*(?P<split>{})[^/]*/(?P<label>[^/]+)/.+",
    "convert set out",
    Way("--pattern", {"train": 4, "test": 4}),
    Way("--class-names", 8, fill={"FILE": "names.txt"}),
)
def folders_named_like_splits(box: Box) -> None:
    for top in ("training_set", "test_set"):
        box.folder(f"set/{top}", "cat dog", first=len(top))
    box.write("names.txt", "training_set\ntest_set\n")


@advises(
    "converters/sources/image_folder.py: {}give --pattern '(?P<label>.+)/[^/]+' if the path to an",
    "convert set out",
    Way("--pattern", 8),
    Way("--class-names", 8, fill={"FILE": "names.txt"}),
)
@advises(
    "converters/sources/image_folder.py: give --pattern '.+/(?P<label>[^/]+)/[^/]+' if the folders",
    "convert folds out",
    Way("--pattern", 8),
)
def folders_of_folders(box: Box) -> None:
    for n in (1, 2):
        box.folder(f"folds/fold_{n}", "cat dog", first=9 * n)
    box.folder("set/animals", "cat dog")
    box.folder("set/plants", "rose tulip")
    box.write("names.txt", "animals\nplants\n")


@advises(
    "converters/sources/files/walk.py: follow links that point outside the folder: --follow-links",
    "convert set out",
    Way("--follow-links", 4, images=4),
)
def links_to_another_folder(box: Box) -> None:
    box.folder("elsewhere", "cat dog")
    box.write("set/readme.txt", "x")
    for name in ("cat", "dog"):
        (box.root / "set" / name).symlink_to(f"../elsewhere/{name}")


@advises(
    "converters/sources/files/walk.py: a link that points outside the root: {} (--follow-links includes",
    "convert set out",
    Way("--follow-links", 4, images=4),
)
def a_class_behind_a_link(box: Box) -> None:
    box.folder("elsewhere", "dog")
    box.folder("set", "cat")
    (box.root / "set" / "dog").symlink_to("../elsewhere/dog")


@advises(
    "converters/sources/open_source.py: give that file as --labels {}",
    "convert flat out --label-column kind",
    Way("--labels", 4, fill={"--labels": "flat/labels.csv"}),
)
@advises(
    "converters/sources/open_source.py: give only the wanted file; or, for image files, --reader",
    "convert both out --reader webdataset --exclude annotations --exclude train2017",
    Way("--reader", then=Way("SOURCE", 4, fill={"SOURCE": "both/classes"})),
)
@advises(
    "converters/sources/open_source.py: leave it out, or choose a reader with --reader NAME",
    "convert classes out --voc-origin 1",
    Way(drop="--voc-origin", gives=4),
    Way(
        "--reader",
        then=Way("--images", 3, fill={"DIR": "photos"}),
        onto="convert xmls out --voc-origin 1",
        fill={"NAME": "voc"},
    ),
)
@advises(
    "converters/sources/open_source.py: group by file names with --group-pattern",
    "convert set/instances.json out --images set/photos --split train=0.5,test=0.5 --group-column x",
    Way("--group-pattern", 4, drop="--group-column", fill={"--group-pattern": "(?P<group>.).*"}),
)
@advises(
    "converters/sources/open_source.py: choose one: --reader {}",
    "convert both out",
    Way("--reader", then=Way("--unlabelled", 8)),
    Way("--reader", 4, fill={"--reader": "coco"}, images=4),
)
@advises(
    "converters/sources/files/folder_layouts.py: choose a reader with --reader NAME, if one fits;",
    "convert both out --reader folder",
    Way("--reader", 4, fill={"NAME": "coco"}, images=4),
)
def sources_of_several_kinds(box: Box) -> None:
    names = [f"{label}{i}.jpg" for label in ("cat", "dog") for i in range(2)]
    box.images(*(f"flat/{name}" for name in names))
    box.folder("classes", "cat dog")
    box.write("flat/labels.csv", "path,kind\n" + "".join(f"{name},{name[:3]}\n" for name in names))
    coco(box, "set/instances.json", "set/photos")
    voc(box, "xmls", "photos")
    coco(box, "both/annotations/instances_train2017.json", "both/train2017")
    box.folder("both/classes", "cat dog")
    with tarfile.open(box.write("both/a.tar", b""), "w") as tar:
        for i, name in enumerate(names):
            data = (box.root / "flat" / name).read_bytes()
            info = tarfile.TarInfo(f"{i}.jpg")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@advises(
    "converters/sources/open_source.py: give --reader {} to read it anyway",
    "convert xmls out",
    Way("--reader", then=Way("--images", 3, fill={"DIR": "photos"})),
)
def xml_that_is_nearly_voc(box: Box) -> None:
    voc(box, "xmls", "photos")


@advises(
    "converters/sources/open_source.py: give --format jsonl and --path-column KEY if each line is",
    "convert a.json out",
    Way("--format --path-column", 4, fill={"KEY": "picture"}),
)
def lines_of_json(box: Box) -> None:
    box.images(*(f"photos/{i}.jpg" for i in range(4)))
    box.write(
        "a.json", "".join(json.dumps({"picture": f"photos/{i}.jpg", "label": "ab"[i % 2]}) + "\n" for i in range(4))
    )


@advises(
    "converters/sources/classes.py: class names are integers but not 0 to {}, so they are sorted as",
    "convert set new",
    Way("--class-names", then=Way("--replace", 6), fill={"--class-names": "names.txt"}),
)
def folders_of_numbers(box: Box) -> None:
    box.folder("set", "1 2 10")
    box.write("names.txt", "1\n2\n10\n")

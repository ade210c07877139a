"""Remedies of reports, of datasets of datasets, and of loaders: what fits nowhere else."""

import json
import zipfile
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from datasets import SCENES
from format_1 import unpack
from PIL import Image

import shardfeed
from shardfeed.converters import AnnotationOptions, Sample, open_source
from shardfeed.converters.existing.append import append
from shardfeed.tools.cli import main

from pictures import image_bytes
from remedies.annotations import coco, panoptic
from remedies.containers import files
from remedies.containers import records as examples
from remedies.typed import Box, Way, advises

DIR = {"DIR": "out", "OUT": "new"}
ADOPT = Way("shardfeed adopt", 6, fill={"DIR": "theirs", "OUT": "new", "KEY": "left"})
SHARES = "--split train=0.5,test=0.5"


# Reports


@advises(
    "converters/sources/files/text.py: give --encoding {} if that is right, or another encoding",
    "convert names.zip out",
    Way("--encoding", 4),
)
def names_in_cp437(box: Box) -> None:
    box.image("kept/0.png")
    drawn = (box.root / "kept/0.png").read_bytes()
    with zipfile.ZipFile(box.root / "names.zip", "w") as archive:
        for name in ("K_fer/0.png", "K_fer/1.png", "dog/0.png", "dog/1.png"):
            archive.writestr(name, drawn)
    whole = (box.root / "names.zip").read_bytes()
    box.write("names.zip", whole.replace(b"K_fer", b"K\x84fer"))  # zipfile would mark the name as UTF-8


@advises(
    "converters/images/pixels.py: {}; --background none drops alpha",
    "convert images new",
    Way("--background", 20, onto="convert images new --replace"),
)
@advises(
    "tools/convert_report.py: {} and {} more like this, in the report of --json",
    "convert images new",
    Way("--json", 20, onto="convert images new --replace"),
)
def pictures_with_alpha(box: Box) -> None:
    for label in ("cat", "dog"):
        for i in range(10):
            rgba = np.random.default_rng(i).integers(0, 256, (9, 9, 4), np.uint8)
            rgba[..., 3] = 0
            box.write(f"images/{label}/{i}.png", image_bytes(Image.fromarray(rgba), "PNG"))


@advises(
    "converters/images/pixels.py: {}; if the images have {} bits, give --bits {}",
    "convert images new",
    Way("--bits", 4, onto="convert images new --replace"),
)
@advises(
    "tools/convert_report.py: ; {} reduced from 16 to 8 bits: --keep-depth",
    "convert images new",
    Way("--keep-depth", 4, onto="convert images new --replace"),
)
def pictures_of_10_bits(box: Box) -> None:
    for label in ("cat", "dog"):
        for i in range(2):
            gray = np.random.default_rng(i).integers(0, 1024, (9, 9)).astype(np.uint16)
            gray[0, 0] = 1023
            box.write(f"images/{label}/{i}.png", image_bytes(Image.fromarray(gray), "PNG"))


@advises(
    "converters/report.py: {}: --baseline (in Python ImageOptions(baseline=True)) converts them",
    "convert images new",
    Way("--baseline", 4, onto="convert images new --replace"),
)
def progressive_jpegs(box: Box) -> None:
    for label in ("cat", "dog"):
        for i in range(2):
            pixels = np.random.default_rng(i).integers(0, 256, (40, 40, 3), np.uint8)
            box.write(f"images/{label}/{i}.jpg", image_bytes(Image.fromarray(pixels), "JPEG", progressive=True))


@advises(
    "converters/report.py: {}: --png-to-jpeg (in Python ImageOptions(png_to_jpeg=True)) stores all as",
    "convert images new",
    Way("--png-to-jpeg", 6, onto="convert images new --replace"),
)
def a_png_among_jpegs(box: Box) -> None:
    box.folder("images", "cat dog")
    box.images("images/cat/x.png", "images/dog/x.png")


@advises("tools/convert_report.py: the report of --json", "convert many new --dry-run --max-bad 30", Way("--json"))
@advises(
    "tools/convert_report.py: nothing was written (--dry-run)",
    "convert many new --dry-run --max-bad 30",
    Way(drop="--dry-run", gives=4, listed=25),
)
@advises(
    "tools/convert_report.py: the output of --json",
    "convert many new",
    Way("--json", then=Way("--max-bad", 4, listed=25)),
)
def many_strays(box: Box) -> None:
    box.folder("many", "cat dog")
    box.images(*(f"many/{i:02}.jpg" for i in range(25)))


@advises(
    "tools/convert_report.py: and {} more classes, in the report of --json",
    f"convert images new {SHARES}",
    Way("--json", 120, onto="convert images new --replace"),
)
@advises(
    "tools/commands/preview_command.py: ({} of {} classes shown; choose with --classes NAME,NAME)",
    "preview out",
    Way("--classes", fill={"NAME": "class01"}),
)
def many_classes(box: Box) -> None:
    box.folder("images", " ".join(f"class{i:02}" for i in range(60)), each=2)
    assert box.type("convert images out") == 0


# Datasets of datasets


@advises(
    "converters/existing/append.py: convert the new images to a separate dataset, then `shardfeed",
    "append both more new",
    Way("shardfeed merge", 6, fill={"shardfeed merge": "shardfeed merge both c new"}),
)
@advises(
    "converters/existing/append.py: leave it out, and `shardfeed reshard` the new dataset",
    lambda: append("a", "more", "new", to="mds"),
    Way("shardfeed reshard", 4, fill={"shardfeed reshard": "shardfeed reshard grown new --to mds"}),
)
@advises(
    "converters/existing/merge.py: convert one of them again, with --encode raw or without",
    "merge a raw new",
    Way("--encode", 2, onto="convert first new"),
)
@advises(
    "converters/existing/merge.py: --prefix keeps both, or leave one out with `shardfeed remove`",
    "merge a other new",
    Way("--prefix", 4),
    Way("shardfeed remove", 1, fill={"shardfeed remove": "shardfeed remove other new --key cat/0.jpg"}),
)
@advises(
    "pipelines/orders/choose_order.py: `shardfeed merge` makes one dataset of several",
    lambda: shaped(),
    Way("shardfeed merge", 4, fill={"shardfeed merge": "shardfeed merge a c new"}),
)
def datasets_to_merge(box: Box) -> None:
    box.folder("first", "cat dog", 1)
    box.folder("second", "cat dog", 1, 1)
    box.folder("more", "cat dog", 1, 2)
    box.folder("others", "dog", 1)
    box.image("others/cat/0.jpg", seed=9)
    for command in (
        "convert first a",
        "convert second b --size 16",
        "convert more c",
        "convert second raw --encode raw",
        "convert others other",
        "merge a b both",
        "append a more grown",
    ):
        assert box.type(command) == 0


@advises(
    "converters/existing/renumber.py: --renumber assigns new ids in such splits",
    "merge a b new",
    Way("--renumber", 8),
)
def datasets_with_ids(box: Box) -> None:
    coco(box, "set/instances.json", "photos")
    coco(box, "set2/instances.json", "pictures")
    for i in range(4):
        (box.root / f"pictures/{i}.jpg").rename(box.root / f"pictures/p{i}.jpg")
    text = (box.root / "set2/instances.json").read_text()
    box.write("set2/instances.json", text.replace('.jpg"', '.jpg"').replace('"file_name": "', '"file_name": "p'))
    assert box.type("convert set/instances.json a --images photos") == 0
    assert box.type("convert set2/instances.json b --images pictures") == 0


@advises(
    "converters/existing/relabel.py: only rename it, limit the change to one --feature, or",
    "relabel out new --map drop.csv",
    Way("--feature", 3, fill={"--feature": "image/object/class/label"}),
)
def rasters_with_boxes(box: Box) -> None:
    panoptic(box, stuff=1)
    assert box.type("convert set out") == 0
    box.write("drop.csv", "old,new\ncat,\n")


@advises(
    "converters/existing/append.py: {} ({}): the dataset's values are kept; for the new",
    "append out set new --labels t.csv",
    Way("shardfeed remove", 3, fill={"shardfeed remove": "shardfeed remove out new --key cat/0.jpg"}),
)
def a_dataset_and_its_folder_changed(box: Box) -> None:
    box.folder("set", "cat dog")
    for name in ("out", "damaged", "cut"):
        assert box.type(f"convert set {name}") == 0
    box.write("t.csv", "path,label\ncat/0.jpg,dog\ncat/1.jpg,cat\ndog/0.jpg,dog\n")


@advises(
    "converters/planning/groups.py: nothing was written; make the dataset, and new splits of it",
    "convert parts out --no-leaks --group-pattern '(?P<group>p[0-9])_.*'",
    Way(
        "shardfeed split",
        8,
        fill={"shardfeed split": f"shardfeed split made new {SHARES} --group-pattern '(?P<group>p[0-9])_.*'"},
    ),
)
@advises(
    "converters/planning/groups.py: nothing was written; remove one of each, or divide the dataset",
    "convert copies out --no-leaks",
    Way(
        "shardfeed split",
        4,
        fill={"shardfeed split": f"shardfeed split copied new --group-duplicates --no-leaks {SHARES}"},
    ),
)
@advises(
    "converters/planning/groups.py: nothing was written; --group-duplicates keeps copies in one",
    "convert twins out --no-leaks --split train=0.5,test=0.5 --seed 1",
    Way("--group-duplicates", 24),
)
def splits_that_leak(box: Box) -> None:
    for split, numbers in (("train", (0, 1)), ("test", (2, 3))):
        box.images(*(f"parts/{split}/{label}/p{n % 2}_{n}{label}.jpg" for label in ("cat", "dog") for n in numbers))
    box.images("copies/train/cat/1.jpg", "copies/train/dog/2.jpg", "copies/test/dog/3.jpg")
    box.write("copies/test/cat/copy.jpg", (box.root / "copies/train/cat/1.jpg").read_bytes())
    box.folder("twins", "cat dog", 6)
    for path in list((box.root / "twins").rglob("*.jpg")):
        path.with_stem(f"copy{path.stem}").write_bytes(path.read_bytes())
    assert box.type("convert parts made") == 0
    assert box.type("convert copies copied") == 0


# Loaders: the frameworks are imported by the rows that need them


def mixed() -> None:
    from shardfeed.pipelines import mix

    mix([(shardfeed.open(name)["train"], 1) for name in ("a", "b")])


def shaped() -> None:
    from shardfeed.pipelines import Global, mix, order_samples

    both = mix([(shardfeed.open(name)["train"], 1) for name in ("a", "c")])
    order_samples(both, batch_size=2, order=Global(shapes=[(16, 24), (24, 16)]))


def loader(**kinds: Any) -> None:
    from shardfeed.pipelines import torch

    torch.detection(torch.random_resized_crop(8), **kinds).bind(shardfeed.open("out").manifest.schema)


def batches(**kinds: bool) -> None:
    from shardfeed.pipelines import detection, random_resized_crop

    transform = detection(random_resized_crop(8), **kinds)
    shardfeed.make_batches(shardfeed.open("out")["train"], transform, batch_size=2)


def loaded() -> None:
    from shardfeed.pipelines.torch import torch_loader

    list(torch_loader(shardfeed.open("out")["train"], batch_size=3, image_size=8))


def kept() -> None:
    from shardfeed.pipelines import Cache, cached

    list(cached(shardfeed.open("out")["train"], Cache("kept", decoded=True)))


@advises(
    "pipelines/samples.py: `shardfeed relabel` changes the classes of a dataset, `shardfeed merge`",
    mixed,
    Way("shardfeed merge", 4, fill={"shardfeed merge": "shardfeed merge a b new"}),
    Way("shardfeed relabel", 2, fill={"shardfeed relabel": "shardfeed relabel b new --map owls.csv"}),
)
def datasets_of_other_classes(box: Box) -> None:
    box.folder("one", "cat dog", 1)
    box.folder("two", "cat owl", 1, 1)
    box.write("owls.csv", "old,new\nowl,dog\n")
    assert box.type("convert one a") == 0
    assert box.type("convert two b") == 0


@advises(
    "converters/existing/append.py: give them ids, or convert the new images separately and",
    lambda: append("out", Unnumbered(), "new", new_classes=True),
    Way("shardfeed merge", 32, fill={"shardfeed merge": "shardfeed merge out b new --prefix --renumber"}),
)
@advises(
    "pipelines/objects.py: convert it again with --tasks {} (in Python tasks={})",
    lambda: loader(keypoints=True),
    Way("--tasks", 16, onto=f"convert {SCENES}/coco/keypoints.json new --images {SCENES}/images"),
)
@advises(
    "pipelines/objects.py: convert it again with --tasks {} (in Python tasks={})",
    lambda: loader(masks=True),
    Way("--tasks", 16, onto=f"convert {SCENES}/coco/instances.json new --images {SCENES}/images"),
)
@advises(
    "pipelines/objects.py: convert it again with --tasks {} (in Python tasks={})",
    lambda: batches(masks=True),
    Way("--tasks", 16, onto=f"convert {SCENES}/coco/instances.json new --images {SCENES}/images"),
)
@advises(
    "pipelines/objects.py: convert it again with --tasks {} (in Python tasks={})",
    lambda: loader(boxes="xyxyxyxy"),
    Way("--tasks", 1, onto="convert obb/data.yaml new"),
)
def drawn_scenes(box: Box) -> None:
    box.image("obb/images/train/a.jpg")
    box.write("obb/labels/train/a.txt", "0 0.2 0.1 0.6 0.3 0.5 0.6 0.1 0.4\n")
    box.write("obb/data.yaml", "names: [cat]\ntrain: images/train\n")
    for out in ("out", "b"):
        assert box.type(f"convert {SCENES}/coco/instances.json {out} --images {SCENES}/images --tasks boxes") == 0


class Unnumbered:
    """The drawn scenes, with one more class and without the classes' ids."""

    def __init__(self) -> None:
        options = AnnotationOptions(images=SCENES / "images", tasks=["boxes"])
        self._source = open_source(SCENES / "coco" / "instances.json", options=options)
        key = "image/object/class/label"
        names = {key: (*self._source.schema.class_names[key], "new")}
        self.schema = replace(self._source.schema, class_names=names, class_ids={})

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Sample:
        return self._source[index]


@advises(
    "pipelines/decoding/pixels.py: `shardfeed verify DIR --deep` names all such records",
    loaded,
    Way("shardfeed verify", then=Way("shardfeed salvage", 3, fill=DIR), fill=DIR),
)
@advises(
    "pipelines/caching/copies.py: convert again, without --check header (in Python check='header')",
    kept,
    Way(drop="--check", onto="convert images new --check header", then=Way("--max-bad", 2, listed=1)),
)
def an_image_that_is_broken(box: Box) -> None:
    box.folder("images", "cat dog", 1)
    box.broken("images/cat/1.png")
    assert box.type("convert images out --check header") == 0


@advises("tools/commands/preview_command.py: adopt other TFRecords with `shardfeed adopt DIR OUT", "preview out", ADOPT)
@advises(
    "tools/report/measure.py: adopt other TFRecords with `shardfeed adopt DIR OUT --image-key KEY`", "report out", ADOPT
)
@advises(
    "pipelines/arguments.py: adopt them with `shardfeed adopt DIR OUT --image-key KEY`",
    lambda: shardfeed.train_batches(shardfeed.open("out")["train"], batch_size=2, image_size=8),
    ADOPT,
)
@advises(
    "converters/existing/surveying.py: no feature is the image, but {} contain images; name one",
    "adopt theirs --dry-run",
    Way("--image-key", 6, onto="adopt theirs new", fill={"KEY": "right"}),
)
def records_of_two_images(box: Box) -> None:
    data = files(box)
    examples(box, "theirs/train.tfrecord", [{"left": one, "right": one, "label": i % 2} for i, one in enumerate(data)])
    assert box.type("adopt theirs out") == 0


@advises(
    "converters/existing/surveying.py: no feature is the label: {}; name one with --label-key KEY",
    "adopt theirs --dry-run",
    Way("--label-key", 6, onto="adopt theirs new", fill={"KEY": "class"}),
)
@advises(
    "converters/existing/surveying.py: {} is not the label, as {}; name it with --label-key {}",
    "adopt scores --dry-run",
    Way("--label-key", 6, onto="adopt scores new"),
)
def records_with_two_labels(box: Box) -> None:
    data = list(enumerate(files(box)))
    examples(box, "theirs/train.tfrecord", [{"image": one, "label": i % 2, "class": i % 3} for i, one in data])
    examples(box, "scores/train.tfrecord", [{"image": one, "label": i / 4} for i, one in data])


@advises(
    "converters/existing/surveying.py: {}: loaders then give images alone; if one{} is it, name it with",
    "adopt breeds --dry-run",
    Way("--label-key", 6, onto="adopt breeds new", fill={"KEY": "breed"}),
)
def records_with_a_number_of_another_name(box: Box) -> None:
    examples(box, "breeds/train.tfrecord", [{"image": one, "breed": i % 2} for i, one in enumerate(files(box))])


def page() -> str:
    assert main(["report", "out", "-o", "page.html"]) == 0
    return unescape(Path("page.html").read_text())


@advises(
    "tools/report/about.py: Fingerprint {}. To see the images that were left out",
    page,
    Way("--source", onto="report out -o page2.html", fill={"DIR": "images"}),
)
@advises(
    "tools/report/about.py: --max-bad {}",
    page,
    Way("shardfeed remove", fill={"shardfeed remove": "shardfeed remove out new --key train/cat/0.jpg --max-bad 1"}),
)
def a_dataset_with_findings(box: Box) -> None:
    box.folder("images/train", "cat dog", 3)
    box.folder("images/test", "cat dog", 2)
    box.write("images/test/cat/7.jpg", (box.root / "images/train/cat/0.jpg").read_bytes())
    box.broken("images/train/dog/7.png")
    box.images("images/train/stray.jpg")
    assert box.type("convert images out --check header --max-bad 1") == 0


@advises(
    "converters/existing/append.py: convert the new images to a separate dataset, then",
    "append a others new --new-classes",
    Way("shardfeed merge", 4, fill={"shardfeed merge": "shardfeed merge a b new"}),
)
def a_dataset_in_parquet(box: Box) -> None:
    box.folder("images", "cat dog", 1)
    box.folder("others", "cat owl", 1, 1)
    assert box.type("convert images a --to parquet") == 0
    assert box.type("convert others b --to parquet") == 0


@advises(
    "converters/planning/append_target.py: restore it from a copy; `shardfeed verify DIR` finds",
    "append out more new --group-duplicates",
    Way("shardfeed verify", then=Way("shardfeed rebuild", fill=DIR), fill=DIR),
)
def a_damaged_column_of_hashes(box: Box) -> None:
    box.folder("images", "cat dog")
    box.folder("more", "cat dog", 1, 5)
    assert box.type("convert images out") == 0
    box.damage("out/index/*sha256*.npy", -1)


@advises(
    "converters/planning/groups.py: `shardfeed reshard` adds it",
    "append format1 more new --group-duplicates",
    Way("shardfeed reshard", fill={"shardfeed reshard": "shardfeed reshard format1 new"}),
)
@advises(
    "converters/existing/append.py: without {}, which {} does not have: using one reads all",
    "append format1 more grown",
    Way("shardfeed reshard", fill={"shardfeed reshard": "shardfeed reshard grown new"}),
)
def a_dataset_of_format_1(box: Box) -> None:
    unpack(box.root)
    box.folder("more", "circle square triangle", 1)


@advises(
    "converters/planning/options.py: use --resize-shorter, which does not crop, or leave that",
    "convert photos new --labels t.jsonl --label-column label --number-column bbox --size 16",
    Way("--resize-shorter", 4, drop="--size", fill={"--resize-shorter": "16"}),
)
def numbers_that_are_places(box: Box) -> None:
    box.images(*(f"photos/{i}.jpg" for i in range(4)))
    box.write(
        "t.jsonl",
        "".join(json.dumps({"path": f"{i}.jpg", "label": "ab"[i % 2], "bbox": [0.5, 0.25]}) + "\n" for i in range(4)),
    )


@advises(
    "converters/sources/export_format.py: shardfeed convert",
    "export out files --to csv",
    Way("shardfeed convert", 6, fill={"NEW": "new"}),
)
@advises(
    "converters/sources/open_source.py: leave --reader out",
    "convert photos new --reader folder --labels t.csv",
    Way(drop="--reader", gives=6),
)
@advises(
    "converters/sources/readers.py: give it as SOURCE, which is unpacked",
    "convert photos new --labels a.zip",
    Way("SOURCE", 6, onto="convert photos new", fill={"SOURCE": "a.zip"}),
)
@advises(
    "converters/sources/image_folder.py: give {} as SOURCE if the names of its files or folders",
    "convert one new",
    Way("SOURCE", 6, fill={"SOURCE": "one/images"}),
)
def six_photos(box: Box) -> None:
    box.folder("set")
    names = [f"{label}/{i}.jpg" for label in ("daisy", "rose", "tulip") for i in range(2)]
    for name in names:
        box.write(f"photos/{name.replace('/', '_')}", (box.root / "set" / name).read_bytes())
        box.write(f"one/images/{name.replace('/', '_')}", (box.root / "set" / name).read_bytes())
    box.write("t.csv", "path,label\n" + "".join(f"{name.replace('/', '_')},{name.split('/')[0]}\n" for name in names))
    with zipfile.ZipFile(box.root / "a.zip", "w") as archive:
        for name in names:
            archive.write(box.root / "set" / name, f"set/{name}")
    assert box.type("convert set out") == 0


@advises(
    "converters/sources/rare/mat.py: {}save it as a CSV of `path,label`, and give",
    "convert set new",
    Way("--labels", 4, fill={"FILE.csv": "t.csv"}),
)
def a_mat_file_beside_images(box: Box) -> None:
    from scipy.io import savemat

    box.images(*(f"set/jpg/{i}.jpg" for i in range(4)))
    savemat(box.write("set/imagelabels.mat", b""), {"labels": np.array([[1, 2, 1, 2]])})
    box.write("t.csv", "path,label\n" + "".join(f"jpg/{i}.jpg,{'ab'[i % 2]}\n" for i in range(4)))


@advises(
    "converters/sources/export_format.py: rename it: `shardfeed relabel DATASET OUT --map FILE`",
    "export out files --to folder",
    Way("shardfeed relabel", 4, fill={"DATASET": "out", "OUT": "new", "FILE": "map.json"}),
)
def a_class_that_begins_with_a_blank(box: Box) -> None:
    box.images(*(f"set/{label}/{i}.jpg" for label in (" lead", "other") for i in range(2)))
    box.write("map.json", '{" lead": "lead"}')
    assert box.type("convert set out") == 0


@advises(
    "converters/sources/export_format.py: `shardfeed split DATASET OUT --split train=0.5,validation=0.5` makes other",
    "export out files --to masks",
    Way("shardfeed split", 4, fill={"DATASET": "out", "OUT": "new"}),
)
def masks_in_splits_of_other_names(box: Box) -> None:
    for i in range(4):
        box.image(f"set/images/{i}.jpg")
        box.mask(f"set/masks/{i}.png", (0, 1))
    assert box.type("convert set out --split fold_1=0.5,fold_2=0.5") == 0


@advises(
    "converters/existing/export_dataset.py: it has only images: `shardfeed reshard DATASET OUT --to webdataset`",
    "export out files --to csv",
    Way("shardfeed reshard", 4, fill={"DATASET": "out", "OUT": "new"}),
)
def a_dataset_of_images_alone(box: Box) -> None:
    box.images(*(f"set/{i}.jpg" for i in range(4)))
    assert box.type("convert set out --unlabelled") == 0

"""Remedies of annotation formats: COCO, YOLO, Pascal VOC, tables, masks, exports of tools."""

import json
from typing import Any

import numpy as np

from remedies.typed import Box, Way, advises

IMAGES = {"DIR": "photos"}


def coco(box: Box, name: str, folder: str, images: int = 4, **more: Any) -> None:
    """A file of COCO's with a box in each image; the images are in `folder`."""
    names = [f"{i}.jpg" for i in range(images)]
    for one in names:
        box.image(f"{folder}/{one}")
    content: dict[str, Any] = {
        "images": [{"id": i, "file_name": one, "width": 40, "height": 32} for i, one in enumerate(names)],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1 + i % 2, "bbox": [2, 3, 10, 12], "area": 120, "iscrowd": 0}
            for i in range(images)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    box.write(name, json.dumps(content | more))


@advises(
    "converters/sources/annotations/coco_files.py: give their folder: --images DIR",
    "convert in/instances.json out",
    Way("--images", 4, fill=IMAGES),
)
def images_of_coco_elsewhere(box: Box) -> None:
    coco(box, "in/instances.json", "photos")


@advises(
    "converters/sources/annotations/coco_reader.py: give the file itself, and the folder of its",
    "convert in out --reader coco",
    Way("--images", 4, fill=IMAGES, onto="convert in/odd/a.json out"),
)
@advises(
    "converters/sources/open_source.py: give {} instead of the folder, and --images {}",
    "convert photos out --labels in/odd/a.json",
    Way("--images", 4, onto="convert in/odd/a.json out"),
)
def a_coco_file_in_another_folder(box: Box) -> None:
    coco(box, "in/odd/a.json", "photos")
    box.write("in/more/notes.txt", "")


@advises(
    "converters/sources/annotations/coco_reader.py: {}; --tasks {} (in Python {}) converts them",
    "convert set new",
    Way("--tasks", then=Way("--replace", 4)),
)
def captions_beside_instances(box: Box) -> None:
    coco(box, "set/annotations/instances_train2017.json", "set/train2017")
    captions = [{"id": i, "image_id": i, "caption": f"a cat {i}"} for i in range(4)]
    coco(box, "set/annotations/captions_train2017.json", "set/train2017", annotations=captions)


def panoptic(box: Box, *, things: int | None = 1, stuff: int = 0, pngs: str = "panoptic_train2017") -> None:
    things_ = {} if things is None else {"isthing": things}
    categories = [
        {"id": 1, "name": "cat", **things_},
        {"id": 2, "name": "sky", **({} if things is None else {"isthing": stuff})},
    ]
    annotations = [
        {
            "image_id": i,
            "file_name": f"{i}.png",
            "segments_info": [
                {"id": 1, "category_id": 1, "bbox": [0, 0, 20, 32], "area": 640, "iscrowd": 0},
                {"id": 2, "category_id": 2, "bbox": [20, 0, 20, 32], "area": 640, "iscrowd": 0},
            ],
        }
        for i in range(3)
    ]
    coco(
        box,
        "set/annotations/panoptic_train2017.json",
        "set/train2017",
        images=3,
        annotations=annotations,
        categories=categories,
    )
    for i in range(3):
        box.colours(f"set/annotations/{pngs}/{i}.png", ((1, 0, 0), (2, 0, 0)))


@advises(
    "converters/sources/annotations/coco_panoptic.py: correct it, or convert the pixels: --tasks",
    "convert set out",
    Way("--tasks", 3),
)
def panoptic_categories_of_an_unknown_kind(box: Box) -> None:
    panoptic(box, things=None)


@advises(
    "converters/sources/annotations/coco_panoptic.py: convert only the rasters: --tasks rasters",
    "convert set out --tasks boxes",
    Way("--tasks", 3),
)
def panoptic_categories_without_things(box: Box) -> None:
    panoptic(box, things=0)


@advises(
    "converters/sources/annotations/coco_panoptic.py: put them into a folder {} next to the file,",
    "convert set out",
    Way("--tasks", 3, images=3),
)
def panoptic_without_pngs(box: Box) -> None:
    panoptic(box, pngs="elsewhere")


def yolo(box: Box, yaml: str = "", *, line: str = "1 0.5 0.5 0.4 0.4", images: str = "set/images") -> None:
    for i in range(4):
        box.image(f"{images}/train/{i}.jpg")
        box.write(f"{images.replace('images', 'labels')}/train/{i}.txt", line.replace("N", str(i % 2)) + "\n")
    if yaml:
        box.write("set/data.yaml", yaml)
    box.write("names.txt", "cat\ndog\n")
    box.write("name.txt", "cat\nbird\n")


NAMES = {"FILE": "names.txt"}


@advises(
    "converters/sources/annotations/yolo_dataset.py: a data.yaml with names, or --class-names FILE",
    "convert set out",
    Way("--class-names", 4, fill=NAMES),
)
@advises(
    "converters/sources/annotations/yolo_reader.py: add a data.yaml with names: [...], or give",
    "convert set out --reader yolo",
    Way("--class-names", 4, fill=NAMES),
)
def yolo_without_names(box: Box) -> None:
    yolo(box)


@advises(
    "converters/sources/annotations/yolo_dataset.py: leave --class-names out",
    "convert set out --class-names name.txt",
    Way(drop="--class-names", gives=4),
)
def yolo_with_other_names(box: Box) -> None:
    yolo(box, "names: [cat, dog]\ntrain: images/train\n")


@advises(
    "converters/sources/annotations/yolo_dataset.py: give the folder of the images and their",
    "convert near/data.yaml out",
    Way("--images", 4, fill={"DIR": "set"}),
)
def yolo_images_elsewhere(box: Box) -> None:
    yolo(box)
    box.write("near/data.yaml", "names: [cat, dog]\ntrain: images/train\n")


@advises(
    "converters/sources/annotations/yolo_dataset.py: correct it, remove the line, or give the",
    "convert near out",
    Way("--images", 6, fill={"DIR": "set"}),
)
def yolo_validation_elsewhere(box: Box) -> None:
    yolo(box)
    yolo(box, images="near/images")
    for i in range(5, 7):
        box.image(f"set/images/val/{i}.jpg")
        box.write(f"set/labels/val/{i}.txt", "1 0.5 0.5 0.4 0.4\n")
    box.write("near/data.yaml", "names: [cat, dog]\ntrain: images/train\nval: images/val\n")


@advises(
    "converters/sources/annotations/yolo_lines.py: --tasks {}",
    "convert set out",
    Way("--tasks", 4),
    Way("--tasks", 4, fill={"--tasks": "boxes,masks"}),
    Way("--tasks", 4, fill={"--tasks": "rotated"}),
)
def yolo_lines_of_two_meanings(box: Box) -> None:
    yolo(box, "names: [cat, dog]\ntrain: images/train\n", line="N 0.1 0.1 0.4 0.1 0.4 0.4 0.1 0.4")


def voc(box: Box, xmls: str, images: str, start: int = 1) -> None:
    for i in range(3):
        if images:
            box.image(f"{images}/{i}.jpg")
        points = f"<xmin>{start}</xmin><ymin>2</ymin><xmax>40</xmax><ymax>32</ymax>"
        box.write(
            f"{xmls}/{i}.xml",
            f"<annotation><filename>{i}.jpg</filename><size><width>40</width><height>32</height><depth>3</depth></size>"
            f"<object><name>cat</name><bndbox>{points}</bndbox></object></annotation>",
        )


@advises(
    "converters/sources/annotations/voc_reader.py: no image of the same name next to it; --images DIR",
    "convert xmls out",
    Way("--images", 3, fill=IMAGES),
)
def voc_without_images_beside(box: Box) -> None:
    voc(box, "xmls", "photos")


@advises(
    "converters/sources/annotations/voc_reader.py: no folder JPEGImages or images next to it; --images DIR",
    "convert set out",
    Way("--images", 3, fill=IMAGES),
)
def voc_without_a_folder_of_images(box: Box) -> None:
    box.write("set/ImageSets/Main/train.txt", "0\n1\n2\n")
    voc(box, "set/Annotations", "photos")


@advises(
    "converters/sources/annotations/voc_reader.py: {}; if pixels count from 1, as in the devkit, give",
    "convert set new",
    Way("--voc-origin", 3, onto="convert set new --replace"),
)
def voc_that_may_count_from_1(box: Box) -> None:
    voc(box, "set/Annotations", "set/JPEGImages")


@advises(
    "converters/sources/annotations/voc_reader.py: --voc-origin 1 (in Python voc_origin=1) was given, but",
    "convert set new --voc-origin 1",
    Way(drop="--voc-origin", gives=3, onto="convert set new --voc-origin 1 --replace"),
)
def voc_that_counts_from_0(box: Box) -> None:
    voc(box, "set/Annotations", "set/JPEGImages", start=0)


@advises(
    "converters/sources/annotations/boxes_csv.py: give --class-names FILE, one name per line",
    "convert set/train.txt out",
    Way("--class-names", 4, fill=NAMES),
)
def lines_of_boxes_with_numbers(box: Box) -> None:
    for i in range(4):
        box.image(f"set/{i}.jpg")
    box.write("set/train.txt", "".join(f"{i}.jpg 2,3,12,15,{i % 2} 5,6,20,20,1\n" for i in range(4)))
    box.write("names.txt", "cat\ndog\n")


def imagefolder(box: Box, rows: list[dict[str, Any]]) -> None:
    for i in range(len(rows)):
        box.image(f"hf/{i}.jpg")
    box.write(
        "hf/metadata.jsonl", "".join(json.dumps({"file_name": f"{i}.jpg"} | row) + "\n" for i, row in enumerate(rows))
    )


@advises(
    "converters/sources/annotations/imagefolder.py: give {} as SOURCE with --reader labels",
    "convert hf out",
    Way("SOURCE --reader --label-column", 4),
)
@advises(
    "converters/sources/annotations/imagefolder.py: {} and --label-column {}",
    "convert hf out",
    Way("SOURCE --reader --label-column", 4),
)
def imagefolder_with_two_labels(box: Box) -> None:
    imagefolder(box, [{"label": "ab"[i % 2], "target": "xy"[i // 2]} for i in range(4)])


@advises(
    "converters/sources/annotations/imagefolder.py: give --tasks {} to leave it out",
    "convert hf out",
    Way("--tasks", 4),
    Way("SOURCE --reader", 4),
)
def imagefolder_with_numbers(box: Box) -> None:
    imagefolder(box, [{"label": i + 0.5, "text": f"a cat {i}"} for i in range(4)])


@advises(
    "converters/sources/annotations/tool_shapes.py: --label-column {}",
    "convert min.json out --images photos",
    Way("--label-column", 4),
    Way("--label-column", 4, fill={"--label-column": "ward"}),
)
def an_export_with_two_questions(box: Box) -> None:
    for i in range(4):
        box.image(f"photos/{i}.jpg")
    box.write(
        "min.json",
        json.dumps(
            [
                {
                    "image": f"/data/upload/{i}.jpg",
                    "id": i,
                    "ward": "NS"[i % 2],
                    "choice": ["cat", "dog"][i // 2],
                    "annotator": 1,
                    "annotation_id": i,
                }
                for i in range(4)
            ]
        ),
    )


@advises(
    "converters/sources/annotations/split_lists.py: splits from {}; --reader folder on `images`",
    "convert set new",
    Way("--reader", 4, onto="convert set/images other", out="other"),
)
def food_101(box: Box) -> None:
    for label in ("cake", "soup"):
        box.images(*(f"set/images/{label}/{i}.jpg" for i in range(2)))
    box.write("set/meta/train.txt", "cake/0\nsoup/0\n")
    box.write("set/meta/test.txt", "cake/1\nsoup/1\n")


def four_images(box: Box, **files: str) -> None:
    box.images("set/images/cake/1.jpg", "set/images/cake/2.jpg", "set/images/soup/3.jpg", "set/images/soup/4.jpg")
    for name, text in files.items():
        box.write(name.replace("__", "."), text)


@advises(
    "converters/sources/rows/label_file.py: give --delimiter ' ' --no-header, and the column of the class",
    "convert set/images out --labels trainval.txt",
    Way("--delimiter --no-header --label-column", 4),
)
def numbers_after_names(box: Box) -> None:
    four_images(box, trainval__txt="1 0 1 1\n2 0 1 2\n3 1 2 1\n4 1 2 2\n")


BOTH = {"train": 2, "test": 2}


@advises(
    "converters/sources/splits/likely_lists.py: --split-list {}",
    "convert set/images out",
    Way("--split-list", BOTH, onto="convert set/images other", out="other"),
)
def a_table_of_splits_beside_images(box: Box) -> None:
    four_images(box)
    box.write("set/images/my_split.csv", "image,split\n1,train\n2,test\n3.jpg,train\n4.jpg,test\n")


@advises(
    "converters/sources/splits/row_splits.py: give --split-list {}={} if all its images are in",
    "convert set/images out --split-list a_train.csv",
    Way("--split-list", {"train": 4}, drop="--split-list"),
)
def a_list_without_a_name(box: Box) -> None:
    four_images(box, a_train__csv="image,colour\n1,red\n2,blue\n3,red\n4,blue\n")


@advises(
    "converters/sources/splits/split_list.py: --split-list {}={}",
    "convert set/images out --split-list test=t.txt",
    Way("--split-list", {"train": 3, "test": 1}),
)
def a_list_of_the_tests_alone(box: Box) -> None:
    four_images(box, t__txt="2\n")


@advises(
    "converters/sources/splits/split_list.py: give --split-list {} to read all of them",
    "convert set/images out --split-list val=s.json",
    Way("--split-list", BOTH, drop="--split-list"),
)
def a_file_of_other_splits(box: Box) -> None:
    four_images(box, s__json=json.dumps({"train": ["1", "3"], "test": ["2", "4"]}))


@advises(
    "converters/sources/splits/split_list.py: give --split-list {}, without a name",
    "convert set/images out --split-list train=s.csv",
    Way("--split-list", BOTH, drop="--split-list"),
)
def a_table_of_splits_with_a_name(box: Box) -> None:
    four_images(box, s__csv="image,split\n1,train\n2,test\n3,train\n4,test\n")


@advises(
    "converters/sources/splits/split_list.py: give {} to add them to train, {} for a split of",
    "convert set out",
    Way("--split-list", {"train": 24, "test": 2}),
    Way("--split", {"train": 22, "validation": 2, "test": 2}),
)
def a_file_without_a_split_beside_others(box: Box) -> None:
    (box.root / "set").mkdir()
    for name, count in (("train", 4), ("test", 2), ("data", 20)):
        np.savez(box.root / f"set/{name}.npz", x=np.zeros((count, 8, 8, 3), np.uint8), y=np.arange(count) % 2)


def masks(box: Box, *values: int, count: int = 3) -> None:
    for i in range(count):
        box.image(f"set/images/{i}.png")
        box.mask(f"set/masks/{i}.png", values)


@advises(
    "converters/sources/annotations/masks_meaning.py: or give --unlabelled, with --exclude PATTERN",
    "convert set out",
    Way("--unlabelled --exclude", 3, fill={"PATTERN": "masks"}),
)
def masks_that_cannot_be_read(box: Box) -> None:
    masks(box, 0, 1)
    for i in range(3):
        box.colours(f"set/masks/{i}.png", ((1, 0, 0, 0), (2, 0, 0, 255)))


@advises(
    "converters/sources/annotations/masks_meaning.py: list them in a table with the header",
    "convert set out",
    Way("--colours", 3, fill={"FILE": "colours.csv"}),
)
def masks_of_colours(box: Box) -> None:
    masks(box, 0)
    for i in range(3):
        box.colours(f"set/masks/{i}.png", ((128, 0, 0), (0, 64, 0)))
    box.write("colours.csv", "name,r,g,b\ncat,128,0,0\nsky,0,64,0\n")


@advises(
    "converters/sources/annotations/masks_meaning.py: save masks without loss and with one colour",
    "convert set out",
    Way("--unlabelled --exclude", 3, fill={"PATTERN": "masks"}),
)
def masks_like_photos(box: Box) -> None:
    masks(box, 0)
    for i in range(3):
        box.image(f"set/masks/{i}.png", seed=5)


@advises(
    "converters/sources/annotations/masks_meaning.py: say which: --void none or --void {}",
    "convert set out --class-names names.txt",
    Way("--void", 3),
    Way("--void", 3, fill={"--void": "255"}),
)
def masks_that_are_empty(box: Box) -> None:
    masks(box, 0)
    box.write("names.txt", "no\nyes\n")


@advises(
    "converters/sources/annotations/masks_meaning.py: a table with the header name,value: --colours",
    "convert set out",
    Way("--colours", 3, fill={"FILE": "values.csv"}),
)
def masks_of_grey_levels(box: Box) -> None:
    masks(box, 0, 127, 255)
    box.write("values.csv", "name,value\nsky,0\ncat,127\ndog,255\n")


@advises(
    "converters/sources/annotations/masks_meaning.py: name the classes of 0, 1, 2, ...{}, one per",
    "convert set out",
    Way("--class-names", 3, fill={"FILE": "three.txt"}),
)
def masks_without_names(box: Box) -> None:
    masks(box, 0, 1, 2)
    box.write("three.txt", "sky\ncat\ndog\n")


@advises(
    "converters/sources/annotations/masks_reader.py: leave one kind out: --exclude PATTERN",
    "convert set out",
    Way("--exclude", 3, fill={"PATTERN": "labels"}),
)
def images_with_two_masks(box: Box) -> None:
    masks(box, 0, 1)
    for i in range(3):
        box.mask(f"set/labels/{i}.png", (0, 1))


@advises(
    "converters/sources/annotations/masks_reader.py: 1.jpg 1_mask.png; --images DIR gives the",
    "convert only out --reader masks",
    Way("--images", 3, fill=IMAGES),
)
def masks_alone(box: Box) -> None:
    for i in range(3):
        box.image(f"photos/{i}.png")
        box.mask(f"only/masks/{i}.png", (0, 1))


@advises(
    "converters/sources/annotations/masks_reader.py: choose one: --colours FILE",
    "convert set out",
    Way("--colours", 4, fill={"FILE": "set/train/_classes.csv"}),
)
def masks_with_two_tables(box: Box) -> None:
    for split, names in (("train", "sky\n1, cat"), ("valid", "sky\n1, dog")):
        for i in range(2):
            box.image(f"set/{split}/{split}{i}.jpg")
            box.mask(f"set/{split}/{split}{i}_mask.png", (0, 1))
        box.write(f"set/{split}/_classes.csv", f"Pixel Value, Class\n0, {names}\n")


@advises(
    "converters/sources/annotations/masks_reader.py: move them, or leave them out with --exclude",
    "convert set out --reader masks",
    Way("--exclude", 4, fill={"PATTERN": "more"}, images=4),
)
def masks_in_no_split(box: Box) -> None:
    for place in ("train", "val", "more"):
        for i in range(2):
            box.image(f"set/images/{place}/{i}.png")
            box.mask(f"set/masks/{place}/{i}.png", (0, 1))


@advises(
    "converters/sources/export_format.py: use another format, or leave them out: --drop {}",
    "export scenes out --to yolo",
    Way("--drop"),
)
@advises(
    "converters/sources/annotations/yolo_writer.py: {}; `shardfeed split` makes one",
    "export scenes out --to yolo --drop all",
    Way("shardfeed split", 4, fill={"shardfeed split": "shardfeed split scenes new --split train=0.5,validation=0.5"}),
)
@advises(
    "converters/existing/export_dataset.py: `shardfeed reshard DATASET OUT --to {}` writes these",
    "export scenes out --to parquet",
    Way("shardfeed reshard", 4, fill={"DATASET": "scenes", "OUT": "new"}),
)
@advises(
    "converters/existing/filter.py: give --where, --keys or --min-objects for images with objects",
    "filter scenes new",
    Way("--min-objects", 4, fill={"--min-objects": "1"}),
)
def a_dataset_with_boxes(box: Box) -> None:
    outlined = {"bbox": [2, 3, 10, 12], "area": 60, "iscrowd": 0}  # an area that is not the box's, which YOLO loses
    annotations = [{"id": i, "image_id": i, "category_id": 1 + i % 2, **outlined} for i in range(4)]
    coco(box, "set/instances.json", "photos", annotations=annotations)
    assert box.type("convert set/instances.json scenes --images photos") == 0


@advises(
    "converters/sources/rows/roles.py: join the two as one column objects, of bbox and label; --columns",
    "convert in/boxes.parquet out",
    Way("--columns", 2),
)
def classes_beside_boxes(box: Box) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = []
    for name in "ab":
        box.image(f"{name}.jpg")
        data = (box.root / f"{name}.jpg").read_bytes()
        rows.append({"image": data, "bboxes": [[6, 4, 30, 20], [1, 2, 3, 4]], "labels": [0, 1]})
    (box.root / "in").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), box.root / "in/boxes.parquet")


@advises(
    "converters/sources/annotations/yolo_reader.py: , or give the folder of the images: --images DIR",
    "convert export out",
    Way("--images", 2, fill=IMAGES),
)
def labels_of_yolo_without_images(box: Box) -> None:
    box.write("export/data.yaml", "names:\n  0: cat\npath: .\ntrain: train.txt\n")
    box.write("export/train.txt", "images/train/a.jpg\nimages/train/b.jpg\n")
    for name in "ab":
        box.image(f"photos/{name}.jpg")
        box.write(f"export/labels/train/{name}.txt", "0 0.35 0.35 0.5 0.5\n")

"""Boxes in COCO, YOLO and VOC."""

import shutil

from tests.layouts.documents import A, B, coco, voc, yolo
from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

from repository import ROOT

TOPIC = Topic("COCO, YOLO, VOC")
ONE_SPLIT = Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B})
TWO_SPLITS = Gives(
    "train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}, where={"b.jpg": "validation"}
)
THREE_SPLITS = Gives(
    "train 1, validation 1, test 1",
    of="cat dog",
    objects=3,
    boxes={"a.jpg": A, "b.jpg": B, "c.jpg": ""},
    where={"b.jpg": "validation", "c.jpg": "test"},
)


@TOPIC.layout("COCO: `annotations/instances_train2017.json`, `train2017/`, and so on", "convert coco out", TWO_SPLITS)
def coco_2017(to: Files) -> None:
    to.images("coco/train2017/a.jpg", "coco/val2017/b.jpg")
    to.put("coco/annotations/instances_train2017.json", coco("a"))
    to.put("coco/annotations/instances_val2017.json", coco("b"))


@TOPIC.layout("one COCO file and a folder of images", "convert instances.json out --images photos", ONE_SPLIT)
def coco_file(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("instances.json", coco())


@TOPIC.layout(
    "COCO's lists without boxes, as iNaturalist's `train2018.json`: classes of images",
    "convert inat/train2018.json out",
    Gives("train 2", ("cat", "dog"), {"a.jpg": "dog", "b.jpg": "cat"}),
)
def coco_inaturalist(to: Files) -> None:
    to.images("inat/train_val2018/Aves/1/{a,b}.jpg")
    document = coco(prefix="train_val2018/Aves/1/")
    document["annotations"] = [{"id": n, "image_id": n + 1, "category_id": 3 - 2 * n} for n in (0, 1)]
    to.put("inat/train2018.json", document)


@TOPIC.layout("COCO, with image ids as text: VIA's export", "convert via.json out --images photos", ONE_SPLIT)
def coco_text_ids(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    document = coco()
    for one in document["annotations"]:
        one["image_id"] = str(one["image_id"])
    to.put("via.json", document)


@TOPIC.layout("a COCO file beside its images", "convert photos out", ONE_SPLIT)
def coco_beside_images(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/annotations.json", coco())


@TOPIC.layout("CVAT's COCO: `annotations/instances_default.json`, `images/`", "convert cvat out", ONE_SPLIT)
def coco_cvat(to: Files) -> None:
    to.images("cvat/images/{a,b}.jpg")
    to.put("cvat/annotations/instances_default.json", coco())


@TOPIC.layout("Label Studio's COCO: `result.json`, `images/`", "convert export out", ONE_SPLIT)
def coco_label_studio(to: Files) -> None:
    to.images("export/images/{a,b}.jpg")
    to.put("export/result.json", coco(ids=(0, 1), prefix="images/", ignore=0, segmentation=[]))


@TOPIC.layout("FiftyOne's COCO: `data/`, `labels.json`", "convert export out", ONE_SPLIT)
def coco_fiftyone(to: Files) -> None:
    to.images("export/data/{a,b}.jpg")
    to.put("export/labels.json", coco(ids=(0, 1)))


@TOPIC.layout(
    "Roboflow's COCO: `train/_annotations.coco.json`",
    "convert roboflow out",
    Gives(
        "train 1, validation 1, test 1",
        of=("animals", "cat", "dog"),
        objects=3,
        boxes={"a.jpg": A, "b.jpg": B},
        where={"b.jpg": "validation"},
    ),
)
def coco_roboflow(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b"), ("test", "c")):
        to.images(f"roboflow/{split}/{name}.jpg")
        document = coco(name, ids=(1, 2))
        document["categories"].insert(0, {"id": 0, "name": "animals", "supercategory": "none"})
        to.put(f"roboflow/{split}/_annotations.coco.json", document)
    to.put("roboflow/README.roboflow.txt", "animals")


@TOPIC.layout(
    "a single COCO file: `annotations/instances_val2017.json`",
    "convert coco/annotations/instances_val2017.json out",
    Gives("validation 1", of="cat dog", objects=1, boxes={"b.jpg": B}),
)
def coco_one_file(to: Files) -> None:
    coco_2017(to)
    to.images("coco/annotations/panoptic_val2017/b.png")


@TOPIC.layout(
    "COCO masks: polygons and run lengths",
    "convert coco out --tasks boxes,masks",
    Gives("train 1", of="cat dog", objects=2, boxes={"a.jpg": A}, masks={"a.jpg": [36 * 25, 20 * 40]}),
)
def coco_masks(to: Files) -> None:
    to.images("coco/train2017/a.jpg")
    document = coco("a")
    document["annotations"][0]["segmentation"] = [[4, 5, 40, 5, 40, 30, 4, 30]]
    document["annotations"][1]["segmentation"] = {"counts": [0, 800, 1600], "size": [40, 60]}
    to.put("coco/annotations/instances_train2017.json", document)


@TOPIC.layout(
    "COCO results (a list) instead of annotations", "convert results.json out --images photos", says="predictions"
)
def coco_results(to: Files) -> None:
    to.images("photos/a.jpg")
    to.put("results.json", [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.9}])


@TOPIC.layout(
    # Its splits are its own: images of COCO's train are in LVIS's validation.
    "LVIS: `lvis_v1_train.json`, and COCO's images, named by `coco_url`",
    "convert lvis_v1_train.json out --images coco",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def lvis(to: Files) -> None:
    to.images("coco/train2017/a.jpg", "coco/val2017/b.jpg")
    document = coco()
    for image, folder in zip(document["images"], ("train2017", "val2017"), strict=True):
        image["coco_url"] = f"http://images.cocodataset.org/{folder}/{image.pop('file_name')}"
    to.put("lvis_v1_train.json", document)


@TOPIC.layout("Objects365: `file_name` with folders (`images/v1/patch0/a.jpg`)", "convert o365 out", ONE_SPLIT)
def objects365(to: Files) -> None:
    to.images("o365/images/v1/patch0/{a,b}.jpg")
    to.put("o365/annotations/zhiyuan_objv2_train.json", coco(prefix="images/v1/patch0/"))


@TOPIC.layout("Ultralytics: `data.yaml`, `images/train`, `labels/train`", "convert shapes out", TWO_SPLITS)
def yolo_ultralytics(to: Files) -> None:
    to.put(
        "shapes/data.yaml", "path: ../datasets/shapes\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog"
    )
    yolo_files(to, "shapes/{kind}/{split}", train="a", val="b")


def yolo_files(to: Files, folder: str, **splits: str) -> None:
    for split, names in splits.items():
        for name in names.split():
            to.images(f"{folder.format(kind='images', split=split)}/{name}.jpg")
            to.put(f"{folder.format(kind='labels', split=split)}/{name}.txt", yolo(name))


@TOPIC.layout("Roboflow's YOLO: `data.yaml` with `../train/images`, `valid/`", "convert roboflow out", THREE_SPLITS)
def yolo_roboflow(to: Files) -> None:
    lists = "train: ../train/images\nval: ../valid/images\ntest: ../test/images"
    to.put("roboflow/data.yaml", f"{lists}\nnc: 2\nnames: ['cat', 'dog']")
    yolo_files(to, "roboflow/{split}/{kind}", train="a", valid="b", test="c")


@TOPIC.layout(
    "Roboflow's YOLO: `data.yaml` says `../valid/images`, the folder is `val`", "convert roboflow out", TWO_SPLITS
)
def yolo_roboflow_renamed(to: Files) -> None:
    to.put("roboflow/data.yaml", "train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['cat', 'dog']")
    yolo_files(to, "roboflow/{split}/{kind}", train="a", val="b")


@TOPIC.layout(
    "Roboflow's YOLO Darknet: `train/a.jpg`, `train/a.txt`, `_darknet.labels`", "convert roboflow out", TWO_SPLITS
)
def yolo_roboflow_darknet(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.put(f"roboflow/{split}/_darknet.labels", "cat\ndog")
        to.images(f"roboflow/{split}/{name}.jpg")
        to.put(f"roboflow/{split}/{name}.txt", yolo(name))


@TOPIC.layout(
    "Ultralytics' coco128: train and val are the same folder",
    "convert coco128 out",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def coco128(to: Files) -> None:
    to.put(
        "coco128/data.yaml",
        "path: ../datasets/coco128\ntrain: images/train2017\nval: images/train2017\ntest:\nnames:\n  0: cat\n  1: dog",
    )
    yolo_files(to, "coco128/{kind}/{split}", train2017="a b")


@TOPIC.layout("coco128 as downloaded: no `data.yaml`", "convert coco128 out --class-names names.txt", ONE_SPLIT)
def coco128_bare(to: Files) -> None:
    yolo_files(to, "coco128/{kind}/{split}", train2017="a b")
    to.put("names.txt", "cat\ndog")


@TOPIC.layout(
    "only `images/` and `labels/`, without class names",
    "convert mine out",
    ONE_SPLIT,
    says="--class-names",
    then="convert mine out --class-names names.txt",
)
def yolo_without_names(to: Files) -> None:
    to.images("mine/images/{a,b}.jpg")
    for name in "ab":
        to.put(f"mine/labels/{name}.txt", yolo(name))
    to.put("names.txt", "cat\ndog")


@TOPIC.layout("LabelImg's YOLO: `classes.txt`, `a.txt` beside `a.jpg`", "convert photos out", ONE_SPLIT)
def yolo_labelimg(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/classes.txt", "cat\ndog")
    for name in "ab":
        to.put(f"photos/{name}.txt", yolo(name))


@TOPIC.layout("Label Studio's YOLO: `classes.txt`, `notes.json`, `images/`, `labels/`", "convert export out", ONE_SPLIT)
def yolo_label_studio(to: Files) -> None:
    to.put("export/classes.txt", "cat\ndog")
    to.put("export/notes.json", {"categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}], "info": {}})
    to.images("export/images/{a,b}.jpg")
    for name in "ab":
        to.put(f"export/labels/{name}.txt", yolo(name))


@TOPIC.layout("CVAT's YOLO 1.1: `obj.data`, `obj.names`, `train.txt`, `obj_train_data/`", "convert cvat out", ONE_SPLIT)
def yolo_cvat(to: Files) -> None:
    to.put("cvat/obj.data", "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/")
    to.put("cvat/obj.names", "cat\ndog")
    to.put("cvat/train.txt", "data/obj_train_data/a.jpg\ndata/obj_train_data/b.jpg")
    to.images("cvat/obj_train_data/{a,b}.jpg")
    for name in "ab":
        to.put(f"cvat/obj_train_data/{name}.txt", yolo(name))


@TOPIC.layout(
    "Ultralytics' segment: outlines, `data.yaml`",
    "convert seg/data.yaml out --tasks boxes,masks",
    Gives("train 1", of="cat dog", objects=1, boxes={"a.jpg": "dog 6 4 36 24"}, masks={"a.jpg": [600]}),
)
def yolo_segment(to: Files) -> None:
    to.put(
        "seg/data.yaml",
        "path: .\ntrain: images/train\nval: images/train\nnames: [cat, dog]".replace("\nval: images/train", ""),
    )
    to.images("seg/images/train/a.jpg")
    to.put("seg/labels/train/a.txt", "1 0.1 0.1 0.6 0.1 0.6 0.35 0.6 0.6 0.1 0.6")


@TOPIC.layout(
    "Ultralytics' pose: `kpt_shape: [3, 3]`",
    "convert pose out",
    Gives(
        "train 1",
        of="person",
        objects=1,
        boxes={"a.jpg": "person 6 8 30 32"},
        points={"a.jpg": ((6, 8, 2), (30, 20, 1), (0, 0, 0))},
    ),
)
def yolo_pose(to: Files) -> None:
    to.put("pose/data.yaml", "path: .\ntrain: images/train\nkpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\nnames: [person]")
    to.images("pose/images/train/a.jpg")
    to.put("pose/labels/train/a.txt", "0 0.3 0.5 0.4 0.6 0.1 0.2 2 0.5 0.5 1 0 0 0")


@TOPIC.layout(
    "Ultralytics' OBB: eight numbers per object",
    "convert obb/data.yaml out --tasks boxes",
    Gives("train 1", of="plane ship", objects=1, boxes={"a.jpg": "ship 6 4 36 24"}),
)
def yolo_obb(to: Files) -> None:
    to.put("obb/data.yaml", "path: .\ntrain: images/train\nnames: [plane, ship]")
    to.images("obb/images/train/a.jpg")
    to.put("obb/labels/train/a.txt", "1 0.1 0.1 0.6 0.1 0.6 0.6 0.1 0.6")


@TOPIC.layout(
    "Ultralytics' OBB with `task: obb` in data.yaml",
    "convert obb/data.yaml out",
    Gives("train 1", of="plane ship", objects=1, boxes={"a.jpg": "ship 6 4 36 24"}),
)
def yolo_obb_stated(to: Files) -> None:
    yolo_obb(to)
    to.put("obb/data.yaml", "path: .\ntrain: images/train\nnames: [plane, ship]\ntask: obb")


@TOPIC.layout(
    "DOTA: `train/images`, `train/labelTxt`",
    "convert dota out",
    Gives("train 1", of="plane ship", objects=2, boxes={"a.png": "ship 6 4 36 24; plane 0 8 20 32"}),
)
def dota(to: Files) -> None:
    to.images("dota/train/images/a.png")
    lines = [
        "imagesource:GoogleEarth",
        "gsd:0.146",
        "6 14 21 4 36 14 21 24 ship 0",
        "-10.0 20.0 10 8 20 20 10 32 plane 1",
    ]
    to.put("dota/train/labelTxt/a.txt", "\n".join(lines))


@TOPIC.layout("Pascal VOC's devkit: `VOCdevkit/VOC2007`", "convert VOCdevkit/VOC2007 out --voc-origin 1", TWO_SPLITS)
def voc_2007(to: Files) -> None:
    to.images("VOCdevkit/VOC2007/JPEGImages/{a,b}.jpg")
    for name, split in (("a", "train"), ("b", "val")):
        flags = "<pose>Left</pose>"
        to.put(f"VOCdevkit/VOC2007/Annotations/{name}.xml", voc(name, origin=1, more=flags))
        to.put(f"VOCdevkit/VOC2007/ImageSets/Main/{split}.txt", name)
    to.put("VOCdevkit/VOC2007/ImageSets/Main/trainval.txt", "a\nb")


@TOPIC.layout(
    "VOC2012's boxes, without its masks",
    "convert VOCdevkit/VOC2012 out",
    Gives("train 1, validation 1", of="cat dog", objects=3, where={"2007_000033.jpg": "validation"}),
    says=("--reader", "voc", "masks"),
    then="convert VOCdevkit/VOC2012 out --reader voc",
)
def voc_2012(to: Files) -> None:
    _voc_2012(to)


def _voc_2012(to: Files) -> None:
    root = "VOCdevkit/VOC2012"
    for name, like, split in (("2007_000032", "a", "train"), ("2007_000033", "b", "val")):
        to.images(f"{root}/JPEGImages/{name}.jpg")
        to.put(f"{root}/Annotations/{name}.xml", voc(like, origin=1).replace(f"{like}.jpg", f"{name}.jpg"))
        to.put(f"{root}/ImageSets/Main/{split}.txt", name)
        to.put(f"{root}/ImageSets/Segmentation/{split}.txt", name)
        to.mask(f"{root}/SegmentationClass/{name}.png", {12: (4, 5, 40, 30), 255: (4, 5, 40, 6)}, palette=True)


@TOPIC.layout(
    "VOC2012's boxes, from the parent folder: `VOCdevkit`",
    "convert VOCdevkit out",
    Gives("train 1, validation 1", of="cat dog", objects=3, where={"2007_000033.jpg": "validation"}),
    says=("--reader", "voc", "masks"),
    then="convert VOCdevkit out --reader voc",
)
def voc_devkit(to: Files) -> None:
    _voc_2012(to)


@TOPIC.layout("LabelImg's VOC: `a.xml` beside `a.jpg`", "convert photos out", ONE_SPLIT)
def voc_labelimg(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    for name in "ab":
        to.put(f"photos/{name}.xml", voc(name, folder="photos"))


@TOPIC.layout("XML and images in two folders", "convert annotations out --images photos", ONE_SPLIT)
def voc_two_folders(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    for name in "ab":
        to.put(f"annotations/{name}.xml", voc(name, folder="photos"))


@TOPIC.layout(
    "Kaggle's Mask Detection: `annotations/` of XML, `images/` of PNG",
    "convert archive out",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.png": A, "b.png": B}),
)
def voc_kaggle(to: Files) -> None:
    to.images("archive/images/{a,b}.png")
    for name in "ab":
        to.put(f"archive/annotations/{name}.xml", voc(name, ".png", folder="images"))


@TOPIC.layout("Roboflow's VOC: `train/a.jpg`, `train/a.xml`, `valid/`", "convert roboflow out", TWO_SPLITS)
def voc_roboflow(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.images(f"roboflow/{split}/{name}.jpg")
        to.put(f"roboflow/{split}/{name}.xml", voc(name, folder=""))


@TOPIC.layout(
    "Oxford-IIIT Pet, boxes of heads: `images/`, `annotations/xmls/`, `annotations/trimaps/`, `annotations/list.txt`",
    "convert oxford-iiit-pet out",
    Gives("train 2", of="cat dog", objects=3, boxes={"Abyssinian_1.jpg": A, "beagle_1.jpg": B}),
    says=("voc", "masks"),
    then="convert oxford-iiit-pet out --reader voc",
)
def oxford_pets_heads(to: Files) -> None:
    oxford_pets(to)


def oxford_pets(to: Files) -> None:
    """The whole of it, of two images."""
    root = "oxford-iiit-pet"
    to.images(f"{root}/images/{{Abyssinian,beagle}}_1.jpg")
    for name, like in (("Abyssinian_1", "a"), ("beagle_1", "b")):
        to.put(f"{root}/annotations/xmls/{name}.xml", voc(like).replace(f"{like}.jpg", f"{name}.jpg"))
        to.mask(f"{root}/annotations/trimaps/{name}.png", {1: (4, 5, 40, 30), 2: (0, 0, 60, 5), 3: (4, 30, 40, 31)})
        to.put(f"{root}/annotations/trimaps/._{name}.png", b"\x00\x05\x16\x07")
    to.put(f"{root}/annotations/list.txt", "#Image CLASS-ID SPECIES BREED ID\nAbyssinian_1 1 1 1\nbeagle_1 2 2 1")
    to.put(f"{root}/annotations/trainval.txt", "Abyssinian_1 1 1 1")
    to.put(f"{root}/annotations/test.txt", "beagle_1 2 2 1")


@TOPIC.layout(
    "this project's scenes as YOLO (`data_samples/scenes/yolo`)",
    "convert yolo out",
    Gives("train 12, validation 4", of="circle square triangle", objects=32),
)
def scenes_yolo(to: Files) -> None:
    shutil.copytree(ROOT / "data_samples/scenes/yolo", to.root / "yolo")


@TOPIC.layout(
    "this project's scenes as VOC (`data_samples/scenes/voc`)",
    "convert voc out --reader voc",
    Gives("train 12, validation 4", of="circle square triangle", objects=32),
)
def scenes_voc(to: Files) -> None:
    shutil.copytree(ROOT / "data_samples/scenes/voc", to.root / "voc")


@TOPIC.layout(
    "this project's scenes as COCO: instances, captions and keypoints (`data_samples/scenes`)",
    "convert scenes/coco out --images scenes/images",
    Gives("train 16", of="circle square triangle", objects=33, boxes={"scene_001.jpg": "square 8 11 34 37"}),
)
def scenes_coco(to: Files) -> None:
    _scenes(to)


def _scenes(to: Files) -> None:
    shutil.copytree(ROOT / "data_samples/scenes", to.root / "scenes")


@TOPIC.layout(
    "this project's scenes, a single COCO file",
    "convert scenes/coco/instances.json out --images scenes/images",
    Gives("train 16", of="circle square triangle", objects=33, boxes={"scene_001.jpg": "square 8 11 34 37"}),
)
def scenes_instances(to: Files) -> None:
    _scenes(to)


@TOPIC.layout(
    "this project's scenes as a table of boxes",
    "convert scenes/boxes.csv out --images scenes/images",
    Gives("train 15", of="circle square triangle", objects=32, boxes={"scene_001.jpg": "square 8 11 34 37"}),
)
def scenes_table(to: Files) -> None:
    _scenes(to)


@TOPIC.layout(
    "this project's scenes as a table of tags",
    "convert scenes/images out --labels scenes/tags.csv --label-column tags --label-separator ' '",
    Gives("train 16", "circle square triangle", tags={"scene_001.jpg": "square", "scene_002.jpg": "circle"}),
)
def scenes_tags(to: Files) -> None:
    _scenes(to)


@TOPIC.layout(
    "CVAT's YOLO 1.1 of two subsets: `obj_train_data/`, `obj_valid_data/`",
    "convert cvat out",
    Gives(
        "train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}, where={"b.jpg": "validation"}
    ),
)
def yolo_cvat_subsets(to: Files) -> None:
    to.put("cvat/obj.data", "classes = 2\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names")
    to.put("cvat/obj.names", "cat\ndog")
    for split, name in (("train", "a"), ("valid", "b")):
        to.put(f"cvat/{split}.txt", f"data/obj_{split}_data/{name}.jpg")
        to.images(f"cvat/obj_{split}_data/{name}.jpg")
        to.put(f"cvat/obj_{split}_data/{name}.txt", yolo(name))


@TOPIC.layout(
    "Label Studio's Pascal VOC, with the images as they were before the upload",
    "convert export out --images photos",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def voc_label_studio(to: Files) -> None:
    to.images("export/images/{a,b}.jpg", "photos/{a,b}.jpg")
    for name in "ab":
        to.put(f"export/Annotations/{name}.xml", voc(name, folder="images"))


@TOPIC.layout(
    "the images of a YOLO dataset alone, without its labels", "convert yolo out --unlabelled", Gives("train 2")
)
def yolo_without_labels(to: Files) -> None:
    to.put("yolo/data.yaml", "train: images/train\nnames: [cat, dog]")
    to.images("yolo/images/train/{a,b}.jpg")
    for name in "ab":
        to.put(f"yolo/labels/train/{name}.txt", yolo(name))

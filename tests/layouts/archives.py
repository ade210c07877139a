"""Layouts inside archives, and photographs of other formats."""

from tests.layouts.detection import yolo_files
from tests.layouts.documents import A, B, coco, voc
from tests.layouts.files import Files, picture
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Archives")
ZIPPED = "archives of images in folders are not read"
CLASSES = Gives("train 6", "cat dog", {"cat/1.jpg": "cat", "dog/3.jpg": "dog"})
SPLITS = Gives("train 4, validation 2", "cat dog", {"train/cat/1.jpg": "cat"}, where={"val/dog/1.jpg": "validation"})
BOXES = Gives("train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B})


@TOPIC.layout("a zip of class folders", "convert photos.zip out", CLASSES)
def zip_of_classes(to: Files) -> None:
    to.images("packed/{cat,dog}/{1..3}.jpg")
    to.pack("photos.zip")


@TOPIC.layout("a zip of class folders in one folder, with `__MACOSX` beside it", "convert photos.zip out", CLASSES)
def zip_of_mac(to: Files) -> None:
    to.images("packed/photos/{cat,dog}/{1..3}.jpg")
    to.put("packed/__MACOSX/photos/cat/._1.jpg", b"\x00\x05\x16\x07")
    to.put("packed/photos/.DS_Store", b"\x00\x00\x00\x01Bud1")
    to.pack("photos.zip")


@TOPIC.layout(
    "`flower_photos.tgz`", "convert flower_photos.tgz out", Gives("train 4", "daisy roses", {"daisy/1.jpg": "daisy"})
)
def tgz_of_classes(to: Files) -> None:
    to.images("packed/flower_photos/{daisy,roses}/{1..2}.jpg")
    to.put("packed/flower_photos/LICENSE.txt", "CC-BY")
    to.pack("flower_photos.tgz")


@TOPIC.layout(
    "a tar.gz with class folders in `train` and `val` (`imagenette2.tgz`)", "convert imagenette2.tar.gz out", SPLITS
)
def tgz_of_splits(to: Files) -> None:
    to.images("packed/imagenette2/train/{cat,dog}/{1..2}.jpg", "packed/imagenette2/val/{cat,dog}/1.jpg")
    to.pack("imagenette2.tar.gz")


@TOPIC.layout("a zip with class folders in `train` and `val`", "convert archive.zip out", SPLITS)
def zip_of_splits(to: Files) -> None:
    to.images("packed/train/{cat,dog}/{1..2}.jpg", "packed/val/{cat,dog}/1.jpg")
    to.pack("archive.zip")


@TOPIC.layout("a zip of COCO: `annotations/`, `train2017/`, `val2017/`", "convert coco.zip out", BOXES)
def zip_of_coco(to: Files) -> None:
    to.images("packed/train2017/a.jpg", "packed/val2017/b.jpg")
    to.put("packed/annotations/instances_train2017.json", coco("a"))
    to.put("packed/annotations/instances_val2017.json", coco("b"))
    to.pack("coco.zip")


@TOPIC.layout("Roboflow's zip of COCO: `train/_annotations.coco.json`", "convert roboflow.zip out", BOXES)
def zip_of_roboflow_coco(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.images(f"packed/{split}/{name}.jpg")
        to.put(f"packed/{split}/_annotations.coco.json", coco(name))
    to.pack("roboflow.zip")


@TOPIC.layout("Roboflow's zip of YOLO: `data.yaml`, `train/images`", "convert roboflow.zip out", BOXES)
def zip_of_yolo(to: Files) -> None:
    to.put("packed/data.yaml", "train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['cat', 'dog']")
    yolo_files(to, "packed/{split}/{kind}", train="a", valid="b")
    to.pack("roboflow.zip")


@TOPIC.layout("a tgz of Ultralytics' YOLO (`coco8.tgz`)", "convert coco8.tgz out", BOXES)
def tgz_of_yolo(to: Files) -> None:
    to.put("packed/coco8/data.yaml", "path: coco8\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog")
    yolo_files(to, "packed/coco8/{kind}/{split}", train="a", val="b")
    to.pack("coco8.tgz")


@TOPIC.layout(
    "a zip of LabelImg's XML beside the images",
    "convert photos.zip out",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def zip_of_voc(to: Files) -> None:
    to.images("packed/{a,b}.jpg")
    for name in "ab":
        to.put(f"packed/{name}.xml", voc(name))
    to.pack("photos.zip")


@TOPIC.layout(
    "a zip of images, with a CSV of labels beside it",
    "convert train.zip out --labels labels.csv",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
)
def zip_and_labels(to: Files) -> None:
    to.images("packed/{a,b}.jpg")
    to.pack("train.zip")
    to.put("labels.csv", "id,label\na,dog\nb,cat")


@TOPIC.layout(
    "a folder with a zip for each split: `train.zip`, `val.zip`",
    "convert zips out",
    says=("train.zip", "put them into one"),
)
def zips_of_splits(to: Files) -> None:
    for split, names in (("train", "{1..2}"), ("val", "1")):
        to.images(f"packed/{split}/{{cat,dog}}/{names}.jpg")
        to.pack(f"zips/{split}.zip")


@TOPIC.layout("a 7z or rar archive", "convert photos.7z out", says="7z")
def seven_zip(to: Files) -> None:
    to.put("photos.7z", b"7z\xbc\xaf\x27\x1c\x00\x04" + b"\x00" * 24)


@TOPIC.layout(
    "HEIC photos from a phone (`pip install 'shardfeed[heic]'`)",
    "convert photos out --unlabelled",
    Gives("train 1"),
    needs="pillow_heif",
)
def heic(to: Files) -> None:
    import pillow_heif

    pillow_heif.from_bytes("RGB", (60, 40), bytes(60 * 40 * 3)).save(to.root / "IMG_0001.HEIC")
    to.put("photos/IMG_0001.HEIC", (to.root / "IMG_0001.HEIC").read_bytes())


@TOPIC.layout("a folder of DICOM files", "convert stage_2_train_images out --unlabelled", says="DICOM")
def dicom(to: Files) -> None:
    to.put("stage_2_train_images/p1.dcm", b"\x00" * 128 + b"DICM" + b"\x02\x00\x00\x00UL\x04\x00" + b"\x00" * 64)


@TOPIC.layout("a folder of videos", "convert clips out", says="video")
def videos(to: Files) -> None:
    to.put("clips/run/a.mp4", b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + b"\x00" * 64)


@TOPIC.layout(
    "WebP, TIFF and BMP in class folders", "convert photos out", Gives("train 3", "cat dog", {"cat/1.webp": "cat"})
)
def other_images(to: Files) -> None:
    to.images("photos/cat/2.tif", "photos/dog/1.bmp")
    to.put("photos/cat/1.webp", picture("w", "WEBP"))

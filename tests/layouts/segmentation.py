"""A class for each pixel, and masks of objects."""

import shutil

from tests.layouts.detection import oxford_pets
from tests.layouts.documents import coco
from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

from repository import ROOT

TOPIC = Topic("Masks")
ALL = 60 * 40
STREET = Gives(
    "train 1, validation 1",
    raster={"aachen_000000_000019_leftImg8bit.png": {"road": ALL - 700, "car": 600, "void": 100}},
)


@TOPIC.layout(
    "Cityscapes as downloaded: `leftImg8bit/`, `gtFine/` with `labelIds`, `color`, `instanceIds`",
    "convert cityscapes out",
    STREET,
)
def cityscapes(to: Files) -> None:
    for split, city in (("train", "aachen"), ("val", "lindau")):
        name = f"{city}_000000_000019"
        to.images(f"cityscapes/leftImg8bit/{split}/{city}/{name}_leftImg8bit.png")
        folder = f"cityscapes/gtFine/{split}/{city}/{name}_gtFine"
        to.put(f"{folder}_polygons.json", {"imgHeight": 40, "imgWidth": 60, "objects": []})
        to.mask(f"{folder}_labelIds.png", {7: (0, 0, 60, 40), 26: (0, 0, 30, 20), 0: (50, 30, 60, 40)})
        to.mask(f"{folder}_color.png", {(128, 64, 128): (0, 0, 60, 40), (0, 0, 142): (0, 0, 30, 20)})
        to.mask(f"{folder}_instanceIds.png", {7: (0, 0, 60, 40), 26000: (0, 0, 30, 20)}, dtype="uint16")


@TOPIC.layout("Cityscapes, with `labelTrainIds` added", "convert cityscapes out", STREET)
def cityscapes_train_ids(to: Files) -> None:
    cityscapes(to)
    for split, city in (("train", "aachen"), ("val", "lindau")):
        name = f"cityscapes/gtFine/{split}/{city}/{city}_000000_000019_gtFine_labelTrainIds.png"
        to.mask(name, {13: (0, 0, 30, 20), 255: (50, 30, 60, 40)})


@TOPIC.layout("Cityscapes with only `labelTrainIds`", "convert cityscapes out", STREET)
def cityscapes_train_ids_alone(to: Files) -> None:
    cityscapes_train_ids(to)
    for path in (to.root / "cityscapes/gtFine").rglob("*_gtFine_*"):
        if "labelTrainIds" not in path.name:
            path.unlink()


@TOPIC.layout(
    "SegNet's CamVid: `train/`, `trainannot/` with the numbers of 12 classes",
    "convert CamVid out --class-names names.txt",
    Gives("train 1, validation 1", raster={"train/a.png": {"sky": ALL - 600, "road": 600}}),
)
def camvid_segnet(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"CamVid/{split}/{name}.png")
        to.mask(f"CamVid/{split}annot/{name}.png", {3: (0, 0, 30, 20)})
    to.put("names.txt", "sky\nbuilding\npole\nroad")


@TOPIC.layout(
    "Kaggle's CamVid: `train/`, `train_labels/a_L.png` in colours, `class_dict.csv`",
    "convert CamVid out",
    Gives("train 1, validation 1", raster={"train/a.png": {"void": ALL - 600, "Road": 600}}),
)
def camvid(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"CamVid/{split}/{name}.png")
        to.mask(f"CamVid/{split}_labels/{name}_L.png", {(128, 64, 128): (0, 0, 30, 20)})
    to.put("CamVid/class_dict.csv", "name,r,g,b\nRoad,128,64,128\nSky,128,128,128\nVoid,0,0,0")


@TOPIC.layout(
    "colours named in a `labelmap.csv` beside the masks: `name,r,g,b`",
    "convert photos out",
    Gives("train 2", raster={"a.jpg": {"sky": ALL - 600, "road": 600}}),
)
def labelmap_csv(to: Files) -> None:
    to.images("photos/images/{a,b}.jpg")
    for name in "ab":
        to.mask(f"photos/masks/{name}.png", {(128, 64, 128): (0, 0, 30, 20)})
    to.put("photos/labelmap.csv", "name,r,g,b\nroad,128,64,128\nsky,0,0,0")


@TOPIC.layout(
    "CVAT's \"Segmentation mask 1.1\": VOC's folders and `labelmap.txt`",
    "convert cvat out",
    Gives("train 2", raster={"a.jpg": {"background": ALL - 600, "cat": 600}}),
)
def cvat_segmentation(to: Files) -> None:
    to.images("cvat/JPEGImages/{a,b}.jpg")
    for name in "ab":
        to.mask(f"cvat/SegmentationClass/{name}.png", {(61, 61, 245): (0, 0, 30, 20)})
        to.mask(f"cvat/SegmentationObject/{name}.png", {(128, 0, 0): (0, 0, 30, 20)})
    to.put("cvat/labelmap.txt", "# label:color_rgb:parts:actions\nbackground:0,0,0::\ncat:61,61,245::")
    to.put("cvat/ImageSets/Segmentation/default.txt", "a\nb")


@TOPIC.layout(
    "Pascal VOC's masks",
    "convert VOCdevkit/VOC2012 out --reader masks",
    Gives("train 1, validation 1", raster={"2007_000032.jpg": {"background": ALL - 600, "cat": 540, "void": 60}}),
)
def voc_masks(to: Files) -> None:
    root = "VOCdevkit/VOC2012"
    for split, name in (("train", "2007_000032"), ("val", "2007_000033")):
        to.images(f"{root}/JPEGImages/{name}.jpg")
        to.mask(f"{root}/SegmentationClass/{name}.png", {8: (0, 0, 30, 20), 255: (0, 0, 30, 2)}, palette=True)
        to.put(f"{root}/ImageSets/Segmentation/{split}.txt", name)


@TOPIC.layout(
    "ADE20K challenge: `ADEChallengeData2016`, `objectInfo150.txt`, 0 is void",
    "convert ADEChallengeData2016 out",
    Gives(
        "train 1, validation 1",
        raster={"ADE_train_00000001.jpg": {"wall": 600, "building, edifice": 200, "void": ALL - 800}},
    ),
)
def ade20k(to: Files) -> None:
    root = "ADEChallengeData2016"
    for split, name in (("training", "ADE_train_00000001"), ("validation", "ADE_val_00000001")):
        to.images(f"{root}/images/{split}/{name}.jpg")
        to.mask(f"{root}/annotations/{split}/{name}.png", {1: (0, 0, 30, 20), 2: (30, 0, 40, 20)})
    names = ["wall", "building, edifice", *(f"thing{number}" for number in range(3, 151))]
    rows = "".join(f"\n{number}\t0.1\t100\t10\t{name}" for number, name in enumerate(names, 1))
    to.put(f"{root}/objectInfo150.txt", f"Idx\tRatio\tTrain\tVal\tName{rows}")
    to.put(f"{root}/sceneCategories.txt", "ADE_train_00000001 airport_terminal\nADE_val_00000001 abbey")


@TOPIC.layout(
    "the trimaps of Oxford-IIIT Pet, with the values 1, 2 and 3",
    "convert oxford-iiit-pet/annotations/trimaps out --images oxford-iiit-pet/images",
    Gives("train 2", raster={"beagle_1.jpg": {"none": 1164, "pet": 900, "background": 300, "border": 36}}),
    says="--class-names",
    then="convert oxford-iiit-pet/annotations/trimaps out --images oxford-iiit-pet/images --class-names trimap.txt",
)
def oxford_pets_trimaps(to: Files) -> None:
    oxford_pets(to)
    to.put("trimap.txt", "none\npet\nbackground\nborder")


@TOPIC.layout(
    "the breeds of Oxford-IIIT Pet: `images/Abyssinian_1.jpg`",
    "convert oxford-iiit-pet/images out",
    Gives("train 2", "Abyssinian beagle", {"Abyssinian_1.jpg": "Abyssinian"}),
)
def oxford_pets_breeds(to: Files) -> None:
    oxford_pets(to)


@TOPIC.layout(
    "images and masks of 0 and 255, in two folders",
    "convert photos out",
    Gives("train 2", raster={"a.jpg": {"background": ALL - 600, "foreground": 600}}),
)
def binary_masks(to: Files) -> None:
    to.images("photos/images/{a,b}.jpg")
    for name in "ab":
        to.mask(f"photos/masks/{name}.png", {255: (0, 0, 30, 20)})


@TOPIC.layout(
    "Kaggle's Carvana: `train/`, `train_masks/a_mask.gif`",
    "convert carvana out",
    Gives("train 2", raster={"a.jpg": {"background": ALL - 600, "foreground": 600}}),
)
def carvana(to: Files) -> None:
    import io

    import numpy as np
    from PIL import Image

    to.images("carvana/train/{a,b}.jpg")
    for name in "ab":
        pixels = np.zeros((40, 60), np.uint8)
        pixels[:20, :30] = 1
        out = io.BytesIO()
        mask = Image.fromarray(pixels, "P")
        mask.putpalette([0, 0, 0, 255, 255, 255])
        mask.save(out, "GIF")
        to.put(f"carvana/train_masks/{name}_mask.gif", out.getvalue())


@TOPIC.layout(
    "Kaggle's TGS Salt: `train/images/`, `train/masks/`, 16 bits with 0 and 65535",
    "convert train out",
    Gives("train 2", raster={"a.png": {"background": ALL - 600, "foreground": 600}}),
)
def salt(to: Files) -> None:
    to.images("train/images/{a,b}.png")
    for name in "ab":
        to.mask(f"train/masks/{name}.png", {65535: (0, 0, 30, 20)}, dtype="uint16")


@TOPIC.layout(
    "images and masks with `train`, `val` in each, and class names",
    "convert photos out --class-names classes.txt",
    Gives("train 1, validation 1", raster={"a.jpg": {"ground": ALL - 600, "tree": 600}}),
)
def masks_by_split(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"photos/images/{split}/{name}.jpg")
        to.mask(f"photos/masks/{split}/{name}.png", {1: (0, 0, 30, 20)})
    to.put("classes.txt", "ground\ntree")


@TOPIC.layout(
    "the same, classes not named",
    "convert photos out",
    Gives("train 1, validation 1", raster={"a.jpg": {"ground": ALL - 600, "tree": 540, "sky": 60}}),
    says="--class-names",
    then="convert photos out --class-names classes.txt",
)
def masks_without_names(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"photos/images/{split}/{name}.jpg")
        to.mask(f"photos/masks/{split}/{name}.png", {1: (0, 0, 30, 20), 2: (0, 0, 30, 2)})
    to.put("classes.txt", "ground\ntree\nsky")


@TOPIC.layout("masks saved as JPEG", "convert photos out", says=("jpeg", "PNG"))
def jpeg_masks(to: Files) -> None:
    to.images("photos/images/{a,b}.jpg", "photos/masks/{a,b}.jpg")


@TOPIC.layout(
    "Roboflow's semantic segmentation: `train/a.jpg`, `train/a_mask.png`, `_classes.csv` with `Pixel Value, Class`",
    "convert roboflow out",
    Gives("train 1, validation 1", raster={"train/a.jpg": {"background": ALL - 600, "cat": 600}}),
)
def roboflow_masks(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.images(f"roboflow/{split}/{name}.jpg")
        to.mask(f"roboflow/{split}/{name}_mask.png", {1: (0, 0, 30, 20)})
        to.put(f"roboflow/{split}/_classes.csv", "Pixel Value, Class\n0, background\n1, cat")


@TOPIC.layout(
    "Kaggle's Airbus Ships: `ImageId,EncodedPixels`, one row per object",
    "convert train_ship_segmentations_v2.csv out --images train_v2 --tasks boxes,masks",
    Gives(
        "train 2", objects=2, masks={"a.jpg": [80, 10], "b.jpg": []}, boxes={"a.jpg": "0 0 2 40; 5 0 6 10", "b.jpg": ""}
    ),
)
def run_lengths(to: Files) -> None:
    to.images("train_v2/{a,b}.jpg")
    to.put("train_ship_segmentations_v2.csv", "ImageId,EncodedPixels\na.jpg,1 80\na.jpg,201 10\nb.jpg,")


@TOPIC.layout(
    "Kaggle's Severstal: `ImageId,ClassId,EncodedPixels`",
    "convert train.csv out --images train_images --tasks boxes,masks",
    Gives(
        "train 2",
        of={"1", "3"},
        objects=2,
        masks={"a.jpg": [80], "b.jpg": [10]},
        boxes={"a.jpg": "1 0 0 2 40", "b.jpg": "3 5 0 6 10"},
    ),
)
def severstal(to: Files) -> None:
    to.images("train_images/{a,b}.jpg")
    to.put("train.csv", "ImageId,ClassId,EncodedPixels\na.jpg,1,1 80\nb.jpg,3,201 10")


@TOPIC.layout(
    "COCO panoptic: `panoptic_val2017.json`, `panoptic_val2017/`",
    "convert coco out --tasks rasters",
    Gives("validation 1", raster={"b.jpg": {"cat": 600, "grass": ALL - 600}}),
)
def coco_panoptic(to: Files) -> None:
    to.images("coco/val2017/b.jpg")
    to.mask("coco/annotations/panoptic_val2017/b.png", {(10, 0, 0): (0, 0, 60, 40), (20, 1, 0): (0, 0, 30, 20)})
    document = coco("b")
    document["categories"] = [{"id": 1, "name": "cat", "isthing": 1}, {"id": 9, "name": "grass", "isthing": 0}]
    segments = [
        {"id": 10, "category_id": 9, "area": ALL - 600, "bbox": [0, 0, 60, 40], "iscrowd": 0},
        {"id": 276, "category_id": 1, "area": 600, "bbox": [0, 0, 30, 20], "iscrowd": 0},
    ]
    document["annotations"] = [{"image_id": 1, "file_name": "b.png", "segments_info": segments}]
    to.put("coco/annotations/panoptic_val2017.json", document)


@TOPIC.layout(
    "`images/`, and masks as PNG in `labels/`",
    "convert people out --class-names names.txt",
    Gives("train 2", raster={"a.jpg": {"nothing": ALL - 600, "shirt": 600}}),
)
def masks_in_labels(to: Files) -> None:
    to.images("people/images/{a,b}.jpg")
    for name in "ab":
        to.mask(f"people/labels/{name}.png", {1: (0, 0, 30, 20)})
    to.put("names.txt", "nothing\nshirt")


@TOPIC.layout(
    "DRIVE: `training/images/21_training.tif`, `training/1st_manual/21_manual1.png`, `training/mask/`",
    "convert DRIVE out",
    Gives("train 1", raster={"21_training.tif": {"background": ALL - 600, "foreground": 600}}),
)
def drive(to: Files) -> None:
    to.images("DRIVE/training/images/21_training.tif")
    to.mask("DRIVE/training/1st_manual/21_manual1.png", {255: (0, 0, 30, 20)})
    to.mask("DRIVE/training/mask/21_training_mask.png", {255: (0, 0, 50, 40)})


@TOPIC.layout(
    "HRF: `images/01_dr.JPG`, `manual1/01_dr.tif`, `mask/01_dr_mask.tif`",
    "convert HRF out",
    Gives("train 2", raster={"01_dr.jpg": {"background": ALL - 600, "foreground": 600}}),
)
def hrf(to: Files) -> None:
    to.images("HRF/images/{01_dr,02_h}.jpg")
    for name in ("01_dr", "02_h"):
        to.mask(f"HRF/manual1/{name}.png", {255: (0, 0, 30, 20)})
        to.mask(f"HRF/mask/{name}_mask.png", {255: (0, 0, 50, 40)})


@TOPIC.layout(
    "this project's scenes as masks (`data_samples/scenes`)",
    "convert masks out --images images --class-names masks.txt",
    Gives("train 16", raster={"scene_001.jpg": {"background": 7852, "square": 340}}),
)
def scenes_masks(to: Files) -> None:
    for name in ("masks", "images"):
        shutil.copytree(ROOT / "data_samples/scenes" / name, to.root / name)
    shutil.copy(ROOT / "data_samples/scenes/masks.txt", to.root)


@TOPIC.layout(
    "grey masks with other values than 0, 1, 2: a table of `name,value`",
    "convert cells out",
    Gives("train 2", raster={"a.png": {"background": 2000, "cell": 200, "nucleus": 200}}),
    says=("0, 127, 255", "name,value", "--colours"),
    then="convert cells out --colours values.csv",
)
def grey_masks(to: Files) -> None:
    to.images("cells/images/{a,b}.png")
    for name in "ab":
        to.mask(f"cells/masks/{name}.png", {127: (0, 0, 20, 10), 255: (20, 0, 40, 10)})
    to.put("values.csv", "name,value\nbackground,0\ncell,127\nnucleus,255")


@TOPIC.layout(
    "Kaggle's Data Science Bowl 2018 (masks are not read): `ID/images/ID.png`, `ID/masks/*.png`",
    "convert stage1_train out",
    Gives("train 2"),
    says=("a folder for each sample", "--unlabelled", "--exclude masks"),
    then="convert stage1_train out --unlabelled --exclude masks",
)
def data_science_bowl(to: Files) -> None:
    for sample in ("00ae65c1", "0a7d30b2"):
        to.images(f"stage1_train/{sample}/images/{sample}.png")
        for number in range(2):
            to.mask(f"stage1_train/{sample}/masks/{sample[:4]}{number}.png", {255: (9 * number, 0, 9 * number + 8, 9)})


@TOPIC.layout(
    "LabelMe's `labelme_json_to_dataset`: `a_json/img.png`, `label.png`, `label_viz.png`",
    "convert exported out",
    Gives("train 2"),
    says=("a folder for each sample", "img.png", "--unlabelled"),
    then="convert exported out --unlabelled --include img.png",
)
def labelme_json_to_dataset(to: Files) -> None:
    to.images("exported/{a,b}_json/{img,label_viz}.png")
    for name in "ab":
        to.mask(f"exported/{name}_json/label.png", {1: (0, 0, 20, 10)}, palette=True)
        to.put(f"exported/{name}_json/label_names.txt", "_background_\ncat")

"""Detection and segmentation datasets are recognised and refused; class folders of any name are not."""

import re
from pathlib import Path

import pytest

from shardfeed.converters import FileNames, ImageFolder, LabelOptions, Unlabelled, open_source
from shardfeed.errors import UsageError

from trees import plant


def numbered(*patterns: str, count: int = 4) -> list[str]:
    return [pattern.format(i) for pattern in patterns for i in range(count)]


LAYOUTS = {
    "coco": (["annotations/instances_train2017.json", *numbered("train2017/{:04}.jpg", "val2017/9{:03}.jpg")], "COCO"),
    "coco, one folder": (["annotations/all.json", "README.md", *numbered("images/{}.jpg")], "COCO"),
    "coco, splits": (["annotations/a.json", *numbered("images/train2017/{}.jpg", "images/val2017/{}.jpg")], "COCO"),
    "coco by roboflow": (["train/_annotations.coco.json", *numbered("train/{}.jpg", "valid/{}.jpg")], "COCO"),
    "yolo": (["data.yaml", *numbered("images/{}.jpg", "labels/{}.txt")], "YOLO"),
    "yolo, splits inside": (numbered("images/train/{}.jpg", "images/val/{}.jpg", "labels/train/{}.txt"), "YOLO"),
    "yolo by roboflow": (numbered("train/images/{}.jpg", "train/labels/{}.txt", "valid/images/{}.jpg"), "YOLO"),
    "yolo without labels": (["data.yaml", *numbered("train/images/{}.jpg", "valid/images/{}.jpg")], "YOLO"),
    "voc": (["ImageSets/Main/train.txt", *numbered("JPEGImages/{}.jpg", "Annotations/{}.xml")], "Pascal VOC dataset"),
    "voc with masks": (
        numbered("JPEGImages/{}.jpg", "Annotations/{}.xml", "SegmentationClass/{}.png", "SegmentationObject/{}.png"),
        "Pascal VOC dataset",
    ),
    "xml": (numbered("images/{}.png", "annotations/{}.xml"), "Pascal VOC's annotations"),
    "masks": (numbered("images/{}.jpg", "masks/{}.png"), "images and their masks"),
    "masks, splits": (numbered("train/images/{}.jpg", "train/masks/{}.png", "val/images/{}.jpg"), "their masks"),
    "masks, splits inside": (numbered("images/training/{}.jpg", "annotations/training/{}.png"), "their masks"),
    "masks with a suffix": (numbered("imgs/{}.jpg", "masks/{}_mask.png"), "their masks"),
    "masks of some": (["masks/1.png", "masks/0.png", *numbered("images/{}.jpg")], "their masks"),
    "carvana": (numbered("train/{}.jpg", "train_masks/{}_mask.gif"), "their masks"),
    "camvid": (numbered("train/{}.png", "trainannot/{}.png", "val/{}.png", "valannot/{}.png"), "their masks"),
    "cityscapes": (
        numbered("leftImg8bit/train/aachen/a_{}_leftImg8bit.png", "gtFine/train/aachen/a_{}_gtFine_labelIds.png"),
        "their masks",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_recognised(tmp_path: Path, name: str) -> None:
    keys, said = LAYOUTS[name]
    with pytest.raises(UsageError, match="looks like ") as caught:
        ImageFolder(plant(tmp_path, *keys))
    assert said in caught.value.problem
    assert caught.value.problem.endswith("): its folder names are not classes")
    assert "docs/your-own-source.md" in (caught.value.remedy or "")
    assert len(str(caught.value)) < 500


def test_the_sentence_names_what_was_seen(tmp_path: Path) -> None:
    plant(tmp_path, *LAYOUTS["masks"][0])
    with pytest.raises(UsageError) as caught:
        ImageFolder(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: looks like images and their masks (images and masks have files of the same names): "
        "its folder names are not classes; choose a reader with reader, "
        "write a source class (docs/your-own-source.md), unlabelled=True converts the images without labels, "
        "or list the folders in class_names=[...] to use them as classes"
    )


def test_classes_one_folder_deeper_are_pointed_at(tmp_path: Path) -> None:
    keys = numbered("images/cat/{}.jpg", "images/dog/{}.jpg", "segmentations/cat/{}.png", "segmentations/dog/{}.png")
    with pytest.raises(UsageError, match=r"; give images as the root if its folders \(cat, dog\) are classes, else"):
        ImageFolder(plant(tmp_path, *keys))
    assert ImageFolder(tmp_path / "images").schema.class_names["image/class/label"] == ("cat", "dog")


def test_a_list_in_a_folder_called_labels_makes_no_yolo_dataset(tmp_path: Path) -> None:
    plant(tmp_path, "labels/classes.txt", *numbered("images/cat/{}.jpg", "images/dog/{}.jpg"))
    with pytest.raises(UsageError, match=r"got one class folder, 'images', .*; give that folder as the root"):
        ImageFolder(tmp_path)


@pytest.mark.parametrize("name", ["masks", "coco", "voc", "yolo"])
def test_who_insists_gets_classes(tmp_path: Path, name: str) -> None:
    plant(tmp_path, *LAYOUTS[name][0])
    folders = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert len(ImageFolder(tmp_path, class_names=folders))


def test_a_pattern_insists_too(tmp_path: Path) -> None:
    source = FileNames(plant(tmp_path, *LAYOUTS["masks"][0]), pattern=r"(?P<label>\d).*")
    assert len(source) == 8


def test_what_was_left_out_is_not_looked_at(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, *LAYOUTS["coco"][0]), exclude="annotations")
    assert source.schema.class_names["image/class/label"] == ("train2017", "val2017")


NOT_CLASSES = {
    "a letter of each side": (numbered("A/{}.jpg", "B/{}.jpg"), "several images of each sample"),
    "sides in splits": (numbered("train/noisy/{}.png", "train/clean/{}.png", "test/noisy/{}.png"), "several images"),
    "sides with splits inside": (numbered("A/train/{}.jpg", "B/train/{}.jpg"), "several images"),
    "colours and depths": (numbered("rgb/{:05}.png", "depth/{:05}.png"), "several images"),
    "names that no one counts": (
        [f"{side}/{name}.jpg" for side in ("monet", "photo") for name in ("bay", "sea")],
        "a folder for each sample",
    ),
    "hashes": ([f"{side}/{name}.jpg" for side in ("x", "y") for name in ("3fa1", "be27c", "1ccd")], "several images"),
    "times": (numbered("cam0/140363657{}763555584.png", "cam1/140363657{}763555584.png"), "several images"),
    "masks of each sample": (
        [f"{id}/{kind}" for id in ("00ae65c1", "0a7d30b2") for kind in ("images/a.png", "masks/b.png", "masks/c.png")],
        "a folder for each sample",
    ),
    "views of each scene": (
        numbered("GOPR01/blur/{}.png", "GOPR01/sharp/{}.png", "GOPR02/blur/{}.png") + numbered("GOPR02/sharp/{}.png"),
        "a folder for each sample",
    ),
    "the same files in each folder": (
        [f"{id}_json/{name}.png" for id in "abc" for name in ("img", "label", "label_viz")],
        "a folder for each sample",
    ),
    "one image in each of many": ([f"logo {i}x/{i}.png" for i in range(20)], "each of 20 folders has one image"),
    "one image in each of eleven": ([f"person {i} x/face.png" for i in "abcdefghijk"], "a folder for each sample"),
    "one image in each of eleven, other names": ([f"{i}x/a{i}.png" for i in range(11)], "11 folders has one image"),
    "files named like their folders": (numbered("P00{0}/P00{0}.png"), "has one image with the folder's name"),
    "files that begin like their folders": (numbered("P00{0}/P00{0}_rgb.png"), "one image with the folder's name"),
    "a picture and its thumbnail": (numbered("full/{}.png", "thumbs/{}.png"), "several images"),
    "numbers named like their folders": (numbered("{0}/{0}.png"), "has one image with the folder's name"),
    "scales of a side": (numbered("hr/{}.png", "lr_x4/{}.png"), "several images"),
    "scales of a side, in one word": (numbered("GT_512/{}.png", "LQx2/{}.png"), "several images"),
    "versions of masks": (numbered("rgb_v1/{}.png", "gt_v2/{}.png"), "several images"),
    "one image in each with an id": ([f"{i}4c2a9f1e/{i}.png" for i in range(3)], "each of 3 folders has one image"),
    "shards": (numbered("00000/0000{}.png", "01000/0100{}.png"), "numbered shards of images"),
}


@pytest.mark.parametrize("name", NOT_CLASSES)
def test_folders_that_are_no_classes_are_refused_and_taken_if_listed(tmp_path: Path, name: str) -> None:
    keys, said = NOT_CLASSES[name]
    with pytest.raises(UsageError, match=said) as caught:
        ImageFolder(plant(tmp_path, *keys))
    assert "unlabelled=True" in (caught.value.remedy or "")
    assert len(Unlabelled(tmp_path)) == len(keys)
    splits = [path for path in tmp_path.iterdir() if path.name in ("train", "test")]
    folders = sorted({path.name for top in splits or [tmp_path] for path in top.iterdir()})
    assert len(ImageFolder(tmp_path, class_names=folders)) == len(keys)


CLASSES = {
    "numbers that start over, of a camera": numbered("cat/IMG_{:04}.jpg", "dog/IMG_{:04}.jpg"),
    "words of pairs with other numbers": numbered("left/{}.jpg", "right/1{}.jpg"),
    "three words of pairs": numbered("low/{}.jpg", "medium/{}.jpg", "high/{}.jpg"),
    "real and fake": numbered("REAL/{:04}.jpg", "FAKE/{:04}.jpg"),
    "positive and negative": numbered("positive/{:04}.jpg", "negative/{:04}.jpg"),
    "letters": numbered("A/{}.jpg", "B/{}.jpg", "C/{}.jpg"),
    "persons by number": numbered("0000045/{:03}.jpg", "0000099/{:03}.jpg"),
    "numbers that go on": numbered("0/{}.jpg", "1/10{}.jpg", "2/20{}.jpg"),
    "few images in each of many": [*numbered(*(f"person {i}/{{}}.jpg" for i in range(20)), count=5), "person 3/9.jpg"],
    "one image in each": ["cat/1.jpg", "dog/2.jpg", "cow/3.jpg"],
    "ten classes with one image each": [f"{name}/a{i}.jpg" for i, name in enumerate("abcdefghij")],
    "two classes with the picture of each": ["cat/cat.jpg", "dog/dog.jpg"],
    "numbers with one image each": [f"{i}/x{i}.jpg" for i in range(11)],
    "views of each class": numbered("cat/front/{}.jpg", "cat/back/{}.jpg", "dog/front/{}.jpg"),
    "plain": numbered("cat/{}.jpg", "dog/{}.jpg"),
    "a class called images": numbered("images/{}.jpg", *(f"class{i}/{{}}.jpg" for i in range(20))),
    "classes called images and masks among others": numbered("images/{}.jpg", "masks/{}.jpg", "gloves/{}.jpg"),
    "classes called mask and no_mask": numbered("mask/{}.jpg", "no_mask/{}.jpg"),
    "images and masks of other names": numbered("images/a{}.jpg", "masks/b{}.jpg"),
    "a class called annotations": [*numbered("annotations/{}.jpg", "images/{}x.jpg"), "annotations/list.json"],
    "annotations beside classes": ["annotations/list.json", *numbered("cat/{}.jpg", "dog/{}.jpg")],
    "labels beside classes": numbered("labels/{}.txt", "cat/{}.jpg", "images/{}.jpg"),
    "texts in class folders": numbered("images/{}.jpg", "images/{}.txt", "cat/{}.jpg"),
    "splits": numbered("train/cat/{}.jpg", "train/dog/{}.jpg", "val/cat/{}.jpg"),
    "splits with a class called images": numbered("train/images/{}.jpg", "train/labels/{}.jpg", "train/cat/{}.jpg"),
    "a yaml beside classes": ["data.yaml", *numbered("train/cat/{}.jpg", "train/dog/{}.jpg")],
    "digits": numbered(*(f"{digit}/{{}}.png" for digit in range(10))),
    "empty folders": numbered("cat/{}.jpg", "dog/{}.jpg"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_ordinary_classes_are_not_suspected(tmp_path: Path, name: str) -> None:
    plant(tmp_path, *CLASSES[name])
    if name == "empty folders":
        (tmp_path / "masks").mkdir()
        (tmp_path / "images").mkdir()
    assert len(ImageFolder(tmp_path)) == sum(key.endswith(("jpg", "png")) for key in CLASSES[name])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (numbered("trainA/{}.jpg", "trainB/1{}.jpg", "testA/2{}.jpg"), "its folders (testA, trainA, trainB)"),
        (numbered("hr/{}.png", "LR_x4/1{}.png"), "its folders (LR_x4, hr) may not be classes"),
        (numbered("X2/{}.png", "X4/1{}.png"), "its folders (X2, X4) may not be classes"),
        (numbered("imagesTr/{}.png", "labelsTr/1{}.png", "imagesTs/2{}.png"), "may not be classes"),
        (numbered("training_set/cat/{}.png", "training_set/dog/{}.png", "test_set/cat/1{}.png"), "give pattern="),
        (numbered("train_images/{}.png", "test_images/1{}.png"), "its folders (test_images, train_images) may not be"),
        (numbered("Split-train/{}.png", "Split-eval/1{}.png"), "give Split-eval or Split-train alone, unlabelled=True"),
        (numbered("trainset/{}.png", "dev/1{}.png"), "dev: got files and no class folders"),
        (numbered("flowersTrain/{}.png", "leavesTest/1{}.png"), "are named like splits"),
        (numbered("x_HR/{}.png", "x_LR_bicubic/X4/{}x4.png"), "its folders (x_HR, x_LR_bicubic)"),
        (numbered("images_001/{}.png", "images_002/1{}.png"), "its folders (images_001, images_002)"),
        (numbered("patient_01/{}.png", "patient_02/1{}.png"), "its folders (patient_01, patient_02)"),
        (numbered("2024-01-02/{}.png", "2024-01-03/1{}.png"), "its folders (2024-01-02, 2024-01-03)"),
        (numbered("00ae65c1ab/{}.png", "0a7d30b2cd/1{}.png"), "its folders (00ae65c1ab, 0a7d30b2cd)"),
        (numbered("bounding_box_train/{}.png", "query/1{}.png"), "its folders (bounding_box_train, query)"),
        (numbered("Images/{}.jpg"), "give Images as SOURCE"),
        (numbered("{}_left.jpg", "{}_right.jpg"), "left, right in file names are rarely classes"),
        (numbered("{:04}_input.png", "{:04}_target.png"), "input, target in file names are rarely classes"),
        (["DSC_1.jpg", "IMG_2.jpg"], "DSC, IMG in file names are rarely classes"),
    ],
)
def test_names_of_parts_and_groups_are_no_classes(tmp_path: Path, keys: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_source(plant(tmp_path, *keys))
    assert said in str(caught.value)


@pytest.mark.parametrize("tops", [("train", "holdout"), ("test", "trainval"), ("Train", "Dev", "TEST")])
def test_folders_of_less_usual_splits_beside_a_usual_one_are_splits(tmp_path: Path, tops: tuple[str, ...]) -> None:
    source = open_source(plant(tmp_path, *numbered(*(f"{top}/{name}/{{}}.png" for top in tops for name in "ab"))))
    assert source.schema.class_names["image/class/label"] == ("a", "b")
    assert {one.split for one in source} == {top.casefold() for top in tops}


@pytest.mark.parametrize("tops", [("fold_0", "fold_1"), ("2024-01-05", "2024-01-06"), ("original", "augmented")])
def test_classes_in_folders_that_are_none_are_read_by_the_pattern_of_the_remedy(
    tmp_path: Path, tops: tuple[str, str]
) -> None:
    plant(tmp_path, *(f"{top}/{name}/{top}-{i}.png" for top in tops for name in ("cat", "dog") for i in "12"))
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path)
    found = re.search(r"give pattern='([^']+)' if the folders in them are the classes", str(caught.value))
    assert found
    source = open_source(tmp_path, options=LabelOptions(pattern=found[1]))
    assert source.schema.class_names["image/class/label"] == ("cat", "dog")


def test_parts_of_samples_in_folders_that_are_no_classes_are_not_offered_as_classes(tmp_path: Path) -> None:
    plant(tmp_path, *(f"patient_{n}/{part}/{i}.png" for n in (1, 2, 3) for part in ("left", "right") for i in "12"))
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path)
    assert "pattern" not in str(caught.value)


def test_of_several_tables_of_labels_that_of_training_is_advised(tmp_path: Path) -> None:
    plant(tmp_path, *(f"images/{i}.png" for i in range(4)))
    for split, i in (("test", 0), ("train", 1)):
        (tmp_path / f"{split}.csv").write_text(f"path,label\nimages/{i}.png,cat\nimages/{i + 2}.png,dog\n")
    with pytest.raises(UsageError, match=r"labels='[^']*train\.csv'"):
        open_source(tmp_path)

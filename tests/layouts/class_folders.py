"""Folders whose names are classes."""

import shutil

from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

from repository import ROOT

TOPIC = Topic("Folders of images")
WRAPPED = "one folder around what counts is refused: give that folder as SOURCE"


@TOPIC.layout(
    "one folder per class", "convert photos out", Gives("train 6", "cat dog", {"cat/1.jpg": "cat", "dog/3.jpg": "dog"})
)
def class_folders(to: Files) -> None:
    to.images("photos/{cat,dog}/{1..3}.jpg")


@TOPIC.layout(
    "`train/` and `val/`, each with a folder for each class (ImageNet, Imagenette)",
    "convert imagenette2 out",
    Gives(
        "train 4, validation 2",
        "n01440764 n02102040",
        {"n01440764/ILSVRC2012_val_00000293.JPEG": "n01440764"},
        where={"n01440764/ILSVRC2012_val_00000293.JPEG": "validation"},
    ),
)
def imagenette(to: Files) -> None:
    to.images("imagenette2/train/n01440764/n01440764_{10,11}.JPEG", "imagenette2/train/n02102040/n02102040_{7,8}.JPEG")
    to.images("imagenette2/val/n01440764/ILSVRC2012_val_00000293.JPEG")
    to.images("imagenette2/val/n02102040/ILSVRC2012_val_00000665.JPEG")
    to.put("imagenette2/noisy_imagenette.csv", "path,noisy_labels_0\ntrain/n01440764/n01440764_10.JPEG,n02102040")


@TOPIC.layout(
    "class folders inside one more folder, such as `flower_photos/` or `PetImages/`",
    "convert downloads out",
    Gives("train 6", "daisy roses", {"daisy/1.jpg": "daisy", "roses/3.jpg": "roses"}),
)
def one_folder_around(to: Files) -> None:
    to.images("downloads/flower_photos/{daisy,roses}/{1..3}.jpg")
    to.put("downloads/flower_photos/LICENSE.txt", "CC-BY")


@TOPIC.layout(
    "`train/` and `val/` inside one more folder",
    "convert data out",
    Gives("train 4, validation 2", "ants bees", {"train/bees/2.jpg": "bees"}),
)
def hymenoptera_wrapped(to: Files) -> None:
    to.images("data/hymenoptera_data/train/{ants,bees}/{1..2}.jpg", "data/hymenoptera_data/val/{ants,bees}/3.jpg")


@TOPIC.layout(
    "PyTorch's `hymenoptera_data`", "convert hymenoptera_data out", Gives("train 4, validation 2", "ants bees")
)
def hymenoptera(to: Files) -> None:
    to.images("hymenoptera_data/train/{ants,bees}/{1..2}.jpg", "hymenoptera_data/val/{ants,bees}/3.jpg")


@TOPIC.layout(
    "TensorFlow's `flower_photos`",
    "convert flower_photos out",
    Gives("train 6", "daisy roses", {"daisy/1.jpg": "daisy"}),
)
def flower_photos(to: Files) -> None:
    to.images("flower_photos/{daisy,roses}/{1..3}.jpg")
    to.put("flower_photos/LICENSE.txt", "CC-BY")


@TOPIC.layout(
    "Microsoft's `PetImages`, which contains some files that are not images",
    "convert PetImages out",
    Gives("train 4", "Cat Dog", {"Cat/1.jpg": "Cat"}),
    says="--max-bad 1",
    then="convert PetImages out --max-bad 1",
    code=3,
)
def pet_images(to: Files) -> None:
    to.images("PetImages/{Cat,Dog}/{1..2}.jpg")
    to.put("PetImages/Cat/666.jpg", b"")
    to.put("PetImages/Cat/Thumbs.db", b"\xd0\xcf\x11\xe0")


@TOPIC.layout(
    "Keras' `cats_and_dogs_filtered`, with a script beside the splits",
    "convert cats_and_dogs_filtered out",
    Gives("train 4, validation 2", "cats dogs", {"cats/cat.1.jpg": "cats"}),
)
def cats_and_dogs_filtered(to: Files) -> None:
    to.images("cats_and_dogs_filtered/train/cats/cat.{1..2}.jpg", "cats_and_dogs_filtered/train/dogs/dog.{1..2}.jpg")
    to.images("cats_and_dogs_filtered/validation/cats/cat.3.jpg", "cats_and_dogs_filtered/validation/dogs/dog.3.jpg")
    to.put("cats_and_dogs_filtered/vectorize.py", "import os")


@TOPIC.layout(
    "Kaggle's Dogs vs. Cats: `train/cat.0.jpg`",
    "convert dogs-vs-cats out",
    Gives("train 4", "cat dog", {"cat.0.jpg": "cat", "dog.1.jpg": "dog"}),
    says="train",
    then="convert dogs-vs-cats/train out",
)
def dogs_vs_cats(to: Files) -> None:
    to.images("dogs-vs-cats/train/{cat,dog}.{0..1}.jpg", "dogs-vs-cats/test1/{1..2}.jpg")


@TOPIC.layout(
    "only `train` of Kaggle's Dogs vs. Cats",
    "convert train out",
    Gives("train 4", "cat dog", {"cat.0.jpg": "cat", "dog.1.jpg": "dog"}),
)
def dogs_vs_cats_train(to: Files) -> None:
    to.images("train/{cat,dog}.{0..1}.jpg")


@TOPIC.layout(
    "`test1` of Kaggle's Dogs vs. Cats: images without labels",
    "convert test1 out",
    Gives("train 3"),
    says="--unlabelled",
    then="convert test1 out --unlabelled",
)
def dogs_vs_cats_test(to: Files) -> None:
    to.images("test1/{1..3}.jpg")


@TOPIC.layout(
    "Kaggle's Chest X-Ray (Pneumonia): `train`, `val` and `test`",
    "convert chest_xray out",
    Gives("train 4, validation 2, test 2", "NORMAL PNEUMONIA", {"person1_bacteria_1.jpeg": "PNEUMONIA"}),
)
def chest_xray(to: Files) -> None:
    to.images("chest_xray/{train,val,test}/NORMAL/IM-0001.jpeg", "chest_xray/train/NORMAL/NORMAL2-IM-0002.jpeg")
    to.images("chest_xray/train/PNEUMONIA/person1_bacteria_{1,2}.jpeg")
    to.images("chest_xray/{val,test}/PNEUMONIA/person3_virus_9.jpeg")


@TOPIC.layout(
    "PlantVillage: class names with spaces, commas and brackets",
    "convert PlantVillage out",
    Gives(
        "train 4",
        ("Corn_(maize)___Common_rust_", "Pepper,_bell___healthy"),
        {"Pepper,_bell___healthy/0 a (1).JPG": "Pepper,_bell___healthy"},
    ),
)
def plant_village(to: Files) -> None:
    for name in ("Corn_(maize)___Common_rust_", "Pepper,_bell___healthy"):
        to.images(f"PlantVillage/{name}/0 a ({{1..2}}).JPG")


@TOPIC.layout(
    "GTSRB, training set: a folder of PPMs for each class, with boxes in `GT-00000.csv`",
    "convert GTSRB/Training out",
    Gives("train 4", "0 1", {"00001/00000_00001.ppm": "1"}),
)
def gtsrb(to: Files) -> None:
    from io import BytesIO

    from PIL import Image

    for label in range(2):
        rows = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
        for number in range(2):
            out = BytesIO()
            Image.new("RGB", (29, 30), (label * 90, number * 50, 7)).save(out, "PPM")
            to.put(f"GTSRB/Training/0000{label}/00000_0000{number}.ppm", out.getvalue())
            rows.append(f"00000_0000{number}.ppm;29;30;5;6;24;25;{label}")
        to.put(f"GTSRB/Training/0000{label}/GT-0000{label}.csv", "\n".join(rows))


@TOPIC.layout(
    "Caltech-101: `101_ObjectCategories`, with `Annotations.tar` unpacked beside it",
    "convert caltech-101 out",
    Gives("train 4", "accordion airplanes", {"accordion/image_0001.jpg": "accordion"}),
    says="101_ObjectCategories",
    then="convert caltech-101/101_ObjectCategories out",
)
def caltech_101(to: Files) -> None:
    to.images("caltech-101/101_ObjectCategories/{accordion,airplanes}/image_000{1..2}.jpg")
    for name in ("accordion", "airplanes"):
        to.put(f"caltech-101/Annotations/{name}/annotation_0001.mat", b"MATLAB 5.0 MAT-file")


@TOPIC.layout(
    "Caltech-256: `256_ObjectCategories`",
    "convert 256_ObjectCategories out",
    Gives("train 4", "001.ak47 002.american-flag", {"001_0001.jpg": "001.ak47"}),
)
def caltech_256(to: Files) -> None:
    to.images("256_ObjectCategories/001.ak47/001_000{1..2}.jpg")
    to.images("256_ObjectCategories/002.american-flag/002_000{1..2}.jpg")


@TOPIC.layout(
    "EuroSAT (RGB): `2750/` inside `EuroSAT/`",
    "convert EuroSAT out",
    Gives("train 4", "AnnualCrop Forest", {"Forest_1.jpg": "Forest"}),
)
def eurosat(to: Files) -> None:
    to.images("EuroSAT/2750/AnnualCrop/AnnualCrop_{1..2}.jpg", "EuroSAT/2750/Forest/Forest_{1..2}.jpg", size=(64, 64))


@TOPIC.layout(
    "SUN397: `a/abbey/`, `b/bedroom/` and so on, with `ClassName.txt`",
    "convert SUN397 out",
    Gives("train 5", {"abbey", "apse/indoor", "bedroom"}, {"abbey/sun_aaa.jpg": "abbey"}),
    says="--pattern",
    then="convert SUN397 out --pattern '[a-z]/(?P<label>.+)/[^/]+'",
)
def sun397(to: Files) -> None:
    to.images(
        "SUN397/a/abbey/sun_{aaa,aab}.jpg", "SUN397/a/apse/indoor/sun_{aac,aad}.jpg", "SUN397/b/bedroom/sun_aae.jpg"
    )
    to.put("SUN397/ClassName.txt", "/a/abbey\n/a/apse/indoor\n/b/bedroom")


@TOPIC.layout(
    "Omniglot: `images_background/ALPHABET/character01/`",
    "convert images_background out",
    Gives("train 8", {"Greek/character01", "Greek/character02", "Latin/character01", "Latin/character02"}),
    says="--pattern",
    then="convert images_background out --pattern '(?P<label>.+)/[^/]+'",
)
def omniglot(to: Files) -> None:
    to.images("images_background/{Greek,Latin}/character0{1..2}/0{1..2}.png", size=(105, 105))


@TOPIC.layout(
    "Tiny ImageNet: `train/n01443537/images/`, `val/val_annotations.txt`, `wnids.txt`",
    "convert tiny-imagenet-200 out",
    Gives("train 4", "n01443537 n01629819", {"n01443537_0.JPEG": "n01443537"}),
    says=("val_annotations.txt", "train"),
    then="convert tiny-imagenet-200/train out",
)
def tiny_imagenet(to: Files) -> None:
    for wnid in ("n01443537", "n01629819"):
        to.images(f"tiny-imagenet-200/train/{wnid}/images/{wnid}_{{0..1}}.JPEG", size=(64, 64))
        to.put(f"tiny-imagenet-200/train/{wnid}/{wnid}_boxes.txt", f"{wnid}_0.JPEG\t0\t10\t63\t58")
    to.images("tiny-imagenet-200/val/images/val_{0..1}.JPEG", "tiny-imagenet-200/test/images/test_0.JPEG")
    to.put(
        "tiny-imagenet-200/val/val_annotations.txt",
        "val_0.JPEG\tn01629819\t0\t32\t44\t62\nval_1.JPEG\tn01443537\t1\t3\t4\t6",
    )
    to.put("tiny-imagenet-200/wnids.txt", "n01629819\nn01443537")


@TOPIC.layout(
    "Tiny ImageNet, training set: `train/n01443537/images/`",
    "convert tiny-imagenet-200/train out",
    Gives("train 4", "n01443537 n01629819", {"n01443537_0.JPEG": "n01443537"}),
)
def tiny_imagenet_train(to: Files) -> None:
    for wnid in ("n01443537", "n01629819"):
        to.images(f"tiny-imagenet-200/train/{wnid}/images/{wnid}_{{0..1}}.JPEG", size=(64, 64))
        to.put(f"tiny-imagenet-200/train/{wnid}/{wnid}_boxes.txt", f"{wnid}_0.JPEG\t0\t10\t63\t58")


@TOPIC.layout(
    "a folder of symbolic links to images outside it",
    "convert subset out",
    Gives("train 2", "cat dog", {"cat/1.jpg": "cat"}),
    says="--follow-links",
    then="convert subset out --follow-links",
)
def links(to: Files) -> None:
    to.images("all/{1..2}.jpg")
    for name, number in (("cat", 1), ("dog", 2)):
        (to.root / "subset" / name).mkdir(parents=True)
        (to.root / "subset" / name / f"{number}.jpg").symlink_to(to.root / "all" / f"{number}.jpg")


@TOPIC.layout(
    "images in one folder, with the class in the name: `circle.002.jpg` (`data_samples/flat`)",
    "convert flat out",
    Gives("train 12", "circle square triangle", {"circle.002.jpg": "circle"}),
)
def flat(to: Files) -> None:
    shutil.copytree(ROOT / "data_samples/flat", to.root / "flat")


@TOPIC.layout(
    "this project's drawings (`data_samples/shapes`)",
    "convert shapes out",
    Gives("train 240", "circle square triangle", {"circle/circle_001.jpg": "circle"}),
)
def shapes(to: Files) -> None:
    shutil.copytree(ROOT / "data_samples/shapes", to.root / "shapes")


@TOPIC.layout(
    "UTKFace: `AGE_GENDER_RACE_TIME.jpg`",
    "convert UTKFace out",
    Gives("train 3", "0 1", {"26_1_2_20170116184024662.jpg.chip.jpg": "1"}),
    says="--pattern",
    then="convert UTKFace out --pattern '[0-9]+_(?P<label>[01])_.*'",
)
def utkface(to: Files) -> None:
    to.images("UTKFace/{26_1_2,30_0_0,8_1_4}_20170116184024662.jpg.chip.jpg")


@TOPIC.layout(
    "LFW: a folder for each person",
    "convert lfw out",
    Gives("train 3", "Aaron_Eckhart Zoe_Ball", {"Aaron_Eckhart_0001.jpg": "Aaron_Eckhart"}),
)
def lfw(to: Files) -> None:
    to.images("lfw/Aaron_Eckhart/Aaron_Eckhart_0001.jpg", "lfw/Zoe_Ball/Zoe_Ball_000{1..2}.jpg")


@TOPIC.layout(
    "Intel Image Classification: `seg_train/seg_train/`, `seg_test/seg_test/`, `seg_pred/seg_pred/`",
    "convert intel out",
    Gives("train 4", "buildings sea", {"0.jpg": "buildings"}),
    says="seg_train/seg_train",
    then="convert intel/seg_train/seg_train out",
)
def intel_scenes(to: Files) -> None:
    to.images("intel/seg_train/seg_train/buildings/{0..1}.jpg", "intel/seg_train/seg_train/sea/{2..3}.jpg")
    to.images("intel/seg_test/seg_test/buildings/20.jpg", "intel/seg_test/seg_test/sea/21.jpg")
    to.images("intel/seg_pred/seg_pred/{30..31}.jpg")


@TOPIC.layout(
    "Fruits-360: `Training/` and `Test/`",
    "convert fruits-360 out",
    Gives("train 4, test 2", ("Apple Braeburn 1", "Banana 1"), {"Training/Banana 1/0_100.jpg": "Banana 1"}),
)
def fruits_360(to: Files) -> None:
    to.images("fruits-360/Training/{Apple Braeburn 1,Banana 1}/{0,1}_100.jpg", size=(100, 100))
    to.images("fruits-360/Test/{Apple Braeburn 1,Banana 1}/3_100.jpg", size=(100, 100))
    to.put("fruits-360/readme.md", "# Fruits-360")


@TOPIC.layout(
    "Stanford Dogs: `Images/n02085620-Chihuahua/`, inside a folder with `lists` and `Annotation`",
    "convert stanford-dogs out",
    Gives("train 4", "n02085620-Chihuahua n02085782-Japanese_spaniel", {"n02085620_10074.jpg": "n02085620-Chihuahua"}),
    says="Images",
    then="convert stanford-dogs/Images out",
)
def stanford_dogs(to: Files) -> None:
    for name in ("n02085620-Chihuahua", "n02085782-Japanese_spaniel"):
        wnid, breed = name.split("-")
        for number in (10074, 10131):
            to.images(f"stanford-dogs/Images/{name}/{wnid}_{number}.jpg")
            to.put(
                f"stanford-dogs/Annotation/{name}/{wnid}_{number}",
                f"<annotation><folder>{wnid}</folder><filename>{wnid}_{number}</filename><size><width>60</width>"
                "<height>40</height><depth>3</depth></size><object><name>"
                f"{breed}</name><bndbox><xmin>5</xmin><ymin>6</ymin><xmax>50</xmax><ymax>38</ymax></bndbox></object>"
                "</annotation>",
            )


@TOPIC.layout(
    "pix2pix and CycleGAN: `trainA/`, `trainB/`, `testA/`, `testB/`, which are no classes",
    "convert horse2zebra out",
    Gives("test 4, train 4"),
    says=("may not be classes", "--unlabelled"),
    then="convert horse2zebra out --unlabelled",
)
def cyclegan(to: Files) -> None:
    to.images("horse2zebra/{trainA,testA}/n0238{1..2}.jpg", "horse2zebra/{trainB,testB}/n0239{3..4}.jpg")


@TOPIC.layout(
    "pairs of pictures: `hazy/1.png` and `clear/1.png`, which are no classes",
    "convert haze out",
    Gives("train 6"),
    says=("several images of each sample", "--unlabelled"),
    then="convert haze out --unlabelled",
)
def pairs_of_folders(to: Files) -> None:
    to.images("haze/{hazy,clear}/{1..3}.png")


@TOPIC.layout(
    "two folders named like pairs that are classes after all",
    "convert gaze out",
    Gives("train 6", "left right", {"left/1.png": "left"}),
    says="--class-names",
    then="convert gaze out --class-names names.txt",
)
def left_and_right(to: Files) -> None:
    to.images("gaze/{left,right}/{1..3}.png")
    to.put("names.txt", "left\nright")


@TOPIC.layout(
    "super-resolution: `hr/0001.png` and `lr_x4/0001.png`",
    "convert pairs out",
    Gives("train 6"),
    says=("several images of each sample", "--unlabelled"),
    then="convert pairs out --unlabelled",
)
def scales(to: Files) -> None:
    to.images("pairs/{hr,lr_x4}/000{1..3}.png")


@TOPIC.layout(
    "a folder for each sample, with an image of the same name: `P001/P001.png`",
    "convert cases out",
    Gives("train 3"),
    says=("a folder for each sample", "--unlabelled"),
    then="convert cases out --unlabelled",
)
def named_like_folders(to: Files) -> None:
    to.images(*(f"cases/P00{i}/P00{i}.png" for i in (1, 2, 3)))


@TOPIC.layout(
    "class folders in `training_set` and `test_set`",
    "convert pets out",
    Gives("train 2, test 2", "cats dogs", {"training_set/cats/1.png": "cats"}),
    says=("are named like splits", "--pattern"),
    then="convert pets out --pattern '[^/]*(?P<split>training|test)[^/]*/(?P<label>[^/]+)/.+'",
)
def splits_with_words(to: Files) -> None:
    to.images("pets/training_set/{cats,dogs}/1.png", "pets/test_set/{cats,dogs}/2.png")


@TOPIC.layout(
    "images directly in `Split-train` and `Split-eval`",
    "convert photos out",
    Gives("eval 2, train 2"),
    says=("are named like splits", "--unlabelled"),
    then="convert photos out --unlabelled",
)
def splits_without_classes(to: Files) -> None:
    to.images("photos/Split-train/{1..2}.png", "photos/Split-eval/{3..4}.png")


@TOPIC.layout(
    "DIV2K: `DIV2K_train_HR/0001.png`, `DIV2K_train_LR_bicubic/X4/0001x4.png`",
    "convert DIV2K out",
    Gives("train 4"),
    says=("may not be classes", "--unlabelled"),
    then="convert DIV2K out --unlabelled",
)
def div2k(to: Files) -> None:
    to.images("DIV2K/DIV2K_train_HR/000{1..2}.png", "DIV2K/DIV2K_train_LR_bicubic/X4/000{1..2}x4.png")


@TOPIC.layout(
    "FFHQ: numbered images in the numbered folders `00000/`, `01000/`",
    "convert ffhq out",
    Gives("train 4"),
    says=("numbered shards of images", "--unlabelled"),
    then="convert ffhq out --unlabelled",
)
def ffhq(to: Files) -> None:
    to.images("ffhq/00000/0000{0..1}.png", "ffhq/01000/0100{0..1}.png")


@TOPIC.layout(
    "a folder for each patient: `patient_001/slice_01.png`",
    "convert ct out",
    Gives("train 4"),
    says=("may not be classes", "--unlabelled"),
    then="convert ct out --unlabelled",
)
def folder_for_each_patient(to: Files) -> None:
    to.images("ct/patient_00{1..2}/slice_0{1..2}.png")


@TOPIC.layout(
    "CrowdHuman (annotations are not read): `Images/`, `annotation_train.odgt`",
    "convert CrowdHuman out",
    Gives("train 2"),
    says=("annotation_train.odgt", "CrowdHuman's boxes", "--unlabelled"),
    then="convert CrowdHuman out --unlabelled",
)
def crowdhuman(to: Files) -> None:
    to.images("CrowdHuman/Images/{a,b}.jpg")
    to.put("CrowdHuman/annotation_train.odgt", '{"ID": "a", "gtboxes": [{"tag": "person", "fbox": [6, 4, 20, 10]}]}')


@TOPIC.layout(
    "images in one folder `images`, and nothing else",
    "convert photos out",
    Gives("train 4", "cat dog", {"cat_1.jpg": "cat"}),
    says=("may not be classes", "give images as SOURCE"),
    then="convert photos/images out",
)
def only_images_inside(to: Files) -> None:
    to.images("photos/images/{cat,dog}_{1..2}.jpg")

"""Lists of splits and of labels as known datasets bring them."""

from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Official lists")


@TOPIC.layout(
    "Caffe's list: lines of `path number`, names in another file",
    "convert train.txt out --class-names synsets.txt",
    Gives("train 3", ("tench", "goldfish"), {"n01440764_1.JPEG": "tench"}),
)
def caffe_list(to: Files) -> None:
    to.images("images/{n01440764_1,n01443537_1,n01443537_2}.JPEG")
    to.put("train.txt", "images/n01440764_1.JPEG 0\nimages/n01443537_1.JPEG 1\nimages/n01443537_2.JPEG 1")
    to.put("synsets.txt", "tench\ngoldfish")


@TOPIC.layout(
    "HAM10000: `HAM10000_metadata.csv`, `image_id` and `dx`, two folders of images",
    "convert HAM10000 out --labels HAM10000/HAM10000_metadata.csv --path-column image_id --label-column dx",
    Gives("train 3", "bkl mel", {"ISIC_0027419.jpg": "bkl"}),
)
def ham10000(to: Files) -> None:
    to.images("HAM10000/HAM10000_images_part_1/ISIC_{0027419,0025030}.jpg")
    to.images("HAM10000/HAM10000_images_part_2/ISIC_0031633.jpg")
    to.put(
        "HAM10000/HAM10000_metadata.csv",
        "lesion_id,image_id,dx,dx_type,age,sex,localization\nHAM_0000118,ISIC_0027419,bkl,histo,80.0,male,scalp\n"
        "HAM_0000118,ISIC_0025030,bkl,histo,80.0,male,scalp\nHAM_0002730,ISIC_0031633,mel,histo,,male,ear",
    )


@TOPIC.layout(
    "ImageNet's `LOC_val_solution.csv`: `ILSVRC2012_val_00000001,n01751748 111 108 260 307`",
    "convert ILSVRC/Data/CLS-LOC/val out --labels LOC_val_solution.csv",
    Gives(
        "train 2",
        objects=3,
        of="n01751748 n09193705",
        boxes={
            "ILSVRC2012_val_00000001.JPEG": "n01751748 4 5 40 30",
            "ILSVRC2012_val_00000002.JPEG": "n09193705 1 2 30 20; n09193705 10 12 50 38",
        },
    ),
)
def imagenet_val_solution(to: Files) -> None:
    to.images("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_0000000{1..2}.JPEG")
    to.put(
        "LOC_val_solution.csv",
        "ImageId,PredictionString\nILSVRC2012_val_00000001,n01751748 4 5 40 30 \n"
        "ILSVRC2012_val_00000002,n09193705 1 2 30 20 n09193705 10 12 50 38 ",
    )


@TOPIC.layout(
    "ImageNet (Kaggle): class folders in `ILSVRC/Data/CLS-LOC/train`",
    "convert ILSVRC/Data/CLS-LOC/train out",
    Gives("train 4", "n01440764 n01443537", {"n01440764_10026.JPEG": "n01440764"}),
)
def imagenet_train(to: Files) -> None:
    to.images("ILSVRC/Data/CLS-LOC/train/{n01440764,n01443537}/n0_{1..1}.JPEG")
    to.images("ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_10026.JPEG")
    to.images("ILSVRC/Data/CLS-LOC/train/n01443537/n01443537_10007.JPEG")


@TOPIC.layout(
    "Places365: `places365_train_standard.txt`, paths with a leading `/`",
    "convert data_256 out --labels places365_train_standard.txt",
    Gives("train 3", "0 1", {"a/airfield/00000001.jpg": "0", "a/alley/00000001.jpg": "1"}),
)
def places365(to: Files) -> None:
    to.images("data_256/a/airfield/0000000{1..2}.jpg", "data_256/a/alley/00000001.jpg")
    to.put(
        "places365_train_standard.txt",
        "/a/airfield/00000001.jpg 0\n/a/airfield/00000002.jpg 0\n/a/alley/00000001.jpg 1",
    )


@TOPIC.layout(
    "Places365's small images, in class folders: `train/airfield/`, `val/airfield/`",
    "convert places365_standard out",
    Gives("train 2, validation 2", "airfield alley"),
)
def places365_standard(to: Files) -> None:
    to.images("places365_standard/{train,val}/{airfield,alley}/00000001.jpg")
    to.put("places365_standard/train.txt", "train/airfield/00000001.jpg\ntrain/alley/00000001.jpg")


@TOPIC.layout(
    "FGVC Aircraft: `images_variant_train.txt`, lines of a number, a space and the class (`0034309 737-700 BBJ`)",
    "convert fgvc-aircraft-2013b/data/images out --labels fgvc-aircraft-2013b/data/images_variant_train.txt",
    Gives("train 3", ("707-320", "Boeing 717"), {"1025794.jpg": "707-320", "0034309.jpg": "Boeing 717"}),
)
def fgvc_aircraft(to: Files) -> None:
    to.images("fgvc-aircraft-2013b/data/images/{1025794,1340192,0034309}.jpg")
    to.put("fgvc-aircraft-2013b/data/images_variant_train.txt", "1025794 707-320\n1340192 707-320\n0034309 Boeing 717")


@TOPIC.layout(
    "CelebA: `list_attr_celeba.txt` with the count, the names of 40 attributes, and rows of -1 and 1",
    "convert img_align_celeba out --labels list_attr_celeba.txt",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
)
def celeba_text(to: Files) -> None:
    to.images("img_align_celeba/00000{1..2}.jpg")
    to.put("list_attr_celeba.txt", "2\nBald Male Young\n000001.jpg -1 -1  1\n000002.jpg  1  1 -1")


@TOPIC.layout(
    "CelebA with its splits: `list_eval_partition.txt`, lines of a name and 0, 1 or 2",
    "convert img_align_celeba out --labels list_attr_celeba.txt --split-list list_eval_partition.txt",
    Gives("train 2, validation 1, test 1", "Bald Male Young", where={"000002.jpg": "validation"}),
)
def celeba_splits(to: Files) -> None:
    to.images("img_align_celeba/00000{1..4}.jpg")
    rows = "\n".join(f"00000{i}.jpg {i % 2}  1 -1" for i in range(1, 5)).replace(" 0 ", " -1 ")
    to.put("list_attr_celeba.txt", f"4\nBald Male Young\n{rows}")
    to.put("list_eval_partition.txt", "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n000004.jpg 0")


@TOPIC.layout(
    "Oxford-IIIT Pet, the breeds with the official splits: `annotations/trainval.txt`, `annotations/test.txt`",
    "convert oxford-iiit-pet/images out --split-list trainval=annotations/trainval.txt "
    "--split-list test=annotations/test.txt",
    Gives("trainval 2, test 2", "Abyssinian Bengal", where={"Bengal_2.jpg": "test"}),
)
def oxford_pets_splits(to: Files) -> None:
    to.images("oxford-iiit-pet/images/{Abyssinian,Bengal}_{1..2}.jpg")
    for number, name in enumerate(("trainval", "test"), 1):
        text = f"Abyssinian_{number} 1 1 1\nBengal_{number} 2 1 2"
        to.put(f"oxford-iiit-pet/annotations/{name}.txt", text)


@TOPIC.layout(
    "splits of CoOp: `split_zhou_Caltech101.json`, rows of a path, a number and a class for each split",
    "convert 101_ObjectCategories out --split-list split_zhou_Caltech101.json",
    Gives("train 2, validation 1, test 1", "camera emu", where={"emu/2.jpg": "test"}),
)
def coop_splits(to: Files) -> None:
    to.images("101_ObjectCategories/{camera,emu}/{1..2}.jpg")
    rows = {"train": ["camera/1.jpg", "emu/1.jpg"], "val": ["camera/2.jpg"], "test": ["emu/2.jpg"]}
    content = {
        split: [[name, int(name[0] == "e"), name.split("/")[0]] for name in of_split]
        for split, of_split in rows.items()
    }
    to.put("split_zhou_Caltech101.json", content)


@TOPIC.layout(
    "Kaggle's CelebA: `list_attr_celeba.csv`, columns of -1 and 1",
    "convert img_align_celeba out --labels list_attr_celeba.csv --one-hot Bald,Male,Young",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
)
def celeba_csv(to: Files) -> None:
    to.images("img_align_celeba/00000{1..2}.jpg")
    to.put("list_attr_celeba.csv", "image_id,Bald,Male,Young\n000001.jpg,-1,-1,1\n000002.jpg,1,1,-1")


@TOPIC.layout(
    "Kaggle's CelebA, columns not named",
    "convert img_align_celeba out --labels list_attr_celeba.csv",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
    says="--one-hot",
    then="convert img_align_celeba out --labels list_attr_celeba.csv --one-hot Bald,Male,Young",
)
def celeba_csv_columns(to: Files) -> None:
    celeba_csv(to)


@TOPIC.layout(
    "Food-101: class folders in `images/`, the lists `meta/train.txt`, `meta/test.txt`, or the same as JSON",
    "convert food-101 out",
    Gives(
        "train 4, test 2",
        "apple_pie churros",
        {"apple_pie/1.jpg": "apple_pie"},
        where={"apple_pie/3.jpg": "test", "churros/1.jpg": "train"},
    ),
)
def food_101(to: Files) -> None:
    to.images("food-101/images/{apple_pie,churros}/{1..3}.jpg")
    to.put("food-101/meta/classes.txt", "apple_pie\nchurros")
    to.put("food-101/meta/labels.txt", "Apple pie\nChurros")
    to.put("food-101/meta/train.txt", "apple_pie/1\napple_pie/2\nchurros/1\nchurros/2")
    to.put("food-101/meta/test.txt", "apple_pie/3\nchurros/3")
    to.put("food-101/meta/train.json", {"apple_pie": ["apple_pie/1", "apple_pie/2"], "churros": ["churros/1"]})


@TOPIC.layout(
    "DTD: class folders in `images/`, the lists `labels/train1.txt`, `val1.txt`, `test1.txt` of the first fold",
    "convert dtd out",
    Gives(
        "train 2, validation 2, test 2",
        "banded dotted",
        {"banded_0001.jpg": "banded"},
        where={"banded_0001.jpg": "train", "dotted_0002.jpg": "validation", "dotted_0003.jpg": "test"},
    ),
)
def dtd(to: Files) -> None:
    for name in ("banded", "dotted"):
        to.images(f"dtd/images/{name}/{name}_000{{1..3}}.jpg")
    for number, split in enumerate(("train", "val", "test"), 1):
        to.put(f"dtd/labels/{split}1.txt", f"banded/banded_000{number}.jpg\ndotted/dotted_000{number}.jpg")
    to.put("dtd/imdb/imdb.mat", b"MATLAB 5.0 MAT-file")


@TOPIC.layout(
    "CUB-200-2011: class folders in `images/`, `images.txt`, `train_test_split.txt`",
    "convert CUB_200_2011 out",
    Gives(
        "train 2, test 2",
        "001.Black_footed_Albatross 002.Laysan_Albatross",
        {"a_1.jpg": "001.Black_footed_Albatross"},
        where={"a_1.jpg": "train", "a_2.jpg": "test"},
    ),
)
def cub(to: Files) -> None:
    root = "CUB_200_2011"
    to.images(f"{root}/images/001.Black_footed_Albatross/a_{{1..2}}.jpg")
    to.images(f"{root}/images/002.Laysan_Albatross/b_{{1..2}}.jpg")
    to.put(
        f"{root}/images.txt",
        "1 001.Black_footed_Albatross/a_1.jpg\n2 001.Black_footed_Albatross/a_2.jpg\n"
        "3 002.Laysan_Albatross/b_1.jpg\n4 002.Laysan_Albatross/b_2.jpg",
    )
    to.put(f"{root}/train_test_split.txt", "1 1\n2 0\n3 0\n4 1")
    to.put(f"{root}/image_class_labels.txt", "1 1\n2 1\n3 2\n4 2")
    to.put(f"{root}/classes.txt", "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross")
    to.put(f"{root}/bounding_boxes.txt", "1 6.0 2.0 32.0 30.0\n2 1.0 1.0 20.0 20.0\n3 1 1 9 9\n4 2 2 9 9")


@TOPIC.layout(
    "NIH ChestX-ray14: `Data_Entry_2017.csv`, findings separated by `|`, images in twelve folders",
    "convert nih out --labels nih/Data_Entry_2017.csv --path-column 'Image Index' --label-column 'Finding Labels'"
    " --label-separator '|'",
    Gives("train 2", ("Cardiomegaly", "Emphysema", "No Finding"), tags={"00000001_001.png": "Cardiomegaly Emphysema"}),
)
def chest_xray14(to: Files) -> None:
    to.images("nih/images_001/images/00000001_001.png", "nih/images_002/images/00000002_000.png")
    to.put(
        "nih/Data_Entry_2017.csv",
        "Image Index,Finding Labels,Follow-up #\n00000001_001.png,Cardiomegaly|Emphysema,1\n"
        "00000002_000.png,No Finding,0",
    )

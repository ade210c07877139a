"""Labels in a file beside the images."""

from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Labels in files")
LISTS = "the folder `images` around the classes is refused, and the lists of splits are not read"


@TOPIC.layout(
    "a CSV of paths and labels",
    "convert labels.csv out",
    Gives("train 3", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
)
def csv_of_paths(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("labels.csv", "path,label\nphotos/a.jpg,dog\nphotos/b.jpg,cat\nphotos/c.jpg,cat")


@TOPIC.layout(
    "a CSV and the folder of its images, names with their extension",
    "convert photos out --labels labels.csv",
    Gives("train 3", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
)
def csv_beside_folder(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("labels.csv", "filename,label\na.jpg,dog\nb.jpg,cat\nc.jpg,cat")


@TOPIC.layout(
    "TSV without header: `path<tab>label`",
    "convert labels.tsv out",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
)
def tsv_without_header(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("labels.tsv", "photos/a.jpg\tdog\nphotos/b.jpg\tcat")


@TOPIC.layout(
    'JSON Lines: `{"image": ..., "label": ...}`',
    "convert labels.jsonl out",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
)
def json_lines(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("labels.jsonl", '{"image": "photos/a.jpg", "label": "dog"}\n{"image": "photos/b.jpg", "label": "cat"}')


@TOPIC.layout(
    "a column `split`: train, val, test",
    "convert labels.csv out",
    Gives("train 1, validation 1, test 1", "cat dog", {"a.jpg": "dog"}, where={"b.jpg": "validation"}),
)
def column_split(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("labels.csv", "path,label,split\nphotos/a.jpg,dog,train\nphotos/b.jpg,cat,val\nphotos/c.jpg,cat,test")


@TOPIC.layout(
    "Caffe's list: `path number` in text, names in another file",
    "convert train.txt out --classes synsets.txt",
    Gives("train 3", ("tench", "goldfish"), {"n01440764_1.JPEG": "tench"}),
)
def caffe_list(to: Files) -> None:
    to.images("images/{n01440764_1,n01443537_1,n01443537_2}.JPEG")
    to.put("train.txt", "images/n01440764_1.JPEG 0\nimages/n01443537_1.JPEG 1\nimages/n01443537_2.JPEG 1")
    to.put("synsets.txt", "tench\ngoldfish")


@TOPIC.layout(
    "Kaggle's Dog Breed: `labels.csv` of `id,breed`, images in `train/`",
    "convert train out --labels labels.csv",
    Gives("train 3", "boston_bull dingo", {"0013.jpg": "dingo"}),
)
def dog_breed(to: Files) -> None:
    to.images("train/{000b,0013,0014}.jpg", "test/0100.jpg")
    to.put("labels.csv", "id,breed\n000b,boston_bull\n0013,dingo\n0014,dingo")


@TOPIC.layout(
    "Kaggle's Cassava: `train.csv` of `image_id,label`, `train_images/`",
    "convert train_images out --labels train.csv",
    Gives("train 3", "0 1", {"1000015157.jpg": "0", "100042118.jpg": "1"}),
)
def cassava(to: Files) -> None:
    to.images("train_images/{1000015157,100042118,1000723321}.jpg")
    to.put("train.csv", "image_id,label\n1000015157.jpg,0\n100042118.jpg,1\n1000723321.jpg,1")
    to.put("label_num_to_disease_map.json", {"0": "Cassava Bacterial Blight", "1": "Cassava Mosaic Disease (CMD)"})


@TOPIC.layout(
    "Kaggle's Plant Pathology 2021: several classes in a cell",
    "convert train_images out --labels train.csv --label-separator ' '",
    Gives("train 3", "complex rust scab", tags={"a.jpg": "scab complex", "b.jpg": "rust"}),
)
def plant_pathology_2021(to: Files) -> None:
    to.images("train_images/{a,b,c}.jpg")
    to.put("train.csv", "image,labels\na.jpg,scab complex\nb.jpg,rust\nc.jpg,complex")


@TOPIC.layout(
    "Kaggle's Plant Pathology 2020: a column of 0 and 1 for each class",
    "convert images out --labels train.csv --one-hot healthy,rust,scab",
    Gives("train 3", ("healthy", "rust", "scab"), {"Train_0.jpg": "scab"}),
)
def plant_pathology_2020(to: Files) -> None:
    to.images("images/Train_{0..2}.jpg", "images/Test_0.jpg")
    to.put("train.csv", "image_id,healthy,rust,scab\nTrain_0,0,0,1\nTrain_1,1,0,0\nTrain_2,0,1,0")


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
    "Planet (Amazon): `train_v2.csv`, `image_name,tags`",
    "convert train-jpg out --labels train_v2.csv --label-column tags --label-separator ' '",
    Gives("train 3", "clear haze primary", tags={"train_0.jpg": "haze primary"}),
)
def planet(to: Files) -> None:
    to.images("train-jpg/train_{0..2}.jpg")
    to.put("train_v2.csv", "image_name,tags\ntrain_0,haze primary\ntrain_1,clear primary\ntrain_2,clear")


@TOPIC.layout(
    "Kaggle's APTOS 2019: ids and a grade, PNG",
    "convert train_images out --labels train.csv --label-column diagnosis",
    Gives("train 3", "0 1 2", {"000c1434d8d7.png": "2"}),
)
def aptos(to: Files) -> None:
    to.images("train_images/{000c1434d8d7,001639a390f0,0024cdab0c1e}.png")
    to.put("train.csv", "id_code,diagnosis\n000c1434d8d7,2\n001639a390f0,1\n0024cdab0c1e,0")


@TOPIC.layout(
    "Kaggle's Petfinder: a score for each image",
    "convert train out --labels train.csv --number-column Pawpularity",
    Gives("train 2", values={"image/Pawpularity": {"0007de18.jpg": 63}}),
)
def petfinder(to: Files) -> None:
    to.images("train/{0007de18,0009c66b}.jpg")
    to.put("train.csv", "Id,Subject Focus,Eyes,Pawpularity\n0007de18,0,1,63\n0009c66b,0,1,42")


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
    today="the text of the cell becomes the class, in silence",
)
def imagenet_val_solution(to: Files) -> None:
    to.images("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_0000000{1..2}.JPEG")
    to.put(
        "LOC_val_solution.csv",
        "ImageId,PredictionString\nILSVRC2012_val_00000001,n01751748 4 5 40 30 \n"
        "ILSVRC2012_val_00000002,n09193705 1 2 30 20 n09193705 10 12 50 38 ",
    )


@TOPIC.layout(
    "ImageNet (Kaggle): `ILSVRC/Data/CLS-LOC/train` of folders",
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
    today="a leading slash is refused",
)
def places365(to: Files) -> None:
    to.images("data_256/a/airfield/0000000{1..2}.jpg", "data_256/a/alley/00000001.jpg")
    to.put(
        "places365_train_standard.txt",
        "/a/airfield/00000001.jpg 0\n/a/airfield/00000002.jpg 0\n/a/alley/00000001.jpg 1",
    )


@TOPIC.layout(
    "Places365's small images by folders: `train/airfield/`, `val/airfield/`",
    "convert places365_standard out",
    Gives("train 2, validation 2", "airfield alley"),
)
def places365_standard(to: Files) -> None:
    to.images("places365_standard/{train,val}/{airfield,alley}/00000001.jpg")
    to.put("places365_standard/train.txt", "train/airfield/00000001.jpg\ntrain/alley/00000001.jpg")


@TOPIC.layout(
    "FGVC Aircraft: `images_variant_train.txt`, `0034309 737-700 BBJ`: all behind the first blank is the class",
    "convert fgvc-aircraft-2013b/data/images out --labels fgvc-aircraft-2013b/data/images_variant_train.txt",
    Gives("train 3", ("707-320", "Boeing 717"), {"1025794.jpg": "707-320", "0034309.jpg": "Boeing 717"}),
    today="lines are split at the last blank",
)
def fgvc_aircraft(to: Files) -> None:
    to.images("fgvc-aircraft-2013b/data/images/{1025794,1340192,0034309}.jpg")
    to.put("fgvc-aircraft-2013b/data/images_variant_train.txt", "1025794 707-320\n1340192 707-320\n0034309 Boeing 717")


@TOPIC.layout(
    "CelebA: `list_attr_celeba.txt`, a count line, names of 40 attributes, -1 and 1",
    "convert img_align_celeba out --labels list_attr_celeba.txt",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
    today="the count line and the header of attributes are not read",
)
def celeba_text(to: Files) -> None:
    to.images("img_align_celeba/00000{1..2}.jpg")
    to.put("list_attr_celeba.txt", "2\nBald Male Young\n000001.jpg -1 -1  1\n000002.jpg  1  1 -1")


@TOPIC.layout(
    "CelebA of Kaggle: `list_attr_celeba.csv`, columns of -1 and 1",
    "convert img_align_celeba out --labels list_attr_celeba.csv --one-hot Bald,Male,Young",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
    today="columns of -1 and 1 are refused",
)
def celeba_csv(to: Files) -> None:
    to.images("img_align_celeba/00000{1..2}.jpg")
    to.put("list_attr_celeba.csv", "image_id,Bald,Male,Young\n000001.jpg,-1,-1,1\n000002.jpg,1,1,-1")


@TOPIC.layout(
    "CelebA of Kaggle, without saying which columns",
    "convert img_align_celeba out --labels list_attr_celeba.csv",
    Gives("train 2", "Bald Male Young", tags={"000001.jpg": "Young", "000002.jpg": "Bald Male"}),
    says="--one-hot",
    then="convert img_align_celeba out --labels list_attr_celeba.csv --one-hot Bald,Male,Young",
    today="columns of -1 and 1 are refused, and the message does not name --one-hot",
)
def celeba_csv_columns(to: Files) -> None:
    celeba_csv(to)


@TOPIC.layout(
    "Food-101: `images/` of classes and the lists `meta/train.txt`, `meta/test.txt`",
    "convert food-101 out",
    Gives(
        "train 4, test 2",
        "apple_pie churros",
        {"apple_pie/1.jpg": "apple_pie"},
        where={"apple_pie/3.jpg": "test", "churros/1.jpg": "train"},
    ),
    today=LISTS,
)
def food_101(to: Files) -> None:
    to.images("food-101/images/{apple_pie,churros}/{1..3}.jpg")
    to.put("food-101/meta/classes.txt", "apple_pie\nchurros")
    to.put("food-101/meta/labels.txt", "Apple pie\nChurros")
    to.put("food-101/meta/train.txt", "apple_pie/1\napple_pie/2\nchurros/1\nchurros/2")
    to.put("food-101/meta/test.txt", "apple_pie/3\nchurros/3")
    to.put("food-101/meta/train.json", {"apple_pie": ["apple_pie/1", "apple_pie/2"], "churros": ["churros/1"]})


@TOPIC.layout(
    "DTD: `images/` of classes and the lists `labels/train1.txt`, `val1.txt`, `test1.txt` of the first fold",
    "convert dtd out",
    Gives(
        "train 2, validation 2, test 2",
        "banded dotted",
        {"banded_0001.jpg": "banded"},
        where={"banded_0001.jpg": "train", "dotted_0002.jpg": "validation", "dotted_0003.jpg": "test"},
    ),
    today=LISTS,
)
def dtd(to: Files) -> None:
    for name in ("banded", "dotted"):
        to.images(f"dtd/images/{name}/{name}_000{{1..3}}.jpg")
    for number, split in enumerate(("train", "val", "test"), 1):
        to.put(f"dtd/labels/{split}1.txt", f"banded/banded_000{number}.jpg\ndotted/dotted_000{number}.jpg")
    to.put("dtd/imdb/imdb.mat", b"MATLAB 5.0 MAT-file")


@TOPIC.layout(
    "CUB-200-2011: `images/` of classes, `images.txt`, `train_test_split.txt`",
    "convert CUB_200_2011 out",
    Gives(
        "train 2, test 2",
        "001.Black_footed_Albatross 002.Laysan_Albatross",
        {"a_1.jpg": "001.Black_footed_Albatross"},
        where={"a_1.jpg": "train", "a_2.jpg": "test"},
    ),
    today=LISTS,
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
    "Roboflow's multi-class export: `train/_classes.csv`, `valid/_classes.csv`",
    "convert roboflow out",
    Gives("train 2, validation 1", "cat dog", tags={"a_jpg.rf.1.jpg": "cat dog", "c_jpg.rf.3.jpg": "dog"}),
)
def roboflow_multi_class(to: Files) -> None:
    to.images("roboflow/train/{a_jpg.rf.1,b_jpg.rf.2}.jpg", "roboflow/valid/c_jpg.rf.3.jpg")
    to.put("roboflow/train/_classes.csv", "filename, cat, dog\na_jpg.rf.1.jpg, 1, 1\nb_jpg.rf.2.jpg, 1, 0")
    to.put("roboflow/valid/_classes.csv", "filename, cat, dog\nc_jpg.rf.3.jpg, 0, 1")


@TOPIC.layout(
    "Vertex AI, one label an image: `training,gs://bucket/a.jpg,daisy` without header",
    "convert import.csv out --images photos",
    Gives("train 2, test 1", "daisy rose", {"a.jpg": "daisy"}, where={"c.jpg": "test"}),
    today="the columns of one-label import files are not known, nor paths of a bucket in them",
)
def vertex_single_label(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("import.csv", "training,gs://b/x/a.jpg,daisy\ntraining,gs://b/x/b.jpg,rose\ntest,gs://b/x/c.jpg,rose")


@TOPIC.layout(
    "labels in latin-1",
    "convert labels.csv out",
    Gives("train 2", ("chien", "ch\u00e8vre"), {"b.jpg": "ch\u00e8vre"}),
    says="--encoding",
    then="convert labels.csv out --encoding latin-1",
)
def latin_1(to: Files) -> None:
    to.images("{a,b}.jpg")
    to.put("labels.csv", "path,label\na.jpg,chien\nb.jpg,ch\u00e8vre\n".encode("latin-1"))


@TOPIC.layout(
    "a CSV saved by Excel: a byte order mark, semicolons, CRLF",
    "convert labels.csv out",
    Gives("train 2", "cat dog", {"b.jpg": "dog"}),
)
def excel(to: Files) -> None:
    to.images("{a,b}.jpg")
    to.put("labels.csv", "\ufeffpath;label\r\na.jpg;cat\r\nb.jpg;dog\r\n".encode())


@TOPIC.layout(
    "a `.parquet` table of paths and labels",
    "convert labels.parquet out",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
    needs="pyarrow",
)
def parquet_of_paths(to: Files) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    to.images("photos/{a,b}.jpg")
    pq.write_table(
        pa.table({"path": ["photos/a.jpg", "photos/b.jpg"], "label": ["dog", "cat"]}), to.root / "labels.parquet"
    )


@TOPIC.layout(
    "folds in a column",
    "convert train out --labels train.csv --split-column fold",
    Gives("fold_0 1, fold_1 1", "cat dog", {"a.jpg": "dog"}, where={"b.jpg": "fold_1"}),
)
def folds(to: Files) -> None:
    to.images("train/{a,b}.jpg")
    to.put("train.csv", "image,label,fold\na,dog,0\nb,cat,1")


@TOPIC.layout(
    "a table with empty cells in the label column",
    "convert labels.csv out",
    Gives("train 2", "cat unknown", {"b.jpg": "unknown"}),
    says="--missing",
    then="convert labels.csv out --missing label=unknown",
)
def empty_cells(to: Files) -> None:
    to.images("{a,b}.jpg")
    to.put("labels.csv", "path,label\na.jpg,cat\nb.jpg,")


@TOPIC.layout(
    "images, and ids in a CSV without labels (`sample_submission.csv`)",
    "convert sample_submission.csv out --images test --unlabelled",
    Gives("train 2"),
)
def submission(to: Files) -> None:
    to.images("test/{a,b}.jpg")
    to.put("sample_submission.csv", "id\na\nb")


@TOPIC.layout(
    "the classes of an image as a list in a cell: `['cat', 'dog']`",
    "convert photos out --labels labels.csv",
    Gives("train 2", "cat dog", tags={"a.jpg": "cat dog", "b.jpg": "dog"}),
    today="the text of the list becomes the class, in silence",
)
def list_in_cell(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("labels.csv", "image,labels\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']")


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


@TOPIC.layout(
    "fastai's `train.csv` of PASCAL 2007: `fname,labels,is_valid`",
    "convert train out --labels train.csv --label-separator ' ' --split-column is_valid",
    Gives("False 1, True 1", "car chair person", tags={"000007.jpg": "car person"}),
)
def fastai_pascal(to: Files) -> None:
    to.images("train/00000{5,7}.jpg")
    to.put("train.csv", "fname,labels,is_valid\n000005.jpg,chair,True\n000007.jpg,car person,False")


@TOPIC.layout(
    "a folder of `images/` and `labels.csv`",
    "convert data out",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
    says="labels.csv",
    then="convert data/labels.csv out",
    today="the class `images`, in silence",
)
def images_and_csv(to: Files) -> None:
    to.images("data/images/{a,b}.jpg")
    to.put("data/labels.csv", "path,label\nimages/a.jpg,dog\nimages/b.jpg,cat")

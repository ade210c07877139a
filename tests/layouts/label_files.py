"""Labels in a file beside the images."""

from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Labels in files")


@TOPIC.layout(
    "a CSV of paths and labels", "convert labels.csv out", Gives("train 3", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"})
)
def csv_of_paths(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("labels.csv", "path,label\nphotos/a.jpg,dog\nphotos/b.jpg,cat\nphotos/c.jpg,cat")


@TOPIC.layout(
    "a CSV and a folder of images, file names with extension",
    "convert photos out --labels labels.csv",
    Gives("train 3", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
)
def csv_beside_folder(to: Files) -> None:
    to.images("photos/{a,b,c}.jpg")
    to.put("labels.csv", "filename,label\na.jpg,dog\nb.jpg,cat\nc.jpg,cat")


@TOPIC.layout(
    "TSV without a header: `path<tab>label`", "convert labels.tsv out", Gives("train 2", "cat dog", {"a.jpg": "dog"})
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
    "Kaggle's Dog Breed: `labels.csv` with `id,breed`, images in `train/`",
    "convert train out --labels labels.csv",
    Gives("train 3", "boston_bull dingo", {"0013.jpg": "dingo"}),
)
def dog_breed(to: Files) -> None:
    to.images("train/{000b,0013,0014}.jpg", "test/0100.jpg")
    to.put("labels.csv", "id,breed\n000b,boston_bull\n0013,dingo\n0014,dingo")


@TOPIC.layout(
    "Kaggle's Cassava: `train.csv` with `image_id,label`, `train_images/`",
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
    "Kaggle's Plant Pathology 2020: a 0/1 column for each class",
    "convert images out --labels train.csv --one-hot healthy,rust,scab",
    Gives("train 3", ("healthy", "rust", "scab"), {"Train_0.jpg": "scab"}),
)
def plant_pathology_2020(to: Files) -> None:
    to.images("images/Train_{0..2}.jpg", "images/Test_0.jpg")
    to.put("train.csv", "image_id,healthy,rust,scab\nTrain_0,0,0,1\nTrain_1,1,0,0\nTrain_2,0,1,0")


@TOPIC.layout(
    "Planet (Amazon): `train_v2.csv`, `image_name,tags`",
    "convert train-jpg out --labels train_v2.csv --label-column tags --label-separator ' '",
    Gives("train 3", "clear haze primary", tags={"train_0.jpg": "haze primary"}),
)
def planet(to: Files) -> None:
    to.images("train-jpg/train_{0..2}.jpg")
    to.put("train_v2.csv", "image_name,tags\ntrain_0,haze primary\ntrain_1,clear primary\ntrain_2,clear")


@TOPIC.layout(
    "Kaggle's APTOS 2019: ids and a grade, PNG images",
    "convert train_images out --labels train.csv --label-column diagnosis",
    Gives("train 3", "0 1 2", {"000c1434d8d7.png": "2"}),
)
def aptos(to: Files) -> None:
    to.images("train_images/{000c1434d8d7,001639a390f0,0024cdab0c1e}.png")
    to.put("train.csv", "id_code,diagnosis\n000c1434d8d7,2\n001639a390f0,1\n0024cdab0c1e,0")


@TOPIC.layout(
    "Kaggle's Cassava with the names of its classes, `label_num_to_disease_map.json`",
    "convert train_images out --labels train.csv --class-names label_num_to_disease_map.json",
    Gives("train 3", ("Blight", "Mosaic"), {"1000015157.jpg": "Blight", "100042118.jpg": "Mosaic"}),
)
def cassava_with_names(to: Files) -> None:
    cassava(to)
    to.put("label_num_to_disease_map.json", {"0": "Blight", "1": "Mosaic"})


@TOPIC.layout(
    "captions, one per image: `filepath<tab>title`, as for open_clip",
    "convert captions.csv out --images photos",
    Gives("train 2", captions={"a.jpg": ["a red dog"], "b.jpg": ["two cats"]}),
)
def open_clip(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("captions.csv", "filepath\ttitle\na.jpg\ta red dog\nb.jpg\ttwo cats")


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.parquet` with captions",
    "convert captioned out",
    Gives("train 2", captions={"a.jpg": ["caption a"], "b.jpg": ["caption b"]}),
    needs="pyarrow",
)
def imagefolder_in_parquet(to: Files) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    to.images("captioned/train/{a,b}.jpg")
    rows = {"file_name": ["a.jpg", "b.jpg"], "text": ["caption a", "caption b"]}
    pq.write_table(pa.table(rows), to.root / "captioned" / "train" / "metadata.parquet")


@TOPIC.layout(
    "a CSV of images and their masks: no classes",
    "convert train.csv out",
    Gives("train 2"),
    says="its values are paths",
    then="convert train.csv out --unlabelled",
)
def images_and_masks_in_csv(to: Files) -> None:
    to.images("photos/{a,b}.jpg", "masks/{a,b}.png")
    to.put("train.csv", "image,mask_file\nphotos/a.jpg,masks/a.png\nphotos/b.jpg,masks/b.png")


@TOPIC.layout(
    "a 0 or 1 for each class in one cell, as pandas writes lists: `[0, 1, 1]`",
    "convert photos out --labels train.csv",
    Gives("train 2", ("0", "1", "2"), tags={"a.jpg": "1 2", "b.jpg": "0"}),
)
def multi_hot_in_cell(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("train.csv", 'image,labels\na.jpg,"[0, 1, 1]"\nb.jpg,"[1, 0, 0]"')


@TOPIC.layout(
    "Kaggle's Petfinder: a score for each image",
    "convert train out --labels train.csv --number-column Pawpularity",
    Gives("train 2", values={"image/Pawpularity": {"0007de18.jpg": 63}}),
)
def petfinder(to: Files) -> None:
    to.images("train/{0007de18,0009c66b}.jpg")
    to.put("train.csv", "Id,Subject Focus,Eyes,Pawpularity\n0007de18,0,1,63\n0009c66b,0,1,42")


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
    "Vertex AI, one label per image: `training,gs://bucket/a.jpg,daisy`, no header",
    "convert import.csv out --images photos",
    Gives("train 2, test 1", "daisy rose", {"a.jpg": "daisy"}, where={"c.jpg": "test"}),
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
    "a column of folds",
    "convert train out --labels train.csv --split-column fold",
    Gives("fold_0 1, fold_1 1", "cat dog", {"a.jpg": "dog"}, where={"b.jpg": "fold_1"}),
)
def folds(to: Files) -> None:
    to.images("train/{a,b}.jpg")
    to.put("train.csv", "image,label,fold\na,dog,0\nb,cat,1")


@TOPIC.layout(
    "a CSV with empty cells in the label column",
    "convert labels.csv out",
    Gives("train 2", "cat unknown", {"b.jpg": "unknown"}),
    says="--missing",
    then="convert labels.csv out --missing label=unknown",
)
def empty_cells(to: Files) -> None:
    to.images("{a,b}.jpg")
    to.put("labels.csv", "path,label\na.jpg,cat\nb.jpg,")


@TOPIC.layout(
    "images, and a CSV of ids without labels (`sample_submission.csv`)",
    "convert sample_submission.csv out --images test --unlabelled",
    Gives("train 2"),
)
def submission(to: Files) -> None:
    to.images("test/{a,b}.jpg")
    to.put("sample_submission.csv", "id\na\nb")


@TOPIC.layout(
    "a list of classes in each cell: `['cat', 'dog']`",
    "convert photos out --labels labels.csv",
    Gives("train 2", "cat dog", tags={"a.jpg": "cat dog", "b.jpg": "dog"}),
)
def list_in_cell(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("labels.csv", "image,labels\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']")


@TOPIC.layout(
    "fastai's `train.csv` of PASCAL 2007: `fname,labels,is_valid`",
    "convert train out --labels train.csv --label-separator ' ' --split-column is_valid",
    Gives("False 1, True 1", "car chair person", tags={"000007.jpg": "car person"}),
)
def fastai_pascal(to: Files) -> None:
    to.images("train/00000{5,7}.jpg")
    to.put("train.csv", "fname,labels,is_valid\n000005.jpg,chair,True\n000007.jpg,car person,False")


@TOPIC.layout(
    "a folder with `images/` and `labels.csv`",
    "convert data out",
    Gives("train 2", "cat dog", {"a.jpg": "dog"}),
    says="labels.csv",
    then="convert data/labels.csv out",
)
def images_and_csv(to: Files) -> None:
    to.images("data/images/{a,b}.jpg")
    to.put("data/labels.csv", "path,label\nimages/a.jpg,dog\nimages/b.jpg,cat")

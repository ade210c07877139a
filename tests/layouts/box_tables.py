"""Boxes in tables and lists."""

from tests.layouts.documents import SCENES, A, B
from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Boxes in tables and lists")
BOXES = Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B})
ONE_CLASS = Gives("train 2", objects=3, boxes={"a.jpg": "4 5 40 30; 0 0 20 40", "b.jpg": "10 10 50 30"})


def rows(line: str, **more: object) -> str:
    """A line for each object: `{name}`, `{label}`, `{left}`, `{width}`, `{x}` of the middle, and so on."""
    found = []
    for name, objects in SCENES.items():
        for label, (left, top, right, bottom) in objects:
            sides = {"left": left, "top": top, "right": right, "bottom": bottom}
            size = {"width": right - left, "height": bottom - top, "x": (left + right) / 2, "y": (top + bottom) / 2}
            shares = {"xmin": left / 60, "ymin": top / 40, "xmax": right / 60, "ymax": bottom / 40}
            found.append(line.format(name=name, label=label, **sides, **size, **shares, **more))
    return "\n".join(found)


@TOPIC.layout(
    "TensorFlow's tutorial: `filename,width,height,class,xmin,ymin,xmax,ymax`",
    "convert train_labels.csv out --images images",
    BOXES,
)
def tf_tutorial(to: Files) -> None:
    to.images("images/{a,b}.jpg")
    header = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    to.put("train_labels.csv", header + rows("{name}.jpg,60,40,{label},{left},{top},{right},{bottom}"))


@TOPIC.layout("the same table, given with `--labels`", "convert images out --labels train_labels.csv", BOXES)
def tf_tutorial_labels(to: Files) -> None:
    tf_tutorial(to)


@TOPIC.layout(
    "Roboflow's TensorFlow object detection CSV: `train/_annotations.csv`",
    "convert roboflow out",
    Gives("train 2, validation 2", of="cat dog", objects=6, boxes={"train/a.jpg": A}),
)
def roboflow_csv(to: Files) -> None:
    header = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    for split in ("train", "valid"):
        to.images(f"roboflow/{split}/{{a,b}}.jpg")
        table = header + rows("{name}.jpg,60,40,{label},{left},{top},{right},{bottom}")
        to.put(f"roboflow/{split}/_annotations.csv", table)


@TOPIC.layout(
    "corners with other names: `image_name,label_name,x1,y1,x2,y2`", "convert ann.csv out --images photos", BOXES
)
def corners_named(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("ann.csv", "image_name,label_name,x1,y1,x2,y2\n" + rows("{name}.jpg,{label},{left},{top},{right},{bottom}"))


@TOPIC.layout("the same table, given with `--labels`", "convert photos out --labels ann.csv", BOXES)
def corners_by_labels(to: Files) -> None:
    corners_named(to)


@TOPIC.layout("corners and sizes: `image,x,y,w,h,label`", "convert ann.csv out --images photos", BOXES)
def sizes_named(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("ann.csv", "image,x,y,w,h,label\n" + rows("{name}.jpg,{left},{top},{width},{height},{label}"))


@TOPIC.layout(
    "corners and sizes without a class: `image_name,x1,y1,w,h`", "convert ann.csv out --images photos", ONE_CLASS
)
def sizes_after_corners(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("ann.csv", "image_name,x1,y1,w,h\n" + rows("{name}.jpg,{left},{top},{width},{height}"))


@TOPIC.layout(
    "makesense.ai: `label_name,bbox_x,bbox_y,bbox_width,bbox_height,image_name,image_width,image_height`",
    "convert labels.csv out --images photos",
    BOXES,
)
def makesense(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    header = "label_name,bbox_x,bbox_y,bbox_width,bbox_height,image_name,image_width,image_height\n"
    to.put("labels.csv", header + rows("{label},{left},{top},{width},{height},{name}.jpg,60,40"))


@TOPIC.layout(
    "Kaggle's Global Wheat: `image_id,width,height,bbox,source`, `[x, y, w, h]`",
    "convert train.csv out --images train",
    ONE_CLASS,
)
def global_wheat(to: Files) -> None:
    to.images("train/{a,b}.jpg")
    line = '{name},60,40,"[{left}, {top}, {width}, {height}]",usask_1'
    to.put("train.csv", "image_id,width,height,bbox,source\n" + rows(line))


@TOPIC.layout(
    "Kaggle's Great Barrier Reef: a list of dicts in the cell `annotations`",
    "convert train.csv out --images train_images",
    Gives("train 2", objects=1, boxes={"0-1.jpg": "4 5 40 30", "0-2.jpg": ""}),
)
def barrier_reef(to: Files) -> None:
    to.images("train_images/0-{1,2}.jpg")
    cell = "\"[{'x': 4, 'y': 5, 'width': 36, 'height': 25}]\""
    to.put("train.csv", f"video_id,sequence,image_id,annotations\n0,40258,0-1,{cell}\n0,40258,0-2,[]")


@TOPIC.layout(
    "Kaggle's RSNA Pneumonia: `patientId,x,y,width,height,Target`, empty cells if there is no finding",
    "convert stage_2_train_labels.csv out --images train",
    Gives("train 2", objects=1, boxes={"p1.png": "4 5 40 30", "p2.png": ""}),
)
def rsna(to: Files) -> None:
    to.images("train/{p1,p2}.png")
    to.put("stage_2_train_labels.csv", "patientId,x,y,width,height,Target\np1,4.0,5.0,36.0,25.0,1\np2,,,,,0")


@TOPIC.layout(
    "Kaggle's VinBigData: `image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max`",
    "convert train.csv out --images train",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.png": A, "b.png": B}),
)
def vinbigdata(to: Files) -> None:
    to.images("train/{a,b}.png")
    numbers = {"cat": 0, "dog": 1}
    lines = rows("{name},{label},#{label},R9,{left},{top},{right},{bottom}")
    for label, number in numbers.items():
        lines = lines.replace(f"#{label}", str(number))
    to.put("train.csv", "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max\n" + lines)


@TOPIC.layout(
    "Kaggle's Car Object Detection: `image,xmin,ymin,xmax,ymax`",
    "convert train_solution_bounding_boxes.csv out --images training_images",
    ONE_CLASS,
)
def car_detection(to: Files) -> None:
    to.images("training_images/{a,b}.jpg")
    lines = rows("{name}.jpg,{left},{top},{right},{bottom}")
    to.put("train_solution_bounding_boxes.csv", "image,xmin,ymin,xmax,ymax\n" + lines)


@TOPIC.layout(
    "Open Images: `train-annotations-bbox.csv`, `class-descriptions-boxable.csv`",
    "convert train-annotations-bbox.csv out --images train",
    Gives("train 2", of={"Cat", "Dog"}, objects=3, boxes={"a.jpg": "Dog 4 5 40 30; Cat 0 0 20 40"}),
)
def open_images(to: Files) -> None:
    to.images("train/{a,b}.jpg")
    to.put("class-descriptions-boxable.csv", "/m/01yrx,Cat\n/m/0bt9lr,Dog")
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction"
    lines = rows("{name},xclick,{label},1,{xmin},{xmax},{ymin},{ymax},0,0,0,0,0")
    to.put(
        "train-annotations-bbox.csv",
        header + ",IsInside\n" + lines.replace(",cat,", ",/m/01yrx,").replace(",dog,", ",/m/0bt9lr,"),
    )


@TOPIC.layout(
    "Open Images' image-level labels: `ImageID,Source,LabelName,Confidence`, one row per label",
    "convert train-annotations-human-imagelabels.csv out --images train",
    Gives("train 2", "/m/01yrx /m/0bt9lr", tags={"a.jpg": "/m/01yrx /m/0bt9lr", "b.jpg": "/m/01yrx"}),
)
def open_images_labels(to: Files) -> None:
    to.images("train/{a,b}.jpg")
    to.put(
        "train-annotations-human-imagelabels.csv",
        "ImageID,Source,LabelName,Confidence\na,verification,/m/01yrx,1\na,verification,/m/0bt9lr,1\n"
        "b,verification,/m/01yrx,1\nb,verification,/m/0bt9lr,0",
    )


@TOPIC.layout(
    "AutoML, Vertex AI: `TRAIN,gs://...,label,x,y,,,x,y,,`",
    "convert automl.csv out --images photos",
    Gives("train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def automl(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    lines = rows("TRAIN,gs://bucket/dir/{name}.jpg,{label},{xmin},{ymin},,,{xmax},{ymax},,")
    to.put("automl.csv", lines.replace("TRAIN,gs://bucket/dir/b", "VALIDATE,gs://bucket/dir/b"))


@TOPIC.layout(
    "keras-retinanet: `path,x1,y1,x2,y2,class` without a header, `classes.csv`", "convert annotations.csv out", BOXES
)
def keras_retinanet(to: Files) -> None:
    to.images("img/{a,b}.jpg")
    to.put("annotations.csv", rows("img/{name}.jpg,{left},{top},{right},{bottom},{label}"))


@TOPIC.layout(
    "keras-yolo3: `path left,top,right,bottom,class ...`, several boxes per line",
    "convert train.txt out --class-names classes.txt",
    BOXES,
)
def keras_yolo3(to: Files) -> None:
    to.images("img/{a,b}.jpg")
    to.put("classes.txt", "cat\ndog")
    to.put("train.txt", "img/a.jpg 4,5,40,30,1 0,0,20,40,0\nimg/b.jpg 10,10,50,30,0")


@TOPIC.layout(
    "keras-yolo3 with one box in each image",
    "convert train.txt out",
    Gives("train 2", objects=2, of="cat dog", boxes={"a.jpg": "dog 4 5 40 30"}),
    says="--class-names",
    then="convert train.txt out --class-names classes.txt",
)
def keras_yolo3_one(to: Files) -> None:
    to.images("img/{a,b}.jpg")
    to.put("classes.txt", "cat\ndog")
    to.put("train.txt", "img/a.jpg 4,5,40,30,1\nimg/b.jpg 10,10,50,30,0")


@TOPIC.layout(
    "WIDER FACE: `WIDER_train/images/0--Parade/`, `wider_face_split/wider_face_train_bbx_gt.txt`",
    "convert WIDER out",
    Gives("train 1, validation 1", objects=3, boxes={"0_Parade_a.jpg": "4 5 40 30; 0 0 20 40"}),
)
def wider_face(to: Files) -> None:
    for split, name, boxes in (
        ("train", "a", "2\n4 5 36 25 0 0 0 0 0 0\n0 0 20 40 2 0 0 0 2 0"),
        ("val", "b", "1\n10 10 40 20 0 0 0 0 0 0"),
    ):
        to.images(f"WIDER/WIDER_{split}/images/0--Parade/0_Parade_{name}.jpg")
        to.put(f"WIDER/wider_face_split/wider_face_{split}_bbx_gt.txt", f"0--Parade/0_Parade_{name}.jpg\n{boxes}")


@TOPIC.layout(
    "WIDER FACE's event folders without the boxes: `WIDER_train/images`",
    "convert WIDER_train out",
    Gives("train 2", "0--Parade 1--Handshaking"),
    says="images",
    then="convert WIDER_train/images out",
)
def wider_face_events(to: Files) -> None:
    to.images("WIDER_train/images/0--Parade/0_Parade_a.jpg", "WIDER_train/images/1--Handshaking/1_b.jpg")


@TOPIC.layout(
    "GTSRB, test set: `GT-final_test.csv` with semicolons, one box per image",
    "convert GT-final_test.csv out --images Images",
    Gives("train 2", objects=2, boxes={"00000.png": "5 6 40 30"}),
)
def gtsrb_test(to: Files) -> None:
    to.images("Images/0000{0..1}.png")
    header = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
    to.put("GT-final_test.csv", header + "00000.png;60;40;5;6;40;30;16\n00001.png;60;40;1;2;33;34;3")


@TOPIC.layout(
    "CelebA's `list_bbox_celeba.csv`: `image_id,x_1,y_1,width,height`",
    "convert list_bbox_celeba.csv out --images img_celeba",
    Gives("train 2", objects=2, boxes={"000001.jpg": "4 5 40 30"}),
)
def celeba_boxes(to: Files) -> None:
    to.images("img_celeba/00000{1..2}.jpg")
    to.put("list_bbox_celeba.csv", "image_id,x_1,y_1,width,height\n000001.jpg,4,5,36,25\n000002.jpg,1,2,9,9")


@TOPIC.layout(
    "SKU-110K: `annotations_train.csv` without a header, `name,x1,y1,x2,y2,class,width,height`",
    "convert annotations_train.csv out --images images",
    Gives("train 2", of="object", objects=3, boxes={"a.jpg": "object 4 5 40 30; object 0 0 20 40"}),
)
def sku110k(to: Files) -> None:
    to.images("images/{a,b}.jpg")
    to.put("annotations_train.csv", rows("{name}.jpg,{left},{top},{right},{bottom},object,60,40"))


@TOPIC.layout(
    "fractions in columns that usually hold pixels (`xmin`, with `width`)",
    "convert boxes.csv out --images photos",
    says="fraction",
)
def fractions_as_pixels(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    header = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    to.put("boxes.csv", header + rows("{name}.jpg,60,40,{label},{xmin},{ymin},{xmax},{ymax}"))


@TOPIC.layout(
    "VisDrone (annotations are not read): `images/`, `annotations/a.txt` with `left,top,width,height,score,...`",
    "convert VisDrone2019-DET-train out",
    Gives("train 2"),
    says=("annotations/", "--unlabelled"),
    then="convert VisDrone2019-DET-train out --unlabelled",
)
def visdrone(to: Files) -> None:
    root = "VisDrone2019-DET-train"
    to.images(f"{root}/images/{{a,b}}.jpg")
    to.put(f"{root}/annotations/a.txt", "4,5,36,25,1,4,0,0\n0,0,20,40,1,1,0,0")
    to.put(f"{root}/annotations/b.txt", "10,10,40,20,1,1,0,1")

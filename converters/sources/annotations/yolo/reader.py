"""A YOLO dataset as a source: its images, and each line of their labels as an object or a line of the account."""

import os

import numpy as np

from shardfeed.converters.sources.account import Account
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.yolo.dataset import YoloDataset, find_dataset
from shardfeed.converters.sources.annotations.yolo.images import YoloImages
from shardfeed.converters.sources.annotations.yolo.label_files import LabelFiles, ask_for
from shardfeed.converters.sources.annotations.yolo.lines import Shape
from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Findings
from shardfeed.errors import UsageError, argument
from shardfeed.text import number


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The dataset of a data.yaml, of Darknet's obj.data, or of a folder of images and labels.

    Boxes and classes; key points where data.yaml has a `kpt_shape`; outlines where `options.tasks` has "masks".
    Raises UsageError or LabelFileError where it is none, where no image has labels, where their lines may mean two
    things, and where they are pixels.
    """
    dataset = find_dataset(os.fspath(path), options)
    if dataset.names is None:
        remedy = f"add a data.yaml with names: [...], or give {argument('class_names', typed='FILE')}, one class a line"
        raise UsageError(dataset.place, "labels are numbers, and nothing says the names of the classes", remedy)
    shape = _shape(dataset, options)
    files = list_files(dataset.root, follow_links=options.follow_links)
    images = YoloImages(files, dataset, options)
    upright = options.upright if options.upright is not None else True
    masks = "masks" in options.tasks
    wants_points = shape == "keypoints" and (not options.tasks or "keypoints" in options.tasks)
    table = ObjectTable(
        dataset.names,
        what="line",
        unit="fractions",
        upright=upright,
        masks=masks,
        keypoints=dataset.keypoints if wants_points else None,
    )
    labels = LabelFiles(files, dataset, shape, table, masks=masks)
    rejected = labels.read_all(images)
    labels.check(asked="boxes" in options.tasks)
    kept = np.array([image not in rejected for image in images.images.tolist()], bool)
    splits = images.splits
    if splits is not None and rejected:
        splits = Splits(splits.names, splits.numbers[kept])
    findings = Findings(
        sorted([*images.rejected, *rejected.values()], key=lambda skipped: skipped.key),
        [*images.notes, *labels.notes()],
        files.root,
        Account(read=len(labels.left_out), left_out=tuple(labels.left_out)),
    )
    described = f"{number(len(dataset.names), 'class', 'classes')}, lines of {_MEANING[labels.shape]}"
    listing = files.take(images.images[kept])
    return AnnotatedSource(listing, objects=table, splits=splits, findings=findings, described=described)


_MEANING: dict[Shape, str] = {
    "boxes": "class and box",
    "polygons": "class and outline",
    "either": "class, and box or outline",
    "corners": "class and four corners",
    "keypoints": "class, box and key points",
}


def _shape(dataset: YoloDataset, options: AnnotationOptions) -> Shape:
    """What lines mean, by what is stated: the tasks that were asked for, and those of the data.yaml.

    Raises UsageError where the two do not go together.
    """
    tasks, task = options.tasks, dataset.task
    other = sorted(tasks - {"boxes", "classes", "masks", "keypoints"})
    if other or tasks == {"classes"}:
        problem = f"got {', '.join(other or tasks)}, and YOLO labels have boxes, masks or key points"
        raise UsageError("tasks", problem, f"give {ask_for('boxes')}, or leave it out")
    if {"masks", "keypoints"} <= tasks:
        raise UsageError("tasks", "lines of YOLO have an outline or key points, never both", "leave one of the two out")
    if "keypoints" in tasks and dataset.keypoints is None:
        problem = "nothing says how many key points a line has"
        raise UsageError(dataset.place, problem, "add kpt_shape: [K, 3] (x, y, visibility), or [K, 2], to data.yaml")
    if "masks" in tasks:
        if task in ("detect", "pose"):
            remedy = f"give {ask_for('boxes')}, or leave it out"
            raise UsageError(dataset.place, f"its task is {task}: lines without outlines", remedy)
        return "polygons"
    if task == "obb":
        if "boxes" in tasks:
            return "corners"
        remedy = f"{ask_for('boxes')} takes the upright box around each: its angle is then lost"
        raise UsageError(dataset.place, "its boxes are turned (task: obb), and records have upright boxes", remedy)
    if task == "pose":
        return "keypoints"
    if task == "detect":
        return "boxes"
    return "polygons" if task == "segment" else "either"

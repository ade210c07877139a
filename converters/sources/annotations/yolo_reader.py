"""Datasets of YOLO's tools: Ultralytics' data.yaml, Roboflow's exports, Darknet, LabelImg's folders.

Labels are found by Ultralytics' rule: the last folder `images` of the path is replaced by `labels`, and the name ends
in `.txt`. Otherwise labels are next to the image.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode, RejectedError
from shardfeed.converters.sources.annotations.yolo_dataset import (
    NAMES_FILES,
    Description,
    YoloDataset,
    find_dataset,
    is_in,
    path_ends,
)
from shardfeed.converters.sources.annotations.yolo_dataset import recognise as recognise
from shardfeed.converters.sources.annotations.yolo_lines import LabelLine, LabelLines, Shape, ask_for, looks_like_label
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import Listing, joined, names_image
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import read_lines
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError, argument, escape, name_bytes, name_text
from shardfeed.kinds import ROTATED
from shardfeed.split_words import usual_split
from shardfeed.text import counted, in_usual_order, number

_SEVERAL = 2  # objects of a class that is not named; one may be a mistake


def read(look: Look, options: AnnotationOptions, parsed: Description | None = None) -> ColumnarSource:
    """The dataset of a data.yaml, of Darknet's obj.data, or of a folder of images and labels.

    Boxes and classes; keypoints if data.yaml has a `kpt_shape`; rotated boxes if its task is obb; outlines if
    `options.tasks` has "masks". Raises UsageError or LabelFileError if it is not a dataset, if no image has labels, if
    lines are ambiguous, and if they are in pixels.
    """
    dataset = find_dataset(look, options, parsed)
    if dataset.names is None:
        file = argument("class_names", typed="FILE")
        remedy = f"add a data.yaml with names: [...], or give {file}, one class per line"
        raise UsageError(dataset.place, "labels are numbers, but no file names the classes", remedy)
    shape = _shape(dataset, options)
    wants_points = shape == "keypoints" and (not options.tasks or "keypoints" in options.tasks)
    rotated = shape == "corners" and (not options.tasks or "rotated" in options.tasks)
    files, images = look.list_images(files=_list_files(look, dataset))
    found = Annotations(
        dataset.place,
        look,
        replace(options, boxes_on=options.boxes_on or "upright"),
        what="line",
        unit="fractions",
        keypoints=dataset.data_yaml.keypoints if wants_points and dataset.data_yaml is not None else None,
        tasks=("boxes", "masks", "keypoints", "rotated"),
        files=images,
    )
    found.stated, found.ledger.notes = (dataset.names, ()), [*found.ledger.notes, *dataset.notes]
    lines = LabelLines(shape, dataset.data_yaml, asked="boxes" in options.tasks)
    reading = _YoloSplits(dataset, files, found, lines, rotated)
    for split in in_usual_order(dataset.entries) or [""]:
        reading.add_split(split)
    reading.check_labels()
    reading.read_labels()
    lines.check()
    reading.add_unclear()
    _check_first_class(dataset, found)
    found.ledger.notes += lines.notes
    if lines.outlines and not rotated and "masks" not in options.tasks:
        found.note(f"outlines converted to the box around them: {lines.outlines}")
    if dataset.entries:
        found.unnamed = "images in no split, left out"
    classes = number(len(dataset.names), "class", "classes")
    return found.source(described=f"{classes}, lines of {lines.meaning}")


def _check_first_class(dataset: YoloDataset, found: Annotations) -> None:
    """Raise UsageError if the lines have the classes from 1 to the number of names: then they begin at 1."""
    counts, last = found.objects.class_counts, len(dataset.names or ())
    if "0" in counts or counts.get(str(last), 0) < _SEVERAL:
        return
    if all(text.isdecimal() and 1 <= int(text) <= last for text in counts):
        problem = f"its lines have classes up to {last} and none of 0, but its {last} names are of the classes 0 to "
        remedy = "subtract 1 from the class of each line, or add the name of class 0 in front of the names"
        raise UsageError(dataset.place, f"{problem}{last - 1}", remedy)


def _shape(dataset: YoloDataset, options: AnnotationOptions) -> Shape:
    """Return the shape of the lines, as stated by the tasks that the user asked for and by the task of data.yaml.

    Raises UsageError if the two contradict each other.
    """
    tasks, task = frozenset(options.tasks), "" if dataset.data_yaml is None else dataset.data_yaml.task
    if len(tasks & {"masks", "keypoints", "rotated"}) > 1:
        problem = "YOLO lines have an outline, key points or four corners, and not several of them"
        raise UsageError("tasks", problem, "leave all but one out")
    if "keypoints" in tasks and task != "pose":
        problem = "the number of key points per line is unknown"
        raise UsageError(dataset.place, problem, "add kpt_shape: [K, 3] (x, y, visibility), or [K, 2], to data.yaml")
    if "masks" in tasks:
        if task in ("detect", "pose"):
            remedy = f"give {ask_for('boxes')}, or leave it out"
            raise UsageError(dataset.place, f"its task is {task}, which has no outlines", remedy)
        return "polygons"
    if "rotated" in tasks:
        if task in ("detect", "pose", "segment"):
            remedy = f"give {ask_for('boxes')}, or leave it out"
            raise UsageError(dataset.place, f"its task is {task}, which has no rotated boxes", remedy)
        return "corners"
    shapes: dict[str, Shape] = {"obb": "corners", "pose": "keypoints", "detect": "boxes", "segment": "polygons"}
    return shapes.get(task, "either")


def _list_files(look: Look, dataset: YoloDataset) -> Listing:
    """The files of the dataset's folder, and of the folders outside of it that it names, with their labels."""
    if dataset.images:
        parts = [look.list_files(folder, chosen=False) for folder in (dataset.root, dataset.images)]
        return joined(os.fsencode(os.path.commonpath([dataset.root, dataset.images])), parts)
    paths = [path for paths in dataset.entries.values() for path in paths if not is_in(path, dataset.root)]
    if not paths:
        return look.list_files(dataset.root, chosen=False)
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    labels = [os.path.dirname(name_text(label_keys(name_bytes(f"{folder}/x"))[0])) for folder in folders]
    folders = [dataset.root, *folders, *filter(os.path.isdir, labels)]
    parts = [look.list_files(folder, chosen=False) for folder in dict.fromkeys(folders)]
    return joined(os.fsencode(os.path.commonpath(folders)), parts)


def label_keys(image: bytes) -> tuple[bytes, bytes]:
    """Return the two possible keys of the labels of an image: in the folder `labels`, and beside the image."""
    stem = os.path.splitext(image)[0] + b".txt"
    head, found, tail = (b"/" + stem).rpartition(b"/images/")
    return ((head + b"/labels/" + tail)[1:] if found else stem), stem


class _Elsewhere:
    """Finds the images that a list or labels name in a folder of their own, by the ends of their paths."""

    def __init__(self, files: Listing, dataset: YoloDataset) -> None:
        self._files, self._dataset = files, dataset
        self._images = _inside_of(dataset.images, files)
        self._by_stem: dict[bytes, list[int]] = {}  # by path in the folder of images, and by name; without extension
        for image, key in enumerate(files):
            if key.startswith(self._images) and names_image(key):
                stem = os.path.splitext(key.removeprefix(self._images))[0]
                for name in {stem, stem.rpartition(b"/")[2]}:
                    self._by_stem.setdefault(name, []).append(image)

    def of_entry(self, path: str) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images that a list names, or that labels belong to: path beside the labels, and number or why not."""
        root = os.path.relpath(os.fsencode(self._dataset.root), self._files.root)
        key = os.path.relpath(os.fsencode(path), self._files.root)
        file = self._files.find(key)
        if file < 0:
            folder = label_keys(key + b"/x")[0].rpartition(b"/")[0] + b"/"
            for label in self._files.inside(folder):
                if label.endswith(b".txt"):
                    inside = label.removeprefix(folder)
                    yield key + b"/" + inside, self._find(name_text(inside))
            return
        for _, line in read_lines(self._files.file(file)):
            text = name_text(line.strip())
            ends = [os.path.normpath(os.path.join(root, name_bytes(end))) for end in path_ends(text)]
            labelled = (end for end in ends if any(self._files.find(label) >= 0 for label in label_keys(end)))
            yield next(labelled, ends[0]), self._find(text)

    def _find(self, text: str) -> int | Skipped:
        """The image of a name. One of another folder is taken if it is the only one of this name."""
        stems = [os.path.splitext(name_bytes(end))[0] for end in path_ends(text)]
        ends = os.path.splitext(text)[1].lower()
        found: list[int] = []
        for stem in stems:
            found = [*dict.fromkeys(self._by_stem.get(stem, ()))]
            same = [image for image in found if name_text(self._files.key(image)).lower().endswith(ends)]
            found = same if len(found) > 1 and ends != ".txt" else found
            if len(found) == 1:
                return found[0]
        folder = escape(self._dataset.images)
        reason = f"no image of this name in {folder}" if not found else f"{len(found)} images of this name in {folder}"
        return Skipped(name_bytes(text), RejectCode.MISSING.value, reason)


def _inside_of(folder: str, files: Listing) -> bytes:
    """The beginning of the keys of a folder's files."""
    inside = os.path.relpath(os.fsencode(folder), files.root)
    return b"" if inside == b"." else inside + b"/"


class _YoloSplits:
    """Finds the images of each split and their labels in `files`, and gives both to `found`."""

    def __init__(
        self, dataset: YoloDataset, files: Listing, found: Annotations, lines: LabelLines, rotated: bool
    ) -> None:
        self._dataset, self._files, self._found, self._lines, self._rotated = dataset, files, found, lines, rotated
        self._lookup = PathLookup(files)
        self._elsewhere = _Elsewhere(files, dataset) if dataset.images else None
        self._choice = found.listing.choice
        self._split_of: dict[int, str] = {}  # by the number of an image in `files`
        self._label_of: dict[int, int | Skipped] = {}  # likewise; without an image that has none
        self._lost: dict[bytes, int] = {}  # the labels of images that are missing
        self._lists: set[int] = set()
        self._unclear: list[tuple[int, int, LabelLine]] = []  # lines whose meaning all others decide

    def add_split(self, split: str) -> None:
        """Add the images of a split; "" if the folders define the splits. Raises UsageError if it cannot be read."""
        new, again, elsewhere = 0, list[bytes](), list[bytes]()
        for named, image in self._of_split(split):
            key = image.key if isinstance(image, Skipped) else self._files.key(image)
            if not self._choice.wants(key):
                continue
            if isinstance(image, Skipped):  # its labels are lost with it
                self._found.reject(name_text(key), RejectCode(image.code), image.reason)
                label = self._label(key, named)
                if isinstance(label, int):
                    self._lost.setdefault(key, label)
                continue
            before = self._split_of.get(image)
            if before is None:
                self._split_of[image] = split
                new += 1
            elif before == split:
                again += [key] if split else []
            else:
                elsewhere.append(key)
                continue
            if image not in self._label_of and (label := self._label(key, named)) is not None:
                self._label_of[image] = label  # by another of its names it may have labels
        notes = self._found.ledger.notes
        if elsewhere and not new:
            notes.append(f"{split}: all {len(elsewhere)} images are also in another split: {split} is left out")
        elif elsewhere:
            what = "images in several splits, kept in the first of train, validation, test"
            notes.append(counted(what, sorted(elsewhere), len(elsewhere)))
        elif split and not new:
            notes.append(f"the split {split} has no images")
        if again:
            notes.append(counted("images listed twice, used once", sorted(again), len(again)))

    def _label(self, key: bytes, named: bytes) -> int | Skipped | None:
        """The file with the labels of an image; why it cannot be read; or None without."""
        keys = label_keys(key)
        if named != key:
            keys = tuple(label for pair in zip(label_keys(named), keys, strict=True) for label in pair)
        for label in dict.fromkeys(keys):
            found = self._lookup.find(name_text(label))
            if isinstance(found, int):
                return found
            if self._files.skipped_at(label) is not None:
                return replace(found, key=label)
        return None

    # --- images

    def _of_split(self, split: str) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images of a split: name of each, a path relative to the root; its number, or why it has none."""
        if not split:
            yield from self._inside(b"")
            return
        for path in self._dataset.entries[split]:
            if self._elsewhere is not None:
                yield from self._elsewhere.of_entry(path)
                continue
            key = os.path.relpath(os.fsencode(path), self._files.root)
            file = self._files.find(key)
            if file >= 0 and names_image(key):
                yield key, file
            elif file >= 0:
                self._lists.add(file)
                yield from self._of_list(file)
            elif skipped := self._files.skipped_at(key):
                place = f"{self._dataset.place}, {split}"
                raise UsageError(place, f"{escape(key)}: {skipped.reason}", "put the images into the dataset's folder")
            else:
                yield from self._inside(key + b"/" if key != b"." else b"")

    def _inside(self, folder: bytes) -> Iterator[tuple[bytes, int | Skipped]]:
        """List the images in a folder and its subfolders, following links; unreadable folders become `Skipped`."""
        reached = [(folder, folder)]
        for name, target in self._files.aliases:
            link, listed = name + b"/", target + b"/" if target else b""
            if folder.startswith(link):
                reached.append((folder, listed + folder[len(link) :]))
            elif link.startswith(folder):
                reached.append((link, listed))
        for named, listed in reached:
            file = -1
            for key in self._files.inside(listed):
                if names_image(key):
                    file = self._files.find(key, file + 1)
                    yield named + key[len(listed) :], file
        for skipped in self._files.skipped:
            if skipped.key.startswith(folder) and not skipped.key.endswith(b".txt"):
                yield skipped.key, skipped

    def _of_list(self, file: int) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images in a list, one per line: relative to the root, to its folder, or to another machine's root."""
        key = self._files.key(file)
        folder = name_text(key.rpartition(b"/")[0])
        dropped = ""  # the beginning of paths of another machine, the same for all of them
        try:
            lines = read_lines(self._files.file(file))
        except RejectedError as error:
            raise UsageError(self._files.file(file).path, f"cannot be read: {error.reason}") from None
        for _, line in lines:
            text = name_text(line.strip()).replace("\\", "/")
            beside = f"{folder}/{text}" if folder and not text.startswith("/") else text
            forms = [beside, text] if text.startswith("./") else [name_text(line.strip()), text, beside]
            if dropped and text.startswith(dropped):
                forms.insert(0, text[len(dropped) :])
            named = next((form for form in forms if isinstance(self._lookup.find(form), int)), "")
            if not named and not dropped:
                named = next((end for end in path_ends(text) if isinstance(self._lookup.find(end), int)), "")
                dropped = text[: len(text) - len(named)] if named and text.endswith(named) else ""
            named = os.path.normpath(named or forms[0].lstrip("/"))
            image = self._lookup.find(named)
            if isinstance(image, int) and named.startswith("/"):
                yield self._files.key(image), image
            else:
                yield name_bytes(named), image
        if dropped:
            where = f"paths in {escape(key)} begin with {escape(dropped)}, which is not in the dataset's folder"
            self._found.note(f"{where}: the rest of each path is used")

    # --- labels

    def check_labels(self) -> None:
        """Raise UsageError if no image exists, or if a split has no label file; `test` may lack them beside others."""
        if not self._split_of:
            lost = list(self._found.ledger.rejected.values())
            if not lost:
                raise UsageError(self._files.root, "no image in it", "give the folder of images and labels")
            problem = f"all {len(lost)} images are missing, the first: {escape(lost[0].key)}: {lost[0].reason}"
            remedy = "check that the lists belong to this folder"
            if self._found.options.images is None:  # it may be an export without images
                remedy += f", or give the folder of the images: {argument('images', typed='DIR')}"
            raise UsageError(self._dataset.place, problem, remedy)
        first: dict[str, int] = {}
        for image, split in sorted(self._split_of.items()):
            first.setdefault(split, image)
        labelled = {self._split_of[image] for image in self._label_of}
        for split, image in first.items():
            if split == "test" and labelled and split not in labelled:
                self._found.note(f"no image of the split {split} has a label file")
            elif split not in labelled:
                raise self._no_labels(split, self._files.key(image))

    def _no_labels(self, split: str, key: bytes) -> UsageError:
        first, beside = label_keys(key)
        looked = " and ".join(repr(escape(path)) for path in dict.fromkeys([first, beside]))
        what = f"no image of the split {split}" if split else "no image"
        problem = f"{what} has a label file: looked for {looked} for the image '{escape(key)}'"
        name = b"/" + first.rpartition(b"/")[2]
        other = next((found for found in self._files if (b"/" + found).endswith(name)), None)
        there = f"there is '{escape(other)}': " if other is not None else ""
        remedy = f"{there}put them there; an empty .txt means that an image has no objects"
        return UsageError(self._files.root, problem, remedy)

    def read_labels(self) -> None:
        """Read the labels of all images, and report label files without an image."""
        shared = Counter(label for label in self._label_of.values() if isinstance(label, int))
        splits = self._splits()
        alike, without, index = list[bytes](), 0, -1
        for image in sorted(self._split_of):
            key, label = self._files.key(image), self._label_of.get(image)
            index = self._found.listing.find(key, index + 1)
            number = self._found.file(index, split=splits.get(image))
            if label is None:
                without += 1
            elif isinstance(label, Skipped):
                reason = f"its labels, {escape(label.key)}: {label.reason}"
                self._found.reject(number, RejectCode(label.code), reason)
            else:
                self._read(number, label)
                alike += [key] if shared[label] > 1 else []
        if without:
            self._found.note(f"images without a label file, treated as images without objects: {without}")
        if alike:
            self._found.note(counted("images that share a label file", alike, len(alike)))
        self._list_lost()

    def _read(self, image: int, label: int) -> None:
        path = name_text(self._files.file(label).path)
        try:
            lines = read_lines(self._files.file(label))
        except RejectedError as error:
            reason = f"its labels, {escape(self._files.key(label))}: {error.reason}"
            self._found.reject(image, error.code, reason)
            return
        for n, text in lines:
            try:
                line = self._lines.read(text, (path, n))
            except BadAnnotationError as error:
                self._found.leave_out(image, error.code, f"line {n}: {error.reason}")
                continue
            if line.is_unclear:
                self._unclear.append((image, n, line))
            else:
                self._add(image, n, line)

    def _add(self, image: int, n: int, line: LabelLine) -> None:
        outline = [line.outline] if line.outline else None
        points = {ROTATED.word: line.outline} if self._rotated else line.points
        self._found.object(image, n, line.box, line.label, points=points, outline=outline)

    def add_unclear(self) -> None:
        """Add the lines that are outlines, or boxes and more, as all lines together show."""
        for image, n, line in self._unclear:
            self._add(image, n, line.as_box() if self._lines.are_boxes else line)

    def _list_lost(self) -> None:
        """List the lines of images that are missing, and of files that are of no image, in folders of labels."""
        labels = {label for label in self._label_of.values() if isinstance(label, int)}
        folders = {self._files.key(label).rpartition(b"/")[0] for label in labels}
        known: set[bytes] | None = None  # what labels of an image may be called
        others = {key: (label, AnnotationCode.IMAGE, "its image is missing") for key, label in self._lost.items()}
        for file, key in enumerate(self._files):
            folder, _, name = key.rpartition(b"/")
            if not name.endswith(b".txt") or file in labels or folder not in folders or name_text(name) in NAMES_FILES:
                continue
            if known is None:
                known = {label for image in self._files if names_image(image) for label in label_keys(image)}
            if key not in known and file not in self._lists and file not in self._lost.values():
                others[key] = file, AnnotationCode.ORPHAN, "this label file has no image"
        texts = list[bytes]()
        for key, (file, code, why) in others.items():
            try:
                lines = read_lines(self._files.file(file))
            except RejectedError:
                lines = []
            if code == AnnotationCode.ORPHAN and not any(looks_like_label(text) for _, text in lines):
                texts.append(key)
                continue
            for n, _ in lines:
                reason = f"line {n} of {escape(self._files.key(file))}: {why}"
                self._found.leave_out(name_text(key), code, reason)
        if texts:
            self._found.note(counted("text files next to the labels that are not labels", texts, len(texts)))

    def _splits(self) -> dict[int, str | None]:
        """Return the split of each image, from the dataset or its folders."""
        if self._dataset.entries:
            return dict(self._split_of)
        found = {image: _folder_split(self._files.key(image)) for image in sorted(self._split_of)}
        without, within = (next((i for i, s in found.items() if bool(s) == known), -1) for known in (False, True))
        if without >= 0 and within >= 0:
            keys = [escape(self._files.key(image)) for image in (within, without)]
            problem = f"'{keys[0]}' is in a split, but '{keys[1]}' is not"
            remedy = "list the folders of each split in a data.yaml: train, val, test"
            raise UsageError(self._files.root, problem, remedy)
        return found


def _folder_split(key: bytes) -> str | None:
    """The split that the folders of an image name: `train/images/a.jpg`, `images/train/a.jpg`."""
    parts = key.split(b"/")[:-1]
    if parts and parts[0].lower() in (b"images", b"data") and len(parts) > 1:
        parts = parts[1:]
    return usual_split(parts[0]) if parts else None

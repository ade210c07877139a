"""The images of a YOLO dataset, the split of each, and the file with its labels.

Labels are found by Ultralytics' rule: the last folder `images` of the path is `labels` there, and the name ends in
`.txt`. Else they lie beside the image.
"""

import os
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.yolo.dataset import NAMES_FILES, YoloDataset, ends, in_folder
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Choice
from shardfeed.converters.sources.files.walk import nothing_listed
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.source import Sample, Skipped
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, argument, escape, name_bytes, name_text
from shardfeed.text import counted, in_usual_order

_MOST_BYTES = 256_000_000  # of a list or a file of labels


def file_bytes(files: Listing, number: int) -> bytes:
    """What a listed file holds. Raises RejectedError where it cannot be read, or is not the one that was listed."""
    return read_image(Sample(files.key(number), files.file(number)), _MOST_BYTES)


def label_keys(named: bytes) -> tuple[bytes, bytes]:
    """Where the labels of an image lie: in the folder `labels`, and beside it."""
    stem = os.path.splitext(named)[0] + b".txt"
    head, found, tail = (b"/" + stem).rpartition(b"/images/")
    return ((head + b"/labels/" + tail)[1:] if found else stem), stem


class YoloImages:
    """What `dataset` says of the files in its folder, `files`.

    images: int64, numbers of the images in `files`, increasing. labels: int64, the file with the labels of each, -1
    without. splits: of each, where there are splits. rejected: images that are not there, or whose labels cannot be
    read. lost: (key of an image that is not there, its file of labels). orphans: files of labels without an image.

    Raises UsageError where there is no image, or no image of a split has labels.
    """

    def __init__(self, files: Listing, dataset: YoloDataset, options: AnnotationOptions) -> None:
        if not len(files):
            raise nothing_listed(files)
        self.files, self.dataset = files, dataset
        self.notes: list[str] = [*files.notes, *dataset.notes]
        self.lost: list[tuple[bytes, int]] = []
        self._lookup = PathLookup(files)
        self._choice = Choice.of(options.include, options.exclude)
        self._rejected: dict[bytes, Skipped] = {}
        self._unread: set[int] = set()  # splits of which a file of labels is there and cannot be read
        self._lacking = False
        self._lists: set[int] = set()  # numbers of the files that list images
        self._split_of = np.full(len(files), -1, np.int8)
        self._label_of = np.full(len(files), -1, np.int64)
        self._names = in_usual_order(dataset.entries) or [""]
        self._find_all()
        self._check_labels()
        self.images = np.flatnonzero(self._split_of >= 0)
        self.labels = self._label_of[self.images]
        self.splits = self._splits(options)
        self.orphans = self._find_orphans()
        taken = set(map(files.key, self.images.tolist()))
        self.rejected = [one for key, one in sorted(self._rejected.items()) if key not in taken]

    # --- images

    def _find_all(self) -> None:
        twice: list[bytes] = []
        elsewhere: list[bytes] = []  # images in a split, named by another one
        counts, doubled = np.zeros(len(self._names), np.int64), np.zeros(len(self._names), np.int64)
        unwanted = 0
        for number, split in enumerate(self._names):
            for named, found in self._of_split(split):
                key = found.key if isinstance(found, Skipped) else self.files.key(found)
                if not self._choice.wants(key):
                    unwanted += 1
                elif isinstance(found, Skipped):
                    self._reject(found, named)
                elif (before := self._split_of[found]) == number:
                    if self._label_of[found] < 0:
                        self._take(found, named, number)  # by another name it may have labels
                    twice += [key] if self.dataset.entries else []
                elif before >= 0:
                    elsewhere.append(key)
                    doubled[number] += 1
                else:
                    counts[number] += 1
                    self._take(found, named, number)
        for number, split in enumerate(self._names):
            if doubled[number] and not counts[number]:
                problem = f"all {doubled[number]} images of {split} are in another split, too, and an image has one"
                raise UsageError(self.dataset.place, problem, f"leave {split} out, or name other images")
            if split and not counts[number] and not (split == "test" and self._lacking):
                self.notes.append(f"the split {split} has no image")
        if not (self._split_of >= 0).any():
            raise self._no_image(unwanted)
        if unwanted:
            self.notes.append(f"images left out by include and exclude: {unwanted}")
        self.notes += self._choice.unused()
        if twice:
            self.notes.append(counted("images that are named twice, taken once", sorted(twice), len(twice)))
        if elsewhere:
            what = "images in more than one split, taken for the first in the order train, validation, test"
            self.notes.append(counted(what, sorted(elsewhere), len(elsewhere)))
        if self.dataset.entries:
            untaken = (self.files.key(number) for number in np.flatnonzero(self._split_of < 0).tolist())
            rest = [k for k in untaken if names_image(k) and k not in self._rejected and self._choice.wants(k)]
            if rest:
                self.notes.append(counted("images of no split, which are not taken", rest, len(rest)))

    def _no_image(self, unwanted: int) -> UsageError:
        if unwanted:
            problem = f"no image that is wanted in it ({unwanted} left out)"
            return UsageError(self.files.root, problem, "change include or exclude")
        if self._rejected:
            first = self._rejected[min(self._rejected)]
            problem = f"none of {len(self._rejected)} images is there, the first: {escape(first.key)}: {first.reason}"
            return UsageError(self.dataset.place, problem, "check that the lists belong to this folder")
        return UsageError(self.files.root, "no image in it", "give the folder that holds images and labels")

    def _reject(self, found: Skipped, named: bytes) -> None:
        """An image that is not there: its labels are lost with it."""
        if found.key in self._rejected:
            return
        self._rejected[found.key] = found
        for key in dict.fromkeys(label_keys(named)):
            label = self._lookup.find(name_text(key))
            if isinstance(label, int):
                self.lost.append((found.key, label))
                return

    def _take(self, image: int, named: bytes, split: int) -> None:
        """An image and the file with its labels; rejected where that one is there and cannot be read."""
        keys = list(zip(label_keys(named), label_keys(self.files.key(image)), strict=True))
        for key in dict.fromkeys([*keys[0], *keys[1]]):
            label = self._lookup.find(name_text(key))
            if isinstance(label, int):
                self._label_of[image] = label
                break
            skipped = self.files.skipped_at(key)
            if skipped is not None:
                reason = f"its labels, {escape(key)}: {skipped.reason}"
                self._rejected[self.files.key(image)] = Skipped(self.files.key(image), skipped.code, reason)
                self._unread.add(split)
                return
        self._split_of[image] = split

    def _of_split(self, split: str) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images of a split: how each is named, a path relative to the root; its number, or why there is none."""
        if not split:
            yield from self._inside(b"")
            return
        for entry in self.dataset.entries[split]:
            found = in_folder(self.dataset.root, entry)
            if found is None:
                if split != "test":
                    raise self._nowhere(split, entry)
                self._lacking = True  # many exports name one that they do not have
                self.notes.append(f"test: {escape(entry)} is not there")
                continue
            written = os.path.join(self.dataset.root, entry)
            if not os.path.exists(written) and os.path.normpath(entry).lstrip("./") != found:
                self.notes.append(f"{split}: {escape(entry)} is not there, {escape(found)} is taken")
            key = b"" if found == "." else name_bytes(found)
            number = self.files.find(key)
            if number >= 0 and not names_image(key):
                self._lists.add(number)
                yield from self._of_list(number)
            elif number >= 0:
                yield key, number
            else:
                yield from self._in_folder(split, key)

    def _nowhere(self, split: str, entry: str) -> UsageError:
        problem = f"{entry!r} is not in {self.dataset.root!r}"
        remedy = f"correct it, or give the folder that holds images and labels: {argument('images', typed='DIR')}"
        return UsageError(f"{self.dataset.place}, {split}", problem, remedy)

    def _in_folder(self, split: str, key: bytes) -> Iterator[tuple[bytes, int | Skipped]]:
        skipped = self.files.skipped_at(key)
        if skipped is not None:
            place = f"{self.dataset.place}, {split}"
            raise UsageError(place, f"{escape(key)}: {skipped.reason}", "put the images into the dataset's folder")
        yield from self._inside(key + b"/" if key else b"")

    def _inside(self, folder: bytes) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images in a folder and its folders, also where links lead; what cannot be listed as Skipped."""
        for named, listed in self._reached(folder):
            number = -1
            for key in self.files.inside(listed):
                if names_image(key):
                    number = self.files.find(key, number + 1)
                    yield named + key[len(listed) :], number
        for skipped in self.files.skipped:
            if skipped.key.startswith(folder) and not skipped.key.endswith(b".txt"):
                yield skipped.key, skipped

    def _reached(self, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A folder as it is named and as it is listed: itself, and those to which links above it or in it lead."""
        yield folder, folder
        for name, target in self.files.aliases:
            link, listed = name + b"/", target + b"/" if target else b""
            if folder.startswith(link):
                yield folder, listed + folder[len(link) :]
            elif link.startswith(folder):
                yield link, listed

    def _of_list(self, number: int) -> Iterator[tuple[bytes, int | Skipped]]:
        """The images that a list names, one a line."""
        list_key = self.files.key(number)
        try:
            data = file_bytes(self.files, number)
        except RejectedError as error:
            raise UsageError(self.files.root + b"/" + list_key, f"cannot be read: {error.reason}") from None
        folder = list_key.rpartition(b"/")[0]
        ways = _Ways(self._lookup, name_text(folder))
        for line in budget().lines(data.removeprefix(b"\xef\xbb\xbf"), name_text(self.files.root + b"/" + list_key)):
            text = name_text(line.strip())
            if text:
                yield ways.find(text)
        if ways.dropped:
            self.notes.append(
                f"paths in {escape(list_key)} begin with {escape(ways.dropped)}, which is not here: "
                "they are taken from the dataset's folder"
            )

    # --- labels

    def _check_labels(self) -> None:
        """Raises UsageError where no image of a split but the test split has a file of labels."""
        for number, split in enumerate(self._names):
            images = np.flatnonzero(self._split_of == number)
            if not len(images) or number in self._unread or (self._label_of[images] >= 0).any():
                continue
            if split == "test" and (self._label_of >= 0).any():
                self.notes.append(f"no image of the split {split} has a file of labels")
                continue
            self._no_labels(split, self.files.key(images.item(0)))

    def _no_labels(self, split: str, key: bytes) -> NoReturn:
        first, beside = label_keys(key)
        looked = " and ".join(repr(escape(path)) for path in dict.fromkeys([first, beside]))
        what = f"no image of the split {split}" if split else "no image"
        problem = f"{what} has a file of labels: looked for {looked} for the image '{escape(key)}'"
        name = b"/" + first.rpartition(b"/")[2]
        other = next((found for found in self.files if (b"/" + found).endswith(name)), None)
        remedy = "put them there; an empty .txt says that an image has no object"
        if other is not None:
            remedy = f"there is '{escape(other)}': {remedy}"
        raise UsageError(self.files.root, problem, remedy)

    def _find_orphans(self) -> list[int]:
        """Files of labels that belong to no image of the folder, in folders where others do."""
        wanted = {label for label in self.labels.tolist() if label >= 0}
        folders = {self.files.key(label).rpartition(b"/")[0] for label in wanted}
        known = {key for image in self.files if names_image(image) for key in label_keys(image)}
        lost = {label for _, label in self.lost}
        found = []
        for number, key in enumerate(self.files):
            folder, _, name = key.rpartition(b"/")
            if not name.endswith(b".txt") or folder not in folders or key in known:
                continue
            if number not in wanted | lost | self._lists and name_text(name) not in NAMES_FILES:
                found.append(number)
        return found

    # --- splits

    def _splits(self, options: AnnotationOptions) -> Splits | None:
        """Of the images: those that the dataset says, or its folders, or the user."""
        if self.dataset.entries:
            return Splits.of([self._names[number] for number in self._split_of[self.images].tolist()])
        found = [_folder_split(self.files.key(number)) for number in self.images.tolist()]
        if None not in found:
            return Splits.of(found)
        if any(found):
            one, other = (found.index(None), next(i for i, split in enumerate(found) if split))
            keys = [escape(self.files.key(self.images.item(i))) for i in (one, other)]
            problem = f"'{keys[1]}' is in a split, and '{keys[0]}' is in none"
            raise UsageError(
                self.files.root, problem, "name the folders of each split in a data.yaml: train, val, test"
            )
        if options.split is not None:
            return Splits.of([options.split] * len(self.images))
        return None


class _Ways:
    """How the paths of one list lead to files: from the root, from the list's folder, or from another machine's.

    `dropped`: the beginning of the paths that was left out, the same for all of them.
    """

    def __init__(self, lookup: PathLookup, folder: str) -> None:
        self._lookup, self._folder = lookup, folder
        self.dropped = ""

    def find(self, text: str) -> tuple[bytes, int | Skipped]:
        """The path relative to the root, and the number of the file; or why there is none."""
        plain = text.replace("\\", "/")
        beside = f"{self._folder}/{plain}" if self._folder and not plain.startswith("/") else plain
        forms = [beside, plain, text] if plain.startswith("./") else [text, plain, beside]
        if self.dropped and plain.startswith(self.dropped):
            forms.insert(0, plain[len(self.dropped) :])
        for form in dict.fromkeys(forms):
            found = self._find(form)
            if isinstance(found, int):
                named = os.path.normpath(form)  # as it is written, since it may lead over a link
                return self._lookup.listing.key(found) if named.startswith("/") else name_bytes(named), found
        for end in ends(plain) if not self.dropped else ():
            found = self._find(end)
            if isinstance(found, int):
                self.dropped = plain[: len(plain) - len(end)] if plain.endswith(end) else ""
                return name_bytes(end), found
        named = os.path.normpath(forms[0]).lstrip("/")
        found = self._find(named)
        return named.encode("utf-8", "replace"), found

    def _find(self, text: str) -> int | Skipped:
        try:
            return self._lookup.find(text)
        except UnicodeEncodeError:  # half of a surrogate pair, which no file name has
            return Skipped(text.encode("utf-8", "replace"), RejectCode.MISSING.value, "no such file")


def _folder_split(key: bytes) -> str | None:
    """The split that the folders of an image name: `train/images/a.jpg`, `images/train/a.jpg`."""
    parts = key.split(b"/")[:-1]
    if parts and parts[0].lower() in (b"images", b"data") and len(parts) > 1:
        parts = parts[1:]
    return usual_split(parts[0]) if parts else None

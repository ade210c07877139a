"""Noises: what downloads, systems and people leave beside the data or do to its names, with the truth after each."""

import io
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from layout_generator import Case, Fact, mask, number_of, picture, regions
from pictures import image_bytes

_MORE = 60  # the number of the first image that a noise adds


def number_in(image: bytes) -> int | None:
    """The number of an image in a file; None for a mask, or for what is none."""
    try:
        return number_of(Image.open(io.BytesIO(image)))
    except UnidentifiedImageError:
        return None


@dataclass
class Source:
    """A case while noise is added to it.

    `links`: path -> the path that it is a link to, and whether it is a hard one. `folders`: empty ones. `beside`: what
    the report must name, if it does not use it. `added`: images that may be stored, or not -> the classes and splits
    that are then true of each.
    """

    of: Case
    files: dict[str, bytes]
    links: dict[str, tuple[str, bool]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    added: dict[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)

    @property
    def home(self) -> str:
        """The folder that has the images, by the command; "" for none."""
        command = self.of.command
        if not any(path == command[1] for path in self.files):
            return command[1]
        if "--images" in command:
            return command[command.index("--images") + 1]
        return os.path.dirname(command[1])

    @property
    def is_folder(self) -> bool:
        """Whether the command names only a folder, so that its files may move together."""
        return self.of.command == ("convert", self.home, "out") and not any(
            path.endswith((".csv", ".tsv", ".jsonl", ".parquet")) for path in self.inside()
        )

    def inside(self) -> list[str]:
        return [path for path in self.files if path.startswith(self.home + "/")]

    @property
    def is_whole(self) -> bool:
        """Whether the command names no file, so that all in its folder is meant."""
        return self.home == self.of.command[1] and "--labels" not in self.of.command

    @property
    def has_splits(self) -> bool:
        return any(fact.role == "split" for fact in self.of.facts)

    def pictures(self) -> list[str]:
        """The files of the case's images, without copies that noise added."""
        found: dict[int | None, str] = {}
        for path in self.inside():
            if path.lower().endswith(".png") and "/." not in path:
                found.setdefault(number_in(self.files[path]), path)
        return [path for number, path in found.items() if number in self.of.images | self.of.twins - self.added.keys()]

    def add(self, path: str, content: bytes) -> None:
        self.files[f"{self.home}/{path}" if self.home else path] = content

    def names(self, name: str) -> None:
        """Require the report to name what is in `name`."""
        self.must_name(Fact("other", name, {number: frozenset({f"in {name}"}) for number in self.of.images}))

    def must_name(self, fact: Fact) -> None:
        """Require a fact to be stored or named in the report, if the command means all that is there."""
        self.unsure()
        if self.is_whole:
            self.of = replace(self.of, facts=(*self.of.facts, fact))
            self.beside.add(fact.name)

    def unsure(self) -> None:
        self.of = replace(self.of, sure=False)

    def adds(self, added: Mapping[int, tuple[frozenset[str], frozenset[str]]]) -> None:
        """Images that may be stored, or not."""
        self.added |= added
        self.of = replace(self.of, twins=self.of.twins | added.keys(), sure=False)

    def move(self, to: Callable[[str], str]) -> None:
        """Give files of the folder new names, below it."""
        start = len(self.home) + 1
        inside = {path: f"{self.home}/{to(path[start:])}" for path in self.inside()}
        self.files = {inside.get(path, path): content for path, content in self.files.items()}

    def copy(self) -> "Source":
        parts = {name: getattr(self, name).copy() for name in ("files", "links", "folders", "beside", "added")}
        return replace(self, **parts)

    def write(self, root: Path) -> None:
        replace(self.of, files=self.files).write(root)
        for folder in self.folders:
            (root / self.home / folder).mkdir(parents=True, exist_ok=True)
        for path, (target, hard) in self.links.items():
            (root / target).parent.mkdir(parents=True, exist_ok=True)
            os.replace(root / path, root / target)
            (os.link if hard else os.symlink)(root / target, root / path)


class Noise(NamedTuple):
    """`add` returns False where it does not apply. `plain`: a person sees that it is no data."""

    add: Callable[[random.Random, Source], bool]
    plain: bool = False


# --- files that are no data -------------------------------------------------------------------------------------------

_JUNK = {
    "notes": ("notes.txt", b"taken in May, cleaned twice\n"),
    "README": ("README.md", b"# About\nImages of things.\n"),
    "README.txt": ("README.txt", b"Images of things.\n"),
    "LICENSE": ("LICENSE", b"MIT\n"),
    "DS_Store": (".DS_Store", b"\0\0\0\1Bud1" + bytes(40)),
    "Thumbs.db": ("Thumbs.db", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)),
    "desktop.ini": ("desktop.ini", b"[.ShellClassInfo]\r\n"),
    "program": ("load_data.py", b"import os\nprint(os.listdir('.'))\n"),
    "notebook": (".ipynb_checkpoints/look-checkpoint.ipynb", b'{"cells": [], "nbformat": 4, "nbformat_minor": 2}'),
    "MACOSX": ("__MACOSX/._photo.png", b"\0\x05\x16\x07\0\2\0\0Mac OS X" + bytes(60)),
    "resource fork": ("._photo.png", b"\0\x05\x16\x07\0\2\0\0Mac OS X" + bytes(60)),
    "git": (".git/config", b"[core]\n\tbare = false\n"),
    "checksums": ("checksums.md5", b"d41d8cd98f00b204e9800998ecf8427e  data.zip\n"),
    "paper": ("paper.pdf", b"%PDF-1.4\n" + bytes(60)),
    "empty file": (".keep", b""),
}


def _junk(name: str) -> Noise:
    path, content = _JUNK[name]

    def add(rng: random.Random, source: Source) -> bool:
        deep = sorted({os.path.dirname(one)[len(source.home) + 1 :] for one in source.pictures()} - {""})
        below = f"{rng.choice(deep)}/" if deep and rng.random() < 0.2 else ""
        source.add(below + path, content)
        return True

    return Noise(add, plain=True)


def _archive(rng: random.Random, source: Source) -> bool:
    """The archive that was downloaded, in the folder that was unpacked from it."""
    if not source.is_folder or not source.pictures():
        return False
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for path in source.inside():
            name = os.fsencode(path[len(source.home) + 1 :]).decode("latin-1")
            made.writestr(zipfile.ZipInfo(name), source.files[path])  # without today's date
    source.add(rng.choice((f"{source.home}.zip", "archive.zip", "download.zip")), out.getvalue())
    return True


def _empty_folder(rng: random.Random, source: Source) -> bool:
    source.folders.add(rng.choice(("tmp", "new folder", "backup")))
    return True


def _hidden_images(rng: random.Random, source: Source) -> bool:
    source.add(".cache/000.png", picture(min(source.of.images)))
    return True


# --- files that may be data -------------------------------------------------------------------------------------------


def _array(rng: random.Random, source: Source) -> bool:
    name = f"{rng.choice(('features', 'embeddings', 'imagelabels', 'setid'))}.{rng.choice(('npy', 'npz', 'mat'))}"
    out, count = io.BytesIO(), len(source.of.images)
    numbers = np.arange(count) % 2 if name.startswith(("imagel", "setid")) else np.zeros((count, 4), np.float32)
    if name.endswith("npy"):
        np.save(out, numbers)
    elif name.endswith("npz"):
        np.savez(out, values=numbers)
    else:
        import scipy.io

        scipy.io.savemat(out, {"values": numbers})
    content = out.getvalue()
    source.add(name, b"MATLAB 5.0 MAT-file".ljust(116) + content[116:] if name.endswith("mat") else content)  # no date
    source.names(name)
    return True


def _split_file(rng: random.Random, source: Source) -> bool:
    """One split more, in a table of its own, whose images are beside."""
    name = rng.choice(("test.csv", "test_labels.csv", "sample_submission.csv"))
    numbers = range(_MORE, _MORE + 3)
    folder = rng.choice(("", "test/"))
    for number in numbers:
        source.add(f"{folder}{number:03}.png", picture(number))
    of = {number: "cat" if number % 2 else "dog" for number in numbers}
    source.add(name, "".join(["path,label\n", *(f"{folder}{n:03}.png,{label}\n" for n, label in of.items())]).encode())
    splits = frozenset({"test"} if folder or source.has_splits else {"test", "train"})
    source.adds({number: (frozenset({label}), splits) for number, label in of.items()})
    source.names(name)
    return True


def _split_list(rng: random.Random, source: Source) -> bool:
    name, split = rng.choice(
        (
            ("train.txt", "train"),
            ("test.txt", "test"),
            ("val_list.txt", "validation"),
            ("splits/trainval.txt", "trainval"),
        )
    )
    numbers = {path[len(source.home) + 1 :]: number_in(source.files[path]) for path in source.pictures()}
    listed = [path for path, number in numbers.items() if number in source.of.images][::2]
    source.add(name, os.fsencode("".join(f"{path}\n" for path in listed)))
    inside, others = {numbers[path] for path in listed}, frozenset({"train", "test", "validation"}) - {split}
    of = {number: frozenset({split}) if number in inside else others for number in source.of.images}
    source.must_name(Fact("split", os.path.basename(name), of))
    return bool(listed)


def _unreadable_labels(rng: random.Random, source: Source) -> bool:
    name, content = rng.choice(
        (
            ("labels.xlsx", b"PK\x03\x04" + bytes(60)),
            ("labels.pkl", b"\x80\x04\x95" + bytes(60)),
            ("annotations.bin", bytes(range(60))),
            ("gt.dat", bytes(range(60))),
        )
    )
    source.add(name, content)
    source.names(name)
    return True


def _second_table(rng: random.Random, source: Source) -> bool:
    name, column, values = rng.choice(
        (
            ("attributes.csv", "price", ("1.5", "2.5")),
            ("patients.csv", "patient", ("P1", "P2")),
            ("labels2.csv", "label", ("one", "two")),
        )
    )
    paths = [path[len(source.home) + 1 :] for path in source.pictures()]
    rows = "".join(f"{path},{values[i % 2]}\n" for i, path in enumerate(paths))
    source.add(name, os.fsencode(f"path,{column}\n{rows}"))
    source.names(name)
    return bool(paths)


def _masks(rng: random.Random, source: Source) -> bool:
    """A mask for each image, in the same folders below another one."""
    folder = rng.choice(("masks", "segmentations", "annotations"))
    numbers = {path: number_in(source.files[path]) or 0 for path in source.pictures()}
    for path, number in numbers.items():
        source.add(f"{folder}/{path[len(source.home) + 1 :]}", image_bytes(mask(number), "PNG"))
    source.must_name(Fact("raster", folder, {number: regions(mask(number)) for number in numbers.values()}))
    return "masks" not in source.of.kind and bool(numbers)


def _thumbnails(rng: random.Random, source: Source) -> bool:
    folder = rng.choice(("thumbnails", "thumbs", "previews"))
    for path in source.pictures():
        small = io.BytesIO()
        Image.open(io.BytesIO(source.files[path])).resize((4, 3)).save(small, "PNG")
        source.add(f"{folder}/{path[len(source.home) + 1 :]}", small.getvalue())
    source.names(folder)
    return bool(source.pictures())


def _extra(rng: random.Random, source: Source) -> bool:
    """A folder with images of another kind: a class, no class, or none of the data; included or named."""
    folder = rng.choice(("extra", "misc", "unlabelled", "background"))
    numbers = range(_MORE + 10, _MORE + 13)
    for number in numbers:
        source.add(f"{folder}/{number:03}.png", picture(number))
    splits = frozenset({folder} if source.has_splits else {"train", folder})
    source.adds({number: (frozenset({folder}), splits) for number in numbers})
    return True


def _classes_txt(rng: random.Random, source: Source) -> bool:
    if source.of.kind != "folders: classes":
        return False
    names = sorted(
        {text for fact in source.of.facts if fact.role == "class" for one in fact.of.values() for text in one}
    )
    source.add("classes.txt", "".join(f"{name}\n" for name in names).encode())
    return True


# --- other names and places -------------------------------------------------------------------------------------------


def _wrapped(rng: random.Random, source: Source) -> bool:
    """An only folder around all, one to three deep."""
    if not source.is_folder:
        return False
    around = "/".join(
        rng.sample(("dataset", "flower_data", "v1.0", "archive", "export-2024", "my photos"), rng.randint(1, 3))
    )
    source.move(lambda path: f"{around}/{path}")
    source.unsure()
    return True


def _split_word_around(rng: random.Random, source: Source) -> bool:
    """An only folder around all, with a split's word in its name."""
    if not source.is_folder:
        return False
    around, split = rng.choice(
        (
            ("rps-test-set", "test"),
            ("valid_64x64", "validation"),
            ("train_images", "train"),
            ("my-train", "train"),
            ("test", "test"),
        )
    )
    source.move(lambda path: f"{around}/{path}")
    source.must_name(Fact("split", around, {number: frozenset({"train", split}) for number in source.of.images}))
    return True


def _unequal_depth(rng: random.Random, source: Source) -> bool:
    if source.of.kind != "folders: classes":
        return False
    deep = rng.choice(source.pictures()).rpartition("/")[0][len(source.home) + 1 :]
    below = iter(("morning", "evening") * 20)
    source.move(
        lambda path: path.replace(f"{deep}/", f"{deep}/{next(below)}/") if path.startswith(f"{deep}/") else path
    )
    source.unsure()
    return True


def _encoded_names(rng: random.Random, source: Source) -> bool:
    """Names of images in bytes that are no UTF-8, the same for all files that belong together."""
    if not source.of.kind.startswith("folders") or "per sample" in source.of.kind or "flat" in source.of.kind:
        return False
    if any(path.endswith((".json", ".csv")) for path in source.inside()):
        return False
    added = rng.choice(("猫".encode("gbk"), "é".encode("latin-1"), "ネコ".encode("shift-jis")))
    text = os.fsdecode(added)
    numbered = {Path(path).stem for path in source.pictures()}
    source.move(lambda path: str(Path(path).with_stem(text + Path(path).stem)) if Path(path).stem in numbered else path)
    source.unsure()
    return True


def _class_like_a_word(rng: random.Random, source: Source) -> bool:
    """A class that is called like a split, or by a word that says nothing."""
    if source.of.kind != "folders: classes":
        return False
    fact = next(fact for fact in source.of.facts if fact.role == "class")
    old, new = fact.name, rng.choice(("train", "test", "images", "no_label", "unlabeled", "clean", "final", "data"))
    source.move(lambda path: "/".join(new if part == old else part for part in path.split("/")))
    said = frozenset() if new in ("no_label", "unlabeled") else frozenset({new})
    now = {number: said if one == {old} else one for number, one in fact.of.items()}
    facts = tuple(Fact("class", new, now) if one is fact else one for one in source.of.facts)
    source.of = replace(source.of, facts=facts, sure=False)
    return True


def _upper_case(rng: random.Random, source: Source) -> bool:
    if not source.is_folder or any(path.endswith(".json") for path in source.inside()):
        return False
    source.move(lambda path: path.removesuffix(".png") + ".PNG" if path.endswith(".png") else path)
    return True


def _linked(hard: bool) -> Callable[[random.Random, Source], bool]:
    def add(rng: random.Random, source: Source) -> bool:
        paths = source.pictures()
        source.links |= {path: (f"store/{i}.png", hard) for i, path in enumerate(paths[:: rng.choice((1, 2))])}
        if not hard:
            source.unsure()
        return bool(paths)

    return add


def _linked_folder(rng: random.Random, source: Source) -> bool:
    """One class is a link to a folder elsewhere."""
    if source.of.kind != "folders: classes":
        return False
    folder = os.path.dirname(rng.choice(source.pictures()))
    source.links[folder] = ("store/folder", False)
    source.unsure()
    return True


def _file_without_a_split(rng: random.Random, source: Source) -> bool:
    """The last split's file of records loses the split from its name."""
    if source.of.kind != "records: files of splits":
        return False
    fact = next(fact for fact in source.of.facts if fact.role == "split")
    last = source.of.names[-1]
    name = rng.choice(("extra", "part-1", "unsorted"))
    source.move(lambda path: name + Path(path).suffix if path.startswith(last) else path)
    split = max(fact.of.items())[1]
    of = {number: one | {name} if one == split else one for number, one in fact.of.items()}
    source.of = replace(source.of, facts=tuple(one._replace(of=of) if one is fact else one for one in source.of.facts))
    source.unsure()
    return True


def _empty_image(rng: random.Random, source: Source) -> bool:
    """A file of no bytes among the images."""
    paths = source.pictures()
    if not source.is_whole or not paths:
        return False
    source.add(f"{os.path.dirname(rng.choice(paths))}/zz.png"[len(source.home) + 1 :], b"")
    source.unsure()
    return True


NOISES: Mapping[str, Noise] = {
    **{name: _junk(name) for name in _JUNK},
    "archive": Noise(_archive, plain=True),
    "empty folder": Noise(_empty_folder, plain=True),
    "hidden images": Noise(_hidden_images, plain=True),
    "array": Noise(_array),
    "split file": Noise(_split_file),
    "split list": Noise(_split_list),
    "unreadable labels": Noise(_unreadable_labels),
    "second table": Noise(_second_table),
    "masks": Noise(_masks),
    "thumbnails": Noise(_thumbnails),
    "extra": Noise(_extra),
    "classes.txt": Noise(_classes_txt, plain=True),
    "wrapped": Noise(_wrapped),
    "split word around": Noise(_split_word_around),
    "unequal depth": Noise(_unequal_depth),
    "encoded names": Noise(_encoded_names),
    "class like a word": Noise(_class_like_a_word),
    "upper case": Noise(_upper_case, plain=True),
    "links: hard": Noise(_linked(hard=True), plain=True),
    "file without a split": Noise(_file_without_a_split),
    "empty image": Noise(_empty_image),
    "links: a folder": Noise(_linked_folder),
    "links: symbolic": Noise(_linked(hard=False)),
}
# One of these in each draw's first place, so that fifteen kinds of junk do not fill most draws; links are last.
JUNK = tuple(_JUNK)
FIRST = ("junk", *(name for name in NOISES if name not in _JUNK))

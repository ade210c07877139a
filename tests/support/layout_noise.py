"""Noise over drawn sources: what downloads, systems and people leave beside the data, with the truth after it.

`noisy(seed)` draws a case of layout_generator.py and one to four noises. A sweep types its command, then each command
and option that the message prints:

    python -m tests.support.layout_noise --draws 5000 --seed 0 [--kinds "folders: classes" ...] [--noises NAME ...]

RIGHT: the dataset is true, and what is not stored is named. ASKED: refused, and everything printed that can be typed as
it is gives a right dataset. REFUSED: refused in words alone. UNNAMED: true, but a file beside that may well be data is
neither used nor named. WRONG: other data, without a word, or a traceback. BAD ADVICE: what was printed, typed, gives
other data or another error; of several readers one is to be right. Noise that is plainly no data must not turn RIGHT
into anything else: then it is LOST.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from PIL import Image, UnidentifiedImageError

from shardfeed.converters import conversion
from shardfeed.schema import LABEL

from in_process import OwnEngine
from layout_advice import alone, ways
from layout_generator import KINDS, Case, Fact, case, mask, number_of, picture
from layout_judge import Stored, Typed, arrived, silent_facts, stored, typed, untrue
from pictures import image_bytes

VERDICTS = ("RIGHT", "ASKED", "REFUSED", "UNNAMED", "LOST", "WRONG", "BAD ADVICE")
_STEPS = 3  # messages one after the other, at most
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

    `links`: path -> the path that it is a link to, and whether it is a hard one. `folders`: empty ones. `beside`: names
    that the report must name, if it does not use them. `added`: images that may be stored, or not -> the classes and the
    splits that are then true of each.
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
        """What is in `name` must be stored or named in the report."""
        fact = Fact("other", name, {number: frozenset({f"in {name}"}) for number in self.of.images})
        self.of = replace(self.of, facts=(*self.of.facts, fact), sure=False)
        self.beside.add(name)

    def unsure(self) -> None:
        self.of = replace(self.of, sure=False)

    def adds(self, added: Mapping[int, tuple[frozenset[str], frozenset[str]]]) -> None:
        """Images that may be stored, or not."""
        self.added |= added
        self.of = replace(self.of, twins=self.of.twins | added.keys(), sure=False)

    def in_split(self, name: str, of: Mapping[int, frozenset[str]]) -> None:
        """A statement about splits, which must be used or named."""
        self.of = replace(self.of, facts=(*self.of.facts, Fact("split", name, of)), sure=False)
        self.beside.add(name)

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
            made.writestr(path[len(source.home) + 1 :], source.files[path])
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
    source.add(name, out.getvalue())
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
    splits = frozenset({"test"} if folder else {"test", "train"})
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
    source.add(name, "".join(f"{path}\n" for path in listed).encode())
    inside, others = {numbers[path] for path in listed}, frozenset({"train", "test", "validation"}) - {split}
    of = {number: frozenset({split}) if number in inside else others for number in source.of.images}
    source.in_split(os.path.basename(name), of)
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
    source.add(name, f"path,{column}\n{rows}".encode())
    source.names(name)
    return bool(paths)


def _masks(rng: random.Random, source: Source) -> bool:
    folder = rng.choice(("masks", "segmentations", "annotations"))
    for path in source.pictures():
        number = len(source.files)
        source.add(f"{folder}/{path[len(source.home) + 1 :]}", image_bytes(mask(number), "PNG"))
    source.names(folder)
    return "masks" not in source.of.kind and bool(source.pictures())


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
    splits = frozenset({"train", folder})
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
    source.in_split(around, {number: frozenset({"train", split}) for number in source.of.images})
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
    facts = tuple(replace_fact(one, fact, Fact("class", new, now)) for one in source.of.facts)
    source.of = replace(source.of, facts=facts, sure=False)
    return True


def replace_fact(one: Fact, old: Fact, new: Fact) -> Fact:
    return new if one is old else one


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
    "hard links": Noise(_linked(hard=True), plain=True),
    "symbolic links": Noise(_linked(hard=False)),
}
# One of these in each draw's first place, so that fifteen kinds of junk do not fill most draws; links are last.
_FIRST = ("junk", *(name for name in NOISES if name not in _JUNK))


class Noisy(NamedTuple):
    """A source with noise; `seed` draws it again."""

    seed: int
    source: Source
    noises: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def plain(self) -> bool:
        return all(NOISES[name].plain for name in self.noises)

    def __str__(self) -> str:
        return f"seed {self.seed}, {', '.join(self.noises)}; {replace(self.source.of, files=self.source.files)}"


def noisy(seed: int, kinds: Iterable[str] = KINDS, noises: Iterable[str] = NOISES) -> Noisy:
    """Draw the case of a seed among `kinds`, and one to four of `noises`."""
    kinds = tuple(kinds)
    of = case_of(seed, kinds)
    rng, source, allowed = random.Random(f"noise {seed}"), Source(of, dict(of.files)), [*noises]
    added: list[str] = []
    wanted = rng.choice((1, 1, 2, 2, 3, 4))
    for word in rng.sample(_FIRST, len(_FIRST)):
        name = rng.choice([*_JUNK]) if word == "junk" else word
        if len(added) < wanted and name in allowed and not (source.links and not NOISES[name].plain):
            before = source.copy()
            if NOISES[name].add(rng, source):
                added.append(name)
            else:
                source = before
            if source.links:
                break  # a link's file must not move
    return Noisy(seed, source, tuple(added), tuple(kinds))


def case_of(seed: int, kinds: Sequence[str]) -> Case:
    every = [*KINDS]
    kind = kinds[seed % len(kinds)]
    return case(seed // len(kinds) * len(every) + every.index(kind))


# --- what comes of it -------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """One of VERDICTS; `command`: what was typed last; `message`: what is wrong, or what was said."""

    name: str
    command: tuple[str, ...]
    message: str


@dataclass
class Judge:
    """Types commands in the empty folder `root`, which is the current one."""

    drawn: Noisy
    root: Path

    def verdict(self) -> Verdict:
        """Judge a source by its command, and by what is printed if that is refused."""
        self.drawn.source.write(self.root)
        command = self.of.command
        done = self._done(command)
        if isinstance(done, str):
            return Verdict("WRONG", command, done)
        if done.code == 0:
            return self._of_dataset(command, done)
        if bad := self._bad_advice(command, done.said, (done.said,)):
            return bad
        asked = bool(ways(self.of, command, done.said))
        return Verdict("ASKED" if asked else "REFUSED", command, done.said)

    @property
    def of(self) -> Case:
        return replace(self.drawn.source.of, files=self.drawn.source.files)

    def _done(self, command: tuple[str, ...]) -> Typed | str:
        """What a command did, into a new folder; or its traceback."""
        shutil.rmtree(self.root / "out", ignore_errors=True)
        try:
            return typed(command)
        except Exception as error:
            return f"a traceback: {error!r}"

    def _of_dataset(self, command: tuple[str, ...], done: Typed) -> Verdict:
        """The verdict of a dataset that was made by the first command."""
        of, found = self.of, stored(self.root / "out")
        silent = silent_facts(of, found, done)
        unused = [fact for fact in of.facts if fact.name in of.asked and not arrived(fact, found)]
        wrong = [*untrue(of, found, done), *self._wrong_additions(found)]
        wrong += [f"{fact.name} is asked for and not stored" for fact in unused]
        wrong += [f"{fact.name} is lost without a word" for fact in silent if fact.name not in self.drawn.source.beside]
        if wrong:
            return Verdict("WRONG", command, f"{'; '.join(wrong)}; notes: {done.report['notes']}")
        if silent:
            names = ", ".join(fact.name for fact in silent)
            return Verdict("UNNAMED", command, f"{names}; notes: {done.report['notes']}")
        return Verdict("RIGHT", command, str(done.report["notes"]))

    def _wrong_additions(self, found: Stored) -> list[str]:
        """Images that noise added, and that are stored as something that they are not."""
        wrong = []
        for number, (classes, splits) in self.drawn.source.added.items():
            record = found.records.get(number, {})
            if record.get(LABEL, classes) - classes:
                wrong.append(f"the added image {number} has the classes {sorted(record[LABEL])}")
            if record and found.splits[number] not in splits:
                wrong.append(f"the added image {number} is in {found.splits[number]}")
        return wrong[:2]

    def _bad_advice(self, command: tuple[str, ...], said: str, before: tuple[str, ...]) -> Verdict | None:
        """Type all that a message prints; the first that is bad. `before`: the messages up to here."""
        every = ways(self.of, command, said)
        readers = [way for way in every if len(way) > len(command) and way[len(command)] == "--reader"]
        for way in every:
            if way not in readers and (bad := self._bad_way(way, before, part=False)):
                return bad
        among = [self._bad_way(way, before, part=False) for way in readers]  # which one, the user is asked to choose
        if among and all(among):
            return among[0]
        for way in alone(command, said):
            if bad := self._bad_way(way, before, part=True):
                return bad
        return None

    def _bad_way(self, way: tuple[str, ...], before: tuple[str, ...], *, part: bool) -> Verdict | None:
        """`part`: the command has a part of the source, so that other images are missing."""
        chain = "\n  then: ".join(before)
        done = self._done(way)
        if isinstance(done, str):
            return Verdict("BAD ADVICE", way, f"{done}\n  after: {chain}")
        if done.code == 0:
            wrong = self._wrong_by_choice(way, done, part=part)
            return Verdict("BAD ADVICE", way, f"{'; '.join(wrong)}\n  after: {chain}") if wrong else None
        if done.said in before or len(before) == _STEPS or not ways(self.of, way, done.said):
            return Verdict("BAD ADVICE", way, f"error: {done.said}\n  after: {chain}")
        return self._bad_advice(way, done.said, (*before, done.said))

    def _wrong_by_choice(self, way: tuple[str, ...], done: Typed, *, part: bool) -> list[str]:
        """What is wrong with a dataset that was advised.

        A class that nobody could tell may be chosen, and `--unlabelled` leaves classes out.
        """
        found = stored(self.root / "out")
        wrong = untrue(self.of, found, done)
        if self.of.ambiguous or not any(fact.role == "class" for fact in self.of.facts):
            wrong = [one for one in wrong if "has the classes" not in one]
        if part:
            return [one for one in wrong if "are lost" not in one]
        left_out = {"class", "text", "number"} if "--unlabelled" in way else set[str]()
        chosen = [fact for fact in silent_facts(self.of, found, done) if fact.role not in left_out]
        silent = [fact for fact in chosen if fact.name not in self.drawn.source.beside]
        if not self.of.ambiguous:
            wrong += [f"{fact.role} {fact.name} is lost without a word" for fact in silent]
        return [*wrong, *self._wrong_additions(found)]


def verdict(drawn: Noisy, place: Path) -> Verdict:
    """The verdict of a source, judged in a new folder `place`, which then goes."""
    found = _judged_in(place, drawn)
    if drawn.plain and found.name in ("ASKED", "REFUSED", "BAD ADVICE"):
        bare = drawn._replace(
            source=Source(case_of(drawn.seed, drawn.kinds), dict(case_of(drawn.seed, drawn.kinds).files))
        )
        if _judged_in(place, bare).name == "RIGHT":
            return found._replace(name="LOST", message=f"{found.name}: {found.message}")
    return found


def _judged_in(place: Path, drawn: Noisy) -> Verdict:
    place.mkdir(parents=True)
    try:
        with contextlib.chdir(place):
            return Judge(drawn, place).verdict()
    finally:
        shutil.rmtree(place)


# --- the sweep --------------------------------------------------------------------------------------------------------


def sweep(
    seeds: Iterable[int], root: Path, kinds: Iterable[str] = KINDS, noises: Iterable[str] = NOISES
) -> Iterator[tuple[Noisy, Verdict]]:
    """Judge each seed in a folder of its own."""
    for seed in seeds:
        drawn = noisy(seed, [*kinds], [*noises])
        yield drawn, verdict(drawn, root / str(seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=KINDS, metavar="KIND")
    parser.add_argument("--noises", nargs="+", default=[*NOISES], choices=NOISES, metavar="NOISE")
    parser.add_argument("--verdicts", nargs="+", default=["UNNAMED", "LOST", "WRONG", "BAD ADVICE"], choices=VERDICTS)
    parser.add_argument("--json", type=Path, help="a file to add one line to for each draw")
    asked = parser.parse_args()
    counts = Counter[str]()
    one_process()
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as root:
        for drawn, found in sweep(range(asked.seed, asked.seed + asked.draws), Path(root), asked.kinds, asked.noises):
            counts[found.name] += 1
            line = {"seed": drawn.seed, "kind": drawn.source.of.kind, "noises": drawn.noises, **found._asdict()}
            if asked.json:
                with asked.json.open("a") as file:
                    file.write(json.dumps(line).replace(root, "ROOT") + "\n")
            if found.name in asked.verdicts:
                print(f"{found.name}: {drawn}\n  typed: {' '.join(found.command)}\n  -> {found.message}\n", flush=True)
    print(", ".join(f"{name} {counts[name]}" for name in VERDICTS))
    return int(bool(counts["WRONG"] or counts["BAD ADVICE"] or counts["LOST"]))


MEMORY = "/dev/shm"  # a conversion waits for the disk some thirty times


def one_process() -> None:
    """Shards are written in this process, by the function that a worker calls: starting one takes longer."""
    conversion.choose_engine = lambda workers, tries: OwnEngine(1)  # type: ignore[assignment]  # as conftest.py does


if __name__ == "__main__":
    sys.exit(main())

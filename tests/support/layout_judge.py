"""The outcome of a drawn source when its command is typed: the dataset that is stored, compared with the truth.

RIGHT: every fact of the source is in its record. NAMED: the report names what is not. ASKED: refused, and the message
names the place and an option; if somebody who knows the truth can type one of these options, it works. REFUSED: without
an option. WRONG: anything else, such as a class that no one said, or a caption that is gone without a word.
"""

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

import shardfeed
from shardfeed.annotations import CAPTION, OBJECT_LABEL
from shardfeed.schema import ENCODED, LABEL
from shardfeed.tools import cli

from layout_generator import SIZE, Case, Fact, number_of, regions, text_of

OUTCOMES = ("RIGHT", "NAMED", "ASKED", "REFUSED", "WRONG")
# Quick, and of no account here: what is stored is the source's file, as it is.
_QUICKLY = ("--workers", "1", "--shards", "1", "--check", "none", "--no-hash", "--json")


class Outcome(NamedTuple):
    """One of OUTCOMES; `why`: what is wrong, what is named, or the message."""

    name: str
    why: str


class Typed(NamedTuple):
    """The exit code, what was printed, and the report as JSON."""

    code: int
    said: str
    report: Mapping[str, Any]


class Stored(NamedTuple):
    """A dataset by the numbers of its images: their records, with names of classes, and their splits.

    `several`: numbers of images that have more than one record. `strange`: records of other images, such as masks.
    """

    records: Mapping[int, Mapping[str, frozenset[str]]]
    splits: Mapping[int, str]
    several: frozenset[int]
    strange: int


def typed(arguments: Iterable[str]) -> Typed:
    """Run a command in this process; an exception is not caught."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*arguments, *_QUICKLY])
    report = json.loads(out.getvalue().splitlines()[-1]) if code == 0 else {}
    return Typed(code, err.getvalue(), report)


def stored(out: Path) -> Stored:
    """Read a dataset: each feature as texts, and pictures beside the image as the regions of a mask."""
    records: dict[int, dict[str, frozenset[str]]] = {}
    splits: dict[int, str] = {}
    several, strange = set(), 0
    for name, split in shardfeed.open(out).items():
        names = split.schema.class_names
        for record in split:
            number = number_of(Image.open(io.BytesIO(record[ENCODED])))  # type: ignore[arg-type]  # encoded bytes
            if number is None:
                strange += 1
                continue
            several |= {number} & records.keys()
            records[number] = {key: _texts(value, names.get(key)) for key, value in record.items() if key != ENCODED}
            if OBJECT_LABEL in record:
                records[number]["objects"] = _objects(record, names.get(OBJECT_LABEL, ()))
            splits[number] = name
    return Stored(records, splits, frozenset(several), strange)


def _texts(value: Any, names: tuple[str, ...] | None) -> frozenset[str]:
    values = [value] if isinstance(value, bytes | int | float) else list(value)
    if values and isinstance(values[0], bytes) and values[0][:4] == b"\x89PNG":
        return regions(Image.open(io.BytesIO(values[0])))
    if names:
        return frozenset(text_of(names[int(one)]) for one in values)
    return frozenset(text_of(one) for one in values)


def _objects(record: Mapping[str, Any], names: tuple[str, ...]) -> frozenset[str]:
    """Class and box of each object, in whole pixels."""
    sides = [record[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    boxes = zip(*sides, strict=True)
    found = []
    for label, box in zip(record[OBJECT_LABEL], boxes, strict=True):
        pixels = [round(float(at) * SIZE[i % 2]) for i, at in enumerate(box)]
        found.append(f"{names[int(label)]} {' '.join(map(str, pixels))}")
    return frozenset(found)


def outcome(drawn: Case, root: Path) -> Outcome:
    """Convert a case in the empty folder `root`, which is the current one, and judge what comes of it."""
    drawn.write(root)
    try:
        first = typed(drawn.command)
        if first.code == 0:
            return judged(drawn, stored(root / "out"), first)
        if drawn.sure:
            return Outcome("WRONG", f"refused without need: {first.said}")
        return _advised(drawn, root, first)
    except Exception as error:
        return Outcome("WRONG", f"a traceback: {error!r}")


def _places(drawn: Case) -> list[str]:
    """Names that a message may name: of columns, folders and files."""
    return [*(fact.name for fact in drawn.facts), *drawn.names]


def _advised(drawn: Case, root: Path, first: Typed) -> Outcome:
    """Type what the message advises, if somebody who knows the truth can; also a folder that is to be given alone."""
    source, rest = drawn.command[1], drawn.command[2:]
    if any(options[0] in first.said for options in drawn.then) and (wrong := _follow(drawn, root, first)):
        return Outcome("WRONG", f"{first.said}{wrong}")
    folders = {str(path.parent.relative_to(root / source)) for path in (root / source).rglob("*") if path.is_file()}
    alone = [folder for folder in sorted(folders) if re.search(rf"(give|or) {re.escape(folder)} alone", first.said)]
    for folder in alone[:1]:
        shutil.rmtree(root / "out", ignore_errors=True)
        part = replace(drawn, command=("convert", f"{source}/{folder}", *rest))
        if wrong := _follow(part, root, typed(part.command), whole=False):
            return Outcome("WRONG", f"{first.said}{wrong}")
    asked = "--" in first.said and any(name in first.said for name in _places(drawn))
    return Outcome("ASKED" if asked else "REFUSED", first.said)


def _follow(drawn: Case, root: Path, done: Typed, *, whole: bool = True) -> str:
    """Add the options that messages ask for, one after the other, until the command succeeds; return what is wrong.

    `whole`: whether the command still has all images.
    """
    way, left = drawn.command, list(drawn.then)
    while done.code:
        options = next((options for options in left if options[0] in done.said), None)
        if options is None:
            return f"then {' '.join(way)}, with no way on: {done.said}"
        left.remove(options)
        table = re.search(r"--labels (\S+\.\w+)", done.said)
        way = (*way, *options, *(("--labels", table[1]) if table and "--labels" not in way else ()))
        done = typed(way)
    found = stored(root / "out")
    wrong = [said for said in untrue(drawn, found, done) if whole or "are lost" not in said]
    label = label_of(drawn)
    if "--unlabelled" not in way and whole and label and not arrived(label, found):
        wrong.append(f"the class of {label.name} is not stored")
    if not drawn.ambiguous and whole:
        wrong += [f"{fact.name} is lost without a word" for fact in silent_facts(drawn, found, done)]
    return f"then {' '.join(way)}: {'; '.join(wrong)}" if wrong else ""


def label_of(drawn: Case) -> Fact | None:
    return None if drawn.ambiguous else next((fact for fact in drawn.facts if fact.role == "class"), None)


def untrue(drawn: Case, found: Stored, done: Typed) -> list[str]:
    """List statements of the dataset that the source does not make."""
    label, wrong = label_of(drawn), []
    for number, record in found.records.items():
        if number in drawn.twins:
            continue
        said = label.of.get(number, frozenset()) if label else frozenset[str]()
        if LABEL in record and {*map(text_of, said)} != record[LABEL]:
            wrong.append(f"image {number} has the classes {sorted(record[LABEL])}, in truth {sorted(said)}")
        texts = [fact.of[number] for fact in drawn.facts if fact.role == "text"]
        if CAPTION in record and not any(text >= record[CAPTION] for text in texts):
            wrong.append(f"image {number} has the captions {sorted(record[CAPTION])}")
        objects = [fact.of[number] for fact in drawn.facts if fact.role == "objects"]
        if "objects" in record and record["objects"] not in objects:
            wrong.append(f"image {number} has the objects {sorted(record['objects'])}")
    splits = next((fact for fact in drawn.facts if fact.role == "split"), None)
    if {*found.splits.values()} != {"train"}:
        off = [n for n, split in found.splits.items() if n not in drawn.twins and not _in_split(drawn, n, split)]
        wrong += [f"image {n} is in {found.splits[n]}, in truth in {splits and splits.of[n]}" for n in off[:1]]
    if strange := found.strange:
        wrong.append(f"{strange} records are of no image of the source's, but of masks or the like")
    if found.several or found.records.keys() - drawn.images - drawn.twins:
        wrong.append("images twice")
    told = re.findall(r"images in no split, left out: (\d+)", " ".join(done.report["notes"]))
    if len(lost := drawn.images - found.records.keys()) > len(done.report["rejected"]) + sum(map(int, told)):
        wrong.append(f"images {sorted(lost)} are lost")
    return wrong[:3]


def _in_split(drawn: Case, number: int, split: str) -> bool:
    """Whether a split is what the source says, by a column or folder of splits or by another column."""
    if split == "train" and not any(fact.role == "split" for fact in drawn.facts):
        return True  # what is no split's
    return any(split in fact.of[number] or split in _spelled(fact.of[number]) for fact in drawn.facts)


def _spelled(texts: frozenset[str]) -> frozenset[str]:
    """Other right spellings of splits: `eval` in a folder's name may keep its own name."""
    return texts | {"eval"} if "validation" in texts else texts


def arrived(fact: Fact, found: Stored) -> bool:
    """Whether some feature has what a fact says, for all images; a split is where the images are."""
    if fact.role == "split":
        return all(split in _spelled(fact.of[n]) for n, split in found.splits.items() if n in fact.of)
    said = {n: frozenset(map(text_of, texts)) for n, texts in fact.of.items() if n in found.records}
    keys = {LABEL} if fact.role == "class" else {key for record in found.records.values() for key in record}
    return any(
        all(found.records.get(n, {}).get(key, frozenset()) == texts for n, texts in said.items()) for key in keys
    )


def judged(drawn: Case, found: Stored, done: Typed) -> Outcome:
    if wrong := untrue(drawn, found, done):
        return Outcome("WRONG", f"{'; '.join(wrong)}; notes: {done.report['notes']}")
    if silent := silent_facts(drawn, found, done):
        names = ", ".join(f"{fact.role} {fact.name}" for fact in silent)
        return Outcome("WRONG", f"lost without a word: {names}; notes: {done.report['notes']}")
    lost = [fact for fact in drawn.facts if not arrived(fact, found)]
    unused = [fact.name for fact in lost if fact.name in drawn.asked or (drawn.sure and fact is label_of(drawn))]
    if unused:
        return Outcome("WRONG", f"asked for or usual, and not stored: {unused}; notes: {done.report['notes']}")
    return Outcome("NAMED" if lost else "RIGHT", str(done.report["notes"]))


def silent_facts(drawn: Case, found: Stored, done: Typed) -> list[Fact]:
    """Facts that are neither stored nor named."""
    return [fact for fact in drawn.facts if not arrived(fact, found) and not _named(drawn, fact, done.report)]


def _named(drawn: Case, fact: Fact, report: Mapping[str, Any]) -> bool:
    """Whether the report names a fact, or the file that has it, as not taken: in a note or a list of what is left out.

    "label from NAME" says the opposite. A list that shows only some names of columns says how many there are.
    """
    notes = [re.sub(r"[\w/ ]+ from [^,;]+", "", note) for note in report["notes"]]
    account = report["annotations"] or {}
    said = " ".join([*notes, json.dumps(account.get("left_out", "")), json.dumps(report["rejected"])])
    number = re.fullmatch(r"column (\d+)", fact.name)
    if number:  # without a header, its number is its name
        said = said.replace(f"column{number[1]}", fact.name)
    several = any("columns" in note and "..." in note for note in notes)
    names = [fact.name, *(os.path.basename(name) for name in drawn.names if name in drawn.files)]
    return several or any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said) for name in names)

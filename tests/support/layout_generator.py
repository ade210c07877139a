"""Sources as users bring them, drawn from a seed, with what they say of each image.

`case(seed)` draws a tree of folders, a table, records or annotations, the command that a user types, and the truth.
Each image has a colour of its own, so that a record tells which image it is of in any container. Everything drawn is
one that a person could read: names and values say what they are, or nobody can tell, and then `Case.ambiguous` is true.
"""

import csv
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.schema import ENCODED, Feature

from pictures import image_bytes

SIZE = (12, 10)  # width and height of each image
_OTHER = 100  # added to the number of an image for the second image of its pair

Role = Literal["class", "text", "number", "split", "objects", "raster", "other"]
Values = Mapping[int, frozenset[str]]


class Fact(NamedTuple):
    """A statement of a source about its images: number of the image -> texts. `name`: of the column, folder or files.

    "class", "text", "number", "split", "objects" and "raster" must arrive as such; any fact that does not arrive must
    be named in the report. "other" is everything that is no class, no caption and no split.
    """

    role: Role
    name: str
    of: Values


@dataclass(frozen=True)
class Case:
    """A source, the command, and the truth.

    `files`: path -> content. `ambiguous`: nobody could tell what the classes are, so there must be none. `sure`: usual
    names alone, so that a question would be one too many. `then`: options that somebody who knows the truth adds, if
    the message has them. `twins`: numbers of images that may become samples of their own, or not. `asked`: names of
    facts that the command asks for, which must arrive if it succeeds. `names`: further names that a message may name.
    """

    seed: int
    kind: str
    command: tuple[str, ...]
    files: Mapping[str, bytes]
    images: frozenset[int]
    facts: tuple[Fact, ...] = ()
    ambiguous: bool = False
    sure: bool = False
    then: tuple[tuple[str, ...], ...] = ()
    twins: frozenset[int] = frozenset()
    asked: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def write(self, root: Path) -> None:
        for path, content in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.kind}: shardfeed {' '.join(self.command)}"]
        for path, content in sorted(self.files.items())[:12]:
            is_text = path.endswith((".csv", ".tsv", ".jsonl", ".json", ".txt"))
            shown = content[:160].decode("utf-8", "replace").replace("\n", " / ") if is_text else ""
            lines.append(f"  {path}  {shown}")
        lines += [
            f"  {fact.role} {fact.name}: {[sorted(v) for v in list(fact.of.values())[:3]]}" for fact in self.facts
        ]
        return "\n".join(lines)


def picture(number: int) -> bytes:
    """An image file whose colour is its number."""
    return image_bytes(Image.new("RGB", SIZE, colour(number)), "PNG")


def colour(number: int) -> tuple[int, int, int]:
    return (number, 255 - number, 77)


def number_of(image: Image.Image) -> int | None:
    """The number of an image drawn here; None for one of another kind, such as a mask."""
    red, green, blue = image.convert("RGB").getpixel((0, 0))  # type: ignore[misc]  # three of RGB
    return red if (red, green, blue) == colour(red) else None


def mask(number: int, classes: int = 3) -> Image.Image:
    """A mask of classes from 0, another one for each number."""
    pixels = np.random.default_rng(number).integers(0, classes, SIZE[::-1], np.uint8)
    pixels.flat[:classes] = range(classes)
    return Image.fromarray(pixels)


def regions(image: Image.Image) -> frozenset[str]:
    """Which pixels of a mask belong together, whatever the numbers of its classes."""
    pixels = np.asarray(image)
    flat = pixels.reshape(SIZE[0] * SIZE[1], -1)
    order: dict[bytes, int] = {}
    return frozenset({"".join(chr(ord("a") + order.setdefault(pixel.tobytes(), len(order))) for pixel in flat)})


def text_of(value: Any) -> str:
    """A value as facts have it: numbers to four digits, whole ones without a point."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    try:
        return f"{float(value):.4g}" if not isinstance(value, str) or value.strip("0") else value
    except ValueError:
        return value


# --- columns of tables and records ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column by its name, with a value for each image, and what it says.

    `known`: its name is a usual one. `by_name`: without its name nobody could tell it from a column of classes.
    """

    name: str
    values: Sequence[Any]
    role: Role
    known: bool = False
    by_name: bool = False
    said: Sequence[frozenset[str]] | None = None  # by each value, if that is not the value's text

    def fact(self, images: Sequence[int]) -> Fact:
        said = self.said or [frozenset({text_of(value)}) for value in self.values]
        return Fact(self.role, self.name, dict(zip(images, said, strict=True)))


_CLASSES = (
    *("cat", "dog", "tench", "Golden Retriever", "daisy", "T-shirt/top", "n01440764", "healthy", "Blatt", "NORMAL"),
    *("Tomato___Late_blight", "café", "no_finding", "5-point", "red fox", "A", "B"),
)
_WORDS = ("a", "small", "red", "old", "house", "behind", "two", "trees", "under", "grey", "clouds", "near", "water")
LABELS = ("label", "class", "category", "target")
UNKNOWN = ("breed", "species", "diagnosis", "kind_of_fruit", "Sorte", "finding", "cultivar")


def _repeating(rng: random.Random, choices: Sequence[Any], count: int) -> list[Any]:
    """Each choice at least twice, in a random order."""
    values = [choices[i % len(choices)] for i in range(count)]
    rng.shuffle(values)
    return values


def _name(rng: random.Random, known: Sequence[str], unknown: Sequence[str], usual: bool | None) -> tuple[str, bool]:
    is_known = rng.random() < 0.5 if usual is None else usual
    return rng.choice(known if is_known else unknown), is_known


def classes(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    name, known = _name(rng, LABELS, UNKNOWN, usual)
    return Column(name, _repeating(rng, rng.sample(_CLASSES, rng.randint(2, 3)), count), "class", known)


def class_numbers(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    name, known = _name(rng, LABELS, UNKNOWN, usual)
    numbers = rng.choice(([0, 1], [0, 1, 2], [1, 2, 3], [3, 7, 10], [1, 2], [0, 2]))
    return Column(name, _repeating(rng, numbers, count), "class", known and numbers == [*range(len(numbers))])


def captions(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    name, known = _name(rng, ("caption", "text"), ("prompt", "description", "title", "report", "alt", "seen"), usual)
    length = rng.choice((3, 5, 8))
    texts = [f"{' '.join(rng.sample(_WORDS, length))} {i}" for i in range(count)]
    return Column(name, texts, "text", known, by_name=length < 5)  # so few words may be a class, too


def groups(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name = rng.choice(
        ("patient", "patient_id", "PatientID", "subject", "subjectId", "site", "camera", "StudyInstanceUID", "video_id")
    )
    start = rng.choice(("P", "S-", "1.2.840.", ""))
    return Column(name, _repeating(rng, [f"{start}{100 + i}" for i in range(3)], count), "other", by_name=True)


def identifiers(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name, hexadecimal = rng.choice((("uuid", True), ("hash", True), ("accession", False), ("AssetName", False)))
    values = [f"{rng.getrandbits(128):032x}" if hexadecimal else f"ACC{1000 + i}" for i in range(count)]
    return Column(name, values, "other", by_name=not hexadecimal)


def addresses(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name = rng.choice(("url", "image_url", "link", "source", "where"))
    few = rng.random() < 0.3
    return Column(name, [f"https://example.org/{i % 3 if few else i}" for i in range(count)], "other")


def dates(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name = rng.choice(("date", "taken", "Aufnahme", "acquired_at"))
    form = rng.choice(("2024-03-{:02}", "{:02}.03.2024", "2024-03-{:02} 12:30:00", "3/{}/2024"))
    return Column(name, _repeating(rng, [form.format(i + 1) for i in range(3)], count), "other")


def run_lengths(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name = rng.choice(("rle", "segmentation", "annotation", "runs"))
    return Column(name, [f"{1 + i} 5 {20 + i} 3 {60 + i} 7" for i in range(count)], "other")


def paths(rng: random.Random, count: int, _: bool | None = None) -> Column:
    name = rng.choice(("mask_path", "segmentation", "second", "thumbnail", "depth_map"))
    return Column(name, [f"more/{i:03}.png" for i in range(count)], "other")


def floats(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    name = rng.choice(("score", "price", "temperature", "quality", "target" if usual is None else "depth_m"))
    return Column(name, [round(rng.uniform(0, 9), 3) + 0.0004 for _ in range(count)], "number")


def multi_hot(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    name, known = _name(rng, ("label", "labels"), ("findings", "pathologies", "attributes", "genres"), usual)
    length = rng.randint(3, 5)
    rows = [[int(rng.random() < 0.5) for _ in range(length)] for _ in range(count)]
    rows[0], rows[1] = [1, 1, *[0] * (length - 2)], [0] * (length - 1) + [1]
    said = [frozenset(str(i) for i, one in enumerate(row) if one) for row in rows]
    return Column(name, rows, "class", known, said=said)


def split_words(rng: random.Random, count: int, usual: bool | None = None) -> Column:
    words = rng.choice((("train", "test"), ("train", "val", "test"), ("training", "validation")))
    meant = {"val": "validation", "training": "train"}
    values = _repeating(rng, words, count)
    name, known = _name(rng, ("split",), ("subset", "partition", "usage"), usual)
    said = [frozenset({meant.get(v, v)}) for v in values]
    return Column(name, values, "split" if known else "other", known, by_name=True, said=said)


_NO_CLASSES = (groups, identifiers, addresses, dates, run_lengths, paths, floats)


@dataclass
class Columns:
    """Columns of one source. `one_hot`: those that have 0 or 1 for one class each, which are one fact together."""

    columns: list[Column]
    one_hot: list[Column] = field(default_factory=list)

    def all(self) -> list[Column]:
        return [*self.columns, *self.one_hot]

    def facts(self, images: Sequence[int]) -> tuple[Fact, ...]:
        facts = [column.fact(images) for column in self.columns]
        if self.one_hot:
            sets = [frozenset(c.name for c in self.one_hot if c.values[i]) for i in range(len(images))]
            facts.append(Fact("class", self.one_hot[0].name, dict(zip(images, sets, strict=True))))
        return tuple(facts)


def _beside(rng: random.Random, count: int, taken: Sequence[Column], most: int = 2) -> list[Column]:
    """Up to `most` further columns that are no classes, each of another name."""
    found: list[Column] = []
    for make in rng.sample(_NO_CLASSES, rng.randint(0, most)):
        column = make(rng, count, False)
        if column.name not in {one.name for one in (*taken, *found)}:
            found.append(column)
    return found


def _one_hot(rng: random.Random, count: int) -> list[Column]:
    names = rng.sample([name for name in _CLASSES if name.isalpha()], 3)
    rows = [[int(rng.random() < 0.5) for _ in names] for _ in range(count)]
    rows[:3] = [[1, 1, 0], [0, 0, 1], [0, 1, 0]]
    return [Column(name, [row[i] for row in rows], "class") for i, name in enumerate(names)]


def _columns(rng: random.Random, count: int, main: str) -> Columns:
    makes: dict[str, Callable[..., Column]] = {
        "classes": classes,
        "class numbers": class_numbers,
        "captions": captions,
        "groups": groups,
        "dates": dates,
        "identifiers": identifiers,
        "addresses": addresses,
        "run lengths": run_lengths,
        "paths": paths,
        "floats": floats,
        "multi-hot": multi_hot,
    }
    if main == "one column per class":
        one_hot = _one_hot(rng, count)
        return Columns(_beside(rng, count, one_hot, 1), one_hot)
    if main == "two that may be classes":
        first, second = rng.sample(UNKNOWN, 2)
        columns = [Column(name, classes(rng, count).values, "class") for name in (first, second)]
        return Columns(columns)
    if main == "splits":
        return Columns([classes(rng, count, True), split_words(rng, count)])
    if main == "mixed":
        columns = [classes(rng, count, True), captions(rng, count, rng.random() < 0.5)]
        return Columns([*columns, *_beside(rng, count, columns)])
    column = makes[main](rng, count)
    return Columns([column, *_beside(rng, count, [column])])


_MAINS = (
    *("classes", "class numbers", "captions", "groups", "dates", "identifiers", "addresses", "run lengths", "paths"),
    *("floats", "multi-hot", "one column per class", "two that may be classes", "splits", "mixed"),
)


class Drawn(NamedTuple):
    """The parts of a case that its maker draws; see `Case`."""

    command: tuple[str, ...]
    files: dict[str, bytes]
    images: Sequence[int]
    facts: Sequence[Fact] = ()
    ambiguous: bool = False
    sure: bool = False
    then: Sequence[tuple[str, ...]] = ()
    twins: Sequence[int] = ()
    asked: Sequence[str] = ()
    names: Sequence[str] = ()


def _numbers_as_names(columns: Columns, files: dict[str, bytes]) -> list[tuple[str, ...]]:
    """The option that names all classes by their numbers, for numbers with gaps between them; adds its file."""
    numbers = [one for c in columns.columns if c.role == "class" for one in c.values if isinstance(one, int)]
    if not numbers:
        return []
    files["numbers.txt"] = "".join(f"{number}\n" for number in range(max(numbers) + 1)).encode()
    return [("--class-names", "numbers.txt")]


def _undecided(main: str) -> bool:
    return main == "two that may be classes"


def _asked_columns(rng: random.Random, count: int) -> Columns:
    """Columns under names that nobody knows, for a command that says what they are."""
    label = rng.choice((classes, class_numbers, multi_hot))(rng, count, False)
    group = Column("patient", _repeating(rng, ["P1", "P2", "P3"], count), "other")
    offered = [captions(rng, count, False), floats(rng, count, False), group]
    return Columns([label, *rng.sample(offered, rng.randint(1, 3))])


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(rng: random.Random, main: str) -> Drawn:
    images = range(rng.randint(8, 12))
    columns = _asked_columns(rng, len(images)) if main == "asked" else _columns(rng, len(images), main)
    form = rng.choice(("csv", "csv", "csv", "tsv", "jsonl", "parquet", "metadata.csv", "metadata.jsonl"))
    in_folder = form.startswith("metadata")
    ending = form.removeprefix("metadata.")
    path_name = "file_name" if in_folder else rng.choice(("path", "file", "filename", "image", "image_path", "img"))
    named = main in ("asked", "one column per class") or any(column.by_name for column in columns.columns)
    header = in_folder or named or ending not in ("csv", "tsv") or rng.random() < 0.8
    beside_images = not in_folder and rng.random() < 0.3  # the table is in the folder of the images
    relative = not in_folder and not beside_images and rng.random() < 0.5
    files = {f"photos/{i:03}.png": picture(i) for i in images}
    if any(column.values[0] == "more/000.png" for column in columns.columns):
        files |= {f"more/{i:03}.png": image_bytes(mask(i), "PNG") for i in images}
    every = columns.all()
    if header:
        rng.shuffle(every)
    names = [path_name, *(column.name for column in every)]
    rows = [
        [f"photos/{i:03}.png" if relative else f"{i:03}.png", *(column.values[i] for column in every)] for i in images
    ]
    facts = columns.facts(images)
    if main == "captions" and not in_folder and rng.random() < 0.3:  # two of each image
        rows = [
            [f"{cell} again" if at and every[at - 1].role == "text" and again else cell for at, cell in enumerate(row)]
            for row in rows
            for again in (False, True)
        ]
        both = {i: texts | {f"{text} again" for text in texts} for i, texts in facts[0].of.items()}
        facts = (facts[0]._replace(of=both), *facts[1:])
    table = "photos/metadata." + ending if in_folder else f"photos/list.{ending}" if beside_images else f"list.{ending}"
    files[table] = _rows(ending, names, rows, header)
    if in_folder:
        command = ("convert", "photos", "out")
    elif beside_images or relative:
        command = ("convert", table, "out")
    else:
        command = rng.choice(
            (("convert", table, "out", "--images", "photos"), ("convert", "photos", "out", "--labels", table))
        )
    if not header:  # a name is then the column's number
        at = {column.name: f"column {i + 2}" for i, column in enumerate(every)}
        facts = tuple(fact._replace(name=at[fact.name]) for fact in facts)
    label = next((fact for fact in facts if fact.role == "class"), None)
    then: list[tuple[str, ...]] = [("--unlabelled",)]
    if columns.one_hot:
        then = [("--one-hot", ",".join(column.name for column in columns.one_hot))]
    elif label is not None and not _undecided(main):
        then = [("--label-column", label.name.removeprefix("column ")), *_numbers_as_names(columns, files)]
    usual = [c for c in columns.columns if c.role == "class"]
    sure = header and bool(usual) and usual[0].known and main != "multi-hot"
    asked: list[str] = []
    if main == "asked":
        options = {"class": "--label-column", "text": "--text-column", "number": "--number-column"}
        for column in columns.columns:
            option = options.get(column.role, "--text-column")
            if option != "--text-column" or rng.random() < 0.7:
                command += (option, column.name)
                asked.append(column.name)
        then = []
    return Drawn(command, files, images, facts, _undecided(main), sure, then, asked=asked, names=[table])


def _rows(ending: str, names: Sequence[str], rows: Sequence[Sequence[Any]], header: bool) -> bytes:
    """A table of that format. Lists in a cell of text are written as JSON."""
    if ending == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()
    if ending == "parquet":
        return _parquet(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t" if ending == "tsv" else ",", lineterminator="\n")
    for row in [names, *rows] if header else rows:
        writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in row])
    return out.getvalue().encode()


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), out)
    return out.getvalue()


# --- records ----------------------------------------------------------------------------------------------------------


def _tfrecords(rng: random.Random, images: Sequence[int], columns: Columns, prefix: str) -> bytes:
    """TFRecords: text as bytes, whole numbers as int64."""
    image = rng.choice(("image/encoded", "image", "img"))
    values: dict[str, list[Any]] = {image: [picture(i) for i in images]}
    features = {image: Feature("bytes")}
    for column in columns.all():
        first = column.values[0]
        shape = (None,) if isinstance(first, list) else ()
        one = first[0] if isinstance(first, list) else first
        kind = "int64" if isinstance(one, int) else "float32" if isinstance(one, float) else "bytes"
        features[prefix + column.name] = Feature(kind, shape)
        values[prefix + column.name] = [v.encode() if isinstance(v, str) else v for v in column.values]
    rows = [{key: those[i] for key, those in values.items()} for i in range(len(images))]
    return b"".join(frame(encode(features, row)) for row in rows)


def _tar(images: Sequence[int], columns: Columns, keys: str = "{:06}") -> bytes:
    """Samples of WebDataset: class numbers as .cls, known captions as .txt, everything else in .json."""
    samples = []
    for i, image in enumerate(images):
        parts: dict[str, bytes] = {"png": picture(image)}
        rest: dict[str, Any] = {}
        for column in columns.all():
            value = column.values[i]
            if column.known and column.role == "class" and isinstance(value, int):
                parts["cls"] = str(value).encode()
            elif column.known and column.role == "text":
                parts["txt"] = value.encode()
            else:
                rest[column.name] = value
        samples.append({**parts, "json": json.dumps(rest).encode()} if rest else parts)
    return _members(samples, keys)


def _records(rng: random.Random, main: str) -> Drawn:
    images = range(rng.randint(8, 12))
    columns = _asked_columns(rng, len(images)) if main == "asked" else _columns(rng, len(images), main)
    form = rng.choice(("tfrecord", "tfrecord", "tar", "parquet"))
    facts, prefix = columns.facts(images), ""
    if form == "tfrecord":
        prefix = rng.choice(("", "", "image/"))
        files = {"data/train-00000-of-00001.tfrecord": _tfrecords(rng, images, columns, prefix)}
    elif form == "tar":
        files = {"data/train-000.tar": _tar(images, columns)}
        of = {c.name: ".cls" for c in columns.columns if c.known and c.role == "class" and isinstance(c.values[0], int)}
        of |= {c.name: ".txt" for c in columns.columns if c.known and c.role == "text"}
        facts = tuple(fact._replace(name=of.get(fact.name, fact.name)) for fact in facts)
    else:
        cells = [{"bytes": picture(i), "path": f"{i}.png"} for i in images]
        rows = {"image": cells, **{column.name: list(column.values) for column in columns.all()}}
        files = {"data/train-00000-of-00001.parquet": _parquet(rows)}
    label = next((fact for fact in facts if fact.role == "class"), None)
    then: list[tuple[str, ...]] = [("--unlabelled",)]
    if columns.one_hot:
        then = [("--one-hot", ",".join(column.name for column in columns.one_hot))]
    elif label is not None and not _undecided(main):
        then = [("--columns", f"label={label.name}"), *_numbers_as_names(columns, files)]
    usual = [c for c in columns.columns if c.role == "class"]
    sure = bool(usual) and usual[0].known and main not in ("multi-hot", "splits")
    asked = columns.columns if main == "asked" else []
    command = ("convert", "data", "out")
    if asked:
        words = {"class": "label", "text": "text"}
        before = {"tfrecord": prefix, "tar": "json."}.get(form, "")
        pairs = [f"{words.get(one.role, f'image/{one.name}')}={before}{one.name}" for one in asked]
        command, then = (*command, "--columns", ",".join(pairs)), []
    # In records a column of splits is one only on request.
    facts = tuple(fact._replace(role="other") if fact.role == "split" else fact for fact in facts)
    return Drawn(
        command, files, images, facts, _undecided(main), sure, then, asked=[one.name for one in asked], names=[ENCODED]
    )


def _record_masks(rng: random.Random) -> Drawn:
    """Records with a mask beside each image, asked for or not."""
    images = range(rng.randint(8, 12))
    name = rng.choice(("mask", "segmentation_mask", "annotation", "image/segmentation/class/encoded", "labels"))
    masks = [image_bytes(mask(i), "PNG") for i in images]
    form = rng.choice(("tfrecord", "tar", "parquet"))
    if form == "tfrecord":
        features = {"image/encoded": Feature("bytes"), name: Feature("bytes")}
        rows = [{"image/encoded": picture(i), name: masks[i]} for i in images]
        files = {"data/train-0.tfrecord": b"".join(frame(encode(features, row)) for row in rows)}
    elif form == "tar":
        name = name.rpartition("/")[2] + ".png"
        files = {"data/train-0.tar": _members([{"png": picture(i), name: masks[i]} for i in images])}
    else:
        cells = {"image": map(picture, images), name: masks}
        columns = {key: [{"bytes": cell, "path": f"{key[:1]}.png"} for cell in those] for key, those in cells.items()}
        files = {"data/train-0.parquet": _parquet(columns)}
    files["names.txt"] = b"ground\nwater\nsky\n"
    fact = Fact("raster", name, {i: regions(mask(i)) for i in images})
    given = rng.random() < 0.6
    options = ("--columns", f"mask={name}", "--class-names", "names.txt") if given else ()
    then = () if given else (("--columns", f"mask={name}", "--class-names", "names.txt"),)
    asked = (name,) if given else ()
    return Drawn(("convert", "data", "out", *options), files, images, (fact,), then=then, asked=asked, names=[name])


def _members(samples: Sequence[Mapping[str, bytes]], keys: str = "{:06}") -> bytes:
    """A tar of samples: ending of the member -> content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i, parts in enumerate(samples):
            for end, data in parts.items():
                info = tarfile.TarInfo(f"{keys.format(i)}.{end}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _tar_names(rng: random.Random) -> Drawn:
    """Samples of a tar with dots in their names, or with several images each."""
    images = range(rng.randint(6, 9))
    column = Column("cls", _repeating(rng, [0, 1], len(images)), "class", True)
    form = rng.choice(("dots", "views", "folders"))
    keys = {"dots": "05_v1.{}", "views": "{:04}", "folders": "a.b/{:04}"}[form]
    ends = {"views": ("left.png", "right.png")}.get(form, ("png",))
    samples = [
        {**{end: picture(i + _OTHER * k) for k, end in enumerate(ends)}, "cls": str(column.values[i]).encode()}
        for i in images
    ]
    facts = [column.fact(images)]
    if form == "views":
        facts.append(Fact("other", "right.png", {i: frozenset({f"view {i}"}) for i in images}))
    twins = [i + _OTHER for i in images]
    files = {"data/train-0.tar": _members(samples, keys)}
    then = [("--columns", f"image={'left' if form == 'views' else '0'}.png")]
    return Drawn(("convert", "data", "out"), files, images, facts, then=then, twins=twins, names=("png", "05_v1"))


def _class_names(rng: random.Random) -> Drawn:
    """A table of class numbers, and the names of the classes in a file of some format."""
    images = range(rng.randint(8, 12))
    names = rng.sample(_CLASSES, 3)
    column = Column(rng.choice(LABELS), _repeating(rng, [0, 1, 2], len(images)), "class", True)
    pairs = [*enumerate(names)]
    forms: dict[str, str] = {
        "txt": "\n".join(names),
        "json": json.dumps(rng.choice((names, {str(i): name for i, name in pairs}, {name: i for i, name in pairs}))),
        "yaml": "names:\n" + "\n".join(f"  {i}: {name}" for i, name in pairs),
        "csv": "id,name\n" + "\n".join(f"{i},{name}" for i, name in pairs),
        "names": "\n".join(f"{i}: {name}" for i, name in pairs),
        "pbtxt": "\n".join(f"item {{\n  id: {i}\n  name: '{name}'\n}}" for i, name in pairs),
    }
    ending = rng.choice([*forms])
    text = forms[ending]
    if ending == "json" and rng.random() < 0.5:
        text = json.dumps(json.loads(text), indent=1)
    rows = [[f"{i:03}.png", column.values[i]] for i in images]
    files = {f"photos/{i:03}.png": picture(i) for i in images}
    files |= {"list.csv": _rows("csv", ["path", column.name], rows, True), f"classes.{ending}": text.encode()}
    fact = Fact("class", column.name, {i: frozenset({names[column.values[i]]}) for i in images})
    command = ("convert", "photos", "out", "--labels", "list.csv", "--class-names", f"classes.{ending}")
    return Drawn(
        command, files, images, (fact,), sure=ending == "txt", asked=(column.name,), names=(f"classes.{ending}",)
    )


def _some_unlabelled(rng: random.Random) -> Drawn:
    """A test split without classes, in folders, a table or records."""
    images, tested = range(10), range(7, 10)
    column = Column("label", [*_repeating(rng, ["cat", "dog"], 7), *[None] * 3], "class", True)
    said = {i: frozenset({str(value)} if value else ()) for i, value in enumerate(column.values)}
    split = {i: frozenset({"test" if i in tested else "train"}) for i in images}
    form = rng.choice(("folders", "table", "tfrecord", "jsonl"))
    facts = [Fact("class", "label", said), Fact("split", "test", split)]
    if form == "folders":
        files = {f"data/train/{column.values[i]}/{i}.png": picture(i) for i in range(7)}
        files |= {f"data/test/{i}.png": picture(i) for i in tested}
        command = ("convert", "data", "out")
    elif form == "tfrecord":
        features = {"image": Feature("bytes"), "label": Feature("bytes")}
        labelled = [
            frame(encode(features, {"image": picture(i), "label": column.values[i].encode()})) for i in range(7)
        ]
        bare = [frame(encode({"image": Feature("bytes")}, {"image": picture(i)})) for i in tested]
        files = {"data/train/0.tfrec": b"".join(labelled), "data/test/0.tfrec": b"".join(bare)}
        command = ("convert", "data", "out")
    else:
        rows = [[f"{i}.png", column.values[i], *split[i]] for i in images]
        files = {f"photos/{i}.png": picture(i) for i in images}
        ending = "csv" if form == "table" else form
        files[f"list.{ending}"] = _rows(ending, ["path", "label", "split"], rows, True)
        command = ("convert", f"list.{ending}", "out", "--images", "photos")
    then = [("--max-bad", "3")]
    return Drawn(command, files, images, facts, then=then, names=("test", f"list.{form}", "label"))


def _record_splits(rng: random.Random) -> Drawn:
    """Files or folders of records for each split, in many spellings."""
    images = range(12)
    column = class_numbers(rng, 12, True)
    form, ending = rng.choice(
        (("tfrecord", ".tfrecord"), ("tfrecord", ".tfrec"), ("tar", ".tar"), ("parquet", ".parquet"))
    )
    spelling = rng.choice(_SPELLINGS)
    files, said = {}, {}
    for at, (split, folder) in enumerate(spelling.items()):
        part = [i for i in images if i % len(spelling) == at]
        inside = Columns([Column(column.name, [column.values[i] for i in part], "class", True)])
        data = (
            _tfrecords(random.Random(0), part, inside, "")
            if form == "tfrecord"
            else _tar(part, inside, f"{at}{{:05}}")
            if form == "tar"
            else _parquet(
                {
                    "image": [{"bytes": picture(i), "path": f"{i}.png"} for i in part],
                    column.name: inside.columns[0].values,
                }
            )
        )
        name = f"data/{folder}/part-0{ending}" if rng.random() < 0.7 or "{}" in folder else f"data/{folder}-0{ending}"
        files[name] = data
        said |= {i: frozenset({split}) for i in part}
    facts = (column.fact(images), Fact("split", next(iter(spelling.values())), said))
    names = tuple(spelling.values())
    then = _numbers_as_names(Columns([column]), files)
    if form == "tar":
        facts = (facts[0]._replace(name=".cls"), facts[1])
    sure = spelling in _SPELLINGS[:2] and column.known
    return Drawn(("convert", "data", "out"), files, images, facts, sure=sure, then=then, names=names)


def _arrays(rng: random.Random) -> Drawn:
    """Arrays of NumPy: images beside numbers of classes, multi-hot rows, floats or texts."""
    images = range(rng.randint(8, 12))
    column = rng.choice((classes, class_numbers, multi_hot, floats))(rng, len(images), True)
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(picture(i)))) for i in images])
    x, y = rng.choice((("x", "y"), ("images", "labels"), ("X_train", "y_train"), ("data", column.name)))
    out = io.BytesIO()
    np.savez(out, **{x: pixels, y: np.array(column.values)})
    facts = (column.fact(images)._replace(name=y),)
    return Drawn(("convert", "arrays.npz", "out"), {"arrays.npz": out.getvalue()}, images, facts)


# --- folders ----------------------------------------------------------------------------------------------------------

# Split -> the name of its folder. The first two are usual.
_SPELLINGS = (
    {"train": "train", "validation": "val", "test": "test"},
    {"train": "training", "validation": "validation"},
    {"train": "Split-train", "validation": "Split-eval"},
    {"train": "train_tfrecords", "test": "test_tfrecords"},
    {"train": "trainset", "test": "testset"},
    {"train": "train_images", "test": "test_images"},
    {"train": "seg_train", "test": "seg_test"},
    {"train": "cats_train_v1", "test": "cats_test_v1"},
    {"train": "TrainData", "test": "TestData"},
    {"train": "01_train", "validation": "02_val"},
    {"train": "train2017", "validation": "val2017"},
)


def _folder_facts(images: Mapping[int, str], name: str) -> Fact:
    return Fact("class", name, {i: frozenset({value}) for i, value in images.items()})


def _class_folders(rng: random.Random) -> Drawn:
    """A folder per class, with or without folders of splits, and often a file beside them."""
    names = [name.replace("/", "-") for name in rng.sample(_CLASSES, rng.randint(2, 4))]
    splits = rng.choice((None, None, *_SPELLINGS))
    files: dict[str, bytes] = {}
    of: dict[int, str] = {}
    said: dict[int, frozenset[str]] = {}
    for split, folder in (splits or {"train": ""}).items():
        for name in names:
            for _ in range(2):
                number = len(of)
                files[f"data/{folder}{'/' * bool(folder)}{name}/{number:03}.png"] = picture(number)
                of[number], said[number] = name, frozenset({split})
    if rng.random() < 0.4:
        files[f"data/{rng.choice(('README.md', 'LICENSE', 'LICENSE.txt', 'train.log', 'model.pkl'))}"] = b"about"
    facts = [_folder_facts(of, names[0])]
    if splits:
        facts.append(Fact("split", next(iter(splits.values())), said))
    sure = splits is None or splits in _SPELLINGS[:2]
    shown = (*names, *(splits or {}).values())
    return Drawn(("convert", "data", "out"), files, [*of], facts, sure=sure, names=shown)


def _pairs(rng: random.Random) -> Drawn:
    """Two images of each scene, in two folders: no classes."""
    first, second = rng.choice(
        (
            ("trainA", "trainB"),
            ("source", "target"),
            ("HR", "LR"),
            ("input", "target"),
            ("hr", "lr_x4"),
            ("conditioning_images", "images"),
            ("noisy", "gt"),
            ("inputs", "targets"),
        )
    )
    images = range(rng.randint(4, 8))
    files = {f"data/{first}/{i:03}.png": picture(i) for i in images}
    files |= {f"data/{second}/{i:03}.png": picture(i + _OTHER) for i in images}
    if first == "trainA":
        files |= {
            f"data/test{end}/{i:03}.png": picture(20 + i + _OTHER * (end == "B")) for end in "AB" for i in range(3)
        }
        images = [*images, 20, 21, 22]
    facts: list[Fact] = []
    if first == "source" and rng.random() < 0.5:
        rows = [
            {"source": f"source/{i:03}.png", "target": f"target/{i:03}.png", "prompt": f"scene {i}"} for i in images
        ]
        files["data/prompt.json"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
    facts.append(Fact("other", first, {i: frozenset({f"pair {i}"}) for i in images}))
    twins = [i + _OTHER for i in images]
    return Drawn(
        ("convert", "data", "out"),
        files,
        images,
        facts,
        True,
        then=[("--unlabelled",)],
        twins=twins,
        names=(first, second),
    )


def _folder_per_sample(rng: random.Random) -> Drawn:
    """A folder for each sample, with its image and what belongs to it: no classes."""
    form = rng.choice(("ID/images/ID.png", "ID/image.png", "ID/rgb.png", "ID/ID.png", "ID/frames"))
    # Of several images in a folder called P001, that may as well be a class of faces, nobody can tell.
    stem = "scene_{:04}" if form == "ID/frames" else rng.choice(("scene_{:04}", "{:05x}a7c", "P{:03}"))
    images, files, facts = range(rng.randint(5, 8)), {}, []
    for i in images:
        name = stem.format(i + 1)
        if form == "ID/frames":
            files |= {f"data/{name}/frame_{k}.png": picture(i + _OTHER * k) for k in range(2)}
        else:
            files["data/" + form.replace("ID", name)] = picture(i)
        if form == "ID/images/ID.png":
            files |= {f"data/{name}/masks/{name}_{k}.png": image_bytes(mask(i, 2), "PNG") for k in range(2)}
        elif form == "ID/image.png":
            files[f"data/{name}/mask.png"] = image_bytes(mask(i), "PNG")
        elif form == "ID/rgb.png":
            files[f"data/{name}/depth.png"] = image_bytes(mask(i + 50, 9), "PNG")
    if form == "ID/image.png":
        facts.append(Fact("raster", "mask", {i: regions(mask(i)) for i in images}))
    elif form in ("ID/images/ID.png", "ID/rgb.png"):
        name = "mask" if "images" in form else "depth"
        facts.append(Fact("other", name, {i: frozenset({f"{name} {i}"}) for i in images}))
    twins = [i + _OTHER for i in images] if form == "ID/frames" else []
    names = tuple(stem.format(i + 1) for i in images)
    return Drawn(("convert", "data", "out"), files, images, facts, True, twins=twins, names=names)


def _captions_beside(rng: random.Random) -> Drawn:
    """A text beside each image: captions. In one folder, in numbered ones, or as a trainer of adapters wants them."""
    images = range(rng.randint(6, 10))
    form = rng.choice(("flat", "shards", "repeats", "photos", "json"))
    column = captions(rng, len(images), True)
    files = {}
    for i in images:
        folder = {
            "flat": "",
            "shards": f"{i // 4:05}/",
            "repeats": "10_dog/",
            "photos": "photos/",
            "json": f"{i // 4:05}/",
        }[form]
        files[f"data/{folder}{i:05}.png"] = picture(i)
        files[f"data/{folder}{i:05}.txt"] = column.values[i].encode()
        if form == "json":
            meta = {
                "caption": column.values[i],
                "url": f"https://example.org/{i}",
                "key": f"{i:05}",
                "status": "success",
            }
            files[f"data/{folder}{i:05}.json"] = json.dumps(meta).encode()
    if form == "json":
        files |= {f"data/{n:05}_stats.json": b'{"count": 4}' for n in range(2)}
    folders = {path.split("/")[1] for path in files}
    facts = (column.fact(images)._replace(name=".txt"),)
    return Drawn(("convert", "data", "out"), files, images, facts, then=[("--unlabelled",)], names=tuple(folders))


def _flat(rng: random.Random) -> Drawn:
    """Images side by side, with the class in their names, or names that say nothing."""
    form = rng.choice(("{name}.{n}", "{name}_{n}", "IMG_{n}", "{hash}", "{n}"))
    names = rng.sample(("cat", "dog", "daisy", "beagle"), 2)
    images = range(rng.randint(6, 10))
    of = {i: names[i % 2] for i in images}
    made = [form.format(name=of[i], n=1000 + i, hash=f"{rng.getrandbits(64):016x}") for i in images]
    files = {f"photos/{made[i]}.png": picture(i) for i in images}
    told = "{name}" in form
    facts = (_folder_facts(of, names[0]),) if told else ()
    return Drawn(("convert", "photos", "out"), files, images, facts, not told, then=[("--unlabelled",)])


def _images_and_masks(rng: random.Random) -> Drawn:
    """Images and masks of the same names, with or without folders of splits."""
    first, second = rng.choice(
        (("images", "masks"), ("imgs", "labels"), ("image", "mask"), ("rgb", "gt"), ("img", "seg"))
    )
    splits = rng.choice(({"train": ""}, {"train": "train", "validation": "val"}))
    images, files, said = range(8), {}, {}
    for i in images:
        split, folder = [*splits.items()][i % len(splits)]
        before = f"{folder}/" if folder else ""
        files[f"data/{before}{first}/{i:03}.png"] = picture(i)
        files[f"data/{before}{second}/{i:03}.png"] = image_bytes(mask(i), "PNG")
        said[i] = frozenset({split})
    facts = [Fact("raster", second, {i: regions(mask(i)) for i in images})]
    if len(splits) > 1:
        facts.append(Fact("split", "train", said))
    files["names.txt"] = b"ground\nwater\nsky\n"
    then = [("--class-names", "names.txt")]
    return Drawn(("convert", "data", "out"), files, images, facts, then=then, names=(first, second, "data"))


def _unknown_annotations(rng: random.Random) -> Drawn:
    """A folder of images, and a file beside it that probably has their annotations in a format that nobody knows."""
    ending = rng.choice(
        ("odgt", "ndjson", "manifest", "xlsx", "geojson", "pkl", "h5", "yaml", "json", "json.gz", "mat", "db", "sqlite")
    )
    where = rng.choice(("annotation_train", "gt", "labels_v2", "boxes"))
    folder = rng.choice(("Images", "images", "photos", "JPEGImages", "data", "img", "flower_photos"))
    images = range(rng.randint(4, 8))
    files = {f"data/{folder}/{i:03}.png": picture(i) for i in images}
    content = b'{"ID": "000", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3, 4]}]}\n'
    if rng.random() < 0.3:
        ending = rng.choice(("json", "xml", "dat"))
        files |= {f"data/{folder}/{i:03}.{ending}": content for i in images}
    else:
        files[f"data/{where}.{ending}"] = content * 4
    fact = Fact("other", f".{ending.split('.')[-1]}", {i: frozenset({f"objects of {i}"}) for i in images})
    then = [("--unlabelled",)]
    return Drawn(("convert", "data", "out"), files, images, (fact,), True, then=then, names=(folder, where))


def _generic_folder(rng: random.Random) -> Drawn:
    """Images in a folder whose name says nothing, or in folders of splits: no classes."""
    images, said = range(8), {}
    files = {}
    splits = rng.choice(({"train": rng.choice(("images", "photos", "data", "frames", "JPEGImages"))}, *_SPELLINGS))
    for i in images:
        split, folder = [*splits.items()][i % len(splits)]
        files[f"data/{folder}/{i:03}.png"] = picture(i)
        said[i] = frozenset({split})
    if rng.random() < 0.6:
        files["data/README.md"] = b"about"
    facts = [Fact("split", next(iter(splits.values())), said)] if len(splits) > 1 else []
    then = [("--unlabelled",)]
    return Drawn(("convert", "data", "out"), files, images, facts, True, then=then, names=tuple(splits.values()))


# --- annotations ------------------------------------------------------------------------------------------------------


def _coco(rng: random.Random) -> Drawn:
    """COCO's JSON with boxes, or with classes of whole images; ids with gaps, as texts, names with other folders."""
    images = range(rng.randint(5, 8))
    names = rng.sample([name for name in _CLASSES if name.isalpha()], 3)
    ids = rng.choice(((1, 2, 3), (0, 1, 2), (3, 17, 90)))
    boxed, as_text = rng.random() < 0.6, rng.random() < 0.25
    before = rng.choice(("", "", "photos/", "C:\\Users\\me\\photos\\", "/data/upload/4/"))
    annotations: list[dict[str, Any]] = []
    found: dict[int, list[str]] = {i: [] for i in images}
    for i in images:
        for k in range(rng.randint(1, 2) if boxed else 1):
            at = rng.randrange(3)
            one: dict[str, Any] = {
                "id": len(annotations) + 1,
                "image_id": str(i + 1) if as_text else i + 1,
                "category_id": ids[at],
            }
            if boxed:
                one |= {"bbox": [1 + k, 2, 5, 4 + k], "area": 5.0 * (4 + k), "iscrowd": 0}
                found[i].append(f"{names[at]} {1 + k} 2 {6 + k} {6 + k}")
            else:
                found[i].append(names[at])
            annotations.append(one)
    document = {
        "images": [
            {"id": i + 1, "file_name": f"{before}{i:03}.png", "width": SIZE[0], "height": SIZE[1]} for i in images
        ],
        "annotations": annotations,
        "categories": [{"id": at, "name": name} for at, name in zip(ids, names, strict=True)],
    }
    files = {f"photos/{i:03}.png": picture(i) for i in images}
    files["train.json"] = json.dumps(document).encode()
    fact = Fact("objects" if boxed else "class", "annotations", {i: frozenset(those) for i, those in found.items()})
    command = ("convert", "train.json", "out", "--images", "photos")
    sure = boxed and not as_text and before == ""
    then = [("--images", "photos"), ("--max-bad-objects", "99")]
    return Drawn(command, files, images, (fact,), sure=sure, then=then, names=("train.json", "file_name", "image_id"))


def _yolo(rng: random.Random) -> Drawn:
    """YOLO's lines of text: boxes, or boxes with confidences and numbers of tracks, with or without a data.yaml."""
    images = range(rng.randint(5, 8))
    names = rng.sample([name for name in _CLASSES if name.isalpha()], 3)
    form, track = rng.choice(("", "", " 0.87", " 0.87 {track}", " {track}")), rng.choice((0, 1))
    files = {f"data/images/train/{i:03}.png": picture(i) for i in images}
    said = {}
    for i in images:
        boxes = [(rng.randrange(3), 1 + k, 2, 6 + k, 6 + k) for k in range(rng.randint(1, 2))]
        lines = [
            f"{at} {(x + right) / 2 / SIZE[0]:.6f} {(y + bottom) / 2 / SIZE[1]:.6f} {(right - x) / SIZE[0]:.6f} "
            f"{(bottom - y) / SIZE[1]:.6f}{form.format(track=track or i + 1)}\n"
            for at, x, y, right, bottom in boxes
        ]
        files[f"data/labels/train/{i:03}.txt"] = "".join(lines).encode()
        said[i] = frozenset(f"{names[at]} {x} {y} {right} {bottom}" for at, x, y, right, bottom in boxes)
    document = rng.random() < 0.7
    listed = "".join(f"  {i}: {name}\n" for i, name in enumerate(names))
    files["data/data.yaml" if document else "data/classes.txt"] = (
        f"train: images/train\nval: images/train\nnames:\n{listed}" if document else "\n".join(names)
    ).encode()
    fact = Fact("objects", "labels", said)
    return Drawn(("convert", "data", "out"), files, images, (fact,), names=("data.yaml", "classes.txt", ".txt"))


def _labelme(rng: random.Random) -> Drawn:
    """LabelMe's JSON beside each image: rectangles, or flags of the whole image, which are its classes."""
    images = range(rng.randint(5, 8))
    names = rng.sample([name for name in _CLASSES if name.isalpha()], 2)
    boxed = rng.random() < 0.6
    files: dict[str, bytes] = {}
    said = {}
    for i in images:
        label = names[i % 2]
        points = [[1, 2], [6, 7]]
        shapes = [{"label": label, "points": points, "shape_type": "rectangle", "group_id": None, "flags": {}}]
        document = {
            "version": "5.4.1", "flags": {} if boxed else {name: name == label for name in names},
            "shapes": shapes if boxed else [], "imagePath": f"{i:03}.png", "imageData": None,
            "imageHeight": SIZE[1], "imageWidth": SIZE[0],
        }  # fmt: skip
        files |= {f"photos/{i:03}.png": picture(i), f"photos/{i:03}.json": json.dumps(document).encode()}
        said[i] = frozenset({f"{label} 1 2 6 7" if boxed else label})
    fact = Fact("objects" if boxed else "class", "shapes" if boxed else "flags", said)
    return Drawn(("convert", "photos", "out"), files, images, (fact,), sure=boxed, names=("json",))


def _table_kind(main: str) -> Callable[[random.Random], Drawn]:
    return lambda rng: _table(rng, main)


def _record_kind(main: str) -> Callable[[random.Random], Drawn]:
    return lambda rng: _records(rng, main)


KINDS: dict[str, Callable[[random.Random], Drawn]] = {
    "folders: classes": _class_folders,
    "folders: pairs": _pairs,
    "folders: one per sample": _folder_per_sample,
    "folders: texts beside images": _captions_beside,
    "folders: flat": _flat,
    "folders: images and masks": _images_and_masks,
    "folders: unknown annotations": _unknown_annotations,
    "folders: no classes": _generic_folder,
    **{f"table: {main}": _table_kind(main) for main in _MAINS},
    **{f"records: {main}": _record_kind(main) for main in _MAINS},
    "table: asked": _table_kind("asked"),
    "records: asked": _record_kind("asked"),
    "records: masks": _record_masks,
    "records: names in tars": _tar_names,
    "records: files of splits": _record_splits,
    "names of classes": _class_names,
    "a test split without classes": _some_unlabelled,
    "arrays": _arrays,
    "COCO": _coco,
    "YOLO": _yolo,
    "LabelMe": _labelme,
}


def case(seed: int) -> Case:
    """Draw the case of a seed; consecutive seeds are of different kinds."""
    kind = [*KINDS][seed % len(KINDS)]
    drawn = KINDS[kind](random.Random(f"{kind} {seed}"))
    rest = (
        drawn.ambiguous,
        drawn.sure,
        tuple(drawn.then),
        frozenset(drawn.twins),
        tuple(drawn.asked),
        tuple(drawn.names),
    )
    return Case(seed, kind, drawn.command, drawn.files, frozenset(drawn.images), tuple(drawn.facts), *rest)

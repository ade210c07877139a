"""`shardfeed preview DIR -o sheet.png`: a sheet of images with their labels, to check them."""

import io
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.annotations import CAPTION, OBJECT_LABEL
from shardfeed.declared import Range, Typed, checked
from shardfeed.errors import UsageError, escape
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, LABEL, WIDTH, Schema
from shardfeed.storage.local import write_file
from shardfeed.text import listing, number, typed_number
from shardfeed.tools.arguments import check_output, command
from shardfeed.tools.contact_sheet import TILE, WIDE_TILE, SheetRow, Tile, draw_sheet
from shardfeed.tools.overlay import draw_annotations, has_annotations, raster_legend

Columns = Annotated[int, Range(1, 500)]  # so that a sheet fits into memory
ROWS = 50  # classes shown by default: larger sheets are unreadable
RECORDS_READ = 20_000  # at most, for any size of split: some seconds from a local disk
_GRID_ROWS = 8  # of a split without classes
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


@checked
def preview(
    dataset: Annotated[str, Typed("dataset directory")],
    *,
    output: Annotated[str, Typed("image file to write (default sheet.png)", "FILE", "o/output")] = "sheet.png",
    split: Annotated[str | None, Typed("split to show (default: train, else the first)", "NAME")] = None,
    columns: Annotated[Columns | None, Typed("images per row (default 10; 6 for large images)", "N")] = None,
    classes: Annotated[
        str | None, Typed(f"names or labels of the classes to show (default: {ROWS} classes)", "A,B")
    ] = None,
    augment: Annotated[
        str | None, Typed("recipe: show one image as it is augmented, twelve times, such as simclr", "NAME")
    ] = None,
    seed: Annotated[int, Typed("seed that selects the images (default 0)", "S")] = 0,
) -> int:
    """Write the sheet and print what is on it; exit code 0."""
    check_output("output", output, *_FORMATS)
    data = shardfeed.open(dataset)
    of = data[split or ("train" if "train" in data else next(iter(data)))]
    if augment is not None:
        _check_alone("--augment", {"--classes": classes, "--columns": columns})
        sheet, shown = augmented_sheet(of, augment, seed=seed), f"draws of {augment}"
    else:
        chosen = _labels_of(of, classes.split(",")) if classes else None
        title = f"{os.path.basename(data.directory)} / {of.name}"
        sheet = contact_sheet(of, title=title, columns=columns, labels=chosen, seed=seed)
        shown = " ".join(_extent(of, _shown_labels(of, chosen)))
    encoded = io.BytesIO()
    sheet.save(encoded, _FORMATS[os.path.splitext(output)[1].lower()])
    write_file(output, encoded.getvalue())
    print(f"{escape(output)}: {sheet.width}x{sheet.height} pixels, split {of.name}: {shown}")
    return 0


def _check_alone(option: str, others: Mapping[str, object]) -> None:
    """Raise UsageError if another option is given, too, which is for the sheet of classes."""
    also = next((name for name, value in others.items() if value is not None), None)
    if also is not None:
        raise UsageError(option, f"got {also}, too, which is for rows of classes", f"leave {also} out")


def augmented_sheet(split: Split, recipe: str, *, seed: int = 0) -> Image.Image:
    """The sheet of `shardfeed.preview` for a recipe's name. Raises UsageError for a name that is none."""
    from shardfeed.pipelines.augment import recipes  # the loaders take a while to import

    if recipe not in recipes.__all__:
        problem = f"got {escape(recipe)!r}, expected a recipe"
        raise UsageError("--augment", problem, f"there is {', '.join(recipes.__all__)}")
    given: Any = getattr(recipes, recipe)
    of_views = any(isinstance(each, Crop) for each in given)
    return shardfeed.preview(split, seed=seed, **{"views" if of_views else "augment": given})


add_arguments, run = command(preview)


def contact_sheet(
    split: Split, *, title: str = "", columns: int | None = None, labels: Sequence[int] | None = None, seed: int = 0
) -> Image.Image:
    """An RGB image with a row for each class of `image/class/label`: its number, name, count and some pictures.

    `labels`: classes to show, default the first 50. `columns`: pictures a class, default 10. A split without classes
    gives a grid. Objects, keypoints and rasters are drawn over the pictures; captions and tags are below. With any of
    these except tags, pictures are larger, 6 per row. If only objects have classes, `labels` are their classes, and
    without `labels` there is a grid. Records are read in a random order decided by `seed` until every row is full, and
    at most RECORDS_READ of them: each picture of a class is equally likely, and a huge split costs no more than a large
    one; a very rare class has fewer pictures. Raises UsageError for `columns` below 1 and if records have no image,
    RecordError for a damaged record.
    """
    schema = split.schema
    wide = _is_wide(schema)
    columns = columns if columns is not None else 6 if wide else 10
    if columns < 1:
        raise UsageError("columns", f"got {columns}, expected at least 1")
    key = schema.key(ENCODED)
    if key is None or not schema.features[key].scalar or schema.kind(key) != "image":
        found = [key for key, feature in schema.features.items() if feature.dtype == "bytes"]
        problem = f"its records have no feature with one image; features with bytes: {listing(sorted(found)) or 'none'}"
        remedy = "adopt other TFRecords with `shardfeed adopt DIR OUT --image-key KEY`"
        raise UsageError(f"split {split.name}", problem, remedy)
    order = random.Random(seed).sample(range(len(split)), min(len(split), RECORDS_READ))
    shown = _shown_labels(split, labels)
    rows = _class_rows(split, shown, columns, order) if shown else _grid_rows(split, columns, order)
    look = {"side": WIDE_TILE if wide else TILE, "legend": raster_legend(schema)}
    return draw_sheet(title or split.name, _extent(split, shown), rows, columns, **look)


def _is_wide(schema: Schema) -> bool:
    """Whether pictures are larger: something is drawn over them, or there is a text below."""
    return has_annotations(schema) or CAPTION in schema.features


def _label_key(split: Split) -> str | None:
    """The feature with the classes of the rows: the images', else the objects'; None without classes."""
    for key in (split.schema.key(LABEL), OBJECT_LABEL):
        if key in split.schema.class_names:
            return key
    return None


def _names(split: Split) -> tuple[str, ...]:
    return split.schema.class_names.get(_label_key(split) or "", ())


def _shown_labels(split: Split, labels: Sequence[int] | None) -> Sequence[int]:
    """Labels to make rows of: `labels`, or by default the first classes of images; none for a grid."""
    images = split.schema.class_names.get(split.schema.key(LABEL) or LABEL, ())
    return range(min(ROWS, len(images))) if labels is None else labels


def _extent(split: Split, shown: Sequence[int]) -> list[str]:
    """Describe how many images and classes there are, and how many of the classes are shown."""
    classes, images = len(_names(split)), number(len(split), "image")
    if not classes and split.schema.raster is not None:
        return [f"{images}, {number(len(split.schema.raster.class_names), 'class', 'classes')} of pixels"]
    if not classes:
        return [f"{images}, without classes"]
    key = _label_key(split) or ""
    if key == OBJECT_LABEL and len(split) == len(split.whole_split):
        images += f", {number(sum(split.class_counts.get(key, ())), 'object')}"
    notes = [f"{images}, {number(classes, 'class', 'classes')}"]
    if len(shown) < classes and (shown or key != OBJECT_LABEL):
        which = f"the first {len(shown)}" if list(shown) == list(range(ROWS)) else f"{len(shown)}"
        notes.append(f"({which} of {classes:,} classes shown; choose with --classes NAME,NAME)")
    return notes


def _class_rows(split: Split, shown: Sequence[int], columns: int, order: Sequence[int]) -> list[SheetRow]:
    label_key = _label_key(split) or LABEL
    counts = split.class_counts[label_key]
    each_once = split.schema.features[label_key].scalar or split.schema.kind(label_key) == "tags"
    what = "image" if each_once else "label"  # an image may have the same class twice
    what = "object" if label_key == OBJECT_LABEL else what
    # A slice may hold fewer than the counts of the whole split: then all of it is read.
    lacking = {label: min(columns, counts[label]) for label in shown if counts[label]}
    tiles: dict[int, list[Tile]] = {label: [] for label in shown}
    read = 0
    for index in order:
        if not lacking:
            break
        record = split[index]
        read += 1
        for label in set(_labels_in(record, label_key)) & lacking.keys():
            tiles[label].append(_tile(record, split.schema))
            lacking[label] -= 1
            if not lacking[label]:
                del lacking[label]
    rows = []
    for label in shown:
        remark = f"{counts[label]:,} {what}{'s' if counts[label] != 1 else ''}"
        if counts[label] and not tiles[label]:
            remark += f", none in {read:,} read"
        rows.append(SheetRow(str(label), _names(split)[label], remark, tiles[label]))
    return rows


def _grid_rows(split: Split, columns: int, order: Sequence[int]) -> list[SheetRow]:
    tiles = [_tile(split[index], split.schema) for index in order[: columns * _GRID_ROWS]]
    return [SheetRow("", "", "", tiles[start : start + columns]) for start in range(0, len(tiles), columns)]


def _labels_in(record: dict[str, Any], key: str) -> Iterator[int]:
    value = record[key]
    yield from value.tolist() if isinstance(value, np.ndarray) else (value,)


def _tile(record: dict[str, Any], schema: Schema) -> Tile:
    """Picture of a record with its annotations drawn over it, and its file name, if it has one, as the caption."""
    name = record.get(FILENAME, b"")
    caption = os.fsdecode(name.rpartition(b"/")[2]) if isinstance(name, bytes) else ""
    raw = (record[HEIGHT], record[WIDTH]) if record.get(FORMAT) == b"raw" else None
    encoded = record[schema.key(ENCODED) or ENCODED]
    texts = _texts(record, schema)
    side = WIDE_TILE if _is_wide(schema) else TILE
    drawn = partial(draw_annotations, record=record, schema=schema) if has_annotations(schema) else None
    return Tile.of(encoded, caption, raw, side=side, drawn=drawn, texts=texts)


def _texts(record: dict[str, Any], schema: Schema) -> list[str]:
    """Texts below a picture: its tags, if images may have several, and the first of its captions."""
    texts = []
    key = schema.key(LABEL) or LABEL
    if key in schema.class_names and not schema.features[key].scalar:
        names = schema.class_names[key]
        texts.append(", ".join(names[label] for label in _labels_in(record, key)) or "(no class)")
    if CAPTION in schema.features:
        found = record.get(CAPTION, [])
        captions = [found] if isinstance(found, bytes) else list(found)
        more = f" (and {len(captions) - 1} more)" if len(captions) > 1 else ""
        texts += [caption.decode("utf-8", "backslashreplace") + more for caption in captions[:1]]
    return texts


def _labels_of(split: Split, names: Sequence[str]) -> list[int]:
    """The labels of these names; a number that is not a name is the label itself."""
    known = {name: label for label, name in enumerate(_names(split))}
    labels = []
    for name in names:
        number_of_class = typed_number(name)
        if name in known:
            labels.append(known[name])
        elif number_of_class is not None and number_of_class < len(known):
            labels.append(number_of_class)
        else:
            has = listing([escape(known_name) for known_name in known]) or "no classes"
            raise UsageError("--classes", f"got {escape(name)!r}, expected names or labels of classes", f"it has {has}")
    return labels

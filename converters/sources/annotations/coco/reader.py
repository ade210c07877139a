"""COCO's JSON files: boxes, masks and key points of objects, captions, or the segments of whole images."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, Keypoints
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import Account
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.coco.fill import Fill
from shardfeed.converters.sources.annotations.coco.keypoints import keypoints_of
from shardfeed.converters.sources.annotations.coco.layout import CocoFile, coco_files, what_it_is
from shardfeed.converters.sources.annotations.coco.panoptic import (
    Pngs,
    Segments,
    raster_of,
    things_of,
)
from shardfeed.converters.sources.annotations.coco.survey import Category, Id, Kind, Survey, file_name, survey
from shardfeed.converters.sources.annotations.gathering import list_wanted
from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.files.image_files import ImageFiles
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits, TextColumn
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Findings, Skipped
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import counted, number, some

_EXACT = 2**24  # the largest whole number up to which all have a float32
_TAKEN: dict[Kind, frozenset[Task]] = {
    "instances": frozenset({"boxes", "masks", "keypoints"}),
    "captions": frozenset({"captions"}),
    "panoptic": frozenset({"boxes", "rasters"}),
}
_WHAT: dict[Kind, str] = {
    "instances": "objects",
    "captions": "captions",
    "panoptic": "boxes and rasters of segments",
}
_FOUND = {
    "instances": '"images" and "annotations" of objects, as COCO has them',
    "captions": '"images" and "annotations" with a "caption", as COCO has them',
    "panoptic": '"images" and "annotations" with "segments_info", as COCO\'s panoptic files have them',
}
_NOT_TAKEN = {
    "results": (
        'COCO\'s results (a list of entries with "image_id")',
        "those are predictions: give the annotations that they were made for (instances_*.json)",
    ),
    "images": ('"images", as COCO has them', 'there are no "annotations": a test set has none'),
}


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """Whether `path` is a COCO file, or a folder with COCO files in one of the usual places."""
    if not os.path.isdir(path):
        what = what_it_is(path) if path.lower().endswith(".json") else None
        return _evidence(what, file_name(path)) if what else None
    try:
        layout = coco_files(path, options)
        if layout is None:
            return None
        names = [os.path.relpath(file.path, path) for file in layout.files]
        what = what_it_is(layout.files[0].path)
    except UsageError as error:  # other sources may do with the folder
        return Evidence("coco", "it has files as COCO names them", f"{error.place}: {error.problem}")
    return _evidence(what, ", ".join(names[:4])) if what else None


def _evidence(what: str, where: str) -> Evidence:
    found, missing = _NOT_TAKEN.get(what, ("", ""))
    return Evidence("coco", f"{escape(where)} has {found or _FOUND[what]}", missing)


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images that COCO's files name, with their annotations; several files of a folder are a split each.

    A class is the rank of its category's id; the ids stay in the schema. `image/source_id` is the image's own id.

    Raises:
        UsageError: options that do not go with the files, or no image that they name is there.
        LabelFileError: a file that is none of COCO's, or contradicts itself or another.
        StorageError: a file or folder that cannot be read.
    """
    _check(options)
    layout = coco_files(path, options)
    if layout is None:
        remedy = "give the file itself, and the folder of its images as " + argument("images", typed="DIR")
        raise UsageError(path, "no COCO file in it, nor in annotations, train, valid or test", remedy)
    surveys = [survey(file.path) for file in layout.files]
    kind = _kind_of(surveys, options)
    captions, panoptic = kind == "captions", kind == "panoptic"
    categories = _agreed(surveys)
    pngs = Pngs(surveys, options) if panoptic and options.tasks != {"boxes"} else None
    files = list_wanted(layout.root, options)
    found = _Images.of(surveys, layout.files, files if pngs is None else pngs.not_among(files), pngs)
    things = _things(surveys, options) if panoptic else categories
    if panoptic:
        fill = Segments(surveys, things, found.listing, options)
    else:
        fill = _fill(surveys, categories, options, captions=captions)
    numbers = _numbers(surveys, found)
    notes = [*files.notes, *_notes(surveys, found, categories, captions=captions)]
    if fill.table is not None:
        found.set_sizes(surveys, fill.table)
    for one, places in zip(surveys, found.places, strict=True):
        one.ids, one.names = [], []  # what is needed of them is in `places`
        if one.offset >= 0:
            fill.take(one, places)
    account = Account(len(fill.left_out), left_out=tuple(fill.left_out))
    if fill.table is not None:
        notes += _class_notes(fill.table, things)
    rasters = None
    if pngs is not None and isinstance(fill, Segments):
        rasters = fill.rasters(raster_of(surveys[0].path, categories), pngs, found, options)
    return AnnotatedSource(
        found.listing,
        objects=fill.table,
        rasters=rasters,
        columns=[_captions(fill, len(found.listing))] if isinstance(fill, Fill) and captions else [],
        splits=_splits(layout.files, found),
        findings=Findings(found.skipped, notes, account=account if fill.left_out or fill.table is not None else None),
        numbers=numbers,
        described=_described(surveys, categories, kind),
    )


def _check(options: AnnotationOptions) -> None:
    """Raises UsageError for options that are about other formats."""
    if options.class_names is not None:
        raise UsageError("class_names", "COCO's files name their classes", "leave it out")
    objects, segments = (argument("tasks", typed=tasks) for tasks in ("boxes,masks,keypoints", "boxes,rasters"))
    if "classes" in options.tasks:
        raise UsageError("tasks", "COCO's files have no classes of whole images", f"say {objects}, or captions")
    if not any(options.tasks <= together for together in _TAKEN.values()):
        problem = "captions are in a file of their own, and so are objects, and rasters with boxes"
        raise UsageError("tasks", problem, f"make a dataset of each: {objects}, or {segments}, or captions")


def _kind_of(surveys: Sequence[Survey], options: AnnotationOptions) -> Kind:
    """What the annotations are. Raises UsageError where others are asked for than there are."""
    tasks = options.tasks
    kinds: set[Kind] = {one.kind for one in surveys if one.kind != "none"}
    for one in surveys:
        if one.kind != "none" and not tasks <= _TAKEN[one.kind]:
            remedy = f"leave {argument('tasks')} out, or give the file that has them"
            problem = f"has {_WHAT[one.kind]}, not the {some(sorted(tasks - _TAKEN[one.kind]))} that are asked for"
            raise UsageError(one.path, problem, remedy)
    if len(kinds) > 1:
        first, second = (_WHAT[kind] for kind in sorted(kinds)[:2])
        raise UsageError(surveys[0].path, f"{first} are in one file, and {second} in another", "give one of the files")
    return kinds.pop() if kinds else next(kind for kind, taken in _TAKEN.items() if tasks <= taken)


def _things(surveys: Sequence[Survey], options: AnnotationOptions) -> Sequence[Category]:
    """The categories that objects of panoptic files have; none where no boxes are taken, or no category has objects.

    Raises LabelFileError where boxes are asked for, and no category has objects.
    """
    if options.tasks == {"rasters"}:
        return ()
    things = things_of(surveys)
    if not things and "boxes" in options.tasks:
        remedy = f"take the rasters alone: {argument('tasks', typed='rasters')}"
        raise LabelFileError(surveys[0].path, 'no category is a thing ("isthing": 1), which has boxes', remedy)
    return things


def _agreed(surveys: Sequence[Survey]) -> tuple[Category, ...]:
    """The categories of all files. Raises LabelFileError where they are not the same."""
    first = surveys[0]
    of_first = {(one.id, one.name) for one in first.categories}
    for other in surveys[1:]:
        differing = sorted(of_first ^ {(one.id, one.name) for one in other.categories})
        if differing:
            shown = [f"{own} '{escape(name)}'" for own, name in differing[:3]]
            more = ", ..." if len(differing) > 3 else ""
            problem = f"has other categories than {escape(file_name(first.path))}: {', '.join(shown)}{more} "
            problem += f"{'is' if len(differing) == 1 else 'are'} only in one of the two"
            raise LabelFileError(other.path, problem, "give both the same list of categories, with the same ids")
        points = {one.name: one.keypoints for one in first.categories}
        for one in other.categories:
            if one.keypoints != points[one.name]:
                problem = f"the key points of '{escape(one.name)}' are others than in {escape(file_name(first.path))}"
                raise LabelFileError(other.path, problem, "give both the same names in the same order")
    return first.categories


class _Images:
    """Where the images of the files are: `listing` of those that are there, `skipped` for the others.

    `places[f]`: by id, the number in `listing` of each image of file f, or why it has none. `split_of`: int64 [n], the
    file that names each image. `unnamed`: images that no file names. `unwanted`: named, and left out by the options.
    """

    def __init__(self) -> None:
        self.places: list[dict[Id, int | Skipped]] = []
        self.skipped: list[Skipped] = []
        self.unnamed: list[bytes] = []
        self.unwanted = 0

    @classmethod
    def of(
        cls, surveys: Sequence[Survey], files: Sequence[CocoFile], listing: Listing, pngs: Pngs | None = None
    ) -> "_Images":
        """Look all images up; one without its PNG, where there are `pngs`, is not taken.

        Raises UsageError where none is there, LabelFileError where two are the same file."""
        found, lookup = cls(), ImageFiles(listing)
        of_file = np.full(len(listing), -1, np.int64)
        alone: set[int] = set()  # named, and without a PNG
        for f, (one, file) in enumerate(zip(surveys, files, strict=True)):
            places: dict[Id, int | Skipped] = {}
            for own, name in zip(one.ids, one.names, strict=True):
                place = lookup.find(name, file.folder)
                if isinstance(place, Skipped):
                    if listing.choice.wants(place.key):
                        found.skipped.append(place)
                    else:
                        found.unwanted += 1
                elif of_file[place] >= 0:
                    _refuse_twice(surveys, found, listing, place, f, name)
                elif pngs is not None and (why := pngs.problem(f, own)):
                    alone.add(place)
                    place = Skipped(listing.key(place), RejectCode.PAIR.value, why)
                    found.skipped.append(place)
                else:
                    of_file[place] = f
                places[own] = place
            found.places.append(places)
        taken = np.flatnonzero(of_file >= 0)
        if not len(taken):
            _refuse_none(surveys[0], found, listing)
        number_of = np.cumsum(of_file >= 0) - 1
        for places in found.places:
            for own, place in places.items():
                if not isinstance(place, Skipped):
                    places[own] = number_of.item(place)
        rest = [i for i in np.flatnonzero(of_file < 0).tolist() if i not in alone]
        found.unnamed = [key for key in map(listing.key, rest) if names_image(key)]
        found.skipped.sort(key=lambda skipped: skipped.key)
        found.listing, found.split_of = listing.take(taken), of_file[taken]
        return found

    listing: Listing
    split_of: np.ndarray

    def set_sizes(self, surveys: Sequence[Survey], table: ObjectTable) -> None:
        """Tell the table how large the images were that were annotated."""
        for one, places in zip(surveys, self.places, strict=True):
            for own, width, height in zip(one.ids, one.widths, one.heights, strict=True):
                place = places[own]
                if width and not isinstance(place, Skipped):
                    table.set_size(place, width, height)


def _refuse_twice(
    surveys: Sequence[Survey], found: _Images, listing: Listing, place: int, file: int, name: str
) -> None:
    """Raises LabelFileError: `name`, of file number `file`, means an image that another entry has already."""
    problem = f"{escape(name)} means {escape(listing.key(place))}, which another image means already"
    for f, places in enumerate(found.places):
        if place in places.values():
            problem += f", in {escape(file_name(surveys[f].path))}"
    remedy = "give each image one entry in one file: it would be two samples, or in two splits"
    raise LabelFileError(surveys[file].path, problem, remedy)


def _refuse_none(one: Survey, found: _Images, listing: Listing) -> None:
    """Raises UsageError: no image is there."""
    first = found.skipped[0] if found.skipped else None
    why = f": {escape(one.names[0])}, {first.reason}" if first else ""
    problem = f"none of the {number(len(one.names), 'image')} of {escape(file_name(one.path))} is in it{why}"
    raise UsageError(listing.root, problem, f"give the folder of the images: {argument('images', typed='DIR')}")


def _fill(
    surveys: Sequence[Survey], categories: Sequence[Category], options: AnnotationOptions, *, captions: bool
) -> Fill:
    """What takes the annotations."""
    if captions:
        return Fill({}, None)
    masks = "masks" in options.tasks
    points = _keypoints(surveys[0].path, categories, options)
    areas = any(one.areas for one in surveys)
    table = ObjectTable(
        [one.name for one in categories],
        class_ids=[one.id for one in categories],
        what="annotation" if all(one.own_ids for one in surveys) else "entry",
        upright=options.upright,
        columns=[IS_CROWD],
        areas=areas,
        masks=masks,
        keypoints=points,
    )
    labels = {one.id: label for label, one in enumerate(categories)}
    return Fill(labels, table, masks, len(points.names) if points else 0, areas)


def _keypoints(path: str, categories: Sequence[Category], options: AnnotationOptions) -> Keypoints | None:
    """The key points of each object: where they are asked for, or all categories have the same.

    Raises LabelFileError where they are asked for, and there are none, or others in each category.
    """
    having = [one for one in categories if one.keypoints]
    lists = {one.keypoints for one in having}
    if "keypoints" in options.tasks:
        if not lists:
            raise LabelFileError(path, 'no category names "keypoints"', "give the file of key points")
        if len(lists) > 1:
            problem = f"{some(one.name for one in having)} have different key points"
            raise LabelFileError(path, problem, "make a dataset of each: every object has the same key points")
    elif len(lists) != 1 or len(having) < len(categories) or options.tasks:
        return None
    return keypoints_of(having[0])


def _numbers(surveys: Sequence[Survey], found: _Images) -> np.ndarray | None:
    """The id of each image, int64 [n]; None where one is no number from 0 on."""
    if not all(one.numbered for one in surveys):
        return None
    numbers = np.zeros(len(found.listing), np.int64)
    for places in found.places:
        for own, place in places.items():
            if not isinstance(place, Skipped):
                numbers[place] = own
    return numbers


def _splits(files: Sequence[CocoFile], found: _Images) -> Splits | None:
    names = [file.split for file in files if file.split is not None]
    if len(names) < len(files):
        return None
    ordered = tuple(sorted(names))
    return Splits(ordered, np.array([ordered.index(name) for name in names], np.int64)[found.split_of])


def _captions(fill: Fill, images: int) -> ListedColumn:
    """All captions of each image, in the order of the file."""
    of_image = np.frombuffer(fill.images, np.int64) if fill.texts else np.zeros(0, np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(of_image, minlength=images), dtype=np.int64)])
    return TextColumn(CAPTION, fill.texts, np.argsort(of_image, kind="stable"), ends)


def _described(surveys: Sequence[Survey], categories: Sequence[Category], kind: Kind) -> str:
    files = ", ".join(escape(file_name(one.path)) for one in surveys[:4]) + (", ..." if len(surveys) > 4 else "")
    images, annotations = sum(len(one.widths) for one in surveys), sum(one.count for one in surveys)
    if kind == "captions":
        return f"{files}: {number(images, 'image')}, {number(annotations, 'caption')}"
    ids = [one.id for one in categories]
    gaps = ids[-1] - ids[0] + 1 - len(ids) if ids else 0
    between = f" (ids {ids[0]} to {ids[-1]}{f', {gaps:,} not used' if gaps else ''})" if ids else ""
    classes = number(len(ids), "category", "categories")
    what = number(annotations, "PNG of segments", "PNGs of segments")
    what = what if kind == "panoptic" else number(annotations, "annotation")
    return f"{files}: {number(images, 'image')}, {what}, {classes}{between}"


def _notes(
    surveys: Sequence[Survey], found: _Images, categories: Sequence[Category], *, captions: bool
) -> Iterator[str]:
    if found.unnamed:
        yield counted("image files under the root that the annotations do not name", found.unnamed, len(found.unnamed))
    if found.unwanted:
        yield f"images of the annotations that include and exclude leave out: {found.unwanted:,}"
    if not all(one.numbered for one in surveys):
        yield "the ids of images are no numbers from 0 on: image/source_id counts the records instead"
    elif any(own > _EXACT for one in surveys for own in one.ids if isinstance(own, int)):
        yield f"ids of images are above {_EXACT:,}: evaluation that carries them as float32 confuses them"
    if ignored := sum(one.ignored for one in surveys):
        yield f'annotations with "ignore": {ignored:,}; they are taken like all others, as pycocotools does'
    if taken := sum(one.from_addresses for one in surveys):
        yield f"images without a file_name: {taken:,}; the end of their coco_url is taken for it, nothing is downloaded"
    lists = {one.keypoints for one in categories if one.keypoints}
    if lists and not captions:
        points = keypoints_of(next(one for one in categories if one.keypoints))
        if len(lists) == 1 and not points.flip:
            yield "the names of key points do not say which is left and right: images with them cannot be mirrored"


def _class_notes(table: ObjectTable, categories: Sequence[Category]) -> Iterator[str]:
    """About classes that no object has."""
    empty = [one for one, count in zip(categories, table.class_counts(), strict=True) if not count]
    if empty:
        names = [f"{one.name} (id {one.id})" for one in empty]
        yield counted("classes that no object has, which are kept", names, len(names))
    if len(empty) == 1 and empty[0].id == 0 and len(categories) > 1:
        yield f"category 0, '{escape(empty[0].name)}', has no object: Roboflow writes such a one above the classes"

"""COCO's panoptic annotations: a PNG an image whose colours are the ids of segments, and what each segment is.

The class of each pixel becomes the raster, and the boxes of segments that are things become objects.
"""

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from shardfeed.annotations import IS_CROWD, Raster
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError, LeftOut
from shardfeed.converters.sources.annotations.coco.fill import area_of, box_of, crowd_of, place_of
from shardfeed.converters.sources.annotations.coco.stream import JsonStream
from shardfeed.converters.sources.annotations.coco.survey import Category, Id, Survey, file_name, said
from shardfeed.converters.sources.annotations.masks.meaning import VOID, WIDE_VOID
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.objects import MaskTable
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import RasterImage, Skipped
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import some

_LARGEST = 1 << 24  # an id is a colour
_TRIED = 20  # PNGs that are looked for beside their file


def raster_of(path: str, categories: Sequence[Category]) -> Raster:
    """What the pixels of records mean: things and stuff alike, in the order of their ids. Raises LabelFileError."""
    if not categories:
        raise LabelFileError(path, '"categories" is empty', "check the export")
    ids = tuple(one.id for one in categories)
    void = VOID if len(ids) <= VOID else WIDE_VOID
    return Raster(tuple(one.name for one in categories), void, () if ids == tuple(range(len(ids))) else ids)


def things_of(surveys: Sequence[Survey]) -> tuple[Category, ...]:
    """The categories of which segments are objects. Raises LabelFileError where files do not say it, or differ."""
    first = {one.id: one.is_thing for one in surveys[0].categories}
    for survey in surveys:
        for one in survey.categories:
            place = f"{survey.path}, category {one.id}"
            if one.is_thing is None:
                remedy = f"correct it, or take the classes of pixels alone: {argument('tasks', typed='rasters')}"
                raise LabelFileError(place, 'it has no "isthing" of 0 or 1, which says whether it has objects', remedy)
            if one.is_thing != first[one.id]:
                problem = f'its "isthing" is another than in {escape(file_name(surveys[0].path))}'
                raise LabelFileError(place, problem, "give both the same list of categories")
    return tuple(one for one in surveys[0].categories if one.is_thing)


class Pngs:
    """The PNGs that files of annotations name: `listings[f]` those of file f, found by their exact names."""

    def __init__(self, surveys: Sequence[Survey], options: AnnotationOptions) -> None:
        """Raises UsageError where the PNGs of a file are in none of the usual folders."""
        self._surveys = surveys
        folders = [_folder(one, options) for one in surveys]
        self.listings = tuple(list_files(folder, follow_links=options.follow_links) for folder in folders)

    def find(self, file: int, image: Id) -> int:
        """The number of an image's PNG in the listing of its file, or -1."""
        name = self._surveys[file].pngs.get(image)
        return -1 if name is None else self.listings[file].find(_bytes(name))

    def problem(self, file: int, image: Id) -> str:
        """Why an image cannot have a raster; "" where it can."""
        if self.find(file, image) >= 0:
            return ""
        name = self._surveys[file].pngs.get(image)
        return "no annotation names its PNG" if name is None else f"its PNG {escape(name)} is not there"

    def not_among(self, files: Listing) -> Listing:
        """`files` without these PNGs, which may lie below the root of the images and are none."""
        named: set[bytes] = set()
        for one, listing in zip(self._surveys, self.listings, strict=True):
            root = os.path.realpath(listing.root)
            named.update(os.path.join(root, _bytes(name)) for name in one.pngs.values())
        root = os.path.realpath(files.root)
        kept = [i for i, key in enumerate(files) if os.path.join(root, key) not in named]
        return files.take(np.array(kept, np.int64))

    def of_images(self, places: Sequence[Mapping[Id, int | Skipped]], images: int) -> np.ndarray:
        """Int64 [images]: the number of each image's PNG; `places[f]`: by id, the number of each image of file f."""
        found = np.zeros(images, np.int64)
        for file, of_file in enumerate(places):
            for image, place in of_file.items():
                if not isinstance(place, Skipped):
                    found[place] = self.find(file, image)
        return found


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _folder(one: Survey, options: AnnotationOptions) -> str:
    """The folder of a file's PNGs: called like the file, or the file's own where the PNGs lie beside it."""
    here = os.path.dirname(os.path.abspath(one.path))
    stem = os.path.splitext(os.path.basename(one.path))[0]
    tried = [os.path.join(base, stem) for base in (here, os.path.dirname(here), options.images) if base is not None]
    for folder in tried:
        if os.path.isdir(folder):
            return folder
    for name, _ in zip(one.pngs.values(), range(_TRIED), strict=False):
        if "\0" not in name and os.path.isfile(os.path.join(os.fsencode(here), _bytes(name))):
            return here
    remedy = f"put them into a folder {escape(stem)} beside the file, or take boxes alone: "
    raise UsageError(
        one.path, f"the folder of its PNGs is none of {some(tried)}", remedy + argument("tasks", typed="boxes")
    )


class Segments:
    """Takes the segments of one file after the other: those of things into `table`, their ids as colours of a raster.

    `table`: None where no boxes are taken. `left_out`: segments that say no class, or no box.
    """

    def __init__(
        self, surveys: Sequence[Survey], things: Sequence[Category], images: Listing, options: AnnotationOptions
    ) -> None:
        """`things`: the categories that objects have; none where no boxes are taken. `images`: those that are there."""
        self._key_of = images.key
        self._labels = {one.id: label for label, one in enumerate(surveys[0].categories)}
        self._things = {one.id: label for label, one in enumerate(things)}
        self.table = None
        self._areas = any(one.areas for one in surveys)
        if things:
            self.table = ObjectTable(
                [one.name for one in things],
                class_ids=[one.id for one in things],
                what="segment",
                upright=options.upright,
                columns=[IS_CROWD],
                areas=self._areas,
            )
        self.left_out: list[LeftOut] = []
        self._images, self._ids, self._classes = array("q"), array("i"), array("i")

    def take(self, survey: Survey, places: Mapping[Id, int | Skipped]) -> None:
        """All segments of a file. Of stuff the account has faults alone: it is no object, and in the raster."""
        of_file = file_name(survey.path).encode("utf-8", "surrogateescape")
        stream = JsonStream(survey.path, survey.offset)
        try:
            for i, entry in enumerate(stream.elements()):
                segments = entry.get("segments_info") if isinstance(entry, dict) else None
                if not isinstance(segments, list):
                    self._leave_out(of_file, f"entry {i}", AnnotationCode.LINE, f"got {said(entry)}, not its segments")
                    continue
                ids = Counter(one["id"] for one in segments if isinstance(one, dict) and type(one.get("id")) is int)
                for segment in segments:
                    key = of_file
                    try:
                        place = place_of(entry, places)
                        key = place.key if isinstance(place, Skipped) else self._key_of(place)
                        self._take(segment, place, ids)
                    except BadAnnotationError as error:
                        own = segment.get("id") if isinstance(segment, dict) else None
                        self._leave_out(key, f"entry {i}, segment {said(own)}", error.code, error.reason)
        finally:
            stream.close()

    def _leave_out(self, key: bytes, which: str, code: AnnotationCode, reason: str) -> None:
        self.left_out.append(LeftOut(key, code.value, f"{which}: {reason}"))

    def _take(self, segment: Any, place: int | Skipped, ids: Mapping[int, int]) -> None:
        """One segment. Raises BadAnnotationError.

        One without a class leaves a colour of which nobody knows what it is, and with it the worker refuses the image.
        """
        if not isinstance(segment, dict):
            raise BadAnnotationError(AnnotationCode.LINE, f"got {said(segment)}, expected an object")
        category, own = segment.get("category_id"), segment.get("id")
        label = self._labels.get(category) if type(category) is int else None
        if label is None or type(category) is not int:
            reason = f"its category_id is {said(category)}, which no category has"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        if isinstance(place, Skipped):
            if self.table is not None and category in self._things:
                raise BadAnnotationError(AnnotationCode.IMAGE, f"its image was left out: {place.reason}")
            return
        if type(own) is not int or not 0 < own < _LARGEST:
            raise BadAnnotationError(AnnotationCode.VALUE, f"its id is {said(own)}, expected 1 to {_LARGEST - 1:,}")
        if ids[own] > 1:
            raise BadAnnotationError(AnnotationCode.VALUE, "another segment of the image has its id, too")
        self._images.append(place)
        self._ids.append(own)
        self._classes.append(label)
        thing = self._things.get(category)
        if self.table is None or thing is None:
            return
        left, top, width, height = box_of(segment.get("bbox"))
        self.table.add(
            place,
            own,
            (left, top, left + width, top + height),
            thing,
            columns={IS_CROWD: crowd_of(segment)},
            area=area_of(segment.get("area"), width * height) if self._areas else 0.0,
        )

    def rasters(
        self, raster: Raster, pngs: Pngs, found: "FoundImages", options: AnnotationOptions
    ) -> "PanopticRasters":
        """The raster of each image that was found."""
        images = len(found.split_of)
        of_image = np.array(self._images, np.int64)
        rows = np.stack([np.array(self._ids, np.int32), np.array(self._classes, np.int32)], axis=1)
        starts = np.zeros(images + 1, np.int64)
        np.cumsum(np.bincount(of_image, minlength=images), out=starts[1:])
        return PanopticRasters(
            raster,
            pngs.listings,
            found.split_of,
            pngs.of_images(found.places, images),
            rows[np.argsort(of_image, kind="stable")],
            starts,
            options.upright,
        )


class FoundImages(Protocol):
    """`places[f]`: by id, the number of each image of file f, or why it has none; `split_of`: int64 [n], its file."""

    places: list[dict[Id, int | Skipped]]
    split_of: np.ndarray


@dataclass(frozen=True, eq=False)
class PanopticRasters:
    """PNGs of segments. That of image i is number `png_of[i]` of `pngs[file_of[i]]`; its segments are rows `starts[i]`
    to `starts[i + 1]` of `segments`, int32 [m, 2]: id and class.
    """

    raster: Raster
    pngs: tuple[Listing, ...]
    file_of: np.ndarray
    png_of: np.ndarray
    segments: np.ndarray
    starts: np.ndarray
    upright: bool | None

    def of_image(self, image: int) -> RasterImage:
        """The PNG of one image, and the class of each of its colours."""
        pngs, place = self.pngs[self.file_of.item(image)], self.png_of.item(image)
        rows = self.segments[self.starts[image] : self.starts[image + 1]].tolist()
        colours = [(own & 255, own >> 8 & 255, own >> 16, label) for own, label in rows]
        table = MaskTable(colours=((0, 0, 0, self.raster.void or 0), *colours))
        return RasterImage(pngs.file(place), table, os.fsdecode(pngs.key(place)), self.upright)

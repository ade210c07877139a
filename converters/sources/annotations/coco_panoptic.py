"""COCO's panoptic annotations: one PNG per image with segment ids as colours, and the category of each segment.

The class of each pixel becomes the raster, and the boxes of segments that are things become objects.
"""

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.annotations import IS_CROWD, Raster
from shardfeed.converters.rejects import AnnotationCode, RejectCode
from shardfeed.converters.sources.annotations.coco_files import Category, CocoFile
from shardfeed.converters.sources.annotations.masks_meaning import VOID, WIDE_VOID
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.columns import as_array
from shardfeed.converters.sources.rows.objects import corners_of, shown_value
from shardfeed.converters.sources.source import MaskTable, RasterImage
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import some

_LARGEST = 1 << 24  # an id is a colour


def object_categories(path: str, categories: Sequence[Category], options: AnnotationOptions) -> Sequence[Category]:
    """Return the categories whose segments are objects; empty if no boxes were requested.

    Raises LabelFileError if the file does not define them, or has none and boxes were requested.
    """
    rasters = argument("tasks", typed="rasters")
    if options.tasks == {"rasters"}:
        return ()
    for one in categories:
        if one.is_thing is None:
            problem = 'its "isthing" is not 0 or 1, so it is unknown whether it is a thing'
            raise LabelFileError(f"{path}, category {one.id}", problem, f"correct it, or convert the pixels: {rasters}")
    things = [one for one in categories if one.is_thing]
    if not things and "boxes" in options.tasks:
        problem = 'no category is a thing ("isthing": 1), so there are no boxes'
        raise LabelFileError(path, problem, f"convert only the rasters: {rasters}")
    return things


def folder_of(file: CocoFile, options: AnnotationOptions) -> str:
    """Return the folder of a file's PNGs: named like the file, or the file's own folder if it contains PNGs.

    Raises UsageError if there is none.
    """
    here = os.path.dirname(os.path.abspath(file.path))
    stem = os.path.splitext(file.name)[0]
    bases = [here, os.path.dirname(here), *([] if options.images is None else [os.fspath(options.images)])]
    tried = [os.path.join(base, stem) for base in bases]
    for folder in tried:
        if os.path.isdir(folder):
            return folder
    if any(name.lower().endswith(".png") for name in os.listdir(here)):
        return here
    remedy = f"put them into a folder {escape(stem)} next to the file, or convert only boxes: "
    problem = f"the folder of its PNGs is missing, tried {some(tried)}"
    raise UsageError(file.path, problem, remedy + argument("tasks", typed="boxes"))


class Segments:
    """Takes the segments of one file after the other: segments of things as objects, all ids as colours of a raster.

    Args:
        found: takes the objects.
        categories: of all files.
        things: the categories with objects.
        pngs: folder of PNGs of each file; empty if no rasters are taken.
    """

    def __init__(
        self, found: Annotations, categories: Sequence[Category], things: Sequence[Category], pngs: Sequence[Listing]
    ) -> None:
        self._found, self._categories = found, categories
        self._labels = {one.id: label for label, one in enumerate(categories)}
        self._things = frozenset(one.id for one in things)
        self._images, self._ids, self._classes = array("q"), array("i"), array("i")
        self._pngs = tuple(pngs)
        self._named: list[dict[int, str]] = []  # of each file, the PNG of each image

    def begin(self) -> None:
        """The next file."""
        self._named.append({})

    def take(self, image: int, i: int, entry: Mapping[str, Any], path: str) -> None:
        """Add one annotation; segments of stuff are counted only if they are faulty, because they are not objects.

        A segment without a class leaves a colour with an unknown meaning, so the worker rejects the image. Raises
        LabelFileError for a second annotation of an image.
        """
        name, segments = entry.get("file_name"), entry.get("segments_info")
        if isinstance(name, str):
            before = self._named[-1].setdefault(image, name)
            if before != name:
                of = f"the image {shown_value(entry.get('image_id'))}: {escape(before)} and {escape(name)}"
                problem = f"two annotations are of {of}"
                raise LabelFileError(path, problem, "give each image one annotation, with one PNG")
        if not isinstance(segments, list):
            self._found.leave_out(image, AnnotationCode.LINE, f"entry {i}: got {shown_value(entry)}, not its segments")
            return
        ids = Counter(one["id"] for one in segments if isinstance(one, dict) and type(one.get("id")) is int)
        for segment in segments:
            own = segment.get("id") if isinstance(segment, dict) else None
            if fault := self._take(image, segment, own, ids):
                self._found.leave_out(image, fault[0], f"entry {i}, segment {shown_value(own)}: {fault[1]}")

    def _take(self, image: int, segment: Any, own: Any, ids: Mapping[int, int]) -> tuple[AnnotationCode, str] | None:
        if not isinstance(segment, dict):
            return AnnotationCode.LINE, f"got {shown_value(segment)}, expected an object"
        category = segment.get("category_id")
        label = self._labels.get(category) if type(category) is int else None
        if label is None or type(category) is not int:
            return AnnotationCode.CATEGORY, f"its category_id is {shown_value(category)}, which no category has"
        if type(own) is not int or not 0 < own < _LARGEST:
            return AnnotationCode.VALUE, f"its id is {shown_value(own)}, expected 1 to {_LARGEST - 1:,}"
        if ids[own] > 1:
            return AnnotationCode.VALUE, "another segment of the image has the same id"
        self._images.append(image)
        self._ids.append(own)
        self._classes.append(label)
        if category in self._things:
            flags = {IS_CROWD: segment.get("iscrowd")}
            box, area = corners_of(segment.get("bbox")), segment.get("area")
            self._found.object(image, own, box, str(category), area=area, flags=flags, own_id=own)
        return None

    def pair(self, images_of: Sequence[Sequence[int]]) -> "dict[int, tuple[int, int]]":
        """Pair each image that `images_of` names with its PNG; reject images without a PNG."""
        found: dict[int, tuple[int, int]] = {}
        for file, images in enumerate(images_of if self._pngs else ()):
            for image in images:
                name = self._named[file].get(image)
                png = -1 if name is None else self._pngs[file].find(name.encode("utf-8", "surrogatepass"))
                if png >= 0:
                    found[image] = file, png
                elif self._found.is_usable(image):
                    why = "no annotation refers to its PNG" if name is None else f"its PNG {escape(name)} is missing"
                    self._found.reject(image, RejectCode.PAIR, why)
        return found

    def rasters(self, pairs: Mapping[int, tuple[int, int]], places: np.ndarray) -> "PanopticRasters":
        """The rasters of all images that have a place in the source."""
        count = int(places.max(initial=-1)) + 1
        png_of = np.zeros((count, 2), np.int64)
        for image, pair in pairs.items():
            if places[image] >= 0:
                png_of[places[image]] = pair
        of_segment = places[as_array(self._images)]
        order = np.argsort(of_segment, kind="stable")
        order = order[np.searchsorted(of_segment[order], 0) :]
        rows = np.stack([as_array(self._ids), as_array(self._classes)], axis=1)[order]
        starts = np.cumsum(np.bincount(of_segment[order] + 1, minlength=count + 1), dtype=np.int64)
        ids = tuple(one.id for one in self._categories)
        void = VOID if len(ids) <= VOID else WIDE_VOID
        names = tuple(one.name for one in self._categories)
        raster = Raster(names, void, () if ids == tuple(range(len(ids))) else ids)
        return PanopticRasters(raster, self._pngs, png_of, rows, starts, self._found.options.upright)


@dataclass(frozen=True, eq=False)
class PanopticRasters:
    """PNGs of segments.

    `png_of[i]` of image i: an index into `pngs`, and the index of a file in it. The image's segments are the rows
    `starts[i]` to `starts[i + 1]` of `segments`, int32 [m, 2]: id and class.
    """

    raster: Raster
    pngs: tuple[Listing, ...]
    png_of: np.ndarray
    segments: np.ndarray
    starts: np.ndarray
    upright: bool | None

    def of_image(self, image: int) -> RasterImage:
        """The PNG of one image, and the class of each of its colours."""
        file, place = self.png_of[image].tolist()
        rows = self.segments[self.starts[image] : self.starts[image + 1]].tolist()
        colours = [(own & 255, own >> 8 & 255, own >> 16, label) for own, label in rows]
        table = MaskTable(colours=((0, 0, 0, self.raster.void or 0), *colours))
        pngs = self.pngs[file]
        return RasterImage(pngs.file(place), table, os.fsdecode(pngs.key(place)), self.upright)

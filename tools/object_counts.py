"""Numbers and sizes of the objects in a split, which determine anchors, padding and batch size."""

from dataclasses import dataclass

import numpy as np

from shardfeed.annotations import IS_CROWD, OBJECT_AREA, OBJECT_LABEL, XMAX, XMIN, YMAX, YMIN
from shardfeed.readers.split import Record, Split
from shardfeed.schema import HEIGHT, WIDTH
from shardfeed.text import number

RECORDS_READ = 2_000  # of a split, at most: objects are in the records, together with the images
_SMALL, _MEDIUM = 32**2, 96**2  # pixels: below these an object is small, medium, to COCO's evaluation


@dataclass(frozen=True)
class ObjectCounts:
    """Object counts of a split. `images`: images it has; `read`: images that were read, spread evenly over the split.

    `by_class`: objects of each class in the whole split, in label order; empty if objects have no class. All other
    values are for the images that were read. `objects`: number of objects, crowds included. `empty`: images without
    objects. `median`, `most`: objects per image. `small`, `medium`, `large`: objects that are not crowds, by their area
    in square pixels of the stored image (below 32 x 32, below 96 x 96, others): the region's if it is known, else the
    box's.
    """

    images: int
    read: int
    by_class: tuple[int, ...]
    objects: int
    empty: int
    median: float
    most: int
    small: int
    medium: int
    large: int
    crowds: int


def object_counts(split: Split, most_read: int = RECORDS_READ) -> ObjectCounts | None:
    """Count the objects of a split, reading up to `most_read` records. None if records have no objects."""
    schema = split.schema
    if not schema.object_keys or not len(split):
        return None
    read = min(len(split), most_read)
    chosen = np.linspace(0, len(split) - 1, read).round().astype(int).tolist()
    counts: list[int] = []
    areas: list[np.ndarray] = [np.zeros(0)]
    crowds = 0
    for index in chosen:
        record = split[index]
        area = _areas(record)
        counts.append(len(area))
        crowd = np.asarray(record.get(IS_CROWD, ()), bool)
        crowds += int(crowd.sum())
        areas.append(area[~crowd] if len(crowd) else area)
    sizes = np.concatenate(areas)
    return ObjectCounts(
        images=len(split),
        read=read,
        by_class=tuple(split.class_counts.get(OBJECT_LABEL, ())),
        objects=sum(counts),
        empty=counts.count(0),
        median=float(np.median(counts)),
        most=max(counts),
        small=int((sizes < _SMALL).sum()),
        medium=int(((sizes >= _SMALL) & (sizes < _MEDIUM)).sum()),
        large=int((sizes >= _MEDIUM).sum()),
        crowds=crowds,
    )


def _areas(record: Record) -> np.ndarray:
    """Area of each object of a record, in square pixels."""
    if OBJECT_AREA in record:
        return np.asarray(record[OBJECT_AREA], np.float64)
    left, top, right, bottom = (np.asarray(record.get(key, ()), np.float64) for key in (XMIN, YMIN, XMAX, YMAX))
    return (right - left) * float(record[WIDTH]) * (bottom - top) * float(record[HEIGHT])  # type: ignore[arg-type]


def counts_text(counts: ObjectCounts) -> str:
    """Sentences: number of objects, their images and sizes; and the number of images read."""
    parts = [
        f"{number(counts.objects, 'object')} in {number(counts.read, 'image')}, {counts.empty:,} without any",
        f"{counts.median:g} per image (median), {counts.most:,} at most",
        f"{counts.small:,} small (below 32x32 pixels), {counts.medium:,} medium, {counts.large:,} large (from 96x96)",
    ]
    if counts.crowds:
        parts.append(number(counts.crowds, "crowd"))
    sampled = f"; of {counts.read:,} images, sampled evenly from all {counts.images:,}"
    return ", ".join(parts) + sampled * (counts.read < counts.images)

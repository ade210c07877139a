"""What a user may say of annotations, whatever file they are in."""

from dataclasses import dataclass
from typing import Literal

from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.files.patterns import Globs

Task = Literal["boxes", "masks", "keypoints", "captions", "classes", "rasters"]


@dataclass(frozen=True)
class AnnotationOptions:
    """For `recognise` and `read` of every reader in this folder.

    `images`: the folder that image names are relative to; None: where the annotations say, or lie. `tasks`: what is
    taken; empty: what the format is for, without masks, which cost time and bytes. `boxes_on`: which image was
    annotated where EXIF turns it and nothing else tells. `voc_origin`: the number of the first pixel in Pascal VOC.
    `colours`: of masks, a file that names the colour of each class. `void`: the value in masks of pixels of no class;
    None: what the format says, else 255; "none": there is no such value. `class_names`: in label order, where the
    annotations do not say. `split`: the split of all, where they do not say.
    `delimiter`, `encoding`: of tables, as of `LabelTable`. The others as of `list_files`.
    """

    images: str | None = None
    tasks: frozenset[Task] = frozenset()
    boxes_on: Literal["upright", "stored"] | None = None
    voc_origin: Literal[0, 1] = 0
    class_names: ClassList | None = None
    colours: str | None = None
    void: int | Literal["none"] | None = None
    split: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    include: Globs = ()
    exclude: Globs = ()
    follow_links: bool = False

    @property
    def upright(self) -> bool | None:
        """`boxes_on` as `ObjectTable` takes it."""
        return None if self.boxes_on is None else self.boxes_on == "upright"

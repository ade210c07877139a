"""Boxes in a column `objects`: a list of structs, or a struct of lists, of bbox and category."""

from array import array
from typing import Any

from shardfeed.annotations import IS_CROWD
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.gathering import Ledger
from shardfeed.converters.sources.containers.packed.compact import Codes, Packed
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.errors import UsageError, escape
from shardfeed.text import some


class Boxes:
    """The boxes of all rows, in pixels: left, top, width and height."""

    def __init__(self) -> None:
        self._images, self._boxes, self._crowd, self._areas = array("q"), array("d"), array("b"), array("d")
        self._classes = Codes()
        self._bad: list[tuple[int, AnnotationCode, str]] = []  # image, and why an object is none
        self._has_crowd = self._has_areas = False
        self._has_classes = True
        self._sizes: dict[int, tuple[int, int]] = {}

    def add(self, image: int, objects: Any, size: list[Any]) -> None:
        """The boxes of a sample, by its number. `size`: width and height of its image, where they are known."""
        if len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size):
            self._sizes[image] = (size[0], size[1])
        for i, one in enumerate(_objects(objects)):
            box = one.get("bbox")
            category = one.get("category", one.get("categories"))
            if not isinstance(box, list) or len(box) != 4 or not all(isinstance(side, int | float) for side in box):
                self._bad.append(
                    (image, AnnotationCode.LINE, f"object {i}: got {escape(str(box)[:40])}, expected 4 numbers")
                )
                continue
            if (category is None and "category" in one) or isinstance(category, list | dict | float):
                self._bad.append((image, AnnotationCode.CATEGORY, f"object {i}: it names no class"))
                continue
            left, top, width, height = map(float, box)
            self._images.append(image)
            self._boxes.extend((left, top, left + width, top + height))
            self._has_classes &= category is not None
            self._classes.add("" if category is None else str(category))
            crowd, area = one.get("iscrowd"), one.get("area")
            self._has_crowd |= crowd is not None
            self._crowd.append(bool(crowd))
            self._has_areas |= area is not None
            self._areas.append(float(area) if isinstance(area, int | float) else width * height)

    def table(
        self, given: tuple[str, ...] | None, own: tuple[str, ...] | None, keys: Packed, ledger: Ledger
    ) -> ObjectTable:
        """All boxes; what is none goes into the ledger. `keys`: of all samples.

        `own`: the class names that the file has, in label order; `given`: those that the user says instead. Without
        either, classes are those that occur.
        """
        codes, texts = self._classes.codes.tolist(), list(self._classes.values)
        classes = _classes(texts, given, own) if self._has_classes and (codes or own or given) else None
        table = ObjectTable(
            None if classes is None else classes.names,
            class_ids=() if classes is None else classes.ids,
            what="object",
            columns=(IS_CROWD,) if self._has_crowd else (),
            areas=self._has_areas,
        )
        ledger.notes += () if classes is None else classes.notes
        for image, (width, height) in self._sizes.items():
            table.set_size(image, width, height)
        for image, code, reason in self._bad:
            ledger.leave_out(keys[image], code, reason)
        before, place = -1, 0
        for i, image in enumerate(self._images):
            before, place = image, place + 1 if image == before else 0
            try:
                label = 0 if classes is None else classes.label(texts[codes[i]])
            except BadAnnotationError as error:
                ledger.leave_out(keys[image], error.code, f"object {place}: {error.reason}")
                continue
            box = self._boxes[4 * i : 4 * i + 4]
            table.add(image, place, box, label, columns={IS_CROWD: self._crowd[i]}, area=self._areas[i])
        return table


class _Places:
    """Class names that a file has, of which categories are the places."""

    ids: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def label(self, text: str) -> int:
        """The label of a category. Raises BadAnnotationError."""
        if not text.isdecimal() or int(text) >= len(self.names):
            reason = f"got the category {escape(text)}, expected 0 to {len(self.names) - 1}"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        return int(text)


def _classes(texts: list[str], given: tuple[str, ...] | None, own: tuple[str, ...] | None) -> ObjectClasses | _Places:
    """Raises UsageError where names are given for another number of classes."""
    if own is None:
        return ObjectClasses(texts, given)
    if given is not None and len(given) != len(own):
        problem = f"got {len(given)} names for {len(own)} classes of objects ({some(own)})"
        raise UsageError("class_names", problem, "name each of them")
    return _Places(given or own)


def _objects(objects: Any) -> list[dict[str, Any]]:
    """Of a row, each as a dict."""
    if isinstance(objects, list):
        return [one if isinstance(one, dict) else {} for one in objects]
    if not isinstance(objects, dict):
        return []
    boxes = objects.get("bbox")
    count = len(boxes) if isinstance(boxes, list) else 0
    lists = {name: values for name, values in objects.items() if isinstance(values, list) and len(values) == count}
    return [{name: values[i] for name, values in lists.items()} for i in range(count)]

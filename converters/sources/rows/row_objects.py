"""Objects of rows: each a mapping as COCO has it, or columns with a value for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardfeed.converters.sources.classes import BadLabelError, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.class_names import NamesFile
from shardfeed.converters.sources.objects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.options import ColumnOptions, Unit
from shardfeed.converters.sources.rows.class_column import ClassTexts
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.rows.objects import ObjectColumns, ObjectGather, class_text, values_of
from shardfeed.converters.sources.rows.roles import ColumnInfo
from shardfeed.errors import UsageError


class RowObjects(ObjectGather):
    """Collector of the objects of rows, image by image."""

    def __init__(self, unit: Unit, upright: bool | None) -> None:
        super().__init__(unit=unit, upright=upright)
        self._beside: ClassTexts | None = None  # where objects come as columns
        self._class_texts: dict[Any, str] = {}
        self.numbered = False  # whether label offset or label map were used, once `table` has been called

    def take(
        self, image: int, found: Sequence[Mapping[str, Any]] | ObjectColumns
    ) -> Iterator[tuple[AnnotationCode, str]]:
        """Take all of an image; yields the code and the reason of each that cannot be taken."""
        if isinstance(found, ObjectColumns):
            yield from self._take_columns(image, found)
            return
        for i, one in enumerate(found):
            try:
                self.add(image, i, **values_of(one))
            except BadAnnotationError as error:
                yield error.code, f"object {i}: {error.reason}"

    def _take_columns(self, image: int, found: ObjectColumns) -> Iterator[tuple[AnnotationCode, str]]:
        self._beside, texts = self._beside or ClassTexts(), None
        if found.labels is not None:
            known = self._class_texts
            texts = [known.get(one) or known.setdefault(one, class_text(one)) for one in found.labels]
            if found.texts is not None:
                self._beside.add(found.labels, found.texts)
        if self.add_all(image, found, texts):
            return
        for i in range(len(found.corners)):
            one = {**found.one(i), "label": None if texts is None else texts[i]}
            try:
                self.add(image, i, **one)
            except BadAnnotationError as error:
                yield error.code, f"object {i}: {error.reason}"

    def table(
        self,
        info: ColumnInfo,
        options: ColumnOptions,
        place: str,
        beside: Mapping[str, NamesFile],
        notes: list[str],
        leave_out: Callable[[int, AnnotationCode, str], object],
    ) -> ObjectTable:
        """Name the classes and make the table."""
        given, column = class_list(options.class_names), info.name
        classes, texts, stated = None, self.class_texts, info.class_names
        known: dict[str, Any] = {"integers": "ids"}
        if self._beside is not None and texts and all(map(is_integer, texts)):
            self.numbered = True
            known = {"beside": beside.get(column, beside.get("")), "texts": self._beside.agreed(column, notes)}
            known |= {"label_map": options.label_map, "offset": options.label_offset}
        try:
            if self.classed or (given or stated) is not None:
                classes = number_classes(texts, given, stated=stated, **known)
        except BadLabelError as error:
            raise UsageError(f"{place}, column {column}", error.problem, error.remedy) from None
        notes += [f"column {column}: {note}" for note in classes.notes] if classes else []
        self.check_unit(place, options.unit)
        return self.finish(classes, None, leave_out)

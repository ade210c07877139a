"""Class names of objects and their labels, once all that a source says is known."""

import unicodedata
from collections.abc import Collection, Sequence

from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.classes import ClassList, class_list, is_integer, number_classes
from shardfeed.errors import UsageError, escape
from shardfeed.schema import is_plain
from shardfeed.text import some

_WHOLE = 2**53  # from there on not every integer is a float, and no class is called so


class ObjectClasses:
    """Names in label order, and the label of each class that an object names.

    `texts`: each different class that objects name. Without a list that is `given`, names are sorted by their bytes,
    or, where all are integers, by their value; `ids` are those integers where they are not the labels. With one, an
    integer is a place in it where no class in it is called by an integer. `stated`: the names that the format has, in
    label order; numbers are places in it, and a given list must name each of them anew. `stated_ids`: the numbers that
    the format has for those names, where they are not their places.
    """

    def __init__(
        self,
        texts: Collection[str],
        given: ClassList | None = None,
        stated: Sequence[str] | None = None,
        stated_ids: Sequence[int] = (),
    ) -> None:
        self._labels: dict[str, int] = {}
        self.ids: tuple[int, ...] = ()
        self.notes: tuple[str, ...] = ()
        texts = {text for text in texts if is_plain(text)}
        names = class_list(given)
        if stated is not None:
            if names is not None and len(names) != len(stated):
                problem = f"got {len(names)} names for {len(stated)} classes of objects ({some(stated)})"
                raise UsageError("class_names", problem, "name each of them")
            self.names = names or tuple(stated)
            own = tuple(stated_ids) or tuple(range(len(stated)))
            self.ids = () if own == tuple(range(len(own))) else own
            self._labels = {str(number): label for label, number in enumerate(own)}
            self._labels |= {name: label for label, name in enumerate(stated) if name not in self._labels}
        elif names is not None:
            self.names = names
            same = {unicodedata.normalize("NFC", name): i for i, name in enumerate(names)}
            places = not any(map(is_integer, names))
            for text in texts:
                if (name := unicodedata.normalize("NFC", text)) in same:
                    self._labels[text] = same[name]
                elif places and is_integer(text) and 0 <= int(text) < len(names):
                    self._labels[text] = int(text)
        elif texts and all(is_integer(text) and abs(int(text)) < _WHOLE for text in texts):
            numbers = sorted({int(text) for text in texts})
            self.names = tuple(map(str, numbers))
            self.ids = () if numbers == list(range(len(numbers))) else tuple(numbers)
            places_of = {value: label for label, value in enumerate(numbers)}
            self._labels = {text: places_of[int(text)] for text in texts}
        else:
            numbering = number_classes(texts, integers_are_labels=False)
            self.names, self._labels, self.notes = numbering.names, numbering.labels, numbering.notes

    def label(self, text: str) -> int:
        """The label of a class. Raises BadAnnotationError, E_CATEGORY, where there is none."""
        label = self._labels.get(text)
        if label is None and not text:
            raise BadAnnotationError(AnnotationCode.CATEGORY, "it names no class")
        if label is None:
            known = f"of {some(self.names)}" if is_plain(text) else "that is plain text"
            raise BadAnnotationError(AnnotationCode.CATEGORY, f"got the class '{escape(text)}', expected one {known}")
        return label

"""JSON and XML documents of annotations, whose parts are checked."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.files.text import declared_text
from shardfeed.converters.sources.reading import MOST_WHOLE, read_raw
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import shown_value
from shardfeed.errors import LabelFileError, escape, spell_out

if TYPE_CHECKING:
    from xml.etree import ElementTree

Element: TypeAlias = "ElementTree.Element"
T = TypeVar("T")
_DECLARATION = re.compile("<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_CALLED: dict[type, str] = {list: "a list", dict: "an object", str: "a text"}


def reason_of(error: LabelFileError) -> str:
    """Problem and remedy of an error, for a file that is left out."""
    return ": ".join(map(spell_out, error.args[1:3]))


def part(value: Any, key: str, kind: type[T], place: str, default: T | None = None) -> T:
    """The value under a key of a JSON object; `default` if it is null or missing.

    `place`: of the object, for errors. Raises LabelFileError if the value is not a `kind`.
    """
    found = value.get(key) if isinstance(value, dict) else None
    found = default if found is None else found
    if isinstance(found, kind):
        return found
    got, expected = shown_value(value), f"an object with {key}"
    if isinstance(value, dict):
        got, expected = f"no {key}" if found is None else f"{shown_value(found)} as {key}", _CALLED[kind]
    raise LabelFileError(place, f"got {got}, expected {expected}", "export it again, or correct it")


def entries_of(document: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Place for errors, place for the report, and value of each entry in a list. Raises LabelFileError for no list."""
    if not isinstance(document, list):
        raise LabelFileError(path, f"got {shown_value(document)}, expected a list", "export it again, or correct it")
    for number, entry in enumerate(document):
        yield f"{path}, entry {number}", f"{os.path.basename(path)}, entry {number}", entry


def objects_in(found: Annotations, image: int, entries: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number and content of each object in a list of an image, or in a JSON object with numbers as its keys.

    An entry that is not a JSON object is listed (E_LINE), and so is a value that is not a list; null means no objects.
    """
    entries = list(entries.values()) if isinstance(entries, dict) else [] if entries is None else entries
    if not isinstance(entries, list):
        found.leave_out(image, AnnotationCode.LINE, f"got {shown_value(entries)}, expected a list of objects")
        return
    for number, entry in enumerate(entries):
        if isinstance(entry, dict):
            yield number, entry
        else:
            found.leave_out(image, AnnotationCode.LINE, f"{found.objects.what} {number}: got {shown_value(entry)}")


def load_xml(path: str, most: int = MOST_WHOLE) -> Element:
    """The root of an XML file of `most` bytes. Raises LabelFileError, for a DOCTYPE too."""
    from xml.etree import ElementTree  # not above: most documents are JSON

    text = declared_text(read_raw(path, most), path)  # here and not by expat, which knows no encoding of Chinese
    if _DECLARATION.search(text.replace("\0", "")):  # before it is parsed: entities may grow without bounds
        raise LabelFileError(path, "it has a DOCTYPE or an ENTITY, which are not allowed", "remove them")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:  # the latter: of characters that are no text
        raise LabelFileError(path, f"not XML: {escape(error)}", "export it again") from None

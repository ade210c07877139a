"""Class names of datasets: a map of old names to new ones, and the lists of several datasets as one."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from shardfeed.converters.existing.record_change import DROPPED
from shardfeed.errors import UsageError, escape
from shardfeed.schema import Schema, is_plain
from shardfeed.text import listing

ClassMap = Mapping[str, str | None] | str | os.PathLike[str]


def read_class_map(classes: ClassMap) -> dict[str, str | None]:
    """Old name -> new name, or None for a class that is dropped: of a mapping, or of a JSON or CSV file `old,new`.

    In a file, an empty new name or null drops a class. Raises UsageError, in a file with the line.
    """
    if not isinstance(classes, str | os.PathLike):
        found = dict(classes)
    else:
        place = os.fspath(classes)
        try:
            with open(place, encoding="utf-8-sig", newline="") as file:
                found = _from_json(place, file.read()) if place.endswith(".json") else _from_csv(place, file)
        except OSError as error:
            raise UsageError(place, f"cannot read the map of classes: {error.strerror}", "check the path") from None
        except UnicodeDecodeError:
            raise UsageError(place, "is not UTF-8", "save it as UTF-8") from None
    for old, new in found.items():
        if not isinstance(old, str) or not (new is None or isinstance(new, str)):
            raise UsageError("classes", f"got {old!r}: {new!r}", "expected names of classes, or None for one to drop")
        if new and not is_plain(new):
            raise UsageError("classes", f"got the class name {escape(new)!r}", "use text without control characters")
    if not found:
        raise UsageError("classes", "got no class", "give old and new names")
    return {old: new or None for old, new in found.items()}


def _from_json(place: str, text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise UsageError(place, "lists a class twice", "give each class once")
        return found

    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(place, f"is not valid JSON: {escape(error)}", 'write {"old": "new", "other": null}') from None
    if not isinstance(found, dict):
        raise UsageError(place, "is not a JSON object", 'write {"old": "new", "other": null}')
    return found


def _from_csv(place: str, file: Any) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    reader = csv.reader(file, strict=True)
    try:
        for row in reader:
            if not row or (reader.line_num == 1 and [cell.strip().lower() for cell in row] == ["old", "new"]):
                continue
            line = f"{place}:{reader.line_num}"
            if len(row) != 2:
                raise UsageError(line, f"got {len(row)} cells, expected an old name and a new one", "write old,new")
            old, new = row[0].strip(), row[1].strip()
            if old in found:
                raise UsageError(line, f"names the class {escape(old)!r} a second time", "give each class once")
            found[old] = new or None
    except csv.Error as error:
        raise UsageError(f"{place}:{reader.line_num}", f"is not valid CSV: {error}", "write old,new") from None
    return found


def near_names(name: str, names: Sequence[str]) -> str:
    """Return the remedy for an unknown class: classes with similar names, else some of all classes."""
    near = get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(map(escape, near))}?" if near else f"there are {listing(list(names), 8)}"


def mapped(names: Sequence[str], classes: Mapping[str, str | None], order: Sequence[str] | None) -> "Mapped":
    """Map a list of classes to a new one; classes that `classes` does not name stay.

    `order`: the new list; None for the order in which the old list first comes to each new name. Raise UsageError if it
    has other names.
    """
    wanted = [classes.get(name, name) for name in names]
    new = tuple(dict.fromkeys(name for name in wanted if name is not None))
    if order is not None:
        if sorted(order) != sorted(new):
            differing = sorted(set(order) ^ set(new)) or sorted(name for name in order if list(order).count(name) > 1)
            problem = f"differs from the resulting classes in {listing(list(map(escape, differing)), 5)}"
            raise UsageError("order", problem, f"they are {listing(list(map(escape, new)), 12)}")
        new = tuple(order)
    numbers = tuple(DROPPED if name is None else new.index(name) for name in wanted)
    return Mapped(new, numbers, names)


class Mapped(NamedTuple):
    """New class `names`, and the number in them of each of the `old` classes, or DROPPED."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    old: Sequence[str]

    @property
    def same(self) -> bool:
        """Whether nothing is other."""
        return tuple(self.old) == self.names and self.numbers == tuple(range(len(self.names)))

    def ids_of(self, old: Sequence[int]) -> tuple[int, ...]:
        """The source's number of each new class: that of the class of its name, else of the first it is made of."""
        found: dict[int, int] = {}
        for name, number, id_ in zip(self.old, self.numbers, old, strict=True):
            if number != DROPPED and (number not in found or name == self.names[number]):
                found[number] = id_
        return tuple(found[number] for number in range(len(self.names)))


def with_classes(schema: Schema, lists: Mapping[str, Mapped]) -> Schema:
    """Return the schema with the new class lists of label features, and their class ids if they have any."""
    names = {**schema.class_names, **{key: of_key.names for key, of_key in lists.items()}}
    ids = {key: lists[key].ids_of(old) if key in lists else old for key, old in schema.class_ids.items()}
    return replace(schema, class_names=names, class_ids=ids)


def joined(key: str, lists: Sequence[tuple[str, Sequence[str], Sequence[int] | None]]) -> "Joined":
    """The class lists of the feature `key` of several datasets as one: the first's, then what each other one adds.

    `lists`: of each the dataset's place for errors, names and ids. Raises UsageError where ids contradict each other.
    """
    names = list(dict.fromkeys(name for _, of_one, _ in lists for name in of_one))
    id_of: dict[str, tuple[int, str]] = {}
    class_of: dict[int, tuple[str, str]] = {}
    for place, of_one, ids in lists:
        for name, id_ in zip(of_one, ids or (), strict=False):
            other, where = id_of.setdefault(name, (id_, place))
            problem = f"the class {escape(name)} has the id {id_}, but {other} in {escape(where)}"
            if other == id_:
                found, where = class_of.setdefault(id_, (name, place))
                problem = f"the id {id_} is the class {escape(name)}, but {escape(found)} in {escape(where)}"
                if found == name:
                    continue
            remedy = f"the class lists of {escape(key)} disagree: correct one, and convert it again"
            raise UsageError(place, problem, remedy)
    ids = tuple(id_of[name][0] for name in names) if all(name in id_of for name in names) else None
    number = {name: i for i, name in enumerate(names)}
    return Joined(tuple(names), ids, [tuple(number[name] for name in of_one) for _, of_one, _ in lists], bool(id_of))


class Joined(NamedTuple):
    """Class `names` of several lists; their `ids`, None where not all have one; and of each list the new `numbers`.

    `had_ids`: whether any of them had.
    """

    names: tuple[str, ...]
    ids: tuple[int, ...] | None
    numbers: list[tuple[int, ...]]
    had_ids: bool


def schema_difference(one: Schema, other: Schema, *, other_place: str) -> str:
    """Describe how the features of two schemas differ, the class names of labels aside; "" if they do not."""
    a, b = one.stated(), other.stated()
    for key in sorted(a.features.keys() | b.features.keys()):
        left, right = a.features.get(key), b.features.get(key)
        if left != right:
            what = "lacks it" if right is None else "has it, but this one does not" if left is None else ""
            if left is not None and right is not None:
                named = [
                    f"{name} {getattr(left, name)!r}, there {getattr(right, name)!r}"
                    for name in ("dtype", "shape", "kind", "alias")
                    if getattr(left, name) != getattr(right, name)
                ]
                return f"the feature {escape(key)} has the {', '.join(named)} in {escape(other_place)}"
            return f"the feature {escape(key)}: {escape(other_place)} {what}"
        if (key in a.class_names) != (key in b.class_names):
            return f"the feature {escape(key)} has class names in only one of them"
    for name, left, right in (("key points", a.keypoints, b.keypoints), ("raster classes", a.raster, b.raster)):
        if left != right:
            return f"the {name} differ in {escape(other_place)}"
    return ""

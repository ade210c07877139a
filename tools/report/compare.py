"""The report of two datasets, an older and a newer version: different images, labels, splits, bytes, statistics."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.errors import name_text
from shardfeed.split_words import renamed_splits
from shardfeed.text import number
from shardfeed.tools.report import sections
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.page import Table
from shardfeed.tools.report.pictures import Pictures

_SHOWN = 16  # pictures of a difference
_MOST_ROWS = 1_000
# What the same image has in common in both datasets, the surest first. A file may have a new name, label or split, and
# copies of a file may have different ones. Only the last rule pairs different files.
_SAME = (("keys", "same"), ("same", "label", "split"), ("same", "label"), ("same", "split"), ("same",), ("keys",))


class _Side:
    """One of the two datasets: a key, file, label (a name), split (a name) and annotations of each image, [n] each."""

    def __init__(self, measured: Measured, splits: Sequence[str]) -> None:
        self.pictures, self.keys, self.same = Pictures(measured), measured.keys, measured.images["same"]
        classes, labels = measured.classes, measured.images["label"]
        self.label = np.array([*classes, ""], object)[np.where(labels < len(classes), labels, -1)]
        self.split = np.array([*splits, ""], object)[measured.split]
        self.annotations = measured.images["annotations"]


def _pairs(sides: tuple[_Side, _Side]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The images that are in both datasets, int64 [2, k]: their places there, by the rules of _SAME; and all others."""
    pairs, rest = np.zeros((2, 0), int), [np.arange(len(side.keys)) for side in sides]
    for names in _SAME:
        each = [of[side.same[of] > 0] if "same" in names else of for side, of in zip(sides, rest, strict=True)]
        one, other = (_numbers(side, of, names) for side, of in zip(sides, each, strict=True))
        _, *at = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        pairs = np.concatenate([pairs, [of[chosen] for of, chosen in zip(each, at, strict=True)]], axis=1)
        rest = [np.setdiff1d(of, found, assume_unique=True) for of, found in zip(rest, pairs, strict=True)]
    return pairs, rest


def _numbers(side: _Side, places: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """A number for each image at `places`, int64 [k]: a hash of its `names`, plus how many before it are equal."""
    values = zip(*(getattr(side, name)[places].tolist() for name in names), strict=True)
    numbers = np.array([*map(hash, values)], np.int64)
    order = np.argsort(numbers, kind="stable")
    numbers[order] += np.arange(len(numbers)) - np.searchsorted(numbers[order], numbers[order])
    return numbers


# Images of a difference: in the older and in the newer dataset, int64 [k]; in one alone if they are not in both.
_Places = list[tuple[_Side, np.ndarray]]


class DatasetComparison:
    """Two measured datasets, as a `Subject` of a report; `titles`: the user's names for them.

    Images are matched by their files' hashes, and then by their keys.
    """

    kind = "Differences"

    def __init__(self, older: Measured, newer: Measured, titles: Sequence[str]) -> None:
        self._measured, self._titles = (older, newer), titles
        self._splits = [*older.splits], [*renamed_splits(newer.splits, older.splits).values()]
        before, after = (_Side(*side) for side in zip(self._measured, self._splits, strict=True))
        (there, here), (gone, come) = _pairs((before, after))

        def differ(name: str) -> np.ndarray:
            return getattr(before, name)[there] != getattr(after, name)[here]

        # Of images with several classes the label is one of them, and the annotations have all.
        label, split = differ("label") & older.labelled & newer.labelled, differ("split")
        different = {
            "with another label": label,
            "in another split": split,
            "with other annotations": differ("annotations"),
            "with other bytes": differ("same"),
            "renamed": differ("keys") & ~(label | split),
        }
        places: dict[str, _Places] = {
            what: [(before, there[of]), (after, here[of])] for what, of in different.items()
        } | {"removed": [(before, gone)], "added": [(after, come)]}
        self._found = [(f"{number(len(of[0][1]), 'image')} {what}", of) for what, of in places.items() if len(of[0][1])]
        self._summary = f"{number(len(there), 'image is', 'images are')} in both datasets."
        self._summary += " Pictures: the older version left, the newer right." if self._found else " Nothing differs."
        self.title = " and ".join(titles)
        self.headline = " and ".join(measured.headline for measured in self._measured)
        self.lines = [title for title, _ in self._found]

    def content(self, folder: str, most: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content of the page with at most `most` pictures; no command fixes a difference, so there are no lists."""
        each, both = min(_SHOWN, most // max(1, len(self._found))), self._measured
        splits = [
            {name: part.stop - part.start for name, part in zip(names, one.splits.values(), strict=True)}
            for names, one in zip(self._splits, both, strict=True)
        ]
        classes = [dict(zip(one.classes, one.counts.sum(axis=1).tolist(), strict=True)) for one in both]
        tables = []
        for title, head, (old, new) in (("Splits", "split", splits), ("Classes", "class", classes)):
            rows = [(name, before, after, after - before) for name, before, after in _rows(old, new, 0)]
            rows.sort(key=lambda row: -abs(row[3]))  # the greatest difference first
            tables.append(Table(title, (head, *self._titles, "change"), rows, search=head == "class"))
        options = [row for row in _rows(*map(sections.options, self._measured), missing="") if row[1] != row[2]]
        tables.append(Table("Options and versions", ("name", *self._titles), options))
        content = {
            "findings": [_difference(title, of, each) for title, of in self._found],
            "summary": self._summary,
            "remedies": {},
            "sections": {"Counts": tables, "Figures": sections.charts(dict(zip(self._titles, both, strict=True)))},
        }
        return content, {}


def _rows(old: Mapping[str, Any], new: Mapping[str, Any], missing: Any) -> list[tuple[str, Any, Any]]:
    """Name, value in the older, value in the newer dataset: of all names."""
    return [(name, old.get(name, missing), new.get(name, missing)) for name in {**old, **new}]


def _difference(title: str, of: _Places, most: int) -> dict[str, Any]:
    """A difference for the page: some of its images side by side, and a table of more."""
    count, rows = len(of[0][1]), []
    for i in range(min(count, _MOST_ROWS)):
        about = [f"{side.split[at[i]]} {side.label[at[i]]}".strip() for side, at in of]
        rows.append((name_text(bytes(of[0][0].keys[of[0][1][i]])), *about))
    heads = ("key", "older", "newer") if len(of) == 2 else ("key", "split and class")
    table = Table(title if count <= _MOST_ROWS else f"{title}, the first {_MOST_ROWS:,}", heads, rows)
    shown = range(0, count, max(1, count // most))[:most] if most else ()
    pictures = [[side.pictures.picture(int(at[i])) for side, at in of] for i in shown]
    told = {"harm": "", "title": title, "text": "", "count": count, "command": "", "pictures": pictures}
    return {**told, "table": table}

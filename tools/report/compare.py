"""The report of two datasets, an older and a newer version: different images, labels, splits, bytes, statistics."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.errors import name_text
from shardfeed.text import number
from shardfeed.tools.report import sections
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.page import Table
from shardfeed.tools.report.pictures import Pictures

_SHOWN = 16  # pictures of a difference
_MOST_ROWS = 1_000


class _Side:
    """One of the two datasets: a key, file, label (a name) and split (a name) of each image, [n] each."""

    def __init__(self, measured: Measured) -> None:
        self.pictures, self.keys, self.same = Pictures(measured), measured.keys, measured.images["same"]
        classes, labels = measured.classes, measured.images["label"]
        self.label = np.array([*classes, ""], object)[np.where(labels < len(classes), labels, -1)]
        self.split = np.array([*measured.splits, ""], object)[measured.split]


# Images of a difference: in the older and in the newer dataset, int64 [k]; in one alone if they are not in both.
_Places = list[tuple[_Side, np.ndarray]]


class Comparison:
    """Two measured datasets, as a `Subject` of a report; `titles`: the user's names for them.

    Images are matched by their keys; images that are only in one dataset, by their files' hashes.
    """

    kind = "Differences"

    def __init__(self, older: Measured, newer: Measured, titles: Sequence[str]) -> None:
        self._measured, self._titles = (older, newer), titles
        before, after = _Side(older), _Side(newer)
        both, there, here = np.intersect1d(before.keys, after.keys, return_indices=True)
        gone, come = np.setdiff1d(np.arange(len(before.keys)), there), np.setdiff1d(np.arange(len(after.keys)), here)
        _, left, right = np.intersect1d(before.same[gone], after.same[come], return_indices=True)
        places: dict[str, _Places] = {
            "removed": [(before, np.delete(gone, left))],
            "added": [(after, np.delete(come, right))],
            "renamed": [(before, gone[left]), (after, come[right])],
        }
        for what, name in (
            ("with another label", "label"),
            ("in another split", "split"),
            ("with other bytes", "same"),
        ):
            differ = getattr(before, name)[there] != getattr(after, name)[here]
            places[what] = [(before, there[differ]), (after, here[differ])]
        self._found = [(f"{number(len(of[0][1]), 'image')} {what}", of) for what, of in places.items() if len(of[0][1])]
        self._summary = f"{len(both):,} keys are in both datasets."
        self._summary += " Pictures: the older version left, the newer right." if self._found else " Nothing differs."
        self.title = " and ".join(titles)
        self.headline = " and ".join(measured.headline for measured in self._measured)
        self.lines = [title for title, _ in self._found]

    def content(self, folder: str, most: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content of the page with at most `most` pictures; no command fixes a difference, so there are no lists."""
        each, both = min(_SHOWN, most // max(1, len(self._found))), self._measured
        splits = [{name: part.stop - part.start for name, part in one.splits.items()} for one in both]
        classes = [dict(zip(one.classes, one.counts.sum(axis=1).tolist(), strict=True)) for one in both]
        tables = []
        for title, head, (old, new) in (("Splits", "split", splits), ("Classes", "class", classes)):
            rows = [(name, before, after, after - before) for name, before, after in _rows(old, new, 0)]
            rows.sort(key=lambda row: -abs(row[3]))  # the greatest difference first
            tables.append(Table(title, (head, *self._titles, "change"), rows, search=head == "class"))
        options = _rows(sections.options(both[0]), sections.options(both[1]), "")
        tables.append(
            Table("Options and versions", ("name", *self._titles), [row for row in options if row[1] != row[2]])
        )
        content = {
            "findings": [_difference(title, of, each) for title, of in self._found],
            "summary": self._summary,
            "remedies": {},
            "sections": {
                "Counts": tables,
                "Figures": sections.charts(dict(zip(self._titles, both, strict=True))),
            },
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

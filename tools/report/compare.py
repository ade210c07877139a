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

        def differing(old: np.ndarray, new: np.ndarray) -> _Places:
            differ = old[there] != new[here]
            return [(before, there[differ]), (after, here[differ])]

        places: dict[str, _Places] = {
            "removed": [(before, np.setdiff1d(gone, gone[left]))],
            "added": [(after, np.setdiff1d(come, come[right]))],
            "renamed": [(before, gone[left]), (after, come[right])],
            "with another label": differing(before.label, after.label),
            "in another split": differing(before.split, after.split),
            "with other bytes": differing(before.same, after.same),
        }
        self._found = [(f"{number(len(of[0][1]), 'image')} {what}", of) for what, of in places.items() if len(of[0][1])]
        self._in_both = len(both)
        self.title = " and ".join(titles)
        self.headline = " and ".join(measured.headline for measured in self._measured)
        self.lines = [title for title, _ in self._found]

    def content(self, folder: str, most: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content of the page with at most `most` pictures; no command fixes a difference, so there are no lists."""
        each = min(_SHOWN, most // max(1, len(self._found)))
        made = [sections.options(one) for one in self._measured]
        rows = [(name, *(of.get(name, "") for of in made)) for name in dict.fromkeys([*made[0], *made[1]])]
        counts = [{name: part.stop - part.start for name, part in one.splits.items()} for one in self._measured]
        totals = [dict(zip(one.classes, one.counts.sum(axis=1).tolist(), strict=True)) for one in self._measured]
        tables = [
            _changes("Splits", "split", self._titles, counts),
            _changes("Classes", "class", self._titles, totals),
            Table("Options and versions", ("name", *self._titles), [row for row in rows if row[1] != row[2]]),
        ]
        figures = sections.charts(dict(zip(self._titles, self._measured, strict=True)))
        content = {
            "findings": [_difference(title, of, each) for title, of in self._found],
            "summary": f"{self._in_both:,} images are in both, by their keys."
            + " Nothing differs." * (not self._found),
            "remedies": {},
            "sections": {"Counts": tables, "Figures": figures},
        }
        return content, {}


# Images of a difference: in the older and in the newer dataset, int64 [k]; in one alone if they are not in both.
_Places = list[tuple[_Side, np.ndarray]]


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


def _changes(title: str, head: str, titles: Sequence[str], counts: Sequence[Mapping[str, int]]) -> Table:
    """Name, number in the older, number in the newer, difference: of all names, the greatest difference first."""
    old, new = counts
    rows = [(name, old.get(name, 0), new.get(name, 0)) for name in dict.fromkeys([*old, *new])]
    rows = sorted(((name, a, b, b - a) for name, a, b in rows), key=lambda row: -abs(row[3]))
    return Table(title, (head, *titles, "change"), rows, search=head == "class")

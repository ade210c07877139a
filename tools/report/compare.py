"""The report of two datasets, an older and a newer version: different images, labels, splits, bytes, statistics."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.converters.operations.dataset_source import Opened
from shardfeed.errors import name_text
from shardfeed.readers.dataset import Dataset
from shardfeed.text import number
from shardfeed.tools.report import sections
from shardfeed.tools.report.findings import Findings
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.sections import Table
from shardfeed.tools.report.thumbnails import Picture, Thumbnails

_SHOWN = 16  # pictures of a difference
_MOST_ROWS = 1_000


class _Side:
    """One of the two datasets, with the keys of all its images; `split`, `label`: names as objects [n], of each."""

    def __init__(self, data: Dataset, measured: Measured) -> None:
        self.measured = measured
        findings = Findings(data, measured)
        keys = {name: records.keys for name, records in Opened(data).splits.items()}
        self.pictures = Thumbnails(data, measured, findings, keys)
        self.keys = np.concatenate([np.zeros(0, object), *(keys[name] for name in measured.splits)])
        self.same = measured.images["same"]
        self.split = np.array([*measured.splits, ""], object)[measured.split]
        classes = np.array([*findings.classes, ""], object)
        labels = measured.images["label"]
        self.label = classes[np.where(labels < len(findings.classes), labels, -1)]
        self.counts = dict(zip(findings.classes, findings.total.tolist(), strict=True))
        self.sizes = {name: part.stop - part.start for name, part in measured.splits.items()}
        self.options = sections.options_of(data)
        self.headline = sections.headline(data, measured)


class Comparison:
    """Two measured datasets, as a `Subject` of a report; `titles`: the user's names for them.

    Images are matched by their keys; images that are only in one dataset, by their files' hashes.
    """

    template, kind = "changes.html", "differences"

    def __init__(self, old: Dataset, new: Dataset, titles: Sequence[str], measured: Sequence[Measured]) -> None:
        self._sides = before, after = _Side(old, measured[0]), _Side(new, measured[1])
        _, there, here = np.intersect1d(before.keys, after.keys, return_indices=True)
        gone, come = np.setdiff1d(np.arange(len(before.keys)), there), np.setdiff1d(np.arange(len(after.keys)), here)
        _, left, right = np.intersect1d(before.same[gone], after.same[come], return_indices=True)
        renamed = (gone[left], come[right])

        def differing(values: str) -> tuple[np.ndarray, np.ndarray]:
            differ = getattr(before, values)[there] != getattr(after, values)[here]
            return there[differ], here[differ]

        every: dict[str, tuple[np.ndarray | None, np.ndarray | None]] = {
            "removed": (np.setdiff1d(gone, renamed[0]), None),
            "added": (None, np.setdiff1d(come, renamed[1])),
            "renamed": renamed,
            "with another label": differing("label"),
            "in another split": differing("split"),
            "with other bytes": differing("same"),
        }
        found = [(what, self._on_sides(places)) for what, places in every.items()]
        found = [(what, of) for what, of in found if len(of[0][1])]
        self._places = [of for _, of in found]
        options = [
            (name, *(side.options.get(name, "") for side in self._sides))
            for name in dict.fromkeys(name for side in self._sides for name in side.options)
            if len({side.options.get(name) for side in self._sides}) > 1
        ]
        listed = [_difference(what, of) for what, of in found]
        headline = "; ".join(f"{title}: {side.headline}" for title, side in zip(titles, self._sides, strict=True))
        self.lines = (headline, [one["title"] for one in listed])
        self._content = {
            "name": " and ".join(titles),
            "names": titles,
            "headline": headline,
            "in_both": len(there),
            "differences": listed,
            "tables": [
                Table("Splits", ("split", *titles, "change"), _counts([side.sizes for side in self._sides])),
                Table(
                    "Classes", ("class", *titles, "change"), _counts([side.counts for side in self._sides]), "classes"
                ),
                Table("Options and versions", ("name", *titles), options),
            ],
            "charts": sections.charts(*measured),
        }

    def _on_sides(self, places: Sequence[np.ndarray | None]) -> "_Places":
        return [(side, at) for side, at in zip(self._sides, places, strict=True) if at is not None]

    def figures(self, folder: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content for the page and for JSON; no command fixes a difference, so there are no lists."""
        return self._content, {}

    def pictures(self, most: int) -> dict[str, Any]:
        """Pictures for the page: some of each difference, at most `most`."""
        each = min(_SHOWN, most // max(1, len(self._places)))
        return {"groups": [_pictures(of, each) for of in self._places]}


# Images of a difference: in the older and in the newer dataset, int64 [k]; in one alone if they are not in both.
_Places = list[tuple[_Side, np.ndarray]]


def _difference(what: str, of: _Places) -> dict[str, Any]:
    count, rows = len(of[0][1]), []
    for i in range(min(count, _MOST_ROWS)):
        about = [f"{side.split[at[i]]} {side.label[at[i]]}".strip() for side, at in of]
        rows.append((name_text(bytes(of[0][0].keys[of[0][1][i]])), *about))
    heads = ("key", "older", "newer") if len(of) == 2 else ("key", "split and class")
    title = f"{number(count, 'image')} {what}"
    return {"title": title, "count": count, "table": Table(title, heads, rows)}


def _pictures(of: _Places, most: int) -> list[list[Picture]]:
    count = len(of[0][1])
    chosen = range(0, count, max(1, count // most))[:most]
    return [[side.pictures.picture(int(at[i])) for side, at in of] for i in chosen]


def _counts(of_sides: Sequence[Mapping[str, int]]) -> list[tuple[str, int, int, int]]:
    """Name, number in the older, number in the newer, difference: of all names, the greatest difference first."""
    names = dict.fromkeys(name for counts in of_sides for name in counts)
    numbers = [(name, *(counts.get(name, 0) for counts in of_sides)) for name in names]
    return sorted(((name, a, b, b - a) for name, a, b in numbers), key=lambda row: -abs(row[3]))

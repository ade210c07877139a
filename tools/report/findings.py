"""Findings: probable faults of a dataset, the most harmful first, each with its images."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.errors import escape
from shardfeed.naming import REJECTED
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import LABEL
from shardfeed.text import listing, number
from shardfeed.tools.report.alike import BLANK, alike_groups, equal_groups
from shardfeed.tools.report.measure import Measured

_GROUPS_SHOWN, _IN_GROUP, _SINGLES_SHOWN = 8, 4, 16  # pictures
_USUAL = 0.25  # of all images: a property of more images is typical of the dataset, and not a finding
_DARK, _BRIGHT = 40, 220  # gray levels: 95 % of the pixels are darker, or brighter
_BLURRED = 0.012  # variance of the Laplacian by that of the pixels
_ODD = 4.0  # longer side by shorter side, of unusually shaped images
_SMALLER = 4  # factor in pixels between the largest images of a class and the smallest of all others
_FEW = 5  # images: smaller classes are not reported
_IMBALANCE = 10  # times, the largest class by the smallest
_TAIL = 0.05
_NAMED, _NAME = 5, 60  # classes in a sentence, and characters of each

Harm = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Finding:
    """`code`: its name in files and JSON. `text`: a sentence about it. `count`: the number in the title.

    `images`: int64 [k], the images to remove or to inspect. `shown`: groups of images to show side by side. `remedy`:
    "remove", "relabel" or "", if no command fixes it. `advice`: other remedies. `table`: for "relabel", the lines of
    the map.
    """

    code: str
    harm: Harm
    title: str
    text: str
    count: int
    images: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    shown: Sequence[Sequence[int]] = ()
    remedy: Literal["remove", "relabel", ""] = ""
    advice: str = ""
    table: Sequence[tuple[str, str]] = ()


class Findings:
    """All findings about a measured dataset."""

    def __init__(self, data: Dataset, measured: Measured) -> None:
        self._data, self._measured = data, measured
        self._images, self._split = measured.images, measured.split
        self._names = list(measured.splits)
        schema = data.manifest.schema
        key = schema.key(LABEL) or LABEL
        self._has_label = key in schema.class_names and schema.features[key].scalar
        self._key = key if key in schema.class_names else OBJECT_LABEL
        self.of_objects = self._key == OBJECT_LABEL
        self.classes: Sequence[str] = schema.class_names.get(self._key, ())

    @cached_property
    def equal(self) -> np.ndarray:
        """As `equal_groups`."""
        return equal_groups(self._measured)

    @cached_property
    def alike(self) -> np.ndarray:
        """As `alike_groups`."""
        return alike_groups(self._measured)

    def all(self) -> list[Finding]:
        """In order of harm, without findings that have no image or class."""
        every: list[Callable[[], Iterator[Finding]]] = [
            self._leaks,
            self._labels,
            self._broken,
            self._twice,
            self._blank,
            self._class_names,
            self._small_class,
            self._absent,
            self._left_out,
            self._looks,
            self._imbalance,
        ]
        found = [finding for each in every for finding in each() if finding.count]
        return sorted(found, key=lambda finding: ("high", "medium", "low").index(finding.harm))

    @cached_property
    def total(self) -> np.ndarray:
        """int64 [classes]: as `counts`, of all splits together."""
        return sum(self.counts().values(), np.zeros(len(self.classes), np.int64))

    def counts(self) -> Mapping[str, np.ndarray]:
        """int64 [classes] of each split: images of each class, or objects where only they have classes."""
        splits = self._data.manifest.splits
        return {name: np.array(splits[name].class_counts.get(self._key, ()), np.int64) for name in self._names}

    def _earlier(self, group: np.ndarray) -> np.ndarray:
        """bool [n]: whether an image has another one of its group in a later split."""
        latest = np.zeros(len(group) + 1, np.uint8)
        np.maximum.at(latest, group, self._split)
        return (group >= 0) & (self._split < latest[group])

    def _again(self, group: np.ndarray) -> np.ndarray:
        """bool [n]: whether an image has another one of its group before it in its own split."""
        order = np.lexsort([np.arange(len(group)), self._split, group])
        repeated = (group[order[1:]] == group[order[:-1]]) & (self._split[order[1:]] == self._split[order[:-1]])
        found = np.zeros(len(group), bool)
        found[order[1:]] = repeated & (group[order[1:]] >= 0)
        return found

    def _mixed(self, group: np.ndarray) -> np.ndarray:
        """bool [n]: whether the images of an image's group have different labels."""
        labels = self._images["label"]
        least, most = np.full(len(group) + 1, 2**31 - 1), np.full(len(group) + 1, -1)
        np.minimum.at(least, group, labels)
        np.maximum.at(most, group, labels)
        return (group >= 0) & (least[group] < most[group])

    def _groups(self, group: np.ndarray, chosen: np.ndarray) -> list[list[int]]:
        """Some groups with an image in `chosen`, bool [n]: this image first, then others; different labels first."""
        shown = []
        _, firsts = np.unique(group[chosen], return_index=True)
        for first in np.flatnonzero(chosen)[np.sort(firsts)[:_GROUPS_SHOWN]].tolist():
            members = np.flatnonzero(group == group[first])
            own = (self._split[members] == self._split[first]) & (
                self._images["label"][members] == self._images["label"][first]
            )
            others = members[np.argsort(own, kind="stable")]
            shown.append([first, *others[others != first].tolist()][:_IN_GROUP])
        return shown

    def _leaks(self) -> Iterator[Finding]:
        equal, alike = self._earlier(self.equal), self._earlier(self.alike)
        for code, group, chosen, how in (
            ("equal-across-splits", self.equal, equal, "also in a later split, byte for byte"),
            ("alike-across-splits", self.alike, alike & ~equal, "nearly equal to an image in a later split"),
        ):
            count = int(chosen.sum())
            are = "is" if count == 1 else "are"
            by_split = [
                f"{of_split:,} of the {part.stop - part.start:,} images of {name}"
                for name, part in self._measured.splits.items()
                if (of_split := int(chosen[part].sum()))
            ]
            text = f"{listing(by_split)}. A model is tested on images that it was trained on. The later split is kept."
            yield self._removal(code, "high", f"{number(count, 'image')} {are} {how}", text, chosen, group)

    def _labels(self) -> Iterator[Finding]:
        if not self._has_label:
            return
        mixed = self._mixed(self.equal)
        for code, harm, group, chosen, what in (
            ("two-labels", "high", self.equal, mixed, "more than one label, byte for byte the same"),
            (
                "alike-two-labels",
                "medium",
                self.alike,
                self._mixed(self.alike) & ~mixed,
                "nearly equal, with different labels",
            ),
        ):
            pictures = len(np.unique(group[chosen]))
            title = number(int(chosen.sum()), "image")
            title = f"{number(pictures, 'picture')} with {what}" if code == "two-labels" else f"{title} {what}"
            text = "At most one label is right. To keep an image, delete its key from the list."
            yield self._removal(code, harm, title, text, chosen, group)  # type: ignore[arg-type]  # a literal above

    def _broken(self) -> Iterator[Finding]:
        chosen = ~self._measured.decoded
        title = f"{number(int(chosen.sum()), 'image does', 'images do')} not decode"
        yield self._removal("broken", "high", title, "Training stops there, or skips them.", chosen)

    def _twice(self) -> Iterator[Finding]:
        equal = self._again(self.equal) & ~self._mixed(self.equal)
        alike = self._again(self.alike) & ~self._again(self.equal) & ~self._mixed(self.alike)
        text = "They have more weight than others, and a new split may separate them. One of each is kept."
        title = f"{number(int(equal.sum()), 'image')} repeated in the same split, byte for byte"
        yield self._removal("equal", "medium", title, text, equal, self.equal)
        title = f"{number(int(alike.sum()), 'image')} nearly equal to another one in the same split"
        yield self._removal("alike", "medium", title, text, alike, self.alike)

    def _blank(self) -> Iterator[Finding]:
        chosen = self._measured.decoded & (self._images["spread"] < BLANK)
        title = f"{number(int(chosen.sum()), 'image is', 'images are')} blank"
        yield self._removal("blank", "medium", title, f"Their gray levels vary by less than {BLANK:g}.", chosen)

    def _class_names(self) -> Iterator[Finding]:
        alike: dict[str, list[str]] = {}
        for name in self.classes:
            alike.setdefault(re.sub(r"[\s_-]+", " ", name).strip().casefold(), []).append(name)
        several = [names for names in alike.values() if len(names) > 1]
        totals = dict(zip(self.classes, self.total.tolist(), strict=True))
        lines = [(name, max(names, key=totals.__getitem__)) for names in several for name in names]
        texts = [" and ".join(escape(name)[:_NAME] for name in names[:3]) for names in several]
        title = f"{number(len(several), 'class seems', 'classes seem')} to have more than one name"
        text = f"{listing(texts, _NAMED, '; ')}. Each gets the name that most of its images have."
        lines = [line for line in lines if line[0] != line[1]]
        yield Finding("class-names", "medium", title, text, len(several), remedy="relabel", table=lines)

    def _small_class(self) -> Iterator[Finding]:
        decoded = self._measured.decoded & (self._images["label"] >= 0) & self._has_label
        pixels = self._images["height"].astype(np.int64) * self._images["width"]
        order = np.argsort(self._images["label"][decoded], kind="stable")
        places = np.flatnonzero(decoded)[order]
        starts = np.flatnonzero(np.diff(self._images["label"][places], prepend=-1))
        parts = np.split(places, starts[1:]) if len(places) else []
        least = np.array([np.quantile(pixels[part], 0.1) for part in parts])
        most = np.array([np.quantile(pixels[part], 0.9) for part in parts])
        for i, part in enumerate(parts):
            others = np.delete(least, i)
            if len(part) >= _FEW and len(others) and most[i] * _SMALLER <= np.median(others):
                name = escape(self.classes[int(self._images["label"][part[0]])])[:_NAME]
                height, width = (int(np.median(self._images[side][part])) for side in ("height", "width"))
                title = f"The {number(len(part), 'image')} of {name} are much smaller than all others"
                text = f"Typically {width}x{height} pixels: a model may learn the size instead of the class."
                chosen = np.zeros(len(decoded), bool)
                chosen[part] = True
                advice = "Better: convert again from larger originals."
                code = f"small-class-{self._images['label'][part[0]]}"
                yield self._removal(code, "medium", title, text, chosen, advice=advice)

    def _absent(self) -> Iterator[Finding]:
        advice = "Divide the records again with `shardfeed split`: by default each class is divided exactly."
        for name, of_split in self.counts().items():
            absent = np.flatnonzero((of_split == 0) & (self.total > 0))
            title = f"{number(len(absent), 'class has', 'classes have')} no sample in {name}"
            yield Finding(f"absent-{name}", "medium", title, self._named(absent), len(absent), advice=advice)
        empty = np.flatnonzero(self.total == 0)
        title = f"{number(len(empty), 'class has', 'classes have')} no sample at all"
        table = [(self.classes[i], "") for i in empty.tolist()]
        yield Finding("empty-classes", "low", title, self._named(empty), len(empty), remedy="relabel", table=table)

    def _named(self, labels: np.ndarray) -> str:
        return listing([escape(self.classes[i])[:_NAME] for i in labels.tolist()], _NAMED) + "."

    def _left_out(self) -> Iterator[Finding]:
        rejected = self._data.manifest.rejected
        codes = [f"{count:,} {code}" for code, count in sorted(rejected.items(), key=lambda item: -item[1])]
        count, text = sum(rejected.values()), f"{listing(codes, _NAMED)}; {REJECTED} beside the shards lists them."
        yield Finding("left-out", "medium", f"{number(count, 'input was', 'inputs were')} left out", text, count)

    def _looks(self) -> Iterator[Finding]:
        images, decoded = self._images, self._measured.decoded & (self._images["spread"] >= BLANK)
        sides = [np.maximum(1, images[side]).astype(float) for side in ("height", "width")]
        shape = np.maximum(sides[0] / sides[1], sides[1] / sides[0])
        sharpness = images["sharp"] / np.maximum(images["spread"], 1) ** 2
        for code, chosen, what in (
            ("dark", images["high"] < _DARK, "dark"),
            ("bright", images["low"] > _BRIGHT, "bright"),
            ("blurred", sharpness < _BLURRED, "blurred"),
            ("odd-shapes", shape >= _ODD, f"at least {_ODD:g} times as long as wide"),
        ):
            chosen = chosen & decoded
            count = int(chosen.sum())
            if count <= _USUAL * len(images):
                title = f"{number(count, 'image is', 'images are')} {what}"
                yield self._removal(code, "low", title, "They may be intended: look at them.", chosen)

    def _imbalance(self) -> Iterator[Finding]:
        counts = next(iter(self.counts().values()), np.zeros(0))
        counts = counts[counts > 0]
        if len(counts) > 1 and counts.max() >= _IMBALANCE * counts.min():
            ratio = counts.max() / counts.min()
            title = f"The largest class of {self._names[0]} is {ratio:,.0f} times the smallest"
            text = f"{counts.max():,} to {counts.min():,} samples."
            advice = 'Train with order=Global(balance="class"), which draws each class equally often.'
            yield Finding("imbalance", "low", title, text, 1, advice=advice)

    def _removal(
        self,
        code: str,
        harm: Harm,
        title: str,
        text: str,
        chosen: np.ndarray,
        group: np.ndarray | None = None,
        *,
        advice: str = "",
    ) -> Finding:
        """Make a finding that is fixed by removing `chosen`, bool [n]."""
        images = np.flatnonzero(chosen)
        spread = images[:: max(1, len(images) // _SINGLES_SHOWN)][:_SINGLES_SHOWN]
        shown = [[place] for place in spread.tolist()] if group is None else self._groups(group, chosen)
        return Finding(code, harm, title, text, len(images), images, shown, "remove", advice)

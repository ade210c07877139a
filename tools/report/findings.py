"""Findings: probable faults of a dataset, the most harmful first, each with its images."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from shardfeed.naming import REJECTED
from shardfeed.text import listing, number
from shardfeed.tools.report.alike import BLANK, alike_groups, equal_groups
from shardfeed.tools.report.measure import Measured

_GROUPS_SHOWN, _IN_GROUP, _SINGLES_SHOWN = 8, 4, 16  # pictures
_USUAL = 0.25  # of all images: a property of more images is typical of the dataset, and not a finding
_DARK, _BRIGHT = 40, 220  # grey levels: 95 % of the pixels are darker, or brighter
_BLURRED = 0.012  # variance of the Laplacian by that of the pixels
_ODD = 4.0  # longer side by shorter side, of unusually shaped images
_SMALLER = 4  # factor in pixels between the largest images of a class and the smallest of all others
_FEW = 5  # images: smaller classes are not reported
_IMBALANCE = 10  # times, the largest class by the smallest
_NAMED = 5  # classes in a sentence

Harm = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Finding:
    """`code`: its name in files and JSON. `text`: a sentence about it. `count`: of its images, classes or inputs.

    `images`: int64 [k], the images to remove or to inspect. `shown`: groups of images to show side by side. `remedy`:
    "remove", "relabel", "split", or "" if no command fixes it. `table`: for "relabel", the lines of the map.
    """

    code: str
    harm: Harm
    title: str
    text: str
    count: int
    images: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    shown: Sequence[Sequence[int]] = ()
    remedy: Literal["remove", "relabel", "split", ""] = ""
    table: Sequence[tuple[str, str]] = ()


def find(measured: Measured) -> list[Finding]:
    """All findings about a dataset, in order of harm."""
    every = (_duplicates, _looks, _classes, _small_classes, _left_out)
    found = [finding for each in every for finding in each(measured) if finding.count]
    return sorted(found, key=lambda finding: ("high", "medium", "low").index(finding.harm))


def _duplicates(measured: Measured) -> Iterator[Finding]:
    found = [np.zeros(len(measured.images), bool)] * 3
    levels: list[tuple[str, str, Harm, np.ndarray, str]] = [
        ("equal", "two-labels", "high", equal_groups(measured), "equal byte for byte"),
        ("alike", "alike-two-labels", "medium", alike_groups(measured), "nearly equal"),
    ]
    for code, mixed_code, harm, group, equal in levels:
        before, found = found, _relations(measured, group)
        across, again, mixed = (now & ~earlier for now, earlier in zip(found, before, strict=True))
        by_split = [
            f"{count:,} of the {part.stop - part.start:,} images of {name}"
            for name, part in measured.splits.items()
            if (count := int(across[part].sum()))
        ]
        text = f"{listing(by_split)}. The model is tested on images that it has seen. The later split keeps them."
        yield _removal(
            measured, f"{code}-across-splits", "high", across, f"{equal} to one in a later split", text, group
        )
        if measured.labelled:
            text = "At most one label is right. To keep an image, delete its key from the list."
            yield _removal(measured, mixed_code, harm, mixed, f"{equal} to one with another label", text, group)
        text = "Copies count several times in training, and a new split may separate them. One copy is kept."
        again &= ~found[2]
        yield _removal(measured, code, "medium", again, f"{equal} to another one in the same split", text, group)


def _relations(measured: Measured, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether an image has another one of its group in a later split, before it in its split, with another label.

    Three arrays, bool [n]. `group`: int64 [n], a group number for each image, or -1.
    """
    split, labels = measured.split, measured.images["label"]
    order = np.lexsort([split, group])
    one, other = order[:-1], order[1:]
    linked = (group[one] == group[other]) & (group[one] >= 0)
    again = np.zeros(len(group), bool)
    again[other[linked & (split[one] == split[other])]] = True
    latest = np.zeros(len(group) + 1, np.uint8)
    np.maximum.at(latest, group, split)
    mixed = np.isin(group, group[one[linked & (labels[one] != labels[other])]])
    return (group >= 0) & (split < latest[group]), again, mixed


def _looks(measured: Measured) -> Iterator[Finding]:
    images = measured.images
    blank = measured.decoded & (images["spread"] < BLANK)
    seen = measured.decoded & ~blank
    sides = [np.maximum(1, images[side]).astype(float) for side in ("height", "width")]
    shape = np.maximum(sides[0] / sides[1], sides[1] / sides[0])
    sharpness = images["sharp"] / np.maximum(images["spread"], 1) ** 2
    text = "Training stops at these images, or skips them."
    yield _removal(measured, "broken", "high", ~measured.decoded, "impossible to decode", text)
    text = f"Grey levels vary by less than {BLANK:g}."
    yield _removal(measured, "blank", "medium", blank, "blank", text)
    for code, chosen, what in (
        ("dark", images["high"] < _DARK, "dark"),
        ("bright", images["low"] > _BRIGHT, "bright"),
        ("blurred", sharpness < _BLURRED, "blurred"),
        ("odd-shapes", shape >= _ODD, f"at least {_ODD:g} times as long as wide"),
    ):
        if (chosen & seen).sum() <= _USUAL * len(images):
            yield _removal(measured, code, "low", chosen & seen, what, "This may be intended: look at the pictures.")


def _classes(measured: Measured) -> Iterator[Finding]:
    def named(labels: np.ndarray) -> str:
        return f"{listing([*map(measured.class_name, labels.tolist())], _NAMED)}."

    alike: dict[str, list[int]] = {}
    for label, name in enumerate(measured.classes):
        alike.setdefault(re.sub(r"[\s_-]+", " ", name).strip().casefold(), []).append(label)
    several, total = [labels for labels in alike.values() if len(labels) > 1], measured.counts.sum(axis=1)
    best = [(label, max(labels, key=total.__getitem__)) for labels in several for label in labels]
    table = [(measured.classes[label], measured.classes[to]) for label, to in best if label != to]
    texts = [" and ".join(map(measured.class_name, labels[:3])) for labels in several]
    title = f"{number(len(several), 'class seems', 'classes seem')} to have more than one name"
    text = f"{listing(texts, _NAMED, '; ')}. The command keeps the most frequent name of each class."
    yield Finding("class-names", "medium", title, text, len(several), remedy="relabel", table=table)
    for name, of_split in zip(measured.splits, measured.counts.T, strict=True):
        absent = np.flatnonzero((of_split == 0) & (total > 0))
        title = f"{number(len(absent), 'class has', 'classes have')} no sample in {name}"
        text = f"{named(absent)} New splits get their share of each class, if it has enough samples."
        yield Finding(f"absent-{name}", "medium", title, text, len(absent), remedy="split")
    empty = np.flatnonzero(total == 0)
    title = f"{number(len(empty), 'class has', 'classes have')} no sample at all"
    table = [(measured.classes[i], "") for i in empty.tolist()]
    yield Finding("empty-classes", "low", title, named(empty), len(empty), remedy="relabel", table=table)
    first, counts = next(iter(measured.splits)), measured.counts[:, 0]
    counts = counts[counts > 0]
    if len(counts) and counts.max() >= _IMBALANCE * counts.min():
        title = f"The largest class of {first} is {counts.max() / counts.min():,.0f} times the smallest"
        text = f"{counts.max():,} to {counts.min():,} samples. "
        text += 'Train with order=Global(balance="class"), which draws each class equally often.'
        yield Finding("imbalance", "low", title, text, 1)


def _small_classes(measured: Measured) -> Iterator[Finding]:
    images = measured.images
    pixels = images["height"].astype(np.int64) * images["width"]
    order = np.lexsort((pixels, images["label"]))
    order = order[measured.decoded[order] & (images["label"][order] >= 0)]
    labels, starts, counts = np.unique(images["label"][order], return_index=True, return_counts=True)
    small, large = (pixels[order[starts + (counts * share).astype(int)]] for share in (0.1, 0.9))
    for i, label in enumerate(labels.tolist() if measured.labelled and len(labels) > 1 else ()):
        if counts[i] >= _FEW and large[i] * _SMALLER <= np.median(np.delete(small, i)):
            chosen = measured.decoded & (images["label"] == label)
            height, width = (int(np.median(images[side][chosen])) for side in ("height", "width"))
            what = f"of the class {measured.class_name(label)}, and much smaller than all others"
            text = f"Typically {width}x{height} pixels: a model may learn the size instead of the class. "
            text += "If you have larger originals, convert those."
            yield replace(_removal(measured, f"small-class-{label}", "medium", chosen, what, text), remedy="")


def _left_out(measured: Measured) -> Iterator[Finding]:
    rejected = measured.data.manifest.rejected
    codes = [f"{count:,} {code}" for code, count in sorted(rejected.items(), key=lambda item: -item[1])]
    count, text = sum(rejected.values()), f"{listing(codes, _NAMED)}; {REJECTED} beside the shards lists them."
    yield Finding("left-out", "medium", f"{number(count, 'input was', 'inputs were')} left out", text, count)


def _removal(
    measured: Measured, code: str, harm: Harm, chosen: np.ndarray, what: str, text: str, group: np.ndarray | None = None
) -> Finding:
    """A finding that is fixed by removing `chosen`, bool [n], and shown by some of them, with others of their group.

    Of a group, images of other splits or labels are shown first.
    """
    images, of = np.flatnonzero(chosen), np.stack([measured.split, measured.images["label"]])
    shown = [[place] for place in images[:: max(1, len(images) // _SINGLES_SHOWN)][:_SINGLES_SHOWN].tolist()]
    if group is not None:
        firsts = np.sort(np.unique(group[images], return_index=True)[1])[:_GROUPS_SHOWN]
        shown = []
        for place in images[firsts].tolist():
            others = np.setdiff1d(np.flatnonzero(group == group[place]), place)
            own = (of[:, others] == of[:, [place]]).all(axis=0)
            shown.append([place, *others[np.argsort(own, kind="stable")].tolist()][:_IN_GROUP])
    title = f"{number(len(images), 'image is', 'images are')} {what}"
    return Finding(code, harm, title, text, len(images), images, shown, "remove")

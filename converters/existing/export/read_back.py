"""Check an export with the reader of its format before the final rename: same images, splits and labels.

Names decide which files a reader takes, and each reader has its own rules; so the reader itself is used. It lists files
and reads annotations, but no images. Sums of digests are compared, which need little memory and no order.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardfeed.converters.existing.export.form import Part, ReconvertCommand
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import findings_of
from shardfeed.errors import IntegrityError, ShardfeedError, escape
from shardfeed.schema import SOURCE_ID

_BITS = 128
_DEFAULT = "train"  # the split of images without one


class Found:
    """Images that a reader finds, or must find: their count, and a sum of the digests of their values."""

    def __init__(self, part: Part) -> None:
        self.part, self.count, self.sum = part, 0, 0

    def add(self, key: bytes, split: str, values: Mapping[str, Any], objects: int) -> None:
        """Add one image with its values; `objects`: how many it has."""
        found = [(feature, _plain(values[feature])) for feature in sorted(self.part.features) if feature in values]
        parts = (key, split, found, objects if self.part.objects else 0)
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=_BITS // 8).digest()
        self.sum = (self.sum + int.from_bytes(digest, "little")) % (1 << _BITS)
        self.count += 1


def _plain(value: Any) -> Any:
    """A value as its source and its record have it alike."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return repr(value) if isinstance(value, float) else int(value)  # repr: so that NaN is NaN


def check(root: str, again: ReconvertCommand, expected: Found, to: str) -> None:
    """Raise IntegrityError unless the reader finds the expected content in `root`."""
    path, options = again.arguments(root)
    found = Found(expected.part)
    why = ""
    try:
        reader = options.pop("reader", None)
        source = open_source(path, reader=reader, options=options_of(options))
        findings = findings_of(source)
        for one in [*findings.rejected[:1], *(findings.account.left_out[:1] if findings.account else ())][:1]:
            why = f"; the first one not read: {escape(one.key)}: {one.reason}"
        for sample in source:
            number = {} if sample.number is None else {SOURCE_ID: b"%d" % sample.number}
            objects = 0 if sample.objects is None else len(sample.objects)
            found.add(sample.key, sample.split or _DEFAULT, {**sample.features, **number}, objects)
    except ShardfeedError as error:
        raise _unlike(to, str(error).replace(root, "OUT")) from error
    if (found.count, found.sum) != (expected.count, expected.sum):
        other = "names, splits or labels differ" if found.count == expected.count else f"{found.count} images"
        raise _unlike(to, f"{other}, expected {expected.count}{why}")


def _unlike(to: str, problem: str) -> IntegrityError:
    text = f"reading the export gives a different dataset: {problem}"
    return IntegrityError(f"export to {to}", text, "nothing was written; use another format")

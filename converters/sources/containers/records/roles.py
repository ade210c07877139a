"""Which feature of records that nobody described is the image, and which the label."""

import json
import os
from collections.abc import Mapping
from typing import Any

from shardfeed.errors import UsageError, escape
from shardfeed.schema import ENCODED, LABEL, Feature
from shardfeed.text import listing

LABEL_WORDS = ("label", "class", "target")  # what others call the only label, as a key or at the end of one
_MOST_BYTES = 16 << 20


def last_word(key: str) -> str:
    """`label` of `image/class/label`."""
    return key.rpartition("/")[2]


def image_feature(
    features: Mapping[str, Feature], images: Mapping[str, int], given: str | None, said: str | None
) -> str | None:
    """The key of the feature that is each record's image; None where none is.

    That is `given`; else `image/encoded`; else `said`, as another program's file has it; else the only one whose
    values are images, or of several the one called `image`. `images`: key -> records in which its value is an image by
    its bytes. Raises UsageError where `given` is none.
    """
    found = [key for key, feature in sorted(features.items()) if images.get(key) and feature.scalar]
    if given is not None:
        if given not in found:
            there = listing([repr(key) for key in found]) or "none"
            problem = "holds no images, by their bytes" if given in features else "is no feature of these records"
            raise UsageError("image_key", f"{escape(given)!r} {problem}", f"of images there is {there}")
        if ENCODED in features and given != ENCODED:
            remedy = "use a transform of your own with make_batches"
            raise UsageError("image_key", f"got {escape(given)!r}, and the records have {ENCODED!r}, too", remedy)
        return given
    if ENCODED in features:
        return ENCODED if ENCODED in found else None
    if said in found:
        return said
    return found[0] if len(found) == 1 else "image" if "image" in found else None


def label_feature(features: Mapping[str, Feature], given: str | None, said: str | None) -> str | None:
    """The key of the feature that is each record's label; None where none is.

    That is `given`; else `image/class/label`; else `said`, as another program's file has it; else the only integer
    called `label`, `class` or `target`. Raises UsageError where `given` is not one number a record.
    """
    numbers = [key for key, feature in sorted(features.items()) if feature.dtype != "bytes" and feature.scalar]
    if given is not None:
        if given not in numbers:
            text = given in features and features[given].dtype == "bytes"
            problem = "is text, and records are not rewritten" if text else "is not one number a record"
            remedy = f"there is {listing([repr(key) for key in numbers]) or 'none'}"
            if text:
                remedy += "; docs/adopt.md says how text becomes numbers"
            raise UsageError("label_key", f"{escape(given)!r} {problem}", remedy)
        if LABEL in features and given != LABEL:
            remedy = f"leave it out, and give label={given!r} to train_batches"
            raise UsageError("label_key", f"got {escape(given)!r}, and the records have {LABEL!r}, too", remedy)
        return given
    if LABEL in features:
        return LABEL if LABEL in numbers else None
    if said in numbers:
        return said
    for word in LABEL_WORDS:
        called = [key for key in numbers if last_word(key) == word and features[key].dtype == "int64"]
        if called:
            return called[0] if len(called) == 1 else None
    return None


def supervised_keys(directory: str) -> tuple[str | None, str | None]:
    """Image and label by TFDS's dataset_info.json in `directory`; (None, None) where it does not say."""
    try:
        with open(os.path.join(directory, "dataset_info.json"), "rb") as file:
            info: Any = json.loads(file.read(_MOST_BYTES))
        image, label = (item["featureKey"] for item in info["supervisedKeys"]["tuple"]["items"])
        return str(image), str(label)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None

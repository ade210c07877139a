"""The mark in a manifest that distinguishes ids counted by a conversion from the source's own ids.

A record's `image/source_id` is either its place in the split, counted during conversion, or the source's own number for
the image, as in COCO, by which results are compared with annotations. Counted ids may be counted again or left out; the
source's own may not. See docs/design/001-format.md.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from shardfeed.schema import SOURCE_ID

if TYPE_CHECKING:  # a conversion reads no dataset
    from shardfeed.readers.dataset import Dataset
    from shardfeed.readers.split import Split

COUNTED_IDS = "counted_ids"  # in the manifest's options: the names of the splits in which every number was counted
_PROOF = math.log(1e18)  # accepted probability that ids ascend by chance in a drawn order


def ids_were_counted(dataset: "Dataset", split: str) -> bool:
    """Whether the ids of a split were assigned by a conversion, according to its manifest.

    A manifest without this entry is from an earlier release, or adopted. Then ids come from the source, unless the
    records are in random order and more ids ascend than chance allows.
    """
    options = dataset.manifest.options
    if COUNTED_IDS in options:
        return split in options[COUNTED_IDS]
    if options.get("adopted") or options.get("appended") or math.lgamma(len(dataset[split]) + 1) < _PROOF:
        return False
    numbers = id_numbers(dataset[split])
    return numbers is not None and bool((np.diff(numbers) > 0).all())


def id_numbers(split: "Split") -> np.ndarray | None:
    """Ids of a split's records as numbers, int64 [n]; None if any is not a number."""
    feature = split.schema.features.get(SOURCE_ID)
    if feature is None or not feature.scalar or feature.dtype != "bytes":
        return None
    texts = split.column(SOURCE_ID)
    if not all(text.isdigit() and len(text) < 19 for text in texts):
        return None
    return np.array([int(text) for text in texts], np.int64)

"""Small datasets for operations, made in this process."""

from collections import Counter
from pathlib import Path
from typing import Any

import shardfeed
from shardfeed.converters import AnnotationOptions, open_source
from shardfeed.readers import Dataset, verify

from in_process import OwnEngine
from repository import ROOT

SCENES = ROOT / "data_samples" / "scenes"


def here() -> OwnEngine:
    """An engine that writes in this process; for one dataset."""
    return OwnEngine(1)


def scenes(task: str) -> Any:
    """The drawn scenes with one of "masks" or "keypoints" beside boxes, of COCO's files, or with "rasters"."""
    if task == "rasters":
        return open_source(
            SCENES / "masks", options=AnnotationOptions(images=SCENES / "images", class_names=str(SCENES / "masks.txt"))
        )
    name = "keypoints" if task == "keypoints" else "instances"
    return open_source(
        SCENES / "coco" / f"{name}.json", options=AnnotationOptions(images=SCENES / "images", tasks=["boxes", task])
    )


def payloads(dataset: Dataset, split: str | None = None) -> list[bytes]:
    """All records, split by split."""
    splits = dataset.values() if split is None else [dataset[split]]
    return [part.payload(i) for part in splits for i in range(len(part))]


def sound(path: Path) -> bool:
    """Whether `verify` finds nothing, and columns and counts are those of the records."""
    assert verify(path).damages == []
    for split in shardfeed.open(path).values():
        records = list(split)
        for key, feature in split.schema.features.items():
            if feature.scalar:
                assert split.column(key).tolist() == [record[key] for record in records], key
        for key, names in split.schema.class_names.items():
            found = Counter()
            for record in records:
                values = record[key] if not split.schema.features[key].scalar else [record[key]]
                found.update(int(value) for value in values)  # type: ignore[union-attr]
            assert list(split.class_counts[key]) == [found[label] for label in range(len(names))], key
    return True

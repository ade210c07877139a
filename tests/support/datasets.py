"""Small datasets for operations, made in this process."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.converters import AnnotationOptions, ImageOptions, Sample, convert, from_dicts, open_source
from shardfeed.readers import Dataset, verify
from shardfeed.schema import Schema

from in_process import OwnEngine
from pictures import image_bytes
from repository import ROOT

SCENES = ROOT / "data_samples" / "scenes"


def here() -> OwnEngine:
    """An engine that writes in this process; for one dataset."""
    return OwnEngine(1)


@dataclass
class Listed:
    """Samples as a source."""

    schema: Schema
    samples: Sequence[Sample]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Sample:
        return self.samples[i]


def stored(out: Path, schema: Schema, samples: Iterable[Sample], **options: Any) -> Dataset:
    """The dataset of these samples."""
    convert(Listed(schema, list(samples)), out, **{"workers": 1, **options})
    return shardfeed.open(out)


def scenes(task: str) -> Any:
    """The drawn scenes with "boxes", with "masks" or "keypoints" beside them, of COCO's files, or with "rasters"."""
    if task == "rasters":
        return open_source(
            SCENES / "masks", options=AnnotationOptions(images=SCENES / "images", class_names=str(SCENES / "masks.txt"))
        )
    name = "keypoints" if task == "keypoints" else "instances"
    return open_source(
        SCENES / "coco" / f"{name}.json", options=AnnotationOptions(images=SCENES / "images", tasks=[*{"boxes", task}])
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


def repeated(out: Path, sides: range, *, samples: int, shards: int) -> Dataset:
    """Samples of a few images of noise, squares with these sides, each many times with another text: quickly made."""
    images = []
    for side in sides:
        pixels = np.random.default_rng(side).integers(0, 256, (side, side, 3), np.uint8)
        images.append(image_bytes(Image.fromarray(pixels), "JPEG", quality=90))
    dicts = ({"image": images[n % len(images)], "key": f"{n:06d}", "note": str(n)} for n in range(samples))
    source = from_dicts(dicts, texts=["note"])
    convert(source, out, shards=shards, image=ImageOptions(check="none"), workers=here())
    return shardfeed.open(out)

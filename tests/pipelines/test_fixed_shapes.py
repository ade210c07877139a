"""Features with so many values in every record: from a source's lists through shards to tensors of that shape."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from datasets import stored

from shardfeed.converters import Sample
from shardfeed.errors import UsageError
from shardfeed.pipelines import make_batches
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset
from shardfeed.schema import ENCODED, FILENAME, Feature, Schema

COLOUR, POINTS, TAGS = "image/colour", "image/points", "image/tags"


SCHEMA = Schema({COLOUR: Feature("float32", (3,)), POINTS: Feature("int64", (2, 2)), TAGS: Feature("bytes", (2,))})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Eight images with three floats, two points and two texts each."""
    image = tf.io.encode_jpeg(np.full((16, 16, 3), 90, np.uint8)).numpy()
    features = ({COLOUR: [i / 2, 1.0, 0.25], POINTS: [[i, 1], [2, -i]], TAGS: [b"a", b"%d" % i]} for i in range(8))
    samples = (Sample(b"%d.jpg" % i, image, values) for i, values in enumerate(features))  # type: ignore[arg-type]
    return stored(tmp_path_factory.mktemp("fixed") / "out", SCHEMA, samples, shards=2)


def _whole(features: Any, seed: Any) -> Any:
    return features


def number(name: bytes) -> int:
    return int(name.removesuffix(b".jpg"))


def test_records_have_arrays_of_that_shape(dataset: Dataset) -> None:
    assert dataset["train"].schema.features[POINTS].shape == (2, 2)
    record: Any
    for record in dataset["train"]:
        i = number(record[FILENAME])
        assert record[COLOUR].tolist() == [i / 2, 1.0, 0.25]
        assert record[POINTS].tolist() == [[i, 1], [2, -i]]
        assert record[TAGS] == [b"a", b"%d" % i]
    with pytest.raises(UsageError, match="expected a feature with one value per record"):
        dataset["train"].column(COLOUR)


def test_tensorflow_stacks_them(dataset: Dataset) -> None:
    keys = [FILENAME, COLOUR, POINTS, TAGS]
    batches: Any = make_batches(
        dataset["train"], lambda features, seed: features, batch_size=4, order="global", keys=keys
    )
    assert batches.element_spec[COLOUR].shape == (4, 3)
    assert batches.element_spec[POINTS].shape == (4, 2, 2)
    for batch in batches.as_numpy_iterator():
        numbers = [number(name) for name in batch[FILENAME]]
        assert batch[COLOUR].tolist() == [[i / 2, 1.0, 0.25] for i in numbers]
        assert batch[POINTS].tolist() == [[[i, 1], [2, -i]] for i in numbers]
        assert batch[TAGS].tolist() == [[b"a", b"%d" % i] for i in numbers]


def test_pytorch_stacks_them(dataset: Dataset) -> None:
    loader = torch_loader(dataset["train"], batch_size=4, transform=_whole, workers=0)
    seen = 0
    batch: Any
    for batch in loader:
        numbers = [number(name) for name in batch[FILENAME]]
        assert batch[COLOUR].tolist() == [[i / 2, 1.0, 0.25] for i in numbers]
        assert batch[POINTS].shape == (4, 2, 2)
        assert batch[POINTS][:, 0, 0].tolist() == numbers
        seen += len(numbers)
    assert seen == 8


def test_tfds_reads_them(dataset: Dataset) -> None:
    import tensorflow_datasets as tfds

    builder: Any = tfds.builder_from_directory(dataset.directory)
    rows: Any = tfds.as_numpy(builder.as_dataset(split="train"))
    for row in rows:
        i = number(row[FILENAME])
        assert row[COLOUR].tolist() == [i / 2, 1.0, 0.25]
        assert row[POINTS].tolist() == [[i, 1], [2, -i]]
        assert row[TAGS].tolist() == [b"a", b"%d" % i]
    kept = json.loads((Path(dataset.directory) / "features.json").read_text())
    assert ENCODED in kept["featuresDict"]["features"]

"""Fixtures that tests of pipelines share."""

import pytest

from shardfeed.readers import Dataset, Split


@pytest.fixture(scope="session")
def train(flowers: Dataset) -> Split:
    return flowers["train"]

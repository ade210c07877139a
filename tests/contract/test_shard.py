"""TFRecord is a shard format: the tests of its contract, run over it."""

import pytest

from shardfeed.formats.format import ShardFormat
from shardfeed.formats.registry import NATIVE
from shardfeed.testing.shard_format import ShardFormatContract


class TestTFRecord(ShardFormatContract):
    """The format that shards are in."""

    @pytest.fixture
    def shard_format(self) -> ShardFormat:
        return NATIVE

"""The formats of other ecosystems are shard formats: the tests of that contract, run over each."""

import pytest

from shardfeed.formats.format import ShardFormat
from shardfeed.formats.native import FORMATS, NATIVE
from shardfeed.testing.shard_format import ShardFormatContract


class TestContainers(ShardFormatContract):
    """Each of them."""

    goes_on = False
    walks_alone = False
    all_records = False

    @pytest.fixture(params=sorted(FORMATS.keys() - {NATIVE.name}))
    def shard_format(self, request: pytest.FixtureRequest) -> ShardFormat:
        return FORMATS[request.param]

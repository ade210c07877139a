"""The formats of other ecosystems are shard formats: the tests of that contract, run over each."""

import tarfile
from pathlib import Path

import pytest

from shardfeed.formats.format import ShardFormat
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.schema import ENCODED, Feature, Schema
from shardfeed.testing.shard_format import ShardFormatContract


class TestContainers(ShardFormatContract):
    """Each of them."""

    can_continue = False
    walks_alone = False
    all_records = False

    @pytest.fixture(
        params=[
            name if name == "webdataset" else pytest.param(name, marks=pytest.mark.long)  # one view reads them all
            for name in sorted(FORMATS.keys() - {NATIVE.name})
        ]
    )
    def shard_format(self, request: pytest.FixtureRequest) -> ShardFormat:
        return FORMATS[request.param]


def test_the_images_of_a_tar_have_a_suffix_also_where_no_feature_says_their_format(tmp_path: Path) -> None:
    schema = Schema({"photo": Feature("bytes", (), "image", alias=ENCODED)})
    images = b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a"
    shard = str(tmp_path / "train-00000-of-00001.tar")
    with FORMATS["webdataset"].sink(shard, str(tmp_path / "index"), schema, len(images)) as sink:
        for image in images:
            sink.write({"photo": image})
    with tarfile.open(shard) as tar:
        names = [name for name in tar.getnames() if not name.endswith(".json")]
    assert [name.rpartition(".")[2] for name in names] == ["jpg", "png", "bin"]

"""The formats that shards are in, by name, and the one that they have where nothing else is asked for."""

from collections.abc import Mapping

from shardfeed.errors import UsageError
from shardfeed.formats.containers.arrayrecord import ArrayRecord
from shardfeed.formats.containers.mds import MDS
from shardfeed.formats.containers.parquet import Parquet
from shardfeed.formats.containers.webdataset import WebDataset
from shardfeed.formats.format import ShardFormat
from shardfeed.formats.tfrecord.shard import TFRecord

NATIVE = TFRecord()
FORMATS: Mapping[str, ShardFormat] = {
    each.name: each for each in (NATIVE, WebDataset(), Parquet(), MDS(), ArrayRecord())
}


def shard_format(name: str) -> ShardFormat:
    """The format of this name. Raises UsageError where there is none."""
    if name not in FORMATS:
        raise UsageError("to", f"got {name!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[name]

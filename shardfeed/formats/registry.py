"""The registry of shard formats by name; `NATIVE` is the default."""

from collections.abc import Mapping
from typing import Literal

from shardfeed.errors import UsageError
from shardfeed.formats.arrayrecord import ArrayRecord
from shardfeed.formats.format import ShardFormat
from shardfeed.formats.mds import MDS
from shardfeed.formats.parquet import Parquet
from shardfeed.formats.tfrecord import TFRecord
from shardfeed.formats.webdataset import WebDataset

Format = Literal["tfrecord", "webdataset", "parquet", "mds", "arrayrecord"]
NATIVE_NAME: Format = "tfrecord"
NATIVE = TFRecord()
FORMATS: Mapping[str, ShardFormat] = {
    each.name: each for each in (NATIVE, WebDataset(), Parquet(), MDS(), ArrayRecord())
}


def shard_format(name: str) -> ShardFormat:
    """Return the format with this name, or raise UsageError listing the known formats."""
    if name not in FORMATS:
        raise UsageError("to", f"got {name!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[name]

"""The format that shards are in."""

from shardfeed.formats.format import ShardFormat
from shardfeed.formats.tfrecord.shard import TFRecord

NATIVE: ShardFormat = TFRecord()

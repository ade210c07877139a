"""Work order for one shard, and the receipt of what was written."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import NOTHING, Account, LeftOut, RejectCode
from shardfeed.converters.sources.source import Content, FinishedRecord, Sample, Skipped
from shardfeed.errors import printable, spell_out
from shardfeed.formats.format import ShardFormat, ShardInfo, shard_stem
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.naming import index_file, shard_file
from shardfeed.schema import Schema

_REPAIRED = {RejectCode.UNREADABLE.value, RejectCode.SOURCE_ERROR.value}  # without a change of the sample's state
IMAGE_IDENTITY = ""  # name of a column in receipts that is not a feature: identifies the image of each record


class ReusableImage(NamedTuple):
    """An image that an earlier run has stored, in `row` of the shard at `path`, and the remarks on it then."""

    path: str
    index_path: str
    info: ShardInfo
    row: int
    normalised: tuple["Remark", ...]
    warnings: tuple["Remark", ...]


@dataclass(frozen=True)
class ShardTask:
    """Input of a worker for one shard: picklable, no larger than its list of samples.

    `first`: position of the first sample in the split; record numbers (`image/source_id`) count planned samples from
    there, so that a rejected one leaves a gap and changes no other record. `condemned`: positions in the shard that
    must not be tried again, with their codes. `digest`: of everything that determines the shard's bytes; without one no
    checkpoint is made, because it could not be matched. `kept`: by position in the shard, images that need not be read
    and checked again. `format`: name of the shard format. `directory`: of the dataset that is being made, or its URL in
    a bucket, which files are sent to. `receipts`: the directory in which receipts are left, if shards are not accepted
    one by one; in a bucket they always are. `made_by`: versions that must be those of the node. `left`: number of
    shards to write after this one. `ahead`: the first contents at URLs of the same worker's next shard.
    """

    directory: str
    split: str
    number: int
    count: int
    first: int
    samples: tuple[Sample, ...]
    schema: Schema
    image: ImageOptions
    condemned: Mapping[int, RejectCode] = field(default_factory=dict)
    digest: str = ""
    kept: Mapping[int, ReusableImage] = field(default_factory=dict)
    format: str = NATIVE.name
    receipts: str = ""
    made_by: Mapping[str, str] = field(default_factory=dict)
    left: int = 0
    ahead: tuple[Content, ...] = ()

    def made_of(self, place: int) -> FinishedRecord | ReusableImage | Content:
        """The origin of the record at `place`, first choice first: a record, an image stored before, or a file."""
        image = self.samples[place].image
        return self.kept.get(place, image) if self.kept and not isinstance(image, FinishedRecord) else image

    @property
    def shard_format(self) -> ShardFormat:
        """Format that writes the shard."""
        return FORMATS[self.format]

    @property
    def stem(self) -> str:
        """Name of the shard in messages: its file name without suffix."""
        return shard_stem(self.split, self.number, self.count)

    @property
    def paths(self) -> tuple[str, str]:
        """The files that are to be written: the shard's and its index."""
        return shard_paths(self.directory, self.split, self.number, self.count, self.format)

    @property
    def checkpoint(self) -> str:
        """Path of the checkpoint, which states how far a try has come."""
        return checkpoint_path(self.paths[0])


def shard_paths(directory: str, split: str, number: int, count: int, format: str = NATIVE.name) -> tuple[str, str]:
    """The paths of a shard and its index in a dataset that is being made."""
    names = shard_file(split, number, count, format), index_file(split, number, count, format=format)
    return os.path.join(directory, names[0]), os.path.join(directory, names[1])


def checkpoint_path(data: str) -> str:
    """Path of the checkpoint of the unfinished shard `data`, which states how much of it is durable."""
    return f"{data}.checkpoint"


@dataclass(frozen=True)
class Remark:
    """Something to report about one sample: its key, a code or its changes joined by "+", and why.

    `asked`: whether the options requested all of the changes.
    """

    key: bytes
    what: str
    why: str
    asked: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", printable(self.what))
        object.__setattr__(self, "why", printable(spell_out(self.why)))


def noted_of(listed: Iterable[Skipped | LeftOut]) -> list[Remark]:
    """The entries that a source listed, as reports have them."""
    return [Remark(one.key, str(one.code), one.reason) for one in listed]


@dataclass(frozen=True)
class Receipt:
    """Result of writing one shard.

    `class_counts[key][v]` and `formats` as in the manifest. `columns`: feature -> the column of the written records
    (see column.py), which may be read from a file on demand; under IMAGE_IDENTITY the bytes of `image_identity`, by
    which a later run decides whether it can reuse an image. `rejected`: left out. `normalised`: stored with other
    bytes than the source's, because not every loader reads the original. `warnings`: stored, but unusual.
    `progressive`: number of JPEGs kept that decode slowly. `account`: of the objects. `digest`: the task's.
    """

    split: str
    number: int
    info: ShardInfo
    class_counts: Mapping[str, tuple[int, ...]]
    formats: Mapping[str, int]
    columns: Mapping[str, bytes]
    rejected: tuple[Remark, ...]
    normalised: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    progressive: int = 0
    account: Account = NOTHING
    digest: str = ""

    @property
    def retry_may_help(self) -> bool:
        """Whether an image could not be read: permissions, cables and the source's code are repaired meanwhile."""
        return any(noted.what in _REPAIRED for noted in self.rejected)

"""All options that change the bytes of a dataset."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from shardfeed.annotations import OBJECT_AREA
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.sources.files.name_patterns import NamePattern
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.declared import Range, Typed, assignments, checked
from shardfeed.errors import UsageError, argument, escape, shown
from shardfeed.formats.registry import FORMATS, NATIVE, NATIVE_NAME, Format
from shardfeed.naming import check_split_name
from shardfeed.schema import RESTARTS, Schema, image_features
from shardfeed.text import byte_size, in_usual_order, typed_number

Out = Annotated[str | os.PathLike[str], Typed("dataset to create: a directory, or a URL such as s3://bucket/name")]
ShardCount = Annotated[int, Range(1, 99_999)]
SplitBy = Literal["exact", "hash"]
_EXAMPLE = "write {'train': 0.9, 'validation': 0.1}"


def check_seed(name: str, seed: object) -> None:
    """Raise UsageError unless `seed` is an integer, of no more digits than `draw` takes."""
    if type(seed) is not int or abs(seed) >= 10**63:
        raise UsageError(name, f"got {seed!r}, expected an integer of at most 63 digits")


def number_or_size(shards: Any) -> tuple[int | Mapping[str, int] | None, int | None]:
    """Parse the number of shards, or the size of each. Raise UsageError for text that is no size."""
    if not isinstance(shards, str):
        return shards, None
    try:
        return None, byte_size(shards)
    except (ValueError, OverflowError):
        count = typed_number(shards)
        remedy = "" if count is None else f"write {shards}MB, or {argument('shards', count)}"
        raise UsageError("shards", f"got {shown(shards)}, expected a size with its unit like 256MB", remedy) from None


def _typed_number(text: str) -> int | dict[str, int]:
    number = typed_number(text)
    return assignments("shards", text, int) if number is None else number


def _typed_size(text: str) -> str:
    number_or_size(text)
    return text


def typed_shares(text: str) -> dict[str, float]:
    """Parse `train=0.9,test=0.1`. Raises UsageError."""
    return assignments("split", text, float)


ShardsLike = Annotated[
    ShardCount | str | Mapping[str, ShardCount] | None,
    Typed("number of shards per split (default: by their size)", "N|A=N,B=N", read=_typed_number),
    Typed("maximum shard size (default 256MB; at least 16 shards)", "SIZE", "shard-size", _typed_size),
]
GroupColumn = Annotated[str | None, Typed("keep rows with the same value of a column in one split", "NAME")]
GroupPattern = Annotated[
    str | None, Typed("keep names with the same (?P<group>...) in one split; or roboflow", "REGEX")
]
GroupDuplicates = Annotated[bool, Typed("keep identical files in one split")]
Seed = Annotated[int, check_seed, Typed("seed of the order and the splits (default 0)", "N")]
Renumber = Annotated[bool, Typed("assign new image ids where COCO ids collide")]


@checked
@dataclass(frozen=True)
class Shares:
    """Shares of splits, and how they are drawn.

    Args:
        shares: split name -> share, adding up to 1.
        by: "exact": each split gets exactly its share of images, and of each class of the first label; adding images
            then moves a few existing images to a different split. "hash": each image's own key decides its split;
            adding images moves no existing images, and shares are exact only on average.

    Example:
        convert("photos", "out", split=Shares({"train": 0.8, "validation": 0.2}, by="hash"))
    """

    shares: Annotated[
        Mapping[str, float] | None,
        Typed("fractions, which add up to 1: train=0.9,test=0.1", "A=F,B=F", "split", typed_shares),
        _EXAMPLE,
    ] = None
    by: Annotated[SplitBy, Typed("exact (default): exact shares per class; hash: by key", "HOW", "split-by")] = "exact"

    @classmethod
    def of(cls, split: "Mapping[str, float] | Shares | None") -> "Shares":
        """Create `Shares` from a mapping; a `Shares` is returned unchanged."""
        return split if isinstance(split, Shares) else cls(split)


SharesLike = Annotated[Mapping[str, float] | Shares | None, _EXAMPLE, Typed(parts=Shares)]

_ROBOFLOW = r"(?P<group>.+)\.rf\.[^.]+\.[^.]+"  # NAME_jpg.rf.HASH.jpg


@dataclass(frozen=True)
class Groups:
    """Rules for groups: samples with the same value in a `column`, the same part of the name, or equal files."""

    column: str | None = None
    pattern: str | None = None
    duplicates: bool = False

    def __post_init__(self) -> None:
        if self.pattern is not None:
            self.compiled()

    def compiled(self) -> NamePattern:
        """The pattern. Raises UsageError for one that is not valid."""
        pattern = _ROBOFLOW if self.pattern == "roboflow" else self.pattern or ""
        return NamePattern("group_pattern", pattern, needs="group", example="'(?P<group>[^_]+)_.*', or roboflow")

    def __bool__(self) -> bool:
        return bool(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The rules that are set, as a JSON value."""
        return {name: value for name, value in vars(self).items() if value}


@checked
@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of a conversion that change the bytes of the dataset, as `convert` explains them."""

    split: SharesLike = None
    group_column: GroupColumn = None
    group_pattern: GroupPattern = None
    group_duplicates: GroupDuplicates = False
    to: Annotated[Format, Typed(f"shard format: {', '.join(FORMATS)}", "FORMAT")] = NATIVE_NAME
    shards: ShardsLike = None
    seed: Seed = 0
    image: Annotated[ImageOptions | None, "for example ImageOptions(size=64)", Typed(parts=ImageOptions)] = None


@checked
@dataclass(frozen=True, kw_only=True)
class PlanOptions(DatasetOptions):
    """All that changes the bytes of a dataset besides its source.

    `made_with`: for existing records, the replacement of `image`. `onto`: the dataset that is appended to; then
    `split`, `shards` and `seed` apply to the new samples.
    """

    image: ImageOptions = field(default_factory=ImageOptions)
    made_with: Mapping[str, Any] | None = None
    onto: AppendTarget | None = None

    def __post_init__(self) -> None:
        _ = self.groups, self.shard_size
        fractions = {"train": 1.0} if self.fractions is None else self.fractions
        if not fractions:
            raise UsageError("split", "got no split", "for example train=0.9,validation=0.1")
        for name, share in fractions.items():
            check_split_name(name)
            if not 0 < share <= 1:
                problem = f"got the share {share!r}, expected a number of more than 0 and at most 1"
                raise UsageError(f"split {name}", problem)
        if abs(sum(fractions.values()) - 1) > 1e-6:
            total = sum(fractions.values())
            raise UsageError("split", f"the shares add up to {total:g}, expected 1", "change one of them")

    @property
    def fractions(self) -> Mapping[str, float] | None:
        """Split name -> share in (0, 1], sum 1, for samples whose source names no split; None: all in "train"."""
        return Shares.of(self.split).shares

    @property
    def split_by(self) -> SplitBy:
        """How splits are drawn."""
        return Shares.of(self.split).by

    @property
    def number(self) -> int | Mapping[str, int] | None:
        """The number of shards of each split, or of each split by name; None: as `shard_size` requires."""
        return number_or_size(self.shards)[0]

    @property
    def shard_size(self) -> int | None:
        """Approximate bytes per shard: of source images, or of raw pixels if these have one size.

        None: 256 MB at most, and less if a dataset would have fewer than 16 shards (`shard_counts` in space.py).
        """
        return number_or_size(self.shards)[1]

    @property
    def groups(self) -> Groups:
        """Which samples go to the same split."""
        return Groups(self.group_column, self.group_pattern, self.group_duplicates)

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON value."""
        shards = dict(self.number) if isinstance(self.number, Mapping) else self.number
        groups = {"groups": self.groups.to_json()} if self.groups else {}
        if self.onto is not None:
            how = {"split": self.fractions and dict(self.fractions), "shards": shards, "shard_size": self.shard_size}
            return self.onto.options({**how, "seed": self.seed, **groups})
        return {
            "split": self.fractions and {name: self.fractions[name] for name in in_usual_order(self.fractions)},
            "split_by": self.fractions and self.split_by,
            "shards": shards,
            "shard_size": self.shard_size,
            "seed": self.seed,
            **(self.image.to_json() if self.made_with is None else {"sha256": True, **self.made_with}),
            **groups,
            **({"to": self.to} if self.to != NATIVE.name else {}),  # others were made before there was a choice
        }


def schema_of(source: Source, options: PlanOptions) -> Schema:
    """The schema of the records that `source` gives with `options`.

    Raises UsageError for a key that the conversion writes itself, and for features that its images would not fit.
    """
    if options.onto is not None:
        return options.onto.schema
    if info_of(source).made_with is not None:
        return source.schema.stated()
    images = image_features(sha256=options.image.sha256, restarts=options.image.restarts)
    own = source.schema
    for key in own.features:
        if key in {*images, RESTARTS}:
            problem = "this key is written by the conversion itself"
            raise UsageError(f"source.schema.features[{key!r}]", problem, "rename it")
    schema = replace(own, features=images | dict(own.features)).stated()
    _check_images(schema, options.image)
    return schema


def _check_images(schema: Schema, image: ImageOptions) -> None:
    """Raise UsageError if images are to be cropped or resized and features hold places or counts of pixels in them."""
    places = schema.of_kind("place")
    if image.shape is not None and places:
        problem = f"images are cropped, so the coordinates in {escape(places[0])} would be wrong"
        remedy = f"use {argument('resize_shorter')}, which does not crop, or leave that feature out"
        raise UsageError("size", problem, remedy)
    if image.resize_shorter is not None and OBJECT_AREA in schema.features and not schema.object_keys:
        problem = f"{OBJECT_AREA} is in pixels of the original images, and would be wrong for resized ones"
        remedy = "leave that feature out, and compute it from the boxes, which are fractions of the image"
        raise UsageError("resize_shorter", problem, remedy)

"""Features of a dataset that a format cannot hold: the export is refused, naming them, unless the user drops them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from shardfeed.annotations import (
    CAPTION,
    IS_CROWD,
    KEYPOINTS,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    OBJECTS,
    RASTER,
    RASTER_FORMAT,
    XMIN,
)
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import IMAGE_KEYS, LABEL, SOURCE_ID, TEXT, Schema

ALL = "all"
# The words for data that may be left out; other data has its feature key.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "classes": (LABEL, TEXT),
    "captions": (CAPTION,),
    "rasters": (RASTER, RASTER_FORMAT),
    "masks": (OBJECT_MASK,),
    "keypoints": KEYPOINTS,
    "crowds": (IS_CROWD,),
    "areas": (OBJECT_AREA,),
}
_TEXTS = {LABEL: TEXT, OBJECT_LABEL: OBJECT_TEXT, RASTER: RASTER_FORMAT}  # that follow from another feature


@dataclass(frozen=True)
class Losses:
    """`keys`: the keys of features that are left out, by word. `held`: features that the format can store.

    `twins`: whether an image may have two equal objects. `to`: name of the format.
    """

    to: str
    keys: Mapping[str, tuple[str, ...]]
    twins: bool
    held: frozenset[str]

    @property
    def all_keys(self) -> frozenset[str]:
        """Keys of the features that are left out."""
        return frozenset(key for keys in self.keys.values() for key in keys)

    def duplicates_error(self, where: object) -> UsageError:
        """The error for two equal objects of a record."""
        return _refusal(self.to, ("twins",), {"twins": ("identical objects",)}, where)


def losses_of(
    to: str, schema: Schema, held: Collection[str], drop: Collection[str], *, own_ids: bool, where: str
) -> Losses:
    """List the features of `schema` that `to` leaves out. `held`: keys of the features that it can hold.

    `drop`: words or keys that the user agrees to lose. `own_ids`: whether `image/source_id` is more than a count.
    Raise UsageError naming all words that are missing in `drop`, or a word in it that names nothing that is left out.
    """
    holds = {*held, *(text for key, text in _TEXTS.items() if key in held)}
    holds |= {key for key in schema.features if _label_of(key, schema) in held}
    lost = [key for key in schema.features if key not in holds and key not in IMAGE_KEYS]
    words: dict[str, tuple[str, ...]] = {}
    if any(key.startswith(OBJECTS) for key in lost) and XMIN not in holds:
        words["boxes"] = tuple(sorted(key for key in lost if key.startswith(OBJECTS)))
        lost = [key for key in lost if not key.startswith(OBJECTS)]
    for key in sorted(lost):
        word = next((word for word, keys in _WORDS.items() if key in keys), _label_of(key, schema))
        words[word] = tuple(sorted({*words.get(word, ()), key}))
    needed = [*words, *(["ids"] if own_ids and SOURCE_ID not in holds else [])]
    wanted = {*words, "ids", "twins"} if ALL in drop else set(drop)
    if lacking := [word for word in needed if word not in wanted]:
        raise _refusal(to, lacking, {**words, "ids": (SOURCE_ID,)}, where)
    for word in sorted(wanted - {ALL}):
        if word not in words and word not in ("ids", "twins"):
            can = f"{to} leaves out only {', '.join(needed)}" if needed else f"{to} can store all of it"
            raise UsageError("drop", f"got {escape(word)!r}: {can}", "remove it from the list")
    return Losses(to, words, "twins" in wanted, frozenset(holds))


def _label_of(key: str, schema: Schema) -> str:
    """Key of the label that a text feature names, as both go together; for any other feature its own key."""
    prefix, _, last = key.rpartition("/")
    return f"{prefix}/label" if last == "text" and f"{prefix}/label" in schema.class_names else key


def _refusal(to: str, lacking: Collection[str], keys: Mapping[str, tuple[str, ...]], where: object) -> UsageError:
    such = {word: f" ({keys[word][0]}{', ...' * (len(keys[word]) > 1)})" for word in lacking}
    shown = [word + such[word] * (word not in keys[word]) for word in lacking]
    drop = argument("drop", python=f"drop={sorted(lacking)!r}", typed=",".join(lacking))
    remedy = f"use another format, or leave them out: {drop}"
    return UsageError(where, f"{to} cannot store its {', '.join(shown)}", remedy)

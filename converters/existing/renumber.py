"""New ids of records, `image/source_id`, where those that they have would clash.

Ids are unique in each split, even if its records come from several datasets. Those that a conversion assigned are
assigned again if they would no longer ascend. Those that come from the source, as in COCO, are kept: results are
compared with annotations by id. The manifest records which kind they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from shardfeed.converters.existing.dataset_source import SourcePart
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.converters.planning.split_shares import draw
from shardfeed.errors import UsageError, argument, name_text
from shardfeed.schema import SOURCE_ID


def numbered(parts: Sequence[SourcePart], seed: int, *, renumber: bool) -> list[SourcePart]:
    """Renumber the parts of the splits in which ids clash; `seed` draws the order of records.

    Ids that come from the source (COCO) are only changed with `renumber`; otherwise raise UsageError for a clash.
    """
    anew = {name for name in {part.split for part in parts} if _clash(name, parts, seed, renumber=renumber)}
    return [
        replace(part, change=replace(part.change or RecordChange(part.records.split.schema), renumber=True))
        if part.split in anew
        else part
        for part in parts
    ]


def _clash(name: str | None, parts: Sequence[SourcePart], seed: int, *, renumber: bool) -> bool:
    """Whether the records of the new split `name` need new ids."""
    of_split = [part for part in parts if part.split == name and len(part.places)]
    columns = [numbers for part in of_split if (numbers := part.records.numbers) is not None]
    if not of_split or len(columns) < len(of_split):
        return False
    numbers = np.concatenate([column[part.places] for column, part in zip(columns, of_split, strict=True)])
    if all(part.records.origin.counted for part in of_split):
        draws = b"".join(draw(key, seed)[8:] for key in _keys(of_split))
        order = np.argsort(np.frombuffer(draws, "<u8"), kind="stable")
        return bool((np.diff(numbers[order]) <= 0).any())
    found, counts = np.unique(numbers, return_counts=True)
    twice = np.flatnonzero(counts > 1)
    if not len(twice):
        return False
    if renumber:
        return True
    number = int(found[twice[0]])
    keys = [name_text(key) for key, of in zip(_keys(of_split), numbers.tolist(), strict=True) if of == number]
    problem = f"the images {keys[0]} and {keys[1]} of one split both have the id {number} ({SOURCE_ID})"
    remedy = f"{argument('renumber', True)} assigns new ids in such splits"
    remedy += ", which no longer match the annotation files"
    raise UsageError("renumber", problem, remedy)


def _keys(parts: Sequence[SourcePart]) -> Iterator[bytes]:
    """The new keys of all records."""
    for part in parts:
        prefix = b"" if part.change is None else part.change.prefix
        for place in part.places:
            yield prefix + part.records.key(int(place))

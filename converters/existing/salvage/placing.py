"""Which of the whole records found in a damaged shard belong to the dataset, once each, and which numbers they had.

Pure: offsets, sizes and identities in, decisions out. A record that our converter wrote says its place in the plan
(`image/source_id`), which ascends through a split; where no input was rejected it is the place in the split.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_MOST_LOST = 1 << 20  # records of a shard that are listed one by one


@dataclass(frozen=True)
class Found:
    """A whole record in a file: bytes `start` to `end`, with framing. `serial`: its source id, if that is a number.

    `digest`: of what there is once in the dataset: of its payload, or of its file name. `label`: of
    `image/class/label`, if it has one.
    """

    path: str
    start: int
    end: int
    serial: int | None
    digest: int
    label: int | None


@dataclass(frozen=True)
class Home:
    """What is known of a shard as it was written.

    `records`: how many. `lowest`, `below`: the range of serials its records may have; `exact`: they are the places in
    the split, so that a record's number is `serial - lowest`. `offsets`: int64 [records + 1], as of `Index`. `labels`:
    of `image/class/label`, in order. `distinct`: no two records are equal. None: not known.
    """

    records: int | None = None
    lowest: int | None = None
    below: int | None = None
    exact: bool = False
    offsets: np.ndarray | None = None
    labels: np.ndarray | None = None
    distinct: bool = True

    def in_range(self, found: Found) -> bool:
        """Whether a record may be of this shard by its serial."""
        if self.lowest is None or self.below is None:
            return True
        return found.serial is not None and self.lowest <= found.serial < self.below

    def contradiction(self, found: Found) -> str:
        """Why a record in range cannot be of this shard, or ""."""
        number = (
            found.serial - self.lowest if self.exact and found.serial is not None and self.lowest is not None else None
        )
        if number is None:
            return self._nowhere(found)
        if self.offsets is not None and found.end - found.start != self.offsets[number + 1] - self.offsets[number]:
            return f"its size, {found.end - found.start}, is not what the index says"
        if self.labels is not None and found.label != self.labels[number]:
            return f"its label, {found.label}, is not the {self.labels[number]} of the label column"
        return ""

    def _nowhere(self, found: Found) -> str:
        """As `contradiction`, where inputs were rejected: a record's number is its serial's place or a few less."""
        if found.serial is None or self.offsets is None or self.records is None:
            return ""
        if self.lowest is None or self.below is None:
            return ""
        last = found.serial - self.lowest
        first = max(0, last - (self.below - self.lowest - self.records))
        if found.end - found.start in np.diff(self.offsets[first : last + 2]):
            return ""
        return f"its size, {found.end - found.start}, is not what the index says"

    def at_home(self, found: Found) -> bool:
        """Whether a record lies where the index has one of its size, and its serial fits that place."""
        if self.offsets is None:
            return False
        number = int(np.searchsorted(self.offsets, found.start))
        here = self.offsets[number : number + 2].tolist()
        return here == [found.start, found.end] and self._may_be(found, number)

    def _may_be(self, found: Found, number: int) -> bool:
        """Whether a record may be number `number`, by its serial: its place in the plan less those without a record."""
        if found.serial is None or self.lowest is None or self.below is None or self.records is None:
            return True
        gaps = 0 if self.exact else self.below - self.lowest - self.records
        return 0 <= found.serial - self.lowest - number <= gaps


@dataclass(frozen=True)
class Members:
    """The records of a shard in order, and those `left_out` with why. `numbers`: which each was; None: not known."""

    kept: tuple[Found, ...] = ()
    numbers: tuple[int | None, ...] = ()
    left_out: tuple[tuple[Found, str], ...] = ()


def settle(
    found: Mapping[int, Sequence[Found]], homes: Mapping[int, Home], taken: Collection[int] = frozenset()
) -> dict[int, Members]:
    """The records of each damaged shard of a split, by number of the shard.

    `found[shard]`: whole records in file order. `taken`: digests of records that are known to lie elsewhere. A record
    that lies in another shard than its own counts for its own, if it is not there.
    """
    kept: dict[int, list[Found]] = {shard: [] for shard in homes}
    left: dict[int, list[tuple[Found, str]]] = {shard: [] for shard in homes}
    best = _best_copies(found, homes)
    strays: list[tuple[int, Found, str]] = []
    for shard, records in found.items():
        home = homes[shard]
        for place, record in enumerate(records):
            if home.distinct and (record.digest in taken or best[record.digest] != (shard, place)):
                left[shard].append((record, "a second copy of a record"))
            elif not home.in_range(record):
                strays.append((shard, record, "not a record of this shard, by its image/source_id"))
            elif why := home.contradiction(record):
                strays.append((shard, record, why))  # where inputs were rejected, ranges of neighbours overlap
            else:
                kept[shard].append(record)
    for shard, record, why in strays:
        own = [other for other, home in homes.items() if home.lowest is not None and home.in_range(record)]
        own = [other for other in own if other != shard and not homes[other].contradiction(record)]
        if own:
            kept[min(own, key=lambda other: (_distance(record, kept[other]), other))].append(record)
        else:
            left[shard].append((record, why))
    return {shard: _settled(kept[shard], homes[shard], left[shard]) for shard in homes}


def _distance(record: Found, neighbours: Sequence[Found]) -> int:
    """How far a record's serial is from a shard's own: ranges of neighbouring shards overlap where inputs failed."""
    there = [other.serial for other in neighbours if other.serial is not None]
    if record.serial is None or not there:
        return 0
    return 0 if min(there) < record.serial < max(there) else min(abs(serial - record.serial) for serial in there)


def _best_copies(found: Mapping[int, Sequence[Found]], homes: Mapping[int, Home]) -> dict[int, tuple[int, int]]:
    """digest -> (shard, place in its file) of the copy that counts: the one in its own place, else the first."""
    return {digest: (shard, place) for digest, (_, shard, place) in _standings(found, homes).items()}


def best_standings(found: Mapping[int, Sequence[Found]], homes: Mapping[int, Home]) -> dict[int, int]:
    """digest -> how well the best copy of it in a split stands where it lies; more is better."""
    return {digest: score for digest, (score, _, _) in _standings(found, homes).items()}


def _standings(found: Mapping[int, Sequence[Found]], homes: Mapping[int, Home]) -> dict[int, tuple[int, int, int]]:
    best: dict[int, tuple[int, int, int]] = {}
    for shard, records in found.items():
        for place, record in enumerate(records):
            score = _standing(records, place, homes[shard])
            if record.digest not in best or score > best[record.digest][0]:
                best[record.digest] = score, shard, place
    return best


def _standing(records: Sequence[Found], place: int, home: Home) -> int:
    """How well a record stands where it lies: by its range and what is known of its place, by the index, by neighbours.

    What contradicts its shard can only be its home elsewhere. Serials ascend: where it breaks that, the index has a
    record of its size there by chance.
    """
    record = records[place]
    adjacent = ordered = disordered = 0
    for other, step in ((place - 1, -1), (place + 1, 1)):
        serial = records[other].serial if 0 <= other < len(records) else None
        if record.serial is not None and serial is not None:
            adjacent += serial == record.serial + step
            ordered += (serial - record.serial) * step > 0
            disordered += (serial - record.serial) * step <= 0
    in_range = home.in_range(record)
    fits = in_range and not home.contradiction(record)
    return 64 * fits + 32 * in_range + 8 * (home.at_home(record) and not disordered) + 3 * ordered + adjacent


def _settled(records: list[Found], home: Home, left: list[tuple[Found, str]]) -> Members:
    if records and all(record.serial is not None for record in records) and home.distinct:
        records, twice = _one_each(records, home)
        left = left + twice
    if home.offsets is not None and not home.exact:
        records, surplus = _fitting(records, home)
        left = left + surplus
    if home.records is not None and len(records) > home.records:
        first = sorted(range(len(records)), key=lambda place: not home.at_home(records[place]))[: home.records]
        why = f"more than the {home.records} records that the shard had"
        away = set(range(len(records))) - set(first)
        left = left + [(records[place], why) for place in sorted(away)]
        records = [record for place, record in enumerate(records) if place not in away]
    return Members(tuple(records), tuple(_numbers(records, home)), tuple(left))


def _one_each(records: list[Found], home: Home) -> tuple[list[Found], list[tuple[Found, str]]]:
    """By serial, ascending; of two that claim one serial the one in its place, else the first."""
    of: dict[int, Found] = {}
    twice: list[tuple[Found, str]] = []
    for record in records:
        assert record.serial is not None, "asked for by the caller"
        other = of.setdefault(record.serial, record)
        if other is not record:
            if home.at_home(record) and not home.at_home(other):
                of[record.serial], record = record, other
            twice.append((record, f"another record with image/source_id {record.serial}"))
    return [of[serial] for serial in sorted(of)], twice


def _fitting(records: list[Found], home: Home) -> tuple[list[Found], list[tuple[Found, str]]]:
    """No more records of a size than the index has; those in their place first."""
    assert home.offsets is not None, "asked for by the caller"
    values, counts = np.unique(np.diff(home.offsets), return_counts=True)
    room = dict(zip(values.tolist(), counts.tolist(), strict=True))
    fits: set[int] = set()
    for place in sorted(range(len(records)), key=lambda place: not home.at_home(records[place])):
        size = records[place].end - records[place].start
        if room.get(size, 0):
            room[size] -= 1
            fits.add(place)
    surplus = [(r, "the index has no such record left") for place, r in enumerate(records) if place not in fits]
    return [record for place, record in enumerate(records) if place in fits], surplus


def _numbers(records: list[Found], home: Home) -> list[int | None]:
    """The number that each record, in order, had in the shard as it was written; None where nothing tells."""
    if home.exact and home.lowest is not None:
        return [None if record.serial is None else record.serial - home.lowest for record in records]
    if len(records) == home.records:
        return list(range(len(records)))
    numbers: list[int | None] = [None] * len(records)
    if home.offsets is not None:
        numbers = _by_sizes([record.end - record.start for record in records], np.diff(home.offsets).tolist())
    _fill(numbers, records, range(len(records)), 1)
    _fill(numbers, records, range(len(records) - 1, -1, -1), -1)
    _fill_between(numbers, home.records)
    return numbers


def _by_sizes(found: list[int], written: list[int]) -> list[int | None]:
    """Where `found` can stand in `written`, of which some are gone: known where the first and the last way agree."""
    first = _earliest(found, written)
    last = [len(written) - 1 - number for number in reversed(_earliest(found[::-1], written[::-1]))]
    if len(first) != len(found):  # their order is another
        return [None] * len(found)
    return [a if a == b else None for a, b in zip(first, last, strict=True)]


def _earliest(found: list[int], written: list[int]) -> list[int]:
    """The first place for each of `found` behind that of the one before; shorter where there is none."""
    places: list[int] = []
    at = 0
    for size in found:
        while at < len(written) and written[at] != size:
            at += 1
        if at == len(written):
            break
        places.append(at)
        at += 1
    return places


def _fill(numbers: list[int | None], records: list[Found], order: range, step: int) -> None:
    """Numbers of records whose serial follows that of a neighbour whose number is known."""
    for place in order:
        before = place - step
        if numbers[place] is not None or not 0 <= before < len(numbers):
            continue
        number, serial, here = numbers[before], records[before].serial, records[place].serial
        if number is not None and serial is not None and here == serial + step:
            numbers[place] = number + step


def _fill_between(numbers: list[int | None], count: int | None) -> None:
    """Numbers of a run of records between two known ones that leave room for exactly as many."""
    last, place = -1, -1  # the known number before, and where it is
    for at in range(len(numbers) + 1):
        number = count if at == len(numbers) else numbers[at]
        if number is None:
            continue
        if number - last == at - place:
            numbers[place + 1 : at] = range(last + 1, number)
        last, place = number, at


def lost_numbers(members: Members, home: Home) -> list[int] | None:
    """The numbers of the records that were not recovered; None where it is not known which."""
    if home.records is None or any(number is None for number in members.numbers):
        return None
    if home.records - len(members.kept) > _MOST_LOST:  # their number says enough, and may be a lie
        return None
    there = {number for number in members.numbers if number is not None}
    return [number for number in range(home.records) if number not in there]


def lost_serial(number: int, members: Members, home: Home) -> int | None:
    """The serial that the lost record `number` had, by its range or its neighbours; None where nothing tells."""
    if home.lowest is not None and home.exact:
        return home.lowest + number
    serials = {n: record.serial for n, record in zip(members.numbers, members.kept, strict=True)}
    before, after = serials.get(number - 1), serials.get(number + 1)
    return before + 1 if before is not None and after == before + 2 else None

"""Which records belong to a damaged shard, and which numbers they had: decided from places and identities alone."""

import random

import numpy as np

from shardfeed.converters.existing.salvage.placing import Found, Home, Members, lost_numbers, lost_serial, settle


def found(*serials: int | None, sizes: list[int] | None = None, start: int = 0) -> list[Found]:
    """Records that follow each other in a file; each digest is the serial's."""
    records = []
    for place, serial in enumerate(serials):
        size = sizes[place] if sizes else 100
        records.append(Found("f", start, start + size, serial, hash((serial, size)), None))
        start += size
    return records


def settled(records: list[Found], home: Home) -> Members:
    return settle({0: records}, {0: home})[0]


def serials(members: Members) -> list[int | None]:
    return [record.serial for record in members.kept]


EXACT = Home(records=5, lowest=10, below=15, exact=True)


def test_each_once_and_in_order() -> None:
    members = settled(found(11, 10, 13, 13, 14), EXACT)
    assert serials(members) == [10, 11, 13, 14]
    assert members.numbers == (0, 1, 3, 4)
    assert lost_numbers(members, EXACT) == [2]
    assert lost_serial(2, members, EXACT) == 12
    assert [why for _, why in members.left_out] == ["a second copy of a record"]


def test_strays_go_home() -> None:
    homes = {0: EXACT, 1: Home(records=2, lowest=15, below=17, exact=True)}
    members = settle({0: found(10, 11, 16, 12, 99), 1: found(15, 10)}, homes)
    assert serials(members[0]) == [10, 11, 12]
    assert serials(members[1]) == [15, 16]
    assert sorted(record.serial or 0 for record, _ in members[0].left_out) == [99]
    assert [why for _, why in members[1].left_out] == ["a second copy of a record"]


def test_strays_go_home_where_ranges_overlap() -> None:
    """Two inputs were rejected: 3 may be of either shard by its serial, and by its size of the first alone."""
    homes = {
        0: Home(records=3, lowest=0, below=5, offsets=np.array([0, 10, 20, 45])),
        1: Home(records=3, lowest=3, below=8, offsets=np.array([0, 30, 60, 90])),
    }
    lost = found(3, sizes=[25], start=90)
    members = settle({0: found(0, 1, sizes=[10, 10]), 1: [*found(4, 5, 6, sizes=[30, 30, 30]), *lost]}, homes)
    assert serials(members[0]) == [0, 1, 3]
    assert serials(members[1]) == [4, 5, 6]
    assert members[1].left_out == ()


def test_the_index_and_the_labels_tell_strangers() -> None:
    home = Home(records=3, lowest=0, below=3, exact=True, offsets=np.array([0, 10, 30, 60]))
    members = settled([*found(0, 1, 2, sizes=[10, 20, 31]), *found(2, sizes=[30], start=61)], home)
    assert serials(members) == [0, 1, 2]
    assert members.kept[2].end - members.kept[2].start == 30
    labels = Home(records=2, lowest=0, below=2, exact=True, labels=np.array([5, 6]))
    records = [Found("f", 0, 10, 0, 1, 5), Found("f", 10, 20, 1, 2, 7)]
    assert serials(settled(records, labels)) == [0]


def test_numbers_by_sizes_where_nothing_else_tells() -> None:
    sizes = [10, 20, 10, 30, 10, 20]
    home = Home(records=6, offsets=np.cumsum([0, *sizes]), distinct=False)
    members = settled(found(*[None] * 4, sizes=[10, 20, 30, 10], start=3), home)
    assert members.numbers == (0, 1, 3, 4)
    assert lost_numbers(members, home) == [2, 5]
    equal = Home(records=3, offsets=np.array([0, 10, 20, 30]), distinct=False)
    members = settled(found(None, None, sizes=[10, 10], start=10), equal)
    assert members.numbers == (None, None)
    assert lost_numbers(members, equal) is None
    assert settled(found(None, sizes=[11]), equal).kept == (), "no record of that size"


def test_numbers_by_neighbours() -> None:
    """Rejected inputs left gaps in the serials, and there is no index."""
    home = Home(records=4, lowest=10, below=19)
    assert settled(found(10, 12, 13, 17), home).numbers == (0, 1, 2, 3)
    members = settled(found(10, 12, 13), home)
    assert members.numbers == (None, None, None)
    assert lost_serial(1, Members(tuple(found(4, 6)), (0, 2)), home) == 5


def test_never_more_than_there_were() -> None:
    home = Home(records=3, distinct=False)
    members = settled(found(None, None, None, None), home)
    assert len(members.kept) == 3
    assert "more than the 3 records" in members.left_out[0][1]


def test_any_part_of_a_shard_keeps_its_numbers(seed: int) -> None:
    """Numbers that are told are right, whatever was removed, with and without gaps in the serials."""
    rng = random.Random(seed)
    told = 0
    for _ in range(300):
        count = rng.randrange(1, 12)
        planned = sorted(rng.sample(range(15), count))
        sizes = [rng.choice([10, 20, 30]) for _ in range(count)]
        offsets = np.cumsum([0, *sizes])
        left = sorted(rng.sample(range(count), rng.randrange(count + 1)))
        home = Home(records=count, lowest=0, below=15, offsets=offsets if rng.random() < 0.7 else None)
        members = settled(found(*[planned[i] for i in left], sizes=[sizes[i] for i in left], start=7), home)
        assert serials(members) == [planned[i] for i in left]
        for number, right in zip(members.numbers, left, strict=True):
            assert number in (None, right)
            told += number is not None
    assert told > 300

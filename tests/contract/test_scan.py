"""Every whole record of any file is found, and nothing else."""

import os
import random
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from shardfeed.errors import RecordError
from shardfeed.formats import tfrecord as scan
from shardfeed.formats.tfrecord import (
    FRAME_BYTES,
    HEADER_BYTES,
    found_pieces,
    frame,
    header_offsets,
    mask,
    walk_records,
    whole_records,
)
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.storage import LOCAL

from damages import damage


def records(rng: random.Random, count: int, most: int = 300) -> list[bytes]:
    """Different payloads, some of zeros, one empty."""
    made = [
        b"%d:" % i + (bytes(n) if i % 5 == 0 else rng.randbytes(n)) for i in range(count) for n in [rng.randrange(most)]
    ]
    return [b"", *made]


def found(path: Path) -> list[bytes]:
    """The whole records of a file; its pieces are all of it."""
    at = 0
    payloads = []
    for piece in found_pieces(str(path)):
        assert piece.start == at < piece.end
        at = piece.end
        if piece.framed is not None:
            assert frame(piece.payload) == piece.framed
            payloads.append(piece.payload)
    assert at == path.stat().st_size
    return payloads


def test_headers_are_found_where_one_by_one_finds_them(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(rng.randbytes(4000) + bytes(600) + rng.randbytes(100))
    planted = {}
    for at in (0, 13, 77, 1000, 1012, 4030, 4200, len(data) - HEADER_BYTES):
        length = rng.randrange(1 << rng.randrange(1, 20))
        data[at : at + HEADER_BYTES] = length.to_bytes(8, "little") + mask(
            crc32c(length.to_bytes(8, "little"))
        ).to_bytes(4, "little")
        planted[at] = length
    room = len(data) + (1 << 18)
    slow = [
        at
        for at in range(len(data) - HEADER_BYTES + 1)
        if mask(crc32c(bytes(data[at : at + 8]))) == int.from_bytes(data[at + 8 : at + 12], "little")
        and int.from_bytes(data[at : at + 8], "little") + FRAME_BYTES <= room - at
    ]
    assert header_offsets(bytes(data), room) == slow
    assert [at for at in planted if planted[at] + FRAME_BYTES <= room - at] == [at for at in slow if at in planted]
    assert slow, "nothing to find"


def test_a_length_must_fit_to_the_byte() -> None:
    header = frame(bytes(1000))[:HEADER_BYTES]
    assert header_offsets(header, 1000 + FRAME_BYTES) == [0]
    assert header_offsets(header, 999 + FRAME_BYTES) == []
    assert header_offsets(b"", 0) == header_offsets(bytes(11), 11) == header_offsets(bytes(100), 100) == []


def test_an_undamaged_file_of_each_kind(tmp_path: Path, seed: int) -> None:
    payloads = records(random.Random(seed), 30)
    path = tmp_path / "shard"
    path.write_bytes(b"".join(map(frame, payloads)))
    assert found(path) == payloads
    assert [piece.payload for piece in whole_records(str(path))] == payloads
    assert [walked.payload for walked in walk_records(LOCAL.open(str(path)), None, len(payloads))] == payloads
    path.write_bytes(b"")
    assert found(path) == [] == list(whole_records(str(path)))


def walked(path: Path, starts: list[int] | None, count: int) -> list[bytes | str]:
    """Each record's payload, or what is wrong with it."""
    return [
        error.problem if error else payload
        for payload, _, _, error in walk_records(LOCAL.open(str(path)), starts, count)
    ]


def test_a_walk_goes_on_behind_an_empty_record_that_is_damaged(tmp_path: Path) -> None:
    """Its length, zero, is right: it says where the next one starts."""
    data = bytearray(frame(b"one") + frame(b"") + frame(b"three"))
    data[len(frame(b"one")) + HEADER_BYTES] ^= 1
    path = tmp_path / "shard"
    path.write_bytes(data)
    first, second, third = walked(path, None, 3)
    assert (first, third) == (b"one", b"three")
    assert str(second).startswith("record data damaged")


@pytest.mark.promise(21)
def test_a_walk_by_an_index_reads_no_more_than_its_record(tmp_path: Path) -> None:
    """A forged header, right CRC, whose length just fits a file of 256 MiB."""
    size = 256 << 20
    path = tmp_path / "shard"
    length = (size - FRAME_BYTES).to_bytes(8, "little")
    with path.open("wb") as file:
        file.write(length + mask(crc32c(length)).to_bytes(4, "little"))
        file.seek(100)
        file.write(frame(b"the second"))
        file.truncate(size)
    tracemalloc.start()
    first, second = walked(path, [0, 100], 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "does not fit" in str(first)
    assert second == b"the second"
    assert peak < 1 << 20, f"{peak >> 10} KiB"


@pytest.mark.promise(20)
@pytest.mark.parametrize("window", [16, 61, 1 << 20])
def test_what_is_whole_is_found_whatever_is_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, window: int
) -> None:
    """Flips, cuts, garbage, removed and doubled ranges; records that cross every boundary of the window."""
    monkeypatch.setattr(scan, "_WINDOW", window)
    monkeypatch.setattr(scan, "_SEARCHED", window)
    rng = random.Random(seed + window)
    path = tmp_path / "shard"
    damaged = 0
    for _ in range(40):
        payloads = records(rng, 12)
        data = damage(b"".join(map(frame, payloads)), rng, rng.randrange(4))
        path.write_bytes(data)
        expected = sorted(p for p in payloads for _ in range(data.count(frame(p))))
        assert sorted(found(path)) == expected
        damaged += len(expected) != len(payloads)
    assert damaged > 10, "the damage did nothing"


@pytest.mark.promise(21)
def test_lengths_that_lie_cost_no_memory(tmp_path: Path) -> None:
    """A forged header, right CRC, whose length just fits a file of 64 MiB: nobody reads all that at once."""
    size = 64 << 20
    path = tmp_path / "shard"
    with path.open("wb") as file:
        for at in range(0, 1 << 16, 4096):
            length = (size - at - FRAME_BYTES).to_bytes(8, "little")
            file.seek(at)
            file.write(length + mask(crc32c(length)).to_bytes(4, "little"))
        file.seek(size - 100)
        file.write(frame(b"the last one"))
        file.truncate(size)
    tracemalloc.start()
    assert found(path) == [b"the last one"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20, f"{peak >> 20} MiB"


def test_the_first_damage_of_a_file_that_should_be_whole_has_a_place(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    data = frame(b"one") + frame(b"two") + frame(b"three")
    start = len(frame(b"one"))
    for at, what in ((start, "length damaged"), (start + 13, "data damaged"), (len(data) - 1, "data damaged")):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(RecordError, match=what) as error:
            list(whole_records(str(path)))
        assert f"record {1 if at < len(data) - 1 else 2}, offset" in error.value.place
        assert "salvage" in error.value.remedy
    path.write_bytes(data[:-3])
    with pytest.raises(RecordError, match="does not fit"):
        list(whole_records(str(path)))


def test_the_search_is_no_loop_over_offsets() -> None:
    """Which would take 300 times as long: a gigabyte a second on random bytes by measurement."""
    data = np.random.default_rng(0).bytes(1 << 20)
    lines = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = header_offsets(data, 1 << 40)
    finally:
        sys.settrace(before)
    assert found == []
    assert 0 < lines < 10_000


@pytest.mark.promise(22)
def test_forged_headers_cost_no_more_than_a_few_readings(tmp_path: Path) -> None:
    """Headers with right CRCs every 16 bytes, all of which reach to the end of 4 MiB."""
    size = 4 << 20
    path = tmp_path / "shard"
    headers = []
    for at in range(0, size - 200, 16):
        length = (size - 100 - at - FRAME_BYTES).to_bytes(8, "little")
        headers.append(length + mask(crc32c(length)).to_bytes(4, "little") + b"....")
    whole = frame(b"the last one")
    path.write_bytes(b"".join(headers) + b"." * 20 + whole + frame(b"x" * 10))
    before = os.times().user
    pieces_found = list(found_pieces(str(path)))
    assert os.times().user - before < 5, "a minute, when each header is believed"
    assert sum(piece.end - piece.start for piece in pieces_found) == path.stat().st_size

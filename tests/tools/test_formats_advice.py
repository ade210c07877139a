"""What `bench --formats` advises: arithmetic of figures, made up here."""

import pytest

from shardfeed.tools.bench.formats.advice import Packed, Read, advise, delivered
from shardfeed.tools.bench.formats.places import CACHE, DISK, MAPPED, PRELOADED


def read(name: str, cache: float, **others: float) -> Read:
    """A format that is read in so many microseconds, from wherever unless `others` say otherwise."""
    costs = {mode: others.get(mode, cache) for mode in (DISK, CACHE, MAPPED, PRELOADED)}
    return Read(name, costs, costs, others.get("sequential", costs[DISK]), 1000)


def test_the_decoder_decides() -> None:
    """Ten times as fast to read, and nothing to gain."""
    formats = [read("tfrecord", 50), read("mds", 5)]
    assert delivered(formats[0], 950) == 1000
    said = advise(formats, 950, [], 10**8)
    assert said[0] == (
        "Keep tfrecord: of the other formats mds does best, and brings x1.05, as the decoder takes 95% of the time."
    )
    assert said[1].startswith("Read lazily: preloading brings x1.00 and mapping x1.00")


def test_without_a_decoder_the_format_counts() -> None:
    said = advise([read("tfrecord", 30), read("mds", 9), read("parquet", 20)], 1, [], 10**8)
    assert said[0].startswith("Take mds: its images are read and decoded x3.10 as fast as tfrecord's.")
    assert "`shardfeed convert SOURCE OUT --to mds`" in said[0]


def test_a_tenth_is_what_makes_it_worth_it() -> None:
    assert advise([read("tfrecord", 110), read("mds", 9)], 991, [], 1)[0].startswith("Take mds")
    assert advise([read("tfrecord", 109), read("mds", 20)], 991, [], 1)[0].startswith("Keep tfrecord")


def test_where_nothing_is_decoded_the_decoder_is_no_reason() -> None:
    said = advise([read("tfrecord", 10), read("mds", 16)], 1, [], 1)[0]
    assert said == "Keep tfrecord: of the other formats mds does best, and brings x0.65."


def test_preloading_and_mapping() -> None:
    (_, said, *_) = advise([read("tfrecord", 30, preloaded=10, mapped=5)], 10, [], 250 * 10**6)
    assert said == (
        "If all 250.0 MB and their like fit into memory: preloading brings x2.00 and mapping x2.67, as little else is "
        "to be done. `shardfeed.open(DIR, storage=...)` takes a storage that keeps files in memory."
    )


def test_the_disk() -> None:
    fast = advise([read("tfrecord", 10, disk=20)], 990, [], 1)
    assert fast[2] == "This disk keeps up: from it, an image takes x1.01 the time, read at random."
    slow = advise([read("tfrecord", 10, disk=3010, sequential=510)], 990, [], 1)
    assert 'x4.00 the time at random, x1.50 in sequence: order="stream"' in slow[2]
    both = advise([read("tfrecord", 10, disk=3010)], 990, [], 1)
    assert "x4.00 the time at random, x4.00 in sequence: more threads" in both[2]
    assert len(advise([read("tfrecord", 10, disk=3010)], 990, [], 1, dropped=False)) == 2


def test_compression_breaks_even_where_the_bytes_come_slowly() -> None:
    pixels = Packed("tfrecord", "GZIP", plain=3000, compressed=2000, more_us=20)
    assert pixels.saved == pytest.approx(1 / 3)
    assert pixels.breaks_even == 50  # 1000 bytes in 20 us
    said = advise([read("tfrecord", 10)], 1, [pixels], 1)[-1]
    assert said == (
        "Compress only what comes slowly: GZIP (tfrecord) saves 33% of the bytes, costs 20 us an image, and is ahead "
        "where a thread gets less than 50 MB/s. Nothing can be read at random then."
    )
    free = Packed("mds", "zstd", plain=3000, compressed=2000, more_us=-1, random=True)
    said = advise([read("tfrecord", 10), read("mds", 1)], 1, [pixels, free], 1)[-1]
    assert said == "Compress, if you like: zstd (mds) saves 33% of the bytes, and costs no time."
    assert "GZIP (tfrecord)" in advise([read("tfrecord", 10), read("mds", 10)], 1, [free, pixels], 1)[-1]


def test_photos_are_not_compressed() -> None:
    photos = Packed("tfrecord", "GZIP", plain=65_000, compressed=64_700, more_us=190)
    said = advise([read("tfrecord", 10)], 700, [photos], 1)[-1]
    assert said == "Do not compress: GZIP (tfrecord) saves 0.5% of the bytes, and costs 190 us an image."


def test_one_format_alone() -> None:
    assert advise([read("tfrecord", 10)], 1, [], 1)[0].startswith("There is nothing to compare tfrecord with")

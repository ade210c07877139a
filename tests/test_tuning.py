"""Buffers and options of tf.data."""

import pytest

from shardfeed.pipelines.tuning import data_options, shuffle_buffer_records

GIB = 1 << 30


@pytest.mark.parametrize(
    ("records", "mean", "memory", "buffer"),
    [
        (1_000_000, 64 << 10, 64 * GIB, 16_384),
        (1_000_000, 64 << 10, 4 * GIB, 16_384),  # exactly a quarter
        (1_000_000, 64 << 10, 4 * GIB - 1, 8_192),
        (100, 64 << 10, 4 * GIB, 100),  # the whole split
        (100, 1 << 30, 2 * GIB, 1),
        (1_000_000, 1 << 40, GIB, 1),  # never none
    ],
)
def test_shuffle_buffer(records: int, mean: int, memory: int, buffer: int) -> None:
    assert shuffle_buffer_records(records, records * mean, memory) == buffer


def test_options_are_explicit() -> None:
    options = data_options(3)
    assert options.threading.private_threadpool_size == 3
    assert options.autotune.enabled is False
    assert options.deterministic is True

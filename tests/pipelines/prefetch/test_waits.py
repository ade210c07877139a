"""Statistics of waits, on a clock of our own."""

import pytest

from shardfeed.pipelines.prefetch.prefetcher import WaitTimes


def test_counts() -> None:
    """The first batch is apart; then the consumer takes 1 s a step and waits 0, 0.5 and 0.1 s."""
    waits = WaitTimes(2, buffer=4)
    now = 0.0
    waits.clock = lambda: now  # type: ignore[method-assign]
    assert waits.statistics().batches == 0
    assert waits.statistics().bottleneck == "consumer"
    for lane, step, wait, ready in [(0, 0.0, 3.0, 0.0), (1, 1.0, 0.0, 4.0), (0, 1.0, 0.5, 2.0), (1, 1.0, 0.1, 9.0)]:
        began = now + step
        now = began + wait
        waits.took(lane, began, ready)
    found = waits.statistics()
    assert (found.batches, found.first_wait) == (4, 3.0)
    assert found.mean_wait == pytest.approx(0.2)
    assert found.p99_wait == pytest.approx(0.5, rel=0.05)
    assert found.waited == pytest.approx(0.6 / 3.6)
    assert found.occupancy == pytest.approx((1 + 0.5 + 1) / 3)
    assert found.waited_for == pytest.approx((0.5, 0.1))
    assert found.bottleneck == "producers"
    assert "4 batches, waits of 200.00 ms" in str(found)
    assert "bottleneck: producers" in str(found)

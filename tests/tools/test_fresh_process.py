"""Figures that a new process reports of itself."""

import time

import numpy as np
import pytest

from shardfeed.errors import IntegrityError
from shardfeed.readers import Dataset
from shardfeed.tools.bench.fresh_process import measure_fresh, memory_bytes
from shardfeed.tools.bench.stages import Workload


def work(data: Dataset) -> Workload:
    return Workload(data["train"], 8, 32, "stream", 2)


@pytest.mark.long
def test_a_new_process_measures_itself(flowers: Dataset) -> None:
    ballast = np.ones(200_000_000)  # 1.6 GB, which a peak inherited from this process would show
    assert memory_bytes("VmHWM:") > ballast.nbytes
    started = time.monotonic()
    found = measure_fresh(flowers.directory, work(flowers), seconds=600)
    seconds = time.monotonic() - started
    del ballast
    assert found["epoch"] is True
    assert found["batches"] == len(flowers["train"]) // 8
    assert 0 < found["first_batch_s"] < seconds
    assert 0 < found["import_s"] < seconds
    assert 50e6 < found["imported_bytes"] < found["peak_bytes"] < 1.6e9


@pytest.mark.long
def test_it_stops_when_its_time_is_up(flowers: Dataset) -> None:
    found = measure_fresh(flowers.directory, work(flowers), seconds=1e-9)
    assert 1 <= found["batches"] < len(flowers["train"]) // 8
    assert found["epoch"] is False


@pytest.mark.long
def test_a_process_that_fails_is_named(flowers: Dataset) -> None:
    with pytest.raises(IntegrityError, match=r"ended with 1: .*not a dataset"):
        measure_fresh("/nowhere", work(flowers), seconds=1)
